//! Front-rear hashing against the linear method and a balanced tree, under what a disk cache allocates and frees.
//!
//! A stream goes through the method's two caches; every write takes a run of chunks, every delete gives one back. All managers cut
//! from the largest piece, so they give the same extents for the same calls: the sequence is made once and played back
//! to each, which must answer the same. How full the space is follows from how much larger it is than the disk cache.
//!
//! What is timed is each call by itself; what reading the clock costs is taken off, and the thousandth of the calls that took longest
//! is left out, since there somebody else had the processor. The first quarter of the calls is not counted: the space is not
//! full yet.
//!
//! Limits: the sequence is in memory, 12 bytes a call.
//! Source: paper 000 section 4.4; the same against the number of pieces: `cargo bench -p extent`.

use std::time::Instant;

use extent::{Chunk, Chunks, Extent, LinearMerge, SpaceManager, TreeMerge, Unified, WordMerge};
use page::{Axis, Page, Plot, Series, Table};
use serde::Serialize;

use crate::cache::{LevelSettings, Requests, Settings};
use crate::{Access, DiskOp};

const WARMING_PERCENT: usize = 25;

/// There was no room.
const NOTHING: Extent = Extent {
    first: Chunk(0),
    len: Chunks(0),
};

/// A call and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    /// So many chunks, and where; or [`NOTHING`].
    Take(u32, Extent),
    Free(Extent),
}

/// Calls to an allocator, and what it answered.
#[derive(Debug, Clone)]
pub struct Sequence {
    total: Chunks,
    calls: Vec<Call>,
    no_room: u64,
    pieces: usize,
}

/// What one manager needed.
#[derive(Debug, Clone, Serialize)]
pub struct Cost {
    /// Which.
    pub manager: &'static str,
    /// Nanoseconds to take a run, mean.
    pub take_ns: f64,
    /// Nanoseconds to give one back, mean.
    pub free_ns: f64,
}

/// All managers under one sequence.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// Of the space, what the disk cache may use.
    pub full_percent: u8,
    /// Chunks of the space.
    pub chunks: u32,
    /// Calls.
    pub calls: u64,
    /// Of these, those that found no run long enough.
    pub no_room: u64,
    /// Free pieces at the end.
    pub pieces: u64,
    /// By manager.
    pub costs: Vec<Cost>,
}

impl Sequence {
    /// What a disk cache of `disk_bytes` behind a memory cache asks for, in a space that it fills to `full_percent`.
    /// Objects take whole chunks, in the cache's account too.
    pub fn record(
        accesses: impl Iterator<Item = Access>,
        memory_bytes: u64,
        disk_bytes: u64,
        chunk_bytes: u32,
        full_percent: u8,
    ) -> Sequence {
        let settings = Settings {
            memory: LevelSettings::lru(memory_bytes),
            disk: LevelSettings::lru(disk_bytes),
        };
        let whole = |bytes: u32| {
            bytes
                .div_ceil(chunk_bytes)
                .max(1)
                .saturating_mul(chunk_bytes)
        };
        let accesses = accesses.map(|access| Access {
            size_bytes: whole(access.size_bytes),
            ..access
        });
        let chunks =
            disk_bytes / u64::from(chunk_bytes) * 100 / u64::from(full_percent.clamp(1, 100));
        let total = Chunks(u32::try_from(chunks).unwrap_or(u32::MAX - 1));
        let mut space = Unified::new_all_free(total);
        let mut held: Vec<Option<Extent>> = Vec::new();
        let mut sequence = Sequence {
            total,
            calls: Vec::new(),
            no_room: 0,
            pieces: 0,
        };
        for request in Requests::new(&settings, accesses) {
            let at = request.object as usize;
            if held.len() <= at {
                held.resize(at + 1, None);
            }
            match request.op {
                DiskOp::Read => {}
                DiskOp::Write => {
                    let len = request.size_bytes / chunk_bytes;
                    held[at] = space.allocate(Chunks(len));
                    sequence.no_room += u64::from(held[at].is_none());
                    sequence
                        .calls
                        .push(Call::Take(len, held[at].unwrap_or(NOTHING)));
                }
                DiskOp::Delete => {
                    if let Some(extent) = held[at].take() {
                        space.free(extent);
                        sequence.calls.push(Call::Free(extent));
                    }
                }
            }
        }
        sequence.pieces = space.pieces();
        sequence
    }

    /// Plays it back to all managers, `rounds` times in turn; of each the least.
    pub fn compare(&self, full_percent: u8, rounds: usize) -> Comparison {
        let clock_ns = clock_ns();
        type Play = fn(&Sequence) -> (f64, f64);
        let managers: [(&str, Play); 4] = [
            ("front-rear hashing", Sequence::play::<Unified>),
            ("linear, bit by bit", Sequence::play::<LinearMerge>),
            ("linear, word by word", Sequence::play::<WordMerge>),
            ("balanced tree", Sequence::play::<TreeMerge>),
        ];
        let mut costs: Vec<Cost> = managers
            .iter()
            .map(|&(manager, _)| Cost {
                manager,
                take_ns: f64::MAX,
                free_ns: f64::MAX,
            })
            .collect();
        for _ in 0..rounds.max(1) {
            for ((_, play), cost) in managers.iter().zip(&mut costs) {
                let (take_ns, free_ns) = play(self);
                cost.take_ns = cost.take_ns.min(take_ns - clock_ns).max(0.0);
                cost.free_ns = cost.free_ns.min(free_ns - clock_ns).max(0.0);
            }
        }
        Comparison {
            full_percent,
            chunks: self.total.0,
            calls: self.calls.len() as u64,
            no_room: self.no_room,
            pieces: self.pieces as u64,
            costs,
        }
    }

    /// Mean nanoseconds of a take and of a free, the clock's own included.
    fn play<S: SpaceManager>(&self) -> (f64, f64) {
        let mut space = S::new_all_free(self.total);
        let warm = self.calls.len() * WARMING_PERCENT / 100;
        let (mut takes, mut frees) = (Vec::new(), Vec::new());
        for (at, call) in self.calls.iter().enumerate() {
            let began = Instant::now();
            let times = match *call {
                Call::Take(len, answer) => {
                    let found = space.allocate(Chunks(len));
                    let found = found.unwrap_or(NOTHING);
                    assert_eq!(
                        found, answer,
                        "a manager that answers otherwise is another layout"
                    );
                    &mut takes
                }
                Call::Free(extent) => {
                    space.free(extent);
                    &mut frees
                }
            };
            let ns = u32::try_from(began.elapsed().as_nanos()).unwrap_or(u32::MAX);
            if at >= warm {
                times.push(ns);
            }
        }
        (mean_ns(takes), mean_ns(frees))
    }
}

/// The mean, without the thousandth that took longest: there somebody else had the processor.
fn mean_ns(mut times: Vec<u32>) -> f64 {
    times.sort_unstable();
    times.truncate(times.len() - times.len() / 1000);
    times.iter().map(|&ns| f64::from(ns)).sum::<f64>() / times.len().max(1) as f64
}

/// What it costs to look at the clock twice and find nothing between.
fn clock_ns() -> f64 {
    const LOOKS: usize = 100_000;
    let look = |_| u32::try_from(Instant::now().elapsed().as_nanos()).unwrap_or(u32::MAX);
    mean_ns((0..LOOKS).map(look).collect())
}

/// A row for each way to fill the space, columns by manager.
pub fn table(stream: &str, all: &[Comparison]) -> Table {
    let mut columns = vec![
        "full (%)".to_owned(),
        "calls".into(),
        "no room".into(),
        "free pieces".into(),
    ];
    for cost in all.first().map_or(&[][..], |first| &first.costs) {
        columns.push(format!("{}: take (ns)", cost.manager));
        columns.push("free (ns)".to_owned());
    }
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new(
        &format!("{stream}: finding the neighbours of what is freed"),
        &columns,
    );
    for row in all {
        let counts = [row.full_percent.into(), row.calls, row.no_room, row.pieces]
            .map(|count: u64| count.to_string());
        let costs = row
            .costs
            .iter()
            .flat_map(|cost| [cost.take_ns, cost.free_ns])
            .map(|ns| format!("{ns:.0}"));
        table.row(counts.into_iter().chain(costs));
    }
    table
}

/// Tables, and plots of what the calls cost.
pub fn page(all: &[(String, Vec<Comparison>)]) -> Page {
    let mut page = Page::new("Free space");
    page.text(
        "Every write of the disk cache takes a run of chunks, every delete gives one back; all managers answer alike. \
         Mean time of a call, without the slowest thousandth; the first quarter of the calls is not counted.",
    );
    for (stream, rows) in all {
        page.heading(stream);
        page.plot(&plot(stream, rows, "taking a run", |cost| cost.take_ns));
        page.plot(&plot(stream, rows, "giving one back", |cost| cost.free_ns));
        page.table(&table(stream, rows));
    }
    page
}

/// Bars for each fullness, one a manager.
fn plot(stream: &str, rows: &[Comparison], what: &str, cost: fn(&Cost) -> f64) -> Plot {
    let names: Vec<String> = rows
        .iter()
        .map(|row| format!("{} %", row.full_percent))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let caption = format!("{stream}: {what}");
    let mut plot = Plot::new(
        &caption,
        Axis::linear("space that the cache fills"),
        Axis::linear("time of a call (ns)"),
    )
    .named(&names)
    .called(&format!("freespace-{caption}"));
    let managers = rows.first().map_or(0, |row| row.costs.len());
    for manager in 0..managers {
        let points = rows.iter().enumerate();
        let points = points.map(|(at, row)| (at as f64, cost(&row.costs[manager])));
        plot = plot.with(Series::bars(
            rows[0].costs[manager].manager,
            points.collect(),
        ));
    }
    plot
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::DecLike;

    #[test]
    fn all_managers_answer_alike_and_are_timed() {
        let like = DecLike {
            requests: 20_000,
            ..DecLike::default()
        };
        for full_percent in [50, 99] {
            let sequence = Sequence::record(like.stream(), 1 << 20, 16 << 20, 512, full_percent);
            let freed = sequence
                .calls
                .iter()
                .filter(|call| matches!(call, Call::Free(_)))
                .count();
            assert!(freed > 5_000, "{freed}");
            let found = sequence.compare(full_percent, 1);
            assert!(
                found
                    .costs
                    .iter()
                    .all(|cost| cost.take_ns < 1e6 && cost.free_ns < 1e6)
            );
            assert!(found.no_room < 100 || full_percent == 99, "{found:?}");
            assert!(
                table("dec", std::slice::from_ref(&found))
                    .text()
                    .contains("balanced tree")
            );
            let files = page(&[("dec".to_owned(), vec![found])]).svg_files();
            assert_eq!(files[1].0, "freespace-dec-giving-one-back.svg");
            assert_eq!(files[1].1.matches("<title>").count(), 4, "a bar a manager");
        }
    }
}
