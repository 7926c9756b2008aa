//! The simulation of hints: fronts and nodes (`hints::View`, `hints::Registrar`), toy stores, and a wire between them, in random order from a
//! seed. It knows what each node has, so it can say whether the fronts believe what is true.
//!
//! After some hundred random steps everything that is on its way arrives, and then
//!   R1  what a node has, every front finds there (no false negative beyond delay);
//!   R2  every front believes of every mark exactly what the node tells of it (so false hits are those of the filter);
//!   R3  the node tells every mark of what it has, and a directory tells nothing else;
//!   R4  while counts are made anew, R1 holds for what was told before.
//! At all times
//!   R5  a front looks up in no node that it has not heard for three seconds.
//!
//! Schedules have small filters, updates, histories and stores, so that collisions, saturated counters, full updates, lost notes and fronts
//! that fall behind are common. The races of the accelerator's design (labels, refusals, evictions during pushes, pushes by two fronts,
//! restarts of either side, lost and repeated frames, counts made anew) all come up by themselves; [`Counts`] says how often.
//!
//! Not known here: threads, time, real stores. What two threads do to one matrix at once is argued in `hints::view`, not tried here.
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

/// What to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Decides everything else.
    pub seed: u64,
    /// Deliberately wrong.
    pub mistake: Option<Mistake>,
    /// Keep the story, for a failure's message.
    pub tells: bool,
}

/// A rule that did not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The seed of the run.
    pub seed: u64,
    /// What was wrong.
    pub message: String,
    /// What happened before, if it was kept.
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
        /// How often things happened.
        #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counts {
            /// Adds those of another run.
            pub fn add(&mut self, other: &Counts) {
                $(self.$name += other.$name;)*
            }

            /// All of them with their names.
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
    /// A node was asked and had it not.
    false_hits "false hits"
    /// No node was asked.
    misses "misses"
    /// Pushes that a node stored.
    pushed "pushes stored"
    /// Pushes that a node refused.
    refused "pushes refused"
    /// Pushes whose end a front did not know.
    withdrawn "pushes withdrawn"
    /// Entries that a pusher was told of all the same.
    told_pushers "entries told to their pusher"
    /// Entries that a pusher was spared.
    spared "entries spared"
    /// What nodes fetched by themselves.
    own_fetches "own fetches"
    /// Updates that were closed.
    updates "updates"
    /// Full copies begun.
    full_copies "full copies"
    /// Of these because a front was too far behind.
    fell_behind "fronts that fell behind"
    /// Times that counts were made anew.
    made_anew "counts made anew"
    /// Frames lost, repeated, or swapped.
    wire_errors "errors of the wire"
    /// Links that a front closed for a gap.
    gaps "gaps"
    /// Links broken.
    links_broken "links broken"
    /// Fronts started anew.
    front_restarts "fronts started anew"
    /// Nodes started anew.
    node_restarts "nodes started anew"
    /// Nodes that hung, or went on.
    hangs "nodes that hung"
    /// Times that everything came to rest and was checked.
    rests "rests"
}

/// What a run has of everything.
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
/// Rests of a run.
const RESTS: usize = 3;

/// Runs one seed: how often things happened, and the first rule that does not hold.
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
        // So crowded that a few counters are stuck.
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
        // A link without withdrawals goes on where it was.
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
        // With stuck counters the filter is often made anew by itself.
        if !is_worn {
            check::half_anew(world)?;
        }
    }
    Ok(())
}
