//! `cargo xtask sim --proxy`: runs many seeds, on all processors; the first failure ends it, with its story.
//!
//! With `--mistakes`, for each precaution that can be disabled, seeds are run until one fails that passes with the precaution. A
//! precaution without such a seed is the failure.
//!
//! Not known here: what a run does.
#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Instant,
};

use clap::Parser;
use proxy::Mistake;
use proxy_simulation::{Failure, Options, Report, run};

/// The whole proxy in virtual time, over a faulty disk and a network in memory
#[derive(Debug, Clone, Parser)]
struct Line {
    /// How many seeds
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Only this seed
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// Let the proxy make this mistake
    #[arg(long, value_parser = mistake_of)]
    mistake: Option<Named>,
    /// Each mistake in turn, until a seed notices it
    #[arg(long, conflicts_with_all = ["mistake", "seed"])]
    mistakes: bool,
    /// Threads; by default one for each processor
    #[arg(long)]
    jobs: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
struct Named(Mistake);

fn mistake_of(name: &str) -> Result<Named, String> {
    let found = Mistake::ALL.iter().find(|mistake| mistake.name() == name);
    found.map(|&mistake| Named(mistake)).ok_or_else(|| {
        let names: Vec<_> = Mistake::ALL.iter().map(|mistake| mistake.name()).collect();
        format!("there are {}", names.join(", "))
    })
}

/// Seeds that have noticed mistakes which the first few seeds do not notice. They are tried first; if one fails to notice, others follow.
const NOTICED_BY: [(&str, u64); 17] = [
    ("keep-flights", 45),
    ("keep-memory", 6),
    ("skip-sweep", 6),
    ("keep-fresh", 13),
    ("publish-late", 17),
    ("acknowledge-early", 11),
    ("share-anything", 9),
    ("keep-cookies", 5),
    ("mix-versions", 4),
    ("permit-pooled", 9),
    ("take-reset-for-end", 9),
    ("keep-window", 17),
    ("ask-down", 4),
    ("never-back", 4),
    ("keep-connection-place", 3),
    ("keep-place-of-leaver", 10),
    ("keep-after-unsafe", 5),
];

/// Results of seeds without a mistake: whether they pass.
#[derive(Default)]
struct Passing(Mutex<BTreeMap<u64, bool>>);

impl Passing {
    fn passes(&self, seed: u64) -> bool {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&passes) = known().get(&seed) {
            return passes;
        }
        let mistake = None;
        let passes = run(Options { seed, mistake }).1.is_none();
        known().insert(seed, passes);
        passes
    }
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

fn seeds(line: &Line) -> bool {
    let began = Instant::now();
    let mistake = line.mistake.map(|named| named.0);
    let (report, failure) = run_seeds(line, mistake, &Passing::default());
    let own = [("seeds", report.seeds), ("virtual seconds", report.seconds)];
    for (name, number) in own.into_iter().chain(report.counts.all()) {
        println!("{name:26} {number:>14}");
    }
    println!("{:26} {:>14x}", "digest", report.digest);
    println!("{:26} {:>14.1}", "seconds", began.elapsed().as_secs_f64());
    failure.inspect(|failure| eprintln!("{failure}")).is_none()
}

fn all_mistakes(line: &Line) -> bool {
    let mut is_well = true;
    let passing = Passing::default();
    for &mistake in Mistake::ALL {
        let name = mistake.name();
        match find_mistake(line, mistake, &passing) {
            (report, Some(Failure { seed, message, .. })) => {
                println!(
                    "{name:20} noticed after {} seeds: seed {seed}: {message}",
                    report.seeds
                );
            }
            (_, None) => {
                println!("{name:20} NOT NOTICED by {} seeds", line.seeds);
                is_well = false;
            }
        }
    }
    is_well
}

fn find_mistake(line: &Line, mistake: Mistake, passing: &Passing) -> (Report, Option<Failure>) {
    let known = NOTICED_BY.iter().find(|known| known.0 == mistake.name());
    let at_once = known.map(|&(_, seed)| {
        let seed = Some(seed);
        run_seeds(
            &Line {
                seed,
                ..line.clone()
            },
            Some(mistake),
            passing,
        )
    });
    let at_once = at_once.filter(|found| found.1.is_some());
    at_once.unwrap_or_else(|| run_seeds(line, Some(mistake), passing))
}

/// Runs seeds until one fails. If several fail, the lowest one is reported, so that two runs tend to name the same.
fn run_seeds(
    line: &Line,
    mistake: Option<Mistake>,
    passing: &Passing,
) -> (Report, Option<Failure>) {
    let (from, seeds) = line.seed.map_or((line.from, line.seeds), |seed| (seed, 1));
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(from);
    let found = Mutex::new((Report::default(), None::<Failure>));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= from.saturating_add(seeds) {
                return;
            }
            let (report, failure) = run(Options { seed, mistake });
            // A seed that also fails without the mistake has not noticed it.
            let is_noticed = |_: &Failure| !line.mistakes || passing.passes(seed);
            let failure = failure.filter(is_noticed);
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found.0.merge(&report);
            if let Some(failure) = failure {
                next.store(u64::MAX / 2, Ordering::Relaxed);
                if found.1.as_ref().is_none_or(|other| seed < other.seed) {
                    found.1 = Some(failure);
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..line.jobs.unwrap_or(processors).max(1) {
            scope.spawn(work);
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}
