//! What a disk's reads allow at most, computed before the runs.
//!
//! A hit that is not in memory costs a read. The memory cache holds the objects that were requested last. Of PolyMix's repeats, a
//! tenth goes to a hot hundredth of the working set, and the others are spread over all of it. So a memory cache answers about the
//! share of hits that it holds of the working set, and also the hot tenth once it holds the hot hundredth. The working set grows
//! with the rate, so the highest rate is searched for. If a read brings several objects (locality), more is possible.
//!
//! Not known here: measured figures.   Limits: an estimate, good to some percent; writes are not considered.
//! Source: spec section 5 (hot set), section 2 (an ideal cache has 55 % of all requests).

use polymix::phases::Sizing;
use serde::Serialize;

/// The share of all requests that an ideal cache answers.
pub const OFFERED: f64 = 0.55;
const HOT_REQUESTS: f64 = 0.10;
const HOT_OBJECTS: f64 = 0.01;
/// Mean bytes of a cachable object.
const FILL_BYTES_MEAN: f64 = 12_500.0;
const RATE_MAX: f64 = 1e6;

/// The highest rate that a number of reads a second allows.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Ceiling {
    pub reads_per_s: f64,
    pub memory_bytes: u64,
    /// at the highest rate
    pub working_set_bytes: f64,
    /// of hits, from memory
    pub memory_share: f64,
    pub hits_per_s: f64,
    pub requests_per_s: f64,
}

/// Bytes of the working set once it is frozen.
pub fn working_set_bytes(sizing: &Sizing) -> f64 {
    sizing.working_set_fills() as f64 * FILL_BYTES_MEAN
}

/// The share of all hits that a memory cache of this size answers.
fn memory_share(memory_bytes: u64, working_set_bytes: f64) -> f64 {
    let held = (memory_bytes as f64 / working_set_bytes).min(1.0);
    let hot = (held / HOT_OBJECTS).min(1.0);
    HOT_REQUESTS * hot + (1.0 - HOT_REQUESTS) * held
}

impl Ceiling {
    /// The ceiling of a disk with this many reads a second and a memory cache of this size.
    pub fn of(reads_per_s: f64, memory_bytes: u64, sizing: &Sizing) -> Self {
        let set_at = |rate: f64| working_set_bytes(&Sizing { rate, ..*sizing });
        let needs = |rate: f64| {
            let share = memory_share(memory_bytes, set_at(rate));
            rate * OFFERED * (1.0 - share)
        };
        let (mut low, mut high) = (0.0, RATE_MAX);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if needs(middle) > reads_per_s {
                high = middle;
            } else {
                low = middle;
            }
        }
        let working_set_bytes = set_at(low);
        Self {
            reads_per_s,
            memory_bytes,
            working_set_bytes,
            memory_share: memory_share(memory_bytes, working_set_bytes),
            hits_per_s: low * OFFERED,
            requests_per_s: low,
        }
    }

    /// For people.
    pub fn sentence(&self) -> String {
        format!(
            "{:.0} reads/s with {:.1} MiB of memory: {:.0} % of hits from memory (working set {:.0} MiB), {:.0} hits/s, {:.0} requests/s",
            self.reads_per_s,
            self.memory_bytes as f64 / f64::from(1 << 20),
            self.memory_share * 100.0,
            self.working_set_bytes / f64::from(1 << 20),
            self.hits_per_s,
            self.requests_per_s
        )
    }
}

#[cfg(test)]
mod tests {
    use polymix::Mix;

    use super::*;

    fn sizing() -> Sizing {
        Sizing {
            mix: Mix::Three,
            rate: 100.0,
            fill_rate: 100.0,
            cache_bytes: 1 << 30,
            time_scale: 1.0 / 100.0,
        }
    }

    #[test]
    fn without_memory_every_hit_is_a_read() {
        let ceiling = Ceiling::of(100.0, 0, &sizing());
        assert!((ceiling.hits_per_s - 100.0).abs() < 0.1, "{ceiling:?}");
        assert!((ceiling.requests_per_s - 100.0 / OFFERED).abs() < 0.1);
    }

    #[test]
    fn memory_raises_it_by_what_it_holds() {
        // A tenth of the working set: the hot tenth of requests, and a tenth of the others.
        let set = working_set_bytes(&sizing());
        assert!((memory_share((set / 10.0) as u64, set) - 0.19).abs() < 1e-6);
        assert!((memory_share(u64::MAX, set) - 1.0).abs() < 1e-9);
        let more = Ceiling::of(100.0, 4 << 20, &sizing());
        assert!(more.requests_per_s > 200.0, "{more:?}");
        assert!((more.hits_per_s * (1.0 - more.memory_share) - 100.0).abs() < 0.5);
    }
}
