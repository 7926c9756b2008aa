//! Each policy against a slow twin, written from the definition: lists that are searched, sums that are added up anew,
//! fractions instead of fixed point.

#[allow(dead_code, reason = "each user of the file needs a part of it")]
mod harness;
mod lru;

use harness::{List, Object, Twin, any_size, compare, take};
use replacement::{ByWorth, Policy, PolicyKind};

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

/// Numbers without end in place of a clock that wraps, and one list.
#[derive(Default)]
struct WorthTwin {
    /// With priority; least recently used first.
    list: Vec<(Object, u64)>,
    clock: u64,
}

impl WorthTwin {
    fn rate(&mut self, object: Object) {
        // uses / root of size, in half powers of two: so the exponents are those of uses squared and of size.
        let uses = object.uses.min(15);
        let half_powers = 30 + (uses * uses).ilog2() - object.size.clamp(1 << 6, 1 << 30).ilog2();
        let worth = f64::from(half_powers).mul_add(0.5, 10.0).exp2().floor();
        self.list.push((object, self.clock + worth as u64));
    }
    fn take(&mut self, slot: u32) -> Option<Object> {
        let at = self.list.iter().position(|(object, _)| object.slot == slot);
        at.map(|at| self.list.remove(at).0)
    }
}

impl Twin for WorthTwin {
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
        // Of equals the one that is worth less, and of these the one that was used longest ago.
        let rank = |&&(object, priority): &&(Object, u64)| {
            let worth = (object.uses.min(15).pow(2)).ilog2() + 30
                - object.size.clamp(1 << 6, 1 << 30).ilog2();
            (priority, worth)
        };
        let &(object, priority) = self.list.iter().min_by_key(rank)?;
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

/// Short ones, whose worth lets the clock wrap within a run, and some of all sizes.
#[test]
fn by_worth() {
    let build = || -> Box<dyn Policy> { Box::new(ByWorth::new()) };
    compare::<WorthTwin>("by worth", build, |random| random % 2000);
    compare::<WorthTwin>("by worth", build, |random| 1 << (random % 40));
}

#[test]
fn without_uses_there_is_one_order_and_memory_is_bounded() {
    for kind in [PolicyKind::Lru, PolicyKind::Gdsf] {
        harness::is_a_fifo_without_uses(&kind.to_string(), boxed(kind));
        harness::memory_follows_the_number_of_slots(&kind.to_string(), boxed(kind));
    }
    harness::is_a_fifo_without_uses("by worth", Box::new(ByWorth::new()));
    harness::memory_follows_the_number_of_slots("by worth", Box::new(ByWorth::new()));
}
