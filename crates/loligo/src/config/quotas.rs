//! `[[limit]]` blocks, to `proxy::plan::Quota`.
//!
//! The table below checks the values of single settings; [`settle`] checks settings together:
//!   Q1  each limit has a name of its own and a rate
//!   Q2  a rate has the unit of its limit; a limit of concurrent connections or requests has a number and no burst
//!   Q3  a limit applies where its action is possible: connections cannot be delayed or named in rules, and only misses can be answered
//!       with a stale copy
//!   Q4  a limit that a listener or rule names exists

use std::time::Duration;

use commands::units::{SIZE_FORM, Size, Time, parse_size, parse_time};
use proxy::plan::{Excess, Listener, Per, Quota, QuotaKeys, Rate, Rule, What};

use super::apply::apply;
use super::problem::{Found, did_you_mean};
use super::raw::{Block, Given, Value};
use super::rows::{Row, numbers, rows};
use super::values::{self, is_token};

/// The values of a block.
#[derive(Default)]
pub struct QuotaDraft {
    name: Option<String>,
    per: Option<Per>,
    what: Option<What>,
    rate: Option<Written>,
    burst: Option<Written>,
    then: Option<Excess>,
    keys: QuotaKeys,
}

/// A number or a size, and a time if one is given.
#[derive(Clone, Copy)]
struct Written {
    amount: u64,
    is_size: bool,
    period: Option<Duration>,
}

/// Settings of a limit.
pub fn rows() -> Vec<Row<QuotaDraft>> {
    let mut rows = rows![QuotaDraft:
        /// Its name: listeners and rules name it, and metrics and answers show it.
        "limit.name": "a word", "required" => name = name;
        /// Whom it counts apart: each client's address, each host that is asked for, each listener, each `tag` that rules give. What has
        /// no tag counts together.
        "limit.per": "`client`, `host`, `listener`, `tag`", "client" => per = |given| values::word(given, &[
            ("client", Per::Client), ("host", Per::Host), ("listener", Per::Listener), ("tag", Per::Tag),
        ]);
        /// What it counts. `misses`: requests that are sent on to an origin, so that hits are free: fetches, revalidations, parts, what is
        /// passed through, tunnels; whoever shares the fetch of another pays nothing. `miss-bytes`: bytes that come from origins.
        /// `requests`, `bytes`: all requests, and bytes that go to clients. `fetches-at-once`: requests to origins under way.
        /// `connections`: open connections of clients. Bytes are known only afterwards: a request is let through while less than `burst`
        /// is owed.
        "limit.what": "`requests`, `misses`, `miss-bytes`, `bytes`, `fetches-at-once`, `connections`", "misses"
            => what = |given| values::word(given, &What::ALL);
        /// How much of it in a time: `100/s`, `600/10m`, `10MB/s`. Of what is counted at once a number. 0: none at all.
        "limit.rate": "`NUMBER/TIME`, `SIZE/TIME`, a number", "required" => rate = rate;
        /// How much may come at once after a while without any.
        "limit.burst": "a number or size", "what the rate permits in its time" => burst = amount;
        /// What becomes of a request beyond it. `429`: that answer, with Retry-After and RateLimit. `delay=TIME`: it waits for its turn for so
        /// long at most (1024 requests at a time), then 429. `stale`: the answer that is stored and out of date, where it could be
        /// served if the origin did not answer, else 429. Connections are closed.
        "limit.then": "`429`, `delay=TIME`, `stale`", "429" => then = then;
    ];
    rows.extend(numbers(
        "limit.",
        QuotaKeys::SETTINGS,
        |quota: &mut QuotaDraft| &mut quota.keys,
    ));
    rows
}

/// Checks the blocks, and the names of limits in the listeners.
pub fn settle(
    own_blocks: &[Block],
    of_listeners: (&[Block], &[Listener]),
    of_rules: (&[Block], &[Rule]),
    found: &mut Found,
) -> Vec<Quota> {
    let problems = &mut found.problems;
    if let Some(block) = own_blocks.get(Quota::QUOTAS_MAX) {
        let message = format!("at most {} limits", Quota::QUOTAS_MAX);
        problems.push(block.problem("limit", message));
    }
    let mut quotas: Vec<Quota> = Vec::new();
    let mut names = Vec::new();
    for block in own_blocks {
        let mut draft = QuotaDraft::default();
        let before = problems.len();
        apply(&rows(), &block.given, &mut draft, problems);
        names.extend(draft.name.clone());
        if problems.len() > before {
            continue;
        }
        match quota(draft) {
            Ok(quota) if quotas.iter().any(|other| other.name == quota.name) => {
                let message = "there is a limit of this name already";
                problems.push(block.problem("limit.name", message));
            }
            Ok(quota) => quotas.push(quota),
            Err((key, message)) => problems.push(block.problem(key, message)),
        }
    }
    let (blocks, listeners) = of_listeners;
    for (block, listener) in blocks.iter().zip(listeners) {
        // Q4
        for name in listener.quotas.iter().filter(|name| !names.contains(name)) {
            problems.push(block.problem("listener.limits", unknown(name, &names)));
        }
    }
    let (blocks, rules) = of_rules;
    for (block, rule) in blocks.iter().zip(rules) {
        for name in &rule.then.quotas {
            let message = match quotas.iter().find(|quota| quota.name == *name) {
                // Q3
                Some(quota) if quota.what == What::Connections => {
                    "a connection is counted before it has a request; write it into the listener"
                        .to_owned()
                }
                None if !names.contains(name) => unknown(name, &names),
                _ => continue,
            };
            problems.push(block.problem("rule.limit", message));
        }
    }
    for quota in &quotas {
        let name = &quota.name;
        let is_named = (listeners.iter()).any(|listener| listener.quotas.contains(name))
            || rules.iter().any(|rule| rule.then.quotas.contains(name));
        let is_it = |block: &&Block| {
            let given = block.find("limit.name");
            given.is_some_and(|given| values::text(given).is_ok_and(|it| it == name))
        };
        if let (false, Some(block)) = (is_named, own_blocks.iter().find(is_it)) {
            let message = format!(
                "counts nothing: no listener and no rule names it; write limits = [\"{name}\"] into a listener"
            );
            let note = block.problem("limit.name", message);
            found.notes.push(note.to_string());
        }
    }
    quotas
}

/// The message for a limit that does not exist.
pub fn unknown(name: &str, names: &[String]) -> String {
    match did_you_mean(name, names.iter().map(String::as_str)) {
        Some(meant) => format!("there is no limit \"{name}\"; did you mean \"{meant}\"?"),
        None => {
            format!("there is no limit \"{name}\"; write a block [[limit]] with name = \"{name}\"")
        }
    }
}

fn quota(draft: QuotaDraft) -> Result<Quota, (&'static str, String)> {
    let wrong = |key, message: &str| Err((key, message.to_owned()));
    // Q1
    let Some(name) = draft.name else {
        return wrong(
            "limit.name",
            "every limit needs a name, such as name = \"downloads\"",
        );
    };
    let (per, what) = (
        draft.per.unwrap_or(Per::Client),
        draft.what.unwrap_or(What::Misses),
    );
    let Some(written) = draft.rate else {
        return wrong(
            "limit.rate",
            "every limit needs a rate, such as rate = \"100/s\"",
        );
    };
    let (rate, burst) = rate_and_burst(written, draft.burst, what)?;
    // Q3
    let then = draft.then.unwrap_or(Excess::Refuse);
    match then {
        Excess::Delay(_) | Excess::Stale if what == What::Connections => {
            return wrong(
                "limit.then",
                "a connection beyond the limit is closed; leave this out",
            );
        }
        Excess::Stale if !what.is_of_misses() => {
            return wrong(
                "limit.then",
                "something stale takes the place of an origin's answer: this is for misses, miss-bytes and fetches-at-once",
            );
        }
        _ => {}
    }
    if what == What::Connections && matches!(per, Per::Host | Per::Tag) {
        return wrong(
            "limit.per",
            "a connection has many requests, each with a host and a tag of its own; count them per client or listener",
        );
    }
    Ok(Quota {
        name,
        per,
        what,
        rate,
        burst,
        then,
        keys: draft.keys,
    })
}

/// Q2
fn rate_and_burst(
    written: Written,
    burst: Option<Written>,
    what: What,
) -> Result<(Rate, u64), (&'static str, String)> {
    let wrong = |key, message: &str| Err((key, message.to_owned()));
    if written.is_size && !what.is_bytes() {
        let message = format!(
            "{} are counted, not bytes: write a number without a unit",
            what.name()
        );
        return Err(("limit.rate", message));
    }
    let rate = match (what.is_at_once(), written.period) {
        (true, Some(_)) => {
            return wrong(
                "limit.rate",
                "is a number of what may be there at once: leave the time out",
            );
        }
        (false, None) => {
            return wrong(
                "limit.rate",
                "lacks the time, such as \"100/s\" or \"10MB/s\"",
            );
        }
        (_, period) => Rate {
            amount: written.amount,
            period: period.unwrap_or(Duration::from_secs(1)),
        },
    };
    let burst = match burst {
        Some(_) if what.is_at_once() => {
            return wrong(
                "limit.burst",
                "is for rates; what is counted at once has none",
            );
        }
        Some(burst) if burst.is_size && !what.is_bytes() => {
            return wrong("limit.burst", "is a number here: bytes are not counted");
        }
        Some(burst) if burst.amount == 0 => {
            return wrong(
                "limit.burst",
                "must be at least 1, or nothing would ever pass; for that write rate = \"0/s\"",
            );
        }
        Some(burst) => burst.amount,
        None => written.amount.max(1),
    };
    Ok((rate, burst))
}

/// A line about a limit, for people.
pub fn explain(quota: &Quota) -> String {
    let amount = |amount| match quota.what.is_bytes() {
        true => Size(amount).to_string(),
        false => amount.to_string(),
    };
    let per = match quota.per {
        Per::Client => "client",
        Per::Host => "host",
        Per::Listener => "listener",
        Per::Tag => "tag",
    };
    let rate = match quota.what.is_at_once() {
        true => amount(quota.rate.amount),
        false => format!(
            "{} in {}, {} at once",
            amount(quota.rate.amount),
            Time(quota.rate.period),
            amount(quota.burst)
        ),
    };
    let then = match quota.then {
        Excess::Refuse if quota.what == What::Connections => "further ones are closed".to_owned(),
        Excess::Refuse => "then 429".to_owned(),
        Excess::Delay(most) => format!("then a delay of up to {}", Time(most)),
        Excess::Stale => "then what is stale, or 429".to_owned(),
    };
    format!(
        "{}: {} per {per}: {rate}; {then}",
        quota.name,
        quota.what.name()
    )
}

/// The names of limits in a listener or rule.
pub fn names(given: &Given) -> Result<Vec<String>, String> {
    values::list(given)
}

fn name(given: &Given) -> Result<String, String> {
    let text = values::text(given)?;
    let good = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    match is_token(text) && text.len() <= 64 && text.bytes().all(good) {
        true => Ok(text.to_owned()),
        false => Err("expected a word of letters, digits, - _ and ., at most 64".to_owned()),
    }
}

fn rate(given: &Given) -> Result<Written, String> {
    let form = "expected a rate such as \"100/s\", \"600/10m\" or \"10MB/s\", or a number";
    let Value::Text(text) = &given.value else {
        return amount(given).map_err(|_| form.to_owned());
    };
    let Some((front, period)) = text.split_once('/') else {
        return of_text(text).ok_or_else(|| form.to_owned());
    };
    let written = of_text(front).ok_or_else(|| form.to_owned())?;
    let period = period.trim();
    let period = match period.starts_with(|c: char| c.is_ascii_digit()) {
        true => parse_time(period),
        false => parse_time(&format!("1{period}")),
    };
    let [min, max] = Quota::PERIOD;
    match period {
        None => Err(form.to_owned()),
        Some(period) if period < min || period > max => Err(format!(
            "its time must be from {} to {}",
            Time(min),
            Time(max)
        )),
        period => Ok(Written { period, ..written }),
    }
}

fn amount(given: &Given) -> Result<Written, String> {
    let written = match &given.value {
        Value::Text(text) => of_text(text),
        Value::Number(n) => of_text(&n.to_string()),
        _ => None,
    };
    written.ok_or_else(|| format!("expected a number, or {SIZE_FORM}"))
}

fn of_text(text: &str) -> Option<Written> {
    let text = text.trim();
    let amount = parse_size(text).filter(|&amount| amount <= Quota::AMOUNT_MAX)?;
    Some(Written {
        amount,
        is_size: text.bytes().any(|b| b.is_ascii_alphabetic()),
        period: None,
    })
}

fn then(given: &Given) -> Result<Excess, String> {
    let form = || {
        format!(
            "expected 429, stale, or a delay such as delay=2s, at most {}",
            Time(Quota::DELAY_MAX)
        )
    };
    match &given.value {
        Value::Number(429) => Ok(Excess::Refuse),
        Value::Text(text) => match (text.as_str(), text.strip_prefix("delay=")) {
            ("429", _) => Ok(Excess::Refuse),
            ("stale", _) => Ok(Excess::Stale),
            (_, Some(time)) => parse_time(time)
                .filter(|time| !time.is_zero() && *time <= Quota::DELAY_MAX)
                .map(Excess::Delay)
                .ok_or_else(form),
            _ => Err(form()),
        },
        _ => Err(form()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::testing::settle;

    fn one(text: &str) -> Quota {
        let plan = settle(&format!("[[limit]]\nname = \"a\"\n{text}"))
            .unwrap()
            .plan;
        plan.quotas[0].clone()
    }

    #[test]
    fn a_limit_is_read_as_it_is_written() {
        let quota = one("rate = \"100/s\"");
        assert_eq!((quota.per, quota.what), (Per::Client, What::Misses));
        let second = Duration::from_secs(1);
        assert_eq!(
            quota.rate,
            Rate {
                amount: 100,
                period: second
            }
        );
        assert_eq!((quota.burst, quota.then), (100, Excess::Refuse));
        let quota =
            one("what = \"miss-bytes\"\nrate = \"10MB/s\"\nburst = \"1GiB\"\nthen = \"delay=2s\"");
        assert_eq!(quota.rate.amount, 10_000_000);
        assert_eq!(
            (quota.burst, quota.then),
            (1 << 30, Excess::Delay(2 * second))
        );
        let quota = one(
            "what = \"fetches-at-once\"\nper = \"host\"\nrate = 8\nthen = \"stale\"\nkeys-max = 2000",
        );
        assert_eq!((quota.rate.amount, quota.keys.keys_max), (8, 2000));
        assert_eq!(one("rate = \"600/10m\"").rate.period, 600 * second);
        assert_eq!(one("rate = \"0/s\"\nthen = 429").rate.amount, 0);
    }
}
