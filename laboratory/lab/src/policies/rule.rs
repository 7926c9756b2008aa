//! Admission to disk: a rule of the product, called as the proxy calls it.
//!
//! The proxy calls the rule for misses only. With `/hit` behind its name, an object that memory answers and the disk does not have goes to
//! disk too: a hit in memory is a second request.
//!
//! Filters are sized as in the product: at first for objects of [`OBJECT_BYTES_MEAN`], later for the number of objects that the disk will
//! hold when full.
//!
//! Not known here: tiers.

use std::fmt;
use std::str::FromStr;

use polymix::random::mix;
use replacement::{Admission, AdmissionKind, UnknownAdmission};

use crate::Access;

/// Mean object size that the product assumes (`cache::MEAN_OBJECT_BYTES`).
const OBJECT_BYTES_MEAN: u64 = 13 << 10;
/// The mean size of the objects held is used once they fill this share of the disk (`cache::Cache::admits`).
const TELLING_SHARE: u64 = 16;
const FROM_MEMORY: &str = "/hit";

/// A rule. Written as `all`, `second-hit`, `tinylfu` or `by-size`, with `/hit` behind it if a hit in memory admits too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuleKind {
    /// The product's rule.
    pub kind: AdmissionKind,
    /// Whether a hit in memory admits.
    pub from_memory: bool,
}

impl RuleKind {
    /// Every miss is stored.
    pub const ALL: RuleKind = RuleKind {
        kind: AdmissionKind::All,
        from_memory: false,
    };
}

impl FromStr for RuleKind {
    type Err = UnknownAdmission;

    fn from_str(text: &str) -> Result<Self, UnknownAdmission> {
        let (kind, from_memory) = match text.strip_suffix(FROM_MEMORY) {
            Some(kind) => (kind, true),
            None => (text, false),
        };
        let kind = kind.parse()?;
        Ok(RuleKind { kind, from_memory })
    }
}

impl fmt::Display for RuleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from_memory = if self.from_memory { FROM_MEMORY } else { "" };
        write!(f, "{}{from_memory}", self.kind)
    }
}

/// Counts of the objects on a disk, from which the number that will fit is estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Objects.
    pub objects: u64,
    /// Bytes of these objects.
    pub bytes: u64,
    /// Capacity of the disk in bytes.
    pub bytes_max: u64,
}

impl Held {
    /// How many objects the disk holds when full, if further ones have the mean size of those held.
    pub fn objects_when_full(&self) -> usize {
        let mean_bytes = match self.bytes > self.bytes_max / TELLING_SHARE {
            true => self.bytes / self.objects.max(1),
            false => OBJECT_BYTES_MEAN,
        };
        usize::try_from(self.bytes_max / mean_bytes.max(1)).unwrap_or(usize::MAX)
    }
}

/// A rule and its memory of requests.
pub struct Rule {
    from_memory: bool,
    admission: Admission,
}

impl Rule {
    /// A rule for a disk of this size.
    pub fn new(kind: RuleKind, disk_bytes: u64) -> Self {
        let objects = usize::try_from(disk_bytes / OBJECT_BYTES_MEAN).unwrap_or(usize::MAX);
        Rule {
            from_memory: kind.from_memory,
            admission: Admission::new(kind.kind, objects, disk_bytes),
        }
    }

    /// Whether a missed object goes to disk. `is_full`: the object would evict another.
    pub fn admits(&mut self, access: &Access, is_full: bool, held: impl FnOnce() -> Held) -> bool {
        let id = mix(u64::from(access.object));
        self.admission.asked(id);
        let size = u64::from(access.size_bytes);
        let objects = || held().objects_when_full();
        self.admission.admits(id, size, is_full, objects)
    }

    /// A hit on disk.
    pub fn hit(&mut self, access: &Access) {
        let id = mix(u64::from(access.object));
        self.admission.asked(id);
        self.admission.hit(id, u64::from(access.size_bytes));
    }

    /// Whether an object that memory answers and the disk lacks goes to disk.
    pub fn admits_from_memory(&self) -> bool {
        self.from_memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admits(rule: &mut Rule, object: u32, size_bytes: u32) -> bool {
        let access = Access {
            at_ms: 0,
            object,
            server: 0,
            size_bytes,
        };
        let held = Held {
            objects: 10_000,
            bytes: 1 << 20,
            bytes_max: 1 << 20,
        };
        rule.admits(&access, true, || held)
    }

    #[test]
    fn a_rule_is_the_products() {
        for text in ["second-hit", "by-size/hit"] {
            let kind: RuleKind = text.parse().unwrap();
            assert_eq!(kind.to_string(), text);
            let mut rule = Rule::new(kind, 1 << 20);
            assert!(!admits(&mut rule, 1, 100) && admits(&mut rule, 1, 100));
            let of_short = admits(&mut rule, 2, 10);
            assert_eq!(of_short, kind.kind == AdmissionKind::BySize);
            assert_eq!(rule.admits_from_memory(), text.ends_with("/hit"));
        }
        assert!(admits(&mut Rule::new(RuleKind::ALL, 1 << 20), 1, 1));
        assert_eq!("by-size/".parse::<RuleKind>(), Err(UnknownAdmission));
    }

    #[test]
    fn the_filters_grow_to_what_the_disk_holds() {
        // The filter begins with 1024 objects, the minimum; then it is sized for 10,000.
        let mut rule = Rule::new("second-hit".parse().unwrap(), 1 << 20);
        (0..8000).for_each(|object| _ = admits(&mut rule, object, 1));
        assert!(admits(&mut rule, 1030, 1));
    }

    #[test]
    fn little_says_nothing_of_what_will_be_held() {
        let of = |objects, bytes| {
            let held = Held {
                objects,
                bytes,
                bytes_max: 16 * OBJECT_BYTES_MEAN,
            };
            held.objects_when_full()
        };
        assert_eq!(of(0, 0), 16);
        assert_eq!(of(13, OBJECT_BYTES_MEAN), 16);
        assert_eq!(of(1 << 10, 2 * OBJECT_BYTES_MEAN), 16 << 9);
    }
}
