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

use std::fmt::Write as _;
use std::time::Duration;

use proxy::plan::{ClientDirectives, KeyRule, Rule, Then, When};

use crate::config::into_plan::{find, missing};
use crate::config::own::{self, host_pattern, is_path, is_token};
use crate::config::problem::Problem;
use crate::config::raw::{Given, RawRule};
use crate::config::settings::{self, Kind, Setting};
use crate::config::shadowed;
use crate::config::table::setting;
use crate::units::{Size, Time};

type Done = Result<(), Problem>;

/// Settings of a rule.
pub const RULE: &[Setting<Rule>] = &[
    own(
        "host",
        "a list of `NAME` or `*.NAME`",
        "any",
        hosts,
        "Condition: hosts, as the client names them. `*.` means all names below one.",
    ),
    own(
        "path",
        "a list of `/PATH`, or patterns with `*`",
        "any",
        paths,
        "Condition: paths, as the client sends them, without query. `/a` is `/a` and all below it; a path with `*` must fit as a whole, `*` is any number of any characters: `*.jpg`, `/api/*/list`.",
    ),
    own(
        "method",
        "a list of methods",
        "any",
        methods,
        "Condition: methods. `GET` is `HEAD`, too.",
    ),
    own(
        "status",
        "a list of `404`, `500-599`, `5xx`",
        "any",
        statuses,
        "Condition: status codes of the response.",
    ),
    own(
        "content-type",
        "a list of `TYPE/SUBTYPE` or `TYPE/*`",
        "any",
        content_types,
        "Condition: media types of the response, without parameters.",
    ),
    switch(
        "bypass",
        |rule, on| rule.then.bypass = Some(on),
        "Ask the origin each time, and store nothing. With a condition on the response: store nothing. `false` exempts from a later rule.",
    ),
    own(
        "ignore-query",
        "a list of names, `NAME*`, or `*`",
        "none",
        ignore_query,
        "Query parameters that make no difference to what is stored: these names, all that begin so, or all. The origin is sent all of them, so it answers for whichever came first. A parameter with `;` in it makes a difference, unless all are ignored. Logs show the URL without them.",
    ),
    own(
        "key-fields",
        "a list of field names",
        "none",
        key_fields,
        "Request fields that do make a difference, as if every response named them in Vary.",
    ),
    own(
        "key-cookies",
        "a list of cookie names",
        "none",
        key_cookies,
        "Cookies that do make a difference. (This and the two above are one thing: the first rule that says any of them says all three.)",
    ),
    switch(
        "strip-cookies",
        |rule, on| rule.then.strip_cookies = Some(on),
        "Take `Cookie` away from the request, once `key-cookies` has been looked at: the origin does not see it.",
    ),
    switch(
        "strip-set-cookie",
        |rule, on| rule.then.strip_set_cookie = Some(on),
        "Take `Set-Cookie` away from answers to GET that could be stored, so that they are not refused for it. Only where such answers are the same for everybody.",
    ),
    own(
        "ttl",
        "a time, 0s to 365d",
        "what the origin says",
        ttl,
        "How long a response is fresh, whatever the origin says of that: 200, 203, 206, 300, 301, 308 and 410, or the statuses that `status` names, whichever they are. What forbids storing or reuse (no-store, private, no-cache, Authorization, Set-Cookie, `Vary: *`) forbids it all the same.",
    ),
    own(
        "ttl-min",
        "a time, 0s to 365d",
        "0s",
        ttl_min,
        "No response of these statuses that may be stored is fresh for less, counted from its birth (`Date`, `Age`).",
    ),
    own(
        "ttl-max",
        "a time, 0s to 365d",
        "`cache.ttl-max`",
        ttl_max,
        "No response is fresh for longer, nor may it be served stale for longer.",
    ),
    own(
        "default-ttl",
        "a time, 0s to 365d",
        "`cache.default-ttl`",
        default_ttl,
        "How long a response is fresh that states no lifetime and has no Last-Modified to guess from, if it is no error.",
    ),
    own(
        "negative-ttl",
        "a time, 0s to 365d",
        "`cache.negative-ttl`",
        negative_ttl,
        "How long 404, 405, 410, 414 and 501 are fresh when the origin does not say. For other errors: `ttl` with `status`.",
    ),
    own(
        "stale-while-revalidate",
        "a time, 0s to 365d",
        "`cache.stale-while-revalidate`",
        stale_while_revalidate,
        "For so long after its lifetime a response is served while it is revalidated, if the origin says nothing of that and does not forbid it (must-revalidate, proxy-revalidate, s-maxage, no-cache), and it is no error.",
    ),
    own(
        "stale-if-error",
        "a time, 0s to 365d",
        "`cache.stale-if-error`",
        stale_if_error,
        "The same if the origin fails.",
    ),
    own(
        "client-directives",
        "`obey`, `revalidate`, `ignore`",
        "the listener's",
        client_directives,
        "How much a client's Cache-Control and Pragma count; see the listener's.",
    ),
    own(
        "object-max",
        "a size, 0 to 1024GiB",
        "`limits.object-max`",
        object_max,
        "Nothing longer is stored.",
    ),
];

const fn own(
    key: &'static str,
    form: &'static str,
    default: &'static str,
    set: fn(&mut Rule, &Given) -> Done,
    doc: &'static str,
) -> Setting<Rule> {
    setting(key, Kind::Own { form, default, set }, doc)
}

const fn switch(key: &'static str, set: fn(&mut Rule, bool), doc: &'static str) -> Setting<Rule> {
    setting(key, Kind::Switch(false, set), doc)
}

/// Checks the blocks.
pub fn settle(blocks: &[RawRule], problems: &mut Vec<Problem>) -> Vec<Rule> {
    let mut rules = Vec::new();
    for block in blocks {
        let mut rule = Rule::default();
        let before = problems.len();
        settings::apply(RULE, "rule.", &block.given, &mut rule, problems);
        if problems.len() == before {
            check(&rule, block, problems);
        }
        rules.push(rule);
    }
    if let Some(block) = blocks.get(Rule::RULES_MAX) {
        let message = format!(
            "at most {} rules; lists of hosts and paths take fewer",
            Rule::RULES_MAX
        );
        problems.push(missing(block.place.clone(), "rule", message));
        rules.truncate(Rule::RULES_MAX);
    }
    rules
}

/// What may surprise.
pub fn notes(blocks: &[RawRule], rules: &[Rule]) -> Vec<String> {
    let whens: Vec<_> = rules.iter().map(|rule| &rule.when).collect();
    shadowed::notes(blocks, &whens)
}

fn check(rule: &Rule, block: &RawRule, problems: &mut Vec<Problem>) {
    let mut complain = |key: &str, message: String| {
        let mut problem = find(&block.given, key, "rule.");
        problem.message = message;
        problems.push(problem);
    };
    let said = |key: &str| block.given.iter().any(|given| given.key == key);
    // U2
    if rule.when.asks_of_response() {
        for key in [
            "ignore-query",
            "key-fields",
            "key-cookies",
            "strip-cookies",
            "client-directives",
        ] {
            if said(key) {
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
        complain("method", message.into());
    }
    // U4
    if let (Some(min), Some(max)) = (rule.then.ttl_min, rule.then.ttl_max)
        && min > max
    {
        let message = format!("must not exceed ttl-max, {}", Time(max));
        complain("ttl-min", message);
    }
    // U1
    if rule.then == Then::default() {
        let message =
            "this rule says nothing; add what is to be done, such as ttl = \"5m\" or bypass = true";
        problems.push(missing(block.place.clone(), "rule", message.into()));
    }
}

/// The values of a list, at least one.
fn words(given: &Given) -> Result<Vec<String>, Problem> {
    let words = given.list()?;
    if words.is_empty() || words.iter().any(String::is_empty) {
        return Err(given.problem("expected at least one value, and none empty; or leave it out"));
    }
    if words.len() > Rule::VALUES_MAX {
        return Err(given.problem(format!("at most {} values", Rule::VALUES_MAX)));
    }
    if let Some(long) = words.iter().find(|word| word.len() > Rule::VALUE_BYTES_MAX) {
        let start: String = long.chars().take(20).collect();
        let message = format!(
            "\"{start}…\" is longer than {} bytes",
            Rule::VALUE_BYTES_MAX
        );
        return Err(given.problem(message));
    }
    Ok(words)
}

fn each<T>(
    given: &Given,
    read: impl Fn(&str) -> Option<T>,
    expected: &str,
) -> Result<Vec<T>, Problem> {
    let one =
        |word: &String| read(word).ok_or_else(|| given.problem(format!("\"{word}\": {expected}")));
    words(given)?.iter().map(one).collect()
}

fn hosts(rule: &mut Rule, given: &Given) -> Done {
    let hosts = words(given)?;
    let hosts: Result<_, _> = hosts.iter().map(|word| host_pattern(given, word)).collect();
    rule.when.hosts = hosts?;
    Ok(())
}

fn paths(rule: &mut Rule, given: &Given) -> Done {
    let read = |word: &str| {
        let good = word.starts_with(['/', '*']) && is_path(word);
        good.then(|| word.to_owned())
    };
    let expected = "expected a path that begins with / or *, without ? or #";
    rule.when.paths = each(given, read, expected)?;
    Ok(())
}

fn methods(rule: &mut Rule, given: &Given) -> Done {
    let read = |word: &str| {
        let upper = !word.bytes().any(|b| b.is_ascii_lowercase());
        (is_token(word) && upper && word != "HEAD").then(|| word.to_owned())
    };
    let expected = "expected methods in capitals, such as \"GET\" or \"POST\"; GET means HEAD, too";
    rule.when.methods = each(given, read, expected)?;
    Ok(())
}

fn statuses(rule: &mut Rule, given: &Given) -> Done {
    let code = |text: &str| {
        let code = text.parse::<u16>().ok()?;
        (text.len() == 3 && (200..600).contains(&code)).then_some(code)
    };
    let read = |word: &str| {
        if let Some(class) = word.strip_suffix("xx") {
            let first = code(&format!("{class}00"))?;
            return Some((first, first + 99));
        }
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let range = (code(first)?, code(last)?);
        (range.0 <= range.1).then_some(range)
    };
    let expected = "expected a status from 200 to 599, a range such as \"500-504\", or a class such as \"5xx\"";
    rule.when.statuses = each(given, read, expected)?;
    Ok(())
}

fn content_types(rule: &mut Rule, given: &Given) -> Done {
    let read = |word: &str| {
        let (kind, sub) = word.split_once('/')?;
        let good = is_token(kind) && !kind.contains('*') && (sub == "*" || is_token(sub));
        let good = good && (sub == "*" || !sub.contains('*'));
        good.then(|| word.to_ascii_lowercase())
    };
    let expected = "expected a media type such as \"text/html\" or \"image/*\"";
    rule.when.content_types = each(given, read, expected)?;
    Ok(())
}

fn key(rule: &mut Rule) -> &mut KeyRule {
    rule.then.key.get_or_insert_default()
}

fn ignore_query(rule: &mut Rule, given: &Given) -> Done {
    let read = |word: &str| {
        let name = word.strip_suffix('*').unwrap_or(word);
        let good = name
            .bytes()
            .all(|b| b.is_ascii_graphic() && !b"&=;#*".contains(&b));
        good.then(|| word.to_owned())
    };
    let expected =
        "expected the name of a query parameter, the beginning of one and a *, or \"*\" for all";
    key(rule).ignore_query = each(given, read, expected)?;
    Ok(())
}

fn key_fields(rule: &mut Rule, given: &Given) -> Done {
    let read = |word: &str| {
        let good = is_token(word) && !word.eq_ignore_ascii_case("cookie");
        good.then(|| word.to_ascii_lowercase())
    };
    let expected = "expected the name of a request field (cookies are named in key-cookies)";
    key(rule).fields = each(given, read, expected)?;
    Ok(())
}

fn key_cookies(rule: &mut Rule, given: &Given) -> Done {
    let read = |word: &str| is_token(word).then(|| word.to_owned());
    key(rule).cookies = each(given, read, "expected the name of a cookie")?;
    Ok(())
}

fn lifetime(given: &Given) -> Result<Option<Duration>, Problem> {
    settings::time(given, Rule::TTL).map(Some)
}

fn ttl(rule: &mut Rule, given: &Given) -> Done {
    rule.then.ttl = lifetime(given)?;
    Ok(())
}

fn ttl_min(rule: &mut Rule, given: &Given) -> Done {
    rule.then.ttl_min = lifetime(given)?;
    Ok(())
}

fn ttl_max(rule: &mut Rule, given: &Given) -> Done {
    rule.then.ttl_max = lifetime(given)?;
    Ok(())
}

fn default_ttl(rule: &mut Rule, given: &Given) -> Done {
    rule.then.default_ttl = lifetime(given)?;
    Ok(())
}

fn negative_ttl(rule: &mut Rule, given: &Given) -> Done {
    rule.then.negative_ttl = lifetime(given)?;
    Ok(())
}

fn stale_while_revalidate(rule: &mut Rule, given: &Given) -> Done {
    rule.then.stale_while_revalidate = lifetime(given)?;
    Ok(())
}

fn stale_if_error(rule: &mut Rule, given: &Given) -> Done {
    rule.then.stale_if_error = lifetime(given)?;
    Ok(())
}

fn client_directives(rule: &mut Rule, given: &Given) -> Done {
    rule.then.client_directives = Some(own::directives(given)?);
    Ok(())
}

fn object_max(rule: &mut Rule, given: &Given) -> Done {
    rule.then.object_bytes_max = Some(settings::size(given, Rule::OBJECT_BYTES_MAX)?);
    Ok(())
}

/// What clients may demand, in words.
pub fn directives_in_words(directives: ClientDirectives) -> &'static str {
    match directives {
        ClientDirectives::Obey => "obeyed, reloads by a request made after they came",
        ClientDirectives::Revalidate => "obeyed, reloads by one request a second",
        ClientDirectives::Ignore => "ignored, but for only-if-cached",
    }
}

/// A rule in words.
pub fn explain(rule: &Rule) -> String {
    let Rule { when, then } = rule;
    let mut conditions = [
        when.methods.join(", "),
        when.hosts.join(", "),
        when.paths.join(", "),
    ]
    .into_iter()
    .filter(|words| !words.is_empty())
    .collect::<Vec<_>>()
    .join("; ");
    if conditions.is_empty() {
        conditions.push_str("everything");
    }
    if !when.statuses.is_empty() {
        let range = |&(first, last): &(u16, u16)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        };
        let ranges: Vec<_> = when.statuses.iter().map(range).collect();
        let _ = write!(conditions, "; answered {}", ranges.join(", "));
    }
    if !when.content_types.is_empty() {
        let _ = write!(conditions, "; of type {}", when.content_types.join(", "));
    }
    let mut said = Vec::new();
    let mut switch = |on: Option<bool>, yes: &str, no: &str| {
        said.extend(on.map(|on| if on { yes } else { no }.to_owned()));
    };
    let pass = if when.asks_of_response() {
        "not stored"
    } else {
        "passes the cache by"
    };
    switch(then.bypass, pass, "does not pass the cache by");
    switch(
        then.strip_cookies,
        "without its cookies",
        "with its cookies",
    );
    switch(then.strip_set_cookie, "sets no cookies", "may set cookies");
    if let Some(key) = &then.key {
        let mut list = |what: &str, names: &[String]| {
            if !names.is_empty() {
                said.push(format!("{what} {}", names.join(", ")));
            }
        };
        list("whatever the query's", &key.ignore_query);
        list("by the field", &key.fields);
        list("by the cookie", &key.cookies);
    }
    let kept = match when.statuses.is_empty() {
        true => format!(
            " ({} only)",
            When::KEPT.map(|status| status.to_string()).join(", ")
        ),
        false => String::new(),
    };
    let mut kept_time = |what: &str, time: Option<Duration>| {
        said.extend(time.map(|time| format!("{what} {}{kept}", Time(time))));
    };
    kept_time("fresh for", then.ttl);
    kept_time("for at least", then.ttl_min);
    let mut time = |what: &str, time: Option<Duration>| {
        said.extend(time.map(|time| format!("{what} {}", Time(time))));
    };
    time("for at most", then.ttl_max);
    time("where nothing is said for", then.default_ttl);
    time("errors for", then.negative_ttl);
    time("stale while revalidated for", then.stale_while_revalidate);
    time("stale if the origin fails for", then.stale_if_error);
    said.extend(then.client_directives.map(|directives| {
        let words = directives_in_words(directives);
        format!("clients' directives {words}")
    }));
    said.extend(
        then.object_bytes_max
            .map(|bytes| format!("up to {}", Size(bytes))),
    );
    format!("{conditions}: {}", said.join(", "))
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
