//! The data area as regions, and how many of them are swept, noted and kept ahead at a time.
//!
//! Not known here: what is in a region; the hand (`region`).

use crate::geometry::Geometry;
use extent::{Chunk, Chunks, Extent};
use std::ops::Range;

/// A stretch is about this share of the data area.
const STRETCH_SHARE: u32 = 64;
/// In a small store a stretch is up to this share and this many bytes, so that a burst finds room.
const SMALL_STRETCH_SHARE: u32 = 16;
const SMALL_STRETCH_BYTES: u64 = 4 << 20;

/// In a small store a sweep begins when less than this share of a stretch is empty ahead, in a larger store when less
/// than a whole stretch is.
const SMALL_LEAD_SHARE: u32 = 2;

/// One note in the journal covers regions of about this many bytes, so that small regions do not cost a flush each.
const NOTE_BYTES: u64 = 16 << 20;

/// Where notes are late, at most this share of the regions is kept empty beyond the usual.
const LATE_SHARE: u32 = 8;

/// And at most this number: the regions of a larger store are so large that the usual lead is enough.
const LATE_REGIONS_MAX: u32 = 32;

/// Regions kept ready beyond the ones of one note.
pub(super) const READY_MIN: usize = 1;

/// Needed records are moved when the hand is this near, in stretches, including the one that is swept next.
const LOOK_AHEAD_STRETCHES: u32 = 2;

/// In a small store they are moved this many bytes ahead: the hand goes round within seconds, and with a long queue of reads a
/// stretch ahead would be too late, so that the sweep would wait.
const LOOK_AHEAD_BYTES: u64 = 16 << 20;

/// [`LOOK_AHEAD_BYTES`] are limited to this share of the data area.
const LOOK_AHEAD_SHARE: u32 = 4;

/// The data area as regions of equal size.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    /// Chunks of a region.
    pub region_chunks: u32,
    /// How many regions there are.
    pub regions: u32,
    /// How many of them are swept at a time.
    pub stretch_regions: u32,
    /// A sweep begins when fewer regions lie ahead, swept or ready.
    pub lead_regions: u32,
    pub(super) note_regions: u32,
}

impl Grid {
    pub(crate) fn of(geometry: &Geometry) -> Self {
        Self::new(
            geometry.regions(),
            geometry.region_chunks,
            geometry.chunk_bytes,
        )
    }

    /// A grid of `regions` regions of `chunks` chunks.
    pub fn new(regions: u32, region_chunks: u32, chunk_bytes: u32) -> Self {
        let region_bytes = u64::from(region_chunks) * u64::from(chunk_bytes);
        let small = SMALL_STRETCH_BYTES
            .div_ceil(region_bytes)
            .min(u64::from(regions / SMALL_STRETCH_SHARE));
        let usual = (regions + STRETCH_SHARE / 2) / STRETCH_SHARE;
        let stretch_regions = usual.max(small as u32).max(1);
        let note_regions = (NOTE_BYTES / region_bytes).clamp(1, u64::from(stretch_regions)) as u32;
        Self {
            region_chunks,
            regions,
            stretch_regions,
            lead_regions: usual.max(stretch_regions / SMALL_LEAD_SHARE).max(1) + READY_MIN as u32,
            note_regions,
        }
    }

    /// The most regions kept empty beyond the usual.
    pub(super) fn late_max(&self) -> u32 {
        (self.regions / LATE_SHARE).min(LATE_REGIONS_MAX)
    }

    /// The most regions that one note covers.
    pub(super) fn note_max(&self) -> u32 {
        self.note_regions + self.late_max()
    }

    /// The most regions that are noted ahead of the one that is filled.
    pub(crate) fn ready_max(&self) -> u32 {
        READY_MIN as u32 + self.stretch_regions + self.late_max() + self.note_max()
    }

    pub(crate) fn region_of(&self, chunk: Chunk) -> u32 {
        chunk.0 / self.region_chunks
    }

    /// The stretch that begins with that region; the last of a round may be shorter.
    pub(super) fn stretch_at(&self, region: u32) -> Range<u32> {
        region..region + self.stretch_regions.min(self.regions - region)
    }

    /// Neighbouring regions, as one extent.
    pub fn extent(&self, regions: Range<u32>) -> Extent {
        let first = regions.start * self.region_chunks;
        Extent::new(
            Chunk(first),
            Chunks((regions.end - regions.start) * self.region_chunks),
        )
    }

    /// Chunks that are written from the begin of a sweep until little is ready.
    pub(crate) fn lead_chunks(&self) -> u32 {
        (self.lead_regions - READY_MIN as u32) * self.region_chunks
    }

    /// Chunks of a stretch.
    pub fn stretch_chunks(&self) -> u32 {
        self.stretch_regions * self.region_chunks
    }

    /// Chunks ahead of the hand in which a needed record is moved (`moves`).
    pub(crate) fn look_ahead_chunks(&self, geometry: &Geometry) -> u32 {
        let small = (LOOK_AHEAD_BYTES / u64::from(geometry.chunk_bytes)) as u32;
        let small = small.min(geometry.data_chunks / LOOK_AHEAD_SHARE);
        small.max(self.stretch_chunks().saturating_mul(LOOK_AHEAD_STRETCHES))
    }
}
