//! `cargo xtask release`: the program, with its code laid out by a profile.
//!
//! A proxy at a few thousand requests a second is limited by the instruction cache, not by arithmetic: functions called
//! together should be adjacent, and code that never runs should not lie between them. The compiler can do that with a profile of a run
//! (profile-guided optimisation). So: build with counters, run under PolyMix, merge the counters, build again.
//!
//! ```text
//! target/pgo/raw/*.profraw     counters of the run
//! target/pgo/loligo.profdata   merged
//! target/pgo/HOST/release/loligo   the result
//! ```
//!
//! `cargo build --release` makes the same program without a profile. The gain: docs/measurements.md.
//!
//! Not known here: later measurements.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;

use crate::failure::{During, Result, fail};
use crate::interrupt;
use crate::ports;
use crate::process::CommandLine;
use crate::rivals;
use crate::workspace;

/// How it is trained, and where the result goes.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cargo xtask release
  cargo xtask release --out /usr/local/bin/loligo
  cargo xtask release --rate 500        on a small machine

It takes two builds and a minute of load on 127.0.0.1. The counters are put together by llvm-profdata of rustc's LLVM: `rustup
component add llvm-tools`, or your distribution's LLVM of the same version.")]
pub struct Options {
    /// Copy the program to this place
    #[arg(long)]
    out: Option<PathBuf>,
    /// PolyMix requests a second while it is trained
    #[arg(long, default_value_t = 2000)]
    rate: u32,
}

/// Builds with counters, runs, builds again.
pub fn run(options: &Options) -> Result<()> {
    let rustc = Rustc::ask()?;
    let profdata = rustc.profdata()?;
    let home = workspace::target_dir().join("pgo");
    let raw = home.join("raw");
    if raw.exists() {
        fs::remove_dir_all(&raw).during(|| format!("removing {}", raw.display()))?;
    }
    fs::create_dir_all(&raw).during(|| format!("making {}", raw.display()))?;

    eprintln!("1 of 4: building with counters");
    let counting = build(
        &rustc,
        &home,
        &format!("-Cprofile-generate={}", raw.display()),
    )?;
    // The load generator is another program, and has no counters.
    rivals::build_lab()?;
    eprintln!("2 of 4: running it under PolyMix, {}/s", options.rate);
    train(&counting, &home, options.rate)?;
    eprintln!("3 of 4: putting the counters together");
    let merged = home.join("loligo.profdata");
    merge(&profdata, &raw, &merged)?;
    eprintln!("4 of 4: building by them");
    let built = build(
        &rustc,
        &home,
        &format!("-Cprofile-use={}", merged.display()),
    )?;
    let result = match &options.out {
        None => built,
        Some(out) => {
            fs::copy(&built, out).during(|| format!("copying the program to {}", out.display()))?;
            out.clone()
        }
    };
    println!("{}", result.display());
    Ok(())
}

/// Facts about the compiler.
struct Rustc {
    host: String,
    llvm_major: String,
    sysroot: PathBuf,
}

impl Rustc {
    fn ask() -> Result<Self> {
        let about = output("rustc", &["--version", "--verbose"])?;
        let sysroot = output("rustc", &["--print", "sysroot"])?;
        let (host, llvm_major) = (field(&about, "host: "), field(&about, "LLVM version: "));
        let (Some(host), Some(llvm)) = (host, llvm_major) else {
            fail!(
                "rustc --version --verbose names no host or no LLVM: profiles need rustc with LLVM"
            );
        };
        Ok(Self {
            host: host.to_owned(),
            llvm_major: llvm.split('.').next().unwrap_or(llvm).to_owned(),
            sysroot: PathBuf::from(sysroot.trim()),
        })
    }

    /// The tool that merges counters: rustup's, or the distribution's of the same version.
    fn profdata(&self) -> Result<PathBuf> {
        let Self {
            host,
            llvm_major,
            sysroot,
        } = self;
        let own = sysroot.join(format!("lib/rustlib/{host}/bin/llvm-profdata"));
        let packaged = PathBuf::from(format!("/usr/lib/llvm-{llvm_major}/bin/llvm-profdata"));
        let named = workspace::program(&format!("llvm-profdata-{llvm_major}"));
        let mut places = [own, packaged].into_iter().chain(named);
        match places.find(|path| path.is_file()) {
            Some(path) => Ok(path),
            None => fail!(
                "there is no llvm-profdata of LLVM {llvm_major}: `rustup component add llvm-tools`, or install your distribution's \
                 llvm-{llvm_major}; `cargo build --release` needs neither, and is a few percent slower"
            ),
        }
    }
}

fn field<'a>(about: &'a str, name: &str) -> Option<&'a str> {
    let line = about.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim())
}

fn output(program: &str, args: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(args)
        .current_dir(workspace::root())
        .stderr(Stdio::inherit())
        .output()
        .during(|| format!("running {program}"))?;
    if !output.status.success() {
        fail!("{program} {} failed: see above", args.join(" "));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Both builds use one directory, since a profile identifies functions by the paths of their sources.
fn build(rustc: &Rustc, home: &Path, flags: &str) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // With --target the flags do not apply to build scripts and macros.
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--package", "loligo"])
        .args(["--target", &rustc.host])
        .env("CARGO_TARGET_DIR", home)
        .env("RUSTFLAGS", flags)
        .current_dir(workspace::root())
        .status()
        .during(|| "running cargo".into())?;
    if !status.success() {
        fail!("loligo does not build with {flags}");
    }
    Ok(home.join(&rustc.host).join("release/loligo"))
}

/// Serves misses, hits from memory and disk, conditional requests, and all other kinds of requests in PolyMix.
fn train(program: &Path, home: &Path, rate: u32) -> Result<()> {
    let store = home.join("store.loligo");
    let log = home.join("train.log");
    let (listen, origin) = (ports::free()?, ports::free()?);
    let origin = format!("127.1.0.1:{origin}");
    let program = program.display().to_string();
    let mut server = CommandLine::new(
        &program,
        [
            "serve".to_owned(),
            "--listen".into(),
            format!("127.0.0.1:{listen}"),
            "--reverse".into(),
            format!("http://{origin}"),
            "--client-directives".into(),
            "obey".into(),
            "--store".into(),
            store.display().to_string(),
            "--store-size".into(),
            "512MiB".into(),
            "--memory".into(),
            "32MiB".into(),
        ],
    )
    .spawn(&log)?;
    let is_up = || std::net::TcpStream::connect(("127.0.0.1", listen)).is_ok();
    let trained = match interrupt::wait_until(Duration::from_secs(30), is_up) {
        Ok(true) => load(listen, &origin, rate),
        Ok(false) => Err(crate::failure::Failure::new(format!(
            "what was built with counters does not answer: see {}",
            log.display()
        ))),
        Err(interrupted) => Err(interrupted),
    };
    // Stop first: the counters are written when the server ends.
    server.stop()?;
    let _ = fs::remove_file(&store);
    trained
}

fn load(listen: u16, origin: &str, rate: u32) -> Result<()> {
    let status = Command::new(rivals::lab_binary())
        .args(["bench", "polymix", "--quiet", "--http", "1.1"])
        .args(["--proxy", &format!("127.0.0.1:{listen}")])
        .args(["--origin", origin, "--rate", &rate.to_string()])
        .args(["--cache-size", "192MiB", "--time-scale", "1/900"])
        // Few servers: with more of them, few objects would be repeated in this short run.
        .args(["--think-scale", "0.02", "--servers", "100"])
        .args(["--phases", "framp,fill,fexit,inc1,top1"])
        .stdout(Stdio::null())
        .status()
        .during(|| "running the load".into())?;
    // 1: an answer was wrong or too late, which can happen on a busy machine with counters; the load was complete all the same.
    match status.code() {
        Some(0 | 1) => Ok(()),
        _ => fail!("the load did not run: {status}"),
    }
}

fn merge(profdata: &Path, raw: &Path, merged: &Path) -> Result<()> {
    let entries = fs::read_dir(raw).during(|| format!("listing {}", raw.display()))?;
    let counters: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    if counters.is_empty() {
        fail!("the run left no counters in {}", raw.display());
    }
    let status = Command::new(profdata)
        .arg("merge")
        .arg("-o")
        .arg(merged)
        .args(&counters)
        .status()
        .during(|| format!("running {}", profdata.display()))?;
    if !status.success() {
        fail!("{} did not put the counters together", profdata.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_is_known() {
        let about =
            "rustc 1.0\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\nLLVM version: 22.1.2\n";
        assert_eq!(field(about, "host: "), Some("x86_64-unknown-linux-gnu"));
        assert_eq!(field(about, "LLVM version: "), Some("22.1.2"));
        let rustc = Rustc::ask().unwrap();
        assert!(rustc.sysroot.is_dir() && !rustc.host.is_empty());
        assert!(rustc.llvm_major.parse::<u32>().is_ok());
    }

    #[test]
    fn a_tool_that_is_missing_is_named() {
        let rustc = Rustc {
            host: "nowhere".into(),
            llvm_major: "1".into(),
            sysroot: PathBuf::from("/nonexistent"),
        };
        let said = rustc.profdata().unwrap_err().to_string();
        assert!(
            said.contains("llvm-tools") && said.contains("llvm-1"),
            "{said}"
        );
    }

    #[test]
    fn a_run_without_counters_is_an_error() {
        let empty = tempfile::tempdir().unwrap();
        let said = merge(Path::new("true"), empty.path(), &empty.path().join("x"));
        assert!(said.unwrap_err().to_string().contains("no counters"));
    }
}
