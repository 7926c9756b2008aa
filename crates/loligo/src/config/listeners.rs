//! The listeners: from their blocks to their plans.
//!
//! Rules kept here, and nowhere else:
//!   L1  a listener beyond loopback has a list of clients it serves
//!   L2  no address is used twice (except port 0, any free port)
//!   L3  no origin is one of our own listeners, as far as the addresses show
//!   L4  a reverse proxy has no settings of a forward proxy, and the other way round
//!   L5  every route has an origin, and no two routes have the same host and path
//!   L6  client addresses are believed only from named proxies

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use ipnet::IpNet;
use proxy::plan::{
    AccessFormat, AccessLog, ClientDirectives, ClientField, Destinations, Forward, Forwarded,
    Heeds, HostPort, Http2, LenientHosts, Listener, LogTarget, Naming, OriginTls, OriginUrl, Plan,
    ProxyProtocol, Role, Route, Upstream,
};

use super::apply::apply;
use super::encryption::{self, EncryptionDraft};
use super::general::Draft;
use super::mirrors::{self, MirrorDraft};
use super::origin_http2;
use super::origin_tls::{self, OriginTlsDraft};
use super::ours::is_own;
use super::presets;
use super::problem::{Problem, needs_allow};
use super::quotas;
use super::raw::{Block, Given, Value};
use super::rows::{Row, rows};
use super::signing::{self, SigningDraft};
use super::upstreams::{self, Named};
use super::values;
use super::values::LISTEN;

/// The values of a block.
#[derive(Default)]
pub struct ListenerDraft {
    name: Option<String>,
    address: Option<SocketAddr>,
    allow: Vec<IpNet>,
    purge_from: Vec<IpNet>,
    origin: Option<Named>,
    pass_host: Option<bool>,
    client_directives: Option<ClientDirectives>,
    targeted: Option<bool>,
    connect_ports: Option<Vec<u16>>,
    http_ports: Option<Vec<RangeInclusive<u16>>>,
    destinations: Option<Destinations>,
    lenient: Option<(bool, bool)>,
    lenient_hosts: Vec<String>,
    forwarded: Option<Forwarded>,
    encryption: EncryptionDraft,
    http2: Option<bool>,
    proxy_protocol: ProxyProtocol,
    trusted: Vec<IpNet>,
    client_field: Option<ClientField>,
    quotas: Vec<String>,
    preset: Option<&'static str>,
    upstream: Option<Vec<OriginUrl>>,
    public: Option<OriginUrl>,
    follow: Option<Vec<HostPort>>,
    token_hosts: Option<Vec<HostPort>>,
    access: Option<Option<LogTarget>>,
    access_format: Option<AccessFormat>,
}

/// The values of a route's block.
#[derive(Default)]
pub struct RouteDraft {
    host: Option<String>,
    path: Option<String>,
    origin: Option<Named>,
    pass_host: Option<bool>,
    /// The settings of mirroring.
    mirror: MirrorDraft,
    tells_client: bool,
    http2: Option<Http2>,
    tls: OriginTlsDraft,
    sign: SigningDraft,
}

/// Settings of a `[[listener]]`.
pub fn rows() -> Vec<Row<ListenerDraft>> {
    let encryption = encryption::rows().into_iter();
    let encryption = encryption.map(|row| row.within(|it: &mut ListenerDraft| &mut it.encryption));
    let mut rows = serving_rows();
    rows.extend(encryption);
    rows.extend(client_rows());
    rows.extend(preset_rows());
    rows.extend(rows![ListenerDraft:
        /// Where this listener's requests are logged, if not with the others.
        "listener.access-log": "as `log.access`", "that of `[log]`" => access = |given| values::log_target(given).map(Some);
        /// And how.
        "listener.access-log-format": "as `log.access-format`", "that of `[log]`" => access_format = values::access_format;
    ]);
    rows
}

/// The address, the clients served, the origin, and cache directives.
fn serving_rows() -> Vec<Row<ListenerDraft>> {
    rows![ListenerDraft:
        /// Where clients connect. A port alone means 127.0.0.1.
        "listener.address": "`ADDRESS:PORT` or a port", "127.0.0.1:3128" => address = values::socket_address;
        /// Its name in a cluster: what a member forwards comes in by the listener of the same name.
        "listener.name": "a word", "its number: 1, 2" => name = values::peer_name;
        /// Who may use it beside this machine. Required when it listens beyond loopback.
        "listener.allow": "networks or `any`", "none: this machine only" => allow = values::networks;
        /// Whose `PURGE` is obeyed on this port, as modules of WordPress and Drupal send it: addresses of the machines the application
        /// runs on. This machine too must be named (`127.0.0.1`, `::1`), but not where a proxy on it passes on what the world asks:
        /// that is a client at 127.0.0.1 as well.
        "listener.purge-from": "networks or `any`", "none: PURGE is refused" => purge_from = values::networks;
        /// Makes it a reverse proxy: everything no route takes goes to this origin.
        "listener.origin": "`http://HOST[:PORT][/PATH]` or https, or the `name` of an upstream", "none: a forward proxy" => origin = upstreams::named;
        /// With `origin`: send it the client's Host, so that its links and redirects lead back here. Each host is then cached for
        /// itself, and clients choose it: name the hosts in routes where that is too much. `false` (flag `--origin-host`): Host is the
        /// origin's own.
        "listener.pass-host": "`true`, `false`", "true" => pass_host = values::switch;
        /// How much a client's Cache-Control and Pragma count. `obey`: all of it; a reload (`no-cache`, `max-age=0`) gets an answer that
        /// was asked for after it came. `revalidate`: the same, but reloads of one URL share one request to the origin, conditional where
        /// something is stored, and there is at most one a second. `ignore`: none but `only-if-cached`, so that no client can make the
        /// origin work for what is stored, or keep an answer from being stored; purge what is out of date.
        "listener.client-directives": "`obey`, `revalidate`, `ignore`", "`revalidate`; with `origin` or routes `ignore`"
            => client_directives = values::directives;
        /// Reverse proxy: `Loligo-Cache-Control` and `CDN-Cache-Control` (RFC 9213) go before Cache-Control and Expires. `false` where
        /// another cache in front is meant. A forward proxy never obeys them: they speak to caches that work for the origin.
        "listener.targeted-cache-control": "`true`, `false`", "true" => targeted = values::switch;
        /// Forward proxy: ports that CONNECT may reach. `[]`: no tunnels.
        "listener.connect-ports": "ports", "443" => connect_ports = values::ports;
        /// Forward proxy: ports that all other requests may go to. A range leaves out the ports of line protocols (mail, IRC, SIP and
        /// the rest of what browsers refuse), for a request's body could be commands to such a server; one that is written as a number
        /// alone is allowed.
        "listener.http-ports": "ports and ranges", "80, 443, 1024-65535" => http_ports = values::port_ranges;
        /// Forward proxy: addresses of this machine and of the link that may be reached. `loopback` is the whole machine, whatever address
        /// of its interfaces is named. All others may be, except the proxy's own listeners and multicast.
        "listener.allow-destinations": "`loopback`, `link-local`, networks", "`loopback` and `link-local` on a loopback listener, else none"
            => destinations = values::destinations;
        /// Forward proxy: oddities of answers' heads that are read, though they are refused (502) of all other hosts: lines that end in LF
        /// alone, field lines that go on in the next line. For an old server that nobody will mend. Two different lengths, or a length and
        /// chunks, are refused of everybody.
        "listener.lenient": "a list of `LF`, `folding`", "none" => lenient = values::lenient;
        /// Of these hosts: names, `*.NAME` for all below one, addresses.
        "listener.lenient-hosts": "a list of hosts", "none" => lenient_hosts = values::hosts;
        /// What origins are told of clients. `replace`: X-Forwarded-For, -Proto and -Host say what is known here; what the client sent of
        /// them, of other X-Forwarded fields, of X-Real-IP and Forwarded is dropped. (-Host only with `pass-host`: a host that is not
        /// part of the key must not get into what is stored.) They are no part of the key: an application that answers by them must say
        /// Vary, or a rule `key-fields`. `append`: for clients that are trusted proxies; the client's address is added to theirs. `none`:
        /// the client's fields pass as they come, and nothing is added.
        "listener.forwarded": "`replace`, `append`, `none`", "`replace` on a reverse proxy, else `none`"
            => forwarded = |given| values::word(given, &[
                ("replace", Forwarded::Replace), ("append", Forwarded::Append), ("none", Forwarded::None),
            ]);
    ]
}

/// Protocols of clients, and how their addresses are found out.
fn client_rows() -> Vec<Row<ListenerDraft>> {
    rows![ListenerDraft:
        /// Speak HTTP/2 too. With TLS, clients ask for it (ALPN), and may do everything that they may in HTTP/1.1. Without, only to
        /// those that begin in it (prior knowledge): a balancer in front, or gRPC. `Upgrade: h2c` is never heeded.
        "listener.http2": "`true`, `false`", "`true` with TLS, else `false`" => http2 = values::switch;
        /// Connections that begin with a header of the PROXY protocol (version 1 or 2), in which a balancer names the client: `require`
        /// for all, or the networks of the balancers; all others are then plain. The client that is named is the one that `allow`, logs,
        /// rules and limits go by; whoever connects must be in `allow`, too, unless it is listed here. A connection without the header
        /// is closed. With `require` everybody who may connect can claim any address: list the balancers, unless a firewall does.
        "listener.proxy-protocol": "`require`, networks", "none" => proxy_protocol = proxy_protocol;
        /// Proxies that are believed when they say for whom they ask: the client of a request is the last address in `client-field` that
        /// is not in these networks. Everybody else's word goes for nothing. Each must add the address of whoever asked it to that field.
        "listener.trust-forwarded": "networks", "none" => trusted = values::networks;
        /// With `trust-forwarded`: where they say it. The other of the two is not looked at, since a proxy that writes the one commonly
        /// passes the other on as its client wrote it.
        "listener.client-field": "`x-forwarded-for`, `forwarded`", "x-forwarded-for"
            => client_field = |given| values::word(given, &[
                ("x-forwarded-for", ClientField::XForwardedFor), ("forwarded", ClientField::Forwarded),
            ]);
        /// The limits that count its requests and connections, by the names of their blocks `[[limit]]`.
        "listener.limits": "a list of names", "none" => quotas = quotas::names;
    ]
}

/// Mirrors without routes of their own.
fn preset_rows() -> Vec<Row<ListenerDraft>> {
    rows![ListenerDraft:
        /// Makes it a mirror ([mirrors](mirrors.md)): stands for routes and rules, which `loligo check` prints. Rules of your own come first.
        "listener.preset": "`apt`, `pypi`, `npm`, `cargo`, `go`, `oci`", "none" => preset = presets::name;
        /// With `preset`: where lies what is mirrored. `pypi` and `cargo` take two: the index, and the server of files.
        "listener.upstream": "one or two URLs", "required with `preset`" => upstream = presets::upstreams;
        /// With `preset`: the URL by which clients know this listener. `npm`, and `cargo` with two upstreams, write it into their indexes.
        "listener.public": "`http://HOST[:PORT]` or https", "none" => public = values::origin;
        /// With `preset`: as in a route.
        "listener.follow-redirects": "a list of `HOST`, `*.HOST`, `HOST:PORT`", "none" => follow = mirrors::host_ports;
        /// With `preset`: as in a route.
        "listener.token-hosts": "a list of `HOST`, `*.HOST`, `HOST:PORT`", "with `oci`: the registry alone" => token_hosts = mirrors::host_ports;
    ]
}

/// Settings of a `[[listener.route]]`.
pub fn route_rows() -> Vec<Row<RouteDraft>> {
    let mut rows = rows![RouteDraft:
        /// Hosts it is for. `*.example.org` is every name below example.org, not that name itself.
        "listener.route.host": "a name, or `*.` and a name", "any host" => host = values::host;
        /// Paths it is for: this one and all below it (`*` has no meaning here). Exact hosts come before `*.`, longer paths before shorter.
        "listener.route.path": "begins with `/`", "/" => path = values::route_path;
        /// Where its requests go. A path here is put before the request's own.
        "listener.route.origin": "`http://HOST[:PORT][/PATH]` or https, or the `name[/PATH]` of an upstream", "required"
            => origin = upstreams::named;
        /// Send the client's Host to the origin. `false`: the origin's own.
        "listener.route.pass-host": "`true`, `false`", "true" => pass_host = values::switch;
        /// `v2`: each connection to the origin begins with a PROXY header that names the client whose request it is for. Then no connection
        /// serves a second request. A fetch that several share names the first of them.
        "listener.route.proxy-protocol": "`v2`, `none`", "none"
            => tells_client = |given| values::word(given, &[("v2", true), ("none", false)]);
        /// Ask the origin by HTTP/2, many requests on a connection. `true`: where TLS agrees on it, else by HTTP/1.1. `prior-knowledge`: in
        /// plain TCP, to an origin that is known to speak it (h2c). It is needed for gRPC; a plain miss costs less by HTTP/1.1.
        /// An upgrade (WebSocket) goes out by HTTP/1.1 in any case.
        "listener.route.http2": "`true`, `false`, `prior-knowledge`", "false" => http2 = origin_http2::http2;
    ];
    let mirror = mirrors::rows().into_iter();
    rows.extend(mirror.map(|row| row.within(|it: &mut RouteDraft| &mut it.mirror)));
    let tls = origin_tls::rows("listener.route.tls.").into_iter();
    rows.extend(tls.map(|row| row.within(|it: &mut RouteDraft| &mut it.tls)));
    let sign = signing::rows(signing::SCOPES[0]).into_iter();
    rows.extend(sign.map(|row| row.within(|it: &mut RouteDraft| &mut it.sign)));
    rows
}

/// The access logs of listeners that have their own, by the listener's index. [`settle`] has reported their problems.
pub fn logs(blocks: &[Block], draft: &Draft) -> BTreeMap<usize, Option<AccessLog>> {
    let mut logs = BTreeMap::new();
    for (number, block) in blocks.iter().enumerate() {
        let mut own = ListenerDraft::default();
        apply(&rows(), &block.given, &mut own, &mut Vec::new());
        if own.access.is_none() && own.access_format.is_none() {
            continue;
        }
        let target = own.access.unwrap_or_else(|| draft.access.clone());
        let format = own
            .access_format
            .unwrap_or_else(|| draft.access_format.clone());
        let log = target.map(|target| AccessLog {
            target: draft.with_facility(target),
            format,
        });
        logs.insert(number, log);
    }
    logs
}

/// Checks the blocks; without any, there is one listener with defaults.
pub fn settle(
    (blocks, upstreams): (&[Block], &[Upstream]),
    draft: &Draft,
    whole: &Block,
    problems: &mut Vec<Problem>,
) -> Vec<Listener> {
    let none = [Block::default()];
    let blocks = if blocks.is_empty() { &none } else { blocks };
    if let Some(block) = blocks.get(Plan::LISTENERS_MAX) {
        let message = format!("at most {} listeners", Plan::LISTENERS_MAX);
        problems.push(block.problem("listener", message));
    }
    let listeners: Vec<_> = blocks
        .iter()
        .map(|block| listener(block, (upstreams, &draft.plan.tls), problems))
        .collect();
    check_addresses(blocks, &listeners, draft, whole, problems);
    check_origins(blocks, &listeners, draft, problems);
    listeners
}

fn listener(
    block: &Block,
    origins: (&[Upstream], &OriginTls),
    problems: &mut Vec<Problem>,
) -> Listener {
    let mut draft = ListenerDraft::default();
    apply(&rows(), &block.given, &mut draft, problems);
    let address = draft
        .address
        .unwrap_or(match block.says("listener.address") {
            false => LISTEN,
            // A bad address has been reported already; port 0 makes it equal to no other.
            true => SocketAddr::new(LISTEN.ip(), 0),
        });
    // L1
    if !address.ip().to_canonical().is_loopback()
        && draft.allow.is_empty()
        && !block.says("listener.allow")
    {
        let how = "allow = [\"10.0.0.0/8\"] (flag --allow), or \"any\" for everybody";
        problems.push(block.problem("listener.address", needs_allow(how)));
    }
    let is_reverse = draft.origin.is_some() || !block.routes.is_empty();
    check_role(block, is_reverse, problems);
    let defaults = if is_reverse {
        Heeds::REVERSE
    } else {
        Heeds::FORWARD
    };
    let heeds = Heeds {
        client_directives: draft
            .client_directives
            .unwrap_or(defaults.client_directives),
        targeted: defaults.targeted && draft.targeted.unwrap_or(true),
    };
    let forwarded = draft.forwarded.unwrap_or(match is_reverse {
        true => Forwarded::Replace,
        false => Forwarded::None,
    });
    let tls = encryption::settle(
        block,
        std::mem::take(&mut draft.encryption),
        address,
        problems,
    );
    let http2 = draft.http2.unwrap_or(tls.is_some());
    let naming = naming(block, &mut draft, problems);
    let name = draft.name.take().unwrap_or_default();
    let quotas = std::mem::take(&mut draft.quotas);
    let (allow, purge_from) = (
        std::mem::take(&mut draft.allow),
        std::mem::take(&mut draft.purge_from),
    );
    let lenient = lenient(block, &mut draft, problems);
    let role = if is_reverse {
        Role::Reverse(routes(block, draft, origins, problems))
    } else {
        let defaults = Forward::for_address(address.ip());
        Role::Forward(Forward {
            connect_ports: draft.connect_ports.unwrap_or(defaults.connect_ports),
            http_ports: draft.http_ports.unwrap_or(defaults.http_ports),
            destinations: draft.destinations.unwrap_or(defaults.destinations),
            lenient,
        })
    };
    Listener {
        address,
        name,
        role,
        allow,
        purge_from,
        heeds,
        forwarded,
        http2,
        tls,
        naming,
        quotas,
    }
}

/// `lenient` and `lenient-hosts` need each other: one alone is reported.
fn lenient(block: &Block, draft: &mut ListenerDraft, problems: &mut Vec<Problem>) -> LenientHosts {
    let hosts = std::mem::take(&mut draft.lenient_hosts);
    for (named, needed) in [("lenient", "lenient-hosts"), ("lenient-hosts", "lenient")] {
        let given = block.find(&format!("listener.{named}"));
        if let Some(given) = given.filter(|_| !block.says(&format!("listener.{needed}"))) {
            problems.push(given.problem(format!("has no effect without {needed}")));
        }
    }
    let (bare_lf, folding) = draft.lenient.unwrap_or_default();
    LenientHosts {
        bare_lf,
        folding,
        hosts,
    }
}

/// L6
fn naming(block: &Block, draft: &mut ListenerDraft, problems: &mut Vec<Problem>) -> Naming {
    let trusted = std::mem::take(&mut draft.trusted);
    if let Some(given) = block.find("listener.trust-forwarded")
        && trusted.iter().any(|network| network.prefix_len() == 0)
    {
        let message = "would believe every client whatever it says of itself; name the proxies that stand before this one";
        problems.push(given.problem(message));
    }
    if let Some(given) = block.find("listener.client-field")
        && !block.says("listener.trust-forwarded")
    {
        let message = "is read only from proxies that are trusted; name them in trust-forwarded";
        problems.push(given.problem(message));
    }
    Naming {
        proxy_protocol: std::mem::take(&mut draft.proxy_protocol),
        trusted,
        field: draft.client_field.unwrap_or_default(),
    }
}

/// `require`, or the networks from which the header is expected.
fn proxy_protocol(given: &Given) -> Result<ProxyProtocol, String> {
    if let Value::Text(text) = &given.value {
        match text.as_str() {
            "require" => return Ok(ProxyProtocol::Always),
            "none" => return Ok(ProxyProtocol::Never),
            _ => {}
        }
    }
    let networks = values::networks(given)
        .map_err(|why| format!("{why}; or \"require\" for every connection"))?;
    Ok(match networks.is_empty() {
        true => ProxyProtocol::Never,
        false => ProxyProtocol::From(networks),
    })
}

/// L4
fn check_role(block: &Block, is_reverse: bool, problems: &mut Vec<Problem>) {
    let (of_the_other, message): (&[&str], _) = match is_reverse {
        true => (
            &[
                "connect-ports",
                "http-ports",
                "allow-destinations",
                "lenient",
                "lenient-hosts",
            ],
            "is for forward proxies; this listener has an origin, so it is a reverse proxy",
        ),
        false => (
            &["pass-host", "targeted-cache-control"],
            "is for reverse proxies; this listener has no origin",
        ),
    };
    for name in of_the_other {
        let given = block.find(&format!("listener.{name}"));
        // A bad origin, or a bad value, has been reported already.
        problems.extend(given.map(|given| given.problem(message)));
    }
}

/// L5. Most specific first; the listener's own origin last.
fn routes(
    block: &Block,
    draft: ListenerDraft,
    (upstreams, of_all): (&[Upstream], &OriginTls),
    problems: &mut Vec<Problem>,
) -> Vec<Route> {
    if let Some(at) = block.routes.get(Plan::ROUTES_MAX) {
        let message = format!("at most {} routes a listener", Plan::ROUTES_MAX);
        problems.push(at.problem("listener.route", message));
        return Vec::new();
    }
    let mut routes: Vec<Route> = Vec::new();
    let (rows, mut known) = (route_rows(), HashSet::new());
    for at in &block.routes {
        let mut draft = RouteDraft::default();
        apply(&rows, &at.given, &mut draft, problems);
        let Some(origin) = draft.origin else {
            // A bad origin has been reported already.
            if !at.says("listener.route.origin") {
                let message =
                    "every route needs an origin, such as origin = \"http://127.0.0.1:8080\"";
                problems.push(at.problem("listener.route.origin", message));
            }
            continue;
        };
        let path_prefix = draft.path.unwrap_or_else(|| "/".to_owned());
        let named = (at, "listener.route.origin");
        let Some(route) = upstreams::route_to(&origin, upstreams, named, problems) else {
            continue;
        };
        let sign = signing::of_route(at, draft.sign, &route, problems);
        let route = Route {
            tls: route_tls(at, draft.tls, &route, of_all, problems),
            http2: origin_http2::of_route(at, draft.http2, (&route, draft.tells_client), problems),
            mirror: mirrors::settle(draft.mirror, at, &path_prefix, draft.pass_host, problems),
            host: draft.host,
            path_prefix,
            pass_host: draft.pass_host.unwrap_or(sign.is_none()),
            sign,
            tells_client: draft.tells_client,
            ..route
        };
        signing::check_tokens(at, &route, problems);
        if !known.insert((route.host.clone(), route.path_prefix.clone())) {
            let host = route.host.as_deref().unwrap_or("any host");
            let message = format!("a second route for {host} and {}", route.path_prefix);
            problems.push(at.problem("listener.route", message));
        } else {
            routes.push(route);
        }
    }
    if let Some(origin) = draft.origin {
        if (routes.iter()).any(|r| r.host.is_none() && r.path_prefix == "/") {
            let message =
                "the listener's own origin is never used: a route takes every host and path";
            problems.push(block.problem("listener.origin", message));
        }
        let named = (block, "listener.origin");
        if let Some(route) = upstreams::route_to(&origin, upstreams, named, problems) {
            routes.push(Route {
                pass_host: draft.pass_host.unwrap_or(route.sign.is_none()),
                ..route
            });
        }
    } else if draft.pass_host.is_some() {
        let message = "belongs to the listener's origin, and it has none; write it into the routes";
        problems.push(block.problem("listener.pass-host", message));
    }
    routes.sort_by_key(Route::specificity);
    routes
}

/// TLS to a route's origin, if it has settings of its own.
fn route_tls(
    at: &Block,
    draft: OriginTlsDraft,
    route: &Route,
    of_all: &OriginTls,
    problems: &mut Vec<Problem>,
) -> Option<Arc<OriginTls>> {
    let scope = "listener.route.tls.";
    if route.upstream.is_none() {
        return origin_tls::settle((at, scope), draft, of_all, route.origin.tls, problems);
    }
    if let Some(given) = at.given.iter().find(|it| it.key.starts_with(scope)) {
        let message = "is said once for an upstream, for all its routes and checks; write it into its block [[upstream]]";
        problems.push(given.problem(message));
    }
    route.tls.clone()
}

/// L2
fn check_addresses(
    blocks: &[Block],
    listeners: &[Listener],
    draft: &Draft,
    whole: &Block,
    problems: &mut Vec<Problem>,
) {
    // An IPv4-mapped IPv6 address equals the IPv4 address.
    let canonical =
        |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    for (at, (block, listener)) in blocks.iter().zip(listeners).enumerate() {
        let address = listener.address;
        if address.port() == 0 {
            continue;
        }
        if (listeners[..at].iter()).any(|other| canonical(other.address) == canonical(address)) {
            let message = format!("{address} is used by another listener already");
            problems.push(block.problem("listener.address", message));
        }
        if draft.admin == Some(address) {
            problems.push(match whole.find("admin.address") {
                Some(admin) => admin.problem(format!(
                    "{address} is also a listener's address; give one of them another port"
                )),
                None => block.problem(
                    "listener.address",
                    format!("{address} is the admin interface's address, too; give this another port, or set admin.address"),
                ),
            });
        }
    }
}

/// L3
fn check_origins(
    blocks: &[Block],
    listeners: &[Listener],
    draft: &Draft,
    problems: &mut Vec<Problem>,
) {
    let of_listeners = listeners.iter().map(|listener| listener.address);
    let ours: Vec<SocketAddr> = of_listeners.chain(draft.admin).collect();
    for (block, listener) in blocks.iter().zip(listeners) {
        let Role::Reverse(routes) = &listener.role else {
            continue;
        };
        // Servers of upstreams are checked in `upstreams`.
        for route in routes.iter().filter(|route| route.upstream.is_none()) {
            if let Some(own) = ours.iter().find(|own| is_own(&route.origin, **own)) {
                let origin = &route.origin;
                let message =
                    format!("the origin {origin} is this proxy itself (it listens on {own})");
                problems.push(block.problem("listener.origin", message));
            }
        }
    }
}
