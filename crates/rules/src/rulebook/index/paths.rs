//! Conditions on paths, in each way in which a server may read a path.
//!
//! A rule that allows, or shares more, must match all readings of a path; a rule that refuses, or shares less, needs to match one.
//!
//! Not known here: which rules name a path.

use plan::{Rule, Then, Verdict};

use super::{
    globs::Globs,
    numbers::{Found, Next},
};
use crate::{
    rulebook::paths::{plain, readings, readings_to_share, split},
    table::{EMPTY, Table, hash_of, with},
};

/// The readings of a path that a rule must match, as bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reads(u8);

impl Reads {
    /// The rule has no condition about the path.
    pub const NO_PATH: Reads = Reads(0);
    /// The path as received.
    const AS_IT_CAME: Reads = Reads(1);
    /// All, or one, of `readings`.
    const ALL: Reads = Reads(2);
    const ANY: Reads = Reads(4);
    /// All, or one, of `readings_to_share`.
    const ALL_TO_SHARE: Reads = Reads(8);
    const ANY_TO_SHARE: Reads = Reads(16);

    /// The readings that a rule must match.
    pub fn of(rule: &Rule) -> Reads {
        if rule.when.paths.is_empty() {
            return Reads::NO_PATH;
        }
        let then: &Then = &rule.then;
        let shared = match then.shares_more() {
            true => Reads::ALL_TO_SHARE,
            false => Reads::NO_PATH,
        };
        let more = match then.verdict {
            None if then.shares_less() => Reads::ANY.or(Reads::ANY_TO_SHARE),
            None => shared,
            Some(Verdict::Allow) => Reads::ALL.or(shared),
            Some(_) => Reads::ANY,
        };
        Reads::AS_IT_CAME.or(more)
    }

    /// The union of both.
    pub fn or(self, other: Reads) -> Reads {
        Reads(self.0 | other.0)
    }

    fn has(self, one: Reads) -> bool {
        self.0 & one.0 != 0
    }
}

/// Patterns for paths.
#[derive(Debug, Default)]
pub struct Paths {
    /// The pattern `/`, which matches every path.
    every: Option<u32>,
    /// Patterns without `*`, hashed from the front.
    table: Table,
    /// Does a pattern in the table end in `/`?
    has_slashed: bool,
    globs: Globs,
}

/// The values found for the readings of a path.
#[derive(Debug, Default)]
pub struct FoundPaths {
    as_it_came: Found,
    readings: Vec<Found>,
    to_share: Vec<Found>,
}

impl Paths {
    /// The number of a pattern.
    pub fn number(&mut self, pattern: &str, next: Next<'_>) -> u32 {
        if pattern == "/" {
            return *self.every.get_or_insert_with(next);
        }
        if pattern.contains('*') {
            return self.globs.number(pattern, next);
        }
        self.has_slashed |= pattern.ends_with('/');
        let bytes = pattern.as_bytes();
        self.table.number(hash_of(bytes), bytes, next)
    }

    /// Must be called once all patterns are numbered.
    pub fn finish(&mut self) {
        self.globs.finish();
    }

    /// The values found for a target. `wanted`: the readings that any rule needs.
    pub fn found(&self, target: Option<&str>, wanted: Reads) -> FoundPaths {
        let (Some(path), _) = split(target) else {
            return FoundPaths::default();
        };
        let each = |readings: Vec<String>| {
            let each = readings.iter().map(|reading| self.of(reading));
            each.collect::<Vec<_>>()
        };
        FoundPaths {
            as_it_came: self.of(path),
            readings: match wanted.has(Reads::ALL.or(Reads::ANY)) {
                true => each(readings(path)),
                false => Vec::new(),
            },
            to_share: match wanted.has(Reads::ALL_TO_SHARE.or(Reads::ANY_TO_SHARE)) {
                true => each(readings_to_share(path)),
                false => Vec::new(),
            },
        }
    }

    fn of(&self, path: &str) -> Found {
        let path = &*plain(path);
        let mut found = Found::new();
        if path.starts_with(b"/") {
            found.extend(self.every);
        }
        if !self.table.is_empty() {
            self.named(path, &mut found);
        }
        self.globs.look(path, &mut found);
        found
    }

    /// Adds the patterns without `*` that are prefixes of the path and end with a segment.
    fn named(&self, path: &[u8], found: &mut Found) {
        // One byte more, to see whether the segment ends there.
        let end = path.len().min(self.table.bytes_max() + 1);
        let mut hash = EMPTY;
        for (at, &byte) in path[..end].iter().enumerate() {
            if byte == b'/' && at > 0 {
                found.extend(self.table.get(hash, &path[..at]));
            }
            hash = with(hash, byte);
            if byte == b'/' && self.has_slashed {
                found.extend(self.table.get(hash, &path[..=at]));
            }
        }
        if end == path.len() && path.last() != Some(&b'/') {
            found.extend(self.table.get(hash, path));
        }
    }
}

impl FoundPaths {
    /// Is there only the path as received?
    pub fn are_plain(&self) -> bool {
        self.readings.is_empty() && self.to_share.is_empty()
    }

    /// All values found, in any reading.
    pub fn values(&self) -> impl Iterator<Item = u32> {
        let others = self.readings.iter().chain(&self.to_share);
        let all = std::iter::once(&self.as_it_came).chain(others);
        all.flat_map(|found| found.iter().copied())
    }

    /// Does the path match a rule that needs these readings? `names`: does the rule name one of these values?
    pub fn hold(&self, reads: Reads, names: impl Fn(&Found) -> bool) -> bool {
        let (any, any_to_share) = (reads.has(Reads::ANY), reads.has(Reads::ANY_TO_SHARE));
        let fits = names(&self.as_it_came)
            || any && self.readings.iter().any(&names)
            || any_to_share && self.to_share.iter().any(&names);
        let all = |wants: bool, found: &[Found]| !wants || found.iter().all(&names);
        fits && all(reads.has(Reads::ALL), &self.readings)
            && all(reads.has(Reads::ALL_TO_SHARE), &self.to_share)
    }
}
