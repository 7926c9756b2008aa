//! Two caches that `replacement` has not: one that knows the future, and one that forgets in the order of coming.
//!
//! *Ahead* drops what is wanted last, and that may be the newcomer. With objects of unequal sizes that is not the most that could be
//! had (which is hard to compute), but no cache without foresight is likely to have more.
//! Source: Belady, A study of replacement algorithms for a virtual-storage computer (1966).

use std::collections::{BTreeSet, VecDeque};

use super::{HEAD_BYTES, Stream};
use crate::Access;
use crate::policies::Hits;

const NEVER: u32 = u32::MAX;

/// For each request, the next one for the same object.
fn next_uses(accesses: &[Access]) -> Vec<u32> {
    let mut next = vec![NEVER; accesses.len()];
    let mut seen: Vec<u32> = Vec::new();
    for (at, access) in accesses.iter().enumerate().rev() {
        let object = access.object as usize;
        if seen.len() <= object {
            seen.resize(object + 1, NEVER);
        }
        next[at] = std::mem::replace(&mut seen[object], at as u32);
    }
    next
}

/// What a cache of so many bytes answers that knows when each object is wanted next.
pub fn hits(stream: &Stream, cache_bytes: u64) -> Hits {
    let next = next_uses(&stream.accesses);
    let mut hits = Hits::default();
    // By next use; whoever is held has one of his own.
    let mut held: BTreeSet<(u32, u32)> = BTreeSet::new();
    let mut bytes = 0;
    for (at, access) in stream.accesses.iter().enumerate() {
        let size = |object_bytes: u32| u64::from(object_bytes + HEAD_BYTES);
        let hit = held.remove(&(at as u32, access.size_bytes));
        if hit {
            bytes -= size(access.size_bytes);
        }
        let mut kept = false;
        if next[at] != NEVER && size(access.size_bytes) <= cache_bytes {
            held.insert((next[at], access.size_bytes));
            bytes += size(access.size_bytes);
            kept = true;
        }
        while bytes > cache_bytes {
            let Some((wanted, object_bytes)) = held.pop_last() else {
                break;
            };
            bytes -= size(object_bytes);
            kept &= wanted != next[at];
        }
        if at >= stream.warm {
            hits.count(access, hit, kept && !hit);
        }
    }
    hits
}

/// What a cache of so many bytes answers that drops what it has had for longest, wanted or not.
pub fn fifo(stream: &Stream, cache_bytes: u64) -> Hits {
    fifo_of(stream, cache_bytes, &|access| {
        access.size_bytes + HEAD_BYTES
    })
}

/// The same, where an object takes so much room.
pub fn fifo_of(stream: &Stream, cache_bytes: u64, room: &dyn Fn(&Access) -> u32) -> Hits {
    let mut hits = Hits::default();
    let mut held: Vec<bool> = Vec::new();
    let mut order: VecDeque<(u32, u32)> = VecDeque::new();
    let mut bytes = 0;
    for (at, access) in stream.accesses.iter().enumerate() {
        let object = access.object as usize;
        if held.len() <= object {
            held.resize(object + 1, false);
        }
        let hit = held[object];
        let size = room(access);
        let keep = !hit && u64::from(size) <= cache_bytes;
        if keep {
            held[object] = true;
            order.push_back((access.object, size));
            bytes += u64::from(size);
        }
        while bytes > cache_bytes {
            let Some((oldest, size)) = order.pop_front() else {
                break;
            };
            held[oldest as usize] = false;
            bytes -= u64::from(size);
        }
        if at >= stream.warm {
            hits.count(access, hit, keep);
        }
    }
    hits
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Letters are objects of one size; room for so many.
    fn asked(text: &str, room: u64, cache: impl Fn(&Stream, u64) -> Hits) -> u64 {
        let accesses = text.bytes().map(|letter| Access {
            at_ms: 0,
            object: u32::from(letter),
            server: 0,
            size_bytes: 100,
        });
        let stream = Stream {
            accesses: accesses.collect(),
            warm: 0,
            working_set_bytes: 0,
        };
        cache(&stream, room * u64::from(100 + HEAD_BYTES)).hits
    }

    #[test]
    fn who_looks_ahead_keeps_what_comes_back_soonest() {
        // An LRU of two has none of these; what never comes back takes nobody's place.
        assert_eq!(asked("abcabc", 2, hits), 2);
        assert_eq!(asked("abxaybzab", 2, hits), 4);
        assert_eq!(asked("aaaa", 1, hits), 3);
    }

    #[test]
    fn who_forgets_in_order_does_not_mind_uses() {
        assert_eq!(asked("abaca", 2, fifo), 1);
        assert_eq!(asked("abcabc", 3, fifo), 3);
    }
}
