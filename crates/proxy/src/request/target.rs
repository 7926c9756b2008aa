//! What a request is for: which resource, under which key, asked of whom.
//!
//! The effective URI (RFC 9110 §7.1) is put together from target, Host and the listener's role. A forward
//! listener takes it from an absolute target; a reverse one from Host and path, through its routes. With `pass-host` the
//! URI has the client's host, because the origin may answer each host otherwise. Else it has the origin's, so that a made-up Host
//! cannot fill the cache with copies.
//!
//! ```text
//! key of a resource    GET http://www.example.org/a?b [TAB tag]
//!                      \________ its name __________/
//! ```
//!
//! The hash of the *name* is the primary hash: purges and unsafe methods act on it, so they mean the same whatever listeners and
//! rules there are, were or will be. A rule that cuts the query changes the URI before the look-up.
//!
//! The *tag* says how the resource was reached. It is not hashed, but compared with the whole key, so that nobody is served from
//! the cache what he could not have fetched:
//!
//! | reached by | tag |
//! |---|---|
//! | a forward listener with the destination rules of a public one | none |
//! | another forward listener | a hash of its destination rules |
//! | a route, under its origin's name | the origin |
//! | a route, under the client's host (`pass-host`) | `host` and the origin: here the client chooses the host in the URI |
//!
//! Not known here: caching, connections.

use std::{borrow::Cow, collections::BTreeSet, rc::Rc, sync::Arc};

use http1::{Fault, Reject, Target};
use message::{Authority, Named, Scheme};
use store::{KeyHash, KeyHasher};

use crate::{
    origin::Destination,
    plan::{Destinations, Role, Route},
    request::ports,
    request::rulebook::{Rulebook, Ruled, Shape},
    state::ListenerState,
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
    /// The tags of what it fetches under the origin's name, and under the client's host.
    tags: [Vec<u8>; 2],
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
            tags: [
                format!("\t{}", route.origin).into_bytes(),
                format!("\thost {}", route.origin).into_bytes(),
            ],
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
    /// Behind the name in the key, with its TAB; of a forward listener.
    forward_tag: &'a [u8],
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
            forward_tag: &listener.key_tag,
            is_server,
        });
    }
    let route = listener
        .routes
        .iter()
        .find(|r| r.route.matches(host, path))
        .ok_or(Misplaced::NoRoute)?;
    Ok(Place {
        // Of a request whose host is passed on; nobody says by which scheme the client came.
        tls: false,
        host,
        port,
        path,
        route: Some(route),
        forward_tag: b"",
        is_server,
    })
}

impl Place<'_> {
    /// The route, if it puts the origin's name in place of the client's host.
    fn renamed(&self) -> Option<&RouteState> {
        self.route
            .filter(|route| !route.route.pass_host || self.host.is_empty())
    }

    /// Appends the URI in normal form.
    pub fn write_uri(&self, out: &mut Vec<u8>) {
        let joined;
        let named = match self.renamed() {
            Some(route) => {
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
            None => Named {
                scheme: Scheme::of_tls(self.tls),
                authority: self.authority(),
                path: self.path,
            },
        };
        named.write(out);
    }

    /// Writes the key of the stored GET, as a rule makes it, into what is empty. Returns the length of the name in it.
    #[inline]
    pub fn write_key(&self, shape: Option<&Shape>, out: &mut Vec<u8>) -> usize {
        out.extend_from_slice(KEY_PREFIX);
        self.write_uri(out);
        if let Some(shape) = shape {
            shape.cut_query(out, KEY_PREFIX.len());
        }
        let name_bytes = out.len();
        out.extend_from_slice(match self.route {
            None => self.forward_tag,
            Some(route) => &route.tags[usize::from(self.renamed().is_none())],
        });
        name_bytes
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
                let host = match self.renamed() {
                    Some(route) => Rc::clone(&route.authority),
                    None => self.authority().to_string().into(),
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
        let is_passed = self.route.is_some() && self.renamed().is_none();
        is_passed.then(|| self.authority().to_string())
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

/// The tag of a forward listener, with its TAB. It depends on its own rules alone, never on their order or on other listeners.
pub fn forward_tag(rules: &Destinations, hasher: KeyHasher) -> Vec<u8> {
    if *rules == Destinations::default() {
        return Vec::new();
    }
    let allow = rules.allow.iter().map(|net| net.trunc().to_string());
    let allow: BTreeSet<String> = allow.collect();
    let (loopback, link_local) = (rules.loopback, rules.link_local);
    let text = format!("loopback={loopback} link-local={link_local} allow={allow:?}");
    format!("\t{:016x}", hasher.hash(text.as_bytes()).0).into_bytes()
}

/// The name in a key of a resource, variant or fragment: what comes before the first TAB, LF or NUL. No URI holds one.
pub fn name_of_key(key: &[u8]) -> &[u8] {
    let end = memchr::memchr3(b'\t', b'\n', 0, key);
    &key[..end.unwrap_or(key.len())]
}

/// The hash under which what has this key is found: that of its name, or, of a variant or fragment, that of all of it.
pub fn hash_of_key(hasher: KeyHasher, key: &[u8]) -> KeyHash {
    match memchr::memchr2(b'\n', 0, key) {
        None => hasher.hash(name_of_key(key)),
        Some(_) => hasher.hash(key),
    }
}

/// The part of a key that names the server: method, scheme and authority.
pub fn server_of_key(key: &[u8]) -> &[u8] {
    let name = name_of_key(key);
    let authority = memchr::memmem::find(name, b"//").map_or(0, |at| at + 2);
    let path = memchr::memchr(b'/', &name[authority..]);
    &name[..path.map_or(name.len(), |at| authority + at)]
}

/// Adds the names under which what has this URI may be stored: the URI itself, and as each of the rules cuts it.
pub fn add_names(uri: &[u8], book: &Rulebook, names: &mut Vec<Vec<u8>>) {
    for shape in std::iter::once(None).chain(book.shapes().map(Some)) {
        let mut name = [KEY_PREFIX, uri].concat();
        if let Some(shape) = shape {
            shape.cut_query(&mut name, KEY_PREFIX.len());
        }
        if !names.contains(&name) {
            names.push(name);
        }
    }
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

/// The URL of a purge as a forward listener sees it, or as an origin does.
fn as_it_is<'a>(named: &Named<'a>) -> Place<'a> {
    Place {
        tls: named.scheme == Scheme::Https,
        host: named.authority.host,
        port: named.authority.port,
        path: named.path,
        route: None,
        forward_tag: b"",
        is_server: false,
    }
}

/// The URL of a purge as a client of this route sees it.
fn through<'a>(named: &Named<'a>, route: &'a RouteState, path: &'a str) -> Place<'a> {
    Place {
        tls: false,
        path,
        route: Some(route),
        ..as_it_is(named)
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

/// The names under which what a purge calls by this URL may be stored: as it is, as each reverse route sees it, and as the rules cut
/// each of these. Who purged it and who stored it may be different listeners, of different configurations.
pub fn names_of_url(
    listeners: &[Rc<ListenerState>],
    url: &str,
    names: Names,
) -> Option<Vec<Vec<u8>>> {
    let named = parse_url(url)?;
    let mut uris = Vec::new();
    let mut add = |place: &Place<'_>| {
        let mut uri = Vec::new();
        place.write_uri(&mut uri);
        uris.push(uri);
    };
    if names == Names::All || listeners.iter().any(|l| names.are_of(l)) {
        add(&as_it_is(&named));
    }
    for listener in listeners {
        let mut routes = listener.routes.iter();
        let Some(route) = routes.find(|r| r.route.matches(named.authority.host, named.path)) else {
            continue;
        };
        let place = through(&named, route, named.path);
        add(&place);
        if names == Names::All {
            // Whether it passes Host on may have been changed.
            add(&Place { host: "", ..place });
            add(&Place {
                route: None,
                ..place
            });
        }
    }
    // All listeners have the same rules.
    let book = listeners.first().map(|listener| Arc::clone(&listener.book));
    let book = book.unwrap_or_default();
    let mut found = Vec::new();
    for uri in uris {
        add_names(&uri, &book, &mut found);
    }
    Some(found)
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
        add(&as_it_is(&named));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{admin::testing, plan::Forward, plan::Listener, worker};

    fn key_of(listener: &ListenerState, target: &str, host: &str) -> String {
        let mut key = Vec::new();
        let place = locate(listener, "GET", target, Some(host)).ok().unwrap();
        let name_bytes = place.write_key(None, &mut key);
        assert_eq!(name_of_key(&key), &key[..name_bytes]);
        String::from_utf8(key).unwrap()
    }

    #[test]
    fn a_route_is_named_by_its_origin_and_by_whose_host_is_in_the_uri() {
        let origin = crate::plan::OriginUrl {
            tls: true,
            host: "origin".into(),
            port: 443,
            path: "/base".into(),
        };
        let mut listener = Listener::reverse("127.0.0.1:80".parse().unwrap(), Vec::new(), origin);
        let Role::Reverse(routes) = &mut listener.role else {
            panic!("a reverse listener");
        };
        let mut own = routes[0].clone();
        (own.host, own.pass_host) = (Some("own".into()), false);
        routes.insert(0, own);
        let shared = testing::shared_with(vec![listener]);
        let listener = &worker::listener_states(&shared)[0];
        for (host, key) in [
            ("own", "GET https://origin/base/a\thttps://origin/base"),
            ("", "GET https://origin/base/a\thttps://origin/base"),
            (
                "Other:81",
                "GET http://other:81/a\thost https://origin/base",
            ),
        ] {
            assert_eq!(key_of(listener, "/a", host), key, "{host}");
        }
    }

    #[test]
    fn a_forward_listeners_tag_is_its_own_rules() {
        let hasher = testing::shared().hasher();
        let tag = |loopback, link_local, allow: &[&str]| {
            let mut listener = Listener::forward("127.0.0.1:80".parse().unwrap(), Vec::new());
            let destinations = Destinations {
                loopback,
                link_local,
                allow: allow.iter().map(|net| net.parse().unwrap()).collect(),
            };
            listener.role = Role::Forward(Forward {
                destinations: destinations.clone(),
                ..Forward::for_address(listener.address.ip())
            });
            let shared = testing::shared_with(vec![listener]);
            let own = forward_tag(&destinations, shared.hasher());
            let listener = &worker::listener_states(&shared)[0];
            let key = key_of(listener, "http://h/a", "h");
            assert_eq!(key.as_bytes(), [b"GET http://h/a", &own[..]].concat());
            // Each store has a hasher of its own: what is compared here is made with one.
            String::from_utf8(forward_tag(&destinations, hasher)).unwrap()
        };
        assert_eq!(tag(false, false, &[]), "");
        let all = [
            tag(true, false, &[]),
            tag(false, true, &[]),
            tag(true, true, &[]),
            tag(false, false, &["10.0.0.0/8"]),
            tag(false, false, &["10.0.0.0/8", "192.168.0.0/16"]),
            tag(true, false, &["10.0.0.0/8"]),
        ];
        let different: BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        assert!(
            all.iter()
                .all(|tag| tag.len() == 17 && tag.starts_with('\t'))
        );
        let spelt = ["192.168.3.0/16", "10.0.0.0/8", "10.1.0.0/8"];
        assert_eq!(tag(false, false, &spelt), all[4]);
    }

    #[test]
    fn keys_are_taken_apart() {
        let hasher = testing::shared().hasher();
        let name = b"GET http://h:81/a/b?c";
        for (behind, is_direct) in [
            (&b""[..], true),
            (b"\thttp://o:80/x", true),
            (b"\n\x09\0\0\0\0\0\0\0", false),
            (b"\ttag\n\x09\0\0\0\0\0\0\0", false),
            (b"\0\x09", false),
            (b"\ttag\0\x09", false),
        ] {
            let key = [name, behind].concat();
            assert_eq!(name_of_key(&key), name);
            assert_eq!(server_of_key(&key), b"GET http://h:81");
            let hashed = if is_direct { &name[..] } else { &key };
            assert_eq!(hash_of_key(hasher, &key), hasher.hash(hashed));
        }
        assert_eq!(server_of_key(b"GET http://h"), b"GET http://h");
        assert_eq!(server_of_key(b""), b"");
    }

    #[test]
    fn a_purge_names_what_was_typed_what_routes_make_of_it_and_what_rules_cut() {
        use crate::plan::{KeyRule, OriginUrl, Plan, Rule, Then};
        let origin = OriginUrl {
            tls: false,
            host: "o".into(),
            port: 8080,
            path: "/base".into(),
        };
        let address = "127.0.0.1:80".parse().unwrap();
        let mut listener = Listener::reverse(address, Vec::new(), origin);
        for pass_host in [true, false] {
            if let Role::Reverse(routes) = &mut listener.role {
                routes[0].pass_host = pass_host;
            }
            let mut plan = Plan::with_listeners(vec![listener.clone()]);
            plan.rules = vec![Rule {
                then: Then {
                    key: Some(KeyRule {
                        ignore_query: vec!["x".into()],
                        ..KeyRule::default()
                    }),
                    ..Then::default()
                },
                ..Rule::default()
            }];
            let shared = testing::shared_of(plan);
            let listeners = worker::listener_states(&shared);
            let names_of = |names| {
                let found = names_of_url(&listeners, "https://W/a?x=1", names).unwrap();
                let found = found.iter().map(|name| str::from_utf8(&name[4..]).unwrap());
                found.collect::<Vec<_>>().join(" ")
            };
            let served = match pass_host {
                true => "http://w/a?x=1 http://w/a",
                false => "http://o:8080/base/a?x=1 http://o:8080/base/a",
            };
            assert_eq!(names_of(Names::OfClients), served);
            let all = names_of(Names::All);
            for name in [
                "https://w/a?x=1 https://w/a",
                "http://w/a?x=1 http://w/a",
                "http://o:8080/base/a?x=1 http://o:8080/base/a",
            ] {
                assert!(all.contains(name), "{all}");
            }
        }
    }
}
