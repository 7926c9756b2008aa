//! Which members are asked for a request that neither memory nor our own store answers.
//!
//! | route | members asked |
//! |---|---|
//! | hints | of those that seem to hold the object, the one with the fewest waiting requests (ties by rendezvous hashing); none if no member seems to |
//! | hash | rendezvous hashing of the name, with bounded loads ([`choose`]) |
//! | round-robin | each in turn |
//! | least | the one with the fewest waiting requests |
//!
//! With `miss = "home"`, an object that no member seems to hold is asked of its *home*: the member that hashing assigns to it, perhaps this one.
//! All members then fetch an object through the same member, and share that fetch.
//!
//! A route has at most [`TRIED_MAX`] members, in the order to try them. If all fail, this member fetches for itself.
//!
//! Not known here: hints, health, connections. The caller passes the candidates.
//! Source: paper 003 section 2 (ask a holder; of several, the least loaded).

use std::cmp::Ordering;

use peers::choice::{Candidate, choose, score};
use plan::{ClusterMiss, ClusterRoute, Order};

/// Members tried in turn for one request, before this member fetches for itself.
pub const TRIED_MAX: usize = 2;

/// How requests are routed, by the configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// How members are chosen.
    pub route: ClusterRoute,
    /// Who fetches an object that no member holds.
    pub miss: ClusterMiss,
}

/// Why a member is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// It seems to hold the object.
    Hint,
    /// It is the home of an object that no member seems to hold.
    Home,
    /// It comes next in the configured order.
    Order,
}

impl Reason {
    /// The word for it in logs and response fields.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Hint => "hint",
            Reason::Home => "home",
            Reason::Order => "order",
        }
    }
}

/// The members to try, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// Their numbers.
    pub members: [Option<usize>; TRIED_MAX],
    /// Why these were chosen.
    pub reason: Reason,
}

/// What is known when a request is routed.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The members that can be asked now, and this one if it has a store, under the number [`Known::own`].
    pub candidates: &'a [Candidate],
    /// The members that seem to hold the object, a bit for each number.
    pub mask: u64,
    /// Hash of the resource's name, the same at all members.
    pub name: u64,
    /// Requests routed before this one.
    pub turn: u64,
    /// This member's number, different from all others.
    pub own: usize,
}

/// The members to ask. `None`: this member fetches for itself.
pub fn route(policy: Policy, known: &Known<'_>) -> Option<Route> {
    let (members, reason) = match policy.route {
        ClusterRoute::Hints if known.mask == 0 => match policy.miss {
            ClusterMiss::Own => return None,
            ClusterMiss::Home => (by_order(Order::Hash, known), Reason::Home),
        },
        ClusterRoute::Hints => (
            least(known, |number| holds(known.mask, number)),
            Reason::Hint,
        ),
        ClusterRoute::Hash => (by_order(Order::Hash, known), Reason::Order),
        ClusterRoute::RoundRobin => (by_order(Order::RoundRobin, known), Reason::Order),
        ClusterRoute::Least => (least(known, |_| true), Reason::Order),
    };
    let members = before_own(members, known.own);
    members[0].map(|_| Route { members, reason })
}

/// Is the bit of this member set?
fn holds(mask: u64, number: usize) -> bool {
    u32::try_from(number)
        .is_ok_and(|number| mask.checked_shr(number).is_some_and(|rest| rest & 1 == 1))
}

fn by_order(order: Order, known: &Known<'_>) -> [Option<usize>; TRIED_MAX] {
    choose(order, known.candidates, known.name, known.turn)
}

/// The members with the fewest waiting requests. Ties go to the one that hashing prefers, so that all fronts agree.
fn least(known: &Known<'_>, is_one: impl Fn(usize) -> bool) -> [Option<usize>; TRIED_MAX] {
    let mut best: [Option<&Candidate>; TRIED_MAX] = [None; TRIED_MAX];
    let is_better = |a: &Candidate, b: Option<&Candidate>| {
        b.is_none_or(|b| match a.waiting.cmp(&b.waiting) {
            Ordering::Equal => score(a, known.name) > score(b, known.name),
            less_or_more => less_or_more.is_lt(),
        })
    };
    for candidate in known.candidates.iter().filter(|one| is_one(one.number)) {
        if is_better(candidate, best[0]) {
            best = [Some(candidate), best[0]];
        } else if is_better(candidate, best[1]) {
            best[1] = Some(candidate);
        }
    }
    best.map(|one| one.map(|one| one.number))
}

/// The members before this one in the list, because this member need not ask itself.
fn before_own(members: [Option<usize>; TRIED_MAX], own: usize) -> [Option<usize>; TRIED_MAX] {
    match members {
        [Some(first), _] if first == own => [None, None],
        [first, Some(second)] if second == own => [first, None],
        members => members,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: usize = 64;
    const HINTS: Policy = Policy {
        route: ClusterRoute::Hints,
        miss: ClusterMiss::Own,
    };

    fn candidate(number: usize, waiting: u64) -> Candidate {
        Candidate {
            number,
            weight: 1,
            name_hash: 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(number as u64 + 1),
            waiting,
        }
    }

    fn routed(policy: Policy, candidates: &[Candidate], mask: u64, name: u64) -> Vec<usize> {
        let known = Known {
            candidates,
            mask,
            name,
            turn: name,
            own: OWN,
        };
        let members = route(policy, &known).map_or([None, None], |route| route.members);
        members.into_iter().flatten().collect()
    }

    #[test]
    fn only_members_that_seem_to_have_it_are_asked() {
        let three = [candidate(0, 0), candidate(1, 0), candidate(2, 0)];
        for name in 0..1000 {
            assert!(routed(HINTS, &three, 0, name).is_empty());
            assert_eq!(routed(HINTS, &three, 0b100, name), [2]);
            let mut two = routed(HINTS, &three, 0b101, name);
            two.sort_unstable();
            assert_eq!(two, [0, 2]);
        }
        // The only holder by its hint cannot be asked.
        assert!(routed(HINTS, &three, 0b1000, 1).is_empty());
        assert!(routed(HINTS, &three, 1 << 63, 1).is_empty());
    }

    #[test]
    fn the_least_loaded_of_them_comes_first_and_ties_are_spread() {
        let two = [candidate(0, 5), candidate(1, 4)];
        assert_eq!(routed(HINTS, &two, 0b11, 7), [1, 0]);
        let equals = [candidate(0, 4), candidate(1, 4)];
        let firsts = (0..1000).filter(|&name| routed(HINTS, &equals, 0b11, name)[0] == 0);
        let firsts = firsts.count();
        assert!((400..600).contains(&firsts), "{firsts}");
    }

    #[test]
    fn what_nobody_has_goes_to_its_home_which_may_be_here() {
        let home = Policy {
            miss: ClusterMiss::Home,
            ..HINTS
        };
        let others = [candidate(0, 0), candidate(1, 0)];
        let with_us = [others[0], others[1], candidate(OWN, 0)];
        let (mut here, mut there) = (0, 0);
        for name in 0..900 {
            let asked = routed(home, &with_us, 0, name);
            assert!(!asked.contains(&OWN));
            match asked[..] {
                [] => here += 1,
                // When a member is not a candidate, only its own share moves.
                [first, ..] => {
                    there += 1;
                    assert_eq!(routed(home, &others, 0, name)[0], first);
                }
            }
            assert_eq!(
                routed(home, &with_us, 0b10, name),
                [1],
                "a hint comes first"
            );
        }
        assert!((200..400).contains(&here), "{here} here, {there} there");
    }

    #[test]
    fn one_place_for_a_name_until_that_is_overloaded() {
        let hash = Policy {
            route: ClusterRoute::Hash,
            miss: ClusterMiss::Own,
        };
        let idle = [candidate(0, 0), candidate(1, 0), candidate(2, 0)];
        let home = routed(hash, &idle, 0, 42)[0];
        assert_eq!(
            routed(hash, &idle, 0b111, 42)[0],
            home,
            "hints do not count"
        );
        let mut busy = idle;
        busy[home].waiting = 1000;
        assert_ne!(routed(hash, &busy, 0, 42)[0], home);
        let rest: Vec<Candidate> = idle.into_iter().filter(|one| one.number != home).collect();
        assert_eq!(routed(hash, &busy, 0, 42)[0], routed(hash, &rest, 0, 42)[0]);
    }

    #[test]
    fn in_turn_and_by_load_whatever_is_asked_for() {
        let three = [candidate(0, 3), candidate(1, 2), candidate(2, 9)];
        let by = |route, turn| {
            let policy = Policy {
                route,
                miss: ClusterMiss::Own,
            };
            routed(policy, &three, 0b100, turn)[0]
        };
        let turns: Vec<usize> = (0..24)
            .map(|turn| by(ClusterRoute::RoundRobin, turn))
            .collect();
        for number in 0..3 {
            let times = turns.iter().filter(|&&one| one == number).count();
            assert_eq!(times, 8, "{turns:?}");
        }
        assert_eq!(by(ClusterRoute::Least, 0), 1);
        assert!(routed(HINTS, &[], u64::MAX, 1).is_empty());
    }
}
