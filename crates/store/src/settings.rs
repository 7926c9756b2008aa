//! What may be set, and what comes of it in a store of a given size.

use crate::geometry::{Geometry, PAGE_BYTES};
use crate::shard::RECORD_CHUNKS_MAX;
use replacement::Watermarks;

/// The largest record, whatever the store's size; bounds the memory of writes in flight.
pub const RECORD_BYTES_MAX: u64 = 32 << 20;

/// Clusters handed out and not yet reported written; beyond that nothing is stored until one is.
pub const CLUSTERS_IN_FLIGHT_MAX: usize = 8;

const SHARDS_MAX: usize = 1024;
const CLUSTER_BYTES_MIN: u64 = 64 * 1024;

/// What may be set. The defaults are meant to be left alone.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes gathered into one device write. Larger writes cost less each but hold more in memory.
    /// Default 1 MiB; in effect between 64 KiB and a sixteenth of the store.
    pub cluster_bytes: u32,
    /// Milliseconds a record waits at most for its cluster to fill. Default 1000.
    pub cluster_deadline_ms: u64,
    /// Eviction starts when the used share of the chunks reaches the high one, and goes on to the low one.
    /// Default 97 and 95.
    pub watermarks: Watermarks,
    /// The largest object stored, in bytes of body. In effect at most half of the store, the default.
    pub object_bytes_max: u64,
    /// Bodies are cut into fragments of this size. Default 1 MiB; in effect at most an eighth of the store.
    pub fragment_bytes: u32,
    /// Parts of the index with a lock each: a power of two (rounded up to one), at most 1024. Default 64.
    pub shards: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cluster_bytes: 1 << 20,
            cluster_deadline_ms: 1000,
            watermarks: Watermarks {
                high_percent: 97,
                low_percent: 95,
            },
            object_bytes_max: u64::MAX,
            fragment_bytes: 1 << 20,
            shards: 64,
        }
    }
}

/// The settings, fitted to a geometry.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub cluster_chunks: u32,
    pub cluster_deadline_ms: u64,
    pub watermarks: Watermarks,
    pub record_chunks_max: u32,
    pub object_bytes_max: u64,
    pub fragment_bytes: u32,
    pub shards: usize,
}

impl Limits {
    pub(crate) fn fit(settings: &Settings, geometry: &Geometry) -> Self {
        let chunk_bytes = u64::from(geometry.chunk_bytes);
        let data_bytes = geometry.data_bytes();
        let whole = |bytes: u64| bytes / PAGE_BYTES.max(chunk_bytes) * PAGE_BYTES.max(chunk_bytes);
        let cluster_bytes_max = (data_bytes / 16).max(CLUSTER_BYTES_MIN);
        let cluster_bytes =
            u64::from(settings.cluster_bytes).clamp(CLUSTER_BYTES_MIN, cluster_bytes_max);
        let record_bytes_max = RECORD_BYTES_MAX.min(data_bytes / 4);
        let record_chunks_max = (record_bytes_max / chunk_bytes).min(u64::from(RECORD_CHUNKS_MAX));
        Self {
            cluster_chunks: (whole(cluster_bytes) / chunk_bytes) as u32,
            cluster_deadline_ms: settings.cluster_deadline_ms,
            watermarks: settings.watermarks,
            record_chunks_max: record_chunks_max as u32,
            object_bytes_max: settings.object_bytes_max.min(data_bytes / 2),
            fragment_bytes: whole(u64::from(settings.fragment_bytes).min(data_bytes / 8))
                .max(PAGE_BYTES) as u32,
            shards: settings.shards.clamp(1, SHARDS_MAX).next_power_of_two(),
        }
    }
}
