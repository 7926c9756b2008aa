//! Which replacement policy, which rule of admission: document and byte hit ratio of each against the size of the cache.
//!
//! Every [`Contender`] gets the same requests at every size. The first quarter fills the caches and is not counted. Beside the
//! contenders stands a cache without limits: no cache can hit what that one misses.
//!
//! The production store's own `second-chance` is not among them: it decides by where things lie, so it takes a whole store to
//! measure it (`layouts`).
//!
//! Not known here: disks, memory tiers.
//! Limits: those of `requests`; besides, the tables of the caches that run at a time, up to 40 bytes for each object and cache.

mod report;

use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use replacement::{AdmissionKind, PolicyKind as Offered};
use serde::{Serialize, Serializer};

pub(crate) use report::size_text;
pub(crate) use report::stream_name;
pub use report::{page, tables};

use crate::Access;
use crate::cache::{Level, LevelSettings, PolicyKind};
use crate::requests::Requests;

/// Of the requests, those that only fill the cache.
pub const WARMING_PERCENT: usize = 25;
/// Sizes to compare at, in percent of the bytes of all different objects.
pub const SIZES_PERCENT: [f64; 7] = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0];
/// `lru-threshold`, unless a size is given.
const LRU_THRESHOLD: PolicyKind = PolicyKind::Offered(Offered::LruThreshold { size_max: 64 << 10 });

/// A replacement policy with a rule of admission. Written as `lru` or `lru+second-hit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contender {
    /// The replacement policy.
    pub policy: PolicyKind,
    /// The rule of admission.
    pub admission: AdmissionKind,
}

impl Contender {
    /// All policies, and the rules of admission with two of them.
    pub fn all() -> Vec<Contender> {
        let of = |policy, admission| Contender { policy, admission };
        let policies = [
            PolicyKind::LRU,
            LRU_THRESHOLD,
            PolicyKind::S3Fifo,
            PolicyKind::Sieve,
            PolicyKind::WTinyLfu,
            PolicyKind::Offered(Offered::Gdsf),
        ];
        let mut all: Vec<_> = policies.map(|policy| of(policy, AdmissionKind::All)).into();
        for policy in [PolicyKind::LRU, PolicyKind::Offered(Offered::Gdsf)] {
            for admission in [AdmissionKind::SecondHit, AdmissionKind::TinyLfu] {
                all.push(of(policy, admission));
            }
        }
        all
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.admission {
            AdmissionKind::All => write!(f, "{}", self.policy),
            admission => write!(f, "{}+{admission}", self.policy),
        }
    }
}

/// The text names no contender.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is no policy: use lru, lru-threshold, lru-threshold=BYTES, s3-fifo, sieve, w-tinylfu or gdsf, with +second-hit or +tinylfu if not everything is to come in"
)]
pub struct UnknownContender(String);

impl FromStr for Contender {
    type Err = UnknownContender;

    fn from_str(text: &str) -> Result<Self, UnknownContender> {
        let unknown = || UnknownContender(text.to_owned());
        let (policy, admission) = match text.split_once('+') {
            Some((policy, admission)) => (policy, admission.parse().map_err(|_| unknown())?),
            None => (text, AdmissionKind::All),
        };
        let policy = match policy {
            "lru-threshold" => LRU_THRESHOLD,
            policy => policy.parse().map_err(|_| unknown())?,
        };
        Ok(Contender { policy, admission })
    }
}

impl Serialize for Contender {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Hits and misses of a cache, in requests and in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Hits {
    /// Requests that were counted.
    pub gets: u64,
    /// Those that were answered.
    pub hits: u64,
    /// Bytes of all answers.
    pub get_bytes: u64,
    /// Bytes of those from the cache.
    pub hit_bytes: u64,
    /// Objects taken in.
    pub inserts: u64,
    /// Bytes of those.
    pub insert_bytes: u64,
}

impl Hits {
    /// One more request; `hit`: answered, `kept`: taken in.
    pub(crate) fn count(&mut self, access: &Access, hit: bool, kept: bool) {
        let bytes = u64::from(access.size_bytes);
        self.gets += 1;
        self.get_bytes += bytes;
        self.hits += u64::from(hit);
        self.hit_bytes += u64::from(hit) * bytes;
        self.inserts += u64::from(kept);
        self.insert_bytes += u64::from(kept) * bytes;
    }

    /// Hits of a hundred requests.
    pub fn document_percent(&self) -> f64 {
        100.0 * self.hits as f64 / self.gets.max(1) as f64
    }

    /// Bytes from the cache of a hundred.
    pub fn byte_percent(&self) -> f64 {
        100.0 * self.hit_bytes as f64 / self.get_bytes.max(1) as f64
    }

    /// Bytes taken in, of a hundred answered: what a disk has to write.
    pub fn written_percent(&self) -> f64 {
        100.0 * self.insert_bytes as f64 / self.get_bytes.max(1) as f64
    }
}

/// One contender at one size.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Point {
    /// The contender.
    pub contender: Contender,
    /// With how many bytes.
    pub bytes: u64,
    /// Its hits.
    pub hits: Hits,
}

/// All contenders at all sizes, under one stream.
#[derive(Debug, Clone, Serialize)]
pub struct Study {
    /// Which stream.
    pub stream: String,
    /// Its requests.
    pub requests: u64,
    /// Bytes of its different objects.
    pub object_bytes: u64,
    /// A cache without limits.
    pub boundless: Hits,
    /// Ordered by contender, then by size.
    pub points: Vec<Point>,
}

/// One cache over all requests. The first quarter is not counted.
///
/// # Errors
/// The file of the requests cannot be read.
pub fn hits(settings: LevelSettings, accesses: &Requests<Access>) -> io::Result<Hits> {
    let warm = accesses.len() * WARMING_PERCENT / 100;
    let mut level = Level::new(settings);
    let mut hits = Hits::default();
    for (at, access) in accesses.iter().enumerate() {
        let access = access?;
        let (object, size) = (access.object, access.size_bytes);
        let hit = level.ask(object, size, &mut None);
        let kept = !hit && level.insert(object, size, |_, _| {}) == crate::cache::Insertion::Kept;
        if at >= warm {
            hits.count(&access, hit, kept);
        }
    }
    Ok(hits)
}

impl Study {
    /// Runs every contender at every size, on so many threads; `step` is called after each.
    ///
    /// # Errors
    /// The file of the requests cannot be read.
    pub fn run(
        stream: &str,
        accesses: &Requests<Access>,
        contenders: &[Contender],
        sizes: &[u64],
        threads: usize,
        step: impl Fn() + Sync,
    ) -> io::Result<Study> {
        let jobs: Vec<(Contender, u64)> = contenders
            .iter()
            .flat_map(|&contender| sizes.iter().map(move |&bytes| (contender, bytes)))
            .collect();
        let next = AtomicUsize::new(0);
        let points = Mutex::new(vec![None; jobs.len()]);
        let work = || -> io::Result<()> {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(&(contender, bytes)) = jobs.get(at) else {
                    return Ok(());
                };
                let Contender { policy, admission } = contender;
                let settings = LevelSettings {
                    bytes,
                    policy,
                    admission,
                };
                let point = Point {
                    contender,
                    bytes,
                    hits: hits(settings, accesses)?,
                };
                let mut points = points
                    .lock()
                    .expect("a thread panicked, and so will this one");
                points[at] = Some(point);
                drop(points);
                step();
            }
        };
        std::thread::scope(|scope| {
            let threads = 0..threads.clamp(1, jobs.len().max(1));
            let threads: Vec<_> = threads.map(|_| scope.spawn(work)).collect();
            let mut ended = threads.into_iter();
            ended.try_for_each(|thread| thread.join().expect("a thread panicked"))
        })?;
        let points = points.into_inner().expect("all threads have ended well");
        Ok(Study {
            stream: stream.to_owned(),
            requests: accesses.len() as u64,
            object_bytes: Objects::of(accesses)?.bytes,
            boundless: hits(LevelSettings::lru(u64::MAX / 2), accesses)?,
            points: points.into_iter().flatten().collect(),
        })
    }
}

/// The different objects of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Objects {
    /// How many.
    pub count: u64,
    /// Their bytes, each as it was first seen.
    pub bytes: u64,
}

impl Objects {
    /// Counts them.
    ///
    /// # Errors
    /// The file of the requests cannot be read.
    pub fn of(accesses: &Requests<Access>) -> io::Result<Objects> {
        let mut seen = Vec::new();
        let mut found = Objects { count: 0, bytes: 0 };
        accesses.each(|access| {
            let object = access.object as usize;
            if seen.len() <= object {
                seen.resize(object + 1, false);
            }
            if !std::mem::replace(&mut seen[object], true) {
                found.count += 1;
                found.bytes += u64::from(access.size_bytes);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// The usual sizes of a cache for them.
    pub fn usual_sizes(&self) -> Vec<u64> {
        let of_all = |percent: &f64| (self.bytes as f64 * percent / 100.0) as u64;
        SIZES_PERCENT.iter().map(of_all).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::DecLike;

    #[test]
    fn contenders_are_read_as_they_are_written() {
        for contender in Contender::all() {
            assert_eq!(contender.to_string().parse(), Ok(contender));
        }
        for text in ["", "fifo", "lru+", "lru+third-hit", "+tinylfu"] {
            assert_eq!(
                text.parse::<Contender>(),
                Err(UnknownContender(text.to_owned()))
            );
        }
    }

    #[test]
    fn the_first_quarter_is_not_counted() {
        let access = |object| Access {
            at_ms: 0,
            object,
            server: 0,
            size_bytes: 10,
        };
        let row: Vec<Access> = [1, 2, 1, 3, 1, 4, 2, 2].map(access).into();
        let found = hits(LevelSettings::lru(1000), &row.into()).unwrap();
        // After 1 and 2: 1 hits twice, 2 twice; 3 and 4 are new.
        let want = Hits {
            gets: 6,
            hits: 4,
            get_bytes: 60,
            hit_bytes: 40,
            inserts: 2,
            insert_bytes: 20,
        };
        assert_eq!(found, want);
        assert!((found.document_percent() - 66.67).abs() < 0.01);
    }

    #[test]
    fn larger_caches_hit_more_and_none_more_than_the_boundless() {
        let like = DecLike {
            requests: 60_000,
            ..DecLike::default()
        };
        let accesses: Requests<Access> = like.stream().collect::<Vec<_>>().into();
        let sizes = Objects::of(&accesses).unwrap().usual_sizes();
        let study = Study::run("dec", &accesses, &Contender::all(), &sizes, 2, || {}).unwrap();
        assert_eq!(study.points.len(), Contender::all().len() * sizes.len());
        for of_one in study.points.chunks(sizes.len()) {
            assert!(
                of_one
                    .iter()
                    .zip(&sizes)
                    .all(|(point, size)| point.bytes == *size)
            );
            let (first, last) = (of_one[0].hits, of_one[sizes.len() - 1].hits);
            assert!(
                first.hits < last.hits && last.hits <= study.boundless.hits,
                "{}",
                of_one[0].contender
            );
        }
        let text: String = tables(&study).iter().map(page::Table::text).collect();
        assert!(text.contains("w-tinylfu") && page(&[study]).html().contains("<svg"));
    }
}
