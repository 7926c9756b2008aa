//! Comparison of replacement policies, rules of admission and memory policies: document and byte hit ratio and bytes written of each
//! against the size of the disk.
//!
//! Every [`Contender`] gets the same requests at every size, through a memory and a disk ([`tiers`]). The first third fills them and is
//! not counted. A cache without limits is run for comparison: its misses are unavoidable. `belady` knows the future.
//!
//! `store` and `second-chance` are small models of the store's default, with the store's room or by bytes alone ([`ring`] says what they
//! leave out); `layouts` drives the store itself.
//!
//! | file | |
//! |---|---|
//! | `contender` | the combinations compared, and how they are written |
//! | `tiers` | a request through memory and disk; the counts |
//! | `memory`, `rule` | admission to memory and to disk |
//! | `disk`, `ring`, `sweep`, `belady` | replacement on disk; besides the policies of `cache` |
//! | `report` | tables and a page |
//!
//! Not known here: devices, time.
//! Limits: those of `requests`; besides, the tables of the caches that run at a time, up to 40 bytes for each object and cache; 4 bytes
//! a request for `belady`.

pub mod belady;
mod contender;
pub mod disk;
pub mod memory;
mod report;
pub mod ring;
pub mod rule;
pub mod sweep;
#[cfg(test)]
mod tests;
pub mod tiers;

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;

pub use contender::{Contender, DiskKind, UnknownContender};
pub(crate) use report::size_text;
pub(crate) use report::stream_name;
pub use report::{page, tables};
pub use rule::RuleKind;
pub use tiers::{Hits, Tiers};

use crate::Access;
use crate::cache::PolicyKind;
use crate::requests::Requests;
use crate::versions::Versions;
use disk::{NEVER, NextUse};

/// The first 1/`WARMING_PART` of the requests only fills the caches.
pub const WARMING_PART: usize = 3;
/// Sizes of the disk to compare at, in percent of the bytes of all different objects.
pub const SIZES_PERCENT: [f64; 4] = [1.0, 5.0, 10.0, 25.0];
/// Size of the memory, in percent of the same bytes.
pub const MEMORY_PERCENT: f64 = 1.0;

/// One contender at one size.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Point {
    /// The contender.
    pub contender: Contender,
    /// Size of the disk.
    pub bytes: u64,
    /// Its hits.
    pub hits: Hits,
}

/// All contenders at all sizes, under one stream.
#[derive(Debug, Clone, Serialize)]
pub struct Study {
    /// Name of the stream.
    pub stream: String,
    /// Its requests.
    pub requests: u64,
    /// Bytes of its different objects.
    pub object_bytes: u64,
    /// Bytes of the memory in front of each disk.
    pub memory_bytes: u64,
    /// The rule for new versions.
    pub versions: Versions,
    /// A cache without limits.
    pub boundless: Hits,
    /// Ordered by contender, then by size.
    pub points: Vec<Point>,
}

/// The settings of a study.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Name of the stream.
    pub stream: String,
    /// The rule for new versions.
    pub versions: Versions,
    /// The contenders.
    pub contenders: Vec<Contender>,
    /// Sizes of the disk.
    pub sizes: Vec<u64>,
    /// Size of the memory; 0: none.
    pub memory_bytes: u64,
    /// Runs at a time.
    pub threads: usize,
}

/// Sends all requests through memory and disk; the first third is not counted. `next_uses`: from [`tiers::next_uses`], or empty.
///
/// # Errors
/// The file of the requests cannot be read.
pub fn hits(
    tiers: &mut Tiers,
    accesses: &Requests<Access>,
    next_uses: &[NextUse],
) -> io::Result<Hits> {
    let warm = accesses.len() / WARMING_PART;
    let mut hits = Hits::default();
    for (at, access) in accesses.iter().enumerate() {
        if at == warm {
            hits = Hits::default();
        }
        let next = next_uses.get(at).copied().unwrap_or(NEVER);
        tiers.get(&access?, next, &mut hits);
    }
    Ok(hits)
}

/// The hits of a cache without limits.
fn boundless(accesses: &Requests<Access>) -> io::Result<Hits> {
    let contender = Contender {
        disk: DiskKind::Ordered(PolicyKind::LRU),
        rule: RuleKind::ALL,
        memory: PolicyKind::LRU,
    };
    hits(&mut Tiers::new(&contender, 0, u64::MAX / 2), accesses, &[])
}

impl Study {
    /// Runs every contender at every size; `step` is called after each.
    ///
    /// # Errors
    /// The file of the requests cannot be read.
    pub fn run(
        plan: Plan,
        accesses: &Requests<Access>,
        step: impl Fn() + Sync,
    ) -> io::Result<Study> {
        let jobs: Vec<(Contender, u64)> = plan
            .contenders
            .iter()
            .flat_map(|&contender| plan.sizes.iter().map(move |&bytes| (contender, bytes)))
            .collect();
        let asks_the_future = jobs.iter().any(|(it, _)| it.disk == DiskKind::Belady);
        let next_uses = match asks_the_future {
            true => tiers::next_uses(accesses)?,
            false => Vec::new(),
        };
        let next = AtomicUsize::new(0);
        let points = Mutex::new(vec![None; jobs.len()]);
        let work = || -> io::Result<()> {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(&(contender, bytes)) = jobs.get(at) else {
                    return Ok(());
                };
                let mut tiers = Tiers::new(&contender, plan.memory_bytes, bytes);
                let point = Point {
                    contender,
                    bytes,
                    hits: hits(&mut tiers, accesses, &next_uses)?,
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
            let threads = 0..plan.threads.clamp(1, jobs.len().max(1));
            let threads: Vec<_> = threads.map(|_| scope.spawn(work)).collect();
            let mut ended = threads.into_iter();
            ended.try_for_each(|thread| thread.join().expect("a thread panicked"))
        })?;
        let points = points.into_inner().expect("all threads have ended well");
        Ok(Study {
            stream: plan.stream,
            requests: accesses.len() as u64,
            object_bytes: Objects::of(accesses)?.bytes,
            memory_bytes: plan.memory_bytes,
            versions: plan.versions,
            boundless: boundless(accesses)?,
            points: points.into_iter().flatten().collect(),
        })
    }
}

/// The different objects of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Objects {
    /// The number of objects.
    pub count: u64,
    /// Bytes of all objects, each with its first size.
    pub bytes: u64,
}

impl Objects {
    /// Counts the objects.
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

    /// This percentage of their bytes.
    pub fn share(&self, percent: f64) -> u64 {
        (self.bytes as f64 * percent / 100.0) as u64
    }

    /// The usual sizes of a disk for these objects.
    pub fn usual_sizes(&self) -> Vec<u64> {
        SIZES_PERCENT.map(|percent| self.share(percent)).into()
    }
}
