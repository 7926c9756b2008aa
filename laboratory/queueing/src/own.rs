//! Loligo's costs and mix of requests.
//!
//! Defaults are measured where `docs/measurements.md` has a figure; the others are assumptions and say so. Users should replace them
//! by figures of their own machine, all measured in one session.

use crate::cluster::{Costs, DiskCosts, FrontCosts, Mix, NodeCosts};
use crate::parameters::parameters;

parameters! {
    /// Loligo's costs, microseconds of one core an event, and the requests.
    Own {
        memory_hit_us = "memory-hit-us", 0.1..=10000.0, 5.06, "a hit from memory", "measured: docs/measurements.md, 10 KiB, 64 connections, logs and profile on";
        disk_hit_us = "disk-hit-us", 0.1..=10000.0, 6.23, "a hit from disk", "measured: the same, disk hit";
        stored_miss_us = "stored-miss-us", 0.1..=10000.0, 17.99, "a miss that is fetched and stored", "measured: the same, miss";
        pass_us = "pass-us", 0.1..=10000.0, 17.0, "a request fetched and not stored", "assumed: a miss without storing (an eighth of it)";
        forward_us = "forward-us", 0.1..=10000.0, 15.0, "handing a request to another member and relaying the answer", "assumed: a pass without names and a new connection";
        balance_us = "balance-us", 0.0..=10000.0, 15.0, "what another HTTP balancer spends on a request", "assumed: as much as forward-us";
        look_up_us = "look-up-us", 0.0..=100.0, 0.1, "one look into the hints", "assumed: the target of the design";
        push_us = "push-us", 0.0..=10000.0, 8.0, "a front: pushing an object to a node", "assumed: half of a pass";
        pushed = "pushed", 0.0..=1.0, 1.0, "share of what a front fetches that is pushed; for the rest its queue has no room", "assumed: the front is not overloaded";
        take_push_us = "take-push-us", 0.0..=10000.0, 10.0, "a node: storing what is pushed", "assumed: a miss without its client and origin";
        forwarded_extra_us = "forwarded-extra-us", -10.0..=10000.0, 0.0, "a node: what a handed-over hit costs beyond a client's", "assumed: nothing; both come on kept connections";
        update_us = "update-us", 0.0..=100.0, 0.1, "one object in an update of the hints, at either end", "assumed: as a look-up";
        disk_read_us = "disk-read-us", 1.0..=100000.0, 100.0, "one read of a disk", "assumed: flash";
        disk_write_us = "disk-write-us", 0.0..=100000.0, 5.0, "what storing an object takes of a disk", "measured: docs/measurements.md, 0.015 writes of a cluster an object";
        disks = "disks", 0.0..=64.0, 0.0, "disks of a node; 0 for none that could be a bottleneck", "assumed: flash does many reads at a time";
        disk_variability = "disk-variability", 0.0..=10.0, 0.3, "variance of a disk's time over the square of its mean", "assumed";
        cores = "cores", 1.0..=256.0, 1.0, "cores of a machine", "figures are a core";
        origin_ms = "origin-ms", 0.0..=60000.0, 200.0, "mean time of the origin", "assumed";
        uncachable = "uncachable", 0.0..=1.0, 0.2, "share of the requests that cannot be cached", "PolyMix: 20 %";
        hit = "hit", 0.0..=1.0, 0.5, "share of hits if one store were as large as all nodes' together", "PolyMix: half of the replies";
        hit_per_doubling = "hit-per-doubling", 0.0..=0.2, 0.03, "what a store twice as large adds to that share", "assumed: traces of the web give 0.02 to 0.05";
        from_disk = "from-disk", 0.0..=1.0, 0.75, "share of the nodes' hits that are read from disk", "paper 003, section 3";
        false_hits = "false-hits", 0.0..=1.0, 0.008, "share of the misses for which hints name a node nevertheless", "Bloom filter of 10 bits an object and 7 functions";
        front_memory = "front-memory", 0.0..=1.0, 0.0, "share of the hits that a front answers from its own memory", "assumed: a front that only routes";
        front_price = "front-price", 0.0..=10.0, 1.0, "price of a front over that of a node", "assumed: the same machine";
    }
}

impl Own {
    /// Returns an error message if the numbers do not fit together.
    pub fn check(&self) -> Result<(), String> {
        if self.uncachable + self.hit > 1.0 {
            return Err(format!(
                "uncachable {} and hit {} are more than all requests",
                self.uncachable, self.hit
            ));
        }
        Ok(())
    }

    /// The costs, with front and node on machines of the same type.
    pub fn costs(&self) -> Costs {
        Costs {
            front: FrontCosts {
                pass_us: self.pass_us,
                miss_us: self.pass_us,
                memory_hit_us: self.memory_hit_us,
                forward_us: self.forward_us,
                balance_us: self.balance_us,
                look_up_us: self.look_up_us,
                push_us: self.push_us,
                take_copy_us: self.take_push_us,
                update_us: self.update_us,
            },
            node: NodeCosts {
                pass_us: self.pass_us,
                miss_us: self.stored_miss_us,
                memory_hit_us: self.memory_hit_us,
                disk_hit_us: self.disk_hit_us,
                forwarded_extra_us: self.forwarded_extra_us,
                take_push_us: self.take_push_us,
                give_copy_us: self.push_us,
                update_us: self.update_us,
            },
            disk: DiskCosts {
                read_us: self.disk_read_us,
                write_us: self.disk_write_us,
                disks: self.disks as u32,
                variability: self.disk_variability,
            },
            cores: self.cores as u32,
            origin_us: self.origin_ms * 1e3,
        }
    }

    /// The mix if all stores together are one.
    pub fn mix(&self) -> Mix {
        self.mix_of_hits(self.hit)
    }

    /// The mix if each of `nodes` has its own store, which the others do not use.
    pub fn mix_apart(&self, nodes: u32) -> Mix {
        let lost = self.hit_per_doubling * f64::from(nodes).log2();
        self.mix_of_hits((self.hit - lost).max(0.0))
    }

    fn mix_of_hits(&self, hit: f64) -> Mix {
        Mix {
            uncachable: self.uncachable,
            miss: (1.0 - self.uncachable - hit).max(0.0),
            from_disk: self.from_disk,
            false_hits: self.false_hits,
            pushed: self.pushed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_apart_hit_less_often() {
        let own = Own::default();
        assert_eq!(own.mix_apart(1), own.mix());
        let eight = own.mix_apart(8);
        assert!((eight.hit() - (own.hit - 3.0 * own.hit_per_doubling)).abs() < 1e-12);
        assert!((eight.hit() + eight.miss + eight.uncachable - 1.0).abs() < 1e-12);
    }

    #[test]
    fn more_than_all_requests_are_refused() {
        let mut own = Own::default();
        own.set("hit", 0.9).unwrap();
        assert!(own.check().is_err());
        assert!(Own::default().check().is_ok());
    }

    #[test]
    fn every_default_is_within_its_bounds() {
        for parameter in Own::TABLE {
            assert_eq!(parameter.check(parameter.default), Ok(()));
        }
    }
}
