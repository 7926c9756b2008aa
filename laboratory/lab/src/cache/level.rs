//! One cache: its size in bytes, a replacement policy, and a rule of admission.
//!
//! An object's number is its slot, so nothing is searched. Objects are evicted before another one is inserted, as in the production
//! store. An object larger than the cache is not kept.
//!
//! Memory: 8 bytes for every object number, and the memory of the policy.
//! Not known here: the tier behind the cache.

use polymix::random::mix;
use replacement::{Admission, AdmissionKind, Policy};
use serde::Serialize;

use super::policy::PolicyKind;

/// Mean object size assumed by rules of admission, which have to know how many objects will fit.
const OBJECT_BYTES_MEAN: u64 = 8 << 10;
const ABSENT: u32 = u32::MAX;

/// Size, replacement policy and rule of admission of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelSettings {
    /// Bytes of objects that fit, without any overhead.
    pub bytes: u64,
    /// Chooses the object to evict.
    pub policy: PolicyKind,
    /// Decides whether a new object is kept.
    pub admission: AdmissionKind,
}

/// How many objects a cache of this size is assumed to hold.
fn objects_hint(bytes: u64) -> usize {
    usize::try_from(bytes / OBJECT_BYTES_MEAN).unwrap_or(usize::MAX)
}

impl LevelSettings {
    /// Exact LRU that admits every object.
    pub fn lru(bytes: u64) -> Self {
        LevelSettings {
            bytes,
            policy: PolicyKind::LRU,
            admission: AdmissionKind::All,
        }
    }
}

/// The outcome of an insertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Insertion {
    /// The object is kept.
    Kept,
    /// The object is larger than the cache.
    TooLarge,
    /// The rule of admission or the policy refused the object.
    Refused,
}

/// A cache: the set of objects it holds.
pub struct Level {
    bytes_max: u64,
    bytes: u64,
    objects: u64,
    policy: Box<dyn Policy>,
    admission: Admission,
    /// Sizes of the objects held; `ABSENT` for all others.
    sizes: Vec<u32>,
}

impl Level {
    /// An empty cache.
    pub fn new(settings: LevelSettings) -> Self {
        Level {
            bytes_max: settings.bytes,
            bytes: 0,
            objects: 0,
            policy: settings.policy.build(),
            admission: Admission::new(
                settings.admission,
                objects_hint(settings.bytes),
                settings.bytes,
            ),
            sizes: Vec::new(),
        }
    }

    /// The size with which an object is held; `None` if it is not held.
    pub fn held(&self, object: u32) -> Option<u32> {
        let size = self.sizes.get(object as usize);
        size.copied().filter(|&size| size != ABSENT)
    }

    /// A request for an object of this size; true for a hit. If the cache holds an older version (with another size), that version is
    /// removed and its size is stored in `replaced`.
    pub fn ask(&mut self, object: u32, size_bytes: u32, replaced: &mut Option<u32>) -> bool {
        let id = mix(u64::from(object));
        self.admission.asked(id);
        match self.held(object) {
            Some(size) if size == size_bytes => {
                self.admission.hit(id, u64::from(size));
                self.policy.touch(object);
                true
            }
            Some(size) => {
                self.policy.remove(object);
                self.leave(object);
                *replaced = Some(size);
                false
            }
            None => false,
        }
    }

    /// Inserts an object that is not held. `evicted` is called with the number and size of each object evicted for it.
    pub fn insert(
        &mut self,
        object: u32,
        size_bytes: u32,
        mut evicted: impl FnMut(u32, u32),
    ) -> Insertion {
        let size = u64::from(size_bytes);
        if size > self.bytes_max {
            return Insertion::TooLarge;
        }
        let id = mix(u64::from(object));
        let full = self.bytes + size > self.bytes_max;
        let hint = || objects_hint(self.bytes_max);
        if !self.policy.admits(size) || !self.admission.admits(id, size, full, hint) {
            return Insertion::Refused;
        }
        while self.bytes + size > self.bytes_max {
            let victim = self.policy.victim();
            let victim =
                victim.expect("bytes are held by objects, and each is in the policy's order");
            evicted(victim, self.leave(victim));
        }
        self.policy.insert(object, size, id);
        if self.sizes.len() <= object as usize {
            self.sizes.resize(object as usize + 1, ABSENT);
        }
        self.sizes[object as usize] = size_bytes;
        self.bytes += size;
        self.objects += 1;
        Insertion::Kept
    }

    /// Forgets an object that the policy has removed already.
    fn leave(&mut self, object: u32) -> u32 {
        let size = std::mem::replace(&mut self.sizes[object as usize], ABSENT);
        assert!(size != ABSENT, "object {object} leaves and is not here");
        self.bytes -= u64::from(size);
        self.objects -= 1;
        size
    }

    /// Bytes of objects that fit.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Objects held.
    pub fn objects(&self) -> u64 {
        self.objects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request, followed by an insertion if it missed; returns the hit and the evicted objects.
    fn get(level: &mut Level, object: u32, size_bytes: u32) -> (bool, Vec<u32>) {
        let mut evicted = Vec::new();
        let hit = level.ask(object, size_bytes, &mut None);
        if !hit {
            level.insert(object, size_bytes, |victim, _| evicted.push(victim));
        }
        (hit, evicted)
    }

    #[test]
    fn what_was_used_least_recently_leaves() {
        let mut level = Level::new(LevelSettings::lru(10));
        for object in [1, 2, 3] {
            assert_eq!(get(&mut level, object, 3), (false, vec![]));
        }
        assert_eq!(get(&mut level, 1, 3), (true, vec![]));
        assert_eq!(get(&mut level, 4, 6), (false, vec![2, 3]));
        assert_eq!(
            (level.bytes(), level.objects(), level.held(4)),
            (9, 2, Some(6))
        );
    }

    #[test]
    fn a_new_version_is_another_object() {
        let mut level = Level::new(LevelSettings::lru(10));
        get(&mut level, 1, 3);
        let mut replaced = None;
        assert!(!level.ask(1, 4, &mut replaced));
        assert_eq!((replaced, level.bytes(), level.held(1)), (Some(3), 0, None));
    }

    #[test]
    fn what_does_not_fit_stays_out_and_drives_nothing_out() {
        let mut level = Level::new(LevelSettings::lru(10));
        get(&mut level, 1, 10);
        assert_eq!(
            level.insert(2, 11, |_, _| panic!("evicted")),
            Insertion::TooLarge
        );
        assert_eq!(level.objects(), 1);
    }

    #[test]
    fn admission_and_policy_may_refuse() {
        let settings = LevelSettings {
            admission: AdmissionKind::SecondHit,
            ..LevelSettings::lru(10)
        };
        let mut level = Level::new(settings);
        assert_eq!(level.insert(1, 1, |_, _| {}), Insertion::Refused);
        assert_eq!(level.insert(1, 1, |_, _| {}), Insertion::Kept);
        let policy = "lru-threshold=5".parse().unwrap();
        let mut level = Level::new(LevelSettings {
            policy,
            ..LevelSettings::lru(10)
        });
        assert_eq!(level.insert(1, 6, |_, _| {}), Insertion::Refused);
    }
}
