//! The levels at which hits occurred, from the records of the four proxies.
//!
//! Not known here: how the proxies were run.

use std::{
    fmt::Write as _,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

use super::configurations::{Level, Site};
use crate::failure::{During, Result, fail};

/// The counts of one proxy.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Its name.
    pub name: String,
    /// Requests.
    pub requests: u64,
    /// Answered from its own cache.
    pub hits: u64,
    /// Forwarded to a sibling.
    pub sibling: u64,
    /// Forwarded to a parent.
    pub parent: u64,
    /// Forwarded to a parent that had the answer in its cache.
    pub parent_hits: u64,
    /// Forwarded to a parent that got the answer from a cache beyond it.
    pub farther_hits: u64,
    /// Forwarded to the origin.
    pub direct: u64,
    /// Answered with 5xx.
    pub errors: u64,
}

/// Reads the records of all four.
pub fn read(site: &Site, loligo: &Path) -> Result<Vec<Counts>> {
    let of = |level: &Level| {
        let mut counts = Counts {
            name: level.name().to_owned(),
            ..Counts::default()
        };
        let path = site.record(*level);
        if site.is_squid(*level) {
            let text =
                std::fs::read_to_string(&path).during(|| format!("reading {}", path.display()))?;
            text.lines().for_each(|line| counts.add_squid(line));
            return Ok(counts);
        }
        let mut dump = Command::new(loligo)
            .args(["profile", "dump", "--json"])
            .arg(&path)
            .stdout(Stdio::piped())
            .spawn()
            .during(|| "dumping a profile".into())?;
        if let Some(lines) = dump.stdout.take() {
            for line in BufReader::new(lines).lines() {
                let line = line.during(|| "reading a dump".into())?;
                counts.add(&line);
            }
        }
        let status = dump.wait().during(|| "dumping a profile".into())?;
        if !status.success() {
            fail!("{} cannot be read: {status}", path.display());
        }
        Ok(counts)
    };
    Level::ALL.iter().map(of).collect()
}

impl Counts {
    /// Counts a line of `loligo profile dump`. Lines that are not requests are skipped.
    fn add(&mut self, line: &str) {
        let Ok(record) = serde_json::from_str::<Value>(line) else {
            return;
        };
        let word = |name: &str| record[name].as_str().unwrap_or_default();
        let Some(status) = record["status"].as_u64() else {
            return;
        };
        // A request of the sibling for an object that is not here.
        if status == 504 && word("forwarded") == "none" {
            return;
        }
        self.requests += 1;
        self.errors += u64::from(status >= 500);
        let flags = record["flags"].to_string();
        let has = |flag: &str| u64::from(flags.contains(flag));
        match word("forwarded") {
            "sibling" => self.sibling += 1,
            "parent" => {
                self.parent += 1;
                self.parent_hits += has("peer_hit");
                self.farther_hits += has("farther_hit");
            }
            "direct" => self.direct += 1,
            _ => self.hits += u64::from(status < 400),
        }
    }

    /// Counts a line of Squid's log.
    fn add_squid(&mut self, line: &str) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, _, _, code, _, _, _, _, hierarchy, ..] = words[..] else {
            return;
        };
        let (result, status) = code.split_once('/').unwrap_or((code, ""));
        // Skip ICP queries, and requests of the sibling for objects that are not here.
        if result.starts_with("UDP_") || (status == "504" && hierarchy.starts_with("HIER_NONE")) {
            return;
        }
        self.requests += 1;
        self.errors += u64::from(status.starts_with('5'));
        match hierarchy.split('/').next().unwrap_or_default() {
            "HIER_NONE" => self.hits += u64::from(result.contains("HIT")),
            "HIER_DIRECT" => self.direct += 1,
            code if code.contains("SIBLING") || code == "CD_PARENT_HIT" => self.sibling += 1,
            _ => self.parent += 1,
        }
    }
}

/// The table.
pub fn text(all: &[Counts]) -> String {
    let mut out = String::from(
        "            requests  own hits   from sibling  from parent  (its hit  beyond it)  from origin  5xx\n",
    );
    for counts in all {
        let percent = |n: u64| 100.0 * n as f64 / counts.requests.max(1) as f64;
        let _ = writeln!(
            out,
            "{:10} {:9}  {:7.1} %  {:10.1} %  {:9.1} %  {:6.1} %  {:7.1} %  {:8.1} %  {:3}",
            counts.name,
            counts.requests,
            percent(counts.hits),
            percent(counts.sibling),
            percent(counts.parent),
            percent(counts.parent_hits),
            percent(counts.farther_hits),
            percent(counts.direct),
            counts.errors
        );
    }
    out
}

/// Checks that every level took part, and that no request looped.
pub fn check(all: &[Counts], with_squid: bool) -> Result<()> {
    for counts in all {
        if counts.requests == 0 {
            fail!("{} was never asked", counts.name);
        }
        if counts.errors > 0 {
            fail!(
                "{} answered {} requests with 5xx: see its log",
                counts.name,
                counts.errors
            );
        }
        let is_root = counts.name == Level::Root.name();
        if !is_root && counts.direct > 0 {
            fail!(
                "{} asked origins {} times; it has a parent for all",
                counts.name,
                counts.direct
            );
        }
    }
    let from_siblings: u64 = all.iter().map(|counts| counts.sibling).sum();
    if from_siblings == 0 && !with_squid {
        fail!("no leaf had anything from its sibling");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_lines_are_counted_by_whom_they_went_to() {
        let mut counts = Counts::default();
        for line in [
            r#"{"status":200,"forwarded":"none","flags":[]}"#,
            r#"{"status":200,"forwarded":"parent","flags":["peer_hit"]}"#,
            r#"{"status":502,"forwarded":"parent","flags":["farther_hit"]}"#,
            r#"{"status":200,"forwarded":"sibling","flags":["peer_hit"]}"#,
            r#"{"event":"mark"}"#,
        ] {
            counts.add(line);
        }
        let all = (counts.requests, counts.hits, counts.sibling, counts.parent);
        assert_eq!(all, (4, 1, 1, 2));
        assert_eq!(
            (counts.parent_hits, counts.farther_hits, counts.errors),
            (1, 1, 1)
        );
        let mut squid = Counts::default();
        for line in [
            "1.0 1 127.0.0.1 TCP_MEM_HIT/200 10 GET http://a/ - HIER_NONE/- text/html",
            "1.0 1 127.0.0.1 TCP_MISS/200 10 GET http://a/ - DEFAULT_PARENT/127.0.0.1 text/html",
            "1.0 1 127.0.0.1 TCP_MISS/200 10 GET http://a/ - SIBLING_HIT/127.0.0.1 text/html",
            "1.0 0 127.0.0.1 TCP_MISS/504 10 GET http://a/ - HIER_NONE/- text/html",
            "1.0 0 127.0.0.1 UDP_HIT/000 10 ICP_QUERY http://a/ - HIER_NONE/- -",
        ] {
            squid.add_squid(line);
        }
        let all = (squid.requests, squid.hits, squid.sibling, squid.parent);
        assert_eq!(all, (3, 1, 1, 1));
    }

    #[test]
    fn a_circle_or_a_way_past_the_parent_fails_the_run() {
        let of = |name: &str, errors, direct| Counts {
            name: name.to_owned(),
            requests: 10,
            sibling: 1,
            errors,
            direct,
            ..Counts::default()
        };
        assert!(check(&[of("root", 0, 10), of("leaf-a", 0, 0)], false).is_ok());
        assert!(check(&[of("root", 1, 9)], false).is_err());
        assert!(check(&[of("leaf-a", 0, 1)], false).is_err());
    }
}
