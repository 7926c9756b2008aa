//! Belady's rule: evicts the object whose next request is farthest away. It needs the future, so it is a bound and not a policy.
//!
//! An object that is never requested again is not stored, nor one whose next request comes after that of all its victims. With objects
//! of one size no rule misses less. With different sizes it is near the best byte hit ratio; the best rule is not known for that case.
//!
//! Behind a memory cache the next request may be answered from memory. It counts as the next use all the same.
//!
//! Source: Belady: A study of replacement algorithms for a virtual-storage computer, 1966; with *bypass* (not storing an object).

use std::collections::BTreeSet;

use super::disk::{Disk, NEVER, NextUse};
use super::rule::Held;
use crate::Access;

/// The objects held, by next use.
pub struct Belady {
    bytes_max: u64,
    bytes: u64,
    by_use: BTreeSet<(NextUse, u32)>,
    /// Next use and size, by object.
    held: Vec<Option<(NextUse, u32)>>,
}

impl Belady {
    /// An empty disk.
    pub fn new(bytes_max: u64) -> Self {
        Belady {
            bytes_max,
            bytes: 0,
            by_use: BTreeSet::new(),
            held: Vec::new(),
        }
    }

    fn remove(&mut self, object: u32) {
        let place = self.held.get_mut(object as usize);
        if let Some((next, size)) = place.and_then(Option::take) {
            self.by_use.remove(&(next, object));
            self.bytes -= u64::from(size);
        }
    }

    fn add(&mut self, access: &Access, next: NextUse) {
        let object = access.object as usize;
        if self.held.len() <= object {
            self.held.resize(object + 1, None);
        }
        self.held[object] = Some((next, access.size_bytes));
        self.by_use.insert((next, access.object));
        self.bytes += u64::from(access.size_bytes);
    }

    /// The victims for an object; `None` if its next request comes after that of one of them.
    fn victims(&self, access: &Access, next: NextUse) -> Option<Vec<u32>> {
        let mut bytes = self.bytes + u64::from(access.size_bytes);
        let mut victims = Vec::new();
        let mut latest = self.by_use.iter().rev();
        while bytes > self.bytes_max {
            let &(use_, object) = latest.next()?;
            if use_ <= next {
                return None;
            }
            let (_, size) = self.held.get(object as usize).copied().flatten()?;
            bytes -= u64::from(size);
            victims.push(object);
        }
        Some(victims)
    }
}

impl Disk for Belady {
    fn ask(&mut self, access: &Access, next: NextUse) -> bool {
        let is_here = self.passed(access, next);
        if !is_here {
            self.remove(access.object);
        }
        is_here
    }

    fn passed(&mut self, access: &Access, next: NextUse) -> bool {
        let held = self.held.get(access.object as usize).copied().flatten();
        let is_here = held.is_some_and(|(_, size)| size == access.size_bytes);
        if is_here {
            self.remove(access.object);
            // An object without a further request is dropped at once.
            if next != NEVER {
                self.add(access, next);
            }
        }
        is_here
    }

    fn insert(&mut self, access: &Access, next: NextUse) -> Option<u64> {
        self.remove(access.object);
        if next == NEVER {
            return None;
        }
        let victims = self.victims(access, next)?;
        victims.into_iter().for_each(|object| self.remove(object));
        self.add(access, next);
        Some(access.size_bytes.into())
    }

    fn held(&self) -> Held {
        Held {
            objects: self.by_use.len() as u64,
            bytes: self.bytes,
            bytes_max: self.bytes_max,
        }
    }

    fn is_full(&self, size_bytes: u32) -> bool {
        self.bytes + u64::from(size_bytes) > self.bytes_max
    }
}
