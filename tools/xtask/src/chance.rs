//! Random numbers from a seed, so that a run can be repeated.
//!
//! SplitMix64: a counter and a mixing function. [`mix`] alone also makes the bytes of bodies, where byte n must be known
//! without the bytes before it. The threads of a run interleave differently each time, so a seed repeats the URLs, the
//! bodies and the plan of kills, not the interleaving.

/// Hashes a number; neighbours get unrelated values.
pub fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A sequence of random numbers.
#[derive(Debug, Clone)]
pub struct Chance {
    state: u64,
}

impl Chance {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self { state: mix(seed) }
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.state)
    }

    /// A number below `end`, which must not be 0.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "there is nothing below 0");
        self.draw() % end
    }

    /// True with this probability in percent.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A number from 0 up to, not including, 1.
    pub fn unit(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A duration, evenly distributed between the two numbers of seconds.
    pub fn seconds(&mut self, from: f64, to: f64) -> std::time::Duration {
        std::time::Duration::from_secs_f64((from + (to - from) * self.unit()).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_numbers_stay_in_their_range() {
        let (mut a, mut b) = (Chance::new(7), Chance::new(7));
        for _ in 0..1000 {
            assert_eq!(a.draw(), b.draw());
            assert!(a.below(3) < 3);
            let unit = a.unit();
            assert!((0.0..1.0).contains(&unit));
            b = a.clone();
        }
    }
}
