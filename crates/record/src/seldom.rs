//! Limits a message to once a minute, however often there is reason for it.
//!
//! Whatever it is about is counted, too, so that nothing is lost by that. [`SeldomEach`] is for sentences about many: each has its minute.
//!
//! Limits: [`NAMES_MAX`] names; those beyond have one minute together, and how many sentences that has cost is said.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Seconds between two messages.
const EVERY_S: u64 = 60;

/// As many have a minute of their own.
const NAMES_MAX: usize = 256;

/// When it was said last.
#[derive(Default, Debug)]
pub struct Seldom(AtomicU64);

impl Seldom {
    /// No message yet.
    pub const fn new() -> Seldom {
        Seldom(AtomicU64::new(0))
    }

    /// Is a message due at this wall time? If so, it counts as sent.
    pub fn is_due(&self, now_s: u64) -> bool {
        let was_long_ago = |at: u64| (at == 0 || now_s.abs_diff(at) >= EVERY_S).then_some(now_s);
        let relaxed = Ordering::Relaxed;
        self.0.fetch_update(relaxed, relaxed, was_long_ago).is_ok()
    }
}

/// When it was said last of each of many.
#[derive(Default, Debug)]
pub struct SeldomEach(Mutex<Table>);

#[derive(Default, Debug)]
struct Table {
    said: BTreeMap<String, u64>,
    /// Of those for which there is no place.
    others: Seldom,
    unsaid: u64,
}

impl SeldomEach {
    /// Not said of anybody yet.
    pub const fn new() -> SeldomEach {
        SeldomEach(Mutex::new(Table {
            said: BTreeMap::new(),
            others: Seldom::new(),
            unsaid: 0,
        }))
    }

    /// Is it to be said of this one at this wall time? Then it counts as said. Returns how many sentences were not said since the last one, for
    /// want of a place.
    pub fn is_due(&self, name: &str, now_s: u64) -> Option<u64> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Table {
            said,
            others,
            unsaid,
        } = &mut *table;
        let is_recent = |at: &u64| now_s.abs_diff(*at) < EVERY_S;
        if said.get(name).is_some_and(is_recent) {
            return None;
        }
        if said.len() >= NAMES_MAX {
            said.retain(|_, at| is_recent(at));
        }
        if said.len() < NAMES_MAX {
            said.insert(name.to_owned(), now_s);
        } else if !others.is_due(now_s) {
            *unsaid += 1;
            return None;
        }
        Some(std::mem::take(unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_once_a_minute() {
        let seldom = Seldom::new();
        let said: Vec<u64> = (1000..1130).filter(|&s| seldom.is_due(s)).collect();
        assert_eq!(said, [1000, 1060, 1120]);
    }

    #[test]
    fn each_has_its_minute() {
        let seldom = SeldomEach::new();
        let said = |name: &str| -> Vec<u64> {
            let due = |&s: &u64| seldom.is_due(name, s) == Some(0);
            (1000..1130).filter(due).collect()
        };
        assert_eq!(said("a"), [1000, 1060, 1120]);
        assert_eq!(said("b"), [1000, 1060, 1120]);
    }

    #[test]
    fn those_beyond_the_table_share_a_minute_and_say_what_it_has_cost() {
        let seldom = SeldomEach::new();
        let all = NAMES_MAX + 10;
        let at = |now_s: u64| -> Vec<Option<u64>> {
            let names = (0..all).map(|number| number.to_string());
            names.map(|name| seldom.is_due(&name, now_s)).collect()
        };
        let first = at(1000);
        assert!(first[..=NAMES_MAX].iter().all(|it| *it == Some(0)));
        assert!(first[NAMES_MAX + 1..].iter().all(Option::is_none));
        assert_eq!(seldom.0.lock().unwrap().said.len(), NAMES_MAX);
        assert!(at(1059).iter().all(Option::is_none));
        // Those of the tenth, and of the second round.
        let third = at(1060);
        assert_eq!(third[0], Some(9 + 10));
        assert!(third[..=NAMES_MAX].iter().all(Option::is_some));
        assert_eq!(third.iter().flatten().sum::<u64>(), 19);
        assert_eq!(seldom.0.lock().unwrap().said.len(), NAMES_MAX);
    }
}
