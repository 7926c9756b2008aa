//! Which origin a request goes to: by its host and path.
//!
//! Two small decisions are made here, beside their data: which requests a route matches ([`Route::matches`]) and which of several routes
//! comes first ([`Route::specificity`]).
//!
//! Not known here: connections, upstreams' servers.

use std::sync::Arc;

use crate::{http2::Http2, mirror::Mirroring, origin_tls::OriginTls, signing::Signing};

/// The origin for the requests for a host and path.
#[derive(Clone, PartialEq, Debug)]
pub struct Route {
    /// Lower case, without port: a host name, or `*.suffix` for every name below it; `None`: any host.
    pub host: Option<String>,
    /// Begins with `/`; matches whole segments: `/docs` takes `/docs`, `/docs/a` and `/docs?q`, not `/docsa`.
    pub path_prefix: String,
    /// The origin. With an upstream: `http`, the upstream's name, port 80, and the prefix for the request's path. No connection is made to
    /// that address, but it is the origin's name in keys.
    pub origin: OriginUrl,
    /// The name of the upstream whose servers are asked; `None`: `origin` itself is asked.
    pub upstream: Option<String>,
    /// Send the client's Host to the origin? `false`: Host becomes the origin's own.
    pub pass_host: bool,
    /// Extra work beyond passing requests on.
    pub mirror: Mirroring,
    /// Each connection to the origin begins with a PROXY header, version 2, that names the client.
    pub tells_client: bool,
    /// TLS settings of the origin, or of the upstream's servers, if they differ from `Plan::tls`.
    pub tls: Option<Arc<OriginTls>>,
    /// How requests to the origin are signed, if at all.
    pub sign: Option<Arc<Signing>>,
    /// How HTTP/2 to the origin, or to the upstream's servers, begins; `None`: HTTP/1.1.
    pub http2: Option<Http2>,
}

impl Route {
    /// A route for any host and any path, with the client's Host passed on.
    pub fn everything_to(origin: OriginUrl) -> Self {
        Route {
            host: None,
            path_prefix: "/".to_owned(),
            origin,
            upstream: None,
            pass_host: true,
            mirror: Mirroring::default(),
            tells_client: false,
            tls: None,
            sign: None,
            http2: None,
        }
    }

    /// The path (a query may follow) to append to the origin's own: without the stripped prefix; perhaps empty.
    pub fn onward<'a>(&self, path: &'a str) -> &'a str {
        path.strip_prefix(self.mirror.strip.as_str())
            .unwrap_or(path)
    }

    /// [`Self::everything_to`] the servers of an upstream. `path`: as in [`OriginUrl`].
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

    /// The name of its origin: a URL, or the name of an upstream and a path.
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

    /// A sort key that puts more specific routes first: exact hosts, then longer suffixes, then any host; within
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
        path_begins(path, &self.path_prefix)
    }
}

/// Does a path (query allowed) begin with this prefix, by whole segments?
pub fn path_begins(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| {
        prefix.ends_with('/') || rest.is_empty() || rest.starts_with(['/', '?'])
    })
}

/// Does the host (no port, any case) equal the pattern, or for `*.suffix` lie below it?
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

#[cfg(test)]
mod tests {
    use super::*;

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
            tls: None,
            sign: None,
            http2: None,
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
