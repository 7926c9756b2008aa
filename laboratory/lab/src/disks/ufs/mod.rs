//! The file system of paper 002, modelled: Solaris UFS on one disk, with the kernel's caches around it.
//!
//! What is modelled, because the paper's tables come from it:
//!
//! - *Names and inodes are written at once* (`names`): a create waits for the inode and for the directory, a delete for the
//!   directory and the truncated inode, each a write to the platter. Directories are searched from the front.
//! - *Data is written late* (`data`): a write that reaches the end of a block queues the block, together with its
//!   neighbours as one cluster. A partly written block stays in memory until the flush daemon comes by, half a minute later at
//!   most. A write to part of a block that is not in memory reads it first.
//! - *Memory is small* (`memory`): pages of files in one cache, inodes, bitmaps and indirect blocks in a smaller one.
//! - A writer with too many bytes waiting at the device is stopped.
//!
//! The process and the device have a clock each. The process's time advances by its own work and jumps when it waits; the device
//! works through its queue meanwhile.
//!
//! Not known here: managers, objects.   Limits: the capacity of the disk; one process. Names of directories are always found at once
//! (the kernel's name cache), names of files never.
//! Sources: paper 002 sections 3.1, 3.3 and 3.4; the kernel's rules from the published source of OpenSolaris; docs/lab.md.

mod data;
mod memory;
mod names;

use std::collections::BTreeSet;
use std::io;

use super::cache::{Cache, Map};
use super::constants::{Constant, Trust};
use super::free_space::{BLOCK_BYTES, Frag, FreeSpace, Full, InodePlace};
use super::hardware::Hardware;
use super::machine::Machine;
use super::queue::{Counts, Owner, Queue};
use super::{Calls, DirId, Disk, FileId, Piece, ROOT, bytes_of, span_of};

/// The owner of requests for inodes, directories and bitmaps.
const META: Owner = 0;
/// Block addresses in an inode; all further ones are in indirect blocks.
const DIRECT_BLOCKS: usize = 12;
/// Block addresses in an indirect block.
const INDIRECT_BLOCKS: usize = 2048;

/// The constants of the file system, each with its source.
pub fn constants() -> Vec<Constant> {
    use Trust::{Known, Measured, Paper, Source};
    let addresses = format!("{DIRECT_BLOCKS}, {INDIRECT_BLOCKS}");
    vec![
        Constant::new(
            "`DIRECT_BLOCKS`, `INDIRECT_BLOCKS`",
            addresses,
            Known,
            "UFS",
        ),
        Constant::new(
            "`ENTRY_BYTES`",
            names::ENTRY_BYTES.to_string(),
            Known,
            "a name of eight to fifteen letters",
        ),
        Constant::new(
            "`SEARCHED_BLOCKS_MAX`",
            names::SEARCHED_BLOCKS_MAX.to_string(),
            Trust::Assumed,
            "a longer directory is searched so often that memory holds it",
        ),
        Constant::new(
            "read-ahead",
            "one cluster behind a sequential block",
            Source,
            "`ufs_getpage`",
        ),
        Constant::new(
            "a cluster goes out",
            "full, broken off, or at close",
            Source,
            "the write path, `ufs_close`",
        ),
        Constant::new(
            "read before a write of part of a page",
            "yes",
            Paper,
            "section 3.4",
        ),
        Constant::new(
            "writes waited for",
            "create: inode, entry, inode again with data; delete: entry, inode if there was data",
            Measured,
            "Figure 3",
        ),
    ]
}

/// A file or directory.
#[derive(Debug)]
struct Inode {
    place: InodePlace,
    bytes: u64,
    blocks: Vec<Frag>,
    /// Fragments of the last block.
    tail_frags: u32,
    indirect: Vec<Frag>,
    /// The block that a sequential reader would read next.
    next_read: u32,
    /// Whole blocks written in order and not queued yet.
    run_first: u32,
    run_blocks: u32,
}

#[derive(Debug)]
struct Dir {
    inode: u32,
    /// Number of entries, used and free.
    slots: u32,
    free: BTreeSet<u32>,
}

/// A directory entry: its inode, and its slot in the directory.
#[derive(Debug, Clone, Copy)]
struct Entry {
    inode: u32,
    slot: u32,
}

/// The file system.
pub struct Ufs {
    machine: Machine,
    queue: Queue,
    now_us: f64,
    space: FreeSpace,
    pages: Cache,
    meta: Cache,
    inodes: Vec<Option<Inode>>,
    free_inodes: Vec<u32>,
    dirs: Map<DirId, Dir>,
    files: Map<FileId, Entry>,
    next_flush_us: f64,
    flush_part: usize,
    calls: Calls,
    start_us: f64,
    at_start: Counts,
}

fn full(_: Full) -> io::Error {
    io::Error::new(
        io::ErrorKind::StorageFull,
        "the modelled disk is full; use a smaller cache or a lower scale",
    )
}

fn unknown(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("no such {what}"))
}

impl Ufs {
    /// An empty file system.
    pub fn new(machine: Machine, hardware: Box<dyn Hardware>) -> Ufs {
        let mut space = FreeSpace::new(hardware.sectors());
        let group = space.group_for_dir();
        let place = space.take_inode(group).expect("a new disk has inodes");
        let mut ufs = Ufs {
            pages: Cache::new((machine.page_cache_bytes / BLOCK_BYTES) as usize),
            meta: Cache::new((machine.meta_cache_bytes / BLOCK_BYTES) as usize),
            next_flush_us: machine.flush_every_us,
            machine,
            queue: Queue::new(hardware),
            now_us: 0.0,
            space,
            inodes: Vec::new(),
            free_inodes: Vec::new(),
            dirs: Map::default(),
            files: Map::default(),
            flush_part: 0,
            calls: Calls::default(),
            start_us: 0.0,
            at_start: Counts::default(),
        };
        let inode = ufs.add_inode(place);
        let dir = Dir {
            inode,
            slots: 0,
            free: BTreeSet::new(),
        };
        ufs.dirs.insert(ROOT, dir);
        ufs
    }

    fn add_inode(&mut self, place: InodePlace) -> u32 {
        let inode = Inode {
            place,
            bytes: 0,
            blocks: Vec::new(),
            tail_frags: 0,
            indirect: Vec::new(),
            next_read: 0,
            run_first: 0,
            run_blocks: 0,
        };
        if let Some(number) = self.free_inodes.pop() {
            self.inodes[number as usize] = Some(inode);
            number
        } else {
            self.inodes.push(Some(inode));
            self.inodes.len() as u32 - 1
        }
    }

    fn inode(&mut self, number: u32) -> &mut Inode {
        self.inodes[number as usize]
            .as_mut()
            .expect("a name never stands for an inode that was freed")
    }

    fn entry(&self, file: FileId) -> io::Result<Entry> {
        self.files
            .get(&file)
            .copied()
            .ok_or_else(|| unknown("file"))
    }

    fn work(&mut self, us: f64) {
        self.now_us += us;
    }
}

impl Disk for Ufs {
    fn now_us(&self) -> u64 {
        (self.now_us - self.start_us) as u64
    }

    fn start(&mut self) -> io::Result<()> {
        self.flush_all();
        self.now_us = self.queue.drain(self.now_us);
        self.start_us = self.now_us;
        self.next_flush_us = self.now_us + self.machine.flush_every_us;
        self.at_start = self.queue.counts;
        self.calls = Calls::default();
        Ok(())
    }

    fn begin(&mut self) {
        self.work(self.machine.request_us);
    }

    fn make_dir(&mut self, dir: DirId, parent: DirId) -> io::Result<()> {
        self.tick();
        self.calls.dirs += 1;
        self.add_dir(dir, parent)
    }

    fn create(&mut self, file: FileId) -> io::Result<()> {
        self.tick();
        self.calls.creates += 1;
        self.add_file(file)
    }

    fn reserve(&mut self, file: FileId, bytes: u64) -> io::Result<()> {
        let inode = self.entry(file)?.inode;
        self.grow(inode, bytes)
    }

    fn open(&mut self, file: FileId) -> io::Result<()> {
        self.tick();
        self.calls.opens += 1;
        self.find_file(file)
    }

    fn write(&mut self, file: FileId, at_byte: u64, pieces: &[Piece]) -> io::Result<()> {
        self.tick();
        let bytes = bytes_of(pieces);
        self.calls.writes += 1;
        self.calls.write_bytes += bytes;
        let inode = self.entry(file)?.inode;
        self.write_bytes(inode, at_byte, bytes)
    }

    fn read(&mut self, file: FileId, at_byte: u64, piece: Piece) -> io::Result<()> {
        self.tick();
        self.calls.reads += 1;
        self.calls.read_bytes += u64::from(piece.bytes);
        let inode = self.entry(file)?.inode;
        self.read_bytes(inode, at_byte, u64::from(piece.bytes))
    }

    fn read_together(&mut self, file: FileId, pieces: &[(u64, Piece)]) -> io::Result<()> {
        self.tick();
        let (at_byte, end) = span_of(pieces);
        self.calls.reads += 1;
        self.calls.read_bytes += end - at_byte;
        let inode = self.entry(file)?.inode;
        self.read_bytes(inode, at_byte, end - at_byte)
    }

    fn close(&mut self, file: FileId) -> io::Result<()> {
        self.work(self.machine.call_us);
        // Blocks gathered for a cluster are written, even if the cluster is not full.
        let inode = self.entry(file)?.inode;
        self.push_run(inode);
        Ok(())
    }

    fn delete(&mut self, file: FileId) -> io::Result<()> {
        self.tick();
        self.calls.deletes += 1;
        self.remove_file(file)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.flush_all();
        self.now_us = self.queue.drain(self.now_us);
        Ok(())
    }

    fn calls(&self) -> Calls {
        self.calls
    }

    fn figures(&self) -> Vec<(String, f64)> {
        let (now, then) = (self.queue.counts, self.at_start);
        let mut figures = vec![
            ("device reads".to_owned(), (now.reads - then.reads) as f64),
            (
                "device read MB".to_owned(),
                (now.read_bytes - then.read_bytes) as f64 / 1e6,
            ),
            (
                "device writes".to_owned(),
                (now.writes - then.writes) as f64,
            ),
            (
                "device written MB".to_owned(),
                (now.write_bytes - then.write_bytes) as f64 / 1e6,
            ),
            (
                "device busy (s)".to_owned(),
                (now.busy_us - then.busy_us) / 1e6,
            ),
        ];
        let hardware = self.queue.hardware();
        for (name, value) in hardware.figures() {
            figures.push((name.to_owned(), value));
        }
        figures.push((
            "write amplification".to_owned(),
            hardware.write_amplification(),
        ));
        figures
    }
}

#[cfg(test)]
mod tests;
