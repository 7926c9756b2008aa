//! Random numbers from a seed: SplitMix64, small, and the same on every machine.
//!
//! Not known here: the use of the numbers. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number
//! generators", 2014.

/// A sequence of numbers that is determined by its seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed);
        // So that sequences of neighbouring seeds differ from the start.
        Self(random.number() ^ seed.rotate_left(32))
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 to `n` - 1; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.number().checked_rem(n).unwrap_or(0)
    }

    /// An index into a slice of this length.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// True once in `n` times; never if `n` is 0.
    pub fn one_in(&mut self, n: u64) -> bool {
        n > 0 && self.below(n) == 0
    }

    /// One of these values.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.index(of.len())]
    }

    /// Random bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.number() as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_stream() {
        let (mut a, mut b, mut c) = (Random::new(1), Random::new(1), Random::new(2));
        assert_eq!(a.number(), b.number());
        assert_ne!(a.number(), c.number());
        assert!((0..1000).all(|_| a.below(7) < 7));
        assert_eq!((a.below(0), a.one_in(0)), (0, false));
    }
}
