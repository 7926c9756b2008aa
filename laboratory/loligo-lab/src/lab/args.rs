//! The arguments of `loligo lab`.

use std::path::PathBuf;

use ::lab::managers::Kind;
use ::lab::paper::experiment::Model;
use ::lab::paper::printed;
use ::lab::paper::source::Caches;
use ::lab::trace::{Columns, Format};
use clap::{Args, Subcommand, ValueEnum};
use commands::units::parse_size;

use super::accelerator::{ACCELERATOR_HELP, AcceleratorFlags};
use super::hints::{HINTS_HELP, HintsFlags};
use super::replay::{REPLAY_HELP, ReplayFlags};
use crate::lab_traces::TracesCommand;

#[derive(Subcommand, Debug)]
pub enum LabCommand {
    /// Paper 002, Table 1: what lazy reads and locality buffers add
    Table1(PaperFlags),
    /// Paper 002, Table 2: disk requests and gets a second of every file-space manager
    #[command(after_help = TABLE2_EXAMPLES)]
    Table2(PaperFlags),
    /// Paper 002, Figure 2: what the disk is asked, against its size
    Figure2(PaperFlags),
    /// Paper 002, Figure 3: what it costs to make and remove a file
    Figure3(PaperFlags),
    /// Paper 002, Figure 4: a file for each object, against BUDDY
    Figure4(PaperFlags),
    /// Paper 002, Figure 5: the threshold of BUDDY
    Figure5(PaperFlags),
    /// Paper 002, Figure 6: STREAM and STREAM-PACKETIZER against utilisation
    Figure6(PaperFlags),
    /// Paper 002, Figure 7: LAZY-READS against utilisation
    Figure7(PaperFlags),
    /// Paper 002, Figure 8: locality buffers against utilisation
    Figure8(PaperFlags),
    /// Paper 002: which of its claims hold, and on which stream
    #[command(after_help = CLAIMS_EXAMPLES)]
    Claims(PaperFlags),
    /// All claims, tables and figures of paper 002, and the constants of the models
    #[command(after_help = PAPER_EXAMPLES)]
    Paper(PaperFlags),
    /// All managers on a real disk, beside the modelled one
    #[command(after_help = REAL_EXAMPLES)]
    Real(RealFlags),
    /// Several runs of `lab real` side by side: where does the paper's order hold?
    #[command(after_help = BESIDE_EXAMPLES)]
    Beside(BesideFlags),
    /// An experiment of your own, from a file
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunFlags),
    /// Paper 003, its trace study: what hints of a node's content cost and bring
    #[command(after_help = HINTS_HELP)]
    Hints(HintsFlags),
    /// Paper 003: Figures 4 to 15, Tables 1 and 2 and all claims on one page
    #[command(after_help = ACCELERATOR_HELP)]
    Accelerator(AcceleratorFlags),
    /// Play a trace through any proxy, and count what its origin did not see
    #[command(after_help = REPLAY_HELP)]
    Replay(ReplayFlags),
    #[command(flatten)]
    Traces(TracesCommand),
}

pub const LAB_HELP: &str = "\
The lab asks which layout the disk side of a proxy cache should have: a stream of requests goes through a memory cache and a disk \
cache, and what those ask of the disk goes to a file-space manager on a modelled disk (of 1999, or flash) or a real one. The stream is \
fitted to the counts of paper 002 and to its comparisons of managers; traces (--trace) stand beside it.
docs/lab.md tells what is modelled and where each constant comes from.";

const TABLE2_EXAMPLES: &str = "\
Examples:
  loligo lab table2                            some seconds of your time for days of the paper's
  loligo lab table2 --scale 0.1                a tenth of the requests, caches a tenth as large
  loligo lab table2 --disk flash               the same file system over a flash device
  loligo lab table2 --trace bu-1994-95.tsv.zst --trace access.log.gz
  loligo lab table2 --trace bu-1994-95.tsv.zst --caches 4MiB/256MiB,64MiB/512MiB
  loligo lab table2 --json - | jq '.sections[0].tables[0].rows'";

const PAPER_EXAMPLES: &str = "\
Examples:
  loligo lab paper --html paper.html           everything, with plots, on one page
  loligo lab paper --keep runs.jsonl           may be interrupted: the same command goes on where it was
  loligo lab paper --trace bu-1994-95.tsv.zst --html paper.html
  loligo lab paper --quiet --json paper.json";

const CLAIMS_EXAMPLES: &str = "\
Examples:
  loligo lab claims                            the paper's figure, ours, whether it holds, and why not
  loligo lab claims --trace bu-1994-95.tsv.zst --caches 4MiB/256MiB,64MiB/512MiB --html claims.html
  loligo lab claims --scale 0.1                a quick look";

const REAL_EXAMPLES: &str = "\
Examples:
  In a directory of this machine's file system, 20,000 requests:
    loligo lab real --dir /var/tmp --requests 20000
  The same past the page cache, managers of one file only:
    loligo lab real --dir /var/tmp --direct --managers STREAM,LAZY-READS-LOC,UNIFIED
  On a disk of 100 operations a second (a loop device; root, cgroup v1):
    loligo lab real --dir /var/tmp --slow 100 --requests 2000
  The first 20,000 disk requests of a trace in place of the fitted stream:
    loligo lab real --dir /var/tmp --trace bu-1994-95.tsv.zst --requests 20000
  On a block device, all of which is written over:
    loligo lab real --device /dev/sdX --overwrite --direct

Exit status: 0 done, 1 the run failed, 2 the command line is not understood.";

const BESIDE_EXAMPLES: &str = "\
Examples:
  loligo lab real --dir . --json page-cache.json
  loligo lab real --dir . --direct --json direct.json
  loligo lab real --dir . --slow 100 --requests 2000 --json slow.json
  loligo lab beside page-cache.json direct.json slow.json --html beside.html

Runs are called by their files. All are measured by their own SQUID, so leave that among the managers.";

const RUN_EXAMPLES: &str = "\
A plan names ranges of variables; every combination is a run, and one variable goes to the right of the plot:

  title = \"How many buffers?\"
  x = \"locality-buffers\"
  y = \"requests/s\"                             or \"gets/s\", \"seconds\", a figure of the run: \"device writes\"
  managers = [\"LAZY-READS\", \"LAZY-READS-LOC\"]
  locality-buffers = [8, 16, 32, 64, 128]
  utilisation = [0.71, { from = 0.8, to = 0.95, step = 0.05 }]

Variables: utilisation, disk-gib, memory-mib, requests, seed, threshold-bytes, batch, deadline-ms, locality-buffers, locality-bytes,
cluster-bytes. disks = [\"disk1999\", \"flash\"] names the modelled disks. What is not named has the paper's value; on a trace \
its caches' sizes and all its disk requests.

Examples:
  loligo lab run plan.toml --html plan.html
  loligo lab run plan.toml --trace bu-1994-95.tsv.zst --caches 4MiB/256MiB
  loligo lab run plan.toml                     again: only runs that are missing are made (plan.toml.runs has the others)";

/// Traces to run on.
#[derive(Args, Debug)]
pub struct TraceSources {
    /// A trace to run on; may be repeated. Formats and packing are those of `lab trace`
    #[arg(long, value_name = "FILE", help_heading = "Traces")]
    pub trace: Vec<PathBuf>,

    /// Memory and disk cache for the traces; each trace runs with each pair [default: see docs/lab.md, Traces]
    ///
    /// By default the disk cache is 58.7 % of the bytes that a disk without limit would be written, as the paper's disk kept 398,165 of
    /// the 678,040 objects written to it; memory is a quarter of it; neither is larger than the paper's.
    #[arg(long, value_name = "MEMORY/DISK", value_delimiter = ',', value_parser = caches, requires = "trace", help_heading = "Traces")]
    pub caches: Vec<Caches>,

    /// Requests of clients that are read of each trace; the paper's method ends there
    #[arg(long, value_name = "N", default_value_t = printed::GETS, value_parser = clap::value_parser!(u64).range(1..), requires = "trace", help_heading = "Traces")]
    pub gets: u64,

    /// Format of the traces [default: found out]
    #[arg(
        long,
        value_name = "FORMAT",
        requires = "trace",
        help_heading = "Traces"
    )]
    pub format: Option<Format>,

    /// Columns of CSV, counted from 1: time=1,object=2,size=3,server=4
    #[arg(
        long,
        value_name = "COLUMNS",
        requires = "trace",
        help_heading = "Traces"
    )]
    pub columns: Option<Columns>,
}

/// The modelled disk.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskName {
    /// The paper's machine, file system and disk
    #[value(name = "disk1999")]
    Disk1999,
    /// Flash, under the same file system on a machine of today
    Flash,
}

impl From<DiskName> for Model {
    fn from(name: DiskName) -> Model {
        match name {
            DiskName::Disk1999 => Model::Disk1999,
            DiskName::Flash => Model::Flash,
        }
    }
}

/// Where the report goes, and how it is made.
#[derive(Args, Debug)]
pub struct LabOutFlags {
    #[command(flatten)]
    pub files: commands::out::OutFlags,

    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

#[derive(Args, Debug)]
pub struct PaperFlags {
    /// The modelled disk
    #[arg(long, value_name = "DISK", default_value = "disk1999")]
    pub disk: DiskName,

    /// Share of the paper's requests and cache sizes, or of a trace's
    #[arg(long, value_name = "S", default_value = "1", value_parser = share)]
    pub scale: f64,

    /// Seed of the stream of requests
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,

    /// Keep finished runs in this file, and do not make those again that are in it
    #[arg(long, value_name = "FILE")]
    pub keep: Option<PathBuf>,

    #[command(flatten)]
    pub traces: TraceSources,

    #[command(flatten)]
    pub out: LabOutFlags,
}

#[derive(Args, Debug)]
pub struct RealFlags {
    /// Directory to work in; what is made there is removed at the end
    #[arg(long, value_name = "DIR", required_unless_present = "device")]
    pub dir: Option<PathBuf>,

    /// File or block device to work on; all in it is lost
    #[arg(
        long,
        value_name = "PATH",
        conflicts_with = "dir",
        requires = "overwrite"
    )]
    pub device: Option<PathBuf>,

    /// Yes, all that is on --device may be lost
    #[arg(long)]
    pub overwrite: bool,

    /// Work on a loop device made in --dir that does so many operations a second
    #[arg(long, value_name = "IOPS", requires = "dir")]
    pub slow: Option<u32>,

    /// Past the page cache (O_DIRECT)
    #[arg(long)]
    pub direct: bool,

    /// Managers, by name [default: all that can work there]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = manager)]
    pub managers: Vec<Kind>,

    /// Disk requests; the caches are as much smaller than the paper's, or than a trace's
    #[arg(long, value_name = "N", default_value = "20000", value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pub requests: u32,

    /// How full the file is at the fullest
    #[arg(long, value_name = "U", default_value = "0.71", value_parser = share)]
    pub utilisation: f64,

    /// Size of the loop device of --slow [default: four times what is stored]
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "slow")]
    pub slow_size: Option<u64>,

    /// Seed of the stream of requests
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,

    #[command(flatten)]
    pub traces: TraceSources,

    #[command(flatten)]
    pub out: LabOutFlags,
}

#[derive(Args, Debug)]
pub struct BesideFlags {
    /// Files that `lab real --json` wrote
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    #[command(flatten)]
    pub out: LabOutFlags,
}

#[derive(Args, Debug)]
pub struct RunFlags {
    /// The plan (TOML)
    pub plan: PathBuf,

    /// Keep finished runs in this file [default: the plan's name with .runs]
    #[arg(long, value_name = "FILE")]
    pub keep: Option<PathBuf>,

    #[command(flatten)]
    pub traces: TraceSources,

    #[command(flatten)]
    pub out: LabOutFlags,
}

pub fn share(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if value > 0.0 && value <= 1.0 {
        Ok(value)
    } else {
        Err("must be above 0, and at most 1".to_owned())
    }
}

fn size(text: &str) -> Result<u64, String> {
    parse_size(text).ok_or_else(|| "not a size, such as 64MiB or 10GiB".to_owned())
}

fn caches(text: &str) -> Result<Caches, String> {
    let pair = text.split_once('/');
    let sizes = pair.and_then(|(memory, disk)| Some((parse_size(memory)?, parse_size(disk)?)));
    match sizes {
        Some((memory_bytes, disk_bytes)) if memory_bytes > 0 && disk_bytes > 0 => Ok(Caches {
            memory_bytes,
            disk_bytes,
        }),
        _ => Err("not two sizes, such as 64MiB/512MiB".to_owned()),
    }
}

fn manager(text: &str) -> Result<Kind, String> {
    Kind::parse(text).ok_or_else(|| {
        let names = Kind::ALL.map(Kind::name).join(", ");
        format!("there are {names}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_names() {
        assert_eq!(share("0.1"), Ok(0.1));
        assert!(share("0").is_err() && share("2").is_err() && share("x").is_err());
        assert_eq!(manager("lazy-reads-loc"), Ok(Kind::LazyReadsLoc));
        let two = caches("4MiB/256MiB").unwrap();
        assert_eq!((two.memory_bytes, two.disk_bytes), (4 << 20, 256 << 20));
        assert!(
            ["4MiB", "4MiB/0B", "x/1MiB"]
                .iter()
                .all(|t| caches(t).is_err())
        );
        assert!(manager("fast").unwrap_err().contains("SIMPLE, SQUID"));
    }
}
