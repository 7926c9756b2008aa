//! Runs one test: servers on their own thread, robots on the caller's, phase after phase.
//!
//! The two halves may run on separate machines: [`origin`] on one, [`robots()`] on the other, with the same `Test`.
//!
//! The number of servers is the specified one, however short the test. In a small test many of their lists are still empty, so there is
//! no old object to repeat; the report says so.
//!
//! If one process has too few descriptors or too little CPU, several processes take a `Share` of the robots each; their reports are
//! joined (`Report::joined`).
//!
//! Not known here: the command line.   Limits: one thread for each half; 256 parts.   Source: spec sections 3, 6 and 8.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::LocalSet;

use crate::dns;
use crate::lru::HEAD_BYTES;
use crate::name::{SERVERS_MAX, Servers, nth_address};
use crate::network::Network;
use crate::phases::{Ends, Phase, Sizing, phases};
use crate::report::{About, Parts, Plan, Report};
use crate::robots::{self, News, Progress, robots_for};
use crate::server::{self, Counters};
use crate::wire::Minor;

/// The worlds of a run's parts are 2^24 apart, so that they do not overlap with runs that begin seconds later.
const WORLD_STEP: u32 = 24;

/// Descriptor limit assumed if the kernel does not tell it.
const FILES_ASSUMED: u64 = 1_024;

/// The settings of a test.
#[derive(Debug, Clone)]
pub struct Test {
    /// Load, sizes and lengths.
    pub sizing: Sizing,
    /// The proxy.
    pub proxy: SocketAddr,
    /// Robots speak TLS to it.
    pub https: bool,
    /// First address of the servers.
    pub origin: SocketAddrV4,
    /// Each server has an address of its own.
    pub spread: bool,
    /// Number of robots; by default as many as the rate needs. Fewer robots are faster, and need fewer connections.
    pub robots: Option<u32>,
    /// Number of servers; by default as many as specified.
    pub servers: Option<u32>,
    /// URLs have the servers' names, not addresses.
    pub named: bool,
    /// Address of the name server for the servers' names, if there is one.
    pub name_server: Option<SocketAddr>,
    /// 1 is the specified think time.
    pub think_scale: f64,
    /// Delay and loss on the servers' side.
    pub network: Network,
    /// First address of the robots, if each has its own.
    pub robot_addresses: Option<Ipv4Addr>,
    /// HTTP/1.0, as specified, or 1.1.
    pub minor: Minor,
    /// Identifies the objects of this test. With those of an earlier test, the proxy would hit too often.
    pub world: u32,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Longest wait for an answer.
    pub patience: Duration,
    /// Servers also answer clients on other machines.
    pub remote: bool,
    /// Only phases with these names; all, if empty.
    pub only: Vec<String>,
    /// Share of plain requests that ask for a range. PolyMix has none.
    pub range_share: f64,
    /// The part of the robots that this process runs. All other settings are of the whole test.
    pub share: Share,
}

/// A part of the robots, for one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Number of this part, from 1 on.
    pub part: u32,
    /// How many parts there are.
    pub of: u32,
}

impl Share {
    /// All robots in one process.
    pub const WHOLE: Self = Self { part: 1, of: 1 };

    /// How many of `all` are in the parts before this one.
    fn before(self, all: u32) -> u32 {
        let share = u64::from(all) * u64::from(self.part - 1) / u64::from(self.of);
        u32::try_from(share).expect("at most all")
    }

    /// How many of `all` are in this part.
    fn count(self, all: u32) -> u32 {
        let next = Self {
            part: self.part + 1,
            ..self
        };
        next.before(all) - self.before(all)
    }
}

/// Number of servers for a rate. It does not depend on robots being fewer and faster.
#[must_use]
pub fn servers_for(rate: f64) -> u32 {
    //= spec section 3   500 + 0.1 x robots
    (500 + robots_for(rate).div_ceil(10)).min(SERVERS_MAX)
}

impl Test {
    /// The servers of this test.
    #[must_use]
    pub fn servers(&self) -> Servers {
        Servers {
            first: self.origin,
            count: self
                .servers
                .unwrap_or_else(|| servers_for(self.sizing.rate)),
            spread: self.spread,
            named: self.named,
        }
    }

    fn robot_count(&self) -> u32 {
        self.robots.unwrap_or_else(|| robots_for(self.sizing.rate))
    }

    /// The sizing of this part of the robots.
    fn sizing(&self) -> Sizing {
        let of = f64::from(self.share.of);
        Sizing {
            rate: self.sizing.rate / of,
            fill_rate: self.sizing.fill_rate / of,
            cache_bytes: self.sizing.cache_bytes / u64::from(self.share.of),
            ..self.sizing
        }
    }

    fn phases(&self) -> Vec<Phase> {
        let mut all = phases(&self.sizing());
        if !self.only.is_empty() {
            all.retain(|phase| self.only.iter().any(|name| name == phase.name));
        }
        all
    }

    /// Planned and longest duration.
    #[must_use]
    pub fn lasts(&self) -> (Duration, Duration) {
        let phases = self.phases();
        let planned = phases.iter().map(|phase| match phase.ends {
            Ends::Filled { planned_s, .. } => planned_s,
            Ends::After(_) | Ends::ServersSeen(_) => phase.length_s(),
        });
        let at_most = phases.iter().map(Phase::length_s).sum();
        (
            Duration::from_secs_f64(planned.sum()),
            Duration::from_secs_f64(at_most),
        )
    }

    fn robots(&self, servers: Servers, with_origin: bool) -> robots::Settings {
        let all = self.robot_count();
        let first = self.share.before(all);
        robots::Settings {
            mix: self.sizing.mix,
            proxy: self.proxy,
            https: self.https,
            servers,
            robots: self.share.count(all).max(1),
            speed: f64::from(robots_for(self.sizing.rate)) / f64::from(all),
            addresses: self.robot_addresses.map(|a| nth_address(a, first)),
            world: self.world.wrapping_add((self.share.part - 1) << WORLD_STEP),
            seed: self.seed ^ u64::from(self.share.part - 1) << 32,
            minor: self.minor,
            life_scale: self.sizing.time_scale,
            range_share: self.range_share,
            cache_bytes: self.sizing().cache_bytes,
            working_set_fills: self.sizing().working_set_fills(),
            patience: self.patience,
            sockets_max: sockets_max(with_origin),
            kept_max: kept_max(with_origin),
        }
    }

    fn http(&self) -> &'static str {
        match self.minor {
            Minor::Zero => "1.0",
            Minor::One => "1.1",
        }
    }

    fn plan(&self, servers: &Servers) -> Plan {
        Plan {
            mix: self.sizing.mix,
            rate: self.sizing.rate,
            fill_rate: self.sizing.fill_rate,
            cache_bytes: self.sizing.cache_bytes,
            time_scale: self.sizing.time_scale,
            think_scale: self.think_scale,
            delay_ms: self.network.delay.as_secs_f64() * 1e3,
            loss: self.network.loss,
            named: self.named,
            one_address: !self.spread,
            http: self.http().to_owned(),
            https: self.https,
            only: self.only.clone(),
            range_share: self.range_share,
            robots: self.robot_count(),
            servers: servers.count,
            world: self.world,
            seed: self.seed,
        }
    }

    /// The settings of its servers.
    #[must_use]
    pub fn server(&self) -> server::Settings {
        server::Settings {
            mix: self.sizing.mix,
            think_scale: self.think_scale,
            network: self.network,
            life_scale: self.sizing.time_scale,
            minor: self.minor,
            seed: self.seed ^ 0x05EE_D0F5,
            remote: self.remote,
            clock_shift_s: 0,
        }
    }

    fn setup(&self, servers: &Servers) -> BTreeMap<String, String> {
        let sizing = &self.sizing;
        let spread = if servers.spread { "" } else { ", one address" };
        let named = if servers.named { ", with names" } else { "" };
        [
            ("workload", sizing.mix.to_string()),
            ("proxy", self.proxy.to_string()),
            (
                "rate",
                format!(
                    "{} requests/s, {} in the fill",
                    sizing.rate, sizing.fill_rate
                ),
            ),
            (
                "cache",
                format!(
                    "{} (an LRU of that size: each object its body and {HEAD_BYTES} bytes)",
                    size_text(sizing.cache_bytes)
                ),
            ),
            ("time scale", scale_text(sizing.time_scale)),
            ("think scale", format!("{} (1 is 2.5 s)", self.think_scale)),
            (
                "robots",
                format!(
                    "{}, {:.2} requests/s each (specified: 0.4)",
                    self.robot_count(),
                    sizing.rate / f64::from(self.robot_count())
                ),
            ),
            (
                "servers",
                format!("{} from {}{spread}{named}", servers.count, servers.first),
            ),
            (
                "freeze after",
                format!("{} fills", sizing.working_set_fills()),
            ),
            (
                "parts",
                match self.share {
                    Share::WHOLE => "one process".to_owned(),
                    Share { part, of } => format!("part {part} of {of}"),
                },
            ),
            (
                "ranges",
                format!("{} of plain requests (PolyMix: 0)", self.range_share),
            ),
            (
                "HTTP",
                match self.https {
                    true => format!("{}, over TLS to the proxy", self.http()),
                    false => self.http().to_owned(),
                },
            ),
            (
                "network",
                format!(
                    "{} ms of delay, {} % of packets lost, each way between proxy and servers",
                    self.network.delay.as_secs_f64() * 1e3,
                    self.network.loss * 100.0
                ),
            ),
            ("world, seed", format!("{:08x}, {}", self.world, self.seed)),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }
}

/// What the caller is told during a run.
#[derive(Debug, Clone, Copy)]
pub enum Watched<'a> {
    /// The state, once a second.
    Standing(&'a Progress),
    /// A phase is over, but not the last; the report so far.
    PhaseOver(&'a Report),
}

/// Runs both halves on this machine.
///
/// # Errors
/// If the servers' address cannot be bound.
pub fn polymix(test: &Test, progress: impl FnMut(Watched<'_>)) -> io::Result<Report> {
    let origin = Origin::start(test.servers(), test.server(), test.name_server)?;
    let mut servers = test.servers();
    servers.first.set_port(origin.address.port());
    run_robots(test, servers, Some(&origin.counters), progress)
}

/// Runs the robots alone; the servers are elsewhere.
///
/// # Errors
/// If no runtime can be made.
pub fn robots(test: &Test, progress: impl FnMut(Watched<'_>)) -> io::Result<Report> {
    run_robots(test, test.servers(), None, progress)
}

/// Runs the servers alone, until `stop` is done.
///
/// # Errors
/// If their address cannot be bound.
pub fn origin(test: &Test, stop: impl Future<Output = ()>) -> io::Result<()> {
    let counters = Arc::new(Counters::default());
    let local = LocalSet::new();
    local.block_on(&runtime()?, async {
        let listener = begin(test.servers(), test.name_server).await?;
        tokio::select! {
            () = server::serve(listener, test.server(), counters) => {}
            () = stop => {}
        }
        Ok(())
    })
}

fn run_robots(
    test: &Test,
    servers: Servers,
    origin: Option<&Counters>,
    mut progress: impl FnMut(Watched<'_>),
) -> io::Result<Report> {
    let local = LocalSet::new();
    let phases = test.phases();
    #[allow(clippy::cast_precision_loss)] // milliseconds of this century
    let about = About {
        setup: test.setup(&servers),
        plan: test.plan(&servers),
        parts: Parts {
            here: vec![test.share.part],
            of: test.share.of,
        },
        began_s: server::now_ms() as f64 / 1e3,
    };
    let run = robots::run(
        test.robots(servers, origin.is_some()),
        &phases,
        origin,
        |news| match news {
            News::Standing(standing) => progress(Watched::Standing(standing)),
            News::PhaseOver(outcome) => {
                progress(Watched::PhaseOver(&Report::new(about.clone(), outcome)));
            }
        },
    );
    let outcome = local.block_on(&runtime()?, run);
    Ok(Report::new(about, &outcome))
}

/// Connections of robots that may be kept. With 20,000 descriptors and the specified think time, this limits the rate.
fn kept_max(with_origin: bool) -> u64 {
    // The rest is for bursts (a page has up to 13 images, a proxy may stall), and for the servers if they are in this process.
    if with_origin {
        files_max() / 3
    } else {
        files_max() / 2
    }
}

/// All connections that robots may have; the other descriptors are for servers and files.
fn sockets_max(with_origin: bool) -> u64 {
    let files = files_max() - files_max() / 20;
    if with_origin { files / 2 } else { files }
}

/// Number of files that this process may open.
fn files_max() -> u64 {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let files = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"));
    let soft = files.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    soft.unwrap_or(FILES_ASSUMED)
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

/// If servers have their own addresses, one listener on all addresses serves them all.
fn listen_address(servers: &Servers) -> SocketAddrV4 {
    if servers.spread {
        SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, servers.first.port())
    } else {
        servers.first
    }
}

/// Binds the servers' listener, and starts the name server if there is one.
async fn begin(servers: Servers, name_server: Option<SocketAddr>) -> io::Result<TcpListener> {
    let listener = server::listen(listen_address(&servers))?;
    if let Some(address) = name_server {
        let socket = dns::listen(address).await?;
        tokio::task::spawn_local(dns::serve(socket, servers));
    }
    Ok(listener)
}

/// Servers on their own thread, until dropped.
#[derive(Debug)]
pub struct Origin {
    /// The address of the listener.
    pub address: SocketAddr,
    /// The servers' counters.
    pub counters: Arc<Counters>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Origin {
    /// Starts the servers.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub fn start(
        servers: Servers,
        settings: server::Settings,
        name_server: Option<SocketAddr>,
    ) -> io::Result<Self> {
        let counters = Arc::new(Counters::default());
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = mpsc::channel();
        let theirs = Arc::clone(&counters);
        let runtime = runtime()?;
        let serve = move || {
            LocalSet::new().block_on(&runtime, async move {
                let listener = match begin(servers, name_server).await {
                    Ok(listener) => listener,
                    Err(e) => {
                        let _ = tell.send(Err(e));
                        return;
                    }
                };
                let _ = tell.send(listener.local_addr());
                tokio::task::spawn_local(Arc::clone(&theirs).watch_cpu());
                tokio::select! {
                    () = server::serve(listener, settings, theirs) => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = std::thread::Builder::new()
            .name("origin".to_owned())
            .spawn(serve)?;
        let address = told.recv().map_err(|_| io::ErrorKind::Other)??;
        Ok(Self {
            address,
            counters,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A size with its unit, such as `40 MiB`; in bytes if no unit divides it.
pub(crate) fn size_text(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = UNITS
        .iter()
        .find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    unit.map_or_else(
        || format!("{bytes} bytes"),
        |(unit, name)| format!("{} {name}", bytes / unit),
    )
}

/// A scale as a fraction if it is one: `1/240` rather than 0.004166666666666667.
pub(crate) fn scale_text(scale: f64) -> String {
    let parts = (1.0 / scale).round();
    if parts > 1.0 && (parts * scale - 1.0).abs() < 1e-9 {
        format!("1/{parts}")
    } else {
        scale.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_all_robots_once() {
        for (all, of) in [(250, 3), (7, 7), (1000, 1), (10, 4)] {
            let shares = (1..=of).map(|part| Share { part, of });
            assert_eq!(shares.clone().map(|s| s.count(all)).sum::<u32>(), all);
            for share in shares {
                assert!(share.count(all).abs_diff(all / of) <= 1);
            }
        }
    }

    #[test]
    fn settings_read_as_they_were_typed() {
        assert_eq!(size_text(40 << 20), "40 MiB");
        assert_eq!(size_text(1001), "1001 bytes");
        assert_eq!(scale_text(1.0 / 1440.0), "1/1440");
        assert_eq!(scale_text(1.0), "1");
        assert_eq!(scale_text(0.3), "0.3");
    }
}
