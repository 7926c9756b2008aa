//! Salts: the numbers that tell the variants of one marker from those of another one of the same resource.
//!
//! A salt consists of the *era* of the segment and, in its low 16 bits, a *generation*; a marker's entry has room only for that. No
//! salt is given twice to one place of a segment: a marker that changes its list gets the next generation, and a marker that leaves
//! raises the *floor*, the generation at which new markers begin. When a generation would pass 2^16, the segment begins the next
//! era, without markers: all its variants are misses then.
//!
//! Invariant: for each place in the segment, every salt it ever had is below the one it gets next.
//! Not known here: markers, lists, where a place is.

const GENERATION_BITS: u32 = 16;
const GENERATIONS: u32 = 1 << GENERATION_BITS;

/// The salts of one segment. See the head of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Salts {
    era: u32,
    /// At most [`GENERATIONS`]; at that value none is left.
    floor: u32,
}

impl Default for Salts {
    fn default() -> Self {
        Self::of_era(1)
    }
}

impl Salts {
    /// The salts of an era, none of them given yet. Era 0 is not used, so that no salt is 0.
    pub(crate) fn of_era(era: u32) -> Self {
        Self {
            era: era.max(1),
            floor: 0,
        }
    }

    /// The salts as a checkpoint has them; `None` if they are impossible.
    pub(crate) fn of_foreign(era: u32, floor: u32) -> Option<Self> {
        (era > 0 && floor <= GENERATIONS).then_some(Self { era, floor })
    }

    pub(crate) fn era(self) -> u32 {
        self.era
    }

    pub(crate) fn floor(self) -> u32 {
        self.floor
    }

    /// The salt of a marker.
    pub(crate) fn salt(self, generation: u16) -> u64 {
        u64::from(self.era) << GENERATION_BITS | u64::from(generation)
    }

    /// Era and generation of a salt.
    pub(crate) fn parts(salt: u64) -> (u64, u16) {
        (salt >> GENERATION_BITS, salt as u16)
    }

    /// The generation of a new marker. `None` if the era is over.
    pub(crate) fn first(self) -> Option<u16> {
        u16::try_from(self.floor).ok()
    }

    /// The next generation of a present marker, `None` if the era is over. At least the floor: a marker that a scan has found may be
    /// below it, and its place may have had the generations between.
    pub(crate) fn after(self, generation: u16) -> Option<u16> {
        Some(generation.checked_add(1)?.max(self.first()?))
    }

    /// A marker has left.
    pub(crate) fn left(&mut self, generation: u16) {
        self.floor = self.floor.max(u32::from(generation) + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_never_has_a_salt_twice() {
        let mut salts = Salts::default();
        let first = salts.first().unwrap();
        assert_eq!(Salts::parts(salts.salt(first)), (1, 0));
        salts.left(first);
        salts.left(first + 3);
        salts.left(first + 1);
        assert_eq!(salts.first(), Some(4));
        assert_eq!((salts.after(1), salts.after(7)), (Some(4), Some(8)));
        assert_eq!(salts.after(u16::MAX), None);
        salts.left(u16::MAX);
        assert_eq!(salts.first(), None);
        assert_eq!(salts.after(3), None);
        let next = Salts::of_era(salts.era() + 1);
        assert!(next.salt(0) > salts.salt(u16::MAX));
    }

    #[test]
    fn foreign_numbers_are_judged() {
        let salts = Salts::of_era(7);
        assert_eq!(Salts::of_foreign(salts.era(), salts.floor()), Some(salts));
        assert_eq!(Salts::of_foreign(0, 0), None);
        assert_eq!(Salts::of_foreign(1, GENERATIONS + 1), None);
    }
}
