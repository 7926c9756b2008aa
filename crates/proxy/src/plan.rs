//! The plan: everything the data plane needs before it starts, checked, in plain units.
//!
//! `loligo` turns a configuration into a [`Plan`]. A field is optional only if its absence means something ("no store", "no
//! admin interface"). Every number that may be set is declared once, with its default, range and sentence ([`Setting`]); the
//! command checks against it and prints it in the reference.
//!
//! Two small decisions live with their data: which requests a route matches ([`Route::matches`]) and which of several routes
//! comes first ([`Route::specificity`]). `access` decides which clients are served and which destinations are allowed.
//!
//! Not known here: files, flags, sockets. Times are durations, sizes bytes.

mod acme;
mod bounds;
mod clients;
mod cluster;
mod hints;
mod hosts;
mod hours;
mod mirror;
mod peers;
mod quotas;
mod rules;
mod setting;
mod tls;
mod upstreams;
mod verdicts;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use ipnet::IpNet;

pub use acme::Acme;
pub use bounds::{
    CacheRules, Dns, LazyMode, Limits, LocalityMode, OriginTls, PoolLimits, Storing, Timeouts,
};

pub use clients::{ClientField, Naming, ProxyProtocol};
pub use cluster::{
    Cluster, ClusterKey, ClusterMember, ClusterMiss, ClusterRoute, FalseHit, HintKind, MEMBERS_MAX,
    Spread,
};
pub use hints::{Digests, Icp};
pub use hosts::{HostList, Stamp, address};
pub use hours::{Hours, Minute};
pub use message::Scheme;
pub use mirror::{HostPort, Mirroring, Replace};
pub use peers::{Ask, Direct, Health, Order, PEERS_MAX, Parent, PeerAddress, Sibling};
pub use quotas::{Excess, Per, Quota, QuotaKeys, Rate, What};
pub use rules::{FieldFits, FieldIs, KeyRule, Rule, Then, When};
pub use setting::{Bounds, Numeric, Setting, Unit};
pub use upstreams::{Balance, HealthCheck, SERVERS_MAX, Server, UPSTREAMS_MAX, Upstream};
pub use verdicts::{Canned, Edit, How, Piece, Side, Text, Variable, Verdict, is_of_value};

pub use tls::{CertificateFiles, ClientCertificates, ListenerTls};

use setting::{bytes, count, settings, switch};

pub use httpcache::ClientDirectives;
pub use replacement::{AdmissionKind, PolicyKind, Watermarks};
pub use store::Replacement;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Everything the proxy needs to run.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Where clients connect, at least one, no address twice (port 0, "any free port", may repeat).
    pub listeners: Vec<Listener>,
    /// The admin interface; `None`: there is none.
    pub admin: Option<Admin>,
    /// Names by which the admin interface may be asked, beside addresses and localhost: lower case, or `*.suffix`.
    pub admin_names: Vec<String>,
    /// The disk cache: its stores, no file or device twice; empty: memory only.
    pub stores: Vec<StorePlan>,
    /// Settings of all stores together.
    pub storing: Storing,
    /// Bytes of the memory tier, all workers together; 0: there is none.
    pub memory_bytes: u64,
    /// Clients on this machine are sent pages of memory, as others are, and not a copy. No setting: for tests, whose clients are all here.
    pub sends_pages_here: bool,
    /// Worker threads, each with its own runtime; at least 1.
    pub workers: usize,
    /// Whom the process becomes once its sockets are bound and its devices open; `None`: it stays what it is.
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
    /// The operator's rules for some exchanges, in the order in which they are checked.
    pub rules: Vec<Rule>,
    /// How much each client, host or listener may have, no name twice, at most [`Quota::QUOTAS_MAX`].
    pub quotas: Vec<Quota>,
    /// Servers of the same content, at most [`UPSTREAMS_MAX`], which routes name in place of an origin.
    pub upstreams: Vec<Upstream>,
    /// Proxies that fetch for forward listeners, at most [`PEERS_MAX`]. Those of the same `domains` stand together and agree in
    /// `order` and `direct`.
    pub parents: Vec<Parent>,
    /// Proxies that forward listeners ask for what they have, at most [`PEERS_MAX`].
    pub siblings: Vec<Sibling>,
    /// Answers to ICP queries.
    pub icp: Icp,
    /// Digests of what the stores have, and how often those of siblings are fetched.
    pub digests: Digests,
    /// The cluster that this proxy is a member of; `None`: of none.
    pub cluster: Option<Cluster>,
    /// Name resolution.
    pub dns: Dns,
    /// Connections to origins.
    pub pool: PoolLimits,
    /// TLS to origins.
    pub tls: OriginTls,
    /// The certificate that is ordered from an authority; `None`: none is.
    pub acme: Option<Acme>,
}

/// A user of the system, without root's rights.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    /// As it was written, for messages.
    pub name: String,
    /// Its number; not 0.
    pub uid: u32,
    /// Its group; it gets no other.
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
    pub const ROUTES_MAX: usize = 1024;
    /// The default of `name`.
    pub const NAME: &str = "loligo";

    /// The name of a listener in a cluster.
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
    /// Its name in a cluster: what a member forwards comes in by the listener of the same name. Empty: its number, from 1.
    pub name: String,
    /// Forward proxy, or reverse proxy in front of origins.
    pub role: Role,
    /// The client networks served. Loopback clients are always served.
    pub allow: Vec<IpNet>,
    /// The networks whose PURGE is obeyed here; empty: none. Loopback must be listed too, because behind a proxy on the same
    /// machine every client comes from there.
    pub purge_from: Vec<IpNet>,
    /// Which directives count.
    pub heeds: Heeds,
    /// What origins are told of this listener's clients.
    pub forwarded: Forwarded,
    /// TLS to its clients; `None`: it speaks plain HTTP.
    pub tls: Option<ListenerTls>,
    /// May clients speak HTTP/2: over TLS if they ask for it there (ALPN), else if they know (RFC 9113 §3.3)?
    pub http2: bool,
    /// How the clients behind balancers are known.
    pub naming: Naming,
    /// The names of the quotas that count its requests and connections.
    pub quotas: Vec<String>,
}

/// Which directives count: a forward proxy works for its clients, a reverse proxy for the origin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heeds {
    /// Which cache directives of clients count.
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
    /// The routes name it, by host and path. The most specific route comes first; the first match counts.
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
    /// Ports that requests other than CONNECT may go to. Those of line protocols, mail above all, are left out of a range and
    /// must be named alone (`ports`).
    pub http_ports: Vec<RangeInclusive<u16>>,
    /// The addresses that may be connected to, under any name.
    pub destinations: Destinations,
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

/// The origin for the requests for a host and path.
#[derive(Clone, PartialEq, Debug)]
pub struct Route {
    /// Lower case, without port: a host name, or `*.suffix` for every name below it; `None`: any host.
    pub host: Option<String>,
    /// Begins with `/`; matches whole segments: `/docs` takes `/docs`, `/docs/a` and `/docs?q`, not `/docsa`.
    pub path_prefix: String,
    /// The origin. With an upstream: `http`, the upstream's name, port 80, and the path that is put before the request's. Nobody connects to
    /// that, but it is the origin's name in keys.
    pub origin: OriginUrl,
    /// The name of the upstream whose servers are asked; `None`: `origin` is.
    pub upstream: Option<String>,
    /// Send the client's Host to the origin? `false`: Host becomes the origin's own.
    pub pass_host: bool,
    /// What is done beyond passing requests on.
    pub mirror: Mirroring,
    /// Each connection to the origin begins with a PROXY header, version 2, that names the client.
    pub tells_client: bool,
}

impl Route {
    /// Any host, any path, the client's Host passed on.
    pub fn everything_to(origin: OriginUrl) -> Self {
        Route {
            host: None,
            path_prefix: "/".to_owned(),
            origin,
            upstream: None,
            pass_host: true,
            mirror: Mirroring::default(),
            tells_client: false,
        }
    }

    /// The path (a query may follow it) as it stands behind the origin's own: without what is stripped; perhaps empty.
    pub fn onward<'a>(&self, path: &'a str) -> &'a str {
        path.strip_prefix(self.mirror.strip.as_str())
            .unwrap_or(path)
    }

    /// The same to the servers of an upstream. `path`: as in [`OriginUrl`].
    pub fn everything_to_upstream(name: &str, path: &str) -> Self {
        Route {
            upstream: Some(name.to_owned()),
            ..Route::everything_to(OriginUrl {
                tls: false,
                host: name.to_owned(),
                port: 80,
                path: path.to_owned(),
            })
        }
    }

    /// What its origin is called: a URL, or the name of an upstream and a path.
    pub fn origin_name(&self) -> String {
        match &self.upstream {
            Some(name) => format!("{name}{}", self.origin.path),
            None => self.origin.to_string(),
        }
    }

    /// Does it match a request for this host (no port, any case) and path (query allowed)?
    pub fn matches(&self, host: &str, path: &str) -> bool {
        self.host_matches(host) && self.path_matches(path)
    }

    /// Sorting by this puts the more specific first: exact hosts, then longer suffixes, then any host; within
    /// a host the longer path.
    pub fn specificity(&self) -> impl Ord + use<> {
        let host = match &self.host {
            Some(name) if !name.starts_with("*.") => (2, 0),
            Some(suffix) => (1, suffix.len()),
            None => (0, 0),
        };
        std::cmp::Reverse((host, self.path_prefix.len()))
    }

    /// Does it match this host (no port, any case)?
    pub fn host_matches(&self, host: &str) -> bool {
        self.host.as_ref().is_none_or(|ours| host_fits(ours, host))
    }

    fn path_matches(&self, path: &str) -> bool {
        path.strip_prefix(self.path_prefix.as_str())
            .is_some_and(|rest| {
                self.path_prefix.ends_with('/') || rest.is_empty() || rest.starts_with(['/', '?'])
            })
    }
}

/// Is the host (no port, any case) the pattern, or for `*.suffix` a name below it?
pub fn host_fits(ours: &str, host: &str) -> bool {
    // A trailing dot does not change the name.
    let host = host.strip_suffix('.').unwrap_or(host).as_bytes();
    match ours.strip_prefix('*') {
        None => host.eq_ignore_ascii_case(ours.as_bytes()),
        Some(suffix) => {
            let from = host.len().saturating_sub(suffix.len());
            from > 0 && host[from..].eq_ignore_ascii_case(suffix.as_bytes())
        }
    }
}

/// An origin as a URL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OriginUrl {
    /// `https`: rustls, the certificate checked against `host`.
    pub tls: bool,
    /// Name or address, lower case, IPv6 without brackets.
    pub host: String,
    /// The port; without one in the URL, the scheme's own.
    pub port: u16,
    /// Prefix of the request's path; empty or `/base`, never with a `/` at its end.
    pub path: String,
}

impl OriginUrl {
    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    /// 443 or 80.
    pub fn default_port(&self) -> u16 {
        if self.tls { 443 } else { 80 }
    }

    /// The value for Host: brackets around IPv6, the port unless it is the scheme's own.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        if self.port == self.default_port() {
            host
        } else {
            format!("{host}:{}", self.port)
        }
    }
}

impl std::fmt::Display for OriginUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}{}", self.scheme(), self.authority(), self.path)
    }
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
    /// May this client use it? Loopback always may.
    pub fn serves(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        client.is_loopback() || self.allow.iter().any(|net| net.contains(&client))
    }
}

/// The way of reading and writing the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IoEngine {
    /// io_uring where the kernel allows it, else threads.
    #[default]
    Auto,
    /// io_uring or refuse to start.
    Uring,
    /// A pool of threads that call pread and pwrite.
    Threads,
}

settings! {
/// One store: a preallocated file or a block device. Objects are spread over all stores by the hash of their key.
pub struct StorePlan {
    /// Its size; a file is preallocated. Without it an existing file keeps its size, a block device is used whole, and a new
    /// file gets the default, but at most half of the free space.
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

/// Logs of requests.
#[derive(Clone, PartialEq, Debug)]
pub struct Logs {
    /// The access log; `None`: none.
    pub access: Option<AccessLog>,
    /// Listeners whose requests are logged elsewhere (`None`: nowhere), by their number.
    pub of_listeners: BTreeMap<usize, Option<AccessLog>>,
    /// The profile file (crate `profile`), appended to; `None`: none.
    pub profile: Option<PathBuf>,
    /// Do its records have hashes of the URL, the client and the server?
    pub profile_keys: bool,
    /// Do they have that of the client?
    pub profile_clients: bool,
    /// Count the most requested hosts and URLs for the admin interface?
    pub top: bool,
}

impl Logs {
    /// Is there an access log, of whatever listener?
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
    /// The default of `facility`: local7, as other proxies have it.
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
    /// The operator's.
    Own(profile::Template),
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

    fn route(host: Option<&str>, prefix: &str) -> Route {
        let origin = OriginUrl {
            tls: false,
            host: "o".into(),
            port: 80,
            path: String::new(),
        };
        Route {
            host: host.map(str::to_owned),
            path_prefix: prefix.into(),
            origin,
            upstream: None,
            pass_host: true,
            mirror: Mirroring::default(),
            tells_client: false,
        }
    }

    #[test]
    fn routes_match_hosts_and_whole_path_segments() {
        let r = route(Some("*.example.org"), "/docs");
        assert!(r.matches("www.Example.org", "/docs"));
        assert!(r.matches("a.b.example.org.", "/docs/x"));
        assert!(r.matches("a.example.org", "/docs?x"));
        assert!(!r.matches("example.org", "/docs"));
        assert!(!r.matches(".example.org", "/docs"));
        assert!(!r.matches("a.example.org", "/docsx"));
        assert!(route(None, "/docs/").matches("any", "/docs/x"));
        assert!(!route(Some("example.org"), "/").matches("www.example.org", "/"));
    }

    #[test]
    fn the_more_specific_route_sorts_first() {
        let mut routes = [
            route(None, "/a/b/c"),
            route(Some("*.org"), "/"),
            route(Some("*.example.org"), "/"),
            route(Some("a.org"), "/"),
            route(Some("a.org"), "/x"),
        ];
        routes.sort_by_key(Route::specificity);
        let order: Vec<_> = routes
            .iter()
            .map(|r| (r.host.as_deref(), r.path_prefix.as_str()))
            .collect();
        assert_eq!(
            order,
            [
                (Some("a.org"), "/x"),
                (Some("a.org"), "/"),
                (Some("*.example.org"), "/"),
                (Some("*.org"), "/"),
                (None, "/a/b/c")
            ]
        );
    }

    #[test]
    fn an_origin_prints_as_it_is_written() {
        let o = |tls, host: &str, port, path: &str| {
            OriginUrl {
                tls,
                host: host.into(),
                port,
                path: path.into(),
            }
            .to_string()
        };
        assert_eq!(o(false, "a", 80, ""), "http://a");
        assert_eq!(o(true, "::1", 8443, "/x"), "https://[::1]:8443/x");
    }
}
