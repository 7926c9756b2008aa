//! `cargo xtask cluster`: fronts and nodes, or equals, on one machine, under faults and changes.
//!
//! ```text
//! clients ─> front ─┬─> node      --shape front     fronts know what nodes hold, fetch what none holds
//!      │       └────┼─> node
//!      └─> front ───┴─> node ...
//!
//! clients ─> equal <─> equal ...  --shape equals    each is node and front
//! ```
//!
//! A member is a process in a network namespace of its own (`network`, `site`, `member`, put together by `bed`). Clients are
//! PolyMix's robots (`robots`) or a crowd that counts by the second (`crowd`); both compare every byte. The tests are: faults
//! (`faults`), purges while a node is away (`purges`), a node that joins and leaves (`changes`), a comparison of ways to find a node,
//! including HAProxy (`compare`).
//!
//! Not known here: the protocol between members.   Limits: one machine, so members share its cores and its disk.

mod audit;
pub mod bed;
mod changes;
mod compare;
mod crowd;
mod disk;
mod faults;
pub mod member;
mod misses;
mod network;
mod purges;
mod report;
mod robots;
pub mod site;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};

use self::bed::{Bed, Plan};
use self::crowd::Demand;
use self::faults::{Fault, Victim};
use self::report::{Report, Section};
use self::site::{Route, Shape};
use crate::failure::{During, Result, fail};
use crate::rivals;
use crate::size::Bytes;
use crate::workspace;

const AFTER_HELP: &str = "\
Examples:
  cargo xtask cluster                                    PolyMix at one front and three nodes
  cargo xtask cluster --shape equals --nodes 4           at four equals
  cargo xtask cluster --fault kill,stop,cut,disk,part    what may happen to a node, for ten seconds each
  cargo xtask cluster --fronts 2 --fault kill --victim front
  cargo xtask cluster --try purges --fault kill,cut      purges that a node did not hear
  cargo xtask cluster --try changes,capacity --route hints,hash,haproxy
  cargo xtask cluster --try all --fault kill,stop,cut,disk,part --html cluster.html --json cluster.json

It wants root, for network namespaces; without, members are at addresses of 127.0.0.0/8, and no cable can be cut. Everything it
makes begins with `lol` and its process id, and is removed at the end, also after Ctrl-C; after a SIGKILL by the next run.
Configurations and logs stay in target/xtask/cluster. The exit status is not 0 if a client saw an error or something else that
is promised was missed.";

/// What to build and what to try.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Options {
    #[arg(long, value_enum, default_value_t = Shape::Front)]
    shape: Shape,
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8))]
    fronts: u8,
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=16))]
    nodes: u8,
    /// How requests find a node; `changes` and `capacity` compare all that are named
    #[arg(long, value_enum, value_delimiter = ',', default_value = "hints")]
    route: Vec<Route>,
    /// What is tried [default: robots, or faults where some are named]
    #[arg(long = "try", value_enum, value_delimiter = ',')]
    tried: Vec<Trial>,
    /// What happens to a member, one after the other
    #[arg(long, value_enum, value_delimiter = ',')]
    fault: Vec<Fault>,
    /// Who it happens to
    #[arg(long, value_enum, default_value_t = Victim::Node)]
    victim: Victim,
    /// Seconds of PolyMix, and of load before something happens
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    /// Requests a second of all clients
    #[arg(long, default_value_t = 300)]
    rate: u32,
    /// Clients of the crowd
    #[arg(long, default_value_t = 24)]
    clients: usize,
    /// Objects that the crowd asks for again
    #[arg(long, default_value_t = 8000)]
    objects: u64,
    /// The share of its requests for objects that nobody asks for again
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(0..=100))]
    fresh_percent: u64,
    /// Of each node
    #[arg(long, default_value = "128MiB")]
    store_size: Bytes,
    /// Memory cache of each member with a store
    #[arg(long, default_value = "8MiB")]
    memory: Bytes,
    /// Memory cache of a front
    #[arg(long, default_value = "8MiB")]
    front_memory: Bytes,
    /// Rounds of `capacity`
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// A further line of the configuration's section cluster, such as 'push-max = "64KiB"'
    #[arg(long)]
    setting: Vec<String>,
    /// Members keep no journal of purges
    #[arg(long)]
    stateless: bool,
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// What is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Trial {
    /// PolyMix at every door, and what reached the nodes
    Robots,
    /// Each --fault under load
    Faults,
    /// Purges while a node is away by each --fault
    Purges,
    /// A node joins and leaves, by each --route
    Changes,
    /// Two nodes at 75 % misses, by each --route
    Capacity,
    All,
}

/// Runs the tests and prints their results; fails if a promise was broken.
pub fn run(options: &Options) -> Result<()> {
    rivals::build_loligo()?;
    rivals::build_lab()?;
    forget_old_runs()?;
    let mut report = Report {
        setup: setup(options),
        sections: Vec::new(),
    };
    for line in &report.setup {
        println!("{line}");
    }
    let tried = try_all(options, &mut report);
    // Write the report first: results before a failure are useful.
    write(options, &report)?;
    tried?;
    match report.missed() {
        0 => Ok(()),
        missed => fail!("{missed} promises were missed"),
    }
}

fn try_all(options: &Options, report: &mut Report) -> Result<()> {
    let wants = |trial| match options.tried[..] {
        [] if options.fault.is_empty() => trial == Trial::Robots,
        [] => trial == Trial::Faults,
        _ => options.tried.contains(&trial) || options.tried.contains(&Trial::All),
    };
    let plan = options.plan();
    let warm = Duration::from_secs(u64::from(options.seconds));
    if wants(Trial::Robots) {
        let mut bed = Bed::build(&plan)?;
        report.add(robots::run(&mut bed, options.seconds, options.rate)?);
    }
    if wants(Trial::Faults) {
        for fault in &options.fault {
            let mut bed = Bed::build(&plan.for_fault(*fault))?;
            report.add(faults::run(
                &mut bed,
                *fault,
                options.victim,
                options.demand(),
                warm,
            )?);
        }
    }
    let outcomes: Vec<_> = report
        .sections
        .iter()
        .filter_map(|it| it.outcome.as_ref())
        .collect();
    if outcomes.len() > 1 {
        let grid = faults::table(&outcomes);
        let mut section = Section::new("Faults side by side");
        section.grids.push(grid);
        report.add(section);
    }
    if wants(Trial::Purges) {
        let kill = [Fault::Kill];
        let faults = if options.fault.is_empty() {
            &kill[..]
        } else {
            &options.fault
        };
        for fault in faults {
            let mut bed = Bed::build(&plan.for_fault(*fault))?;
            report.add(purges::run(&mut bed, *fault)?);
        }
    }
    if wants(Trial::Changes) {
        report.add(compare::changes(
            &plan,
            &options.route,
            options.demand(),
            warm,
        )?);
    }
    if wants(Trial::Capacity) {
        report.add(compare::capacities(
            &plan,
            &options.route,
            u64::from(options.seconds.min(10)),
            options.rounds,
        )?);
    }
    Ok(())
}

impl Options {
    fn plan(&self) -> Plan {
        Plan {
            shape: self.shape,
            route: self.route.first().copied().unwrap_or(Route::Hints),
            fronts: usize::from(self.fronts),
            nodes: usize::from(self.nodes),
            store: self.store_size,
            memory: self.memory,
            front_memory: self.front_memory,
            has_state: !self.stateless,
            has_disk: false,
            extra: self.setting.clone(),
            absent: 0,
        }
    }

    fn demand(&self) -> Demand {
        Demand {
            rate: self.rate,
            clients: self.clients,
            objects: self.objects,
            fresh_percent: self.fresh_percent,
            body_bytes: 8 << 10,
            seed: 1,
        }
    }
}

fn setup(options: &Options) -> Vec<String> {
    let routes: Vec<&str> = options.route.iter().map(|route| route.name()).collect();
    let demand = options.demand();
    vec![
        format!(
            "{}, each with a store of {} and a memory of {}; routes: {}",
            match options.shape {
                Shape::Front => format!("{} fronts, {} nodes", options.fronts, options.nodes),
                Shape::Equals => format!("{} equals", options.nodes),
            },
            options.store_size,
            options.memory,
            routes.join(", ")
        ),
        format!(
            "crowd: {} clients, {} requests a second, {} % of them for objects that are asked for once, the others by Zipf's law over {} objects of about 9 KiB",
            demand.clients, demand.rate, demand.fresh_percent, demand.objects
        ),
        format!(
            "{} cores; members, clients and origin share them",
            std::thread::available_parallelism().map_or(0, usize::from)
        ),
    ]
}

/// Removes configurations and logs of earlier runs.
fn forget_old_runs() -> Result<()> {
    let home = workspace::run_dir().join("cluster");
    for entry in fs::read_dir(&home).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.split('-').next().unwrap_or_default();
        if !Path::new("/proc").join(pid).exists() {
            let path = entry.path();
            disk::Disk::forget(&path)?;
            fs::remove_dir_all(&path).during(|| format!("removing {}", path.display()))?;
        }
    }
    Ok(())
}

fn write(options: &Options, report: &Report) -> Result<()> {
    let write = |path: &Path, text: String| {
        fs::write(path, text).during(|| format!("writing {}", path.display()))
    };
    if let Some(path) = &options.json {
        let json = serde_json::to_string_pretty(report).during(|| "the report as JSON".into())?;
        write(path, json + "\n")?;
    }
    if let Some(path) = &options.html {
        write(path, report.html())?;
    }
    Ok(())
}
