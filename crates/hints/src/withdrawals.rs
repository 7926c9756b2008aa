//! Withdrawals that may not have reached their node.
//!
//! A front that does not know whether its push was stored sends WITHDRAWN, and the node clears marks that it does not have. The node does not
//! answer. A withdrawal is lost if it could not be sent, and perhaps if its link has ended since. Its marks would then stay set for as long as
//! the column is followed, so the front asks for a full copy of the node's columns over the next link ([`crate::View::doubt`]).
//!
//! Several workers withdraw pushes; one task keeps the link.
//!
//! Not known here: links, frames, when a push has failed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The withdrawals sent to one node; described at the head of this file.
#[derive(Debug, Default)]
pub struct Withdrawals {
    begun: AtomicU64,
    /// The value of `begun` when the last link ended.
    begun_before: AtomicU64,
    are_lost: AtomicBool,
}

impl Withdrawals {
    /// Sends a withdrawal by calling `send`, which returns false if it cannot.
    pub fn send(&self, send: impl FnOnce() -> bool) {
        // Count first: a withdrawal that the end of the link discards has then been counted.
        self.begun.fetch_add(1, Ordering::SeqCst);
        if !send() {
            self.are_lost.store(true, Ordering::SeqCst);
        }
    }

    /// The link has ended, and frames waiting for it were discarded.
    pub fn link_ended(&self) {
        let begun = self.begun.load(Ordering::SeqCst);
        if self.begun_before.swap(begun, Ordering::SeqCst) != begun {
            self.are_lost.store(true, Ordering::SeqCst);
        }
    }

    /// May the node have missed a withdrawal? Then the link has to end.
    pub fn are_lost(&self) -> bool {
        self.are_lost.load(Ordering::SeqCst)
    }

    /// A new link begins. True: the node may have missed a withdrawal before it.
    pub fn link_begins(&self) -> bool {
        self.are_lost.swap(false, Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_withdrawal_is_lost_if_it_was_not_sent_or_its_link_has_ended() {
        let withdrawals = Withdrawals::default();
        withdrawals.link_ended();
        assert!(!withdrawals.link_begins(), "there was none");
        withdrawals.send(|| true);
        assert!(!withdrawals.are_lost());
        withdrawals.link_ended();
        assert!(withdrawals.link_begins());
        withdrawals.link_ended();
        assert!(!withdrawals.link_begins(), "none since");
        withdrawals.send(|| false);
        assert!(withdrawals.are_lost());
    }
}
