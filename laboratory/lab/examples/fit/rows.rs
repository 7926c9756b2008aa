//! What is compared with the paper: the rows, and how a stream gives them.
//!
//! A row is *fitted* if the stream decides it: counts, and comparisons of two managers that put the same objects on the same disk in
//! another order or place. Rows that the disk's model decides (requests a second; reads against writes) are only *watched*: they are
//! printed, and the fit does not see them.
//!
//! Not known here: parameters, loss.

use std::collections::HashSet;

use lab::cache::{Counts, Level, LevelSettings, Method, Settings as Caches};
use lab::generate::DecLike;
use lab::managers::{Kind, Settings};
use lab::paper::experiment::{Job, Model, each};
use lab::paper::printed;
use lab::paper::workload::Workload;

/// A printed value.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// What it is.
    pub name: &'static str,
    /// What the paper prints.
    pub printed: f64,
    /// A deviation by this factor, less one, costs 1. `None`: only watched.
    pub tolerance: Option<f64>,
    /// How the paper has it, or why it is only watched.
    pub source: &'static str,
}

const fn fitted(name: &'static str, printed: f64, tolerance: f64, source: &'static str) -> Row {
    Row {
        name,
        printed,
        tolerance: Some(tolerance),
        source,
    }
}

const fn watched(name: &'static str, printed: f64, source: &'static str) -> Row {
    Row {
        name,
        printed,
        tolerance: None,
        source,
    }
}

/// Number of rows.
pub const ROWS: usize = 23;

/// The rows, in the order of [`see`]'s answer.
#[rustfmt::skip]
pub const TABLE: [Row; ROWS] = [
    //= paper 002 section 3.1, footnote 3   the fifth count, gets, is where the stream ends
    fitted("memory hits", printed::MEMORY_HITS as f64, 0.01, "footnote 3"),
    fitted("reads", printed::READS as f64, 0.02, "footnote 3; seeds differ by 2 %"),
    fitted("writes", printed::WRITES as f64, 0.01, "footnote 3"),
    fitted("deletes", printed::DELETES as f64, 0.01, "footnote 3"),
    fitted("gets of 300,000 requests, 1 GB", printed::FIGURE_4_GETS as f64, 0.03, "Figure 4; another disk, a third of the stream"),
    fitted("reads + writes of 5 M gets (M)", 3.4, 0.02, "Figure 2, footnote 4; two digits"),
    fitted("71 %: LOC / PACKETIZER", 2791.0 / 2176.0, 0.05, "Table 1"),
    fitted("71 %: both / LAZY-READS", 2528.0 / 2031.0, 0.05, "Table 1"),
    fitted("76 %: LOC-128 / LAZY-READS", 2.5, 0.2, "Figure 8, words"),
    fitted("95 %: STREAM / BUDDY", 1.0, 0.15, "Figure 6, words: comparable"),
    fitted("95 %: PACKETIZER / BUDDY", 1.0, 0.15, "Figure 6, words: comparable"),
    watched("71 %: LAZY-READS / PACKETIZER", 2791.0 / 2528.0, "Table 1; the system's clustering decides"),
    watched("71 %: STREAM / BUDDY", 2.0, "Figure 6; what a scattered write costs decides"),
    watched("71 %: PACKETIZER / BUDDY", 2.5, "Figure 6; the same"),
    watched("BUDDY, Figure 4 (requests/s)", 133.0, "the disk decides"),
    watched("BUDDY (requests/s)", 133.0, "the disk decides"),
    watched("STREAM, 71 % (requests/s)", 295.0, "the disk decides"),
    watched("PACKETIZER, 71 % (requests/s)", 358.0, "the disk decides"),
    watched("LAZY-READS, 71 % (requests/s)", 396.0, "the disk decides"),
    watched("LAZY-READS-LOC, 71 % (requests/s)", 495.0, "the disk decides"),
    watched("new versions among the deletes", f64::NAN, "not printed"),
    watched("objects a server", 20.0, "BU's; not printed"),
    watched("median size (B)", 3072.0, "section 3.2, of another proxy"),
];

fn load(
    like: DecLike,
    disk_bytes: u64,
    stop: impl Fn(&Counts, usize) -> bool,
) -> (Workload, Counts) {
    let mut method = Method::new(&Caches {
        memory: LevelSettings::lru(printed::MEMORY_BYTES),
        disk: LevelSettings::lru(disk_bytes),
    });
    let mut requests = Vec::new();
    let endless = DecLike {
        requests: u64::MAX,
        ..like
    };
    for access in endless.stream() {
        if stop(method.counts(), requests.len()) {
            break;
        }
        method.get(&access, |request| requests.push(request));
    }
    let counts = *method.counts();
    let load = Workload::new(counts.gets, counts.memory_hits, requests);
    (load, counts)
}

/// Reads and writes of Figure 2's gets: what misses memory, whatever the disk.
fn past_memory(like: DecLike) -> u64 {
    let mut memory = Level::new(LevelSettings::lru(printed::MEMORY_BYTES));
    let mut misses = 0;
    let longer = DecLike {
        requests: printed::FIGURE_2_GETS,
        ..like
    };
    for access in longer.stream() {
        if !memory.ask(access.object, access.size_bytes, &mut None) {
            misses += 1;
            memory.insert(access.object, access.size_bytes, |_, _| ());
        }
    }
    misses
}

/// Objects a server, and the median size of objects as first seen.
fn nature(like: DecLike) -> (f64, f64) {
    let (mut seen, mut sizes) = (HashSet::new(), Vec::new());
    let mut servers = HashSet::new();
    for access in like.stream() {
        servers.insert(access.server);
        if seen.insert(access.object) {
            sizes.push(access.size_bytes);
        }
    }
    let middle = sizes.len() / 2;
    let median = *sizes.select_nth_unstable(middle).1;
    (sizes.len() as f64 / servers.len() as f64, f64::from(median))
}

/// The first four rows, which are cheap.
pub fn counts(like: DecLike) -> [f64; 4] {
    let (_, counts) = load(like, printed::DISK_BYTES, |counts, _| {
        counts.gets >= printed::GETS
    });
    [
        counts.memory_hits as f64,
        counts.disk_hits as f64,
        counts.writes as f64,
        counts.deletes as f64,
    ]
}

fn rate(kind: Kind, utilisation: f64, load: &Workload) -> f64 {
    let job = Job {
        kind,
        settings: Settings::default(),
        utilisation,
        model: Model::Disk1999,
    };
    let outcome = job.run(load, |_| true);
    outcome
        .expect("a modelled disk has no errors")
        .requests_per_s
}

/// What the stream gives for each row of [`TABLE`]. Rows that are only watched cost time; without `watched` they are not numbers.
pub fn see(like: DecLike, watched: bool) -> [f64; ROWS] {
    let (load_2, counts) = load(like, printed::DISK_BYTES, |counts, _| {
        counts.gets >= printed::GETS
    });
    let (load_1, counts_1) = load(like, printed::FIGURE_4_DISK_BYTES, |_, requests| {
        requests >= printed::FIGURE_4_REQUESTS
    });
    let mut runs = vec![
        (Kind::Buddy, 0.71, &load_2),
        (Kind::StreamPacketizer, 0.71, &load_2),
        (Kind::LazyReads, 0.71, &load_2),
        (Kind::StreamLoc, 0.71, &load_2),
        (Kind::LazyReadsLoc, 0.71, &load_2),
        (Kind::LazyReads, 0.76, &load_2),
        (Kind::LazyReadsLoc, 0.76, &load_2),
        (Kind::Stream, 0.95, &load_2),
        (Kind::StreamPacketizer, 0.95, &load_2),
    ];
    if watched {
        runs.push((Kind::Stream, 0.71, &load_2));
        runs.push((Kind::Buddy, 0.71, &load_1));
    }
    let (rates, past_memory) = std::thread::scope(|scope| {
        let past_memory = scope.spawn(|| past_memory(like));
        let rates = each(&runs, |&(kind, full, load)| rate(kind, full, load));
        (rates, past_memory.join().expect("counting does not fail"))
    });
    let [
        buddy,
        pack,
        lazy,
        loc,
        both,
        lazy_76,
        both_76,
        stream_95,
        pack_95,
    ] = std::array::from_fn(|at| rates[at]);
    let [stream, buddy_4] =
        std::array::from_fn(|at| rates.get(9 + at).copied().unwrap_or(f64::NAN));
    let (objects_a_server, median) = if watched {
        nature(like)
    } else {
        (f64::NAN, f64::NAN)
    };
    [
        counts.memory_hits as f64,
        counts.disk_hits as f64,
        counts.writes as f64,
        counts.deletes as f64,
        counts_1.gets as f64,
        past_memory as f64 / 1e6,
        loc / pack,
        both / lazy,
        both_76 / lazy_76,
        stream_95 / buddy,
        pack_95 / buddy,
        lazy / pack,
        stream / buddy,
        pack / buddy,
        buddy_4,
        buddy,
        stream,
        pack,
        lazy,
        both,
        counts.replaced as f64 / counts.deletes as f64,
        objects_a_server,
        median,
    ]
}

/// The rows of several seeds, each the geometric mean.
pub fn mean(like: DecLike, seeds: &[u64], watched: bool) -> [f64; ROWS] {
    let all: Vec<[f64; ROWS]> = seeds
        .iter()
        .map(|&seed| see(DecLike { seed, ..like }, watched))
        .collect();
    middle(&all)
}

/// The geometric mean, row by row.
pub fn middle(all: &[[f64; ROWS]]) -> [f64; ROWS] {
    std::array::from_fn(|at| {
        let logs: f64 = all.iter().map(|rows| rows[at].ln()).sum();
        (logs / all.len() as f64).exp()
    })
}
