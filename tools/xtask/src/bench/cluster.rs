//! `cargo xtask bench cluster`: what a cluster costs a node (paper 003, section 5), and what each event costs.
//!
//! *Following*: a node alone, the same in a cluster that nobody else runs in, followed by one front, by two. Three quarters of the
//! requests are for objects that it does not have, bodies of 2 bytes, each connection asks again when it is answered. The four
//! are measured in turn, round after round; the fronts receive what the node says and do nothing else.
//!
//! *Costs*: CPU time of a member for a hit from memory, from disk, a stored miss, a request that is passed, a request that is
//! handed to a node, an object that is pushed; for `loligo model --own-file`.
//!
//! Not known here: how a cluster is built: `cluster::bed`.   Limits: one machine; CPU is counted in ticks of 10 ms.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::stats::Spread;
use super::table::Table;
use crate::cluster::bed::{Bed, Plan};
use crate::cluster::member::Member;
use crate::cluster::site::{PASSED, Role, Route, SITE, Shape};
use crate::failure::{During, Result, fail};
use crate::http;
use crate::origin;
use crate::progress::Progress;
use crate::rivals;
use crate::size::Bytes;
use crate::workspace;
use crate::wrk::{self, Figures, Load, Objects};

/// Paper 003, section 5.
const MISS_PERCENT: u64 = 75;
const FOLLOWED_BODY_BYTES: u64 = 2;
/// Objects that are hits there.
const KNOWN: u64 = 2000;
/// As in `bench hits`.
const BODY_BYTES: u64 = 10 << 10;
/// Two hundred times what fits the memory of a member here.
const ON_DISK: u64 = 20_000;
const MEMORY: Bytes = Bytes(1 << 20);
const STORE: Bytes = Bytes(1 << 30);
const FILL_CONNECTIONS: usize = 8;
/// What a cluster may cost a node.
const SLOWER_MAX: f64 = 0.02;

/// What to measure and for how long.
#[derive(Debug, Args)]
pub struct Options {
    /// Seconds of each measurement
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    #[arg(long, default_value_t = 15)]
    rounds: u32,
    #[arg(long, default_value_t = 32)]
    connections: u32,
    /// Only what a node loses by being followed
    #[arg(long, conflicts_with = "only_costs")]
    only_following: bool,
    /// Only what each event costs
    #[arg(long)]
    only_costs: bool,
    /// The costs, as `loligo model --own-file` takes them
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// Everything, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Fail if a node loses more than 2 % by being followed
    #[arg(long)]
    check: bool,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<()> {
    rivals::build_loligo()?;
    let following = match options.only_costs {
        false => Some(following(options)?),
        true => None,
    };
    let costs = match options.only_following {
        false => Some(costs(options)?),
        true => None,
    };
    let write = |path: &Path, value: &serde_json::Value| {
        fs::write(path, format!("{value:#}\n")).during(|| format!("writing {}", path.display()))
    };
    if let (Some(path), Some(costs)) = (&options.costs, &costs) {
        write(path, &as_own_file(costs))?;
    }
    if let Some(path) = &options.json {
        write(path, &json!({ "following": following, "costs": costs }))?;
    }
    match following {
        Some(rows)
            if options.check
                && rows
                    .iter()
                    .any(|row| row.rate_ratio.median < 1.0 - SLOWER_MAX) =>
        {
            fail!(
                "a node loses more than {} % by being followed",
                100.0 * SLOWER_MAX
            )
        }
        _ => Ok(()),
    }
}

/// A node followed by so many.
#[derive(Debug, Serialize)]
struct Followed {
    name: &'static str,
    rate: Spread,
    /// Over the node alone of the same round.
    rate_ratio: Spread,
    cpu_us: Spread,
    p50_us: Spread,
    p90_us: Spread,
    p98_us: Spread,
}

fn following(options: &Options) -> Result<Vec<Followed>> {
    // A node behind HAProxy knows of no cluster; nobody asks HAProxy here.
    let arrangements = [
        ("alone", Route::Haproxy, 1, 1),
        ("in a cluster, nobody there", Route::Hints, 1, 1),
        ("one front follows", Route::Hints, 1, 0),
        ("two fronts follow", Route::Hints, 2, 0),
    ];
    let mut beds = Vec::new();
    for (name, route, fronts, absent_fronts) in arrangements {
        let mut bed = build(route, fronts)?;
        for member in bed.members.iter_mut().take(absent_fronts) {
            member.stop()?;
        }
        beds.push((name, bed));
    }
    let mut samples: Vec<Vec<(Figures, f64)>> = vec![Vec::new(); beds.len()];
    let steps = u64::from(options.rounds) * beds.len() as u64;
    let mut progress = Progress::new("measuring", steps);
    for round in 0..options.rounds {
        for ((name, bed), samples) in beds.iter().zip(&mut samples) {
            progress.say(*name);
            samples.push(followed(bed, round, options).during(|| (*name).to_owned())?);
            progress.step();
        }
    }
    drop(progress);
    let spread =
        |of: &[(Figures, f64)], f: fn(&(Figures, f64)) -> f64| Spread::of(of.iter().map(f));
    let rows: Vec<Followed> = beds
        .iter()
        .zip(&samples)
        .map(|((name, _), of)| Followed {
            name,
            rate: spread(of, |it| it.0.rate()),
            rate_ratio: Spread::of(
                of.iter()
                    .zip(&samples[0])
                    .map(|(it, alone)| it.0.rate() / alone.0.rate()),
            ),
            cpu_us: spread(of, |it| it.1),
            p50_us: spread(of, |it| it.0.p50_us),
            p90_us: spread(of, |it| it.0.p90_us),
            p98_us: spread(of, |it| it.0.p98_us),
        })
        .collect();
    let mut table = Table::new([
        "a node", "req/s", "/ alone", "min-max", "CPU us", "p50 us", "p90 us", "p98 us",
    ]);
    for row in &rows {
        table.row([
            row.name.to_owned(),
            format!("{:.0}", row.rate.median),
            format!("{:.3}", row.rate_ratio.median),
            format!("{:.3}-{:.3}", row.rate_ratio.min, row.rate_ratio.max),
            format!("{:.2}", row.cpu_us.median),
            format!("{:.0}", row.p50_us.median),
            format!("{:.0}", row.p90_us.median),
            format!("{:.0}", row.p98_us.median),
        ]);
    }
    println!(
        "{}\n{MISS_PERCENT} % misses, bodies of {FOLLOWED_BODY_BYTES} bytes, {} connections; medians of {} rounds of {} s, \
         interleaved; ratios within a round.\n",
        table.render(),
        options.connections,
        options.rounds,
        options.seconds
    );
    Ok(rows)
}

fn build(route: Route, fronts: usize) -> Result<Bed> {
    Bed::build(&Plan {
        shape: Shape::Front,
        route,
        fronts,
        nodes: 1,
        store: STORE,
        memory: MEMORY,
        front_memory: MEMORY,
        extra: Vec::new(),
        has_state: true,
        has_disk: false,
        absent: 0,
    })
}

/// The member of this role.
fn one(bed: &Bed, role: Role) -> Result<&Member> {
    match bed.members.iter().find(|member| member.spec.role == role) {
        Some(member) => Ok(member),
        None => fail!("no member is a {role:?}"),
    }
}

fn followed(bed: &Bed, round: u32, options: &Options) -> Result<(Figures, f64)> {
    let node = one(bed, Role::Node)?;
    let prefix = format!("r{round}-");
    fill(node.at(SITE), KNOWN, FOLLOWED_BODY_BYTES, &prefix)?;
    let objects = Objects::Mixed {
        prefix,
        count: KNOWN,
        fresh_percent: MISS_PERCENT,
        seed: u64::from(round) + 1,
    };
    let measured = measure(
        &[node],
        node.at(SITE),
        FOLLOWED_BODY_BYTES,
        objects,
        options,
    )?;
    Ok((measured.figures, measured.cpu_us[0]))
}

fn fill(at: SocketAddr, count: u64, bytes: u64, prefix: &str) -> Result<()> {
    let path = |n: u64| origin::path(bytes, &format!("{prefix}{n}"));
    let is_right = |n: u64, answer: &http::Answer| {
        answer.status == 200 && origin::is_body_of(&answer.body, &format!("{prefix}{n}"))
    };
    http::load(at, "filling", count, FILL_CONNECTIONS, path, is_right)
}

/// One run of wrk, and CPU an answer of each of these members.
struct Measured {
    figures: Figures,
    cpu_us: Vec<f64>,
}

fn measure(
    members: &[&Member],
    at: SocketAddr,
    bytes: u64,
    objects: Objects,
    options: &Options,
) -> Result<Measured> {
    let load = Load {
        address: at,
        connections: options.connections,
        time: Duration::from_secs(options.seconds),
        bytes,
        objects,
    };
    let before: Vec<Duration> = members.iter().map(|member| member.cpu()).collect();
    let figures = wrk::run(&load, &workspace::run_dir().join("wrk"))?;
    let cpu = members.iter().zip(before);
    let cpu_us = cpu.map(|(member, before)| {
        member.cpu().saturating_sub(before).as_secs_f64() * 1e6 / figures.requests as f64
    });
    Ok(Measured {
        cpu_us: cpu_us.collect(),
        figures,
    })
}

/// An event, and what it costs.
#[derive(Debug, Serialize)]
struct Cost {
    /// As `loligo model` calls it.
    name: &'static str,
    us: Spread,
}

fn costs(options: &Options) -> Result<Vec<Cost>> {
    let cluster = build(Route::Hints, 1)?;
    let behind = build(Route::Haproxy, 1)?;
    for bed in [&cluster, &behind] {
        let node = one(bed, Role::Node)?;
        fill(node.at(SITE), ON_DISK, BODY_BYTES, "d")?;
        fill(node.at(SITE), 1, BODY_BYTES, "hot")?;
    }
    // What the node has said by then, the front knows.
    crate::interrupt::pause(Duration::from_secs(3))?;
    let mut found: Vec<(&'static str, Vec<f64>)> = Vec::new();
    let mut add = |name: &'static str, us: f64| match found.iter_mut().find(|(it, _)| *it == name) {
        Some((_, all)) => all.push(us),
        None => found.push((name, vec![us])),
    };
    let mut progress = Progress::new("measuring costs, rounds", u64::from(options.rounds));
    for round in 0..options.rounds {
        let figures = round_of_costs(&cluster, &behind, round, options)?;
        figures.into_iter().for_each(|(name, us)| add(name, us));
        progress.step();
    }
    drop(progress);
    let costs: Vec<Cost> = found
        .into_iter()
        .map(|(name, all)| Cost {
            name,
            us: Spread::of(all),
        })
        .collect();
    let mut table = Table::new(["cost", "us", "min-max"]);
    for cost in &costs {
        table.row([
            cost.name.to_owned(),
            format!("{:.2}", cost.us.median),
            format!("{:.2}-{:.2}", cost.us.min, cost.us.max),
        ]);
    }
    println!(
        "{}\nCPU of the member, bodies of 10 KiB, {} connections; medians of {} rounds of {} s.\n",
        table.render(),
        options.connections,
        options.rounds,
        options.seconds
    );
    Ok(costs)
}

fn round_of_costs(
    cluster: &Bed,
    behind: &Bed,
    round: u32,
    options: &Options,
) -> Result<Vec<(&'static str, f64)>> {
    let (front, node) = (one(cluster, Role::Front)?, one(cluster, Role::Node)?);
    let (balancer, its_node) = (one(behind, Role::Balancer)?, one(behind, Role::Node)?);
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
        Ok(measured.cpu_us)
    };
    let hot = Objects::One { id: "hot0".into() };
    let memory = cost(&[node], node, hot)?[0];
    let disk = cost(&[node], node, random())?[0];
    let miss = cost(&[node], node, unique("m"))?[0];
    let pass = cost(&[node], node, unique(PASSED))?[0];
    let forwarded = cost(&[front, node], front, random())?;
    let pushed = cost(&[front, node], front, unique("n"))?;
    let balanced = cost(&[balancer, its_node], balancer, random())?;
    Ok(vec![
        ("memory-hit-us", memory),
        ("disk-hit-us", disk),
        ("stored-miss-us", miss),
        ("pass-us", pass),
        ("forward-us", forwarded[0]),
        ("forwarded-extra-us", forwarded[1] - disk),
        ("push-us", (pushed[0] - pass).max(0.0)),
        ("take-push-us", pushed[1]),
        ("balance-us", balanced[0]),
    ])
}

fn as_own_file(costs: &[Cost]) -> serde_json::Value {
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
