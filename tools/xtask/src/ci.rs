//! `cargo xtask ci`: everything a change must pass, each step with its name and time.
//!
//! A failed step does not hide the others: all run, and the summary names those that failed.
//!
//! Tests wait more than they compute. They are built first, and run while the simulations and the steps that compile take the processors.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use crate::failure::{During, Result, fail};
use crate::{fuzz, interrupt, tidy, workspace};

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

/// The quick ones first; what runs beside the tests and the simulations after these.
const STEPS: [Step; 8] = [
    Step::Fmt,
    Step::Tidy,
    Step::Test,
    Step::Sim,
    Step::Clippy,
    Step::Alone,
    Step::Doc,
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

    /// Runs it, or starts it and returns it if it runs beside those after it.
    fn run(self, options: &Options) -> Result<Option<Beside>> {
        let (root, simulations) = (workspace::root(), workspace::simulations());
        let everywhere = |args: &str| {
            cargo(&root, args, &[])?;
            cargo(&simulations, args, &[])
        };
        match self {
            Self::Fmt => everywhere("fmt --all --check"),
            Self::Tidy => tidy::run(&tidy::Options::default()),
            Self::Clippy => {
                everywhere(&format!("clippy --workspace --all-targets {DENIED}"))?;
                let simulated = format!("clippy --workspace --features {SIMULATED} {DENIED}");
                cargo(&root, &simulated, &[])
            }
            Self::Alone => alone(&root),
            Self::Doc => {
                let driver = clippy_driver()?;
                let env = [
                    ("RUSTDOCFLAGS", "-D warnings"),
                    ("RUSTC_WORKSPACE_WRAPPER", driver.as_str()),
                    ("CLIPPY_ARGS", CLIPPY_ARGS),
                ];
                let docs = "doc --no-deps --document-private-items --workspace";
                cargo(&root, &format!("{docs} --features {SIMULATED}"), &env)?;
                cargo(&simulations, docs, &env)
            }
            Self::Test => return Beside::tests(&root).map(Some),
            Self::Sim => return Beside::simulations().map(Some),
            Self::FuzzSmoke => fuzz::run(&fuzz::Options {
                seconds: options.fuzz_seconds,
            }),
        }
        .map(|()| None)
    }
}

/// What makes of our crates what the simulations run: linted beside what is shipped, and documented with it.
const SIMULATED: &str =
    "proxy/simulation,proxy/mistakes,device/simulation,store/mistakes,hints/mistakes";

/// The same wherever clippy runs: cargo checks a crate again when these arguments differ.
const DENIED: &str = "-- -D warnings";

/// How `cargo clippy` hands [`DENIED`] to its driver. To document a crate, cargo checks those that it uses: told the same, it takes what
/// clippy has checked. Should clippy do it otherwise one day, cargo checks once more.
const CLIPPY_ARGS: &str = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";

/// What `cargo clippy` has for a compiler.
fn clippy_driver() -> Result<String> {
    let rustc = Command::new("rustc").args(["--print", "sysroot"]).output();
    let said = rustc.during(|| "asking rustc where it is".into())?.stdout;
    let sysroot = String::from_utf8_lossy(&said);
    Ok(format!("{}/bin/clippy-driver", sysroot.trim()))
}

/// Each crate of the product with its own features, not with those that another one of the workspace turns on. Clippy checks them, so that
/// a crate whose features are the same in both has been checked already.
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
        cargo(
            root,
            &format!("clippy --quiet --package {name} {DENIED}"),
            &[],
        )?;
    }
    Ok(())
}

/// Most tests wait more than they compute, so several go on at once on each processor.
fn test_threads() -> String {
    let asked = std::env::var("RUST_TEST_THREADS");
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    asked.unwrap_or_else(|_| (processors * 3).to_string())
}

/// A step that runs as a process beside those after it.
struct Beside {
    process: Child,
    printed: PathBuf,
    began: Instant,
}

impl Beside {
    /// Builds the tests and starts them. Returns once the first runs: until then cargo keeps others from building.
    fn tests(root: &Path) -> Result<Self> {
        let tests = ["test", "--workspace"];
        let status = Command::new(cargo_program())
            .args(tests)
            .arg("--no-run")
            .current_dir(root)
            .status()
            .during(|| "running cargo".into())?;
        if !status.success() {
            fail!("the tests do not build: {status}");
        }
        let mut command = Command::new(cargo_program());
        command.args(tests).env("RUST_TEST_THREADS", test_threads());
        let mut tests = Self::start(&mut command, root, "tests.log")?;
        while !tests.printed().contains("Running ")
            && tests.process.try_wait().is_ok_and(|ended| ended.is_none())
        {
            interrupt::pause(Duration::from_millis(100))?;
        }
        Ok(tests)
    }

    /// Starts the simulations.
    fn simulations() -> Result<Self> {
        let program = std::env::current_exe().during(|| "finding this program".into())?;
        let mut command = standing_back(program);
        command.args(["sim", "--every-change"]);
        Self::start(&mut command, &workspace::root(), "simulations.log")
    }

    fn start(command: &mut Command, root: &Path, log: &str) -> Result<Self> {
        let printed = workspace::target_dir().join(log);
        let keeping = || format!("keeping what is printed in {}", printed.display());
        let stdout = File::create(&printed).during(keeping)?;
        let stderr = stdout.try_clone().during(keeping)?;
        command.current_dir(root).stdin(Stdio::null());
        command.stdout(stdout).stderr(stderr);
        let began = Instant::now();
        Ok(Self {
            process: command.spawn().during(|| format!("running {command:?}"))?,
            printed,
            began,
        })
    }

    /// Waits for its end, and prints what it printed.
    fn finish(mut self, step: Step) -> Result<(Duration, bool)> {
        let status = loop {
            if let Some(status) = self.process.try_wait().during(|| "waiting".into())? {
                break status;
            }
            interrupt::pause(Duration::from_millis(100))?;
        };
        println!("==> what {} printed\n{}", step.name(), self.printed());
        Ok((self.began.elapsed(), status.success()))
    }

    /// So far.
    fn printed(&self) -> String {
        fs::read_to_string(&self.printed).unwrap_or_default()
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // Ended long ago, unless an interruption is why this is dropped.
        let _ = self.process.kill();
    }
}

/// Runs the steps.
pub fn run(options: &Options) -> Result<()> {
    let mut done: Vec<(Step, Duration, bool)> = Vec::new();
    let mut beside = Vec::new();
    for step in STEPS.into_iter().filter(|s| !options.skip.contains(s)) {
        interrupt::check()?;
        println!("==> {}", step.name());
        let began = Instant::now();
        let outcome = step.run(options);
        let passed = outcome.is_ok();
        match outcome {
            Ok(started) => beside.extend(started.map(|started| (step, started))),
            Err(failure) => eprintln!("{failure}"),
        }
        done.push((step, began.elapsed(), passed));
    }
    for (step, started) in beside {
        let (ran, passed) = started.finish(step)?;
        for (_, time, is_well) in done.iter_mut().filter(|d| d.0 == step) {
            (*time, *is_well) = (*time + ran, passed);
        }
    }
    println!(
        "==> summary; test and sim ran beside the steps after them, and count until these ended"
    );
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

fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// A command that leaves the processors to the tests, some of which measure time.
fn standing_back(program: impl Into<OsString>) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "19"]).arg(program.into());
    command
}

fn cargo(dir: &Path, args: &str, env: &[(&str, &str)]) -> Result<()> {
    let status = standing_back(cargo_program())
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
