//! The operator's cache rules: from `[[rule]]` blocks to `proxy::plan::Rule`.
//!
//! A block is one rule: conditions (host, path, method, status, content type) and what it says. Of single settings the table
//! below checks the value; what only makes sense together is looked at in [`settle`]:
//!   U1  a rule says something
//!   U2  what is decided before the origin is asked (keys, cookies and directives of the request) has no condition on the response
//!   U3  a rule about keys is for GET, whose answers are what is stored
//!   U4  `ttl-min` does not exceed `ttl-max`, in one rule
//!
//! Not known here: which of several rules counts (`proxy::rulebook`).

use proxy::plan::{KeyRule, Listener, Rule, Then, When};

use super::Found;
use super::problem::Problem;
use super::quotas;
use super::raw::{Block, Given};
use super::rows::{Row, apply, numbers, rows};
use super::shadowed;
use super::values::{self, is_path, is_token};
use crate::units::Time;

/// The values of a block.
#[derive(Default)]
pub struct RuleDraft {
    when: When,
    listeners: Vec<String>,
    then: Then,
    ignore_query: Option<Vec<String>>,
    key_fields: Option<Vec<String>>,
    key_cookies: Option<Vec<String>>,
}

/// Settings of a rule.
pub fn rows() -> Vec<Row<RuleDraft>> {
    let mut rows = rows![RuleDraft:
        /// Condition: listeners by which clients come, each by its `name`, its address, or its port.
        "rule.listener": "a list of listeners", "any" => listeners = words;
        /// Condition: hosts, as the client names them. `*.` means all names below one.
        "rule.host": "a list of `NAME` or `*.NAME`", "any" => when.hosts = hosts;
        /// Condition: paths, as the client sends them, without query. `/a` is `/a` and all below it; a path with `*` must fit as a
        /// whole, `*` is any number of any characters: `*.jpg`, `/api/*/list`.
        "rule.path": "a list of `/PATH`, or patterns with `*`", "any" => when.paths = paths;
        /// Condition: methods. `GET` is `HEAD`, too.
        "rule.method": "a list of methods", "any" => when.methods = methods;
        /// Condition: status codes of the response.
        "rule.status": "a list of `404`, `500-599`, `5xx`", "any" => when.statuses = statuses;
        /// Condition: media types of the response, without parameters.
        "rule.content-type": "a list of `TYPE/SUBTYPE` or `TYPE/*`", "any" => when.content_types = content_types;
        /// Query parameters that make no difference to what is stored: these names, all that begin so, or all. The origin is sent all of
        /// them, so it answers for whichever came first. A parameter with `;` in it makes a difference, unless all are ignored. Logs
        /// show the URL without them.
        "rule.ignore-query": "a list of names, `NAME*`, or `*`", "none" => ignore_query = ignore_query;
        /// Request fields that do make a difference, as if every response named them in Vary.
        "rule.key-fields": "a list of field names", "none" => key_fields = key_fields;
        /// Cookies that do make a difference. (This and the two above are one thing: the first rule that says any of them says all
        /// three.)
        "rule.key-cookies": "a list of cookie names", "none" => key_cookies = key_cookies;
        /// How much a client's Cache-Control and Pragma count; see the listener's.
        "rule.client-directives": "`obey`, `revalidate`, `ignore`", "the listener's" => then.client_directives = values::directives;
        /// The limits that count these requests, beside those of the listener, by the names of their blocks `[[limit]]`.
        "rule.limit": "a list of names", "none" => then.quotas = quotas::names;
    ];
    rows.extend(numbers("rule.", Then::SETTINGS, |rule: &mut RuleDraft| {
        &mut rule.then
    }));
    rows
}

/// Checks the blocks.
pub fn settle(blocks: &[Block], listeners: &[Listener], found: &mut Found) -> Vec<Rule> {
    if let Some(block) = blocks.get(Rule::RULES_MAX) {
        let most = Rule::RULES_MAX;
        let message = format!("at most {most} rules; lists of hosts and paths take fewer");
        found.problems.push(block.problem("rule", message));
        return Vec::new();
    }
    let rules: Vec<_> = blocks
        .iter()
        .map(|block| rule(block, listeners, &mut found.problems))
        .collect();
    let whens: Vec<_> = rules.iter().map(|rule| &rule.when).collect();
    found.notes.extend(shadowed::notes(blocks, &whens));
    rules
}

fn rule(block: &Block, listeners: &[Listener], problems: &mut Vec<Problem>) -> Rule {
    let mut draft = RuleDraft::default();
    let before = problems.len();
    apply(&rows(), &block.given, &mut draft, problems);
    for name in &draft.listeners {
        match listener(name, listeners) {
            Ok(number) => draft.when.listeners.push(number),
            Err(why) => problems.push(block.problem("rule.listener", why)),
        }
    }
    let is_about_keys =
        draft.ignore_query.is_some() || draft.key_fields.is_some() || draft.key_cookies.is_some();
    let key = is_about_keys.then(|| KeyRule {
        ignore_query: draft.ignore_query.unwrap_or_default(),
        fields: draft.key_fields.unwrap_or_default(),
        cookies: draft.key_cookies.unwrap_or_default(),
    });
    let rule = Rule {
        when: draft.when,
        then: Then { key, ..draft.then },
    };
    if problems.len() == before {
        check(&rule, block, problems);
    }
    rule
}

fn check(rule: &Rule, block: &Block, problems: &mut Vec<Problem>) {
    let mut complain = |key: &str, message: String| problems.push(block.problem(key, message));
    // U2
    if rule.when.asks_of_response() {
        for key in [
            "rule.ignore-query",
            "rule.key-fields",
            "rule.key-cookies",
            "rule.strip-cookies",
            "rule.client-directives",
            "rule.limit",
        ] {
            if block.says(key) {
                let message = "is decided before there is a response; take status and content-type out of this rule, or write two rules";
                complain(key, message.into());
            }
        }
    }
    // U3
    let methods = &rule.when.methods;
    if rule.then.key.is_some() && !methods.is_empty() && !methods.iter().any(|m| m == "GET") {
        let message =
            "is about what is stored, which is answers to GET; add \"GET\", or leave method out";
        complain("rule.method", message.into());
    }
    // U4
    if let (Some(min), Some(max)) = (rule.then.ttl_min, rule.then.ttl_max)
        && min > max
    {
        let message = format!("must not exceed ttl-max, {}", Time(max));
        complain("rule.ttl-min", message);
    }
    // U1
    if rule.then == Then::default() {
        let message =
            "this rule says nothing; add what is to be done, such as ttl = \"5m\" or bypass = true";
        complain("rule", message.into());
    }
}

/// The number of the listener with this name, address or port.
fn listener(name: &str, listeners: &[Listener]) -> Result<usize, String> {
    let fits = |listener: &Listener| {
        let address = listener.address;
        !listener.name.is_empty() && listener.name == name
            || address.to_string() == name
            || address.port() != 0 && address.port().to_string() == name
    };
    let found = listeners.iter().position(fits);
    found.ok_or_else(|| format!("there is no listener \"{name}\"; write its name, address or port"))
}

/// The values of a list, at least one.
fn words(given: &Given) -> Result<Vec<String>, String> {
    let words = values::list(given)?;
    if words.is_empty() || words.iter().any(String::is_empty) {
        return Err("expected at least one value, and none empty; or leave it out".to_owned());
    }
    if words.len() > Rule::VALUES_MAX {
        return Err(format!("at most {} values", Rule::VALUES_MAX));
    }
    let most = Rule::VALUE_BYTES_MAX;
    match words.iter().find(|word| word.len() > most) {
        Some(long) => {
            let start: String = long.chars().take(20).collect();
            Err(format!("\"{start}…\" is longer than {most} bytes"))
        }
        None => Ok(words),
    }
}

fn each<T>(
    given: &Given,
    expected: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, String> {
    let one = |word: &String| read(word).ok_or_else(|| format!("\"{word}\": expected {expected}"));
    words(given)?.iter().map(one).collect()
}

fn hosts(given: &Given) -> Result<Vec<String>, String> {
    let hosts = words(given)?;
    hosts
        .iter()
        .map(|word| values::host_pattern(word))
        .collect()
}

fn paths(given: &Given) -> Result<Vec<String>, String> {
    let form = "a path that begins with / or *, without ? or #";
    each(given, form, |word| {
        (word.starts_with(['/', '*']) && is_path(word)).then(|| word.to_owned())
    })
}

fn methods(given: &Given) -> Result<Vec<String>, String> {
    let form = "methods in capitals, such as \"GET\" or \"POST\"; GET means HEAD, too";
    each(given, form, |word| {
        let upper = !word.bytes().any(|b| b.is_ascii_lowercase());
        (is_token(word) && upper && word != "HEAD").then(|| word.to_owned())
    })
}

fn statuses(given: &Given) -> Result<Vec<(u16, u16)>, String> {
    let code = |text: &str| {
        let code = text.parse::<u16>().ok()?;
        (text.len() == 3 && (200..600).contains(&code)).then_some(code)
    };
    let form = "a status from 200 to 599, a range such as \"500-504\", or a class such as \"5xx\"";
    each(given, form, |word| {
        if let Some(class) = word.strip_suffix("xx") {
            let first = code(&format!("{class}00"))?;
            return Some((first, first + 99));
        }
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let range = (code(first)?, code(last)?);
        (range.0 <= range.1).then_some(range)
    })
}

fn content_types(given: &Given) -> Result<Vec<String>, String> {
    let form = "a media type such as \"text/html\" or \"image/*\"";
    each(given, form, |word| {
        let (kind, sub) = word.split_once('/')?;
        let name = |text: &str| is_token(text) && !text.contains('*');
        (name(kind) && (sub == "*" || name(sub))).then(|| word.to_ascii_lowercase())
    })
}

fn ignore_query(given: &Given) -> Result<Vec<String>, String> {
    let form = "the name of a query parameter, the beginning of one and a *, or \"*\" for all";
    each(given, form, |word| {
        let mut name = word.strip_suffix('*').unwrap_or(word).bytes();
        let good = name.all(|b| b.is_ascii_graphic() && !b"&=;#*".contains(&b));
        good.then(|| word.to_owned())
    })
}

fn key_fields(given: &Given) -> Result<Vec<String>, String> {
    let form = "the name of a request field (cookies are named in key-cookies)";
    each(given, form, |word| {
        let good = is_token(word) && !word.eq_ignore_ascii_case("cookie");
        good.then(|| word.to_ascii_lowercase())
    })
}

fn key_cookies(given: &Given) -> Result<Vec<String>, String> {
    each(given, "the name of a cookie", |word| {
        is_token(word).then(|| word.to_owned())
    })
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
