//! `cargo xtask hierarchy`: root, top and two sibling leaves under PolyMix, and the levels at which hits occur.
//!
//! ```text
//! robots ─> leaf a ─┐              robots at both leaves use one set of objects,
//!              │    ├─> top ─> root ─> origins      so that the leaves' contents overlap;
//! robots ─> leaf b ─┘              a and b are siblings
//! ```
//!
//! The robots compare every body with the servers' bytes, so a proxy that mixes answers up fails the run. Each proxy writes a
//! profile; from the four, one table is made (`levels`), and one page by `loligo report`. A request that loops would be
//! answered 502 with `proxy_loop_detected`, and fails the run.
//!
//! With `--squid`, an installed Squid replaces one of them.
//!
//! Not known here: the work of a proxy.   Limits: all of it on 127.0.0.0/8; the stores are in memory.

mod configurations;
mod levels;

use std::{
    fs,
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use clap::{Args, ValueEnum};

use crate::failure::{During, Result, fail};
use crate::process::{CommandLine, Server};
use crate::rivals::{build_lab, build_loligo};
use crate::{interrupt, ports, rivals, workspace};

use configurations::{Ask, Level, Site};

/// How to run.
#[derive(Debug, Args)]
pub struct Options {
    /// Seconds of load, about
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Requests a second of both leaves together
    #[arg(long, default_value_t = 100)]
    rate: u32,
    /// How leaves know what their sibling has
    #[arg(long, value_enum, default_value_t = Ask::Try)]
    ask: Ask,
    /// Put an installed Squid in this place
    #[arg(long, value_enum)]
    squid: Option<Squid>,
}

/// The place of a Squid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Squid {
    /// The leaves' parent
    Parent,
    /// Leaf b
    Sibling,
    /// Leaf a, whose parent is a Loligo
    Child,
}

impl Squid {
    fn level(self) -> Level {
        match self {
            Squid::Parent => Level::Top,
            Squid::Sibling => Level::B,
            Squid::Child => Level::A,
        }
    }
}

/// The robots' error for an answer that is older than one of their reloads.
const STALE_AFTER_RELOAD: &str = "stale after a reload";

/// KiB of the cache size for each second; the fill phase brings twice the cache size, and is to last no longer than the other phases.
const FILLED_KIB_A_SECOND: u64 = 64;

/// Runs the load, prints the table and writes the page; fails if an answer was wrong, or no answer came from another proxy.
pub fn run(options: &Options) -> Result<()> {
    if options.squid.is_some() && workspace::program("squid").is_none() {
        fail!("there is no squid on the PATH; install it, or leave --squid out");
    }
    build_loligo()?;
    build_lab()?;
    let dir = workspace::run_dir().join("hierarchy");
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).during(|| format!("making {}", dir.display()))?;
    if options.squid.is_some() {
        // A Squid started by root changes to a user of its own, which writes here too.
        let everybody = fs::Permissions::from_mode(0o777);
        fs::set_permissions(&dir, everybody).during(|| format!("opening {}", dir.display()))?;
    }
    let mut site = Site {
        dir: dir.clone(),
        ask: options.ask,
        squid: options.squid.map(Squid::level),
        ports: Vec::new(),
    };
    for _ in Level::ALL {
        site.ports.push((ports::free()?, ports::free()?));
    }
    let mut servers = Vec::new();
    // The parents first, so that no leaf finds its parent dead.
    let mut each = Level::ALL.iter();
    let started = each.try_for_each(|level| start(&site, *level, &mut servers));
    let loaded = started.and_then(|()| load(&site, options));
    // Also after a failure: no process is left behind, and the logs give the reason.
    for server in &mut servers {
        server.stop()?;
    }
    loaded?;
    let table = levels::read(&site, &rivals::loligo_binary())?;
    println!("{}", levels::text(&table));
    page(&site)?;
    levels::check(&table, options.squid.is_some())
}

fn start(site: &Site, level: Level, started: &mut Vec<Server>) -> Result<()> {
    let log = site.dir.join(format!("{}.log", level.name()));
    let server = match site.is_squid(level) {
        true => {
            let conf = site.write(level, &site.squid_conf(level))?;
            // Two Squids of one service name cannot run on one machine.
            let name = format!("hierarchy{}", site.http(level));
            if site.ask == Ask::Digest {
                make_directories(&name, &conf)?;
            }
            let args = ["-N", "-n", &name, "-f", &conf];
            CommandLine::new("squid", args).spawn(&log)?
        }
        false => {
            let conf = site.write(level, &site.loligo_toml(level))?;
            let program = rivals::loligo_binary().display().to_string();
            CommandLine::new(&program, ["serve", "-c", &conf]).spawn(&log)?
        }
    };
    started.push(server);
    let address = (site.host(level), site.http(level));
    let is_up = || TcpStream::connect(address).is_ok();
    match interrupt::wait_until(Duration::from_secs(30), is_up)? {
        true => Ok(()),
        false => fail!(
            "the {} does not answer: see {}",
            level.name(),
            log.display()
        ),
    }
}

/// Makes the directories that a Squid with a `cache_dir` needs before it starts.
fn make_directories(name: &str, conf: &str) -> Result<()> {
    let squid = workspace::program("squid").unwrap_or_else(|| "squid".into());
    let made = Command::new(squid)
        .args(["-N", "-z", "-n", name, "-f", conf])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .during(|| "making the directories of Squid's cache".into())?;
    match made.success() {
        true => Ok(()),
        false => fail!("squid -z failed: {made}"),
    }
}

/// Runs the servers in one process, and robots at each leaf in two more, with one set of objects.
fn load(site: &Site, options: &Options) -> Result<()> {
    // PolyMix's phases take 8 h and 15 min together; they are scaled down to the wanted time.
    let scale = (f64::from(options.seconds) / (8.25 * 3600.0)).to_string();
    let (rate, origin) = (
        (options.rate / 2).max(1).to_string(),
        format!("127.1.0.1:{}", ports::free()?),
    );
    let workload = [
        "--rate",
        &rate,
        "--time-scale",
        &scale,
        "--think-scale",
        "0.02",
        "--http",
        "1.1",
        "--one-address",
        // Few servers: with more of them, few objects would be repeated in this short run.
        "--servers",
        "8",
        "--origin",
        &origin,
    ];
    let filled_kib = FILLED_KIB_A_SECOND * u64::from(options.seconds);
    let program = rivals::lab_binary().display().to_string();
    let servers = CommandLine::new(
        &program,
        ["bench", "origin"].iter().chain(&workload).copied(),
    );
    let log = site.dir.join("origin.log");
    let mut servers = servers.spawn(&log)?;
    let is_up = || TcpStream::connect(&origin).is_ok();
    let is_up = interrupt::wait_until(Duration::from_secs(30), is_up);
    let loaded = match is_up {
        Ok(true) => robots(site, &workload, filled_kib),
        Ok(false) => fail!("the servers do not answer: see {}", log.display()),
        Err(interrupted) => Err(interrupted),
    };
    servers.stop()?;
    loaded
}

fn robots(site: &Site, workload: &[&str], filled_kib: u64) -> Result<()> {
    let cache_size = format!("{filled_kib}KiB");
    let mut robots = Vec::new();
    for (level, seed) in [(Level::A, "1"), (Level::B, "2")] {
        let output = site.dir.join(format!("robots-{}.txt", level.name()));
        let file = fs::File::create(&output).during(|| format!("making {}", output.display()))?;
        let errors = file.try_clone().during(|| "a second handle".into())?;
        let child = Command::new(rivals::lab_binary())
            .args(["bench", "robots", "--quiet"])
            .args(workload)
            .args([
                "--proxy",
                &format!("{}:{}", site.host(level), site.http(level)),
            ])
            .args(["--cache-size", &cache_size, "--world", "7", "--seed", seed])
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .during(|| "starting the robots".into())?;
        robots.push((level, child, output));
    }
    for (level, mut child, output) in robots {
        let status = child.wait().during(|| "waiting for the robots".into())?;
        let read =
            |path: &Path| fs::read_to_string(path).during(|| format!("reading {}", path.display()));
        // Status 1 may also mean slowness, or fewer hits than an LRU alone: neither is tested here.
        let ended = matches!(status.code(), Some(0 | 1));
        if let Some(why) = complaint(&read(&output)?, &read(&site.log(level))?).filter(|_| ended) {
            fail!("{}: {why}: see {}", level.name(), output.display());
        }
        if !ended {
            fail!("the robots ended with {status}: see {}", output.display());
        }
    }
    interrupt::check()
}

/// Errors found by the robots. `log`: the access log of their leaf.
///
/// A leaf that has dropped an object after a reload may get an older version from its sibling: a reload goes to parents and the origin,
/// not to siblings. Such an answer is older than the reload, but fresh, and siblings cannot know better. The log identifies it: the
/// leaf got it from its sibling.
fn complaint(report: &str, log: &str) -> Option<String> {
    let made = report
        .lines()
        .find_map(|line| line.strip_prefix("requests "));
    if made.is_none_or(|made| made.trim_start().starts_with("0 made")) {
        return Some("the robots got no answers".to_owned());
    }
    let wrong = report.lines().filter(|line| line.starts_with("  wrong "));
    let mut wrong = wrong.filter(|line| !line.ends_with(STALE_AFTER_RELOAD));
    if let Some(line) = wrong.next() {
        return Some(line.trim().to_owned());
    }
    let from_sibling = |url: &str| {
        let of_it = log
            .lines()
            .filter(|line| line.split(' ').any(|word| word == url));
        of_it.into_iter().any(|line| line.contains("SIBLING_HIT/"))
    };
    let examples = report.lines().filter_map(|line| {
        let (_, example) = line.strip_prefix("  example ")?.split_once(": ")?;
        example.split(' ').next()
    });
    let own = examples.into_iter().find(|url| !from_sibling(url))?;
    Some(format!(
        "{STALE_AFTER_RELOAD}, and not from a sibling: {own}"
    ))
}

/// Makes one page of all sources, if this Loligo can.
fn page(site: &Site) -> Result<()> {
    let sources = Level::ALL.iter().map(|level| {
        let place = if *level == Level::Top || *level == Level::Root {
            level.name()
        } else {
            "leaf"
        };
        format!("{}@{place}", site.record(*level).display())
    });
    let html: PathBuf = site.dir.join("hierarchy.html");
    let made = Command::new(rivals::loligo_binary())
        .arg("report")
        .args(sources)
        .arg("--html")
        .arg(&html)
        .stdout(Stdio::null())
        .status()
        .during(|| "making the report".into())?;
    match made.success() {
        true => println!("the report: {}", shown(&html)),
        false => fail!("no report could be made of the four sources"),
    }
    Ok(())
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::complaint;

    #[test]
    fn robots_are_content_with_right_answers_alone() {
        let of = |report: &str| complaint(report, "").is_some();
        assert!(!of("a\nrequests         5 made, 5 right\nkinds a\n"));
        assert!(of("requests         0 made, 0 right\n"));
        assert!(of("killed before the end"));
        assert!(of(
            "requests  5 made, 4 right\n  wrong   1  reload from cache\n"
        ));
    }

    #[test]
    fn only_a_sibling_may_have_what_was_before_a_reload() {
        let report = "requests  5 made, 4 right\n  wrong   1  stale after a reload\n  \
                      example        stale after a reload: http://a/b (Get, Basic)\n";
        let line =
            |url: &str, whom: &str| format!("1 2 ::1 TCP_MISS/200 5 GET {url} - {whom}/x -\n");
        let sibling = line("http://a/b", "SIBLING_HIT");
        assert_eq!(complaint(report, &sibling), None);
        assert!(complaint(report, &line("http://a/bc", "SIBLING_HIT")).is_some());
        assert!(complaint(report, &line("http://a/b", "FIRSTUP_PARENT")).is_some());
    }
}
