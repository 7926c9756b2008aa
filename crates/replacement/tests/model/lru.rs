//! The LRU against the obvious one, a `VecDeque` from which touched members are searched out: on the same trace both
//! have the same hits and evict the same objects in the same order.

use proptest::prelude::*;
use replacement::{Lru, LruThreshold, Policy, PolicyKind, Watermarks};
use std::collections::{HashMap, VecDeque};

/// What happened to one request of a trace.
#[derive(PartialEq, Eq, Debug)]
enum Event {
    Hit(u64),
    Stored(u64),
    Refused(u64),
    Evicted(u64),
}

/// A request for an object; the size of an object is a function of its key.
fn size_of_key(key: u64) -> u64 {
    1 + key * key % 17
}

/// A cache of `capacity` units that evicts by watermarks, in terms of a policy over slots.
fn replay(trace: &[u64], capacity: u64, marks: Watermarks, mut policy: impl Policy) -> Vec<Event> {
    let mut slots: HashMap<u64, u32> = HashMap::new();
    let mut keys: Vec<u64> = Vec::new();
    let mut vacant: Vec<u32> = Vec::new();
    let (mut used, mut events) = (0, Vec::new());
    for &key in trace {
        if let Some(&slot) = slots.get(&key) {
            assert!(policy.touch(slot));
            events.push(Event::Hit(key));
            continue;
        }
        if !policy.admits(size_of_key(key)) {
            events.push(Event::Refused(key));
            continue;
        }
        let slot = vacant.pop().unwrap_or_else(|| {
            keys.push(0);
            keys.len() as u32 - 1
        });
        keys[slot as usize] = key;
        slots.insert(key, slot);
        policy.insert(slot, size_of_key(key), key);
        used += size_of_key(key);
        events.push(Event::Stored(key));
        let goal = used - marks.excess(used, capacity).unwrap_or(0);
        while used > goal {
            let slot = policy.victim().expect("what is used belongs to someone");
            let evicted = keys[slot as usize];
            slots.remove(&evicted);
            vacant.push(slot);
            used -= size_of_key(evicted);
            events.push(Event::Evicted(evicted));
        }
        assert_eq!(policy.len(), slots.len());
    }
    policy.audit().expect("sound at the end");
    events
}

/// The same cache, written down without slots or links.
fn replay_obviously(trace: &[u64], capacity: u64, marks: Watermarks, size_max: u64) -> Vec<Event> {
    let mut coldest_first: VecDeque<u64> = VecDeque::new();
    let mut events = Vec::new();
    for &key in trace {
        if let Some(at) = coldest_first.iter().position(|&k| k == key) {
            coldest_first.remove(at);
            coldest_first.push_back(key);
            events.push(Event::Hit(key));
            continue;
        }
        if size_of_key(key) > size_max {
            events.push(Event::Refused(key));
            continue;
        }
        coldest_first.push_back(key);
        events.push(Event::Stored(key));
        let used = |queue: &VecDeque<u64>| queue.iter().map(|&k| size_of_key(k)).sum::<u64>();
        if used(&coldest_first) * 100 >= capacity * u64::from(marks.high_percent) {
            while used(&coldest_first) > capacity * u64::from(marks.low_percent) / 100 {
                events.push(Event::Evicted(
                    coldest_first.pop_front().expect("used, so not empty"),
                ));
            }
        }
    }
    events
}

proptest! {
    #[test]
    fn same_trace_same_hits_same_evictions(
        trace in prop::collection::vec(0..60u64, 1..400),
        capacity in 1..400u64,
        high in 50..=100u8,
        gap in 0..50u8,
    ) {
        let marks = Watermarks::new(high, high - gap).expect("in order");
        let lru = replay(&trace, capacity, marks, Lru::new());
        prop_assert_eq!(&lru, &replay_obviously(&trace, capacity, marks, u64::MAX));
        prop_assert_eq!(lru, replay(&trace, capacity, marks, PolicyKind::Lru.build()));
    }

    #[test]
    fn the_same_with_a_threshold(
        trace in prop::collection::vec(0..60u64, 1..400),
        capacity in 1..400u64,
        size_max in 0..20u64,
    ) {
        let marks = Watermarks::default();
        let events = replay(&trace, capacity, marks, LruThreshold::new(size_max));
        prop_assert_eq!(events, replay_obviously(&trace, capacity, marks, size_max));
    }

    /// Every call of the list itself, in any order.
    #[test]
    fn the_list_is_a_queue(ops in prop::collection::vec((0..5u8, 0..200u32), 1..300)) {
        let mut lru = Lru::new();
        let mut queue: VecDeque<u32> = VecDeque::new();
        for (op, slot) in ops {
            let at = queue.iter().position(|&s| s == slot);
            match op {
                0 | 1 if at.is_none() => {
                    lru.insert(slot);
                    queue.push_back(slot);
                }
                0..=2 => {
                    prop_assert_eq!(lru.touch(slot), at.is_some());
                    if let Some(slot) = at.and_then(|at| queue.remove(at)) {
                        queue.push_back(slot);
                    }
                }
                3 => prop_assert_eq!(lru.remove(slot), at.and_then(|at| queue.remove(at)).is_some()),
                _ => prop_assert_eq!(lru.pop_coldest(), queue.pop_front()),
            }
            lru.audit().map_err(TestCaseError::fail)?;
            prop_assert_eq!(lru.coldest(), queue.front().copied());
            prop_assert_eq!(lru.len(), queue.len());
            prop_assert!(lru.iter_coldest_first().eq(queue.iter().copied()));
        }
    }
}

/// A long trace in which some objects are far more popular than others, as on the web: U7 in one number.
#[test]
fn a_long_skewed_trace_has_equal_hits() {
    let mut state = 1u64;
    let mut random = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        state >> 33
    };
    // The product of two uniform numbers prefers small ones.
    let trace: Vec<u64> = (0..50_000)
        .map(|_| random() % 2000 * (random() % 2000) / 2000)
        .collect();
    let marks = Watermarks::default();
    let events = replay(&trace, 3000, marks, Lru::new());
    let hits = events
        .iter()
        .filter(|event| matches!(event, Event::Hit(_)))
        .count();
    assert_eq!(events, replay_obviously(&trace, 3000, marks, u64::MAX));
    assert!((10_000..40_000).contains(&hits), "{hits} hits say little");
}
