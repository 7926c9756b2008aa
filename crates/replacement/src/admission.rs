//! Whether a new object is stored at all.
//!
//! On the web most objects are requested once. Storing them costs writes, which wear out flash, and evicts others. An
//! admission rule can wait for a second request:
//!
//! | kind | stored is | price |
//! |---|---|---|
//! | `all` | everything | |
//! | `second-hit` | what was missed before, lately | each object's second request is a miss |
//! | `tinylfu` | what was asked for twice or more lately, by a sketch; all while there is room | the same, once full |
//!
//! `second-hit` remembers misses in two Bloom filters: one is filled with as many misses as objects are expected, then
//! it becomes the elder, and the eldest is cleared. So at least that many misses are remembered, and twice as many at
//! most; about one newcomer in 200 is taken for one that was seen.
//!
//! The caller calls `asked` once for each request, hit or miss, and then `admits` once if it has a response to store.
//!
//! Memory is settled at the start: `all` none, `second-hit` 4 to 8 bytes an expected object, `tinylfu` 8 to 16; some
//! KiB at least. Deterministic: the same calls have the same answers.
//! Not known here: what is stored, and whether the answer is followed.
//! Limits: [`OBJECTS_MAX`] expected objects; with more, memory ends sooner.
//! Source: Maggs, Sitaraman: Algorithmic nuggets in content delivery, 2015 (second hit); TinyLFU as in `sketch`.

use crate::sketch::{Sketch, mix};
use std::fmt;
use std::str::FromStr;

/// Fewer expected objects are taken for this many.
const OBJECTS_MIN: usize = 1 << 10;
/// More are taken for this many: 2 GiB of filters, or a sketch of 2 GiB.
const OBJECTS_MAX: usize = 1 << 28;
/// Bits of a filter for each miss it is to hold.
const MISS_BITS: usize = 16;
/// Bits set by one miss.
const PROBES: u64 = 4;
/// Uses that `tinylfu` wants, the present one included.
const USES_MIN: u8 = 2;

/// Which rule, as a value: for settings and reports. Written as `all`, `second-hit` or `tinylfu`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AdmissionKind {
    /// Everything is stored.
    #[default]
    All,
    /// What was missed before.
    SecondHit,
    /// What was asked for at least twice lately, once the store is full.
    TinyLfu,
}

/// The text names no rule of admission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownAdmission;

impl fmt::Display for UnknownAdmission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("admission is \"all\", \"second-hit\" or \"tinylfu\"")
    }
}

impl std::error::Error for UnknownAdmission {}

impl FromStr for AdmissionKind {
    type Err = UnknownAdmission;

    fn from_str(text: &str) -> Result<Self, UnknownAdmission> {
        match text {
            "all" => Ok(AdmissionKind::All),
            "second-hit" => Ok(AdmissionKind::SecondHit),
            "tinylfu" => Ok(AdmissionKind::TinyLfu),
            _ => Err(UnknownAdmission),
        }
    }
}

impl fmt::Display for AdmissionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AdmissionKind::All => "all",
            AdmissionKind::SecondHit => "second-hit",
            AdmissionKind::TinyLfu => "tinylfu",
        })
    }
}

/// A rule of admission and what it remembers.
#[derive(Clone, Debug)]
pub struct Admission(Memory);

#[derive(Clone, Debug)]
enum Memory {
    All,
    SecondHit(Misses),
    TinyLfu(Sketch),
}

impl Admission {
    /// For a store that will hold about `objects_hint` objects.
    pub fn new(kind: AdmissionKind, objects_hint: usize) -> Self {
        let objects = objects_hint.clamp(OBJECTS_MIN, OBJECTS_MAX);
        Admission(match kind {
            AdmissionKind::All => Memory::All,
            AdmissionKind::SecondHit => Memory::SecondHit(Misses::new(objects)),
            AdmissionKind::TinyLfu => Memory::TinyLfu(Sketch::new(objects)),
        })
    }

    /// Somebody asked for the object whose key has this hash.
    #[inline]
    pub fn asked(&mut self, id: u64) {
        if let Memory::TinyLfu(sketch) = &mut self.0 {
            sketch.count(id);
        }
    }

    /// After `asked` and a miss: should the object be stored? `full` means that another object would have to go.
    pub fn admits(&mut self, id: u64, _size: u64, full: bool) -> bool {
        match &mut self.0 {
            Memory::All => true,
            Memory::SecondHit(misses) => misses.replace(id),
            Memory::TinyLfu(sketch) => !full || sketch.estimate(id) >= USES_MIN,
        }
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        match &self.0 {
            Memory::All => 0,
            Memory::SecondHit(misses) => misses.memory_bytes(),
            Memory::TinyLfu(sketch) => sketch.memory_bytes(),
        }
    }
}

/// The misses of late: a pair of Bloom filters.
#[derive(Clone, Debug)]
struct Misses {
    younger: Vec<u64>,
    elder: Vec<u64>,
    /// Misses in `younger`.
    held: usize,
    held_max: usize,
}

impl Misses {
    fn new(misses: usize) -> Self {
        let words = (misses * MISS_BITS / 64).next_power_of_two();
        Misses {
            younger: vec![0; words],
            elder: vec![0; words],
            held: 0,
            held_max: misses,
        }
    }

    /// Remembers a miss. True if it was remembered already.
    fn replace(&mut self, id: u64) -> bool {
        if self.held == self.held_max {
            std::mem::swap(&mut self.younger, &mut self.elder);
            self.younger.fill(0);
            self.held = 0;
        }
        self.held += 1;
        let hash = mix(id);
        // Odd, so that all the places differ.
        let (first, step) = (hash, (hash >> 32) | 1);
        let mask = self.younger.len() as u64 * 64 - 1;
        let (mut in_younger, mut in_elder) = (true, true);
        for probe in 0..PROBES {
            let place = first.wrapping_add(probe.wrapping_mul(step)) & mask;
            let (word, bit) = ((place / 64) as usize, 1 << (place % 64));
            in_younger &= self.younger[word] & bit != 0;
            in_elder &= self.elder[word] & bit != 0;
            self.younger[word] |= bit;
        }
        in_younger || in_elder
    }

    fn memory_bytes(&self) -> usize {
        (self.younger.capacity() + self.elder.capacity()) * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missed(admission: &mut Admission, id: u64, full: bool) -> bool {
        admission.asked(id);
        admission.admits(id, 1, full)
    }

    #[test]
    fn kinds_are_read_as_they_are_written() {
        for kind in [
            AdmissionKind::All,
            AdmissionKind::SecondHit,
            AdmissionKind::TinyLfu,
        ] {
            assert_eq!(kind.to_string().parse(), Ok(kind));
            assert!(
                UnknownAdmission
                    .to_string()
                    .contains(&format!("\"{kind}\""))
            );
        }
        for text in ["", "All", "second", "tinylfu=2"] {
            assert_eq!(text.parse::<AdmissionKind>(), Err(UnknownAdmission));
        }
    }

    #[test]
    fn all_means_all() {
        let mut admission = Admission::new(AdmissionKind::All, 5);
        assert!(missed(&mut admission, 1, true));
        assert_eq!(admission.memory_bytes(), 0);
    }

    #[test]
    fn the_second_hit_is_stored_if_it_comes_soon() {
        let mut admission = Admission::new(AdmissionKind::SecondHit, 2000);
        for full in [false, true] {
            let id = u64::from(full);
            assert!(!missed(&mut admission, id, full));
            assert!(missed(&mut admission, id, full));
        }
        for id in 10..2000 + 8 {
            missed(&mut admission, id, true);
        }
        assert!(
            missed(&mut admission, 0, true),
            "2000 misses are remembered"
        );
        for id in 10_000..14_002 {
            missed(&mut admission, id, true);
        }
        assert!(!missed(&mut admission, 1, true), "4000 are not");
    }

    #[test]
    fn few_newcomers_are_taken_for_known_ones() {
        let mut admission = Admission::new(AdmissionKind::SecondHit, 10_000);
        let wrong = (0..100_000).filter(|&id| missed(&mut admission, id, true));
        let wrong = wrong.count();
        assert!(wrong < 100_000 / 200, "{wrong}");
    }

    #[test]
    fn tinylfu_is_open_until_full() {
        let mut admission = Admission::new(AdmissionKind::TinyLfu, 2000);
        assert!(missed(&mut admission, 1, false));
        assert!(!missed(&mut admission, 2, true));
        assert!(missed(&mut admission, 2, true));
        assert!(
            missed(&mut admission, 1, true),
            "requests count, also while there is room"
        );
    }

    #[test]
    fn memory_is_bounded_by_the_hint() {
        for (kind, most) in [(AdmissionKind::SecondHit, 8), (AdmissionKind::TinyLfu, 16)] {
            for objects in [1000, 1 << 14, (1 << 14) + 1, 100_000] {
                let bytes = Admission::new(kind, objects).memory_bytes();
                assert!(
                    bytes <= most * objects.max(OBJECTS_MIN),
                    "{kind} {objects}: {bytes}"
                );
            }
        }
    }
}
