//! What a request is for: which resource, under which key, asked of whom.
//!
//! The effective URI (RFC 9110 §7.1) is put together from target, Host and the listener's role. A forward
//! listener takes it from an absolute target; a reverse one from Host and path, through its routes. The key
//! is the method and that URI in normal form: with `pass-host` the client's own, for the origin may answer each host otherwise.
//! Else it is the origin's, and a made-up Host cannot fill the cache with copies.
//!
//! A key also says under whose rules it was fetched, where that matters, behind a TAB that no URI holds: the
//! origin of a route that passes Host on (who answers for a host is the operator's word, not the client's), and the
//! destination rules of a forward listener, if it reaches further than a public one may or there are routes, which reach what
//! they name. So nobody is served from the cache what he could not have fetched.
//!
//! Not known here: caching, connections.

use std::{borrow::Cow, rc::Rc};

use http1::{Fault, Reject, Target};
use message::{Authority, Named, Scheme};

use crate::{
    listener::ListenerState,
    origin::Destination,
    plan::{Listener, Role, Route},
    request::ports,
    request::rulebook::{NAMES, Rulebook, Ruled, Shape},
};

/// A route, with what is needed of it for each request worked out once.
#[derive(Clone)]
pub struct RouteState {
    /// As configured.
    pub route: Route,
    /// Whom to ask.
    pub destination: Destination,
    /// Host to send when the client's is not passed on.
    pub authority: Rc<str>,
    /// Its number among the listener's routes.
    pub number: usize,
    /// The origin, as it is logged.
    pub origin: Box<str>,
    /// Goes into the key: who answers, where the URI does not say it.
    key_tag: Vec<u8>,
}

impl RouteState {
    /// Works a configured route out.
    pub fn new((number, route): (usize, &Route)) -> RouteState {
        RouteState {
            number,
            origin: route.origin.to_string().into(),
            destination: Destination {
                tls: route.origin.tls,
                host: route.origin.host.as_str().into(),
                port: route.origin.port,
            },
            authority: route.origin.authority().into(),
            key_tag: match route.pass_host {
                true => format!("\t{}", route.origin).into_bytes(),
                false => Vec::new(),
            },
            route: route.clone(),
        }
    }
}

/// Why a request has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misplaced {
    /// The target is malformed.
    Malformed(Reject),
    /// An origin-form target on a forward listener: the client takes us for a web server.
    NotAProxyRequest,
    /// No route takes this host and path.
    NoRoute,
    /// A scheme other than http and https.
    Scheme,
    /// A port that this forward listener sends no requests to.
    Port(u16),
}

impl Misplaced {
    /// The status owed and a sentence for the person who sees it.
    pub fn answer(self) -> (u16, Cow<'static, str>) {
        let (status, reason) = match self {
            Misplaced::Malformed(reject) => (reject.status(), reject.reason()),
            Misplaced::NotAProxyRequest => (
                400,
                "this is a forward proxy: send the whole URL (curl -x), or configure a reverse listener",
            ),
            Misplaced::NoRoute => (404, "no route is configured for this host and path"),
            Misplaced::Scheme => (501, "only http and https URLs can be fetched"),
            Misplaced::Port(port) => return (403, ports::refusal(port).into()),
        };
        (status, reason.into())
    }

    /// A token for Cache-Status `detail`, where RFC 9209 has one.
    pub fn detail_token(self) -> Option<&'static str> {
        //= rfc9209 §2.3.17   a policy about the request
        matches!(self, Misplaced::Port(_)).then_some("http_request_denied")
    }
}

/// The resource a request names, borrowed from its head.
pub struct Place<'a> {
    tls: bool,
    host: &'a str,
    port: Option<u16>,
    /// Path and query as the client sent them.
    path: &'a str,
    /// The reverse route that took it.
    route: Option<&'a RouteState>,
    /// Behind the URI in the key.
    tag: &'a [u8],
    /// No resource of it is meant, but the server.
    is_server: bool,
}

/// Finds the resource of a request that is neither CONNECT nor asterisk-form.
pub fn locate<'a>(
    listener: &'a ListenerState,
    method: &str,
    target: &'a str,
    host: Option<&'a str>,
) -> Result<Place<'a>, Misplaced> {
    let forward = matches!(listener.listener.role, Role::Forward(_));
    // The common case by hand: a reverse request in origin form needs no further parsing.
    let parsed = if target.starts_with('/') && !forward {
        Target::Origin(target)
    } else {
        http1::parse_target(method, target).map_err(Misplaced::Malformed)?
    };
    let named = match parsed {
        Target::Absolute {
            scheme,
            authority,
            path,
        } => Named {
            scheme: Scheme::parse(scheme).ok_or(Misplaced::Scheme)?,
            authority,
            path,
        },
        //= rfc9112 §3.2.1   origin-form: the authority is in Host
        Target::Origin(path) if !forward => Named {
            scheme: Scheme::Http,
            authority: match host {
                None | Some("") => Authority::NONE,
                Some(host) => Authority::parse(host)
                    .ok_or(Misplaced::Malformed(Reject::Request(Fault::Target)))?,
            },
            path,
        },
        Target::Origin(_) | Target::Authority(_) | Target::Asterisk => {
            return Err(Misplaced::NotAProxyRequest);
        }
    };
    //= rfc9112 §3.2.4   OPTIONS with an empty path and no query: the last proxy on the way MUST send "*"
    let is_server = forward && named.path.is_empty() && method == "OPTIONS";
    let Authority { host, port } = named.authority;
    let path = if named.path.is_empty() {
        "/"
    } else {
        named.path
    };
    if forward {
        // Also before the cache: what another listener fetched from there is not given out here.
        let to = named.port();
        if !listener.http_ports.contains(to) {
            return Err(Misplaced::Port(to));
        }
        return Ok(Place {
            tls: named.scheme == Scheme::Https,
            host,
            port,
            path,
            route: None,
            tag: &listener.key_tag,
            is_server,
        });
    }
    let route = listener
        .routes
        .iter()
        .find(|r| r.route.matches(host, path))
        .ok_or(Misplaced::NoRoute)?;
    Ok(Place {
        tls: route.route.origin.tls && !route.route.pass_host,
        host,
        port,
        path,
        route: Some(route),
        tag: &route.key_tag,
        is_server,
    })
}

impl Place<'_> {
    /// Appends the URI in normal form; also the name under which it is purged.
    pub fn write_uri(&self, out: &mut Vec<u8>) {
        let joined;
        let named = match self.route {
            Some(route) if !route.route.pass_host || self.host.is_empty() => {
                let origin = &route.route.origin;
                let path = if origin.path.is_empty() {
                    self.path
                } else {
                    joined = [origin.path.as_str(), self.path].concat();
                    &joined
                };
                Named {
                    scheme: Scheme::of_tls(origin.tls),
                    authority: Authority {
                        host: &origin.host,
                        port: Some(origin.port),
                    },
                    path,
                }
            }
            _ => Named {
                scheme: Scheme::of_tls(self.tls),
                authority: self.authority(),
                path: self.path,
            },
        };
        named.write(out);
    }

    /// Appends the key of the stored GET.
    #[inline]
    pub fn write_key(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(KEY_PREFIX);
        self.write_uri(out);
        out.extend_from_slice(self.tag);
    }

    /// Appends the key of the stored GET as a rule makes it.
    pub fn write_shaped_key(&self, shape: Option<&Shape>, out: &mut Vec<u8>) {
        let Some(shape) = shape else {
            return self.write_key(out);
        };
        let uri = out.len() + KEY_PREFIX.len();
        out.extend_from_slice(KEY_PREFIX);
        self.write_uri(out);
        shape.cut_query(out, uri);
        out.extend_from_slice(self.tag);
        out.extend_from_slice(shape.names());
    }

    /// What the operator's rules say of it.
    pub fn ruled<'b>(&self, book: &'b Rulebook, method: &str) -> Ruled<'b> {
        book.request(method, self.host, self.path)
    }

    /// The number of the reverse route that took it.
    pub fn route_number(&self) -> Option<usize> {
        self.route.map(|route| route.number)
    }

    /// Whom to ask, and how.
    pub fn ask(&self) -> Asked {
        match self.route {
            Some(route) => {
                let target = self.target(&route.route.origin.path);
                let host = if route.route.pass_host && !self.host.is_empty() {
                    self.authority().to_string().into()
                } else {
                    Rc::clone(&route.authority)
                };
                Asked {
                    destination: route.destination.clone(),
                    target,
                    host,
                }
            }
            None => Asked {
                destination: Destination {
                    tls: self.tls,
                    host: self.host.to_ascii_lowercase().into(),
                    port: self.port.unwrap_or(if self.tls { 443 } else { 80 }),
                },
                target: self.target(""),
                host: self.authority().to_string().into(),
            },
        }
    }

    /// The host and port that the client asks for, where the origin may hear of them: where they are part of the key. Else an
    /// answer made for a made-up host would be stored for everybody.
    pub fn client_host(&self) -> Option<String> {
        let is_passed = self.route.is_some_and(|route| route.route.pass_host);
        (is_passed && !self.host.is_empty()).then(|| self.authority().to_string())
    }

    /// The target in origin form, behind a route's own path.
    fn target(&self, base: &str) -> String {
        if self.is_server {
            return "*".to_owned();
        }
        //= rfc9112 §3.2.1   an empty path (`http://host?query`) is sent as "/"
        let slash = if self.path.starts_with('/') { "" } else { "/" };
        [base, slash, self.path].concat()
    }

    fn authority(&self) -> Authority<'_> {
        Authority {
            host: self.host,
            port: self.port,
        }
    }
}

/// What a listener's keys carry beside the URI: nothing for the rules of a public forward listener, if no route may fetch what it may not,
/// else the number of the first listener with the same rules.
pub fn key_tag(listener: &Listener, all: &[Listener]) -> Vec<u8> {
    let Role::Forward(forward) = &listener.role else {
        return Vec::new();
    };
    let rules = &forward.destinations;
    let is_public = !rules.loopback && !rules.link_local && rules.allow.is_empty();
    let is_reverse = |other: &Listener| matches!(other.role, Role::Reverse(_));
    if is_public && !all.iter().any(is_reverse) {
        return Vec::new();
    }
    let same = |other: &Listener| match &other.role {
        Role::Forward(other) => other.destinations == *rules,
        Role::Reverse(_) => false,
    };
    let first = all.iter().position(same).unwrap_or_default();
    format!("\tlistener {first}").into_bytes()
}

/// The URI in a key of a resource: without the method and the tag.
pub fn uri_of_key(key: &[u8]) -> &[u8] {
    let end = memchr::memchr(b'\t', key).unwrap_or(key.len());
    key.get(KEY_PREFIX.len()..end).unwrap_or_default()
}

/// The part of a key that names the server: method, scheme and authority.
pub fn server_of_key(key: &[u8]) -> &[u8] {
    let uri = uri_of_key(key);
    let authority = memchr::memmem::find(uri, b"//").map_or(0, |at| at + 2);
    let path = memchr::memchr(b'/', &uri[authority..]);
    let end = path.map_or(uri.len(), |at| authority + at);
    &key[..KEY_PREFIX.len().min(key.len()) + end]
}

/// The keys that another URI may have, with the tag of this key, whatever the rules have made of it.
pub fn keys_beside(key: &[u8], uri: &str, book: &Rulebook) -> Vec<Vec<u8>> {
    let mut tag = &key[KEY_PREFIX.len() + uri_of_key(key).len()..];
    if let Some(names) = memchr::memmem::find(tag, NAMES) {
        tag = &tag[..names];
    }
    let mut keys = vec![[KEY_PREFIX, uri.as_bytes(), tag].concat()];
    for shape in book.shapes() {
        let mut shaped = [KEY_PREFIX, uri.as_bytes()].concat();
        shape.cut_query(&mut shaped, KEY_PREFIX.len());
        shaped.extend_from_slice(tag);
        shaped.extend_from_slice(shape.names());
        if !keys.contains(&shaped) {
            keys.push(shaped);
        }
    }
    keys
}

/// Every key begins with the method; only answers to GET are stored.
pub const KEY_PREFIX: &[u8] = b"GET ";

/// Whom to ask for a resource, and under which name.
#[derive(Clone)]
pub struct Asked {
    /// The origin.
    pub destination: Destination,
    /// Target in origin form.
    pub target: String,
    /// Value of Host.
    pub host: Rc<str>,
}

/// The URL of a purge as a forward listener with this tag sees it, or as an origin does.
fn as_it_is<'a>(named: &Named<'a>, tag: &'a [u8]) -> Place<'a> {
    Place {
        tls: named.scheme == Scheme::Https,
        host: named.authority.host,
        port: named.authority.port,
        path: named.path,
        route: None,
        tag,
        is_server: false,
    }
}

/// The URL of a purge as a client of this route sees it.
fn through<'a>(named: &Named<'a>, route: &'a RouteState, path: &'a str) -> Place<'a> {
    Place {
        tls: route.route.origin.tls && !route.route.pass_host,
        host: named.authority.host,
        port: named.authority.port,
        path,
        route: Some(route),
        tag: &route.key_tag,
        is_server: false,
    }
}

/// The URL of a purge by its parts, with at least `/` for a path.
fn parse_url(url: &str) -> Option<Named<'_>> {
    let named = Named::parse(url)?;
    let path = if named.path.is_empty() {
        "/"
    } else {
        named.path
    };
    Some(Named { path, ..named })
}

/// Whose names the URL of a purge may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Names {
    /// Clients' and origins': the operator asks.
    All,
    /// Those that clients of the listeners use: what only others serve is not theirs to purge.
    OfClients,
}

impl Names {
    /// May a URL be meant as it is, not only as a route would see it?
    fn are_of(self, listener: &ListenerState) -> bool {
        self == Names::All || matches!(listener.listener.role, Role::Forward(_))
    }
}

/// The keys a URL given to a purge may be stored under: as it is, and as each reverse route would see it.
pub fn keys_of_url(
    listeners: &[Rc<ListenerState>],
    url: &str,
    names: Names,
) -> Option<Vec<Vec<u8>>> {
    let named = parse_url(url)?;
    let mut keys = Vec::new();
    let mut add = |place: &Place<'_>, shape: Option<&Shape>| {
        let mut key = Vec::new();
        place.write_shaped_key(shape, &mut key);
        if !keys.contains(&key) {
            keys.push(key);
        }
    };
    let mut tags: Vec<&[u8]> = Vec::new();
    if names == Names::All {
        tags.push(b"");
    }
    let meant = listeners.iter().filter(|l| names.are_of(l));
    tags.extend(meant.map(|l| &l.key_tag[..]));
    let book = listeners.first().map(|listener| &listener.book);
    for tag in tags {
        let place = as_it_is(&named, tag);
        add(&place, None);
        // If it is an origin's, nobody knows by which name clients came, and so which rules they met.
        for shape in book.iter().flat_map(|book| book.shapes()) {
            add(&place, Some(shape));
        }
    }
    for listener in listeners {
        let mut routes = listener.routes.iter();
        if let Some(route) = routes.find(|r| r.route.matches(named.authority.host, named.path)) {
            let place = through(&named, route, named.path);
            add(&place, place.ruled(&listener.book, "GET").shape);
        }
    }
    Some(keys)
}

/// The beginnings of the keys of everything whose URL begins so, under whatever tag: as it is, and as each reverse route that
/// may take some of it would see it.
pub fn prefixes_of_url(
    listeners: &[Rc<ListenerState>],
    url: &str,
    names: Names,
) -> Option<Vec<Vec<u8>>> {
    let named = parse_url(url)?;
    let mut prefixes: Vec<Vec<u8>> = Vec::new();
    let mut add = |place: &Place<'_>| {
        let mut prefix = KEY_PREFIX.to_vec();
        place.write_uri(&mut prefix);
        if !prefixes.contains(&prefix) {
            prefixes.push(prefix);
        }
    };
    if names == Names::All || listeners.iter().any(|l| names.are_of(l)) {
        add(&as_it_is(&named, b""));
    }
    for listener in listeners {
        let routes = listener.routes.iter();
        for route in routes.filter(|r| r.route.host_matches(named.authority.host)) {
            let theirs = route.route.path_prefix.as_str();
            if let Some(rest) = named.path.strip_prefix(theirs) {
                // All of it is below the route, or (`/docs` for the route `/docs`) some of it.
                add(&through(&named, route, named.path));
                if theirs.ends_with('/') || rest.starts_with(['/', '?']) {
                    break; // no later route gets any of it
                }
            } else if theirs.starts_with(named.path) {
                add(&through(&named, route, theirs));
            }
        }
    }
    Some(prefixes)
}
