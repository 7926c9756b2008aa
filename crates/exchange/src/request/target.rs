//! The resource that a request names, its key, and the origin to ask.
//!
//! The effective URI (RFC 9110 §7.1) comes from target, Host and the listener's role. A forward listener takes it from an absolute
//! target; a reverse listener takes it from Host and path, through its routes. With `pass-host` the URI has the client's host, because
//! the origin may answer each host differently. Otherwise it has the origin's host, so that invented Host values cannot fill the
//! cache with copies.
//!
//! Keys: [`rules::key`].
//!
//! Not known here: caching, connections.

use std::{
    borrow::Cow,
    net::{IpAddr, Ipv4Addr},
    rc::Rc,
    sync::Arc,
};

use fields::Fields;
use http1::{Fault, Reject, Target};
use message::{Authority, Named, Scheme};

use crate::{
    listener::{ListenerState, RouteState},
    mirror::settings::Mirror,
};
use origin::{Destination, signing::Signer};
use plan::Role;
use rules::{
    key::KEY_PREFIX,
    ports,
    rulebook::{Question, Ruled, Shape, fits::FieldLines},
};
use upstreams::Group;

/// Why a request names no resource here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misplaced {
    /// The target is malformed.
    Malformed(Reject),
    /// An origin-form target on a forward listener: the client takes this proxy for a web server.
    NotAProxyRequest,
    /// No route matches this host and path.
    NoRoute,
    /// A scheme other than http and https.
    Scheme,
    /// A port that this forward listener must not send requests to.
    Port(u16),
}

impl Misplaced {
    /// The status, and a sentence for the person who sees the answer.
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

    /// A token for `detail` in Cache-Status, where RFC 9209 has one.
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
    /// The matching reverse route.
    route: Option<&'a RouteState>,
    /// A forward listener's tag, with its TAB; it follows the name in the key.
    forward_tag: &'a [u8],
    /// The request is for the server, not for a resource (`OPTIONS *`).
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
    // The common case: a reverse request in origin form needs no further parsing.
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
        // Check before the look-up, so that a response that another listener fetched from this port is not served here.
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
        .routing
        .find(host, path)
        .and_then(|number| listener.routes.get(number))
        .ok_or(Misplaced::NoRoute)?;
    Ok(Place {
        // The connection's scheme, whatever an absolute target says.
        tls: listener.is_https(),
        host,
        port,
        path,
        route: Some(route),
        forward_tag: b"",
        is_server,
    })
}

impl Place<'_> {
    /// The route, if it replaces the client's host by the origin's name.
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
                let path = route.route.onward(self.path);
                let path = if origin.path.is_empty() {
                    path
                } else {
                    joined = joined_path(&origin.path, path);
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

    /// Writes the key of the stored GET into an empty buffer, changed as the rule says. Returns the length of the key's name.
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

    /// The request in the form that the operator's rules match.
    #[inline]
    pub fn question<'q>(&'q self, method: &'q str, fields: &'q dyn FieldLines) -> Question<'q> {
        let scheme = Scheme::of_tls(self.tls);
        Question {
            method,
            scheme: Some(scheme),
            host: self.host,
            port: self.port.unwrap_or_else(|| scheme.default_port()),
            path: Some(self.path),
            fields,
        }
    }

    /// The operator's rules for a plain GET without a client: rules about clients do not match.
    pub fn ruled_plain<'b>(&self, listener: &'b ListenerState, unix_ms: u64) -> Ruled<'b> {
        let nobody = Ipv4Addr::UNSPECIFIED.into();
        let among = listener.book.may_meet(nobody, listener.number, unix_ms);
        let met = (listener.book).met(&among, &self.question("GET", &Fields::new()));
        listener.book.request(met, false)
    }

    /// The host asked for, without port, as the client wrote it.
    pub fn host(&self) -> &str {
        self.host
    }

    /// Does a PROXY header tell the origin about the client?
    pub fn tells_client(&self) -> bool {
        self.route.is_some_and(|route| route.route.tells_client)
    }

    /// The number of the matching reverse route.
    pub fn route_number(&self) -> Option<usize> {
        self.route.map(|route| route.number)
    }

    /// The request to the origin.
    pub fn ask(&self) -> Asked {
        match self.route {
            Some(route) => {
                let target = match self.is_server {
                    true => "*".to_owned(),
                    false => joined_path(&route.route.origin.path, route.route.onward(self.path)),
                };
                let host = match self.renamed() {
                    Some(route) => Rc::clone(&route.authority),
                    None => self.authority().to_text().into(),
                };
                Asked {
                    destination: route.destination.clone(),
                    header: None,
                    upstream: route.upstream.clone(),
                    client: None,
                    target,
                    host,
                    mirror: route.mirror.clone(),
                    signer: route.signer.clone(),
                }
            }
            None => Asked {
                destination: Destination {
                    tls: self.tls,
                    host: self.host.to_ascii_lowercase().into(),
                    port: self.port.unwrap_or(if self.tls { 443 } else { 80 }),
                    member: None,
                    terms: None,
                    http2: None,
                },
                header: None,
                upstream: None,
                client: None,
                target: match self.is_server {
                    true => "*".to_owned(),
                    false => joined_path("", self.path),
                },
                host: self.authority().to_text().into(),
                mirror: None,
                signer: None,
            },
        }
    }

    /// The client's host and port, if they are part of the key and so may be sent to the origin. Otherwise an answer made for an
    /// invented host would be stored for all clients.
    pub fn client_host(&self) -> Option<String> {
        let is_passed = self.route.is_some() && self.renamed().is_none();
        is_passed.then(|| self.authority().to_text())
    }

    fn authority(&self) -> Authority<'_> {
        Authority {
            host: self.host,
            port: self.port,
        }
    }
}

/// A path appended to an origin's base path.
fn joined_path(base: &str, path: &str) -> String {
    //= rfc9112 §3.2.1   an empty path (`http://host?query`) is sent as "/"
    let slash = if path.starts_with('/') { "" } else { "/" };
    [base, slash, path].concat()
}

/// The origin of a resource, and the resource's name there.
#[derive(Clone)]
pub struct Asked {
    /// The origin.
    pub destination: Destination,
    /// The PROXY header that begins each connection to the origin, if it wants one.
    pub header: Option<Rc<[u8]>>,
    /// The upstream whose servers are asked in the origin's place.
    pub upstream: Option<Arc<Group>>,
    /// The client's address, if the server is chosen by it.
    pub client: Option<IpAddr>,
    /// The target in origin form.
    pub target: String,
    /// The value of Host.
    pub host: Rc<str>,
    /// How the answer is verified, rewritten or filtered before it is used.
    pub mirror: Option<Rc<Mirror>>,
    /// Signs requests to the origin.
    pub signer: Option<Arc<Signer>>,
}

mod purged;
pub use purged::{Names, names_of_url, prefixes_of_url};

#[cfg(test)]
mod tests;
