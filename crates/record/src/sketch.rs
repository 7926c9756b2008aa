//! The heaviest names of a stream, with a fixed number of counters.
//!
//! *Space-saving* (Metwally and others, 2005): a name without a counter takes over the lightest counter, including its weight. So a weight
//! is too high by at most the weight taken over ([`Heavy::over`]), and with n counters every name with more than one nth of all weight has one.
//!
//! The counters form a heap with the lightest in front, where it is found to be taken over; a table finds a name's counter.
//!
//! Not known here: the meaning of weights, time.   Limits: the number of counters, and [`NAME_BYTES_MAX`].

use std::mem;

use hashbrown::HashTable;

/// Longer names are cut; names that agree up to here are counted together.
pub const NAME_BYTES_MAX: usize = 256;

/// Counts of a name besides its weight, since it got its counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Requests.
    pub requests: u64,
    /// Requests that the cache did not answer.
    pub misses: u64,
    /// Bytes sent to clients.
    pub bytes: u64,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.requests += other.requests;
        self.misses += other.misses;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    fn halved(self) -> Tally {
        Tally {
            requests: self.requests / 2,
            misses: self.misses / 2,
            bytes: self.bytes / 2,
        }
    }
}

/// A sketch with a fixed number of counters.
pub struct Sketch {
    slots_max: usize,
    slots: Vec<Slot>,
    /// Slots by the hash of their name.
    by_name: HashTable<usize>,
    /// Slots as a binary heap: none is lighter than its parent.
    heap: Vec<usize>,
    total: u64,
}

struct Slot {
    name: Box<[u8]>,
    hash: u64,
    weight: u64,
    /// The part of the weight that was taken over.
    over: u64,
    tally: Tally,
    /// Its index in the heap.
    place: usize,
}

/// A name and its weight.
#[derive(PartialEq, Eq, Debug)]
pub struct Heavy<'a> {
    /// The name, cut after [`NAME_BYTES_MAX`].
    pub name: &'a [u8],
    /// Its weight, at most [`Self::over`] too high.
    pub weight: u64,
    /// How much too high the weight may be.
    pub over: u64,
    /// Counted since the name got its counter, so possibly too low.
    pub tally: Tally,
}

impl Sketch {
    /// An empty sketch.
    pub fn new(slots_max: usize) -> Sketch {
        Sketch {
            slots_max,
            slots: Vec::new(),
            by_name: HashTable::new(),
            heap: Vec::new(),
            total: 0,
        }
    }

    /// The weight of all names, including those without a counter.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Adds to a name's weight. `hash`: of the cut name; equal names must have equal hashes. A weight of 0 changes nothing.
    pub fn note(&mut self, name: &[u8], hash: u64, weight: u64, tally: &Tally) {
        if weight == 0 || self.slots_max == 0 {
            return;
        }
        self.total = self.total.saturating_add(weight);
        let name = cut(name);
        let slots = &self.slots;
        let is_it = |&slot: &usize| slots[slot].hash == hash && *slots[slot].name == *name;
        let slot = match self.by_name.find(hash, is_it) {
            Some(&slot) => slot,
            None if self.slots.len() < self.slots_max => self.put(Slot {
                name: name.into(),
                hash,
                weight: 0,
                over: 0,
                tally: Tally::default(),
                place: 0,
            }),
            None => self.take_over(name, hash),
        };
        let found = &mut self.slots[slot];
        found.weight = found.weight.saturating_add(weight);
        found.tally.add(tally);
        let place = found.place;
        self.sink(place);
    }

    /// Adds a slot at the end of the heap and moves it up to its place.
    fn put(&mut self, mut slot: Slot) -> usize {
        let at = self.slots.len();
        slot.place = self.heap.len();
        self.by_name
            .insert_unique(slot.hash, at, |&slot| self.slots[slot].hash);
        self.slots.push(slot);
        self.heap.push(at);
        self.rise(self.heap.len() - 1);
        at
    }

    /// Gives the lightest counter to this name.
    fn take_over(&mut self, name: &[u8], hash: u64) -> usize {
        let at = self.heap[0];
        let old = self.slots[at].hash;
        if let Ok(found) = self.by_name.find_entry(old, |&slot| slot == at) {
            found.remove();
        }
        let slot = &mut self.slots[at];
        (slot.name, slot.hash) = (name.into(), hash);
        (slot.over, slot.tally) = (slot.weight, Tally::default());
        self.by_name
            .insert_unique(hash, at, |&slot| self.slots[slot].hash);
        at
    }

    fn weight_at(&self, place: usize) -> u64 {
        self.slots[self.heap[place]].weight
    }

    /// Moves a slot that has become heavier away from the front.
    fn sink(&mut self, mut place: usize) {
        loop {
            let (left, right) = (2 * place + 1, 2 * place + 2);
            let mut lightest = place;
            for child in [left, right] {
                if child < self.heap.len() && self.weight_at(child) < self.weight_at(lightest) {
                    lightest = child;
                }
            }
            if lightest == place {
                return;
            }
            self.swap(place, lightest);
            place = lightest;
        }
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 && self.weight_at(place) < self.weight_at((place - 1) / 2) {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.slots[self.heap[a]].place = a;
        self.slots[self.heap[b]].place = b;
    }

    /// Halves all weights; names whose weight becomes 0 lose their counter.
    pub fn halve(&mut self) {
        let (slots, total) = (mem::take(&mut self.slots), self.total / 2);
        *self = Sketch::new(self.slots_max);
        self.total = total;
        for slot in slots.into_iter().filter(|slot| slot.weight > 1) {
            self.put(Slot {
                weight: slot.weight / 2,
                over: slot.over / 2,
                tally: slot.tally.halved(),
                ..slot
            });
        }
    }

    /// The heaviest names, at most `most`, the heaviest first.
    pub fn heaviest(&self, most: usize) -> Vec<Heavy<'_>> {
        let mut all: Vec<&Slot> = self.slots.iter().collect();
        // Sorted by name too, so that equal weights keep their order from one call to the next.
        all.sort_unstable_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.name.cmp(&b.name)));
        let heavy = all.into_iter().take(most).map(|slot| Heavy {
            name: &slot.name,
            weight: slot.weight,
            over: slot.over,
            tally: slot.tally,
        });
        heavy.collect()
    }
}

/// The part of a name that is counted and hashed.
pub fn cut(name: &[u8]) -> &[u8] {
    &name[..name.len().min(NAME_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn hash(name: &str) -> u64 {
        name.bytes().fold(17, |hash: u64, byte| {
            hash.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte)
        })
    }

    fn note(sketch: &mut Sketch, name: &str, weight: u64) {
        let tally = Tally {
            requests: 1,
            misses: 0,
            bytes: weight,
        };
        sketch.note(name.as_bytes(), hash(name), weight, &tally);
    }

    fn audit(sketch: &Sketch) {
        assert!(sketch.slots.len() <= sketch.slots_max);
        assert_eq!(sketch.by_name.len(), sketch.slots.len());
        assert_eq!(sketch.heap.len(), sketch.slots.len());
        for (place, &slot) in sketch.heap.iter().enumerate() {
            assert_eq!(sketch.slots[slot].place, place);
            assert!(sketch.weight_at(place.saturating_sub(1) / 2) <= sketch.weight_at(place));
        }
    }

    #[test]
    fn what_is_asked_for_often_is_found_among_any_number_of_others() {
        let mut sketch = Sketch::new(16);
        for n in 0..100_000u32 {
            note(&mut sketch, &format!("rare {n}"), 1);
            match n % 10 {
                0..3 => note(&mut sketch, "often", 1),
                3..5 => note(&mut sketch, "less", 1),
                _ => {}
            }
        }
        audit(&sketch);
        assert_eq!(sketch.total(), 150_000);
        let top = sketch.heaviest(3);
        assert_eq!((top[0].name, top[0].weight), (&b"often"[..], 30_000));
        assert_eq!((top[1].name, top[1].weight), (&b"less"[..], 20_000));
        // The other names have only the weight they took over, at most a sixteenth of all.
        assert!(
            top[2].weight < 150_000 / 16 && top[2].over > 0,
            "{:?}",
            top[2]
        );
    }

    #[test]
    fn no_weight_is_too_low_nor_more_too_high_than_it_says() {
        let mut random = 1u64;
        let mut next = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let mut sketch = Sketch::new(32);
        let mut exact: HashMap<String, u64> = HashMap::new();
        for round in 0..20_000 {
            // Low numbers come more often.
            let below = 1 + next(300);
            let name = format!("n{}", next(below));
            let weight = next(1000);
            note(&mut sketch, &name, weight);
            *exact.entry(name).or_default() += weight;
            if round % 1000 == 0 {
                audit(&sketch);
            }
        }
        audit(&sketch);
        for heavy in sketch.heaviest(32) {
            let right = exact[std::str::from_utf8(heavy.name).unwrap()];
            assert!(heavy.weight >= right, "{heavy:?} of {right}");
            assert!(heavy.weight - heavy.over <= right, "{heavy:?} of {right}");
            assert!(heavy.tally.bytes <= right, "{heavy:?} of {right}");
        }
        let total = sketch.total();
        for (name, weight) in exact.iter().filter(|(_, w)| **w > total / 32) {
            let found = sketch
                .heaviest(32)
                .iter()
                .any(|h| h.name == name.as_bytes());
            assert!(found, "{name} with {weight} of {total}");
        }
    }

    #[test]
    fn weights_are_halved_and_what_is_gone_leaves() {
        let mut sketch = Sketch::new(16);
        for _ in 0..4 {
            note(&mut sketch, "a", 1);
        }
        note(&mut sketch, "b", 1);
        sketch.halve();
        audit(&sketch);
        let names: Vec<_> = sketch.heaviest(9).iter().map(|h| h.name.to_vec()).collect();
        assert_eq!((names, sketch.total()), (vec![b"a".to_vec()], 2));
        assert_eq!(sketch.heaviest(1)[0].tally.requests, 2);
    }

    #[test]
    fn what_weighs_nothing_has_no_counter_and_long_names_are_one() {
        let mut sketch = Sketch::new(2);
        note(&mut sketch, "a", 0);
        assert!(sketch.heaviest(9).is_empty());
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        let hash = hash(&long[..NAME_BYTES_MAX]);
        sketch.note(long.as_bytes(), hash, 1, &Tally::default());
        sketch.note(
            &long.as_bytes()[..NAME_BYTES_MAX],
            hash,
            1,
            &Tally::default(),
        );
        assert_eq!(sketch.heaviest(9).len(), 1);
        assert_eq!(sketch.heaviest(9)[0].weight, 2);
    }
}
