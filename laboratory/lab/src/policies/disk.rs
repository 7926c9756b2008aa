//! The disk as a set of objects: what a study asks of it, whatever decides what leaves.
//!
//! Four answer: a cache with an order of objects ([`Level`]), a ring ([`super::ring`]), one whose sweep reads ([`super::sweep`]), and one that
//! knows the future ([`super::belady`]). All count bytes alone, without headers, padding and room kept empty, but for [`super::ring::Ring::of_store`].
//!
//! Not known here: memory, admission.

use super::rule::Held;
use crate::Access;
use crate::cache::{Insertion, Level};

/// Number of the next request for the same version of an object.
pub type NextUse = u32;
/// There is none.
pub const NEVER: NextUse = NextUse::MAX;

/// A disk cache.
pub trait Disk {
    /// A request that memory did not answer. True: a hit. An older version leaves.
    fn ask(&mut self, access: &Access, next: NextUse) -> bool;

    /// Memory answered a request: true if the object lies here. No policy counts that as a use.
    fn passed(&mut self, access: &Access, next: NextUse) -> bool;

    /// Stores an object that is not here; the bytes written, or None if it is not kept.
    fn insert(&mut self, access: &Access, next: NextUse) -> Option<u64>;

    /// What lies here.
    fn held(&self) -> Held;

    /// Would something have to leave for so many bytes?
    fn is_full(&self, size_bytes: u32) -> bool;

    /// Objects and bytes that were written again since the last call.
    fn renewed(&mut self) -> (u64, u64) {
        (0, 0)
    }

    /// Bytes that were read beside those asked for, since the last call.
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
        // Of a version that memory alone had, an older one may be here.
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
