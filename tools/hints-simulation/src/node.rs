//! A node: toy stores with their registrars.
//!
//! A store is a set of names in segments. It notes names that come and leave, as the real store does: only in segments that were listed,
//! and only a few changes between two collections. Reports of the push handler reach the registrar apart from the notes, earlier or
//! later.

use std::collections::{BTreeSet, VecDeque};

use hints::frames::{Column, Frame, Hello};
use hints::mistakes::{Mistake, makes};
use hints::registrar::{By, Front, Limits, Registrar};
use hints::{Kind, Known};

use crate::chance::{Chance, mixed};

/// Segments in a store.
pub(crate) const SEGMENTS: usize = 4;

/// Parameters of all nodes of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Make {
    pub(crate) kind: Kind,
    pub(crate) limits: Limits,
    pub(crate) stores: usize,
    pub(crate) names_max: usize,
    pub(crate) notes_max: usize,
    /// All nodes make the same traces, and so are one group.
    pub(crate) share_seed: bool,
}

#[derive(Debug)]
pub(crate) struct Node {
    number: u8,
    make: Make,
    /// The node sends and answers nothing; others notice only that.
    pub(crate) is_hung: bool,
    pub(crate) stores: Vec<Store>,
    incarnation: u64,
}

/// A report of the push handler to the registrar.
#[derive(Clone, Copy, Debug)]
enum Report {
    Expect(u64, Front, Known),
    Withdrawn(u64),
}

#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) registrar: Registrar,
    pub(crate) names: BTreeSet<u64>,
    seed: u64,
    make: Make,
    /// Changes by segment: a name, and whether it came.
    notes: Vec<(u64, bool)>,
    are_lost: bool,
    listed: [bool; SEGMENTS],
    /// A listing is under way, to make counts anew.
    is_anew: bool,
    reports: VecDeque<Report>,
}

/// The segment of a store to which a name belongs.
pub(crate) fn segment(name: u64) -> usize {
    (mixed(name) % SEGMENTS as u64) as usize
}

/// The name of an object in hints, under this seed.
pub(crate) fn trace(seed: u64, name: u64) -> u64 {
    mixed(seed ^ mixed(name))
}

impl Node {
    pub(crate) fn new(number: u8, make: Make, chance: &mut Chance) -> Node {
        let mut node = Node {
            number,
            make,
            is_hung: false,
            stores: Vec::new(),
            incarnation: 0,
        };
        node.start(vec![BTreeSet::new(); make.stores], chance);
        node
    }

    /// Starts the node with these names in its stores.
    pub(crate) fn start(&mut self, names: Vec<BTreeSet<u64>>, chance: &mut Chance) {
        self.incarnation = chance.next() | 1;
        self.is_hung = false;
        let make = self.make;
        let seed = match make.share_seed {
            true => 42,
            false => 42 + u64::from(self.number),
        };
        let store = |(column, names)| Store {
            registrar: Registrar::new(column as u8, make.kind, chance.next() | 1, make.limits),
            names,
            seed,
            make,
            notes: Vec::new(),
            are_lost: false,
            listed: [false; SEGMENTS],
            is_anew: true,
            reports: VecDeque::new(),
        };
        self.stores = names.into_iter().enumerate().map(store).collect();
    }

    pub(crate) fn hello(&self) -> Frame {
        let column = |store: &Store| Column {
            seed: store.seed,
            index: hints::digest::IndexShape {
                shards: 1,
                segments: 1,
            },
            kind: store.make.kind,
            epoch: 1,
            incarnation: store.registrar.incarnation(),
            store: 0,
            weight: 1,
        };
        Frame::Hello(Hello {
            incarnation: self.incarnation,
            name: format!("n{}", self.number),
            columns: self.stores.iter().map(column).collect(),
        })
    }

    /// The store to which a name belongs.
    pub(crate) fn column_of(&self, name: u64) -> usize {
        name as usize % self.stores.len()
    }

    pub(crate) fn has(&self, name: u64) -> bool {
        self.stores[self.column_of(name)].names.contains(&name)
    }

    pub(crate) fn store_of(&mut self, name: u64) -> &mut Store {
        let column = self.column_of(name);
        &mut self.stores[column]
    }
}

impl Store {
    pub(crate) fn trace(&self, name: u64) -> u64 {
        trace(self.seed, name)
    }

    fn note(&mut self, name: u64, came: bool) {
        if !self.listed[segment(name)] {
            return;
        }
        match self.notes.len() < self.make.notes_max {
            true => self.notes.push((name, came)),
            false => self.are_lost = true,
        }
    }

    /// Stores a name; others are evicted to make room. Replacing a present name is not noted.
    pub(crate) fn insert(&mut self, name: u64, chance: &mut Chance) {
        while self.names.len() >= self.make.names_max && !self.names.contains(&name) {
            let at = chance.below(self.names.len());
            let victim = *self.names.iter().nth(at).expect("at is below its length");
            self.remove(victim);
        }
        if self.names.insert(name) || makes(Mistake::TellReplaced) {
            self.note(name, true);
        }
    }

    pub(crate) fn remove(&mut self, name: u64) {
        if self.names.remove(&name) {
            self.note(name, false);
        }
    }

    pub(crate) fn pushed(&mut self, name: u64, front: Front, known: Known) {
        let trace = self.trace(name);
        self.reports.push_back(Report::Expect(trace, front, known));
    }

    pub(crate) fn withdrawn(&mut self, trace: u64) {
        self.reports.push_back(Report::Withdrawn(trace));
    }

    /// The registrar takes the reports of the push handler.
    pub(crate) fn hear(&mut self) {
        while let Some(report) = self.reports.pop_front() {
            match report {
                Report::Expect(trace, front, known) => self.registrar.expect(&trace, front, known),
                Report::Withdrawn(trace) => self.registrar.withdrawn(&trace),
            }
        }
    }

    /// The registrar takes the notes of the store.
    pub(crate) fn follow(&mut self) {
        for (name, came) in std::mem::take(&mut self.notes) {
            let trace = self.trace(name);
            match came {
                true => self.registrar.came(&trace, By::Node),
                false => self.registrar.left(&trace),
            }
        }
        if std::mem::take(&mut self.are_lost) || self.registrar.is_worn() {
            self.begin_anew();
        }
    }

    pub(crate) fn begin_anew(&mut self) {
        self.listed = [false; SEGMENTS];
        self.notes.clear();
        self.is_anew = true;
        self.registrar.begin_anew();
    }

    /// Lists the next segment. Returns false if all are listed.
    pub(crate) fn list(&mut self) -> bool {
        let Some(next) = self.listed.iter().position(|&is_listed| !is_listed) else {
            if std::mem::take(&mut self.is_anew) {
                self.registrar.end_anew();
            }
            return false;
        };
        for &name in &self.names {
            if segment(name) == next {
                self.registrar.came(&trace(self.seed, name), By::Node);
            }
        }
        self.listed[next] = true;
        true
    }

    /// Whether the registrar knows of this name, if the store has it.
    pub(crate) fn is_listed(&self, name: u64) -> bool {
        self.listed[segment(name)]
    }

    /// Whether nothing is left for the registrar.
    pub(crate) fn is_settled(&self) -> bool {
        self.notes.is_empty()
            && self.reports.is_empty()
            && !self.are_lost
            && !self.is_anew
            && self.listed.iter().all(|&is_listed| is_listed)
    }
}
