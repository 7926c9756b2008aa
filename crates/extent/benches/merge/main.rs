//! The cost of freeing and allocating, by the number and length of free pieces, for three ways to find neighbours: front-rear hashing, testing
//! bits in a row, and balanced trees.
//!
//! ```text
//! cargo bench -p extent               the full table: under two minutes of one core, 2 GiB
//! cargo bench -p extent -- --quick    small rows only
//! cargo test -p extent --benches      the same small rows, so that this file cannot rot
//! cargo bench -p extent -- --only front-rear,short,1000000     one manager and one row, to be counted
//! ```
//!
//! With `--only` the program is meant to run under a tool that counts instructions and simulates caches, because times depend on other load. All
//! measured work is inside [`free_batch`] and [`take_batch`], and such a tool can be told to count these alone: docs/extent-bench.md has the
//! command.
//!
//! For each row a space is built with exactly n free pieces, each between two used extents. Then come batches. "free" frees randomly chosen used
//! extents, each of which joins the piece below and the piece above. "take" allocates as many new extents of the same lengths from the largest
//! piece. All managers get the same calls in the same order and, because all take from the largest piece, must give the same answers: a running
//! checksum is compared. They take turns, so that other load on the machine affects all of them alike. The output has the median of the batches
//! in nanoseconds a call, the middle half of the batches, and the ratio of the medians to front-rear hashing.
//!
//! Two shapes of space:
//!   short  used extents and free pieces both of 1 to 16 chunks
//!   long   used extents as before; free pieces fill up 2^31 chunks (1 TiB in chunks of 512 bytes)

mod rivals;

use extent::{Chunk, Chunks, Extent, Unified};
use rivals::{ByBit, ByWord, Trees};
use std::collections::HashSet;
use std::fmt;
use std::time::Instant;

/// Used extents, and the free pieces of the short shape, have 1 to this many chunks.
const SHORT_MAX: u32 = 16;
/// The size of the space in the long shape, approximately.
const LONG_TOTAL: u32 = 1 << 31;
/// The same for a quick run.
const LONG_TOTAL_QUICK: u32 = 1 << 20;
/// Batches on one space.
const BATCHES: usize = 9;
/// A batch frees one in this many used extents, so that the last batch still finds most of the pieces.
const BATCH_SHARE: usize = 60;
/// Calls in a batch, at most.
const BATCH_MAX: usize = 15_000;
/// Calls to measure for a row: small spaces are built again and again to reach this number.
const CALLS: usize = 60_000;
/// Times a space is built at most; fewer in the long shape, where one call may test millions of bits.
const BUILDS_MAX: usize = 100;
const BUILDS_LONG_MAX: usize = 3;
/// At and above this number of pieces, the managers' spaces exist side by side and take turns batch by batch. Smaller ones take turns space by
/// space: they fit the processor's caches, and would evict each other.
const TOGETHER: usize = 1_000_000;

/// The operations that the bench needs. All managers must give equal answers.
trait Space {
    /// A space of `total` chunks, more than 0, all free.
    fn new_all_free(total: Chunks) -> Self
    where
        Self: Sized;
    /// Takes `len` neighbouring chunks from the front of the longest piece.
    fn allocate(&mut self, len: Chunks) -> Option<Extent>;
    /// Gives used chunks back and merges them with free neighbours.
    fn free(&mut self, e: Extent);
    /// Number of free pieces.
    fn pieces(&self) -> usize;
    /// The free pieces in order of address.
    fn free_pieces(&self) -> Vec<Extent>;
}

impl Space for Unified {
    fn new_all_free(total: Chunks) -> Self {
        Unified::new_all_free(total)
    }

    fn allocate(&mut self, len: Chunks) -> Option<Extent> {
        Unified::allocate(self, len)
    }

    fn free(&mut self, e: Extent) {
        Unified::free(self, e);
    }

    fn pieces(&self) -> usize {
        Unified::pieces(self)
    }

    fn free_pieces(&self) -> Vec<Extent> {
        Unified::free_pieces(self)
    }
}

#[derive(Clone, Copy)]
enum Shape {
    Short,
    Long { total: u32 },
}

/// The calls that every manager gets.
struct Plan {
    total: Chunks,
    /// A used extent and the free piece above it, in order of address.
    layout: Vec<(Extent, Extent)>,
    /// A random order of the pieces, to build the space with.
    order: Vec<u32>,
    /// The used extents to free, batch by batch.
    victims: Vec<Extent>,
    batch: usize,
    builds: usize,
}

/// One way to manage space, and its times.
struct Contender {
    build: fn(&Plan) -> Built,
    /// Nanoseconds a call, one number a batch.
    free: Vec<f64>,
    take: Vec<f64>,
    outcome: Outcome,
}

struct Built {
    space: Box<dyn Space>,
    /// Memory besides the bit vector, if the manager can tell.
    index_bytes: usize,
}

/// The answers of a manager; must be equal for all.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Outcome {
    /// Checksum of the extents that were taken.
    checksum: u64,
    pieces_left: usize,
    /// Checksum of the free pieces at the end.
    places: u64,
}

/// Random numbers (splitmix64): the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From 0 up to, not including, `end`.
    fn below(&mut self, end: u32) -> u32 {
        (((self.next() >> 32) * u64::from(end)) >> 32) as u32
    }
}

impl Plan {
    fn new(shape: Shape, pieces: u32) -> Self {
        let mut random = Random(pieces.into());
        let mut layout = Vec::with_capacity(pieces as usize);
        let mut at = Chunk(0);
        for _ in 0..pieces {
            let used = Extent::new(at, Chunks(1 + random.below(SHORT_MAX)));
            let free = match shape {
                Shape::Short => random.below(SHORT_MAX),
                Shape::Long { total } => {
                    let mean = total / pieces - SHORT_MAX / 2;
                    mean / 2 + random.below(mean)
                }
            };
            let free = Extent::new(used.end(), Chunks(1 + free));
            at = free.end();
            layout.push((used, free));
        }

        let mut order: Vec<u32> = (0..pieces).collect();
        for i in (1..pieces).rev() {
            order.swap(i as usize, random.below(i + 1) as usize);
        }

        let batch = (pieces as usize / BATCH_SHARE).clamp(1, BATCH_MAX);
        let mut chosen = HashSet::new();
        let mut victims = Vec::with_capacity(batch * BATCHES);
        while victims.len() < batch * BATCHES {
            let i = random.below(pieces);
            if chosen.insert(i) {
                victims.push(layout[i as usize].0);
            }
        }

        let builds_max = match shape {
            Shape::Short => BUILDS_MAX,
            Shape::Long { .. } => BUILDS_LONG_MAX,
        };
        let builds = CALLS.div_ceil(victims.len()).min(builds_max);
        Plan {
            total: at - Chunk(0),
            layout,
            order,
            victims,
            batch,
            builds,
        }
    }

    /// Builds a space with the pieces of the plan. All of it is taken, extent by extent from below, and the free pieces are given back in random
    /// order, so that trees and tables grow as in real use.
    fn build<M: Space>(&self) -> M {
        let mut space = M::new_all_free(self.total);
        for &(used, free) in &self.layout {
            assert_eq!(space.allocate(used.len), Some(used));
            assert_eq!(space.allocate(free.len), Some(free));
        }
        for &i in &self.order {
            space.free(self.layout[i as usize].1);
        }
        assert_eq!(space.pieces(), self.layout.len());
        space
    }

    /// Runs all the batches on a space for each of `contenders`, batch by batch in turns.
    fn measure(&self, contenders: &mut [Contender]) -> usize {
        let mut spaces: Vec<Built> = contenders.iter().map(|c| (c.build)(self)).collect();
        let index_bytes = spaces[0].index_bytes;
        contenders
            .iter_mut()
            .for_each(|c| c.outcome = Outcome::default());
        for batch in self.victims.chunks_exact(self.batch) {
            for (Built { space, .. }, contender) in spaces.iter_mut().zip(&mut *contenders) {
                let per_call =
                    |start: Instant| start.elapsed().as_nanos() as f64 / batch.len() as f64;

                let start = Instant::now();
                free_batch(&mut **space, batch);
                contender.free.push(per_call(start));

                let start = Instant::now();
                let checksum = take_batch(&mut **space, batch, contender.outcome.checksum);
                contender.take.push(per_call(start));
                contender.outcome.checksum = checksum;
                contender.outcome.pieces_left = space.pieces();
            }
        }
        for (Built { space, .. }, contender) in spaces.iter().zip(contenders) {
            contender.outcome.places = space.free_pieces().iter().fold(0, |sum: u64, piece| {
                let piece = u64::from(piece.first.0) << 32 | u64::from(piece.len.0);
                sum.rotate_left(5).wrapping_add(piece)
            });
        }
        index_bytes
    }
}

/// Frees every extent of `batch`. Not inlined, so that a tool can count it alone.
#[inline(never)]
fn free_batch(space: &mut dyn Space, batch: &[Extent]) {
    for &e in batch {
        space.free(e);
    }
}

/// Takes as many extents of the same lengths, and returns `checksum` with their places. Not inlined, as above.
#[inline(never)]
fn take_batch(space: &mut dyn Space, batch: &[Extent], mut checksum: u64) -> u64 {
    for e in batch {
        let taken = space.allocate(e.len).map_or(0, |e| e.first.0);
        checksum = checksum.rotate_left(5).wrapping_add(taken.into());
    }
    checksum
}

/// The managers by the names of `--only`, in the order of [`contenders`].
const NAMES: [&str; 4] = ["front-rear", "bit-by-bit", "word-by-word", "trees"];

/// Runs one row of one manager: `WHICH` is `NAME,SHAPE,PIECES`. Prints how many calls of each kind were made.
fn run_only(which: &str) -> Option<()> {
    let mut parts = which.split(',');
    let name = parts.next()?;
    let number = NAMES.iter().position(|&known| known == name)?;
    let shape = match parts.next()? {
        "short" => Shape::Short,
        "long" => Shape::Long { total: LONG_TOTAL },
        _ => return None,
    };
    let pieces = parts.next()?.parse().ok().filter(|&n| n >= 100)?;
    let plan = Plan::new(shape, pieces);
    let mut contenders = contenders();
    for _ in 0..plan.builds {
        plan.measure(&mut contenders[number..=number]);
    }
    let calls = plan.victims.len() * plan.builds;
    println!("{which}: {calls} frees, {calls} takes");
    Some(())
}

fn contenders() -> [Contender; 4] {
    fn boxed<M: Space + 'static>(plan: &Plan) -> Built {
        Built {
            space: Box::new(plan.build::<M>()),
            index_bytes: 0,
        }
    }
    fn unified(plan: &Plan) -> Built {
        let space = plan.build::<Unified>();
        let index_bytes = space.memory_bytes() - 8 * plan.total.0.div_ceil(64) as usize;
        Built {
            space: Box::new(space),
            index_bytes,
        }
    }
    let builders = [unified, boxed::<ByBit>, boxed::<ByWord>, boxed::<Trees>];
    builders.map(|build| Contender {
        build,
        free: vec![],
        take: vec![],
        outcome: Outcome::default(),
    })
}

/// Prints two rows of the table of times, and returns one of the table of facts.
fn run(shape: Shape, pieces: u32) -> String {
    let plan = Plan::new(shape, pieces);
    let mut contenders = contenders();
    let at_once = if pieces as usize >= TOGETHER {
        contenders.len()
    } else {
        1
    };
    let mut index_bytes = 0;
    for _ in 0..plan.builds {
        for group in contenders.chunks_mut(at_once) {
            index_bytes = index_bytes.max(plan.measure(group));
        }
        for contender in &contenders {
            assert_eq!(contender.outcome, contenders[0].outcome, "managers differ");
        }
    }
    let name = match shape {
        Shape::Short => "short",
        Shape::Long { .. } => "long",
    };
    let row = |call: &str, times: fn(&Contender) -> &[f64]| {
        let spreads = contenders
            .each_ref()
            .map(|contender| Spread::of(times(contender)));
        print!("| {name} | {pieces} | {call} | {} |", spreads[0]);
        for spread in &spreads[1..] {
            let ratio = spread.median / spreads[0].median;
            print!(" {spread} | {ratio:.*} |", if ratio < 10.0 { 2 } else { 0 });
        }
        println!();
    };
    row("free", |contender| &contender.free);
    row("take", |contender| &contender.take);
    let Outcome {
        checksum,
        pieces_left,
        ..
    } = contenders[0].outcome;
    let per_piece = index_bytes as f64 / f64::from(pieces);
    let (chunks, calls, builds) = (plan.total.0, plan.victims.len(), plan.builds);
    format!(
        "| {name} | {pieces} | {chunks} | {calls} | {builds} | {pieces_left} | {per_piece:.1} | {checksum:016x} |"
    )
}

/// The median of some measurements, and the limits of their middle half.
struct Spread {
    median: f64,
    quarter: f64,
    three_quarters: f64,
}

impl Spread {
    fn of(measured: &[f64]) -> Self {
        let mut sorted = measured.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let at = |part: f64| sorted[((sorted.len() - 1) as f64 * part).round() as usize];
        Spread {
            median: at(0.5),
            quarter: at(0.25),
            three_quarters: at(0.75),
        }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.0} ({:.0}-{:.0})",
            self.median, self.quarter, self.three_quarters
        )
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = args.iter().position(|arg| arg == "--only") {
        let which = args.get(at + 1).map_or("", String::as_str);
        if run_only(which).is_none() {
            eprintln!(
                "--only takes NAME,SHAPE,PIECES: NAME one of {NAMES:?}, SHAPE short or long, PIECES from 100"
            );
            std::process::exit(2);
        }
        return;
    }
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    // Cargo passes --bench when it measures, and nothing when it tests.
    let quick = has("--quick") || has("--test") || !has("--bench");
    let (total, rows): (u32, &[u32]) = if quick {
        (LONG_TOTAL_QUICK, &[100, 1000])
    } else {
        (LONG_TOTAL, &[1000, 10_000, 100_000, 1_000_000, 10_000_000])
    };

    let start = Instant::now();
    println!(
        "Nanoseconds a call: median of batches (middle half), and the ratio to front-rear hashing.\n"
    );
    println!(
        "| shape | pieces | call | front-rear | bit by bit | ratio | word by word | ratio | trees | ratio |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let mut facts = Vec::new();
    for shape in [Shape::Short, Shape::Long { total }] {
        facts.extend(rows.iter().map(|&pieces| run(shape, pieces)));
    }
    println!(
        "\nWhat does not depend on the machine; bytes are those of front-rear hashing beside the bit vector.\n"
    );
    println!(
        "| shape | pieces | chunks | calls each | builds | pieces left | bytes a piece | checksum |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    facts.iter().for_each(|row| println!("{row}"));
    println!("\n{:.0} s in all", start.elapsed().as_secs_f64());
}
