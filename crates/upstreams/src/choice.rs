//! Which of the available servers is asked.
//!
//! *Two choices*: two servers are drawn by their weights. The first is taken, unless its load for its weight clearly exceeds that of the
//! second: by more than two requests of the lighter one. So shares follow the weights while all servers are equally fast, and a
//! server that hangs gets no more requests. *In turn*: the smooth order of nginx, which spreads a server's turns. *By hash*: weighted
//! rendezvous hashing; if a server goes, only its own share moves, and it gets that back later.
//!
//! Not known here: sockets, health. The caller passes the available servers and a random number.

use plan::Balance;

/// An available server.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Candidate {
    /// Its number in the upstream.
    pub number: usize,
    /// Its weight, more than 0.
    pub weight: f64,
    /// The hash of its address.
    pub hash: u64,
    /// Requests in flight.
    pub load: u32,
    /// Round robin: the share owed to it. See [`in_turn`].
    pub owed: f64,
}

/// The choice by hash or by two draws. `key`: the hash of the URL or the client. `drawn`: a number that changes with each call.
///
/// # Panics
/// If there is no candidate. For round robin use [`in_turn`].
pub fn choose(balance: Balance, candidates: &[Candidate], key: u64, drawn: u64) -> usize {
    assert!(!candidates.is_empty(), "one server at least may be asked");
    match balance {
        Balance::HashUrl | Balance::HashClient => by_hash(candidates, key),
        Balance::LeastOutstanding | Balance::RoundRobin => two_choices(candidates, drawn),
    }
}

/// Round robin: each server is credited with its weight. Returns the position of the server with the most credit, and deducts the sum of the weights.
pub fn in_turn(candidates: &mut [Candidate]) -> usize {
    assert!(!candidates.is_empty(), "one server at least may be asked");
    let mut all = 0.0;
    let mut best = 0;
    for at in 0..candidates.len() {
        let candidate = &mut candidates[at];
        candidate.owed += candidate.weight;
        all += candidate.weight;
        if candidates[at].owed > candidates[best].owed {
            best = at;
        }
    }
    candidates[best].owed -= all;
    best
}

fn two_choices(candidates: &[Candidate], drawn: u64) -> usize {
    let at = draw(candidates, None, mix(drawn));
    let first = &candidates[at];
    if candidates.len() == 1 {
        return first.number;
    }
    let second = draw(candidates, Some(at), mix(drawn ^ 0x5bd1_e995_0000_0001));
    let second = &candidates[second];
    let of_weight = |it: &Candidate| f64::from(it.load) / it.weight;
    // Smaller differences happen by chance. Evening them out would move shares from light servers to heavy ones.
    let is_crowded = of_weight(first) - of_weight(second) > 2.0 / first.weight.min(second.weight);
    match is_crowded {
        true => second.number,
        false => first.number,
    }
}

/// Draws a position other than `not`, by the weights.
fn draw(candidates: &[Candidate], not: Option<usize>, drawn: u64) -> usize {
    let others = || (candidates.iter().enumerate()).filter(|(at, _)| Some(*at) != not);
    let all: f64 = others().map(|(_, candidate)| candidate.weight).sum();
    let mut left = part_of_one(drawn) * all;
    let mut last = 0;
    for (at, candidate) in others() {
        (left, last) = (left - candidate.weight, at);
        if left < 0.0 {
            break;
        }
    }
    last
}

/// Weighted rendezvous hashing: the chance to be the highest is in proportion to the weight.
fn by_hash(candidates: &[Candidate], key: u64) -> usize {
    let score =
        |candidate: &Candidate| candidate.weight / -part_of_one(mix(key ^ candidate.hash)).ln();
    let best = candidates
        .iter()
        .max_by(|a, b| score(a).total_cmp(&score(b)));
    best.map_or(0, |candidate| candidate.number)
}

/// The upper 53 bits as a number above 0 and below 1.
fn part_of_one(bits: u64) -> f64 {
    ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

/// The finalizer of SplitMix64: every bit of the input changes half of the output's.
fn mix(bits: u64) -> u64 {
    let mut bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_weights(weights: &[f64]) -> Vec<Candidate> {
        let candidate = |(number, weight): (usize, &f64)| Candidate {
            number,
            weight: *weight,
            hash: mix(number as u64 + 77),
            load: 0,
            owed: 0.0,
        };
        weights.iter().enumerate().map(candidate).collect()
    }

    fn counts(candidates: &[Candidate], balance: Balance, n: u64) -> Vec<f64> {
        let mut counts = vec![0.0; candidates.len()];
        for i in 0..n {
            counts[choose(balance, candidates, mix(i), i)] += 100.0 / n as f64;
        }
        counts
    }

    #[track_caller]
    fn are_near(counts: &[f64], wanted: &[f64]) {
        let are = counts.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1.0);
        assert!(are, "{counts:?}, not {wanted:?}");
    }

    #[test]
    fn shares_are_those_of_the_weights() {
        let three = of_weights(&[1.0, 2.0, 1.0]);
        for balance in [Balance::LeastOutstanding, Balance::HashUrl] {
            are_near(&counts(&three, balance, 100_000), &[25.0, 50.0, 25.0]);
        }
    }

    /// Requests of equal length, `at_once` at a time, any of which may end next.
    #[test]
    fn shares_stay_those_of_the_weights_under_load() {
        for at_once in [2, 8, 64] {
            let mut three = of_weights(&[1.0, 2.0, 1.0]);
            let (mut counts, n) = ([0.0; 3], 50_000);
            let mut running: Vec<usize> = Vec::new();
            for i in 0..n {
                if running.len() == at_once {
                    let ended = running.swap_remove(mix(i * 31) as usize % at_once);
                    three[ended].load -= 1;
                }
                let chosen = choose(Balance::LeastOutstanding, &three, 0, i);
                three[chosen].load += 1;
                running.push(chosen);
                counts[chosen] += 100.0 / n as f64;
            }
            let wanted = [25.0, 50.0, 25.0];
            let are = counts.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 3.0);
            assert!(are, "{at_once} at once: {counts:?}");
        }
    }

    #[test]
    fn one_that_hangs_gets_nothing_more_from_a_pair() {
        let mut two = of_weights(&[1.0, 1.0]);
        two[0].load = 10;
        let chosen = counts(&two, Balance::LeastOutstanding, 10_000);
        are_near(&chosen, &[0.0, 100.0]);
    }

    #[test]
    fn turns_are_spread_and_exact() {
        let mut three = of_weights(&[3.0, 1.0, 1.0]);
        let order: Vec<_> = (0..10).map(|_| in_turn(&mut three)).collect();
        assert_eq!(order, [0, 1, 0, 2, 0, 0, 1, 0, 2, 0]);
    }

    #[test]
    fn one_that_goes_moves_its_own_share_alone() {
        let all = of_weights(&[1.0, 2.0, 1.0, 1.0]);
        let mut without = all.clone();
        without.remove(1);
        let mut moved = 0;
        for key in (0..10_000).map(mix) {
            let [before, after] =
                [&all, &without].map(|these| choose(Balance::HashUrl, these, key, 0));
            match before == 1 {
                true => moved += 1,
                false => assert_eq!(before, after),
            }
        }
        assert!((3900..4100).contains(&moved), "{moved}");
    }
}
