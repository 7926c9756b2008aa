//! Requests under way, the next request to begin, and the counts.
//!
//! Requests begin in the order of the row. So at most as many are under way as there are connections, and a request is overtaken only
//! by requests that began while it was under way. Two rules keep the meaning of the row:
//!
//! - A request waits while an earlier one for the same object is under way. In the original row they are seconds apart, and the second
//!   one meets a complete copy.
//! - Before the first request that counts, no request is under way ([`Bench::begin`] waits).
//!
//! Invariants:
//!   B1  each request that ended is counted once, in its part of the row
//!   B2  a request to the origin counts for the request under way with the same name; if there is none, it counts as unasked

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::name::Ask;
use crate::proc_io::DeviceBytes;

/// Examples of faults that are kept for the report.
pub(crate) const EXAMPLES_MAX: usize = 5;
/// Interval at which waiting threads check whether they should stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Counts of a part of the row.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests.
    pub requests: u64,
    /// Bytes of the requested objects.
    pub bytes: u64,
    /// Correct answers without a request to the origin.
    pub hits: u64,
    /// Bytes of those.
    pub hit_bytes: u64,
    /// Correct answers from a copy that the origin only confirmed.
    pub confirmed: u64,
    /// Bytes of those.
    pub confirmed_bytes: u64,
    /// Correct answers with bytes from the origin.
    pub misses: u64,
    /// Bytes of those.
    pub missed_bytes: u64,
    /// Requests without an answer, with an incomplete one, or with a status other than 200.
    pub failed: u64,
    /// Failed requests by reason.
    pub failures: BTreeMap<String, u64>,
    /// Answers whose bytes are not the origin's for this name.
    pub wrong: u64,
    /// Requests sent again, because the proxy had closed an idle connection.
    pub sent_again: u64,
    /// Requests to the origin.
    pub origin: OriginCounts,
    /// Bytes that the proxy's processes read from and wrote to devices, if the processes are known.
    pub device: Option<DeviceBytes>,
    /// Duration.
    pub seconds: f64,
}

/// Counts of requests to the origin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OriginCounts {
    /// GET requests for objects.
    pub requests: u64,
    /// Bytes of bodies sent.
    pub bytes: u64,
    /// Those with a condition that held: answered 304.
    pub not_modified: u64,
    /// Those for a range: answered 206.
    pub parts: u64,
    /// Those for which no request was under way.
    pub unasked: u64,
    /// Requests with another method or for no object: probes by the proxy.
    pub others: u64,
    /// Connections refused because there were too many.
    pub refused: u64,
}

/// How a request ended.
#[derive(Debug)]
pub(crate) enum Ended {
    Well,
    Failed(String),
    Wrong(String),
    /// The replay was stopped.
    Stopped,
}

/// How the origin answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answered {
    Whole,
    Part,
    NotModified,
}

/// A request under way.
#[derive(Debug)]
struct Out {
    /// Its position in the row.
    place: u64,
    ask: Ask,
    /// The origin was asked for bytes of the object.
    fetched: bool,
    /// The origin confirmed a copy.
    confirmed: bool,
}

/// A request to play.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    pub place: u64,
    pub ask: Ask,
}

struct Inner<R> {
    row: R,
    /// Requests begun so far.
    given: u64,
    /// Number of requests in the part that only fills the cache.
    warm: u64,
    is_warm: bool,
    out: Vec<Out>,
    counts: Counts,
    warming: Counts,
    begun: Instant,
    device: Option<DeviceBytes>,
    failed_in_row: u32,
    examples: Vec<String>,
    /// Set if no more requests may begin, with the reason.
    stopped: Option<Stop>,
}

/// Why the replay ended before the end of the row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    Asked,
    Unreadable(String),
    Failing,
    Device(String),
}

/// State shared by connections and origin.
pub(crate) struct Bench<R> {
    inner: Mutex<Inner<R>>,
    changed: Condvar,
    failed_in_row_max: u32,
    look: Box<dyn Fn() -> Result<Option<DeviceBytes>, String> + Send + Sync>,
}

/// The results of a replay.
pub(crate) struct Finished {
    pub warming: Counts,
    pub counted: Counts,
    pub examples: Vec<String>,
    pub stopped: Option<Stop>,
}

/// Hears from the origin what it was asked.
pub(crate) trait Watcher: Send + Sync {
    /// The origin was asked for this object, and is about to answer with `bytes` bytes.
    fn asked(&self, ask: &Ask, answered: Answered, bytes: u64);
    /// `bytes` bytes of an announced answer were not sent.
    fn unsent(&self, bytes: u64);
    /// The origin was asked for something else.
    fn other(&self);
    /// The origin refused a connection.
    fn refused(&self);
}

impl<R: Iterator<Item = Result<Ask, String>> + Send> Bench<R> {
    /// The first `warm` requests of the row only fill the cache. `look` reads the proxy's device counters.
    pub fn new(
        row: R,
        warm: u64,
        failed_in_row_max: u32,
        look: Box<dyn Fn() -> Result<Option<DeviceBytes>, String> + Send + Sync>,
    ) -> Result<Self, String> {
        let device = look()?;
        Ok(Self {
            inner: Mutex::new(Inner {
                row,
                given: 0,
                warm,
                is_warm: false,
                out: Vec::new(),
                counts: Counts::default(),
                warming: Counts::default(),
                begun: Instant::now(),
                device,
                failed_in_row: 0,
                examples: Vec::new(),
                stopped: None,
            }),
            changed: Condvar::new(),
            failed_in_row_max,
            look,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner<R>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next request, once it may begin; none if the row is at its end or the replay is stopped.
    pub fn begin(&self, wants_to_stop: &dyn Fn() -> bool) -> Option<Turn> {
        let mut inner = self.lock();
        while !inner.is_warm && inner.given == inner.warm && inner.stopped.is_none() {
            if inner.out.is_empty() {
                self.turn_over(&mut inner);
                self.changed.notify_all();
            } else {
                inner = self.wait(inner, wants_to_stop);
            }
        }
        if inner.stopped.is_some() {
            return None;
        }
        let ask = match inner.row.next()? {
            Ok(ask) => ask,
            Err(why) => {
                inner.stopped = Some(Stop::Unreadable(why));
                return None;
            }
        };
        let place = inner.given;
        inner.given += 1;
        inner.out.push(Out {
            place,
            ask,
            fetched: false,
            confirmed: false,
        });
        let is_behind = |inner: &Inner<R>| {
            let mut others = inner.out.iter();
            others.any(|it| it.place < place && it.ask.object == ask.object)
        };
        while is_behind(&inner) && inner.stopped.is_none() {
            inner = self.wait(inner, wants_to_stop);
        }
        if inner.stopped.is_some() {
            inner.out.retain(|it| it.place != place);
            self.changed.notify_all();
            return None;
        }
        Some(Turn { place, ask })
    }

    fn wait<'a>(
        &self,
        inner: MutexGuard<'a, Inner<R>>,
        wants_to_stop: &dyn Fn() -> bool,
    ) -> MutexGuard<'a, Inner<R>> {
        let waited = self.changed.wait_timeout(inner, LOOK_EVERY);
        let mut inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        if wants_to_stop() {
            inner.stopped.get_or_insert(Stop::Asked);
        }
        inner
    }

    /// The cache is filled: the part that counts begins.
    fn turn_over(&self, inner: &mut Inner<R>) {
        inner.is_warm = true;
        self.close_part(inner);
        inner.warming = std::mem::take(&mut inner.counts);
        inner.begun = Instant::now();
    }

    /// Records the duration and device bytes of the part that ends here.
    fn close_part(&self, inner: &mut Inner<R>) {
        inner.counts.seconds = inner.begun.elapsed().as_secs_f64();
        match (self.look)() {
            Ok(now) => {
                inner.counts.device = now.zip(inner.device).map(|(now, then)| now.since(&then));
                inner.device = now;
            }
            Err(why) => {
                inner.stopped.get_or_insert(Stop::Device(why));
            }
        }
    }

    /// Ends a request that was sent `sent` times.
    pub fn end(&self, turn: Turn, ended: Ended, sent: u32) {
        let mut inner = self.lock();
        let Some(at) = inner.out.iter().position(|it| it.place == turn.place) else {
            unreachable!("a request ends once (B1)");
        };
        let out = inner.out.swap_remove(at);
        let size = u64::from(turn.ask.size_bytes);
        let counts = &mut inner.counts;
        if !matches!(ended, Ended::Stopped) {
            counts.requests += 1;
            counts.bytes += size;
            counts.sent_again += u64::from(sent.saturating_sub(1));
        }
        let mut example = None;
        match ended {
            Ended::Well => {
                let (number, bytes) = match (out.fetched, out.confirmed) {
                    (true, _) => (&mut counts.misses, &mut counts.missed_bytes),
                    (false, true) => (&mut counts.confirmed, &mut counts.confirmed_bytes),
                    (false, false) => (&mut counts.hits, &mut counts.hit_bytes),
                };
                *number += 1;
                *bytes += size;
                inner.failed_in_row = 0;
            }
            Ended::Failed(why) => {
                counts.failed += 1;
                example = Some(format!("failed: {}: {why}", turn.ask.path("…")));
                *counts.failures.entry(why).or_default() += 1;
                inner.failed_in_row += 1;
                if inner.failed_in_row >= self.failed_in_row_max {
                    inner.stopped.get_or_insert(Stop::Failing);
                }
            }
            Ended::Wrong(why) => {
                counts.wrong += 1;
                example = Some(format!("WRONG: {}: {why}", turn.ask.path("…")));
            }
            Ended::Stopped => {
                inner.stopped.get_or_insert(Stop::Asked);
            }
        }
        if let Some(example) = example.filter(|_| inner.examples.len() < EXAMPLES_MAX) {
            inner.examples.push(example);
        }
        drop(inner);
        self.changed.notify_all();
    }

    /// Requests begun so far.
    pub fn given(&self) -> u64 {
        self.lock().given
    }

    /// Returns the results, once all connections have ended.
    pub fn finish(&self) -> Finished {
        let mut inner = self.lock();
        self.close_part(&mut inner);
        let counts = std::mem::take(&mut inner.counts);
        let (warming, counted) = match inner.is_warm {
            true => (std::mem::take(&mut inner.warming), counts),
            false => (counts, Counts::default()),
        };
        Finished {
            warming,
            counted,
            examples: std::mem::take(&mut inner.examples),
            stopped: inner.stopped.take(),
        }
    }
}

impl<R: Iterator<Item = Result<Ask, String>> + Send> Watcher for Bench<R> {
    fn asked(&self, ask: &Ask, answered: Answered, bytes: u64) {
        let mut inner = self.lock();
        let out = inner.out.iter_mut().filter(|it| it.ask == *ask);
        let is_asked = match out.min_by_key(|it| it.place) {
            Some(out) => {
                match answered {
                    Answered::Whole | Answered::Part => out.fetched = true,
                    Answered::NotModified => out.confirmed = true,
                }
                true
            }
            None => false,
        };
        let origin = &mut inner.counts.origin;
        origin.requests += 1;
        origin.bytes += bytes;
        origin.unasked += u64::from(!is_asked);
        match answered {
            Answered::Whole => {}
            Answered::Part => origin.parts += 1,
            Answered::NotModified => origin.not_modified += 1,
        }
    }

    fn unsent(&self, bytes: u64) {
        let origin = &mut self.lock().counts.origin;
        // The answer may have begun in the previous part.
        origin.bytes = origin.bytes.saturating_sub(bytes);
    }

    fn other(&self) {
        self.lock().counts.origin.others += 1;
    }

    fn refused(&self) {
        self.lock().counts.origin.refused += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(object: u32) -> Ask {
        Ask {
            object,
            server: 0,
            version: 0,
            size_bytes: 100 + object,
        }
    }

    fn bench(
        objects: &[u32],
        warm: u64,
    ) -> Bench<impl Iterator<Item = Result<Ask, String>> + Send> {
        let row: Vec<_> = objects.iter().map(|&object| Ok(ask(object))).collect();
        Bench::new(row.into_iter(), warm, 3, Box::new(|| Ok(None))).unwrap()
    }

    const GO_ON: &dyn Fn() -> bool = &|| false;

    #[test]
    fn a_hit_is_what_the_origin_did_not_see() {
        let bench = bench(&[1, 2, 3, 4], 0);
        for (object, answered) in [
            (1, Some(Answered::Whole)),
            (2, Some(Answered::Part)),
            (3, Some(Answered::NotModified)),
            (4, None),
        ] {
            let turn = bench.begin(GO_ON).unwrap();
            assert_eq!(turn.ask, ask(object));
            if let Some(answered) = answered {
                bench.asked(&turn.ask, answered, 10);
            }
            bench.end(turn, Ended::Well, 1);
        }
        // The origin is asked again after the request has ended.
        bench.asked(&ask(1), Answered::Whole, 10);
        bench.unsent(5);
        assert!(bench.begin(GO_ON).is_none());
        let counted = bench.finish().counted;
        assert_eq!((counted.requests, counted.bytes), (4, 410));
        assert_eq!((counted.misses, counted.missed_bytes), (2, 203));
        assert_eq!((counted.confirmed, counted.confirmed_bytes), (1, 103));
        assert_eq!((counted.hits, counted.hit_bytes), (1, 104));
        assert_eq!((counted.origin.requests, counted.origin.bytes), (4, 35));
        assert_eq!((counted.origin.unasked, counted.origin.parts), (1, 1));
        assert_eq!(counted.origin.not_modified, 1);
    }

    #[test]
    fn the_filling_part_ends_when_nothing_of_it_is_out() {
        let bench = bench(&[1, 2, 3], 2);
        let first = bench.begin(GO_ON).unwrap();
        let second = bench.begin(GO_ON).unwrap();
        std::thread::scope(|scope| {
            let third = scope.spawn(|| bench.begin(GO_ON).unwrap());
            bench.end(second, Ended::Well, 1);
            std::thread::sleep(Duration::from_millis(20));
            assert!(!third.is_finished());
            bench.end(first, Ended::Failed("status 500".into()), 1);
            bench.end(third.join().unwrap(), Ended::Well, 2);
        });
        let finished = bench.finish();
        assert_eq!((finished.warming.requests, finished.warming.failed), (2, 1));
        assert_eq!((finished.counted.requests, finished.counted.hits), (1, 1));
        assert_eq!(finished.counted.sent_again, 1);
    }

    #[test]
    fn the_same_object_is_out_once() {
        let bench = bench(&[1, 1, 2, 1], 0);
        let first = bench.begin(GO_ON).unwrap();
        std::thread::scope(|scope| {
            let again = scope.spawn(|| bench.begin(GO_ON).unwrap());
            while bench.given() < 2 {
                std::thread::yield_now();
            }
            let other = bench.begin(GO_ON).unwrap();
            assert_eq!((other.place, other.ask.object), (2, 2));
            assert!(!again.is_finished());
            bench.asked(&ask(1), Answered::Whole, 10);
            bench.end(first, Ended::Well, 1);
            let again = again.join().unwrap();
            assert_eq!(again.place, 1);
            bench.end(again, Ended::Well, 1);
            bench.end(other, Ended::Well, 1);
        });
        let counted = bench.finish().counted;
        assert_eq!((counted.misses, counted.hits), (1, 2));
    }

    #[test]
    fn who_only_fails_is_given_up() {
        let bench = bench(&[1, 2, 3, 4, 5, 6, 7], 0);
        let fail = || {
            let turn = bench.begin(GO_ON).unwrap();
            bench.end(turn, Ended::Failed("status 502".into()), 1);
        };
        fail();
        fail();
        let turn = bench.begin(GO_ON).unwrap();
        bench.end(turn, Ended::Well, 1);
        fail();
        fail();
        fail();
        assert!(bench.begin(GO_ON).is_none());
        let finished = bench.finish();
        assert_eq!(finished.stopped, Some(Stop::Failing));
        assert_eq!(finished.counted.failures["status 502"], 5);
        assert!(finished.examples[0].contains("/s0/o1.0/101: status 502"));
    }
}
