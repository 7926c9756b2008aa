//! The arguments of `loligo bench`, and the test made from them.
//!
//! Not known here: what a test does.   Limits: those of `polymix`; a rate is above 0, a scale is not below 0.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum};
use commands::out::OutFlags;
use commands::units::parse_size;
use polymix::Mix;
use polymix::network::Network;
use polymix::phases::{Sizing, phases};
use polymix::run::{Share, Test};
use polymix::wire::Minor;

/// Processes that share the robots of a run.
const SHARES_MAX: u32 = 256;
/// Round the world and back, by way of a satellite.
const DELAY_MS_MAX: f64 = 2_000.0;
const LOSS_MAX: f64 = 0.5;

/// What robots and servers must agree on, besides the rate.
#[derive(Args, Debug)]
pub struct WorkloadFlags {
    /// Which workload: 3 or 4
    #[arg(long, value_name = "N", default_value = "3")]
    pub polymix: PolymixNumber,

    /// Shortens phases, working set and life cycles: 1, 0.01, 1/240 [default: 1; in a search so that the top lasts --top]
    #[arg(long, value_name = "S", value_parser = positive)]
    pub time_scale: Option<f64>,

    /// Shortens the servers' think time of 2.5 s, and the network's times with it; 0 is none
    #[arg(long, value_name = "T", default_value = "1", value_parser = scale)]
    pub think_scale: f64,

    /// Delay of packets between proxy and servers, each way, in milliseconds; the servers imitate it [default: 40 times
    /// --think-scale]
    #[arg(long, value_name = "MS", value_parser = delay)]
    pub delay: Option<Duration>,

    /// Share of packets lost between proxy and servers, each way; the servers imitate what TCP makes of it
    #[arg(long, value_name = "SHARE", default_value = "0.0005", value_parser = loss)]
    pub loss: f64,

    /// URLs with names of servers (s0.bench.tst, s1.bench.tst, ...), as PolyMix-4 has them; the proxy must look them up
    #[arg(long)]
    pub names: bool,

    /// Answer questions for the servers' names here, by UDP: the proxy's name server. Without it somebody else must know them
    #[arg(long, value_name = "ADDRESS:PORT", requires = "names")]
    pub name_server: Option<SocketAddr>,

    /// First address of the servers; each has its own, counted up from here
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.1.0.1:8880")]
    pub origin: SocketAddrV4,

    /// All servers on that one address
    #[arg(long)]
    pub one_address: bool,

    /// How many servers [default: 500 + 0.1 a robot of the specification]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub servers: Option<u32>,

    /// What messages call themselves
    #[arg(long, value_name = "VERSION", default_value = "1.0")]
    pub http: HttpVersion,

    /// Repeats the random choices of another run
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
}

/// What robots need to know, whatever they are for.
#[derive(Args, Debug)]
pub struct RobotFlags {
    /// The proxy under test
    #[arg(long, value_name = "URL", value_parser = proxy_address)]
    pub proxy: SocketAddr,

    /// Robots speak TLS to the proxy, and take any certificate; URLs stay as they are
    #[arg(long)]
    pub https: bool,

    #[command(flatten)]
    pub workload: WorkloadFlags,

    /// First address of the robots, each its own [default: the system's choice]
    #[arg(long, value_name = "ADDRESS")]
    pub robot_addresses: Option<Ipv4Addr>,

    /// How many robots; fewer are faster than specified and take fewer connections [default: rate / 0.4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub robots: Option<u32>,

    /// Seconds an answer may take
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = positive)]
    pub patience: f64,

    /// Share of plain requests that ask for a part of the object: an addition, PolyMix has none
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share_of_one)]
    pub ranges: f64,
}

/// `bench polymix` and `bench robots`.
#[derive(Args, Debug)]
pub struct LoadFlags {
    /// Peak, requests a second
    #[arg(long, value_name = "R", value_parser = positive)]
    pub rate: f64,

    /// Size of the proxy's cache, memory and disk; the fill phase brings twice as much
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub cache_size: u64,

    #[command(flatten)]
    pub robot: RobotFlags,

    /// Requests a second while the cache is filled, 10 to 100 % of the peak [default: the peak]
    #[arg(long, value_name = "F", value_parser = positive)]
    pub fill_rate: Option<f64>,

    /// Which objects are asked for; the same for all parts of a run [default: new ones each time]
    #[arg(long, value_name = "N")]
    pub world: Option<u32>,

    /// Be one of several processes that share the robots: 1/4 is the first of four
    #[arg(long, value_name = "PART/OF", value_parser = share, requires = "world")]
    pub share: Option<Share>,

    /// Only these phases
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub phases: Vec<String>,

    /// What to call this run beside others
    #[arg(long, value_name = "NAME", default_value = "")]
    pub label: String,

    #[command(flatten)]
    pub out: OutFlags,

    /// Write to this file how the run stands, a line a minute and one for each phase
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,

    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

/// `bench origin`.
#[derive(Args, Debug)]
pub struct OriginFlags {
    /// Peak, requests a second
    #[arg(long, value_name = "R", value_parser = positive)]
    pub rate: f64,

    #[command(flatten)]
    pub workload: WorkloadFlags,

    /// Answer other machines, too
    #[arg(long)]
    pub remote: bool,
}

/// `bench report` and `bench compare`.
#[derive(Args, Debug)]
pub struct ReportFlags {
    /// What --json wrote
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,

    #[command(flatten)]
    pub out: OutFlags,
}

#[derive(ValueEnum, Debug, Clone, Copy)]
pub enum PolymixNumber {
    #[value(name = "3")]
    Three,
    #[value(name = "4")]
    Four,
}

#[derive(ValueEnum, Debug, Clone, Copy)]
pub enum HttpVersion {
    #[value(name = "1.0")]
    Zero,
    #[value(name = "1.1")]
    One,
}

impl WorkloadFlags {
    /// By default, the specified network, faster by the same factor as the servers (`think_scale`).
    fn network(&self) -> Network {
        match self.delay {
            Some(delay) => Network::new(delay, self.loss),
            None => Network::new(Network::specified().delay, self.loss).scaled(self.think_scale),
        }
    }

    /// A test without settings for robots.
    fn test(&self, rate: f64, time_scale: f64) -> Test {
        Test {
            sizing: Sizing {
                mix: match self.polymix {
                    PolymixNumber::Three => Mix::Three,
                    PolymixNumber::Four => Mix::Four,
                },
                rate,
                fill_rate: rate,
                cache_bytes: 0,
                time_scale: self.time_scale.unwrap_or(time_scale),
            },
            proxy: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            https: false,
            origin: self.origin,
            spread: !self.one_address,
            robots: None,
            servers: self.servers,
            named: self.names,
            name_server: self.name_server,
            think_scale: self.think_scale,
            network: self.network(),
            robot_addresses: None,
            minor: match self.http {
                HttpVersion::Zero => Minor::Zero,
                HttpVersion::One => Minor::One,
            },
            world: 0,
            seed: self.seed,
            patience: Duration::from_secs(60),
            remote: false,
            only: Vec::new(),
            range_share: 0.0,
            share: Share::WHOLE,
        }
    }
}

impl RobotFlags {
    /// A test at a rate; `time_scale` is the default.
    pub fn test(&self, rate: f64, time_scale: f64) -> Test {
        Test {
            proxy: self.proxy,
            https: self.https,
            robots: self.robots,
            robot_addresses: self.robot_addresses,
            patience: Duration::from_secs_f64(self.patience),
            range_share: self.ranges,
            ..self.workload.test(rate, time_scale)
        }
    }
}

impl OriginFlags {
    /// The test whose servers are run.
    pub fn test(&self) -> Test {
        Test {
            remote: self.remote,
            ..self.workload.test(self.rate, 1.0)
        }
    }
}

impl LoadFlags {
    /// The test, or why the arguments make no sense.
    pub fn test(&self) -> Result<Test, String> {
        let test = self.robot.test(self.rate, 1.0);
        let rate = self.rate;
        let fill_rate = self.fill_rate.unwrap_or(rate);
        if !(rate * 0.1..=rate).contains(&fill_rate) {
            return Err(format!(
                "--fill-rate {fill_rate} is not 10 to 100 % of {rate}"
            ));
        }
        let sizing = Sizing {
            fill_rate,
            cache_bytes: self.cache_size,
            ..test.sizing
        };
        let known: Vec<_> = phases(&sizing).iter().map(|phase| phase.name).collect();
        if let Some(name) = self
            .phases
            .iter()
            .find(|name| !known.contains(&name.as_str()))
        {
            return Err(format!("--phases {name}: they are {}", known.join(", ")));
        }
        Ok(Test {
            sizing,
            world: self.world.unwrap_or_else(new_world),
            only: self.phases.clone(),
            share: self.share.unwrap_or(Share::WHOLE),
            ..test
        })
    }
}

/// Another one each second, so that a proxy that was tested before has none of the objects.
pub(super) fn new_world() -> u32 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(1, |since| {
        u32::try_from(since.as_secs() % (1 << 32)).expect("below 2^32")
    })
}

pub(super) fn size(text: &str) -> Result<u64, String> {
    parse_size(text).ok_or_else(|| "not a size, such as 64MiB or 10GiB".to_owned())
}

pub(super) fn positive(text: &str) -> Result<f64, String> {
    match scale(text)? {
        0.0 => Err("must be above 0".to_owned()),
        number => Ok(number),
    }
}

/// A number, or a fraction of two.
fn scale(text: &str) -> Result<f64, String> {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let value = match text.split_once('/') {
        Some((above, below)) => number(above).zip(number(below)).map(|(a, b)| a / b),
        None => number(text),
    };
    value
        .filter(|value| value.is_finite() && *value >= 0.0)
        .ok_or_else(|| "not a number, such as 0.5 or 1/240".to_owned())
}

/// Packets are lost now and then; of a line that loses half of them nothing can be said.
fn loss(text: &str) -> Result<f64, String> {
    match scale(text)? {
        share if share <= LOSS_MAX => Ok(share),
        _ => Err(format!("must not be above {LOSS_MAX}")),
    }
}

fn delay(text: &str) -> Result<Duration, String> {
    match scale(text)? {
        ms if ms <= DELAY_MS_MAX => Ok(Duration::from_secs_f64(ms / 1e3)),
        _ => Err(format!("must not be above {DELAY_MS_MAX}")),
    }
}

fn share_of_one(text: &str) -> Result<f64, String> {
    let share = scale(text)?;
    if share > 1.0 {
        return Err("must not be above 1".to_owned());
    }
    Ok(share)
}

/// `2/4`
fn share(text: &str) -> Result<Share, String> {
    let numbers = text.split_once('/').and_then(|(part, of)| {
        let part = part.trim().parse().ok()?;
        Some((part, of.trim().parse().ok()?))
    });
    match numbers {
        Some((part, of)) if (1..=SHARES_MAX).contains(&of) && (1..=of).contains(&part) => {
            Ok(Share { part, of })
        }
        _ => Err(format!("not a part, such as 2/4; at most {SHARES_MAX}")),
    }
}

fn proxy_address(text: &str) -> Result<SocketAddr, String> {
    let authority = text
        .strip_prefix("http://")
        .or_else(|| text.strip_prefix("https://"))
        .unwrap_or(text)
        .trim_end_matches('/');
    let mut found = authority.to_socket_addrs().map_err(|e| e.to_string())?;
    found.next().ok_or_else(|| "has no address".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_may_be_fractions() {
        assert_eq!(scale("1/240"), Ok(1.0 / 240.0));
        assert_eq!(scale("0"), Ok(0.0));
        assert!(scale("1/0").is_err() && scale("-1").is_err() && scale("x").is_err());
        assert!(positive("0").is_err());
    }

    #[derive(clap::Parser)]
    struct Typed {
        #[command(flatten)]
        flags: OriginFlags,
    }

    fn typed(arguments: &str) -> Test {
        use clap::Parser as _;
        let words = ["x", "--rate", "100"];
        Typed::parse_from(words.into_iter().chain(arguments.split_whitespace()))
            .flags
            .test()
    }

    #[test]
    fn the_network_is_that_of_the_specification_unless_something_is_said() {
        assert_eq!(typed("").network, Network::specified());
        assert_eq!(typed("--think-scale 0").network, Network::NONE);
        let quick = typed("--think-scale 0.1").network;
        assert_eq!(quick.delay, Duration::from_millis(4));
        let said = typed("--think-scale 0.1 --delay 20 --loss 0").network;
        assert_eq!(said, Network::new(Duration::from_millis(20), 0.0));
        assert!(delay("3000").is_err() && loss("0.6").is_err() && loss("1/2000").is_ok());
    }

    #[test]
    fn there_are_as_many_servers_as_the_rate_asks_for() {
        assert_eq!(typed("--time-scale 1/1440").servers().count, 525);
        assert_eq!(typed("--servers 7").servers().count, 7);
    }

    #[test]
    fn shares_are_parts_of_a_whole() {
        assert_eq!(share("2/4"), Ok(Share { part: 2, of: 4 }));
        for none in ["0/4", "5/4", "1/0", "1", "1/257", "a/b"] {
            assert!(share(none).is_err(), "{none}");
        }
    }

    #[test]
    fn proxies_may_be_urls() {
        let address = SocketAddr::from(([127, 0, 0, 1], 3128));
        for text in [
            "http://127.0.0.1:3128",
            "http://127.0.0.1:3128/",
            "https://127.0.0.1:3128",
            "127.0.0.1:3128",
        ] {
            assert_eq!(proxy_address(text), Ok(address));
        }
        assert!(proxy_address("127.0.0.1").is_err());
    }
}
