//! A stream like that of Berkeley's modem users, as far as paper 003 describes it.
//!
//! The clients are those of [`DecLike`]: they visit pages, pages of their own past and popular ones among them. The values differ,
//! and the rate swings once a day around its mean, since people who dial in from home keep hours.
//!
//! docs/lab-hints.md gives the source of each value, and says which are fitted and to what.
//!
//! Memory: that of [`DecLike`], some 80 MB for the 5.57 million requests of the paper.
//! Not known here: caches.
//! Source: paper 003, section 4 (the four counts); section 3 (25 % misses, 35 % hits, the rest not cachable).

use std::f64::consts::TAU;

use super::dec::{DecLike, Stream};
use crate::Access;

const DAY_S: f64 = 86_400.0;
/// Time of day with the highest rate; the stream begins at midnight.
const BUSIEST_S: f64 = 21.0 * 3600.0;

/// The parameters of the stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UcbLike {
    /// All parameters but the daily swing: pages, popularity, sizes, the mean rate.
    pub visits: DecLike,
    /// The rate varies by up to this share above and below its mean; from 0 to below 1.
    pub swing: f64,
}

impl UcbLike {
    /// Client requests for cachable objects.
    pub const REQUESTS: u64 = 5_570_000;
    /// The period of these requests.
    pub const DAYS: f64 = 12.67;
    /// Different objects among them.
    pub const OBJECTS: u64 = 1_680_000;
    /// Total size of these objects.
    pub const OBJECT_BYTES: u64 = 17_000_000_000;
}

impl Default for UcbLike {
    fn default() -> Self {
        UcbLike {
            visits: DecLike {
                //= paper 003 section 4   5.57 million client requests for cacheable objects over a period of 12.67 days
                requests: UcbLike::REQUESTS,
                rate: UcbLike::REQUESTS as f64 / (UcbLike::DAYS * DAY_S),
                clients: 200,
                again: 0.304,
                back_max: 1_000_000,
                popular: 0.5225,
                popular_pages: 400_000,
                popular_slope: 0.75,
                changed: 0.03,
                size_median: 3_030.0,
                size_spread: 1.2,
                large: 0.025,
                large_min: 30_000.0,
                large_max: 21_000_000.0,
                large_exponent: 1.1,
                stays: 0.7,
                new_server: 0.5,
                images_max: 4.0,
                image_shared: 0.1,
                seed: 1,
            },
            swing: 0.7,
        }
    }
}

/// The requests of a [`UcbLike`], one after the other.
#[derive(Debug)]
pub struct UcbStream {
    visits: Stream,
    swing: f64,
    /// Scales the times, so that the stream is as long as with an even rate, at whatever time of day it ends.
    stretch: f64,
}

impl UcbLike {
    /// A smaller population over the same time: this share of the requests, clients, popular pages and visits repeated. Above 0, up to 1.
    #[must_use]
    pub fn scaled(mut self, share: f64) -> UcbLike {
        let less = |n: u32| ((f64::from(n) * share) as u32).max(1);
        let visits = &mut self.visits;
        visits.requests = ((visits.requests as f64 * share) as u64).max(1);
        visits.rate *= share;
        visits.clients = less(visits.clients);
        visits.back_max = less(visits.back_max);
        visits.popular_pages = less(visits.popular_pages);
        self
    }

    /// The stream with these parameters.
    pub fn stream(self) -> UcbStream {
        let swing = self.swing.clamp(0.0, 0.99);
        let span_s = self.visits.requests as f64 / self.visits.rate;
        UcbStream {
            visits: self.visits.stream(),
            swing,
            stretch: even_s(span_s, swing) / span_s,
        }
    }
}

/// The time at which an even rate would have made as many requests as came by `at_s`: the integral of the rate over its mean.
fn even_s(at_s: f64, swing: f64) -> f64 {
    let per_s = TAU / DAY_S;
    let sines = (per_s * (at_s - BUSIEST_S)).sin() + (per_s * BUSIEST_S).sin();
    at_s + swing / per_s * sines
}

/// The inverse of [`even_s`].
fn swung_s(wanted_s: f64, swing: f64) -> f64 {
    // The integral grows, and differs from the even one by less than a day, so bisection finds it, to a tenth of a millisecond.
    let (mut low, mut high) = (wanted_s - DAY_S, wanted_s + DAY_S);
    for _ in 0..32 {
        let middle = (low + high) / 2.0;
        if even_s(middle, swing) < wanted_s {
            low = middle;
        } else {
            high = middle;
        }
    }
    high.max(0.0)
}

impl Iterator for UcbStream {
    type Item = Access;

    fn next(&mut self) -> Option<Access> {
        let access = self.visits.next()?;
        let at_s = swung_s(access.at_ms as f64 / 1000.0 * self.stretch, self.swing);
        Some(Access {
            at_ms: (at_s * 1000.0) as u64,
            ..access
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Level, LevelSettings};
    use crate::trace::Summary;

    /// A tenth of the population, whose counts are a tenth.
    fn tenth() -> UcbLike {
        UcbLike::default().scaled(0.1)
    }

    #[test]
    fn the_papers_counts_come_out() {
        let summary = Summary::of(tenth().stream());
        let near = |what: &str, found: f64, printed: f64| {
            let off = found / printed - 1.0;
            assert!(off.abs() < 0.03, "{what}: {found} for {printed}");
        };
        assert_eq!(summary.requests, UcbLike::REQUESTS / 10);
        near(
            "objects",
            summary.objects as f64,
            UcbLike::OBJECTS as f64 / 10.0,
        );
        near(
            "bytes",
            summary.object_bytes as f64,
            UcbLike::OBJECT_BYTES as f64 / 10.0,
        );
        near(
            "days",
            summary.span_ms as f64 / 1000.0 / DAY_S,
            UcbLike::DAYS,
        );
    }

    #[test]
    fn a_cache_of_the_middle_size_answers_what_the_paper_says() {
        let mut cache = Level::new(LevelSettings::lru(400_000_000));
        let (mut hits, mut requests) = (0, 0);
        for access in tenth().stream() {
            requests += 1;
            if cache.ask(access.object, access.size_bytes, &mut None) {
                hits += 1;
            } else {
                cache.insert(access.object, access.size_bytes, |_, _| ());
            }
        }
        //= paper 003 section 3   25 % misses among 60 % cachable
        let percent = 100.0 * f64::from(hits) / f64::from(requests);
        assert!((percent - 58.3).abs() < 1.5, "{percent}");
    }

    #[test]
    fn evenings_are_busier_than_mornings_and_time_does_not_step_back() {
        let mut hours = [0u32; 24];
        let mut last_ms = 0;
        for access in tenth().stream() {
            assert!(access.at_ms >= last_ms);
            last_ms = access.at_ms;
            hours[(access.at_ms / 3_600_000 % 24) as usize] += 1;
        }
        assert!(hours[20] > 4 * hours[8], "{hours:?}");
    }
}
