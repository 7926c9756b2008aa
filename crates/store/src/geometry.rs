//! Where the parts of a store lie.
//!
//! ```text
//! 0          64 KiB                                                            1 MiB or later, 1 MiB aligned
//! superblock | checkpoint 0 | checkpoint 1 | invalidation log | region journal | data: chunk 0, chunk 1, ...
//! ```
//!
//! Checkpoints go to the two checkpoint areas in turn. The data area is a whole number of *regions* of equal size;
//! an incomplete region at the end is left unused.
//!
//! Limits: data is addressed by 32-bit chunk numbers, so 2 TiB with chunks of 512 bytes. Never more regions than the
//! region journal has room for: from about 126 TiB on regions are larger than 64 MiB for that reason.

use crate::layout::{PAGE_BYTES, SUPERBLOCK_BYTES};
use crate::recover::journal;
use std::fmt;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

const DATA_ALIGN_BYTES: u64 = MIB;
/// One checkpoint area takes this share of the store.
const CHECKPOINT_SHARE: u64 = 128;
const CHECKPOINT_BYTES_MIN: u64 = 32 * KIB;
const CHECKPOINT_BYTES_MAX: u64 = 4 * 1024 * MIB;
/// Log and journal each take this share.
const LOG_SHARE: u64 = 2048;
const LOG_BYTES_MIN: u64 = 64 * KIB;
const LOG_BYTES_MAX: u64 = 64 * MIB;
/// A region takes this share of the data area.
const REGION_SHARE: u64 = 256;
/// In a smaller store a region takes up to this share, for the sake of long records: two of the longest fit a region.
const REGION_SHARE_SMALL: u64 = 24;
/// But at most this many bytes: two records with a body of 1 MiB and 64 KiB beside it, each padded.
const REGION_BYTES_SMALL: u64 = 2304 * KIB;
/// In the smallest stores a region takes up to this share, so that the hand still has some regions.
const REGION_SHARE_SMALLEST: u64 = 12;
/// But at most this many bytes, for records with a body of 256 KiB and as much beside it.
const REGION_BYTES_SMALLEST: u64 = 672 * KIB;
const REGION_BYTES_MIN: u64 = 256 * KIB;
/// Regions are larger only where the journal has no room for that many.
const REGION_BYTES_MAX: u64 = 64 * MIB;

/// Where the parts of a store lie. Positions and lengths in bytes from the start of the file or device.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Geometry {
    /// Size of the whole store, a multiple of 4096.
    pub total_bytes: u64,
    /// Size of a chunk, the unit of allocation: a power of two from 512 to 65536.
    pub chunk_bytes: u32,
    /// The first checkpoint area; the second follows it.
    pub checkpoint_at: u64,
    /// Length of each of the two checkpoint areas.
    pub checkpoint_bytes: u64,
    /// The invalidation log's area.
    pub invalidation_log_at: u64,
    /// Its length.
    pub invalidation_log_bytes: u64,
    /// The region journal's area.
    pub region_journal_at: u64,
    /// Its length.
    pub region_journal_bytes: u64,
    /// Where chunk 0 lies.
    pub data_at: u64,
    /// How many chunks there are, a multiple of `region_chunks`.
    pub data_chunks: u32,
    /// Chunks of a region, the unit that is noted in the region journal; whole pages.
    pub region_chunks: u32,
}

/// Why no store can be laid out in that space.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TooSmall {
    /// Less than [`Geometry::MIN_STORE_BYTES`].
    #[error(
        "a store needs at least {} bytes, {total_bytes} were given",
        Geometry::MIN_STORE_BYTES
    )]
    Store {
        /// The size asked for.
        total_bytes: u64,
    },
    /// More chunks than 32 bits can number.
    #[error(
        "chunks of {chunk_bytes} bytes are too small for a store of {total_bytes} bytes; use larger chunks"
    )]
    Chunk {
        /// The chunk size asked for.
        chunk_bytes: u32,
        /// The size asked for.
        total_bytes: u64,
    },
    /// Not a power of two from 512 to 65536.
    #[error("the chunk size must be a power of two from 512 to 65536, not {chunk_bytes}")]
    ChunkBytes {
        /// The chunk size asked for.
        chunk_bytes: u32,
    },
}

impl Geometry {
    /// The smallest store: 4 MiB.
    pub const MIN_STORE_BYTES: u64 = 4 * MIB;
    /// Chunks are at least this large, a sector.
    pub const CHUNK_BYTES_MIN: u32 = 512;
    /// Chunks are at most this large.
    pub const CHUNK_BYTES_MAX: u32 = 65536;
    /// The chunk size to use unless there is a reason for another.
    pub const CHUNK_BYTES_DEFAULT: u32 = 512;

    /// Lays out a store of `total_bytes` (rounded down to whole pages) in chunks of `chunk_bytes`.
    ///
    /// # Errors
    /// The store or the chunk is too small, or the chunk size is no power of two in bounds.
    pub fn plan(total_bytes: u64, chunk_bytes: u32) -> Result<Self, TooSmall> {
        if !chunk_bytes_fit(chunk_bytes) {
            return Err(TooSmall::ChunkBytes { chunk_bytes });
        }
        if total_bytes < Self::MIN_STORE_BYTES {
            return Err(TooSmall::Store { total_bytes });
        }
        let total_bytes = total_bytes / PAGE_BYTES * PAGE_BYTES;
        let share = |part: u64, min: u64, max: u64| {
            (total_bytes / part).clamp(min, max) / PAGE_BYTES * PAGE_BYTES
        };
        let checkpoint_at = SUPERBLOCK_BYTES as u64;
        let checkpoint_bytes = share(CHECKPOINT_SHARE, CHECKPOINT_BYTES_MIN, CHECKPOINT_BYTES_MAX);
        let log_bytes = share(LOG_SHARE, LOG_BYTES_MIN, LOG_BYTES_MAX);
        let invalidation_log_at = checkpoint_at + 2 * checkpoint_bytes;
        let region_journal_at = invalidation_log_at + log_bytes;
        let data_at = (region_journal_at + log_bytes).next_multiple_of(DATA_ALIGN_BYTES);
        let chunks = (total_bytes - data_at) / u64::from(chunk_bytes);
        let Ok(data_chunks) = u32::try_from(chunks) else {
            return Err(TooSmall::Chunk {
                chunk_bytes,
                total_bytes,
            });
        };
        let region_chunks = region_chunks(data_chunks, chunk_bytes, log_bytes);
        let geometry = Self {
            total_bytes,
            chunk_bytes,
            checkpoint_at,
            checkpoint_bytes,
            invalidation_log_at,
            invalidation_log_bytes: log_bytes,
            region_journal_at,
            region_journal_bytes: log_bytes,
            data_at,
            data_chunks: data_chunks - data_chunks % region_chunks,
            region_chunks,
        };
        assert!(
            geometry.is_sound(),
            "a plan that is not sound: {geometry:?}"
        );
        Ok(geometry)
    }

    /// The same with regions of `bytes` each, for simulations and tests, whose small stores would have only a dozen.
    ///
    /// # Panics
    /// No whole pages and chunks, or more regions than the journal has room for.
    #[must_use]
    pub fn with_region_bytes(mut self, bytes: u64) -> Self {
        self.region_chunks = (bytes / u64::from(self.chunk_bytes)) as u32;
        self.data_chunks -= self
            .data_chunks
            .checked_rem(self.region_chunks)
            .unwrap_or(0);
        assert!(self.is_sound(), "regions that do not fit: {self:?}");
        self
    }

    /// Bytes that can hold records.
    pub fn data_bytes(&self) -> u64 {
        u64::from(self.data_chunks) * u64::from(self.chunk_bytes)
    }

    /// How many regions there are.
    pub fn regions(&self) -> u32 {
        self.data_chunks / self.region_chunks
    }

    /// Bytes of a region.
    pub fn region_bytes(&self) -> u64 {
        u64::from(self.region_chunks) * u64::from(self.chunk_bytes)
    }

    /// Where a chunk lies.
    pub(crate) fn offset_of(&self, chunk: u32) -> u64 {
        self.data_at + u64::from(chunk) * u64::from(self.chunk_bytes)
    }

    /// Where the two checkpoint areas begin.
    pub(crate) fn checkpoint_areas(&self) -> [u64; 2] {
        [
            self.checkpoint_at,
            self.checkpoint_at + self.checkpoint_bytes,
        ]
    }

    /// The areas that the shell has to read: offset and length of the log and of the journal.
    pub fn logs(&self) -> [(u64, usize); 2] {
        [
            (
                self.invalidation_log_at,
                self.invalidation_log_bytes as usize,
            ),
            (self.region_journal_at, self.region_journal_bytes as usize),
        ]
    }

    /// Are the areas in order, disjoint, aligned, inside the store? Numbers from a superblock are not trusted before.
    pub(crate) fn is_sound(&self) -> bool {
        let areas = [
            (0, SUPERBLOCK_BYTES as u64),
            (self.checkpoint_at, self.checkpoint_bytes),
            (
                self.checkpoint_at.saturating_add(self.checkpoint_bytes),
                self.checkpoint_bytes,
            ),
            (self.invalidation_log_at, self.invalidation_log_bytes),
            (self.region_journal_at, self.region_journal_bytes),
            (
                self.data_at,
                u64::from(self.data_chunks).saturating_mul(u64::from(self.chunk_bytes)),
            ),
        ];
        let in_order = areas.windows(2).all(|pair| {
            pair[0]
                .0
                .checked_add(pair[0].1)
                .is_some_and(|end| end <= pair[1].0)
        });
        let aligned = areas.iter().all(|(at, _)| at % PAGE_BYTES == 0);
        let inside = self
            .data_at
            .checked_add(areas[5].1)
            .is_some_and(|end| end <= self.total_bytes);
        in_order
            && aligned
            && inside
            && chunk_bytes_fit(self.chunk_bytes)
            && self.regions_are_sound()
    }

    fn regions_are_sound(&self) -> bool {
        self.region_chunks > 0
            && self.data_chunks > 0
            && self.data_chunks.is_multiple_of(self.region_chunks)
            && self.region_bytes().is_multiple_of(PAGE_BYTES)
            && u64::from(self.regions()) <= journal::regions_max(self.region_journal_bytes)
    }
}

fn region_chunks(data_chunks: u32, chunk_bytes: u32, journal_bytes: u64) -> u32 {
    let data_bytes = u64::from(data_chunks) * u64::from(chunk_bytes);
    let unit = PAGE_BYTES.max(u64::from(chunk_bytes));
    let small = (data_bytes / REGION_SHARE_SMALL).min(REGION_BYTES_SMALL);
    let smallest = (data_bytes / REGION_SHARE_SMALLEST).min(REGION_BYTES_SMALLEST);
    let usual = (data_bytes / REGION_SHARE).max(small).max(smallest);
    let usual = usual.clamp(REGION_BYTES_MIN, REGION_BYTES_MAX) / unit * unit;
    // Spread the space behind the last region over all regions, unless they have the largest size.
    let usual = match usual < REGION_BYTES_MAX {
        true => data_bytes / (data_bytes / usual) / unit * unit,
        false => usual,
    };
    let noted = data_bytes
        .div_ceil(journal::regions_max(journal_bytes))
        .next_multiple_of(unit);
    // At most data_chunks, so it fits.
    ((usual.max(noted) / u64::from(chunk_bytes)) as u32).min(data_chunks)
}

fn chunk_bytes_fit(chunk_bytes: u32) -> bool {
    chunk_bytes.is_power_of_two()
        && (Geometry::CHUNK_BYTES_MIN..=Geometry::CHUNK_BYTES_MAX).contains(&chunk_bytes)
}

impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes, {} chunks of {} bytes from {}, {} regions",
            self.total_bytes,
            self.data_chunks,
            self.chunk_bytes,
            self.data_at,
            self.regions()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_store_is_mostly_data() {
        let geometry = Geometry::plan(4 * MIB, 512).unwrap();
        assert_eq!(geometry.data_at, MIB);
        assert_eq!(geometry.data_bytes(), 3 * MIB);
    }

    #[test]
    fn a_large_store_gives_two_percent_to_its_books() {
        let geometry = Geometry::plan(100 * 1024 * MIB, 512).unwrap();
        assert!(geometry.data_bytes() > geometry.total_bytes / 100 * 98);
        assert_eq!(geometry.data_at % DATA_ALIGN_BYTES, 0);
        assert!(geometry.is_sound());
    }

    #[test]
    fn impossible_stores_are_refused() {
        assert!(matches!(
            Geometry::plan(MIB, 512),
            Err(TooSmall::Store { .. })
        ));
        assert!(matches!(
            Geometry::plan(8 * MIB, 500),
            Err(TooSmall::ChunkBytes { .. })
        ));
        assert!(matches!(
            Geometry::plan(8 * MIB, 0),
            Err(TooSmall::ChunkBytes { .. })
        ));
        let huge = 4 * 1024 * 1024 * MIB;
        assert!(matches!(
            Geometry::plan(huge, 512),
            Err(TooSmall::Chunk { .. })
        ));
        assert!(Geometry::plan(huge, 4096).is_ok());
    }

    #[test]
    fn regions_follow_the_size_of_the_store() {
        let plan = |total_bytes, chunk_bytes| Geometry::plan(total_bytes, chunk_bytes).unwrap();
        let smallest = plan(4 * MIB, 512);
        assert_eq!(
            (smallest.regions(), smallest.region_bytes()),
            (12, 256 * KIB)
        );
        let coarse = plan(4 * MIB, 65536);
        assert_eq!((coarse.regions(), coarse.region_chunks), (12, 4));
        let middle = plan(1024 * MIB, 512);
        assert!((256..=257).contains(&middle.regions()), "{middle}");
        let large = plan(256 * 1024 * MIB, 512);
        assert_eq!(large.region_bytes(), 64 * MIB);
        assert!((3900..=4096).contains(&large.regions()), "{large}");
    }

    #[test]
    fn regions_can_be_made_smaller() {
        let small = Geometry::plan(4 * MIB, 512).unwrap();
        let small = small.with_region_bytes(64 * KIB);
        assert_eq!((small.regions(), small.data_bytes()), (48, 3 * MIB));
        assert!(small.is_sound());
        let odd = Geometry::plan(4 * MIB, 512).unwrap();
        assert_eq!(odd.with_region_bytes(100 * KIB).regions(), 30);
    }

    #[test]
    #[should_panic(expected = "regions that do not fit")]
    fn regions_of_no_whole_page_are_refused() {
        let small = Geometry::plan(4 * MIB, 512).unwrap();
        let _ = small.with_region_bytes(1000);
    }

    #[test]
    fn what_is_left_behind_the_last_region_is_less_than_a_region() {
        for pages in (1024..60_000).step_by(37) {
            let geometry = Geometry::plan(pages * PAGE_BYTES, 512).unwrap();
            assert_eq!(geometry.data_chunks % geometry.region_chunks, 0);
            let used = geometry.data_at + geometry.data_bytes();
            assert!(
                geometry.total_bytes - used < geometry.region_bytes(),
                "{geometry}"
            );
        }
    }

    #[test]
    fn the_journal_has_room_for_the_regions_of_every_store() {
        let tib = 1024 * 1024 * MIB;
        let mut total_bytes = Geometry::MIN_STORE_BYTES;
        while total_bytes < 300 * tib {
            let sizes = (9..=16).map(|log| 1 << log);
            for geometry in sizes.filter_map(|size| Geometry::plan(total_bytes, size).ok()) {
                let room = journal::regions_max(geometry.region_journal_bytes);
                assert!(u64::from(geometry.regions()) <= room, "{geometry}");
                let enlarged = geometry.region_bytes() > REGION_BYTES_MAX;
                assert_eq!(enlarged, total_bytes > 126 * tib, "{geometry}");
                assert!(
                    geometry.region_bytes() <= 3 * REGION_BYTES_MAX,
                    "{geometry}"
                );
            }
            total_bytes += total_bytes / 7;
        }
        let most = Geometry::plan(256 * tib, 65536).unwrap();
        assert!(most.data_bytes() > 255 * tib);
    }

    #[test]
    fn geometries_from_elsewhere_are_checked() {
        let good = Geometry::plan(8 * MIB, 512).unwrap();
        for spoil in [
            |g: &mut Geometry| g.data_chunks = u32::MAX,
            |g: &mut Geometry| g.data_at = u64::MAX,
            |g: &mut Geometry| g.checkpoint_bytes = u64::MAX,
            |g: &mut Geometry| g.chunk_bytes = 0,
            |g: &mut Geometry| g.checkpoint_at = 0,
            |g: &mut Geometry| g.region_chunks = 0,
            |g: &mut Geometry| g.region_chunks = 1,
            |g: &mut Geometry| g.region_chunks += 8,
            |g: &mut Geometry| g.region_chunks = u32::MAX,
            |g: &mut Geometry| g.region_journal_bytes = 0,
        ] {
            let mut bad = good.clone();
            spoil(&mut bad);
            assert!(!bad.is_sound(), "{bad:?}");
        }
    }
}
