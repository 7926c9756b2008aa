//! The cost of each event to a member in CPU microseconds, for `loligo model --own-file`.

use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use super::{BODY_BYTES, Options, Sample, build, fill, measure, one};
use crate::bench::stats::Spread;
use crate::cluster::bed::Bed;
use crate::cluster::member::Member;
use crate::cluster::site::{PASSED, Role, Route, SITE};
use crate::failure::Result;
use crate::wrk::Objects;

/// Two hundred times as many objects as fit the memory of a member here.
const ON_DISK: u64 = 20_000;

/// Metric: pushes of a front that a member has stored.
pub const PUSHED: &str = "loligo_cluster_pushes_stored_total";

/// An event and its cost.
#[derive(Debug, Serialize)]
pub struct Cost {
    /// The name in `loligo model`.
    pub name: &'static str,
    pub us: Spread,
}

/// A front and a node, HAProxy and a node.
pub struct Single {
    cluster: Bed,
    behind: Bed,
}

impl Single {
    /// Starts both, with objects on the nodes' disks.
    pub fn build() -> Result<Self> {
        let single = Self {
            cluster: build(Route::Hints, 1, 1)?,
            behind: build(Route::Haproxy, 1, 1)?,
        };
        for bed in [&single.cluster, &single.behind] {
            let node = one(bed, Role::Node)?;
            fill(node.at(SITE), ON_DISK, BODY_BYTES, "d")?;
            fill(node.at(SITE), 1, BODY_BYTES, "hot")?;
        }
        // After this time the front has received the node's hints.
        crate::interrupt::pause(Duration::from_secs(3))?;
        Ok(single)
    }

    /// Measures each event once, for the time in `options`.
    pub fn round(&self, round: u32, options: &Options) -> Result<Vec<Sample>> {
        let (front, node) = (
            one(&self.cluster, Role::Front)?,
            one(&self.cluster, Role::Node)?,
        );
        let (balancer, its_node) = (
            one(&self.behind, Role::Balancer)?,
            one(&self.behind, Role::Node)?,
        );
        let random = || Objects::Random {
            prefix: "d".into(),
            count: ON_DISK,
            seed: u64::from(round) + 1,
        };
        let unique = |what: &str| Objects::Unique {
            prefix: format!("{what}{round}-"),
        };
        let cost = |members: &[&Member], at: &Member, objects: Objects| {
            let measured = measure(members, at.at(SITE), BODY_BYTES, objects, options)?;
            Ok(measured)
        };
        let hot = Objects::One { id: "hot0".into() };
        let memory = cost(&[node], node, hot)?.cpu_us[0];
        let disk = cost(&[node], node, random())?.cpu_us[0];
        let miss = cost(&[node], node, unique("m"))?.cpu_us[0];
        let pass = cost(&[node], node, unique(PASSED))?.cpu_us[0];
        let forwarded = cost(&[front, node], front, random())?.cpu_us;
        let pushed = cost(&[front, node], front, unique("n"))?;
        let balanced = cost(&[balancer, its_node], balancer, random())?.cpu_us;
        // Divide by the pushes that a member stored: one that finds the queue full costs almost nothing, and would lower the cost of a push.
        let pushes = pushed.an_answer(0..1, PUSHED, "");
        let pushed = pushed.cpu_us;
        Ok(vec![
            ("memory-hit-us", memory),
            ("disk-hit-us", disk),
            ("stored-miss-us", miss),
            ("pass-us", pass),
            ("forward-us", forwarded[0]),
            ("forwarded-extra-us", forwarded[1] - disk),
            ("push-us", (pushed[0] - pass).max(0.0) / pushes),
            ("take-push-us", pushed[1] / pushes),
            ("balance-us", balanced[0]),
        ])
    }
}

/// The medians of each figure over all rounds.
pub fn medians(rounds: &[Vec<Sample>]) -> Vec<Cost> {
    let names = rounds.first().into_iter().flatten().map(|(name, _)| *name);
    let of = |name| {
        let samples = rounds.iter().flatten();
        let same = samples.filter(move |(it, _)| *it == name);
        Spread::of(same.map(|(_, us)| *us))
    };
    names.map(|name| Cost { name, us: of(name) }).collect()
}

/// The costs as JSON for `loligo model --own-file`.
pub fn as_own_file(costs: &[Cost]) -> serde_json::Value {
    let pairs = costs.iter().map(|cost| {
        (
            cost.name.to_owned(),
            json!((cost.us.median * 100.0).round() / 100.0),
        )
    });
    serde_json::Value::Object(pairs.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_an_object_of_names_and_numbers() {
        let cost = |name, us| Cost {
            name,
            us: Spread::of([us]),
        };
        let file = as_own_file(&[cost("memory-hit-us", 5.0612), cost("push-us", 0.0)]);
        assert_eq!(file, json!({"memory-hit-us": 5.06, "push-us": 0.0}));
    }
}
