//! The model of paper 003: its printed numbers, and those that it leaves open.
//!
//! The paper prints the costs of a hit and a miss in its two systems, the mix of requests, and the speeds of the processors. It does not
//! print the costs of a handoff, a push, a look-up, an update and a disk access. Those are [`Unprinted`], with bounds.
//! [`crate::fit`] searches the values that meet most of the paper's claims; the defaults are its result.
//!
//! Processor costs scale with 1/MHz.
//!
//! Source: paper 003, section 3.

use crate::cluster::{Costs, DiskCosts, FrontCosts, Mix, NodeCosts, Shape, network};
use crate::parameters::parameters;

/// Speed of the accelerator at which the costs are printed.
pub const FRONT_MEASURED_MHZ: f64 = 200.0;
/// A miss at that accelerator.
//= paper 003 section 3   514 us a miss (1,945/s) on a 200 MHz Power PC
pub const FRONT_MISS_US: f64 = 514.0;
/// A hit at that accelerator.
//= paper 003 section 3   209 us a hit (4,783/s)
pub const FRONT_HIT_US: f64 = 209.0;
/// Speed of a proxy node.
pub const NODE_MHZ: f64 = 300.0;
/// A miss at a proxy node.
//= paper 003 section 3   2,518 us a miss (397/s) on a 300 MHz Pentium II
pub const NODE_MISS_US: f64 = 2_518.0;
/// A hit at a proxy node.
//= paper 003 section 3   1,392 us a hit (718/s)
pub const NODE_HIT_US: f64 = 1_392.0;
/// A proxy node's context switch.
pub const NODE_SWITCH_US: f64 = 30.0;
/// Share of requests that cannot be cached.
pub const UNCACHABLE: f64 = 0.40;
/// Share of misses.
pub const MISS: f64 = 0.25;
/// Share of the nodes' hits that need the disk, one access each.
pub const FROM_DISK: f64 = 0.75;
/// Share of the nodes' hits that are pushed to a front with a cache.
pub const COPIED: f64 = 0.25;
/// Speed of a front by default.
pub const FRONT_MHZ: f64 = 450.0;
/// The other speed of Figure 5.
pub const FASTER_FRONT_MHZ: f64 = 700.0;
/// Most nodes in the figures.
pub const NODES_MAX: u32 = 16;
/// Most fronts in the figures.
pub const FRONTS_MAX: u32 = 4;

parameters! {
    /// What the paper does not print. Front costs at 200 MHz, node costs at 300 MHz.
    Unprinted {
        handoff_us = "handoff-us", 0.0..=800.0, 500.0, "front: handing a connection to a node", "fit";
        saved_us = "saved-us", 0.0..=1300.0, 0.0, "node: what it saves of a hit that is handed over", "fit";
        push_us = "push-us", 0.0..=800.0, 700.0, "front: sending an object to a node", "fit";
        take_push_us = "take-push-us", 0.0..=2518.0, 1500.0, "node: storing an object that a front pushed", "fit";
        look_up_us = "look-up-us", 0.0..=100.0, 17.0, "front: looking into the hints", "section 2: MD5 of 55 bytes 9 us and 1.2 us for the look-up, at 332 MHz";
        update_us = "update-us", 0.0..=100.0, 2.0, "front: one entry of an update; a node spends as much", "assumed: a look-up without hashing";
        disk_us = "disk-us", 50.0..=30000.0, 2000.0, "node: one access to a disk", "fit";
        disks = "disks", 0.0..=64.0, 4.0, "node: disks, 0 for none that could be a bottleneck", "assumed: one disk alone would stand less than a node's processor, without any front";
        disk_variability = "disk-variability", 0.0..=10.0, 0.3, "disk: variance over the square of the mean", "assumed: seeks and turns evenly spread";
        from_memory = "from-memory", 0.0..=1.0, 0.25, "share of the hits that a caching front answers, where claims need one", "assumed";
        origin_ms = "origin-ms", 0.0..=60000.0, 1000.0, "mean time of the origin", "assumed";
    }
}

/// The mix of requests in the paper.
pub const MIX: Mix = Mix {
    uncachable: UNCACHABLE,
    miss: MISS,
    from_disk: FROM_DISK,
    //= paper 003 section 3   directory hints: exact, so no false hits
    false_hits: 0.0,
    pushed: 1.0,
};

impl Unprinted {
    /// All costs with fronts of `front_mhz`.
    pub fn costs(&self, front_mhz: f64) -> Costs {
        let front = |us: f64| us * FRONT_MEASURED_MHZ / front_mhz;
        Costs {
            front: FrontCosts {
                pass_us: front(FRONT_MISS_US),
                miss_us: front(FRONT_MISS_US),
                memory_hit_us: front(FRONT_HIT_US),
                forward_us: front(self.handoff_us),
                balance_us: front(self.handoff_us),
                look_up_us: front(self.look_up_us),
                push_us: front(self.push_us),
                take_copy_us: front(self.push_us),
                update_us: front(self.update_us),
            },
            node: NodeCosts {
                pass_us: NODE_MISS_US,
                miss_us: NODE_MISS_US,
                memory_hit_us: NODE_HIT_US,
                disk_hit_us: NODE_HIT_US,
                forwarded_extra_us: NODE_SWITCH_US - self.saved_us,
                take_push_us: self.take_push_us,
                give_copy_us: self.take_push_us,
                update_us: self.update_us,
            },
            disk: DiskCosts {
                read_us: self.disk_us,
                write_us: self.disk_us,
                disks: self.disks as u32,
                variability: self.disk_variability,
            },
            cores: 1,
            origin_us: self.origin_ms * 1e3,
        }
    }
}

/// Fronts with hints and without caches; nodes alone if `fronts` is 0.
pub fn hints(fronts: u32, nodes: u32) -> Shape {
    hints_with_memory(fronts, nodes, 0.0)
}

/// Fronts that answer a share of the hits from their memory.
pub fn hints_with_memory(fronts: u32, nodes: u32, from_memory: f64) -> Shape {
    if fronts == 0 {
        return Shape::Alone { nodes };
    }
    Shape::Hints {
        fronts,
        nodes,
        from_memory,
        copied: if from_memory > 0.0 { COPIED } else { 0.0 },
    }
}

/// Capacity of `shape` in requests a second, with these costs and the paper's mix.
pub fn throughput(costs: &Costs, shape: Shape) -> f64 {
    network(costs, &MIX, shape).capacity()
}

/// Relative gain in requests a second for the price when `fronts` are added; a front costs as much as a node.
///
/// 0.6 is 60 % more.
pub fn improvement(costs: &Costs, fronts: u32, nodes: u32) -> f64 {
    let price = f64::from(fronts + nodes) / f64::from(nodes);
    let gain = throughput(costs, hints(fronts, nodes)) / throughput(costs, hints(0, nodes));
    gain / price - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_alone_carry_what_the_printed_costs_say() {
        // 0.65 x 2,518 + 0.35 x 1,392 = 2,123.9 us.
        let costs = Unprinted::default().costs(FRONT_MHZ);
        for (nodes, expected) in [(1, 471.0), (2, 942.0), (4, 1_883.0), (16, 7_533.0)] {
            let found = throughput(&costs, hints(0, nodes));
            assert!((found - expected).abs() < 1.0, "{nodes}: {found}");
        }
    }

    #[test]
    fn twice_the_machines_carry_twice_as_much() {
        let costs = Unprinted::default().costs(FRONT_MHZ);
        let one = throughput(&costs, hints(1, 2));
        let two = throughput(&costs, hints(2, 4));
        // Slightly less than twice, because every front applies all updates.
        assert!(two <= 2.0 * one && two > 1.99 * one, "{one}, {two}");
    }
}
