//! The operator's rules: from `[[rule]]` blocks to `proxy::plan::Rule`.
//!
//! A block is one rule: conditions (`conditions`) and actions (`verdicts`; those of the cache are here). The table below checks the values of
//! single settings; [`settle`] checks settings together:
//!   U1  a rule has an action
//!   U2  an action before the origin is asked (keys, cookies and directives of the request) has no condition on the response
//!   U3  a rule about keys is for GET, because only answers to GET are stored
//!   U4  `ttl-min` does not exceed `ttl-max`, in one rule
//!   U5  a rule decides one thing: it allows, denies, answers or redirects
//!   U6  a rule changes a field in one way, or sets it and adds to it
//!
//! Not known here: which of several matching rules applies (`proxy::rulebook`).

use std::time::Duration;

use commands::units::Time;
use proxy::plan::{Canned, Edit, How, KeyRule, Listener, Rule, Text, Then, Verdict, When};

use super::apply::apply;
use super::conditions::{self, each_of_few};
use super::machine::Machine;
use super::problem::{Found, Problem};
use super::quotas;
use super::raw::{Block, Given, Value};
use super::rows::{Row, numbers, rows};
use super::shadowed;
use super::values::{self, is_token};
use super::verdicts;

/// The values of a block.
#[derive(Default)]
pub struct RuleDraft {
    when: When,
    listeners: Vec<String>,
    then: Then,
    ignore_query: Option<Vec<String>>,
    key_fields: Option<Vec<String>>,
    key_cookies: Option<Vec<String>>,
    name: Option<String>,
    allow: Option<bool>,
    deny: Option<Option<String>>,
    answer: Option<Canned>,
    redirect: Option<Text>,
    redirect_status: Option<u16>,
    request_set: Vec<Edit>,
    request_add: Vec<Edit>,
    request_remove: Vec<Edit>,
    response_set: Vec<Edit>,
    response_add: Vec<Edit>,
    response_remove: Vec<Edit>,
}

/// Settings that are tables, whose entries would otherwise be settings of their own.
const TABLES: [&str; 6] = [
    "rule.header",
    "rule.answer",
    "rule.request-set",
    "rule.request-add",
    "rule.response-set",
    "rule.response-add",
];

/// Settings of a rule.
pub fn rows() -> Vec<Row<RuleDraft>> {
    let mut rows = rows![RuleDraft:
        /// A name for people: metrics count what the rule decides under it, `loligo explain` says it.
        "rule.name": "text", "its number" => name = verdicts::name;
        /// Condition: networks of clients.
        "rule.client": "networks", "any" => when.clients = conditions::clients;
        /// Condition: listeners by which clients come, each by its `name`, its address, or its port.
        "rule.listener": "a list of listeners", "any" => listeners = conditions::words;
        /// Condition: hours of the week, in this machine's time zone (`TZ`, else `/etc/localtime`; `loligo check` says which), or in UTC if
        /// that stands behind them. A zone that is not known is refused. Hours past midnight belong to the day on which they begin.
        "rule.time": "a list of `Mo-Fr 08:00-18:00`, `Sa`, `22:00-06:00 UTC`", "any" => when.hours = conditions::hours;
        /// Condition: the scheme of the URL. On a reverse listener it is the listener's own: `https` with `tls`, else `http`. CONNECT has none.
        "rule.scheme": "`http`, `https`", "any" => when.scheme = conditions::scheme;
        /// Condition: hosts, as the client names them. `*.` means all names below one, `[*]` every address instead of a name.
        "rule.host": "a list of `NAME`, `*.NAME`, addresses, `[*]`", "any" => when.hosts = conditions::hosts;
        /// Condition: the host is in one of these files. A line is a host, `.NAME` with all names below it, or `*.NAME` for those alone;
        /// `#` begins a comment. A changed file is read again by itself; if it is wrong, what was read before goes on to hold.
        "rule.host-list": "a list of files", "any" => when.host_lists = conditions::host_lists;
        /// Condition: ports of the URL, or of CONNECT; 80 and 443 where none is written.
        "rule.port": "a list of ports and ranges", "any" => when.ports = conditions::ports;
        /// Condition: paths, as the client sends them, without query. `/a` is `/a` and all below it; a path with `*` must fit as a
        /// whole, `*` is any number of any characters: `*.jpg`, `/api/*/list`. Escapes make no difference; what is refused is refused in each
        /// way a server may read the path (`//`, `..`, `%2F`), and more is stored or shared (`ttl`, `strip-cookies`, `ignore-query`) only where each
        /// of these ways fits.
        "rule.path": "a list of `/PATH`, or patterns with `*`", "any" => when.paths = conditions::paths;
        /// Condition: parameters of the query, by name, or by name and value: `debug`, `format=json*`.
        "rule.query": "a list of names, or patterns with `=` or `*`", "any" => when.queries = conditions::queries;
        /// Condition: fields of the request, all of them: a pattern for the value, a list of patterns, `true` for any value, `false` if the
        /// field must not be there.
        "rule.header": "a table such as `{ User-Agent = \"*curl*\" }`", "any" => when.fields = conditions::fields;
        /// Condition: methods. `GET` is `HEAD`, too.
        "rule.method": "a list of methods", "any" => when.methods = conditions::methods;
        /// Condition: status codes of the response.
        "rule.status": "a list of `404`, `500-599`, `5xx`", "any" => when.statuses = conditions::statuses;
        /// Condition: media types of the response, without parameters.
        "rule.content-type": "a list of `TYPE/SUBTYPE` or `TYPE/*`", "any" => when.content_types = conditions::content_types;
    ];
    rows.extend(verdict_rows());
    rows.extend(numbers("rule.", Then::SETTINGS, |rule: &mut RuleDraft| {
        &mut rule.then
    }));
    rows
}

/// The actions of a rule.
fn verdict_rows() -> Vec<Row<RuleDraft>> {
    rows![RuleDraft:
        /// Serve the request, whatever later rules deny. (The first rule that says `allow`, `deny`, `answer` or `redirect` counts. What a
        /// listener's `allow`, `connect-ports` and `destinations` refuse stays refused.)
        "rule.allow": "`true`", "served" => allow = verdicts::allow;
        /// Refuse the request with 403, before the cache is looked at and any name resolved. A sentence is shown to the client.
        "rule.deny": "`true`, or a sentence", "served" => deny = verdicts::deny;
        /// Answer the request so, without the cache or an origin.
        "rule.answer": "a table of `status`, `body` or `file`, `content-type`", "served" => answer = verdicts::answer;
        /// Send the client to this URL. Variables: `${scheme}`, `${host}`, `${port}`, `${path}`, `${query}` (with its `?`), `${client}`,
        /// `${listener}`, `${method}`, `${id}`.
        "rule.redirect": "a URL with variables", "served" => redirect = verdicts::redirect;
        /// The status of `redirect`.
        "rule.redirect-status": "`301`, `302`, `303`, `307`, `308`", "302" => redirect_status = verdicts::redirect_status;
        /// What the request is called in the access log and in metrics.
        "rule.tag": "text", "none" => then.tag = verdicts::name;
        /// Fields of the request as the origin gets it: these values replace the client's. Variables as in `redirect`. Vary and `key-fields`
        /// go by the changed request. Of each field the first rule that speaks of it counts.
        "rule.request-set": "a table of names and values", "none" => request_set = verdicts::request_set;
        /// Fields that are added to the request.
        "rule.request-add": "a table of names and values", "none" => request_add = verdicts::request_add;
        /// Fields that the origin does not get.
        "rule.request-remove": "a list of names", "none" => request_remove = verdicts::request_remove;
        /// Fields of the answer as the client gets it, from the cache, the origin, or this proxy itself. Further variables: `${cache-status}`,
        /// `${status}`. What is stored stays as it came, so a changed rule holds at once.
        "rule.response-set": "a table of names and values", "none" => response_set = verdicts::response_set;
        /// Fields that are added to the answer.
        "rule.response-add": "a table of names and values", "none" => response_add = verdicts::response_add;
        /// Fields that the client does not get.
        "rule.response-remove": "a list of names", "none" => response_remove = verdicts::response_remove;
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
    ]
}

/// Checks the blocks.
pub fn settle(blocks: &[Block], listeners: &[Listener], found: &mut Found) -> Vec<Rule> {
    if let Some(block) = blocks.get(Rule::RULES_MAX) {
        let most = Rule::RULES_MAX;
        let message = format!("at most {most} rules; lists of hosts and paths take fewer");
        found.problems.push(block.problem("rule", message));
        return Vec::new();
    }
    let rows = rows();
    let rules: Vec<_> = blocks
        .iter()
        .map(|block| rule(block, &rows, listeners, &mut found.problems))
        .collect();
    let whens: Vec<_> = rules.iter().map(|rule| &rule.when).collect();
    let shadowed = shadowed::notes(blocks, &whens);
    let pairs = blocks.iter().zip(&rules).enumerate();
    let of_endings = pairs.filter_map(|(at, (block, rule))| note_of_ending(at, block, rule));
    for notes in [shadowed, of_endings.collect()] {
        found.notes.extend(few(notes));
    }
    rules
}

/// The most notes of one kind that are printed: notes on ten thousand rules without effect would hide the others.
const NOTES_MAX: usize = 5;

/// The first of these notes, and the number of the others.
fn few(mut notes: Vec<String>) -> Vec<String> {
    let more = notes.len().saturating_sub(NOTES_MAX);
    notes.truncate(NOTES_MAX);
    if more > 0 {
        notes.push(format!("… and the same of {more} more rules"));
    }
    notes
}

/// The name of the time zone for hours in rules; `None` if all are in UTC.
pub fn time_zone(
    blocks: &[Block],
    rules: &[Rule],
    machine: &Machine,
    problems: &mut Vec<Problem>,
) -> Option<String> {
    let has_local_hours = |rule: &Rule| rule.when.hours.iter().any(|hours| !hours.is_utc);
    let number = rules.iter().position(has_local_hours)?;
    match (machine.time_zone)() {
        Ok(name) => Some(name),
        Err(why) => {
            let message = format!("{why}; or write UTC behind the hours");
            problems.push(blocks[number].problem("rule.time", message));
            None
        }
    }
}

/// A note on a rule that sets a lifetime by an ending of the path, whatever the answer is. Rules of presets are for files that their indexes name.
fn note_of_ending(at: usize, block: &Block, rule: &Rule) -> Option<String> {
    let Rule { when, then, .. } = rule;
    let is_ending = |path: &&String| path.starts_with('*') && !path.ends_with('*');
    let ending = when.paths.iter().find(is_ending)?;
    let is_time = |time: &Option<Duration>| time.is_some_and(|time| !time.is_zero());
    let lasts = [then.ttl, then.ttl_min, then.default_ttl]
        .iter()
        .any(is_time);
    let is_of_preset = block.given.iter().all(|given| given.place == block.place);
    if !lasts || !when.content_types.is_empty() || is_of_preset {
        return None;
    }
    let message = format!(
        "a lifetime by the ending of a path alone: an application that answers /account{} with the account has it stored for all; say the content-type as well",
        ending.replace('*', "/x")
    );
    let key = format!("rule {}", at + 1);
    Some(block.problem(&key, message).to_string())
}

/// The settings of a block, with the entries of each table collected into one setting.
fn with_tables(block: &Block) -> Vec<Given> {
    let mut all: Vec<Given> = Vec::new();
    for given in &block.given {
        let part = TABLES.iter().find_map(|table| {
            let rest = given.key.strip_prefix(table)?;
            Some((*table, rest.strip_prefix('.')?))
        });
        let Some((table, name)) = part else {
            all.push(given.clone());
            continue;
        };
        let entry = (name.to_owned(), given.value.clone());
        let known = all.iter_mut().find(|known| known.key == table);
        match known.map(|known| &mut known.value) {
            Some(Value::Table(entries)) => entries.push(entry),
            _ => all.push(Given {
                key: table.to_owned(),
                value: Value::Table(vec![entry]),
                place: given.place.clone(),
            }),
        }
    }
    all
}

fn rule(
    block: &Block,
    rows: &[Row<RuleDraft>],
    listeners: &[Listener],
    problems: &mut Vec<Problem>,
) -> Rule {
    let mut draft = RuleDraft::default();
    let before = problems.len();
    let block = &Block {
        place: block.place.clone(),
        given: with_tables(block),
        routes: Vec::new(),
        certificates: Vec::new(),
    };
    apply(rows, &block.given, &mut draft, problems);
    for name in &draft.listeners {
        match conditions::listener(name, listeners) {
            Ok(number) => draft.when.listeners.push(number),
            Err(why) => problems.push(block.problem("rule.listener", why)),
        }
    }
    // U5
    let says = ["allow", "deny", "answer", "redirect"].map(|what| format!("rule.{what}"));
    let said: Vec<_> = says.iter().filter(|key| block.says(key)).collect();
    if let [_, second, ..] = said[..] {
        let message = "a rule decides one thing: allow, deny, answer or redirect; write two rules";
        problems.push(block.problem(second, message));
    }
    if draft.redirect_status.is_some() && draft.redirect.is_none() {
        let message = "is the status of redirect; say where to";
        problems.push(block.problem("rule.redirect-status", message));
    }
    let redirect = draft.redirect.map(|to| Verdict::Redirect {
        to,
        status: draft.redirect_status.unwrap_or(302),
    });
    let verdict = (draft.allow.map(|_| Verdict::Allow))
        .or(draft.deny.map(|words| Verdict::Deny { words }))
        .or(draft.answer.map(Verdict::Answer))
        .or(redirect);
    let request_edits = [draft.request_remove, draft.request_set, draft.request_add].concat();
    let response_edits = [
        draft.response_remove,
        draft.response_set,
        draft.response_add,
    ]
    .concat();
    let is_about_keys =
        draft.ignore_query.is_some() || draft.key_fields.is_some() || draft.key_cookies.is_some();
    let key = is_about_keys.then(|| KeyRule {
        ignore_query: draft.ignore_query.unwrap_or_default(),
        fields: draft.key_fields.unwrap_or_default(),
        cookies: draft.key_cookies.unwrap_or_default(),
    });
    let rule = Rule {
        name: draft.name,
        when: draft.when,
        then: Then {
            key,
            verdict,
            request_edits,
            response_edits,
            ..draft.then
        },
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
            "rule.allow",
            "rule.deny",
            "rule.answer",
            "rule.redirect",
            "rule.tag",
            "rule.request-set",
            "rule.request-add",
            "rule.request-remove",
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
    // U6
    for edits in [&rule.then.request_edits, &rule.then.response_edits] {
        if edits.len() > Edit::EDITS_MAX {
            let message = format!("changes at most {} fields of each side", Edit::EDITS_MAX);
            complain("rule", message);
        }
        for (at, edit) in edits.iter().enumerate() {
            let is_same = |other: &&Edit| other.name.eq_ignore_ascii_case(&edit.name);
            let earlier = edits[..at].iter().find(is_same);
            let is_sum =
                |first: &Edit| matches!((&first.how, &edit.how), (How::Set(_), How::Add(_)));
            if earlier.is_some_and(|first| !is_sum(first)) {
                let message = format!("{} is changed twice by this rule", edit.name);
                complain("rule", message);
            }
        }
    }
    // U1
    if rule.then == Then::default() {
        let message = "this rule says nothing; add what is to be done, such as ttl = \"5m\", bypass = true or deny = true";
        complain("rule", message.into());
    }
}

fn ignore_query(given: &Given) -> Result<Vec<String>, String> {
    let form = "the name of a query parameter, the beginning of one and a *, or \"*\" for all";
    each_of_few(given, form, |word| {
        let mut name = word.strip_suffix('*').unwrap_or(word).bytes();
        let good = name.all(|b| b.is_ascii_graphic() && !b"&=;#*".contains(&b));
        good.then(|| word.to_owned())
    })
}

fn key_fields(given: &Given) -> Result<Vec<String>, String> {
    let form = "the name of a request field (cookies are named in key-cookies)";
    each_of_few(given, form, |word| {
        let good = is_token(word) && !word.eq_ignore_ascii_case("cookie");
        good.then(|| word.to_ascii_lowercase())
    })
}

fn key_cookies(given: &Given) -> Result<Vec<String>, String> {
    each_of_few(given, "the name of a cookie", |word| {
        is_token(word).then(|| word.to_owned())
    })
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
