//! Compares four uses of the same machines, to find where a front pays.
//!
//! - *apart*: nodes behind a balancer of connections. Each has its own store, so the same object is in many stores, and together
//!   they hold fewer objects.
//! - *hashing*: HTTP balancers that send each URL to one node. All stores together are one; every request takes two machines.
//! - *fronts*: fronts with hints. All stores together are one; misses and requests that cannot be cached end at the front.
//! - *equals*: nodes with hints about each other. All stores together are one; a hit takes two machines if another one has it.
//!
//! Where machines are split into fronts and nodes, the best split is taken.
//!
//! Limits: those of the model; [`MACHINES_MAX`] machines.

use crate::cluster::{Costs, Mix, Shape, network};
use crate::own::Own;

/// Most machines in the tables.
pub const MACHINES_MAX: u32 = 64;

/// Numbers of machines in the tables.
pub const SIZES: [u32; 7] = [2, 3, 4, 6, 8, 12, 16];

/// Some machines in one use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Use {
    /// Number of machines that only route.
    pub fronts: u32,
    /// Number of the other machines.
    pub nodes: u32,
    /// Capacity, requests a second.
    pub rate: f64,
    /// The station that saturates first.
    pub bottleneck: &'static str,
    /// Share of the requests that go to the origin.
    pub to_origin: f64,
}

impl Use {
    /// Requests a second for the price of one node.
    pub fn for_the_price(&self, front_price: f64) -> f64 {
        self.rate / (f64::from(self.fronts) * front_price + f64::from(self.nodes))
    }
}

/// The same number of machines in four ways.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Number of machines.
    pub machines: u32,
    /// Separate stores.
    pub apart: Use,
    /// URLs distributed by hash.
    pub hashing: Use,
    /// Fronts with hints.
    pub fronts: Use,
    /// Equals with hints.
    pub equals: Use,
}

/// Compares the four uses of `machines`, at least 2.
pub fn compare(own: &Own, machines: u32) -> Line {
    let machines = machines.clamp(2, MACHINES_MAX);
    let (costs, mix) = (own.costs(), own.mix());
    let price = own.front_price;
    let memory = own.front_memory;
    Line {
        machines,
        apart: used(
            &costs,
            &own.mix_apart(machines),
            Shape::Alone { nodes: machines },
        ),
        hashing: best(&costs, &mix, machines, price, |fronts, nodes| {
            Shape::Hashing { fronts, nodes }
        }),
        fronts: best(&costs, &mix, machines, price, |fronts, nodes| {
            with_hints(fronts, nodes, memory)
        }),
        equals: used(&costs, &mix, Shape::Equals { nodes: machines }),
    }
}

/// The highest price of a front, in prices of a node, at which fronts and nodes carry as much for the money as equals.
///
/// `None` if they carry less even with free fronts.
pub fn break_even(own: &Own, machines: u32) -> Option<f64> {
    let machines = machines.clamp(2, MACHINES_MAX);
    let (costs, mix) = (own.costs(), own.mix());
    let equals = used(&costs, &mix, Shape::Equals { nodes: machines });
    let rate_each = equals.rate / f64::from(machines);
    let prices = (1..machines).map(|fronts| {
        let nodes = machines - fronts;
        let split = used(&costs, &mix, with_hints(fronts, nodes, own.front_memory));
        (split.rate / rate_each - f64::from(nodes)) / f64::from(fronts)
    });
    let highest = prices.fold(f64::NEG_INFINITY, f64::max);
    (highest > 0.0).then_some(highest)
}

fn with_hints(fronts: u32, nodes: u32, from_memory: f64) -> Shape {
    Shape::Hints {
        fronts,
        nodes,
        from_memory,
        copied: 0.0,
    }
}

fn best(
    costs: &Costs,
    mix: &Mix,
    machines: u32,
    price: f64,
    shape: impl Fn(u32, u32) -> Shape,
) -> Use {
    let mut best = used(costs, mix, shape(1, machines - 1));
    for fronts in 2..machines {
        let split = used(costs, mix, shape(fronts, machines - fronts));
        if split.for_the_price(price) > best.for_the_price(price) {
            best = split;
        }
    }
    best
}

fn used(costs: &Costs, mix: &Mix, shape: Shape) -> Use {
    let network = network(costs, mix, shape);
    let (fronts, nodes) = match shape {
        Shape::Alone { nodes } | Shape::Equals { nodes } => (0, nodes),
        Shape::Redirect { fronts, nodes }
        | Shape::Hashing { fronts, nodes }
        | Shape::Hints { fronts, nodes, .. } => (fronts, nodes),
    };
    Use {
        fronts,
        nodes,
        rate: network.capacity(),
        bottleneck: network.bottleneck(),
        to_origin: mix.uncachable + mix.miss,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_equal_machines_a_front_costs_what_it_relays() {
        // Without pushes and updates, a hit through a front costs as much as through an equal, but 1/n of the equals' hits need no second machine.
        let mut own = Own::default();
        for name in [
            "push-us",
            "take-push-us",
            "update-us",
            "look-up-us",
            "false-hits",
        ] {
            own.set(name, 0.0).unwrap();
        }
        own.set("stored-miss-us", own.pass_us).unwrap();
        for machines in SIZES {
            let line = compare(&own, machines);
            assert!(line.fronts.rate < line.equals.rate, "{line:?}");
            assert!(line.fronts.rate > 0.4 * line.equals.rate, "{line:?}");
        }
        assert!(break_even(&own, 8).is_some_and(|price| price < 1.0));
    }

    #[test]
    fn stores_apart_carry_more_while_the_disks_hold_and_send_more_to_the_origin() {
        let line = compare(&Own::default(), 8);
        assert!(line.apart.to_origin > line.equals.to_origin);
        assert_eq!(line.fronts.to_origin, line.equals.to_origin);
    }

    #[test]
    fn a_front_may_cost_what_break_even_says() {
        let mut own = Own::default();
        let price = break_even(&own, 8).unwrap();
        let gains = |own: &Own| {
            let line = compare(own, 8);
            line.fronts.for_the_price(own.front_price) - line.equals.for_the_price(1.0)
        };
        own.set("front-price", price * 0.99).unwrap();
        assert!(gains(&own) > 0.0);
        own.set("front-price", price * 1.01).unwrap();
        assert!(gains(&own) < 0.0);
    }

    #[test]
    fn a_front_that_gains_nothing_has_no_price() {
        let mut own = Own::default();
        own.set("take-push-us", 10_000.0).unwrap();
        assert_eq!(break_even(&own, 8), None);
    }
}
