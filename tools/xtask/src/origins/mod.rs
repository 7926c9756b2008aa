//! `cargo xtask origins`: tests our proxy in front of common origin programs.
//!
//! Each program that is installed is started with an application of the same URLs: files below `/files`, and `/digest`, which answers with
//! the SHA-256 of the request's body. A client then sends requests through the proxy of kinds that have failed behind proxies before: hits,
//! ranges, HEAD, validation, large bodies both ways, POSTs one after the other, and requests on connections that the program is closing.
//! POSTs also go through HAProxy and nginx if these are installed: a failure of all proxies is the program's fault. gRPC calls go
//! through our proxy alone, plain and over TLS.
//!
//! A program that is not installed is reported as such; nothing is installed.
//!
//! Not known here: how fast anything is, beyond the time of a row (`bench`).

mod asking;
mod grpc;
mod nghttpd;
mod object_store;
mod posting;
mod programs;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use crate::bench::table::Table;
use crate::failure::{During, Result, fail};
use crate::interrupt;
use crate::rivals::{Request, Rival, Running, build_loligo, launch};
use crate::size::Bytes;

use programs::{By, Origin, Serves};

/// What to run.
#[derive(Debug, Args)]
pub struct Options {
    /// Only these programs: apache, gunicorn, node, node-http2, php, versitygw, minio, nghttpd, grpcio
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// POSTs of one client in turn
    #[arg(long, default_value_t = 400)]
    posts: u64,
    /// Calls of gRPC, plain, and as many over TLS
    #[arg(long, default_value_t = 10_000)]
    calls: u64,
    /// The large bodies
    #[arg(long, default_value = "64MiB")]
    large: Bytes,
    /// Proxies that POSTs go through beside ours
    #[arg(long, value_delimiter = ',', default_value = "haproxy,nginx")]
    rivals: Vec<String>,
    /// Write the rows there, too
    #[arg(long)]
    json: Option<PathBuf>,
}

/// One thing that was tried.
#[derive(Debug, Clone, Serialize, PartialEq)]
pub struct Row {
    /// The program.
    pub origin: String,
    /// The proxy before it.
    pub proxy: String,
    /// What was tried.
    pub what: String,
    /// How often it was tried.
    pub asked: u64,
    /// How often it failed.
    pub failed: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The first thing that went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The JSON report.
#[derive(Debug, Serialize)]
struct Report {
    /// Programs that could not run, with what they lack.
    not_run: Vec<String>,
    rows: Vec<Row>,
}

/// Collects the rows of a program.
pub struct Rows {
    origin: String,
    all: Vec<Row>,
}

impl Rows {
    /// Tries something once. `Err`: why it went wrong.
    pub fn once(&mut self, proxy: &str, what: &str, tried: impl FnOnce() -> Result<()>) {
        let began = Instant::now();
        let outcome = tried();
        let why = outcome.err().map(|failure| failure.to_string());
        let failed = u64::from(why.is_some());
        self.add(proxy, what, (1, failed, why), began.elapsed());
    }

    /// Adds a row about something that was tried several times: how often, how often it failed, and the first error.
    pub fn add(
        &mut self,
        proxy: &str,
        what: &str,
        (asked, failed, why): (u64, u64, Option<String>),
        took: Duration,
    ) {
        let row = Row {
            origin: self.origin.clone(),
            proxy: proxy.to_owned(),
            what: what.to_owned(),
            asked,
            failed,
            seconds: (took.as_secs_f64() * 1000.0).round() / 1000.0,
            why,
        };
        eprintln!(
            "{}, {proxy}: {what}: {failed} of {asked} failed, {:.2} s",
            row.origin, row.seconds
        );
        self.all.push(row);
    }
}

/// Runs all installed programs, and prints the rows.
pub fn run(options: &Options) -> Result<()> {
    for name in &options.only {
        if !programs::ALL.iter().any(|it| it.name == name) {
            let names: Vec<_> = programs::ALL.iter().map(|it| it.name).collect();
            fail!("there is no {name}; there are {}", names.join(", "));
        }
    }
    build_loligo()?;
    let is_wanted =
        |name: &str| options.only.is_empty() || options.only.iter().any(|it| it == name);
    let mut report = Report {
        not_run: Vec::new(),
        rows: Vec::new(),
    };
    for program in programs::ALL.iter().filter(|it| is_wanted(it.name)) {
        interrupt::check()?;
        if let Some(lack) = program.lack() {
            report.not_run.push(format!("{}: {lack}", program.name));
            continue;
        }
        let mut rows = Rows {
            origin: program.name.to_owned(),
            all: Vec::new(),
        };
        let origin = program.start(options.large.0)?;
        match &origin.serves {
            Serves::Objects(store) => object_store::try_all(store, &origin, &mut rows)?,
            Serves::Http2Alone(of) => nghttpd::try_all(of, &origin, &mut rows)?,
            Serves::Calls(of) => grpc::try_all(of, &origin, options.calls, &mut rows)?,
            Serves::Files(by) => {
                let proxy = before(Rival::Loligo, (program.name, *by), &origin)?;
                asking::try_all(proxy.address, &origin, &mut rows);
                proxy.stop()?;
                for rival in posting::proxies(*by, &options.rivals)? {
                    let proxy = before(rival, (program.name, *by), &origin)?;
                    posting::try_all(&proxy, options.posts, &mut rows)?;
                    proxy.stop()?;
                }
            }
        }
        origin.stop()?;
        report.rows.extend(rows.all);
    }
    tell(&report, options)
}

/// A proxy before a program.
fn before(rival: Rival, (name, by): (&str, By), origin: &Origin) -> Result<Running> {
    let by_http2 = format!(
        "client-directives = \"obey\"\n[[listener.route]]\norigin = \"http://{}\"\nhttp2 = \"prior-knowledge\"\n",
        origin.address
    );
    let request = Request {
        workers: 1,
        listener: (by == By::Http2).then_some(by_http2),
        ..Request::of(format!("origins-{name}-{}", rival.name()), origin.address)
    };
    launch(rival, &request)
}

fn tell(report: &Report, options: &Options) -> Result<()> {
    let mut table = Table::new([
        "origin", "proxy", "what", "asked", "failed", "seconds", "why",
    ]);
    for row in &report.rows {
        table.row([
            row.origin.clone(),
            row.proxy.clone(),
            row.what.clone(),
            row.asked.to_string(),
            row.failed.to_string(),
            format!("{:.2}", row.seconds),
            row.why.clone().unwrap_or_default(),
        ]);
    }
    print!("{}", table.render());
    for program in &report.not_run {
        println!("not run: {program}");
    }
    if let Some(path) = &options.json {
        let text = serde_json::to_string_pretty(report).during(|| "writing JSON".into())?;
        std::fs::write(path, text).during(|| format!("writing {}", path.display()))?;
    }
    let ours = report
        .rows
        .iter()
        .filter(|row| row.proxy == "loligo" && row.failed > 0);
    // A failure of POSTs through all proxies is the program's fault.
    let is_ours = |row: &&Row| {
        let mut theirs = report.rows.iter().filter(|it| {
            (&it.origin, &it.what) == (&row.origin, &row.what) && it.proxy != "loligo"
        });
        theirs.clone().next().is_none() || theirs.any(|it| it.failed < row.failed)
    };
    match ours.filter(is_ours).count() {
        0 => Ok(()),
        failed => fail!("{failed} rows of ours have failures that others have not"),
    }
}
