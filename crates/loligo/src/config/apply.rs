//! Reads the settings of a block by its rows.

use super::general;
use super::problem::{Problem, did_you_mean};
use super::raw::Given;
use super::rows::Row;

/// Reads settings by their rows into `target`; everything wrong with them goes to `problems`.
pub fn apply<T>(rows: &[Row<T>], given: &[Given], target: &mut T, problems: &mut Vec<Problem>) {
    for one in given {
        let done = match rows.iter().find(|row| row.key == one.key) {
            Some(row) => row.set(target, one).map_err(|why| one.problem(why)),
            None => Err(unknown(one, rows.iter().map(|row| row.key.as_str()))),
        };
        problems.extend(done.err());
    }
}

/// The problem of a setting that does not exist; `known` are those that do.
pub fn unknown<'a>(given: &Given, known: impl Iterator<Item = &'a str>) -> Problem {
    let known: Vec<&str> = known.collect();
    let inner = format!("{}.", given.key);
    let members: Vec<&str> = (known.iter())
        .filter_map(|key| key.strip_prefix(&inner))
        .collect();
    let name = given.key.rsplit_once('.').map_or("", |(_, name)| name);
    let of_all = general::rows().iter().any(|row| row.key == name);
    let message = match did_you_mean(&given.key, known.iter().copied()) {
        _ if !members.is_empty() => format!(
            "takes settings of its own, such as {{ {} = … }}; there are {}",
            members[0],
            members.join(", ")
        ),
        _ if of_all => {
            "is a setting of the whole proxy: write it above the first [block]".to_owned()
        }
        Some(meant) => {
            // The scopes of blocks that repeat: inside them, the name is without the scope.
            let scopes = [
                "listener.route.",
                "listener.certificate.",
                "listener.",
                "rule.",
                "limit.",
                "cluster.member.",
                "cluster.",
                "parent.",
                "sibling.",
                "upstream.",
            ];
            let short = scopes.iter().find_map(|scope| meant.strip_prefix(scope));
            let meant = short.unwrap_or(meant);
            format!("there is no such setting here; did you mean \"{meant}\"?")
        }
        None => "there is no such setting here; `loligo settings` lists them all".to_owned(),
    };
    given.problem(message)
}
