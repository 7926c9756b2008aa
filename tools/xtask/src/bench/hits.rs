//! `cargo xtask bench hits`: Loligo compared with every installed rival.
//!
//! For each kind of answer all servers are started with the same settings, filled, and then measured in turn, round after round (A B C A
//! B C …), one at a time while the others idle:
//!
//! - *memory*: one object, warmed up. nginx has no memory cache of its own; it uses the page cache.
//! - *disk*: random ones of many objects, filled through the proxy, with the page cache dropped before each round and the
//!   server's own memory cache as small as possible. Varnish's mapped pages are reclaimed through a control group.
//! - *miss*: a new object for every request; all are stored.
//!
//! Hits are verified: the origin counts its requests, and a row shows the share that it did not see. A memory hit of ours
//! that reaches the origin is an error. For misses the row shows how many of a sample were hits when requested again. CPU is user and
//! system time of all processes of the server, from /proc.

use std::fmt;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::ring::{self, Sample};
use super::stats::Spread;
use super::table::Table;
use super::targets::{self, Verdict};
use crate::failure::{During, Result, fail};
use crate::origin::Origin;
use crate::rivals::front::Protocol;
use crate::rivals::{Rival, build_loligo};
use crate::size::{Bytes, human_us};

/// What to measure and for how long.
#[derive(Debug, Args)]
pub struct Options {
    /// Only these: names, or products for all that apply (squid, nginx, varnish)
    #[arg(long, value_delimiter = ',')]
    pub(super) only: Vec<String>,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 5)]
    pub(super) seconds: u64,
    /// Measurements of each server in each case; the median counts
    #[arg(long, default_value_t = 3)]
    pub(super) rounds: u32,
    #[arg(long, value_delimiter = ',', default_value = "64,256")]
    pub(super) connections: Vec<u32>,
    /// Of memory hits; disk hits and misses are of 10 KiB
    #[arg(long, value_delimiter = ',', default_value = "1k,10k,100k")]
    pub(super) sizes: Vec<Bytes>,
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "memory,disk,miss"
    )]
    kinds: Vec<Kind>,
    /// What clients speak; h2 and h2c are asked by a client of our own
    #[arg(long, value_enum, default_value_t = Protocol::H1)]
    pub(super) protocol: Protocol,
    /// With h2 and h2c: requests at a time on a connection
    #[arg(long, value_delimiter = ',', default_value = "1,32")]
    pub(super) streams: Vec<u32>,
    /// Access logs on all sides, and Loligo's profile
    #[arg(long, value_enum, default_value_t = Logs::Both)]
    logs: Logs,
    /// Objects of the disk hits
    #[arg(long, default_value_t = 100_000)]
    pub(super) objects: u64,
    /// Size of the objects of disk hits and misses
    #[arg(long, default_value = "10k")]
    pub(super) disk_object_size: Bytes,
    /// Cache on disk for disk hits and misses
    #[arg(long, default_value = "2GiB")]
    pub(super) cache_size: Bytes,
    /// Cache in memory for memory hits and misses
    #[arg(long, default_value = "256MiB")]
    pub(super) memory: Bytes,
    /// Keep the caches in this directory
    #[arg(long)]
    pub(super) dir: Option<PathBuf>,
    /// Also write the table as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// Also write it as Markdown
    #[arg(long)]
    markdown: Option<PathBuf>,
    /// Fail if a target is missed
    #[arg(long)]
    check: bool,
}

/// Where an answer comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Memory,
    Disk,
    Miss,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Logs {
    On,
    Off,
    Both,
}

/// A case in which every server is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Case {
    pub kind: Kind,
    pub bytes: u64,
    pub connections: u32,
    pub logs: bool,
    pub protocol: Protocol,
    /// Streams at a time on a connection.
    pub streams: u32,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Memory => "memory hit",
            Kind::Disk => "disk hit",
            Kind::Miss => "miss",
        };
        let logs = if self.logs { "on" } else { "off" };
        let (bytes, connections) = (Bytes(self.bytes), self.connections);
        write!(f, "{kind} {bytes}, {connections} connections, logs {logs}")?;
        match (self.protocol, self.streams) {
            (Protocol::H1, _) => Ok(()),
            (protocol, 1) => write!(f, ", {}", protocol.name()),
            (protocol, streams) => write!(f, ", {}, {streams} streams", protocol.name()),
        }
    }
}

/// One server in one case.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub server: String,
    pub case: Case,
    /// of the server, per request, microseconds
    pub cpu_us: Spread,
    /// requests per second
    pub rate: Spread,
    pub p50_us: Spread,
    pub p99_us: Spread,
    /// share of requests the origin did not see; for misses the share of a sample that was stored
    pub hit_percent: Spread,
    /// device reads per request, whole device
    pub reads: Spread,
}

impl Row {
    /// A row nothing has been measured for.
    #[cfg(test)]
    pub fn empty(server: &str, case: Case) -> Self {
        Self::of(server, case, &[])
    }

    pub(super) fn of(server: &str, case: Case, samples: &[Sample]) -> Self {
        let spread = |f: fn(&Sample) -> f64| Spread::of(samples.iter().map(f));
        Self {
            server: server.to_owned(),
            case,
            cpu_us: spread(|s| s.cpu_us),
            rate: spread(|s| s.figures.rate()),
            p50_us: spread(|s| s.figures.p50_us),
            p99_us: spread(|s| s.figures.p99_us),
            hit_percent: spread(|s| s.hit_percent),
            reads: spread(|s| s.reads),
        }
    }
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<()> {
    if options.protocol != Protocol::H1 && options.kinds != [Kind::Memory] {
        fail!(
            "--protocol {} goes with --kinds memory only",
            options.protocol.name()
        );
    }
    let mut left_out = Vec::new();
    let mut rows = Vec::new();
    if ring::wants(options, Rival::Loligo, &[Rival::Loligo])
        && let Err(failure) = build_loligo()
    {
        eprintln!("loligo is left out: {failure}");
        left_out.push("loligo".to_owned());
    }
    let origin = Origin::start(0, 1)?;
    for logs in [false, true] {
        if options.logs == if logs { Logs::Off } else { Logs::On } {
            continue;
        }
        for &kind in &options.kinds {
            rows.extend(ring::measure_kind(
                kind,
                logs,
                options,
                &origin,
                &mut left_out,
            )?);
        }
    }
    report(&rows, options)?;
    left_out.sort();
    left_out.dedup();
    if !left_out.is_empty() {
        fail!("left out, though installed: {}", left_out.join(", "));
    }
    Ok(())
}

fn report(rows: &[Row], options: &Options) -> Result<()> {
    let verdicts = targets::judge(rows);
    let mut text = String::new();
    let mut seen: Vec<Case> = Vec::new();
    for row in rows {
        if !seen.contains(&row.case) {
            seen.push(row.case);
        }
    }
    for case in seen {
        text.push_str(&format!("\n**{case}**\n\n{}", case_table(case, rows)));
    }
    if !verdicts.is_empty() {
        text.push_str(&format!("\n**targets**\n\n{}", verdict_table(&verdicts)));
    }
    text.push_str(&format!(
        "\nMedians of {} rounds of {} s; CPU of all processes of the server; wrk with one thread, unpinned (HTTP/2: a client of our own); reads of the \
         whole device.\n",
        options.rounds, options.seconds
    ));
    println!("{text}");
    if let Some(path) = &options.markdown {
        std::fs::write(path, text).during(|| format!("writing {}", path.display()))?;
    }
    if let Some(path) = &options.json {
        let json = serde_json::json!({ "rows": rows, "targets": verdicts });
        std::fs::write(path, format!("{json:#}\n"))
            .during(|| format!("writing {}", path.display()))?;
    }
    if options.check && verdicts.iter().any(|v| !v.kept) {
        fail!("a target is missed");
    }
    Ok(())
}

fn case_table(case: Case, rows: &[Row]) -> String {
    let of_case: Vec<&Row> = rows.iter().filter(|r| r.case == case).collect();
    let ours = of_case.iter().find(|r| r.server == "loligo");
    let ratio = |theirs: f64, ours: Option<f64>| match ours {
        Some(ours) if ours > 0.0 => format!("{:.2}", theirs / ours),
        _ => "-".into(),
    };
    let hits = match case.kind {
        Kind::Miss => "stored %",
        _ => "hit %",
    };
    let mut table = Table::new([
        "server", "CPU us", "min-max", "/ ours", "req/s", "/ ours", "p50", "p99", hits, "reads",
    ]);
    for row in &of_case {
        table.row([
            row.server.clone(),
            format!("{:.2}", row.cpu_us.median),
            format!("{:.1}-{:.1}", row.cpu_us.min, row.cpu_us.max),
            ratio(row.cpu_us.median, ours.map(|o| o.cpu_us.median)),
            format!("{:.0}", row.rate.median),
            ratio(row.rate.median, ours.map(|o| o.rate.median)),
            human_us(row.p50_us.median),
            human_us(row.p99_us.median),
            format!("{:.1}", row.hit_percent.min),
            format!("{:.2}", row.reads.median),
        ]);
    }
    table.render()
}

/// Promises as a table.
pub fn verdict_table(verdicts: &[Verdict]) -> String {
    let mut table = Table::new(["what", "wanted", "found", ""]);
    for v in verdicts {
        table.row([
            v.what.clone(),
            v.wanted.clone(),
            v.found.clone(),
            if v.kept { "kept" } else { "MISSED" }.into(),
        ]);
    }
    table.render()
}
