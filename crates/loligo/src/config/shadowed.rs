//! Rules that can never have an effect, because earlier rules apply to all of the same exchanges.
//!
//! For each setting, the first matching rule that has the setting applies (`proxy::rulebook`). So a rule is *shadowed* if for each of
//! its settings an earlier rule has the same setting and matches whenever this one does. Such a rule is probably a mistake; but
//! it does no harm, so it is noted, not refused.
//!
//! Errs on the side of silence: two patterns count as different unless a short comparison shows that one covers the other, and of thousands
//! of rules each is compared with some hundreds.
//!
//! Not known here: what the settings mean. They are compared by name.

use std::collections::HashMap;

use proxy::plan::When;

use super::problem::Problem;
use super::raw::Block;

/// Settings that are conditions.
const CONDITIONS: [&str; 13] = [
    "client",
    "listener",
    "time",
    "scheme",
    "host",
    "host-list",
    "port",
    "path",
    "query",
    "header",
    "method",
    "status",
    "content-type",
];
/// The first rule that has one of these decides whether a request is served.
const VERDICTS: [&str; 5] = ["allow", "deny", "answer", "redirect", "redirect-status"];
/// The first rule that has one of these decides all of them.
const KEYS: [&str; 3] = ["ignore-query", "key-fields", "key-cookies"];

/// A note for each shadowed rule. `whens` are the conditions of `blocks`.
pub fn notes(blocks: &[Block], whens: &[&When]) -> Vec<String> {
    let mut notes = Vec::new();
    let mut before = Before::default();
    for (at, (block, when)) in blocks.iter().zip(whens).enumerate() {
        let earlier = before.that_may_cover(when);
        before.add(at, when);
        let by = |thing: &str| {
            let earlier = earlier.iter().copied();
            earlier
                .map(|at| (at, &blocks[at], whens[at]))
                .find(|(_, other, others)| {
                    things(other).any(|said| said == thing) && covers(others, when, thing)
                })
        };
        let by: Option<Vec<usize>> = things(block).map(|thing| Some(by(thing)?.0 + 1)).collect();
        let Some(mut by) = by.filter(|by| !by.is_empty()) else {
            continue;
        };
        by.sort_unstable();
        by.dedup();
        let rules: Vec<_> = by.iter().map(|n| format!("rule {n}")).collect();
        let (rules, says) = (
            rules.join(" and "),
            if by.len() == 1 { "says" } else { "say" },
        );
        notes.push(
            Problem {
                place: block.place.clone(),
                key: format!("rule {}", at + 1),
                value: String::new(),
                message: format!(
                    "never counts: {rules} before it {says} the same for all that it is about; put the special rule first"
                ),
            }
            .to_string(),
        );
    }
    notes
}

/// Earlier rules, by their hosts.
#[derive(Default)]
struct Before<'a> {
    by_host: HashMap<&'a str, Vec<usize>>,
    without_host: Vec<usize>,
}

impl<'a> Before<'a> {
    /// How many rules are kept for each host, and how many without a host.
    const LOOKED_AT_MAX: usize = 500;

    fn add(&mut self, at: usize, when: &'a When) {
        if when.hosts.is_empty() && self.without_host.len() < Self::LOOKED_AT_MAX {
            self.without_host.push(at);
        }
        for host in &when.hosts {
            let of_host = self.by_host.entry(host).or_default();
            if of_host.len() < Self::LOOKED_AT_MAX && of_host.last() != Some(&at) {
                of_host.push(at);
            }
        }
    }

    /// The rules without a host, or with a host that covers the first one of this rule.
    fn that_may_cover(&self, when: &When) -> Vec<usize> {
        let mut all = self.without_host.clone();
        if let Some(host) = when.hosts.first() {
            let bare = host.strip_prefix("*.").unwrap_or(host);
            let parents = bare.match_indices('.').map(|(at, _)| &bare[at + 1..]);
            let wide = std::iter::once(bare)
                .chain(parents)
                .map(|it| format!("*.{it}"));
            for pattern in std::iter::once(host.clone()).chain(wide) {
                all.extend(self.by_host.get(pattern.as_str()).into_iter().flatten());
            }
            all.sort_unstable();
            all.dedup();
        }
        all
    }
}

/// The names of a rule's settings, without conditions.
fn things(block: &Block) -> impl Iterator<Item = &str> {
    let keys = block.given.iter().map(|given| given.key.as_str());
    let said = keys.map(|key| key.strip_prefix("rule.").unwrap_or(key));
    // An entry of a table counts as the table, except that each field to be changed counts by itself.
    let said = said.map(|key| match key.split_once('.') {
        Some((table @ ("header" | "answer"), _)) => table,
        _ => key,
    });
    let said = said.filter(|key| !CONDITIONS.contains(key) && *key != "name");
    said.map(|key| match key {
        key if KEYS.contains(&key) => KEYS[0],
        key if VERDICTS.contains(&key) => VERDICTS[0],
        key => key,
    })
}

/// Does the first condition match whenever the second does, as far as this setting goes?
fn covers(first: &When, second: &When, thing: &str) -> bool {
    // A `ttl` without `status` applies to some statuses only.
    let statuses = match (first.statuses.as_slice(), second.statuses.as_slice()) {
        ([], []) => true,
        ([], _) => thing != "ttl",
        (wide, narrow) => {
            let within = |&(from, to): &(u16, u16)| wide.iter().any(|w| w.0 <= from && to <= w.1);
            !narrow.is_empty() && narrow.iter().all(within)
        }
    };
    // These conditions cover another only if they are equal; a path is allowed in fewer spellings than it is refused.
    let same_or_any = |is_any: bool, is_same: bool| is_any || is_same;
    statuses
        && same_or_any(first.clients.is_empty(), first.clients == second.clients)
        && same_or_any(
            first.listeners.is_empty(),
            first.listeners == second.listeners,
        )
        && same_or_any(first.hours.is_empty(), first.hours == second.hours)
        && same_or_any(first.scheme.is_none(), first.scheme == second.scheme)
        && same_or_any(
            first.host_lists.is_empty(),
            first.host_lists == second.host_lists,
        )
        && same_or_any(first.ports.is_empty(), first.ports == second.ports)
        && same_or_any(first.queries.is_empty(), first.queries == second.queries)
        && same_or_any(first.fields.is_empty(), first.fields == second.fields)
        && (thing != VERDICTS[0] || first.paths.is_empty())
        && all_covered(&first.methods, &second.methods, |a, b| a == b)
        && all_covered(&first.hosts, &second.hosts, host_covers)
        && all_covered(&first.paths, &second.paths, path_covers)
        && all_covered(&first.content_types, &second.content_types, type_covers)
}

/// Does `wide` cover all of `narrow`? An empty list is everything.
fn all_covered(wide: &[String], narrow: &[String], covers: fn(&str, &str) -> bool) -> bool {
    let one = |narrow: &String| wide.iter().any(|wide| covers(wide, narrow));
    wide.is_empty() || !narrow.is_empty() && narrow.iter().all(one)
}

fn host_covers(wide: &str, narrow: &str) -> bool {
    // `*.a.org` covers `b.a.org`, and `*.b.a.org`.
    let below = wide.strip_prefix('*');
    wide == narrow
        || below.is_some_and(|suffix| narrow.len() > suffix.len() && narrow.ends_with(suffix))
}

fn path_covers(wide: &str, narrow: &str) -> bool {
    // Every path begins with `/`.
    if wide == narrow || ["/", "*", "/*"].contains(&wide) {
        return true;
    }
    // Every path that fits a pattern begins with the text before its first `*`.
    let (front, open) = match narrow.split_once('*') {
        Some((front, _)) => (front, true),
        None => (narrow, false),
    };
    match wide.split_once('*') {
        Some((begin, "")) => front.starts_with(begin),
        Some(_) => false,
        None => front.strip_prefix(wide).is_some_and(|rest| {
            wide.ends_with('/') || rest.starts_with('/') || rest.is_empty() && !open
        }),
    }
}

fn type_covers(wide: &str, narrow: &str) -> bool {
    wide == narrow
        || wide
            .strip_suffix('*')
            .is_some_and(|front| narrow.starts_with(front))
}

#[cfg(test)]
mod tests {
    use crate::config::testing::settle;

    fn notes(text: &str) -> Vec<String> {
        settle(text).unwrap().notes
    }

    #[test]
    fn a_rule_that_earlier_ones_always_cover_is_noted() {
        let text = "[[rule]]\nttl = \"5m\"\n\n[[rule]]\npath = \"/images\"\nttl = \"1m\"\n\n\
                    [[rule]]\npath = \"/admin\"\nttl = \"1m\"\nbypass = true\n\n\
                    [[rule]]\nhost = \"a.org\"\npath = \"/admin/x\"\nttl = \"2m\"\nbypass = false\n";
        assert_eq!(
            notes(text),
            [
                "loligo.toml:4: rule 2: never counts: rule 1 before it says the same for all that it is about; put the special rule first",
                "loligo.toml:13: rule 4: never counts: rule 1 and rule 3 before it say the same for all that it is about; put the special rule first",
            ]
        );
    }

    #[test]
    fn patterns_cover_what_lies_within_them() {
        let covered = |wide: &str, narrow: &str| {
            let text =
                format!("[[rule]]\n{wide}\nbypass = true\n[[rule]]\n{narrow}\nbypass = false\n");
            notes(&text).len() == 1
        };
        for (wide, narrow) in [
            ("", "host = \"a.org\""),
            ("host = \"*.org\"", "host = [\"a.org\", \"*.a.org\"]"),
            ("path = \"/a\"", "path = [\"/a\", \"/a/b\", \"/a/*.jpg\"]"),
            ("path = \"/a/*\"", "path = \"/a/b\""),
            ("path = \"/\"", "path = \"*.jpg\""),
            ("status = \"4xx\"", "status = [404, \"410-412\"]"),
            ("", "status = 404"),
            ("content-type = \"image/*\"", "content-type = \"image/png\""),
            ("method = [\"GET\", \"POST\"]", "method = \"POST\""),
        ] {
            assert!(covered(wide, narrow), "{wide} covers {narrow}");
        }
        for (wide, narrow) in [
            ("host = \"a.org\"", ""),
            ("host = \"*.a.org\"", "host = \"a.org\""),
            ("host = \"*.a.org\"", "host = \"ba.org\""),
            ("path = \"/a\"", "path = \"/ab\""),
            ("path = \"/a\"", "path = \"/a*\""),
            ("path = \"*.jpg\"", "path = \"/a\""),
            ("path = \"/a\"", "path = [\"/a\", \"/b\"]"),
            ("status = 404", "status = \"4xx\""),
            ("method = \"GET\"", "method = [\"GET\", \"POST\"]"),
        ] {
            assert!(!covered(wide, narrow), "{wide} does not cover {narrow}");
        }
    }

    #[test]
    fn a_rule_that_says_one_thing_more_counts() {
        let more = "[[rule]]\nttl = \"5m\"\n[[rule]]\npath = \"/a\"\nttl = \"1m\"\nobject-max = \"1MiB\"\n";
        assert_eq!(notes(more), [""; 0]);
        // A `ttl` without `status` does not apply to errors.
        let errors = "[[rule]]\nttl = \"5m\"\n[[rule]]\nstatus = 404\nttl = \"1m\"\n";
        assert_eq!(notes(errors), [""; 0]);
        // All settings of the key count as one.
        let key = "[[rule]]\nignore-query = \"*\"\n[[rule]]\nkey-cookies = \"a\"\n";
        assert_eq!(notes(key).len(), 1);
    }
}
