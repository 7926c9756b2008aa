//! The simulation of hints: fronts and nodes (`hints::View`, `hints::Registrar`), toy stores, and wires between them, in a random order
//! that a seed determines. It knows what each node has, so it can check what the fronts believe.
//!
//! After some hundred random steps everything in flight arrives. Then these rules must hold:
//!   R1  every front finds at a node what the node has (no false negatives except by delay);
//!   R2  a front believes of every mark exactly what the node tells of it (so false hits come only from the filter);
//!   R3  the node tells every mark of what it has, and a directory tells nothing else;
//!   R4  while counts are made anew, R1 holds for names that were told before.
//! Always:
//!   R5  a front looks up in no node that it has not heard for three seconds.
//!
//! Filters, updates, histories and stores are small, so that collisions, saturated counters, full updates, lost notes and fronts that
//! fall behind are common. All races of the accelerator's design (labels, refusals, evictions during pushes, pushes by two fronts,
//! restarts of either side, lost and repeated frames, counts made anew) happen by chance; [`Counts`] says how often.
//!
//! Not known here: threads, time, real stores. Concurrent access of threads to a matrix is argued in `hints::view`, not tested here.
#![forbid(unsafe_code)]

use std::fmt;

use hints::bloom::Shape;
use hints::registrar::Limits;
use hints::{Kind, Width};

mod chance;
mod check;
mod front;
mod node;
mod world;

pub use hints::mistakes::Mistake;

use chance::Chance;
use node::Make;
use world::World;

/// Options of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Determines all random choices.
    pub seed: u64,
    /// A deliberate mistake.
    pub mistake: Option<Mistake>,
    /// Keeps the story, for the message of a failure.
    pub tells: bool,
}

/// A rule that did not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The seed of the run.
    pub seed: u64,
    /// The rule, with details.
    pub message: String,
    /// The events before it, if they were kept.
    pub story: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.story {
            writeln!(f, "  {line}")?;
        }
        writeln!(f, "seed {}: {}", self.seed, self.message)?;
        write!(f, "again: cargo xtask sim --hints --seed {}", self.seed)
    }
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident $text:literal)*) => {
        /// How often each event happened.
        #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counts {
            /// Adds the counts of another run.
            pub fn add(&mut self, other: &Counts) {
                $(self.$name += other.$name;)*
            }

            /// All counts with their names.
            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$(($text, self.$name)),*]
            }
        }
    };
}

counts! {
    /// Requests of clients.
    requests "requests"
    /// A node was asked and had it.
    true_hits "true hits"
    /// A node was asked and did not have the object.
    false_hits "false hits"
    /// No node was asked.
    misses "misses"
    /// Pushes that a node stored.
    pushed "pushes stored"
    /// Pushes that a node refused.
    refused "pushes refused"
    /// Pushes of which a front does not know whether they were stored.
    withdrawn "pushes withdrawn"
    /// Entries that were told to a pusher although it had registered them.
    told_pushers "entries told to their pusher"
    /// Entries that were not told to their pusher.
    spared "entries spared"
    /// Fetches by nodes themselves.
    own_fetches "own fetches"
    /// Updates closed.
    updates "updates"
    /// Full copies begun.
    full_copies "full copies"
    /// Full copies begun because a front was too far behind.
    fell_behind "fronts that fell behind"
    /// Times that counts were made anew.
    made_anew "counts made anew"
    /// Frames lost, repeated, or swapped.
    wire_errors "errors of the wire"
    /// Links that a front closed because of a gap.
    gaps "gaps"
    /// Links broken.
    links_broken "links broken"
    /// Restarts of fronts.
    front_restarts "fronts started anew"
    /// Restarts of nodes.
    node_restarts "nodes started anew"
    /// Nodes that began or stopped hanging.
    hangs "nodes that hung"
    /// Times that everything came to rest and was checked.
    rests "rests"
}

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) fronts: usize,
    pub(crate) nodes: usize,
    pub(crate) names: usize,
    pub(crate) columns_expected: u32,
    pub(crate) refused_percent: u64,
    /// Pushes and their answers may be lost.
    pub(crate) loses_pushes: bool,
    pub(crate) tells: bool,
}

/// Random steps between two rests.
const STEPS: usize = 250;
/// Rests in a run.
const RESTS: usize = 3;

/// Runs one seed. Returns the counts, and the first rule that does not hold.
pub fn run(options: Options) -> (Counts, Option<Failure>) {
    hints::mistakes::make_mistake(options.mistake);
    let (mut world, is_worn) = begin(options);
    let result = all_steps(&mut world, is_worn);
    hints::mistakes::make_mistake(None);
    let failure = result.err().map(|message| Failure {
        seed: options.seed,
        message,
        story: world.story.iter().cloned().collect(),
    });
    for store in world.nodes.iter().flat_map(|node| &node.stores) {
        let figures = store.registrar.figures();
        world.counts.told_pushers += figures.told_pushers;
        world.counts.spared += figures.spared;
        world.counts.full_copies += figures.full_copies;
        world.counts.fell_behind += figures.fell_behind;
    }
    (world.counts, failure)
}

fn begin(options: Options) -> (World, bool) {
    let mut chance = Chance::new(options.seed);
    let is_worn = chance.percent(15);
    let shape = match is_worn {
        // So full that a few counters are stuck.
        true => Shape::new(256, 16),
        false => Shape::new(chance.one_of(&[64, 256, 1024, 1 << 16]), 3),
    };
    let shape = shape.expect("all of these are sound");
    let kind = match !is_worn && chance.percent(25) {
        true => Kind::Directory,
        false => Kind::Bloom(shape),
    };
    let entries = chance.one_of(&[3, 10, 1000]);
    let make = Make {
        kind,
        limits: Limits {
            entries,
            history: entries * chance.one_of(&[1, 3, 20]),
            width: chance.one_of(&[Width::Four, Width::Eight]),
        },
        stores: chance.one_of(&[1, 1, 2]),
        names_max: match is_worn {
            true => 120,
            false => chance.one_of(&[5, 12]),
        },
        notes_max: chance.one_of(&[4, 1000, 1000]),
        share_seed: chance.percent(70),
    };
    let setting = Setting {
        fronts: 1 + chance.below(3),
        nodes: 1 + chance.below(3),
        names: match is_worn {
            true => 150,
            false => chance.one_of(&[6, 20]),
        },
        columns_expected: chance.one_of(&[1, 2, 4]),
        refused_percent: chance.one_of(&[0, 20, 60]),
        // A link without lost pushes has no withdrawals, so it continues where it was.
        loses_pushes: chance.percent(60),
        tells: options.tells,
    };
    (World::new(setting, make, chance), is_worn)
}

fn all_steps(world: &mut World, is_worn: bool) -> Result<(), String> {
    for front in 0..world.fronts.len() {
        for node in 0..world.nodes.len() {
            world.link(front, node);
        }
    }
    for _ in 0..RESTS {
        for _ in 0..STEPS {
            world.step()?;
        }
        world.settle()?;
        world.counts.rests += 1;
        check::at_rest(world)?;
        // With stuck counters the filter is often made anew anyway.
        if !is_worn {
            check::half_anew(world)?;
        }
    }
    Ok(())
}
