//! Our digest, which follows the stores.
//!
//! In Loligo's format there is a counting filter for each store, of the traces of its index (`store::Tracing`). One task calls [`Own::work`]
//! again and again. At first it lists the index, a few segments a call; the store records later changes in listed segments, and they are
//! collected every second. If records were lost, counters are stuck, or the store has far more entries than planned, the filter is begun
//! anew, in the last case twice as large. Until the new filter is complete the previous one is served.
//!
//! In Squid's format there is a filter of URLs that forgets (`hints::Ages`). A URL is entered when its object is stored, and whenever that is
//! read from disk. After a start the filter is empty, and learns the URLs that are requested.
//!
//! An encoded digest is reused for [`KEPT_FOR`], so that frequent requests cost nothing.
//!
//! Not known here: which siblings fetch it.
//! Limits: [`hints::digest::BITS_MAX`] bits in all filters together; [`SEGMENTS_AT_ONCE`] segments a call.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use hints::{
    Ages, Counting, Shape, Width,
    bloom::Bits,
    digest::{BITS_MAX, Digest, Filter, IndexShape},
    squid,
};
use store::{Set, Store, Traced};

use crate::digest::{COLLECTED_EVERY, Unmakable};
use base::clock::Instant;

/// Segments listed in one call: some 10,000 entries, a millisecond.
const SEGMENTS_AT_ONCE: u32 = 4;
/// Pause between two such calls.
const LISTED_EVERY: Duration = Duration::from_millis(10);
/// How long an encoded digest is reused.
pub const KEPT_FOR: Duration = Duration::from_secs(10);
/// Expected mean length of a body, to plan the number of objects.
const MEAN_OBJECT_BYTES: u64 = 13 << 10;
/// Bits for each object in Squid's format: with its four functions, one false hit in 42.
const SQUID_BITS_PER_OBJECT: u8 = 8;

/// Our digest; described at the head of this file.
pub struct Own {
    seed: u64,
    stores: Mutex<Vec<Follow>>,
    squid: Option<Squid>,
    made: Mutex<[Option<(Instant, Bytes)>; 2]>,
}

/// The filter of one store.
struct Follow {
    store: Arc<Store>,
    index: IndexShape,
    filter: Counting,
    /// Traces in the filter.
    traces: u64,
    /// Objects that the filter was sized for.
    planned: u64,
    bits_per_object: u8,
    /// The most bits that the filter may have.
    bits_max: u64,
    /// Segments listed so far, of all shards.
    listed: u32,
    /// The previous filter and its traces, served until the new filter is complete.
    before: Option<(Bits, u64)>,
    /// Buffer for collected changes.
    changes: Vec<Traced>,
    entries: Vec<u64>,
}

struct Squid {
    size: squid::Size,
    ages: Ages,
}

/// Would filters for so many objects together have more bits than a digest may?
fn is_too_large(objects: u64, bits_per_object: u8) -> bool {
    objects.saturating_mul(u64::from(bits_per_object)) > BITS_MAX
}

impl Own {
    /// The digest of these stores.
    ///
    /// # Errors
    /// It would be too large.
    pub fn new(set: &Set, plan: &plan::Digests) -> Result<Own, Unmakable> {
        let objects_of = |store: &Arc<Store>| store.geometry().data_bytes() / MEAN_OBJECT_BYTES;
        let objects: u64 = set.stores().map(objects_of).sum();
        let objects = objects.max(1);
        let bits_per_object = plan.bits_per_object;
        let too_large = || Unmakable::TooLarge {
            objects,
            bits_per_object,
        };
        if is_too_large(objects, bits_per_object) {
            return Err(too_large());
        }
        let bits_max = BITS_MAX / set.stores().len() as u64;
        let follow = |store: &Arc<Store>| {
            let planned = objects_of(store).max(64);
            let shape = Shape::for_numbers(planned, bits_per_object)?;
            let tracing = store.tracing();
            Some(Follow {
                store: Arc::clone(store),
                index: IndexShape {
                    shards: tracing.shards,
                    segments: tracing.segments,
                },
                filter: Counting::new(shape, Width::Four),
                traces: 0,
                planned,
                bits_per_object,
                bits_max,
                listed: 0,
                before: None,
                changes: Vec::new(),
                entries: Vec::new(),
            })
        };
        let stores: Option<Vec<Follow>> = set.stores().map(follow).collect();
        let bytes: u64 = set
            .stores()
            .map(|store| store.geometry().data_bytes())
            .sum();
        let squid = || {
            let size = squid::Size::new(objects, SQUID_BITS_PER_OBJECT)?;
            let ages = Ages::new(size.array_bytes(), bytes)?;
            Some(Squid { size, ages })
        };
        Ok(Own {
            seed: set.stores().next().map_or(0, |store| store.tracing().seed),
            stores: Mutex::new(stores.ok_or_else(too_large)?),
            squid: match plan.squid {
                true => Some(squid().ok_or_else(too_large)?),
                false => None,
            },
            made: Mutex::default(),
        })
    }

    fn stores(&self) -> MutexGuard<'_, Vec<Follow>> {
        self.stores.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does the next piece of work. Returns when to call again. `begun_anew` counts filters that begin anew.
    pub fn work(&self, begun_anew: &AtomicU64) -> Duration {
        let mut stores = self.stores();
        let mut is_whole = true;
        for follow in stores.iter_mut() {
            begun_anew.fetch_add(u64::from(!follow.work()), Ordering::Relaxed);
            is_whole &= follow.is_whole();
        }
        match is_whole {
            true => COLLECTED_EVERY,
            false => LISTED_EVERY,
        }
    }

    /// The digest in Loligo's format.
    pub fn encode(&self, now: Instant, unix_ms: u64) -> Bytes {
        self.kept(0, now, || {
            let stores = self.stores();
            let filters = stores.iter().map(Follow::filter).collect();
            drop(stores);
            Digest {
                seed: self.seed,
                made_ms: unix_ms,
                filters,
            }
            .encode()
        })
    }

    /// The digest in Squid's format, if that is enabled.
    pub fn encode_squid(&self, now: Instant) -> Option<Bytes> {
        let squid = self.squid.as_ref()?;
        let objects = self.stores().iter().map(|follow| follow.traces).sum();
        Some(self.kept(1, now, || {
            [&squid.size.header(objects)[..], &squid.ages.to_bytes()].concat()
        }))
    }

    /// The recent encoding, or a new one from `make`.
    fn kept(&self, which: usize, now: Instant, make: impl FnOnce() -> Vec<u8>) -> Bytes {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, bytes)) = &made[which]
            && now.duration_since(*at) < KEPT_FOR
        {
            return bytes.clone();
        }
        let bytes = Bytes::from(make());
        made[which] = Some((now, bytes.clone()));
        bytes
    }

    /// An object was stored (with its length in bytes), or read again (`None`).
    pub fn met(&self, url: &[u8], stored_bytes: Option<u64>) {
        let Some(Squid { ages, .. }) = &self.squid else {
            return;
        };
        ages.enter(squid::positions(url, u64::from(ages.bits())));
        if let Some(bytes) = stored_bytes {
            ages.stored(bytes);
        }
    }

    /// Entries in our digest, and its bytes of memory.
    pub fn size(&self) -> (u64, u64) {
        let stores = self.stores();
        let traces = stores.iter().map(|follow| follow.traces).sum();
        let filters: usize = stores.iter().map(|f| f.filter.memory_bytes()).sum();
        let squid = self.squid.as_ref().map_or(0, |s| s.ages.memory_bytes());
        (traces, (filters + squid) as u64)
    }
}

impl Follow {
    fn is_whole(&self) -> bool {
        self.listed == self.index.shards * self.index.segments
    }

    /// Does the next piece of work. False: the filter has begun anew.
    fn work(&mut self) -> bool {
        let mut are_whole = true;
        for shard in 0..self.index.shards {
            are_whole &= self.store.traced(shard, &mut self.changes);
        }
        for change in self.changes.drain(..) {
            match change {
                Traced::Came(trace) => {
                    self.filter.insert(trace);
                    self.traces += 1;
                }
                Traced::Left(trace) => {
                    self.filter.remove(trace);
                    self.traces = self.traces.saturating_sub(1);
                }
            }
        }
        self.changes.shrink_to(CHANGES_KEPT);
        let is_small = self.traces > self.planned.saturating_mul(2) && self.may_grow();
        if !are_whole || is_small || self.filter.is_worn() {
            self.begin_anew(is_small);
            return false;
        }
        for _ in 0..SEGMENTS_AT_ONCE {
            if self.is_whole() {
                self.before = None;
                break;
            }
            let (shard, segment) = (
                self.listed / self.index.segments,
                self.listed % self.index.segments,
            );
            self.store.trace_segment(shard, segment, &mut self.entries);
            self.traces += self.entries.len() as u64;
            for trace in self.entries.drain(..) {
                self.filter.insert(trace);
            }
            self.listed += 1;
        }
        true
    }

    fn may_grow(&self) -> bool {
        self.planned * 2 * u64::from(self.bits_per_object) <= self.bits_max
    }

    fn begin_anew(&mut self, larger: bool) {
        self.store.untrace();
        let mut shape = self.filter.bits().shape();
        if larger {
            self.planned *= 2;
            shape = Shape::for_numbers(self.planned, self.bits_per_object).unwrap_or(shape);
        }
        let before = std::mem::replace(&mut self.filter, Counting::new(shape, Width::Four));
        // Keep the last complete filter rather than a half-filled one.
        if self.before.is_none() {
            self.before = Some((before.bits().clone(), self.traces));
        }
        (self.traces, self.listed) = (0, 0);
    }

    fn filter(&self) -> Filter {
        let (bits, traces) = match &self.before {
            Some((bits, traces)) => (bits.clone(), *traces),
            None => (self.filter.bits().clone(), self.traces),
        };
        Filter {
            index: self.index,
            traces,
            bits,
        }
    }
}

/// Capacity for changes that is kept between collections.
const CHANGES_KEPT: usize = 1 << 14;

#[cfg(test)]
mod tests;
