//! Following an index from outside: its entries, and those that come and leave.
//!
//! The index keeps a part of each key's hash; which part depends on the number of shards and segments. That part as one number is
//! the key's *trace*. From the seed and shape of an index ([`Tracing`]) a follower computes the trace of any key. Keys with the same trace
//! are the same to the index, too. A follower lists segment after segment ([`Store::trace_segment`]); from then on, the segment notes the
//! traces that come and leave, and the follower collects them ([`Store::traced`]).
//!
//! All entries have traces: records, fragments, variants, and the markers that lead to variants.
//!
//! Not known here: what a follower does with traces.
//! Limits: [`NOTES_MAX`](super::notes::NOTES_MAX) notes a segment between two collections; beyond that they are lost, and the follower is told to begin anew.
//! A store without a follower pays eight bytes a segment, and a comparison for each entry that comes or leaves.

use crate::index::key::{KeyHash, KeyHasher};
use crate::index::pieces::{Short, segment_of};
use crate::store::Store;

/// How the traces of an index are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tracing {
    /// Seed of the key hash. Keep it secret from clients: with it they can choose keys that share a trace.
    pub seed: u64,
    /// Shards, a power of two.
    pub shards: u32,
    /// Segments of a shard, at least 1.
    pub segments: u32,
}

impl Tracing {
    /// The trace of a key.
    pub fn trace(&self, key: &[u8]) -> u64 {
        self.trace_of(self.hash(key))
    }

    /// The hash of a key in the store.
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        KeyHasher::new(self.seed).hash(key)
    }

    fn trace_of(&self, hash: KeyHash) -> u64 {
        let shard = hash.0 >> 32 & u64::from(self.shards - 1);
        let segment = segment_of(hash, self.segments as usize);
        self.join(shard, segment as u64, Short::of(hash))
    }

    fn join(&self, shard: u64, segment: u64, short: Short) -> u64 {
        (shard * u64::from(self.segments) + segment) << Short::BITS | u64::from(short.number())
    }
}

/// A change of the entries with a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Traced {
    /// An entry came.
    Came(u64),
    /// An entry left.
    Left(u64),
}

impl Store {
    /// How traces of this store are made.
    pub fn tracing(&self) -> Tracing {
        Tracing {
            seed: self.hasher().seed(),
            shards: self.shards.len() as u32,
            segments: self.limits.segments as u32,
        }
    }

    /// Adds the traces of all entries of a segment to `into`. From now on its changes are noted.
    pub fn trace_segment(&self, shard: u32, segment: u32, into: &mut Vec<u64>) {
        let tracing = self.tracing();
        let mut locked = self.shard(shard as usize);
        let entries = locked.index.segment_mut(segment as usize);
        entries.notes = Some(Box::default());
        let shorts = entries.entries().map(|(short, _)| short);
        into.extend(shorts.map(|short| tracing.join(shard.into(), segment.into(), short)));
    }

    /// Adds the changes in this shard since the last call to `into`, of the segments that were listed. False if some changes are
    /// lost: the follower must begin anew.
    pub fn traced(&self, shard: u32, into: &mut Vec<Traced>) -> bool {
        let tracing = self.tracing();
        let mut are_whole = true;
        let mut locked = self.shard(shard as usize);
        for segment in 0..tracing.segments {
            let entries = locked.index.segment_mut(segment as usize);
            let Some(notes) = &mut entries.notes else {
                continue;
            };
            are_whole &= !notes.are_lost;
            let change = |(short, came)| {
                let trace = tracing.join(shard.into(), segment.into(), short);
                match came {
                    true => Traced::Came(trace),
                    false => Traced::Left(trace),
                }
            };
            into.extend(std::mem::take(&mut notes.notes).into_iter().map(change));
        }
        are_whole
    }

    /// Has the index a record for this primary key that is not known to be stale? Variants do not count, since only the request's fields
    /// tell which of them is wanted. Does not count as a use. The index cannot tell whether the record has grown stale, nor whether it
    /// belongs to another key with the same trace.
    pub fn may_answer(&self, primary: KeyHash) -> bool {
        let shard = self.shard(self.shard_of(primary));
        if shard.waiting.contains_key(&primary.0) {
            return true;
        }
        let spot = shard.find(primary);
        spot.is_some_and(|spot| !shard.entry(spot).is_doubted())
    }

    /// Ends the noting of changes.
    pub fn untrace(&self) {
        for shard in 0..self.shards.len() {
            let mut locked = self.shard(shard);
            for segment in 0..self.limits.segments {
                locked.index.segment_mut(segment).notes = None;
            }
        }
    }
}
