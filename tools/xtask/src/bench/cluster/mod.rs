//! `cargo xtask bench cluster`: the cost of a cluster to a node (paper 003, section 5), and of each event.
//!
//! *Following* (`following`): the cost to a node of sending hints. *Costs* (`costs`): CPU time of a member for a hit
//! from memory, from disk, a stored miss, a request that is passed, one that is sent to a node, an object that is pushed; for
//! `loligo model --own-file`. *Model* (`model`): that model's result for the costs and the shares of a mix, compared with
//! the measured cost of the mix.
//!
//! Not known here: how a cluster is built: `cluster::bed`.   Limits: one machine; CPU is counted in ticks of 10 ms.

mod costs;
mod following;
mod model;

use std::fs;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::stats::Spread;
use super::table::Table;
use crate::cluster::bed::{Bed, Plan};
use crate::cluster::member::{Counts, Member};
use crate::cluster::site::{Role, Route, Shape};
use crate::failure::{During, Result, fail};
use crate::http;
use crate::origin;
use crate::progress::Progress;
use crate::rivals;
use crate::size::Bytes;
use crate::truths::verdict::Verdict;
use crate::workspace;
use crate::wrk::{self, Figures, Load, Objects};

/// As in `bench hits`.
const BODY_BYTES: u64 = 10 << 10;
const MEMORY: Bytes = Bytes(1 << 20);
const STORE: Bytes = Bytes(1 << 30);
const FILL_CONNECTIONS: usize = 8;
/// The largest allowed slowdown of a node by a cluster.
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
    /// Fail if a node spends over 2 % more by being followed, or the model is off by more than 15 %
    #[arg(long)]
    check: bool,
}

/// The name of a measurement, and microseconds.
type Sample = (&'static str, f64);

/// Measures and prints.
pub fn run(options: &Options) -> Result<()> {
    rivals::build_loligo()?;
    let following = match options.only_costs {
        false => Some(following::following(options)?),
        true => None,
    };
    let costs = match options.only_following {
        false => Some(costs_and_model(options)?),
        true => None,
    };
    let write = |path: &Path, value: &serde_json::Value| {
        fs::write(path, format!("{value:#}\n")).during(|| format!("writing {}", path.display()))
    };
    if let (Some(path), Some((costs, _))) = (&options.costs, &costs) {
        write(path, &costs::as_own_file(costs))?;
    }
    let verdicts = costs.as_ref().map(|(_, verdicts)| verdicts);
    if let Some(path) = &options.json {
        let costs = costs.as_ref().map(|(costs, _)| costs);
        write(
            path,
            &json!({ "following": following, "costs": costs, "model": verdicts }),
        )?;
    }
    let slower = following.is_some_and(|rows| {
        let slow = |row: &following::Followed| row.cpu_ratio.median > 1.0 + SLOWER_MAX;
        rows.iter().any(slow)
    });
    let off = verdicts.is_some_and(|all| all.iter().any(|it| !it.is_met));
    if options.check && slower {
        fail!(
            "being followed costs a node more than {} % of its CPU time",
            100.0 * SLOWER_MAX
        );
    }
    if options.check && off {
        fail!("the model is off by more than 15 %: see the lines MISSED above");
    }
    Ok(())
}

/// Measures single events and the mixes in turn, round after round.
fn costs_and_model(options: &Options) -> Result<(Vec<costs::Cost>, Vec<Verdict>)> {
    let single = costs::Single::build()?;
    let mixed = model::Mixed::build()?;
    let mut progress = Progress::new("measuring costs, rounds", u64::from(options.rounds));
    let (mut of_single, mut of_mixed, mut of_shares) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..options.rounds {
        of_single.push(single.round(round, options)?);
        let (cpu, shares) = mixed.round(round, options)?;
        of_mixed.push(cpu);
        of_shares.push(shares);
        progress.step();
    }
    drop(progress);
    let [costs, measured, shares] =
        [&of_single, &of_mixed, &of_shares].map(|rounds| costs::medians(rounds));
    let mut table = Table::new(["cost", "us", "min-max"]);
    for cost in costs.iter().chain(&measured) {
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
    let mut table = Table::new(["a front and its nodes", "share", "min-max"]);
    for share in &shares {
        let Spread { median, min, max } = share.us;
        table.row([
            share.name.to_owned(),
            format!("{median:.3}"),
            format!("{min:.3}-{max:.3}"),
        ]);
    }
    println!("{}\n", table.render());
    let verdicts = model::verdicts(&costs, &measured, &shares)?;
    for verdict in &verdicts {
        println!("{verdict}");
    }
    Ok((costs, verdicts))
}

fn build(route: Route, fronts: usize, nodes: usize) -> Result<Bed> {
    Bed::build(&Plan {
        shape: Shape::Front,
        route,
        fronts,
        nodes,
        store: STORE,
        memory: MEMORY,
        front_memory: MEMORY,
        has_state: true,
        has_disk: false,
        extra: Vec::new(),
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

fn fill(at: SocketAddr, count: u64, bytes: u64, prefix: &str) -> Result<()> {
    let path = |n: u64| origin::path(bytes, &format!("{prefix}{n}"));
    let is_right = |n: u64, answer: &http::Answer| {
        answer.status == 200 && origin::is_body_of(&answer.body, &format!("{prefix}{n}"))
    };
    http::load(at, "filling", count, FILL_CONNECTIONS, path, is_right)
}

/// One run of wrk, with each member's CPU time per answer and its metrics.
struct Measured {
    figures: Figures,
    cpu_us: Vec<f64>,
    counts: Vec<Counts>,
}

impl Measured {
    /// A metric per answer: the sum over these members, and over rows with this label.
    fn an_answer(&self, members: Range<usize>, name: &str, label: &str) -> f64 {
        let counts = self.counts[members].iter();
        let sum: f64 = counts.map(|it| it.sum(name, &[label])).sum();
        sum / self.figures.requests as f64
    }
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
        is_encrypted: false,
        connections: options.connections,
        time: Duration::from_secs(options.seconds),
        bytes,
        objects,
    };
    let counts = || members.iter().map(|member| member.counts());
    let counts_before = counts().collect::<Result<Vec<_>>>()?;
    let before: Vec<Duration> = members.iter().map(|member| member.cpu()).collect();
    let figures = wrk::run(&load, &workspace::run_dir().join("wrk"))?;
    let cpu = members.iter().zip(before);
    let cpu_us = cpu.map(|(member, before)| {
        member.cpu().saturating_sub(before).as_secs_f64() * 1e6 / figures.requests as f64
    });
    let cpu_us = cpu_us.collect();
    let since = counts().zip(&counts_before);
    let since = since.map(|(now, before)| Ok(now?.since(before)));
    Ok(Measured {
        cpu_us,
        counts: since.collect::<Result<_>>()?,
        figures,
    })
}
