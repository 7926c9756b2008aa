//! LHD: evicts the object with the fewest expected hits per byte and unit of time.
//!
//! *Age*: requests since an object's last request. For each age, LHD counts the objects requested again (a hit at that age) and those
//! evicted. The *hit density* of an age follows: expected hits, divided by the expected time until the next hit or the eviction. Objects
//! are put in classes by the sum of their last two ages at a hit, so that often requested objects have a density of their own.
//!
//! ```text
//!   density(class, age) = hits at this age or later / time that all objects of this age stayed after it, in sum
//!   victim              = of CANDIDATES objects drawn at random, the one with the least density / size
//! ```
//!
//! Densities are computed anew after every `EVENTS_BETWEEN` requests; older counts fade. Ages are counted in units of a power of two
//! requests; the unit doubles when too many objects reach the last age.
//!
//! We differ from the original where it tunes itself to its traces: it computes anew after a million requests, adjusts its unit of age
//! to the number of objects twice, spares some objects to learn their future, and always draws the eight latest newcomers, too.
//!
//! Invariants, checked by `audit`: `members` and the `place` of each slot agree.
//!
//! `victim` is O(1), and each other call O(1) on average. 28 bytes a slot; 400 KiB for the densities.
//! Limits: as [`replacement::Lru`].
//! Source: Beckmann, Chen, Cidon: LHD: improving cache hit rate by maximizing hit density, NSDI 2018.

use polymix::random::Chance;
use replacement::{Policy, slots_to_hold};

/// Number of distinct ages; the last one includes all older objects.
const AGES: usize = 1024;
const CLASSES: usize = 16;
/// Objects drawn to choose a victim.
const CANDIDATES: usize = 32;
const EVENTS_BETWEEN: u64 = 1 << 14;
/// The share of each count that remains when densities are computed.
const FADING: f64 = 0.9;
/// The unit of age doubles when more than this share of the events is at the last age.
const OLDEST_SHARE: f64 = 0.01;
/// Keeps [`NEVER`] beyond all ages.
const UNIT_LOG_MAX: u32 = 16;
const ABSENT: u32 = u32::MAX;
/// In `ages`: no hit yet.
const NEVER: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Slot {
    size: u64,
    asked: u32,
    /// Ages at the last hit and at the one before.
    ages: [u32; 2],
    /// The slot's index in `members`.
    place: u32,
}

const FREE: Slot = Slot {
    size: 0,
    asked: 0,
    ages: [0, NEVER],
    place: ABSENT,
};

/// What happens to objects of a class, by age.
#[derive(Clone, Debug)]
struct Class {
    hits: Vec<f64>,
    evictions: Vec<f64>,
    densities: Vec<f64>,
}

impl Class {
    /// The first guess: a density falls with age and rises with the number of the class.
    fn new(number: usize) -> Self {
        let guess = |age: usize| (number + 1) as f64 / (age + 1) as f64;
        Class {
            hits: vec![0.0; AGES],
            evictions: vec![0.0; AGES],
            densities: (0..AGES).map(guess).collect(),
        }
    }

    fn learn(&mut self) {
        let (mut hits, mut events, mut stay) = (0.0, 0.0, 0.0);
        for age in (0..AGES).rev() {
            hits += self.hits[age];
            events += self.hits[age] + self.evictions[age];
            stay += events;
            self.densities[age] = if stay > 1e-5 { hits / stay } else { 0.0 };
        }
    }

    fn counts(&mut self) -> [&mut Vec<f64>; 2] {
        [&mut self.hits, &mut self.evictions]
    }
}

/// The objects, in no order, and the counts by age.
#[derive(Clone, Debug)]
pub struct Lhd {
    slots: Vec<Slot>,
    members: Vec<u32>,
    classes: Vec<Class>,
    /// Requests so far.
    clock: u32,
    events: u64,
    /// The unit of age: 2^`unit_log` requests.
    unit_log: u32,
    chance: Chance,
}

impl Lhd {
    /// An empty policy.
    pub fn new() -> Self {
        Lhd {
            slots: Vec::new(),
            members: Vec::new(),
            classes: (0..CLASSES).map(Class::new).collect(),
            clock: 0,
            events: 0,
            unit_log: 0,
            chance: Chance::new(0),
        }
    }

    fn age(&self, slot: &Slot) -> usize {
        let requests = self.clock.wrapping_sub(slot.asked);
        ((requests >> self.unit_log) as usize).min(AGES - 1)
    }

    /// Class 0 is for objects whose last two ages add up to `AGES` or more, or that were hit once at most. Each next class is for sums
    /// half as large.
    fn class(&self, slot: &Slot) -> usize {
        let mut age = slot.ages[0].saturating_add(slot.ages[1]) >> self.unit_log;
        if age == 0 {
            return CLASSES - 1;
        }
        let mut class = 0;
        while age < AGES as u32 && class < CLASSES - 1 {
            age <<= 1;
            class += 1;
        }
        class
    }

    fn worth(&self, slot: &Slot) -> f64 {
        let density = self.classes[self.class(slot)].densities[self.age(slot)];
        density / slot.size.max(1) as f64
    }

    fn request(&mut self) {
        self.clock = self.clock.wrapping_add(1);
        self.events += 1;
        if self.events.is_multiple_of(EVENTS_BETWEEN) {
            self.learn();
        }
    }

    fn learn(&mut self) {
        let (mut oldest, mut all) = (0.0, 0.0);
        for counts in self.classes.iter_mut().flat_map(Class::counts) {
            counts.iter_mut().for_each(|count| *count *= FADING);
            oldest += counts[AGES - 1];
            all += counts.iter().sum::<f64>();
        }
        if oldest > OLDEST_SHARE * all && self.unit_log < UNIT_LOG_MAX {
            self.unit_log += 1;
            for counts in self.classes.iter_mut().flat_map(Class::counts) {
                *counts = counts.chunks(2).map(|two| two.iter().sum()).collect();
                counts.resize(AGES, 0.0);
            }
        }
        self.classes.iter_mut().for_each(Class::learn);
    }

    fn leave(&mut self, slot: u32) {
        let left = self.slots[slot as usize];
        let (class, age) = (self.class(&left), self.age(&left));
        self.classes[class].evictions[age] += 1.0;
        self.slots[slot as usize].place = ABSENT;
        self.members.swap_remove(left.place as usize);
        if let Some(&moved) = self.members.get(left.place as usize) {
            self.slots[moved as usize].place = left.place;
        }
    }

    fn is_here(&self, slot: u32) -> bool {
        let held = self.slots.get(slot as usize);
        held.is_some_and(|held| held.place != ABSENT)
    }
}

impl Policy for Lhd {
    fn admits(&self, _size: u64) -> bool {
        true
    }

    fn insert(&mut self, slot: u32, size: u64, _id: u64) {
        if let Some(len) = slots_to_hold(slot, self.slots.len()) {
            self.slots.resize(len, FREE);
        }
        assert!(!self.is_here(slot), "slot {slot} is in use");
        self.request();
        self.slots[slot as usize] = Slot {
            size,
            asked: self.clock,
            place: self.members.len() as u32,
            ..FREE
        };
        self.members.push(slot);
    }

    fn touch(&mut self, slot: u32) -> bool {
        if !self.is_here(slot) {
            return false;
        }
        self.request();
        let held = self.slots[slot as usize];
        let (class, age) = (self.class(&held), self.age(&held));
        self.classes[class].hits[age] += 1.0;
        self.slots[slot as usize] = Slot {
            asked: self.clock,
            ages: [self.clock.wrapping_sub(held.asked), held.ages[0]],
            ..held
        };
        true
    }

    fn remove(&mut self, slot: u32) -> bool {
        let is_here = self.is_here(slot);
        if is_here {
            self.leave(slot);
        }
        is_here
    }

    fn victim(&mut self) -> Option<u32> {
        let end = self.members.len() as u64;
        if end == 0 {
            return None;
        }
        let drawn = (0..CANDIDATES).map(|_| self.members[self.chance.below(end) as usize]);
        let drawn: Vec<u32> = drawn.collect();
        let worth = |slot: &u32| self.worth(&self.slots[*slot as usize]);
        let victim = drawn
            .into_iter()
            .min_by(|a, b| worth(a).total_cmp(&worth(b)))?;
        self.leave(victim);
        Some(victim)
    }

    fn len(&self) -> usize {
        self.members.len()
    }

    fn memory_bytes(&self) -> usize {
        let slots = self.slots.capacity() * size_of::<Slot>();
        slots + self.members.capacity() * 4 + CLASSES * AGES * 3 * size_of::<f64>()
    }

    fn audit(&self) -> Result<(), String> {
        let places = self.slots.iter().filter(|slot| slot.place != ABSENT);
        if places.count() != self.members.len() {
            return Err("some are here and no members".to_owned());
        }
        for (place, &slot) in self.members.iter().enumerate() {
            if self.slots[slot as usize].place as usize != place {
                return Err(format!("slot {slot} is not at its place"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed from the definition, event by event.
    #[test]
    fn densities_are_as_defined() {
        let mut chance = Chance::new(7);
        let mut class = Class::new(0);
        let mut ends = Vec::new();
        for _ in 0..500 {
            let (age, is_hit) = (chance.below(AGES as u64) as usize / 2, chance.below(3) == 0);
            ends.push((age, is_hit));
            match is_hit {
                true => class.hits[age] += 1.0,
                false => class.evictions[age] += 1.0,
            }
        }
        class.learn();
        for age in 0..AGES {
            let older = ends.iter().filter(|end| end.0 >= age);
            let (hits, stay) = older.fold((0, 0), |(hits, stay), end| {
                (hits + usize::from(end.1), stay + end.0 - age + 1)
            });
            let want = if stay > 0 {
                hits as f64 / stay as f64
            } else {
                0.0
            };
            assert!((class.densities[age] - want).abs() < 1e-9, "{age}");
        }
    }

    #[test]
    fn classes_halve_the_age() {
        let lhd = Lhd::new();
        let of = |last, before| {
            lhd.class(&Slot {
                ages: [last, before],
                ..FREE
            })
        };
        assert_eq!([of(0, NEVER), of(1024, 1), of(1000, 24)], [0, 0, 0]);
        assert_eq!([of(1023, 0), of(512, 0), of(511, 0)], [1, 1, 2]);
        assert_eq!([of(1, 0), of(0, 0)], [10, 15]);
    }

    /// Objects requested in a loop, twice as many as fit: an LRU never hits.
    #[test]
    fn a_loop_is_kept_in_part() {
        let (mut lhd, mut hits) = (Lhd::new(), 0);
        for request in 0..100_000 {
            let slot = request % 200;
            if lhd.touch(slot) {
                hits += u32::from(request >= 50_000);
                continue;
            }
            if lhd.len() == 100 {
                lhd.victim();
            }
            lhd.insert(slot, 1, 0);
        }
        lhd.audit().unwrap();
        assert!(hits > 10_000, "{hits}");
    }

    #[test]
    fn of_equal_use_what_is_long_goes() {
        let mut lhd = Lhd::new();
        (0..20).for_each(|slot| lhd.insert(slot, 1 + 99 * u64::from(slot == 7), 0));
        (0..20).for_each(|slot| assert!(lhd.touch(slot)));
        assert_eq!(lhd.victim(), Some(7));
        assert!(!lhd.touch(7) && !lhd.remove(7) && lhd.remove(8));
        lhd.audit().unwrap();
    }

    #[test]
    fn the_unit_of_age_follows_what_is_kept() {
        let mut lhd = Lhd::new();
        for request in 0..100_000 {
            if lhd.len() == 10_000 {
                lhd.victim();
            }
            lhd.insert(request, 1, 0);
        }
        assert!((3..6).contains(&lhd.unit_log), "{}", lhd.unit_log);
    }
}
