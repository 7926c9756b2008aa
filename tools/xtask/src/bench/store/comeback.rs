//! Ends a server, starts it again on its stored data, and measures how soon it has hits.
//!
//! Measured are the time from before its process is made to the first answer that the origin did not see, and the share of hits among
//! random objects, one second after the start and again until nearly all are hits. The page cache is dropped before the
//! start, programs and libraries included, as on a machine that was just switched on.
//!
//! Every object is requested at most once after it was stored, because a miss stores it again and would spoil the next request for it.
//! So all requests come from one [`Draw`], which yields every object once, in scattered order.
//!
//! Limits: [`WATCH_MAX`] a start; [`PROBES_MAX`] single requests; [`SAMPLES_MAX`] samples. SIGKILL ends the processes, not the
//! machine: data that they had handed to the kernel is still written.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::io::stride;
use super::sheet::{Column, Figure};
use crate::block;
use crate::failure::{Result, fail};
use crate::http::{self, Client};
use crate::interrupt;
use crate::origin::{self, Origin};
use crate::rivals::{Halt, Running};

/// How long a server is watched from its start.
const WATCH_MAX: Duration = Duration::from_secs(30);
/// When the first sample is taken.
const FIRST_SAMPLE: Duration = Duration::from_secs(1);
/// When the other samples are taken, if there are still misses.
const LATER_SAMPLES: [Duration; 5] = [
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(16),
    WATCH_MAX,
];
const SAMPLES_MAX: u64 = 1 + LATER_SAMPLES.len() as u64;
/// The pause after a request that was no hit, and between two attempts to connect to a closed port.
const AFTER_MISS: Duration = Duration::from_millis(20);
const AFTER_KNOCK: Duration = Duration::from_millis(2);
const PROBES_MAX: u64 = (WATCH_MAX.as_millis() / AFTER_MISS.as_millis()) as u64;
/// How many objects are stored just before the end. A sample of the last of them is requested afterwards.
const NEWEST: u64 = 5000;
/// From this share of hits on, no further samples are taken.
const COMPLETE_PERCENT: f64 = 99.9;
const CONNECTIONS: usize = 16;

/// Objects by number, each at most once, far from one another.
#[derive(Debug)]
pub(super) struct Draw {
    next: u64,
    step: u64,
    limit: u64,
}

impl Draw {
    /// Draws from the objects below `limit`.
    pub fn new(limit: u64) -> Self {
        Self {
            next: 0,
            step: stride(limit),
            limit,
        }
    }

    /// The next `count` objects, none of them drawn before.
    pub fn take(&mut self, count: u64) -> Result<Vec<u64>> {
        if self.next + count > self.limit {
            fail!("more objects are needed to ask for each only once");
        }
        let drawn = (self.next..self.next + count)
            .map(|n| (u128::from(n) * u128::from(self.step) % u128::from(self.limit)) as u64)
            .collect();
        self.next += count;
        Ok(drawn)
    }
}

/// The most requests of one comeback, with samples of this size.
pub(super) fn questions_max(sample: u64) -> u64 {
    PROBES_MAX + SAMPLES_MAX * sample
}

/// The objects of the bench, and where they come from.
#[derive(Clone, Copy)]
pub(super) struct Asker<'a> {
    pub origin: &'a Origin,
    /// the path of an object, and the id of its body
    pub name: &'a (dyn Fn(u64) -> (String, String) + Sync),
}

impl Asker<'_> {
    /// Requests all these objects. Returns how many requests the origin did not see. A wrong answer is an error.
    pub fn hits(&self, address: SocketAddr, title: &str, ids: &[u64]) -> Result<u64> {
        let before = self.origin.served();
        http::load(
            address,
            title,
            ids.len() as u64,
            CONNECTIONS,
            |n| (self.name)(ids[n as usize]).0,
            |n, a| a.status == 200 && origin::is_body_of(&a.body, &(self.name)(ids[n as usize]).1),
        )?;
        let missed = self.origin.served() - before;
        Ok((ids.len() as u64).saturating_sub(missed))
    }

    /// Requests one object.
    fn probe(&self, client: &mut Client, id: u64) -> Probe {
        let (path, body) = (self.name)(id);
        let before = self.origin.served();
        let answer = client.get(&path);
        let good = answer.is_ok_and(|a| a.status == 200 && origin::is_body_of(&a.body, &body));
        match (good, self.origin.served() == before) {
            (true, true) => Probe::Hit,
            (true, false) => Probe::Miss,
            (false, true) => Probe::Nobody,
            (false, false) => Probe::Spoilt,
        }
    }
}

/// The outcome of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    Hit,
    Miss,
    /// no good answer, and the origin was not asked: the object is unchanged
    Nobody,
    /// no good answer, but the origin was asked: the object may be stored now
    Spoilt,
}

/// The results of a start on stored data.
#[derive(Debug)]
pub(super) struct Comeback {
    stop_s: Figure,
    first_hit_s: Figure,
    /// The hits of a sample one second after the start.
    early_percent: Figure,
    /// The hits of the last sample, and when it was taken.
    last_percent: Figure,
    last_s: Figure,
    /// The hits among the objects that were stored just before the end.
    newest_percent: Figure,
}

impl Comeback {
    /// Adds the figures to a column, in lines that begin with `how` the server was ended.
    pub fn tell(self, how: &str, column: &mut Column) {
        column.add(format!("{how}: stop, s"), 2, self.stop_s);
        column.add(
            format!("{how}: **start to first hit**, s"),
            3,
            self.first_hit_s,
        );
        column.add(format!("{how}: **hits at 1 s**, %"), 1, self.early_percent);
        column.add(
            format!("{how}: **hits at the end**, %"),
            1,
            self.last_percent,
        );
        column.add(format!("{how}: which was at, s"), 0, self.last_s);
        column.add(
            format!("{how}: hits of those stored last, %"),
            1,
            self.newest_percent,
        );
    }
}

/// Stores a few more objects, ends the server at once, starts it again, and measures its comeback with samples of this size.
pub(super) fn come_back(
    running: &mut Running,
    halt: Halt,
    asker: Asker<'_>,
    newest: Asker<'_>,
    draw: &mut Draw,
    sample: u64,
) -> Result<Comeback> {
    let ids: Vec<u64> = (0..NEWEST).collect();
    newest.hits(running.address, "storing a few more", &ids)?;
    let stopped = running.halt(halt)?;
    if !block::drop_page_cache() {
        fail!("the page cache cannot be dropped");
    }
    let begun = running.start_again()?;
    let mut watch = Watch {
        running,
        asker,
        begun,
        first_hit: None,
        answered: false,
    };
    watch.until_first_hit(FIRST_SAMPLE, draw)?;
    interrupt::pause(FIRST_SAMPLE.saturating_sub(begun.elapsed()))?;
    let early = watch.sample(draw, sample)?;
    watch.until_first_hit(WATCH_MAX, draw)?;

    let mut last = early.clone();
    let mut last_at = FIRST_SAMPLE;
    for at in LATER_SAMPLES {
        if matches!(last, Figure::Found(percent) if percent >= COMPLETE_PERCENT) {
            break;
        }
        let Some(wait) = at.checked_sub(begun.elapsed()) else {
            // The last sample is taken even if it is late.
            if at == WATCH_MAX {
                last_at = begun.elapsed();
                last = watch.sample(draw, sample)?;
            }
            continue;
        };
        interrupt::pause(wait)?;
        last_at = at;
        last = watch.sample(draw, sample)?;
    }
    let ids: Vec<u64> = (NEWEST.saturating_sub(sample)..NEWEST).collect();
    let newest_percent = watch.share(newest, &ids)?;
    Ok(Comeback {
        newest_percent,
        stop_s: Figure::Found(stopped.as_secs_f64()),
        first_hit_s: match (watch.first_hit, watch.answered) {
            (Some(after), _) => Figure::Found(after.as_secs_f64()),
            (None, true) => Figure::missing(format!("no hit within {} s", WATCH_MAX.as_secs())),
            (None, false) => Figure::missing(format!("no answer within {} s", WATCH_MAX.as_secs())),
        },
        early_percent: early,
        last_percent: last,
        last_s: Figure::Found(last_at.as_secs_f64()),
    })
}

/// A server that has just been started.
struct Watch<'a> {
    running: &'a mut Running,
    asker: Asker<'a>,
    begun: Instant,
    first_hit: Option<Duration>,
    /// with a good answer, hit or miss
    answered: bool,
}

impl Watch<'_> {
    /// Requests one object after the other, until one is a hit or `limit` is reached.
    fn until_first_hit(&mut self, limit: Duration, draw: &mut Draw) -> Result<()> {
        let mut client = Client::new(self.running.address);
        let mut id = None;
        while self.first_hit.is_none() && self.begun.elapsed() < limit {
            self.running.check_alive()?;
            let wanted = match id {
                Some(id) => id,
                None => draw.take(1)?[0],
            };
            id = None;
            let probe = self.asker.probe(&mut client, wanted);
            self.answered |= matches!(probe, Probe::Hit | Probe::Miss);
            match probe {
                Probe::Hit => self.first_hit = Some(self.begun.elapsed()),
                Probe::Miss | Probe::Spoilt => interrupt::pause(AFTER_MISS)?,
                Probe::Nobody => {
                    id = Some(wanted);
                    interrupt::pause(AFTER_KNOCK)?;
                }
            }
        }
        Ok(())
    }

    /// The share of hits among random objects, in percent.
    fn sample(&mut self, draw: &mut Draw, count: u64) -> Result<Figure> {
        if !self.answered {
            self.running.check_alive()?;
            let after = self.begun.elapsed().as_secs_f64();
            return Ok(Figure::missing(format!("no answer yet after {after:.1} s")));
        }
        let ids = draw.take(count)?;
        let share = self.share(self.asker, &ids)?;
        if matches!(share, Figure::Found(percent) if percent > 0.0) && self.first_hit.is_none() {
            self.first_hit = Some(self.begun.elapsed());
        }
        Ok(share)
    }

    /// The share of hits among these objects, in percent.
    fn share(&self, asker: Asker<'_>, ids: &[u64]) -> Result<Figure> {
        let hits = asker.hits(self.running.address, "sample", ids);
        interrupt::check()?;
        Ok(match hits {
            Ok(hits) => Figure::Found(hits as f64 * 100.0 / ids.len() as f64),
            Err(failure) => Figure::missing(failure.to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_drawn_twice() {
        let mut draw = Draw::new(1000);
        let mut all = draw.take(300).unwrap();
        assert!(all.windows(2).all(|w| w[0].abs_diff(w[1]) > 1));
        all.extend(draw.take(700).unwrap());
        all.sort_unstable();
        assert!(all.into_iter().eq(0..1000));
        assert!(draw.take(1).is_err());
    }

    #[test]
    fn what_the_origin_saw_was_no_hit() {
        let origin = Origin::start(0, 1).unwrap();
        let name = |n: u64| (origin::path(500, &format!("o{n}")), format!("o{n}"));
        let asker = Asker {
            origin: &origin,
            name: &name,
        };
        assert_eq!(asker.hits(origin.address(), "test", &[3, 1, 2]).unwrap(), 0);
        let mut client = Client::new(origin.address());
        assert_eq!(asker.probe(&mut client, 1), Probe::Miss);
        // Another origin's answers are hits, as far as this one knows.
        let other = Origin::start(0, 1).unwrap();
        assert_eq!(asker.hits(other.address(), "test", &[3, 1, 2]).unwrap(), 3);
        let wrong = |n: u64| (origin::path(500, &format!("o{n}")), "other".to_owned());
        let wrong = Asker {
            origin: &origin,
            name: &wrong,
        };
        assert_eq!(wrong.probe(&mut client, 1), Probe::Spoilt);
    }
}
