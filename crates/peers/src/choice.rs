//! Chooses among several parents.
//!
//! *First*: in the order of the plan. *Round-robin*: each as often as its weight says. *By hash*: weighted rendezvous hashing. Each URL then has one
//! parent, all children that use the same names for the parents agree on it, and a dead parent moves only its own URLs. The load is bounded:
//! a parent with more waiting requests than [`LOAD_PERCENT`] of its share, and more than [`LOAD_FREE`], is passed over for the next one in
//! that URL's order.
//!
//! Not known here: sockets, health, requests. The caller passes the candidates.

use plan::Order;

/// By hash, a parent takes at most this percentage of its share of all waiting requests,
const LOAD_PERCENT: u64 = 125;
/// but always up to this number: with few waiting requests shares mean nothing.
const LOAD_FREE: u64 = 32;

/// A parent that may be asked.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Candidate {
    /// Its number in the plan.
    pub number: usize,
    /// Its weight, at least 1.
    pub weight: u32,
    /// The hash of its name.
    pub name_hash: u64,
    /// Requests that wait for the head of its answer.
    pub waiting: u64,
}

/// The first parent to ask, and the next one. `url`: hash of the URL. `turn`: number of earlier choices.
pub fn choose(order: Order, candidates: &[Candidate], url: u64, turn: u64) -> [Option<usize>; 2] {
    match order {
        Order::First => [0, 1].map(|n| candidates.get(n).map(|parent| parent.number)),
        Order::RoundRobin => in_turn(candidates, turn),
        Order::Hash => by_hash(candidates, url),
    }
}

fn in_turn(candidates: &[Candidate], turn: u64) -> [Option<usize>; 2] {
    let all: u64 = candidates.iter().map(|c| u64::from(c.weight)).sum();
    if all == 0 {
        return [None, None];
    }
    let mut left = turn % all;
    let mut first = 0;
    for (at, candidate) in candidates.iter().enumerate() {
        first = at;
        match left.checked_sub(u64::from(candidate.weight)) {
            Some(rest) => left = rest,
            None => break,
        }
    }
    let second = (first + 1) % candidates.len();
    let number = |at: usize| candidates.get(at).map(|c| c.number);
    [
        number(first),
        number(second).filter(|_| candidates.len() > 1),
    ]
}

fn by_hash(candidates: &[Candidate], url: u64) -> [Option<usize>; 2] {
    let weights: u64 = candidates.iter().map(|c| u64::from(c.weight)).sum();
    let waiting: u64 = candidates.iter().map(|c| c.waiting).sum();
    let is_free = |c: &Candidate| {
        let share = (waiting + 1) * LOAD_PERCENT * u64::from(c.weight);
        c.waiting < LOAD_FREE || c.waiting * 100 * weights < share
    };
    // The best two of the free ones. Those that are not free come after them.
    let mut best: [Option<(bool, f64, usize)>; 2] = [None, None];
    for candidate in candidates {
        let scored = Some((is_free(candidate), score(candidate, url), candidate.number));
        if scored > best[0] {
            best = [scored, best[0]];
        } else if scored > best[1] {
            best[1] = scored;
        }
    }
    best.map(|one| one.map(|(_, _, number)| number))
}

/// The score of weighted rendezvous hashing; the highest wins. The chance to win is proportional to the weight.
pub fn score(candidate: &Candidate, url: u64) -> f64 {
    // The upper 53 bits as a number above 0 and below 1.
    let drawn = ((mix(url ^ candidate.name_hash) >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    f64::from(candidate.weight) / -drawn.ln()
}

/// The finalizer of SplitMix64: every bit of the input changes half of the output's.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> [Candidate; 3] {
        [(0, 1, 11), (1, 2, 22), (2, 1, 33)].map(|(number, weight, name)| Candidate {
            number,
            weight,
            name_hash: mix(name),
            waiting: 0,
        })
    }

    fn counts(order: Order, candidates: &[Candidate], n: u64) -> [u64; 3] {
        let mut counts = [0; 3];
        for i in 0..n {
            let [first, second] = choose(order, candidates, mix(i), i);
            assert_ne!(first, second);
            counts[first.unwrap()] += 1;
        }
        counts
    }

    #[test]
    fn in_the_order_of_the_plan() {
        assert_eq!(choose(Order::First, &three(), 7, 7), [Some(0), Some(1)]);
        assert_eq!(choose(Order::First, &three()[2..], 7, 7), [Some(2), None]);
        assert_eq!(choose(Order::First, &[], 7, 7), [None, None]);
    }

    #[test]
    fn in_turn_by_weight() {
        assert_eq!(
            counts(Order::RoundRobin, &three(), 4000),
            [1000, 2000, 1000]
        );
        let one = &three()[..1];
        assert_eq!(choose(Order::RoundRobin, one, 0, 5), [Some(0), None]);
        assert_eq!(choose(Order::RoundRobin, &[], 0, 5), [None, None]);
    }

    #[test]
    fn by_hash_in_proportion_to_the_weights_and_always_the_same() {
        let [a, b, c] = counts(Order::Hash, &three(), 40_000);
        for (count, expected) in [(a, 10_000), (b, 20_000), (c, 10_000)] {
            assert!(count.abs_diff(expected) < 400, "{a} {b} {c}");
        }
        for url in 0..100 {
            let chosen = choose(Order::Hash, &three(), mix(url), 1);
            assert_eq!(choose(Order::Hash, &three(), mix(url), 2), chosen);
        }
    }

    #[test]
    fn one_that_goes_moves_its_own_urls_and_they_go_where_they_would_be_tried_next() {
        let without_first = &three()[1..];
        for url in (0..1000).map(mix) {
            let [first, second] = choose(Order::Hash, &three(), url, 0);
            let [then, _] = choose(Order::Hash, without_first, url, 0);
            let expected = if first == Some(0) { second } else { first };
            assert_eq!(then, expected);
        }
    }

    #[test]
    fn one_with_far_more_than_its_share_is_passed_over_and_a_few_are_no_load() {
        let url = (0..)
            .map(mix)
            .find(|url| choose(Order::Hash, &three(), *url, 0)[0] == Some(0))
            .unwrap();
        let first = |waiting: [u64; 3]| {
            let mut all = three();
            for (candidate, waiting) in all.iter_mut().zip(waiting) {
                candidate.waiting = waiting;
            }
            choose(Order::Hash, &all, url, 0)[0]
        };
        assert_eq!(first([31, 0, 0]), Some(0), "a few");
        // A quarter of the weight: of 400 requests it may have 125.
        assert_eq!(first([120, 180, 100]), Some(0));
        assert_ne!(first([140, 160, 100]), Some(0));
        // If no parent is free, the first in order is asked all the same. With correct sums one is always free.
        assert!(first([u64::from(u32::MAX); 3]).is_some());
    }
}
