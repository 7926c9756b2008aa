//! Lazy reads: reads wait for each other, so that the arm leaves the write stream once for many of them.
//!
//! Not known here: objects.   Limits: the size of a batch. No read waits beyond the deadline while requests arrive; there is no timer,
//! each request checks the clock.
//! Source: paper 002, section 3.5 and its note 7.

use std::io;

use crate::disks::{Disk, FileId, Piece};

/// A piece and its place.
pub type Read = (u64, Piece);

/// The reads that wait.
pub struct Batch {
    waiting: Vec<Read>,
    most: usize,
    deadline_us: u64,
    oldest_us: u64,
    batches: u64,
    late: u64,
}

impl Batch {
    /// Batches of up to `most` reads; with 1 no read waits.
    pub fn new(most: usize, deadline_us: u64) -> Batch {
        Batch {
            waiting: Vec::new(),
            most: most.max(1),
            deadline_us,
            oldest_us: 0,
            batches: 0,
            late: 0,
        }
    }

    /// Adds the pieces of an object.
    pub fn add(&mut self, reads: &[Read], now_us: u64) {
        if self.waiting.is_empty() {
            self.oldest_us = now_us;
        }
        self.waiting.extend_from_slice(reads);
    }

    /// Whether the batch must be carried out now.
    pub fn is_due(&mut self, now_us: u64) -> bool {
        let late = !self.waiting.is_empty() && now_us >= self.oldest_us + self.deadline_us;
        if late && self.waiting.len() < self.most {
            self.late += 1;
        }
        late || self.waiting.len() >= self.most
    }

    /// Whether a read of this object waits.
    pub fn has(&self, object: u32) -> bool {
        self.waiting.iter().any(|(_, piece)| piece.object == object)
    }

    /// Carries out the reads, in order of place.
    pub fn run(&mut self, file: FileId, disk: &mut dyn Disk) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        //= paper 002 section 3.5   sorted by their position in the file
        self.waiting.sort_by_key(|&(at, _)| at);
        self.batches += 1;
        for (at, piece) in self.waiting.drain(..) {
            disk.read(file, at, piece)?;
        }
        Ok(())
    }

    /// The number of batches so far, and how many of them were ended by the deadline.
    pub fn counts(&self) -> (u64, u64) {
        (self.batches, self.late)
    }
}
