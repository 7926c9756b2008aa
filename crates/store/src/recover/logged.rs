//! The content of the invalidation log at a start.

use crate::index::key::{KeyHash, NumberMap};
use crate::log::entry::Entry;
use crate::log::replay::Replay;
use crate::sequence::Sequence;

/// The invalidations in the log.
pub(super) struct Logged {
    pub kills: NumberMap<u64, Sequence>,
    pub doubts: NumberMap<u64, Sequence>,
    pub replaced: NumberMap<u64, Sequence>,
    pub predicates: Vec<(Sequence, u8, Box<[u8]>)>,
    pub horizon: Sequence,
    pub highest: Sequence,
}

impl Logged {
    pub(super) fn of(replay: &Replay<'_>) -> Self {
        let mut logged = Self {
            kills: NumberMap::default(),
            doubts: NumberMap::default(),
            replaced: NumberMap::default(),
            predicates: Vec::new(),
            horizon: replay.horizon,
            highest: replay.highest_sequence,
        };
        let raise = |map: &mut NumberMap<u64, Sequence>, hash: KeyHash, sequence| {
            let highest = map.entry(hash.0).or_insert(sequence);
            *highest = (*highest).max(sequence);
        };
        for (sequence, entry) in replay.entries.clone() {
            logged.highest = logged.highest.max(sequence);
            match entry {
                Entry::Key { primary } => raise(&mut logged.kills, primary, sequence),
                Entry::Doubt { primary } => raise(&mut logged.doubts, primary, sequence),
                Entry::Replaced { hash } => raise(&mut logged.replaced, hash, sequence),
                Entry::Matching { kind, pattern } => {
                    logged.predicates.push((sequence, kind, pattern));
                }
            }
        }
        logged
    }
}
