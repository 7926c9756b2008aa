//! Purges by pattern that still apply: a record that matches a newer predicate is dead or stale.
//!
//! A purge of a prefix or a tag cannot find its records (the index has no URLs), so the pattern is kept here, and
//! each record is compared when it is read. Most records are newer than the newest predicate, which takes one
//! comparison of numbers.
//!
//! A predicate is dropped when every record that is older was compared with it: when all regions were opened after
//! it, or when a weeding has read all older records (`weed`). Until then it takes room; when none is left, a further
//! predicate is refused ([`Full`]). No predicate is dropped to make room, because its old records would be unknown.
//!
//! Patterns are kept in order, for each kind. A word is looked up as a whole. To find prefixes of a key, the search takes the greatest
//! pattern that is not above the key, cuts the key to the part that both share, and repeats: a few steps, however many patterns there
//! are.
//!
//! Limits: [`MEMORY_BYTES_MAX`] in memory. In a checkpoint the share that the store gives; dropped predicates count there until a
//! checkpoint without them is published, so that after a crash the last checkpoint and the log together have no more either.
//! Not known here: what kinds there are (`Manner`), the log, the records.

use crate::layout::{predicate as field, predicates as fixed};
use crate::log::entry::TEXT_BYTES_MAX;
use crate::sequence::Sequence;
use crate::settings::{About, Manner, Words};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Bytes of memory that all predicates of a store may take: a quarter of a million tags of 50 characters.
pub(crate) const MEMORY_BYTES_MAX: usize = 32 << 20;

/// What a predicate takes besides its pattern: sequence, pointer, its share of a tree's node, the allocator's rounding.
const OVERHEAD_BYTES: usize = 80;

/// A weeding is worth its reads when this share of the room is taken.
const WEED_SHARE: usize = 8;

/// No room for one more predicate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

/// The effect of predicates on a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Met {
    /// A predicate that is not soft matches the record.
    pub dead: bool,
    /// A soft predicate matches the record.
    pub stale: bool,
}

/// The predicates of one kind.
#[derive(Clone, Debug)]
struct Group {
    manner: Manner,
    newest: Sequence,
    patterns: BTreeMap<Box<[u8]>, Sequence>,
}

/// Purges by pattern that still apply, and their effect on a record: those of a store, or of the objects in memory.
#[derive(Clone, Debug)]
pub struct Predicates {
    manner: fn(u8) -> Manner,
    words: Words,
    groups: BTreeMap<u8, Group>,
    count: usize,
    memory_bytes: usize,
    encoded_bytes: usize,
    encoded_bytes_max: usize,
    /// Bytes dropped since the last checkpoint began: the published one still has them.
    released_bytes: usize,
    /// Bytes dropped before the checkpoint under way began.
    leaving_bytes: usize,
}

fn memory_of(pattern: &[u8]) -> usize {
    OVERHEAD_BYTES + pattern.len()
}

fn encoded_of(pattern: &[u8]) -> usize {
    field::BYTES + pattern.len()
}

impl Predicates {
    /// An empty table. A checkpoint has room for `encoded_bytes_max`.
    pub fn new(manner: fn(u8) -> Manner, words: Words, encoded_bytes_max: usize) -> Self {
        Self {
            manner,
            words,
            groups: BTreeMap::new(),
            count: 0,
            memory_bytes: 0,
            encoded_bytes: fixed::BYTES,
            encoded_bytes_max,
            released_bytes: 0,
            leaving_bytes: 0,
        }
    }

    /// From now on the predicate meets every record that matches and began before `sequence`. Calls may come in any order, and twice.
    ///
    /// # Errors
    /// There is no room; nothing was noted.
    pub fn note(&mut self, kind: u8, pattern: &[u8], sequence: Sequence) -> Result<(), Full> {
        if !self.would_take(kind, pattern) {
            return Err(Full);
        }
        self.note_all_the_same(kind, pattern, sequence);
        Ok(())
    }

    /// Is there room for the predicate? A pattern that is there already needs none.
    pub(crate) fn would_take(&self, kind: u8, pattern: &[u8]) -> bool {
        let group = self.groups.get(&kind);
        group.is_some_and(|group| group.patterns.contains_key(pattern))
            || self.has_room_for(pattern)
    }

    /// As [`Self::note`], whether there is room or not: predicates that a start finds must not be forgotten.
    pub(crate) fn note_all_the_same(&mut self, kind: u8, pattern: &[u8], sequence: Sequence) {
        assert!(pattern.len() <= TEXT_BYTES_MAX, "{} bytes", pattern.len());
        let manner = (self.manner)(kind);
        let group = self.groups.entry(kind).or_insert_with(|| Group {
            manner,
            newest: 0,
            patterns: BTreeMap::new(),
        });
        group.newest = group.newest.max(sequence);
        if let Some(there) = group.patterns.get_mut(pattern) {
            *there = sequence.max(*there);
            return;
        }
        group.patterns.insert(Box::from(pattern), sequence);
        self.count += 1;
        self.memory_bytes += memory_of(pattern);
        self.encoded_bytes += encoded_of(pattern);
    }

    fn has_room_for(&self, pattern: &[u8]) -> bool {
        self.memory_bytes + memory_of(pattern) <= MEMORY_BYTES_MAX
            && self.encoded_taken() + encoded_of(pattern) <= self.encoded_bytes_max
    }

    fn encoded_taken(&self) -> usize {
        self.encoded_bytes + self.released_bytes + self.leaving_bytes
    }

    /// The effect of the predicates newer than `began` on a record.
    pub fn meet(&self, began: Sequence, key: &[u8], meta: &[u8]) -> Met {
        let mut met = Met::default();
        let mut asks_words = false;
        for group in self.groups.values().filter(|group| group.newest > began) {
            let is_met = match group.manner.about {
                About::All => true,
                About::Prefix => group.has_prefix_of(key, began),
                About::Word => {
                    asks_words = true;
                    false
                }
            };
            met.note(group.manner, is_met);
        }
        if asks_words {
            (self.words)(meta, &mut |word| {
                for group in self.groups.values() {
                    let is_met = group.manner.about == About::Word
                        && group.patterns.get(word).is_some_and(|&at| at > began);
                    met.note(group.manner, is_met);
                }
            });
        }
        met
    }

    /// Drops the predicates up to `upto`: all older records were compared with them.
    pub fn prune(&mut self, upto: Sequence) {
        let before = self.encoded_bytes;
        let (count, memory, encoded) = (
            &mut self.count,
            &mut self.memory_bytes,
            &mut self.encoded_bytes,
        );
        self.groups.retain(|_, group| {
            group.patterns.retain(|pattern, sequence| {
                let stays = *sequence > upto;
                if !stays {
                    *count -= 1;
                    *memory -= memory_of(pattern);
                    *encoded -= encoded_of(pattern);
                }
                stays
            });
            !group.patterns.is_empty()
        });
        self.released_bytes += before - self.encoded_bytes;
    }

    /// Drops all predicates; no checkpoint has them.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.manner, self.words, self.encoded_bytes_max);
    }

    /// A checkpoint of this table begins.
    pub(crate) fn checkpoint_begins(&mut self) {
        self.leaving_bytes += std::mem::take(&mut self.released_bytes);
    }

    /// The checkpoint was published (`ok`), or failed.
    pub(crate) fn checkpoint_ends(&mut self, ok: bool) {
        let left = std::mem::take(&mut self.leaving_bytes);
        self.released_bytes += if ok { 0 } else { left };
    }

    /// Do dropped predicates take so much room that a checkpoint is worth it?
    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.released_bytes > self.encoded_bytes_max / WEED_SHARE
    }

    /// Do the predicates take so much room that a weeding is worth its reads?
    pub(crate) fn wants_weeding(&self) -> bool {
        self.count > 0
            && (self.memory_bytes > MEMORY_BYTES_MAX / WEED_SHARE
                || self.encoded_bytes > self.encoded_bytes_max / WEED_SHARE)
    }

    /// Are there more predicates than a checkpoint has room for? Only after a start without one, in the smallest stores.
    pub(crate) fn exceed_checkpoint(&self) -> bool {
        self.encoded_bytes > self.encoded_bytes_max
    }

    /// Percent of the room that is taken.
    pub(crate) fn percent_taken(&self) -> u64 {
        let percent = |bytes: usize, max: usize| (bytes as u64 * 100) / max.max(1) as u64;
        percent(self.memory_bytes, MEMORY_BYTES_MAX)
            .max(percent(self.encoded_taken(), self.encoded_bytes_max))
    }

    /// The sequence of the oldest predicate.
    pub(crate) fn oldest(&self) -> Option<Sequence> {
        let patterns = self.groups.values().flat_map(|group| &group.patterns);
        patterns.map(|(_, &sequence)| sequence).min()
    }

    /// The sequence of the newest predicate. Records that began then or later are met by none.
    pub fn newest(&self) -> Sequence {
        let newest = self.groups.values().map(|group| group.newest);
        newest.max().unwrap_or(0)
    }

    /// How many predicates there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Is there no predicate?
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of memory that the predicates take.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// The table as it goes into a checkpoint, which guards it with its own checksum.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.encoded_bytes);
        bytes.resize(fixed::BYTES, 0);
        fixed::COUNT.put_u32(&mut bytes, self.count as u32);
        for (&kind, group) in &self.groups {
            for (pattern, &sequence) in &group.patterns {
                let start = bytes.len();
                bytes.resize(start + field::BYTES, 0);
                let b = &mut bytes[start..];
                field::SEQUENCE.put_u64(b, sequence);
                field::KIND.put(b, &[kind]);
                field::PATTERN_LEN.put_u16(b, pattern.len() as u16);
                bytes.extend_from_slice(pattern);
            }
        }
        bytes
    }

    /// Notes what [`Self::encode`] wrote. None for anything else, never a panic.
    pub(crate) fn take_encoded(&mut self, bytes: &[u8]) -> Option<()> {
        let (head, mut rest) = bytes.split_at_checked(fixed::BYTES)?;
        for _ in 0..fixed::COUNT.u32(head) {
            let (b, more) = rest.split_at_checked(field::BYTES)?;
            let len = usize::from(field::PATTERN_LEN.u16(b));
            if len > TEXT_BYTES_MAX {
                return None;
            }
            let (pattern, more) = more.split_at_checked(len)?;
            let [kind] = field::KIND.array(b);
            self.note_all_the_same(kind, pattern, field::SEQUENCE.u64(b));
            rest = more;
        }
        rest.is_empty().then_some(())
    }
}

impl Met {
    fn note(&mut self, manner: Manner, is_met: bool) {
        self.stale |= is_met && manner.soft;
        self.dead |= is_met && !manner.soft;
    }
}

impl Group {
    /// Is a pattern that is newer than `began` a prefix of the key?
    fn has_prefix_of(&self, key: &[u8], began: Sequence) -> bool {
        let mut key = &key[..key.len().min(TEXT_BYTES_MAX)];
        loop {
            let Some((pattern, &sequence)) =
                self.patterns.range::<[u8], _>(not_above(key)).next_back()
            else {
                return false;
            };
            let common = pattern.iter().zip(key).take_while(|(a, b)| a == b).count();
            let is_prefix = common == pattern.len();
            if is_prefix && sequence > began {
                return true;
            }
            // Every other prefix of the key is smaller than this pattern, so it is a prefix of what the two share.
            let Some(shorter) = (if is_prefix {
                common.checked_sub(1)
            } else {
                Some(common)
            }) else {
                return false;
            };
            key = &key[..shorter];
        }
    }
}

fn not_above(key: &[u8]) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Unbounded, Bound::Included(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: u8 = 1;
    const WORD: u8 = 2;
    const SOFT_WORD: u8 = 3;

    fn table() -> Predicates {
        with_room(1 << 20)
    }

    fn with_room(encoded_bytes_max: usize) -> Predicates {
        let manner = |kind| Manner {
            about: match kind {
                PREFIX => About::Prefix,
                WORD | SOFT_WORD => About::Word,
                _ => About::All,
            },
            soft: kind == SOFT_WORD,
        };
        let words: Words = |meta, each| meta.split(|&b| b == b' ').for_each(each);
        Predicates::new(manner, words, encoded_bytes_max)
    }

    fn kills(table: &Predicates, began: Sequence, key: &str) -> bool {
        table.meet(began, key.as_bytes(), b"").dead
    }

    #[test]
    fn what_matches_and_began_before_is_dead() {
        let mut table = table();
        table.note(PREFIX, b"/a/", 10).unwrap();
        table.note(PREFIX, b"/b/", 20).unwrap();
        assert!(kills(&table, 9, "/a/1"));
        assert!(!kills(&table, 10, "/a/1"));
        assert!(kills(&table, 10, "/b/1"));
        assert!(!kills(&table, 9, "/c/1"));
        assert_eq!(table.newest(), 20);
    }

    #[test]
    fn words_are_met_whole_and_soft_ones_leave_alive() {
        let mut table = table();
        table.note(WORD, b"news", 10).unwrap();
        table.note(SOFT_WORD, b"shop", 10).unwrap();
        let met = |meta: &[u8]| table.meet(5, b"", meta);
        assert!(met(b"a news b").dead && !met(b"a news b").stale);
        assert_eq!(met(b"newsletter"), Met::default());
        assert!(met(b"shop").stale && !met(b"shop").dead);
        assert!(!table.meet(10, b"", b"news").dead);
    }

    #[test]
    fn every_prefix_is_found_among_many() {
        let mut table = table();
        let mut random = 1u64;
        let mut letters = |most: u64| -> Vec<u8> {
            let mut text = Vec::new();
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
            for n in 0..1 + (random >> 33) % most {
                text.push(b'a' + (random >> (n * 3 % 60)) as u8 % 3);
            }
            text
        };
        let mut twin = Vec::new();
        for sequence in 1..400 {
            let pattern = letters(9);
            table.note(PREFIX, &pattern, sequence).unwrap();
            twin.push((pattern, sequence));
        }
        let mut met = 0;
        for _ in 0..2000 {
            let key = letters(12);
            let began = 380;
            let expected = twin
                .iter()
                .any(|(pattern, at)| *at > began && key.starts_with(pattern));
            assert_eq!(table.meet(began, &key, b"").dead, expected);
            met += u32::from(expected);
        }
        assert!((100..1900).contains(&met), "{met}");
        table.note(PREFIX, b"", 500).unwrap();
        assert!(
            kills(&table, 400, "zzz"),
            "the empty prefix is of every key"
        );
    }

    #[test]
    fn the_same_pattern_again_takes_no_room() {
        let mut table = with_room(30);
        for sequence in [5, 9, 7] {
            table.note(PREFIX, b"/a/", sequence).unwrap();
        }
        assert_eq!((table.len(), table.oldest()), (1, Some(9)));
        assert!(kills(&table, 8, "/a/1"));
        assert_eq!(table.note(PREFIX, b"/another/", 10), Err(Full));
        table.note(PREFIX, b"/a/", 11).unwrap();
        assert!(kills(&table, 10, "/a/1"));
    }

    #[test]
    fn a_full_table_refuses_and_what_was_dropped_counts_until_a_checkpoint_is_without_it() {
        let mut table = with_room(100);
        let mut n = 0;
        while table
            .note(PREFIX, format!("/{n}/").as_bytes(), n + 1)
            .is_ok()
        {
            n += 1;
        }
        assert!(!kills(&table, 0, "/none/") && kills(&table, 0, "/0/"));
        table.prune(n);
        assert_eq!(table.len(), 0);
        assert_eq!(table.note(PREFIX, b"/new/", 90), Err(Full));
        table.checkpoint_begins();
        table.checkpoint_ends(false);
        assert_eq!(table.note(PREFIX, b"/new/", 90), Err(Full));
        table.checkpoint_begins();
        table.checkpoint_ends(true);
        table.note(PREFIX, b"/new/", 90).unwrap();
    }

    #[test]
    fn a_table_comes_back_from_its_bytes_and_only_from_them() {
        let mut from = table();
        from.note(PREFIX, b"/a/", 10).unwrap();
        from.note(WORD, b"", 12).unwrap();
        let bytes = from.encode();
        assert_eq!(bytes.len(), from.encoded_bytes);
        let mut back = table();
        back.take_encoded(&bytes).unwrap();
        assert_eq!(back.encode(), bytes);
        for len in 0..bytes.len() {
            assert_eq!(table().take_encoded(&bytes[..len]), None);
        }
        let longer: Vec<u8> = bytes.iter().copied().chain([0]).collect();
        assert_eq!(table().take_encoded(&longer), None);
        // Whatever is changed: no panic.
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bytes = bytes.clone();
                bytes[at] ^= 1 << bit;
                let _ = table().take_encoded(&bytes);
            }
        }
    }
}
