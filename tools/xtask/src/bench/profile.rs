//! `cargo xtask bench profile`: hit throughput with the profile on and off.
//!
//! Two Loligos that differ only in `--profile`, measured in turn on one small memory hit, where a cost per request shows most.
//!
//! Many short rounds, and the verdict is on CPU per request: on a shared machine the throughput of one
//! build differs by tens of percent between rounds. Throughput is printed, too.

use std::time::Duration;

use clap::Args;

use super::stats::Spread;
use crate::failure::{Result, fail};
use crate::http;
use crate::origin::{self, Origin};
use crate::progress::Progress;
use crate::rivals::{Request, Rival, Running, build_loligo, launch};
use crate::size::Bytes;
use crate::workspace;
use crate::wrk::{self, Load, Objects};

/// Wanted share, with the profile on, of the throughput that a core could give without it.
const WANTED: f64 = 0.98;

/// How to measure.
#[derive(Debug, Args)]
pub struct Options {
    /// Seconds of each measurement
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// Measurements of each of the two; the median counts
    #[arg(long, default_value_t = 15)]
    rounds: u32,
    #[arg(long, default_value_t = 64)]
    connections: u32,
    /// Object size
    #[arg(long, default_value = "1k")]
    size: Bytes,
}

/// Measures and prints; fails if the profile costs too much.
pub fn run(options: &Options) -> Result<()> {
    build_loligo()?;
    let origin = Origin::start(0, 1)?;
    let start = |profile: bool| -> Result<Running> {
        let label = format!("bench-profile-{}", if profile { "on" } else { "off" });
        let running = launch(
            Rival::Loligo,
            &Request {
                cache: Bytes(256 << 20),
                profile,
                ..Request::of(label, origin.address())
            },
        )?;
        running.await_caching(&origin)?;
        let path = origin::path(options.size.0, "hot");
        http::load(
            running.address,
            "warming",
            100,
            1,
            |_| path.clone(),
            |_, a| a.status == 200,
        )?;
        Ok(running)
    };
    let pair = [start(false)?, start(true)?];
    let mut rates = [Vec::new(), Vec::new()];
    let mut cpus = [Vec::new(), Vec::new()];
    let mut ratios = Vec::new();
    let mut cpu_ratios = Vec::new();
    let mut progress = Progress::new("measuring", u64::from(options.rounds) * 2);
    for round in 0..options.rounds {
        // The order alternates, so that neither always follows the other.
        for side in [round % 2, 1 - round % 2].map(|n| n as usize) {
            let running = &pair[side];
            let cpu = running.cpu();
            let figures = wrk::run(
                &Load {
                    address: running.address,
                    is_encrypted: false,
                    connections: options.connections,
                    time: Duration::from_secs(options.seconds),
                    bytes: options.size.0,
                    objects: Objects::One { id: "hot".into() },
                },
                &workspace::run_dir().join("wrk"),
            )?;
            let cpu = running.cpu().saturating_sub(cpu);
            rates[side].push(figures.rate());
            cpus[side].push(cpu.as_secs_f64() * 1e6 / figures.requests as f64);
            progress.step();
        }
        let last = |side: usize| rates[side].last().copied().unwrap_or_default();
        ratios.push(last(1) / last(0));
        let last_cpu = |side: usize| cpus[side].last().copied().unwrap_or_default();
        cpu_ratios.push(last_cpu(0) / last_cpu(1));
    }
    drop(progress);
    for (name, side) in [("off", 0), ("on", 1)] {
        let (rate, cpu) = (
            Spread::of(rates[side].iter().copied()),
            Spread::of(cpus[side].iter().copied()),
        );
        println!(
            "profile {name:3}: {:.0} req/s ({:.0}-{:.0}), {:.2} us CPU per request",
            rate.median, rate.min, rate.max, cpu.median
        );
    }
    let ratio = Spread::of(ratios);
    let cpu_ratio = Spread::of(cpu_ratios);
    println!(
        "throughput, on / off: {:.3} (rounds {:.3}-{:.3})",
        ratio.median, ratio.min, ratio.max
    );
    println!(
        "CPU per request, off / on: {:.3} (rounds {:.3}-{:.3}), wanted at least {WANTED}",
        cpu_ratio.median, cpu_ratio.min, cpu_ratio.max
    );
    for running in pair {
        running.stop()?;
    }
    if cpu_ratio.median < WANTED {
        fail!("the profile costs more than it may");
    }
    Ok(())
}
