//! PolyMix as a stream of requests, without robots, servers and network.
//!
//! Objects, their sizes, the choice of objects and the methods are the benchmark's own (`polymix`). First the cache is filled, with few
//! repeats, until the working set is complete; from then on objects are repeated as often as in the phases whose figures
//! are published.
//!
//! ```text
//! Poisson --> a page or another object --> cachable, and a GET without reload? --> Access
//!               \-- a page's images, a server's think time later --/
//! ```
//!
//! A cache has no choice about the other requests: uncachable ones, POST, HEAD, and reloads, which go to the origin in any
//! case. They are counted and left out. Conditional requests are treated like others.
//!
//! We differ from the benchmark: images come one think time after their page, hit or miss; modifications have no effect, since
//! they do not change an object's size; the ramps between the phases are left out.
//!
//! Memory: 30 bytes for each object ever made.
//! Source: spec sections 2 to 6 of `polymix`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ::polymix::Mix;
use ::polymix::content::ObjectId;
use ::polymix::ideal::Ideal;
use ::polymix::phases::Sizing;
use ::polymix::popularity::Popularity;
use ::polymix::random::{Chance, exponential, normal};
use ::polymix::request::{Condition, Method, Request};

use crate::Access;
use crate::trace::names::{Names, name};

//= spec section 3   think time of the servers
const THINK_S_MEAN: f64 = 2.5;
const THINK_S_SDEV: f64 = 1.0;
//= spec section 6   recurrence and special requests while the cache is filled
const FILL_RECURRENCE: f64 = 5.0 / 55.0;
const FILL_SPECIAL: f64 = 0.10;
/// Images for each object asked for directly: 15 of 35 are pages, with 4.45 images on average.
const IMAGES_PER_DIRECT: f64 = 15.0 / 35.0 * 4.45;
//= spec section 3   500 + 0.1 x robots; a robot asks 0.4 times a second
const SERVERS_MIN: f64 = 500.0;
const SERVERS_PER_RATE: f64 = 0.1 / 0.4;

/// The parameters of the stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PolyMixLike {
    /// Which workload.
    pub mix: Mix,
    /// Seed of all random choices.
    pub seed: u64,
    /// Number of requests in the stream, including those of the fill phase.
    pub requests: u64,
    /// Requests a second at the peak; the working set grows with it.
    pub rate: f64,
    /// Shortens the test and with it the working set; 1 stands for four hours of fills.
    pub time_scale: f64,
}

impl Default for PolyMixLike {
    fn default() -> Self {
        PolyMixLike {
            mix: Mix::Three,
            seed: 1,
            requests: 2_000_000,
            rate: 100.0,
            time_scale: 0.25,
        }
    }
}

/// The requests of a [`PolyMixLike`], one after the other.
#[derive(Debug)]
pub struct PolyMixStream {
    like: PolyMixLike,
    chance: Chance,
    popularity: Popularity,
    ideal: Ideal,
    objects: Names,
    /// Images to be requested: time, order of creation, and index in `waiting`.
    images: BinaryHeap<Reverse<(u64, u64)>>,
    waiting: Vec<Option<Request>>,
    free: Vec<usize>,
    asked: u64,
    /// The time of the next direct request.
    next_us: u64,
    working_set_fills: u64,
    fills: u64,
    made: u64,
    left_out: u64,
    filled_at: Option<u64>,
}

impl PolyMixLike {
    /// Cachable misses after which the working set is complete.
    pub fn working_set_fills(&self) -> u64 {
        let sizing = Sizing {
            mix: self.mix,
            rate: self.rate,
            fill_rate: self.rate,
            cache_bytes: 0,
            time_scale: self.time_scale,
        };
        sizing.working_set_fills()
    }

    /// The stream with these parameters.
    pub fn stream(self) -> PolyMixStream {
        // A short test has fewer objects, so it needs fewer servers.
        let servers = (SERVERS_MIN + SERVERS_PER_RATE * self.rate).ceil();
        let servers = servers
            .min((self.working_set_fills() as f64 / 20.0).ceil())
            .max(1.0) as u32;
        PolyMixStream {
            like: self,
            chance: Chance::new(self.seed),
            popularity: Popularity::new(self.mix, 1, servers),
            ideal: Ideal::new(servers, self.time_scale),
            objects: Names::default(),
            images: BinaryHeap::new(),
            waiting: Vec::new(),
            free: Vec::new(),
            asked: 0,
            next_us: 0,
            working_set_fills: self.working_set_fills(),
            fills: 0,
            made: 0,
            left_out: 0,
            filled_at: None,
        }
    }
}

impl PolyMixStream {
    /// The number of requests left out so far.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The number of requests in the stream before the working set was complete.
    pub fn filled_at(&self) -> Option<u64> {
        self.filled_at
    }

    fn factors(&self) -> (f64, f64) {
        if self.popularity.frozen() {
            (1.0, 1.0)
        } else {
            (FILL_RECURRENCE, FILL_SPECIAL)
        }
    }

    /// The next direct request; schedules the requests for its images.
    fn direct(&mut self) -> Request {
        let (recurrence, special) = self.factors();
        let wanted = Popularity::recurrence(self.like.mix) * recurrence;
        let picked = self.popularity.pick(wanted, &mut self.chance);
        let request = Request::draw(self.like.mix, picked.id, special, &mut self.chance);
        let now_us = self.next_us;
        let images = if request.method == Method::Get && !request.abort {
            picked.id.images()
        } else {
            0
        };
        let think_s = normal(THINK_S_MEAN, THINK_S_SDEV, self.chance.unit()).max(0.0);
        for position in 0..images {
            let place = self.free.pop().unwrap_or_else(|| {
                self.waiting.push(None);
                self.waiting.len() - 1
            });
            self.waiting[place] = Some(request.image(position));
            let due_us = now_us + (think_s * 1e6) as u64;
            // Images due at the same time come in the order of creation.
            self.asked += 1;
            self.images
                .push(Reverse((due_us, self.asked << 24 | place as u64)));
        }
        let gap_s = exponential(
            (1.0 + IMAGES_PER_DIRECT) / self.like.rate,
            self.chance.unit(),
        );
        self.next_us += (gap_s * 1e6) as u64;
        request
    }

    fn access(&mut self, at_us: u64, request: &Request) -> Option<Access> {
        let offered = self.ideal.ask(request, at_us / 1_000_000);
        let id = request.id;
        if !id.cachable() || request.method != Method::Get {
            self.left_out += 1;
            return None;
        }
        self.fills += u64::from(!offered && request.condition != Condition::Ims304);
        if !self.popularity.frozen() && self.fills >= self.working_set_fills {
            self.popularity.freeze();
            self.filled_at = Some(self.made);
        }
        if request.condition == Condition::Reload {
            self.left_out += 1;
            return None;
        }
        let object = self.objects.number(name_of(id))?;
        Some(Access {
            at_ms: at_us / 1000,
            object,
            server: u32::from(id.server),
            size_bytes: u32::try_from(id.size()).unwrap_or(u32::MAX - 1),
        })
    }
}

fn name_of(id: ObjectId) -> u128 {
    let mut bytes = [0; 11];
    bytes[..2].copy_from_slice(&id.server.to_le_bytes());
    bytes[2] = id.kind as u8;
    bytes[3..].copy_from_slice(&id.number.to_le_bytes());
    name(&bytes)
}

impl Iterator for PolyMixStream {
    type Item = Access;

    fn next(&mut self) -> Option<Access> {
        while self.made < self.like.requests {
            let image = self.images.peek().copied();
            let (at_us, request) = match image {
                Some(Reverse((due_us, place))) if due_us <= self.next_us => {
                    self.images.pop();
                    let place = (place & ((1 << 24) - 1)) as usize;
                    self.free.push(place);
                    (due_us, self.waiting[place].take()?)
                }
                _ => (self.next_us, self.direct()),
            };
            if let Some(access) = self.access(at_us, &request) {
                self.made += 1;
                return Some(access);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Summary;

    fn like() -> PolyMixLike {
        PolyMixLike {
            requests: 300_000,
            rate: 20.0,
            ..PolyMixLike::default()
        }
    }

    #[test]
    fn equal_seeds_equal_streams() {
        let row = |seed| {
            PolyMixLike {
                seed,
                requests: 20_000,
                ..like()
            }
            .stream()
            .collect::<Vec<_>>()
        };
        assert!(row(3) == row(3) && row(3) != row(4));
        assert!(row(3).windows(2).all(|pair| pair[0].at_ms <= pair[1].at_ms));
    }

    #[test]
    fn hits_are_those_that_the_workload_offers() {
        // 55 % of all requests shall be hits, 80 % of all replies are cachable, and reloads, 5 %, are left out: 72 % of the remaining.
        let mut stream = like().stream();
        while stream.filled_at().is_none() {
            stream.next().unwrap();
        }
        let mut seen = std::collections::HashSet::new();
        let fill = stream.filled_at().unwrap();
        like().stream().take(fill as usize).for_each(|access| {
            seen.insert(access.object);
        });
        let top: Vec<Access> = stream.collect();
        let hits = top
            .iter()
            .filter(|access| !seen.insert(access.object))
            .count();
        let share = hits as f64 / top.len() as f64;
        assert!((share - 0.72).abs() < 0.03, "{share}");
    }

    #[test]
    fn sizes_and_rate_are_the_workloads() {
        let summary = Summary::of(like().stream());
        assert!(
            (9_000.0..14_000.0).contains(&summary.bytes_mean()),
            "{}",
            summary.bytes_mean()
        );
        let rate = summary.requests as f64 / summary.span_ms as f64 * 1000.0;
        // A fifth of 20 requests a second is not cachable.
        assert!((14.0..17.5).contains(&rate), "{rate}");
    }
}
