//! `cargo xtask ci`: everything a change must pass, each step with its name and time.
//!
//! A failed step does not hide the others: all run, and the summary names those that failed.
//!
//! Tests wait more than they compute. They are built first, and run while the steps that compute take the processors.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
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
    Alone,
    Doc,
    Test,
    Sim,
    FuzzSmoke,
}

/// The quick ones first; what runs beside the tests after them.
const STEPS: [Step; 8] = [
    Step::Fmt,
    Step::Tidy,
    Step::Test,
    Step::Clippy,
    Step::Alone,
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
            Self::Alone => "alone",
            Self::Doc => "doc",
            Self::Test => "test",
            Self::Sim => "sim",
            Self::FuzzSmoke => "fuzz-smoke",
        }
    }

    fn run(self, options: &Options) -> Result<()> {
        let (root, simulations) = (workspace::root(), workspace::simulations());
        let everywhere = |args: &str| {
            cargo(&root, args, &[])?;
            cargo(&simulations, args, &[])
        };
        match self {
            Self::Fmt => everywhere("fmt --all --check"),
            Self::Tidy => tidy::run(&tidy::Options::default()),
            Self::Clippy => {
                everywhere("clippy --workspace --all-targets -- -D warnings")?;
                let simulated = format!(
                    "clippy -p proxy -p exchange -p admin -p base -p origin -p cache -p device -p store -p hints --features {SIMULATED} -- -D warnings"
                );
                cargo(&root, &simulated, &[])
            }
            Self::Alone => alone(&root),
            Self::Doc => {
                let warnings = [("RUSTDOCFLAGS", "-D warnings")];
                let docs = "doc --no-deps --document-private-items";
                let all = format!("{docs} --workspace --features {SIMULATED}");
                cargo(&root, &all, &warnings)?;
                cargo(&simulations, &format!("{docs} --workspace"), &warnings)
            }
            Self::Test => cargo(&root, "test --workspace --no-run", &[]),
            Self::Sim => sim::every_change(),
            Self::FuzzSmoke => fuzz::run(&fuzz::Options {
                seconds: options.fuzz_seconds,
            }),
        }
    }
}

/// What makes of our crates what the simulations run: linted beside what is shipped, and documented with it.
const SIMULATED: &str =
    "proxy/simulation,proxy/mistakes,device/simulation,store/mistakes,hints/mistakes";

/// Each crate of the product with its own features, not with those that another one of the workspace turns on.
fn alone(root: &Path) -> Result<()> {
    let crates = root.join("crates");
    let read = fs::read_dir(&crates).during(|| format!("reading {}", crates.display()))?;
    let mut names: Vec<_> = read
        .flatten()
        .filter(|entry| entry.path().join("Cargo.toml").is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    for name in names {
        interrupt::check()?;
        cargo(root, &format!("check --quiet --package {name}"), &[])?;
    }
    Ok(())
}

/// Most tests wait more than they compute, so several go on at once on each processor.
fn test_threads() -> String {
    let asked = std::env::var("RUST_TEST_THREADS");
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    asked.unwrap_or_else(|_| (processors * 3).to_string())
}

/// The tests of the workspace, run by a process beside the other steps.
struct Tests {
    cargo: Child,
    printed: PathBuf,
    began: Instant,
}

impl Tests {
    /// Starts them, and returns once the first runs: until then cargo keeps others from building.
    fn start(root: &Path) -> Result<Self> {
        let printed = workspace::target_dir().join("tests.log");
        let keeping = || format!("keeping what the tests print in {}", printed.display());
        let stdout = File::create(&printed).during(keeping)?;
        let stderr = stdout.try_clone().during(keeping)?;
        let mut command = Command::new(cargo_program());
        command
            .args(["test", "--workspace"])
            .env("RUST_TEST_THREADS", test_threads())
            .current_dir(root)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr);
        let began = Instant::now();
        let mut tests = Self {
            cargo: command.spawn().during(|| "running cargo".into())?,
            printed,
            began,
        };
        while !tests.printed().contains("Running ")
            && tests.cargo.try_wait().is_ok_and(|ended| ended.is_none())
        {
            interrupt::pause(Duration::from_millis(100))?;
        }
        Ok(tests)
    }

    /// Waits for their end, and prints what they printed.
    fn finish(mut self) -> Result<(Duration, bool)> {
        let status = loop {
            if let Some(status) = self.cargo.try_wait().during(|| "running cargo".into())? {
                break status;
            }
            interrupt::pause(Duration::from_millis(100))?;
        };
        println!("==> what the tests printed\n{}", self.printed());
        Ok((self.began.elapsed(), status.success()))
    }

    /// So far.
    fn printed(&self) -> String {
        fs::read_to_string(&self.printed).unwrap_or_default()
    }
}
impl Drop for Tests {
    fn drop(&mut self) {
        // Ended long ago, unless an interruption is why this is dropped.
        let _ = self.cargo.kill();
    }
}

/// Runs the steps.
pub fn run(options: &Options) -> Result<()> {
    let mut done: Vec<(Step, Duration, bool)> = Vec::new();
    let mut tests = None;
    for step in STEPS.into_iter().filter(|s| !options.skip.contains(s)) {
        interrupt::check()?;
        // The simulations run on all processors.
        if step == Step::Sim {
            end(&mut tests, &mut done)?;
        }
        println!("==> {}", step.name());
        let began = Instant::now();
        let mut outcome = step.run(options);
        if step == Step::Test && outcome.is_ok() {
            outcome = Tests::start(&workspace::root()).map(|started| tests = Some(started));
        }
        if let Err(failure) = &outcome {
            eprintln!("{failure}");
        }
        done.push((step, began.elapsed(), outcome.is_ok()));
    }
    end(&mut tests, &mut done)?;
    println!("==> summary; the tests ran beside the steps after them");
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

/// Waits for the tests, if they run, and notes how they ended.
fn end(tests: &mut Option<Tests>, done: &mut [(Step, Duration, bool)]) -> Result<()> {
    let Some(tests) = tests.take() else {
        return Ok(());
    };
    let (ran, passed) = tests.finish()?;
    for (_, time, built) in done.iter_mut().filter(|d| d.0 == Step::Test) {
        (*time, *built) = (*time + ran, passed);
    }
    Ok(())
}

fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn cargo(dir: &Path, args: &str, env: &[(&str, &str)]) -> Result<()> {
    // The tests run beside, and some of them measure time.
    let status = Command::new("nice")
        .args(["-n", "19"])
        .arg(cargo_program())
        .args(args.split_whitespace())
        .envs(env.iter().copied())
        .current_dir(dir)
        .status()
        .during(|| "running cargo".into())?;
    if !status.success() {
        fail!("cargo {args}: {status}");
    }
    Ok(())
}
