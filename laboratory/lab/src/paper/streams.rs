//! The streams of a report: their contents, and their disk requests.
//!
//! Not known here: managers.

use std::io;

use super::bench::Bench;
use super::printed;
use super::report::{Rows, Section};
use super::source::{KEPT_SHARE, Source};
use super::tables::million;
use super::workload::Workload;
use crate::disks::HEADER_BYTES;
use crate::managers::SLOT_BYTES;
use crate::trace::Skip;

/// The streams side by side.
pub fn streams(benches: &[Bench]) -> io::Result<Section> {
    let mut columns = vec!["", "paper"];
    columns.extend(benches.iter().map(|bench| bench.source.name()));
    let mut rows = Rows::new("Streams and what they ask of the disk", &columns);
    let loads = benches.iter().map(|bench| bench.load(million()));
    let loads = loads.collect::<io::Result<Vec<_>>>()?;
    let mut row = |name: &str, paper: Option<f64>, cell: &dyn Fn(usize) -> Option<f64>| {
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), number);
        let cells = (0..benches.len()).map(|at| shown(cell(at)));
        rows.row([name.to_owned(), shown(paper)].into_iter().chain(cells));
    };
    let trace = |at: usize| match &benches[at].source {
        Source::Fitted { .. } => None,
        Source::Trace(trace) => Some(trace),
    };
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let caches: Vec<_> = benches.iter().map(Bench::caches).collect();
    let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    let loads = &loads;
    let counted = |of: fn(&Workload) -> u64| move |at: usize| Some(of(&loads[at]) as f64);
    row(
        "memory cache (MiB)",
        Some(mib(printed::MEMORY_BYTES)),
        &|at| Some(mib(caches[at].memory_bytes)),
    );
    row("disk cache (MiB)", Some(mib(printed::DISK_BYTES)), &|at| {
        Some(mib(caches[at].disk_bytes))
    });
    row(
        "gets",
        Some(printed::GETS as f64),
        &counted(|l| l.counts.gets),
    );
    row(
        "memory hits (%)",
        Some(percent(printed::MEMORY_HITS, printed::GETS)),
        &|at| Some(percent(loads[at].counts.memory_hits, loads[at].counts.gets)),
    );
    row(
        "disk requests",
        Some(printed::REQUESTS as f64),
        &counted(|l| l.counts.disk_requests()),
    );
    row(
        "  reads",
        Some(printed::READS as f64),
        &counted(|l| l.counts.reads),
    );
    row(
        "  writes",
        Some(printed::WRITES as f64),
        &counted(|l| l.counts.writes),
    );
    row(
        "  deletes",
        Some(printed::DELETES as f64),
        &counted(|l| l.counts.deletes),
    );
    row("    of older versions (%)", None, &|at| {
        Some(percent(loads[at].counts.replaced, loads[at].counts.deletes))
    });
    row("mean written (KB)", None, &|at| {
        Some(loads[at].counts.write_bytes as f64 / loads[at].counts.writes.max(1) as f64 / 1024.0)
    });
    row(
        "most objects on disk",
        None,
        &counted(|l| l.live_objects_max),
    );
    row("most on disk, in slots (MiB)", None, &|at| {
        Some(mib(loads[at].live_slots_max * u64::from(SLOT_BYTES)))
    });
    row("reads near another of their server (%)", None, &|at| {
        Some(percent(loads[at].near_reads, loads[at].counts.reads))
    });
    row("writes near another of their server (%)", None, &|at| {
        Some(percent(loads[at].near_writes, loads[at].counts.writes))
    });
    row("servers in the trace", None, &|at| {
        trace(at).map(|t| t.servers as f64)
    });
    row("objects in the trace", None, &|at| {
        trace(at).map(|t| t.objects as f64)
    });
    let mut text = vec![format!(
        "\"Fitted\" is the stream that is fitted to the paper's counts and comparisons of managers. A trace's caches, unless they were named: the disk cache is {:.1} % \
         of what a disk without limit would be written, as the paper's disk kept {} of {} objects; memory is a quarter of it; neither is \
         larger than the paper's. A read is near another if one of the nine before it was of its server, so that a batch of ten could bring \
         both; a write likewise, so that the two lie together without any buffer. Slots are {SLOT_BYTES} bytes, and an object has a header of {HEADER_BYTES}.",
        100.0 * KEPT_SHARE,
        printed::WRITES - printed::DELETES,
        printed::WRITES
    )];
    text.extend((0..benches.len()).filter_map(|at| trace(at).and_then(|t| odd(t))));
    Ok(Section {
        name: "streams".to_owned(),
        title: "The streams of requests".to_owned(),
        text,
        tables: vec![rows],
        plots: Vec::new(),
    })
}

/// Reservations about a trace's figures; `None` if there are none.
pub(super) fn odd(trace: &super::source::Surveyed) -> Option<String> {
    let mut notes = Vec::new();
    if trace.servers <= 1 {
        notes.push(
            "it names one server only, so MULTIPLE-DIRS has one directory and locality buffers gather everything: claims about them \
             cannot be judged"
                .to_owned(),
        );
    }
    if trace.too_large > 0 {
        notes.push(format!(
            "{} misses are larger than the disk cache and not written",
            trace.too_large
        ));
    }
    if trace.derived && trace.caches == super::source::Caches::PAPER {
        notes.push(
            "it would need larger caches than the paper's, for which the modelled disk has no room"
                .to_owned(),
        );
    }
    let skipped = Skip::ALL.iter().zip(&trace.tally.skipped);
    for (skip, count) in skipped.filter(|&(_, &count)| count > 0) {
        notes.push(format!(
            "{count} of {} lines: {}",
            trace.tally.lines,
            skip.words()
        ));
    }
    if trace.tally.bad > 0 {
        notes.push(format!(
            "{} of {} lines are not understood",
            trace.tally.bad, trace.tally.lines
        ));
    }
    if let Some(first) = trace.tally.bad_shown.first() {
        notes.push(format!("the first of them is {first}"));
    }
    (!notes.is_empty()).then(|| format!("{} ({}): {}.", trace.name, trace.format, notes.join("; ")))
}

/// A number without decimals if it is whole or at least 1000, else with one.
fn number(value: f64) -> String {
    if value.fract() == 0.0 || value >= 1000.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}
