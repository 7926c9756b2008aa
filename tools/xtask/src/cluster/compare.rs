//! A comparison of ways to find a node, over the same nodes: hit ratio, bytes moved by a change, CPU, times.
//!
//! Two things are measured for each way. *Steady and changing*: a crowd at a fixed rate, a node joins, another leaves (`changes`).
//! *Capacity*: wrk at full speed, three quarters of the requests for objects that no member has. The CPU time of each member for an
//! answer is measured; capacity is the rate of the busiest member with a core of its own. All members, the
//! clients and the origin share this machine, so the rate that wrk measured is printed but says less.
//!
//! Not known here: how a node is found.

use std::time::Duration;

use serde::Serialize;

use super::bed::{Bed, Plan};
use super::changes::{self, Story};
use super::crowd::Demand;
use super::report::{Grid, Lines, Section};
use super::site::{Route, SITE, Shape};
use crate::failure::Result;
use crate::http::Client;
use crate::origin;
use crate::truths::verdict::Verdict;
use crate::workspace;
use crate::wrk::{self, Load, Objects};

/// Paper 003, section 5: 75 % misses, bodies of 2 bytes.
const MISS_PERCENT: u64 = 75;
const BODY_BYTES: u64 = 2;
/// Number of objects that are hits.
const KNOWN: u64 = 2000;
const CONNECTIONS: u32 = 32;
/// Nodes behind a front or behind HAProxy.
const CAPACITY_NODES: usize = 2;
/// The wanted ratio of capacity with a front.
const WANTED: f64 = 1.5;

/// The capacity of one way.
#[derive(Debug, Clone, Serialize)]
pub struct Capacity {
    pub route: Route,
    pub rate: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    /// Name of each member, and its CPU time per answer in us.
    pub members: Vec<(String, f64)>,
}

impl Capacity {
    /// CPU time of all members per answer.
    pub fn cpu_us(&self) -> f64 {
        self.members.iter().map(|(_, us)| us).sum()
    }

    /// Answers a second of the busiest member with a core of its own.
    pub fn possible(&self) -> f64 {
        1e6 / self.busiest().1
    }

    fn busiest(&self) -> (&str, f64) {
        let found = self.members.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        found.map_or(("", f64::NAN), |(name, us)| (name, *us))
    }
}

/// Measures all these ways while a node joins and one leaves.
pub fn changes(plan: &Plan, routes: &[Route], demand: Demand, warm: Duration) -> Result<Section> {
    let mut section = Section::new(format!(
        "{} nodes, one joins and leaves, by how a node is found",
        plan.nodes
    ));
    let mut steady = Grid::new(
        "Steady, one node fewer",
        [
            "route",
            "answers",
            "hit %",
            "p50 ms",
            "p99 ms",
            "CPU us",
            "bytes moved",
            "errors",
        ],
    );
    let mut change = Grid::new(
        "A node joins, and leaves again",
        [
            "route",
            "change",
            "before %",
            "worst %",
            "after %",
            "fetched again",
            "KiB of it",
            "errors",
        ],
    );
    let mut curves = Vec::new();
    let mut marks = Vec::new();
    for &route in routes {
        let mut bed = Bed::build(&Plan {
            route,
            absent: 1,
            ..plan.clone()
        })?;
        let story = changes::run(&mut bed, demand, warm)?;
        rows(route, &story, &mut steady, &mut change);
        let points = story.seconds.iter().enumerate();
        curves.push((
            route.name().to_owned(),
            points
                .map(|(n, second)| (n as f64, second.hit_percent()))
                .collect(),
        ));
        marks = vec![
            (story.moments.0 as f64, "joins".into()),
            (story.moments.1 as f64, "leaves".into()),
        ];
        let errors: u64 = story.seconds.iter().map(|second| second.errors).sum();
        let first = story.examples.first().cloned().unwrap_or_default();
        section.verdicts.push(Verdict::none(
            format!("client errors: {}", route.name()),
            errors,
            &first,
        ));
    }
    section.grids.extend([steady, change]);
    section.lines.push(Lines {
        caption: "Hit ratio while a node joins and leaves".into(),
        y: "percent".into(),
        series: curves,
        marks,
    });
    Ok(section)
}

fn rows(route: Route, story: &Story, steady: &mut Grid, change: &mut Grid) {
    let name = || route.name().to_owned();
    let state = &story.steady;
    steady.row([
        name(),
        state.sum.answers.to_string(),
        format!("{:.1}", state.sum.hit_percent),
        format!("{:.2}", state.sum.p50_ms),
        format!("{:.1}", state.sum.p99_ms),
        format!("{:.0}", state.cpu_us),
        format!("{:.0}", state.moved_bytes),
        state.sum.errors.to_string(),
    ]);
    for (what, change_of) in [("joins", story.join), ("leaves", story.leave)] {
        change.row([
            name(),
            what.to_owned(),
            format!("{:.1}", change_of.before_percent),
            format!("{:.1}", change_of.worst_percent),
            format!("{:.1}", change_of.after_percent),
            format!("{:.0}", change_of.fetched_again),
            format!("{:.0}", change_of.fetched_again_bytes / 1024.0),
            change_of.errors.to_string(),
        ]);
    }
}

/// The capacity of two nodes by each way, with 75 % misses.
pub fn capacities(plan: &Plan, routes: &[Route], seconds: u64, rounds: u32) -> Result<Section> {
    let mut section = Section::new(format!(
        "{CAPACITY_NODES} nodes at {MISS_PERCENT} % misses, bodies of {BODY_BYTES} bytes"
    ));
    let mut found: Vec<Vec<Capacity>> = vec![Vec::new(); routes.len()];
    for round in 0..rounds {
        for (route, found) in routes.iter().zip(&mut found) {
            let bed = Bed::build(&Plan {
                shape: Shape::Front,
                route: *route,
                fronts: 1,
                nodes: CAPACITY_NODES,
                ..plan.clone()
            })?;
            found.push(capacity(&bed, *route, seconds, round)?);
        }
    }
    let medians: Vec<Capacity> = found.iter().map(|found| median(found).clone()).collect();
    let mut grid = Grid::new(
        "CPU us an answer, and what that allows",
        [
            "route",
            "answers/s here",
            "p50 us",
            "p99 us",
            "CPU us in all",
            "by member",
            "busiest",
            "answers/s possible",
        ],
    );
    for it in &medians {
        let members: Vec<String> = it
            .members
            .iter()
            .map(|(name, us)| format!("{name} {us:.1}"))
            .collect();
        grid.row([
            it.route.name().to_owned(),
            format!("{:.0}", it.rate),
            format!("{:.0}", it.p50_us),
            format!("{:.0}", it.p99_us),
            format!("{:.1}", it.cpu_us()),
            members.join(", "),
            it.busiest().0.to_owned(),
            format!("{:.0}", it.possible()),
        ]);
    }
    section.grids.push(grid);
    section.remarks.push(format!(
        "median of {rounds} rounds of {seconds} s, interleaved; possible: the busiest member with a core of its own"
    ));
    let of = |route| medians.iter().find(|it| it.route == route);
    if let (Some(front), Some(haproxy)) = (of(Route::Hints), of(Route::Haproxy)) {
        let ratio = front.possible() / haproxy.possible();
        section.verdicts.push(Verdict {
            what: format!("a front and {CAPACITY_NODES} nodes carry {WANTED} times what {CAPACITY_NODES} nodes behind HAProxy do"),
            how: format!("{:.0} against {:.0} answers a second: {ratio:.2} times", front.possible(), haproxy.possible()),
            is_met: ratio >= WANTED,
        });
    }
    Ok(section)
}

fn median(found: &[Capacity]) -> &Capacity {
    let mut order: Vec<&Capacity> = found.iter().collect();
    order.sort_by(|a, b| a.possible().total_cmp(&b.possible()));
    order[order.len() / 2]
}

fn capacity(bed: &Bed, route: Route, seconds: u64, round: u32) -> Result<Capacity> {
    let door = bed.doors()[0].site;
    // `o` for known objects; fresh ones have other names in each round.
    let prefix = format!("r{round}-");
    let mut client = Client::new(door);
    for _ in 0..2 {
        for n in 0..KNOWN {
            crate::interrupt::check()?;
            client.get(&origin::path(BODY_BYTES, &format!("{prefix}{n}")))?;
        }
    }
    let load = Load {
        is_encrypted: false,
        address: bed.members[0].at(SITE),
        connections: CONNECTIONS,
        time: Duration::from_secs(seconds),
        bytes: BODY_BYTES,
        objects: Objects::Mixed {
            prefix,
            count: KNOWN,
            fresh_percent: MISS_PERCENT,
            seed: u64::from(round) + 1,
        },
    };
    let before: Vec<Duration> = bed.members.iter().map(super::member::Member::cpu).collect();
    let figures = wrk::run(&load, &workspace::run_dir().join("wrk"))?;
    let cpu = bed.members.iter().zip(before).map(|(member, before)| {
        let us = member.cpu().saturating_sub(before).as_secs_f64() * 1e6;
        (member.name().to_owned(), us / figures.requests as f64)
    });
    Ok(Capacity {
        route,
        rate: figures.rate(),
        p50_us: figures.p50_us,
        p99_us: figures.p99_us,
        members: cpu.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_is_that_of_the_busiest() {
        let of = |us: f64| Capacity {
            route: Route::Hints,
            rate: 1.0,
            p50_us: 1.0,
            p99_us: 1.0,
            members: vec![("f1".into(), us), ("n1".into(), 50.0)],
        };
        assert_eq!(of(100.0).possible(), 10_000.0);
        assert_eq!(of(100.0).busiest().0, "f1");
        assert_eq!(of(100.0).cpu_us(), 150.0);
        let found = [of(300.0), of(100.0), of(200.0)];
        assert_eq!(median(&found).members[0].1, 200.0);
    }
}
