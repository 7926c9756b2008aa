//! Soft purges of resources with variants: variants stored before are stale.
//!
//! A record has a mark of its own for that, but the places of a resource's variants are unknown. So the purge is remembered, and each
//! variant that is read is compared with it, until everything stored before has been overwritten. A checkpoint has these purges, the log
//! has those that came since.
//!
//! Limits: [`SoftPurges::max`]. To make room for one more, purges of resources without a marker leave; if there are none, it is refused,
//! and the variants are purged instead.
//! Not known here: markers, records.

use crate::index::key::{KeyHash, NumberMap};
use crate::layout::checkpoint_soft as field;
use crate::sequence::Sequence;

/// Soft purges remembered in a shard, at most.
const REMEMBERED_MAX: usize = 1 << 14;

/// Soft purges take at most this part of a checkpoint's area, so that it always has room for them.
const CHECKPOINT_SHARE: u64 = 8;

/// No room for one more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Full;

#[derive(Debug, Default)]
pub(crate) struct SoftPurges {
    last: NumberMap<u64, Sequence>,
}

impl SoftPurges {
    /// The most soft purges that each of `shards` shards remembers.
    pub(crate) fn max(checkpoint_bytes: u64, shards: usize) -> usize {
        let share = checkpoint_bytes / CHECKPOINT_SHARE / field::BYTES as u64 / shards as u64;
        REMEMBERED_MAX.min(share as usize)
    }

    /// All variants of the primary whose fetch began before `sequence` are stale.
    pub(crate) fn note(
        &mut self,
        primary: KeyHash,
        sequence: Sequence,
        max: usize,
    ) -> Result<(), Full> {
        if self.last.len() >= max && !self.last.contains_key(&primary.0) {
            return Err(Full);
        }
        let last = self.last.entry(primary.0).or_insert(sequence);
        *last = sequence.max(*last);
        Ok(())
    }

    /// Was the primary soft purged after `began`?
    pub(crate) fn since(&self, primary: KeyHash, began: Sequence) -> bool {
        let last = self.last.get(&primary.0);
        last.is_some_and(|&sequence| sequence > began)
    }

    /// Forgets a primary that has no variants any more.
    pub(crate) fn forget(&mut self, primary: KeyHash) {
        self.last.remove(&primary.0);
    }

    /// Forgets the primaries that have no variants in reach any more.
    pub(crate) fn retain(&mut self, has_variants: impl Fn(KeyHash) -> bool) {
        self.last
            .retain(|&primary, _| has_variants(KeyHash(primary)));
    }

    /// Forgets the purges up to `oldest`: nothing stored before is left.
    pub(crate) fn prune(&mut self, oldest: Sequence) {
        self.last.retain(|_, sequence| *sequence > oldest);
    }

    /// Appends the purges as a checkpoint has them.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for (&primary, &sequence) in &self.last {
            let start = out.len();
            out.resize(start + field::BYTES, 0);
            field::PRIMARY.put_u64(&mut out[start..], primary);
            field::SEQUENCE.put_u64(&mut out[start..], sequence);
        }
    }

    /// Reads what [`Self::encode`] wrote. Accepts any bytes.
    pub(crate) fn decode(bytes: &[u8]) -> impl Iterator<Item = (KeyHash, Sequence)> {
        let fixed = bytes.chunks_exact(field::BYTES);
        fixed.map(|one| (KeyHash(field::PRIMARY.u64(one)), field::SEQUENCE.u64(one)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_began_before_is_stale_until_it_is_overwritten() {
        let mut soft = SoftPurges::default();
        soft.note(KeyHash(1), 10, 2).unwrap();
        soft.note(KeyHash(1), 5, 2).unwrap();
        assert!(soft.since(KeyHash(1), 9) && !soft.since(KeyHash(1), 10));
        assert!(!soft.since(KeyHash(2), 0));
        soft.note(KeyHash(2), 20, 2).unwrap();
        assert_eq!(soft.note(KeyHash(3), 21, 2), Err(Full));
        assert_eq!(soft.note(KeyHash(2), 22, 2), Ok(()));
        let mut bytes = Vec::new();
        soft.encode(&mut bytes);
        let mut read: Vec<_> = SoftPurges::decode(&bytes).collect();
        read.sort_unstable();
        assert_eq!(read, [(KeyHash(1), 10), (KeyHash(2), 22)]);
        soft.prune(10);
        assert!(!soft.since(KeyHash(1), 0) && soft.since(KeyHash(2), 0));
        soft.forget(KeyHash(2));
        assert!(!soft.since(KeyHash(2), 0));
    }
}
