//! How the conditions of a rule are read.
//!
//! Not known here: what a rule does (`verdicts`), and checks of several settings together (`rules`).

use std::ops::RangeInclusive;
use std::sync::Arc;

use ipnet::IpNet;
use proxy::plan::{FieldFits, FieldIs, HostList, Hours, Listener, Rule, Scheme, When, address};

use super::raw::{Given, Value};
use super::values::{self, is_path, is_token};

/// The values of a list, at least one.
pub fn words(given: &Given) -> Result<Vec<String>, String> {
    let words = values::list(given)?;
    if words.is_empty() || words.iter().any(String::is_empty) {
        return Err("expected at least one value, and none empty; or leave it out".to_owned());
    }
    if words.len() > Rule::VALUES_MAX {
        let most = Rule::VALUES_MAX;
        return Err(format!(
            "at most {most} values; the others go into a second rule, hosts into a file (host-list)"
        ));
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

/// The values of a list, each read by `read`.
pub fn each<T>(
    given: &Given,
    expected: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, String> {
    let one = |word: &String| read(word).ok_or_else(|| format!("\"{word}\": expected {expected}"));
    words(given)?.iter().map(one).collect()
}

/// The values of a list that is searched linearly and so must be short, each read by `read`.
pub fn each_of_few<T>(
    given: &Given,
    expected: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, String> {
    few(each(given, expected, read)?)
}

/// A list that is searched linearly must be short.
fn few<T>(list: Vec<T>) -> Result<Vec<T>, String> {
    let most = Rule::NAMES_MAX;
    match list.len() > most {
        true => Err(format!(
            "at most {most} values; the others go into a second rule"
        )),
        false => Ok(list),
    }
}

pub fn clients(given: &Given) -> Result<Vec<IpNet>, String> {
    let networks = values::networks(given)?;
    match networks.len() {
        0 => Err("expected at least one network, or leave it out".to_owned()),
        n if n > Rule::VALUES_MAX => Err(format!(
            "at most {} networks; the others go into a second rule",
            Rule::VALUES_MAX
        )),
        _ => Ok(networks),
    }
}

/// The index of the listener with this name, address or port.
pub fn listener(name: &str, listeners: &[Listener]) -> Result<usize, String> {
    let is_meant = |listener: &&Listener| {
        let address = listener.address;
        let port = name.parse::<u16>().ok();
        listener.name == name || address.to_string() == name || port == Some(address.port())
    };
    let mut meant = listeners.iter().enumerate().filter(|(_, it)| is_meant(it));
    match (meant.next(), meant.next()) {
        (Some((number, _)), None) => Ok(number),
        (None, _) => {
            let known: Vec<_> = listeners.iter().map(|it| it.address.to_string()).collect();
            let known = known.join(", ");
            Err(format!(
                "\"{name}\": there is no such listener; name one by its name, address or port: {known}"
            ))
        }
        (Some(_), Some(_)) => Err(format!(
            "\"{name}\": there are several such listeners; write the whole address"
        )),
    }
}

pub fn hours(given: &Given) -> Result<Vec<Hours>, String> {
    each_of_few(given, Hours::FORM, Hours::parse)
}

pub fn scheme(given: &Given) -> Result<Scheme, String> {
    values::word(given, &[("http", Scheme::Http), ("https", Scheme::Https)])
}

pub fn hosts(given: &Given) -> Result<Vec<String>, String> {
    let host = |word: &String| {
        if word == When::ANY_ADDRESS {
            return Ok(word.clone());
        }
        match address(word) {
            Some(address) => Ok(address.to_string()),
            None => values::host_pattern(word),
        }
    };
    words(given)?.iter().map(host).collect()
}

/// The lists of hosts at these paths; their files are read here.
pub fn host_lists(given: &Given) -> Result<Vec<Arc<HostList>>, String> {
    let list = |word: &String| {
        let path = values::path(&Given {
            value: Value::Text(word.clone()),
            ..given.clone()
        })?;
        HostList::read(&path).map(Arc::new)
    };
    few(words(given)?)?.iter().map(list).collect()
}

pub fn ports(given: &Given) -> Result<Vec<RangeInclusive<u16>>, String> {
    let ports = values::port_ranges(given)?;
    match ports.len() {
        0 => Err("expected at least one port, or leave it out".to_owned()),
        n if n > Rule::VALUES_MAX => Err(format!(
            "at most {} ports; ranges take fewer",
            Rule::VALUES_MAX
        )),
        _ => Ok(ports),
    }
}

pub fn paths(given: &Given) -> Result<Vec<String>, String> {
    let form = "a path that begins with / or *, without ? or #";
    each(given, form, |word| {
        (word.starts_with(['/', '*']) && is_path(word)).then(|| word.to_owned())
    })
}

pub fn queries(given: &Given) -> Result<Vec<String>, String> {
    let form = "the name of a parameter, or a pattern for its name and value such as \"debug=*\"";
    each(given, form, |word| {
        let good = word
            .bytes()
            .all(|b| b >= b' ' && b != b'&' && b != b';' && b != b'#');
        good.then(|| word.to_owned())
    })
}

pub fn methods(given: &Given) -> Result<Vec<String>, String> {
    let form = "methods in capitals, such as \"GET\" or \"POST\"; GET means HEAD, too";
    each(given, form, |word| {
        let upper = !word.bytes().any(|b| b.is_ascii_lowercase());
        (is_token(word) && upper && word != "HEAD").then(|| word.to_owned())
    })
}

pub fn statuses(given: &Given) -> Result<Vec<(u16, u16)>, String> {
    let code = |text: &str| {
        let code = text.parse::<u16>().ok()?;
        (text.len() == 3 && (200..600).contains(&code)).then_some(code)
    };
    let form = "a status from 200 to 599, a range such as \"500-504\", or a class such as \"5xx\"";
    each_of_few(given, form, |word| {
        if let Some(class) = word.strip_suffix("xx") {
            let first = code(&format!("{class}00"))?;
            return Some((first, first + 99));
        }
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let range = (code(first)?, code(last)?);
        (range.0 <= range.1).then_some(range)
    })
}

pub fn content_types(given: &Given) -> Result<Vec<String>, String> {
    let form = "a media type such as \"text/html\" or \"image/*\"";
    each_of_few(given, form, |word| {
        let (kind, sub) = word.split_once('/')?;
        let name = |text: &str| is_token(text) && !text.contains('*');
        (name(kind) && (sub == "*" || name(sub))).then(|| word.to_ascii_lowercase())
    })
}

/// `{ NAME = "PATTERN" }`, `{ NAME = true }`, `{ NAME = false }`.
pub fn fields(given: &Given) -> Result<Vec<FieldFits>, String> {
    let entries = table(given, "{ User-Agent = \"*curl*\" }")?;
    let field = |(name, value): &(String, Value)| {
        if !is_token(name) {
            return Err(format!("\"{name}\" is no name of a field"));
        }
        let how = match value {
            Value::Switch(is_there) => FieldIs::There(*is_there),
            value => {
                let patterns = Given {
                    value: match value {
                        // A comma may be part of a value.
                        Value::Text(text) => Value::List(vec![Value::Text(text.clone())]),
                        value => value.clone(),
                    },
                    ..given.clone()
                };
                let patterns = words(&patterns).map_err(|why| format!("{name}: {why}"))?;
                FieldIs::One(patterns)
            }
        };
        let name = name.to_ascii_lowercase();
        Ok(FieldFits { name, how })
    };
    entries.iter().map(field).collect()
}

/// The entries of a table, at least one.
pub fn table<'a>(given: &'a Given, example: &str) -> Result<&'a [(String, Value)], String> {
    match &given.value {
        Value::Table(entries) if entries.len() > Rule::NAMES_MAX => {
            Err(format!("at most {} entries", Rule::NAMES_MAX))
        }
        Value::Table(entries) if !entries.is_empty() => Ok(entries),
        _ => Err(format!("expected a table such as {example}")),
    }
}
