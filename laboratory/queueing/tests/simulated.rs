//! The formulas beside an event-by-event simulation of the same stations.
//!
//! Requests arrive at random times (Poisson), go through their events one after another, and wait at each station in the order
//! in which they came. Every copy of a station is simulated with a queue of its own.

use queueing::cluster::{Shape, network};
use queueing::paper::{FRONT_MHZ, MIX, Unprinted};
use queueing::station::{Event, Network, Path, Station};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// SplitMix64: short, and good enough for queues.
struct Chance(u64);

impl Chance {
    /// Even in (0, 1].
    fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64 + f64::MIN_POSITIVE
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.share().ln()
    }

    /// Of this mean and variability: constant, or a constant part and an exponential one.
    fn service(&mut self, event: &Event) -> f64 {
        let random = event.variability.sqrt();
        assert!(random <= 1.0, "only up to exponential");
        event.mean_us * (1.0 - random)
            + self.exponential(event.mean_us * random + f64::MIN_POSITIVE)
    }
}

/// A visit to be made: which station, which of its events.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Visit(usize, usize);

struct Found {
    stay_us: f64,
    /// Requests a second that ended.
    rate: f64,
}

/// Simulates `requests` at `rate`, and measures those after a first fifth.
fn simulate(network: &Network, rate: f64, requests: usize, seed: u64) -> Found {
    let mut chance = Chance(seed);
    let mut free_us: Vec<Vec<f64>> = network
        .stations
        .iter()
        .map(|s| vec![0.0; s.copies as usize])
        .collect();
    let mut plans: Vec<Vec<Visit>> = Vec::new();
    let mut began_us: Vec<f64> = Vec::new();
    // What happens next: time in nanoseconds (ordered), request, how many of its visits are done.
    let mut next: BinaryHeap<Reverse<(u64, usize, usize)>> = BinaryHeap::new();
    let mut now_us = 0.0;
    for request in 0..requests {
        now_us += chance.exponential(1e6 / rate);
        began_us.push(now_us);
        plans.push(plan(network, &mut chance));
        next.push(Reverse(((now_us * 1e3) as u64, request, 0)));
    }
    let first_counted = requests / 5;
    let (mut stay_us, mut counted, mut end_us) = (0.0, 0u32, 0.0f64);
    while let Some(Reverse((time_ns, request, done))) = next.pop() {
        let at_us = time_ns as f64 / 1e3;
        let Some(&Visit(station, event)) = plans[request].get(done) else {
            end_us = end_us.max(at_us);
            if request >= first_counted {
                stay_us += at_us - began_us[request];
                counted += 1;
            }
            continue;
        };
        let of = &network.stations[station];
        let copy = (chance.share() * f64::from(of.copies)) as usize % of.copies as usize;
        let free = &mut free_us[station][copy];
        *free = free.max(at_us) + chance.service(&of.events[event]);
        match of.events[event].path {
            Path::Waited => next.push(Reverse(((*free * 1e3) as u64, request, done + 1))),
            // The request goes on; the work stays behind.
            Path::Aside => next.push(Reverse((time_ns, request, done + 1))),
        }
    }
    Found {
        stay_us: stay_us / f64::from(counted),
        rate: requests as f64 / end_us * 1e6,
    }
}

/// What one request visits: each event as often as it says in the mean.
fn plan(network: &Network, chance: &mut Chance) -> Vec<Visit> {
    let mut visits = Vec::new();
    for (at, station) in network.stations.iter().enumerate() {
        for (kind, event) in station.events.iter().enumerate() {
            let whole = event.visits.floor();
            let more = chance.share() <= event.visits - whole;
            for _ in 0..whole as u32 + u32::from(more) {
                visits.push(Visit(at, kind));
            }
        }
    }
    visits
}

const REQUESTS: usize = 200_000;

fn one(variability: f64) -> Network {
    let event = |visits, mean_us| Event {
        name: "work",
        visits,
        mean_us,
        variability,
        path: Path::Waited,
    };
    Network {
        stations: vec![Station {
            name: "s",
            copies: 1,
            events: vec![event(1.0, 1_000.0)],
        }],
        delay_us: 0.0,
    }
}

#[track_caller]
fn within(found: f64, expected: f64, share: f64) {
    assert!(
        (found / expected - 1.0).abs() <= share,
        "simulated {found}, computed {expected}"
    );
}

#[test]
fn one_station_is_as_computed() {
    for variability in [0.0, 0.3, 1.0] {
        let network = one(variability);
        for busy in [0.3, 0.6, 0.8] {
            let rate = busy * network.capacity();
            let found = simulate(&network, rate, REQUESTS, 1);
            within(found.stay_us, network.stay_us(rate).unwrap(), 0.03);
        }
    }
}

#[test]
fn a_cluster_of_the_paper_is_as_computed() {
    let costs = Unprinted::default().costs(FRONT_MHZ);
    let shapes = [
        Shape::Alone { nodes: 4 },
        Shape::Hints {
            fronts: 1,
            nodes: 4,
            from_memory: 0.25,
            copied: 0.25,
        },
        Shape::Redirect {
            fronts: 2,
            nodes: 4,
        },
        Shape::Equals { nodes: 3 },
    ];
    for (seed, shape) in (1..).zip(shapes) {
        let network = network(&costs, &MIX, shape);
        for busy in [0.3, 0.7] {
            let rate = busy * network.capacity();
            let found = simulate(&network, rate, REQUESTS, seed);
            within(found.stay_us, network.stay_us(rate).unwrap(), 0.15);
            within(found.rate, rate, 0.02);
        }
    }
}

#[test]
fn more_than_the_capacity_does_not_come_out() {
    let costs = Unprinted::default().costs(FRONT_MHZ);
    let network = network(&costs, &MIX, Shape::Alone { nodes: 2 });
    let found = simulate(&network, 1.5 * network.capacity(), REQUESTS, 7);
    within(found.rate, network.capacity(), 0.02);
    let below = simulate(&network, 0.95 * network.capacity(), REQUESTS, 7);
    within(below.rate, 0.95 * network.capacity(), 0.02);
}
