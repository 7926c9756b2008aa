//! Each policy against a slow twin, written from the definition: lists that are searched, sums that are added up anew,
//! fractions instead of fixed point. The same random calls have the same answers, the same objects are evicted in the
//! same order.
//!
//! A failure names the seed; `SEED=n cargo test -p replacement --test policy_model` runs that one alone.

use replacement::{Policy, PolicyKind};
use std::collections::HashMap;

#[derive(Clone, Copy, Debug)]
struct Object {
    slot: u32,
    size: u64,
    id: u64,
    uses: u64,
}

/// The calls of [`Policy`] that a twin answers.
trait Twin {
    fn insert(&mut self, object: Object);
    fn touch(&mut self, slot: u32) -> bool;
    fn remove(&mut self, slot: u32) -> bool;
    fn victim(&mut self) -> Option<u32>;
}

type List = Vec<Object>;

fn find(list: &List, slot: u32) -> Option<usize> {
    list.iter().position(|object| object.slot == slot)
}

fn take(list: &mut List, slot: u32) -> Option<Object> {
    find(list, slot).map(|at| list.remove(at))
}

fn total(lists: &[&List]) -> u64 {
    let objects = lists.iter().flat_map(|list| list.iter());
    objects.map(|object| object.size).sum()
}

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

/// `hand` counts the objects it has passed.
#[derive(Default)]
struct SieveTwin {
    list: List,
    hand: usize,
}

impl Twin for SieveTwin {
    fn insert(&mut self, object: Object) {
        self.list.push(object);
    }
    fn touch(&mut self, slot: u32) -> bool {
        let at = find(&self.list, slot);
        at.map(|at| self.list[at].uses = 1).is_some()
    }
    fn remove(&mut self, slot: u32) -> bool {
        let Some(at) = find(&self.list, slot) else {
            return false;
        };
        self.list.remove(at);
        // A hand past the newest goes on at the oldest, even if another comes in meanwhile.
        if at < self.hand {
            self.hand -= 1;
        } else if self.hand == self.list.len() {
            self.hand = 0;
        }
        true
    }
    fn victim(&mut self) -> Option<u32> {
        loop {
            let at = self.hand;
            let object = self.list.get_mut(at)?;
            let (slot, used) = (object.slot, object.uses > 0);
            object.uses = 0;
            if used {
                self.hand = (at + 1) % self.list.len();
                continue;
            }
            self.list.remove(at);
            if self.hand == self.list.len() {
                self.hand = 0;
            }
            return Some(slot);
        }
    }
}

#[derive(Default)]
struct S3FifoTwin {
    small: List,
    main: List,
    /// Evictions from `small`, oldest first; `None`: came back.
    ghosts: Vec<Option<u64>>,
}

impl Twin for S3FifoTwin {
    fn insert(&mut self, object: Object) {
        if !self.ghosts.contains(&Some(object.id)) {
            return self.small.push(object);
        }
        for ghost in &mut self.ghosts {
            *ghost = ghost.filter(|&id| id != object.id);
        }
        self.main.push(object);
    }
    fn touch(&mut self, slot: u32) -> bool {
        let mut objects = self.small.iter_mut().chain(&mut self.main);
        let found = objects.find(|object| object.slot == slot);
        found.map(|o| o.uses = (o.uses + 1).min(3)).is_some()
    }
    fn remove(&mut self, slot: u32) -> bool {
        take(&mut self.small, slot)
            .or(take(&mut self.main, slot))
            .is_some()
    }
    fn victim(&mut self) -> Option<u32> {
        loop {
            let objects = self.small.len() + self.main.len();
            let (small, all) = (total(&[&self.small]), total(&[&self.small, &self.main]));
            let from_small = !self.small.is_empty() && (small as f64) >= all as f64 / 10.0;
            if from_small || self.main.is_empty() {
                if objects == 0 {
                    return None;
                }
                let mut object = self.small.remove(0);
                if object.uses < 2 {
                    self.ghosts.push(Some(object.id));
                    let surplus = self.ghosts.len().saturating_sub(objects);
                    self.ghosts.drain(..surplus);
                    return Some(object.slot);
                }
                object.uses = 0;
                self.main.push(object);
            } else {
                let mut object = self.main.remove(0);
                if object.uses == 0 {
                    return Some(object.slot);
                }
                object.uses -= 1;
                self.main.push(object);
            }
        }
    }
}

/// With an exact count of uses. A hundred objects counted to 15 fill no sample, so nothing ages here; `sketch` has a
/// test for that.
#[derive(Default)]
struct WTinyLfuTwin {
    window: List,
    candidates: List,
    probation: List,
    protected: List,
    counts: HashMap<u64, u64>,
    pressed: bool,
}

impl WTinyLfuTwin {
    fn count(&mut self, id: u64) {
        let count = self.counts.entry(id).or_default();
        *count = (*count + 1).min(15);
    }
    fn uses(&self, object: Object) -> u64 {
        self.counts.get(&object.id).copied().unwrap_or(0)
    }
    fn main(&self) -> u64 {
        total(&[&self.candidates, &self.probation, &self.protected])
    }
}

impl Twin for WTinyLfuTwin {
    fn insert(&mut self, object: Object) {
        if self.pressed {
            self.probation.append(&mut self.candidates);
        }
        self.pressed = false;
        self.window.push(object);
        self.count(object.id);
        while self.window.len() > 1
            && total(&[&self.window]) * 100 > self.main() + total(&[&self.window])
        {
            self.candidates.push(self.window.remove(0));
        }
    }
    fn touch(&mut self, slot: u32) -> bool {
        if let Some(object) = take(&mut self.window, slot) {
            self.window.push(object);
            self.count(object.id);
            return true;
        }
        let found = take(&mut self.candidates, slot)
            .or(take(&mut self.probation, slot))
            .or(take(&mut self.protected, slot));
        let Some(object) = found else {
            return false;
        };
        self.protected.push(object);
        self.count(object.id);
        while total(&[&self.protected]) * 5 > self.main() * 4 {
            self.probation.push(self.protected.remove(0));
        }
        true
    }
    fn remove(&mut self, slot: u32) -> bool {
        let lists = [
            &mut self.window,
            &mut self.candidates,
            &mut self.probation,
            &mut self.protected,
        ];
        lists.into_iter().any(|list| take(list, slot).is_some())
    }
    fn victim(&mut self) -> Option<u32> {
        self.pressed = true;
        let main = match self.probation.is_empty() {
            true => self.protected.first().copied(),
            false => self.probation.first().copied(),
        };
        let candidate = self.candidates.first().copied();
        let victim = match (candidate, main) {
            (Some(candidate), Some(main)) if self.uses(candidate) > self.uses(main) => {
                self.candidates.remove(0);
                self.probation.push(candidate);
                main
            }
            (Some(candidate), _) => candidate,
            (None, Some(main)) => main,
            (None, None) => *self.window.first()?,
        };
        self.remove(victim.slot).then_some(victim.slot)
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

/// SplitMix64, so that a seed is a run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

fn seeds() -> Vec<u64> {
    match std::env::var("SEED") {
        Ok(seed) => vec![seed.parse().expect("SEED is a number")],
        Err(_) => (0..200).collect(),
    }
}

/// Random calls to both; some objects are more popular, some runs are short of room, others have plenty.
fn compare<T: Twin + Default>(kind: PolicyKind, sizes: fn(u64) -> u64) {
    for seed in seeds() {
        let mut random = Random(seed);
        let (mut policy, mut twin) = (kind.build(), T::default());
        let room = 1 + random.below(60) as usize;
        let slots = 100 + random.below(1000);
        let mut present: HashMap<u32, u64> = HashMap::new();
        for step in 0..1500 {
            let place = || format!("{kind}: SEED={seed}, step {step}");
            // The product of two uniform numbers prefers small ones.
            let id = random.below(100) * random.below(100) / 100;
            let slot = random.below(slots) as u32;
            let known = present.iter().find(|&(_, &other)| other == id);
            match (random.below(20), known.map(|(&slot, _)| slot)) {
                (0, _) => assert_eq!(policy.remove(slot), twin.remove(slot), "{}", place()),
                (1, _) => assert_eq!(policy.touch(slot), twin.touch(slot), "{}", place()),
                (2, Some(known)) => {
                    assert!(policy.remove(known) && twin.remove(known), "{}", place());
                    present.remove(&known);
                    continue;
                }
                (_, Some(known)) => {
                    assert!(policy.touch(known) && twin.touch(known), "{}", place());
                }
                (_, None) if !present.contains_key(&slot) => {
                    let size = sizes(random.below(1 << 20));
                    policy.insert(slot, size, id);
                    twin.insert(Object {
                        slot,
                        size,
                        id,
                        uses: 0,
                    });
                    present.insert(slot, id);
                }
                _ => {}
            }
            if policy.len() != present.len() {
                // The first arm removed one by its slot.
                present.remove(&slot);
            }
            // Room is made one by one, or in batches down to three quarters.
            let batch = seed % 2 == 1 && present.len() > room;
            let level = if batch { room * 3 / 4 } else { room };
            while present.len() > level || random.below(200) == 0 {
                let victim = policy.victim();
                assert_eq!(victim, twin.victim(), "{}", place());
                let Some(victim) = victim else {
                    break;
                };
                present.remove(&victim).expect("was present");
            }
            assert_eq!(policy.len(), present.len(), "{}", place());
            if step % 16 == 0 {
                policy
                    .audit()
                    .unwrap_or_else(|wrong| panic!("{}: {wrong}", place()));
            }
        }
        // All the rest, in order.
        loop {
            let victim = policy.victim();
            assert_eq!(victim, twin.victim(), "{kind}: SEED={seed}, at the end");
            policy
                .audit()
                .unwrap_or_else(|wrong| panic!("{kind}: SEED={seed}: {wrong}"));
            if victim.is_none() {
                break;
            }
        }
        assert!(policy.is_empty());
    }
}

fn any_size(random: u64) -> u64 {
    random % 40 * (random >> 10) / 100
}

#[test]
fn lru() {
    compare::<LruTwin>(PolicyKind::Lru, any_size);
    let size_max = u64::MAX;
    compare::<LruTwin>(PolicyKind::LruThreshold { size_max }, any_size);
}

#[test]
fn sieve() {
    compare::<SieveTwin>(PolicyKind::Sieve, any_size);
}

#[test]
fn s3_fifo() {
    compare::<S3FifoTwin>(PolicyKind::S3Fifo, any_size);
    compare::<S3FifoTwin>(PolicyKind::S3Fifo, |_| 1);
}

#[test]
fn w_tinylfu() {
    compare::<WTinyLfuTwin>(PolicyKind::WTinyLfu, any_size);
    compare::<WTinyLfuTwin>(PolicyKind::WTinyLfu, |_| 1);
}

/// Powers of two only, whose parts are exact in the twin's fractions and in the policy's.
#[test]
fn gdsf() {
    compare::<GdsfTwin>(PolicyKind::Gdsf, |random| {
        [0, 1, 2, 4, 8, 16][random as usize % 6]
    });
}

/// Where nobody asks twice, and all sizes are equal, these are one FIFO.
#[test]
fn without_uses_there_is_one_order() {
    let order = |kind: PolicyKind| -> Vec<Option<u32>> {
        let mut policy = kind.build();
        let evict = |slot: u32| {
            policy.insert(slot % 300, 7, slot.into());
            (slot >= 200).then(|| policy.victim()).flatten()
        };
        (0..2000).map(evict).collect()
    };
    let fifo: Vec<Option<u32>> = (0..2000u32)
        .map(|slot| slot.checked_sub(200).map(|oldest| oldest % 300))
        .collect();
    for kind in [
        PolicyKind::Lru,
        PolicyKind::Sieve,
        PolicyKind::S3Fifo,
        PolicyKind::Gdsf,
    ] {
        assert_eq!(order(kind), fifo, "{kind}");
    }
}

/// Memory is bounded by the largest slot, whatever happens: links, ghosts and sketch.
#[test]
fn memory_follows_the_number_of_slots() {
    const FIXED: usize = 16 * 1024;
    for kind in [
        PolicyKind::Lru,
        PolicyKind::Sieve,
        PolicyKind::S3Fifo,
        PolicyKind::WTinyLfu,
        PolicyKind::Gdsf,
    ] {
        let mut policy = kind.build();
        let mut bytes_max = 0;
        let mut vacant: Vec<u32> = (0..4096).collect();
        for id in 0..50_000u64 {
            let slot = vacant
                .pop()
                .or_else(|| policy.victim())
                .expect("one or the other");
            policy.insert(slot, 1 + id % 9, id);
            policy.touch((id * 7 % 4096) as u32);
            bytes_max = bytes_max.max(policy.memory_bytes());
        }
        let bytes = bytes_max.saturating_sub(FIXED) / 4096;
        assert!(bytes <= 96, "{kind}: {bytes} bytes a slot");
        assert_eq!(policy.len(), 4096);
    }
}
