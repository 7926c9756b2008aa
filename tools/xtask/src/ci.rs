//! `cargo xtask ci`: everything a change must pass, each step with its name and time.
//!
//! A failed step does not hide the others: all run, and the summary names those that failed.

use std::process::Command;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use crate::failure::{During, Result, fail};
use crate::{fuzz, interrupt, sim, tidy, workspace};

/// Which steps.
#[derive(Debug, Args)]
pub struct Options {
    /// Leave these out
    #[arg(long, value_enum, value_delimiter = ',')]
    skip: Vec<Step>,
    /// Seconds a fuzz target
    #[arg(long, default_value_t = 20)]
    fuzz_seconds: u32,
}

/// One check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Step {
    Fmt,
    Tidy,
    Clippy,
    Test,
    Doc,
    Sim,
    FuzzSmoke,
}

/// The quick ones first.
const STEPS: [Step; 7] = [
    Step::Fmt,
    Step::Tidy,
    Step::Clippy,
    Step::Test,
    Step::Doc,
    Step::Sim,
    Step::FuzzSmoke,
];

impl Step {
    fn name(self) -> &'static str {
        match self {
            Self::Fmt => "fmt",
            Self::Tidy => "tidy",
            Self::Clippy => "clippy",
            Self::Test => "test",
            Self::Doc => "doc",
            Self::Sim => "sim",
            Self::FuzzSmoke => "fuzz-smoke",
        }
    }

    fn run(self, options: &Options) -> Result<()> {
        match self {
            Self::Fmt => cargo(&["fmt", "--all", "--check"], &[]),
            Self::Tidy => tidy::run(&tidy::Options::default()),
            Self::Clippy => cargo(
                &[
                    "clippy",
                    "--workspace",
                    "--all-targets",
                    "--",
                    "-D",
                    "warnings",
                ],
                &[],
            ),
            Self::Test => cargo(&["test", "--workspace"], &[]),
            Self::Doc => cargo(
                &[
                    "doc",
                    "--workspace",
                    "--no-deps",
                    "--document-private-items",
                ],
                &[("RUSTDOCFLAGS", "-D warnings")],
            ),
            Self::Sim => sim::Options::for_every_change()
                .iter()
                .try_for_each(sim::run),
            Self::FuzzSmoke => fuzz::run(&fuzz::Options {
                seconds: options.fuzz_seconds,
            }),
        }
    }
}

/// Runs the steps.
pub fn run(options: &Options) -> Result<()> {
    let mut done: Vec<(Step, Duration, bool)> = Vec::new();
    for step in STEPS.into_iter().filter(|s| !options.skip.contains(s)) {
        interrupt::check()?;
        println!("==> {}", step.name());
        let began = Instant::now();
        let outcome = step.run(options);
        if let Err(failure) = &outcome {
            eprintln!("{failure}");
        }
        done.push((step, began.elapsed(), outcome.is_ok()));
    }
    println!("==> summary");
    for (step, time, passed) in &done {
        let word = if *passed { "ok" } else { "FAILED" };
        println!("{:10} {:>6.1} s  {word}", step.name(), time.as_secs_f64());
    }
    let failed: Vec<_> = done.iter().filter(|d| !d.2).map(|d| d.0.name()).collect();
    if !failed.is_empty() {
        fail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

fn cargo(args: &[&str], env: &[(&str, &str)]) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(args)
        .envs(env.iter().copied())
        .current_dir(workspace::root())
        .status()
        .during(|| "running cargo".into())?;
    if !status.success() {
        fail!("cargo {}: {status}", args.join(" "));
    }
    Ok(())
}
