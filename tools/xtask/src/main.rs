//! Development tasks: `cargo xtask help` lists them.
//!
//! All tasks of a developer or a CI job beyond `cargo` itself: the checks of `ci`, the rules of
//! `tidy`, the launcher for rivals, the benches. Benches and the origin measure, so they run in a release build of this
//! program: the debug build that `cargo xtask` makes first makes the release build and then replaces itself by it.
#![forbid(unsafe_code)]

mod bench;
mod block;
mod chance;
mod ci;
mod cluster;
mod dist;
mod failure;
mod fuzz;
mod h2_load;
mod h2spec;
mod hierarchy;
mod http;
mod idle_client;
mod interrupt;
mod memory_group;
mod origin;
mod origins;
mod ports;
mod process;
mod procfs;
mod progress;
mod release;
mod rivals;
mod serving;
mod sim;
mod size;
mod strace;
mod tidy;
mod torture;
mod truths;
mod workspace;
mod wrk;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand};

use crate::failure::{During, Result, fail};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Development tasks of this workspace")]
struct Cli {
    /// This loligo instead of one built now, for benches, rivals and torture, and the loligo-lab beside it; what is there is not built
    #[arg(long, global = true, value_name = "LOLIGO")]
    binary: Option<PathBuf>,
    /// Another build of loligo, measured beside it as `loligo-beside` (bench hits, rivals compare)
    #[arg(long, global = true, value_name = "LOLIGO")]
    beside: Option<PathBuf>,
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// All checks a change must pass
    Ci(ci::Options),
    /// Rules the compiler does not know: layers, circles of files, file length, module docs, required files
    Tidy(tidy::Options),
    /// Run each fuzz target briefly, where the toolchain can
    FuzzSmoke(fuzz::Options),
    /// The store over a faulty disk, in virtual time: many seeds, purges, crashes
    Sim(sim::Options),
    /// Launch the servers Loligo is measured against
    #[command(subcommand)]
    Rivals(rivals::commands::RivalsCommand),
    /// Measurements
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Kill the proxy again and again, and compare every byte it serves
    Torture(torture::Options),
    /// Root, top and two sibling leaves under PolyMix: at which level the hits are
    Hierarchy(hierarchy::Options),
    /// Fronts and nodes, or equals, in network namespaces: load, faults, purges, beside HAProxy
    Cluster(cluster::Options),
    /// All cases of h2spec, plain and over TLS, with the cache cold and warm
    H2spec(h2spec::Options),
    /// Programs that people have behind a proxy, behind ours: Apache, gunicorn, Node, PHP, object stores
    Origins(origins::Options),
    /// Known truths come back: what a report must say, because we put it there
    Truths(truths::Options),
    /// Build the program laid out by how it runs (profile-guided)
    Release(release::Options),
    /// Packages: Debian, an archive, the root of an image; with man pages and completions
    Dist(dist::Options),
    /// A fast origin server: `/size/BYTES/ID`, `/count`
    Origin {
        /// Port on 127.0.0.1; 0 takes a free one
        #[arg(long, default_value_t = 8000)]
        port: u16,
        /// Threads, each with its own listening socket
        #[arg(long, default_value_t = 1)]
        threads: usize,
    },
    /// Open idle keep-alive connections until stdin closes (used by `bench idle`)
    IdleClient(idle_client::Options),
}

impl Task {
    /// Whether the command needs the release build, because its own speed matters for the result or for its duration.
    fn measures(&self) -> bool {
        match self {
            Self::Bench(_)
            | Self::Torture(_)
            | Self::Cluster(_)
            | Self::Truths(_)
            | Self::Origin { .. }
            | Self::IdleClient(_) => true,
            Self::Rivals(command) => command.measures(),
            _ => false,
        }
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Some(beside) = &cli.beside
        && let Err(failure) = rivals::use_beside(beside)
    {
        eprintln!("{failure}");
        return ExitCode::FAILURE;
    }
    let is_slow = cfg!(debug_assertions) && cli.task.measures();
    let outcome = match &cli.binary {
        None if is_slow => become_release_build(),
        None => interrupt::listen().and_then(|()| run(cli.task)),
        Some(binary) => {
            if is_slow {
                eprintln!(
                    "this is a debug build of xtask: what it does itself (origins, checks) is slow; \
                     `cargo build --release -p xtask` makes target/release/xtask, which takes the same arguments"
                );
            }
            rivals::use_loligo(binary)
                .and_then(|()| interrupt::listen())
                .and_then(|()| run(cli.task))
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Ci(options) => ci::run(&options),
        Task::Tidy(options) => tidy::run(&options),
        Task::FuzzSmoke(options) => fuzz::run(&options),
        Task::Sim(options) => sim::run(&options),
        Task::Rivals(command) => rivals::commands::run(command),
        Task::Bench(command) => bench::run(command),
        Task::Torture(options) => torture::run(&options),
        Task::Hierarchy(options) => hierarchy::run(&options),
        Task::Cluster(options) => cluster::run(&options),
        Task::H2spec(options) => h2spec::run(&options),
        Task::Origins(options) => origins::run(&options),
        Task::Truths(options) => truths::run(&options),
        Task::Release(options) => release::run(&options),
        Task::Dist(options) => dist::run(&options),
        Task::Origin { port, threads } => {
            let origin = origin::Origin::start(port, threads)?;
            println!("origin on http://{}", origin.address());
            while interrupt::pause(std::time::Duration::from_secs(3600)).is_ok() {}
            eprintln!("{} objects served", origin.served());
            Ok(())
        }
        Task::IdleClient(options) => idle_client::run(&options),
    }
}

/// Builds the release build of this program and replaces this process by it.
fn become_release_build() -> Result<()> {
    use std::os::unix::process::CommandExt;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--package", "xtask"])
        .current_dir(workspace::root())
        .status()
        .during(|| "running cargo".into())?;
    if !status.success() {
        fail!("xtask does not build in release mode");
    }
    let error = Command::new(workspace::target_dir().join("release/xtask"))
        .args(std::env::args_os().skip(1))
        .exec();
    fail!("running the release build of xtask: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `--beside` of all commands names another build; an option of that name of a command's own made the parser panic.
    #[test]
    fn the_papers_commands_are_understood() {
        for paper in ["paper000", "paper004"] {
            let words = ["xtask", "rivals", paper, "--rivals", "squid-ufs"];
            assert!(Cli::try_parse_from(words).is_ok(), "{paper}");
        }
    }
}
