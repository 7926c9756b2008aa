//! Which miss goes to disk: the product's rules of admission, and one by size.
//!
//! `by-size`: an object longer than half the mean missed length needs a second miss, or a hit in memory, before it goes to disk; a
//! shorter one does not. (The proxy's asks for the second miss only, and its mean is of late misses.) A long object that is asked for once costs the most writes and the most evictions. The mean is of what is
//! missed: that of what is stored would fall with each refusal.
//!
//! Filters are sized as the product sizes them.
//!
//! Not known here: tiers.

use std::fmt;
use std::str::FromStr;

use polymix::random::mix;
use replacement::{Admission, AdmissionKind, UnknownAdmission};

use crate::Access;

/// As the product assumes (crate `proxy`, `serve/preparing`).
const OBJECT_BYTES_MEAN: u64 = 13 << 10;
/// An object is long above the mean missed length divided by this.
const LONG_PART: u128 = 2;

/// Which rule. Written as `all`, `second-hit`, `tinylfu` or `by-size`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleKind {
    /// One that the product offers.
    Offered(AdmissionKind),
    /// A second miss for long objects only.
    BySize,
}

impl RuleKind {
    /// Every miss is stored.
    pub const ALL: RuleKind = RuleKind::Offered(AdmissionKind::All);
}

impl FromStr for RuleKind {
    type Err = UnknownAdmission;

    fn from_str(text: &str) -> Result<Self, UnknownAdmission> {
        match text {
            "by-size" => Ok(RuleKind::BySize),
            offered => offered.parse().map(RuleKind::Offered),
        }
    }
}

impl fmt::Display for RuleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleKind::Offered(kind) => kind.fmt(f),
            RuleKind::BySize => f.write_str("by-size"),
        }
    }
}

/// A rule, and what it remembers.
pub struct Rule {
    kind: RuleKind,
    admission: Admission,
    /// For how many objects its filters are.
    objects: usize,
    misses: u64,
    missed_bytes: u64,
}

impl Rule {
    /// For a disk of so many bytes.
    pub fn new(kind: RuleKind, disk_bytes: u64) -> Self {
        let offered = match kind {
            RuleKind::Offered(kind) => kind,
            RuleKind::BySize => AdmissionKind::SecondHit,
        };
        let objects = usize::try_from(disk_bytes / OBJECT_BYTES_MEAN).unwrap_or(usize::MAX);
        Rule {
            kind,
            admission: Admission::new(offered, objects),
            objects,
            misses: 0,
            missed_bytes: 0,
        }
    }

    /// A miss: does it go to disk? `is_full`: something would have to leave.
    pub fn admits(&mut self, access: &Access, is_full: bool) -> bool {
        // The proxy tells the rule of misses alone.
        let id = mix(u64::from(access.object));
        self.admission.asked(id);
        let size = u64::from(access.size_bytes);
        self.misses += 1;
        self.missed_bytes += size;
        if self.kind == RuleKind::BySize && !self.is_long(size) {
            return true;
        }
        self.admission.admits(id, size, is_full, || self.objects)
    }

    fn is_long(&self, size: u64) -> bool {
        u128::from(size) * u128::from(self.misses) * LONG_PART > u128::from(self.missed_bytes)
    }

    /// Does an object go to disk that memory answered and that is not there?
    pub fn admits_from_memory(&self) -> bool {
        self.kind == RuleKind::BySize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(object: u32, size_bytes: u32) -> Access {
        Access {
            at_ms: 0,
            object,
            server: 0,
            size_bytes,
        }
    }

    #[test]
    fn by_size_long_ones_wait_for_a_second_miss() {
        let mut rule = Rule::new(RuleKind::BySize, 1 << 20);
        let mut missed = |object, size| rule.admits(&access(object, size), true);
        // The first is the mean itself. Then the means are 550, 400, 344.
        assert!(!missed(1, 1000));
        assert!(missed(2, 100));
        assert!(missed(3, 100));
        assert!(!missed(4, 175));
        assert!(missed(4, 175) && missed(1, 1000));
    }

    #[test]
    fn the_others_are_the_products() {
        let mut rule = Rule::new(RuleKind::Offered(AdmissionKind::SecondHit), 1 << 20);
        assert!(!rule.admits(&access(1, 1), true) && rule.admits(&access(1, 1), true));
        assert!(!rule.admits_from_memory());
        let mut rule = Rule::new(RuleKind::ALL, 1 << 20);
        assert!(rule.admits(&access(1, 1), true));
    }
}
