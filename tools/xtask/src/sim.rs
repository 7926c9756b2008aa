//! `cargo xtask sim`: the simulations, many seeds, on all processors: the store on a faulty disk; `--proxy`: the whole proxy on that disk;
//! `--hints`: the hints of a cluster. Each is a program of its own, in a workspace apart (`tools/Cargo.toml`), so that nothing else is
//! built with what they turn on in our crates. `--http2`: a connection of HTTP/2, which is among the tests of its crate.
//!
//! The first failure ends it and is printed with its story and the command that shows it again. `--mistakes` turns it round: for each
//! deliberate mistake, seeds are run until one fails; a mistake that none notices is the failure.
//!
//! Not known here: what a run is, and what is right.

use std::panic::resume_unwind;
use std::process::Command;
use std::thread;

use clap::Args;

use crate::failure::{During, Result, fail};
use crate::{interrupt, workspace};

/// How much, and what.
#[derive(Debug, Clone, Default, Args)]
pub struct Options {
    /// The whole proxy instead of the store alone
    #[arg(long, conflicts_with_all = ["waive", "watch", "json", "steps"])]
    proxy: bool,
    /// The hints of a cluster: fronts, nodes, and the wire between them
    #[arg(long, conflicts_with_all = ["proxy", "waive", "watch", "json", "steps"])]
    hints: bool,
    /// A connection of HTTP/2: a client, a server, and a link that splits
    #[arg(long, conflicts_with_all = ["proxy", "hints", "waive", "watch", "json", "steps", "mistake"])]
    http2: bool,
    /// All of them, and their mistakes, with many seeds: before a release, or after a change of what they simulate
    #[arg(long, exclusive = true)]
    sweep: bool,
    /// Their own tests, and each mistake noticed: what every change must pass
    #[arg(long, exclusive = true)]
    every_change: bool,
    /// How many seeds [default: 300]
    #[arg(long)]
    seeds: Option<u64>,
    /// The first seed [default: 1]
    #[arg(long)]
    from: Option<u64>,
    /// Only this seed
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// Steps of a seed of the store [default: 3000]
    #[arg(long)]
    steps: Option<u64>,
    /// Make this mistake
    #[arg(long)]
    mistake: Option<String>,
    /// Each mistake in turn, until a seed notices it
    #[arg(long, conflicts_with_all = ["mistake", "seed"])]
    mistakes: bool,
    /// Pass over the store's broken rules of these numbers (see the crate's `check`), to see what else is broken
    #[arg(long, value_delimiter = ',')]
    waive: Vec<u8>,
    /// With --seed: tell all that happened to this key of the store (its number, as messages give it)
    #[arg(long, requires = "seed")]
    watch: Option<u32>,
    /// Workers; by default one for each processor
    #[arg(long)]
    jobs: Option<usize>,
    /// Print the store's numbers as JSON
    #[arg(long)]
    json: bool,
}

/// One of them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Store,
    Proxy,
    Hints,
    Http2,
}

impl Options {
    fn of(what: What, seeds: u64) -> Self {
        Self {
            proxy: what == What::Proxy,
            hints: what == What::Hints,
            http2: what == What::Http2,
            seeds: Some(seeds),
            ..Self::default()
        }
    }

    fn mistakes(what: What, seeds: u64) -> Self {
        Self {
            mistakes: true,
            ..Self::of(what, seeds)
        }
    }

    fn what(&self) -> What {
        match self {
            Self { proxy: true, .. } => What::Proxy,
            Self { hints: true, .. } => What::Hints,
            Self { http2: true, .. } => What::Http2,
            _ => What::Store,
        }
    }
}

/// What every change must pass: the simulations' own tests, which play some seeds of each, and each mistake noticed. Most are noticed by the
/// first few seeds.
fn every_change() -> Result<()> {
    let mut tests = cargo(&["test", "--quiet", "--workspace"]);
    done(tests.current_dir(workspace::simulations()), "their tests")?;
    // The mistakes of the hints are among those tests. Most of the others are found by one seed, on one processor: so all three go at once.
    thread::scope(|scope| {
        let whats = [What::Store, What::Proxy, What::Http2];
        let runs = whats.map(|what| scope.spawn(move || run(&Options::mistakes(what, 1500))));
        let ended = runs.map(|run| run.join().unwrap_or_else(|panic| resume_unwind(panic)));
        ended.into_iter().collect()
    })
}

/// A few hundred seeds of the store, a few dozen of the proxy, whose runs are longer, some thousand of the hints, whose runs are brief, and
/// then each mistake noticed by one.
fn sweep() -> Result<()> {
    for options in [
        Options::of(What::Store, 300),
        Options::mistakes(What::Store, 1500),
        Options::of(What::Proxy, 60),
        Options::mistakes(What::Proxy, 200),
        Options::of(What::Hints, 2000),
        Options::mistakes(What::Hints, 2000),
        Options::of(What::Http2, 10_000),
        Options::mistakes(What::Http2, 300),
    ] {
        run(&options)?;
    }
    Ok(())
}

/// Runs it.
pub fn run(options: &Options) -> Result<()> {
    interrupt::check()?;
    if options.sweep {
        return sweep();
    }
    if options.every_change {
        return every_change();
    }
    match options.what() {
        What::Store => run_program("simulation", options),
        What::Proxy => run_program("proxy-simulation", options),
        What::Hints => run_program("hints-simulation", options),
        What::Http2 => run_http2(options),
    }
}

/// Has the tests of the crate `http2` do it, which are told the seeds by the environment.
fn run_http2(options: &Options) -> Result<()> {
    let mut command = cargo(&["test", "--quiet", "--package", "http2", "--test", "all"]);
    if options.mistakes {
        command.args(["--features", "mistakes", "link::mistakes_are_noticed"]);
    } else {
        command.arg("link::sim");
        for (name, number) in [
            ("HTTP2_SEED", options.seed),
            ("HTTP2_FROM", options.from),
            ("HTTP2_SEEDS", options.seeds),
        ] {
            command.envs(number.map(|number| (name, number.to_string())));
        }
    }
    done(command.current_dir(workspace::root()), "http2")
}

/// Has the program that simulates something do it.
fn run_program(package: &str, options: &Options) -> Result<()> {
    let mut command = cargo(&["run", "--quiet", "--package", package, "--"]);
    command.args(arguments(options));
    done(command.current_dir(workspace::simulations()), package)
}

/// As the programs understand them; those that a program does not know are refused before.
fn arguments(options: &Options) -> Vec<String> {
    let seeds = options.seed.is_none().then(|| options.seeds.unwrap_or(300));
    let numbers = [
        ("--seeds", seeds),
        ("--from", options.from),
        ("--seed", options.seed),
        ("--steps", options.steps),
        ("--watch", options.watch.map(u64::from)),
        ("--jobs", options.jobs.map(|jobs| jobs as u64)),
    ];
    let waived = options.waive.iter().map(|&rule| ("--waive", rule.into()));
    let numbers = numbers
        .into_iter()
        .filter_map(|(name, number)| Some((name, number?)));
    let mut all: Vec<String> = numbers
        .chain(waived)
        .map(|(name, number)| format!("{name}={number}"))
        .collect();
    all.extend(
        options
            .mistake
            .iter()
            .map(|name| format!("--mistake={name}")),
    );
    let switches = [(options.mistakes, "--mistakes"), (options.json, "--json")];
    all.extend(switches.iter().filter(|on| on.0).map(|on| on.1.to_owned()));
    all
}

fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args);
    command
}

fn done(command: &mut Command, what: &str) -> Result<()> {
    match command
        .status()
        .during(|| "running cargo".into())?
        .success()
    {
        true => Ok(()),
        false => fail!("the simulation of {what} has found something; see above"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn passed_on(line: &str) -> Result<String, clap::Error> {
        let words = std::iter::once("sim").chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| arguments(&line.options).join(" "))
    }

    #[test]
    fn what_is_asked_is_passed_on() {
        for (line, passed) in [
            ("", "--seeds=300"),
            ("--seed 7 --watch 3", "--seed=7 --watch=3"),
            (
                "--proxy --seeds 9 --from 4 --jobs 1",
                "--seeds=9 --from=4 --jobs=1",
            ),
            ("--hints --mistakes", "--seeds=300 --mistakes"),
            (
                "--waive 1,2 --json",
                "--seeds=300 --waive=1 --waive=2 --json",
            ),
            ("--seed 1 --mistake no-mac", "--seed=1 --mistake=no-mac"),
        ] {
            assert_eq!(passed_on(line).unwrap(), passed, "{line}");
        }
        for line in [
            "--proxy --json",
            "--hints --waive 1",
            "--sweep --proxy",
            "--every-change --seed 1",
        ] {
            assert!(passed_on(line).is_err(), "{line}");
        }
    }
}
