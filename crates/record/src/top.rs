//! The hosts and URLs with the most requests, the most misses, and the most bytes.
//!
//! There are three sketches for each ([`crate::sketch`]), since the heaviest by bytes may be rare among requests. A *miss* here is
//! any request that the cache did not answer and that was neither a tunnel nor refused.
//!
//! Every ten minutes all counts are halved, so a request an hour ago weighs a sixty-fourth.
//!
//! The journal thread feeds it with the entries of the access log, if wanted. Limits: [`NAMES_MAX`] names in each of six sketches, of
//! [`NAME_BYTES_MAX`](crate::sketch::NAME_BYTES_MAX): two megabytes together.

use base::clock::Instant;
use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use profile::{Class, access::Entry};
use serde::{Deserialize, Serialize};

use crate::sketch::{Heavy, Sketch, Tally, cut};

/// Names counted in each sketch.
const NAMES_MAX: usize = 1024;
/// Counts are halved after this time.
const HALF_LIFE: Duration = Duration::from_secs(600);
/// How many names `/status` lists.
const TOLD: usize = 10;

/// The number of measures that names are ranked by.
pub const MEASURES: usize = 3;

/// A host or URL and its share.
#[derive(Serialize, PartialEq, Debug)]
pub struct Share {
    /// Host or URL.
    pub name: String,
    /// Its part of recent requests, 0 to 1.
    pub share: f64,
    /// How much too high the share may be.
    pub over: f64,
}

/// A host or URL of a ranking.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Ranked {
    /// Host or URL.
    pub name: String,
    /// Requests: at most `over` too high in the ranking by requests, perhaps too low in the others. The same holds for the next two fields.
    pub requests: u64,
    /// Requests that the cache did not answer.
    pub misses: u64,
    /// Bytes sent to clients, heads included.
    pub bytes: u64,
    /// Its part of the ranked measure, 0 to 1.
    pub share: f64,
    /// How much too high the ranked measure may be.
    pub over: u64,
}

/// The three rankings of hosts, or of URLs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Rankings {
    /// By requests.
    pub by_requests: Vec<Ranked>,
    /// By requests that the cache did not answer.
    pub by_misses: Vec<Ranked>,
    /// By bytes sent.
    pub by_bytes: Vec<Ranked>,
}

/// The part of the rankings that `/status` shows.
#[derive(Serialize)]
pub struct Told {
    hosts: Vec<Share>,
    urls: Vec<Share>,
}

/// The sketches of hosts, or of URLs, by measure.
struct Names([Sketch; MEASURES]);

/// The most requested hosts and URLs.
pub struct Top {
    hosts: Names,
    urls: Names,
    hasher: RandomState,
    halved: Instant,
}

impl Names {
    fn new() -> Names {
        Names(std::array::from_fn(|_| Sketch::new(NAMES_MAX)))
    }

    fn note(&mut self, name: &[u8], hasher: &RandomState, tally: &Tally) {
        let hash = hasher.hash_one(cut(name));
        let weights = [tally.requests, tally.misses, tally.bytes];
        for (sketch, weight) in self.0.iter_mut().zip(weights) {
            sketch.note(name, hash, weight, tally);
        }
    }

    fn halve(&mut self) {
        self.0.iter_mut().for_each(Sketch::halve);
    }

    fn shares(&self) -> Vec<Share> {
        let [requests, ..] = &self.0;
        let share = |heavy: Heavy<'_>| Share {
            name: text(heavy.name),
            share: part(heavy.weight, requests),
            over: part(heavy.over, requests),
        };
        requests.heaviest(TOLD).into_iter().map(share).collect()
    }

    fn rankings(&self, most: usize) -> Rankings {
        let [requests, misses, bytes] = &self.0;
        let ranked = |sketch: &Sketch, set: fn(&mut Ranked, u64)| {
            let heaviest = sketch.heaviest(most).into_iter();
            let ranked = heaviest.map(|heavy| {
                let mut ranked = Ranked {
                    name: text(heavy.name),
                    requests: heavy.tally.requests,
                    misses: heavy.tally.misses,
                    bytes: heavy.tally.bytes,
                    share: part(heavy.weight, sketch),
                    over: heavy.over,
                };
                set(&mut ranked, heavy.weight);
                ranked
            });
            ranked.collect()
        };
        Rankings {
            by_requests: ranked(requests, |ranked, weight| ranked.requests = weight),
            by_misses: ranked(misses, |ranked, weight| ranked.misses = weight),
            by_bytes: ranked(bytes, |ranked, weight| ranked.bytes = weight),
        }
    }
}

/// A weight as a part of all weight, rounded to four digits.
fn part(weight: u64, of: &Sketch) -> f64 {
    (weight as f64 / of.total().max(1) as f64 * 1e4).round() / 1e4
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

impl Top {
    /// Nothing yet.
    pub fn new(now: Instant) -> Top {
        Top {
            hosts: Names::new(),
            urls: Names::new(),
            hasher: RandomState::new(),
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
            // Skip requests that were not understood.
            if !entry.asking.method.is_empty() {
                let (uri, tally) = (entry.uri(), tally_of(&entry));
                self.hosts.note(&host_of(&uri), &self.hasher, &tally);
                self.urls.note(&uri, &self.hasher, &tally);
            }
        }
    }

    /// The top hosts and URLs by requests, for `/status`.
    pub fn told(&self) -> Told {
        Told {
            hosts: self.hosts.shares(),
            urls: self.urls.shares(),
        }
    }

    /// The rankings of hosts and of URLs, each of at most `most` names.
    pub fn rankings(&self, most: usize) -> [Rankings; 2] {
        [self.hosts.rankings(most), self.urls.rankings(most)]
    }
}

fn tally_of(entry: &Entry<'_>) -> Tally {
    let class = entry.record.class;
    let is_miss = !class.is_hit() && !matches!(class, Class::Tunnel | Class::Error);
    Tally {
        requests: 1,
        misses: is_miss.into(),
        bytes: entry.record.bytes_out,
    }
}

/// `http://Host:1/a` becomes `host:1`; a URI without a scheme is an authority.
fn host_of(uri: &[u8]) -> Vec<u8> {
    let from = memchr::memmem::find(uri, b"://").map_or(0, |at| at + 3);
    let rest = &uri[from..];
    let end = rest.iter().position(|b| b"/?".contains(b));
    rest[..end.unwrap_or(rest.len())].to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{Record, access::Asking};

    fn entry(class: Class, uri: &str, bytes_out: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let mut record = Record::begun(1);
        (record.class, record.bytes_out) = (class, bytes_out);
        Entry {
            tls: profile::access::Tls::default(),
            record,
            client: "127.0.0.1".parse().unwrap(),
            listener: b"",
            asking: Asking {
                method: b"GET",
                target: uri.as_bytes(),
                ..Asking::default()
            },
            content_type: b"",
            peer: b"",
            origin: b"",
            cache_status: b"",
            tag: b"",
        }
        .encode(&mut out);
        out
    }

    #[test]
    fn each_measure_has_its_own_ranking() {
        let now = Instant::now();
        let mut top = Top::new(now);
        let batch = [
            entry(Class::MemoryHit, "http://often/", 10),
            entry(Class::MemoryHit, "http://often/", 10),
            entry(Class::MemoryHit, "http://often/", 10),
            entry(Class::Miss, "http://missed/a", 10),
            entry(Class::Collapsed, "http://missed/b", 10),
            entry(Class::DiskHit, "http://large/", 1000),
            entry(Class::Error, "http://refused/", 1),
            entry(Class::Tunnel, "tunnel:443", 1),
        ];
        top.note(&batch.concat(), now);
        let [hosts, urls] = top.rankings(2);
        let names = |ranked: &[Ranked]| -> Vec<String> {
            ranked.iter().map(|ranked| ranked.name.clone()).collect()
        };
        assert_eq!(names(&hosts.by_requests), ["often", "missed"]);
        assert_eq!(names(&hosts.by_misses), ["missed"]);
        assert_eq!(names(&hosts.by_bytes), ["large", "often"]);
        assert_eq!(
            names(&urls.by_misses),
            ["http://missed/a", "http://missed/b"]
        );
        let missed = &hosts.by_misses[0];
        assert_eq!((missed.requests, missed.misses, missed.bytes), (2, 2, 20));
        assert_eq!((missed.share, missed.over), (1.0, 0));
        assert_eq!(top.told().hosts[0].share, 0.375);
        // An hour later all counts have decayed to 0.
        top.note(&[], now + Duration::from_secs(3600));
        assert!(top.rankings(9)[0].by_requests.is_empty());
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
