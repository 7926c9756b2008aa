//! Requests by the client's protocol and the encryption of its connection.
//!
//! The counts have names among those of a report (`requests over HTTP/2, TLSv1.3, full`), so that reports can be joined.
//!
//! Not known here: slots.   Limits: a row for each protocol with each encryption, 35 at most.

use std::collections::BTreeMap;

use profile::{Encryption, Flags, Protocol, Record};

use crate::cells::asked_a_server;
use crate::kinds::{Group, HITS};
use crate::known::Known;
use crate::model::{Fact, SourceReport, Table};

/// What is counted for each row.
const MEASURES: [&str; 4] = ["requests", "documents", "hits", "bytes"];
/// Separates the measure from the name of the row.
const OVER: &str = " over ";
/// The table's id.
pub(crate) const ID: &str = "protocols";

/// Counts under construction.
#[derive(Default)]
pub(crate) struct Protocols(BTreeMap<(Protocol, bool, Encryption), [u64; MEASURES.len()]>);

impl Protocols {
    /// Counts a request.
    pub(crate) fn see(&mut self, record: &Record) {
        let is_encrypted = record.flags.contains(Flags::TLS_CLIENT);
        let row = (record.http_client, is_encrypted, record.encryption);
        let group = Group::of(record, asked_a_server(record));
        let is_hit = group.is_some_and(|group| HITS.contains(&group));
        let more = [1, group.is_some().into(), is_hit.into(), record.bytes_out];
        for (sum, more) in self.0.entry(row).or_default().iter_mut().zip(more) {
            *sum = sum.saturating_add(more);
        }
    }

    /// The counts with their names.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (String, u64)> {
        self.0.iter().flat_map(|(row, counts)| {
            let name = name_of(*row);
            let named = MEASURES.iter().zip(counts);
            named.map(move |(measure, count)| (format!("{measure}{OVER}{name}"), *count))
        })
    }
}

fn name_of((protocol, is_encrypted, encryption): (Protocol, bool, Encryption)) -> String {
    let protocol = match protocol {
        Protocol::Unknown => "no request understood",
        known => known.as_str(),
    };
    let session = match (is_encrypted, encryption) {
        (false, _) => "plain",
        (true, Encryption::None) => "TLS of a version that is not recorded",
        (true, encryption) if encryption.is_resumed() => {
            return format!("{protocol}, {}, resumed", encryption.version());
        }
        (true, encryption) => return format!("{protocol}, {}, full", encryption.version()),
    };
    format!("{protocol}, {session}")
}

/// The table, from the counts of a report.
pub(crate) fn table(report: &SourceReport, known: Known) -> Table {
    let count = |measure: &str, row: &str| {
        let name = format!("{measure}{OVER}{row}");
        report.counts.get(&name).copied().unwrap_or(0)
    };
    let first = format!("{}{OVER}", MEASURES[0]);
    let rows: Vec<&str> = (report.counts.keys())
        .filter_map(|name| name.strip_prefix(&first))
        .collect();
    let sum =
        |measure| (rows.iter()).fold(0u64, |sum, row| sum.saturating_add(count(measure, row)));
    let (requests, bytes) = (sum("requests"), sum("bytes"));
    let percent = |some: u64, of: u64| match of {
        0 => "-".to_owned(),
        _ => format!("{:.1} %", some as f64 / of as f64 * 100.0),
    };
    let fact = |row: &&str| Fact {
        name: (*row).to_owned(),
        value: format!(
            "{} requests ({}), {} bytes ({}), hits {}",
            count("requests", row),
            percent(count("requests", row), requests),
            count("bytes", row),
            percent(count("bytes", row), bytes),
            percent(count("hits", row), count("documents", row)),
        ),
    };
    let not_recorded = known.missing(Known::PROTOCOLS, report.kind);
    Table {
        id: ID.to_owned(),
        title: "Requests by protocol and encryption".to_owned(),
        facts: match not_recorded {
            Some(_) => Vec::new(),
            None => rows.iter().map(fact).collect(),
        },
        not_recorded,
    }
}

#[cfg(test)]
mod tests {
    use profile::Class;

    use super::*;

    #[test]
    fn names_tell_plain_from_what_is_not_recorded() {
        for (row, name) in [
            (
                (Protocol::Http11, false, Encryption::None),
                "HTTP/1.1, plain",
            ),
            (
                (Protocol::Http2, true, Encryption::Tls13Resumed),
                "HTTP/2, TLSv1.3, resumed",
            ),
            (
                (Protocol::Http10, true, Encryption::Tls12),
                "HTTP/1.0, TLSv1.2, full",
            ),
            (
                (Protocol::Http2, true, Encryption::None),
                "HTTP/2, TLS of a version that is not recorded",
            ),
            (
                (Protocol::Unknown, false, Encryption::None),
                "no request understood, plain",
            ),
        ] {
            assert_eq!(name_of(row), name);
        }
    }

    #[test]
    fn tunnels_are_requests_and_no_documents() {
        let mut protocols = Protocols::default();
        let mut record = Record::begun(1_700_000_000_000_000);
        (record.status, record.bytes_out, record.http_client) = (200, 100, Protocol::Http11);
        for class in [Class::MemoryHit, Class::Miss, Class::Tunnel] {
            record.class = class;
            protocols.see(&record);
        }
        let counts: Vec<_> = protocols.counts().map(|(_, count)| count).collect();
        assert_eq!(counts, [3, 2, 1, 300]);
    }
}
