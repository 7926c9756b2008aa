//! How long origins keep an idle connection open, as far as has been observed.
//!
//! A request that may not be repeated goes out on a pooled connection only while that connection is *young*: idle for less than a bound
//! that depends on its origin.
//!
//! | what the origin has shown | the bound |
//! |---|---|
//! | nothing yet | none of its connections is young |
//! | a connection stays open for [`SHOWN_MIN`] after an answer | [`FIRST`], or half of the longest time that one stayed open if that is more |
//! | `Keep-Alive: timeout` | that time less a second, or half of that time if that is more |
//! | a connection was closed sooner than that | half of the time after which it was closed, for [`MEMORY`] |
//!
//! A single connection that is closed at once, although others stay open, may only mean that the origin restarted. It counts if it happens [`AGAIN`].
//!
//! Times are counted from the head of the last answer, because it is unknown when the origin finished the rest of it.
//!
//! Not known here: connections. Limits: [`HABITS_MAX`] origins a worker. Observations of further ones are not stored, so none of their
//! connections is young.

use std::{collections::HashMap, time::Duration};

use crate::connection::Destination;
use base::clock::Instant;

/// The most origins whose habits are known.
const HABITS_MAX: usize = 2048;
/// The bound of an origin about which little is known.
const FIRST: Duration = Duration::from_secs(1);
/// An origin that closes after each answer does so within less than this.
const SHOWN_MIN: Duration = Duration::from_millis(10);
/// Several immediate closes within this time count as one.
const ONCE: Duration = Duration::from_secs(1);
/// An immediate close after that, but within this time, makes it a habit.
const AGAIN: Duration = Duration::from_secs(60);
/// A full table is looked through for old entries no more often than this.
const PRUNE_EVERY: Duration = Duration::from_secs(1);
/// How long an early close is remembered, and the whole habit of an origin without further observations.
const MEMORY: Duration = Duration::from_secs(600);

struct Habit {
    /// The longest time after an answer at which a connection was still open.
    open: Duration,
    /// The shortest time after an answer at which a connection was closed, and when that was seen.
    closed: Option<(Duration, Instant)>,
    /// When a connection was closed at once, although others stay open.
    odd: Option<Instant>,
    /// The time of the last observation.
    seen: Instant,
}

/// The habits of one worker's origins.
#[derive(Default)]
pub(super) struct Habits {
    known: HashMap<Destination, Habit>,
    pruned: Option<Instant>,
}

impl Habits {
    /// An idle connection is still open, `age` after its last answer.
    pub(super) fn seen_open(&mut self, to: &Destination, age: Duration, now: Instant) {
        if age < SHOWN_MIN {
            return;
        }
        if let Some(habit) = self.of(to, now) {
            habit.open = habit.open.max(age);
        }
    }

    /// The origin has closed an idle connection, which was last seen open `age` after its last answer.
    pub(super) fn seen_closed(&mut self, to: &Destination, age: Duration, now: Instant) {
        let is_reload = |habit: &mut Habit| {
            age < SHOWN_MIN && !habit.open.is_zero() && !habit.is_odd_again(now)
        };
        if !self.of(to, now).is_some_and(is_reload) {
            self.broke(to, age, now);
        }
    }

    /// The origin has closed a connection under a request. The request may be lost, so this always counts.
    pub(super) fn broke(&mut self, to: &Destination, age: Duration, now: Instant) {
        if let Some(habit) = self.of(to, now) {
            let before = habit.closed.filter(|closed| is_recent(closed.1, now));
            habit.closed = Some((before.map_or(age, |(least, _)| least.min(age)), now));
        }
    }

    /// Is there a recent observation of this origin?
    pub(super) fn knows(&self, to: &Destination, now: Instant) -> bool {
        let habit = self.known.get(to);
        habit.is_some_and(|habit| is_recent(habit.seen, now))
    }

    /// For how long after an answer a connection is young. `told`: how long the origin says that it keeps the connection.
    pub(super) fn young(&self, to: &Destination, told: Option<Duration>, now: Instant) -> Duration {
        let habit = self
            .known
            .get(to)
            .filter(|habit| is_recent(habit.seen, now));
        if habit.is_none() && self.known.len() >= HABITS_MAX {
            return Duration::ZERO;
        }
        let shown = match (told, habit) {
            (Some(told), _) => told - FIRST.min(told / 2),
            (None, Some(habit)) if !habit.open.is_zero() => FIRST.max(habit.open / 2),
            (None, _) => return Duration::ZERO,
        };
        let closed = habit.and_then(|habit| habit.closed);
        match closed.filter(|closed| is_recent(closed.1, now)) {
            Some((age, _)) if age < shown => age / 2,
            _ => shown,
        }
    }

    fn of(&mut self, to: &Destination, now: Instant) -> Option<&mut Habit> {
        if !self.known.contains_key(to) {
            let since = |at| now.saturating_duration_since(at);
            if self.known.len() >= HABITS_MAX
                && self.pruned.is_none_or(|at| since(at) >= PRUNE_EVERY)
            {
                self.pruned = Some(now);
                self.known.retain(|_, habit| is_recent(habit.seen, now));
            }
            if self.known.len() >= HABITS_MAX {
                return None;
            }
            let habit = Habit {
                open: Duration::ZERO,
                closed: None,
                odd: None,
                seen: now,
            };
            self.known.insert(to.clone(), habit);
        }
        let habit = self.known.get_mut(to)?;
        if !is_recent(habit.seen, now) {
            habit.open = Duration::ZERO;
        }
        habit.seen = now;
        Some(habit)
    }
}

impl Habit {
    /// A connection was closed at once, although others stay open. Did that happen lately, in a separate event?
    fn is_odd_again(&mut self, now: Instant) -> bool {
        let before = self.odd.map(|at| now.saturating_duration_since(at));
        match before {
            Some(ago) if ago < ONCE => false,
            _ => {
                self.odd = Some(now);
                before.is_some_and(|ago| ago < AGAIN)
            }
        }
    }
}

fn is_recent(seen: Instant, now: Instant) -> bool {
    now.saturating_duration_since(seen) < MEMORY
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);
    const MS: Duration = Duration::from_millis(1);

    fn to(host: &str) -> Destination {
        Destination {
            tls: false,
            host: host.into(),
            port: 80,
            member: None,
            terms: None,
            http2: None,
        }
    }

    #[test]
    fn nothing_is_young_until_something_was_shown() {
        let (mut habits, a, now) = (Habits::default(), to("a"), Instant::now());
        assert_eq!(habits.young(&a, None, now), Duration::ZERO);
        habits.seen_open(&a, MS, now);
        assert_eq!(habits.young(&a, None, now), Duration::ZERO);
        habits.seen_open(&a, 20 * MS, now);
        assert_eq!(habits.young(&a, None, now), S);
        habits.seen_open(&a, 30 * S, now);
        assert_eq!(habits.young(&a, None, now), 15 * S);
        let later = now + MEMORY;
        assert_eq!(habits.young(&a, None, later), Duration::ZERO);
        habits.seen_open(&a, 20 * MS, later);
        assert_eq!(habits.young(&a, None, later), S, "the old is forgotten");
    }

    #[test]
    fn an_origin_that_tells_is_believed_until_it_breaks_its_word() {
        let (mut habits, a, now) = (Habits::default(), to("a"), Instant::now());
        assert_eq!(habits.young(&a, Some(5 * S), now), 4 * S);
        assert_eq!(habits.young(&a, Some(S), now), S / 2);
        habits.seen_closed(&a, 4 * S, now);
        assert_eq!(habits.young(&a, Some(5 * S), now), 4 * S, "its word");
        habits.seen_closed(&a, S, now);
        habits.seen_closed(&a, 2 * S, now);
        assert_eq!(habits.young(&a, Some(5 * S), now), S / 2);
        assert_eq!(habits.young(&a, Some(5 * S), now + MEMORY), 4 * S);
    }

    #[test]
    fn one_reload_of_an_origin_is_no_habit() {
        let (mut habits, a, now) = (Habits::default(), to("a"), Instant::now());
        habits.seen_open(&a, 30 * S, now);
        // Its connections end together, one of them just after an answer.
        for age in [20 * S, MS, 3 * S, Duration::ZERO] {
            habits.seen_closed(&a, age, now);
        }
        assert_eq!(habits.young(&a, None, now), 3 * S / 2);
        // Another immediate close, long after that.
        let later = now + 2 * AGAIN;
        habits.seen_closed(&a, MS, later);
        assert_eq!(habits.young(&a, None, later), 3 * S / 2);
        // And one soon after that.
        let soon = later + AGAIN / 2;
        habits.seen_closed(&a, MS, soon);
        assert_eq!(habits.young(&a, None, soon), MS / 2);
        // An immediate close under a request counts the first time.
        let b = to("b");
        habits.seen_open(&b, 30 * S, now);
        habits.broke(&b, MS, now);
        assert_eq!(habits.young(&b, None, now), MS / 2);
    }

    #[test]
    fn one_that_closes_at_once_has_no_young_connections() {
        let (mut habits, a, now) = (Habits::default(), to("a"), Instant::now());
        habits.seen_closed(&a, Duration::ZERO, now);
        habits.seen_open(&a, 20 * MS, now);
        for told in [None, Some(5 * S)] {
            assert_eq!(habits.young(&a, told, now), Duration::ZERO);
        }
    }

    #[test]
    fn beyond_the_bound_nothing_is_young() {
        let (mut habits, now) = (Habits::default(), Instant::now());
        for n in 0..HABITS_MAX {
            habits.seen_open(&to(&n.to_string()), S, now);
        }
        habits.seen_open(&to("more"), S, now);
        assert_eq!(habits.young(&to("more"), Some(5 * S), now), Duration::ZERO);
        assert_eq!(habits.young(&to("0"), Some(5 * S), now), 4 * S);
        let later = now + MEMORY;
        habits.seen_open(&to("more"), S, later - S / 2);
        habits.seen_open(&to("more"), S, later);
        assert_eq!(
            habits.known.len(),
            HABITS_MAX,
            "looked at half a second ago"
        );
        habits.seen_open(&to("more"), S, later + S / 2);
        assert_eq!(habits.known.len(), 1);
    }
}
