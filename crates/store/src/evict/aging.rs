//! Ages markers, so that each leaves soon after the last record stored under it.
//!
//! A sweep goes through the whole index anyway. About three times in a round of the hand a sweep is also a *pass*: each marker that it
//! meets becomes one older. A marker leaves if it was not used since three passes ago and every region was opened since that pass ended:
//! then all records under it are overwritten, or count as such. A marker is used when it is set or looked up, and when a variant is
//! stored under it; that holds the writer's lock, as a pass does. So an unused marker stays for a round of the hand and a third of one.
//!
//! Salts are never given twice (`index/salts`), so aging concerns only room and hits.
//!
//! Not known here: markers, the index.

use crate::sequence::Sequence;

/// Passes to a round of the hand: as many as a marker's age can tell.
const PASSES: usize = 3;

/// When the last passes ended.
#[derive(Debug, Default)]
pub(crate) struct Aging {
    /// The oldest first; 0 stands for a pass before the start.
    ended: [Sequence; PASSES],
    sweeps_since: u32,
    is_passing: bool,
}

impl Aging {
    /// A sweep begins; a round has `sweeps_a_round`. Records that are not younger than `opened` are overwritten.
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

    /// The passes, where sweep n ends at sequence 10 n and all regions were opened within the last `round` sweeps.
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
        // The fourth pass waits for that.
        assert_eq!(aging.ended[0], 101);
        aging.sweep_begins(101, 3);
        assert!(aging.is_passing());
    }
}
