//! Starting a server, waiting for it, measuring it, stopping it.
//!
//! [`launch`] carries a plan out and returns when the server answers. From the first step on, an error drops the
//! [`Running`], which undoes all steps so far. A server can be halted and started again on its stored data
//! ([`Running::halt`], [`Running::start_again`]), without preparation or clean-up in between.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::front::{Certificate, Front, KeyKind, Protocol};
use super::record::{self, Record};
use super::{Plan, Rival, Setup};
use crate::block::Mounted;
use crate::failure::{During, Failure, Result, fail};
use crate::http::Client;
use crate::interrupt;
use crate::origin::{self, Origin};
use crate::ports;
use crate::process::{CommandLine, Identity, Server, tail};
use crate::procfs;
use crate::size::Bytes;

/// How long a server may take to begin answering (Squid makes its directories in this time).
const READY_MAX: Duration = Duration::from_secs(60);
/// How long it may take from answering to caching.
const CACHING_MAX: Duration = Duration::from_secs(20);
/// How long a halted server may take to write its state.
const HALT_MAX: Duration = Duration::from_secs(60);

/// What a caller of [`launch`] chooses; the rest of the [`Setup`] follows.
#[derive(Debug, Clone)]
pub struct Request {
    /// names the run directory; two servers cannot have one label
    pub label: String,
    /// 0: any free port
    pub port: u16,
    pub origin: SocketAddr,
    pub cache: Bytes,
    pub memory: Bytes,
    pub logs: bool,
    pub profile: bool,
    pub workers: u32,
    pub place: Place,
    /// Further arguments of Loligo, or further lines of Squid's configuration.
    pub extra: Vec<String>,
    /// The protocol of [`Running::front`]; `None`: there is no such listener.
    pub front: Option<Protocol>,
    /// The kind of key of the front's certificate.
    pub key: KeyKind,
    /// Lines of Loligo's `[limits]`, if there is a front.
    pub limits: String,
    /// Lines of Loligo's `[[listener]]`, without its address, in place of a listener that sends all requests to the origin.
    pub listener: Option<String>,
}

impl Request {
    /// A server of two workers with small caches in the run's own directory, on a free port.
    pub fn of(label: impl Into<String>, origin: SocketAddr) -> Self {
        Self {
            label: label.into(),
            port: 0,
            origin,
            cache: Bytes(512 << 20),
            memory: Bytes(64 << 20),
            logs: false,
            profile: false,
            workers: 2,
            place: Place::RunDir,
            extra: Vec::new(),
            front: None,
            key: KeyKind::default(),
            limits: String::new(),
            listener: None,
        }
    }
}

/// Where the cache lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In the run directory; removed when the server is stopped.
    RunDir,
    /// In a folder of this directory; left there.
    Dir(PathBuf),
    /// On this block device, all of it. The caller has checked that it is expendable.
    Device(PathBuf),
}

/// How a server is made to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halt {
    /// SIGTERM, then a wait of up to [`HALT_MAX`].
    Clean,
    /// SIGKILL to all its processes.
    Kill,
}

/// A server that answers. Dropping it stops it, unless [`Running::leave`] was called.
#[derive(Debug)]
pub struct Running {
    pub rival: Rival,
    pub address: SocketAddr,
    pub admin: SocketAddr,
    /// The listener for clients that do not speak plain HTTP/1.1.
    pub front: Option<Front>,
    pub run: PathBuf,
    pub data: PathBuf,
    record: Record,
    servers: Vec<Server>,
    /// How `servers` were started.
    commands: Vec<CommandLine>,
    armed: bool,
}

/// Starts a server and waits until it answers.
pub fn launch(rival: Rival, request: &Request) -> Result<Running> {
    if !rival.is_installed() {
        fail!("{} is not installed", rival.name());
    }
    let run = record::directory(&request.label);
    if let Some(old) = Record::read(&run)? {
        if old.is_alive() {
            fail!(
                "{} runs already, on {}; stop it first",
                request.label,
                old.address
            );
        }
        old.undo()?;
    }
    if run.exists() {
        fs::remove_dir_all(&run).during(|| format!("clearing {}", run.display()))?;
    }
    fs::create_dir_all(&run).during(|| format!("making {}", run.display()))?;

    let port = match request.port {
        0 => ports::free()?,
        port => port,
    };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free()?));
    let mut running = Running {
        rival,
        address,
        admin,
        front: None,
        data: run.join("data"),
        record: Record::new(rival.name(), &request.label, address),
        run,
        servers: Vec::new(),
        commands: Vec::new(),
        armed: true,
    };
    let mut device = None;
    match &request.place {
        Place::RunDir => running.record.remove = Some(running.data.clone()),
        Place::Dir(dir) => running.data = dir.join(&request.label),
        Place::Device(raw) if rival.takes_device() => device = Some(raw.clone()),
        Place::Device(raw) => {
            let mounted = Mounted::fresh(raw, &running.run.join("mount"))?.keep();
            running.data = mounted.join("data");
            running.record.mounted = Some(mounted);
            running.record.write(&running.run)?;
        }
    }
    if let Some(protocol) = request.front {
        let certificate = Certificate::of(&running.run);
        certificate.make(request.key)?;
        running.front = Some(Front {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free()?)),
            protocol,
            certificate,
        });
    }
    let setup = Setup {
        address,
        admin,
        origin: request.origin,
        run: running.run.clone(),
        data: running.data.clone(),
        device,
        cache: request.cache,
        memory: request.memory,
        logs: request.logs,
        profile: request.profile,
        workers: request.workers,
        as_root: rustix::process::geteuid().is_root(),
        extra: request.extra.clone(),
        front: running.front.clone(),
        limits: request.limits.clone(),
        listener: request.listener.clone(),
    };
    running.carry_out(rival.plan(&setup))?;
    Ok(running)
}

impl Running {
    /// From here on an error drops `self`, which undoes what has been done.
    fn carry_out(&mut self, plan: Plan) -> Result<()> {
        self.record.shared_memory.clone_from(&plan.shared_memory);
        for dir in plan.dirs.iter().chain([&self.data]) {
            fs::create_dir_all(dir).during(|| format!("making {}", dir.display()))?;
        }
        for (path, text) in &plan.files {
            fs::write(path, text).during(|| format!("writing {}", path.display()))?;
        }
        for (to, name) in &plan.links {
            std::os::unix::fs::symlink(to, name)
                .during(|| format!("linking {}", name.display()))?;
        }
        if let Some(owner) = plan.owner {
            for dir in [&self.run, &self.data] {
                crate::block::tool("chown", &["-R", owner, &dir.to_string_lossy()])?;
            }
        }
        let output = self.run.join("output.log");
        for command in &plan.prepare {
            command.run(&output)?;
        }
        self.commands.clone_from(&plan.servers);
        for command in &plan.servers {
            self.spawn(command)?;
            self.await_port(&output)?;
        }
        if let Some((log, says)) = &plan.ready_log {
            let ready = || fs::read_to_string(log).is_ok_and(|text| text.contains(says));
            if !interrupt::wait_until(READY_MAX, ready)? {
                return Err(self.failure("never said that it was ready", log));
            }
        }
        Ok(())
    }

    fn spawn(&mut self, command: &CommandLine) -> Result<()> {
        self.servers
            .push(command.spawn(&self.run.join("output.log"))?);
        self.record.servers = self.servers.iter().map(Server::identity).collect();
        self.record.write(&self.run)
    }

    /// Waits until the server listens. Another server on the same port is an error, since it would be measured in its place.
    fn await_port(&mut self, output: &Path) -> Result<()> {
        let (address, roots) = (self.address, self.roots());
        let (mut ended, mut answers) = (false, false);
        let servers = &mut self.servers;
        let listens = interrupt::wait_until(READY_MAX, || {
            ended = servers.iter_mut().any(Server::has_ended);
            answers = TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok();
            ended || answers && procfs::listens(&roots, address.port())
        })?;
        match (ended, listens) {
            (true, _) if answers => {
                let why = format!("ended at once; another process listens on {address}");
                Err(self.failure(&why, output))
            }
            (true, _) => Err(self.failure("ended at once", output)),
            (false, false) if answers => {
                let why = format!("does not listen, but another process does on {address}");
                Err(self.failure(&why, output))
            }
            (false, false) => Err(self.failure("does not listen", output)),
            (false, true) => Ok(()),
        }
    }

    fn failure(&self, what: &str, log: &Path) -> Failure {
        Failure::new(format!("{} {what}{}", self.rival.name(), tail(log)))
    }

    /// The processes it consists of, without their descendants.
    pub fn roots(&self) -> Vec<u32> {
        self.servers.iter().map(|s| s.identity().pid).collect()
    }

    /// CPU time of all its processes so far.
    pub fn cpu(&self) -> Duration {
        procfs::cpu(&self.roots())
    }

    /// Resident memory of all its processes.
    pub fn resident_bytes(&self) -> u64 {
        procfs::resident_bytes(&self.roots())
    }

    /// Waits until the cache works: an object requested twice is fetched from the origin once. An error if that never happens.
    pub fn await_caching(&self, origin: &Origin) -> Result<()> {
        let mut client = Client::new(self.address);
        let mut n = 0;
        let mut trouble = None;
        let mut caches = || {
            n += 1;
            let id = format!("probe-{}-{n}", self.address.port());
            let before = origin.served();
            for _ in 0..3 {
                match client.get(&origin::path(1000, &id)) {
                    Ok(answer)
                        if answer.status == 200
                            && answer.body.len() == 1000
                            && origin::is_body_of(&answer.body, &id) => {}
                    Ok(answer) => {
                        trouble = Some(Failure::new(format!("status {}", answer.status)));
                        return false;
                    }
                    Err(failure) => {
                        trouble = Some(failure);
                        return false;
                    }
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            // One fetch for the first request; the second request may have come before the first response was stored.
            origin.served() - before <= 2
        };
        if interrupt::wait_until(CACHING_MAX, &mut caches)? {
            return Ok(());
        }
        match trouble {
            Some(failure) => fail!("{} does not answer well: {failure}", self.rival.name()),
            None => fail!("{} does not cache", self.rival.name()),
        }
    }

    /// Ends all its processes and keeps its stored data. Returns how long that took.
    pub fn halt(&mut self, halt: Halt) -> Result<Duration> {
        let begun = Instant::now();
        let family: Vec<Identity> = procfs::family(&self.roots())
            .iter()
            .map(|s| Identity {
                pid: s.pid,
                start_ticks: s.start_ticks,
            })
            .collect();
        match halt {
            Halt::Clean => {
                for server in self.servers.iter().rev() {
                    server.identity().signal(Signal::TERM);
                }
            }
            // Parents come first in a family, so no parent can start a killed child again.
            Halt::Kill => family.iter().for_each(|i| i.signal(Signal::KILL)),
        }
        let servers = &mut self.servers;
        let ended = interrupt::wait_until(HALT_MAX, || {
            // Check all processes each time, since the check also collects exit statuses.
            let running = servers
                .iter_mut()
                .filter_map(|s| (!s.has_ended()).then_some(()));
            running.count() == 0 && !family.iter().any(Identity::is_alive)
        })?;
        if !ended {
            return Err(self.failure("does not end", &self.run.join("output.log")));
        }
        self.servers.clear();
        Ok(begun.elapsed())
    }

    /// Starts the server again after [`Self::halt`], on its stored data, and does not wait for it. Returns the moment before
    /// its process was made.
    pub fn start_again(&mut self) -> Result<Instant> {
        assert!(self.servers.is_empty(), "halted before it is started again");
        let begun = Instant::now();
        for command in self.commands.clone() {
            self.spawn(&command)?;
        }
        Ok(begun)
    }

    /// An error, with its last words, if one of its processes has ended by itself.
    pub fn check_alive(&mut self) -> Result<()> {
        if self.servers.iter_mut().any(Server::has_ended) {
            return Err(self.failure("has ended", &self.run.join("output.log")));
        }
        Ok(())
    }

    /// Lets the server run on after this process ends; `cargo xtask rivals stop` stops it.
    pub fn leave(mut self) {
        self.armed = false;
    }

    /// Stops it now.
    pub fn stop(mut self) -> Result<()> {
        self.stop_now()
    }

    fn stop_now(&mut self) -> Result<()> {
        if !self.armed {
            return Ok(());
        }
        self.armed = false;
        let mut first_failure = Ok(());
        while let Some(mut server) = self.servers.pop() {
            first_failure = first_failure.and(server.stop());
        }
        first_failure.and(self.record.undo())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(failure) = self.stop_now() {
            eprintln!("stopping {}: {failure}", self.rival.name());
        }
    }
}
