//! `cargo xtask sim`: the fault simulation of the store, many seeds, on all processors. `--proxy`: that of the whole proxy, which is a
//! program of its own (`proxy-simulation`), so that this one need not be built with a proxy in it. `--hints`: that of the cluster's hints, in
//! the same way (`hints-simulation`). `--http2`: that of a connection of HTTP/2, which is among the tests of its crate.
//!
//! Seeds are independent, so each worker takes the next one; the numbers are added up in the end. The first failure ends
//! it all and is printed with its story and the command that shows it again. `--mistakes` turns it round: for
//! each deliberate mistake of the store, seeds are run until one fails that passes without it; a mistake that none
//! notices is the failure.

use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use clap::Args;
use simulation::{Failure, Mistake, Named, Report, Waived};

use crate::failure::{During, Result, fail};
use crate::progress::Progress;
use crate::{interrupt, workspace};

/// How much, and what.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// The whole proxy instead of the store alone
    #[arg(long, conflicts_with_all = ["waive", "watch", "json"])]
    proxy: bool,
    /// The hints of a cluster: fronts, nodes, and the wire between them
    #[arg(long, conflicts_with_all = ["proxy", "waive", "watch", "json"])]
    hints: bool,
    /// A connection of HTTP/2: a client, a server, and a link that splits
    #[arg(long, conflicts_with_all = ["proxy", "hints", "waive", "watch", "json", "mistake"])]
    http2: bool,
    /// How many seeds
    #[arg(long, default_value_t = 300)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Only this seed
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// Steps of a seed
    #[arg(long, default_value_t = 3000)]
    steps: u64,
    /// Let the store, or the proxy, make this mistake
    #[arg(long)]
    mistake: Option<String>,
    /// Each mistake in turn, until a seed notices it
    #[arg(long, conflicts_with_all = ["mistake", "seed"])]
    mistakes: bool,
    /// Pass over broken rules of these numbers (see the crate's `check`), to see what else is broken
    #[arg(long, value_delimiter = ',')]
    waive: Vec<u8>,
    /// With --seed: tell all that happened to this key (its number, as messages give it)
    #[arg(long, requires = "seed")]
    watch: Option<u32>,
    /// Workers; by default one for each processor
    #[arg(long)]
    jobs: Option<usize>,
    /// Print the numbers as JSON
    #[arg(long)]
    json: bool,
}

impl Options {
    /// Does this program do the work itself?
    pub fn measures(&self) -> bool {
        !self.proxy && !self.hints && !self.http2
    }

    /// What every change must pass: a few hundred seeds of the store, a few dozen of the proxy, whose runs are
    /// longer, some thousand of the hints, whose runs are brief, and then each mistake noticed by one.
    pub fn for_every_change() -> [Options; 7] {
        let seeds = Options {
            proxy: false,
            hints: false,
            http2: false,
            seeds: 300,
            from: 1,
            seed: None,
            steps: 3000,
            mistake: None,
            mistakes: false,
            waive: Vec::new(),
            watch: None,
            jobs: None,
            json: false,
        };
        // Most are noticed by the first few.
        let mistakes = Options {
            mistakes: true,
            seeds: 1500,
            ..seeds.clone()
        };
        let of_proxy = Options {
            proxy: true,
            seeds: 60,
            ..seeds.clone()
        };
        let mistakes_of_proxy = Options {
            mistakes: true,
            seeds: 200,
            ..of_proxy.clone()
        };
        let of_hints = Options {
            hints: true,
            seeds: 2000,
            ..seeds.clone()
        };
        let mistakes_of_hints = Options {
            mistakes: true,
            ..of_hints.clone()
        };
        // Its seeds are among the tests of its crate.
        let mistakes_of_http2 = Options {
            http2: true,
            mistakes: true,
            ..seeds.clone()
        };
        [
            seeds,
            mistakes,
            of_proxy,
            mistakes_of_proxy,
            of_hints,
            mistakes_of_hints,
            mistakes_of_http2,
        ]
    }
}

/// What many seeds came to.
struct Outcome {
    report: Report,
    failure: Option<Failure>,
    seconds: f64,
}

/// Runs it.
pub fn run(options: &Options) -> Result<()> {
    if options.proxy {
        return run_other("proxy-simulation", options);
    }
    if options.hints {
        return run_other("hints-simulation", options);
    }
    if options.http2 {
        return run_http2(options);
    }
    if options.mistakes {
        return all_mistakes(options);
    }
    let named = options.mistake.as_deref().map(str::parse::<Named>);
    let mistake = named.transpose().during(|| "--mistake".into())?;
    let mistake = mistake.map(|named| named.0);
    let outcome = run_seeds(options, mistake, "simulation")?;
    if options.json {
        println!("{}", json(&outcome));
    } else {
        print(&outcome);
    }
    match outcome.failure {
        Some(failure) => fail!("{failure}"),
        None => Ok(()),
    }
}

/// Has the tests of the crate `http2` do it, which are told the seeds by the environment.
fn run_http2(options: &Options) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["test", "--quiet", "--package", "http2", "--test", "all"]);
    match (options.mistakes, options.seed) {
        (true, _) => {
            let which = ["--features", "mistakes", "link::mistakes_are_noticed"];
            command.args(which);
        }
        (false, Some(seed)) => {
            command.arg("link::sim").env("HTTP2_SEED", seed.to_string());
        }
        (false, None) => {
            let range = [("HTTP2_FROM", options.from), ("HTTP2_SEEDS", options.seeds)];
            let range = range.map(|(name, number)| (name, number.to_string()));
            command.arg("link::sim").envs(range);
        }
    }
    let status = command.current_dir(workspace::root()).status();
    match status.during(|| "running cargo".into())?.success() {
        true => Ok(()),
        false => fail!("the simulation of HTTP/2 has found something; see above"),
    }
}

/// Has the program that simulates something else do it.
fn run_other(package: &str, options: &Options) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["run", "--quiet", "--package", package, "--"]);
    let mut number = |name: &str, number: u64| {
        command.args([name, &number.to_string()]);
    };
    match options.seed {
        Some(seed) => number("--seed", seed),
        None => {
            number("--from", options.from);
            number("--seeds", options.seeds);
        }
    }
    if let Some(jobs) = options.jobs {
        number("--jobs", jobs as u64);
    }
    if let Some(mistake) = &options.mistake {
        command.args(["--mistake", mistake]);
    }
    if options.mistakes {
        command.arg("--mistakes");
    }
    let status = command.current_dir(workspace::root()).status();
    match status.during(|| "running cargo".into())?.success() {
        true => Ok(()),
        false => fail!("{package} has found something"),
    }
}

fn all_mistakes(options: &Options) -> Result<()> {
    let mut unnoticed = Vec::new();
    for mistake in Mistake::ALL {
        let outcome = run_seeds(options, Some(mistake), mistake.name())?;
        match outcome.failure {
            Some(failure) => println!(
                "{:26} noticed after {} seeds: seed {}, step {}: {}",
                mistake.name(),
                outcome.report.seeds,
                failure.seed,
                failure.step,
                failure.message
            ),
            None => {
                println!(
                    "{:26} NOT NOTICED by {} seeds",
                    mistake.name(),
                    options.seeds
                );
                unnoticed.push(mistake.name());
            }
        }
    }
    if !unnoticed.is_empty() {
        fail!("mistakes that nobody noticed: {}", unnoticed.join(", "));
    }
    Ok(())
}

fn run_seeds(options: &Options, mistake: Option<Mistake>, title: &str) -> Result<Outcome> {
    let (from, seeds) = match options.seed {
        Some(seed) => (seed, 1),
        None => (options.from, options.seeds),
    };
    let workers = options
        .jobs
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
        .clamp(1, seeds.max(1) as usize);
    let began = Instant::now();
    let next = AtomicU64::new(from);
    let stop = AtomicBool::new(false);
    let sum = Mutex::new((
        Report::default(),
        None::<Failure>,
        Progress::new(title, seeds),
    ));
    let work = || {
        while !stop.load(Ordering::Relaxed) && interrupt::check().is_ok() {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= from.saturating_add(seeds) {
                break;
            }
            let run = simulation::Options {
                seed,
                steps: options.steps,
                mistake,
                waived: Waived::of(&options.waive),
                watch: options.watch,
            };
            let (report, mut failure) = simulation::run(run);
            if mistake.is_some() && options.mistakes && failure.is_some() {
                // A seed that fails anyway has not noticed the mistake.
                let (_, anyway) = simulation::run(simulation::Options {
                    mistake: None,
                    ..run
                });
                failure = failure.filter(|_| anyway.is_none());
            }
            let Ok(mut sum) = sum.lock() else { break };
            sum.0.merge(&report);
            sum.2.step();
            if let Some(failure) = failure {
                stop.store(true, Ordering::Relaxed);
                // Of several the lowest seed, so that two runs tend to name the same.
                if sum.1.as_ref().is_none_or(|other| seed < other.seed) {
                    sum.1 = Some(failure);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        (0..workers).for_each(|_| {
            scope.spawn(work);
        });
    });
    interrupt::check()?;
    let Ok((report, failure, _)) = sum.into_inner() else {
        fail!("a worker of the simulation panicked outside of a run");
    };
    Ok(Outcome {
        report,
        failure,
        seconds: began.elapsed().as_secs_f64(),
    })
}

fn print(outcome: &Outcome) {
    let report = &outcome.report;
    for (name, number) in report.numbers() {
        println!("{name:26} {number:>14}");
    }
    if let Some(percent) = report.found_percent() {
        println!("{:26} {percent:>14.3}", "hits after recovery, %");
    }
    for (name, number) in report.faults.iter() {
        println!("{name:26} {number:>14}");
    }
    println!(
        "{:26} {:>14.0}",
        "steps a second",
        report.steps as f64 / outcome.seconds
    );
}

fn json(outcome: &Outcome) -> serde_json::Value {
    let report = &outcome.report;
    let key = |name: &str| name.replace([' ', '-'], "_");
    let mut numbers: serde_json::Map<_, _> = report
        .numbers()
        .into_iter()
        .map(|(name, number)| (key(name), number.into()))
        .collect();
    let faults: serde_json::Map<_, _> = report
        .faults
        .iter()
        .map(|(name, number)| (key(name), number.into()))
        .collect();
    numbers.insert("faults".into(), faults.into());
    numbers.insert("found_percent".into(), report.found_percent().into());
    numbers.insert("seconds".into(), outcome.seconds.into());
    if let Some(failure) = &outcome.failure {
        numbers.insert(
            "failure".into(),
            serde_json::json!({
                "seed": failure.seed,
                "step": failure.step,
                "message": failure.message,
                "story": failure.story,
                "replay": failure.replay,
            }),
        );
    }
    numbers.into()
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

    fn options(line: &str) -> Options {
        Line::parse_from(std::iter::once("sim").chain(line.split_whitespace())).options
    }

    #[test]
    fn a_few_seeds_pass_and_are_counted() {
        let options = options("--seeds 2 --steps 300 --jobs 2");
        let outcome = run_seeds(&options, None, "test").unwrap();
        assert!(outcome.failure.is_none(), "{}", outcome.failure.unwrap());
        assert_eq!((outcome.report.seeds, outcome.report.steps), (2, 600));
        let json = json(&outcome);
        assert_eq!(json["seeds"], 2);
        assert!(json["faults"]["torn_writes"].is_u64());
    }

    #[test]
    fn mistakes_are_named_on_the_command_line() {
        assert!(run(&options("--seeds 1 --steps 10 --mistake no-mac")).is_ok());
        let unknown = run(&options("--seeds 1 --mistake no-idea")).unwrap_err();
        assert!(unknown.to_string().contains("no-idea"), "{unknown}");
    }
}
