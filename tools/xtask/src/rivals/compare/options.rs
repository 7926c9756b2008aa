//! The options of a comparison, and the conditions of its runs.
//!
//! A short run is a small world: phases and working set shrink with the time scale, so cache and memory must be small, too.
//! [`Conditions::advice`] says where the sizes do not fit each other.
//!
//! Not known here: how a run is made.   Limits: a cache of [`CACHE_BYTES_MAX`].

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use polymix::Mix;
use polymix::phases::{Ends, Phase, Sizing, phases};

use super::ceiling::working_set_bytes;
use super::disk::Speed;
use super::peak::Bounds;
use crate::failure::{Result, fail};
use crate::rivals::Rival;
use crate::rivals::commands::named;
use crate::size::Bytes;

const CACHE_BYTES_MAX: u64 = 16 << 30;
/// Where this share of the cache is smaller than the working set, no proxy can keep the hit ratio.
const ROOM: f64 = 0.9;
/// The working set must be this many times as large as memory, or a proxy that loses its disk's contents would still have hits.
const WORLD_OVER_MEMORY: f64 = 10.0;
/// Starting and stopping a proxy, making its disk, letting the last answers come.
const AROUND_A_RUN_S: f64 = 8.0;
/// The default phases of the load.
const PHASES: &str = "framp,fill,fexit,inc1,top1";

/// A number or a fraction of two: `0.02`, `1/460`.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    text: String,
    value: f64,
}

impl Scale {
    /// As a number.
    pub fn value(&self) -> f64 {
        self.value
    }
}

impl FromStr for Scale {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<f64>().ok();
        let value = match text.split_once('/') {
            Some((above, below)) => number(above).zip(number(below)).map(|(a, b)| a / b),
            None => number(text),
        };
        value
            .filter(|value| value.is_finite() && *value >= 0.0)
            .map(|value| Self {
                text: text.to_owned(),
                value,
            })
            .ok_or_else(|| format!("{text:?} is not a number such as 0.02 or 1/460"))
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A size, or no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowance {
    Bytes(Bytes),
    Unlimited,
}

impl FromStr for Allowance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "unlimited" => Ok(Self::Unlimited),
            size => size.parse().map(Self::Bytes),
        }
    }
}

impl fmt::Display for Allowance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Unlimited => f.write_str("unlimited"),
        }
    }
}

/// Which load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    Polymix,
}

/// The same for every proxy of a comparison.
#[derive(Debug, Clone, Args)]
pub struct Conditions {
    /// slow: 100 reads and 100 writes a second; fast: the real disk. Either is a loop device of its own
    #[arg(long, value_enum, default_value = "slow")]
    pub disk: Speed,
    /// Cache on disk (in memory for those who have no other); the fill phase brings twice as much
    #[arg(long, default_value = "80MiB")]
    pub cache_size: Bytes,
    /// Memory cache that each is told to have
    #[arg(long, default_value = "1MiB")]
    pub memory: Bytes,
    /// Pages of files a proxy may have in memory beside that, or "unlimited"
    #[arg(long, default_value = "4MiB")]
    pub page_cache: Allowance,
    /// Written data that may wait in memory, on a slow disk
    #[arg(long, default_value = "4MiB")]
    pub dirty: Bytes,
    /// Shortens phases and working set: 1 is the thirteen hours of the specification
    #[arg(long, default_value = "1/100")]
    pub time_scale: Scale,
    /// Shortens the servers' think time of 2.5 s, and the network's times with it
    #[arg(long, default_value = "0.02")]
    pub think_scale: Scale,
    /// Delay to the servers, each way, in milliseconds, if not 40 times the think scale
    #[arg(long)]
    pub delay: Option<f64>,
    /// Share of packets lost on the way to the servers and back, if not the specification's 0.0005
    #[arg(long)]
    pub loss: Option<f64>,
    /// How many servers, if not 500 and a tenth of the robots: fewer make hits easier
    #[arg(long)]
    pub servers: Option<u32>,
    /// Phases of the load; judged is the last that begins with "top"
    #[arg(long, value_delimiter = ',', default_value = PHASES)]
    pub phases: Vec<String>,
    /// Which workload: 3 or 4
    #[arg(long, default_value = "3", value_parser = ["3", "4"])]
    pub polymix: String,
    /// What robots and servers speak. The specification says 1.0, with which some keep no connections (Loligo to clients, as
    /// RFC 9112 asks of a proxy; nginx to servers)
    #[arg(long, default_value = "1.1", value_parser = ["1.0", "1.1"])]
    pub http: String,
    /// Threads or processes that serve
    #[arg(long, default_value_t = 2)]
    pub workers: u32,
    /// A mean response above this is too slow, in milliseconds
    #[arg(long, default_value_t = 3000.0)]
    pub response_max: f64,
    /// More wrong answers than this are too many, in percent of the requests of the whole run
    #[arg(long, default_value_t = 0.0)]
    pub errors_max: f64,
    /// Repeats the random choices of another comparison
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// How many robots make the requests. The specification has one for 0.4 requests a second; fewer are faster and need
    /// fewer connections, which is what allows some thousand requests a second
    #[arg(long)]
    pub robots: Option<u32>,
    /// Search for a peak although much of the working set fits memory: the peak is then too high
    #[arg(long)]
    pub small_world: bool,
    /// Say what would be run and how long it takes, and end
    #[arg(long)]
    pub dry_run: bool,
    /// Write everything as JSON
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Write a page with plots
    #[arg(long)]
    pub html: Option<PathBuf>,
    /// Loligo's store is a file, as those of others are, and not the device.
    #[arg(skip)]
    pub loligo_in_file: bool,
    /// Further arguments for loligo serve
    #[arg(last = true)]
    pub loligo: Vec<String>,
}

/// `cargo xtask rivals compare`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// The load
    #[arg(long, value_enum, default_value = "polymix")]
    pub workload: Workload,
    /// Only these, by name (`cargo xtask rivals list`)
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Peak rate of the load, requests a second; several give the curve
    #[arg(long, value_delimiter = ',', default_value = "100")]
    pub rate: Vec<f64>,
    /// Look for the highest rate each carries, beginning with --rate
    #[arg(long)]
    pub peak: bool,
    /// Runs of one proxy while looking for its peak
    #[arg(long, default_value_t = 8, requires = "peak")]
    pub peak_runs: u32,
    /// Count the system calls about the cache's files, too (strace; it slows)
    #[arg(long)]
    pub count_calls: bool,
    #[command(flatten)]
    pub conditions: Conditions,
}

const EXAMPLES: &str = "\
One proxy after the other is started alone on a fresh loop device, loaded, measured and stopped; nothing stays
attached, mounted or limited, also after Ctrl-C. Root is needed.

Examples:
  How long the next one takes:
    cargo xtask rivals compare --disk slow --dry-run
  Everybody on a slow disk, some minutes each:
    cargo xtask rivals compare --disk slow --json slow.json --html slow.html
  Who carries how much:
    cargo xtask rivals compare --disk slow --only loligo,squid-ufs --rate 100 --peak --cache-size 256MiB
  The curve of three rates on the real disk, with what the kernel sees of files:
    cargo xtask rivals compare --disk fast --only loligo,nginx --rate 250,500,1000 --count-calls
  Loligo with a setting of its own:
    cargo xtask rivals compare --only loligo -- -c loligo.toml";

/// The servers that are compared unless others are named.
pub const DEFAULT: [Rival; 10] = [
    Rival::Loligo,
    Rival::LoligoBeside,
    Rival::SquidUfs,
    Rival::SquidAufs,
    Rival::SquidDiskd,
    Rival::SquidRock,
    Rival::TrafficServer,
    Rival::Nginx,
    Rival::VarnishFile,
    Rival::Haproxy,
];

impl Options {
    /// The servers that were named, or the installed ones of [`DEFAULT`].
    pub fn chosen(&self) -> Result<Vec<Rival>> {
        if self.only.is_empty() {
            return Ok(DEFAULT.into_iter().filter(|r| r.is_installed()).collect());
        }
        self.only.iter().map(|name| named(name)).collect()
    }
}

impl Conditions {
    /// The workload's sizes at a rate.
    pub fn sizing(&self, rate: f64) -> Sizing {
        Sizing {
            mix: if self.polymix == "4" {
                Mix::Four
            } else {
                Mix::Three
            },
            rate,
            fill_rate: rate,
            cache_bytes: self.cache_size.0,
            time_scale: self.time_scale.value(),
        }
    }

    /// The bounds within which a rate counts as carried.
    pub fn bounds(&self) -> Bounds {
        Bounds {
            response_ms_max: self.response_max,
            error_percent_max: self.errors_max,
        }
    }

    /// Refuses what makes no sense, before anything is started.
    pub fn check(&self, rates: &[f64]) -> Result<()> {
        if rates.is_empty() || rates.iter().any(|r| !r.is_finite() || *r < 1.0) {
            fail!("--rate takes requests a second, at least 1");
        }
        if self.cache_size.0 > CACHE_BYTES_MAX {
            fail!("a cache of {} is too large for this", self.cache_size);
        }
        if self.time_scale.value() <= 0.0 {
            fail!("--time-scale must be above 0");
        }
        if !self.phases.iter().any(|name| name.starts_with("top")) {
            fail!("--phases needs top1 or top2: that is what is judged");
        }
        Ok(())
    }

    /// A warning if sizes do not fit each other. The run is possible all the same.
    pub fn advice(&self, rate: f64) -> Option<String> {
        let set = working_set_bytes(&self.sizing(rate));
        let cache = self.cache_size.0 as f64;
        let mib = f64::from(1 << 20);
        if set > cache * ROOM {
            return Some(format!(
                "at {rate} requests/s the working set is about {:.0} MiB: with a cache of {:.0} nobody keeps the hit ratio",
                set / mib,
                cache / mib
            ));
        }
        self.small_world_at(rate)
    }

    /// A warning if much of the working set fits memory at this rate.
    fn small_world_at(&self, rate: f64) -> Option<String> {
        let set = working_set_bytes(&self.sizing(rate));
        let memory = self.memory_bytes();
        let mib = f64::from(1 << 20);
        (memory * WORLD_OVER_MEMORY > set).then(|| {
            let least = 1.0 / (self.time_scale.value() * memory * WORLD_OVER_MEMORY / set);
            format!(
                "at {rate} requests/s the working set is about {:.0} MiB, less than {WORLD_OVER_MEMORY} times memory and page cache ({:.0} MiB): a small world flatters (--time-scale 1/{:.0} is large enough, with a cache of that size)",
                set / mib,
                memory / mib,
                least.floor().max(1.0),
            )
        })
    }

    /// The bytes of memory and page cache; an unlimited one counts as nothing, since its size is unknown.
    fn memory_bytes(&self) -> f64 {
        let pages = match self.page_cache {
            Allowance::Bytes(bytes) => bytes.0,
            Allowance::Unlimited => 0,
        };
        (self.memory.0 + pages) as f64
    }

    /// Refuses to look for a peak in a world that fits memory, unless that is wanted.
    pub fn check_peak(&self, rates: &[f64]) -> Result<()> {
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        match self.small_world_at(least) {
            Some(why) if !self.small_world => fail!("{why}; --small-world allows it"),
            _ => Ok(()),
        }
    }

    /// Tells up to which rate the cache has room for the working set. A peak near it is due to the cache's size, not to the proxy.
    pub fn advice_of_peak(&self) -> String {
        // The working set grows with the rate.
        let sample = 1000.0;
        let set = working_set_bytes(&self.sizing(sample));
        let rate = self.cache_size.0 as f64 * ROOM * sample / set;
        format!(
            "a cache of {} has room for the working set up to about {rate:.0} requests/s: a peak near that is the cache's and not the proxy's",
            self.cache_size
        )
    }

    /// What `loligo bench polymix` is told, but for the addresses. All servers share one address, since some proxies know
    /// their origin by configuration only; each has a name of its own.
    pub fn load_args(&self, rate: f64) -> Vec<String> {
        let pairs = [
            ("--rate", rate.to_string()),
            ("--cache-size", self.cache_size.to_string()),
            ("--time-scale", self.time_scale.to_string()),
            ("--think-scale", self.think_scale.to_string()),
            ("--phases", self.phases.join(",")),
            ("--polymix", self.polymix.clone()),
            ("--http", self.http.clone()),
            ("--seed", self.seed.to_string()),
        ];
        // Each server keeps a name of its own; proxies that know one origin find all of them there.
        let mut args: Vec<String> = ["bench", "polymix", "--quiet"].map(str::to_owned).into();
        for (name, value) in pairs {
            args.extend([name.to_owned(), value]);
        }
        let of_servers = [
            ("--delay", self.delay.map(|ms| ms.to_string())),
            ("--loss", self.loss.map(|share| share.to_string())),
            ("--servers", self.servers.map(|n| n.to_string())),
        ];
        for (name, value) in of_servers {
            args.extend(value.into_iter().flat_map(|v| [name.to_owned(), v]));
        }
        if let Some(robots) = self.robots {
            args.extend(["--robots".to_owned(), robots.to_string()]);
        }
        args
    }

    fn run_phases(&self, rate: f64) -> Vec<Phase> {
        let mut all = phases(&self.sizing(rate));
        all.retain(|phase| self.phases.iter().any(|name| name == phase.name));
        all
    }

    /// How long a run takes at most, if the proxy answers at all, in seconds.
    pub fn seconds_max(&self, rate: f64) -> f64 {
        let length: f64 = self.run_phases(rate).iter().map(Phase::length_s).sum();
        length + AROUND_A_RUN_S
    }

    /// How long a run takes if the proxy keeps up, in seconds.
    pub fn seconds_expected(&self, rate: f64) -> f64 {
        let length = |phase: &Phase| match phase.ends {
            Ends::Filled { planned_s, .. } => planned_s,
            Ends::After(s) | Ends::ServersSeen(s) => s,
        };
        let sum: f64 = self.run_phases(rate).iter().map(length).sum();
        sum + AROUND_A_RUN_S
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn options(words: &str) -> Options {
        Line::parse_from(["x"].into_iter().chain(words.split_whitespace())).options
    }

    #[test]
    fn the_defaults_make_sense() {
        let options = options("");
        options.conditions.check(&options.rate).unwrap();
        assert_eq!(options.conditions.advice(100.0), None);
        let expected = options.conditions.seconds_expected(100.0);
        assert!((300.0..900.0).contains(&expected), "{expected}");
        assert!(options.conditions.seconds_max(100.0) > expected);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for words in [
            "--rate 0",
            "--cache-size 1TiB",
            "--time-scale 0",
            "--phases fill",
        ] {
            let options = options(words);
            assert!(options.conditions.check(&options.rate).is_err(), "{words}");
        }
        assert!(options("--only apache").chosen().is_err());
        assert_eq!(options("--only loligo").chosen().unwrap(), [Rival::Loligo]);
    }

    #[test]
    fn sizes_that_do_not_fit_are_told() {
        let large = options("--cache-size 4MiB").conditions;
        assert!(large.advice(100.0).unwrap().contains("nobody keeps"));
        let small = options("--memory 16MiB").conditions;
        let said = small.advice(100.0).unwrap();
        assert!(said.contains("--time-scale 1/28 is large enough"), "{said}");
    }

    #[test]
    fn no_peak_is_sought_in_a_world_that_fits_memory() {
        let allowed = |words: &str| options(words).conditions.check_peak(&[100.0, 200.0]);
        assert!(allowed("").is_ok());
        assert!(allowed("--time-scale 1/460").is_err());
        assert!(allowed("--time-scale 1/460 --small-world").is_ok());
    }

    #[test]
    fn a_peak_has_room_as_far_as_the_advice_has() {
        let small = options("").conditions;
        let said = small.advice_of_peak();
        assert!(said.contains("up to about 124 requests/s"), "{said}");
        assert_eq!(small.advice(120.0), None);
        assert!(small.advice(130.0).is_some());
    }

    #[test]
    fn the_load_is_told_what_was_asked() {
        let args = options("--time-scale 1/240 --polymix 4 --delay 40 --servers 200")
            .conditions
            .load_args(50.0)
            .join(" ");
        for part in [
            "--rate 50",
            "--time-scale 1/240",
            "--cache-size 80MiB",
            "--polymix 4",
            "--delay 40 --servers 200",
        ] {
            assert!(args.contains(part), "{part} in {args}");
        }
    }
}
