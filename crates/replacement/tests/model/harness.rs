//! A policy beside a slow twin: the same random calls have the same answers, and the same objects are evicted in the same
//! order. The storage lab tests its own policies with this file, too.
//!
//! A failure names the seed; with `SEED=n` in the environment that one is run alone.

use replacement::Policy;
use std::collections::HashMap;

#[derive(Clone, Copy, Debug)]
pub struct Object {
    pub slot: u32,
    pub size: u64,
    pub id: u64,
    pub uses: u64,
}

/// The calls of [`Policy`] that a twin answers.
pub trait Twin {
    fn insert(&mut self, object: Object);
    fn touch(&mut self, slot: u32) -> bool;
    fn remove(&mut self, slot: u32) -> bool;
    fn victim(&mut self) -> Option<u32>;
}

pub type List = Vec<Object>;

pub fn find(list: &List, slot: u32) -> Option<usize> {
    list.iter().position(|object| object.slot == slot)
}

pub fn take(list: &mut List, slot: u32) -> Option<Object> {
    find(list, slot).map(|at| list.remove(at))
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
pub fn compare<T: Twin + Default>(
    name: &str,
    build: impl Fn() -> Box<dyn Policy>,
    sizes: fn(u64) -> u64,
) {
    for seed in seeds() {
        let mut random = Random(seed);
        let (mut policy, mut twin) = (build(), T::default());
        let room = 1 + random.below(60) as usize;
        let slots = 100 + random.below(1000);
        let mut present: HashMap<u32, u64> = HashMap::new();
        for step in 0..1500 {
            let place = || format!("{name}: SEED={seed}, step {step}");
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
            assert_eq!(victim, twin.victim(), "{name}: SEED={seed}, at the end");
            policy
                .audit()
                .unwrap_or_else(|wrong| panic!("{name}: SEED={seed}: {wrong}"));
            if victim.is_none() {
                break;
            }
        }
        assert!(policy.is_empty());
    }
}

/// Mostly small, some large, now and then 0.
pub fn any_size(random: u64) -> u64 {
    random % 40 * (random >> 10) / 100
}

/// Without a second request for any object, and with equal sizes, many policies are a FIFO.
pub fn is_a_fifo_without_uses(name: &str, mut policy: Box<dyn Policy>) {
    for slot in 0..2000u32 {
        policy.insert(slot % 300, 7, slot.into());
        if let Some(oldest) = slot.checked_sub(200) {
            assert_eq!(policy.victim(), Some(oldest % 300), "{name}");
        }
    }
}

/// Memory is bounded by the largest slot, whatever happens: links, ghosts and sketch.
pub fn memory_follows_the_number_of_slots(name: &str, mut policy: Box<dyn Policy>) {
    const FIXED: usize = 16 * 1024;
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
    assert!(bytes <= 96, "{name}: {bytes} bytes a slot");
    assert_eq!(policy.len(), 4096);
}
