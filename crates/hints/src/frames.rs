//! The frames that members of a cluster send each other over links.
//!
//! ```text
//! frame        u32 length of what follows | u8 type | body | u32 check         little-endian; check: low half of XXH3-64 of type and body
//!  1 HELLO      u16 version, 2 | u64 incarnation | text name | u8 n | n columns: u64 sealed seed | u32 shards | u32 segments | u8 kind
//!               | u32 bits | u8 functions | u64 epoch | u64 incarnation | u64 store | u32 weight
//!  2 SUBSCRIBE  u8 column | u64 incarnation | u8 1 if a label follows | u64 label
//!  3 FULL       u8 column | u8 kind | u64 label | u32 page | u32 pages | u32 sent before | u32 n | n bytes of bitmap, or n numbers of 8 bytes
//!  4 UPDATE     u8 column | u8 kind | u64 label | u32 n | n entries: u32 position, or u64 number | u8 1 set, 0 clear
//!  5 BEAT       u8 flags (1: leaves soon) | 4 x u32 load | u64 push-max | u8 n | n columns: u64 label | u64 sequence | u64 entries
//!  6 WITHDRAWN  u8 column | u64 number
//!  7 PURGING    what members say to each other about purges, in bytes of their own
//! text         u8 length | bytes, or as said
//! kind         0 directory, 1 Bloom filter
//! ```
//!
//! An entry of a Bloom filter has 5 bytes, as in paper 003, and one of a directory 9; the paper's directory has the whole name, 160 bytes in its
//! study. A page of a bitmap has 4,096 bytes. Empty pages are left out, except the last one.
//! Any bytes decode to a frame, the beginning of one, or an error that closes the link.
//!
//! Not known here: the meaning of frames to a registrar or view; sockets; how a seed is sealed.
//! Limits: [`FRAME_BYTES_MAX`], [`COLUMNS_MAX`], [`ENTRIES_MAX`], [`NAME_BYTES_MAX`], [`PURGING_BYTES_MAX`].
//! Source: paper 003, sections 2 and 5.

mod coding;

use std::fmt;

use crate::bloom::Shape;
use crate::digest::IndexShape;

pub use coding::{LENGTH_BYTES, PURGING};

/// Version of the frames. 2: a beat tells `push-max`.
pub const VERSION: u16 = 2;
/// Bytes of a frame at most, after its length.
pub const FRAME_BYTES_MAX: usize = 1 << 20;
/// Columns (stores) of a node at most.
pub const COLUMNS_MAX: usize = 64;
/// Entries of an update, and numbers of a page, at most; they fit into a frame.
pub const ENTRIES_MAX: usize = 100_000;
/// Bytes of a bitmap in a page.
pub const PAGE_BYTES: usize = 4096;
/// Numbers of a directory in a page.
pub const PAGE_NUMBERS: usize = 4096;
/// Bytes of a member's name.
pub const NAME_BYTES_MAX: usize = 255;
/// Bytes of a message about purges.
pub const PURGING_BYTES_MAX: usize = 768 << 10;
/// Bytes of an entry of a Bloom filter in an update.
pub const BLOOM_ENTRY_BYTES: usize = 5;
/// Bytes of an entry of a directory in an update.
pub const DIRECTORY_ENTRY_BYTES: usize = 9;
/// Bytes of an entry of the paper's directory, with the whole name.
pub const PAPER_DIRECTORY_ENTRY_BYTES: usize = 160;

const _: () = assert!(ENTRIES_MAX * DIRECTORY_ENTRY_BYTES + 64 < FRAME_BYTES_MAX);
const _: () = assert!(PAGE_NUMBERS <= ENTRIES_MAX);

/// The form of a column's hints.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Exact: a directory of numbers.
    Directory,
    /// A Bloom filter of this shape.
    Bloom(Shape),
}

/// A store of a node, as fronts can follow it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// Seed of the store's key hash. On the wire it is sealed by the caller.
    pub seed: u64,
    /// Shape of the store's index, from which traces are made.
    pub index: IndexShape,
    /// The form of its hints.
    pub kind: Kind,
    /// The store's epoch. A store with another epoch has none of the earlier objects.
    pub epoch: u64,
    /// Number of its registrar. Labels of another incarnation mean nothing.
    pub incarnation: u64,
    /// Id of the store within its set (`store::Set`); decides which store owns a key.
    pub store: u64,
    /// The store's weight in that decision.
    pub weight: u32,
}

/// Sent by a node when a link begins, and whenever a column has changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    /// Number of the process, drawn at its start.
    pub incarnation: u64,
    /// Name of the member; at most [`NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// Its stores; at most [`COLUMNS_MAX`]. A front without a store has none.
    pub columns: Vec<Column>,
}

/// A front asks to follow a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subscribe {
    /// The column's number in the node's [`Hello`].
    pub column: u8,
    /// The column's incarnation in that [`Hello`].
    pub incarnation: u64,
    /// The last label that the front has applied; `None`: it asks for a full copy.
    pub from: Option<u64>,
}

/// The content of a page of a full copy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Page {
    /// Bytes of a bitmap, at most [`PAGE_BYTES`]; page p begins at position `p * PAGE_BYTES * 8`.
    Bitmap(Vec<u8>),
    /// Numbers, at most [`PAGE_NUMBERS`].
    Numbers(Vec<u64>),
}

/// A page of a full copy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Full {
    /// The column.
    pub column: u8,
    /// The label of the whole copy. Updates with higher labels are to be applied to it.
    pub label: u64,
    /// The number of this page.
    pub page: u32,
    /// The number of pages. The last one is always sent.
    pub pages: u32,
    /// Pages of this copy sent before this one. Empty pages are left out, and this shows a lost page from an empty one.
    pub sent_before: u32,
    /// The content.
    pub content: Page,
}

/// A change of one position of a filter, or of one number of a directory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Entry {
    /// Position or number.
    pub mark: u64,
    /// True: set; false: cleared.
    pub set: bool,
}

/// Changes in the order in which they happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Update {
    /// The column.
    pub column: u8,
    /// One more than the label of the update or full copy before it.
    pub label: u64,
    /// Are the entries numbers of a directory? Otherwise they are positions.
    pub is_directory: bool,
    /// The changes; at most [`ENTRIES_MAX`].
    pub entries: Vec<Entry>,
}

/// The load of a member.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Load {
    /// Requests a second.
    pub requests_per_s: u32,
    /// Reads from disk a second.
    pub disk_reads_per_s: u32,
    /// Time that a read waits for its disk, ms. [`Load::HANGS`]: no disk answers, so nothing is read at present.
    pub queue_ms: u32,
    /// Space in its stores that no live record takes, MiB.
    pub free_mib: u32,
}

impl Load {
    /// Stands for an endless wait: no disk answers.
    pub const HANGS: u32 = u32::MAX;
}

/// The state of a column.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ColumnBeat {
    /// The last label given to an update or full copy.
    pub label: u64,
    /// The store's last invalidation sequence.
    pub sequence: u64,
    /// Names in it.
    pub entries: u64,
}

/// Sent every second by a running member.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Beat {
    /// It is shutting down: nothing more may be pushed to it.
    pub is_leaving: bool,
    /// Its load.
    pub load: Load,
    /// The longest body that may be pushed to it, in bytes.
    pub push_max_bytes: u64,
    /// Its columns, in the order of its [`Hello`].
    pub columns: Vec<ColumnBeat>,
}

/// How far a front had followed a column; travels with a push.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Known {
    /// Incarnation of the column; 0 if the front does not follow it, or not yet.
    pub incarnation: u64,
    /// The last label that the front had applied.
    pub label: u64,
}

/// A front withdraws a push that seems not to have been stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Withdrawn {
    /// The column at which the front has registered the name.
    pub column: u8,
    /// The name's number.
    pub number: u64,
}

/// A frame.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Frame {
    Hello(Hello),
    Subscribe(Subscribe),
    Full(Full),
    Update(Update),
    Beat(Beat),
    Withdrawn(Withdrawn),
    /// A message about purges; at most [`PURGING_BYTES_MAX`] bytes.
    Purging(Vec<u8>),
}

/// Why bytes are not a frame. The link has to be closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreadable {
    /// Longer than [`FRAME_BYTES_MAX`], or shorter than any frame.
    Length(u32),
    /// Bytes were changed in transit.
    Check,
    /// An unknown type.
    Type(u8),
    /// A HELLO of this version, which is not ours.
    Version(u16),
    /// The body of a frame of this type is inconsistent or malformed.
    Body(u8),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Length(length) => write!(f, "a frame of {length} bytes"),
            Unreadable::Check => write!(f, "a frame whose check is wrong"),
            Unreadable::Type(number) => write!(f, "a frame of unknown type {number}"),
            Unreadable::Version(version) => write!(f, "frames of version {version}"),
            Unreadable::Body(number) => write!(f, "a frame of type {number} without sense"),
        }
    }
}

impl std::error::Error for Unreadable {}
