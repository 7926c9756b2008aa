//! When markers grow older: so that they leave when nothing is left that was stored under them, and not much later.
//!
//! A sweep goes through the whole index anyway. About every third of a round of the hand it is a *pass* as well: each marker it meets
//! becomes one older. One that was not used since three passes ago leaves, if every region was opened since that pass ended: then
//! all that was stored under it is overwritten, or counts as that. A marker is used when it is set or looked up, and when a variant is
//! stored under it, with the writer locked, as it is for a pass. So markers stay for a round of the hand and a third of one.
//!
//! Salts are never given twice (`index/salts`); this is about room and hits alone.
//!
//! Not known here: markers, the index.

use crate::sequence::Sequence;

/// Passes to a round of the hand: as many as a marker's age can tell.
const PASSES: usize = 3;

/// When the last passes ended.
#[derive(Debug, Default)]
pub(crate) struct Aging {
    /// The oldest first; 0: before the start.
    ended: [Sequence; PASSES],
    sweeps_since: u32,
    is_passing: bool,
}

impl Aging {
    /// A sweep begins, of so many to a round. `opened`: what is not younger was overwritten.
    pub(crate) fn sweep_begins(&mut self, opened: Sequence, sweeps_a_round: u32) {
        self.sweeps_since += 1;
        let is_time = self.sweeps_since >= sweeps_a_round.div_ceil(PASSES as u32);
        self.is_passing = is_time && opened >= self.ended[0];
    }

    /// Is the sweep under way a pass?
    pub(crate) fn is_passing(&self) -> bool {
        self.is_passing
    }

    /// The sweep has been through the whole index.
    pub(crate) fn sweep_ends(&mut self, now: Sequence) {
        if std::mem::take(&mut self.is_passing) {
            self.ended.rotate_left(1);
            self.ended[PASSES - 1] = now;
            self.sweeps_since = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sweeps of which every one ends at 10 times its number, all regions opened a round of so many sweeps ago. The passes.
    fn passes(round: u64, sweeps: u64) -> Vec<u64> {
        let mut aging = Aging::default();
        let mut passes = Vec::new();
        for sweep in 1..=sweeps {
            aging.sweep_begins(10 * sweep.saturating_sub(round), round as u32);
            passes.extend(aging.is_passing().then_some(sweep));
            aging.sweep_ends(10 * sweep);
        }
        passes
    }

    #[test]
    fn three_passes_take_a_round_or_a_little_more() {
        let passes = passes(12, 100);
        assert_eq!(
            passes[..3],
            [4, 8, 12],
            "what is younger than the store needs no proof"
        );
        for three in passes.windows(4) {
            let took = three[3] - three[0];
            assert!((12..=16).contains(&took), "{three:?}");
        }
    }

    #[test]
    fn no_pass_before_the_regions_of_three_passes_ago_were_opened() {
        let mut aging = Aging::default();
        for sweep in 1..=9 {
            aging.sweep_begins(100, 3);
            aging.sweep_ends(100 + sweep);
        }
        // The fourth waits for that.
        assert_eq!(aging.ended[0], 101);
        aging.sweep_begins(101, 3);
        assert!(aging.is_passing());
    }
}
