//! `cargo xtask bench idle`: the cost of thousands of idle connections.
//!
//! Measures hit throughput with and without idle connections, in turn, on one server; and the growth of the server's resident memory when
//! they were first opened, divided by their number. (Memory the kernel holds for sockets is not part of a process.) Idle connections use
//! the protocol of `--protocol`; the busy ones use HTTP/1.1 in any case.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use clap::Args;

use super::stats::Spread;
use crate::failure::{During, Failure, Result, fail};
use crate::http;
use crate::origin::{self, Origin};
use crate::progress::Progress;
use crate::rivals::front::Protocol;
use crate::rivals::{Request, Rival, Running, build_loligo, launch};
use crate::workspace;
use crate::wrk::{self, Load, Objects};

/// Wanted share of the throughput without idle connections.
const WANTED: f64 = 0.95;
/// Wanted memory per idle connection: nginx keeps 7.5 KiB with TLS.
fn memory_aim_bytes(protocol: Protocol) -> f64 {
    match protocol {
        Protocol::H1 => 4096.0,
        Protocol::Tls => 9.0 * 1024.0,
        Protocol::H2c | Protocol::H2 => 12.0 * 1024.0,
    }
}

const OBJECT_BYTES: u64 = 1024;

/// How to measure.
#[derive(Debug, Args)]
pub struct Options {
    /// Idle connections
    #[arg(long, default_value_t = 10_000)]
    connections: u32,
    /// Connections that work
    #[arg(long, default_value_t = 64)]
    busy: u32,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Measurements of each of the two; the median counts
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Which server
    #[arg(long, default_value = "loligo")]
    server: String,
    /// What the idle connections speak
    #[arg(long, value_enum, default_value = "h1")]
    protocol: Protocol,
}

/// Measures and prints; fails if Loligo's hits slow down too much.
pub fn run(options: &Options) -> Result<()> {
    let Some(rival) = Rival::of_name(&options.server) else {
        fail!("no server {:?}", options.server);
    };
    if rival == Rival::Loligo {
        build_loligo()?;
    }
    let origin = Origin::start(0, 1)?;
    let running = launch(
        rival,
        &Request {
            front: (options.protocol != Protocol::H1).then_some(options.protocol),
            ..Request::of(format!("bench-idle-{}", rival.name()), origin.address())
        },
    )?;
    running.await_caching(&origin)?;
    let path = origin::path(OBJECT_BYTES, "hot");
    http::load(
        running.address,
        "warming",
        100,
        1,
        |_| path.clone(),
        |_, a| a.status == 200,
    )?;
    // Allocate the buffers of busy connections first, so that they are not counted for idle ones.
    measure(&running, options, 1)?;

    let mut rates = [Vec::new(), Vec::new()];
    let mut ratios = Vec::new();
    let mut per_connection = None;
    let mut progress = Progress::new("measuring", u64::from(options.rounds) * 2);
    for _ in 0..options.rounds {
        let alone = measure(&running, options, options.seconds)?;
        progress.step();
        let before = running.resident_bytes();
        let mut crowd = Crowd::open(&running, options)?;
        let grown = running.resident_bytes().saturating_sub(before);
        per_connection.get_or_insert(grown as f64 / f64::from(options.connections));
        let crowded = measure(&running, options, options.seconds)?;
        let alive = crowd.close()?;
        if alive < options.connections {
            fail!(
                "only {alive} of {} idle connections were kept",
                options.connections
            );
        }
        progress.step();
        rates[0].push(alone);
        rates[1].push(crowded);
        ratios.push(crowded / alone);
    }
    drop(progress);
    let [alone, crowded] = rates.map(Spread::of);
    let ratio = Spread::of(ratios);
    println!(
        "{}: {:.0} req/s alone, {:.0} beside {} idle connections",
        rival.name(),
        alone.median,
        crowded.median,
        options.connections
    );
    println!(
        "ratio {:.3} (rounds {:.3}-{:.3}), wanted at least {WANTED}",
        ratio.median, ratio.min, ratio.max
    );
    println!(
        "memory per idle connection, {}: {:.0} bytes (aim: under {})",
        options.protocol.name(),
        per_connection.unwrap_or_default(),
        memory_aim_bytes(options.protocol)
    );
    running.stop()?;
    if rival == Rival::Loligo && ratio.median < WANTED {
        fail!("idle connections cost more than they may");
    }
    Ok(())
}

/// Hits per second.
fn measure(running: &Running, options: &Options, seconds: u64) -> Result<f64> {
    let figures = wrk::run(
        &Load {
            address: running.address,
            is_encrypted: false,
            connections: options.busy,
            time: Duration::from_secs(seconds),
            bytes: OBJECT_BYTES,
            objects: Objects::One { id: "hot".into() },
        },
        &workspace::run_dir().join("wrk"),
    )?;
    Ok(figures.rate())
}

/// An `idle-client` with all its connections open; dropping it ends it.
struct Crowd {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Crowd {
    fn open(running: &Running, options: &Options) -> Result<Self> {
        let program = std::env::current_exe().during(|| "finding this program".into())?;
        let front = running.front.as_ref();
        let target = front.map_or(running.address, |front| front.address);
        let mut command = Command::new(program);
        command
            .arg("idle-client")
            .args(["--target", &target.to_string()])
            .args(["--connections", &options.connections.to_string()])
            .args(["--bytes", &OBJECT_BYTES.to_string()])
            .args(["--protocol", options.protocol.name()]);
        if let Some(front) = front {
            command.arg("--certificate").arg(&front.certificate.chain);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .during(|| "starting the idle client".into())?;
        let output = BufReader::new(child.stdout.take().expect("its stdout is a pipe"));
        let mut crowd = Self { child, output };
        crowd.read("open ")?;
        Ok(crowd)
    }

    /// Reads the number after this word.
    fn read(&mut self, word: &str) -> Result<u32> {
        let mut line = String::new();
        self.output
            .read_line(&mut line)
            .during(|| "reading from the idle client".into())?;
        line.strip_prefix(word)
            .and_then(|n| n.trim().parse().ok())
            .ok_or_else(|| Failure::new("the idle client failed"))
    }

    /// Closes all connections; returns how many were still open.
    fn close(&mut self) -> Result<u32> {
        drop(self.child.stdin.take());
        let alive = self.read("alive ")?;
        self.child
            .wait()
            .during(|| "waiting for the idle client".into())?;
        Ok(alive)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        // These fail only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
