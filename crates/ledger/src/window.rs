//! The window of a stream to an origin: the bytes that the origin may send before they are asked for.
//!
//! The ordinary window is small. The part beyond that is *lent*, and counts whether it is filled or not; received bytes beyond the loan are counted
//! as they come. The holder is not paused for them, because reading its body is what frees them. But it may have to leave for them.
//!
//! Not known here: streams, frames.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use bytes::Bytes;

use super::{Holder, Ledger, Loan};

/// See the head of the file.
pub struct Window {
    holder: Arc<Holder>,
    loan: Loan,
    /// Memory of bytes received and not read.
    bytes: u64,
    /// The part of `bytes` beyond the loan.
    counted: u64,
}

impl Window {
    /// An empty window of the ordinary size. `holder`: the connection that the memory is counted to.
    pub fn new(ledger: &Ledger, holder: Arc<Holder>) -> Window {
        Window {
            holder,
            loan: ledger.loan(),
            bytes: 0,
            counted: 0,
        }
    }

    /// Asks for `wanted` bytes beyond the ordinary size. Returns how many more the origin may send now.
    pub fn lend(&mut self, wanted: u64) -> u64 {
        let lacks = wanted.saturating_sub(self.loan.bytes);
        if lacks == 0 {
            return 0;
        }
        let more = self.loan.raise(lacks);
        self.holds(self.bytes);
        more
    }

    /// Sets the memory of bytes received and not read.
    pub fn holds(&mut self, bytes: u64) {
        let counted = bytes.saturating_sub(self.loan.bytes);
        for (count, now, before) in [
            (&self.holder.book.promised, counted, self.counted),
            (&self.holder.pinned, bytes, self.bytes),
        ] {
            count.fetch_add(now, Relaxed);
            count.fetch_sub(before, Relaxed);
        }
        (self.bytes, self.counted) = (bytes, counted);
    }

    /// Counts a piece sent in the other direction, until its last reference is dropped.
    pub fn count(&self, piece: Bytes) -> Bytes {
        self.holder.count(piece)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.holds(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const MIB: u64 = 1 << 20;

    #[test]
    fn what_is_lent_and_what_comes_beyond_it_count() {
        let ledger = Ledger::new(4 * MIB);
        let mut window = Window::new(&ledger, ledger.holder());
        window.holds(1000);
        assert_eq!(ledger.bytes(), 1000);
        assert_eq!(window.lend(2000), 2000);
        assert_eq!(ledger.bytes(), 2000, "what has come is in what is lent");
        assert_eq!(window.lend(2000), 0, "it is that large already");
        window.holds(2500);
        assert_eq!(ledger.bytes(), 2500);
        let piece = window.count(Bytes::from(vec![1; 100]));
        assert_eq!(ledger.bytes(), 2600);
        drop((window, piece));
        assert_eq!((ledger.bytes(), ledger.holders()), (0, 0));
    }

    #[test]
    fn its_holder_does_not_wait_for_it_but_may_have_to_leave() {
        let ledger = Ledger::new(4 * MIB);
        let holder = ledger.holder();
        let mut window = Window::new(&ledger, Arc::clone(&holder));
        window.holds(3 * MIB);
        assert!(ledger.is_crowded() && window.lend(MIB) == 0);
        assert!(ledger.grant(&holder).is_some());
        assert!(holder.must_leave(Duration::from_secs(10)));
        window.holds(0);
        assert!(!holder.must_leave(Duration::from_secs(10)));
        assert_eq!(ledger.bytes(), 0);
    }

    #[test]
    fn a_thousand_windows_have_what_is_lent_and_their_own() {
        const OWN: u64 = 16 << 10;
        let ledger = Ledger::new(64 * MIB);
        let window = |_| {
            let mut window = Window::new(&ledger, ledger.holder());
            let lent = window.lend(7 * OWN);
            window.holds(OWN + lent);
            window
        };
        let windows: Vec<Window> = (0..1000).map(window).collect();
        assert!(ledger.bytes() <= 16 * MIB + 1000 * OWN);
        drop(windows);
        assert_eq!(ledger.bytes(), 0);
    }
}
