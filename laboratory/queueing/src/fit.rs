//! Searches the unprinted costs that meet most claims of paper 003.
//!
//! A grid over the five costs that matter: handoff, a node's saving for a hit that is handed over, push, storing a pushed object, and
//! the disks. Among points that meet equally many claims, the one nearest to the printed numbers is taken. The grid also tells
//! which claims no point meets together.
//!
//! Limits: [`POINTS`] points; values between them are not tried.

use crate::claims::{CLAIMS, Claim, claims};
use crate::paper::Unprinted;

const HANDOFF_US: [f64; 8] = [0.0, 50.0, 100.0, 200.0, 300.0, 400.0, 500.0, 700.0];
const SAVED_US: [f64; 6] = [0.0, 200.0, 400.0, 600.0, 800.0, 1_000.0];
const PUSH_US: [f64; 7] = [0.0, 50.0, 100.0, 200.0, 300.0, 500.0, 700.0];
const TAKE_PUSH_US: [f64; 9] = [
    0.0, 50.0, 100.0, 200.0, 300.0, 400.0, 700.0, 1_000.0, 1_500.0,
];
const DISK_US: [f64; 7] = [
    2_000.0, 4_000.0, 6_000.0, 8_000.0, 9_000.0, 9_500.0, 10_000.0,
];

/// Number of points in the grid.
pub const POINTS: usize =
    HANDOFF_US.len() * SAVED_US.len() * PUSH_US.len() * TAKE_PUSH_US.len() * DISK_US.len();

const _: () = assert!(CLAIMS <= 16, "a point's claims are bits of a u16");

/// The result of the search.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// The costs that meet most claims.
    pub best: Unprinted,
    /// The claims with those costs.
    pub claims: [Claim; CLAIMS],
    /// For each claim, in order: number of points that meet it.
    pub met_by: [usize; CLAIMS],
    /// Pairs of claims that points meet one by one, but none meets together.
    pub never_together: Vec<(&'static str, &'static str)>,
}

impl Fit {
    /// Number of claims that the best costs meet.
    pub fn met(&self) -> usize {
        self.claims.iter().filter(|c| c.is_met()).count()
    }
}

/// Tries the grid around `start`. Costs that are not in the grid keep their values.
pub fn fit(start: &Unprinted) -> Fit {
    let mut best = *start;
    let mut best_rank = (0, f64::NEG_INFINITY);
    let mut met_by = [0; CLAIMS];
    let mut together = [0u16; CLAIMS];
    for point in grid(start) {
        let found = claims(&point);
        let bits = met_bits(&found);
        for (at, (count, with)) in met_by.iter_mut().zip(&mut together).enumerate() {
            if bits & (1 << at) != 0 {
                *count += 1;
                *with |= bits;
            }
        }
        let rank = (bits.count_ones(), -distance(&found));
        if rank > best_rank {
            (best, best_rank) = (point, rank);
        }
    }
    let named = claims(&best);
    let mut never_together = Vec::new();
    for (first, with) in together.iter().enumerate() {
        for second in first + 1..CLAIMS {
            if with & (1 << second) == 0 && met_by[first] > 0 && met_by[second] > 0 {
                never_together.push((named[first].name, named[second].name));
            }
        }
    }
    Fit {
        best,
        claims: named,
        met_by,
        never_together,
    }
}

fn grid(start: &Unprinted) -> impl Iterator<Item = Unprinted> + '_ {
    (0..POINTS).map(|point| {
        let mut left = point;
        let mut digit = |values: &[f64]| {
            let value = values[left % values.len()];
            left /= values.len();
            value
        };
        Unprinted {
            handoff_us: digit(&HANDOFF_US),
            saved_us: digit(&SAVED_US),
            push_us: digit(&PUSH_US),
            take_push_us: digit(&TAKE_PUSH_US),
            disk_us: digit(&DISK_US),
            ..*start
        }
    })
}

fn met_bits(claims: &[Claim; CLAIMS]) -> u16 {
    let mut bits = 0;
    for (at, claim) in claims.iter().enumerate() {
        bits |= u16::from(claim.is_met()) << at;
    }
    bits
}

/// Sum of the relative distances from the printed numbers.
fn distance(claims: &[Claim; CLAIMS]) -> f64 {
    let off = |claim: &Claim| {
        let printed = claim.printed?;
        Some((claim.found - printed).abs() / printed)
    };
    claims.iter().filter_map(off).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_has_every_point_once() {
        let mut seen: Vec<String> = grid(&Unprinted::default())
            .map(|point| format!("{:?}", point.values()))
            .collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), POINTS);
    }

    #[test]
    fn the_defaults_are_what_the_grid_finds() {
        let found = fit(&Unprinted::default());
        assert_eq!(found.best, Unprinted::default());
        assert_eq!(found.met(), 10);
        // The paper's sentences contradict each other, whatever the costs.
        for pair in [
            ("three-times", "two-and-four"),
            ("three-times", "plus-60"),
            ("two-times", "plus-40"),
        ] {
            assert!(
                found.never_together.contains(&pair),
                "{:?}",
                found.never_together
            );
        }
    }
}
