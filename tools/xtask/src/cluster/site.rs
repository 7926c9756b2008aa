//! The members of a cluster and their configuration files.
//!
//! Every member has two listeners: a forward one for PolyMix's robots, and a reverse one with the bench's origin behind it.
//! Nodes and fronts take both kinds of requests; HAProxy passes both to nodes without a cluster.
//!
//! Not known here: how members are run.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::Serialize;

use crate::failure::{During, Result};
use crate::size::Bytes;

/// Port of the forward proxy, for robots.
pub const FORWARD: u16 = 3128;
/// Port of the reverse proxy of the bench's origin.
pub const SITE: u16 = 8080;
/// Port for `/metrics`, `/healthz` and purges.
pub const ADMIN: u16 = 3129;
const CLUSTER: u16 = 3130;
/// Prefix of names on the bench's origin that are passed on and never stored.
pub const PASSED: &str = "pass";

/// What members are to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// Fronts without a store, and nodes
    Front,
    /// Each a node and a front for the others
    Equals,
}

/// How requests find a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Route {
    /// By what the nodes say they hold
    Hints,
    /// By the key's hash, with bounded loads
    Hash,
    /// In turn
    RoundRobin,
    /// The node with the fewest requests under way
    Least,
    /// HAProxy in place of the fronts: balance uri, hash-balance-factor 125
    Haproxy,
}

impl Route {
    /// The name in configurations and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hints => "hints",
            Self::Hash => "hash",
            Self::RoundRobin => "round-robin",
            Self::Least => "least",
            Self::Haproxy => "haproxy",
        }
    }
}

/// The role of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// `loligo accelerate`
    Front,
    /// `loligo serve` with a store
    Node,
    /// `loligo serve` with a store and `front = true`
    Equal,
    /// HAProxy
    Balancer,
}

impl Role {
    /// Whether clients may use it.
    pub fn is_door(self) -> bool {
        self != Self::Node
    }

    /// Whether it has a store.
    pub fn has_store(self) -> bool {
        matches!(self, Self::Node | Self::Equal)
    }
}

/// One member.
#[derive(Debug, Clone)]
pub struct Spec {
    pub name: String,
    pub role: Role,
    pub address: Ipv4Addr,
    /// The directory of its store and its journal.
    pub home: PathBuf,
}

/// All members, and the settings that they share.
#[derive(Debug, Clone)]
pub struct Site {
    /// The directory of configurations, logs and stores.
    pub dir: PathBuf,
    /// The origin behind the reverse listeners.
    pub origin: SocketAddr,
    /// Addresses that may use all listeners.
    pub range: String,
    pub specs: Vec<Spec>,
    pub route: Route,
    /// Size of each store.
    pub store: Bytes,
    /// Memory of each member with a store; a front has [`Site::front_memory`].
    pub memory: Bytes,
    pub front_memory: Bytes,
    /// Whether members have a journal of purges.
    pub has_state: bool,
    /// Further lines of `[cluster]`.
    pub extra: Vec<String>,
}

/// Names and roles of a shape's members; members for clients come first.
pub fn roles(shape: Shape, route: Route, fronts: usize, nodes: usize) -> Vec<(String, Role)> {
    let named = |letter: &str, role: Role, count: usize| -> Vec<(String, Role)> {
        (1..=count)
            .map(|n| (format!("{letter}{n}"), role))
            .collect()
    };
    match (shape, route) {
        (_, Route::Haproxy) => [
            vec![("haproxy".to_owned(), Role::Balancer)],
            named("n", Role::Node, nodes),
        ]
        .concat(),
        (Shape::Front, _) => [
            named("f", Role::Front, fronts),
            named("n", Role::Node, nodes),
        ]
        .concat(),
        (Shape::Equals, _) => named("n", Role::Equal, nodes),
    }
}

impl Site {
    /// The shape of the cluster, if the members are one.
    pub fn shape(&self) -> Option<Shape> {
        let is_equal = self.specs.iter().any(|spec| spec.role == Role::Equal);
        self.is_cluster().then_some(match is_equal {
            true => Shape::Equals,
            false => Shape::Front,
        })
    }

    /// Whether the members know of each other.
    fn is_cluster(&self) -> bool {
        self.route != Route::Haproxy
    }

    /// Writes every configuration and the cluster's key.
    pub fn write(&self) -> Result<()> {
        let key: String = (0..4)
            .map(|n| format!("{:016x}", crate::chance::mix(self.secret() ^ n)))
            .collect();
        write(&self.key(), &format!("{key}\n"))?;
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(self.key(), readable).during(|| "guarding the key".into())?;
        for spec in &self.specs {
            write(&self.configuration(spec), &self.text(spec))?;
        }
        Ok(())
    }

    /// A key for a test, different for each run; nobody else can know it meanwhile.
    fn secret(&self) -> u64 {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(0, |now| now.as_nanos() as u64) ^ u64::from(std::process::id())
    }

    fn key(&self) -> PathBuf {
        self.dir.join("cluster.key")
    }

    /// The path of a member's configuration.
    pub fn configuration(&self, spec: &Spec) -> PathBuf {
        self.dir.join(format!("{}.conf", spec.name))
    }

    /// The path of a member's store.
    pub fn store_of(&self, spec: &Spec) -> PathBuf {
        spec.home.join(format!("{}.store", spec.name))
    }

    /// The text of a member's configuration.
    pub fn text(&self, spec: &Spec) -> String {
        match spec.role {
            Role::Balancer => self.haproxy(spec),
            Role::Front | Role::Node | Role::Equal => self.loligo(spec),
        }
    }

    fn loligo(&self, spec: &Spec) -> String {
        let Spec { name, address, .. } = spec;
        let (range, origin) = (&self.range, self.origin);
        let memory = match spec.role.has_store() {
            true => self.memory,
            false => self.front_memory,
        };
        let mut out = format!(
            "name = \"{name}\"\nworkers = 1\nmemory = \"{memory}\"\nlog.level = \"info\"\n\
             admin.address = \"{address}:{ADMIN}\"\nadmin.allow = [\"{range}\"]\n\
             [[listener]]\naddress = \"{address}:{FORWARD}\"\nallow = [\"{range}\"]\n\
             client-directives = \"obey\"\nallow-destinations = [\"loopback\"]\n\
             [[listener]]\naddress = \"{address}:{SITE}\"\nallow = [\"{range}\"]\nclient-directives = \"obey\"\n\
             origin = \"http://{origin}\"\npass-host = false\n"
        );
        out += &format!("[[rule]]\npath = [\"/size/*/{PASSED}*\"]\nbypass = true\n");
        if spec.role.has_store() {
            let path = self.store_of(spec);
            out += &format!(
                "[store]\npath = \"{}\"\nsize = \"{}\"\nlazy-reads = 0\n",
                path.display(),
                self.store
            );
        }
        if self.is_cluster() {
            out += &self.cluster(spec);
        }
        out
    }

    fn cluster(&self, spec: &Spec) -> String {
        let Spec {
            name,
            address,
            home,
            ..
        } = spec;
        let mut out = format!(
            "[cluster]\nname = \"{name}\"\naddress = \"{address}:{CLUSTER}\"\nkey-file = \"{}\"\n\
             route = \"{}\"\n",
            self.key().display(),
            self.route.name(),
        );
        if self.has_state {
            let state = home.join(format!("{name}.state"));
            out += &format!("state = \"{}\"\n", state.display());
        }
        if spec.role.is_door() {
            out += "front = true\n";
        }
        for line in &self.extra {
            out += &format!("{line}\n");
        }
        for other in self.specs.iter().filter(|other| other.name != *name) {
            out += &format!(
                "[[cluster.member]]\nname = \"{}\"\naddress = \"{}:{CLUSTER}\"\n",
                other.name, other.address
            );
        }
        out
    }

    /// The configuration of HAProxy over the nodes. `hash-type consistent` moves a share of the keys when a node joins or leaves, not all.
    fn haproxy(&self, spec: &Spec) -> String {
        let mut out = String::from(
            "global\n  nbthread 1\n  maxconn 4000\ndefaults\n  mode http\n  timeout connect 1s\n  timeout client 60s\n  \
             timeout server 60s\n  timeout http-keep-alive 60s\n  option http-keep-alive\n  http-reuse always\n  \
             retries 3\n  option redispatch 1\n  retry-on conn-failure empty-response response-timeout\n",
        );
        for (what, port) in [("forward", FORWARD), ("site", SITE)] {
            out += &format!(
                "frontend {what}\n  bind {address}:{port} backlog 4096\n  default_backend {what}-nodes\n\
                 backend {what}-nodes\n  balance uri whole\n  hash-type consistent\n  hash-balance-factor 125\n  \
                 option httpchk GET /healthz\n",
                address = spec.address
            );
            for node in self.specs.iter().filter(|node| node.role == Role::Node) {
                out += &format!(
                    "  server {name} {address}:{port} check port {ADMIN} inter 500ms fall 2 rise 1 pool-max-conn -1\n",
                    name = node.name,
                    address = node.address
                );
            }
        }
        out
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).during(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(shape: Shape, route: Route) -> Site {
        let specs = roles(shape, route, 1, 3).into_iter().enumerate();
        Site {
            dir: "/run".into(),
            origin: "10.0.0.1:80".parse().unwrap(),
            range: "10.0.0.0/24".into(),
            specs: specs
                .map(|(n, (name, role))| Spec {
                    name,
                    role,
                    address: Ipv4Addr::new(10, 0, 0, 2 + n as u8),
                    home: format!("/disk{n}").into(),
                })
                .collect(),
            route,
            store: Bytes(64 << 20),
            memory: Bytes(8 << 20),
            front_memory: Bytes(8 << 20),
            has_state: true,
            extra: vec!["push-max = \"64KiB\"".into()],
        }
    }

    #[test]
    fn each_member_knows_all_others() {
        let site = site(Shape::Front, Route::Hash);
        for spec in &site.specs {
            let value: toml::Table = site.text(spec).parse().unwrap();
            let cluster = &value["cluster"];
            assert_eq!(cluster["name"].as_str(), Some(spec.name.as_str()));
            assert_eq!(cluster["route"].as_str(), Some("hash"));
            assert_eq!(cluster["push-max"].as_str(), Some("64KiB"));
            assert_eq!(cluster["member"].as_array().unwrap().len(), 3);
            let state = cluster["state"].as_str().unwrap();
            assert_eq!(Path::new(state).parent(), Some(&*spec.home));
            assert_eq!(value.get("store").is_some(), spec.role == Role::Node);
            assert_eq!(cluster.get("front").is_some(), spec.role == Role::Front);
        }
    }

    #[test]
    fn equals_are_fronts_and_those_behind_haproxy_know_nothing() {
        let equals = site(Shape::Equals, Route::Hints);
        let value: toml::Table = equals.text(&equals.specs[2]).parse().unwrap();
        assert_eq!(value["cluster"]["front"].as_bool(), Some(true));
        let site = site(Shape::Equals, Route::Haproxy);
        assert_eq!(site.specs[0].role, Role::Balancer);
        let conf = site.text(&site.specs[0]);
        assert_eq!(conf.matches("  server n").count(), 6);
        let node: toml::Table = site.text(&site.specs[1]).parse().unwrap();
        assert!(node.get("cluster").is_none() && node.get("store").is_some());
    }
}
