//! What an exact LRU of the cache's size would answer: a good proxy of that size comes near this hit ratio.
//!
//! It follows the same requests by the same rules as the ideal cache (`ideal`), and evicts the object that was used longest ago when
//! it needs room. Whatever it keeps, the ideal cache keeps too, in the same version. So it only records which objects are there:
//! an object that is there, and fresh for the ideal cache, is a hit.
//!
//! An object takes its body and [`HEAD_BYTES`] for the head that the servers send. Not counted: metadata, rounding to blocks, free
//! space for writes, and a proxy's memory beside its disk. An object larger than the whole cache is not stored and evicts
//! nothing. A fresh object that is requested becomes the most recent, and so does a stored one. A request that finds an old
//! version and stores nothing does not change the order.
//!
//! Not known here: the rules (`ideal`), time.
//! Limits: memory is some 60 bytes for each object kept, about 0.6 % of the cache's size with objects of PolyMix. Beyond `OBJECTS_MAX`
//! objects (4 GB; a cache of some 600 GiB) the coldest object is evicted although there is room, and the hit ratio is that of a
//! smaller cache.   Source: issue 6, must-show 5.

use std::collections::HashMap;

use replacement::Lru;

use crate::content::{Kind, ObjectId};
use crate::ideal::Meaning;

/// Bytes of an object besides its body: the head that the servers send. A test compares it with a real head.
pub const HEAD_BYTES: u64 = 256;
/// Objects kept, at most.
const OBJECTS_MAX: usize = 1 << 26;

/// An exact LRU without contents.
#[derive(Debug)]
pub struct ExactLru {
    capacity_bytes: u64,
    kept_bytes: u64,
    objects_max: usize,
    /// For each kind: slots of the kept objects, by name.
    slots: [HashMap<u64, u32>; Kind::ALL.len()],
    objects: Vec<Kept>,
    free: Vec<u32>,
    order: Lru,
}

/// What a slot holds.
#[derive(Debug, Clone, Copy)]
struct Kept {
    kind: Kind,
    name: u64,
    bytes: u64,
}

/// Server and number of an object as one number. All objects are of one world.
fn name(id: ObjectId) -> u64 {
    // Numbers are below 2^48 (`content::NUMBER_END`, asserted where an object's hash is taken).
    u64::from(id.server) << 48 | id.number
}

impl ExactLru {
    /// An empty LRU. With a capacity of 0 it stays empty.
    #[must_use]
    pub fn new(capacity_bytes: u64) -> Self {
        Self {
            capacity_bytes,
            kept_bytes: 0,
            objects_max: OBJECTS_MAX,
            slots: Default::default(),
            objects: Vec::new(),
            free: Vec::new(),
            order: Lru::new(),
        }
    }

    /// Whether the LRU answers a request for this object; `meaning` is that of the ideal cache. Stores the answer if it may.
    pub fn ask(&mut self, id: ObjectId, meaning: Meaning) -> bool {
        match meaning {
            Meaning::None => false,
            Meaning::Forgets => {
                self.forget(id);
                false
            }
            Meaning::Looks { fresh } => fresh && self.touch(id),
            Meaning::Brings { .. } => {
                let there = self.touch(id);
                if !there {
                    self.keep(id);
                }
                there && meaning.is_hit()
            }
        }
    }

    /// Bytes of all kept objects.
    #[must_use]
    pub fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    fn touch(&mut self, id: ObjectId) -> bool {
        let slot = self.slots[id.kind.index()].get(&name(id));
        slot.is_some_and(|slot| self.order.touch(*slot))
    }

    fn forget(&mut self, id: ObjectId) {
        if let Some(slot) = self.slots[id.kind.index()].remove(&name(id)) {
            self.order.remove(slot);
            self.vacate(slot);
        }
    }

    /// Stores an object that is not there.
    fn keep(&mut self, id: ObjectId) {
        let bytes = id.size() + HEAD_BYTES;
        if bytes > self.capacity_bytes {
            return;
        }
        while self.kept_bytes + bytes > self.capacity_bytes || self.order.len() >= self.objects_max
        {
            let Some(coldest) = self.order.pop_coldest() else {
                return;
            };
            let Kept { kind, name, .. } = self.objects[coldest as usize];
            self.slots[kind.index()].remove(&name);
            self.vacate(coldest);
        }
        let kept = Kept {
            kind: id.kind,
            name: name(id),
            bytes,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.objects[slot as usize] = kept;
                slot
            }
            None => {
                let slot = u32::try_from(self.objects.len()).expect("at most OBJECTS_MAX");
                self.objects.push(kept);
                slot
            }
        };
        self.slots[id.kind.index()].insert(kept.name, slot);
        self.order.insert(slot);
        self.kept_bytes += bytes;
    }

    fn vacate(&mut self, slot: u32) {
        self.kept_bytes -= self.objects[slot as usize].bytes;
        self.free.push(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An object named by a letter.
    fn object(letter: char) -> ObjectId {
        ObjectId {
            world: 1,
            server: 0,
            kind: Kind::Other,
            number: u64::from(u32::from(letter)),
        }
    }

    fn bytes(letters: &str) -> u64 {
        letters
            .chars()
            .map(|l| object(l).size() + HEAD_BYTES)
            .sum::<u64>()
    }

    /// The results of requests, a letter each: `a` stores a, `A` looks for it, `-a` drops it, `!a` reloads it, `?a` stores a version that
    /// no cache has yet. Otherwise an object that was seen is fresh in the ideal cache. The result has + for a hit.
    fn asked(lru: &mut ExactLru, script: &str) -> String {
        let mut hits = String::new();
        let mut before = ' ';
        let mut seen = std::collections::BTreeSet::new();
        for letter in script.chars() {
            if letter.is_ascii_alphabetic() {
                let id = object(letter.to_ascii_lowercase());
                let fresh = seen.contains(&id.number) && before != '?';
                let meaning = match before {
                    '-' => Meaning::Forgets,
                    _ if letter.is_ascii_uppercase() => Meaning::Looks { fresh },
                    _ => Meaning::Brings {
                        fresh,
                        reload: before == '!',
                    },
                };
                if before == '-' {
                    seen.remove(&id.number);
                } else if letter.is_ascii_lowercase() {
                    seen.insert(id.number);
                }
                hits.push(if lru.ask(id, meaning) { '+' } else { '.' });
            }
            before = letter;
        }
        hits
    }

    #[test]
    fn what_was_not_wanted_for_longest_goes() {
        let room = bytes("abc");
        let mut lru = ExactLru::new(room);
        assert_eq!(asked(&mut lru, "abcabc"), "...+++");
        assert_eq!(lru.kept_bytes(), room);
        // d evicts a, and as many more as it needs; c is evicted last.
        let mut lru = ExactLru::new(bytes("abc"));
        assert_eq!(asked(&mut lru, "abc d C"), "....+");
        let mut lru = ExactLru::new(bytes("abc"));
        assert_eq!(asked(&mut lru, "abc a d A"), "...+.+");
        assert!(lru.kept_bytes() <= room);
    }

    #[test]
    fn looks_and_reloads_count_as_wanted_and_bring_as_they_should() {
        let fresh = || ExactLru::new(bytes("abc"));
        assert_eq!(asked(&mut fresh(), "abc A d A"), "...+.+");
        assert_eq!(asked(&mut fresh(), "A A a A"), "...+");
        assert_eq!(asked(&mut fresh(), "abc !a d A"), ".....+");
        assert_eq!(asked(&mut fresh(), "a ?a a"), "..+");
        assert_eq!(asked(&mut fresh(), "a -a a a"), "...+");
    }

    #[test]
    fn what_is_forgotten_makes_room() {
        let mut lru = ExactLru::new(bytes("ab"));
        assert_eq!(asked(&mut lru, "ab -a"), "...");
        assert_eq!(lru.kept_bytes(), bytes("b"));
        assert_eq!(asked(&mut lru, "-a"), ".");
        assert_eq!(lru.kept_bytes(), bytes("b"));
    }

    #[test]
    fn what_is_larger_than_the_cache_drives_nothing_out() {
        let (small, large) = if bytes("a") < bytes("b") {
            ('a', 'b')
        } else {
            ('b', 'a')
        };
        let mut lru = ExactLru::new(bytes(&small.to_string()));
        let script = format!("{small}{large}{small}{large}");
        assert_eq!(asked(&mut lru, &script), "..+.");
        assert_eq!(asked(&mut ExactLru::new(0), "aaa"), "...");
    }

    #[test]
    fn there_are_no_more_objects_than_memory_allows() {
        let mut lru = ExactLru {
            objects_max: 2,
            ..ExactLru::new(u64::MAX)
        };
        assert_eq!(asked(&mut lru, "abcABC"), "....++");
    }

    #[test]
    fn the_head_is_as_long_as_the_servers_is() {
        let mut head = Vec::new();
        let reply = crate::wire::Reply {
            status: 200,
            length: 12_345,
            range: None,
            cachable: true,
            now_s: 1_700_000_000,
            modified_s: 1_690_000_000,
            expires_s: 1_710_000_000,
            exchange: 7,
            version: 3,
            made_ms: 1_700_000_000_000,
            checksum: None,
            keep_alive: true,
        };
        crate::wire::write_reply(&reply, crate::wire::Minor::One, &mut head);
        let found = head.len() as u64;
        assert!(found.abs_diff(HEAD_BYTES) * 10 < HEAD_BYTES, "{found}");
    }
}
