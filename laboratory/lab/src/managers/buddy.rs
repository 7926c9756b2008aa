//! BUDDY: objects of similar size share a file of equal slots.
//!
//! There is a file for objects of one block of 512 bytes, one for two blocks, and so on to the threshold. An object takes the first free
//! slot of its file, so almost no file is ever made or removed, and an object is always one run of bytes.
//!
//! Not known here: where the file system puts the files.   Limits: 2^32 slots a file; files never shrink.
//! Source: paper 002, section 3.3.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;

use super::slots::SLOT_BYTES;
use super::{Manager, contradiction, piece, stored_bytes};
use crate::disks::{Disk, FileId, HEADER_BYTES, ROOT};
use crate::{DiskOp, DiskRequest};

/// The paper's threshold.
//= paper 002 section 3.3   at 256 blocks, 128 KB, the time is almost the best (Figure 5)
pub const THRESHOLD_BYTES: u32 = 128 << 10;

/// Files of single objects have numbers from here on, by object; files of slots have lower numbers, by size.
const ALONE: u32 = 1 << 20;

/// 512-byte blocks of an object in stored form.
pub fn stored_slots(size_bytes: u32) -> u32 {
    stored_bytes(size_bytes).div_ceil(SLOT_BYTES)
}

#[derive(Debug, Default)]
struct SizeClass {
    made: bool,
    used: u32,
    /// Freed slots, lowest first.
    free: BinaryHeap<Reverse<u32>>,
}

/// The place of an object.
#[derive(Debug, Clone, Copy)]
enum Place {
    Slot(u32),
    Alone,
}

/// The manager.
pub struct Buddy {
    /// By blocks a slot; index 0 is unused.
    classes: Vec<SizeClass>,
    objects: HashMap<u32, Place>,
    alone: u64,
}

impl Buddy {
    /// A manager without objects.
    pub fn new(threshold_bytes: u32) -> Buddy {
        let classes = threshold_bytes / SLOT_BYTES;
        assert!(classes < ALONE, "{classes} size classes");
        Buddy {
            classes: (0..=classes).map(|_| SizeClass::default()).collect(),
            objects: HashMap::new(),
            alone: 0,
        }
    }

    fn write(&mut self, request: &DiskRequest, disk: &mut dyn Disk) -> io::Result<()> {
        let stored = piece(request, 0, stored_bytes(request.size_bytes));
        let blocks = stored_slots(request.size_bytes);
        let Some(class) = self.classes.get_mut(blocks as usize) else {
            let body = piece(request, HEADER_BYTES, request.size_bytes);
            let file = alone(request.object);
            self.note(request.object, Place::Alone)?;
            self.alone += 1;
            disk.create(file)?;
            disk.write(file, 0, &[body])?;
            return disk.close(file);
        };
        let file = shared(blocks);
        if !class.made {
            class.made = true;
            disk.create(file)?;
        }
        //= paper 002 section 3.3   a new URL goes to the first free slot of its file
        let slot = class.free.pop().map_or(class.used, |Reverse(slot)| slot);
        class.used = class.used.max(slot + 1);
        self.note(request.object, Place::Slot(slot))?;
        disk.write(file, byte_of(slot, blocks), &[stored])
    }

    fn note(&mut self, object: u32, place: Place) -> io::Result<()> {
        match self.objects.insert(object, place) {
            None => Ok(()),
            Some(_) => Err(contradiction("is stored already", object)),
        }
    }
}

fn byte_of(slot: u32, blocks: u32) -> u64 {
    u64::from(slot) * u64::from(blocks * SLOT_BYTES)
}

fn shared(blocks: u32) -> FileId {
    FileId {
        dir: ROOT,
        number: blocks,
    }
}

fn alone(object: u32) -> FileId {
    FileId {
        dir: ROOT,
        number: ALONE + object,
    }
}

impl Manager for Buddy {
    fn prepare(&mut self, _: &mut dyn Disk) -> io::Result<()> {
        Ok(())
    }

    fn handle(&mut self, request: DiskRequest, disk: &mut dyn Disk) -> io::Result<()> {
        let blocks = stored_slots(request.size_bytes);
        let known = self.objects.get(&request.object).copied();
        match (request.op, known) {
            (DiskOp::Write, _) => self.write(&request, disk),
            (_, None) => Err(contradiction("is not stored", request.object)),
            (DiskOp::Read, Some(Place::Slot(slot))) => {
                let stored = piece(&request, 0, stored_bytes(request.size_bytes));
                disk.read(shared(blocks), byte_of(slot, blocks), stored)
            }
            (DiskOp::Read, Some(Place::Alone)) => {
                let file = alone(request.object);
                disk.open(file)?;
                disk.read(file, 0, piece(&request, HEADER_BYTES, request.size_bytes))?;
                disk.close(file)
            }
            (DiskOp::Delete, Some(place)) => {
                self.objects.remove(&request.object);
                match place {
                    Place::Slot(slot) => {
                        self.classes[blocks as usize].free.push(Reverse(slot));
                        Ok(())
                    }
                    Place::Alone => disk.delete(alone(request.object)),
                }
            }
        }
    }

    fn finish(&mut self, disk: &mut dyn Disk) -> io::Result<()> {
        for (blocks, class) in self.classes.iter_mut().enumerate() {
            if class.made {
                class.made = false;
                disk.close(shared(blocks as u32))?;
            }
        }
        Ok(())
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        vec![("objects in files of their own", self.alone as f64)]
    }
}
