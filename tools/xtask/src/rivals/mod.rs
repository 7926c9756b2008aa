//! The servers Loligo is measured against, and Loligo itself: one launcher for every bench.
//!
//! A [`Rival`] and a [`Setup`] give a [`Plan`]: files, preparations and command lines, made without touching anything.
//! [`launch`] carries a plan out and returns a [`Running`] server once it answers; dropping the server stops it.
//! A started server is also recorded in its run directory (see `record`), so that `cargo xtask rivals stop`
//! finds it from another process, even after a bench was killed.
//!
//! All servers are reverse proxies of one origin, on 127.0.0.1. They run as the user of this command, except for
//! Squid if that user is root.

pub mod commands;
pub mod compare;
pub mod front;
mod haproxy;
mod loligo;
mod nginx;
mod record;
pub mod replay;
mod running;
mod squid;
#[cfg(test)]
mod tests;
mod trafficserver;
mod varnish;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use crate::process::CommandLine;
use crate::size::Bytes;
use crate::workspace;

pub use loligo::{
    binary as loligo_binary, build as build_loligo, build_lab, is_given as loligo_is_given,
    lab as lab_binary, use_beside, use_binary as use_loligo,
};
pub use record::{Record, all_records};
pub use running::{Halt, Place, Request, Running, launch};

/// A server with a way of storing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rival {
    Loligo,
    LoligoBeside,
    Haproxy,
    Nginx,
    NginxSendfile,
    NginxAio,
    TrafficServer,
    Varnish,
    VarnishFile,
    SquidRock,
    SquidAufs,
    SquidDiskd,
    SquidUfs,
}

impl Rival {
    /// All servers, Loligo first.
    pub const ALL: [Self; 13] = [
        Self::Loligo,
        Self::LoligoBeside,
        Self::Haproxy,
        Self::Nginx,
        Self::NginxSendfile,
        Self::NginxAio,
        Self::TrafficServer,
        Self::Varnish,
        Self::VarnishFile,
        Self::SquidRock,
        Self::SquidAufs,
        Self::SquidDiskd,
        Self::SquidUfs,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loligo => "loligo",
            Self::LoligoBeside => "loligo-beside",
            Self::Haproxy => "haproxy",
            Self::Nginx => "nginx",
            Self::NginxSendfile => "nginx-sendfile",
            Self::NginxAio => "nginx-aio",
            Self::TrafficServer => "trafficserver",
            Self::Varnish => "varnish",
            Self::VarnishFile => "varnish-file",
            Self::SquidRock => "squid-rock",
            Self::SquidAufs => "squid-aufs",
            Self::SquidDiskd => "squid-diskd",
            Self::SquidUfs => "squid-ufs",
        }
    }

    /// The server of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|r| r.name() == name)
    }

    /// The product: "squid" for all of Squid's variants.
    pub fn product(self) -> &'static str {
        self.name().split('-').next().unwrap_or_default()
    }

    /// One line about its special features.
    pub fn description(self) -> &'static str {
        match self {
            Self::Loligo => "the release build of this workspace, or --binary",
            Self::LoligoBeside => "another build of it: --beside",
            Self::Haproxy => "cache in memory only",
            Self::Nginx => "proxy_cache, sendfile off",
            Self::NginxSendfile => "proxy_cache, sendfile on",
            Self::NginxAio => "proxy_cache, sendfile on, reads by threads",
            Self::TrafficServer => "one cache file or raw device, RAM cache",
            Self::Varnish => "malloc storage",
            Self::VarnishFile => "file storage (mapped)",
            Self::SquidRock => "rock, SMP workers",
            Self::SquidAufs => "aufs, one worker",
            Self::SquidDiskd => "diskd, one worker and a process for the disk",
            Self::SquidUfs => "ufs, one worker",
        }
    }

    fn program(self) -> &'static str {
        match self {
            Self::Loligo | Self::LoligoBeside => "loligo",
            Self::Haproxy => "haproxy",
            Self::Nginx | Self::NginxSendfile | Self::NginxAio => "nginx",
            Self::TrafficServer => "traffic_server",
            Self::Varnish | Self::VarnishFile => "varnishd",
            Self::SquidRock | Self::SquidAufs | Self::SquidDiskd | Self::SquidUfs => "squid",
        }
    }

    /// Can it be started?
    pub fn is_installed(self) -> bool {
        match self {
            Self::Loligo => loligo::binary().is_file(),
            Self::LoligoBeside => loligo::beside().is_some(),
            other => workspace::program(other.program()).is_some(),
        }
    }

    /// Does it use a raw device? Otherwise the device needs a file system.
    fn takes_device(self) -> bool {
        self == Self::TrafficServer || self.is_ours()
    }

    /// Is it Loligo, in whichever build?
    pub fn is_ours(self) -> bool {
        matches!(self, Self::Loligo | Self::LoligoBeside)
    }

    /// Does it keep anything on a disk?
    pub fn has_disk(self) -> bool {
        !matches!(self, Self::Haproxy | Self::Varnish)
    }

    /// The version that the program states.
    pub fn version(self) -> Option<String> {
        let (program, flag) = match self {
            Self::Loligo => (loligo::binary(), "--version"),
            Self::LoligoBeside => (loligo::beside()?, "--version"),
            Self::Haproxy
            | Self::SquidRock
            | Self::SquidAufs
            | Self::SquidDiskd
            | Self::SquidUfs => (workspace::program(self.program())?, "-v"),
            Self::Nginx | Self::NginxSendfile | Self::NginxAio => {
                (workspace::program("nginx")?, "-v")
            }
            Self::TrafficServer | Self::Varnish | Self::VarnishFile => {
                (workspace::program(self.program())?, "-V")
            }
        };
        let output = Command::new(program).arg(flag).output().ok()?;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        version_in(&text)
    }

    /// The files and commands for this setup.
    pub fn plan(self, setup: &Setup) -> Plan {
        let nginx = |sendfile, aio| nginx::plan(setup, nginx::Variant { sendfile, aio });
        match self {
            Self::Loligo => loligo::plan(&loligo::binary(), setup),
            Self::LoligoBeside => {
                loligo::plan(&loligo::beside().unwrap_or_else(loligo::binary), setup)
            }
            Self::Haproxy => haproxy::plan(setup),
            Self::Nginx => nginx(false, false),
            Self::NginxSendfile => nginx(true, false),
            Self::NginxAio => nginx(true, true),
            Self::TrafficServer => trafficserver::plan(setup),
            Self::Varnish => varnish::plan(setup, false),
            Self::VarnishFile => varnish::plan(setup, true),
            Self::SquidRock => squid::plan(setup, squid::Storage::Rock),
            Self::SquidAufs => squid::plan(setup, squid::Storage::Aufs),
            Self::SquidDiskd => squid::plan(setup, squid::Storage::Diskd),
            Self::SquidUfs => squid::plan(setup, squid::Storage::Ufs),
        }
    }
}

/// The first word that looks like a version: digits and a dot.
fn version_in(text: &str) -> Option<String> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || ".-+~".contains(c)))
        .map(|word| word.trim_start_matches("varnish-").trim_end_matches('.'))
        .find(|word| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit()))
        .map(str::to_owned)
}

/// The decisions that a plan is made from. The plan only writes them down.
#[derive(Debug, Clone)]
pub struct Setup {
    pub address: SocketAddr,
    /// Loligo's admin interface; the others have none
    pub admin: SocketAddr,
    pub origin: SocketAddr,
    /// configuration, logs, sockets
    pub run: PathBuf,
    /// the cache
    pub data: PathBuf,
    /// a raw device instead, for those that take one
    pub device: Option<PathBuf>,
    /// on disk
    pub cache: Bytes,
    /// in memory
    pub memory: Bytes,
    /// access log, and for Loligo the profile
    pub logs: bool,
    /// Loligo's profile, also without logs
    pub profile: bool,
    pub workers: u32,
    pub as_root: bool,
    /// further arguments of Loligo, or further lines of Squid's configuration
    pub extra: Vec<String>,
    /// another listener, for clients that do not speak plain HTTP/1.1
    pub front: Option<front::Front>,
    /// lines of Loligo's `[limits]`, if there is a front
    pub limits: String,
    /// lines of Loligo's `[[listener]]`, without its address, in place of a listener that sends all requests to the origin
    pub listener: Option<String>,
}

/// The files and commands that run a server.
#[derive(Debug, Default)]
pub struct Plan {
    pub dirs: Vec<PathBuf>,
    pub files: Vec<(PathBuf, String)>,
    /// symbolic links: target, name
    pub links: Vec<(PathBuf, PathBuf)>,
    /// run one after the other before the start
    pub prepare: Vec<CommandLine>,
    /// the server, then helpers that need it running
    pub servers: Vec<CommandLine>,
    /// the user that must own the run and data directories, if not ours
    pub owner: Option<&'static str>,
    /// prefix of the names of files and directories that it may leave in /dev/shm
    pub shared_memory: Option<String>,
    /// a file, and the text that appears in it when the server is really ready
    pub ready_log: Option<(PathBuf, &'static str)>,
}
