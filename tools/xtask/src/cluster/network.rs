//! The network of the members: a namespace each, joined by a bridge; without root, addresses of 127.0.0.0/8.
//!
//! ```text
//! this process: origin, clients ── bridge (.1) ─┬─ veth ─ namespace of the first member (.2)
//!                                               └─ veth ─ namespace of the second (.3) ...
//! ```
//!
//! So every member listens on the same ports, its link can be cut like a pulled cable, and the kernel counts what it
//! sends and receives. Names begin with `lol` and this process's id; the remains of a killed process are removed by
//! the next process that makes a network.
//!
//! Not known here: the programs run in it.   Limits: [`HOSTS_MAX`]; IPv4; nothing is routed beyond the bridge.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::failure::{During, Failure, Result, fail};
use crate::process::CommandLine;

/// Most hosts on a bridge, enough for every test.
const HOSTS_MAX: usize = 64;
/// Second byte of the networks' addresses: 10.213.X.0/24.
const NETWORKS: u8 = 213;

/// Networks and hosts made by this process: their names are not used again.
static MADE: AtomicU32 = AtomicU32::new(0);
static HOSTS: AtomicU32 = AtomicU32::new(0);

/// The hosts of a cluster; dropping it removes them.
#[derive(Debug)]
pub struct Network {
    /// The address at which this process listens: origins, robots.
    pub home: Ipv4Addr,
    /// The address range that members may be configured to allow.
    pub range: String,
    hosts: Vec<Host>,
    bridge: Option<String>,
}

/// The host of one member.
#[derive(Debug, Clone)]
pub struct Host {
    pub address: Ipv4Addr,
    space: Option<Space>,
}

#[derive(Debug, Clone)]
struct Space {
    name: String,
    /// The bridge's end of its cable.
    cable: String,
}

/// Bytes on a member's cable, in both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    pub sent: u64,
    pub received: u64,
}

impl Network {
    /// Makes `count` hosts: namespaces if this is root, else loopback addresses, with a message.
    pub fn make(count: usize) -> Result<Self> {
        assert!(count <= HOSTS_MAX, "{count} hosts");
        if !rustix::process::geteuid().is_root() {
            eprintln!(
                "not root: members share this machine's network, at 127.0.77.x; no link can be cut"
            );
            return Ok(Self::loopback(count));
        }
        sweep();
        match Self::namespaces(count) {
            Ok(network) => Ok(network),
            Err(failure) => {
                eprintln!(
                    "no namespaces here ({failure}): members are at 127.0.77.x; no link can be cut"
                );
                Ok(Self::loopback(count))
            }
        }
    }

    fn loopback(count: usize) -> Self {
        let address = |n| Ipv4Addr::new(127, 0, 77, 2 + n);
        let host = |n| Host {
            address: address(n as u8),
            space: None,
        };
        Self {
            home: Ipv4Addr::new(127, 0, 77, 1),
            range: "127.0.0.0/8".to_owned(),
            hosts: (0..count).map(host).collect(),
            bridge: None,
        }
    }

    fn namespaces(count: usize) -> Result<Self> {
        let (id, nth) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let third = ((id + nth) % 254) as u8;
        let address = |last: u8| Ipv4Addr::new(10, NETWORKS, third, last);
        let bridge = format!("lol{id}b{nth}");
        ip(&["link", "add", &bridge, "type", "bridge"])?;
        let mut network = Self {
            home: address(1),
            range: format!("{}/24", address(0)),
            hosts: Vec::new(),
            bridge: Some(bridge.clone()),
        };
        ip(&[
            "addr",
            "add",
            &format!("{}/24", network.home),
            "dev",
            &bridge,
        ])?;
        ip(&["link", "set", &bridge, "up"])?;
        for n in 0..count {
            let number = HOSTS.fetch_add(1, Ordering::Relaxed);
            let space = Space {
                name: format!("lol{id}-{number}"),
                cable: format!("lol{id}v{number}"),
            };
            let address = address(2 + n as u8);
            // Added to the list before it is complete, so that a failure removes its parts too.
            network.hosts.push(Host {
                address,
                space: Some(space.clone()),
            });
            space.make(address, &bridge)?;
        }
        Ok(network)
    }

    /// The n-th host.
    pub fn host(&self, n: usize) -> &Host {
        &self.hosts[n]
    }

    /// Separates two hosts until the guard is dropped; both still reach all others. A bridge has one group of
    /// isolated ports, so only one pair at a time can be separated.
    pub fn part(&self, one: usize, other: usize) -> Result<Parted> {
        let mut parted = Parted { cables: Vec::new() };
        for host in [one, other] {
            let Some(space) = &self.hosts[host].space else {
                fail!("without namespaces there are no cables");
            };
            isolate(&space.cable, true)?;
            parted.cables.push(space.cable.clone());
        }
        Ok(parted)
    }

    /// Whether cables can be cut.
    pub fn has_cables(&self) -> bool {
        self.bridge.is_some()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in &self.hosts {
            if let Some(space) = &host.space {
                remove_space(&space.name);
            }
        }
        if let Some(bridge) = &self.bridge {
            // The bridge may not exist if it was only half made.
            let _ = ip(&["link", "del", bridge]);
        }
    }
}

impl Space {
    fn make(&self, address: Ipv4Addr, bridge: &str) -> Result<()> {
        let Self { name, cable } = self;
        ip(&["netns", "add", name])?;
        let end = ["type", "veth", "peer", "name", "eth0", "netns", name];
        ip(&[&["link", "add", cable][..], &end].concat())?;
        ip(&["link", "set", cable, "master", bridge, "up"])?;
        ip(&[
            "-n",
            name,
            "addr",
            "add",
            &format!("{address}/24"),
            "dev",
            "eth0",
        ])?;
        ip(&["-n", name, "link", "set", "lo", "up"])?;
        ip(&["-n", name, "link", "set", "eth0", "up"])
    }
}

impl Host {
    /// The command line that runs a program on this host.
    pub fn command(&self, program: &Path, args: &[String]) -> CommandLine {
        let program = program.display().to_string();
        match &self.space {
            None => CommandLine::new(&program, args.iter().cloned()),
            Some(space) => {
                // `ip netns exec` becomes the program, so that its process is the member's.
                let before = ["netns", "exec", &space.name, &program].map(str::to_owned);
                CommandLine::new("ip", before.into_iter().chain(args.iter().cloned()))
            }
        }
    }

    /// Cuts the host's cable until the guard is dropped.
    pub fn cut(&self) -> Result<Cut> {
        let Some(space) = &self.space else {
            fail!("without a namespace there is no cable to pull");
        };
        ip(&["link", "set", &space.cable, "down"])?;
        Ok(Cut {
            cable: space.cable.clone(),
        })
    }

    /// Bytes on its cable so far; 0 without a cable.
    pub fn moved(&self) -> Moved {
        let Some(space) = &self.space else {
            return Moved::default();
        };
        let count = |name: &str| {
            let path = format!("/sys/class/net/{}/statistics/{name}", space.cable);
            let text = fs::read_to_string(path).unwrap_or_default();
            text.trim().parse().unwrap_or(0)
        };
        // Bytes that the bridge's end receives are bytes that the member sent.
        Moved {
            sent: count("rx_bytes"),
            received: count("tx_bytes"),
        }
    }
}

/// A cable that is cut; dropping it restores the cable.
#[derive(Debug)]
pub struct Cut {
    cable: String,
}

impl Drop for Cut {
    fn drop(&mut self) {
        if let Err(failure) = ip(&["link", "set", &self.cable, "up"]) {
            eprintln!("{failure}");
        }
    }
}

/// Two hosts that do not reach each other; dropping it restores the connection.
#[derive(Debug)]
pub struct Parted {
    cables: Vec<String>,
}

impl Drop for Parted {
    fn drop(&mut self) {
        for cable in &self.cables {
            if let Err(failure) = isolate(cable, false) {
                eprintln!("{failure}");
            }
        }
    }
}

/// Isolates a port of the bridge or ends that: isolated ports do not reach each other.
fn isolate(cable: &str, is_isolated: bool) -> Result<()> {
    let word = if is_isolated { "on" } else { "off" };
    let what = ["type", "bridge_slave", "isolated", word];
    ip(&[&["link", "set", "dev", cable][..], &what].concat())
}

fn ip(args: &[&str]) -> Result<()> {
    let output = Command::new("ip")
        .args(args)
        .output()
        .during(|| "running ip".into())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "ip {}: {}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        ))),
    }
}

/// The output of `ip`; empty if it fails.
fn said(args: &[&str]) -> String {
    let output = Command::new("ip").args(args).output();
    output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

/// Kills all processes in a namespace, and removes it with its cable.
fn remove_space(name: &str) {
    for pid in said(&["netns", "pids", name]).split_whitespace() {
        let pid = pid.parse().ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // The process may have ended by itself.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
    // The namespace may not exist if it was only half made.
    let _ = ip(&["netns", "del", name]);
}

/// Removes the remains of processes that have ended.
fn sweep() {
    for line in said(&["netns", "list"]).lines() {
        let name = line.split(' ').next().unwrap_or_default();
        if maker(name).is_some_and(is_gone) {
            remove_space(name);
        }
    }
    for line in said(&["-o", "link", "show"]).lines() {
        // `7: lol1234b0: <BROADCAST ...`, `8: lol1234v0@if2: <BROADCAST ...`
        let name = line.split([':', '@']).nth(1).unwrap_or_default().trim();
        if maker(name).is_some_and(is_gone) {
            let _ = ip(&["link", "del", name]);
        }
    }
}

/// The id of the process that made something of this name.
fn maker(name: &str) -> Option<u32> {
    name.strip_prefix("lol")?
        .split(['-', 'v', 'b'])
        .next()?
        .parse()
        .ok()
}

fn is_gone(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_made_here_is_swept() {
        assert_eq!(maker("lol4711-3"), Some(4711));
        assert_eq!(maker("lol4711"), Some(4711));
        assert_eq!(maker("lol4711v12"), Some(4711));
        assert_eq!(maker("lol4711b0"), Some(4711));
        for other in ["lo", "lolx", "docker0", "my-lol1-2"] {
            assert_eq!(maker(other), None, "{other}");
        }
        assert!(!is_gone(std::process::id()));
    }

    #[test]
    fn without_namespaces_members_are_at_addresses_of_their_own() {
        let network = Network::loopback(3);
        assert_eq!(network.host(2).address, Ipv4Addr::new(127, 0, 77, 4));
        assert!(network.host(0).cut().is_err());
        assert!(network.part(0, 1).is_err());
        let args = ["serve".to_owned()];
        let line = network.host(0).command(Path::new("/bin/p"), &args);
        assert_eq!((line.program.as_str(), line.args.len()), ("/bin/p", 1));
    }
}
