//! What members of a cluster tell each other, as bytes.
//!
//! ```text
//! frame        u32 length of what follows | u8 type | body | u32 check         little-endian; check: low half of XXH3-64 of type and body
//!  1 HELLO      u16 version, 1 | u64 incarnation | text name | u8 n | n columns: u64 sealed seed | u32 shards | u32 segments | u8 kind
//!               | u32 bits | u8 functions | u64 epoch | u64 incarnation | u64 store | u32 weight
//!  2 SUBSCRIBE  u8 column | u64 incarnation | u8 1 if a label follows | u64 label
//!  3 FULL       u8 column | u8 kind | u64 label | u32 page | u32 pages | u32 sent before | u32 n | n bytes of bitmap, or n numbers of 8 bytes
//!  4 UPDATE     u8 column | u8 kind | u64 label | u32 n | n entries: u32 position, or u64 number | u8 1 set, 0 clear
//!  5 BEAT       u8 flags (1: leaves soon) | 4 x u32 load | u8 n | n columns: u64 label | u64 sequence | u64 entries
//!  6 PUSHED     u8 column | u64 number | u64 incarnation | u64 label | u8 verdict
//!  7 WITHDRAWN  u8 column | u64 number
//!  8 PURGING    what members say to each other about purges, in bytes of their own
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

use std::fmt;

use twox_hash::XxHash3_64;

use crate::bloom::Shape;
use crate::digest::IndexShape;

/// Version of the frames.
pub const VERSION: u16 = 1;
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
    /// How long a read waits, in milliseconds.
    pub queue_ms: u32,
    /// Free room in its stores, in MiB.
    pub free_mib: u32,
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
    /// Its columns, in the order of its [`Hello`].
    pub columns: Vec<ColumnBeat>,
}

/// What a node made of a push.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is stored.
    Stored,
    /// Refused by admission, or because it may not be stored at all.
    Policy,
    /// Too long.
    Size,
    /// Purged since the front's fetch began.
    Invalidated,
    /// The store stores nothing now.
    Paused,
    /// The disk failed.
    Disk,
}

impl Verdict {
    /// All of them; their place is their number on the wire.
    pub const ALL: [Verdict; 6] = [
        Verdict::Stored,
        Verdict::Policy,
        Verdict::Size,
        Verdict::Invalidated,
        Verdict::Paused,
        Verdict::Disk,
    ];
}

/// The end of a push, or of one that was withdrawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pushed {
    /// The column that the name belongs to.
    pub column: u8,
    /// The name's number.
    pub number: u64,
    /// What the front knew of the column when it registered the name.
    pub known: Known,
    /// What became of it.
    pub verdict: Verdict,
}

/// How far a front had followed a column; travels with a push.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Known {
    /// Of the column; 0 if the front follows it not, or not yet.
    pub incarnation: u64,
    /// The last label that the front had enacted.
    pub label: u64,
}

/// A push whose end the front does not know. It is answered by [`Pushed`].
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
    Pushed(Pushed),
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

const HELLO: u8 = 1;
const SUBSCRIBE: u8 = 2;
const FULL: u8 = 3;
const UPDATE: u8 = 4;
const BEAT: u8 = 5;
const PUSHED: u8 = 6;
const WITHDRAWN: u8 = 7;
/// The type of [`Frame::Purging`].
pub const PURGING: u8 = 8;

const DIRECTORY: u8 = 0;
const BLOOM: u8 = 1;

/// Bytes of the length that a frame begins with.
pub const LENGTH_BYTES: usize = 4;
const CHECK_BYTES: usize = 4;

impl Frame {
    /// Adds its bytes to `out`.
    ///
    /// # Panics
    /// If it is longer than the limits of this file allow; who makes a frame keeps them.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend([0; LENGTH_BYTES]);
        match self {
            Frame::Hello(hello) => hello.write(out),
            Frame::Subscribe(subscribe) => subscribe.write(out),
            Frame::Full(full) => full.write(out),
            Frame::Update(update) => update.write(out),
            Frame::Beat(beat) => beat.write(out),
            Frame::Pushed(pushed) => pushed.write(out),
            Frame::Withdrawn(withdrawn) => {
                out.extend([WITHDRAWN, withdrawn.column]);
                out.extend(withdrawn.number.to_le_bytes());
            }
            Frame::Purging(message) => {
                assert!(message.len() <= PURGING_BYTES_MAX, "it has a limit");
                out.push(PURGING);
                out.extend(message);
            }
        }
        let check = check(&out[begin + LENGTH_BYTES..]);
        out.extend(check.to_le_bytes());
        let length = out.len() - begin - LENGTH_BYTES;
        assert!(length <= FRAME_BYTES_MAX, "a frame of {length} bytes");
        out[begin..begin + LENGTH_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }

    /// The frame at the beginning of `bytes` and how many bytes it has; nothing if more of it has to come.
    ///
    /// # Errors
    /// Why there is none. Never panics, whatever the bytes are, and takes little more memory than they have.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Frame, usize)>, Unreadable> {
        let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length);
        if (length as usize) < 1 + CHECK_BYTES || length as usize > FRAME_BYTES_MAX {
            return Err(Unreadable::Length(length));
        }
        let Some(frame) = rest.get(..length as usize) else {
            return Ok(None);
        };
        let (content, found) = frame.split_at(frame.len() - CHECK_BYTES);
        if found != check(content).to_le_bytes() {
            return Err(Unreadable::Check);
        }
        let frame = content_of(content)?;
        Ok(Some((frame, LENGTH_BYTES + length as usize)))
    }
}

/// The check of type and body.
fn check(content: &[u8]) -> u32 {
    XxHash3_64::oneshot(content) as u32
}

fn content_of(content: &[u8]) -> Result<Frame, Unreadable> {
    let mut rest = Rest(content);
    let number = rest.u8().unwrap_or(0);
    let frame = match number {
        HELLO => {
            let version = rest.u16().ok_or(Unreadable::Body(number))?;
            if version != VERSION {
                return Err(Unreadable::Version(version));
            }
            Hello::read(&mut rest).map(Frame::Hello)
        }
        SUBSCRIBE => Subscribe::read(&mut rest).map(Frame::Subscribe),
        FULL => Full::read(&mut rest).map(Frame::Full),
        UPDATE => Update::read(&mut rest).map(Frame::Update),
        BEAT => Beat::read(&mut rest).map(Frame::Beat),
        PUSHED => Pushed::read(&mut rest).map(Frame::Pushed),
        WITHDRAWN => rest.withdrawn().map(Frame::Withdrawn),
        PURGING => rest.purging().map(Frame::Purging),
        unknown => return Err(Unreadable::Type(unknown)),
    };
    let frame = frame.filter(|_| rest.0.is_empty());
    frame.ok_or(Unreadable::Body(number))
}

impl Hello {
    fn write(&self, out: &mut Vec<u8>) {
        assert!(
            self.name.len() <= NAME_BYTES_MAX && self.columns.len() <= COLUMNS_MAX,
            "name and columns have limits"
        );
        out.push(HELLO);
        out.extend(VERSION.to_le_bytes());
        out.extend(self.incarnation.to_le_bytes());
        out.push(self.name.len() as u8);
        out.extend(self.name.as_bytes());
        out.push(self.columns.len() as u8);
        for column in &self.columns {
            out.extend(column.seed.to_le_bytes());
            out.extend(column.index.shards.to_le_bytes());
            out.extend(column.index.segments.to_le_bytes());
            let (kind, bits, functions) = match column.kind {
                Kind::Directory => (DIRECTORY, 0, 0),
                Kind::Bloom(shape) => (BLOOM, shape.bits(), shape.functions()),
            };
            out.push(kind);
            out.extend(bits.to_le_bytes());
            out.push(functions);
            out.extend(column.epoch.to_le_bytes());
            out.extend(column.incarnation.to_le_bytes());
            out.extend(column.store.to_le_bytes());
            out.extend(column.weight.to_le_bytes());
        }
    }

    fn read(rest: &mut Rest) -> Option<Hello> {
        let incarnation = rest.u64()?;
        let len = rest.u8()?.into();
        let name = std::str::from_utf8(rest.bytes(len)?).ok()?.to_owned();
        let columns = usize::from(rest.u8()?);
        if columns > COLUMNS_MAX {
            return None;
        }
        let columns = (0..columns).map(|_| Column::read(rest));
        Some(Hello {
            incarnation,
            name,
            columns: columns.collect::<Option<_>>()?,
        })
    }
}

impl Column {
    fn read(rest: &mut Rest) -> Option<Column> {
        let seed = rest.u64()?;
        let index = IndexShape {
            shards: rest.u32()?,
            segments: rest.u32()?,
        };
        let (kind, bits, functions) = (rest.u8()?, rest.u32()?, rest.u8()?);
        let kind = match kind {
            DIRECTORY if (bits, functions) == (0, 0) => Kind::Directory,
            BLOOM => {
                let shape = Shape::new(bits.into(), functions)?;
                Kind::Bloom((shape.bits() == bits).then_some(shape)?)
            }
            _ => return None,
        };
        let is_sound = index.shards.is_power_of_two() && index.segments > 0;
        is_sound.then_some(Column {
            seed,
            index,
            kind,
            epoch: rest.u64()?,
            incarnation: rest.u64()?,
            store: rest.u64()?,
            weight: rest.u32()?,
        })
    }
}

impl Subscribe {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend([SUBSCRIBE, self.column]);
        out.extend(self.incarnation.to_le_bytes());
        out.push(self.from.is_some().into());
        out.extend(self.from.unwrap_or(0).to_le_bytes());
    }

    fn read(rest: &mut Rest) -> Option<Subscribe> {
        let (column, incarnation) = (rest.u8()?, rest.u64()?);
        let (is_given, label) = (rest.flag()?, rest.u64()?);
        (is_given || label == 0).then_some(Subscribe {
            column,
            incarnation,
            from: is_given.then_some(label),
        })
    }
}

impl Full {
    fn write(&self, out: &mut Vec<u8>) {
        let (kind, n) = match &self.content {
            Page::Bitmap(bytes) => (BLOOM, bytes.len()),
            Page::Numbers(numbers) => (DIRECTORY, numbers.len()),
        };
        out.extend([FULL, self.column, kind]);
        out.extend(self.label.to_le_bytes());
        out.extend(self.page.to_le_bytes());
        out.extend(self.pages.to_le_bytes());
        out.extend(self.sent_before.to_le_bytes());
        out.extend((n as u32).to_le_bytes());
        match &self.content {
            Page::Bitmap(bytes) => {
                assert!(bytes.len() <= PAGE_BYTES, "{} bytes", bytes.len());
                out.extend(bytes);
            }
            Page::Numbers(numbers) => {
                assert!(numbers.len() <= PAGE_NUMBERS, "{} numbers", numbers.len());
                out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
            }
        }
    }

    fn read(rest: &mut Rest) -> Option<Full> {
        let (column, kind, label) = (rest.u8()?, rest.u8()?, rest.u64()?);
        let (page, pages, sent_before) = (rest.u32()?, rest.u32()?, rest.u32()?);
        let n = rest.u32()? as usize;
        let content = match kind {
            BLOOM if n <= PAGE_BYTES => Page::Bitmap(rest.bytes(n)?.to_vec()),
            DIRECTORY if n <= PAGE_NUMBERS => {
                let numbers = rest.bytes(n * 8)?.as_chunks::<8>().0;
                Page::Numbers(numbers.iter().map(|n| u64::from_le_bytes(*n)).collect())
            }
            _ => return None,
        };
        (page < pages).then_some(Full {
            column,
            label,
            page,
            pages,
            sent_before,
            content,
        })
    }
}

impl Update {
    fn write(&self, out: &mut Vec<u8>) {
        assert!(self.entries.len() <= ENTRIES_MAX, "an update has a limit");
        let kind = match self.is_directory {
            true => DIRECTORY,
            false => BLOOM,
        };
        out.extend([UPDATE, self.column, kind]);
        out.extend(self.label.to_le_bytes());
        out.extend((self.entries.len() as u32).to_le_bytes());
        for entry in &self.entries {
            match self.is_directory {
                true => out.extend(entry.mark.to_le_bytes()),
                false => out.extend((entry.mark as u32).to_le_bytes()),
            }
            out.push(entry.set.into());
        }
    }

    fn read(rest: &mut Rest) -> Option<Update> {
        let (column, kind, label) = (rest.u8()?, rest.u8()?, rest.u64()?);
        let n = rest.u32()? as usize;
        let (is_directory, entry_bytes) = match kind {
            DIRECTORY => (true, DIRECTORY_ENTRY_BYTES),
            BLOOM => (false, BLOOM_ENTRY_BYTES),
            _ => return None,
        };
        // Before anything is made for so many.
        if n > ENTRIES_MAX || rest.0.len() != n * entry_bytes {
            return None;
        }
        let entry = |_| {
            let mark = match is_directory {
                true => rest.u64()?,
                false => rest.u32()?.into(),
            };
            let set = rest.flag()?;
            Some(Entry { mark, set })
        };
        Some(Update {
            column,
            label,
            is_directory,
            entries: (0..n).map(entry).collect::<Option<_>>()?,
        })
    }
}

impl Beat {
    fn write(&self, out: &mut Vec<u8>) {
        assert!(self.columns.len() <= COLUMNS_MAX, "columns have a limit");
        out.extend([BEAT, self.is_leaving.into()]);
        let load = self.load;
        let numbers = [
            load.requests_per_s,
            load.disk_reads_per_s,
            load.queue_ms,
            load.free_mib,
        ];
        out.extend(numbers.into_iter().flat_map(u32::to_le_bytes));
        out.push(self.columns.len() as u8);
        for column in &self.columns {
            let numbers = [column.label, column.sequence, column.entries];
            out.extend(numbers.into_iter().flat_map(u64::to_le_bytes));
        }
    }

    fn read(rest: &mut Rest) -> Option<Beat> {
        let is_leaving = rest.flag()?;
        let load = Load {
            requests_per_s: rest.u32()?,
            disk_reads_per_s: rest.u32()?,
            queue_ms: rest.u32()?,
            free_mib: rest.u32()?,
        };
        let columns = usize::from(rest.u8()?);
        if columns > COLUMNS_MAX {
            return None;
        }
        let column = |_| {
            Some(ColumnBeat {
                label: rest.u64()?,
                sequence: rest.u64()?,
                entries: rest.u64()?,
            })
        };
        Some(Beat {
            is_leaving,
            load,
            columns: (0..columns).map(column).collect::<Option<_>>()?,
        })
    }
}

impl Pushed {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend([PUSHED, self.column]);
        let numbers = [self.number, self.known.incarnation, self.known.label];
        out.extend(numbers.into_iter().flat_map(u64::to_le_bytes));
        let verdict = Verdict::ALL.iter().position(|&v| v == self.verdict);
        out.push(verdict.expect("all verdicts are in the table") as u8);
    }

    fn read(rest: &mut Rest) -> Option<Pushed> {
        Some(Pushed {
            column: rest.u8()?,
            number: rest.u64()?,
            known: Known {
                incarnation: rest.u64()?,
                label: rest.u64()?,
            },
            verdict: *Verdict::ALL.get(usize::from(rest.u8()?))?,
        })
    }
}

/// What of a frame is not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn withdrawn(&mut self) -> Option<Withdrawn> {
        Some(Withdrawn {
            column: self.u8()?,
            number: self.u64()?,
        })
    }

    fn purging(&mut self) -> Option<Vec<u8>> {
        let message = std::mem::take(&mut self.0);
        (message.len() <= PURGING_BYTES_MAX).then(|| message.to_vec())
    }
}

#[cfg(test)]
mod tests;
