//! Tables 1 to 3 of the paper, the classes of the day, and the paper's model of one disk I/O.

use profile::MarkKind;
use serde_json::Value;

use crate::catalogue::TWO_READS;
use crate::cells::Day;
use crate::disks::Disk;
use crate::kinds::{ALL, Count, PEER_HITS, Timed};
use crate::known::Known;
use crate::model::{Fact, SourceKind, SourceReport, Table};
use crate::protocols;
use crate::uniques::Uniques;
use crate::values::{Union, Values};

/// Most facts from the text of a mark; further ones are left out.
const FACTS_MAX: usize = 64;
/// Deepest nesting in the text of a mark.
const DEPTH_MAX: usize = 8;

pub(crate) fn tables(
    report: &SourceReport,
    uniques: Uniques,
    day: &Day,
    known: Known,
) -> Vec<Table> {
    vec![
        from_mark(report, "1", "Proxy", MarkKind::Start),
        from_mark(report, "2", "Configuration", MarkKind::Configuration),
        traffic(report, uniques),
        classes(report, known),
        protocols::table(report, known),
        disks(day, known, report.kind),
        one_io(day, known, report.kind),
    ]
}

fn table(id: &str, title: &str) -> Table {
    Table {
        id: id.to_owned(),
        title: title.to_owned(),
        facts: Vec::new(),
        not_recorded: None,
    }
}

impl Table {
    fn add(&mut self, name: &str, value: impl Into<String>) {
        self.facts.push(Fact {
            name: name.to_owned(),
            value: value.into(),
        });
    }
}

/// A table of the last mark of this kind, which describes the present state.
fn from_mark(report: &SourceReport, id: &str, title: &str, kind: MarkKind) -> Table {
    let mut table = table(id, title);
    let mark = (report.marks.iter().rev()).find(|mark| mark.kind == kind.as_str());
    match mark.map(|mark| serde_json::from_str::<Value>(&mark.text)) {
        None => {
            table.not_recorded = Some(format!(
                "not recorded by this source: no mark of kind {}. Loligo writes it into `log.profile` when it begins, so a profile from its \
                 beginning has it; a log has none.",
                kind.as_str()
            ))
        }
        Some(Ok(value)) => flatten("", &value, 0, &mut table),
        Some(Err(_)) => table.add("text", mark.map_or("", |mark| &mark.text)),
    }
    table
}

fn flatten(name: &str, value: &Value, depth: usize, table: &mut Table) {
    let joined = |part: &str| match name {
        "" => part.to_owned(),
        _ => format!("{name} {part}"),
    };
    if table.facts.len() >= FACTS_MAX || depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::Object(members) => {
            for (member, value) in members {
                flatten(&joined(&member.replace('_', " ")), value, depth + 1, table);
            }
        }
        Value::Array(values) => {
            for (i, value) in values.iter().enumerate() {
                flatten(&joined(&(i + 1).to_string()), value, depth + 1, table);
            }
        }
        Value::String(text) => table.add(name, text.clone()),
        Value::Null => table.add(name, "-"),
        other => table.add(name, other.to_string()),
    }
}

pub(crate) fn traffic(report: &SourceReport, uniques: Uniques) -> Table {
    let mut table = table("3", "Traffic");
    table.add("documents", report.counted(Count::Documents).to_string());
    for (name, count) in [
        ("unique documents", uniques.documents),
        ("unique clients", uniques.clients),
        ("unique servers", uniques.servers),
    ] {
        let value = match count {
            Some((count, false)) => count.to_string(),
            Some((count, true)) => format!("about {count}"),
            None => "not recorded".to_owned(),
        };
        table.add(name, value);
    }
    table
}

fn percent(some: u64, of: u64) -> String {
    match of {
        0 => "-".to_owned(),
        _ => format!("{:.1} %", some as f64 / of as f64 * 100.0),
    }
}

pub(crate) fn classes(report: &SourceReport, known: Known) -> Table {
    let mut table = table("classes", "Requests by class");
    let count = |count: Count| report.counted(count);
    let all = count(Count::Requests);
    let rows = [
        ("memory hits", Count::MemoryHits),
        ("disk hits", Count::DiskHits),
        ("IMS hits (304)", Count::ImsHits),
        ("negative hits", Count::NegativeHits),
        ("other hits (revalidated, stale)", Count::OtherHits),
        ("hits at a member of the cluster", Count::MemberHits),
        ("hits at a sibling", Count::SiblingHits),
        ("hits at a parent", Count::ParentHits),
        ("hits beyond the peer", Count::FartherHits),
        ("collapsed", Count::Collapsed),
        ("misses", Count::OwnMisses),
        ("uncachable", Count::Uncachable),
        ("errors", Count::Errors),
        ("tunnels", Count::Tunnels),
        ("aborted by the client", Count::ClientAborted),
        ("aborted by the server", Count::OriginAborted),
        ("not kept by the store", Count::NotKept),
    ];
    for (name, which) in rows {
        if PEER_HITS.contains(&which) && !known.has(Known::PEERS) {
            continue;
        }
        let is_known = match which {
            Count::Uncachable => known.has(Known::UNCACHABLE),
            Count::ClientAborted | Count::OriginAborted => known.has(Known::ABORTS),
            Count::NotKept => known.has(Known::WRITES),
            _ => true,
        };
        let value = match is_known {
            true => format!("{} ({})", count(which), percent(count(which), all)),
            false => "not recorded".to_owned(),
        };
        table.add(name, value);
    }
    table.add(
        "document hit ratio",
        percent(count(Count::Hits), count(Count::Documents)),
    );
    table.add(
        "byte hit ratio",
        percent(count(Count::HitBytes), count(Count::Bytes)),
    );
    if known.has(Known::PEERS) {
        let peers = report.counted_all(PEER_HITS);
        table.add(
            "document hit ratio with peers",
            percent(count(Count::Hits) + peers, count(Count::Documents)),
        );
        table.add(
            "byte hit ratio with peers",
            percent(
                count(Count::HitBytes).saturating_add(count(Count::PeerHitBytes)),
                count(Count::Bytes),
            ),
        );
    }
    table.add("bytes sent", count(Count::Bytes).to_string());
    table
}

/// The table of disks, with a few facts for each.
fn disks(day: &Day, known: Known, kind: SourceKind) -> Table {
    let mut table = table(
        "disks",
        "Disks (disk 1 is the first store of the configuration)",
    );
    let needs =
        Known::stage(profile::StageName::SwapIn).and(Known::stage(profile::StageName::SwapOut));
    table.not_recorded = known.missing(needs, kind);
    if table.not_recorded.is_some() {
        return table;
    }
    for (number, all) in day.all.disks.iter() {
        let busy = day.busy.disks.get(number);
        disk(&mut table, number, all, busy);
    }
    if table.facts.is_empty() {
        table.not_recorded = Some(
            "empty: no request read from a disk or wrote to one. A `[[store]]` in the configuration brings them.".to_owned(),
        );
    }
    table
}

/// Counts are of the whole source, times only of slots that are not idle.
fn disk(table: &mut Table, number: u8, all: &Disk, busy: Option<&Disk>) {
    let counts = all.counts;
    let mut add = |name: &str, value: String| {
        table.add(&format!("disk {}: {name}", u16::from(number) + 1), value);
    };
    let median = |of: fn(&Disk) -> &Values| {
        let union = Union::new(busy.map(of));
        match union.count() {
            0 => "-".to_owned(),
            _ => format!("{:.3} ms", union.at_percent(50) as f64 / 1000.0),
        }
    };
    add("swap-ins", counts.swap_ins.to_string());
    add("swap-in, median", median(|disk| &disk.swap_in));
    add("swap-outs", counts.swap_outs.to_string());
    add("reads", counts.reads.to_string());
    add("read, median", median(|disk| &disk.read));
    add("bytes read", counts.read_bytes.to_string());
    add("writes", counts.writes.to_string());
    add("write, median", median(|disk| &disk.write));
    add("bytes written", counts.write_bytes.to_string());
    let rate = busy.and_then(|disk| disk.busy).and_then(|it| it.rate());
    let share = rate.map_or("-".to_owned(), |rate| format!("{:.1} %", rate * 1e-4));
    add("busy", share);
}

/// Medians of swap-ins with one read and with two reads, microseconds.
pub(crate) fn one_and_two_reads(day: &Day) -> Option<(u64, u64)> {
    let median = |timed| {
        let union = day.busy.union(&[timed], ALL);
        (union.count() > 0).then(|| union.at_percent(50))
    };
    Some((median(Timed::OneRead)?, median(Timed::TwoReads)?))
}

//= paper 001 section 6.6.5   I/O = Total(2 pages) - Total(1 page), overhead = Total(1 page) - I/O
fn one_io(day: &Day, known: Known, kind: SourceKind) -> Table {
    let mut table = table(
        "22",
        "One I/O and its overhead, from swap-ins with one read and with two",
    );
    let needs = Known::DEVICE_READS.and(Known::stage(profile::StageName::SwapIn));
    table.not_recorded = known.missing(needs, kind);
    let Some((one, two)) = one_and_two_reads(day).filter(|_| table.not_recorded.is_none()) else {
        table.not_recorded.get_or_insert(format!(
            "empty: there were no swap-ins with one read, or none with two reads. {TWO_READS}"
        ));
        return table;
    };
    let ms = |us: i64| format!("{:.3} ms", us as f64 / 1000.0);
    let (one, two) = (one as i64, two as i64);
    table.add("total, one read", ms(one));
    table.add("total, two reads", ms(two));
    table.add("I/O", ms(two - one));
    // A negative overhead is shown as such, as in the paper.
    table.add("overhead", ms(one - (two - one)));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_a_mark_are_flat() {
        let text =
            r#"{"version":"0.1","stores":[{"path":"/a","bytes":5},{"path":null}],"cores":2}"#;
        let mut found = table("1", "");
        flatten("", &serde_json::from_str(text).unwrap(), 0, &mut found);
        let facts: Vec<_> = found
            .facts
            .iter()
            .map(|f| format!("{}={}", f.name, f.value))
            .collect();
        let want = [
            "cores=2",
            "stores 1 bytes=5",
            "stores 1 path=/a",
            "stores 2 path=-",
            "version=0.1",
        ];
        assert_eq!(facts, want);
    }
}
