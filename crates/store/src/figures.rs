//! The store's figures. Each is named once, in the table below.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! figures {
    (gauges { $(#[doc = $gauge_doc:literal] $gauge:ident)* } counters { $(#[doc = $doc:literal] $counter:ident)* }) => {
        /// The state of the store at one moment, and what it did since it was opened.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Figures {
            $(#[doc = $gauge_doc] pub $gauge: u64,)*
            $(#[doc = $doc] pub $counter: u64,)*
        }

        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub $counter: Counter,)*
        }

        impl Counters {
            pub(crate) fn read(&self) -> Figures {
                Figures { $($counter: self.$counter.get(),)* ..Figures::default() }
            }
        }

        impl Figures {
            /// What each of [`Self::gauges`] means, in their order.
            pub const GAUGE_HELP: &[&str] = &[$($gauge_doc.trim_ascii()),*];
            /// What each of [`Self::counters`] means, in their order.
            pub const COUNTER_HELP: &[&str] = &[$($doc.trim_ascii()),*];

            /// Names and values of the gauges.
            pub fn gauges(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($gauge), self.$gauge)),*].into_iter()
            }

            /// Names and values of the counters.
            pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($counter), self.$counter)),*].into_iter()
            }
        }
    };
}

// Each line is also the help text of a metric, so it must say what is counted without the lines around it.
figures! {
    gauges {
        /// Records that can be looked up, those in memory on their way to the disk included
        records
        /// URLs known to have variants
        markers
        /// Size of a chunk, the unit of allocation, in bytes
        chunk_bytes
        /// Chunks of the data area
        total_chunks
        /// Chunks that the next writes go to before anything has to be evicted. With second-chance a few regions at most, however empty the store is: live, dead and never written bytes tell how full it is
        ready_chunks
        /// Separate pieces of free space that the allocator chooses from. With second-chance they are of the region being filled
        free_pieces
        /// Chunks of the largest such piece
        largest_free_chunks
        /// Bytes of the data area taken by records that can be looked up, padding to whole chunks included
        live_bytes
        /// Bytes of the data area that were written and belong to no record any more: evicted, replaced, purged, or left over at the end of a region
        dead_bytes
        /// Bytes of the data area that were not written since the store was made; with another policy than second-chance all that is free
        never_written_bytes
        /// Reads of records under way
        reads_pinned
        /// Bytes of records that wait in locality buffers in memory; of those killed meanwhile too, until their buffer is emptied
        gathered_bytes
        /// Bytes of records that answers under way need, and that are therefore not evicted
        needed_bytes
        /// Purges by pattern that older records are still compared with
        predicates
        /// Percent of the room for purges by pattern that is taken; at 100 one more is refused
        predicates_percent
        /// Bytes of memory that purges by pattern take
        predicates_bytes
        /// Clusters (writes) handed to the device and not yet reported written
        clusters_in_flight
        /// Bytes of memory that the index takes, without the rounding of the memory allocator
        index_bytes
        /// Bytes of memory that the allocator of chunks takes
        space_bytes
    }
    counters {
        /// Records taken in to be written
        inserts
        /// Bytes of the records taken in: header, key, metadata, body, without padding
        insert_bytes
        /// Writes of records handed to the device, a cluster each
        writes
        /// Bytes of the writes of records handed to the device
        write_bytes
        /// Writes of records that failed; the records in them were dropped
        write_failures
        /// Records evicted to make room
        evictions
        /// Records evicted because a stretch was cleared for a large record
        stretch_evictions
        /// Chunks of the evicted records
        evicted_chunks
        /// Records replaced by a newer one of the same key
        replaced
        /// Invalidations asked for: purges, writes by clients, answers that make the stored one untrue
        invalidations
        /// Records that invalidations removed
        invalidated
        /// Records read whose checksum, key or place was wrong; they were dropped
        corrupt
        /// Answers that were not stored because too many different Vary fields are in use
        lists_refused
        /// Records read that were another key's: two keys that the index takes for one
        other_keys
        /// Reads of records that the device refused
        read_failures
        /// Records written again because they were read when room was to be made where they lay
        second_chances
        /// Records written again because they were worth most, for their length, of what lay where room was to be made
        reinserted
        /// Bytes of the records written again for that reason, padding included
        reinserted_bytes
        /// Bytes read to write such records again
        reinsertion_bytes
        /// Records written again because an answer under way needed them when room was to be made where they lay
        moved
        /// Records needed by an answer under way that could not be read, or for which there was no room, when room was made where they lay
        moves_failed
        /// Records found by the scan after an unclean stop
        recovered
        /// Commits of the invalidation log begun
        log_commits
        /// Commits of the invalidation log that failed
        log_failures
        /// Invalidations that the log did not take, because too many waited
        log_refused
        /// Purges by pattern that were refused because there was no room for one more
        predicates_refused
        /// Times that all older records were read, so that purges by pattern could be dropped
        weedings
        /// Bytes read to drop purges by pattern
        weeding_bytes
        /// Records that such readings took out: purged, or not to be verified
        weeded
        /// Notes of regions to be filled next, each a few writes and flushes, begun
        notes
        /// Regions that these notes covered
        noted_regions
        /// Checkpoints of the index published
        checkpoints
        /// Bytes of the checkpoints published
        checkpoint_bytes
        /// Checkpoints that failed
        checkpoint_failures
        /// Records refused because they were invalidated while being fetched
        refused_invalidated
        /// Records refused because they are too large for this store
        refused_too_large
        /// Records refused because no run of free chunks is that long
        refused_no_space
        /// Records refused because storing pauses after a failed write
        refused_paused
        /// Records refused because the device is behind with writing
        refused_behind
    }
}

/// Counts; wraps after 2^64.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
