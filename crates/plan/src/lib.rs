//! The plan: all settings that the data plane needs before it starts, checked, in plain units.
//!
//! `loligo` turns a configuration into a [`Plan`]. A field is optional only if its absence means something ("no store", "no
//! admin interface"). Each numeric setting is declared once, with its default, range and description ([`Setting`]); the
//! command checks values against this declaration and prints it in the reference.
//!
//! `access` decides which clients are served and which destinations are allowed.
//!
//! Not known here: files, flags, sockets. Times are durations, sizes bytes.
#![forbid(unsafe_code)]

mod acme;
mod bounds;
mod clients;
mod cluster;
mod hints;
mod hosts;
mod hours;
mod http2;
mod lenient;
mod logs;
mod mirror;
mod origin_tls;
mod own_settings;
mod peers;
pub mod proof;
mod quotas;
mod routes;
mod rules;
mod setting;
mod signing;
mod tls;
mod upstreams;
mod verdicts;

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use ipnet::IpNet;

pub use acme::Acme;
pub use bounds::{
    CacheRules, Dns, IoEngine, LazyMode, Limits, LocalityMode, PoolLimits, Storing, Timeouts,
};
pub use lenient::LenientHosts;

pub use clients::{ClientField, Naming, ProxyProtocol};
pub use cluster::{
    Cluster, ClusterKey, ClusterMember, ClusterMiss, ClusterRoute, FalseHit, HintKind, MEMBERS_MAX,
    Spread,
};
pub use hints::{Digests, Icp};
pub use hosts::{HostList, Stamp, address};
pub use hours::{Hours, Minute};
pub use http2::Http2;
pub use logs::{AccessFormat, AccessLog, LogTarget, Logs, Syslog, SyslogAt};
pub use message::Scheme;
pub use mirror::{HostPort, Mirroring, Replace};
pub use origin_tls::{OriginTls, Pin};
pub use peers::{Ask, Direct, Health, Order, PEERS_MAX, Parent, PeerAddress, Sibling};
pub use quotas::{Excess, Per, Quota, QuotaKeys, Rate, What};
pub use routes::{OriginUrl, Route, host_fits, path_begins};
pub use rules::{FieldFits, FieldIs, KeyRule, Rule, Then, When};
pub use setting::{Bounds, Numeric, Setting, Unit};
pub use signing::{CredentialSource, Signing};
pub use upstreams::{
    Balance, HealthCheck, Records, SERVERS_MAX, Server, ServerName, UPSTREAMS_MAX, Upstream,
};
pub use verdicts::{Canned, Edit, How, Piece, Side, Text, Variable, Verdict, is_of_value};

pub use tls::{CertificateFiles, ClientCertificates, ListenerTls};

use setting::{GIB, MIB, bytes, count, settings, switch};

pub use httpcache::ClientDirectives;
pub use replacement::{AdmissionKind, PolicyKind, Watermarks};
pub use store::Replacement;

/// Everything the proxy needs to run.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// The addresses for clients: at least one, none twice (port 0, "any free port", may repeat).
    pub listeners: Vec<Listener>,
    /// The admin interface; `None`: there is none.
    pub admin: Option<Admin>,
    /// Host names accepted in requests to the admin interface, besides addresses and localhost: lower case, or `*.suffix`.
    pub admin_names: Vec<String>,
    /// The disk cache: its stores, no file or device twice; empty: memory only.
    pub stores: Vec<StorePlan>,
    /// Settings of all stores together.
    pub storing: Storing,
    /// Bytes of the memory tier, all workers together; 0: there is none.
    pub memory_bytes: u64,
    /// Send pages of memory, not copies, to clients on this machine too. Not a setting: for tests, whose clients are all on this machine.
    pub sends_pages_here: bool,
    /// Worker threads, each with its own runtime; at least 1.
    pub workers: usize,
    /// The user to switch to once sockets are bound and devices are open; `None`: stay the same user.
    pub user: Option<User>,
    /// The name by which this proxy signs: `Via` (RFC 9110 §7.6.3 pseudonym) and `Cache-Status` (RFC 9211 §2). A token.
    pub name: String,
    /// Access log and profile file.
    pub logs: Logs,
    /// Bounds on the resources that clients, origins and the proxy may use.
    pub limits: Limits,
    /// How long each wait may last.
    pub timeouts: Timeouts,
    /// The caching rules that are a choice.
    pub cache: CacheRules,
    /// The operator's rules, in the order in which they are checked.
    pub rules: Vec<Rule>,
    /// How much each client, host or listener may have, no name twice, at most [`Quota::QUOTAS_MAX`].
    pub quotas: Vec<Quota>,
    /// Servers of the same content, at most [`UPSTREAMS_MAX`], which routes name in place of an origin.
    pub upstreams: Vec<Upstream>,
    /// Proxies that fetch for forward listeners, at most [`PEERS_MAX`]. Parents of the same `domains` form a group and have the same
    /// `order` and `direct`.
    pub parents: Vec<Parent>,
    /// Proxies that forward listeners ask for stored objects only, at most [`PEERS_MAX`].
    pub siblings: Vec<Sibling>,
    /// Answers to ICP queries.
    pub icp: Icp,
    /// Digests of the contents of the stores, and how often those of siblings are fetched.
    pub digests: Digests,
    /// The cluster that this proxy is a member of, if any.
    pub cluster: Option<Cluster>,
    /// Name resolution.
    pub dns: Dns,
    /// Connections to origins.
    pub pool: PoolLimits,
    /// TLS to origins that have no settings of their own.
    pub tls: OriginTls,
    /// The certificate that is ordered from an authority, if any.
    pub acme: Option<Acme>,
}

/// A user of the system, without root's rights.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    /// The name as configured, for messages.
    pub name: String,
    /// Its number; not 0.
    pub uid: u32,
    /// Its group; the process gets no other groups.
    pub gid: u32,
}

impl Plan {
    /// The addresses of the listeners, as the access log names them.
    pub fn addresses(&self) -> Vec<String> {
        let listeners = self.listeners.iter();
        listeners.map(|it| it.address.to_string()).collect()
    }

    /// Range of `memory_bytes` (0 is also accepted: no memory tier). The command's default depends on the
    /// machine: an eighth of its RAM, at most `default`.
    pub const MEMORY_BYTES: Bounds = bytes(MIB, GIB, 1024 * GIB);
    /// Range of `workers`. The command's default is the number of cores, at most `max`.
    pub const WORKERS: Bounds = count(1, 1, 256);
    /// The most listeners a plan may have.
    pub const LISTENERS_MAX: usize = 64;
    /// The most stores a plan may have: the bound of `store::Set`.
    pub const STORES_MAX: usize = 64;
    /// The most routes one reverse listener may have.
    pub const ROUTES_MAX: usize = 100_000;
    /// The default of `name`.
    pub const NAME: &str = "loligo";

    /// The name of a listener in a cluster: the configured one, else its number, from 1.
    pub fn listener_name(&self, number: usize) -> String {
        match self.listeners.get(number) {
            Some(listener) if !listener.name.is_empty() => listener.name.clone(),
            _ => (number + 1).to_string(),
        }
    }

    /// A plan with these listeners and defaults for the rest: one worker, no admin interface, no store, 64 MiB of memory. For
    /// tests, and to start a fuller plan from.
    pub fn with_listeners(listeners: Vec<Listener>) -> Self {
        Plan {
            listeners,
            admin: None,
            admin_names: Vec::new(),
            stores: Vec::new(),
            storing: Storing::default(),
            memory_bytes: 64 * MIB,
            sends_pages_here: false,
            workers: 1,
            user: None,
            name: Self::NAME.to_owned(),
            logs: Logs::default(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            cache: CacheRules::default(),
            rules: Vec::new(),
            quotas: Vec::new(),
            upstreams: Vec::new(),
            parents: Vec::new(),
            siblings: Vec::new(),
            icp: Icp::default(),
            digests: Digests::default(),
            cluster: None,
            dns: Dns::default(),
            pool: PoolLimits::default(),
            tls: OriginTls::default(),
            acme: None,
        }
    }
}

/// One address clients connect to.
#[derive(Clone, PartialEq, Debug)]
pub struct Listener {
    /// Address and port; port 0 lets the system choose.
    pub address: SocketAddr,
    /// Its name in a cluster: requests forwarded by a member arrive at the listener of the same name. Empty: its number, from 1.
    pub name: String,
    /// Forward proxy, or reverse proxy in front of origins.
    pub role: Role,
    /// The client networks served. Loopback clients are always served.
    pub allow: Vec<IpNet>,
    /// The networks whose PURGE is obeyed here; empty: none. Loopback must be listed too, because behind a proxy on the same
    /// machine every client comes from there.
    pub purge_from: Vec<IpNet>,
    /// Which cache directives are obeyed.
    pub heeds: Heeds,
    /// How origins are told about this listener's clients.
    pub forwarded: Forwarded,
    /// TLS to its clients; `None`: it speaks plain HTTP.
    pub tls: Option<ListenerTls>,
    /// May clients speak HTTP/2? Over TLS after ALPN, in plain text with prior knowledge (RFC 9113 §3.3).
    pub http2: bool,
    /// How clients behind load balancers are identified.
    pub naming: Naming,
    /// The names of the quotas that count its requests and connections.
    pub quotas: Vec<String>,
}

/// Which cache directives are obeyed: a forward proxy works for its clients, a reverse proxy for the origin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heeds {
    /// Which cache directives of clients are obeyed.
    pub client_directives: ClientDirectives,
    /// Obey `Loligo-Cache-Control` and `CDN-Cache-Control` (RFC 9213)? Never on a forward listener.
    pub targeted: bool,
}

impl Heeds {
    /// The defaults of a forward listener.
    pub const FORWARD: Heeds = Heeds {
        client_directives: ClientDirectives::Revalidate,
        targeted: false,
    };
    /// The defaults of a reverse listener.
    pub const REVERSE: Heeds = Heeds {
        client_directives: ClientDirectives::Ignore,
        targeted: true,
    };
}

/// Handling of the fields in which a proxy describes the client to an origin (`X-Forwarded-For` and the like).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forwarded {
    /// Drop the client's fields and write ours.
    Replace,
    /// Append ours to the client's: the client is a trusted proxy.
    Append,
    /// Pass them unchanged.
    None,
}

/// The role of a listener.
#[derive(Clone, PartialEq, Debug)]
pub enum Role {
    /// Clients name the destination: absolute targets and CONNECT.
    Forward(Forward),
    /// The routes choose the origin, by host and path. The most specific route comes first; the first match is used.
    Reverse(Vec<Route>),
}

impl Listener {
    /// A forward listener with the defaults for its address: on a loopback address loopback and link-local
    /// destinations may be reached, elsewhere not.
    pub fn forward(address: SocketAddr, allow: Vec<IpNet>) -> Self {
        let role = Role::Forward(Forward::for_address(address.ip()));
        Listener {
            address,
            name: String::new(),
            role,
            allow,
            purge_from: Vec::new(),
            heeds: Heeds::FORWARD,
            forwarded: Forwarded::None,
            tls: None,
            http2: false,
            naming: Naming::default(),
            quotas: Vec::new(),
        }
    }

    /// A reverse listener with one origin for everything.
    pub fn reverse(address: SocketAddr, allow: Vec<IpNet>, origin: OriginUrl) -> Self {
        let role = Role::Reverse(vec![Route::everything_to(origin)]);
        Listener {
            address,
            name: String::new(),
            role,
            allow,
            purge_from: Vec::new(),
            heeds: Heeds::REVERSE,
            forwarded: Forwarded::Replace,
            tls: None,
            http2: false,
            naming: Naming::default(),
            quotas: Vec::new(),
        }
    }
}

/// The forward role's settings.
#[derive(Clone, PartialEq, Debug)]
pub struct Forward {
    /// Ports CONNECT may reach (RFC 9110 §9.3.6 warns of tunnels to anything); empty: no tunnels at all.
    pub connect_ports: Vec<u16>,
    /// Ports that requests other than CONNECT may go to. Ports of line protocols, mail above all, are excluded from ranges;
    /// they must be listed singly (`ports`).
    pub http_ports: Vec<RangeInclusive<u16>>,
    /// The addresses that may be connected to, under any name.
    pub destinations: Destinations,
    /// The hosts whose malformed answers are accepted.
    pub lenient: LenientHosts,
}

impl Forward {
    /// The default of `connect_ports`.
    pub const CONNECT_PORTS: &[u16] = &[443];

    /// The default of `http_ports`: the web's ports, and all ports open to unprivileged servers.
    pub fn http_ports_default() -> Vec<RangeInclusive<u16>> {
        vec![80..=80, 443..=443, 1024..=u16::MAX]
    }

    /// The defaults for a listener on this address.
    pub fn for_address(address: IpAddr) -> Self {
        let local = address.to_canonical().is_loopback();
        Forward {
            connect_ports: Self::CONNECT_PORTS.to_vec(),
            http_ports: Self::http_ports_default(),
            destinations: Destinations {
                loopback: local,
                link_local: local,
                allow: Vec::new(),
            },
            lenient: LenientHosts::default(),
        }
    }
}

/// The special addresses that a forward listener connects to. The resolved address is checked, not the name, so a name that
/// points inward gains nothing. The proxy's own listeners and multicast are always refused.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Destinations {
    /// This machine: 127.0.0.0/8, ::1, the unspecified addresses (which the kernel takes for this machine), and the addresses of
    /// its interfaces.
    pub loopback: bool,
    /// 169.254.0.0/16, fe80::/10.
    pub link_local: bool,
    /// Networks allowed despite the two above.
    pub allow: Vec<IpNet>,
}

/// The admin interface: metrics, status, purge.
#[derive(Clone, PartialEq, Debug)]
pub struct Admin {
    /// Address and port; port 0 lets the system choose.
    pub address: SocketAddr,
    /// The networks served beside loopback; never empty when `address` is beyond loopback.
    pub allow: Vec<IpNet>,
}

impl Admin {
    /// May this client use the interface? Loopback always may.
    pub fn serves(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        client.is_loopback() || self.allow.iter().any(|net| net.contains(&client))
    }
}

settings! {
/// One store: a preallocated file or a block device. Objects are spread over all stores by the hash of their key.
pub struct StorePlan {
    /// Its size; a file is preallocated. Without it an existing file keeps its size, a block device is used whole, and a new
    /// file gets the default, but at most half of the free space. Objects of more than half of it are not stored; from 64MiB on
    /// one of up to 1 MiB is one read of the disk.
    size_bytes: Option<u64> = Self::SIZE_BYTES => "10GiB",
    /// Its share of the objects, relative to the weights of the others: set it in proportion to the sizes. A change moves
    /// objects to other stores, so they are fetched again.
    weight: u32 = count(1, 1, 1000),
    /// Bypass the page cache (O_DIRECT) where the file system supports it. Switch it off to let the kernel cache the store
    /// too.
    direct: bool = switch(true),
    /// Use it although it carries another system's signature: a file system, a partition table, a volume. Its content is
    /// lost. Only for the first start; remove the setting afterwards.
    force: bool = switch(false),
}
besides {
    /// File (created if absent, with its directory) or block device.
    path: PathBuf = PathBuf::new(),
}
}

impl StorePlan {
    /// Range of `size_bytes`. The command's default is `default`, or half of the free space if that is less.
    pub const SIZE_BYTES: Bounds = bytes(4 * MIB, 10 * GIB, 2048 * GIB);

    /// A store at this path with defaults for the rest.
    pub fn at(path: impl Into<PathBuf>, size_bytes: Option<u64>) -> Self {
        StorePlan {
            path: path.into(),
            size_bytes,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_admin_interface_serves_loopback_and_its_networks() {
        let admin = Admin {
            address: "0.0.0.0:3129".parse().unwrap(),
            allow: vec!["10.1.0.0/16".parse().unwrap()],
        };
        let serves = |client: &str| admin.serves(client.parse().unwrap());
        assert!(serves("127.0.0.1") && serves("::1") && serves("10.1.2.3"));
        assert!(serves("::ffff:10.1.2.3"));
        assert!(!serves("10.2.0.1"));
    }
}
