//! Purges by pattern that are still to be applied: a record that matches a newer one is dead, wherever it lies.
//!
//! A purge of a prefix or a tag can't look for its records (the index holds no URLs), so it is kept here and each record is
//! compared when it is read. Most records are newer than the newest predicate, and then one comparison of
//! numbers is all. A predicate is dropped when nothing in the store is old enough for it.
//!
//! The table is bounded. When it is full the oldest predicate makes room and the *horizon* rises to it: of a
//! record whose fetch began before, we can't tell, so it counts as killed. That costs old records, never
//! a wrong answer.
//!
//! Limits: [`PREDICATES_MAX`], each of [`TEXT_BYTES_MAX`]; so at most a mebibyte or so, in memory and in a checkpoint.
//! Not known here: what a kind means (the caller brings `matches`), the log.

use crate::Sequence;
use crate::layout::{predicate as field, predicates as fixed};
use crate::log::TEXT_BYTES_MAX;
use std::collections::VecDeque;

/// Predicates kept; for one more the oldest makes room and the horizon rises.
pub(crate) const PREDICATES_MAX: usize = 1024;

/// Does a record of this key and metadata match: (kind, pattern, key, metadata).
pub(crate) type Matches = fn(u8, &[u8], &[u8], &[u8]) -> bool;

/// One purge by pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Predicate {
    pub sequence: Sequence,
    pub kind: u8,
    pub pattern: Box<[u8]>,
}

/// The active ones, oldest first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Predicates {
    active: VecDeque<Predicate>,
    horizon: Sequence,
}

impl Predicates {
    /// Everything that matches and began before `sequence` is dead from now on. They may come in any order, and twice.
    pub(crate) fn note(&mut self, kind: u8, pattern: &[u8], sequence: Sequence) {
        assert!(pattern.len() <= TEXT_BYTES_MAX, "{} bytes", pattern.len());
        if sequence <= self.horizon {
            return;
        }
        let same = |p: &Predicate| p.kind == kind && *p.pattern == *pattern;
        if let Some(at) = self.active.iter().position(same) {
            if self.active[at].sequence >= sequence {
                return;
            }
            self.active.remove(at);
        }
        let place = self.active.partition_point(|p| p.sequence <= sequence);
        let predicate = Predicate {
            sequence,
            kind,
            pattern: Box::from(pattern),
        };
        self.active.insert(place, predicate);
        if self.active.len() > PREDICATES_MAX
            && let Some(oldest) = self.active.pop_front()
        {
            self.raise_horizon(oldest.sequence);
        }
    }

    /// Is a record dead whose fetch began at `began`? Looks at the newest predicates first, and at none that is older.
    pub(crate) fn kills(&self, began: Sequence, key: &[u8], meta: &[u8], matches: Matches) -> bool {
        began < self.horizon
            || self
                .active
                .iter()
                .rev()
                .take_while(|p| p.sequence > began)
                .any(|p| matches(p.kind, &p.pattern, key, meta))
    }

    #[cfg(test)]
    /// Can any record that began at `began` be dead? If not, its key and metadata need not be known.
    pub(crate) fn may_kill(&self, began: Sequence) -> bool {
        let newest = self.active.back().map_or(0, |p| p.sequence);
        began < self.horizon.max(newest)
    }

    /// Drops what can kill nothing more: no record in the store, no fill under way began before `oldest`.
    pub(crate) fn prune(&mut self, oldest: Sequence) {
        let dropped = self.active.partition_point(|p| p.sequence <= oldest);
        self.active.drain(..dropped);
    }

    /// Everything that began before counts as dead.
    pub(crate) fn raise_horizon(&mut self, horizon: Sequence) {
        self.horizon = self.horizon.max(horizon);
        // What began later survives them all, what began before is dead without them.
        self.prune(self.horizon);
    }

    /// The sequence of the oldest one.
    pub(crate) fn oldest(&self) -> Option<Sequence> {
        self.active.front().map(|p| p.sequence)
    }

    /// Nothing that began from here on can be dead.
    pub(crate) fn newest(&self) -> Sequence {
        self.active
            .back()
            .map_or(0, |p| p.sequence)
            .max(self.horizon)
    }

    #[cfg(test)]
    pub(crate) fn horizon(&self) -> Sequence {
        self.horizon
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.active.len()
    }

    #[cfg(test)]
    /// Oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Predicate> {
        self.active.iter()
    }

    /// The table as it goes into a checkpoint, which guards it with its own checksum.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; fixed::BYTES];
        fixed::HORIZON.put_u64(&mut bytes, self.horizon);
        fixed::COUNT.put_u32(&mut bytes, self.active.len() as u32);
        for predicate in &self.active {
            let start = bytes.len();
            bytes.resize(start + field::BYTES, 0);
            let b = &mut bytes[start..];
            field::SEQUENCE.put_u64(b, predicate.sequence);
            field::KIND.put(b, &[predicate.kind]);
            field::PATTERN_LEN.put_u16(b, predicate.pattern.len() as u16);
            bytes.extend_from_slice(&predicate.pattern);
        }
        bytes
    }

    /// As [`Self::encode`], in at most `bytes_max` bytes: the oldest are made into a higher horizon if there are too many.
    pub(crate) fn encode_within(&self, bytes_max: usize) -> Vec<u8> {
        let mut bytes = self.encode();
        let mut fewer = self.clone();
        while bytes.len() > bytes_max
            && let Some(oldest) = fewer.oldest()
        {
            fewer.raise_horizon(oldest);
            bytes = fewer.encode();
        }
        bytes
    }

    /// Reads what [`Self::encode`] wrote. None for anything else, never a panic.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, mut rest) = bytes.split_at_checked(fixed::BYTES)?;
        let count = fixed::COUNT.u32(head) as usize;
        if count > PREDICATES_MAX {
            return None;
        }
        let mut active: VecDeque<Predicate> = VecDeque::with_capacity(count);
        for _ in 0..count {
            let (b, more) = rest.split_at_checked(field::BYTES)?;
            let len = usize::from(field::PATTERN_LEN.u16(b));
            if len > TEXT_BYTES_MAX {
                return None;
            }
            let (pattern, more) = more.split_at_checked(len)?;
            let [kind] = field::KIND.array(b);
            let sequence = field::SEQUENCE.u64(b);
            if active.back().is_some_and(|p| p.sequence > sequence) {
                return None;
            }
            active.push_back(Predicate {
                sequence,
                kind,
                pattern: Box::from(pattern),
            });
            rest = more;
        }
        let horizon = fixed::HORIZON.u64(head);
        rest.is_empty().then_some(Self { active, horizon })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: u8 = 1;

    fn prefix(kind: u8, pattern: &[u8], key: &[u8], _meta: &[u8]) -> bool {
        kind == PREFIX && key.starts_with(pattern)
    }

    fn kills(table: &Predicates, began: Sequence, key: &str) -> bool {
        let kills = table.kills(began, key.as_bytes(), b"", prefix);
        assert!(!kills || table.may_kill(began));
        kills
    }

    #[test]
    fn what_matches_and_began_before_is_dead() {
        let mut table = Predicates::default();
        table.note(PREFIX, b"/a/", 10);
        table.note(PREFIX, b"/b/", 20);
        assert!(kills(&table, 9, "/a/1"));
        assert!(!kills(&table, 10, "/a/1"));
        assert!(kills(&table, 10, "/b/1"));
        assert!(!kills(&table, 9, "/c/1"));
        assert!(!table.may_kill(20));
    }

    #[test]
    fn the_same_pattern_again_takes_no_room() {
        let mut table = Predicates::default();
        for sequence in [5, 9, 7] {
            table.note(PREFIX, b"/a/", sequence);
        }
        table.note(2, b"/a/", 6);
        assert_eq!(table.iter().map(|p| p.sequence).collect::<Vec<_>>(), [6, 9]);
        assert!(kills(&table, 8, "/a/1"));
    }

    #[test]
    fn a_full_table_kills_rather_than_forgets() {
        let mut table = Predicates::default();
        for n in 1..=PREDICATES_MAX as u64 + 1 {
            table.note(PREFIX, format!("/{n}/").as_bytes(), 10 * n);
        }
        assert_eq!((table.len(), table.horizon()), (PREDICATES_MAX, 10));
        assert!(kills(&table, 9, "/none/"));
        assert!(!kills(&table, 10, "/none/"));
        assert!(kills(&table, 10, "/2/"));
        // One that is older than all others has no room either.
        table.note(PREFIX, b"/late/", 15);
        assert_eq!((table.len(), table.horizon()), (PREDICATES_MAX, 15));
        table.note(PREFIX, b"/later/", 12);
        assert_eq!((table.len(), table.horizon()), (PREDICATES_MAX, 15));
    }

    #[test]
    fn what_is_older_than_every_record_is_dropped() {
        let mut table = Predicates::default();
        for n in 1..=5 {
            table.note(PREFIX, &[n], u64::from(n));
        }
        table.prune(3);
        assert_eq!(table.iter().map(|p| p.sequence).collect::<Vec<_>>(), [4, 5]);
        table.raise_horizon(4);
        assert_eq!(table.len(), 1);
        table.prune(9);
        assert_eq!((table.len(), table.horizon()), (0, 4));
    }

    #[test]
    fn a_table_comes_back_from_its_bytes_and_only_from_them() {
        let mut table = Predicates::default();
        table.raise_horizon(3);
        table.note(PREFIX, b"/a/", 10);
        table.note(2, b"", 12);
        let bytes = table.encode();
        assert_eq!(Predicates::decode(&bytes), Some(table));
        for len in 0..bytes.len() {
            assert_eq!(Predicates::decode(&bytes[..len]), None);
        }
        let longer: Vec<u8> = bytes.iter().copied().chain([0]).collect();
        assert_eq!(Predicates::decode(&longer), None);
        // Whatever is changed: no panic.
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bytes = bytes.clone();
                bytes[at] ^= 1 << bit;
                let _ = Predicates::decode(&bytes);
            }
        }
        let empty = Predicates::default();
        assert_eq!(Predicates::decode(&empty.encode()), Some(empty));
    }
}
