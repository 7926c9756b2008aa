//! STREAM and its variants: all objects in one file, each written behind the last one.
//!
//! An object goes through up to three stages, each of which is optional:
//!
//! ```text
//! write -> locality buffers -> place (circle, or largest piece) -> packetizer -> disk
//! read  -> locality buffers -> packetizer -> batch of lazy reads --------------> disk
//! ```
//!
//! The second stage decides the object's place. Until its bytes are on disk, a read takes them from the buffer that holds them. A
//! waiting read is carried out before the place of its object is given to another.
//!
//! Not known here: servers (except in `locality`), how the disk carries out a write.
//! Limits: a file of 2^32 slots; an object that does not fit is an error with the circle, and refused with the largest piece.
//! Source: paper 002, sections 3.4 to 3.6.

use std::collections::HashMap;
use std::io;

use super::largest::LargestPiece;
use super::lazy::{Batch, Read};
use super::locality::Buffers;
use super::slots::{Run, SLOT_BYTES, Slots};
use super::{Manager, Settings, contradiction, piece, stored_bytes};
use crate::disks::{Disk, FileId, Piece, ROOT};
use crate::{DiskOp, DiskRequest};

/// Bytes of a page, and of the paper's packetizer.
pub const PAGE_BYTES: u32 = 8192;

const FILE: FileId = FileId {
    dir: ROOT,
    number: 0,
};

/// The stages between a request and the file.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Writes go through a buffer (packetizer).
    pub packetizer: bool,
    /// Reads wait for each other.
    pub lazy: bool,
    /// Objects of a server are gathered.
    pub locality: bool,
}

/// The allocation of places.
enum Space {
    /// Behind the last write, in a circle; an object may lie in several runs.
    Circle(Slots),
    /// At the front of the largest free piece; an object lies in one run.
    Largest(LargestPiece),
}

impl Space {
    fn take(&mut self, slots: u32) -> Option<Vec<Run>> {
        match self {
            Space::Largest(space) => space.take(slots).map(|run| vec![run]),
            Space::Circle(space) => {
                if space.free() < slots {
                    return None;
                }
                let mut runs = Vec::with_capacity(1);
                let mut left = slots;
                while let Some(run) = (left > 0).then(|| space.take(left)).flatten() {
                    left -= run.slots;
                    runs.push(run);
                }
                Some(runs)
            }
        }
    }

    fn give_back(&mut self, run: Run) {
        match self {
            Space::Largest(space) => space.give_back(run),
            Space::Circle(space) => space.give_back(run),
        }
    }
}

/// Joins adjacent writes to one call, up to the next boundary of the window.
struct Packetizer {
    window_bytes: u64,
    at: u64,
    end: u64,
    pieces: Vec<Piece>,
}

impl Packetizer {
    /// An empty packetizer; the window is in bytes.
    fn new(window_bytes: u32) -> Packetizer {
        Packetizer {
            window_bytes: u64::from(window_bytes),
            at: 0,
            end: 0,
            pieces: Vec::new(),
        }
    }

    /// Adds a piece whose place is `at`.
    //= paper 002 section 3.4   one page long, aligned; sent when full, or when the next write does not follow
    fn add(&mut self, mut at: u64, mut rest: Piece, disk: &mut dyn Disk) -> io::Result<()> {
        if at != self.end {
            self.send(disk)?;
        }
        while rest.bytes > 0 {
            if self.pieces.is_empty() {
                self.at = at;
            }
            let boundary = (at / self.window_bytes + 1) * self.window_bytes;
            let now = rest.bytes.min((boundary - at) as u32);
            self.pieces.push(Piece { bytes: now, ..rest });
            rest.from_byte += now;
            rest.bytes -= now;
            at += u64::from(now);
            self.end = at;
            if at == boundary {
                self.send(disk)?;
            }
        }
        Ok(())
    }

    /// Writes the gathered pieces.
    fn send(&mut self, disk: &mut dyn Disk) -> io::Result<()> {
        if !self.pieces.is_empty() {
            disk.write(FILE, self.at, &self.pieces)?;
            self.pieces.clear();
        }
        self.at = self.end;
        Ok(())
    }

    /// How many bytes at the front of `[at, at + bytes)` are on disk. The rest is in the buffer.
    fn sent_of(&self, at: u64, bytes: u32) -> u32 {
        let end = at + u64::from(bytes);
        if self.pieces.is_empty() || end <= self.at || self.end <= at {
            bytes
        } else {
            self.at.saturating_sub(at) as u32
        }
    }
}

/// Slots of the file.
fn slots(settings: &Settings) -> u32 {
    let slots = settings.file_bytes / u64::from(SLOT_BYTES);
    u32::try_from(slots).unwrap_or(u32::MAX - 1)
}

/// The manager.
pub struct Stream {
    file_bytes: u64,
    space: Space,
    objects: HashMap<u32, Runs>,
    packetizer: Option<Packetizer>,
    batch: Option<Batch>,
    buffers: Option<Buffers>,
    from_memory: u64,
    pieces: u64,
    refused: u64,
    placed: u64,
}

/// The place of an object: almost always one run.
enum Runs {
    One(Run),
    More(Vec<Run>),
}

impl Runs {
    fn all(&self) -> &[Run] {
        match self {
            Runs::One(run) => std::slice::from_ref(run),
            Runs::More(runs) => runs,
        }
    }
}

impl Stream {
    /// The paper's manager: a circle of slots.
    pub fn new(settings: &Settings, options: Options) -> Stream {
        let space = Space::Circle(Slots::new(slots(settings)));
        Stream::over(space, settings, options, PAGE_BYTES)
    }

    /// UNIFIED: extents from the largest piece, written a cluster at a time.
    pub fn unified(settings: &Settings) -> Stream {
        let cluster = settings.cluster_bytes;
        let space = LargestPiece::new(slots(settings), cluster / SLOT_BYTES);
        let options = Options {
            packetizer: true,
            ..Options::default()
        };
        Stream::over(Space::Largest(space), settings, options, cluster)
    }

    /// A manager over any space; writes are gathered up to boundaries of `window_bytes`.
    fn over(space: Space, settings: &Settings, options: Options, window_bytes: u32) -> Stream {
        Stream {
            file_bytes: settings.file_bytes,
            space,
            objects: HashMap::new(),
            packetizer: options.packetizer.then(|| Packetizer::new(window_bytes)),
            batch: options
                .lazy
                .then(|| Batch::new(settings.batch, settings.deadline_us)),
            buffers: options.locality.then(|| {
                Buffers::new(
                    settings.locality_buffers,
                    settings.locality_bytes,
                    SLOT_BYTES,
                )
            }),
            from_memory: 0,
            pieces: 0,
            refused: 0,
            placed: 0,
        }
    }

    fn place(&mut self, request: DiskRequest, disk: &mut dyn Disk) -> io::Result<()> {
        let slots = stored_bytes(request.size_bytes).div_ceil(SLOT_BYTES);
        let Some(mut runs) = self.space.take(slots) else {
            if let Space::Largest(_) = self.space {
                self.refused += 1;
                return Ok(());
            }
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                "the file is full; a lower utilisation gives it more room",
            ));
        };
        self.placed += 1;
        self.pieces += runs.len() as u64;
        let mut from = 0;
        for run in &runs {
            // Whole slots, so that the next object begins at the end of this one.
            let part = piece(&request, from, run.bytes());
            match &mut self.packetizer {
                Some(packetizer) => packetizer.add(run.byte(), part, disk)?,
                None => disk.write(FILE, run.byte(), &[part])?,
            }
            from += run.bytes();
        }
        let runs = match (runs.pop(), runs.is_empty()) {
            (Some(run), true) => Runs::One(run),
            (last, _) => {
                runs.extend(last);
                Runs::More(runs)
            }
        };
        match self.objects.insert(request.object, runs) {
            None => Ok(()),
            Some(_) => Err(contradiction("is stored already", request.object)),
        }
    }

    fn read(&mut self, request: DiskRequest, disk: &mut dyn Disk) -> io::Result<()> {
        let waits = |buffers: &Buffers| buffers.has(&request);
        if self.buffers.as_ref().is_some_and(waits) {
            self.from_memory += 1;
            return Ok(());
        }
        let Some(runs) = self.objects.get(&request.object) else {
            return self.missing(request.object);
        };
        let stored = stored_bytes(request.size_bytes);
        let mut from = 0;
        let mut reads: Vec<Read> = Vec::with_capacity(1);
        for run in runs.all() {
            let bytes = run.bytes().min(stored - from);
            let on_disk = match &self.packetizer {
                Some(packetizer) => packetizer.sent_of(run.byte(), bytes),
                None => bytes,
            };
            if on_disk > 0 {
                reads.push((run.byte(), piece(&request, from, on_disk)));
            }
            from += bytes;
        }
        if reads.is_empty() {
            self.from_memory += 1;
        }
        match &mut self.batch {
            Some(batch) => batch.add(&reads, disk.now_us()),
            None => {
                for (at, piece) in reads {
                    disk.read(FILE, at, piece)?;
                }
            }
        }
        Ok(())
    }

    fn delete(&mut self, request: DiskRequest, disk: &mut dyn Disk) -> io::Result<()> {
        let gathered = |buffers: &mut Buffers| buffers.remove(&request);
        if self.buffers.as_mut().is_some_and(gathered) {
            return Ok(());
        }
        if let Some(batch) = &mut self.batch
            && batch.has(request.object)
        {
            batch.run(FILE, disk)?;
        }
        let Some(runs) = self.objects.remove(&request.object) else {
            return self.missing(request.object);
        };
        for &run in runs.all() {
            self.space.give_back(run);
        }
        Ok(())
    }

    /// The result for an object without a place: nothing to do if objects were refused, since those may still be read or deleted; else an error.
    fn missing(&self, object: u32) -> io::Result<()> {
        if self.refused > 0 {
            return Ok(());
        }
        Err(contradiction("is not stored", object))
    }
}

impl Manager for Stream {
    fn prepare(&mut self, disk: &mut dyn Disk) -> io::Result<()> {
        disk.create(FILE)?;
        disk.reserve(FILE, self.file_bytes)
    }

    fn handle(&mut self, request: DiskRequest, disk: &mut dyn Disk) -> io::Result<()> {
        if let Some(batch) = &mut self.batch
            && batch.is_due(disk.now_us())
        {
            batch.run(FILE, disk)?;
        }
        match request.op {
            DiskOp::Read => self.read(request, disk),
            DiskOp::Delete => self.delete(request, disk),
            DiskOp::Write => {
                let out = match &mut self.buffers {
                    Some(buffers) => buffers.add(request),
                    None => vec![request],
                };
                for object in out {
                    self.place(object, disk)?;
                }
                Ok(())
            }
        }
    }

    fn finish(&mut self, disk: &mut dyn Disk) -> io::Result<()> {
        if let Some(batch) = &mut self.batch {
            batch.run(FILE, disk)?;
        }
        let gathered = self.buffers.as_mut().map(Buffers::drain);
        for object in gathered.into_iter().flatten() {
            self.place(object, disk)?;
        }
        if let Some(packetizer) = &mut self.packetizer {
            packetizer.send(disk)?;
        }
        disk.close(FILE)
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        let mut figures = vec![
            (
                "runs an object",
                self.pieces as f64 / self.placed.max(1) as f64,
            ),
            ("reads from a buffer", self.from_memory as f64),
            ("objects refused", self.refused as f64),
        ];
        if let Some(batch) = &self.batch {
            let (batches, late) = batch.counts();
            figures.push(("batches of reads", batches as f64));
            figures.push(("batches ended by the deadline", late as f64));
        }
        figures
    }
}
