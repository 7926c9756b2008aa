//! Random numbers from a seed, and the distributions of the workload.
//!
//! Every distribution is a function of one number in [0, 1), by inverse transform. The same function therefore serves a sequence of
//! draws (think times) and a property of a name (sizes), where the number is a hash.
//!
//! Not known here: what is drawn.
//! Source: SplitMix64 (Steele, Lea, Flood 2014); the normal quantile is P. J. Acklam's rational approximation, relative
//! error below 1.2e-9; zipf as Polygraph has it (spec section 2).

/// The increment of SplitMix64: 2^64 divided by the golden ratio.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A hash of a number: neighbours get unrelated values.
#[must_use]
pub const fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_add(STEP);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A hash as a number in [0, 1).
#[must_use]
#[allow(clippy::cast_precision_loss)] // 53 bits fit
pub fn unit(hash: u64) -> f64 {
    (hash >> 11) as f64 / (1_u64 << 53) as f64
}

/// A sequence of random numbers.
#[derive(Debug, Clone)]
pub struct Chance {
    state: u64,
}

impl Chance {
    /// The sequence of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: mix(seed) }
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        let drawn = mix(self.state);
        self.state = self.state.wrapping_add(STEP);
        drawn
    }

    /// The next number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        unit(self.draw())
    }

    /// The next number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "there is nothing below 0");
        self.draw() % end
    }

    /// True with this probability.
    pub fn event(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }
}

/// Exponential.
#[must_use]
pub fn exponential(mean: f64, u: f64) -> f64 {
    -mean * (1.0 - u).ln()
}

/// Uniform in [from, to).
#[must_use]
pub fn uniform(from: f64, to: f64, u: f64) -> f64 {
    from + (to - from) * u
}

/// Normal.
#[must_use]
pub fn normal(mean: f64, sdev: f64, u: f64) -> f64 {
    mean + sdev * quantile(u)
}

/// Log-normal; `mean` and `sdev` are those of the variate itself, not of its logarithm (spec section 4).
#[must_use]
pub fn lognormal(mean: f64, sdev: f64, u: f64) -> f64 {
    let variance = (1.0 + (sdev / mean).powi(2)).ln();
    normal(mean.ln() - variance / 2.0, variance.sqrt(), u).exp()
}

/// zipf(n) = floor((n+1)^u), a number from 1 to n.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 1 to n
pub fn zipf(n: u32, u: f64) -> u32 {
    ((f64::from(n) + 1.0).powf(u).floor() as u32).clamp(1, n)
}

/// The quantile of the standard normal distribution.
fn quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 6] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 5] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
        1.0,
    ];
    // Below this, and above its mirror image, the tails have formulas of their own.
    const TAIL: f64 = 0.02425;
    let p = p.clamp(1e-300, 1.0 - 1e-16);
    let tail = |p: f64| {
        let q = (-2.0 * p.ln()).sqrt();
        polynomial(&C, q) / polynomial(&D, q)
    };
    if p < TAIL {
        tail(p)
    } else if p > 1.0 - TAIL {
        -tail(1.0 - p)
    } else {
        let q = p - 0.5;
        polynomial(&A, q * q) * q / polynomial(&B, q * q)
    }
}

/// Evaluates a polynomial; the coefficient of the highest power comes first.
fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().fold(0.0, |sum, c| sum * x + c)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and standard deviation of many draws.
    fn moments(mut draw: impl FnMut(f64) -> f64) -> (f64, f64) {
        const DRAWS: u32 = 400_000;
        let mut chance = Chance::new(1);
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..DRAWS {
            let x = draw(chance.unit());
            sum += x;
            squares += x * x;
        }
        let mean = sum / f64::from(DRAWS);
        (mean, (squares / f64::from(DRAWS) - mean * mean).sqrt())
    }

    #[track_caller]
    fn near(found: f64, expected: f64, tolerance: f64) {
        assert!(
            (found - expected).abs() <= tolerance * expected.abs(),
            "{found} is not {expected} within {tolerance}"
        );
    }

    #[test]
    fn means_and_deviations_are_those_asked_for() {
        let (mean, sdev) = moments(|u| exponential(2.5, u));
        near(mean, 2.5, 0.01);
        near(sdev, 2.5, 0.01);
        let (mean, sdev) = moments(|u| normal(2.5, 1.0, u));
        near(mean, 2.5, 0.01);
        near(sdev, 1.0, 0.01);
        let (mean, sdev) = moments(|u| lognormal(300.0, 300.0, u));
        near(mean, 300.0, 0.01);
        near(sdev, 300.0, 0.03);
        let (mean, _) = moments(|u| uniform(1.0, 3.0, u));
        near(mean, 2.0, 0.01);
    }

    #[test]
    fn zipf_has_the_means_of_the_specification() {
        for (n, mean) in [(64, 14.85), (16, 5.17), (13, 4.45)] {
            near(moments(|u| f64::from(zipf(n, u))).0, mean, 0.01);
        }
    }

    #[test]
    fn the_quantile_is_the_normal_one() {
        for (p, x) in [(0.5, 0.0), (0.975, 1.959_964), (0.001, -3.090_232)] {
            assert!((quantile(p) - x).abs() < 1e-6);
        }
    }
}
