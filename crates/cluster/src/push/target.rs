//! Chooses the member for a push.
//!
//! A member that holds an older version gets the new one. Otherwise two members are picked at random, and the clearly less busy one gets the
//! push; if both are about equally busy, one of them by chance in proportion to its free space. This is nearly as even as asking all, and
//! fronts with the same knowledge do not all choose the same member. Reported loads are up to a second old, so "clearly" means roughly a
//! factor of two ([`u64::ilog2`]). With `spread = "hash"` the member that the URL's server belongs to gets it, so that its objects are together.
//!
//! Not known here: the state of members, the objects.
//! Source: Mitzenmacher, *The power of two choices in randomized load balancing*, 2001.

use std::cmp::Ordering;

use plan::Spread;

/// A member that may get a push.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Its number.
    pub member: usize,
    /// Its load.
    pub busyness: u64,
    /// Space in its stores that no live record takes, MiB.
    pub free_mib: u64,
    /// Does it hold a version, according to its hints?
    pub holds: bool,
    /// How strongly the URL's server belongs to it; the highest value wins.
    pub belonging: u64,
}

/// The member for a push. `chance`: any number.
pub fn choose(candidates: &[Candidate], spread: Spread, chance: u64) -> Option<usize> {
    let holders = candidates.iter().filter(|candidate| candidate.holds);
    if let Some(holder) = holders.min_by_key(|holder| holder.busyness) {
        return Some(holder.member);
    }
    if spread == Spread::Hash {
        let owner = candidates
            .iter()
            .max_by_key(|candidate| candidate.belonging);
        return owner.map(|owner| owner.member);
    }
    let count = candidates.len() as u64;
    if count < 2 {
        return candidates.first().map(|only| only.member);
    }
    // Pick two different ones: the second lies 1 to `count - 1` steps after the first.
    let first = (chance >> 32) % count;
    let second = (first + 1 + (chance & 0xffff_ffff) % (count - 1)) % count;
    let [one, other] = [first, second].map(|at| &candidates[at as usize]);
    let better = match about(one.busyness).cmp(&about(other.busyness)) {
        Ordering::Less => one,
        Ordering::Greater => other,
        Ordering::Equal => by_room(one, other, chance),
    };
    Some(better.member)
}

/// The order of magnitude of a load.
fn about(busyness: u64) -> u32 {
    busyness.max(1).ilog2()
}

/// One of the two, at random in proportion to their free space.
fn by_room<'c>(one: &'c Candidate, other: &'c Candidate, chance: u64) -> &'c Candidate {
    let room = |candidate: &Candidate| u128::from(candidate.free_mib) + 1;
    // Use bits between those that picked the two.
    let dice = u128::from((chance >> 16) as u32);
    match (dice * (room(one) + room(other))) >> 32 < room(one) {
        true => one,
        false => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(member: usize) -> Candidate {
        Candidate {
            member,
            busyness: 1,
            free_mib: 0,
            holds: false,
            belonging: 0,
        }
    }

    /// How often each of four gets a push.
    fn shares(candidates: &[Candidate]) -> [usize; 4] {
        let mut shares = [0; 4];
        let mut chance = 1_u64;
        for _ in 0..4000 {
            chance = chance.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let member = choose(candidates, Spread::Load, chance.rotate_left(29)).unwrap();
            shares[member] += 1;
        }
        shares
    }

    #[test]
    fn equal_ones_get_equal_shares() {
        let all = shares(&[0, 1, 2, 3].map(candidate));
        assert!(
            all.iter().all(|share| (800..1200).contains(share)),
            "{all:?}"
        );
    }

    #[test]
    fn the_busiest_gets_nothing_and_the_emptiest_more() {
        let mut all = [0, 1, 2, 3].map(candidate);
        all[0].busyness = 9;
        all[3].free_mib = 3;
        let shares = shares(&all);
        assert_eq!(shares[0], 0);
        assert!(shares[3] > shares[1] && shares[3] > shares[2], "{shares:?}");
        assert!(shares[1] > 400 && shares[2] > 400, "{shares:?}");
    }

    #[test]
    fn of_two_small_differences_decide_nothing() {
        let mut two = [0, 1].map(candidate);
        two[0].free_mib = 1000;
        two[1].free_mib = 1001;
        (two[0].busyness, two[1].busyness) = (6, 5);
        let shares = shares(&two);
        assert!(
            shares[..2].iter().all(|share| (1800..2200).contains(share)),
            "{shares:?}"
        );
    }

    #[test]
    fn who_holds_an_older_version_gets_the_newer_one() {
        let mut all = [0, 1, 2, 3].map(candidate);
        (all[2].holds, all[2].busyness) = (true, 9);
        assert_eq!(choose(&all, Spread::Load, 0), Some(2));
        assert_eq!(choose(&all, Spread::Hash, 0), Some(2));
    }

    #[test]
    fn with_hash_the_one_that_the_server_belongs_to() {
        let mut all = [0, 1, 2, 3].map(candidate);
        all[1].belonging = 5;
        assert_eq!(choose(&all, Spread::Hash, 77), Some(1));
    }

    #[test]
    fn one_is_enough_and_none_is_none() {
        assert_eq!(choose(&[candidate(3)], Spread::Load, 77), Some(3));
        assert_eq!(choose(&[], Spread::Load, 77), None);
    }
}
