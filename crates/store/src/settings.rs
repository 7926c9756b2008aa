//! The settings, and their values in a store of a given size.

use crate::evict::need::NEEDED_SHARE;
use crate::geometry::Geometry;
use crate::index::entry::CHUNKS_MAX;
use crate::index::usage::UsageBits;
use crate::layout::PAGE_BYTES;
use crate::log::soft::SoftPurges;
use crate::mistakes::Mistakes;
use replacement::{PolicyKind, Watermarks};
use std::fmt;
use std::str::FromStr;

/// The largest record, whatever the store's size; bounds the memory of writes in flight.
pub const RECORD_BYTES_MAX: u64 = 32 << 20;

/// This many clusters may always be handed out and not yet reported written; more up to [`IN_FLIGHT_BYTES_MAX`].
/// Beyond that nothing is stored until one is reported.
pub const CLUSTERS_IN_FLIGHT_MIN: usize = 8;

/// The most bytes handed out: a flush of the file system can hold up all writes for some tenths of a second, and new
/// objects should be stored meanwhile.
pub const IN_FLIGHT_BYTES_MAX: u64 = 64 << 20;

/// The most bytes handed out, as a share of the data area.
const IN_FLIGHT_SHARE: u64 = 16;

/// In a small store this many bytes may be handed out, for a few large objects at once.
const IN_FLIGHT_BYTES_SMALL: u64 = 8 << 20;

/// But at most this share of a small store. Records under way lie behind the hand and are served from memory, so only that memory
/// limits them; a quarter leaves the hand room to go round.
const IN_FLIGHT_SHARE_SMALL: u64 = 4;

/// Origin servers whose records may be gathered at once.
pub const LOCALITY_BUFFERS_MAX: usize = 128;

/// Bytes gathered for each origin server; less only if a cluster is smaller.
pub const LOCALITY_BUFFER_BYTES: u32 = 64 << 10;

const SHARDS_MAX: usize = 1024;
const CLUSTER_BYTES_MIN: u64 = 64 * 1024;
/// Data bytes for each segment of the index: some thousand records of a few kilobytes.
const SEGMENT_DATA_BYTES: u64 = 32 << 20;
/// The least data bytes for each shard, so that small stores have few shards.
const SHARD_DATA_BYTES: u64 = 1 << 20;

/// How room is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replacement {
    /// Stretch by stretch, in the order of writing. A record that is used when its stretch is near is written again.
    SecondChance {
        /// How near: percent of the data area ahead of the hand, for a record of middling length; a shorter one's window is
        /// larger, a longer one's smaller. 0: no second chances.
        window_percent: u8,
    },
    /// Stretch by stretch, too, but each is read before it is cleared, and the records that are worth most are written again: those that were
    /// read often and recently, and are short. While the disk does not keep up with that, as `SecondChance`.
    Reinsertion {
        /// Percent of a stretch that is written again at most.
        percent: u8,
    },
    /// Record by record, in the order of a policy. Costs more memory, and leaves small holes.
    Ordered(PolicyKind),
}

impl Replacement {
    /// The default window.
    pub const WINDOW_PERCENT: u8 = 20;

    /// The default share that is written again.
    pub const REINSERTED_PERCENT: u8 = 20;

    /// How near to the hand a used record is written again; `None` if records leave in the order of a policy.
    pub fn window_percent(self) -> Option<u8> {
        match self {
            Self::SecondChance { window_percent } => Some(window_percent),
            Self::Reinsertion { .. } => Some(Self::WINDOW_PERCENT),
            Self::Ordered(_) => None,
        }
    }

    /// The share of a stretch that is written again, at most.
    pub fn reinserted_percent(self) -> Option<u8> {
        match self {
            Self::Reinsertion { percent } => Some(percent),
            _ => None,
        }
    }
}

impl Default for Replacement {
    fn default() -> Self {
        Self::Reinsertion {
            percent: Self::REINSERTED_PERCENT,
        }
    }
}

impl fmt::Display for Replacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SecondChance {
                window_percent: Self::WINDOW_PERCENT,
            } => f.write_str("second-chance"),
            Self::SecondChance { window_percent } => write!(f, "second-chance={window_percent}"),
            Self::Reinsertion {
                percent: Self::REINSERTED_PERCENT,
            } => f.write_str("reinsertion"),
            Self::Reinsertion { percent } => write!(f, "reinsertion={percent}"),
            Self::Ordered(kind) => kind.fmt(f),
        }
    }
}

/// The text names no replacement.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "\"{0}\" is no replacement policy: use \"second-chance\" or \"second-chance=PERCENT\" (0 to 75), \"reinsertion\" \
     or \"reinsertion=PERCENT\" (10 to 50), \"lru\", \"lru-threshold=BYTES\" or \"gdsf\""
)]
pub struct UnknownReplacement(String);

impl FromStr for Replacement {
    type Err = UnknownReplacement;

    fn from_str(text: &str) -> Result<Self, UnknownReplacement> {
        let unknown = || UnknownReplacement(text.to_owned());
        match text.split_once('=') {
            None if text == "second-chance" => Ok(Self::SecondChance {
                window_percent: Self::WINDOW_PERCENT,
            }),
            None if text == "reinsertion" => Ok(Self::Reinsertion {
                percent: Self::REINSERTED_PERCENT,
            }),
            Some(("reinsertion", percent)) => {
                let percent = percent.parse().map_err(|_| unknown())?;
                let fits = (10..=50).contains(&percent);
                fits.then_some(Self::Reinsertion { percent })
                    .ok_or_else(unknown)
            }
            Some(("second-chance", percent)) => {
                let window_percent = percent.parse().map_err(|_| unknown())?;
                let fits = window_percent <= 75;
                fits.then_some(Self::SecondChance { window_percent })
                    .ok_or_else(unknown)
            }
            _ => text.parse().map(Self::Ordered).map_err(|_| unknown()),
        }
    }
}

/// The part of a record that a pattern is compared with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum About {
    /// The beginning of a record's key.
    Prefix,
    /// Each of the words that [`Settings::words`] finds in a record's metadata.
    Word,
    /// Nothing: every record is meant.
    All,
}

/// The effect of the predicates of a kind on records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Manner {
    /// Which records they match.
    pub about: About,
    /// They put a record in doubt instead of killing it: it is still there, and each read of it says so
    /// ([`crate::RecordParts::doubted`]). But records that began before are no longer stored or written again.
    pub soft: bool,
}

/// Calls back with each word of a record's metadata, in the form of patterns.
pub type Words = fn(meta: &[u8], each: &mut dyn FnMut(&[u8]));

/// The settings. The defaults should fit.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes gathered into one device write. Larger writes cost less each but hold more in memory.
    /// Default 1 MiB; in effect between 64 KiB and half of a region.
    pub cluster_bytes: u32,
    /// Milliseconds a record waits at most for its cluster to fill, and before that, with locality buffers, for its buffer.
    /// Default 1000. 0: it waits for nothing, and is a write of its own.
    pub cluster_deadline_ms: u64,
    /// Which records leave to make room. Default reinsertion.
    pub replacement: Replacement,
    /// With an ordered policy: eviction starts when the used share of the chunks reaches the high one, and goes on to the
    /// low one. Default 97 and 95.
    pub watermarks: Watermarks,
    /// The largest object stored, in bytes of body. In effect at most half of the store, the default.
    pub object_bytes_max: u64,
    /// Bodies of up to this length are one record with their head; longer ones are cut into fragments of a little more. Default 1 MiB;
    /// in effect at most half of a region, less 64 KiB for a head. Only for a new store: it keeps the fragments it was made with.
    pub fragment_bytes: u32,
    /// Buffers of [`LOCALITY_BUFFER_BYTES`] that gather the records of one recent origin server each, so that records that belong together
    /// lie together: at most 128. 0, the default: none, records lie in the order in which they came.
    pub locality_buffers: usize,
    /// Parts of the index with a lock each: a power of two (rounded up to one), at most 1024. Default 64.
    pub shards: usize,
    /// The effect of the predicates of a kind on records. The default: kind 1 is a prefix of the key, any other kills everything.
    pub manner: fn(kind: u8) -> Manner,
    /// The words in a record's metadata, for kinds that are [`About::Word`]. The default: all of it is one.
    pub words: Words,
    /// Deliberate mistakes: none.
    #[doc(hidden)]
    pub mistakes: Mistakes,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cluster_bytes: 1 << 20,
            cluster_deadline_ms: 1000,
            replacement: Replacement::default(),
            watermarks: Watermarks {
                high_percent: 97,
                low_percent: 95,
            },
            object_bytes_max: u64::MAX,
            fragment_bytes: 1 << 20,
            locality_buffers: 0,
            shards: 64,
            manner: |kind| Manner {
                about: match kind {
                    1 => About::Prefix,
                    _ => About::All,
                },
                soft: false,
            },
            words: |meta, each| each(meta),
            mistakes: Mistakes::default(),
        }
    }
}

/// The settings, fitted to a store.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub cluster_chunks: u32,
    /// A cluster with this many used chunks is written at once: when it is full, or with its first record if there is no deadline.
    pub full_chunks: u32,
    pub cluster_deadline_ms: u64,
    pub replacement: Replacement,
    pub watermarks: Watermarks,
    pub record_chunks_max: u32,
    pub object_bytes_max: u64,
    pub fragment_bytes: u32,
    pub locality_buffers: usize,
    pub locality_buffer_chunks: u32,
    pub in_flight_bytes_max: usize,
    pub needed_bytes_max: u64,
    /// Soft purges of resources with variants that each shard remembers.
    pub soft_purges_max: usize,
    pub shards: usize,
    /// Which bits of an entry hold the use of its record.
    pub usage_bits: UsageBits,
    /// Segments of the index in each shard.
    pub segments: usize,
    pub manner: fn(u8) -> Manner,
    pub words: Words,
    pub mistakes: Mistakes,
}

impl Limits {
    /// `fragment_bytes` is the fragment length of that store.
    pub(crate) fn fit(settings: &Settings, geometry: &Geometry, fragment_bytes: u32) -> Self {
        let chunk_bytes = u64::from(geometry.chunk_bytes);
        let data_bytes = geometry.data_bytes();
        let region_bytes = u64::from(geometry.region_chunks) * chunk_bytes;
        let unit = PAGE_BYTES.max(chunk_bytes);
        let whole = |bytes: u64| bytes / unit * unit;
        let cluster_bytes = u64::from(settings.cluster_bytes)
            .clamp(CLUSTER_BYTES_MIN, (region_bytes / 2).max(CLUSTER_BYTES_MIN));
        let record_bytes_max = RECORD_BYTES_MAX.min(region_bytes / 2);
        let record_chunks_max = (record_bytes_max / chunk_bytes).min(u64::from(CHUNKS_MAX)) as u32;
        let shards = (data_bytes / SHARD_DATA_BYTES).clamp(1, SHARDS_MAX as u64) as usize;
        let shards = settings
            .shards
            .clamp(1, SHARDS_MAX)
            .min(shards)
            .next_power_of_two();
        let cluster_chunks = (whole(cluster_bytes) / chunk_bytes) as u32;
        let segments = data_bytes.div_ceil(SEGMENT_DATA_BYTES * shards as u64);
        Self {
            cluster_chunks,
            full_chunks: match settings.cluster_deadline_ms {
                0 => 1,
                _ => cluster_chunks,
            },
            cluster_deadline_ms: settings.cluster_deadline_ms,
            replacement: settings.replacement,
            watermarks: settings.watermarks,
            record_chunks_max,
            object_bytes_max: settings.object_bytes_max.min(data_bytes / 2),
            fragment_bytes,
            locality_buffers: settings.locality_buffers.min(LOCALITY_BUFFERS_MAX),
            locality_buffer_chunks: (u64::from(LOCALITY_BUFFER_BYTES).min(whole(cluster_bytes))
                / chunk_bytes) as u32,
            in_flight_bytes_max: in_flight_bytes(data_bytes) as usize,
            needed_bytes_max: data_bytes / NEEDED_SHARE,
            soft_purges_max: SoftPurges::max(geometry.checkpoint_bytes, shards),
            shards,
            usage_bits: match settings.replacement {
                Replacement::Reinsertion { .. } => UsageBits::spare_of(geometry.data_chunks),
                _ => UsageBits::NONE,
            },
            segments: segments as usize,
            manner: settings.manner,
            words: settings.words,
            mistakes: settings.mistakes,
        }
    }

    pub(crate) fn policy(&self) -> Option<PolicyKind> {
        match self.replacement {
            Replacement::SecondChance { .. } | Replacement::Reinsertion { .. } => None,
            Replacement::Ordered(kind) => Some(kind),
        }
    }
}

/// The most bytes under way to the disk for a data area of this size.
fn in_flight_bytes(data_bytes: u64) -> u64 {
    let small = IN_FLIGHT_BYTES_SMALL.min(data_bytes / IN_FLIGHT_SHARE_SMALL);
    (data_bytes / IN_FLIGHT_SHARE)
        .max(small)
        .min(IN_FLIGHT_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragments::fragment_bytes;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in [
            "second-chance",
            "second-chance=10",
            "reinsertion",
            "reinsertion=50",
            "lru",
            "lru-threshold=1000",
        ] {
            assert_eq!(name.parse::<Replacement>().unwrap().to_string(), name);
        }
        for name in [
            "",
            "second-chance=76",
            "second-chance=x",
            "reinsertion=9",
            "reinsertion=51",
            "fifo",
        ] {
            assert!(name.parse::<Replacement>().is_err(), "{name}");
        }
    }

    #[test]
    fn a_small_store_may_be_behind_by_a_few_large_objects() {
        const MIB: u64 = 1 << 20;
        let of = |mib| in_flight_bytes(mib * MIB) / MIB;
        assert_eq!([4, 16, 32].map(of), [1, 4, 8], "a quarter");
        assert_eq!([64, 128].map(of), [8, 8]);
        assert_eq!([256, 1024].map(of), [16, 64], "a sixteenth");
        assert_eq!(of(100_000), 64);
    }

    #[test]
    fn everything_fits_a_region() {
        for mib in [4, 64, 1024, 40_000] {
            let geometry = Geometry::plan(mib << 20, 512).unwrap();
            let settings = Settings::default();
            let fragment_bytes = fragment_bytes(settings.fragment_bytes, &geometry);
            let limits = Limits::fit(&settings, &geometry, fragment_bytes);
            assert!(limits.cluster_chunks <= geometry.region_chunks / 2);
            assert!(limits.record_chunks_max <= geometry.region_chunks / 2);
            assert!(limits.fragment_bytes / geometry.chunk_bytes < limits.record_chunks_max);
        }
    }
}
