//! What is kept when the cache is as large as the working set, and where the rest goes.
//!
//! PolyMix has a working set of so many bytes; once it is complete, each new object pushes an old one out of reach for good. A cache
//! of that size, or a little more, is told the same requests as
//!
//! * one *without limit*: what is offered;
//! * one that *looks ahead* (`ahead`): keeps what is wanted soonest, and does not take in what never comes back;
//! * one of each replacement policy, which holds bodies and heads and nothing else, in exactly that many bytes;
//! * a *ring* without regions or headers, by the rules that the store has and might have (`ring`);
//! * a LRU that has the *production store's room*: what its geometry leaves for data, less what it keeps empty to write into, with
//!   each object as long as its records;
//! * the *production store* itself (`layouts`).
//!
//! LRU less LRU in the store's room is what space that is no data costs; that less the store, what its order and what it
//! refuses cost.
//!
//! Counted are as many requests as one phase at full load has, after half as many behind the freeze.
//!
//! Not known here: time (nothing expires), disks, the proxy's memory.
//! Limits: the requests are in memory, 24 bytes each, and so is the store.

mod ahead;
mod report;
mod ring;

use replacement::PolicyKind;
use serde::Serialize;
use store::{Replacement, TooSmall};

use crate::Access;
use crate::cache::LevelSettings;
use crate::generate::PolyMixLike;
use crate::layouts::{Findings, Layout, Rig, run_from};
use crate::policies::{Hits, hits_from};

pub use report::tables;

/// An object's head, as the benchmark counts it for its own LRU.
const HEAD_BYTES: u32 = polymix::lru::HEAD_BYTES as u32;

/// PolyMix until the end of a phase at full load.
#[derive(Debug, Clone)]
pub struct Stream {
    /// All requests that a cache has a choice about.
    pub accesses: Vec<Access>,
    /// Those before are not counted.
    pub warm: usize,
    /// Bodies and heads of the objects that the working set had when it was complete.
    pub working_set_bytes: u64,
}

impl Stream {
    /// That of `like`, but for the number of its requests.
    pub fn new(like: PolyMixLike) -> Stream {
        let endless = PolyMixLike {
            requests: u64::MAX,
            ..like
        };
        let mut stream = endless.stream();
        let mut accesses: Vec<Access> = Vec::new();
        while stream.filled_at().is_none() {
            accesses.extend(stream.next());
        }
        let set = crate::policies::object_bytes(&accesses);
        let objects = accesses.iter().map(|access| access.object).max();
        let heads = u64::from(HEAD_BYTES) * (u64::from(objects.unwrap_or(0)) + 1);
        let fill = accesses.len();
        //= spec section 6   top1 takes as long as the fill that makes the working set: 0.3375 of its requests were fills
        let top = endless.working_set_fills() as usize * 100 / 34 * 3 / 4;
        accesses.extend(stream.by_ref().take(top + top / 2));
        Stream {
            accesses,
            warm: fill + top / 2,
            working_set_bytes: set + heads,
        }
    }
}

/// The store's rule as it was, as it is, and as it might be if what is short and was used were read before its place is cleared.
const RINGS: [(&str, ring::Rule); 3] = [
    (
        "ring, window 25 % for all",
        ring::Rule {
            window_percent: 25.0,
            by_size: false,
            spare_below: 0.0,
        },
    ),
    (
        "ring, window 20 % by size",
        ring::Rule {
            window_percent: 20.0,
            by_size: true,
            spare_below: 0.0,
        },
    ),
    (
        "ring, used ones below half the mean are spared",
        ring::Rule {
            window_percent: 0.0,
            by_size: false,
            spare_below: 0.5,
        },
    ),
];

/// A cache and what it answered, of a hundred requests.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Which.
    pub name: String,
    /// Requests, of a hundred.
    pub documents_percent: f64,
    /// Bytes, of a hundred.
    pub bytes_percent: f64,
    /// Of stores and rings: bytes written for a byte stored, with copies, and of stores with padding and notes. Of the others: bytes
    /// taken in for each byte that the cache without limit takes in.
    pub written: f64,
}

/// All at one size.
#[derive(Debug, Clone, Serialize)]
pub struct Study {
    /// Bytes of the working set.
    pub working_set_bytes: u64,
    /// Bytes of each cache.
    pub cache_bytes: u64,
    /// Of these the store has for records.
    pub data_bytes: u64,
    /// Of these it keeps empty to write into, in the middle.
    pub empty_bytes: u64,
    /// Bytes that a byte of body takes in the store: header, key, metadata, padding.
    pub space_per_body: f64,
    /// Who answered how much.
    pub rows: Vec<Row>,
}

/// Which of them run.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Windows of the store's second chances, in percent; none: the default alone.
    pub windows: Vec<u8>,
    /// Policies to be asked beside LRU.
    pub policies: Vec<PolicyKind>,
    /// Layouts of the store with these ordered policies, too.
    pub ordered: Vec<PolicyKind>,
}

impl Study {
    /// All of them with caches of `cache_bytes`.
    ///
    /// # Errors
    /// No store is that small.
    pub fn run(stream: &Stream, cache_bytes: u64, wanted: &Wanted) -> Result<Study, TooSmall> {
        let with_head = |access: &Access| access.size_bytes + HEAD_BYTES;
        let of = |policy, bytes, room: &dyn Fn(&Access) -> u32| {
            let settings = LevelSettings {
                policy,
                ..LevelSettings::lru(bytes)
            };
            hits_from(settings, &stream.accesses, stream.warm, room)
        };
        let boundless = of(PolicyKind::Lru, u64::MAX / 2, &with_head);
        let row = |name: &str, hits: &Hits| Row {
            name: name.to_owned(),
            documents_percent: hits.document_percent(),
            bytes_percent: hits.byte_percent(),
            written: hits.insert_bytes as f64 / boundless.insert_bytes.max(1) as f64,
        };
        let mut rows = vec![
            row("without limit", &boundless),
            row("looks ahead", &ahead::hits(stream, cache_bytes)),
        ];
        rows.push(row("lru", &of(PolicyKind::Lru, cache_bytes, &with_head)));
        rows.push(row("fifo", &ahead::fifo(stream, cache_bytes)));
        for (name, rule) in RINGS {
            let (hits, written) = ring::hits(stream, cache_bytes, rule);
            rows.push(Row {
                written,
                ..row(name, &hits)
            });
        }
        for &policy in &wanted.policies {
            rows.push(row(
                &policy.to_string(),
                &of(policy, cache_bytes, &with_head),
            ));
        }
        let usual = Layout::default();
        let found = store_findings(stream, cache_bytes, &usual)?;
        let space = found.space.clone();
        let stored = |access: &Access| space.of(access.size_bytes);
        let bytes = |accesses: &[Access], room: &dyn Fn(&Access) -> u32| -> f64 {
            accesses.iter().map(|access| f64::from(room(access))).sum()
        };
        let counted = &stream.accesses[stream.warm..];
        let room = space.data_bytes - found.empty_bytes_mean;
        let lru = of(PolicyKind::Lru, room, &stored);
        rows.push(row("lru in the store's room", &lru));
        rows.push(row(
            "fifo in the store's room",
            &ahead::fifo_of(stream, room, &stored),
        ));
        let mut told = |found: &Findings| {
            rows.push(Row {
                name: format!("store, {}", found.layout),
                documents_percent: found.document_percent(),
                bytes_percent: found.byte_percent(),
                written: found.written_per_stored(),
            });
        };
        told(&found);
        for &window_percent in &wanted.windows {
            told(&store_findings(
                stream,
                cache_bytes,
                &Layout {
                    replacement: Replacement::SecondChance { window_percent },
                    ..usual.clone()
                },
            )?);
        }
        for &policy in &wanted.ordered {
            told(&store_findings(
                stream,
                cache_bytes,
                &Layout {
                    replacement: Replacement::Ordered(policy),
                    ..usual.clone()
                },
            )?);
        }
        Ok(Study {
            working_set_bytes: stream.working_set_bytes,
            cache_bytes,
            data_bytes: space.data_bytes,
            empty_bytes: found.empty_bytes_mean,
            space_per_body: bytes(counted, &stored) / bytes(counted, &|a| a.size_bytes),
            rows,
        })
    }
}

fn store_findings(
    stream: &Stream,
    cache_bytes: u64,
    layout: &Layout,
) -> Result<Findings, TooSmall> {
    let rig = Rig {
        store_bytes: cache_bytes,
        // None: whatever is asked for goes to the store.
        memory_bytes: 0,
        ..Rig::default()
    };
    let accesses = stream.accesses.iter().copied();
    run_from(layout, &rig, accesses, stream.warm as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn like() -> PolyMixLike {
        PolyMixLike {
            rate: 400.0,
            time_scale: 0.0003,
            ..PolyMixLike::default()
        }
    }

    #[test]
    fn who_knows_more_or_has_more_room_has_more_hits() {
        let stream = Stream::new(like());
        let wanted = Wanted {
            windows: vec![0],
            policies: vec![PolicyKind::Gdsf],
            ordered: vec![PolicyKind::Lru],
        };
        let study = Study::run(&stream, stream.working_set_bytes, &wanted).unwrap();
        let of = |name: &str| {
            let row = study.rows.iter().find(|row| row.name == name);
            row.unwrap_or_else(|| panic!("{name} is not in {:?}", study.rows))
                .documents_percent
        };
        let (offered, lru) = (of("without limit"), of("lru"));
        assert!(offered >= of("looks ahead") && of("looks ahead") > lru + 5.0);
        assert!(of("gdsf") > lru);
        assert!(lru > of("lru in the store's room"));
        assert!(of("lru in the store's room") > of("store, second-chance=0"));
        assert!(of("store, default") > 0.5 * lru);
        assert!(study.data_bytes < study.cache_bytes && study.empty_bytes < study.data_bytes / 8);
        assert!((1.02..1.3).contains(&study.space_per_body), "{study:?}");
        let tables = tables(&[study]);
        assert!(tables[0].text().contains("looks ahead"));
    }

    #[test]
    fn the_working_set_is_what_was_there_at_the_freeze() {
        let stream = Stream::new(like());
        let fills = like().working_set_fills();
        // Mean objects have some 12 KB.
        let mean = stream.working_set_bytes / fills;
        assert!((8_000..20_000).contains(&mean), "{mean}");
        assert!(stream.warm < stream.accesses.len() / 2 + stream.warm / 2);
    }
}
