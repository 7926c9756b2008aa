//! The four proxies and their configuration files.
//!
//! Not known here: how the proxies are run.

use std::{fs, path::PathBuf};

use clap::ValueEnum;

use crate::failure::{During, Result};

/// How leaves know what their sibling has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Ask {
    /// By asking with only-if-cached
    Try,
    /// By ICP
    Icp,
    /// By its digest
    Digest,
}

/// One of the four proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The parent of `Top`; fetches from the origins.
    Root,
    /// The leaves' parent.
    Top,
    /// A leaf.
    A,
    /// The sibling of `A`.
    B,
}

impl Level {
    /// All proxies, parents first.
    pub const ALL: [Level; 4] = [Level::Root, Level::Top, Level::A, Level::B];

    /// Its name, also as a peer.
    pub fn name(self) -> &'static str {
        match self {
            Level::Root => "root",
            Level::Top => "top",
            Level::A => "leaf-a",
            Level::B => "leaf-b",
        }
    }

    /// Its parent.
    fn parent(self) -> Option<Level> {
        match self {
            Level::Root => None,
            Level::Top => Some(Level::Root),
            Level::A | Level::B => Some(Level::Top),
        }
    }

    /// Its sibling.
    fn sibling(self) -> Option<Level> {
        match self {
            Level::Root | Level::Top => None,
            Level::A => Some(Level::B),
            Level::B => Some(Level::A),
        }
    }
}

/// Directories, ports and options of a run.
pub struct Site {
    /// The directory of configurations, logs and profiles.
    pub dir: PathBuf,
    /// How leaves learn what their sibling has.
    pub ask: Ask,
    /// The proxy that is a Squid.
    pub squid: Option<Level>,
    /// Ports for HTTP and ICP, in the order of [`Level::ALL`].
    pub ports: Vec<(u16, u16)>,
}

impl Site {
    /// Whether this proxy is a Squid.
    pub fn is_squid(&self, level: Level) -> bool {
        self.squid == Some(level)
    }

    /// The port for HTTP.
    pub fn http(&self, level: Level) -> u16 {
        self.ports[level as usize].0
    }

    /// Its address without the port. A Squid ignores ICP from its own address, on any port, so it has an address of its own.
    pub fn host(&self, level: Level) -> &'static str {
        match self.is_squid(level) {
            true => "127.0.0.2",
            false => "127.0.0.1",
        }
    }

    fn icp(&self, level: Level) -> u16 {
        self.ports[level as usize].1
    }

    /// The path of its profile, or of its access log if it is a Squid.
    pub fn record(&self, level: Level) -> PathBuf {
        match self.is_squid(level) {
            true => self.log(level),
            false => self.dir.join(format!("{}.profile", level.name())),
        }
    }

    /// The path of its access log, in Squid's format.
    pub fn log(&self, level: Level) -> PathBuf {
        self.dir.join(format!("{}.access.log", level.name()))
    }

    /// Writes a configuration, and returns its path.
    pub fn write(&self, level: Level, text: &str) -> Result<String> {
        let path = self.dir.join(format!("{}.conf", level.name()));
        fs::write(&path, text).during(|| format!("writing {}", path.display()))?;
        Ok(path.display().to_string())
    }

    /// The configuration of a Loligo.
    pub fn loligo_toml(&self, level: Level) -> String {
        // Each has more room than those below it, else it would have almost no hits.
        let memory = match level {
            Level::Root => "64MiB",
            Level::Top => "8MiB",
            Level::A | Level::B => "2MiB",
        };
        let mut out = format!(
            "name = \"{name}\"\nworkers = 1\nmemory = \"{memory}\"\nadmin.address = \"none\"\n\
             log.profile = \"{record}\"\nlog.access = \"{log}\"\nlog.level = \"info\"\n",
            name = level.name(),
            record = self.record(level).display(),
            log = self.log(level).display(),
        );
        let digests = self.ask == Ask::Digest && level.sibling().is_some();
        out += &match digests {
            true => format!(
                "[store]\npath = \"{}\"\nsize = \"64MiB\"\n[digest]\nserve = true\nsquid = true\n",
                self.dir.join(format!("{}.store", level.name())).display()
            ),
            false => "[store]\npath = \"none\"\n".to_owned(),
        };
        if self.ask == Ask::Icp && level.sibling().is_some() {
            out += &format!("[icp]\nlisten = \"127.0.0.1:{}\"\n", self.icp(level));
        }
        out += &format!(
            "[[listener]]\naddress = {}\nclient-directives = \"obey\"\n",
            self.http(level)
        );
        if let Some(parent) = level.parent() {
            let (name, host, port) = (parent.name(), self.host(parent), self.http(parent));
            out += &format!(
                "[[parent]]\nname = \"{name}\"\naddress = \"{host}:{port}\"\ndirect = \"never\"\n"
            );
        }
        if let Some(sibling) = level.sibling() {
            let ask = match self.ask {
                Ask::Try => "try".to_owned(),
                Ask::Icp => format!("icp={}", self.icp(sibling)),
                Ask::Digest => "digest".to_owned(),
            };
            let (name, host, port) = (sibling.name(), self.host(sibling), self.http(sibling));
            out += &format!(
                "[[sibling]]\nname = \"{name}\"\naddress = \"{host}:{port}\"\nask = \"{ask}\"\n"
            );
        }
        out
    }

    /// The configuration of a Squid.
    pub fn squid_conf(&self, level: Level) -> String {
        let dir = self.dir.display();
        let icp = if self.ask == Ask::Icp && level.sibling().is_some() {
            self.icp(level)
        } else {
            0
        };
        let mut out = format!(
            "http_port {host}:{http}\nicp_port {icp}\nudp_incoming_address {host}\nicp_access allow all\nhttp_access allow all\nworkers 1\n\
             cache_mem 32 MB\nmaximum_object_size_in_memory 4 MB\nshutdown_lifetime 0 seconds\npinger_enable off\n\
             digest_generation {digests}\nnetdb_filename none\nvisible_hostname {name}\nmax_filedescriptors 4096\n\
             access_log stdio:{log} squid\ncache_store_log none\ncache_log {dir}/{name}.cache.log\n\
             pid_filename {dir}/{name}.pid\ncoredump_dir {dir}\nlogfile_rotate 0\n",
            host = self.host(level),
            http = self.http(level),
            digests = if self.ask == Ask::Digest { "on" } else { "off" },
            name = level.name(),
            log = self.log(level).display(),
        );
        // A Squid built with ICMP bypasses its peers for near origins.
        out += "minimum_direct_rtt 0\nminimum_direct_hops 0\n";
        // A Squid's digest lists the contents of its cache_dir.
        if self.ask == Ask::Digest {
            out += &format!("cache_dir ufs {dir}/{} 64 16 16\n", level.name());
            out += "digest_rebuild_period 5 seconds\ndigest_rewrite_period 5 seconds\n";
        }
        if let Some(parent) = level.parent() {
            let port = self.http(parent);
            out += &format!(
                "cache_peer 127.0.0.1 parent {port} 0 no-query no-digest default name={}\n",
                parent.name()
            );
            out += "never_direct allow all\n";
        }
        if let Some(sibling) = level.sibling() {
            let how = match self.ask {
                Ask::Icp => format!("{} no-digest", self.icp(sibling)),
                Ask::Try | Ask::Digest => "0 no-query".to_owned(),
            };
            out += &format!(
                "cache_peer 127.0.0.1 sibling {} {how} proxy-only name={}\n",
                self.http(sibling),
                sibling.name()
            );
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(ask: Ask, squid: Option<Level>) -> Site {
        Site {
            dir: "/run".into(),
            ask,
            squid,
            ports: vec![(1, 2), (3, 4), (5, 6), (7, 8)],
        }
    }

    #[test]
    fn each_level_knows_its_neighbours() {
        let toml = site(Ask::Icp, None).loligo_toml(Level::A);
        let value: toml::Table = toml.parse().unwrap();
        assert_eq!(value["parent"][0]["address"].as_str(), Some("127.0.0.1:3"));
        assert_eq!(value["sibling"][0]["address"].as_str(), Some("127.0.0.1:7"));
        assert_eq!(value["sibling"][0]["ask"].as_str(), Some("icp=8"));
        assert_eq!(value["icp"]["listen"].as_str(), Some("127.0.0.1:6"));
        let root: toml::Table = site(Ask::Try, None)
            .loligo_toml(Level::Root)
            .parse()
            .unwrap();
        assert!(root.get("parent").is_none() && root.get("sibling").is_none());
    }

    #[test]
    fn a_squid_has_the_same_neighbours() {
        let conf = site(Ask::Icp, Some(Level::B)).squid_conf(Level::B);
        assert!(conf.starts_with("http_port 127.0.0.2:7\n"));
        let toml = site(Ask::Icp, Some(Level::B)).loligo_toml(Level::A);
        assert!(toml.contains("address = \"127.0.0.2:7\""));
        assert!(conf.contains("cache_peer 127.0.0.1 parent 3 0 no-query"));
        assert!(conf.contains("cache_peer 127.0.0.1 sibling 5 6 no-digest"));
        assert!(conf.contains("\nicp_port 8\n"));
    }
}
