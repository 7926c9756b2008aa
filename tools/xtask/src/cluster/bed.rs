//! A running cluster: its network, its members, the origin behind it.
//!
//! Not known here: the tests run on it.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::crowd::{Crowd, Demand, Door, Object};
use super::disk::Disk;
use super::faults::Fault;
use super::member::{Counts, Member};
use super::network::{Moved, Network};
use super::site::{self, ADMIN, Role, Route, SITE, Shape, Site, Spec};
use crate::block::{Limited, Loop};
use crate::failure::{During, Result, fail};
use crate::http::{self, Client};
use crate::interrupt;
use crate::origin::Origin;
use crate::rivals;
use crate::size::Bytes;
use crate::workspace;

/// Longest time for members to find each other.
const JOINED_MAX: Duration = Duration::from_secs(20);
/// Metric: how many other members a member may send requests to.
const USABLE: &str = "loligo_cluster_members_usable_open";
const FILL_CONNECTIONS: usize = 8;
/// Counts beds, so that each has a directory of its own.
static BEDS: AtomicU32 = AtomicU32::new(0);

/// The cluster to build.
#[derive(Debug, Clone)]
pub struct Plan {
    pub shape: Shape,
    pub route: Route,
    pub fronts: usize,
    pub nodes: usize,
    pub store: Bytes,
    pub memory: Bytes,
    pub front_memory: Bytes,
    /// Whether members have a journal of purges.
    pub has_state: bool,
    /// Whether the last node has a disk of its own, which can be made to hang.
    pub has_disk: bool,
    /// Further lines of `[cluster]`.
    pub extra: Vec<String>,
    /// How many of the last nodes are not started.
    pub absent: usize,
}

/// A running cluster; dropping it stops and removes everything.
pub struct Bed {
    // In this order: processes end before their namespaces and disks are removed, and those before the directory.
    pub members: Vec<Member>,
    pub origin: Origin,
    pub network: Network,
    pub site: Site,
    /// The disk of the last node.
    disk: Option<Disk>,
    _dir: Dir,
}

/// CPU time of the members and bytes moved so far.
#[derive(Debug, Clone)]
pub struct Costs {
    pub cpu: Duration,
    pub moved: Moved,
}

#[derive(Debug)]
struct Dir(PathBuf);

impl Drop for Dir {
    fn drop(&mut self) {
        // Configurations and logs stay until the next run; stores are removed.
        let files = fs::read_dir(&self.0).into_iter().flatten().flatten();
        for file in files.map(|entry| entry.path()) {
            if file.extension().is_some_and(|it| it == "store") {
                // A store that remains only takes space.
                let _ = fs::remove_file(file);
            }
        }
    }
}

impl Plan {
    /// Adds what this fault needs, where the machine has it.
    pub fn for_fault(&self, fault: Fault) -> Self {
        Self {
            has_disk: fault == Fault::Disk && Loop::can_be_limited().is_ok(),
            ..self.clone()
        }
    }
}

impl Bed {
    /// Builds the cluster, starts all members but the absent ones, and waits until they are linked.
    pub fn build(plan: &Plan) -> Result<Self> {
        let roles = site::roles(plan.shape, plan.route, plan.fronts, plan.nodes);
        let network = Network::make(roles.len())?;
        let origin = Origin::start_at(SocketAddr::from((network.home, 0)), 1)?;
        let nth = BEDS.fetch_add(1, Ordering::Relaxed);
        let name = format!("cluster/{}-{nth}", std::process::id());
        let dir = workspace::run_dir().join(name);
        fs::create_dir_all(&dir).during(|| format!("making {}", dir.display()))?;
        let last = roles.last().filter(|(_, role)| role.has_store());
        let disk = match last.filter(|_| plan.has_disk) {
            Some((name, _)) => Some(Disk::make(&dir, name, plan.store)?),
            None => None,
        };
        let count = roles.len();
        let specs = roles.into_iter().enumerate().map(|(n, (name, role))| Spec {
            home: match disk.is_some() && n + 1 == count {
                true => Disk::dir(&dir, &name),
                false => dir.clone(),
            },
            name,
            role,
            address: network.host(n).address,
        });
        let site = Site {
            dir: dir.clone(),
            origin: origin.address(),
            range: network.range.clone(),
            specs: specs.collect(),
            route: plan.route,
            store: plan.store,
            memory: plan.memory,
            front_memory: plan.front_memory,
            has_state: plan.has_state,
            extra: plan.extra.clone(),
        };
        site.write()?;
        let members = site
            .specs
            .iter()
            .enumerate()
            .map(|(n, spec)| member(&site, spec, &network, n))
            .collect::<Result<_>>()?;
        let mut bed = Self {
            members,
            origin,
            network,
            site,
            disk,
            _dir: Dir(dir),
        };
        bed.start(plan.absent)?;
        Ok(bed)
    }

    fn start(&mut self, absent: usize) -> Result<()> {
        let started = self.members.len() - absent;
        for member in &mut self.members[..started] {
            member.launch()?;
        }
        for member in &mut self.members[..started] {
            member.await_ready()?;
        }
        self.await_joined()?;
        self.await_caching()
    }

    /// Waits until all running members know that all others are running.
    pub fn await_joined(&self) -> Result<()> {
        if self.site.shape().is_none() {
            return Ok(());
        }
        let running: Vec<&Member> = self
            .members
            .iter()
            .filter(|member| member.is_running())
            .collect();
        let others = running.len() as f64 - 1.0;
        let knows_all = |member: &&Member| {
            let counts = member.counts();
            // A build without this metric is not waited for; then the test may begin too early.
            counts.is_ok_and(|counts| !counts.has(USABLE) || counts.sum(USABLE, &[]) >= others)
        };
        match interrupt::wait_until(JOINED_MAX, || running.iter().all(knows_all))? {
            true => Ok(()),
            false => fail!(
                "the members do not find each other within {} s: see the logs in {}",
                JOINED_MAX.as_secs(),
                self.site.dir.display()
            ),
        }
    }

    /// Waits until every door answers from the cache an object that was requested once.
    pub fn await_caching(&self) -> Result<()> {
        let mut nth = 0;
        for door in self.doors() {
            let mut client = Client::new(door.site);
            let has_cached = interrupt::wait_until(JOINED_MAX, || {
                nth += 1;
                let path = crate::origin::path(1000, &format!("probe-{nth}-{}", door.site));
                let before = self.origin.served();
                let asked = |client: &mut Client| matches!(client.get(&path), Ok(answer) if answer.status == 200);
                let first = asked(&mut client);
                // Wait for a push that may be in flight.
                std::thread::sleep(Duration::from_millis(100));
                first && asked(&mut client) && self.origin.served() == before + 1
            })?;
            if !has_cached {
                fail!(
                    "what is asked for twice at {} is not had from a cache",
                    door.site
                );
            }
        }
        Ok(())
    }

    /// The addresses for clients, of running members only.
    pub fn doors(&self) -> Vec<Door> {
        let doors = self
            .members
            .iter()
            .filter(|member| member.is_running() && member.spec.role.is_door());
        doors
            .map(|member| Door {
                site: member.at(SITE),
                admin: (member.spec.role != Role::Balancer).then(|| member.at(ADMIN)),
            })
            .collect()
    }

    /// Whether the last node's disk can be made to hang.
    pub fn has_disk(&self) -> bool {
        self.disk.is_some()
    }

    /// Makes the disk of the last node hang until the guard is dropped.
    pub fn hang(&self) -> Result<Limited> {
        match &self.disk {
            Some(disk) => disk.hang(),
            None => fail!("no member has a disk of its own"),
        }
    }

    /// The indices of members with a store.
    pub fn nodes(&self) -> Vec<usize> {
        let all = self.members.iter().enumerate();
        all.filter(|(_, member)| member.spec.role.has_store())
            .map(|(n, _)| n)
            .collect()
    }

    /// Requests each object of a crowd's repeated ones once, so that the hit ratio is steady from the start.
    pub fn fill(&self, demand: Demand) -> Result<()> {
        let doors = self.doors();
        let object = |n: u64| Object::of(format!("o{n}"), n, demand.body_bytes);
        for (nth, door) in doors.iter().enumerate() {
            let share = |n: u64| object(n * doors.len() as u64 + nth as u64);
            let count = demand.objects / doors.len() as u64;
            let is_right = |n: u64, answer: &http::Answer| share(n).is_right(answer);
            http::load(
                door.site,
                "filling",
                count,
                FILL_CONNECTIONS,
                |n| share(n).path,
                is_right,
            )?;
        }
        Ok(())
    }

    /// Starts clients at all doors.
    pub fn crowd(&self, demand: Demand) -> Result<Crowd> {
        Crowd::start(demand, self.doors(), &self.origin)
    }

    /// The costs so far.
    pub fn costs(&self) -> Costs {
        let mut costs = Costs {
            cpu: Duration::ZERO,
            moved: Moved::default(),
        };
        for member in &self.members {
            costs.cpu += member.cpu();
            let moved = member.host.moved();
            costs.moved.sent += moved.sent;
            costs.moved.received += moved.received;
        }
        costs
    }

    /// The metrics of every running member, in order.
    pub fn counts(&self) -> Result<Vec<Counts>> {
        let of = |member: &Member| match member.is_running() {
            true => member.counts(),
            false => Ok(Counts::default()),
        };
        self.members.iter().map(of).collect()
    }

    /// An error with the end of its log if a member has ended by itself.
    pub fn check_alive(&mut self) -> Result<()> {
        self.members.iter_mut().try_for_each(Member::check_alive)
    }
}

fn member(site: &Site, spec: &Spec, network: &Network, n: usize) -> Result<Member> {
    let configuration = site.configuration(spec).display().to_string();
    let (program, args): (PathBuf, Vec<String>) = match spec.role {
        Role::Balancer => match workspace::program("haproxy") {
            Some(haproxy) => (
                haproxy,
                ["-db", "-f", &configuration].map(Into::into).into(),
            ),
            None => fail!("haproxy is not installed"),
        },
        Role::Front => (
            rivals::loligo_binary(),
            ["accelerate", "-c", &configuration].map(Into::into).into(),
        ),
        Role::Node | Role::Equal => (
            rivals::loligo_binary(),
            ["serve", "-c", &configuration].map(Into::into).into(),
        ),
    };
    let host = network.host(n).clone();
    let command = host.command(Path::new(&program), &args);
    let log = site.dir.join(format!("{}.log", spec.name));
    Ok(Member::new(spec.clone(), host, command, log))
}
