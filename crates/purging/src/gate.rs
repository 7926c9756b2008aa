//! Which stored objects may be served now.
//!
//! After the start of the process the gate is closed for objects on disk; memory has only newer ones. After a suspension of the process it is
//! closed for all stored objects. While an object may not be served, its requests go to the origin.
//!
//! The cluster's thread ticks while the process runs. A worker that finds the last tick older than [`STOPPED_AFTER_MS`] was suspended with
//! it, and closes the gate before it serves anything. The limit is shorter than the time after which other members count this one as away
//! (three seconds of silence and one without a link), so any purge that did not wait for this member came after the limit.
//!
//! Not known here: when the gate opens (`rejoining`).

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// A process whose last tick is older than this was suspended, ms.
const STOPPED_AFTER_MS: u64 = 2500;

/// The objects that may be served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Served {
    /// All stored objects.
    All,
    /// Objects in memory.
    Memory,
    /// No stored object.
    Nothing,
}

const OPEN: u8 = 0;
const STARTED: u8 = 1;
const STOPPED: u8 = 2;

/// The gate, shared by all threads.
#[derive(Debug)]
pub struct Gate {
    state: AtomicU8,
    ticked_ms: AtomicU64,
}

impl Gate {
    /// The gate of a process that has just started.
    pub fn of_start() -> Gate {
        Gate {
            state: AtomicU8::new(STARTED),
            ticked_ms: AtomicU64::new(0),
        }
    }

    /// What may be served now. True: a suspension was found just now, so fetches under way may bring objects that were purged meanwhile.
    #[inline]
    pub fn look(&self, now_ms: u64) -> (Served, bool) {
        // Read the tick before the state: a thread that sees the tick after a suspension then also sees that this tick has closed the gate.
        let was_stopped = self.was_stopped(now_ms);
        match self.state.load(Ordering::Acquire) {
            STOPPED => (Served::Nothing, false),
            _ if was_stopped => (Served::Nothing, self.close()),
            STARTED => (Served::Memory, false),
            _ => (Served::All, false),
        }
    }

    /// To be called by the cluster's thread at short intervals. True: this thread, or the whole process, was suspended.
    pub fn tick(&self, now_ms: u64) -> bool {
        let was_stopped = self.was_stopped(now_ms);
        if was_stopped {
            self.close();
        }
        self.ticked_ms.store(now_ms, Ordering::Release);
        was_stopped
    }

    /// Closes the gate after a suspension, even if it is still closed since the start. True: it was not yet closed for a suspension.
    pub fn close(&self) -> bool {
        let changed = |state| (state != STOPPED).then_some(STOPPED);
        let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        self.state.fetch_update(set, fetch, changed).is_ok()
    }

    /// Is it closed because of a suspension?
    pub fn is_closed_by_stop(&self) -> bool {
        self.state.load(Ordering::Acquire) == STOPPED
    }

    /// Opens it.
    pub fn open(&self) {
        self.state.store(OPEN, Ordering::Release);
    }

    /// Before the first tick there is nothing to compare with, so false.
    fn was_stopped(&self, now_ms: u64) -> bool {
        let ticked_ms = self.ticked_ms.load(Ordering::Acquire);
        ticked_ms != 0 && now_ms.saturating_sub(ticked_ms) > STOPPED_AFTER_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_start_memory_is_served_until_it_opens() {
        let gate = Gate::of_start();
        assert_eq!(gate.look(1), (Served::Memory, false));
        gate.tick(1);
        gate.open();
        assert_eq!(gate.look(2), (Served::All, false));
    }

    #[test]
    fn a_stop_soon_after_the_start_closes_memory_too() {
        let gate = Gate::of_start();
        gate.tick(1);
        let later = 2 + STOPPED_AFTER_MS;
        assert_eq!(gate.look(later), (Served::Nothing, true));
        assert!(gate.tick(later) && gate.is_closed_by_stop());
    }

    /// A suspension ends for all threads at once: one looks while another ticks. Reading the state first fails in about one round of two thousand.
    #[test]
    fn nothing_is_served_while_the_tick_after_a_stop_closes_it() {
        const ROUNDS: u64 = 2000;
        let gate = Gate::of_start();
        let (begun, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let await_round = |reached: &AtomicU64, round| {
            let mut looks = 0;
            while reached.load(Ordering::Acquire) != round {
                looks += 1;
                match looks < 1000 {
                    true => std::hint::spin_loop(),
                    false => std::thread::yield_now(),
                }
            }
        };
        let at = |round| (round + 1) * 2 * STOPPED_AFTER_MS;
        gate.tick(at(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    await_round(&begun, round);
                    gate.tick(at(round));
                    done.store(round, Ordering::Release);
                }
            });
            let mut served = 0;
            for round in 1..=ROUNDS {
                gate.open();
                begun.store(round, Ordering::Release);
                (0..round % 97).for_each(|_| std::hint::spin_loop());
                served += u64::from(gate.look(at(round)).0 != Served::Nothing);
                await_round(&done, round);
            }
            assert_eq!(served, 0);
        });
    }

    #[test]
    fn whoever_comes_first_after_a_stop_closes_it() {
        let gate = Gate::of_start();
        gate.open();
        assert!(!gate.tick(10));
        assert_eq!(gate.look(10 + STOPPED_AFTER_MS), (Served::All, false));
        let later = 11 + STOPPED_AFTER_MS;
        assert_eq!(gate.look(later), (Served::Nothing, true));
        assert_eq!(gate.look(later), (Served::Nothing, false));
        assert!(gate.tick(later), "the thread learns of it, too");
        assert_eq!(gate.look(later), (Served::Nothing, false));
        gate.open();
        assert_eq!(gate.look(later), (Served::All, false));
        assert!(gate.tick(later + STOPPED_AFTER_MS + 1));
        assert_eq!(
            gate.look(later + STOPPED_AFTER_MS + 1),
            (Served::Nothing, false)
        );
    }
}
