//! A contender of a study: replacement on disk, admission to disk, replacement in memory.

use std::fmt;
use std::str::FromStr;

use replacement::PolicyKind as Offered;
use serde::{Serialize, Serializer};
use store::Replacement;

use super::belady::Belady;
use super::disk::Disk;
use super::ring::Ring;
use super::rule::RuleKind;
use super::sweep::Sweep;
use crate::cache::{Level, LevelSettings, PolicyKind};

/// `lru-threshold` without a size.
const LRU_THRESHOLD: PolicyKind = PolicyKind::Offered(Offered::LruThreshold { size_max: 64 << 10 });

/// The replacement on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskKind {
    /// Evicts the object that a policy chooses.
    Ordered(PolicyKind),
    /// Evicts the oldest in the ring, with a window for second chances in percent; `fifo`: a window of 0.
    Ring(u8),
    /// The ring with the store's window, headers, padding and room kept empty.
    Store,
    /// Evicts the oldest in the ring, but keeps the best of it, up to so many percent.
    Sweep(u8),
    /// Evicts the object whose next request is farthest away, by the future.
    Belady,
}

impl DiskKind {
    /// The store's default policy, without its headers and padding.
    pub const SECOND_CHANCE: DiskKind = DiskKind::Ring(Replacement::WINDOW_PERCENT);

    /// `sweep` without a percentage.
    pub const SWEEP: DiskKind = DiskKind::Sweep(30);

    /// An empty disk of this size.
    pub fn build(self, bytes: u64) -> Box<dyn Disk> {
        match self {
            DiskKind::Ordered(policy) => Box::new(Level::new(LevelSettings {
                policy,
                ..LevelSettings::lru(bytes)
            })),
            DiskKind::Ring(window_percent) => Box::new(Ring::new(bytes, window_percent)),
            DiskKind::Store => Box::new(Ring::of_store(bytes, Replacement::WINDOW_PERCENT)),
            DiskKind::Sweep(percent) => Box::new(Sweep::new(bytes, percent)),
            DiskKind::Belady => Box::new(Belady::new(bytes)),
        }
    }
}

impl fmt::Display for DiskKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            DiskKind::Ordered(policy) => policy.fmt(f),
            DiskKind::Ring(0) => f.write_str("fifo"),
            DiskKind::SECOND_CHANCE => f.write_str("second-chance"),
            DiskKind::Ring(window_percent) => write!(f, "second-chance={window_percent}"),
            DiskKind::Store => f.write_str("store"),
            DiskKind::SWEEP => f.write_str("sweep"),
            DiskKind::Sweep(percent) => write!(f, "sweep={percent}"),
            DiskKind::Belady => f.write_str("belady"),
        }
    }
}

impl FromStr for DiskKind {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if let Some((kind, percent)) = text.split_once('=') {
            let percent = percent.parse().ok().filter(|&percent| percent <= 75);
            match (kind, percent) {
                ("second-chance", Some(percent)) => return Ok(DiskKind::Ring(percent)),
                ("sweep", Some(percent)) => return Ok(DiskKind::Sweep(percent)),
                ("second-chance" | "sweep", None) => return Err(()),
                _ => {}
            }
        }
        match text {
            "fifo" => Ok(DiskKind::Ring(0)),
            "second-chance" => Ok(DiskKind::SECOND_CHANCE),
            "store" => Ok(DiskKind::Store),
            "sweep" => Ok(DiskKind::SWEEP),
            "belady" => Ok(DiskKind::Belady),
            "lru-threshold" => Ok(DiskKind::Ordered(LRU_THRESHOLD)),
            policy => policy.parse().map(DiskKind::Ordered).map_err(|_| ()),
        }
    }
}

/// Replacement on disk, admission to disk, replacement in memory. Written as `lru`, `lru+second-hit` or `lru+second-hit@gdsf`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contender {
    /// The replacement on disk.
    pub disk: DiskKind,
    /// The rule of admission to the disk.
    pub rule: RuleKind,
    /// The replacement in memory.
    pub memory: PolicyKind,
}

impl Contender {
    /// All policies, three of them with the rules of admission, and the default with other memory policies.
    pub fn all() -> Vec<Contender> {
        const ALL: [&str; 32] = [
            "store",
            "second-chance",
            "fifo",
            "lru",
            "lru-threshold",
            "s3-fifo",
            "sieve",
            "w-tinylfu",
            "lhd",
            "gdsf",
            "sweep",
            "belady",
            "second-chance+second-hit",
            "second-chance+tinylfu",
            "second-chance+by-size",
            "lru+second-hit",
            "lru+tinylfu",
            "lru+by-size",
            "gdsf+second-hit",
            "gdsf+tinylfu",
            "gdsf+by-size",
            "second-chance@gdsf",
            "second-chance@s3-fifo",
            "second-chance+by-size@gdsf",
            "second-chance+by-size@s3-fifo",
            "gdsf@gdsf",
            "sweep=10+by-size",
            "sweep+by-size",
            "sweep=50+by-size",
            "sweep+by-size/hit",
            "sweep+by-size@gdsf",
            "sweep+by-size@s3-fifo",
        ];
        ALL.iter().filter_map(|text| text.parse().ok()).collect()
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.disk.fmt(f)?;
        if self.rule != RuleKind::ALL {
            write!(f, "+{}", self.rule)?;
        }
        if self.memory != PolicyKind::LRU {
            write!(f, "@{}", self.memory)?;
        }
        Ok(())
    }
}

/// The text is not a contender.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is no policy: use store, second-chance, second-chance=PERCENT, sweep, sweep=PERCENT, fifo, lru, lru-threshold, lru-threshold=BYTES, s3-fifo, sieve, w-tinylfu, lhd, gdsf or belady, with +second-hit, +tinylfu or +by-size (and /hit behind it) if not everything is to come to disk, and @gdsf or another policy if memory is not to be an LRU"
)]
pub struct UnknownContender(String);

impl FromStr for Contender {
    type Err = UnknownContender;

    fn from_str(text: &str) -> Result<Self, UnknownContender> {
        let unknown = || UnknownContender(text.to_owned());
        let (tier, memory) = match text.split_once('@') {
            Some((tier, memory)) => (tier, memory.parse().map_err(|_| unknown())?),
            None => (text, PolicyKind::LRU),
        };
        let (disk, rule) = match tier.split_once('+') {
            Some((disk, rule)) => (disk, rule.parse().map_err(|_| unknown())?),
            None => (tier, RuleKind::ALL),
        };
        let disk = disk.parse().map_err(|()| unknown())?;
        Ok(Contender { disk, rule, memory })
    }
}

impl Serialize for Contender {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contenders_are_read_as_they_are_written() {
        assert_eq!(Contender::all().len(), 32);
        for contender in Contender::all() {
            assert_eq!(contender.to_string().parse(), Ok(contender));
        }
        for text in [
            "second-chance=10+by-size/hit@s3-fifo",
            "sweep=7",
            "lru-threshold=5@sieve",
        ] {
            assert_eq!(text.parse::<Contender>().unwrap().to_string(), text);
        }
        let refused = [
            "",
            "mru",
            "lru+",
            "lru+third-hit",
            "+tinylfu",
            "lru@",
            "lru@fifo",
        ];
        for text in refused
            .into_iter()
            .chain(["second-chance=76", "sweep=", "lru@lru+by-size"])
        {
            assert_eq!(
                text.parse::<Contender>(),
                Err(UnknownContender(text.to_owned()))
            );
        }
    }
}
