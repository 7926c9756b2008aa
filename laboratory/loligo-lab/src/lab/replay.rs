//! `loligo lab replay`: sends a trace through any proxy, with an origin of our own behind it.
//!
//! The whole trace is read before the first request, because the part that only fills the cache is a share of it. The requests wait in memory
//! or in a file, as for `lab policies`. A thread hands them to the player.
//!
//! Exit status: 0 done; 1 no replay, a replay that was cut short, or wrong bytes; 130 interrupted, with the report so far.
//!
//! Not known here: how a request is played and counted.   Limits: those of `replay` and of `lab::requests`.

use std::io::IsTerminal as _;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ::lab::Access;
use ::lab::policies::Objects;
use ::lab::requests::{Gathering, Requests};
use ::replay::{Ask, CONNECTIONS_MAX, Origin, Report, Settings, Way, play};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use crate::lab_traces::{self, StreamFlags};

pub const REPLAY_HELP: &str = "\
Examples:
  loligo lab replay access.log --proxy http://127.0.0.1:3128 --pid 4711
  loligo lab replay access.log.gz --proxy http://127.0.0.1:80 --reverse --origin 127.0.0.1:8080
  loligo lab replay trace.csv.zst --columns time=1,object=2,size=3 --proxy 127.0.0.1:3128 --limit 100000
  loligo lab replay bu-1994-95.tsv.zst --versions none --proxy 127.0.0.1:3128 --json replay.json

Each request of the trace goes through the proxy to an origin that this command starts. The origin answers as many bytes as the trace \
says, which may be stored for a year; every byte is compared. A hit is what the origin did not see, whatever the proxy says of it.
A forward proxy must be allowed to ask the origin's address. A reverse proxy must have it as its origin: bind it with --origin.
Names begin anew with each replay, so nothing that the proxy stored before is a hit; but it takes room until it is evicted. To \
compare settings, begin each time with an empty store.
Give memory and disk of the proxy the share of the trace's objects that they have in service: lab trace says how large these are.

Exit status: 0 done; 1 no replay, or one with wrong bytes; 2 the command line is not understood; 130 interrupted.";

/// The part that is not counted, as for `lab policies`.
const WARM_PERCENT: f64 = 100.0 / 3.0;
/// The most requests that wait between the thread that reads them and the player.
const ROW_AHEAD: usize = 1024;
/// The shortest time between two lines of progress where standard error is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);
const EXIT_INTERRUPTED: u8 = 130;

/// `lab replay`.
#[derive(Args, Debug)]
pub struct ReplayFlags {
    /// A trace file (- is standard input), or dec, polymix or ucb
    #[arg(value_name = "STREAM")]
    stream: String,
    #[command(flatten)]
    from: StreamFlags,

    /// Where the proxy listens: http://HOST:PORT
    #[arg(long, value_name = "URL", help_heading = "Proxy")]
    proxy: String,
    /// It is a reverse proxy, a mirror, or has one in front: ask it as if it were the origin
    #[arg(long, help_heading = "Proxy")]
    reverse: bool,
    /// The site that it is asked for [default: its own address]
    #[arg(
        long,
        value_name = "NAME",
        requires = "reverse",
        help_heading = "Proxy"
    )]
    host: Option<String>,
    /// Where the origin listens; port 0 is a free one
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:0",
        help_heading = "Proxy"
    )]
    origin: SocketAddr,
    /// Processes of the proxy, whose bytes to and from devices are counted, with their descendants'
    #[arg(
        long,
        value_name = "PID",
        value_delimiter = ',',
        help_heading = "Proxy"
    )]
    pid: Vec<u32>,

    /// Requests at a time; each begins when all before it have begun, and none for the same object is out
    #[arg(long, value_name = "N", default_value = "8", value_parser = connections)]
    connections: usize,
    /// Requests a second at most [default: as fast as they are answered]
    #[arg(long, value_name = "R", value_parser = positive)]
    pace: Option<f64>,
    /// Percent of the requests that fill the cache and are not counted [default: a third]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    warm: Option<f64>,
    /// Only the first so many requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// A request fails if nothing comes for so long
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    timeout: Duration,
    /// First part of all names; the same again, with the same --origin, meets what an earlier replay has left [default: a new one]
    #[arg(long, value_name = "NAME", value_parser = world)]
    world: Option<String>,

    /// Write the report as JSON; - is standard output, in place of the text
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    json: Option<PathBuf>,
}

/// Set by the first Ctrl-C or SIGTERM.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Runs the command.
pub fn run(flags: &ReplayFlags) -> ExitCode {
    let done = listen_for_signals()
        .and_then(|()| replay(flags))
        .and_then(|report| tell(flags, &report).map(|()| report));
    match done {
        Ok(report) if INTERRUPTED.load(Ordering::SeqCst) => {
            complain(&report);
            ExitCode::from(EXIT_INTERRUPTED)
        }
        Ok(report) if complain(&report) => ExitCode::FAILURE,
        Ok(_) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("loligo: {why}");
            ExitCode::FAILURE
        }
    }
}

fn replay(flags: &ReplayFlags) -> Result<Report, String> {
    let proxy = address_of(&flags.proxy)?;
    // Bind before the trace is read, so that a proxy that checks its origin meanwhile finds it.
    let origin =
        Origin::bind(flags.origin).map_err(|e| format!("--origin {}: {e}", flags.origin))?;
    let (row, trace) = read(flags)?;
    let objects = Objects::of(&row).map_err(|e| format!("{trace}: {e}"))?;
    let requests = row.len() as u64;
    if requests == 0 {
        return Err(format!(
            "{trace}: no requests in it; lab trace says what there is"
        ));
    }
    let warm = (requests as f64 * flags.warm.unwrap_or(WARM_PERCENT) / 100.0) as u64;
    let way = match flags.reverse {
        true => Way::Reverse {
            host: flags.host.clone().unwrap_or_else(|| proxy.to_string()),
        },
        false => Way::Forward {
            authority: origin.address().to_string(),
        },
    };
    let settings = Settings {
        trace,
        proxy,
        way,
        world: flags.world.clone().unwrap_or_else(new_world),
        requests,
        object_bytes: objects.bytes,
        warm,
        connections: flags.connections,
        pace: flags.pace,
        timeout: flags.timeout,
        pids: flags.pid.clone(),
    };
    let shown = Shown::new(&settings.trace, requests, flags.from.quiet);
    let mut shown = shown;
    let wants_to_stop = || INTERRUPTED.load(Ordering::SeqCst);
    let report = play(
        &settings,
        &origin,
        asks(row),
        &wants_to_stop,
        &mut |begun| shown.at(begun),
    );
    shown.end();
    report.map_err(|e| e.to_string())
}

/// The requests of the trace, up to the limit, and its name.
fn read(flags: &ReplayFlags) -> Result<(Requests<Access>, String), String> {
    let limit = flags.limit.unwrap_or(u64::MAX);
    let mut gathering = Gathering::default();
    let ended = lab_traces::each(&flags.stream, &flags.from, |access| {
        if INTERRUPTED.load(Ordering::SeqCst) {
            return Err(std::io::Error::other("interrupted"));
        }
        if gathering.len() as u64 == limit {
            return Ok(());
        }
        gathering.add(access)
    })?;
    let row = gathering.finish().map_err(|e| e.to_string())?;
    Ok((row, ended.name))
}

/// The requests with their versions, produced by a thread.
fn asks(row: Requests<Access>) -> impl Iterator<Item = Result<Ask, String>> + Send + 'static {
    let (to, from) = sync_channel(ROW_AHEAD);
    std::thread::spawn(move || {
        let mut versions = Versions::default();
        for access in row.iter() {
            let ask = access
                .map(|it| versions.ask(&it))
                .map_err(|e| e.to_string());
            // The receiver is gone if the replay was stopped.
            if to.send(ask).is_err() {
                break;
            }
        }
    });
    from.into_iter()
}

/// Numbers the versions of each object: a change of size makes a new version.
#[derive(Default)]
struct Versions {
    /// Version and size by object; `None`: not requested yet.
    last: Vec<Option<(u32, u32)>>,
}

impl Versions {
    fn ask(&mut self, access: &Access) -> Ask {
        let object = access.object as usize;
        if self.last.len() <= object {
            self.last.resize(object + 1, None);
        }
        let size = access.size_bytes;
        let version = match self.last[object] {
            None => 0,
            Some((version, last)) if last == size => version,
            Some((version, _)) => version + 1,
        };
        self.last[object] = Some((version, size));
        Ask {
            object: access.object,
            server: access.server,
            version,
            size_bytes: size,
        }
    }
}

/// Writes text or JSON, as asked.
fn tell(flags: &ReplayFlags, report: &Report) -> Result<(), String> {
    let json = || serde_json::to_string_pretty(report).map_err(|e| e.to_string());
    match &flags.json {
        Some(path) if path == Path::new("-") => commands::print(&format!("{}\n", json()?)),
        Some(path) => {
            commands::print(&report.table().text());
            std::fs::write(path, json()?).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        None => commands::print(&report.table().text()),
    }
    Ok(())
}

/// Prints on standard error what is wrong with the replay. Returns whether it has failed.
fn complain(report: &Report) -> bool {
    for example in &report.examples {
        eprintln!("loligo: {example}");
    }
    if report.failed() > 0 {
        eprintln!("loligo: {} requests failed", report.failed());
    }
    if let Some(why) = &report.cut_short {
        let played = report.warming.requests + report.counted.requests;
        eprintln!(
            "loligo: {why} after {played} of {} requests; the figures are of these",
            report.requests
        );
    }
    if report.wrong() > 0 {
        eprintln!(
            "loligo: {} ANSWERS WITH WRONG BYTES: this proxy does not hand on what its origin sent",
            report.wrong()
        );
    }
    report.wrong() > 0 || report.cut_short.is_some()
}

/// Parses `http://host:port`; the scheme and the port may be missing.
fn address_of(proxy: &str) -> Result<SocketAddr, String> {
    let wrong = |why: &str| format!("--proxy {proxy}: {why}, such as http://127.0.0.1:3128");
    if proxy.starts_with("https://") {
        return Err(wrong(
            "only plain HTTP is spoken to it; name a listener for that",
        ));
    }
    let authority = proxy.strip_prefix("http://").unwrap_or(proxy);
    let authority = authority.strip_suffix('/').unwrap_or(authority);
    let has_port = authority
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let named = match has_port {
        true => authority.to_owned(),
        false => format!("{authority}:80"),
    };
    let addresses = named.to_socket_addrs().map_err(|e| wrong(&e.to_string()))?;
    let mut addresses: Vec<SocketAddr> = addresses.collect();
    // If a name has both kinds of addresses, proxies usually listen on IPv4.
    addresses.sort_by_key(SocketAddr::is_ipv6);
    addresses
        .first()
        .copied()
        .ok_or_else(|| wrong("no such host; name one"))
}

/// A name that no earlier replay had.
fn new_world() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    format!("r{:x}", now.unwrap_or_default().as_millis())
}

fn world(text: &str) -> Result<String, String> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    match !text.is_empty() && text.len() <= 64 && text.bytes().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err("1 to 64 letters, digits, - and _".to_owned()),
    }
}

fn connections(text: &str) -> Result<usize, String> {
    let number = text.parse().ok();
    number
        .filter(|number| (1..=CONNECTIONS_MAX).contains(number))
        .ok_or_else(|| format!("a number from 1 to {CONNECTIONS_MAX}"))
}

fn positive(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok();
    value
        .filter(|value| (1e-3..=1e9).contains(value))
        .ok_or_else(|| "a number from 0.001 to 1e9".to_owned())
}

fn time(text: &str) -> Result<Duration, String> {
    let time = commands::units::parse_time(text);
    time.filter(|time| !time.is_zero())
        .ok_or_else(|| "not a time, such as 500ms or 30s".to_owned())
}

fn percent(text: &str) -> Result<f64, String> {
    let value = text.trim_end_matches('%').parse::<f64>().ok();
    value
        .filter(|value| (0.0..=99.0).contains(value))
        .ok_or_else(|| "a number from 0 to 99".to_owned())
}

/// The first signal ends the replay with a report of the requests so far, the second ends the process.
fn listen_for_signals() -> Result<(), String> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| e.to_string())?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            let kinds = (SignalKind::interrupt(), SignalKind::terminate());
            let (Ok(mut interrupt), Ok(mut terminate)) = (signal(kinds.0), signal(kinds.1)) else {
                return;
            };
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if INTERRUPTED.swap(true, Ordering::SeqCst) {
                    std::process::exit(i32::from(EXIT_INTERRUPTED));
                }
                eprintln!("loligo: ending after the requests under way (once more: at once)");
            }
        });
    });
    Ok(())
}

/// Progress: a bar on a terminal, otherwise a line now and then.
struct Shown {
    bar: ProgressBar,
    name: String,
    requests: u64,
    lines: bool,
    last: Instant,
}

impl Shown {
    fn new(name: &str, requests: u64, quiet: bool) -> Self {
        let on_terminal = std::io::stderr().is_terminal();
        let bar = match on_terminal && !quiet {
            true => ProgressBar::new(requests),
            false => ProgressBar::hidden(),
        };
        let template = "{msg} {wide_bar} {human_pos}/{human_len} {per_sec} (left: {eta})";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(name.to_owned());
        Self {
            bar,
            name: name.to_owned(),
            requests,
            lines: !on_terminal && !quiet,
            last: Instant::now(),
        }
    }

    fn at(&mut self, begun: u64) {
        self.bar.set_position(begun);
        if self.lines && self.last.elapsed() >= LINE_EVERY {
            self.last = Instant::now();
            eprintln!("{}: {begun} of {} requests", self.name, self.requests);
        }
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_size_is_another_version() {
        let mut versions = Versions::default();
        let mut version = |object: u32, size_bytes: u32| {
            let access = Access {
                at_ms: 0,
                object,
                server: 1,
                size_bytes,
            };
            versions.ask(&access).version
        };
        let found =
            [(5, 100), (5, 100), (5, 90), (5, 100), (2, 90), (5, 100)].map(|(o, s)| version(o, s));
        assert_eq!(found, [0, 0, 1, 2, 0, 2]);
    }

    #[test]
    fn proxies_are_named_by_url_or_address() {
        let at = |text: &str| address_of(text).map(|it| it.to_string());
        assert_eq!(
            at("http://127.0.0.1:3128/").as_deref(),
            Ok("127.0.0.1:3128")
        );
        assert_eq!(at("127.0.0.1:3128").as_deref(), Ok("127.0.0.1:3128"));
        assert_eq!(at("http://127.0.0.1").as_deref(), Ok("127.0.0.1:80"));
        assert_eq!(at("http://[::1]:8080").as_deref(), Ok("[::1]:8080"));
        for bad in ["https://127.0.0.1", "http://", "127.0.0.1:x"] {
            assert!(
                at(bad)
                    .unwrap_err()
                    .contains("such as http://127.0.0.1:3128"),
                "{bad}"
            );
        }
    }

    #[test]
    fn what_is_out_of_bounds_is_not_understood() {
        assert!(connections("0").is_err() && connections("8").is_ok());
        assert!(percent("100").is_err() && percent("33%").is_ok());
        assert!(positive("0").is_err() && positive("inf").is_err());
        assert!(world("a/b").is_err() && world("").is_err() && world("r1").is_ok());
    }
}
