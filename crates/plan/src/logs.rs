//! Logs of requests: their contents, destinations and formats.
//!
//! Not known here: writing.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Logs of requests.
#[derive(Clone, PartialEq, Debug)]
pub struct Logs {
    /// The access log; `None`: none.
    pub access: Option<AccessLog>,
    /// Listeners with an access log of their own (`None`: with none), by number.
    pub of_listeners: BTreeMap<usize, Option<AccessLog>>,
    /// The profile file (crate `profile`), appended to; `None`: none.
    pub profile: Option<PathBuf>,
    /// Do its records contain hashes of the URL, the client and the server?
    pub profile_keys: bool,
    /// Do its records contain the hash of the client?
    pub profile_clients: bool,
    /// Count the most requested hosts and URLs for the admin interface?
    pub top: bool,
}

impl Logs {
    /// Has any listener an access log?
    pub fn have_access(&self) -> bool {
        self.access.is_some() || self.of_listeners.values().any(Option::is_some)
    }
}

impl Default for Logs {
    fn default() -> Self {
        Logs {
            access: None,
            of_listeners: BTreeMap::new(),
            profile: None,
            profile_keys: true,
            profile_clients: true,
            top: false,
        }
    }
}

/// The access log.
#[derive(Clone, PartialEq, Debug)]
pub struct AccessLog {
    /// The destination.
    pub target: LogTarget,
    /// The form of a line.
    pub format: AccessFormat,
}

/// The destination of a log.
#[derive(Clone, PartialEq, Debug)]
pub enum LogTarget {
    /// Standard output.
    Stdout,
    /// A file, appended to, reopened on SIGHUP.
    File(PathBuf),
    /// A syslog daemon, by RFC 5424.
    Syslog(Syslog),
    /// systemd's journal, by its own protocol.
    Journald,
}

/// A syslog daemon.
#[derive(Clone, PartialEq, Debug)]
pub struct Syslog {
    /// Where it takes messages.
    pub at: SyslogAt,
    /// RFC 5424 section 6.2.1: 0 to 23.
    pub facility: u8,
}

impl Syslog {
    /// The default of `facility`: local7, as in other proxies.
    pub const FACILITY: u8 = 23;
}

/// Where a syslog daemon takes messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SyslogAt {
    /// A socket of this machine.
    Socket(PathBuf),
    /// An address, UDP.
    Udp(SocketAddr),
}

impl std::fmt::Display for SyslogAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SyslogAt::Socket(path) => path.display().fmt(f),
            SyslogAt::Udp(address) => address.fmt(f),
        }
    }
}

/// The form of an access-log line.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum AccessFormat {
    /// Squid's native format.
    #[default]
    Squid,
    /// One JSON object a line.
    Json,
    /// The combined format of Apache and nginx.
    Combined,
    /// The operator's own format.
    Own(profile::Template),
}
