//! The content of all nodes, as workers look it up.
//!
//! Columns whose names are made alike and whose filters have the same shape form a *group* with one matrix (or directory), so a look-up makes one
//! name for each group. Nodes of the same size whose stores share a seed form one group.
//!
//! In filters, looking up and registering need no lock. When columns join or leave a group, which is rare, new [`Groups`] are published, and each
//! worker's [`Reader`] takes them at its next look-up. A worker uses groups from its reader at once and does not keep them.
//!
//! Registering reads the label *before* it sets the bits. In the other order, an update in between could clear them again, and the label would
//! falsely claim that they were set after it.
//!
//! Not known here: frames, links, time.   Limits: [`NODES_MAX`] nodes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::digest::IndexShape;
use crate::directory::Directory;
use crate::frames::{Column, Kind, Known};
use crate::interleaved::Interleaved;
use crate::name::Name;

/// Nodes at most: a set of them is a mask of 64 bits.
pub const NODES_MAX: u8 = 64;

/// The parameters of a group's names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Naming {
    /// Seed of the key hash.
    pub seed: u64,
    /// Shape of the index that traces are made for.
    pub index: IndexShape,
}

impl Naming {
    pub(super) fn of(column: &Column) -> Naming {
        Naming {
            seed: column.seed,
            index: column.index,
        }
    }
}

/// The filters or numbers of a group's columns.
#[derive(Debug)]
pub(super) enum Marks {
    Bloom(Interleaved),
    Directory(Directory),
}

impl Marks {
    pub(super) fn new(kind: Kind, columns: u32) -> Marks {
        match kind {
            Kind::Bloom(shape) => Marks::Bloom(Interleaved::new(shape, columns)),
            Kind::Directory => Marks::Directory(Directory::default()),
        }
    }

    /// Bytes of a matrix of so many columns. A directory grows with its content, so 0.
    pub(super) fn bytes(kind: Kind, columns: u32) -> u64 {
        match kind {
            Kind::Bloom(shape) => {
                u64::from(shape.bits()) / 8 * u64::from(columns.next_power_of_two())
            }
            Kind::Directory => 0,
        }
    }

    /// Sets or clears a mark. False: there is no room for it.
    pub(super) fn set(&self, column: u32, mark: u64, on: bool) -> bool {
        match self {
            Marks::Bloom(matrix) => {
                matrix.set(column, mark as u32, on);
                true
            }
            Marks::Directory(directory) => directory.set(column, mark, on),
        }
    }

    fn look_up<N: Name>(&self, name: &N) -> u64 {
        match self {
            Marks::Bloom(matrix) => matrix.look_up(name),
            Marks::Directory(directory) => directory.look_up(name.number()),
        }
    }

    /// Number of bits or numbers of a column.
    pub(super) fn count(&self, column: u32) -> u64 {
        match self {
            Marks::Bloom(matrix) => matrix.marks(column),
            Marks::Directory(directory) => directory.marks(column),
        }
    }

    pub(super) fn columns(&self) -> u32 {
        match self {
            Marks::Bloom(matrix) => matrix.columns(),
            Marks::Directory(_) => crate::interleaved::COLUMNS_MAX,
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Marks::Bloom(matrix) => matrix.memory_bytes(),
            Marks::Directory(directory) => directory.memory_bytes(),
        }
    }
}

/// The value of a sequence before the first beat.
const NOT_TOLD: u64 = u64::MAX;

/// A followed column, as workers see it.
#[derive(Debug)]
pub struct Followed {
    /// The node.
    pub node: u8,
    /// The column's number in the node's HELLO.
    pub number: u8,
    /// The column as the node announced it, with the unsealed seed.
    pub column: Column,
    /// The last label applied; 0: the column is not complete, or no longer followed.
    pub(super) label: AtomicU64,
    /// The store's last invalidation sequence by the last beat; [`NOT_TOLD`] before the first one.
    pub(super) sequence: AtomicU64,
}

impl Followed {
    pub(super) fn new(node: u8, number: u8, column: Column) -> Followed {
        Followed {
            node,
            number,
            column,
            label: AtomicU64::new(0),
            sequence: AtomicU64::new(NOT_TOLD),
        }
    }

    /// How far it has been followed. A push that is registered now has to carry this.
    pub fn known(&self) -> Known {
        match self.label.load(Ordering::Acquire) {
            0 => Known::default(),
            label => Known {
                incarnation: self.column.incarnation,
                label,
            },
        }
    }

    /// The store's last invalidation sequence by the last beat. A fetch that begins now has to carry it if its response is to be pushed there.
    /// `None`: no beat has come since the node announced this column.
    pub fn sequence(&self) -> Option<u64> {
        let sequence = self.sequence.load(Ordering::Acquire);
        (sequence != NOT_TOLD).then_some(sequence)
    }
}

/// Columns whose names are made alike.
#[derive(Clone, Debug)]
pub struct Group {
    pub(super) naming: Naming,
    pub(super) kind: Kind,
    pub(super) marks: Arc<Marks>,
    /// The columns in use: complete ones of nodes that are heard.
    pub(super) trusted: Arc<AtomicU64>,
    /// Owners by column.
    pub(super) owners: Vec<Option<Arc<Followed>>>,
}

impl Group {
    /// The parameters of its names.
    pub fn naming(&self) -> Naming {
        self.naming
    }

    /// The form of its hints.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The columns of this group that belong to a node.
    pub fn followed(&self) -> impl Iterator<Item = &Followed> {
        self.owners.iter().flatten().map(Arc::as_ref)
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        self.marks.memory_bytes()
    }

    #[inline]
    fn nodes<N: Name>(&self, name: &N) -> u64 {
        let mut columns = self.marks.look_up(name) & self.trusted.load(Ordering::Acquire);
        let mut nodes = 0;
        while columns != 0 {
            let column = columns.trailing_zeros() as usize;
            columns &= columns - 1;
            if let Some(Some(owner)) = self.owners.get(column) {
                nodes |= 1 << owner.node;
            }
        }
        nodes
    }
}

/// All groups at one moment.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    pub(super) groups: Vec<Group>,
}

impl Groups {
    /// All groups.
    pub fn iter(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter()
    }

    /// The nodes that may have the object that `name_for` names: bit n for node n.
    #[inline]
    pub fn nodes<N: Name>(&self, name_for: impl Fn(Naming) -> N) -> u64 {
        let groups = self.groups.iter();
        groups.fold(0, |nodes, group| {
            nodes | group.nodes(&name_for(group.naming))
        })
    }

    /// The columns of a node that are followed.
    pub fn columns_of(&self, node: u8) -> impl Iterator<Item = &Followed> {
        let all = self.groups.iter().flat_map(Group::followed);
        all.filter(move |followed| followed.node == node)
    }

    /// Registers a name with a column of a node before a push. Returns what the push has to carry. Nothing is registered while the column is not
    /// complete; the push then carries no label, so the node tells of the name itself.
    pub fn register<N: Name>(&self, node: u8, number: u8, name_for: impl Fn(Naming) -> N) -> Known {
        for group in &self.groups {
            let is_it = |owner: &Option<Arc<Followed>>| {
                owner
                    .as_ref()
                    .is_some_and(|o| o.node == node && o.number == number)
            };
            let Some(column) = group.owners.iter().position(is_it) else {
                continue;
            };
            let Some(owner) = &group.owners[column] else {
                continue;
            };
            let known = owner.known();
            if known == Known::default() {
                return known;
            }
            let name = name_for(group.naming);
            let column = column as u32;
            match &*group.marks {
                Marks::Bloom(matrix) => {
                    let positions = name.positions(matrix.shape());
                    positions.for_each(|position| matrix.set(column, position, true));
                }
                Marks::Directory(directory) => {
                    directory.set(column, name.number(), true);
                }
            }
            return known;
        }
        Known::default()
    }

    /// Bytes of memory of all groups.
    pub fn memory_bytes(&self) -> usize {
        self.groups.iter().map(Group::memory_bytes).sum()
    }
}

/// Holds the published groups.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    generation: AtomicU64,
    groups: Mutex<Arc<Groups>>,
}

impl Shelf {
    pub(super) fn put(&self, groups: Groups) {
        *self.groups.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(groups);
        self.generation.fetch_add(1, Ordering::Release);
    }

    fn take(&self) -> (u64, Arc<Groups>) {
        // Read the generation before the groups: groups published in between are then taken again.
        let generation = self.generation.load(Ordering::Acquire);
        let groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        (generation, Arc::clone(&groups))
    }
}

/// A worker's access to the groups. A look-up costs one comparison more, and a lock only after the groups have changed.
#[derive(Clone, Debug)]
pub struct Reader {
    shelf: Arc<Shelf>,
    generation: u64,
    groups: Arc<Groups>,
}

impl Reader {
    pub(super) fn new(shelf: Arc<Shelf>) -> Reader {
        let (generation, groups) = shelf.take();
        Reader {
            shelf,
            generation,
            groups,
        }
    }

    /// The present groups. To be used at once.
    #[inline]
    pub fn groups(&mut self) -> &Arc<Groups> {
        if self.shelf.generation.load(Ordering::Acquire) != self.generation {
            (self.generation, self.groups) = self.shelf.take();
        }
        &self.groups
    }
}
