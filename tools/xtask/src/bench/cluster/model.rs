//! Does the model extend from single events to a whole cluster? Compares the measured cost of a mix of requests, on a front and two
//! nodes, and on HAProxy and two nodes, with the result of `loligo model` from the costs of single events, measured in the same rounds,
//! and from the number of each event. The numbers are needed because some fetched objects are not pushed, when the queue is full, and
//! are fetched again.
//!
//! All members, clients and origin share this machine, so CPU time per answer is compared for each kind of member; the capacity is the
//! rate of the busiest member with a core of its own.   Source: paper 003, sections 3 and 5.

use queueing::cluster::{Shape, network};
use queueing::own::Own;

use super::costs::{Cost, PUSHED};
use super::{BODY_BYTES, Measured, Options, Sample, build, fill, measure, one};
use crate::cluster::bed::Bed;
use crate::cluster::member::Member;
use crate::cluster::site::{Role, Route, SITE};
use crate::failure::{During, Failure, Result};
use crate::truths::verdict::Verdict;
use crate::wrk::Objects;

/// Paper 003, section 5.
const MISS_PERCENT: u64 = 75;
const NODES: usize = 2;
/// Number of objects that are hits. A member's memory here holds a hundred, so nearly all are read from disk.
const KNOWN: u64 = 4000;
/// Largest allowed error of the model.
const OFF_MAX: f64 = 0.15;

/// A front and two nodes, HAProxy and two nodes.
pub struct Mixed {
    hints: Bed,
    hashing: Bed,
}

/// The measurements, by the names of samples.
const MEASURED: [(&str, Role, &str, &str); 2] = [
    ("hints", Role::Front, "hints: front", "hints: a node"),
    (
        "hashing",
        Role::Balancer,
        "hashing: balancer",
        "hashing: a node",
    ),
];

impl Mixed {
    /// Starts both clusters.
    pub fn build() -> Result<Self> {
        Ok(Self {
            hints: build(Route::Hints, 1, NODES)?,
            hashing: build(Route::Haproxy, 1, NODES)?,
        })
    }

    /// CPU microseconds per answer of the front member and of each node behind it; then the shares of events among the front's requests.
    pub fn round(&self, round: u32, options: &Options) -> Result<(Vec<Sample>, Vec<Sample>)> {
        let (mut samples, mut shares) = (Vec::new(), Vec::new());
        for (bed, (shape, role, front, node)) in
            [&self.hints, &self.hashing].into_iter().zip(MEASURED)
        {
            let measured = mixed(bed, role, round, options).during(|| shape.to_owned())?;
            if role == Role::Front {
                shares = shares_of(&measured);
            }
            let cpu_us = measured.cpu_us;
            let (first, nodes) = (cpu_us[0], &cpu_us[1..]);
            samples.push((front, first));
            samples.push((node, nodes.iter().sum::<f64>() / nodes.len() as f64));
        }
        Ok((samples, shares))
    }
}

/// The shares of events among the requests of a front, with the model's names.
fn shares_of(measured: &Measured) -> Vec<Sample> {
    let front = |name, label| measured.an_answer(0..1, name, label);
    let nodes = |name, label| measured.an_answer(1..measured.counts.len(), name, label);
    let requests = "loligo_requests_total";
    let from_front = front(requests, "memory-hit");
    let hit = front("loligo_cluster_hits_true_total", "") + from_front;
    let wrong = front("loligo_cluster_hits_false_total", "");
    let miss = 1.0 - hit;
    let (disk, memory) = (nodes(requests, "disk-hit"), nodes(requests, "memory-hit"));
    vec![
        ("hit", hit),
        ("front-memory", from_front / hit),
        ("from-disk", disk / (disk + memory)),
        ("false-hits", wrong / miss),
        ("pushed", (front(PUSHED, "") / (miss - wrong)).min(1.0)),
    ]
}

fn mixed(bed: &Bed, role: Role, round: u32, options: &Options) -> Result<Measured> {
    let door = one(bed, role)?;
    let nodes = bed.members.iter().filter(|it| it.spec.role == Role::Node);
    let members: Vec<&Member> = std::iter::once(door).chain(nodes).collect();
    let prefix = format!("x{round}-");
    // Twice: objects not pushed the first time, because the queue was full, are pushed the second time.
    for _ in 0..2 {
        fill(door.at(SITE), KNOWN, BODY_BYTES, &prefix)?;
    }
    let objects = Objects::Mixed {
        prefix,
        count: KNOWN,
        fresh_percent: MISS_PERCENT,
        seed: u64::from(round) + 1,
    };
    measure(&members, door.at(SITE), BODY_BYTES, objects, options)
}

/// Compares the model's results for `costs`, and for the front with `shares`, with the measurements: medians of all rounds.
pub fn verdicts(costs: &[Cost], measured: &[Cost], shares: &[Cost]) -> Result<Vec<Verdict>> {
    let asked = [
        ("hit", 1.0 - MISS_PERCENT as f64 / 100.0),
        ("from-disk", 1.0),
    ];
    let behind = own(costs, asked).map_err(Failure::new)?;
    let found = shares.iter().map(|share| (share.name, share.us.median));
    let fronts = own(costs, found).map_err(Failure::new)?;
    let nodes = NODES as u32;
    let hints = Shape::Hints {
        fronts: 1,
        nodes,
        from_memory: fronts.front_memory,
        copied: 0.0,
    };
    let shapes = [
        (hints, fronts),
        (Shape::Hashing { fronts: 1, nodes }, behind),
    ];
    let us = |name: &str| {
        let found = measured.iter().find(|it| it.name == name);
        found.map_or(f64::NAN, |it| it.us.median)
    };
    let mut verdicts = Vec::new();
    for ((shape, own), (name, _, front, node)) in shapes.into_iter().zip(MEASURED) {
        let model = network(&own.costs(), &own.mix(), shape);
        for (station, measured) in model.stations.iter().zip([front, node]) {
            let what = format!("CPU us an answer, {measured}");
            verdicts.push(Verdict::near(
                what,
                us(measured),
                station.demand_us(),
                OFF_MAX,
            ));
        }
        let possible = 1e6 / us(front).max(us(node));
        verdicts.push(Verdict::near(
            format!("{name}: answers/s if the busiest member has a core"),
            possible,
            model.capacity(),
            OFF_MAX,
        ));
    }
    Ok(verdicts)
}

/// The model's input: these costs, and shares for requests that are all cachable.
fn own<'n>(
    costs: &[Cost],
    shares: impl IntoIterator<Item = (&'n str, f64)>,
) -> Result<Own, String> {
    let mut own = Own::default();
    let costs = costs.iter().map(|cost| (cost.name, cost.us.median));
    own.set("uncachable", 0.0)?;
    for (name, value) in costs.chain(shares) {
        own.set(name, value)?;
    }
    Ok(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::stats::Spread;

    fn cost(name: &'static str, us: f64) -> Cost {
        Cost {
            name,
            us: Spread::of([us]),
        }
    }

    #[test]
    fn the_model_gets_the_costs_and_is_held_against_what_was_measured() {
        let costs = [
            cost("disk-hit-us", 10.0),
            cost("stored-miss-us", 30.0),
            cost("pass-us", 20.0),
            cost("forward-us", 12.0),
            cost("forwarded-extra-us", 0.0),
            cost("push-us", 8.0),
            cost("take-push-us", 6.0),
            cost("balance-us", 5.0),
        ];
        let shares = [
            cost("hit", 0.25),
            cost("from-disk", 1.0),
            cost("pushed", 0.5),
        ];
        // 0.75 x (20 + 8 / 2) + 0.25 x 12 at the front, half of 0.75 x 6 / 2 + 0.25 x 10 at a node; false hits and look-ups add a little.
        let measured = [
            cost("hints: front", 21.0),
            cost("hints: a node", 2.4),
            cost("hashing: balancer", 5.0),
            cost("hashing: a node", 20.0),
        ];
        let verdicts = verdicts(&costs, &measured, &shares).unwrap();
        let met: Vec<bool> = verdicts.iter().map(|it| it.is_met).collect();
        // For a node behind the balancer the model gives 12.5 us, and 20 was measured.
        assert_eq!(met, [true, true, true, true, false, false]);
    }
}
