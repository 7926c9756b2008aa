//! Pushes whose end a front does not know: what it has registered must be taken back, unless the node has it.
//!
//! The front says WITHDRAWN for each, and again on the next link if that one is lost, until the node answers with PUSHED. Only the node can
//! tell whether another name has the same bits, so the front clears nothing itself.
//!
//! Not known here: links, when a push has failed.
//! Limits: [`WITHDRAWALS_MAX`]. Beyond that the oldest is forgotten ([`Withdrawals::forgotten`]): it is a false hit until the next full copy.

use std::collections::VecDeque;

use crate::frames::Withdrawn;

/// Withdrawals that wait for an answer at most.
pub const WITHDRAWALS_MAX: usize = 4096;

/// See the head of the file.
#[derive(Debug, Default)]
pub struct Withdrawals {
    /// By node, the oldest first.
    waiting: VecDeque<(u8, Withdrawn)>,
    forgotten: u64,
}

impl Withdrawals {
    /// One more; it is to be sent now if the node is linked.
    pub fn add(&mut self, node: u8, withdrawn: Withdrawn) {
        self.waiting.push_back((node, withdrawn));
        if self.waiting.len() > WITHDRAWALS_MAX {
            self.waiting.pop_front();
            self.forgotten += 1;
        }
    }

    /// The node has answered for this number: once for each time that it was told. A later withdrawal of the same number waits on.
    pub fn answered(&mut self, node: u8, column: u8, number: u64) {
        let is_it = |(to, w): &(u8, Withdrawn)| (*to, w.column, w.number) == (node, column, number);
        if let Some(oldest) = self.waiting.iter().position(is_it) {
            self.waiting.remove(oldest);
        }
    }

    /// What a new link to the node is to say.
    pub fn of(&self, node: u8) -> impl Iterator<Item = Withdrawn> {
        let of_node = self.waiting.iter().filter(move |(to, _)| *to == node);
        of_node.map(|&(_, withdrawn)| withdrawn)
    }

    /// The node is no member any more, or has none of what it had.
    pub fn remove(&mut self, node: u8) {
        self.waiting.retain(|(to, _)| *to != node);
    }

    /// Withdrawals that wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Does none wait?
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Withdrawals that were forgotten because they were too many.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_withdrawal_waits_for_its_answer() {
        let mut all = Withdrawals::default();
        let withdrawn = |number| Withdrawn { column: 0, number };
        all.add(1, withdrawn(7));
        all.add(2, withdrawn(7));
        all.add(1, withdrawn(8));
        all.add(1, withdrawn(8));
        all.answered(1, 0, 7);
        all.answered(1, 0, 8);
        all.answered(1, 1, 8);
        assert_eq!(all.of(1).collect::<Vec<_>>(), [withdrawn(8)]);
        assert_eq!(all.of(2).count(), 1);
        (0..WITHDRAWALS_MAX as u64).for_each(|number| all.add(3, withdrawn(number)));
        assert_eq!((all.len(), all.forgotten()), (WITHDRAWALS_MAX, 2));
    }
}
