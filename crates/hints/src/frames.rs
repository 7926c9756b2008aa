//! What members of a cluster tell each other, as bytes.
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
//! An entry of a Bloom filter has 5 bytes as in paper 003, one of a directory 9; the paper's has the whole name, 160 bytes in its study.
//! A page of a bitmap has 4,096 bytes; pages without any bit are left out, but never the last one.
//! Any bytes are a frame, the beginning of one, or an error that closes the link.
//!
//! Not known here: what a frame means to a registrar or view; sockets; how a seed is sealed.
//! Limits: [`FRAME_BYTES_MAX`], [`COLUMNS_MAX`], [`ENTRIES_MAX`], [`NAME_BYTES_MAX`], [`PURGING_BYTES_MAX`].
//! Source: paper 003, sections 2 and 5.

mod coding;

use std::fmt;

use crate::bloom::Shape;
use crate::digest::IndexShape;

pub use coding::{LENGTH_BYTES, PURGING};

/// Version of the frames. 2: a beat tells `push-max`.
pub const VERSION: u16 = 2;
/// Bytes of a frame at most, behind its length.
pub const FRAME_BYTES_MAX: usize = 1 << 20;
/// Columns (stores) of a node at most.
pub const COLUMNS_MAX: usize = 64;
/// Entries of an update, and numbers of a page, at most: they fit in a frame.
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

/// How a node's content is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Exactly, number by number.
    Directory,
    /// By a filter of this shape.
    Bloom(Shape),
}

/// A store of a node, as it can be followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// Seed of the store's key hash. On the wire as the caller sealed it.
    pub seed: u64,
    /// The store's index, from which traces are made.
    pub index: IndexShape,
    /// How its content is told.
    pub kind: Kind,
    /// The store's epoch: another one has none of what was stored before.
    pub epoch: u64,
    /// Of the registrar: labels of another one mean nothing.
    pub incarnation: u64,
    /// Which member of its set the store is (`store::Set`), for the choice of the store that a key belongs to.
    pub store: u64,
    /// The store's weight in that choice.
    pub weight: u32,
}

/// What a node says of itself when a link begins, and whenever a column has changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    /// Of the process, drawn at its start.
    pub incarnation: u64,
    /// Of the member; at most [`NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// Its stores; at most [`COLUMNS_MAX`]. A front without a store has none.
    pub columns: Vec<Column>,
}

/// A front wants to follow a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subscribe {
    /// The column's number in the node's [`Hello`].
    pub column: u8,
    /// The column's incarnation there.
    pub incarnation: u64,
    /// The last label that the front has enacted; none: it wants a full copy.
    pub from: Option<u64>,
}

/// What a page of a full copy has.
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
    /// The label of the whole copy: what is labelled above is to be applied to it.
    pub label: u64,
    /// Which page.
    pub page: u32,
    /// Of how many. The last one is always sent.
    pub pages: u32,
    /// Pages of this copy that were sent before it: pages without anything are left out, and a lost one must not seem to be one of them.
    pub sent_before: u32,
    /// What is in it.
    pub content: Page,
}

/// A change of one position of a filter, or of one number of a directory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Entry {
    /// Position or number.
    pub mark: u64,
    /// Set, or cleared.
    pub set: bool,
}

/// Changes in the order in which they happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Update {
    /// The column.
    pub column: u8,
    /// One more than that of the update or full copy before.
    pub label: u64,
    /// Are the entries numbers of a directory?
    pub is_directory: bool,
    /// The changes; at most [`ENTRIES_MAX`].
    pub entries: Vec<Entry>,
}

/// How much a member has to do.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Load {
    /// Requests a second.
    pub requests_per_s: u32,
    /// Reads from disk a second.
    pub disk_reads_per_s: u32,
    /// How long a read waits, in milliseconds. [`Load::HANGS`]: nothing is read for now, because no disk answers.
    pub queue_ms: u32,
    /// Room in its stores that no record takes that can be looked up, in MiB.
    pub free_mib: u32,
}

impl Load {
    /// No read waits for so long: no disk answers.
    pub const HANGS: u32 = u32::MAX;
}

/// How a column stands.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ColumnBeat {
    /// The last label given.
    pub label: u64,
    /// The store's last invalidation sequence.
    pub sequence: u64,
    /// Names in it.
    pub entries: u64,
}

/// A member lives; once a second.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Beat {
    /// It stops soon: nothing more is to be pushed to it.
    pub is_leaving: bool,
    /// How much it has to do.
    pub load: Load,
    /// The longest body that may be pushed to it, in bytes.
    pub push_max_bytes: u64,
    /// Its columns, in the order of its [`Hello`].
    pub columns: Vec<ColumnBeat>,
}

/// How far a front had followed a column; travels with a push.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Known {
    /// Of the column; 0 if the front follows it not, or not yet.
    pub incarnation: u64,
    /// The last label that the front had enacted.
    pub label: u64,
}

/// A push that was not stored, as far as the front knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Withdrawn {
    /// The column at which the front has registered the name.
    pub column: u8,
    /// The name's number.
    pub number: u64,
}

/// Anything that members tell each other.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Frame {
    Hello(Hello),
    Subscribe(Subscribe),
    Full(Full),
    Update(Update),
    Beat(Beat),
    Withdrawn(Withdrawn),
    /// About purges; at most [`PURGING_BYTES_MAX`] bytes.
    Purging(Vec<u8>),
}

/// Why bytes are no frame. The link has to be closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreadable {
    /// Longer than [`FRAME_BYTES_MAX`], or too short for any.
    Length(u32),
    /// Bytes were changed on the way.
    Check,
    /// A type that nobody knows.
    Type(u8),
    /// The version of a HELLO.
    Version(u16),
    /// The body of a frame of this type contradicts itself, or has no sense.
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
