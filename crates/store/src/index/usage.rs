//! The use of a record as memory keeps it: how often it was read, and how long ago.
//!
//! The usage lies in bit 0 of an entry and in those upper bits of its first chunk that no place of the store needs:
//!
//! | data area, chunks of 512 bytes | bits | hits | age |
//! |---|---|---|---|
//! | up to 256 GiB | 4 | 0 to 3 | 0 to 3, in half rounds of the hand |
//! | up to 512 GiB | 3 | 0 to 3 | 0 or 1, in rounds |
//! | up to 1 TiB | 2 | 0 or 1 | 0 or 1, in rounds |
//! | up to 2 TiB, and with any rule but reinsertion | 1 | 0 or 1 | |
//!
//! A read makes the age 0 and the hits one more; a pass of the sweep makes the age one more. Both stay at their highest value, but a pass
//! that finds the highest age takes one hit away, so that a record that is no longer asked for is forgotten, however short it is.
//!
//! Two bits of each cost at most 0.1 points of hits beside many more (docs/decisions/0101), so a byte of its own for each entry would
//! not pay.
//!
//! Not known here: where entries lie, when they grow older.

/// The most upper bits of a first chunk that usage takes.
const SPARE_MAX: u32 = 3;

/// How a record was used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Usage {
    /// Reads, up to what the bits can tell.
    pub hits: u8,
    /// Passes since the last read, or since the record was stored, up to what the bits can tell.
    pub age: u8,
}

impl Usage {
    /// The highest number of hits that is counted.
    pub(crate) const HITS_MAX: u8 = 3;
}

/// Which bits of a word hold the usage.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct UsageBits {
    /// How many of the upper bits of the first chunk.
    spare: u8,
}

impl UsageBits {
    /// One bit: whether the record was read.
    pub(crate) const NONE: UsageBits = UsageBits { spare: 0 };

    /// The bits that a store of `data_chunks` chunks has to spare.
    pub(crate) fn spare_of(data_chunks: u32) -> Self {
        // No chunk has a higher number.
        let spare = data_chunks.saturating_sub(1).leading_zeros();
        UsageBits {
            spare: spare.min(SPARE_MAX) as u8,
        }
    }

    /// The bits as a checkpoint tells them; `None` if that is impossible.
    pub(crate) fn of_foreign(spare: u32) -> Option<Self> {
        (spare <= SPARE_MAX).then_some(UsageBits { spare: spare as u8 })
    }

    /// For [`Self::of_foreign`].
    pub(crate) fn spare(self) -> u32 {
        self.spare.into()
    }

    /// The bits of a word that hold a part of the usage instead of a place.
    pub(crate) fn in_place(self) -> u64 {
        !(u64::MAX >> self.spare)
    }

    fn hits_bits(self) -> u32 {
        match self.spare {
            0 | 1 => 1,
            _ => 2,
        }
    }

    fn age_bits(self) -> u32 {
        u32::from(self.spare) + 1 - self.hits_bits()
    }

    fn hits_max(self) -> u8 {
        (1 << self.hits_bits()) - 1
    }

    fn age_max(self) -> u8 {
        (1 << self.age_bits()) - 1
    }

    /// How often entries grow older while the hand goes round once.
    pub(crate) fn passes_a_round(self) -> u32 {
        self.age_bits()
    }

    /// The usage in a word.
    pub(crate) fn read(self, word: u64) -> Usage {
        let upper = (word & self.in_place()).rotate_left(self.spare.into());
        let all = (upper << 1 | word & 1) as u8;
        Usage {
            hits: all & self.hits_max(),
            age: all >> self.hits_bits(),
        }
    }

    /// The part of a word that holds this usage, or the nearest that the bits can tell.
    pub(crate) fn write(self, usage: Usage) -> u64 {
        let hits = usage.hits.min(self.hits_max());
        let age = usage.age.min(self.age_max());
        let all = u64::from(age << self.hits_bits() | hits);
        (all >> 1).rotate_right(self.spare.into()) | all & 1
    }

    /// The word of a record, with another usage.
    fn with(self, word: u64, usage: Usage) -> u64 {
        word & !(self.in_place() | 1) | self.write(usage)
    }

    /// The word of a record that was read.
    pub(crate) fn touched(self, word: u64) -> u64 {
        let hits = (self.read(word).hits + 1).min(self.hits_max());
        self.with(word, Usage { hits, age: 0 })
    }

    /// The word of a record that a pass has met.
    pub(crate) fn older(self, word: u64) -> u64 {
        let Usage { hits, age } = self.read(word);
        let older = match age < self.age_max() {
            true => Usage { hits, age: age + 1 },
            false => Usage {
                hits: hits.saturating_sub(1),
                age,
            },
        };
        self.with(word, older)
    }

    /// Is no hit left, at the highest age?
    pub(crate) fn is_forgotten(self, usage: Usage) -> bool {
        usage.hits == 0 && usage.age >= self.age_max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> [UsageBits; 4] {
        [0, 1, 2, 3].map(|spare| UsageBits { spare })
    }

    #[test]
    fn a_store_takes_the_bits_that_no_place_needs() {
        let spare = |chunks: u64| UsageBits::spare_of(chunks as u32).spare;
        assert_eq!(
            [
                1 << 20,
                1 << 29,
                (1 << 29) + 1,
                1 << 30,
                1 << 31,
                (1 << 31) + 1,
                (1 << 32) - 1
            ]
            .map(spare),
            [3, 3, 2, 2, 1, 0, 0]
        );
    }

    #[test]
    fn usage_comes_back_and_the_rest_stays() {
        for bits in all() {
            let rest = !(bits.in_place() | 1);
            for hits in 0..=bits.hits_max() {
                for age in 0..=bits.age_max() {
                    let usage = Usage { hits, age };
                    assert_eq!(bits.write(usage) & rest, 0);
                    let word = bits.with(rest, usage);
                    assert_eq!((bits.read(word), word & rest), (usage, rest), "{bits:?}");
                }
            }
        }
        let max = all().map(|bits| (bits.hits_max(), bits.age_max(), bits.passes_a_round()));
        assert_eq!(max, [(1, 0, 0), (1, 1, 1), (3, 1, 1), (3, 3, 2)]);
    }

    #[test]
    fn reads_count_and_make_young_and_passes_make_older() {
        for bits in all() {
            let rest = !(bits.in_place() | 1);
            let (mut word, mut old) = (rest, rest);
            for n in 1..=5 {
                word = bits.touched(word);
                let hits = bits.hits_max().min(n);
                assert_eq!(bits.read(word), Usage { hits, age: 0 });
                old = bits.older(old);
                let age = bits.age_max().min(n);
                assert_eq!(bits.read(old), Usage { hits: 0, age });
            }
            assert_eq!(bits.read(bits.touched(old)), Usage { hits: 1, age: 0 });
            for _ in 0..bits.age_max() {
                word = bits.older(word);
                assert_eq!(bits.read(word).hits, bits.hits_max());
            }
            for left in (0..bits.hits_max()).rev() {
                assert!(!bits.is_forgotten(bits.read(word)));
                word = bits.older(word);
                assert_eq!(bits.read(word).hits, left, "one after the other");
            }
            assert!(bits.is_forgotten(bits.read(word)));
            assert_eq!((word & rest, old & rest), (rest, rest));
        }
    }
}
