//! The disk under a file-space manager: files of a file system, real or modelled.
//!
//! A manager decides and calls a [`Disk`]. There are these implementations:
//!
//! | disk | module | what happens |
//! |---|---|---|
//! | modelled, seeking | `ufs` over `drive` | the file system and the disk of paper 002, in virtual time |
//! | modelled, flash | `ufs` over `flash` | the same file system over a device of channels and erase blocks |
//! | real | `real` | system calls in a directory, a file or a block device, counted and timed |
//!
//! The bytes written are made from the object's number ([`Piece`]), so that a read can be checked without a copy.
//!
//! Source: paper 002, section 3.1 (method). The constants of the models: `constants`.

pub mod cache;
#[cfg(test)]
pub mod checked;
pub mod constants;
pub mod counted;
pub mod drive;
pub mod flash;
pub mod free_space;
pub mod hardware;
pub mod machine;
pub mod queue;
pub mod real;
pub mod slow;
pub mod ufs;

use std::io;

/// A directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DirId(pub u32);

/// The root directory, which exists from the beginning.
pub const ROOT: DirId = DirId(0);

/// A file: a number in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// The directory that has its name.
    pub dir: DirId,
    /// Its number, which is its name.
    pub number: u32,
}

/// Bytes before an object's body that identify it: number, server, size. The paper stores name and size; 64 bytes, since
/// a URL of the time is about that long.
//= paper 002 section 3.3   to survive a crash, name and size may be stored with each object
pub const HEADER_BYTES: u32 = 64;

/// Part of an object in stored form: [`HEADER_BYTES`] of header, then the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The object's number.
    pub object: u32,
    /// Its server's number.
    pub server: u32,
    /// Its size, without the header.
    pub size_bytes: u32,
    /// First byte of the stored form.
    pub from_byte: u32,
    /// The number of bytes; bytes beyond the stored form are padding.
    pub bytes: u32,
}

/// Makes, fills and removes files. When a call returns, its effect is visible to the caller; the disk decides when
/// bytes reach the platter.
pub trait Disk {
    /// Microseconds since [`Disk::start`], in the disk's own time.
    fn now_us(&self) -> u64;

    /// Ends the preparation: the clock and the counts start now.
    fn start(&mut self) -> io::Result<()>;

    /// A request to the manager begins; accounts for the machine's own work.
    fn begin(&mut self) {}

    /// Makes an empty directory.
    fn make_dir(&mut self, dir: DirId, parent: DirId) -> io::Result<()>;

    /// Makes an empty file and opens it.
    fn create(&mut self, file: FileId) -> io::Result<()>;

    /// Gives an open file its full size, so that later writes do not extend it.
    fn reserve(&mut self, file: FileId, bytes: u64) -> io::Result<()>;

    /// Opens a file.
    fn open(&mut self, file: FileId) -> io::Result<()>;

    /// Writes the pieces one after the other from `at_byte` on, with one call.
    fn write(&mut self, file: FileId, at_byte: u64, pieces: &[Piece]) -> io::Result<()>;

    /// Reads the piece at `at_byte` with one call, and checks its contents where possible.
    fn read(&mut self, file: FileId, at_byte: u64, piece: Piece) -> io::Result<()>;

    /// Reads several pieces and the bytes between them with one call, and checks each as [`Disk::read`] does. At least one piece, with
    /// its place, in order of place.
    fn read_together(&mut self, file: FileId, pieces: &[(u64, Piece)]) -> io::Result<()>;

    /// Closes a file.
    fn close(&mut self, file: FileId) -> io::Result<()>;

    /// Removes a closed file.
    fn delete(&mut self, file: FileId) -> io::Result<()>;

    /// Waits until all written data is on the device.
    fn finish(&mut self) -> io::Result<()>;

    /// Counts of the calls since [`Disk::start`].
    fn calls(&self) -> Calls;

    /// Counters of the device since [`Disk::start`], by name, as far as they are known.
    fn figures(&self) -> Vec<(String, f64)>;
}

/// How often each call was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calls {
    /// Directories made.
    pub dirs: u64,
    /// Files made.
    pub creates: u64,
    /// Files opened.
    pub opens: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Files removed.
    pub deletes: u64,
}

/// The range from the first byte of the first piece to the last byte of the last.
pub fn span_of(pieces: &[(u64, Piece)]) -> (u64, u64) {
    let end = |(at, piece): &(u64, Piece)| at + u64::from(piece.bytes);
    (
        pieces.first().map_or(0, |first| first.0),
        pieces.last().map_or(0, end),
    )
}

/// Bytes of all pieces together.
pub fn bytes_of(pieces: &[Piece]) -> u64 {
    pieces.iter().map(|piece| u64::from(piece.bytes)).sum()
}
