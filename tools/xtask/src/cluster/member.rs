//! A member as a process: start, health, metrics, kill, stop, and its costs.
//!
//! Not known here: the work of a member.   Limits: [`READY_MAX`] from the start to the first answer, [`END_MAX`] to end.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;

use super::network::Host;
use super::site::{ADMIN, Role, SITE, Spec};
use crate::failure::{Result, fail};
use crate::http::Client;
use crate::interrupt;
use crate::process::{CommandLine, Identity, Server, tail};
use crate::procfs;

const READY_MAX: Duration = Duration::from_secs(30);
const END_MAX: Duration = Duration::from_secs(10);

/// A member, running or not; dropping it ends the process.
pub struct Member {
    pub spec: Spec,
    pub host: Host,
    command: CommandLine,
    log: PathBuf,
    server: Option<Server>,
    /// CPU time of earlier processes of this member.
    cpu_before: Duration,
}

impl Member {
    /// A member that is not started yet.
    pub fn new(spec: Spec, host: Host, command: CommandLine, log: PathBuf) -> Self {
        Self {
            spec,
            host,
            command,
            log,
            server: None,
            cpu_before: Duration::ZERO,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// The member's address with this port.
    pub fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::from((self.spec.address, port))
    }

    /// Whether a process runs.
    pub fn is_running(&self) -> bool {
        self.server.is_some()
    }

    /// Starts the process without waiting.
    pub fn launch(&mut self) -> Result<()> {
        self.server = Some(self.command.spawn(&self.log)?);
        Ok(())
    }

    /// Starts the process and waits until it is healthy.
    pub fn start(&mut self) -> Result<()> {
        self.launch()?;
        self.await_ready()
    }

    /// Waits until the member is healthy.
    pub fn await_ready(&mut self) -> Result<()> {
        let mut ended = false;
        let mut ready = || {
            ended = self.server.as_mut().is_none_or(Server::has_ended);
            let asked = match self.spec.role {
                Role::Balancer => is_open(self.at(SITE)),
                _ => is_well(self.at(ADMIN)),
            };
            ended || asked
        };
        let is_ready = interrupt::wait_until(READY_MAX, &mut ready)?;
        match is_ready && !ended {
            true => Ok(()),
            false => fail!("{} does not come up{}", self.name(), tail(&self.log)),
        }
    }

    /// An error with the end of its log if the process has ended by itself.
    pub fn check_alive(&mut self) -> Result<()> {
        if self.server.as_mut().is_some_and(Server::has_ended) {
            fail!("{} has ended by itself{}", self.name(), tail(&self.log));
        }
        Ok(())
    }

    fn identity(&self) -> Option<Identity> {
        self.server.as_ref().map(Server::identity)
    }

    /// Kills the process with SIGKILL.
    pub fn kill(&mut self) -> Result<()> {
        self.end(Signal::KILL)
    }

    /// Stops the process with SIGTERM, and waits.
    pub fn stop(&mut self) -> Result<()> {
        self.end(Signal::TERM)
    }

    fn end(&mut self, signal: Signal) -> Result<()> {
        self.cpu_before = self.cpu();
        let Some(mut server) = self.server.take() else {
            return Ok(());
        };
        server.identity().signal(signal);
        // Kill it in any case: an interrupted test must not leave it behind.
        let ended = interrupt::wait_until(END_MAX, || server.has_ended());
        if !matches!(ended, Ok(true)) {
            server.stop()?;
        }
        match ended? {
            true => Ok(()),
            false => fail!("{} does not end within {END_MAX:?}", self.name()),
        }
    }

    /// Stops the process with SIGSTOP until the guard is dropped.
    pub fn hold(&self) -> Result<Held> {
        let Some(identity) = self.identity() else {
            fail!("{} is not running", self.name());
        };
        identity.signal(Signal::STOP);
        Ok(Held(identity))
    }

    /// User and system time of all the member's processes.
    pub fn cpu(&self) -> Duration {
        let now = self
            .identity()
            .map_or(Duration::ZERO, |it| procfs::cpu(&[it.pid]));
        self.cpu_before + now
    }

    /// CPU time in the present process of the thread that exchanges hints with other members.
    pub fn cpu_of_cluster(&self) -> Duration {
        let now = self.identity();
        now.map_or(Duration::ZERO, |it| {
            procfs::cpu_of_threads(&[it.pid], "cluster")
        })
    }

    /// The member's metrics; empty for HAProxy.
    pub fn counts(&self) -> Result<Counts> {
        if self.spec.role == Role::Balancer {
            return Ok(Counts::default());
        }
        let answer = Client::new(self.at(ADMIN)).get("/metrics")?;
        Ok(Counts::parse(&String::from_utf8_lossy(&answer.body)))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            // A process stopped by SIGSTOP would not handle SIGTERM.
            server.identity().signal(Signal::CONT);
            if let Err(failure) = server.stop() {
                eprintln!("stopping {}: {failure}", self.spec.name);
            }
        }
    }
}

/// A stopped member; dropping it continues the process.
pub struct Held(Identity);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.signal(Signal::CONT);
    }
}

/// Whether something listens at this address.
fn is_open(address: SocketAddr) -> bool {
    std::net::TcpStream::connect_timeout(&address, Duration::from_millis(500)).is_ok()
}

/// Whether the admin interface at this address reports within a second that the member is healthy.
pub fn is_well(admin: SocketAddr) -> bool {
    use std::io::{Read, Write};
    const PATIENCE: Duration = Duration::from_secs(1);
    let Ok(mut stream) = std::net::TcpStream::connect_timeout(&admin, PATIENCE) else {
        return false;
    };
    let limited = stream.set_read_timeout(Some(PATIENCE)).and_then(|()| {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    });
    let mut head = [0; 12];
    limited.is_ok() && stream.read_exact(&mut head).is_ok() && &head == b"HTTP/1.1 200"
}

/// A member's metrics: name with labels, and value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counts(BTreeMap<String, f64>);

impl Counts {
    fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Self(
            lines
                .filter_map(|line| {
                    let (name, value) = line.rsplit_once(' ')?;
                    Some((name.to_owned(), value.parse().ok()?))
                })
                .collect(),
        )
    }

    /// Whether there is a metric of this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.keys().any(|key| key.split('{').next() == Some(name))
    }

    /// The sum of a metric over all rows whose labels contain all of these.
    pub fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let of_it = self.0.iter().filter(|(key, _)| {
            let (bare, rest) = key.split_once('{').unwrap_or((key, ""));
            bare == name && labels.iter().all(|label| rest.contains(label))
        });
        of_it.fold(0.0, |sum, (_, value)| sum + value)
    }

    /// The difference to `before`, which may be of an earlier process.
    pub fn since(&self, before: &Self) -> Self {
        let rows = self.0.iter().map(|(name, value)| {
            let earlier = before.0.get(name).copied().unwrap_or(0.0);
            let gained = if earlier <= *value {
                value - earlier
            } else {
                *value
            };
            (name.clone(), gained)
        });
        Self(rows.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_summed_by_name_and_labels() {
        let counts = Counts::parse(
            "# HELP x y\nloligo_requests_total{class=\"hit\"} 5\nloligo_requests_total{class=\"miss\"} 7\n\
             loligo_requests_totals 100\nloligo_running 1\n# EOF\n",
        );
        assert_eq!(counts.sum("loligo_requests_total", &[]), 12.0);
        assert_eq!(
            counts.sum("loligo_requests_total", &["class=\"miss\""]),
            7.0
        );
        assert_eq!(counts.sum("loligo_running", &[]), 1.0);
        let later = Counts::parse("loligo_requests_total{class=\"hit\"} 9\nloligo_running 1\n");
        let gained = later.since(&counts);
        assert_eq!(gained.sum("loligo_requests_total", &[]), 4.0);
        // The process was restarted: its counters began at 0.
        let anew = Counts::parse("loligo_requests_total{class=\"hit\"} 2\n").since(&counts);
        assert_eq!(anew.sum("loligo_requests_total", &[]), 2.0);
    }
}
