//! The most requested hosts and URLs, with a fixed number of counters.
//!
//! A *space-saving* sketch: a name without a counter takes over the lowest one with its count. So a count is too high
//! by at most what it took over ([`Share::over`]), and with n counters every name with more than one in n requests
//! has one.
//!
//! Every ten minutes all counts are halved, so a request an hour ago weighs a sixty-fourth.
//!
//! The journal thread feeds it with the entries of the access log, if wanted. Limits: [`HOSTS_MAX`], [`URLS_MAX`],
//! [`NAME_BYTES_MAX`].

use crate::clock::Instant;
use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use profile::access::Entry;
use serde::Serialize;

/// Hosts counted.
const HOSTS_MAX: usize = 256;
/// URLs counted.
const URLS_MAX: usize = 1024;
/// Longer names are cut, and counted together if they begin the same.
const NAME_BYTES_MAX: usize = 256;
/// Counts are halved after this time.
const HALF_LIFE: Duration = Duration::from_secs(600);
/// How many are reported.
const TOLD: usize = 10;

/// A sketch with a fixed number of counters.
struct Sketch {
    max: usize,
    slots: Vec<Slot>,
    by_name: HashMap<Box<[u8]>, usize>,
    /// Count and slot, lowest first.
    order: BTreeSet<(u64, usize)>,
    total: u64,
}

struct Slot {
    name: Box<[u8]>,
    count: u64,
    /// The part of the count that it took over.
    over: u64,
}

/// A host or URL and its share.
#[derive(Serialize, PartialEq, Debug)]
pub struct Share {
    /// Host or URL.
    pub name: String,
    /// Its part of recent requests, 0 to 1.
    pub share: f64,
    /// How much too high that may be.
    pub over: f64,
}

impl Sketch {
    fn new(max: usize) -> Sketch {
        Sketch {
            max,
            slots: Vec::new(),
            by_name: HashMap::new(),
            order: BTreeSet::new(),
            total: 0,
        }
    }

    fn note(&mut self, name: &[u8]) {
        let name = &name[..name.len().min(NAME_BYTES_MAX)];
        self.total += 1;
        if let Some(&at) = self.by_name.get(name) {
            let slot = &mut self.slots[at];
            self.order.remove(&(slot.count, at));
            slot.count += 1;
            self.order.insert((slot.count, at));
            return;
        }
        if self.slots.len() < self.max {
            self.put(name.into(), 1, 0);
            return;
        }
        let Some((count, at)) = self.order.pop_first() else {
            return;
        };
        let slot = &mut self.slots[at];
        self.by_name.remove(&slot.name);
        (slot.name, slot.count, slot.over) = (name.into(), count + 1, count);
        self.by_name.insert(slot.name.clone(), at);
        self.order.insert((slot.count, at));
    }

    fn put(&mut self, name: Box<[u8]>, count: u64, over: u64) {
        let at = self.slots.len();
        self.by_name.insert(name.clone(), at);
        self.order.insert((count, at));
        self.slots.push(Slot { name, count, over });
    }

    fn halve(&mut self) {
        let slots = std::mem::take(&mut self.slots);
        let total = self.total / 2;
        *self = Sketch::new(self.max);
        self.total = total;
        for slot in slots.into_iter().filter(|slot| slot.count > 1) {
            self.put(slot.name, slot.count / 2, slot.over / 2);
        }
    }

    fn told(&self) -> Vec<Share> {
        let part = |n: u64| (n as f64 / self.total.max(1) as f64 * 1e4).round() / 1e4;
        let most = self.order.iter().rev().take(TOLD);
        let share = most.map(|&(count, at)| Share {
            name: String::from_utf8_lossy(&self.slots[at].name).into_owned(),
            share: part(count),
            over: part(self.slots[at].over),
        });
        share.collect()
    }
}

/// What is asked for most.
pub struct Top {
    hosts: Sketch,
    urls: Sketch,
    halved: Instant,
}

/// The published result.
#[derive(Serialize)]
pub struct Told {
    hosts: Vec<Share>,
    urls: Vec<Share>,
}

impl Top {
    /// Nothing yet.
    pub fn new(now: Instant) -> Top {
        Top {
            hosts: Sketch::new(HOSTS_MAX),
            urls: Sketch::new(URLS_MAX),
            halved: now,
        }
    }

    /// Counts a batch of log entries.
    pub fn note(&mut self, batch: &[u8], now: Instant) {
        // After a pause without requests, several halvings may be due.
        while now.saturating_duration_since(self.halved) >= HALF_LIFE {
            self.halved += HALF_LIFE;
            self.hosts.halve();
            self.urls.halve();
        }
        let mut rest = batch;
        while let Some((entry, len)) = Entry::decode(rest) {
            rest = &rest[len..];
            // Not those that were not understood.
            if !entry.asking.method.is_empty() {
                let uri = entry.uri();
                self.hosts.note(&host_of(&uri));
                self.urls.note(&uri);
            }
        }
    }

    /// The top of both.
    pub fn told(&self) -> Told {
        Told {
            hosts: self.hosts.told(),
            urls: self.urls.told(),
        }
    }
}

/// `http://Host:1/a` to `host:1`; what has no scheme is an authority.
fn host_of(uri: &[u8]) -> Vec<u8> {
    let from = memchr::memmem::find(uri, b"://").map_or(0, |at| at + 3);
    let rest = &uri[from..];
    let end = rest.iter().position(|b| b"/?".contains(b));
    rest[..end.unwrap_or(rest.len())].to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_often_is_found_among_any_number_of_others() {
        let mut sketch = Sketch::new(16);
        for n in 0..100_000u32 {
            sketch.note(format!("rare {n}").as_bytes());
            match n % 10 {
                0..3 => sketch.note(b"often"),
                3..5 => sketch.note(b"less"),
                _ => {}
            }
        }
        assert_eq!((sketch.slots.len(), sketch.by_name.len()), (16, 16));
        assert_eq!(sketch.total, 150_000);
        let told = sketch.told();
        let of = |at: usize| (&told[at].name[..], told[at].share);
        assert_eq!(of(0), ("often", 0.2));
        assert_eq!(of(1), ("less", 0.1333));
        // The others have only what they took over, at most a sixteenth of all.
        assert!(told[2].share < 1.0 / 16.0 && told[2].over > 0.0, "{told:?}");
    }

    #[test]
    fn counts_are_halved_and_what_is_gone_leaves() {
        let mut sketch = Sketch::new(16);
        for _ in 0..4 {
            sketch.note(b"a");
        }
        sketch.note(b"b");
        sketch.halve();
        let names: Vec<_> = sketch.told().into_iter().map(|s| s.name).collect();
        assert_eq!((names, sketch.total), (vec!["a".to_owned()], 2));
        sketch.note(b"b");
        assert_eq!(sketch.told()[0].share, 0.6667);
    }

    #[test]
    fn the_host_is_that_of_the_url() {
        for (uri, host) in [
            ("http://WWW.example.org:81/a", "www.example.org:81"),
            ("http://h?q=://x/", "h"),
            ("h:443", "h:443"),
        ] {
            assert_eq!(host_of(uri.as_bytes()), host.as_bytes());
        }
    }
}
