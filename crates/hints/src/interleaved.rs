//! The filters of several nodes as one matrix: a look-up costs the same for any number of nodes.
//!
//! ```text
//!   position      0        1        2        3             a row for each position, a column for each node
//!              [a b c d][a b c d][a b c d][a b c d]...     rows of 1, 2, 4 ... 64 bits, packed in words of 64
//! ```
//!
//! The *and* of a name's rows is the set of nodes that may have it. Looking up, setting and clearing need no lock: each is one atomic operation
//! a word. A column is not cleared when its node leaves. It is ignored until the full copy of its next owner has overwritten it from end to
//! end, page by page.
//!
//! Not known here: which node a column belongs to; which columns count.
//! Limits: [`COLUMNS_MAX`]; [`crate::bloom::BITS_MAX`] rows, so 16 GiB with 64 columns.
//! Source: paper 003, section 5, Figure 16.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::bloom::Shape;
use crate::name::Name;

/// Columns at most.
pub const COLUMNS_MAX: u32 = 64;

/// Filters of the same shape, interleaved bit by bit; described at the head of this file.
#[derive(Debug)]
pub struct Interleaved {
    shape: Shape,
    /// The binary logarithm of the number of bits in a row.
    width_log2: u32,
    words: Box<[AtomicU64]>,
    /// The number of set bits in each column.
    marks: Box<[AtomicU64]>,
}

/// The place of a row.
#[derive(Clone, Copy)]
struct Row {
    word: usize,
    shift: u32,
}

impl Interleaved {
    /// Empty filters: at least `columns` of them (1 to [`COLUMNS_MAX`]), in rows rounded up to a power of two.
    ///
    /// # Panics
    /// If `columns` is out of range.
    pub fn new(shape: Shape, columns: u32) -> Interleaved {
        assert!((1..=COLUMNS_MAX).contains(&columns), "{columns} columns");
        let width_log2 = columns.next_power_of_two().ilog2();
        let words = (u64::from(shape.bits()) << width_log2) / 64;
        Interleaved {
            shape,
            width_log2,
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            marks: (0..1 << width_log2).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Shape of each filter.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Number of columns, a power of two.
    pub fn columns(&self) -> u32 {
        1 << self.width_log2
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + (self.words.len() + self.marks.len()) * 8
    }

    /// Number of set bits in a column. `column` must be below [`Self::columns`].
    pub fn marks(&self, column: u32) -> u64 {
        self.marks[column as usize].load(Ordering::Relaxed)
    }

    /// The columns that may have the name: bit c for column c.
    #[inline]
    pub fn look_up<N: Name>(&self, name: &N) -> u64 {
        let mut positions = name.positions(self.shape);
        let mut mask = u64::MAX;
        // No early exit: the rows are read in parallel, and a branch for each row costs more than it saves.
        for position in &mut positions {
            mask &= self.row(position);
        }
        mask & self.row_mask()
    }

    /// Sets or clears a bit. `column` must be below [`Self::columns`], `position` below [`Shape::bits`].
    pub fn set(&self, column: u32, position: u32, on: bool) {
        debug_assert!(column < self.columns(), "column {column}");
        let at = self.place(position);
        let bit = 1u64 << (at.shift + column);
        self.merge(column, at.word, bit, if on { bit } else { 0 });
    }

    /// Overwrites a part of a column with the bytes of a filter, whose number is a multiple of 8. `first` is a multiple of 64; bytes beyond the end
    /// are ignored. Position `first + p` is bit `p % 8` of byte `p / 8`.
    pub fn write(&self, column: u32, first: u32, bytes: &[u8]) {
        debug_assert!(column < self.columns(), "column {column}");
        debug_assert!(first.is_multiple_of(64) && bytes.len().is_multiple_of(8));
        let positions_a_word = 64 >> self.width_log2;
        let end = u64::from(self.shape.bits()).min(u64::from(first) + bytes.len() as u64 * 8);
        // The bits of this column in all rows of a word.
        let own = (0..positions_a_word).fold(0u64, |all, row| all | 1 << (row << self.width_log2));
        let own = own << column;
        let mut at = u64::from(first);
        while at < end {
            let mut wanted = 0u64;
            for row in 0..positions_a_word {
                let within = (at - u64::from(first)) as usize + row;
                let bit = u64::from(bytes.get(within / 8).map_or(0, |b| b >> (within % 8) & 1));
                wanted |= bit << (row << self.width_log2);
            }
            self.merge(column, self.place(at as u32).word, own, wanted << column);
            at += positions_a_word as u64;
        }
    }

    /// Clears the positions `from..to` of a column; `from` is a multiple of 64.
    pub fn clear(&self, column: u32, from: u32, to: u32) {
        const ZEROS: [u8; 4096] = [0; 4096];
        let mut at = u64::from(from);
        let end = u64::from(to.min(self.shape.bits()));
        while at < end {
            let bytes = ((end - at).div_ceil(8) as usize).min(ZEROS.len());
            self.write(column, at as u32, &ZEROS[..bytes]);
            at += bytes as u64 * 8;
        }
    }

    /// Is this bit set?
    pub fn get(&self, column: u32, position: u32) -> bool {
        self.row(position) >> column & 1 == 1
    }

    /// Sets the bits `own` of a word, all of this column, to their values in `wanted`.
    fn merge(&self, column: u32, word: usize, own: u64, wanted: u64) {
        let (word, marks) = (&self.words[word], &self.marks[column as usize]);
        let now = word.load(Ordering::Relaxed) & own;
        let (cleared, set) = (now & !wanted, wanted & !now);
        // Count by the value at the moment of the change, because several threads may set the same bit at once.
        if cleared != 0 {
            let before = word.fetch_and(!cleared, Ordering::Relaxed);
            marks.fetch_sub((before & cleared).count_ones().into(), Ordering::Relaxed);
        }
        if set != 0 {
            let before = word.fetch_or(set, Ordering::Relaxed);
            marks.fetch_add((set & !before).count_ones().into(), Ordering::Relaxed);
        }
    }

    #[inline]
    fn row(&self, position: u32) -> u64 {
        let at = self.place(position);
        self.words[at.word].load(Ordering::Relaxed) >> at.shift & self.row_mask()
    }

    #[inline]
    fn row_mask(&self) -> u64 {
        u64::MAX >> (64 - (1 << self.width_log2))
    }

    #[inline]
    fn place(&self, position: u32) -> Row {
        let bit = u64::from(position) << self.width_log2;
        Row {
            word: (bit / 64) as usize,
            shift: (bit % 64) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bloom::Bits;

    fn shape() -> Shape {
        Shape::new(10_000, 5).unwrap()
    }

    #[test]
    fn a_look_up_is_that_of_each_filter_by_itself() {
        for columns in [1, 2, 3, 5, 17, 64] {
            let all = Interleaved::new(shape(), columns);
            let mut plain = vec![Bits::new(shape()); columns as usize];
            for number in 0..1500u64 {
                let column = (number * number % u64::from(columns)) as u32;
                for position in number.positions(shape()) {
                    all.set(column, position, true);
                }
                plain[column as usize].insert(number);
            }
            for number in 0..5000u64 {
                let each = plain.iter().enumerate();
                let mask = each.fold(0, |mask, (c, bits)| {
                    mask | u64::from(bits.may_have(number)) << c
                });
                assert_eq!(all.look_up(&number), mask, "{columns} columns, {number}");
            }
        }
    }

    #[test]
    fn a_page_writes_its_column_and_no_other() {
        for columns in [1, 4, 64] {
            let all = Interleaved::new(shape(), columns);
            let last = columns - 1;
            for position in 0..shape().bits() {
                for column in 0..columns {
                    all.set(column, position, position % 3 == 0);
                }
            }
            let bytes: Vec<u8> = (0..504u32).map(|n| (n * 37) as u8).collect();
            all.write(last, 640, &bytes);
            all.clear(last, 6400, 6464);
            for position in 0..shape().bits() {
                let before = position % 3 == 0;
                let within = position.wrapping_sub(640) as usize;
                let written = bytes.get(within / 8).map(|b| b >> (within % 8) & 1 == 1);
                let expected = match position {
                    6400..6464 => false,
                    _ => written.unwrap_or(before),
                };
                assert_eq!(all.get(last, position), expected, "{position}");
                assert!(last == 0 || all.get(0, position) == before, "{position}");
            }
            for column in [0, last] {
                let set = (0..shape().bits()).filter(|&position| all.get(column, position));
                assert_eq!(all.marks(column), set.count() as u64, "column {column}");
            }
        }
    }

    #[test]
    fn a_page_that_is_too_long_ends_with_the_filter() {
        let all = Interleaved::new(Shape::new(128, 3).unwrap(), 2);
        all.write(1, 64, &[255; 4096]);
        let set = (0..128).filter(|&position| all.get(1, position)).count();
        assert_eq!(set, 64);
    }
}
