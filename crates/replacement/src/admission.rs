//! Admission: whether a new object is stored at all.
//!
//! On the web most objects are requested once. Storing them costs writes, which wear out flash, and evicts others. An
//! admission rule can wait for a second request:
//!
//! | kind | stored objects | price |
//! |---|---|---|
//! | `all` | everything | |
//! | `second-hit` | those missed before, recently | the second request of each object is a miss |
//! | `tinylfu` | those requested at least twice recently, by a sketch; all while there is room | the same, once full |
//! | `by-size` | those at most half as long as the mean miss, longer ones as in `second-hit`; all while there is room, or while storing all brings more (`trial`) | the second request of long objects only, once full |
//!
//! `second-hit` and `by-size` remember misses in two Bloom filters. One takes as many misses as objects are expected, then it becomes the elder, and
//! the previous elder is dropped. So between one and two times that many misses are remembered. About one new object in 200 is taken for a
//! repeated one. The expected number of objects is asked again for each filter.
//!
//! The mean of `by-size` is the mean of misses, because the mean of stored objects would fall with each refusal.
//!
//! The caller calls `asked` once for each request, hit or miss. Then it calls `hit`, or `admits` if it has a response to store.
//!
//! Memory: `all` none; `second-hit` and `by-size` 4 to 8 bytes for each object expected at present, `by-size` up to 2 MiB more; `tinylfu` 8 to 16 for
//! each object expected at the start; some KiB at least. Deterministic: the same calls give the same answers.
//! Not known here: what is stored, and whether the caller follows the answer.
//! Limits: [`OBJECTS_MAX`] expected objects; with more, misses are forgotten sooner.
//! Source: Maggs, Sitaraman: Algorithmic nuggets in content delivery, 2015 (second hit); TinyLFU as in `sketch`.

use crate::sketch::{Sketch, mix};
use crate::trial::Trial;
use std::fmt;
use std::str::FromStr;

/// The least number of expected objects; fewer count as this many.
const OBJECTS_MIN: usize = 1 << 10;
/// The largest number of expected objects; more count as this many: 2 GiB of filters, or a sketch of 2 GiB.
const OBJECTS_MAX: usize = 1 << 28;
/// Bits of a filter for each miss that it takes.
const MISS_BITS: usize = 16;
/// Bits set by one miss.
const PROBES: u64 = 4;
/// An object is long if it is longer than the mean miss divided by this.
const LONG_PART: u64 = 2;
/// At this number of misses both sums are halved, so that the mean follows the traffic.
const MEAN_MISSES: u64 = 1 << 16;
/// Uses that `tinylfu` requires, the present one included.
const USES_MIN: u8 = 2;

/// The kind of admission, as a value for settings and reports. Written as `all`, `second-hit`, `tinylfu` or `by-size`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AdmissionKind {
    /// Everything is stored.
    All,
    /// Objects that were missed before.
    SecondHit,
    /// Objects requested at least twice recently; everything until the store is full.
    TinyLfu,
    /// Short objects, and long ones that were missed before; everything until the store is full.
    #[default]
    BySize,
}

/// The text is not a kind of admission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownAdmission;

impl fmt::Display for UnknownAdmission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("admission is \"all\", \"second-hit\", \"tinylfu\" or \"by-size\"")
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
            "by-size" => Ok(AdmissionKind::BySize),
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
            AdmissionKind::BySize => "by-size",
        })
    }
}

/// A kind of admission with its memory.
#[derive(Clone, Debug)]
pub struct Admission(Memory);

#[derive(Clone, Debug)]
enum Memory {
    All,
    SecondHit(Misses),
    TinyLfu(Sketch),
    BySize(Lengths, Misses, Box<Trial>),
}

impl Admission {
    /// For a store of so many bytes that will hold about `objects_hint` objects.
    pub fn new(kind: AdmissionKind, objects_hint: usize, store_bytes: u64) -> Self {
        let objects = objects_hint.clamp(OBJECTS_MIN, OBJECTS_MAX);
        Admission(match kind {
            AdmissionKind::All => Memory::All,
            AdmissionKind::SecondHit => Memory::SecondHit(Misses::new(objects)),
            AdmissionKind::TinyLfu => Memory::TinyLfu(Sketch::new(objects)),
            AdmissionKind::BySize => Memory::BySize(
                Lengths::default(),
                Misses::new(objects),
                Box::new(Trial::new(store_bytes)),
            ),
        })
    }

    /// Counts a request for the object whose key has this hash.
    #[inline]
    pub fn asked(&mut self, id: u64) {
        if let Memory::TinyLfu(sketch) = &mut self.0 {
            sketch.count(id);
        }
    }

    /// To be called after `asked` if the store had the object, of this size.
    pub fn hit(&mut self, id: u64, size: u64) {
        if let Memory::BySize(.., trial) = &mut self.0 {
            trial.asked(id, size);
        }
    }

    /// To be called after `asked` on a miss: should the object be stored? `full`: another object would have to be evicted. `objects`: how many
    /// objects the full store holds, as far as known.
    pub fn admits(
        &mut self,
        id: u64,
        size: u64,
        full: bool,
        objects: impl FnOnce() -> usize,
    ) -> bool {
        match &mut self.0 {
            Memory::All => true,
            Memory::SecondHit(misses) => misses.replace(id, objects),
            Memory::BySize(lengths, misses, trial) => {
                trial.asked(id, size);
                let is_wanted = !lengths.is_long(size) || misses.replace(id, objects);
                is_wanted || !full || trial.is_all_better()
            }
            Memory::TinyLfu(sketch) => !full || sketch.estimate(id) >= USES_MIN,
        }
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        match &self.0 {
            Memory::All => 0,
            Memory::SecondHit(misses) => misses.memory_bytes(),
            Memory::BySize(_, misses, trial) => misses.memory_bytes() + trial.memory_bytes(),
            Memory::TinyLfu(sketch) => sketch.memory_bytes(),
        }
    }
}

/// The mean length of recent misses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lengths {
    misses: u64,
    bytes: u64,
}

impl Lengths {
    /// Counts a miss. True: it is long. A size of 0 may be an unknown length: it is not long, and does not count for the mean.
    pub(crate) fn is_long(&mut self, size: u64) -> bool {
        if size == 0 {
            return false;
        }
        self.misses += 1;
        self.bytes = self.bytes.saturating_add(size);
        let mean = self.bytes / self.misses;
        if self.misses >= MEAN_MISSES {
            (self.misses, self.bytes) = (self.misses / 2, self.bytes / 2);
        }
        size > mean / LONG_PART
    }
}

/// Recent misses, in a pair of Bloom filters.
#[derive(Clone, Debug)]
pub(crate) struct Misses {
    younger: Vec<u64>,
    elder: Vec<u64>,
    /// Misses in `younger`.
    held: usize,
    held_max: usize,
}

/// The place of a probe in a filter: a word, and the bit in it.
fn place(filter: &[u64], place: u64) -> (usize, u64) {
    let place = place & (filter.len() as u64 * 64 - 1);
    ((place / 64) as usize, 1 << (place % 64))
}

fn filter(misses: usize) -> Vec<u64> {
    vec![0; (misses * MISS_BITS / 64).next_power_of_two()]
}

impl Misses {
    pub(crate) fn new(misses: usize) -> Self {
        Misses {
            younger: filter(misses),
            elder: filter(misses),
            held: 0,
            held_max: misses,
        }
    }

    /// Remembers a miss. True if it was remembered already. `objects`: the number of objects to size a new filter for.
    pub(crate) fn replace(&mut self, id: u64, objects: impl FnOnce() -> usize) -> bool {
        if self.held == self.held_max {
            self.held_max = objects().clamp(OBJECTS_MIN, OBJECTS_MAX);
            self.elder = std::mem::replace(&mut self.younger, filter(self.held_max));
            self.held = 0;
        }
        self.held += 1;
        let hash = mix(id);
        // Odd, so that all places differ.
        let (first, step) = (hash, (hash >> 32) | 1);
        let (mut in_younger, mut in_elder) = (true, true);
        for probe in 0..PROBES {
            let at = first.wrapping_add(probe.wrapping_mul(step));
            let (word, bit) = place(&self.elder, at);
            in_elder &= self.elder[word] & bit != 0;
            let (word, bit) = place(&self.younger, at);
            in_younger &= self.younger[word] & bit != 0;
            self.younger[word] |= bit;
        }
        in_younger || in_elder
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        (self.younger.capacity() + self.elder.capacity()) * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: u64 = 1 << 30;

    fn missed(admission: &mut Admission, id: u64, full: bool) -> bool {
        admission.asked(id);
        admission.admits(id, 1, full, || 2000)
    }

    #[test]
    fn kinds_are_read_as_they_are_written() {
        for kind in [
            AdmissionKind::All,
            AdmissionKind::SecondHit,
            AdmissionKind::TinyLfu,
            AdmissionKind::BySize,
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
        let mut admission = Admission::new(AdmissionKind::All, 5, STORE);
        assert!(missed(&mut admission, 1, true));
        assert_eq!(admission.memory_bytes(), 0);
    }

    #[test]
    fn the_second_hit_is_stored_if_it_comes_soon() {
        let mut admission = Admission::new(AdmissionKind::SecondHit, 2000, STORE);
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
    fn by_size_long_ones_wait_for_a_second_miss() {
        let mut admission = Admission::new(AdmissionKind::BySize, 2000, STORE);
        let mut missed = |id, size| admission.admits(id, size, true, || 2000);
        // The first object is itself the mean. After that the means are 550, 400, 343.
        assert!(!missed(1, 1000));
        assert!(missed(2, 100));
        assert!(missed(3, 100));
        assert!(!missed(4, 175));
        assert!(missed(4, 175) && missed(1, 1000));
        (10..100).for_each(|id| assert!(missed(id, 0), "not known"));
        assert!(!missed(5, 1000) && missed(6, 100), "the mean is as it was");
        let mut has_room = |id| admission.admits(id, 1000, false, || 2000);
        assert!(has_room(7), "nothing has to go for it");
        assert!(
            admission.admits(7, 1000, true, || 2000),
            "its miss was counted"
        );
    }

    #[test]
    fn the_mean_follows_what_is_missed_now() {
        let mut lengths = Lengths::default();
        (0..MEAN_MISSES).for_each(|_| _ = lengths.is_long(1 << 20));
        (0..8 * MEAN_MISSES).for_each(|_| _ = lengths.is_long(1 << 10));
        assert!(lengths.is_long(4 << 10));
        assert!(
            lengths.is_long(u64::MAX),
            "and no length is too long for it"
        );
    }

    #[test]
    fn a_new_filter_is_for_as_many_as_the_store_holds_by_then() {
        let mut admission = Admission::new(AdmissionKind::SecondHit, 2000, STORE);
        let mut missed = |id| admission.admits(id, 1, true, || 50_000);
        (0..40_000).for_each(|id| _ = missed(id));
        assert!(
            (3000..40_000).all(&mut missed),
            "more than 4000 are remembered"
        );
        assert!(admission.memory_bytes() <= 8 * 50_000);
    }

    #[test]
    fn few_newcomers_are_taken_for_known_ones() {
        let mut admission = Admission::new(AdmissionKind::SecondHit, 10_000, STORE);
        let admits = |&id: &u64| admission.admits(id, 1, true, || 10_000);
        let wrong = (0..100_000).filter(admits);
        let wrong = wrong.count();
        assert!(wrong < 100_000 / 200, "{wrong}");
    }

    #[test]
    fn tinylfu_is_open_until_full() {
        let mut admission = Admission::new(AdmissionKind::TinyLfu, 2000, STORE);
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
        for (kind, most, beside) in [
            (AdmissionKind::SecondHit, 8, 0),
            (AdmissionKind::BySize, 8, 2 << 20),
            (AdmissionKind::TinyLfu, 16, 0),
        ] {
            for objects in [1000, 1 << 14, (1 << 14) + 1, 100_000] {
                let bytes = Admission::new(kind, objects, STORE).memory_bytes();
                assert!(
                    bytes <= most * objects.max(OBJECTS_MIN) + beside,
                    "{kind} {objects}: {bytes}"
                );
            }
        }
    }
}
