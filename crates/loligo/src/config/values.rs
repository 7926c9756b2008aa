//! How values are read: text, numbers within bounds, addresses, networks, origins. Every error says what to write instead.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use commands::units::{SIZE_FORM, Size, TIME_FORM, Time, parse_size, parse_time};
use ipnet::IpNet;
use proxy::plan::{
    AccessFormat, AdmissionKind, Bounds, CertificateFiles, ClientDirectives, Destinations, Dns,
    LazyMode, LogTarget, OriginUrl, PeerAddress, Plan, Replacement, Storing, Syslog, SyslogAt,
    Unit,
};
use tracing_subscriber::EnvFilter;

use super::problem::Place;
use super::raw::{Given, Value, without_password};

/// The default address where clients connect.
pub const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 3128);

/// Where a store is.
#[derive(Clone, PartialEq, Default, Debug)]
pub enum StorePath {
    /// In the user's cache directory.
    #[default]
    Default,
    /// There is no store.
    None,
    /// At this path.
    At(PathBuf),
}

/// A value, or a text that says what is expected.
type Read<T> = Result<T, String>;

fn expected<T>(what: &str) -> Read<T> {
    Err(format!("expected {what}"))
}

/// A number as a person writes it.
pub fn show(bounds: Bounds, number: u64) -> String {
    match bounds.unit {
        Unit::Bytes => Size(number).to_string(),
        Unit::Millis => Time(Duration::from_millis(number)).to_string(),
        Unit::Count => number.to_string(),
        Unit::Switch => (number != 0).to_string(),
    }
}

/// The value as text.
pub fn text(given: &Given) -> Read<&str> {
    match &given.value {
        Value::Text(text) => Ok(text),
        _ => expected("text in quotes"),
    }
}

/// `none` as a word for "without".
fn is_none(given: &Given) -> bool {
    matches!(&given.value, Value::Text(text) if text == "none")
}

/// The value as a list: an array, or text with commas. Numbers in an array count as their text.
pub fn list(given: &Given) -> Read<Vec<String>> {
    let texts = |items: &[Value]| -> Option<Vec<String>> {
        let text = |item: &Value| match item {
            Value::Text(text) => Some(text.trim().to_owned()),
            Value::Number(n) => Some(n.to_string()),
            _ => None,
        };
        items.iter().map(text).collect()
    };
    let list = match &given.value {
        Value::Text(text) => {
            let items = text.split(',').map(str::trim);
            Some(items.filter(|s| !s.is_empty()).map(str::to_owned).collect())
        }
        Value::List(items) => texts(items),
        value => texts(std::slice::from_ref(value)),
    };
    list.map_or_else(|| expected("a list such as [\"a\", \"b\"], or \"a,b\""), Ok)
}

/// The value as a path. One in the file is relative to the file's directory, one in a flag to the current.
pub fn path(given: &Given) -> Read<PathBuf> {
    let text = text(given)?;
    match &given.place {
        _ if text.is_empty() => expected("a path"),
        Place::Line(file, _) => Ok(file.parent().unwrap_or(Path::new("")).join(text)),
        Place::Flag(_) | Place::Default => Ok(PathBuf::from(text)),
    }
}

/// The value of `listener.tls`.
#[derive(Clone, PartialEq, Debug)]
pub enum TlsWord {
    /// Plain HTTP.
    Plain,
    /// One certificate.
    Files(CertificateFiles),
    /// A self-signed certificate that is made at the start.
    SelfSigned,
    /// The certificate that is ordered from an authority.
    Acme,
}

/// `CERT.pem,KEY.pem`, one file with both, `self-signed`, `acme`, or `none`.
pub fn certificate(given: &Given) -> Read<TlsWord> {
    let text = text(given)?;
    match text {
        "none" => return Ok(TlsWord::Plain),
        "self-signed" => return Ok(TlsWord::SelfSigned),
        "acme" => return Ok(TlsWord::Acme),
        _ => {}
    }
    let one = |text: &str| {
        let value = Value::Text(text.trim().to_owned());
        path(&Given {
            value,
            ..given.clone()
        })
    };
    let (chain, key) = text.split_once(',').unwrap_or((text, text));
    Ok(TlsWord::Files(CertificateFiles {
        chain: one(chain)?,
        key: one(key)?,
        ocsp: None,
    }))
}

/// A path, or `none`.
pub fn path_or_none(given: &Given) -> Read<Option<PathBuf>> {
    (!is_none(given)).then(|| path(given)).transpose()
}

/// A number within bounds, written with its unit; text counts, too, for flags.
pub fn number(given: &Given, bounds: Bounds) -> Read<u64> {
    let positive = |n: &i64| u64::try_from(*n).ok();
    let (number, form) = match (bounds.unit, &given.value) {
        (Unit::Bytes, Value::Text(text)) => (parse_size(text), SIZE_FORM),
        (Unit::Bytes, Value::Number(n)) => (positive(n), SIZE_FORM),
        (Unit::Bytes, _) => (None, SIZE_FORM),
        (Unit::Millis, Value::Text(text)) => {
            let millis = parse_time(text).and_then(|time| u64::try_from(time.as_millis()).ok());
            (millis, TIME_FORM)
        }
        (Unit::Millis, _) => (None, TIME_FORM),
        (Unit::Count, Value::Number(n)) => (positive(n), "a whole number"),
        (Unit::Count, Value::Text(text)) => (text.trim().parse().ok(), "a whole number"),
        (Unit::Count, _) => (None, "a whole number"),
        (Unit::Switch, _) => return switch(given).map(u64::from),
    };
    let Some(number) = number else {
        return expected(form);
    };
    if number < bounds.min || number > bounds.max {
        let [min, max] = [bounds.min, bounds.max].map(|number| show(bounds, number));
        return Err(format!("must be from {min} to {max}"));
    }
    Ok(number)
}

/// `true` or `false`.
pub fn switch(given: &Given) -> Read<bool> {
    match &given.value {
        Value::Switch(on) => Ok(*on),
        _ => expected("true or false, without quotes"),
    }
}

/// One of these words.
pub fn word<T: Copy>(given: &Given, words: &[(&str, T)]) -> Read<T> {
    let text = text(given)?;
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
        return Ok(*value);
    }
    let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
    let (last, others) = words.split_last().expect("a choice has words");
    expected(&format!("{} or {last}", others.join(", ")))
}

/// A token of RFC 9110 §5.6.2, with at most 64 bytes.
pub fn token(given: &Given) -> Read<String> {
    let text = text(given)?;
    if text.len() > 64 || !is_token(text) {
        return expected("a token of at most 64 letters, digits, dots and dashes");
    }
    Ok(text.to_owned())
}

/// A user or group: a name, or a number.
pub fn account(given: &Given) -> Read<String> {
    let is_right = |text: &str| {
        let first = |c: char| c.is_ascii_alphanumeric() || c == '_';
        text.len() <= 32
            && text.starts_with(first)
            && text.chars().all(|c| first(c) || "-.$".contains(c))
    };
    match &given.value {
        Value::Number(number) => Ok(number.to_string()),
        Value::Text(text) if is_right(text) => Ok(text.clone()),
        _ => expected("a name such as \"loligo\", or a number"),
    }
}

pub fn workers(given: &Given) -> Read<usize> {
    Ok(number(given, Plan::WORKERS)? as usize)
}

/// The size of the memory tier; 0: none.
pub fn memory(given: &Given) -> Read<u64> {
    match &given.value {
        Value::Text(text) if text == "none" || parse_size(text) == Some(0) => Ok(0),
        Value::Number(0) => Ok(0),
        _ => number(given, Plan::MEMORY_BYTES),
    }
}

pub fn socket_address_or_none(given: &Given) -> Read<Option<SocketAddr>> {
    (!is_none(given)).then(|| socket_address(given)).transpose()
}

pub fn store_path(given: &Given) -> Read<StorePath> {
    Ok(path_or_none(given)?.map_or(StorePath::None, StorePath::At))
}

pub fn replacement(given: &Given) -> Read<Replacement> {
    let text = text(given)?;
    // Sizes have units here; the store takes bytes.
    let read = match text.strip_prefix("lru-threshold=") {
        Some(size) => {
            let Some(bytes) = parse_size(size).filter(|&bytes| bytes > 0) else {
                return expected("a size behind lru-threshold=, such as \"lru-threshold=256KiB\"");
            };
            format!("lru-threshold={bytes}").parse()
        }
        None => text.parse(),
    };
    read.or_else(|_| match text {
        "s3-fifo" | "sieve" | "w-tinylfu" => Err(
            "no longer offered, being no better than lru: write lru, or leave the line out for second-chance"
                .to_owned(),
        ),
        _ => expected(
            "second-chance, second-chance=PERCENT (0 to 75), reinsertion, reinsertion=PERCENT (10 to 50), lru, lru-threshold=SIZE or gdsf",
        ),
    })
}

pub fn admission(given: &Given) -> Read<AdmissionKind> {
    text(given)?
        .parse()
        .or_else(|_| expected("all, second-hit, tinylfu or by-size"))
}

pub fn lazy_reads(given: &Given) -> Read<LazyMode> {
    let reads = match &given.value {
        Value::Text(text) if text == "auto" => return Ok(LazyMode::Measured),
        Value::Text(text) => text.parse::<u64>().is_ok(),
        value => matches!(value, Value::Number(_)),
    };
    if !reads {
        return expected("\"auto\" or a number, 0 for none");
    }
    Ok(LazyMode::Gather(number(given, Storing::LAZY_READS)? as u8))
}

/// Where syslog daemons listen on this machine.
const SYSLOG_SOCKET: &str = "/dev/log";
const SYSLOG_PORT: u16 = 514;

pub fn log_target(given: &Given) -> Read<Option<LogTarget>> {
    let syslog = |at| {
        let facility = Syslog::FACILITY;
        Some(LogTarget::Syslog(Syslog { at, facility }))
    };
    let text = text(given)?;
    Ok(match text {
        "none" => None,
        "-" => Some(LogTarget::Stdout),
        "journald" => Some(LogTarget::Journald),
        "syslog" => syslog(SyslogAt::Socket(SYSLOG_SOCKET.into())),
        _ => match text.split_once(':') {
            Some(("syslog", rest)) => match rest.strip_prefix("//") {
                Some(address) => {
                    let bare = address.parse::<IpAddr>();
                    let address = bare.map(|ip| SocketAddr::new(ip, SYSLOG_PORT));
                    let address = address.or_else(|_| rest[2..].parse());
                    let Ok(address) = address else {
                        return expected("syslog://ADDRESS or syslog://ADDRESS:PORT, UDP");
                    };
                    syslog(SyslogAt::Udp(address))
                }
                None if rest.starts_with('/') => syslog(SyslogAt::Socket(rest.into())),
                None => return expected("syslog, syslog:/SOCKET or syslog://ADDRESS:PORT"),
            },
            _ => Some(LogTarget::File(path(given)?)),
        },
    })
}

/// A word, or a template.
pub fn access_format(given: &Given) -> Read<AccessFormat> {
    Ok(match text(given)? {
        "squid" => AccessFormat::Squid,
        "json" => AccessFormat::Json,
        "combined" => AccessFormat::Combined,
        text if text.contains("${") => AccessFormat::Own(profile::Template::parse(text)?),
        _ => {
            return expected(
                "squid, json, combined, or fields such as \"${client} ${status} ${uri}\"",
            );
        }
    })
}

//= rfc5424 §6.2.1   the names are those of syslog.conf
pub fn facility(given: &Given) -> Read<u8> {
    word(
        given,
        &[
            ("user", 1),
            ("daemon", 3),
            ("local0", 16),
            ("local1", 17),
            ("local2", 18),
            ("local3", 19),
            ("local4", 20),
            ("local5", 21),
            ("local6", 22),
            ("local7", 23),
        ],
    )
}

pub fn log_level(given: &Given) -> Read<String> {
    let text = text(given)?;
    let known = ["off", "error", "warn", "info", "debug", "trace"].contains(&text);
    // A word without `=` would be read as the name of a target, and nothing else would be logged.
    if !known && (!text.contains('=') || EnvFilter::try_new(text).is_err()) {
        return expected("error, warn, info, debug or trace, or a filter such as info,proxy=debug");
    }
    Ok(text.to_owned())
}

pub fn name_servers(given: &Given) -> Read<Vec<SocketAddr>> {
    let server = |text: &String| {
        let bare = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 53));
        bare.or_else(|_| text.parse()).map_err(|_| {
            format!("\"{text}\" is no address; write \"192.0.2.53\" or \"192.0.2.53:53\"")
        })
    };
    let servers: Vec<_> = list(given)?.iter().map(server).collect::<Result<_, _>>()?;
    match servers.len() > Dns::SERVERS_MAX {
        true => Err(format!("at most {} servers", Dns::SERVERS_MAX)),
        false => Ok(servers),
    }
}

/// How far cache directives of clients are obeyed, by a listener or a rule.
pub fn directives(given: &Given) -> Read<ClientDirectives> {
    let words = [
        ("obey", ClientDirectives::Obey),
        ("revalidate", ClientDirectives::Revalidate),
        ("ignore", ClientDirectives::Ignore),
    ];
    word(given, &words)
}

fn port(text: &str) -> Option<u16> {
    text.trim().parse().ok().filter(|&port| port != 0)
}

pub fn ports(given: &Given) -> Read<Vec<u16>> {
    let ports: Option<Vec<u16>> = list(given)?.iter().map(|text| port(text)).collect();
    ports.map_or_else(|| expected("ports such as [443, 8443]"), Ok)
}

pub fn port_ranges(given: &Given) -> Read<Vec<RangeInclusive<u16>>> {
    let range = |text: &String| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some(port(first)?..=port(last)?).filter(|range| !range.is_empty())
    };
    let ranges: Option<Vec<_>> = list(given)?.iter().map(range).collect();
    let form = "ports and ranges such as [80, 443, \"1024-65535\"]";
    ranges.map_or_else(|| expected(form), Ok)
}

pub fn destinations(given: &Given) -> Read<Destinations> {
    let mut allowed = Destinations::default();
    for text in list(given)? {
        match text.as_str() {
            "loopback" => allowed.loopback = true,
            "link-local" => allowed.link_local = true,
            _ => allowed.allow.push(network(&text)?),
        }
    }
    Ok(allowed)
}

/// Whether lines that end in LF alone are accepted, and whether folded lines are.
pub fn lenient(given: &Given) -> Read<(bool, bool)> {
    let mut read = (false, false);
    for word in list(given)? {
        match word.as_str() {
            "LF" => read.0 = true,
            "folding" => read.1 = true,
            _ => return expected("a list of \"LF\", \"folding\""),
        }
    }
    Ok(read)
}

pub fn host(given: &Given) -> Read<String> {
    host_pattern(text(given)?)
}

pub fn hosts(given: &Given) -> Read<Vec<String>> {
    list(given)?.iter().map(|name| host_pattern(name)).collect()
}

/// A host name, or `*.` and one.
pub fn host_pattern(text: &str) -> Read<String> {
    let name = text.strip_prefix("*.").unwrap_or(text);
    let name = name.strip_suffix('.').unwrap_or(name);
    if !is_host(name) {
        return expected("a host name without port, or \"*.example.org\" for all names below one");
    }
    let wild = if text.starts_with("*.") { "*." } else { "" };
    Ok(format!("{wild}{}", name.to_ascii_lowercase()))
}

pub fn route_path(given: &Given) -> Read<String> {
    let text = text(given)?;
    if !text.starts_with('/') || !is_path(text) {
        return expected("a path that begins with /, without ? or #");
    }
    Ok(text.to_owned())
}

/// `ADDRESS:PORT`, or a port on 127.0.0.1.
pub fn socket_address(given: &Given) -> Read<SocketAddr> {
    let text = match &given.value {
        Value::Number(n) => n.to_string(),
        _ => text(given)?.trim().to_owned(),
    };
    let local = |port: u16| SocketAddr::new(LISTEN.ip(), port);
    if let Ok(port) = text.strip_prefix("localhost:").unwrap_or(&text).parse() {
        return Ok(local(port));
    }
    text.parse().map_err(|_| {
        if text.starts_with(':') {
            format!(
                "write \"0.0.0.0{text}\" for every IPv4 address, \"[::]{text}\" for every IPv6 one"
            )
        } else if text.parse::<IpAddr>().is_ok() {
            "the port is missing; write \"127.0.0.1:3128\" or \"[::1]:3128\"".to_owned()
        } else {
            "expected an address and a port such as \"127.0.0.1:3128\" or \"[::1]:3128\"".to_owned()
        }
    })
}

pub fn networks(given: &Given) -> Read<Vec<IpNet>> {
    let mut networks = Vec::new();
    for text in list(given)? {
        match text.as_str() {
            "any" => networks.extend([
                IpNet::new_assert(IpAddr::from([0; 4]), 0),
                IpNet::new_assert(IpAddr::from([0; 16]), 0),
            ]),
            "none" => {}
            "all" | "*" | "all:all" | "everybody" | "everyone" | "0/0" | "world" => {
                return Err(format!(
                    "\"{text}\" is no network; for everybody write \"any\""
                ));
            }
            _ => networks.push(network(&text)?),
        }
    }
    Ok(networks)
}

/// `10.0.0.0/8`, or one address.
fn network(text: &str) -> Read<IpNet> {
    let one = text.parse::<IpAddr>().map(IpNet::from);
    let net = one.or_else(|_| text.parse::<IpNet>()).map_err(|_| {
        format!("\"{text}\" is no network; write \"10.0.0.0/8\", \"2001:db8::/32\" or one address")
    })?;
    // Clients and destinations are compared with IPv4-mapped addresses written as IPv4.
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
pub fn origin(given: &Given) -> Read<OriginUrl> {
    let text = text(given)?.trim();
    let wrong = |why: &str| why.to_owned();
    let scheme = text.split_once("://");
    let (tls, rest) = match scheme.map(|(name, rest)| (name.to_ascii_lowercase(), rest)) {
        Some((name, rest)) if name == "http" => (false, rest),
        Some((name, rest)) if name == "https" => (true, rest),
        Some(_) => return Err(wrong("origins are asked by http:// or https://")),
        None => {
            let text = without_password(text);
            return Err(format!("the scheme is missing; write \"http://{text}\""));
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

/// The port of a proxy, if none is named.
const PEER_PORT: u16 = 3128;

/// `HOST`, `HOST:PORT`
pub fn peer_address(given: &Given) -> Read<PeerAddress> {
    let text = text(given)?.trim();
    if let Some((_, rest)) = text.split_once("://") {
        let host = rest.trim_end_matches('/');
        return Err(format!("is no URL; write \"{}\"", without_password(host)));
    }
    let Some((host, port)) = split_authority(text) else {
        return expected(
            "HOST or HOST:PORT, such as \"proxy.example:3128\" or \"[2001:db8::1]:3128\"",
        );
    };
    Ok(PeerAddress {
        host: host.to_ascii_lowercase(),
        port: port.unwrap_or(PEER_PORT),
    })
}

/// A word for logs.
pub fn peer_name(given: &Given) -> Read<String> {
    let text = text(given)?;
    if text.is_empty() || text.len() > 64 || !text.bytes().all(|b| b.is_ascii_graphic()) {
        return expected("a word of at most 64 characters, without blanks");
    }
    Ok(text.to_owned())
}

/// Host and port; IPv6 addresses stand in brackets.
pub fn split_authority(authority: &str) -> Option<(&str, Option<u16>)> {
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

/// A path that may have a query.
pub fn is_path_and_query(text: &str) -> bool {
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    is_path(path) && is_path(&query.replace('?', ""))
}

/// Visible ASCII that may stand in a request target's path.
pub fn is_path(text: &str) -> bool {
    text.bytes()
        .all(|b| b.is_ascii_graphic() && !b"?#\"<>\\^`{|}".contains(&b))
}
