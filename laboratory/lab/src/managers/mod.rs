//! File-space managers: they decide where an object's bytes are stored.
//!
//! | name | module | one line |
//! |---|---|---|
//! | SIMPLE | `files` | a file an object, all in one directory |
//! | SQUID | `files` | a file an object, in 16 x 256 directories, round robin |
//! | MULTIPLE-DIRS | `files` | a file an object, a directory a server |
//! | BUDDY | `buddy` | slots of equal size in a file for each size; large objects alone |
//! | STREAM | `stream` | one file, written in a circle into free slots |
//! | STREAM-PACKETIZER | `stream` | STREAM, through a buffer of one page |
//! | LAZY-READS | `stream`, `lazy` | STREAM-PACKETIZER with reads in batches of ten |
//! | LAZY-READS-LOC | `stream`, `locality` | LAZY-READS with objects of one server written together |
//! | UNIFIED | `stream`, `largest` | one file, whole extents cut from the largest free piece |
//!
//! A manager takes requests and calls a [`Disk`]; it keeps each object's place in memory. After a crash the first three find their
//! objects by the names of the files. The others store number, server and size before each object's body
//! ([`crate::disks::HEADER_BYTES`]), so that a scan finds the objects.
//!
//! The layouts of the production store are not here: `layouts` runs the store itself.
//!
//! Not known here: the kind of disk, the replacement policy.   Limits: those of `slots` and `buddy`.
//! Source: paper 002, sections 3.3 to 3.6; UNIFIED: paper 000, section 4.

mod buddy;
mod files;
mod largest;
mod lazy;
mod locality;
mod slots;
mod stream;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;

use crate::DiskRequest;
use crate::disks::{Disk, HEADER_BYTES, Piece};

pub use buddy::{THRESHOLD_BYTES, stored_slots as buddy_slots};
pub use slots::SLOT_BYTES;
pub use stream::PAGE_BYTES;

/// Stores objects on a disk, reads and removes them.
pub trait Manager {
    /// Makes directories and files of full size, before the first request.
    fn prepare(&mut self, disk: &mut dyn Disk) -> io::Result<()>;

    /// Carries out a request, or defers it. A read or delete must name an object that was written and not deleted since.
    fn handle(&mut self, request: DiskRequest, disk: &mut dyn Disk) -> io::Result<()>;

    /// Carries out all deferred requests.
    fn finish(&mut self, disk: &mut dyn Disk) -> io::Result<()>;

    /// Counts that only this manager has, by name.
    fn figures(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

/// The kind of a manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A file for each object, all in one directory.
    Simple,
    /// A file for each object, in 4096 directories in turn.
    Squid,
    /// A file for each object, in a directory for each server.
    MultipleDirs,
    /// A file of equal slots for each size.
    Buddy,
    /// One file, written in a circle.
    Stream,
    /// STREAM with a page-sized buffer.
    StreamPacketizer,
    /// STREAM-PACKETIZER with reads in batches.
    LazyReads,
    /// STREAM-PACKETIZER with locality buffers and without batches: a column of Table 1.
    StreamLoc,
    /// STREAM-PACKETIZER with reads in batches and locality buffers.
    LazyReadsLoc,
    /// Extents from the largest free piece.
    Unified,
}

impl Kind {
    /// All managers, in the paper's order.
    pub const ALL: [Kind; 10] = [
        Kind::Simple,
        Kind::Squid,
        Kind::MultipleDirs,
        Kind::Buddy,
        Kind::Stream,
        Kind::StreamPacketizer,
        Kind::LazyReads,
        Kind::StreamLoc,
        Kind::LazyReadsLoc,
        Kind::Unified,
    ];

    /// The name in tables and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Simple => "SIMPLE",
            Kind::Squid => "SQUID",
            Kind::MultipleDirs => "MULTIPLE-DIRS",
            Kind::Buddy => "BUDDY",
            Kind::Stream => "STREAM",
            Kind::StreamPacketizer => "STREAM-PACKETIZER",
            Kind::LazyReads => "LAZY-READS",
            Kind::StreamLoc => "STREAM-PACKETIZER-LOC",
            Kind::LazyReadsLoc => "LAZY-READS-LOC",
            Kind::Unified => "UNIFIED",
        }
    }

    /// The manager of this name; case is ignored.
    pub fn parse(name: &str) -> Option<Kind> {
        Kind::ALL
            .into_iter()
            .find(|kind| kind.name().eq_ignore_ascii_case(name))
    }

    /// Whether all objects are in one file of fixed size, which may be a device.
    pub fn is_one_file(self) -> bool {
        self >= Kind::Stream
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The settings of all managers; each manager uses its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// BUDDY: objects larger than this get a file of their own. At least a slot (512).
    pub threshold_bytes: u32,
    /// Size of the file of STREAM, its variants, and UNIFIED.
    pub file_bytes: u64,
    /// Reads in a batch; 1 to 1000.
    pub batch: usize,
    /// Longest wait of a read.
    pub deadline_us: u64,
    /// Number of locality buffers; 1 to 10,000.
    pub locality_buffers: usize,
    /// A locality buffer is written when it holds this many bytes; at least a page.
    pub locality_bytes: u32,
    /// UNIFIED: bytes cut from the largest piece at a time and written with one call.
    pub cluster_bytes: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            threshold_bytes: THRESHOLD_BYTES,
            file_bytes: 0,
            batch: 10,
            deadline_us: 1_000_000,
            locality_buffers: 128,
            locality_bytes: 64 << 10,
            cluster_bytes: 256 << 10,
        }
    }
}

/// Makes a manager.
pub fn make(kind: Kind, settings: &Settings) -> Box<dyn Manager> {
    use stream::{Options, Stream};
    let stream =
        |options: Options| -> Box<dyn Manager> { Box::new(Stream::new(settings, options)) };
    let plain = Options::default();
    match kind {
        Kind::Simple => Box::new(files::PerObject::new(files::Tree::Simple)),
        Kind::Squid => Box::new(files::PerObject::new(files::Tree::squid())),
        Kind::MultipleDirs => Box::new(files::PerObject::new(files::Tree::servers())),
        Kind::Buddy => Box::new(buddy::Buddy::new(settings.threshold_bytes)),
        Kind::Stream => stream(plain),
        Kind::StreamPacketizer => stream(Options {
            packetizer: true,
            ..plain
        }),
        Kind::LazyReads => stream(Options {
            packetizer: true,
            lazy: true,
            ..plain
        }),
        Kind::StreamLoc => stream(Options {
            packetizer: true,
            locality: true,
            ..plain
        }),
        Kind::LazyReadsLoc => stream(Options {
            packetizer: true,
            lazy: true,
            locality: true,
        }),
        Kind::Unified => Box::new(Stream::unified(settings)),
    }
}

/// Bytes of an object with its header.
fn stored_bytes(size_bytes: u32) -> u32 {
    size_bytes.saturating_add(HEADER_BYTES)
}

/// `bytes` of an object's stored form from `from_byte` on.
fn piece(request: &DiskRequest, from_byte: u32, bytes: u32) -> Piece {
    Piece {
        object: request.object,
        server: request.server,
        size_bytes: request.size_bytes,
        from_byte,
        bytes,
    }
}

/// The error for a request for an unknown object, or a write of a known one: the requests contradict each other.
fn contradiction(what: &str, object: u32) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("object {object} {what}; the requests do not come from one cache"),
    )
}
