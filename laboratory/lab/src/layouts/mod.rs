//! Layouts: the production store under streams, with one setting changed at a time.
//!
//! A [`Layout`] is a set of the store's own settings, with a memory cache and a rule of admission as in the proxy. The store itself runs
//! (`store`, `extent`, `replacement`); only the device is a model ([`device`]). With ordered policies a setting says how full the store
//! is kept (the high watermark); with `second-chance` this follows from how far ahead of itself the hand clears.
//!
//! Not known here: proxies, threads.
//! Source: paper 002 Figures 6 and 8 (utilisation, locality buffers).

pub mod ahead;
pub mod device;
mod report;
mod run;

use std::str::FromStr;

use replacement::{PolicyKind, Watermarks};
use store::{Geometry, Replacement, Settings};

use crate::cache::PolicyKind as MemoryKind;
use crate::policies::RuleKind;

pub use report::{page, table, tables};
pub use run::{Findings, NEAR_BYTES, Sizes, run};

/// Distance between high and low watermark.
const MARKS_APART_PERCENT: u8 = 2;

/// Settings of a store, its memory cache and its reader.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    /// How the store makes room.
    pub replacement: Replacement,
    /// The rule of admission to the store.
    pub rule: RuleKind,
    /// The policy of the memory cache in front.
    pub memory: MemoryKind,
    /// With an ordered policy: how full the store is kept.
    pub full_percent: u8,
    /// Buffers that gather the records of one server each; 0: none.
    pub locality_buffers: usize,
    /// Bytes of a cluster, which is one write.
    pub cluster_bytes: u32,
    /// Bytes of a chunk.
    pub chunk_bytes: u32,
    /// Reads that are gathered and carried out in order of address; 0 and 1: reads do not wait.
    pub lazy_reads: usize,
    /// Least bytes of a read; the surplus is kept for the next requests. 0: no surplus.
    pub ahead_bytes: usize,
}

impl Default for Layout {
    /// The production store's defaults.
    fn default() -> Self {
        let settings = Settings::default();
        Layout {
            replacement: settings.replacement,
            rule: RuleKind::ALL,
            memory: MemoryKind::LRU,
            full_percent: settings.watermarks.high_percent,
            locality_buffers: settings.locality_buffers,
            cluster_bytes: settings.cluster_bytes,
            chunk_bytes: Geometry::CHUNK_BYTES_DEFAULT,
            lazy_reads: 0,
            ahead_bytes: 0,
        }
    }
}

impl Layout {
    /// The differences from the production store, or `default`.
    pub fn name(&self) -> String {
        let usual = Layout::default();
        let mut parts = Vec::new();
        if self.replacement != usual.replacement {
            parts.push(self.replacement.to_string());
        }
        if self.rule != usual.rule {
            parts.push(self.rule.to_string());
        }
        if self.memory != usual.memory {
            parts.push(format!("memory {}", self.memory));
        }
        if matches!(self.replacement, Replacement::Ordered(_)) {
            parts.push(format!("{} % full", self.full_percent));
        }
        if self.locality_buffers != usual.locality_buffers {
            parts.push(format!("{} buffers", self.locality_buffers));
        }
        if self.cluster_bytes != usual.cluster_bytes {
            parts.push(format!("clusters of {} KiB", self.cluster_bytes >> 10));
        }
        if self.chunk_bytes != usual.chunk_bytes {
            parts.push(format!("chunks of {} B", self.chunk_bytes));
        }
        if self.lazy_reads != usual.lazy_reads {
            parts.push(format!("{} lazy reads", self.lazy_reads));
        }
        if self.ahead_bytes != usual.ahead_bytes {
            parts.push(format!("{} KiB ahead", self.ahead_bytes >> 10));
        }
        if parts.is_empty() {
            "default".to_owned()
        } else {
            parts.join(", ")
        }
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            replacement: self.replacement,
            watermarks: Watermarks {
                high_percent: self.full_percent,
                low_percent: self.full_percent.saturating_sub(MARKS_APART_PERCENT),
            },
            locality_buffers: self.locality_buffers,
            cluster_bytes: self.cluster_bytes,
            ..Settings::default()
        }
    }

    /// LRU from half full to 99 %, and the defaults with one setting changed at a time.
    pub fn usual() -> Vec<Layout> {
        let usual = Layout::default();
        let lru = Replacement::Ordered(PolicyKind::Lru);
        let mut all = vec![usual.clone()];
        for window_percent in [0, 50, 75] {
            all.push(Layout {
                replacement: Replacement::SecondChance { window_percent },
                ..usual.clone()
            });
        }
        for full_percent in [50, 60, 70, 80, 90, 95, 97, 99] {
            all.push(Layout {
                replacement: lru,
                full_percent,
                ..usual.clone()
            });
        }
        let ordered = Layout {
            replacement: lru,
            full_percent: 80,
            ..usual.clone()
        };
        all.push(Layout {
            locality_buffers: 32,
            ..ordered
        });
        all.push(Layout {
            replacement: Replacement::Ordered(PolicyKind::Gdsf),
            full_percent: 97,
            ..usual.clone()
        });
        // Rules of admission, and policies of the memory cache.
        let ruled =
            ["second-hit", "tinylfu", "by-size"].map(|rule| format!("second-chance+{rule}"));
        let named = ruled.iter().map(String::as_str);
        let named = named.chain(["second-chance@gdsf", "second-chance+by-size@gdsf"]);
        all.extend(named.filter_map(|name| name.parse().ok()));
        for locality_buffers in [8, 32, 128] {
            all.push(Layout {
                locality_buffers,
                ..usual.clone()
            });
        }
        for cluster_bytes in [64 << 10, 256 << 10, 4 << 20] {
            all.push(Layout {
                cluster_bytes,
                ..usual.clone()
            });
        }
        for chunk_bytes in [1024, 4096] {
            all.push(Layout {
                chunk_bytes,
                ..usual.clone()
            });
        }
        for locality_buffers in [0, 8, 32, 128] {
            all.push(Layout {
                lazy_reads: 10,
                locality_buffers,
                ..usual.clone()
            });
        }
        // Reading ahead, with and without locality buffers and lazy reads.
        for (locality_buffers, lazy_reads) in
            [(0, 0), (32, 0), (128, 0), (0, 10), (32, 10), (128, 10)]
        {
            all.push(Layout {
                locality_buffers,
                lazy_reads,
                ahead_bytes: 64 << 10,
                ..usual.clone()
            });
        }
        all
    }
}

/// The text is not a layout.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is no layout: use a value of store.replacement, with +second-hit, +tinylfu or +by-size (and /hit behind it) if not everything is to come to the store, and @gdsf or another policy if memory is not to be an LRU"
)]
pub struct UnknownLayout(String);

/// A layout is written as the contenders of `policies` are: `second-chance`, `gdsf+second-hit`, `second-chance=10+by-size@gdsf`. With an
/// ordered policy the store is kept as full as by default.
impl FromStr for Layout {
    type Err = UnknownLayout;

    fn from_str(text: &str) -> Result<Self, UnknownLayout> {
        let unknown = || UnknownLayout(text.to_owned());
        let (tier, memory) = match text.split_once('@') {
            Some((tier, memory)) => (tier, memory.parse().map_err(|_| unknown())?),
            None => (text, MemoryKind::LRU),
        };
        let (replacement, rule) = match tier.split_once('+') {
            Some((replacement, rule)) => (replacement, rule.parse().map_err(|_| unknown())?),
            None => (tier, RuleKind::ALL),
        };
        Ok(Layout {
            replacement: replacement.parse().map_err(|_| unknown())?,
            rule,
            memory,
            ..Layout::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{DecLike, PolyMixLike};

    const SIZES: Sizes = Sizes {
        store_bytes: 24 << 20,
        memory_bytes: 2 << 20,
        rate: 1_000.0,
    };

    fn findings(layout: &Layout) -> Findings {
        const REQUESTS: u64 = 25_000;
        let like = DecLike {
            requests: REQUESTS,
            ..DecLike::default()
        };
        run(layout, &SIZES, like.stream(), REQUESTS).unwrap()
    }

    #[test]
    fn every_layout_holds_what_it_is_given_and_writes_it_once() {
        let usual = Layout::usual();
        let some = |name: &str| usual.iter().find(|layout| layout.name() == name).unwrap();
        for name in [
            "default",
            "second-chance=0",
            "lru, 50 % full",
            "lru, 99 % full",
            "gdsf, 97 % full",
            "chunks of 4096 B",
        ] {
            let layout = some(name);
            let found = findings(layout);
            let name = &found.layout;
            assert!(
                found.gets == 16_667 && found.store_hits > 50,
                "{name}: {found:?}"
            );
            assert!(
                found.inserts > 9_000 && found.refused < found.inserts / 50,
                "{name}: {found:?}"
            );
            assert!(
                (0.98..2.0).contains(&found.written_per_stored()),
                "{name}: {}",
                found.written_per_stored()
            );
            // A hit is one read; with reinsertion a sweep reads, too.
            let sweep_reads = layout.replacement.reinserted_percent().is_some();
            let most = if sweep_reads { 1.5 } else { 1.1 };
            assert!(
                (0.5..most).contains(&found.reads_per_hit()),
                "{name}: {}",
                found.reads_per_hit()
            );
        }
    }

    #[test]
    fn the_same_again_is_the_same() {
        let of = |found: Findings| (found.store_hits, found.cluster_writes, found.device);
        assert_eq!(
            of(findings(&Layout::default())),
            of(findings(&Layout::default()))
        );
    }

    #[test]
    fn lazy_reads_spare_a_seeking_disk_and_hit_as_often() {
        let eager = findings(&Layout::default());
        let lazy = findings(&Layout {
            lazy_reads: 10,
            ..Layout::default()
        });
        assert!(lazy.device.seeking_s < eager.device.seeking_s);
        assert!(lazy.store_hits.abs_diff(eager.store_hits) * 50 < eager.store_hits);
    }

    #[test]
    fn with_locality_buffers_more_reads_are_near_each_other_at_no_cost() {
        let of = |locality_buffers| {
            findings(&Layout {
                locality_buffers,
                lazy_reads: 10,
                ..Layout::default()
            })
        };
        let (without, with) = (of(0), of(32));
        assert!(
            with.near_percent() > 1.2 * without.near_percent(),
            "{} %, {} without",
            with.near_percent(),
            without.near_percent()
        );
        assert!(with.store_hits.abs_diff(without.store_hits) * 50 < without.store_hits);
        assert!(with.write_bytes_mean() > 0.95 * without.write_bytes_mean());
    }

    #[test]
    fn what_was_read_ahead_needs_no_read() {
        let of = |ahead_bytes| {
            findings(&Layout {
                ahead_bytes,
                ..Layout::default()
            })
        };
        let (without, with) = (of(0), of(64 << 10));
        assert_eq!(with.store_hits, without.store_hits);
        assert!(with.reads_per_hit() < 0.9 * without.reads_per_hit());
        assert!(with.device.read_bytes > without.device.read_bytes);
    }

    #[test]
    fn large_objects_are_several_records() {
        let access = |object, size_bytes| crate::Access {
            at_ms: 0,
            object,
            server: 0,
            size_bytes,
        };
        let sizes = Sizes {
            memory_bytes: 1,
            store_bytes: 64 << 20,
            ..SIZES
        };
        // The first three of nine requests are not counted.
        let row: Vec<_> = (0..9).map(|n| access(n % 2, 1_500_000)).collect();
        let found = run(&Layout::default(), &sizes, row.into_iter(), 9).unwrap();
        assert_eq!((found.store_hits, found.refused), (6, 0));
        assert!(found.device.reads > 6, "{found:?}");
    }

    #[test]
    fn polymix_runs_too_and_the_report_says_all() {
        let like = PolyMixLike {
            requests: 10_000,
            rate: 4.0,
            ..PolyMixLike::default()
        };
        let found = run(&Layout::default(), &SIZES, like.stream(), 10_000).unwrap();
        let all = [("polymix".to_owned(), vec![found])];
        assert!(tables(&all)[0].text().contains("default"));
        assert!(page(&all).html().contains("<svg"));
    }

    #[test]
    fn second_hit_writes_less_and_reads_as_often_as_it_hits() {
        let all = findings(&"second-chance".parse().unwrap());
        let some = findings(&"second-chance+second-hit".parse().unwrap());
        assert_eq!(some.layout, "second-chance, second-hit");
        assert!(some.inserts < all.inserts / 3, "{some:?}");
        assert!(some.written_per_asked() < 0.4 * all.written_per_asked());
        assert!(some.memory_hits == all.memory_hits && some.store_hits > 50);
        assert!((0.0..1.0).contains(&some.read_per_asked()) && some.read_per_asked() > 0.0);
        assert!(some.admitted_from_memory == 0 && some.work_read_bytes == 0);
    }

    #[test]
    fn a_hit_in_memory_brings_an_object_to_the_store_if_the_rule_says_so() {
        let of = |layout: &str| findings(&layout.parse().unwrap());
        let (miss, hit) = (
            of("second-chance+by-size"),
            of("second-chance+by-size/hit@gdsf"),
        );
        assert_eq!(hit.layout, "second-chance, by-size/hit, memory gdsf");
        assert!(miss.admitted_from_memory == 0 && hit.admitted_from_memory > 50);
        assert!(hit.memory_hits > miss.memory_hits);
    }

    #[test]
    fn layouts_are_read_as_policies_are_written() {
        let layout: Layout = "second-chance=10+by-size/hit@s3-fifo".parse().unwrap();
        assert_eq!(
            layout.name(),
            "second-chance=10, by-size/hit, memory s3-fifo"
        );
        assert_eq!("reinsertion".parse(), Ok(Layout::default()));
        for text in ["", "belady", "gdsf+", "gdsf+third-hit", "gdsf@fifo"] {
            assert_eq!(text.parse::<Layout>(), Err(UnknownLayout(text.to_owned())));
        }
    }

    #[test]
    fn names_say_what_is_different() {
        assert_eq!(Layout::default().name(), "default");
        let names: Vec<String> = Layout::usual().iter().map(Layout::name).collect();
        let mut unique = names.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), names.len(), "{names:?}");
    }
}
