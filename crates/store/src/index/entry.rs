//! The entry that memory keeps of one record: eight bytes.
//!
//! | bits | field | |
//! |---|---|---|
//! | 32..64 | first chunk | |
//! | 24..32 | length code | 0: an empty slot; see below |
//! | 4..24 | remainder | the table's: what the slot does not say of the key (`segment`) |
//! | 3 | second | the table's: the entry lies in its second bucket |
//! | 2 | writing | the record is in a buffer, its write has not completed |
//! | 1 | doubted | its origin is to be asked before it counts as fresh again: a soft purge met it |
//! | 0 | used | a part of the usage (`usage`), as are the upper bits of the first chunk that no place of the store needs |
//!
//! An empty slot is the number 0. A word whose length code is 0 and whose lowest bit is set is a *marker*: a resource with variants
//! (`marker`). It takes no space on the disk.
//!
//! | bits | field of a marker | |
//! |---|---|---|
//! | 48..64 | generation | the lower part of its salt |
//! | 32..48 | list | the number of its list in the shard's table (`lists`) |
//! | 24..32 | length code | 0 |
//! | 3..24 | the table's, as above | |
//! | 1..3 | age | passes since it was last used, see `Aging` |
//! | 0 | 1 | so that it is no empty slot |
//!
//! A length takes eight bits because records are padded to one of 255 lengths: every length up to 32 chunks, then
//! sixteen steps an octave. Padding is less than a sixteenth of what is written. The code 0 is taken by the empty
//! slot, so the topmost octave has fifteen steps, and its last is twice as wide, so that it ends where an octave ends.
//!
//! Not known here: keys, buckets.
//! Limits: 2^32 - 1 chunks; a record of at most [`CHUNKS_MAX`].

use crate::index::usage::{Usage, UsageBits};
use extent::{Chunk, Chunks, Extent};

const FIRST_SHIFT: u32 = 32;
const LENGTH_SHIFT: u32 = 24;
const LENGTH_MASK: u64 = 0xff << LENGTH_SHIFT;
/// Where the remainder begins; for the table.
pub(super) const REMAINDER_SHIFT: u32 = 4;
/// The bits of a remainder.
pub(super) const REMAINDER_BITS: u32 = 20;
/// The bit that says *in the second bucket*.
pub(super) const SECOND: u64 = 1 << 3;
const WRITING: u64 = 1 << 2;
const DOUBTED: u64 = 1 << 1;
const USED: u64 = 1;

/// The table's part of a word.
pub(super) const KEY_MASK: u64 = ((1 << REMAINDER_BITS) - 1) << REMAINDER_SHIFT | SECOND;

const _: () = assert!(
    LENGTH_MASK ^ KEY_MASK ^ WRITING ^ DOUBTED ^ USED == (1 << FIRST_SHIFT) - 1,
    "the fields below the first chunk fill its lower half without overlap"
);

/// Up to here every length has a code.
const EXACT_MAX: u32 = 32;
const STEPS_AN_OCTAVE: u32 = 16;
/// The step of the lowest octave, which begins at `EXACT_MAX`.
const STEP_MIN: u32 = EXACT_MAX / STEPS_AN_OCTAVE;
const CODE_MAX: u32 = 255;

/// The longest record, in chunks.
pub(crate) const CHUNKS_MAX: u32 = 1 << 19;

/// The length each code stands for; 0 for the empty slot.
static LENGTHS: [u32; CODE_MAX as usize + 1] = lengths();

const fn lengths() -> [u32; CODE_MAX as usize + 1] {
    let mut lengths = [0; CODE_MAX as usize + 1];
    let mut code = 1;
    while code < CODE_MAX {
        lengths[code as usize] = if code <= EXACT_MAX {
            code
        } else {
            let octave = (code - EXACT_MAX - 1) / STEPS_AN_OCTAVE;
            let step = (code - EXACT_MAX - 1) % STEPS_AN_OCTAVE + 1;
            (EXACT_MAX << octave) + step * (STEP_MIN << octave)
        };
        code += 1;
    }
    lengths[CODE_MAX as usize] = CHUNKS_MAX;
    lengths
}

/// The code of the shortest encodable length that holds `chunks`.
const fn code(chunks: u32) -> Option<u32> {
    if chunks <= EXACT_MAX {
        return Some(if chunks == 0 { 1 } else { chunks });
    }
    if chunks > CHUNKS_MAX {
        return None;
    }
    let octave = (chunks - 1).ilog2() - EXACT_MAX.ilog2();
    let step = (chunks - (EXACT_MAX << octave)).div_ceil(STEP_MIN << octave);
    let code = EXACT_MAX + octave * STEPS_AN_OCTAVE + step;
    Some(if code > CODE_MAX { CODE_MAX } else { code })
}

/// The shortest encodable length that holds `chunks`: what a record is padded to. At least 1; `None` if `chunks` is
/// more than [`CHUNKS_MAX`].
pub(crate) const fn encodable_chunks(chunks: u32) -> Option<u32> {
    match code(chunks) {
        Some(code) => Some(LENGTHS[code as usize]),
        None => None,
    }
}

const GENERATION_SHIFT: u32 = 48;
const AGE_SHIFT: u32 = 1;
/// A marker's word has this below the table's part: the bit that tells it from an empty slot, and its age.
const MARKER_BIT: u64 = 1;

/// A marker, taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    pub generation: u16,
    pub list: u16,
    /// At most [`Mark::AGE_MAX`].
    pub age: u8,
}

impl Mark {
    /// The highest age; one pass more and it leaves.
    pub(crate) const AGE_MAX: u8 = 3;
}

/// A record or a marker in the index. The table's part of it (remainder, second) is 0 outside the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    /// For a record, without the bits of its usage.
    word: u64,
    /// The usage of a record; nothing for a marker.
    usage: Usage,
}

impl Entry {
    fn of(word: u64) -> Self {
        Entry {
            word,
            usage: Usage::default(),
        }
    }

    /// The entry of a record that was not read yet. The length must be encodable (asserted).
    pub(crate) fn new(extent: Extent, writing: bool) -> Self {
        let length = extent.len.0;
        let code = code(length).unwrap_or(0);
        assert!(
            length > 0 && LENGTHS[code as usize] == length,
            "a record of {length} chunks was not padded to an encodable length"
        );
        let word = u64::from(extent.first.0) << FIRST_SHIFT | u64::from(code) << LENGTH_SHIFT;
        Entry::of(word).with_writing(writing)
    }

    /// A marker.
    pub(crate) fn marker(mark: Mark) -> Self {
        debug_assert!(mark.age <= Mark::AGE_MAX);
        let word = u64::from(mark.generation) << GENERATION_SHIFT
            | u64::from(mark.list) << FIRST_SHIFT
            | u64::from(mark.age) << AGE_SHIFT;
        Entry::of(word | MARKER_BIT)
    }

    /// `None` if it is a record.
    pub(crate) fn as_marker(self) -> Option<Mark> {
        self.is_marker().then_some(Mark {
            generation: (self.word >> GENERATION_SHIFT) as u16,
            list: (self.word >> FIRST_SHIFT) as u16,
            age: (self.word >> AGE_SHIFT) as u8 & Mark::AGE_MAX,
        })
    }

    /// Is it a marker? Only a record has an extent and a usage.
    pub(crate) fn is_marker(self) -> bool {
        self.word & LENGTH_MASK == 0
    }

    /// The chunks of the record; 0 for a marker.
    pub(crate) fn chunks(self) -> u32 {
        LENGTHS[(self.word >> LENGTH_SHIFT) as u8 as usize]
    }

    /// The chunks of the record.
    pub(crate) fn extent(self) -> Extent {
        debug_assert!(!self.is_marker(), "a marker has no extent");
        // Valid: `new` takes an extent, and `is_sound` checks words from disk.
        Extent {
            first: self.first(),
            len: Chunks(self.chunks()),
        }
    }

    /// The first chunk of the record.
    pub(crate) fn first(self) -> Chunk {
        Chunk((self.word >> FIRST_SHIFT) as u32)
    }

    /// The record is in a buffer, its write has not completed.
    pub(crate) fn is_writing(self) -> bool {
        self.word & WRITING != 0
    }

    /// The same record, being written or written.
    pub(crate) fn with_writing(self, writing: bool) -> Self {
        let word = self.word & !WRITING | if writing { WRITING } else { 0 };
        Entry { word, ..self }
    }

    /// A soft purge has met the record.
    pub(crate) fn is_doubted(self) -> bool {
        self.word & DOUBTED != 0
    }

    /// The same record, met by a soft purge.
    pub(crate) fn with_doubt(self) -> Self {
        Entry {
            word: self.word | DOUBTED,
            ..self
        }
    }

    /// How the record was used.
    pub(crate) fn usage(self) -> Usage {
        self.usage
    }

    /// The same record with that usage.
    pub(crate) fn with_usage(self, usage: Usage) -> Self {
        Entry { usage, ..self }
    }

    /// The caller's part of a table's word, which must not be empty.
    pub(super) fn from_word(word: u64, bits: UsageBits) -> Self {
        debug_assert!(word != 0, "an empty slot is no entry");
        let own = word & !KEY_MASK;
        if own & LENGTH_MASK == 0 {
            return Entry::of(own);
        }
        Entry {
            word: own & !(bits.in_place() | USED),
            usage: bits.read(word),
        }
    }

    /// The table's word: this entry, and the table's part `key`. The record's place must not reach the bits of the usage.
    pub(super) fn word(self, key: u64, bits: UsageBits) -> u64 {
        debug_assert!(self.word & KEY_MASK == 0 && key & !KEY_MASK == 0);
        if self.is_marker() {
            return self.word | key;
        }
        debug_assert!(self.word & bits.in_place() == 0, "beyond the last chunk");
        self.word | key | bits.write(self.usage)
    }
}

/// Is this the word of a marker? Only records have a usage.
pub(super) fn is_marker(word: u64) -> bool {
    word & LENGTH_MASK == 0
}

/// Whether a word that came from disk is an entry: a marker, or its length decodes and its extent ends below 2^32.
pub(super) fn is_sound(word: u64, bits: UsageBits) -> bool {
    if word & LENGTH_MASK == 0 {
        return word & MARKER_BIT != 0;
    }
    let length = LENGTHS[(word >> LENGTH_SHIFT) as u8 as usize];
    let first = ((word & !bits.in_place()) >> FIRST_SHIFT) as u32;
    length <= u32::MAX - first
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: UsageBits = UsageBits::NONE;

    fn entry(first: u32, len: u32) -> Entry {
        Entry::new(Extent::new(Chunk(first), Chunks(len)), false)
    }

    #[test]
    fn lengths_rise_and_waste_less_than_a_sixteenth() {
        assert!(LENGTHS.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(LENGTHS[0], 0);
        assert_eq!(LENGTHS[33..36], [34, 36, 38]);
        assert_eq!(LENGTHS[49], 68);
        assert_eq!(encodable_chunks(0), Some(1));
        // Every length there is, against the table read from below.
        let mut next = 1;
        for chunks in 1..=CHUNKS_MAX {
            next += usize::from(LENGTHS[next] < chunks);
            let code = code(chunks).unwrap();
            assert_eq!(code as usize, next, "of {chunks} chunks");
            let padded = LENGTHS[code as usize];
            assert!((padded - chunks) * 16 < padded, "{chunks} became {padded}");
        }
        for chunks in [CHUNKS_MAX + 1, u32::MAX] {
            assert_eq!(encodable_chunks(chunks), None);
        }
    }

    #[test]
    fn every_length_comes_back() {
        for &length in &LENGTHS[1..] {
            assert_eq!(encodable_chunks(length), Some(length));
            for first in [0, 1, u32::MAX - CHUNKS_MAX] {
                let entry = entry(first, length);
                assert_eq!(entry.extent(), Extent::new(Chunk(first), Chunks(length)));
                assert_eq!(entry.first(), Chunk(first));
                assert!(is_sound(entry.word(KEY_MASK, NONE), NONE));
                assert_eq!(Entry::from_word(entry.word(KEY_MASK, NONE), NONE), entry);
            }
        }
    }

    #[test]
    fn fields_do_not_touch_each_other() {
        let plain = entry(u32::MAX - CHUNKS_MAX, CHUNKS_MAX);
        assert!(!plain.is_writing());
        assert_eq!(plain.usage(), Usage::default());
        let writing = plain.with_writing(true);
        assert!(writing.is_writing());
        assert_eq!(writing.extent(), plain.extent());
        assert_eq!(writing.with_writing(false), plain);
        let usage = Usage { hits: 1, age: 0 };
        let used = writing.with_usage(usage);
        assert_eq!((used.usage(), used.extent()), (usage, plain.extent()));
        let doubted = writing.with_doubt();
        assert!(doubted.is_doubted() && !writing.is_doubted());
        assert_eq!(doubted.with_usage(usage).usage(), usage);
        assert!(doubted.with_writing(false).is_doubted());
        assert_eq!(doubted.extent(), plain.extent());
    }

    #[test]
    fn usage_lies_where_no_place_reaches() {
        let bits = UsageBits::spare_of(1 << 29);
        let last = entry((1 << 29) - 1, 1);
        let usage = Usage { hits: 3, age: 3 };
        let word = last.with_usage(usage).with_doubt().word(KEY_MASK, bits);
        assert!(is_sound(word, bits));
        let back = Entry::from_word(word, bits);
        assert_eq!((back.usage(), back.extent()), (usage, last.extent()));
        assert!(back.is_doubted() && !back.is_writing());
        // A marker's generation lies there.
        let mark = Mark {
            generation: u16::MAX,
            list: 3,
            age: 2,
        };
        let word = Entry::marker(mark).word(KEY_MASK, bits);
        assert_eq!(Entry::from_word(word, bits).as_marker(), Some(mark));
    }

    #[test]
    fn a_marker_comes_back_and_is_no_record() {
        for (generation, list, age) in [(0, 0, 0), (u16::MAX, u16::MAX, Mark::AGE_MAX), (7, 9, 1)] {
            let mark = Mark {
                generation,
                list,
                age,
            };
            let marker = Entry::marker(mark);
            assert!(is_sound(marker.word(KEY_MASK, NONE), NONE) && marker.word(0, NONE) != 0);
            assert_eq!(
                Entry::from_word(marker.word(KEY_MASK, NONE), NONE).as_marker(),
                Some(mark)
            );
            assert_eq!(marker.chunks(), 0);
        }
        assert_eq!(entry(5, 1).as_marker(), None);
    }

    #[test]
    fn foreign_words_are_judged() {
        assert!(!is_sound(0, NONE));
        assert!(!is_sound(!(LENGTH_MASK | MARKER_BIT), NONE));
        assert!(is_sound(MARKER_BIT, NONE));
        // The last chunk may be 2^32 - 2, no higher.
        assert!(is_sound(
            0xffff_fffe << FIRST_SHIFT | 1 << LENGTH_SHIFT,
            NONE
        ));
        assert!(!is_sound(
            0xffff_ffff << FIRST_SHIFT | 1 << LENGTH_SHIFT,
            NONE
        ));
    }

    #[test]
    #[should_panic(expected = "was not padded")]
    fn a_length_between_two_codes_is_refused() {
        entry(0, 33);
    }
}
