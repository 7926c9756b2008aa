//! What the store counts. Each counter is named once, in the table below.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! figures {
    (gauges { $($(#[$gauge_doc:meta])* $gauge:ident)* } counters { $($(#[$doc:meta])* $counter:ident)* }) => {
        /// The state of the store at one moment, and what it did since it was opened.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Figures {
            $($(#[$gauge_doc])* pub $gauge: u64,)*
            $($(#[$doc])* pub $counter: u64,)*
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
            /// Names and values of what goes up and down.
            pub fn gauges(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($gauge), self.$gauge)),*].into_iter()
            }

            /// Names and values of what only goes up.
            pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($counter), self.$counter)),*].into_iter()
            }
        }
    };
}

figures! {
    gauges {
        /// Records that can be looked up.
        records
        /// Variant markers in the index.
        markers
        /// Size of a chunk in bytes.
        chunk_bytes
        /// Chunks of the store.
        total_chunks
        /// Chunks that no record and no open cluster uses.
        free_chunks
        /// Free pieces.
        free_pieces
        /// Chunks of the largest free piece.
        largest_free_chunks
        /// Reads under way.
        reads_pinned
        /// Bytes of records that wait in locality buffers; of those killed meanwhile too, until their buffer is emptied.
        gathered_bytes
        /// Bytes of records that answers under way need, and that are therefore not evicted.
        needed_bytes
        /// Purges by pattern that older records are still compared with.
        predicates
        /// Percent of the room for those that is taken; at 100 one more is refused.
        predicates_percent
        /// Memory of those in bytes.
        predicates_bytes
        /// Clusters handed out and not yet reported written.
        clusters_in_flight
        /// Memory of the index in bytes, without the allocator's.
        index_bytes
        /// Memory of the allocator in bytes.
        space_bytes
    }
    counters {
        /// Records taken in.
        inserts
        /// Bytes of those: header, key, metadata, body, without padding.
        insert_bytes
        /// Device writes handed out.
        writes
        /// Bytes of those.
        write_bytes
        /// Writes that failed; the records in them were dropped.
        write_failures
        /// Records evicted to make room.
        evictions
        /// Records evicted because a stretch was cleared for a large record.
        stretch_evictions
        /// Chunks of all evicted records.
        evicted_chunks
        /// Records replaced by a newer one of the same key.
        replaced
        /// Invalidations asked for.
        invalidations
        /// Records that these removed.
        invalidated
        /// Records that failed verification.
        corrupt
        /// Records read that were another key's: two keys that the index takes for one.
        other_keys
        /// Reads that the device refused.
        read_failures
        /// Records written again because they were read when room was to be made where they lay.
        second_chances
        /// Records written again because an answer under way needed them when room was to be made where they lay.
        moved
        /// Needed records that could not be read, or for which there was no room, when it was time.
        moves_failed
        /// Records found by the scan after an unclean stop.
        recovered
        /// Commits of the invalidation log begun.
        log_commits
        /// Those that failed.
        log_failures
        /// Invalidations that the log did not take, because too many waited.
        log_refused
        /// Purges by pattern that were refused, because there was no room for one more.
        predicates_refused
        /// Times that all older records were read, so that purges by pattern could be dropped.
        weedings
        /// Bytes read for that.
        weeding_bytes
        /// Records that it took out: purged, or not to be verified.
        weeded
        /// Checkpoints published.
        checkpoints
        /// Bytes of those.
        checkpoint_bytes
        /// Checkpoints that failed.
        checkpoint_failures
        /// Records refused: they were invalidated while being fetched.
        refused_invalidated
        /// Records refused: too large for this store.
        refused_too_large
        /// Records refused: no run of free chunks that long.
        refused_no_space
        /// Records refused: caching pauses after a failed write.
        refused_paused
        /// Records refused: the device is behind with writing.
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
