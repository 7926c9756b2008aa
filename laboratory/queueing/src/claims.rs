//! The claims of paper 003 about its model, compared with the model.
//!
//! Each claim is a number of the model and the interval that it must be in. *About* a printed number means within [`ABOUT`] of it.
//!
//! The claims contradict each other, whatever the unprinted costs are. Two fronts and four nodes are one front and two nodes twice, so
//! `two-and-four` demands four times the throughput of two nodes where `three-times` says three. And if a front costs as much as a
//! node and doubles the throughput of four nodes, it adds 60 % for the price, not 40 %.
//!
//! Source: paper 003, section 3, introduction and conclusions.

use crate::cluster::Shape;
use crate::paper::{
    FASTER_FRONT_MHZ, FRONT_MHZ, FRONTS_MAX, NODES_MAX, Unprinted, hints, hints_with_memory,
    improvement, throughput,
};

/// A number is *about* a printed one if it differs by at most this share.
pub const ABOUT: f64 = 0.1;

/// How many claims there are.
pub const CLAIMS: usize = 14;

/// Numbers of nodes for which *for some* and *for all* are tested.
const SIZES: [u32; 5] = [1, 2, 4, 8, NODES_MAX];

/// A sentence of the paper.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// A short name.
    pub name: &'static str,
    /// Section of the paper.
    pub place: &'static str,
    /// The sentence.
    pub says: &'static str,
    /// The quantity that is computed.
    pub of: &'static str,
    /// The printed number, if there is one.
    pub printed: Option<f64>,
    /// The smallest value that meets the claim.
    pub low: f64,
    /// The largest value that meets the claim.
    pub high: f64,
    /// The value from the model.
    pub found: f64,
}

impl Claim {
    /// Whether the model meets the claim.
    pub fn is_met(&self) -> bool {
        (self.low..=self.high).contains(&self.found)
    }
}

/// More than 1, beyond rounding.
const MORE: f64 = 1.0 + 1e-9;
/// Less than 1, beyond rounding.
const LESS: f64 = 1.0 - 1e-9;

/// All claims, with the values of the model for these costs.
pub fn claims(unprinted: &Unprinted) -> [Claim; CLAIMS] {
    let costs = unprinted.costs(FRONT_MHZ);
    let faster = unprinted.costs(FASTER_FRONT_MHZ);
    let rate = |fronts, nodes| throughput(&costs, hints(fronts, nodes));
    let gain = |fronts, nodes| improvement(&costs, fronts, nodes);
    let redirected = |fronts, nodes| throughput(&costs, Shape::Redirect { fronts, nodes });
    let cached = |nodes| {
        let shape = hints_with_memory(1, nodes, unprinted.from_memory);
        throughput(&costs, shape) / rate(1, nodes)
    };
    let over_sizes = |f: &dyn Fn(u32) -> f64| SIZES.map(f).into_iter().fold(0.0, f64::max);
    let over_fronts = |f: &dyn Fn(u32) -> f64| (1..=FRONTS_MAX).map(f).fold(0.0, f64::max);
    let price = |gain: f64| 1.0 + gain;

    [
        about(
            "three-times",
            "Figure 4",
            "one front makes two nodes about three times as fast",
            "throughput of 1 front and 2 nodes over 2 nodes",
            3.0,
            rate(1, 2) / rate(0, 2),
        ),
        about(
            "two-times",
            "Figure 4, introduction",
            "one front makes four nodes about two times as fast",
            "throughput of 1 front and 4 nodes over 4 nodes",
            2.0,
            rate(1, 4) / rate(0, 4),
        ),
        above(
            "two-and-four",
            "Figure 4",
            "two fronts and four nodes are faster than sixteen nodes",
            "throughput of 2 fronts and 4 nodes over 16 nodes",
            MORE,
            rate(2, 4) / rate(0, NODES_MAX),
        ),
        below(
            "bottleneck",
            "Figure 4",
            "a front becomes the bottleneck of many nodes",
            "throughput of 1 front and 16 nodes over 1 front and 8",
            1.05,
            rate(1, NODES_MAX) / rate(1, 8),
        ),
        about(
            "plus-60",
            "Figure 5",
            "about 60 % better cost-performance with one front, two nodes",
            "improvement with 1 front and 2 nodes",
            0.60,
            gain(1, 2),
        ),
        about(
            "plus-40",
            "Figure 5, abstract",
            "about 40 % with one front, four nodes",
            "improvement with 1 front and 4 nodes",
            0.40,
            gain(1, 4),
        ),
        about(
            "plus-35",
            "conclusions",
            "about 35 % with one front, four nodes",
            "improvement with 1 front and 4 nodes",
            0.35,
            gain(1, 4),
        ),
        above(
            "faster-front",
            "Figure 5",
            "the gain grows with the speed of the front",
            "cost-performance with 700 MHz over 450 MHz, 1 front, the best of 1 to 16 nodes",
            MORE,
            over_sizes(&|n| price(improvement(&faster, 1, n)) / price(gain(1, n))),
        ),
        below(
            "second-front-small",
            "Figure 5",
            "two fronts are worth less than one for two nodes",
            "cost-performance of 2 fronts over 1, 2 nodes",
            LESS,
            price(gain(2, 2)) / price(gain(1, 2)),
        ),
        above(
            "second-front-large",
            "Figure 5",
            "two fronts pay for many nodes",
            "cost-performance of 2 fronts over 1, 16 nodes",
            MORE,
            price(gain(2, NODES_MAX)) / price(gain(1, NODES_MAX)),
        ),
        above(
            "beats-redirection",
            "Figure 6",
            "hints can do better than redirecting what cannot be cached",
            "throughput by hints over redirection, 1 front, the best of 1 to 16 nodes",
            MORE,
            over_sizes(&|n| rate(1, n) / redirected(1, n)),
        ),
        above(
            "twice-redirection",
            "Figure 6",
            "two nodes attain more than double of it",
            "the same, 2 nodes, the best of 1 to 4 fronts",
            2.0 * MORE,
            over_fronts(&|f| rate(f, 2) / redirected(f, 2)),
        ),
        about(
            "cache-marginal",
            "Figure 7",
            "the effect of a front's cache is marginal",
            "throughput with a caching front over one that does not cache, 4 nodes",
            1.0,
            cached(4),
        ),
        above(
            "cache-for-slow",
            "Figure 7",
            "a front's cache is for slow nodes",
            "the same, 1 node over 16 nodes",
            MORE,
            cached(1) / cached(NODES_MAX),
        ),
    ]
}

fn claim(
    name: &'static str,
    place: &'static str,
    says: &'static str,
    of: &'static str,
    found: f64,
) -> Claim {
    Claim {
        name,
        place,
        says,
        of,
        printed: None,
        low: 0.0,
        high: f64::INFINITY,
        found,
    }
}

fn about(
    name: &'static str,
    place: &'static str,
    says: &'static str,
    of: &'static str,
    printed: f64,
    found: f64,
) -> Claim {
    Claim {
        printed: Some(printed),
        low: printed * (1.0 - ABOUT),
        high: printed * (1.0 + ABOUT),
        ..claim(name, place, says, of, found)
    }
}

fn above(
    name: &'static str,
    place: &'static str,
    says: &'static str,
    of: &'static str,
    low: f64,
    found: f64,
) -> Claim {
    Claim {
        low,
        ..claim(name, place, says, of, found)
    }
}

fn below(
    name: &'static str,
    place: &'static str,
    says: &'static str,
    of: &'static str,
    high: f64,
    found: f64,
) -> Claim {
    Claim {
        high,
        ..claim(name, place, says, of, found)
    }
}
