//! A Bloom filter: a bit array, and the positions of a number in it.
//!
//! The `k` positions of a number come from two 64-bit hashes of it by double hashing (h1 + i * h2). Each sum is mapped to the array by a
//! multiplication, so the array may have any size. With 10 bits and 7 positions for each number, 0.8 % of the absent numbers are false hits.
//!
//! The bytes of the array, and the positions of a number, are part of the digest's format: [`crate::digest`].
//!
//! Not known here: what the numbers stand for.   Limits: [`BITS_MAX`], [`FUNCTIONS_MAX`].
//! Source: Kirsch and Mitzenmacher, Less Hashing, Same Performance (2006).

/// Bits of a filter at most: 256 MiB, enough for 214 million numbers at ten bits each.
pub const BITS_MAX: u64 = 1 << 31;
/// Positions of a number at most.
pub const FUNCTIONS_MAX: u8 = 16;

/// The size of a filter, and the number of positions of each number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    bits: u32,
    functions: u8,
}

impl Shape {
    /// A filter of so many bits, rounded up to a multiple of 64, and so many positions a number. `None` if either is 0 or more than [`BITS_MAX`] or
    /// [`FUNCTIONS_MAX`].
    pub fn new(bits: u64, functions: u8) -> Option<Shape> {
        let rounded = bits.checked_next_multiple_of(64)?;
        let is_sound =
            bits > 0 && rounded <= BITS_MAX && functions > 0 && functions <= FUNCTIONS_MAX;
        is_sound.then_some(Shape {
            bits: rounded as u32,
            functions,
        })
    }

    /// A filter for so many numbers with so many bits for each. The number of positions is the one that makes false hits rarest (bits * ln 2).
    /// `None` if it would have more than [`BITS_MAX`] bits.
    pub fn for_numbers(numbers: u64, bits_per_number: u8) -> Option<Shape> {
        let bits = numbers.max(64).checked_mul(u64::from(bits_per_number))?;
        let functions = (f64::from(bits_per_number) * std::f64::consts::LN_2).round() as u8;
        Shape::new(bits, functions.clamp(1, FUNCTIONS_MAX))
    }

    /// Bits, a multiple of 64.
    pub fn bits(self) -> u32 {
        self.bits
    }

    /// Bytes of the bit array.
    pub fn bytes(self) -> usize {
        self.bits as usize / 8
    }

    /// Positions of a number.
    pub fn functions(self) -> u8 {
        self.functions
    }

    /// The positions of a number, each below [`Self::bits`]. Two of them may be the same.
    pub fn positions(self, number: u64) -> impl Iterator<Item = u32> {
        let first = mixed(number);
        // Odd, so that the sums do not repeat.
        let step = mixed(first ^ 0x9e37_79b9_7f4a_7c15) | 1;
        let bits = u64::from(self.bits);
        (0..u64::from(self.functions)).map(move |i| {
            let sum = first.wrapping_add(i.wrapping_mul(step));
            (((sum >> 32) * bits) >> 32) as u32
        })
    }
}

/// Spreads a number over all 64 bits (the finalizer of SplitMix64).
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The bits of a filter. Position `p` is bit `p % 8` (of value `1 << p % 8`) of byte `p / 8`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bits {
    shape: Shape,
    bytes: Box<[u8]>,
}

impl Bits {
    /// An empty filter.
    pub fn new(shape: Shape) -> Bits {
        Bits {
            shape,
            bytes: vec![0; shape.bytes()].into(),
        }
    }

    /// A filter with these bytes. `None` if their length does not fit the shape.
    pub fn from_bytes(shape: Shape, bytes: &[u8]) -> Option<Bits> {
        (bytes.len() == shape.bytes()).then(|| Bits {
            shape,
            bytes: bytes.into(),
        })
    }

    /// Its shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Its bytes, in the format of digests.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Inserts a number.
    pub fn insert(&mut self, number: u64) {
        for position in self.shape.positions(number) {
            self.set(position, true);
        }
    }

    /// Is the number in the filter? Absent numbers are sometimes reported as present.
    pub fn may_have(&self, number: u64) -> bool {
        self.shape
            .positions(number)
            .all(|position| self.get(position))
    }

    /// Number of bits that are set.
    pub fn ones(&self) -> u64 {
        ones(&self.bytes)
    }

    pub(crate) fn set(&mut self, position: u32, on: bool) {
        let mask = 1 << (position % 8);
        let byte = &mut self.bytes[position as usize / 8];
        match on {
            true => *byte |= mask,
            false => *byte &= !mask,
        }
    }

    pub(crate) fn get(&self, position: u32) -> bool {
        self.bytes[position as usize / 8] >> (position % 8) & 1 == 1
    }
}

/// Number of bits that are set in these bytes.
pub(crate) fn ones(bytes: &[u8]) -> u64 {
    bytes.iter().map(|byte| u64::from(byte.count_ones())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn false_hits_are_as_rare_as_the_theory_says() {
        let shape = Shape::for_numbers(10_000, 10).unwrap();
        assert_eq!(shape.functions(), 7);
        let mut bits = Bits::new(shape);
        (0..10_000).for_each(|number| bits.insert(number));
        assert!((0..10_000).all(|number| bits.may_have(number)));
        let false_hits = (10_000..110_000).filter(|&n| bits.may_have(n)).count();
        // 0.82 % in theory.
        assert!((650..1000).contains(&false_hits), "{false_hits} of 100,000");
    }

    #[test]
    fn shapes_are_bounded() {
        assert_eq!(Shape::new(0, 7), None);
        assert_eq!(Shape::new(64, 0), None);
        assert_eq!(Shape::new(64, FUNCTIONS_MAX + 1), None);
        assert_eq!(Shape::new(BITS_MAX + 1, 7), None);
        assert_eq!(Shape::new(u64::MAX, 7), None);
        assert_eq!(Shape::for_numbers(u64::MAX, 10), None);
        assert_eq!(Shape::new(65, 7).unwrap().bits(), 128);
        let largest = Shape::new(BITS_MAX, 7).unwrap();
        assert_eq!(u64::from(largest.bits()), BITS_MAX);
        assert!(
            largest
                .positions(5)
                .all(|position| position < largest.bits())
        );
    }

    /// The positions are part of the digest's format: if they changed, siblings of two versions would misread each other. The expected values come
    /// from an independent implementation.
    #[test]
    fn positions_do_not_change() {
        let shape = Shape::new(1000, 4).unwrap();
        let of = |number| shape.positions(number).collect::<Vec<_>>();
        assert_eq!(of(1), POSITIONS_OF_1);
        assert_eq!(of(u64::MAX), POSITIONS_OF_MAX);
    }
    const POSITIONS_OF_1: [u32; 4] = [580, 747, 915, 58];
    const POSITIONS_OF_MAX: [u32; 4] = [915, 691, 468, 244];
}
