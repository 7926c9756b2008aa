//! Turns costs and a mix of requests into a network of stations.
//!
//! Stations are the processors of the fronts, the processors of the nodes, and the nodes' disks. The origin is a delay.
//!
//! | shape | a request that cannot be cached | a miss | a hit |
//! |---|---|---|---|
//! | nodes alone | a node forwards it | the node fetches and stores | the node |
//! | redirect | a front forwards it | handed to a node | handed to a node |
//! | hints | a front forwards it | the front fetches and pushes to a node | handed to the node that has it, or from the front's memory |
//! | hashing | handed to the node that the URL names, which forwards it | handed to that node, which fetches and stores | handed to that node |
//! | equals | the machine that got it | that machine fetches and stores | that machine, or handed to the one that has it |
//!
//! Requests are distributed evenly among the machines; the distribution itself costs nothing here.
//!
//! Not known here: which system the costs are of.
//! Limits: every node has the same share of the hits; no object is so hot that its node is busier than the others.

use crate::station::{Event, Network, Path, Station};

/// Costs of a front's processor, microseconds an event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrontCosts {
    /// A request that cannot be cached, passed to the origin.
    pub pass_us: f64,
    /// A miss: fetched and answered, without the push.
    pub miss_us: f64,
    /// A hit in the front's memory.
    pub memory_hit_us: f64,
    /// Handing a request to a node, and, if the answer goes through the front, relaying it.
    pub forward_us: f64,
    /// The same for a balancer that hashes URLs and has no hints.
    pub balance_us: f64,
    /// Looking up the hints.
    pub look_up_us: f64,
    /// Sending an object to a node.
    pub push_us: f64,
    /// Taking a copy of a hot object from a node.
    pub take_copy_us: f64,
    /// Applying one entry of an update.
    pub update_us: f64,
}

/// Costs of a node's processor, microseconds an event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NodeCosts {
    /// A request that cannot be cached, passed to the origin.
    pub pass_us: f64,
    /// A miss: fetched, answered and stored.
    pub miss_us: f64,
    /// A hit in memory.
    pub memory_hit_us: f64,
    /// A hit from disk.
    pub disk_hit_us: f64,
    /// Extra cost of a request that a front hands over, compared with one from a client; negative if it is cheaper.
    pub forwarded_extra_us: f64,
    /// Receiving and storing an object that a front pushes.
    pub take_push_us: f64,
    /// Sending a copy of a hot object to a front.
    pub give_copy_us: f64,
    /// Making one entry of an update.
    pub update_us: f64,
}

/// Costs of a node's disks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiskCosts {
    /// One read, microseconds.
    pub read_us: f64,
    /// Writes to store one object, microseconds.
    pub write_us: f64,
    /// Disks of one node; 0 for disks that are never the bottleneck.
    pub disks: u32,
    /// Variance over the square of the mean.
    pub variability: f64,
}

/// All costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// Costs of a front's processor.
    pub front: FrontCosts,
    /// Costs of a node's processor.
    pub node: NodeCosts,
    /// Costs of a node's disks.
    pub disk: DiskCosts,
    /// Processors of a machine that work at the same time.
    pub cores: u32,
    /// Mean time of a fetch from the origin, microseconds.
    pub origin_us: f64,
}

/// The mix of requests; shares of all requests unless said otherwise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mix {
    /// Requests that cannot be cached.
    pub uncachable: f64,
    /// Cachable requests that are in no cache. The rest of 1 are hits.
    pub miss: f64,
    /// Share of the nodes' hits that are read from disk.
    pub from_disk: f64,
    /// Share of the misses for which the hints wrongly name a node. That node then fetches.
    pub false_hits: f64,
    /// Share of the fronts' fetches that are pushed. The others find the queue full.
    pub pushed: f64,
}

impl Mix {
    /// Share of requests that hit.
    pub fn hit(&self) -> f64 {
        (1.0 - self.uncachable - self.miss).max(0.0)
    }
}

/// How machines are arranged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// Nodes behind a balancer that distributes requests.
    Alone {
        /// Number of nodes.
        nodes: u32,
    },
    /// Fronts that handle only requests that cannot be cached.
    Redirect {
        /// Number of fronts.
        fronts: u32,
        /// Number of nodes behind them.
        nodes: u32,
    },
    /// Fronts with hints about what the nodes have.
    Hints {
        /// Number of fronts.
        fronts: u32,
        /// Number of nodes behind them.
        nodes: u32,
        /// Share of the hits that the fronts' memory answers.
        from_memory: f64,
        /// Share of the nodes' hits of which a copy goes to a front.
        copied: f64,
    },
    /// Balancers that hand each URL to the node that its hash selects.
    Hashing {
        /// Number of balancers.
        fronts: u32,
        /// Number of nodes behind them.
        nodes: u32,
    },
    /// Nodes that also are fronts for each other.
    Equals {
        /// Number of nodes.
        nodes: u32,
    },
}

/// The network of `shape` with these costs and requests.
pub fn network(costs: &Costs, mix: &Mix, shape: Shape) -> Network {
    let mut work = Work::default();
    let (fronts, nodes) = match shape {
        Shape::Alone { nodes } => {
            work.alone(costs, mix);
            (0, nodes)
        }
        Shape::Redirect { fronts, nodes } => {
            work.redirect(costs, mix);
            (fronts, nodes)
        }
        Shape::Hints {
            fronts,
            nodes,
            from_memory,
            copied,
        } => {
            work.hints(costs, mix, fronts, from_memory, copied);
            (fronts, nodes)
        }
        Shape::Hashing { fronts, nodes } => {
            work.hashing(costs, mix);
            (fronts, nodes)
        }
        Shape::Equals { nodes } => {
            work.equals(costs, mix, nodes);
            (0, nodes)
        }
    };
    let mut stations = Vec::with_capacity(3);
    let mut add = |name, copies: u32, events: Vec<Event>| {
        if copies > 0 && !events.is_empty() {
            stations.push(Station {
                name,
                copies,
                events,
            });
        }
    };
    add("front", fronts * costs.cores, work.front);
    add("node", nodes * costs.cores, work.node);
    add("disk", nodes * costs.disk.disks, work.disk);
    Network {
        stations,
        delay_us: (mix.uncachable + mix.miss) * costs.origin_us,
    }
}

/// Events a request, by station.
#[derive(Default)]
struct Work {
    front: Vec<Event>,
    node: Vec<Event>,
    disk: Vec<Event>,
}

fn event(name: &'static str, visits: f64, mean_us: f64, path: Path) -> Event {
    Event {
        name,
        visits,
        mean_us,
        variability: 0.0,
        path,
    }
}

impl Work {
    fn alone(&mut self, costs: &Costs, mix: &Mix) {
        let node = &costs.node;
        let uncachable = event("pass", mix.uncachable, node.pass_us, Path::Waited);
        self.node.push(uncachable);
        self.node
            .push(event("miss", mix.miss, node.miss_us, Path::Waited));
        self.hits(costs, mix, mix.hit(), 0.0);
        self.store(costs, mix.miss);
    }

    fn redirect(&mut self, costs: &Costs, mix: &Mix) {
        let (front, node) = (&costs.front, &costs.node);
        let cachable = mix.hit() + mix.miss;
        let extra = node.forwarded_extra_us;
        self.front
            .push(event("pass", mix.uncachable, front.pass_us, Path::Waited));
        self.front
            .push(event("forward", cachable, front.forward_us, Path::Waited));
        self.node
            .push(event("miss", mix.miss, node.miss_us + extra, Path::Waited));
        self.hits(costs, mix, mix.hit(), extra);
        self.store(costs, mix.miss);
    }

    fn hints(&mut self, costs: &Costs, mix: &Mix, fronts: u32, from_memory: f64, copied: f64) {
        let (front, node) = (&costs.front, &costs.node);
        let handed = mix.hit() * (1.0 - from_memory);
        let wrong = mix.miss * mix.false_hits;
        let fetched = mix.miss - wrong;
        let pushed = fetched * mix.pushed;
        let extra = node.forwarded_extra_us;
        // Each front hears of every removal and of every fetch by a node itself, but not of objects that fronts pushed (eager).
        let entries = pushed + 2.0 * wrong;
        let told = entries * f64::from(fronts);
        let asked = mix.miss + handed;
        let copies = handed * copied;
        self.front.extend([
            event("pass", mix.uncachable, front.pass_us, Path::Waited),
            event("miss", fetched, front.miss_us, Path::Waited),
            event(
                "memory hit",
                mix.hit() * from_memory,
                front.memory_hit_us,
                Path::Waited,
            ),
            event("look-up", asked, front.look_up_us, Path::Waited),
            event("forward", handed + wrong, front.forward_us, Path::Waited),
            event("push", pushed, front.push_us, Path::Aside),
            event("copy", copies, front.take_copy_us, Path::Aside),
            event("update", told, front.update_us, Path::Aside),
        ]);
        self.node.extend([
            event("miss", wrong, node.miss_us + extra, Path::Waited),
            event("pushed", pushed, node.take_push_us, Path::Aside),
            event("copy", copies, node.give_copy_us, Path::Aside),
            event("update", entries, node.update_us, Path::Aside),
        ]);
        self.hits(costs, mix, handed, extra);
        self.store(costs, pushed + wrong);
    }

    fn hashing(&mut self, costs: &Costs, mix: &Mix) {
        let node = &costs.node;
        let extra = node.forwarded_extra_us;
        let balanced = event("balance", 1.0, costs.front.balance_us, Path::Waited);
        self.front.push(balanced);
        self.node.extend([
            event("pass", mix.uncachable, node.pass_us + extra, Path::Waited),
            event("miss", mix.miss, node.miss_us + extra, Path::Waited),
        ]);
        self.hits(costs, mix, mix.hit(), extra);
        self.store(costs, mix.miss);
    }

    fn equals(&mut self, costs: &Costs, mix: &Mix, nodes: u32) {
        let (front, node) = (&costs.front, &costs.node);
        let elsewhere = mix.hit() * f64::from(nodes - 1) / f64::from(nodes);
        let wrong = mix.miss * mix.false_hits;
        // A node tells all others what it stores and removes.
        let entries = 2.0 * mix.miss;
        let told = entries * f64::from(nodes - 1);
        self.node.extend([
            event("pass", mix.uncachable, node.pass_us, Path::Waited),
            event("miss", mix.miss, node.miss_us, Path::Waited),
            event(
                "look-up",
                mix.miss + elsewhere,
                front.look_up_us,
                Path::Waited,
            ),
            event("forward", elsewhere + wrong, front.forward_us, Path::Waited),
            event("update", entries, node.update_us, Path::Aside),
            event("update of others", told, front.update_us, Path::Aside),
        ]);
        self.hits(costs, mix, mix.hit() - elsewhere, 0.0);
        self.hits(costs, mix, elsewhere, node.forwarded_extra_us);
        self.store(costs, mix.miss);
    }

    /// Adds hits that nodes answer.
    fn hits(&mut self, costs: &Costs, mix: &Mix, hits: f64, extra_us: f64) {
        let node = &costs.node;
        let read = hits * mix.from_disk;
        let memory_us = node.memory_hit_us + extra_us;
        let disk_us = node.disk_hit_us + extra_us;
        self.node
            .push(event("memory hit", hits - read, memory_us, Path::Waited));
        self.node
            .push(event("disk hit", read, disk_us, Path::Waited));
        self.disk.push(Event {
            variability: costs.disk.variability,
            ..event("read", read, costs.disk.read_us, Path::Waited)
        });
    }

    /// Adds writes of objects by nodes.
    fn store(&mut self, costs: &Costs, stored: f64) {
        self.disk.push(Event {
            variability: costs.disk.variability,
            ..event("write", stored, costs.disk.write_us, Path::Aside)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Powers of ten, so that a sum shows its terms.
    fn costs() -> Costs {
        Costs {
            front: FrontCosts {
                pass_us: 1.0,
                miss_us: 10.0,
                memory_hit_us: 100.0,
                forward_us: 1_000.0,
                balance_us: 2_000.0,
                look_up_us: 10_000.0,
                push_us: 100_000.0,
                take_copy_us: 1_000_000.0,
                update_us: 0.0,
            },
            node: NodeCosts {
                pass_us: 1.0,
                miss_us: 10.0,
                memory_hit_us: 100.0,
                disk_hit_us: 1_000.0,
                forwarded_extra_us: 0.0,
                take_push_us: 10_000.0,
                give_copy_us: 100_000.0,
                update_us: 0.0,
            },
            disk: DiskCosts {
                read_us: 1.0,
                write_us: 10.0,
                disks: 1,
                variability: 0.0,
            },
            cores: 1,
            origin_us: 1.0,
        }
    }

    /// 40 % cannot be cached, 20 % miss, 40 % hit, half of those from disk.
    const MIX: Mix = Mix {
        uncachable: 0.4,
        miss: 0.2,
        from_disk: 0.5,
        false_hits: 0.0,
        pushed: 1.0,
    };

    fn demands(costs: &Costs, mix: &Mix, shape: Shape) -> Vec<(&'static str, f64)> {
        let stations = network(costs, mix, shape).stations;
        let rounded = |d: f64| (d * 1e6).round() / 1e6;
        stations
            .iter()
            .map(|s| (s.name, rounded(s.demand_us())))
            .collect()
    }

    #[test]
    fn each_shape_puts_the_work_where_it_belongs() {
        let of = |shape| demands(&costs(), &MIX, shape);
        assert_eq!(
            of(Shape::Alone { nodes: 2 }),
            [("node", (0.4 + 2.0 + 20.0 + 200.0) / 2.0), ("disk", 1.1)]
        );
        let redirect = Shape::Redirect {
            fronts: 1,
            nodes: 2,
        };
        assert_eq!(
            of(redirect),
            [("front", 600.4), ("node", 111.0), ("disk", 1.1)]
        );
        let hashing = Shape::Hashing {
            fronts: 1,
            nodes: 2,
        };
        assert_eq!(
            of(hashing),
            [("front", 2_000.0), ("node", 111.2), ("disk", 1.1)]
        );
        let hints = Shape::Hints {
            fronts: 1,
            nodes: 2,
            from_memory: 0.5,
            copied: 0.0,
        };
        assert_eq!(
            of(hints),
            [
                ("front", 0.4 + 2.0 + 20.0 + 200.0 + 4_000.0 + 20_000.0),
                ("node", (10.0 + 100.0 + 2_000.0) / 2.0),
                ("disk", 1.05)
            ]
        );
        assert_eq!(
            of(Shape::Equals { nodes: 2 }),
            [
                ("node", (0.4 + 2.0 + 20.0 + 200.0 + 200.0 + 4_000.0) / 2.0),
                ("disk", 1.1)
            ]
        );
    }

    #[test]
    fn a_false_hit_is_a_miss_of_the_node() {
        let wrong = Mix {
            false_hits: 1.0,
            ..MIX
        };
        let shape = Shape::Hints {
            fronts: 1,
            nodes: 1,
            from_memory: 0.0,
            copied: 0.0,
        };
        let found = demands(&costs(), &wrong, shape);
        assert_eq!(found[0], ("front", 0.4 + 600.0 + 6_000.0));
        assert_eq!(found[1], ("node", 2.0 + 20.0 + 200.0));
    }

    #[test]
    fn what_finds_no_room_costs_no_push() {
        let half = Mix { pushed: 0.5, ..MIX };
        let shape = Shape::Hints {
            fronts: 1,
            nodes: 1,
            from_memory: 1.0,
            copied: 0.0,
        };
        let [whole, half] = [MIX, half].map(|mix| demands(&costs(), &mix, shape));
        assert_eq!((whole[0].1 - half[0].1).round(), 10_000.0);
        assert_eq!((whole[1].1, half[1].1), (2_000.0, 1_000.0));
        assert_eq!((whole[2].1, half[2].1), (2.0, 1.0));
    }

    #[test]
    fn every_front_is_told_everything() {
        let mut costs = costs();
        costs.front = FrontCosts {
            update_us: 1.0,
            ..FrontCosts {
                pass_us: 0.0,
                miss_us: 0.0,
                memory_hit_us: 0.0,
                forward_us: 0.0,
                balance_us: 0.0,
                look_up_us: 0.0,
                push_us: 0.0,
                take_copy_us: 0.0,
                update_us: 0.0,
            }
        };
        let front = |fronts| {
            let shape = Shape::Hints {
                fronts,
                nodes: 1,
                from_memory: 0.0,
                copied: 0.0,
            };
            demands(&costs, &MIX, shape)[0].1
        };
        assert_eq!(front(1), 0.2);
        assert_eq!(front(4), front(1));
    }

    #[test]
    fn a_node_without_disks_waits_for_none() {
        let mut costs = costs();
        costs.disk.disks = 0;
        let network = network(&costs, &MIX, Shape::Alone { nodes: 1 });
        assert_eq!(network.stations.len(), 1);
    }
}
