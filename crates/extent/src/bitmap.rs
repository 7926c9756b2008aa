//! The bit vector: one bit a chunk, 0 = free, 1 = used. The other structures are indexes of it.
//!
//! Bits are kept in 64-bit words, and runs are set, cleared and searched a word at a time. Bits of the last word beyond the end of the space
//! are 1, so that no search for free chunks runs over the end.
//!
//! Limits: 2^32 - 1 chunks, one bit each (512 MiB).
//! Source: paper 000, section 4.1.

use crate::types::{Chunk, Chunks, Extent};

const WORD_BITS: u32 = u64::BITS;

/// Which chunks are used.
#[derive(Clone)]
pub(crate) struct Bitmap {
    words: Vec<u64>,
    total: Chunks,
}

impl Bitmap {
    /// `total` chunks, all free.
    pub(crate) fn new_all_free(total: Chunks) -> Self {
        let mut words = vec![0; total.0.div_ceil(WORD_BITS) as usize];
        let used_in_last_word = total.0 % WORD_BITS;
        if let (Some(last), true) = (words.last_mut(), used_in_last_word > 0) {
            *last = u64::MAX << used_in_last_word;
        }
        Bitmap { words, total }
    }

    pub(crate) fn total(&self) -> Chunks {
        self.total
    }

    /// Is the chunk free? `false` beyond the end.
    #[inline]
    pub(crate) fn is_free(&self, chunk: Chunk) -> bool {
        match self.words.get((chunk.0 / WORD_BITS) as usize) {
            Some(word) => word & (1 << (chunk.0 % WORD_BITS)) == 0,
            None => false,
        }
    }

    /// Is every chunk of `e` free? `e` must fit.
    pub(crate) fn all_free(&self, e: Extent) -> bool {
        masks(e).all(|(word, mask)| self.words[word] & mask == 0)
    }

    /// Is every chunk of `e` used? `e` must fit.
    pub(crate) fn all_used(&self, e: Extent) -> bool {
        masks(e).all(|(word, mask)| self.words[word] & mask == mask)
    }

    /// Marks free chunks as used. Panics if one was used already.
    pub(crate) fn mark_used(&mut self, e: Extent) {
        assert!(
            e.fits_in(self.total),
            "{e} is beyond the end, {}",
            self.total.0
        );
        for (word, mask) in masks(e) {
            assert!(self.words[word] & mask == 0, "a chunk of {e} is used twice");
            self.words[word] |= mask;
        }
    }

    /// Marks used chunks as free. Panics if one was free already.
    pub(crate) fn mark_free(&mut self, e: Extent) {
        assert!(
            e.fits_in(self.total),
            "{e} is beyond the end, {}",
            self.total.0
        );
        for (word, mask) in masks(e) {
            assert!(
                self.words[word] & mask == mask,
                "a chunk of {e} is freed twice"
            );
            self.words[word] &= !mask;
        }
    }

    /// The first free chunk of the run that ends with `chunk`, which must be free. Tests a word at a time.
    pub(crate) fn run_start(&self, chunk: Chunk) -> Chunk {
        debug_assert!(self.is_free(chunk));
        let mut word = (chunk.0 / WORD_BITS) as usize;
        // The used chunks at or below `chunk`, in its own word.
        let mut used = self.words[word] & (u64::MAX >> (WORD_BITS - 1 - chunk.0 % WORD_BITS));
        while used == 0 {
            if word == 0 {
                return Chunk(0);
            }
            word -= 1;
            used = self.words[word];
        }
        Chunk(word as u32 * WORD_BITS + (WORD_BITS - used.leading_zeros()))
    }

    /// The free runs in order of address.
    pub(crate) fn free_runs(&self) -> impl Iterator<Item = Extent> + '_ {
        let mut from = Chunk(0);
        std::iter::from_fn(move || {
            let first = self.next(from, u64::MAX);
            if first.0 >= self.total.0 {
                return None;
            }
            from = self.next(first, 0);
            Some(Extent::between(first, from))
        })
    }

    /// The first used chunk at or above `from`; the first free one if `flip` is all ones. The end of the space if there is none.
    fn next(&self, from: Chunk, flip: u64) -> Chunk {
        let mut word = (from.0 / WORD_BITS) as usize;
        let mut keep = u64::MAX << (from.0 % WORD_BITS);
        while let Some(&bits) = self.words.get(word) {
            let found = (bits ^ flip) & keep;
            if found != 0 {
                return Chunk((word as u32 * WORD_BITS + found.trailing_zeros()).min(self.total.0));
            }
            keep = u64::MAX;
            word += 1;
        }
        Chunk(self.total.0)
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}

/// The words that `e` touches, each with a mask of its bits.
#[inline]
fn masks(e: Extent) -> impl Iterator<Item = (usize, u64)> {
    let (first, last) = (e.first.0, e.last().0);
    let (first_word, last_word) = (first / WORD_BITS, last / WORD_BITS);
    (first_word..=last_word).map(move |word| {
        let mut mask = u64::MAX;
        if word == first_word {
            mask &= u64::MAX << (first % WORD_BITS);
        }
        if word == last_word {
            mask &= u64::MAX >> (WORD_BITS - 1 - last % WORD_BITS);
        }
        (word as usize, mask)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn e(first: u32, end: u32) -> Extent {
        Extent::between(Chunk(first), Chunk(end))
    }

    fn runs(bits: &Bitmap) -> Vec<Extent> {
        bits.free_runs().collect()
    }

    #[test]
    fn beyond_the_end_nothing_is_free() {
        for total in [0, 1, 63, 64, 65, 128] {
            let bits = Bitmap::new_all_free(Chunks(total));
            assert!((0..total).all(|c| bits.is_free(Chunk(c))));
            assert!((total..total + 130).all(|c| !bits.is_free(Chunk(c))));
            assert_eq!(
                runs(&bits),
                if total == 0 {
                    vec![]
                } else {
                    vec![e(0, total)]
                }
            );
        }
    }

    #[test]
    fn runs_of_every_place_and_length_are_found() {
        const TOTAL: u32 = 200;
        for first in 0..TOTAL {
            for end in first + 1..=TOTAL {
                let mut bits = Bitmap::new_all_free(Chunks(TOTAL));
                bits.mark_used(e(0, TOTAL));
                bits.mark_free(e(first, end));
                assert_eq!(runs(&bits), [e(first, end)]);
                assert_eq!(bits.run_start(Chunk(end - 1)), Chunk(first));
                assert!(bits.all_free(e(first, end)));
                assert!(first == 0 || !bits.all_free(e(first - 1, end)));
                assert!(end == TOTAL || !bits.all_free(e(first, end + 1)));
                assert!(!bits.all_used(e(first, end)));
            }
        }
    }

    #[test]
    #[should_panic(expected = "used twice")]
    fn using_twice_is_noticed() {
        let mut bits = Bitmap::new_all_free(Chunks(100));
        bits.mark_used(e(60, 70));
        bits.mark_used(e(69, 71));
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn freeing_twice_is_noticed() {
        let mut bits = Bitmap::new_all_free(Chunks(100));
        bits.mark_used(e(60, 70));
        bits.mark_free(e(60, 71));
    }
}
