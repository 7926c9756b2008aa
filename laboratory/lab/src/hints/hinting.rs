//! A node's registrar, a front's view, and a wire without delay between them: the accelerator's own code, driven by a stream.
//!
//! With eager registration the front registers the objects it pushes, and the node sends it no entries for them. Without it the front
//! registers nothing, and the node announces pushed objects like fetched ones.
//!
//! Counters have eight bits as in the paper. Saturated counters stay so, and the filter is not rebuilt: only the functions of the
//! paper's implementation saturate counters, and a rebuilt filter would saturate again.
//!
//! Not known here: caches, requests, time.   Source: paper 003, sections 2, 4 (Factors) and 5.

use hints::bloom::Shape;
use hints::counting::Width;
use hints::digest::IndexShape;
use hints::frames::{
    BLOOM_ENTRY_BYTES, Column, ENTRIES_MAX, Frame, Hello, Kind as Told, Known,
    PAPER_DIRECTORY_ENTRY_BYTES,
};
use hints::name::Name;
use hints::paper::{Implemented, Studied};
use hints::registrar::{By, Front, Limits, Registrar};
use hints::view::{Reader, View};
use polymix::random::mix;

use super::stream::Stream;

/// The representation of hints.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// An exact directory.
    Directory,
    /// A Bloom filter.
    Bloom {
        /// Bytes of the bit array.
        bytes: u64,
        /// Positions of an object, at most 16.
        functions: u8,
        /// The functions that compute the positions.
        family: Family,
    },
}

/// The functions that compute an object's positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// The functions of the paper's study: words of an MD5, and one of the server.
    Paper,
    /// The functions of the paper's implementation: four of the URL, two of the server.
    Implementation,
    /// Loligo's functions: double hashing of one number.
    Ours,
}

impl Kind {
    /// The family whose names this kind needs.
    pub(super) fn family(self) -> Family {
        match self {
            Kind::Directory => Family::Ours,
            Kind::Bloom { family, .. } => family,
        }
    }

    /// Bytes of an entry of an update, as the paper counts them.
    pub(super) fn entry_bytes(self) -> u64 {
        let bytes = match self {
            Kind::Directory => PAPER_DIRECTORY_ENTRY_BYTES,
            Kind::Bloom { .. } => BLOOM_ENTRY_BYTES,
        };
        bytes as u64
    }

    fn told(self) -> Told {
        match self {
            Kind::Directory => Told::Directory,
            Kind::Bloom {
                bytes, functions, ..
            } => {
                let shape = Shape::new(bytes.max(8) * 8, functions);
                Told::Bloom(shape.expect("the study's spaces and functions are within bounds"))
            }
        }
    }
}

/// The names of a stream's objects, by object, in each family requested.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub studied: Vec<Studied>,
    pub implemented: Vec<Implemented>,
    pub ours: Vec<u64>,
}

impl Names {
    /// The names of the objects of this stream.
    pub(super) fn of(stream: &Stream, families: &[Family]) -> Names {
        let mut servers = vec![0u32; stream.objects_end];
        for access in &stream.accesses {
            servers[access.object as usize] = access.server;
        }
        let mut names = Names::default();
        for (object, server) in (0u32..).zip(servers) {
            // A URL made of the numbers, since the trace has no other name; the server's number is spread like an address or a hash of its name.
            let url = format!("http://{server}/{object}");
            let server = mix(u64::from(server)) as u32;
            for family in families {
                match family {
                    Family::Paper => names.studied.push(Studied::new(url.as_bytes(), server)),
                    Family::Implementation => {
                        let name = Implemented::new(url.as_bytes(), server);
                        names.implemented.push(name);
                    }
                    Family::Ours => names.ours.push(mix(u64::from(object))),
                }
            }
        }
        names
    }
}

/// The numbers of the node and of its column in the view.
const NODE: u8 = 0;
const COLUMN: u8 = 0;
/// The front's number.
const FRONT: Front = Front(0);
/// Entries that the node keeps for a front that is behind: enough for the longest period.
const HISTORY: usize = 64 * ENTRIES_MAX;

/// The hints of one node at one front.
#[derive(Debug)]
pub(super) struct Hinting<'a, N> {
    names: &'a [N],
    registrar: Registrar,
    view: View,
    reader: Reader,
    is_eager: bool,
}

impl<'a, N: Name + Copy> Hinting<'a, N> {
    /// The hints of a node without objects. `names` are those of the stream's objects.
    pub(super) fn new(kind: Kind, is_eager: bool, names: &'a [N]) -> Hinting<'a, N> {
        const INCARNATION: u64 = 1;
        let limits = Limits {
            entries: ENTRIES_MAX,
            history: HISTORY,
            width: Width::Eight,
        };
        let registrar = Registrar::new(COLUMN, kind.told(), INCARNATION, limits);
        let column = Column {
            seed: 0,
            index: IndexShape {
                shards: 1,
                segments: 1,
            },
            kind: kind.told(),
            epoch: 1,
            incarnation: INCARNATION,
            store: 0,
            weight: 1,
        };
        let hello = Hello {
            incarnation: INCARNATION,
            name: "node".to_owned(),
            columns: vec![column],
        };
        let mut view = View::new(1);
        let subscribes = view.hello(NODE, &hello, 0);
        let mut hinting = Hinting {
            names,
            registrar,
            reader: view.reader(),
            view,
            is_eager,
        };
        for _ in subscribes.expect("node 0 has a place") {
            hinting.registrar.subscribe(FRONT, None);
        }
        hinting.deliver();
        hinting
    }

    fn name(&self, object: u32) -> N {
        self.names[object as usize]
    }

    /// Whether the front has a hint that the node holds the object.
    pub(super) fn front_has(&mut self, object: u32) -> bool {
        let name = self.name(object);
        self.reader.groups().nodes(|_| name) != 0
    }

    /// The node has fetched an object that it did not hold.
    pub(super) fn fetched(&mut self, object: u32) {
        let name = self.name(object);
        self.registrar.came(&name, By::Node);
    }

    /// The front has pushed an object that the node did not hold.
    pub(super) fn pushed(&mut self, object: u32) {
        let name = self.name(object);
        let by = match self.registered(name) {
            Some(known) => By::Front(FRONT, known),
            None => By::Node,
        };
        self.registrar.came(&name, by);
    }

    /// The front has pushed an object that the node already held.
    pub(super) fn pushed_again(&mut self, object: u32) {
        self.registered(self.name(object));
    }

    /// The front has pushed an object that the node refused.
    pub(super) fn push_refused(&mut self, object: u32) {
        let name = self.name(object);
        if self.registered(name).is_some() {
            self.registrar.withdrawn(&name);
        }
    }

    /// Registers a name if registration is eager. The result goes with the push.
    fn registered(&mut self, name: N) -> Option<Known> {
        let groups = self.reader.groups();
        self.is_eager
            .then(|| groups.register(NODE, COLUMN, |_| name))
    }

    /// An object has left the node.
    pub(super) fn removed(&mut self, object: u32) {
        let name = self.name(object);
        self.registrar.left(&name);
    }

    /// Ends the period: sends the node's changes to the front. Returns the number of entries.
    pub(super) fn update(&mut self) -> u64 {
        self.registrar.close_update();
        self.deliver()
    }

    fn deliver(&mut self) -> u64 {
        let mut entries = 0;
        while let Some(frame) = self.registrar.next_frame(FRONT) {
            if let Frame::Update(update) = &frame {
                entries += update.entries.len() as u64;
            }
            let handled = self.view.handle(NODE, &frame, 0);
            handled.expect("frames come whole and in order");
        }
        entries
    }

    /// Bytes of memory of hints: at the front, and at the node, without the updates kept for fronts that are behind.
    pub(super) fn memory_bytes(mut self) -> (u64, u64) {
        let front = self.view.memory_bytes();
        self.registrar.unsubscribe(FRONT);
        (front as u64, self.registrar.memory_bytes() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [u64; 4] = [11, 22, 33, 44];

    fn each_kind(is_eager: bool, check: impl Fn(Hinting<'_, u64>)) {
        let bloom = Kind::Bloom {
            bytes: 1 << 12,
            functions: 4,
            family: Family::Ours,
        };
        for kind in [Kind::Directory, bloom] {
            check(Hinting::new(kind, is_eager, &NAMES));
        }
    }

    #[test]
    fn what_is_pushed_eagerly_is_known_at_once_and_told_to_nobody() {
        each_kind(true, |mut hinting| {
            hinting.pushed(0);
            assert!(hinting.front_has(0));
            assert_eq!(hinting.update(), 0);
            hinting.removed(0);
            assert!(hinting.front_has(0), "not told yet");
            assert!(hinting.update() > 0);
            assert!(!hinting.front_has(0));
        });
    }

    #[test]
    fn without_eagerness_the_front_waits_for_the_update() {
        each_kind(false, |mut hinting| {
            hinting.pushed(0);
            assert!(!hinting.front_has(0));
            assert!(hinting.update() > 0);
            assert!(hinting.front_has(0));
        });
    }

    #[test]
    fn a_push_behind_a_removal_that_is_not_told_yet_survives_it() {
        each_kind(true, |mut hinting| {
            hinting.pushed(0);
            hinting.removed(0);
            hinting.pushed(0);
            hinting.update();
            assert!(hinting.front_has(0));
        });
    }

    #[test]
    fn a_refused_push_is_forgotten_at_the_next_update() {
        each_kind(true, |mut hinting| {
            hinting.push_refused(1);
            assert!(hinting.front_has(1));
            hinting.update();
            assert!(!hinting.front_has(1));
        });
    }

    #[test]
    fn what_the_node_fetched_itself_is_told() {
        each_kind(true, |mut hinting| {
            hinting.fetched(2);
            assert!(!hinting.front_has(2));
            hinting.update();
            assert!(hinting.front_has(2) && !hinting.front_has(3));
        });
    }
}
