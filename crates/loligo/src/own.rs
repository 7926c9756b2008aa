//! The settings that are more than a number within bounds: each checks its value and keeps it.
//!
//! Every complaint says what to write instead.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use proxy::plan::{
    AccessFormat, Bounds, ClientDirectives, Destinations, Dns, Forwarded, IoEngine, LazyMode,
    LocalityMode, LogTarget, OriginUrl, Plan, Storing,
};
use tracing_subscriber::EnvFilter;

use crate::draft::{Draft, ListenerDraft, RouteDraft, StoreDraft, StorePath};
use crate::problem::Problem;
use crate::raw::{Given, Value};
use crate::settings;
use crate::units::parse_size;

type Done = Result<(), Problem>;

/// `none` as a word for "without".
fn is_none(given: &Given) -> bool {
    matches!(&given.value, Value::Text(text) if text == "none")
}

pub fn name(draft: &mut Draft, given: &Given) -> Done {
    let text = given.text()?;
    if text.len() > 64 || !is_token(text) {
        return Err(
            given.problem("expected a token of at most 64 letters, digits, dots and dashes")
        );
    }
    draft.plan.name = text.to_owned();
    Ok(())
}

pub fn workers(draft: &mut Draft, given: &Given) -> Done {
    let Bounds { min, max, .. } = Plan::WORKERS;
    let n = settings::count(
        given,
        Bounds {
            min: min as u64,
            default: 1,
            max: max as u64,
        },
    )?;
    draft.workers = Some(n as usize);
    Ok(())
}

pub fn memory(draft: &mut Draft, given: &Given) -> Done {
    let none = match &given.value {
        Value::Text(text) => text == "none" || parse_size(text) == Some(0),
        value => *value == Value::Number(0),
    };
    draft.memory = Some(if none {
        0
    } else {
        settings::size(given, Plan::MEMORY_BYTES)?
    });
    Ok(())
}

pub fn admin_address(draft: &mut Draft, given: &Given) -> Done {
    draft.admin = if is_none(given) {
        None
    } else {
        Some(socket_address(given)?)
    };
    Ok(())
}

pub fn admin_allow(draft: &mut Draft, given: &Given) -> Done {
    draft.admin_allow = networks(given)?;
    Ok(())
}

pub fn store_path(store: &mut StoreDraft, given: &Given) -> Done {
    store.path = if is_none(given) {
        StorePath::None
    } else {
        StorePath::At(given.path()?)
    };
    Ok(())
}

pub fn io_engine(draft: &mut Draft, given: &Given) -> Done {
    draft.plan.storing.io_engine = match given.text()? {
        "auto" => IoEngine::Auto,
        "uring" => IoEngine::Uring,
        "threads" => IoEngine::Threads,
        _ => return Err(given.problem("expected auto, uring or threads")),
    };
    Ok(())
}

pub fn replacement(draft: &mut Draft, given: &Given) -> Done {
    let text = given.text()?;
    // Sizes have units here; the store counts in bytes.
    let sized = text.strip_prefix("lru-threshold=").map(|size| {
        parse_size(size).filter(|&bytes| bytes > 0).ok_or_else(|| {
            given.problem("expected a size behind lru-threshold=, such as \"lru-threshold=256KiB\"")
        })
    });
    let read = match sized {
        Some(bytes) => format!("lru-threshold={}", bytes?).parse(),
        None => text.parse(),
    };
    draft.plan.storing.replacement = read.map_err(|_| match text {
        "s3-fifo" | "sieve" | "w-tinylfu" => given.problem(
            "no longer offered, being no better than lru: write lru, or leave the line out for second-chance",
        ),
        _ => given.problem(
            "expected second-chance, second-chance=PERCENT (0 to 75), lru, lru-threshold=SIZE or gdsf",
        ),
    })?;
    Ok(())
}

pub fn admission(draft: &mut Draft, given: &Given) -> Done {
    let read = given.text()?.parse();
    draft.plan.storing.admission =
        read.map_err(|_| given.problem("expected all, second-hit or tinylfu"))?;
    Ok(())
}

pub fn locality_buffers(draft: &mut Draft, given: &Given) -> Done {
    let number = auto_or_number(given, Storing::LOCALITY_BUFFERS)?;
    draft.plan.storing.locality = match number {
        None => LocalityMode::Measured,
        Some(servers) => LocalityMode::Servers(servers as u8),
    };
    Ok(())
}

pub fn lazy_reads(draft: &mut Draft, given: &Given) -> Done {
    let number = auto_or_number(given, Storing::LAZY_READS)?;
    draft.plan.storing.lazy_reads = match number {
        None => LazyMode::Measured,
        Some(reads) => LazyMode::Gather(reads as u8),
    };
    Ok(())
}

/// `None`: "auto".
fn auto_or_number(given: &Given, bounds: Bounds<u64>) -> Result<Option<u64>, Problem> {
    if matches!(&given.value, Value::Text(text) if text == "auto") {
        return Ok(None);
    }
    let number = matches!(&given.value, Value::Number(_))
        || matches!(&given.value, Value::Text(text) if text.parse::<u64>().is_ok());
    if !number {
        return Err(given.problem("expected \"auto\" or a number, 0 for none"));
    }
    settings::count(given, bounds).map(Some)
}

pub fn access_log(draft: &mut Draft, given: &Given) -> Done {
    draft.access = match given.text()? {
        "none" => None,
        "-" => Some(LogTarget::Stdout),
        _ => Some(LogTarget::File(given.path()?)),
    };
    Ok(())
}

pub fn access_format(draft: &mut Draft, given: &Given) -> Done {
    draft.access_format = match given.text()? {
        "squid" => AccessFormat::Squid,
        "json" => AccessFormat::Json,
        "combined" => AccessFormat::Combined,
        _ => return Err(given.problem("expected squid, json or combined")),
    };
    Ok(())
}

pub fn profile(draft: &mut Draft, given: &Given) -> Done {
    draft.plan.logs.profile = if is_none(given) {
        None
    } else {
        Some(given.path()?)
    };
    Ok(())
}

pub fn log_level(draft: &mut Draft, given: &Given) -> Done {
    let text = given.text()?;
    let known = ["off", "error", "warn", "info", "debug", "trace"].contains(&text);
    // A word without `=` would be taken for the name of a target: nothing else would be logged.
    if !known && (!text.contains('=') || EnvFilter::try_new(text).is_err()) {
        return Err(given.problem(
            "expected error, warn, info, debug or trace, or a filter such as info,proxy=debug",
        ));
    }
    draft.log_level = text.to_owned();
    Ok(())
}

pub fn dns_servers(draft: &mut Draft, given: &Given) -> Done {
    let server = |text: &String| {
        let bare = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 53));
        bare.or_else(|_| text.parse()).map_err(|_| {
            given.problem(format!(
                "\"{text}\" is no address; write \"192.0.2.53\" or \"192.0.2.53:53\""
            ))
        })
    };
    let servers: Vec<_> = given.list()?.iter().map(server).collect::<Result<_, _>>()?;
    if servers.len() > Dns::SERVERS_MAX {
        return Err(given.problem(format!("at most {} servers", Dns::SERVERS_MAX)));
    }
    draft.plan.dns.servers = servers;
    Ok(())
}

pub fn ca_file(draft: &mut Draft, given: &Given) -> Done {
    draft.plan.tls.ca_file = Some(given.path()?);
    Ok(())
}

pub fn address(listener: &mut ListenerDraft, given: &Given) -> Done {
    listener.address = Some(socket_address(given)?);
    Ok(())
}

pub fn allow(listener: &mut ListenerDraft, given: &Given) -> Done {
    listener.allow = networks(given)?;
    Ok(())
}

pub fn purge_from(listener: &mut ListenerDraft, given: &Given) -> Done {
    listener.purge_from = networks(given)?;
    Ok(())
}

/// How much clients may demand, of a listener or in a rule.
pub fn directives(given: &Given) -> Result<ClientDirectives, Problem> {
    match given.text()? {
        "obey" => Ok(ClientDirectives::Obey),
        "revalidate" => Ok(ClientDirectives::Revalidate),
        "ignore" => Ok(ClientDirectives::Ignore),
        _ => Err(given.problem("expected obey, revalidate or ignore")),
    }
}

pub fn client_directives(listener: &mut ListenerDraft, given: &Given) -> Done {
    listener.client_directives = Some(directives(given)?);
    Ok(())
}

pub fn listener_origin(listener: &mut ListenerDraft, given: &Given) -> Done {
    listener.origin = Some(origin(given)?);
    Ok(())
}

pub fn connect_ports(listener: &mut ListenerDraft, given: &Given) -> Done {
    let port = |text: &String| text.parse().ok().filter(|&port: &u16| port != 0);
    let ports: Option<Vec<u16>> = given.list()?.iter().map(port).collect();
    let ports = ports.ok_or_else(|| given.problem("expected ports such as [443, 8443]"))?;
    listener.connect_ports = Some(ports);
    Ok(())
}

pub fn http_ports(listener: &mut ListenerDraft, given: &Given) -> Done {
    let range = |text: &String| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let port = |text: &str| text.trim().parse().ok().filter(|&port: &u16| port != 0);
        Some(port(first)?..=port(last)?).filter(|range| !range.is_empty())
    };
    let ranges: Option<Vec<_>> = given.list()?.iter().map(range).collect();
    let expected = "expected ports and ranges such as [80, 443, \"1024-65535\"]";
    listener.http_ports = Some(ranges.ok_or_else(|| given.problem(expected))?);
    Ok(())
}

pub fn forwarded(listener: &mut ListenerDraft, given: &Given) -> Done {
    listener.forwarded = Some(match given.text()? {
        "replace" => Forwarded::Replace,
        "append" => Forwarded::Append,
        "none" => Forwarded::None,
        _ => return Err(given.problem("expected replace, append or none")),
    });
    Ok(())
}

pub fn admin_names(draft: &mut Draft, given: &Given) -> Done {
    let names = given.list()?;
    let names = names.iter().map(|name| host_pattern(given, name));
    draft.plan.admin_names = names.collect::<Result<_, _>>()?;
    Ok(())
}

pub fn allow_destinations(listener: &mut ListenerDraft, given: &Given) -> Done {
    let mut allowed = Destinations::default();
    for text in given.list()? {
        match text.as_str() {
            "loopback" => allowed.loopback = true,
            "link-local" => allowed.link_local = true,
            _ => allowed.allow.push(network(given, &text)?),
        }
    }
    listener.destinations = Some(allowed);
    Ok(())
}

pub fn route_host(route: &mut RouteDraft, given: &Given) -> Done {
    route.host = Some(host_pattern(given, given.text()?)?);
    Ok(())
}

/// A host name, or `*.` and one.
pub fn host_pattern(given: &Given, text: &str) -> Result<String, Problem> {
    let name = text.strip_prefix("*.").unwrap_or(text);
    let name = name.strip_suffix('.').unwrap_or(name);
    if !is_host(name) {
        return Err(given.problem(
            "expected a host name without port, or \"*.example.org\" for all names below one",
        ));
    }
    let wild = if text.starts_with("*.") { "*." } else { "" };
    Ok(format!("{wild}{}", name.to_ascii_lowercase()))
}

pub fn route_path(route: &mut RouteDraft, given: &Given) -> Done {
    let text = given.text()?;
    if !text.starts_with('/') || !is_path(text) {
        return Err(given.problem("expected a path that begins with /, without ? or #"));
    }
    route.path = text.to_owned();
    Ok(())
}

pub fn route_origin(route: &mut RouteDraft, given: &Given) -> Done {
    route.origin = Some(origin(given)?);
    Ok(())
}

/// `ADDRESS:PORT`, or a port on 127.0.0.1.
fn socket_address(given: &Given) -> Result<SocketAddr, Problem> {
    let text = match &given.value {
        Value::Number(n) => n.to_string(),
        _ => given.text()?.trim().to_owned(),
    };
    let local = |port: u16| SocketAddr::new(crate::draft::LISTEN.ip(), port);
    if let Ok(port) = text.strip_prefix("localhost:").unwrap_or(&text).parse() {
        return Ok(local(port));
    }
    text.parse().map_err(|_| {
        let hint = if text.starts_with(':') {
            format!(
                "write \"0.0.0.0{text}\" for every IPv4 address, \"[::]{text}\" for every IPv6 one"
            )
        } else if text.parse::<IpAddr>().is_ok() {
            "the port is missing; write \"127.0.0.1:3128\" or \"[::1]:3128\"".to_owned()
        } else {
            "expected an address and a port such as \"127.0.0.1:3128\" or \"[::1]:3128\"".to_owned()
        };
        given.problem(hint)
    })
}

fn networks(given: &Given) -> Result<Vec<IpNet>, Problem> {
    let mut networks = Vec::new();
    for text in given.list()? {
        match text.as_str() {
            "any" => networks.extend([
                IpNet::new_assert(IpAddr::from([0; 4]), 0),
                IpNet::new_assert(IpAddr::from([0; 16]), 0),
            ]),
            "none" => {}
            _ => networks.push(network(given, &text)?),
        }
    }
    Ok(networks)
}

/// `10.0.0.0/8`, or one address.
fn network(given: &Given, text: &str) -> Result<IpNet, Problem> {
    let one = text.parse::<IpAddr>().map(IpNet::from);
    let net = one.or_else(|_| text.parse::<IpNet>()).map_err(|_| {
        given.problem(format!(
            "\"{text}\" is no network; write \"10.0.0.0/8\", \"2001:db8::/32\" or one address"
        ))
    })?;
    // Clients and destinations are compared in the form in which IPv4 is IPv4.
    let net = match net {
        IpNet::V6(mapped) if mapped.prefix_len() >= 96 => match mapped.addr().to_ipv4_mapped() {
            Some(v4) => IpNet::new_assert(v4.into(), mapped.prefix_len() - 96),
            None => net,
        },
        net => net,
    };
    Ok(net.trunc())
}

/// `http://HOST[:PORT][/PATH]`
fn origin(given: &Given) -> Result<OriginUrl, Problem> {
    let text = given.text()?.trim();
    let wrong = |why: &str| given.problem(why);
    let scheme = text.split_once("://");
    let (tls, rest) = match scheme.map(|(name, rest)| (name.to_ascii_lowercase(), rest)) {
        Some((name, rest)) if name == "http" => (false, rest),
        Some((name, rest)) if name == "https" => (true, rest),
        Some(_) => return Err(wrong("origins are asked by http:// or https://")),
        None => {
            return Err(given.problem(format!("the scheme is missing; write \"http://{text}\"")));
        }
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if authority.contains('@') {
        return Err(wrong("a user name in an origin is not supported"));
    }
    let path = path.trim_end_matches('/');
    if !is_path(path) {
        return Err(wrong("an origin may have a path, but no ? and no #"));
    }
    let (host, port) = split_authority(authority).ok_or_else(|| {
        wrong("expected http://HOST, http://HOST:PORT or http://HOST:PORT/PATH (IPv6 addresses in brackets)")
    })?;
    let port = port.unwrap_or(if tls { 443 } else { 80 });
    Ok(OriginUrl {
        tls,
        host: host.to_ascii_lowercase(),
        port,
        path: path.to_owned(),
    })
}

fn split_authority(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        host.parse::<std::net::Ipv6Addr>().ok()?;
        (host, rest)
    } else {
        let (host, port) = authority.split_at(authority.find(':').unwrap_or(authority.len()));
        (is_host(host).then_some(host)?, port)
    };
    let port = match port {
        "" => None,
        _ => Some(
            port.strip_prefix(':')?
                .parse()
                .ok()
                .filter(|&port| port != 0)?,
        ),
    };
    Some((host, port))
}

/// A name or an IPv4 address.
fn is_host(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    text.len() <= 253 && text.split('.').all(label)
}

/// RFC 9110 §5.6.2: token
pub fn is_token(text: &str) -> bool {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(token)
}

/// Visible ASCII that may stand in a request target's path.
pub fn is_path(text: &str) -> bool {
    text.bytes()
        .all(|b| b.is_ascii_graphic() && !b"?#\"<>\\^`{|}".contains(&b))
}
