//! When a member that was away may serve again what it had stored before.
//!
//! A member was away if it has just started, or if its process was suspended for a while (a signal, a sleeping machine). It must first hear
//! what was purged meanwhile. So it asks all members, and *rejoins*
//!
//! * when every member has told it all purges, or
//! * when [`SETTLE_MS`] have passed, every linked member has told it, and at least one of these was not away itself, or
//! * when nothing has been told for `rejoin-wait` by members that have not finished telling. It then serves objects that may have been purged,
//!   and logs this: better than no cache for as long as the others are down. While it is being told, it waits at most [`LONGER_MAX`] times
//!   `rejoin-wait` in all.
//!
//! Discovered members are not known until the look-up of their name has succeeded; until then the list of tellers cannot be complete. A member
//! without other members waits for `rejoin-wait`, because the first to start may not see the others yet.
//!
//! Each time away is a *round*. Answers to an earlier round do not count.
//!
//! Not known here: clocks, messages, what is withheld meanwhile (`gate`).

use base::member::MemberId;

/// How long to wait for links that are just being made, ms.
const SETTLE_MS: u64 = 1000;
/// Total wait at most, in units of `rejoin-wait`, while others are still telling: a journal of hundreds of thousands of purges takes long.
const LONGER_MAX: u64 = 30;

/// How the time in which stored objects were withheld has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rejoined {
    /// Other members have told all purges.
    Told,
    /// No member that knew told them in time.
    Untold,
}

/// The state since it was last away.
#[derive(Debug)]
pub struct Rejoining {
    members: u64,
    are_members_known: bool,
    wait_ms: u64,
    round: u64,
    began_ms: u64,
    /// When a member that has not finished last told something.
    heard_ms: u64,
    told_by: u64,
    is_one_sure: bool,
    is_over: bool,
    /// Other members have told all purges; false if it only stopped waiting.
    is_told: bool,
}

impl Rejoining {
    /// The state of a process that starts now. `members`: a bit for each other member.
    pub fn new(members: u64, wait_ms: u64, now_ms: u64) -> Rejoining {
        Rejoining {
            members,
            are_members_known: true,
            wait_ms,
            round: 1,
            began_ms: now_ms,
            heard_ms: now_ms,
            told_by: 0,
            is_one_sure: false,
            is_over: false,
            is_told: false,
        }
    }

    /// Sets the other members. `come`: numbers that have gone to another member. `are_known`: no further members are to be expected, as far as can
    /// be known.
    pub fn set_members(&mut self, members: u64, come: u64, are_known: bool) {
        (self.members, self.are_members_known) = (members, are_known);
        self.told_by &= members & !come;
    }

    /// The present round.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// May objects from before be served?
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Does it know all purges of the time it was away? Only then is its telling enough for another member.
    pub fn is_sure(&self) -> bool {
        self.is_told
    }

    /// Begins a new round: it was away until now.
    pub fn was_away(&mut self, now_ms: u64) {
        *self = Rejoining {
            round: self.round + 1,
            are_members_known: self.are_members_known,
            ..Rejoining::new(self.members, self.wait_ms, now_ms)
        };
    }

    /// A member has told a purge.
    pub fn heard(&mut self, from: MemberId, now_ms: u64) {
        if self.untold() & from.bit() != 0 {
            self.heard_ms = now_ms;
        }
    }

    /// A member has told everything it knew. True: it was for the present round.
    pub fn told(&mut self, by: MemberId, round: u64, is_sure: bool) -> bool {
        if round != self.round {
            return false;
        }
        self.told_by |= by.bit();
        self.is_one_sure |= is_sure;
        true
    }

    /// The members that have not finished telling.
    pub fn untold(&self) -> u64 {
        self.members & !self.told_by
    }

    /// Checks whether rejoining is over; returns that once. `linked`: members with a link.
    pub fn look(&mut self, linked: u64, now_ms: u64) -> Option<Rejoined> {
        if self.is_told {
            return None;
        }
        let past_ms = now_ms.saturating_sub(self.began_ms);
        let have_linked = linked & self.untold() == 0;
        let is_enough =
            self.untold() == 0 || (past_ms >= SETTLE_MS && have_linked && self.is_one_sure);
        self.is_told = is_enough && self.are_members_known;
        let was_over = self.is_over;
        let silent_ms = now_ms.saturating_sub(self.heard_ms);
        let longest_ms = self.wait_ms.saturating_mul(LONGER_MAX);
        let is_waited_for = silent_ms < self.wait_ms && past_ms < longest_ms;
        self.is_over |= self.is_told || !is_waited_for;
        (self.is_over && !was_over).then_some(match self.is_told {
            true => Rejoined::Told,
            false => Rejoined::Untold,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: MemberId = MemberId(0);
    const B: MemberId = MemberId(1);

    fn started() -> Rejoining {
        Rejoining::new(0b11, 10_000, 0)
    }

    #[test]
    fn all_who_told_are_enough_at_once() {
        let mut it = started();
        assert!(it.told(A, 1, false));
        assert_eq!(it.look(0b11, 5), None);
        assert!(it.told(B, 1, false));
        assert_eq!(it.look(0b11, 6), Some(Rejoined::Told));
        assert_eq!(it.look(0b11, 7), None, "it is said once");
    }

    #[test]
    fn one_who_is_dead_costs_a_second_if_another_is_sure() {
        let mut it = started();
        it.told(A, 1, true);
        assert_eq!(it.look(0b01, SETTLE_MS - 1), None);
        assert_eq!(it.look(0b11, SETTLE_MS), None, "B has come: it has to tell");
        assert_eq!(it.look(0b01, SETTLE_MS), Some(Rejoined::Told));
    }

    #[test]
    fn one_who_was_away_itself_is_not_enough() {
        let mut it = started();
        it.told(A, 1, false);
        assert_eq!(it.look(0b01, 9_999), None);
        assert_eq!(it.look(0b01, 10_000), Some(Rejoined::Untold));
    }

    #[test]
    fn who_was_not_told_is_not_sure_until_it_is() {
        let mut it = started();
        it.told(A, 1, false);
        assert_eq!(it.look(0b01, 10_000), Some(Rejoined::Untold));
        assert!(it.is_over() && !it.is_sure());
        it.told(B, 1, true);
        assert_eq!(it.look(0b11, 10_001), None, "it is served already");
        assert!(it.is_sure());
    }

    #[test]
    fn alone_it_waits_and_without_members_it_does_not() {
        let mut it = started();
        assert_eq!(it.look(0, 9_999), None);
        assert_eq!(it.look(0, 10_000), Some(Rejoined::Untold));
        let mut single = Rejoining::new(0, 10_000, 0);
        assert_eq!(single.look(0, 0), Some(Rejoined::Told));
    }

    #[test]
    fn one_that_is_being_told_waits_longer_but_not_for_ever() {
        let mut it = started();
        for now_ms in [8_000, 16_000, 24_000] {
            it.heard(A, now_ms);
            assert_eq!(it.look(0b01, now_ms + 5_000), None);
        }
        assert!(it.told(A, 1, false));
        it.heard(A, 33_000);
        assert_eq!(it.look(0b01, 33_999), None);
        let over = Some(Rejoined::Untold);
        assert_eq!(it.look(0b01, 34_000), over, "A has told, B says nothing");
        let mut slow = started();
        for now_ms in (5_000..295_000).step_by(5_000) {
            slow.heard(A, now_ms);
            assert_eq!(slow.look(0b01, now_ms), None);
        }
        slow.heard(A, 299_999);
        assert_eq!(slow.look(0b01, 300_000), over);
    }

    #[test]
    fn who_the_members_are_has_to_be_known_first() {
        let mut it = Rejoining::new(0, 10_000, 0);
        it.set_members(0, 0, false);
        assert_eq!(it.look(0, 5000), None, "the name was not answered");
        it.set_members(0b11, 0b11, false);
        assert!(it.told(A, 1, true) && it.told(B, 1, true));
        assert_eq!(it.look(0b11, 5000), None, "there may be others");
        it.set_members(0b111, 0b100, true);
        assert_eq!(it.look(0b111, 5000), None, "the third has to tell");
        it.set_members(0b11, 0, true);
        assert_eq!(it.look(0b11, 5000), Some(Rejoined::Told), "it has left");
    }

    #[test]
    fn what_another_one_told_under_this_number_does_not_count() {
        let mut it = started();
        assert!(it.told(A, 1, true) && it.told(B, 1, true));
        it.set_members(0b11, 0b10, true);
        assert_eq!(it.untold(), 0b10);
        assert_eq!(it.look(0b11, 5), None);
    }

    #[test]
    fn what_was_told_before_it_was_away_again_does_not_count() {
        let mut it = started();
        it.told(A, 1, true);
        it.told(B, 1, true);
        assert_eq!(it.look(0b11, 0), Some(Rejoined::Told));
        it.was_away(100);
        assert!(!it.is_over() && !it.told(A, 1, true));
        assert_eq!(it.look(0b11, 200), None);
        assert!(it.told(A, 2, true) && it.told(B, 2, true));
        assert_eq!(it.look(0b11, 200), Some(Rejoined::Told));
    }
}
