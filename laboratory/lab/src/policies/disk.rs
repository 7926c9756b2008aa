//! The disk as a set of objects: the interface of a study to any replacement.
//!
//! There are four implementations: a cache with an order of objects ([`Level`]), a ring ([`super::ring`]), a ring whose sweep reads
//! ([`super::sweep`]), and Belady's rule ([`super::belady`]). All but [`super::ring::Ring::of_store`] count bytes without headers and padding.
//!
//! Not known here: memory, admission.

use super::rule::Held;
use crate::Access;
use crate::cache::{Insertion, Level};

/// Number of the next request for the same version of an object.
pub type NextUse = u32;
/// There is no further request.
pub const NEVER: NextUse = NextUse::MAX;

/// A disk cache.
pub trait Disk {
    /// A request that memory did not answer; true for a hit. An older version is removed.
    fn ask(&mut self, access: &Access, next: NextUse) -> bool;

    /// Memory answered a request; true if the disk holds the object. No policy counts this as a use.
    fn passed(&mut self, access: &Access, next: NextUse) -> bool;

    /// Inserts an object that is not held; returns the bytes written, or `None` if it is not kept.
    fn insert(&mut self, access: &Access, next: NextUse) -> Option<u64>;

    /// Counts of the objects held.
    fn held(&self) -> Held;

    /// Whether an object of this size would evict another.
    fn is_full(&self, size_bytes: u32) -> bool;

    /// Objects and bytes written again since the last call.
    fn renewed(&mut self) -> (u64, u64) {
        (0, 0)
    }

    /// Bytes read to make room since the last call.
    fn swept(&mut self) -> u64 {
        0
    }
}

impl Disk for Level {
    fn ask(&mut self, access: &Access, _next: NextUse) -> bool {
        Level::ask(self, access.object, access.size_bytes, &mut None)
    }

    fn passed(&mut self, access: &Access, _next: NextUse) -> bool {
        Level::held(self, access.object) == Some(access.size_bytes)
    }

    fn insert(&mut self, access: &Access, _next: NextUse) -> Option<u64> {
        // Memory alone had this version; the disk may still have an older one.
        if Level::held(self, access.object).is_some() {
            Level::ask(self, access.object, access.size_bytes, &mut None);
        }
        let inserted = Level::insert(self, access.object, access.size_bytes, |_, _| {});
        (inserted == Insertion::Kept).then_some(access.size_bytes.into())
    }

    fn held(&self) -> Held {
        Held {
            objects: self.objects(),
            bytes: self.bytes(),
            bytes_max: self.bytes_max(),
        }
    }

    fn is_full(&self, size_bytes: u32) -> bool {
        self.bytes() + u64::from(size_bytes) > self.bytes_max()
    }
}
