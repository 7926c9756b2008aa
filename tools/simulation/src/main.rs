//! `cargo xtask sim`: runs many seeds of the store, on all processors; the first failure ends it, with its story.
//!
//! Seeds are independent, so each worker takes the next one; the numbers are added at the end. With `--mistakes`, for each deliberate
//! mistake of the store, seeds are run until one fails that passes without the mistake; a mistake without such a seed is the failure.
//!
//! Not known here: what a run does.
#![forbid(unsafe_code)]

use std::{
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Instant,
};

use clap::Parser;
use simulation::{Failure, Mistake, Named, Report, Waived, run};

/// The store over a faulty disk in virtual time
#[derive(Debug, Clone, Parser)]
struct Line {
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
    /// Let the store make this mistake
    #[arg(long)]
    mistake: Option<Named>,
    /// Each mistake in turn, until a seed notices it
    #[arg(long, conflicts_with_all = ["mistake", "seed"])]
    mistakes: bool,
    /// Pass over broken rules of these numbers (see `check`), to see what else is broken
    #[arg(long, value_delimiter = ',')]
    waive: Vec<u8>,
    /// With --seed: tell all that happened to this key (its number, as messages give it)
    #[arg(long, requires = "seed")]
    watch: Option<u32>,
    /// Threads; by default one for each processor
    #[arg(long)]
    jobs: Option<usize>,
    /// Print the numbers as JSON
    #[arg(long)]
    json: bool,
}

/// Seeds that have noticed mistakes which the first few seeds do not notice. They are tried first; if one fails to notice, others follow.
const NOTICED_BY: [(&str, u64); 14] = [
    ("no-mac", 10),
    ("no-block-check", 21),
    ("no-place-check", 19),
    ("single-log-copy", 19),
    ("no-opened-at", 10),
    ("marker-of-purged", 4),
    ("note-of-first", 3),
    ("note-in-parts", 34),
    ("empty-at-once", 4070),
    ("thaw-in-silence", 7),
    ("no-protection", 79),
    ("protection-of-before", 127),
    ("tell-no-more", 505),
    ("reinsert-the-dead", 5),
];

fn main() -> ExitCode {
    let line = Line::parse();
    let is_well = match line.mistakes {
        true => all_mistakes(&line),
        false => seeds(&line),
    };
    match is_well {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// The results of many seeds.
struct Outcome {
    report: Report,
    /// If several seeds fail, the lowest one, so that two runs tend to name the same.
    failure: Option<Failure>,
    seconds: f64,
}

fn seeds(line: &Line) -> bool {
    let outcome = run_seeds(line, line.mistake.map(|named| named.0));
    if line.json {
        println!("{}", json(&outcome));
    } else {
        print(&outcome);
    }
    let failure = outcome.failure;
    failure.inspect(|failure| eprintln!("{failure}")).is_none()
}

fn all_mistakes(line: &Line) -> bool {
    let mut is_well = true;
    for mistake in Mistake::ALL {
        let name = mistake.name();
        let Outcome {
            report, failure, ..
        } = find_mistake(line, mistake);
        match failure {
            Some(failure) => println!(
                "{name:26} noticed after {} seeds: seed {}, step {}: {}",
                report.seeds, failure.seed, failure.step, failure.message
            ),
            None => {
                println!("{name:26} NOT NOTICED by {} seeds", line.seeds);
                is_well = false;
            }
        }
    }
    is_well
}

fn find_mistake(line: &Line, mistake: Mistake) -> Outcome {
    let known = NOTICED_BY.iter().find(|known| known.0 == mistake.name());
    let at_once = known.map(|&(_, seed)| {
        let seed = Some(seed);
        run_seeds(
            &Line {
                seed,
                ..line.clone()
            },
            Some(mistake),
        )
    });
    let at_once = at_once.filter(|outcome| outcome.failure.is_some());
    at_once.unwrap_or_else(|| run_seeds(line, Some(mistake)))
}

fn run_seeds(line: &Line, mistake: Option<Mistake>) -> Outcome {
    let (from, seeds) = line.seed.map_or((line.from, line.seeds), |seed| (seed, 1));
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let began = Instant::now();
    let next = AtomicU64::new(from);
    let sum = Mutex::new((Report::default(), None::<Failure>));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= from.saturating_add(seeds) {
                return;
            }
            let options = simulation::Options {
                seed,
                steps: line.steps,
                mistake,
                waived: Waived::of(&line.waive),
                watch: line.watch,
            };
            let (report, failure) = run(options);
            // A seed that also fails without the mistake has not noticed it.
            let is_noticed = |_: &Failure| {
                let anyway = simulation::Options {
                    mistake: None,
                    ..options
                };
                !line.mistakes || run(anyway).1.is_none()
            };
            let failure = failure.filter(is_noticed);
            let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
            sum.0.merge(&report);
            if let Some(failure) = failure {
                next.store(u64::MAX / 2, Ordering::Relaxed);
                if sum.1.as_ref().is_none_or(|other| seed < other.seed) {
                    sum.1 = Some(failure);
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..line.jobs.unwrap_or(processors).max(1) {
            scope.spawn(work);
        }
    });
    let (report, failure) = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    Outcome {
        report,
        failure,
        seconds: began.elapsed().as_secs_f64(),
    }
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

    fn line(words: &str) -> Line {
        Line::parse_from(std::iter::once("sim").chain(words.split_whitespace()))
    }

    #[test]
    fn a_few_seeds_pass_and_are_counted() {
        let outcome = run_seeds(&line("--seeds 2 --steps 300 --jobs 2"), None);
        assert!(outcome.failure.is_none(), "{}", outcome.failure.unwrap());
        assert_eq!((outcome.report.seeds, outcome.report.steps), (2, 600));
        let json = json(&outcome);
        assert_eq!(json["seeds"], 2);
        assert!(json["faults"]["torn_writes"].is_u64());
    }

    #[test]
    fn mistakes_are_named_on_the_command_line() {
        assert!(seeds(&line("--seeds 1 --steps 10 --mistake no-mac")));
        let unknown = Line::try_parse_from(["sim", "--mistake", "no-idea"]).unwrap_err();
        assert!(unknown.to_string().contains("no-idea"), "{unknown}");
    }
}
