//! Each policy against a slow twin, written from the definition: lists that are searched, sums that are added up anew,
//! fractions instead of fixed point.

#[allow(dead_code, reason = "each user of the file needs a part of it")]
mod harness;
mod lru;

use harness::{List, Object, Twin, any_size, compare, take};
use replacement::{Policy, PolicyKind};

/// Oldest first.
#[derive(Default)]
struct LruTwin(List);

impl Twin for LruTwin {
    fn insert(&mut self, object: Object) {
        self.0.push(object);
    }
    fn touch(&mut self, slot: u32) -> bool {
        let object = take(&mut self.0, slot);
        self.0.extend(object);
        object.is_some()
    }
    fn remove(&mut self, slot: u32) -> bool {
        take(&mut self.0, slot).is_some()
    }
    fn victim(&mut self) -> Option<u32> {
        (!self.0.is_empty()).then(|| self.0.remove(0).slot)
    }
}

/// Priorities as fractions of 720,720, which the sizes up to 16 divide; so they are as exact as can be.
#[derive(Default)]
struct GdsfTwin {
    /// With priority; least recently asked for first.
    list: Vec<(Object, u64)>,
    clock: u64,
}

impl GdsfTwin {
    const UNIT: u64 = 720_720;

    fn rate(&mut self, object: Object) {
        let size = object.size.max(1);
        assert_eq!(Self::UNIT % size, 0);
        let priority = self.clock + object.uses * (Self::UNIT / size);
        self.list.push((object, priority));
    }
    fn take(&mut self, slot: u32) -> Option<Object> {
        let at = self.list.iter().position(|(object, _)| object.slot == slot);
        at.map(|at| self.list.remove(at).0)
    }
}

impl Twin for GdsfTwin {
    fn insert(&mut self, object: Object) {
        self.rate(Object { uses: 1, ..object });
    }
    fn touch(&mut self, slot: u32) -> bool {
        let object = self.take(slot);
        if let Some(mut object) = object {
            object.uses += 1;
            self.rate(object);
        }
        object.is_some()
    }
    fn remove(&mut self, slot: u32) -> bool {
        self.take(slot).is_some()
    }
    fn victim(&mut self) -> Option<u32> {
        // `min_by_key` takes the first of equals.
        let &(object, priority) = self.list.iter().min_by_key(|(_, priority)| *priority)?;
        self.clock = priority;
        self.take(object.slot).map(|object| object.slot)
    }
}

fn same<T: Twin + Default>(kind: PolicyKind, sizes: fn(u64) -> u64) {
    compare::<T>(&kind.to_string(), || boxed(kind), sizes);
}

fn boxed(kind: PolicyKind) -> Box<dyn Policy> {
    Box::new(kind.build())
}

#[test]
fn lru_and_its_threshold() {
    same::<LruTwin>(PolicyKind::Lru, any_size);
    let size_max = u64::MAX;
    same::<LruTwin>(PolicyKind::LruThreshold { size_max }, any_size);
}

/// Powers of two only, whose parts are exact in the twin's fractions and in the policy's.
#[test]
fn gdsf() {
    same::<GdsfTwin>(PolicyKind::Gdsf, |random| {
        [0, 1, 2, 4, 8, 16][random as usize % 6]
    });
}

#[test]
fn without_uses_there_is_one_order_and_memory_is_bounded() {
    for kind in [PolicyKind::Lru, PolicyKind::Gdsf] {
        harness::is_a_fifo_without_uses(&kind.to_string(), boxed(kind));
        harness::memory_follows_the_number_of_slots(&kind.to_string(), boxed(kind));
    }
}
