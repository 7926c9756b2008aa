//! Requested names: hosts, content types, URLs.
//!
//! Only a log has names; a profile has hashes. Names reveal what people read, so they are counted only on request.
//!
//! Hits, misses and documents are defined as in the other tables.

use profile::Record;

use crate::cells::asked_a_server;
use crate::heavy::{Heavy, Tally};
use crate::kinds::{Group, HITS, MISSES};
use crate::model::{Fact, Table};

/// The names of one request, from a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked<'a> {
    /// The URL as in the log.
    pub url: &'a [u8],
    /// Host and port of the URL.
    pub host: &'a [u8],
    /// Content type of the answer; `-` if it has none.
    pub content_type: &'a [u8],
}

/// Counts by name.
pub(crate) struct Names {
    hosts: Heavy,
    types: Heavy,
    urls: Heavy,
    missed: Heavy,
    large: Heavy,
}

impl Default for Names {
    fn default() -> Names {
        Names {
            hosts: Heavy::by(|tally| tally.requests),
            types: Heavy::by(|tally| tally.requests),
            urls: Heavy::by(|tally| tally.requests),
            missed: Heavy::by(|tally| tally.misses),
            large: Heavy::by(|tally| tally.bytes),
        }
    }
}

impl Names {
    /// Counts a request, unless it is a tunnel.
    pub(crate) fn see(&mut self, record: &Record, asked: &Asked) {
        let Some(group) = Group::of(record, asked_a_server(record)) else {
            return;
        };
        let is_hit = HITS.contains(&group);
        let tally = Tally {
            requests: 1,
            hits: u64::from(is_hit),
            misses: u64::from(MISSES.contains(&group)),
            bytes: record.bytes_out,
            hit_bytes: if is_hit { record.bytes_out } else { 0 },
        };
        self.hosts.add(&asked.host.to_ascii_lowercase(), &tally);
        let bare = asked.content_type.split(|&b| b == b';').next();
        self.types
            .add(&bare.unwrap_or(b"-").to_ascii_lowercase(), &tally);
        for urls in [&mut self.urls, &mut self.missed, &mut self.large] {
            urls.add(asked.url, &tally);
        }
    }
}

const UNNAMED: &str = "not recorded by this source: names of hosts and URLs, content types (a profile has hashes of names; loligo top counts names while \
                       a proxy runs)";

/// The tables, with `rows` rows each. Without `names` they say that this source has none.
pub(crate) fn tables(names: Option<&Names>, rows: usize) -> Vec<Table> {
    let empty = Names::default();
    let of = names.unwrap_or(&empty);
    [
        ("hosts", "Hosts with the most requests", &of.hosts),
        ("types", "Content types with the most requests", &of.types),
        ("urls", "URLs with the most requests", &of.urls),
        ("urls-missed", "URLs with the most misses", &of.missed),
        ("urls-large", "URLs with the most bytes", &of.large),
    ]
    .map(|(id, title, heavy)| {
        let (heaviest, lost) = heavy.heaviest(rows);
        Table {
            id: id.to_owned(),
            title: title.to_owned(),
            facts: heaviest
                .iter()
                .map(|(name, tally)| fact(name, tally, lost > 0))
                .collect(),
            not_recorded: names.is_none().then(|| UNNAMED.to_owned()),
        }
    })
    .into()
}

fn fact(name: &[u8], tally: &Tally, is_least: bool) -> Fact {
    let percent = |some: u64, of: u64| match of {
        0 => "-".to_owned(),
        _ => format!("{:.1} %", some as f64 / of as f64 * 100.0),
    };
    let least = if is_least { "at least " } else { "" };
    Fact {
        name: String::from_utf8_lossy(name).into_owned(),
        value: format!(
            "{least}{} requests, {} misses, {} bytes, hits {}, of bytes {}",
            tally.requests,
            tally.misses,
            tally.bytes,
            percent(tally.hits, tally.requests),
            percent(tally.hit_bytes, tally.bytes),
        ),
    }
}

#[cfg(test)]
mod tests {
    use profile::Class;

    use super::*;

    fn see(names: &mut Names, class: Class, url: &str, host: &str, content_type: &str) {
        let mut record = Record::begun(1_700_000_000_000_000);
        (record.class, record.status, record.bytes_out) = (class, 200, 100);
        let asked = Asked {
            url: url.as_bytes(),
            host: host.as_bytes(),
            content_type: content_type.as_bytes(),
        };
        names.see(&record, &asked);
    }

    #[test]
    fn hit_ratios_by_host_and_type() {
        let mut names = Names::default();
        see(&mut names, Class::Miss, "http://a/1", "a", "text/html");
        see(
            &mut names,
            Class::DiskHit,
            "http://A/1",
            "A",
            "Text/HTML;charset=x",
        );
        see(&mut names, Class::Uncachable, "http://b/", "b", "-");
        see(&mut names, Class::Tunnel, "c:443", "c:443", "-");
        let tables = tables(Some(&names), 10);
        let facts = |at: usize| -> Vec<String> {
            let facts = tables[at].facts.iter();
            facts.map(|f| format!("{}: {}", f.name, f.value)).collect()
        };
        assert_eq!(
            facts(0),
            [
                "a: 2 requests, 1 misses, 200 bytes, hits 50.0 %, of bytes 50.0 %",
                "b: 1 requests, 0 misses, 100 bytes, hits 0.0 %, of bytes 0.0 %"
            ]
        );
        assert!(facts(1)[0].starts_with("text/html: 2 requests"));
        assert_eq!(facts(3).len(), 1);
        assert_eq!(tables[0].not_recorded, None);
    }

    #[test]
    fn without_names_it_says_so() {
        for table in tables(None, 10) {
            assert!(table.facts.is_empty());
            assert!(
                table
                    .not_recorded
                    .is_some_and(|why| why.starts_with("not recorded"))
            );
        }
    }
}
