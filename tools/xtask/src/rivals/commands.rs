//! `cargo xtask rivals list|start|stop|check`, and the comparisons.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::front::KeyKind;
use super::{Place, Record, Request, Rival, all_records, build_loligo, compare, launch, replay};
use crate::block;
use crate::failure::{Failure, Result, fail};
use crate::http;
use crate::origin::Origin;
use crate::size::Bytes;

/// Servers to be measured against.
#[derive(Debug, Subcommand)]
pub enum RivalsCommand {
    /// Show which are installed and which run
    List,
    /// Start one and return when it answers
    Start(Start),
    /// Stop one by its label, or all
    Stop {
        /// The label it was started under (its name, unless --label was given)
        #[arg(required_unless_present = "all")]
        label: Option<String>,
        /// Everything that was started here, also what a killed bench left running
        #[arg(long, conflicts_with = "label")]
        all: bool,
    },
    /// Start each installed one, see that it caches, stop it
    Check {
        /// Only these, by name
        #[arg(long, value_delimiter = ',')]
        only: Vec<String>,
        /// With access logs
        #[arg(long)]
        logs: bool,
    },
    /// The same load for Loligo and its rivals, on a slow disk or a fast one: one report
    Compare(Box<compare::Options>),
    /// A trace through Loligo with several settings and every rival, at equal memory and disk: one table
    #[command(after_help = replay::HELP)]
    Replay(Box<replay::Options>),
    /// Tables 1 to 3 and Figures 6 to 8 of paper 000, for Loligo and an installed Squid
    Paper000(Box<compare::paper000::Options>),
    /// Tables 6.1 to 6.6 and Figures 6.1 and 6.2 of paper 004, for Loligo and an installed Squid
    Paper004(Box<compare::paper004::Options>),
}

impl RivalsCommand {
    /// Does this command measure?
    pub fn measures(&self) -> bool {
        matches!(
            self,
            Self::Compare(_) | Self::Paper000(_) | Self::Paper004(_)
        )
    }
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    On,
    Off,
}

/// How to start a server.
#[derive(Debug, Args)]
pub struct Start {
    /// One of `cargo xtask rivals list`
    name: String,
    /// Name of its run directory, to run one server twice
    #[arg(long)]
    label: Option<String>,
    /// Keep the cache in a folder of this directory, and leave it there
    #[arg(long, conflicts_with = "device")]
    dir: Option<PathBuf>,
    /// Keep the cache on this block device: raw where the server can, else on a fresh ext4. All on it is lost
    #[arg(long)]
    device: Option<PathBuf>,
    /// Use the device even if it holds something
    #[arg(long, requires = "device")]
    overwrite: bool,
    /// Port on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// The server it is a reverse proxy of
    #[arg(long, default_value = "http://127.0.0.1:8000")]
    origin: String,
    /// Cache on disk
    #[arg(long, default_value = "2GiB")]
    cache_size: Bytes,
    /// Cache in memory
    #[arg(long, default_value = "256MiB")]
    memory: Bytes,
    /// Access log (and for loligo the profile)
    #[arg(long, value_enum, default_value_t = Switch::Off)]
    logs: Switch,
    /// Threads or processes that serve
    #[arg(long, default_value_t = 2)]
    workers: u32,
    /// Further arguments, for loligo only
    #[arg(last = true)]
    extra: Vec<String>,
}

/// Carries out a command.
pub fn run(command: RivalsCommand) -> Result<()> {
    match command {
        RivalsCommand::List => list(),
        RivalsCommand::Start(options) => start(options),
        RivalsCommand::Stop { label, .. } => stop(label.as_deref()),
        RivalsCommand::Check { only, logs } => check(&only, logs),
        RivalsCommand::Compare(options) => compare::run(&options),
        RivalsCommand::Replay(options) => replay::run(&options),
        RivalsCommand::Paper000(options) => compare::paper000::run(&options),
        RivalsCommand::Paper004(options) => compare::paper004::run(&options),
    }
}

fn list() -> Result<()> {
    let records = all_records()?;
    for rival in Rival::ALL {
        let version = if rival.is_installed() {
            rival.version().unwrap_or_else(|| "installed".into())
        } else {
            "-".into()
        };
        println!("{:15} {version:20} {}", rival.name(), rival.description());
    }
    for record in records {
        let state = match record.main_pid() {
            Some(pid) => format!("pid {pid}"),
            None => "dead; `stop` cleans up".into(),
        };
        println!("running: {} on {}, {state}", record.label, record.address);
    }
    Ok(())
}

fn start(options: Start) -> Result<()> {
    let rival = named(&options.name)?;
    if rival == Rival::Loligo {
        build_loligo()?;
    }
    let place = match (options.dir, options.device) {
        (Some(dir), _) => Place::Dir(std::path::absolute(&dir).unwrap_or(dir)),
        (None, Some(device)) => {
            block::check_expendable(&device, options.overwrite)?;
            Place::Device(device)
        }
        (None, None) => Place::RunDir,
    };
    let running = launch(
        rival,
        &Request {
            label: options.label.unwrap_or(options.name),
            port: options.port,
            origin: http::loopback_address(&options.origin)?,
            cache: options.cache_size,
            memory: options.memory,
            logs: options.logs == Switch::On,
            profile: false,
            workers: options.workers,
            place,
            extra: options.extra,
            front: None,
            key: KeyKind::default(),
            limits: String::new(),
            listener: None,
        },
    )?;
    println!(
        "{} {} on http://{}, pid {}, logs and configuration in {}",
        rival.name(),
        rival.version().unwrap_or_default(),
        running.address,
        running.roots()[0],
        running.run.display()
    );
    if rival == Rival::Loligo {
        println!("admin interface on http://{}", running.admin);
    }
    running.leave();
    Ok(())
}

fn stop(label: Option<&str>) -> Result<()> {
    let records: Vec<Record> = all_records()?
        .into_iter()
        .filter(|r| label.is_none_or(|l| l == r.label))
        .collect();
    if let (Some(label), true) = (label, records.is_empty()) {
        fail!("nothing runs under the label {label}");
    }
    let mut outcome = Ok(());
    for record in records {
        match record.undo() {
            Ok(()) => println!("{} stopped", record.label),
            Err(failure) => {
                eprintln!("{}: {failure}", record.label);
                outcome = Err(Failure::new("not everything could be stopped"));
            }
        }
    }
    outcome
}

fn check(only: &[String], logs: bool) -> Result<()> {
    let chosen = if only.is_empty() {
        Rival::ALL
            .into_iter()
            .filter(|r| r.is_installed())
            .collect()
    } else {
        only.iter().map(|n| named(n)).collect::<Result<Vec<_>>>()?
    };
    let origin = Origin::start(0, 1)?;
    let mut bad = 0;
    for rival in chosen {
        match check_one(rival, logs, &origin) {
            Ok(()) => println!(
                "{:15} {:20} starts, caches, stops",
                rival.name(),
                rival.version().unwrap_or_default()
            ),
            Err(failure) => {
                crate::interrupt::check()?;
                bad += 1;
                println!("{:15} {failure}", rival.name());
            }
        }
    }
    if bad > 0 {
        fail!("{bad} did not work");
    }
    Ok(())
}

fn check_one(rival: Rival, logs: bool, origin: &Origin) -> Result<()> {
    let running = launch(
        rival,
        &Request {
            logs,
            ..Request::of(format!("check-{}", rival.name()), origin.address())
        },
    )?;
    running.await_caching(origin)?;
    running.stop()
}

/// The rival of this name.
pub(super) fn named(name: &str) -> Result<Rival> {
    Rival::of_name(name).ok_or_else(|| {
        let names: Vec<_> = Rival::ALL.iter().map(|r| r.name()).collect();
        Failure::new(format!("no rival {name:?}; there are {}", names.join(", ")))
    })
}
