//! `cargo xtask fuzz-smoke`: every fuzz target, briefly.
//!
//! Fuzzing needs a nightly toolchain and cargo-fuzz. If one is missing, the command says so and succeeds. The targets are
//! compiled all the same, so that they stay in step with the crates they test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;

use crate::failure::{During, Result, fail};
use crate::interrupt;
use crate::workspace;

/// The workspace of the targets, from the root of this one.
const FUZZ_DIR: &str = "tools/fuzz";

/// How long.
#[derive(Debug, Args)]
pub struct Options {
    /// Seconds a target
    #[arg(long, default_value_t = 20)]
    pub seconds: u32,
}

/// Runs all targets.
pub fn run(options: &Options) -> Result<()> {
    let root = workspace::root();
    check(&root)?;
    if !succeeds("cargo", &["+nightly", "--version"]) {
        println!("fuzz-smoke: no nightly toolchain here; skipped");
        return Ok(());
    }
    if !succeeds("cargo", &["+nightly", "fuzz", "--version"]) {
        println!("fuzz-smoke: cargo-fuzz is not installed here; skipped");
        return Ok(());
    }
    let listed = Command::new("cargo")
        .args(["+nightly", "fuzz", "list", "--fuzz-dir", FUZZ_DIR])
        .current_dir(&root)
        .output()
        .during(|| "running cargo fuzz".into())?;
    if !listed.status.success() {
        fail!(
            "cargo fuzz list: {}",
            String::from_utf8_lossy(&listed.stderr)
        );
    }
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    for target in names.split_whitespace() {
        interrupt::check()?;
        println!("fuzz-smoke: {target}, {} s", options.seconds);
        let status = Command::new("cargo")
            .args(["+nightly", "fuzz", "run", "--fuzz-dir", FUZZ_DIR, target])
            .args(inputs(&root, target)?)
            .arg("--")
            .arg(format!("-max_total_time={}", options.seconds))
            .args(["-rss_limit_mb=2048", "-timeout=10"])
            .current_dir(&root)
            .status()
            .during(|| "running cargo fuzz".into())?;
        if !status.success() {
            fail!(
                "fuzz target {target} found something; its input is in {FUZZ_DIR}/artifacts/{target}"
            );
        }
    }
    Ok(())
}

/// Type-checks the targets. Nothing is linked, so libFuzzer itself, which is C++, is not built.
fn check(root: &Path) -> Result<()> {
    let manifest = root.join(FUZZ_DIR).join("Cargo.toml");
    let status = Command::new("cargo")
        .args(["check", "--quiet", "--manifest-path"])
        .arg(&manifest)
        .args(["--target-dir", "target"])
        .env("CUSTOM_LIBFUZZER_PATH", &manifest)
        .current_dir(root)
        .status()
        .during(|| "running cargo".into())?;
    if !status.success() {
        fail!("cargo check in {FUZZ_DIR}: {status}");
    }
    Ok(())
}

/// Folders of inputs: the one for new inputs, then those of the repository. Empty: the fuzzer begins with its earlier findings.
fn inputs(root: &Path, target: &str) -> Result<Vec<PathBuf>> {
    let fuzz = root.join(FUZZ_DIR);
    let seeds = fuzz.join("seeds").join(target);
    if !seeds.is_dir() {
        return Ok(Vec::new());
    }
    let corpus = fuzz.join("corpus").join(target);
    fs::create_dir_all(&corpus).during(|| format!("making {}", corpus.display()))?;
    Ok(vec![corpus, seeds])
}

fn succeeds(program: &str, args: &[&str]) -> bool {
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir(workspace::root())
        .status()
        .is_ok_and(|s| s.success())
}
