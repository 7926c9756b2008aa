//! What `bench store-rivals` makes of what it saw: figures, the table, the reasons for what is missing.
//!
//! A figure is a number or the reason why there is none; never a guess. [`LINES`] is the table: what stands in front, how many
//! decimals, and where the figure is kept.

use serde::Serialize;

use super::super::table::Table;
use super::pss::Memory;
use crate::block::DeviceStat;

const MIB: f64 = (1 << 20) as f64;

/// A number, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Figure {
    Found(f64),
    Missing { why: String },
}

impl Figure {
    /// None, for this reason.
    pub fn missing(why: impl Into<String>) -> Self {
        Self::Missing { why: why.into() }
    }

    /// `of` for each of `count`, which may be none.
    fn each(of: f64, count: f64, nobody: &str) -> Self {
        if count > 0.0 {
            Self::Found(of / count)
        } else {
            Self::missing(nobody)
        }
    }
}

/// A start over what was stored before.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Comeback {
    pub stop_s: Figure,
    pub first_hit_s: Figure,
    /// of a sample one second after the start
    pub early_percent: Figure,
    /// of the last sample
    pub last_percent: Figure,
    pub last_s: Figure,
    /// of those that were stored just before the end
    pub newest_percent: Figure,
}

#[cfg(test)]
impl Comeback {
    /// There was none.
    pub fn missing(why: &str) -> Self {
        let figure = || Figure::missing(why);
        Self {
            stop_s: figure(),
            first_hit_s: figure(),
            early_percent: figure(),
            last_percent: figure(),
            last_s: figure(),
            newest_percent: figure(),
        }
    }
}

/// What was read of the counters.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Seen {
    /// asked for, so that they would be stored
    pub objects: u64,
    /// their bodies
    pub bytes: u64,
    /// times they were all asked for: more than once if some were not stored at first
    pub passes: u32,
    /// stored when first asked for
    pub at_once_percent: f64,
    /// a server with a cache of next to no size, its memory tier full
    pub small: Memory,
    /// just started
    pub started: Memory,
    /// its memory tier full, before the objects
    pub before: Memory,
    pub after: Memory,
    #[serde(skip)]
    pub stored: DeviceStat,
    /// asked for again, with cold caches
    pub read: u64,
    pub read_hits: u64,
    /// None if the caches could not be emptied
    #[serde(skip)]
    pub reads: Option<DeviceStat>,
    pub clean: Comeback,
    pub crash: Comeback,
}

/// One server's column.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Figures {
    at_once_percent: Figure,
    hit_percent: Figure,
    started_mib: Figure,
    full_mib: Figure,
    memory_bytes_an_object: Figure,
    shared_bytes_an_object: Figure,
    memory_bytes_an_object_beside_small: Figure,
    mapped_bytes_an_object: Figure,
    device_writes_an_object: Figure,
    bytes_written_per_byte_stored: Figure,
    device_reads_a_hit: Figure,
    kib_read_a_hit: Figure,
    clean: Comeback,
    crash: Comeback,
}

impl Figures {
    /// Of what was seen. Objects that were not stored count for nothing.
    pub fn of(seen: &Seen) -> Self {
        let share = if seen.read > 0 {
            seen.read_hits as f64 / seen.read as f64
        } else {
            0.0
        };
        let stored = seen.objects as f64 * share;
        let grown = |after: u64, before: u64| {
            Figure::each(after as f64 - before as f64, stored, "nothing was stored")
        };
        let a_hit = |of: fn(&DeviceStat) -> f64| match &seen.reads {
            Some(reads) => Figure::each(of(reads), seen.read_hits as f64, "nothing was a hit"),
            None => Figure::missing("its pages cannot be made to leave memory"),
        };
        Self {
            at_once_percent: Figure::Found(seen.at_once_percent),
            hit_percent: Figure::Found(share * 100.0),
            started_mib: Figure::Found(seen.started.held() as f64 / MIB),
            full_mib: Figure::Found(seen.after.held() as f64 / MIB),
            memory_bytes_an_object: grown(seen.after.held(), seen.before.held()),
            shared_bytes_an_object: grown(seen.after.shared, seen.before.shared),
            memory_bytes_an_object_beside_small: grown(seen.after.held(), seen.small.held()),
            mapped_bytes_an_object: grown(seen.after.mapped, seen.before.mapped),
            device_writes_an_object: Figure::each(
                seen.stored.writes as f64,
                stored,
                "nothing was stored",
            ),
            bytes_written_per_byte_stored: Figure::each(
                seen.stored.write_bytes as f64,
                seen.bytes as f64 * share,
                "nothing was stored",
            ),
            device_reads_a_hit: a_hit(|d| d.reads as f64),
            kib_read_a_hit: a_hit(|d| d.read_bytes as f64 / 1024.0),
            clean: seen.clean.clone(),
            crash: seen.crash.clone(),
        }
    }
}

/// What stands in front of a line, decimals, and where its figure is.
type Line = (&'static str, usize, fn(&Figures) -> &Figure);

const LINES: &[Line] = &[
    ("stored when first asked for, %", 1, |f| &f.at_once_percent),
    ("hits after all passes, %", 1, |f| &f.hit_percent),
    ("memory just started, MiB", 1, |f| &f.started_mib),
    ("memory with all objects, MiB", 1, |f| &f.full_mib),
    ("**memory an object**, grown by, B", 1, |f| {
        &f.memory_bytes_an_object
    }),
    ("- of that shared between processes, B", 1, |f| {
        &f.shared_bytes_an_object
    }),
    ("- beside a server with a small cache, B", 1, |f| {
        &f.memory_bytes_an_object_beside_small
    }),
    ("pages of files mapped, an object, B", 1, |f| {
        &f.mapped_bytes_an_object
    }),
    ("**device writes an object**", 3, |f| {
        &f.device_writes_an_object
    }),
    ("**bytes written per byte stored**", 3, |f| {
        &f.bytes_written_per_byte_stored
    }),
    ("**device reads a hit**", 3, |f| &f.device_reads_a_hit),
    ("KiB read a hit", 1, |f| &f.kib_read_a_hit),
    ("clean stop, s", 2, |f| &f.clean.stop_s),
    ("**clean start to first hit**, s", 3, |f| {
        &f.clean.first_hit_s
    }),
    ("- hits at 1 s, %", 1, |f| &f.clean.early_percent),
    ("- hits at the end, %", 1, |f| &f.clean.last_percent),
    ("- which was at, s", 0, |f| &f.clean.last_s),
    ("- of those stored last, %", 1, |f| &f.clean.newest_percent),
    ("**kill -9, start to first hit**, s", 3, |f| {
        &f.crash.first_hit_s
    }),
    ("- **hits at 1 s**, %", 1, |f| &f.crash.early_percent),
    ("- **hits at the end**, %", 1, |f| &f.crash.last_percent),
    ("- which was at, s", 0, |f| &f.crash.last_s),
    ("- of those stored last, %", 1, |f| &f.crash.newest_percent),
];

/// One server: its figures, or why there are none at all.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Column {
    pub server: String,
    pub version: Option<String>,
    /// what is special about it here
    pub what: String,
    pub outcome: Outcome,
    pub seconds: f64,
    /// of the machine, before and after
    pub load: [f64; 2],
}

/// How the measurement of one server went.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Measured(Box<(Figures, Seen)>),
    Failed(String),
}

/// The table, and below it why figures are missing.
pub(super) fn table(columns: &[Column]) -> String {
    let mut header = vec!["store-rivals".to_owned()];
    header.extend(columns.iter().map(|c| c.server.clone()));
    let mut table = Table::with_columns(header);
    let mut reasons: Vec<String> = Vec::new();
    let mut part = "";
    for (title, decimals, figure) in LINES {
        // "- hits at 1 s" says nothing without the line it belongs to.
        if !title.starts_with('-') {
            part = title;
        }
        let mut row = vec![(*title).to_owned()];
        for column in columns {
            row.push(match &column.outcome {
                Outcome::Measured(measured) => match figure(&measured.0) {
                    Figure::Found(number) => rounded(*number, *decimals),
                    Figure::Missing { why } => {
                        let of = if part == *title { "" } else { *title };
                        let reason = format!("{}, {part} {of}: {why}", column.server);
                        reasons.push(reason.replace("**", "").replace(" :", ":"));
                        "-".to_owned()
                    }
                },
                Outcome::Failed(_) => "-".to_owned(),
            });
        }
        table.row(row);
    }
    for column in columns {
        if let Outcome::Failed(why) = &column.outcome {
            reasons.push(format!("{}: {why}", column.server));
        }
    }
    let mut text = table.render();
    if !reasons.is_empty() {
        text.push_str("\nNo figure:\n\n");
    }
    for reason in reasons {
        text.push_str(&format!("* {reason}\n"));
    }
    text
}

/// Without the minus of a negative nothing.
fn rounded(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| matches!(c, '0' | '.')) => rest.to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(anonymous: u64, shared: u64, mapped: u64) -> Memory {
        Memory {
            anonymous,
            shared,
            mapped,
        }
    }

    fn seen() -> Seen {
        Seen {
            objects: 1000,
            bytes: 1_000_000,
            passes: 1,
            at_once_percent: 49.0,
            small: memory(10_000, 0, 0),
            started: memory(1 << 20, 0, 0),
            before: memory(20_000, 1_000, 500),
            after: memory(30_000, 41_000, 500),
            stored: DeviceStat {
                writes: 500,
                write_bytes: 600_000,
                ..DeviceStat::default()
            },
            read: 100,
            read_hits: 50,
            reads: Some(DeviceStat {
                reads: 75,
                read_bytes: 50 * 16 * 1024,
                ..DeviceStat::default()
            }),
            clean: Comeback::missing("not tried"),
            crash: Comeback::missing("not tried"),
        }
    }

    #[test]
    fn everything_is_counted_by_what_is_stored() {
        let figures = Figures::of(&seen());
        assert_eq!(figures.hit_percent, Figure::Found(50.0));
        assert_eq!(figures.started_mib, Figure::Found(1.0));
        assert_eq!(figures.memory_bytes_an_object, Figure::Found(100.0));
        assert_eq!(figures.shared_bytes_an_object, Figure::Found(80.0));
        assert_eq!(
            figures.memory_bytes_an_object_beside_small,
            Figure::Found(122.0)
        );
        assert_eq!(figures.mapped_bytes_an_object, Figure::Found(0.0));
        assert_eq!(figures.device_writes_an_object, Figure::Found(1.0));
        assert_eq!(figures.bytes_written_per_byte_stored, Figure::Found(1.2));
        assert_eq!(figures.device_reads_a_hit, Figure::Found(1.5));
        assert_eq!(figures.kib_read_a_hit, Figure::Found(16.0));
    }

    #[test]
    fn what_cannot_be_had_says_why() {
        let mut seen = seen();
        seen.read_hits = 0;
        let figures = Figures::of(&seen);
        assert_eq!(
            figures.memory_bytes_an_object,
            Figure::missing("nothing was stored")
        );
        seen.reads = None;
        assert!(matches!(
            Figures::of(&seen).device_reads_a_hit,
            Figure::Missing { .. }
        ));
    }

    #[test]
    fn the_table_has_a_column_a_server_and_reasons_below() {
        let column = |server: &str, outcome| Column {
            server: server.into(),
            version: None,
            what: String::new(),
            outcome,
            seconds: 1.0,
            load: [0.0, 0.0],
        };
        let text = table(&[
            column(
                "a",
                Outcome::Measured(Box::new((Figures::of(&seen()), seen()))),
            ),
            column("b", Outcome::Failed("did not start".into())),
        ]);
        let line = |front: &str| text.lines().find(|l| l.contains(front)).unwrap();
        assert!(line("device writes").ends_with("| 1.000 | - |"), "{text}");
        assert!(text.contains("* a, clean stop, s: not tried\n"), "{text}");
        assert!(
            text.contains("* a, kill -9, start to first hit, s - hits at 1 s, %: not tried\n"),
            "{text}"
        );
        assert!(text.contains("* b: did not start\n"), "{text}");
    }

    #[test]
    fn nothing_has_no_sign() {
        assert_eq!(rounded(-0.04, 1), "0.0");
        assert_eq!(rounded(-0.06, 1), "-0.1");
        assert_eq!(rounded(12.345, 0), "12");
    }
}
