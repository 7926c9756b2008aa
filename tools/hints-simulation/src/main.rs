//! `cargo xtask sim --hints`: runs many seeds, on all processors; the first failure ends it, with its story.
//!
//! With `--mistakes`, for each rule that can be disabled, seeds are run until one fails. A rule without such a seed is the failure.
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
use hints_simulation::{Counts, Failure, Mistake, Options, run};

/// Fronts, nodes and the wire between them in random order
#[derive(Debug, Clone, Parser)]
struct Line {
    /// How many seeds
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Only this seed, with its story if it fails
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// Make this mistake
    #[arg(long, value_parser = mistake_of)]
    mistake: Option<Mistake>,
    /// Each mistake in turn, until a seed notices it
    #[arg(long, conflicts_with_all = ["mistake", "seed"])]
    mistakes: bool,
    /// Threads; by default one for each processor
    #[arg(long)]
    jobs: Option<usize>,
}

fn mistake_of(name: &str) -> Result<Mistake, String> {
    let found = Mistake::ALL.iter().find(|mistake| mistake.name() == name);
    found.copied().ok_or_else(|| {
        let names: Vec<_> = Mistake::ALL.iter().map(|mistake| mistake.name()).collect();
        format!("there are {}", names.join(", "))
    })
}

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

/// The results of some seeds.
#[derive(Default)]
struct Sum {
    seeds: u64,
    counts: Counts,
    /// If several seeds fail, the lowest one.
    failure: Option<Failure>,
}

fn seeds(line: &Line) -> bool {
    let began = Instant::now();
    let sum = run_seeds(line, line.mistake);
    println!("{:26} {:>14}", "seeds", sum.seeds);
    for (name, number) in sum.counts.all() {
        println!("{name:26} {number:>14}");
    }
    println!("{:26} {:>14.1}", "seconds", began.elapsed().as_secs_f64());
    let Some(failure) = sum.failure else {
        return true;
    };
    // Runs the seed once more, with its story.
    let (_, told) = run(Options {
        seed: failure.seed,
        mistake: line.mistake,
        tells: true,
    });
    eprintln!("{}", told.unwrap_or(failure));
    false
}

fn all_mistakes(line: &Line) -> bool {
    let mut is_well = true;
    for &mistake in Mistake::ALL {
        let sum = run_seeds(line, Some(mistake));
        match sum.failure {
            Some(failure) => println!(
                "{:20} noticed after {:>5} seeds: seed {}: {}",
                mistake.name(),
                sum.seeds,
                failure.seed,
                failure.message
            ),
            None => {
                println!("{:20} NOT NOTICED by {} seeds", mistake.name(), line.seeds);
                is_well = false;
            }
        }
    }
    is_well
}

fn run_seeds(line: &Line, mistake: Option<Mistake>) -> Sum {
    let (from, seeds) = match line.seed {
        Some(seed) => (seed, 1),
        None => (line.from, line.seeds),
    };
    let end = from.saturating_add(seeds);
    let next = AtomicU64::new(from);
    let sum = Mutex::new(Sum::default());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                break;
            }
            let (counts, failure) = run(Options {
                seed,
                mistake,
                tells: false,
            });
            let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
            sum.seeds += 1;
            sum.counts.add(&counts);
            if let Some(failure) = failure {
                next.store(end, Ordering::Relaxed);
                if sum.failure.as_ref().is_none_or(|other| seed < other.seed) {
                    sum.failure = Some(failure);
                }
            }
        }
    };
    let jobs = line
        .jobs
        .unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(work);
        }
    });
    sum.into_inner().unwrap_or_else(PoisonError::into_inner)
}
