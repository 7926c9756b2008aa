//! A real disk: every call of a manager is a system call, counted and timed.
//!
//! | place | usable by | a call becomes |
//! |---|---|---|
//! | a directory | all managers | a file of the file system it is on |
//! | a file or block device | managers of one long file | that file |
//!
//! Reads and writes go through the kernel's page cache, or past it (O_DIRECT). Past it they are widened to whole sectors of
//! [`ALIGN_BYTES`]; a write that begins or ends within a sector first reads that sector, as the kernel does with its pages.
//!
//! An object is written as its header and bytes made from its number. A read is compared with these, so that a manager that
//! loses an object's place is detected.
//!
//! Not known here: managers.   Limits: [`CALL_BYTES_MAX`] a call; the process's limit on open files, for managers that keep files
//! open. Dropping it removes the files it made, but not a file or device that existed before.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::time::Instant;

use super::counted::DeviceStat;
use super::{Calls, DirId, Disk, FileId, HEADER_BYTES, Piece, ROOT, bytes_of, span_of};

/// Alignment of place and length past the page cache; enough for devices of today.
pub const ALIGN_BYTES: u64 = 4096;
/// The largest object, with its header and what alignment adds.
pub const CALL_BYTES_MAX: u64 = 1 << 30;
/// The first bytes of each header.
const MAGIC: [u8; 8] = *b"LABOBJ01";

/// Where the disk is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A directory; a new one is made within it, and removed at the end.
    Directory(PathBuf),
    /// One file or device, which is overwritten from end to end.
    One(PathBuf),
}

/// Whether calls go past the page cache or through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Through {
    /// Through the page cache; `finish` writes it back.
    PageCache,
    /// Past the page cache (O_DIRECT).
    Nothing,
}

/// The disk.
pub struct Real {
    location: Location,
    through: Through,
    /// With a directory as location: the new directory within it.
    root: PathBuf,
    /// The location is a block device.
    is_device: bool,
    dirs: HashMap<DirId, PathBuf>,
    open: HashMap<FileId, File>,
    buffer: Vec<u8>,
    calls: Calls,
    since: Instant,
    in_calls_us: u64,
    longest_us: u64,
    before: Option<DeviceStat>,
}

impl Real {
    /// A disk at this location. A directory must exist; the contents of a file or device will be lost.
    pub fn new(location: Location, through: Through) -> io::Result<Real> {
        let root = match &location {
            Location::Directory(dir) => {
                let root = dir.join(format!("loligo-lab-{}", std::process::id()));
                std::fs::create_dir(&root)?;
                root
            }
            Location::One(path) => path.clone(),
        };
        let is_device = std::fs::metadata(&root)?.file_type().is_block_device();
        Ok(Real {
            is_device,
            location,
            through,
            dirs: HashMap::from([(ROOT, root.clone())]),
            root,
            open: HashMap::new(),
            buffer: Vec::new(),
            calls: Calls::default(),
            since: Instant::now(),
            in_calls_us: 0,
            longest_us: 0,
            before: None,
        })
    }

    fn path(&self, file: FileId) -> io::Result<PathBuf> {
        match &self.location {
            Location::One(path) if file.dir == ROOT && file.number == 0 => Ok(path.clone()),
            Location::One(_) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "this manager has many files; give it a directory",
            )),
            Location::Directory(_) => {
                let dir = self.dirs.get(&file.dir).ok_or(io::ErrorKind::NotFound)?;
                Ok(dir.join(format!("{:08X}", file.number)))
            }
        }
    }

    fn options(&self) -> OpenOptions {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let mut flags = rustix::fs::OFlags::empty();
        if self.through == Through::Nothing {
            flags |= rustix::fs::OFlags::DIRECT;
        }
        // With EXCL the kernel refuses to open a device that is mounted or otherwise in use.
        if self.is_device {
            flags |= rustix::fs::OFlags::EXCL;
        }
        options.custom_flags(flags.bits().cast_signed());
        options
    }

    /// Adds the time of a call.
    fn timed(&mut self, since: Instant) {
        let took = since.elapsed().as_micros() as u64;
        self.in_calls_us += took;
        self.longest_us = self.longest_us.max(took);
    }

    fn open_file(&self, file: FileId) -> io::Result<&File> {
        self.open
            .get(&file)
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the file is not open"))
    }

    /// The range that the system call covers: the same bytes, or the sectors around them.
    fn widened(&self, at: u64, bytes: u64) -> (u64, u64) {
        match self.through {
            Through::PageCache => (at, at + bytes),
            Through::Nothing => (
                at / ALIGN_BYTES * ALIGN_BYTES,
                (at + bytes).next_multiple_of(ALIGN_BYTES),
            ),
        }
    }
}

/// Fills `out` with the bytes of a piece: header, then a pattern of the object's number, then zeros.
fn fill(piece: &Piece, out: &mut [u8]) {
    let mut header = [0; HEADER_BYTES as usize];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&piece.object.to_le_bytes());
    header[12..16].copy_from_slice(&piece.server.to_le_bytes());
    header[16..20].copy_from_slice(&piece.size_bytes.to_le_bytes());
    let stored = u64::from(HEADER_BYTES) + u64::from(piece.size_bytes);
    for (at, byte) in (u64::from(piece.from_byte)..).zip(out) {
        *byte = if at < u64::from(HEADER_BYTES) {
            header[at as usize]
        } else if at < stored {
            (u64::from(piece.object) * 31 + at / 8) as u8
        } else {
            0
        };
    }
}

/// Decodes a header, if `bytes` begin with one: object, server, size. A scan after a crash finds the contents of a file by it.
pub fn read_header(bytes: &[u8]) -> Option<(u32, u32, u32)> {
    let word = |at: usize| {
        let bytes: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes))
    };
    (bytes.get(..8)? == MAGIC).then_some(())?;
    Some((word(8)?, word(12)?, word(16)?))
}

/// A part of `buffer` of this length that begins at an aligned address.
fn aligned(buffer: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    let align = ALIGN_BYTES as usize;
    buffer.resize(bytes + align, 0);
    let skip = buffer.as_ptr().align_offset(align).min(align);
    &mut buffer[skip..skip + bytes]
}

impl Disk for Real {
    fn now_us(&self) -> u64 {
        self.since.elapsed().as_micros() as u64
    }

    fn start(&mut self) -> io::Result<()> {
        self.finish()?;
        self.calls = Calls::default();
        self.in_calls_us = 0;
        self.longest_us = 0;
        self.before = DeviceStat::of(&self.root);
        self.since = Instant::now();
        Ok(())
    }

    fn make_dir(&mut self, dir: DirId, parent: DirId) -> io::Result<()> {
        let since = Instant::now();
        let above = self.dirs.get(&parent).ok_or(io::ErrorKind::NotFound)?;
        let path = above.join(format!("d{:X}", dir.0));
        std::fs::create_dir(&path)?;
        self.dirs.insert(dir, path);
        self.calls.dirs += 1;
        self.timed(since);
        Ok(())
    }

    fn create(&mut self, file: FileId) -> io::Result<()> {
        let path = self.path(file)?;
        let since = Instant::now();
        let mut options = self.options();
        if let Location::Directory(_) = self.location {
            options.create_new(true);
        }
        let opened = options.open(path)?;
        self.open.insert(file, opened);
        self.calls.creates += 1;
        self.timed(since);
        Ok(())
    }

    fn reserve(&mut self, file: FileId, bytes: u64) -> io::Result<()> {
        let opened = self.open_file(file)?;
        if opened.metadata()?.is_file() {
            rustix::fs::fallocate(opened, rustix::fs::FallocateFlags::empty(), 0, bytes)?;
            return Ok(());
        }
        let mut opened = opened;
        let has = opened.seek(io::SeekFrom::End(0))?;
        if has < bytes {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                format!("the device has {has} bytes and {bytes} are needed; take fewer requests"),
            ));
        }
        Ok(())
    }

    fn open(&mut self, file: FileId) -> io::Result<()> {
        let path = self.path(file)?;
        let since = Instant::now();
        let opened = self.options().open(path)?;
        self.open.insert(file, opened);
        self.calls.opens += 1;
        self.timed(since);
        Ok(())
    }

    fn write(&mut self, file: FileId, at_byte: u64, pieces: &[Piece]) -> io::Result<()> {
        let bytes = bytes_of(pieces);
        assert!(bytes <= CALL_BYTES_MAX, "{bytes} bytes in a call");
        let (first, end) = self.widened(at_byte, bytes);
        let mut buffer = std::mem::take(&mut self.buffer);
        let space = aligned(&mut buffer, (end - first) as usize);
        let lead = (at_byte - first) as usize;
        let since = Instant::now();
        let opened = self.open_file(file)?;
        // The bytes around the written ones are kept.
        let sector = ALIGN_BYTES as usize;
        if lead > 0 {
            read_what_is_there(opened, &mut space[..sector], first)?;
        }
        if end > at_byte + bytes && (lead == 0 || end - first > ALIGN_BYTES) {
            let tail = space.len() - sector;
            read_what_is_there(opened, &mut space[tail..], end - ALIGN_BYTES)?;
        }
        let mut at = lead;
        for piece in pieces {
            fill(piece, &mut space[at..at + piece.bytes as usize]);
            at += piece.bytes as usize;
        }
        opened.write_all_at(space, first)?;
        self.buffer = buffer;
        self.calls.writes += 1;
        self.calls.write_bytes += bytes;
        self.timed(since);
        Ok(())
    }

    fn read(&mut self, file: FileId, at_byte: u64, piece: Piece) -> io::Result<()> {
        self.read_together(file, &[(at_byte, piece)])
    }

    fn read_together(&mut self, file: FileId, pieces: &[(u64, Piece)]) -> io::Result<()> {
        let (at_byte, end_byte) = span_of(pieces);
        let bytes = end_byte - at_byte;
        let (first, end) = self.widened(at_byte, bytes);
        let mut buffer = std::mem::take(&mut self.buffer);
        let space = aligned(&mut buffer, (end - first) as usize);
        let since = Instant::now();
        let opened = self.open_file(file)?;
        read_what_is_there(opened, space, first)?;
        self.timed(since);
        for (at_byte, piece) in pieces {
            let lead = (at_byte - first) as usize;
            let mut expected = vec![0; piece.bytes as usize];
            fill(piece, &mut expected);
            if space[lead..lead + expected.len()] != expected[..] {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!(
                        "object {} is not at byte {at_byte} of {file:?}",
                        piece.object
                    ),
                ));
            }
        }
        self.buffer = buffer;
        self.calls.reads += 1;
        self.calls.read_bytes += bytes;
        Ok(())
    }

    fn close(&mut self, file: FileId) -> io::Result<()> {
        let since = Instant::now();
        self.open.remove(&file);
        self.timed(since);
        Ok(())
    }

    fn delete(&mut self, file: FileId) -> io::Result<()> {
        let path = self.path(file)?;
        let since = Instant::now();
        std::fs::remove_file(path)?;
        self.calls.deletes += 1;
        self.timed(since);
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        // Closing does not write the data back; this sync does, for the whole file system or the device.
        let path = match &self.location {
            Location::Directory(_) => self.root.clone(),
            Location::One(path) => path.clone(),
        };
        let opened = File::open(path)?;
        match &self.location {
            Location::Directory(_) => rustix::fs::syncfs(&opened)?,
            Location::One(_) => opened.sync_all()?,
        }
        Ok(())
    }

    fn calls(&self) -> Calls {
        self.calls
    }

    fn figures(&self) -> Vec<(String, f64)> {
        let mut figures = vec![
            (
                "in system calls (s)".to_owned(),
                self.in_calls_us as f64 / 1e6,
            ),
            ("longest call (ms)".to_owned(), self.longest_us as f64 / 1e3),
        ];
        if let (Some(then), Some(now)) = (self.before, DeviceStat::of(&self.root)) {
            figures.push(("device reads".to_owned(), (now.reads - then.reads) as f64));
            figures.push((
                "device writes".to_owned(),
                (now.writes - then.writes) as f64,
            ));
            let megabytes = (now.write_sectors - then.write_sectors) as f64 * 512.0 / 1e6;
            figures.push(("device written MB".to_owned(), megabytes));
        }
        figures
    }
}

/// Reads up to the end of the file; the rest of `space` does not change.
fn read_what_is_there(file: &File, mut space: &mut [u8], mut at: u64) -> io::Result<()> {
    while !space.is_empty() {
        let got = file.read_at(space, at)?;
        if got == 0 {
            break;
        }
        space = &mut space[got..];
        at += got as u64;
    }
    Ok(())
}

impl Drop for Real {
    fn drop(&mut self) {
        self.open.clear();
        if let Location::Directory(_) = self.location {
            let _ = std::fs::remove_dir_all(&self.root);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::managers::{Kind, SLOT_BYTES, Settings, make};
    use crate::paper::experiment::run;
    use crate::paper::source::{Caches, Source, Until};
    use crate::paper::workload::Workload;

    const FILE: FileId = FileId {
        dir: ROOT,
        number: 0,
    };

    fn piece(object: u32, bytes: u32) -> Piece {
        Piece {
            object,
            server: 7,
            size_bytes: bytes - HEADER_BYTES,
            from_byte: 0,
            bytes,
        }
    }

    /// In memory if possible: a flush of the machine's disk would wait for other processes' data, too.
    fn quick_dir() -> tempfile::TempDir {
        tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .unwrap()
    }

    fn made(seed: u64, disk_bytes: u64, memory_bytes: u64, requests: usize) -> Workload {
        let caches = Caches {
            memory_bytes,
            disk_bytes,
        };
        let until = Until::Requests(requests);
        let source = Source::Fitted { seed };
        source.workload(caches, until, seed, true).unwrap()
    }

    fn run_in(dir: &Path, through: Through, kind: Kind) -> io::Result<u64> {
        let made = made(1, 1 << 20, 1 << 17, 400);
        let mut disk = Real::new(Location::Directory(dir.to_owned()), through)?;
        let settings = Settings {
            file_bytes: 3 << 20,
            ..Settings::default()
        };
        let mut manager = make(kind, &settings);
        let gets = made.counts.gets;
        let outcome = run(manager.as_mut(), &mut disk, &made.requests, gets, |_| true)?;
        Ok(outcome.calls.reads)
    }

    #[test]
    fn every_manager_runs_on_a_directory_and_leaves_nothing_behind() {
        let dir = quick_dir();
        for kind in Kind::ALL {
            let reads = run_in(dir.path(), Through::PageCache, kind).unwrap();
            assert!(reads > 0, "{kind}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn past_the_page_cache_it_is_the_same() {
        let dir = tempfile::tempdir().unwrap();
        for kind in [Kind::Buddy, Kind::LazyReadsLoc] {
            match run_in(dir.path(), Through::Nothing, kind) {
                Ok(reads) => assert!(reads > 0, "{kind}"),
                // Some file systems have no O_DIRECT.
                Err(e) => assert_eq!(e.raw_os_error(), Some(22), "{kind}: {e}"),
            }
        }
    }

    #[test]
    fn a_manager_that_loses_an_object_is_found_out() {
        let dir = quick_dir();
        let location = Location::Directory(dir.path().to_owned());
        let mut disk = Real::new(location, Through::PageCache).unwrap();
        disk.create(FILE).unwrap();
        disk.write(FILE, 0, &[piece(1, 1000), piece(2, 1000)])
            .unwrap();
        disk.read(FILE, 1000, piece(2, 1000)).unwrap();
        let wrong = disk.read(FILE, 0, piece(2, 1000)).unwrap_err();
        assert_eq!(wrong.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_scan_finds_what_a_stream_holds() {
        let dir = quick_dir();
        let path = dir.path().join("file");
        File::create(&path).unwrap().set_len(1 << 20).unwrap();
        let made = made(2, 400 << 10, 1 << 16, 60);
        let mut disk = Real::new(Location::One(path.clone()), Through::PageCache).unwrap();
        let settings = Settings {
            file_bytes: 1 << 20,
            ..Settings::default()
        };
        let mut manager = make(Kind::StreamPacketizer, &settings);
        run(
            manager.as_mut(),
            &mut disk,
            &made.requests,
            made.counts.gets,
            |_| true,
        )
        .unwrap();
        drop(disk);
        let bytes = std::fs::read(&path).unwrap();
        let found: Vec<u32> = bytes
            .chunks(SLOT_BYTES as usize)
            .filter_map(|slot| read_header(slot).map(|(object, _, _)| object))
            .collect();
        let mut written = Vec::new();
        let all = made.requests.each(|request| {
            if request.op == crate::DiskOp::Write {
                written.push(request.object);
            }
            Ok(())
        });
        all.unwrap();
        assert_eq!(found, written);
    }
}
