//! SECOND-CHANCE and CYCLIC-LOG: the layouts that were considered for the production store, under the lab's requests.
//!
//! One file, written round and round through a buffer of a cluster. What lies ahead of the writer is cleared first; there the two
//! differ (see `ring`): SECOND-CHANCE is the store's hand, which clears a stretch of regions at a time and writes again at once
//! what is read shortly before the hand comes; CYCLIC-LOG clears a cluster before its pointer.
//!
//! The store drops what it clears. Here a disk cache decides what leaves, and asks for all that has not left: so what is still alive
//! in a stretch is read, in as few and long reads as its gaps allow, and written again at the writer. Behind an LRU that is what
//! was hit since it was written: the second chance of a log that spares what is in use. An object lies in one run, or in two where
//! it meets the end of a region or of the file, or was moved to such a place.
//!
//! Not known here: which slots come next.   Limits: what finds no room is refused and counted. Where little lies ahead of the writer
//! copies may be written over their own originals, from memory: a crash at that moment would lose those of one stretch.
//! Sources: docs/decisions/0014 and 0022; paper 002 section 3.4.

use std::collections::{BTreeMap, HashMap};
use std::io;

use super::ring::{Cyclic, Regions, Ring};
use super::slots::{Run, SLOT_BYTES};
use super::stream::Packetizer;
use super::{Manager, Settings, contradiction, piece, stored_bytes};
use crate::disks::{Disk, FileId, Piece, ROOT};
use crate::{DiskOp, DiskRequest};

const FILE: FileId = FileId {
    dir: ROOT,
    number: 0,
};
/// Dead space up to this long is read with what lies on both sides of it.
const GAP_BYTES_MAX: u64 = 64 << 10;
/// A read of several objects is no longer than this.
const READ_BYTES_MAX: u64 = 1 << 20;

/// Part of an object that lies in one place.
#[derive(Debug, Clone, Copy)]
struct Held {
    request: DiskRequest,
    /// Of the stored form.
    from_byte: u32,
    slots: u32,
}

impl Held {
    fn bytes(&self) -> u32 {
        self.slots * SLOT_BYTES
    }

    fn piece(&self) -> Piece {
        piece(&self.request, self.from_byte, self.bytes())
    }
}

/// The manager.
pub struct Log {
    file_bytes: u64,
    ring: Box<dyn Ring>,
    packetizer: Packetizer,
    /// By first slot.
    held: BTreeMap<u32, Held>,
    /// The first slots of an object's parts.
    objects: HashMap<u32, Vec<u32>>,
    free: u32,
    refused: u64,
    from_memory: u64,
    counts: Counts,
}

/// What it did on its own account.
#[derive(Debug, Default)]
struct Counts {
    written: u64,
    again: u64,
    again_bytes: u64,
    moved: u64,
    moved_bytes: u64,
    moving_reads: u64,
    moving_read_bytes: u64,
}

fn slots_of(settings: &Settings) -> u32 {
    u32::try_from(settings.file_bytes / u64::from(SLOT_BYTES)).unwrap_or(u32::MAX - 1)
}

impl Log {
    /// SECOND-CHANCE.
    pub fn second_chance(settings: &Settings) -> Log {
        let ring = Regions::new(slots_of(settings), settings.window_percent);
        Log::over(Box::new(ring), settings)
    }

    /// CYCLIC-LOG.
    pub fn cyclic(settings: &Settings) -> Log {
        let step = settings.cluster_bytes / SLOT_BYTES;
        Log::over(Box::new(Cyclic::new(slots_of(settings), step)), settings)
    }

    fn over(ring: Box<dyn Ring>, settings: &Settings) -> Log {
        Log {
            file_bytes: settings.file_bytes,
            free: ring.slots(),
            ring,
            packetizer: Packetizer::new(settings.cluster_bytes),
            held: BTreeMap::new(),
            objects: HashMap::new(),
            refused: 0,
            from_memory: 0,
            counts: Counts::default(),
        }
    }

    /// Writes a part where the writer is. There must be that much free; what is in the way is moved.
    fn put(&mut self, part: &Held, disk: &mut dyn Disk) -> io::Result<()> {
        let (mut left, mut from_byte) = (part.slots, part.from_byte);
        while left > 0 {
            let Some(run) = self.ring.take(left) else {
                self.clear(disk)?;
                continue;
            };
            let held = Held {
                slots: run.slots,
                from_byte,
                ..*part
            };
            self.packetizer.add(run.byte(), held.piece(), disk)?;
            self.held.insert(run.first, held);
            let places = self.objects.entry(part.request.object).or_default();
            places.push(run.first);
            self.free -= run.slots;
            self.counts.written += 1;
            left -= run.slots;
            from_byte += run.bytes();
        }
        Ok(())
    }

    /// Clears the next stretch, if one is wanted.
    fn clear(&mut self, disk: &mut dyn Disk) -> io::Result<()> {
        let Some(stretch) = self.ring.to_clear() else {
            return Ok(());
        };
        let alive: Vec<(u32, Held)> = self
            .held
            .range(stretch.clone())
            .map(|(&first, &held)| (first, held))
            .collect();
        self.read_together(&alive, disk)?;
        for (first, held) in &alive {
            self.held.remove(first);
            self.free += held.slots;
            let places = self.objects.get_mut(&held.request.object);
            if let Some(places) = places {
                places.retain(|place| place != first);
            }
        }
        let end_of_last = alive.last().map_or(0, |(first, held)| first + held.slots);
        self.ring.cleared(stretch.end.max(end_of_last));
        for (_, held) in &alive {
            self.counts.moved += 1;
            self.counts.moved_bytes += u64::from(held.bytes());
            // What was cleared is at least as long as what was in it, so this clears nothing.
            self.put(held, disk)?;
        }
        Ok(())
    }

    /// Reads parts in order of place, several with one call.
    fn read_together(&mut self, alive: &[(u32, Held)], disk: &mut dyn Disk) -> io::Result<()> {
        let place = |(first, held): &(u32, Held)| Run {
            first: *first,
            slots: held.slots,
        };
        let buffered = |part: &(u32, Held)| {
            let run = place(part);
            self.packetizer.sent_of(run.byte(), run.bytes()) < run.bytes()
        };
        if alive.iter().any(buffered) {
            self.packetizer.send(disk)?;
        }
        let mut rest = alive;
        while let Some(first) = rest.first() {
            let begin = place(first).byte();
            let mut end = begin + u64::from(first.1.bytes());
            let joined = 1 + rest[1..]
                .iter()
                .take_while(|part| {
                    let run = place(part);
                    let until = run.byte() + u64::from(run.bytes());
                    let joins =
                        run.byte() - end <= GAP_BYTES_MAX && until - begin <= READ_BYTES_MAX;
                    if joins {
                        end = until;
                    }
                    joins
                })
                .count();
            let (now, later) = rest.split_at(joined);
            let pieces: Vec<(u64, Piece)> = now
                .iter()
                .map(|part| (place(part).byte(), part.1.piece()))
                .collect();
            disk.read_together(FILE, &pieces)?;
            self.counts.moving_reads += 1;
            self.counts.moving_read_bytes += end - begin;
            rest = later;
        }
        Ok(())
    }

    fn write(&mut self, request: DiskRequest, disk: &mut dyn Disk) -> io::Result<()> {
        if self.objects.contains_key(&request.object) {
            return Err(contradiction("is stored already", request.object));
        }
        let slots = stored_bytes(request.size_bytes).div_ceil(SLOT_BYTES);
        if slots > self.free {
            self.refused += 1;
            return Ok(());
        }
        // Ahead of the writer, as the store does; in a file that is almost full only when it must be.
        if self.free - slots >= 2 * self.ring.stretch() {
            self.clear(disk)?;
        }
        let part = Held {
            request,
            from_byte: 0,
            slots,
        };
        self.put(&part, disk)
    }

    fn read(&mut self, request: DiskRequest, disk: &mut dyn Disk) -> io::Result<()> {
        let Some(places) = self.objects.get(&request.object) else {
            return self.missing(request.object);
        };
        let stored = stored_bytes(request.size_bytes);
        let mut all_in_memory = true;
        for &first in places {
            let held = self.held[&first];
            let run = Run {
                first,
                slots: held.slots,
            };
            let bytes = run.bytes().min(stored - held.from_byte);
            let on_disk = self.packetizer.sent_of(run.byte(), bytes);
            if on_disk > 0 {
                all_in_memory = false;
                let wanted = piece(&request, held.from_byte, on_disk);
                disk.read(FILE, run.byte(), wanted)?;
            }
        }
        if all_in_memory {
            self.from_memory += 1;
            return Ok(());
        }
        //= docs/decisions/0014   what is read shortly before the hand comes is written again; the read has brought the bytes
        if self.ring.is_near_the_hand(places[0]) {
            let slots = self.remove(request.object);
            let part = Held {
                request,
                from_byte: 0,
                slots,
            };
            self.counts.again += 1;
            self.counts.again_bytes += u64::from(part.bytes());
            self.put(&part, disk)?;
        }
        Ok(())
    }

    /// Forgets where an object is; its slots.
    fn remove(&mut self, object: u32) -> u32 {
        let places = self.objects.remove(&object).unwrap_or_default();
        let slots = places
            .iter()
            .filter_map(|first| self.held.remove(first))
            .map(|held| held.slots)
            .sum();
        self.free += slots;
        slots
    }

    /// Refused objects are asked for all the same.
    fn missing(&self, object: u32) -> io::Result<()> {
        if self.refused > 0 {
            return Ok(());
        }
        Err(contradiction("is not stored", object))
    }
}

impl Manager for Log {
    fn prepare(&mut self, disk: &mut dyn Disk) -> io::Result<()> {
        disk.create(FILE)?;
        disk.reserve(FILE, self.file_bytes)
    }

    fn handle(&mut self, request: DiskRequest, disk: &mut dyn Disk) -> io::Result<()> {
        match request.op {
            DiskOp::Write => self.write(request, disk),
            DiskOp::Read => self.read(request, disk),
            DiskOp::Delete if self.remove(request.object) > 0 => Ok(()),
            DiskOp::Delete => self.missing(request.object),
        }
    }

    fn finish(&mut self, disk: &mut dyn Disk) -> io::Result<()> {
        self.packetizer.send(disk)?;
        disk.close(FILE)
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        let counts = &self.counts;
        vec![
            ("runs written", counts.written as f64),
            ("reads from a buffer", self.from_memory as f64),
            ("objects refused", self.refused as f64),
            ("second chances", counts.again as f64),
            ("second chances MB", counts.again_bytes as f64 / 1e6),
            ("runs moved", counts.moved as f64),
            ("moved MB", counts.moved_bytes as f64 / 1e6),
            ("reads to move", counts.moving_reads as f64),
            ("read to move MB", counts.moving_read_bytes as f64 / 1e6),
        ]
    }
}
