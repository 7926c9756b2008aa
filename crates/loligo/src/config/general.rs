//! Settings outside `[[store]]`, `[[listener]]` and `[[rule]]`: one by one, and together.
//!
//! Rules kept here, and nowhere else:
//!   G1  an admin interface beyond loopback has a list of clients it serves
//!   G2  no file is used for two things: access log, profile, store
//!   G4  ICP beyond loopback has a list of siblings that may ask
//!   G5  a digest is served only with a store
//!   G3  the number of connections fits the limit of open files
//! `surroundings` checks these settings against the machine.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use commands::units::Time;
use ipnet::IpNet;
use proxy::plan::{
    self, AccessFormat, AccessLog, Admin, CacheRules, Dns, IoEngine, Limits, LogTarget, Plan,
    PoolLimits, Setting, StorePlan, Storing, Timeouts,
};

use super::acme;
use super::experimental;
use super::machine::Machine;
use super::origin_tls;
use super::problem::{Found, Problem, needs_allow};
use super::raw::Block;
use super::rows::{Row, numbers, rows};
use super::user;
use super::values;

/// The default address of the admin interface.
pub const ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 3129);

const MIB: u64 = 1 << 20;
/// Files the process needs beside connections: store, logs, rings, resolver, libraries.
const FILES_RESERVED: u64 = 256;
/// The share of the other files that clients may have, percent. The rest is for origins; idle clients and hits need none.
const CLIENT_FILES_PERCENT: u64 = 75;
/// The fewest connections of a worker to one origin, even with a low limit of files: with fewer, misses would queue at any load. Without
/// a free file for a connection, the answer is 503 either way.
const POOL_LEAST: u64 = 64;

/// The values of single settings, before they are checked together.
#[derive(Clone, PartialEq, Debug)]
pub struct Draft {
    /// Values that need no further check.
    pub plan: Plan,
    /// `None`: chosen for the machine.
    pub workers: Option<usize>,
    /// `None`: chosen for the machine; 0: no memory tier.
    pub memory: Option<u64>,
    /// `None`: no admin interface.
    pub admin: Option<SocketAddr>,
    pub admin_allow: Vec<IpNet>,
    pub acme: plan::Acme,
    pub access: Option<LogTarget>,
    pub access_format: AccessFormat,
    /// The facility of syslog lines.
    pub facility: u8,
    /// The filter for log lines on standard error.
    pub log_level: String,
    /// Names or numbers.
    pub user: Option<String>,
    pub group: Option<String>,
    /// The certificate shown to origins, and its key.
    pub certificate: Option<PathBuf>,
    pub certificate_key: Option<PathBuf>,
}

impl Default for Draft {
    fn default() -> Self {
        Draft {
            plan: Plan::with_listeners(Vec::new()),
            workers: None,
            memory: None,
            admin: Some(ADMIN),
            admin_allow: Vec::new(),
            acme: plan::Acme::default(),
            access: None,
            access_format: AccessFormat::default(),
            facility: plan::Syslog::FACILITY,
            log_level: "info".to_owned(),
            user: None,
            group: None,
            certificate: None,
            certificate_key: None,
        }
    }
}

impl Draft {
    /// A log's target, with the syslog facility set.
    pub fn with_facility(&self, mut target: LogTarget) -> LogTarget {
        if let LogTarget::Syslog(syslog) = &mut target {
            syslog.facility = self.facility;
        }
        target
    }
}

/// Settings outside blocks. Those that begin with `store.` are written into a store's block and apply to all stores.
pub fn rows() -> Vec<Row<Draft>> {
    let mut rows = process_rows();
    rows.extend(admin_rows());
    rows.extend(store_rows());
    rows.extend(log_rows());
    rows.extend(net_rows());
    rows.extend(certificate_rows());
    let of_store = |row: Row<Storing>| row.within(|draft: &mut Draft| &mut draft.plan.storing);
    rows.extend(experimental::rows().into_iter().map(of_store));
    part(&mut rows, "store.", Storing::SETTINGS, |p| &mut p.storing);
    part(&mut rows, "limits.", Limits::SETTINGS, |p| &mut p.limits);
    part(&mut rows, "timeouts.", Timeouts::SETTINGS, |p| {
        &mut p.timeouts
    });
    part(&mut rows, "cache.", CacheRules::SETTINGS, |p| &mut p.cache);
    part(&mut rows, "dns.", Dns::SETTINGS, |p| &mut p.dns);
    part(&mut rows, "icp.", plan::Icp::SETTINGS, |p| &mut p.icp);
    part(&mut rows, "digest.", plan::Digests::SETTINGS, |p| {
        &mut p.digests
    });
    part(&mut rows, "pool.", PoolLimits::SETTINGS, |p| &mut p.pool);
    rows
}

/// The numbers of a part of the plan.
fn part<P>(
    rows: &mut Vec<Row<Draft>>,
    scope: &str,
    settings: &'static [Setting<P>],
    part: fn(&mut Plan) -> &mut P,
) {
    rows.extend(numbers(scope, settings, move |draft: &mut Draft| {
        part(&mut draft.plan)
    }));
}

/// The process.
fn process_rows() -> Vec<Row<Draft>> {
    rows![Draft:
        /// The name this proxy signs with in `Via` and `Cache-Status`. Give each proxy of a chain its own.
        "name": "a token", "loligo" => plan.name = values::token;
        /// Worker threads. Fewer leave cores to other programs.
        "workers": "a number, 1 to 256", "one a core" => workers = values::workers;
        /// Size of the memory tier, all workers together. More on a machine that does nothing else. Short and often used objects stay
        /// longest. Where it is changed from less than 64MiB to more than 1GiB, a restart lets workers share it better.
        "memory": "a size, 1MiB to 1TiB, or `none`", "an eighth of the RAM, at most 1GiB" => memory = values::memory;
        /// Whom a process that was started as root becomes, by name or number: after its ports are bound and its stores open, before anybody
        /// can connect. It keeps none of root's rights. Logs and `cluster.state` are opened as that user, whose folders they need. `root`:
        /// it stays root. Somebody else's process stays what it is; a service manager may do the same before the start.
        "user": "a user", "loligo, if there is such a user" => user = values::account;
        /// Its group. It is in no other.
        "group": "a group", "the user's" => group = values::account;
    ]
}

/// The admin interface.
fn admin_rows() -> Vec<Row<Draft>> {
    rows![Draft:
        /// Where the admin interface listens: `/metrics`, `/status`, `/healthz`, `PURGE`.
        "admin.address": "`ADDRESS:PORT` or `none`", "127.0.0.1:3129" => admin = values::socket_address_or_none;
        /// Who may use the admin interface beside this machine. Required when it listens beyond loopback.
        "admin.allow": "networks", "none: this machine only" => admin_allow = values::networks;
        /// Names by which it may be asked, beside IP addresses and localhost: for a Prometheus that scrapes it by name. Requests under
        /// other names get 421, since a web page may have made such a name point here.
        "admin.names": "host names", "none: addresses and localhost" => plan.admin_names = values::hosts;
        /// Count which hosts and URLs are asked for most at present, and show them in `/status` and on the dashboard. It costs as much as an
        /// access log without the writing. Off by default, because users of the admin interface then see what people ask for.
        "admin.top": "`true`, `false`", "false" => plan.logs.top = values::switch;
    ]
}

/// All stores.
fn store_rows() -> Vec<Row<Draft>> {
    rows![Draft:
        /// How the disk is read and written. `auto`: io_uring where the kernel allows it, else threads; `uring`: that or do not start.
        "store.io-engine": "`auto`, `uring`, `threads`", "auto" => plan.storing.io_engine = |given| values::word(given, &[
            ("auto", IoEngine::Auto), ("uring", IoEngine::Uring), ("threads", IoEngine::Threads),
        ]);
        /// Which objects leave a full store. `reinsertion` frees neighbouring regions in the order in which they were written: writes are
        /// long, and it needs little memory. Before it frees a region it reads it, as far as the disk has time, and writes the objects
        /// again that are worth most: asked for often and not long ago, and short. That is at most PERCENT of what it frees (10 to 50, by
        /// default 20). `second-chance` reads nothing: an object that is used while it lies within the next PERCENT of the store to be
        /// freed (0 to 75, by default 20) is written again; for short objects PERCENT is up to two and a half times as large, for long
        /// ones half, unless reads are lazy. It writes less, and fewer requests are hits, above all with little disk. The others evict object
        /// by object, with more memory and smaller writes: to compare. `lru-threshold` stores nothing longer than SIZE, `gdsf` prefers to
        /// keep small objects.
        "store.replacement":
            "`reinsertion`, `reinsertion=PERCENT`, `second-chance`, `second-chance=PERCENT`, `lru`, `lru-threshold=SIZE`, `gdsf`", "reinsertion"
            => plan.storing.replacement = values::replacement;
        /// Which objects are stored. `by-size`: all while there is room; once the store is full, long objects wait for a second miss not
        /// long after the first, unless a sample shows that this costs hits, those of more than half the mean length of what is missed. They cost most of the writes, and take the
        /// place of many short ones. `all`: everything, which a mirror of large files may want. `second-hit`: what was missed before,
        /// not long ago; `tinylfu`: once the store is full, what was asked for twice not long ago. Both spare a flash device writes and
        /// keep out objects that are asked for once; the price is one more miss for each object.
        "store.admission": "`by-size`, `all`, `second-hit`, `tinylfu`", "by-size" => plan.storing.admission = values::admission;
        /// Lazy reads, for disks with a head: up to so many reads of a worker wait for each other (2ms at most), go to the disk in the
        /// order of their places, and neighbours are read as one. `auto`: 10, while reads are measured to take 1ms or more. 0: no
        /// read waits. A number: always, for a disk known to have a head, or an array of many. Where reads are lazy, small objects of one server
        /// are written together, and a read goes on beyond its object, up to 64KiB: it brings along the objects that are asked for
        /// next, such as a page's images. A server whose objects are seldom asked for so is read without them.
        "store.lazy-reads": "`auto`, or a number, 0 to 64", "auto" => plan.storing.lazy_reads = values::lazy_reads;
    ]
}

/// Logs and profile.
fn log_rows() -> Vec<Row<Draft>> {
    rows![Draft:
        /// The access log; `-` is standard output. SIGHUP or SIGUSR1 reopens a file. `syslog` sends each line by RFC 5424 to /dev/log, or to another
        /// socket, or by UDP; `journald` to systemd's journal. A log that takes nothing holds up no request: its lines are dropped and
        /// counted (`loligo_log_records_lost`).
        "log.access": "a path, `-`, `syslog`, `syslog:/SOCKET`, `syslog://ADDRESS:PORT`, `journald`, `none`", "none" => access = values::log_target;
        /// Squid's native format, one JSON object a line (all there is, the origin and the listener among it), or the combined format
        /// of Apache and nginx, which most analysers read. Each shows the URL as the client asked for it. Or a line of your own with fields,
        /// `${client} \"${method} ${uri}\" ${status} ${ms}`: docs/access-log.md lists them.
        "log.access-format": "`squid`, `json`, `combined`, or text with `${FIELD}`", "squid" => access_format = values::access_format;
        /// Under which facility syslog gets the access log.
        "log.syslog-facility": "`user`, `daemon`, `local0` to `local7`", "local7" => facility = values::facility;
        /// The profile file: one small binary record a request. `loligo profile dump` prints it. SIGHUP or SIGUSR1 reopens it. The
        /// Debian package rotates `/var/log/loligo/*.profile` with the access log.
        "log.profile": "a path or `none`", "none" => plan.logs.profile = values::path_or_none;
        /// Whether its records have hashes of the URL, of the server and of the client, under a secret of the store: they tell first
        /// accesses and unique documents apart, and name none. `false` saves 12 bytes a request.
        "log.profile-keys": "`true`, `false`", "true" => plan.logs.profile_keys = values::switch;
        /// Whether the client's hash is among them. `false`: its place is 0, and a report does not know how many clients there were.
        "log.profile-clients": "`true`, `false`", "true" => plan.logs.profile_clients = values::switch;
        /// How much is said on standard error.
        "log.level": "`error`, `warn`, `info`, `debug`, `trace`, or a filter such as `info,proxy=debug`", "info"
            => log_level = values::log_level;
    ]
}

/// Siblings and names.
fn net_rows() -> Vec<Row<Draft>> {
    rows![Draft:
        /// Where ICP queries of siblings are answered, UDP; queries to siblings are sent from there, too. The usual port is 3130.
        "icp.listen": "`ADDRESS:PORT` or `none`", "none" => plan.icp.listen = values::socket_address_or_none;
        /// Who may ask beside this machine: the siblings. Others are told that they may not, up to a point.
        "icp.allow": "networks", "none: this machine only" => plan.icp.allow = values::networks;
        /// Who may fetch the digest beside this machine: the siblings. It tells them with what seed keys are hashed, and with that
        /// one could choose URLs that drive each other out of the cache.
        "digest.allow": "networks", "none: this machine only" => plan.digests.allow = values::networks;
        /// Name servers, `ADDRESS` or `ADDRESS:PORT`, instead of those of /etc/resolv.conf.
        "dns.servers": "addresses", "the system's" => plan.dns.servers = values::name_servers;
    ]
}

/// Certificates: our own, and those that are trusted. Routes, upstreams and parents may have their own `tls`.
fn certificate_rows() -> Vec<Row<Draft>> {
    rows![Draft:
        /// Order a certificate from this authority (ACME), and renew it when a third of its time is left. Listeners with `tls = "acme"` show
        /// it, and one of them must be what the world reaches at port 443 of each name: the authority connects there (tls-alpn-01). To
        /// write it means to agree to the authority's terms.
        "acme.directory": "an https URL", "none" => acme.directory = acme::directory;
        /// The names in the certificate, 100 at most, without wildcards.
        "acme.names": "host names", "required with acme.directory" => acme.names = values::hosts;
        /// Where the authority may write to.
        "acme.contact": "an e-mail address", "none" => acme.contact = acme::contact;
        /// A folder for the account's key and the certificate, which the user of the proxy may write to. It is made where there is none.
        "acme.state": "a path", "required with acme.directory" => acme.state = values::path;
        /// PEM file of certificates to trust for https origins beside the system's: of authorities, or of origins themselves. One of an origin
        /// counts for the names in it and in its time, whatever else it says. One that calls itself an authority (`openssl req -x509` makes such
        /// a one, unless it is told `-addext basicConstraints=critical,CA:FALSE`) counts also for all that its key has signed; one of X.509
        /// version 1 can't, and is never an authority here.
        "tls.ca-file": "a path", "none" => plan.tls.ca_file = values::path;
        /// PEM: a certificate to show to origins that ask for one, and behind it those that lead to a root. It is read again with
        /// a reload, and when it has changed.
        "tls.client-certificate.certificate": "a PEM file", "none" => certificate = values::path;
        /// PEM: its private key, without a password. The user that the proxy becomes must be able to read it.
        "tls.client-certificate.key": "a PEM file", "the certificate's file" => certificate_key = values::path;
        /// Look whether the certificates of https origins are for their names, hold now and were signed by somebody trusted. With `false`
        /// whoever answers is the origin: for tests. What is not verified is named by `loligo check`, at the start and in `/status`.
        "tls.verify": "`true`, `false`", "true" => plan.tls.is_unverified = |given| values::switch(given).map(|verify| !verify);
        /// The oldest version of TLS that is spoken to origins.
        "tls.min": "`1.2`, `1.3`", "1.2" => plan.tls.only_tls13 = origin_tls::version;
    ]
}

/// The tables of a configuration file.
pub fn sections() -> Vec<String> {
    let blocks = [
        "store", "listener", "rule", "limit", "upstream", "parent", "sibling", "cluster",
    ];
    let mut names: Vec<String> = blocks.map(str::to_owned).to_vec();
    let of_rows = rows().into_iter();
    names.extend(of_rows.filter_map(|row| Some(row.key.split_once('.')?.0.to_owned())));
    names
}

/// Checks the settings together, and fills in defaults that depend on the machine. `whole`: the settings as written.
pub fn settle(
    mut draft: Draft,
    whole: &Block,
    stores: &[StorePlan],
    machine: &Machine,
    found: &mut Found,
) -> Plan {
    check(&draft, whole, stores, &mut found.problems);
    let workers = draft.workers.unwrap_or(machine.cores);
    settle_files(&mut draft, whole, workers, machine.files_max, found);
    let access = draft.access.clone().map(|target| AccessLog {
        target: draft.with_facility(target),
        format: draft.access_format.clone(),
    });
    let ordered = acme::settle(std::mem::take(&mut draft.acme), whole, &mut found.problems);
    let account = (draft.user.as_deref(), draft.group.as_deref());
    let user = user::settle(account, whole, machine, found);
    let mut plan = draft.plan;
    plan.user = user;
    plan.acme = ordered;
    plan.limits = plan.limits.derived();
    plan.workers = workers.clamp(Plan::WORKERS.min as usize, Plan::WORKERS.max as usize);
    plan.memory_bytes = draft
        .memory
        .unwrap_or_else(|| memory_default(machine.ram_bytes));
    plan.admin = draft.admin.map(|address| Admin {
        address,
        allow: draft.admin_allow,
    });
    plan.logs.access = access;
    plan
}

/// An eighth of the RAM in whole MiB, within bounds.
pub fn memory_default(ram_bytes: u64) -> u64 {
    (ram_bytes / 8 / MIB * MIB).clamp(Plan::MEMORY_BYTES.min, Plan::MEMORY_BYTES.default)
}

fn check(draft: &Draft, whole: &Block, stores: &[StorePlan], problems: &mut Vec<Problem>) {
    experimental::check(&draft.plan.storing, whole, problems);
    let dns = &draft.plan.dns;
    if dns.ttl_min > dns.ttl_max {
        let message = format!("must not exceed dns.ttl-max, {}", Time(dns.ttl_max));
        problems.push(
            match whole.says("dns.ttl-min") || !whole.says("dns.ttl-max") {
                true => whole.problem("dns.ttl-min", message),
                false => whole.problem(
                    "dns.ttl-max",
                    format!("dns.ttl-min, which is not set, {message}"),
                ),
            },
        );
    }
    // G1
    if draft
        .admin
        .is_some_and(|address| !address.ip().to_canonical().is_loopback())
        && draft.admin_allow.is_empty()
    {
        let how = "admin.allow = [\"10.0.0.0/8\"] (flag --admin-allow); whoever may use it may purge the cache";
        problems.push(whole.problem("admin.address", needs_allow(how)));
    }
    // G4
    let plan = &draft.plan;
    if let Some(address) = plan.icp.listen
        && !address.ip().is_loopback()
        && plan.icp.allow.is_empty()
    {
        let how = "icp.allow = [\"10.0.0.2\"], the siblings that may ask";
        problems.push(whole.problem("icp.listen", needs_allow(how)));
    }
    // G5
    if plan.digests.serve && stores.is_empty() {
        let message = "needs a [[store]]: a digest tells what is on disk";
        problems.push(whole.problem("digest.serve", message));
    }
    if plan.digests.squid && !plan.digests.serve {
        let message = "needs digest.serve = true";
        problems.push(whole.problem("digest.squid", message));
    }
    // G2
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let access = match &draft.access {
        Some(LogTarget::File(path)) => Some(absolute(path)),
        _ => None,
    };
    let profile = draft.plan.logs.profile.as_deref().map(absolute);
    for (key, file) in [("log.access", &access), ("log.profile", &profile)] {
        let is_store = |file: &PathBuf| stores.iter().any(|store| absolute(&store.path) == *file);
        if file.as_ref().is_some_and(is_store) {
            let message = "this is the store; a log needs a file of its own";
            problems.push(whole.problem(key, message));
        }
    }
    if access.is_some() && access == profile {
        let message = "this is the access log; the profile needs a file of its own";
        problems.push(whole.problem("log.profile", message));
    }
}

/// G3. Unless given, the connections to one origin are at most a worker's share of the files that clients leave.
fn settle_files(draft: &mut Draft, whole: &Block, workers: usize, files: u64, found: &mut Found) {
    let limits = &mut draft.plan.limits;
    let wanted = limits.connections_max as u64;
    let bearable = files.saturating_sub(FILES_RESERVED) / 100 * CLIENT_FILES_PERCENT;
    if wanted > bearable && whole.says("limits.connections-max") {
        found.notes.push(format!(
            "{wanted} connections need up to {} open files, but this process may have {files} (ulimit -n)",
            wanted * 100 / CLIENT_FILES_PERCENT + FILES_RESERVED
        ));
    } else if wanted > bearable {
        limits.connections_max = bearable.max(1) as usize;
        found.fitted.push(format!(
            "connections are limited to {} instead of {wanted}, because this process may have {files} open files \
             (ulimit -n)",
            limits.connections_max
        ));
    }
    let left = files
        .saturating_sub(FILES_RESERVED)
        .saturating_sub(limits.connections_max as u64);
    let share = (left / workers.max(1) as u64).max(POOL_LEAST) as usize;
    let pool = std::mem::take(&mut draft.plan.pool);
    draft.plan.pool = pool.fitted(share, whole.says("pool.per-origin-max"));
}
