//! The names under which the URL of a purge may be stored.
//!
//! The purge's listener and the listener that stored the response may differ, and so may their configurations. So the URL is read
//! in every way that the present listeners, routes and rules allow. All records with one of these names are purged, however they
//! were reached.
//!
//! Not known here: permissions, how a record is invalidated.

use std::{rc::Rc, sync::Arc};

use message::{Named, Scheme};

use super::Place;
use crate::listener::{ListenerState, RouteState};
use plan::Role;
use rules::key::{KEY_PREFIX, add_names};

/// The URL as a forward listener sees it, or as an origin does.
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

/// The URL as a client of this route sees it.
fn through<'a>(
    named: &Named<'a>,
    listener: &ListenerState,
    route: &'a RouteState,
    path: &'a str,
) -> Place<'a> {
    Place {
        tls: listener.is_https(),
        path,
        route: Some(route),
        ..as_it_is(named)
    }
}

/// Each way in which a route may have read this URL. For the operator this includes the readings before a change of `pass-host`.
fn readings(place: &Place<'_>, names: Names, add: &mut impl FnMut(&Place<'_>)) {
    under_schemes(place, names, add);
    if names == Names::All {
        under_schemes(&Place { host: "", ..*place }, names, add);
        let as_it_is = Place {
            route: None,
            ..*place
        };
        under_schemes(&as_it_is, names, add);
    }
}

/// For the operator, both schemes: the listener that stored the record may be gone, or may have started or stopped using TLS.
fn under_schemes(place: &Place<'_>, names: Names, add: &mut impl FnMut(&Place<'_>)) {
    add(place);
    if names == Names::All {
        add(&Place {
            tls: !place.tls,
            ..*place
        });
    }
}

/// Parses the URL. An empty path becomes `/`.
fn parse_url(url: &str) -> Option<Named<'_>> {
    let named = Named::parse(url)?;
    let path = if named.path.is_empty() {
        "/"
    } else {
        named.path
    };
    let mut named = Named { path, ..named };
    // The default port of the typed scheme is not part of the name, even where the route is read under another scheme.
    if named.authority.port == Some(named.scheme.default_port()) {
        named.authority.port = None;
    }
    Some(named)
}

/// Whose names a URL may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Names {
    /// Names of clients and origins, for the operator.
    All,
    /// Names of the listeners' own clients; these must not purge what only other listeners serve.
    OfClients,
}

impl Names {
    /// May the URL be read as it is, not only through a route?
    fn are_of(self, listener: &ListenerState) -> bool {
        self == Names::All || matches!(listener.listener.role, Role::Forward(_))
    }
}

/// The names under which this URL may be stored: as typed, as each reverse route reads it, and each of these as cut by the rules.
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
        under_schemes(&as_it_is(&named), names, &mut add);
    }
    for listener in listeners {
        let found = (listener.routing).find(named.authority.host, named.path);
        let Some(route) = found.and_then(|number| listener.routes.get(number)) else {
            continue;
        };
        readings(
            &through(&named, listener, route, named.path),
            names,
            &mut add,
        );
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

/// The key prefixes of all URLs with this prefix, under any tag: as typed, and as read by each reverse route that may match some
/// of them.
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
        under_schemes(&as_it_is(&named), names, &mut add);
    }
    for listener in listeners {
        for number in listener.routing.of_host(named.authority.host) {
            let route = &listener.routes[number];
            let theirs = route.route.path_prefix.as_str();
            if let Some(rest) = named.path.strip_prefix(theirs) {
                // The route matches all of these URLs, or some of them (prefix `/docs` for the route `/docs`).
                readings(
                    &through(&named, listener, route, named.path),
                    names,
                    &mut add,
                );
                if theirs.ends_with('/') || rest.starts_with(['/', '?']) {
                    break; // no later route matches any of them
                }
            } else if theirs.starts_with(named.path) {
                let place = through(&named, listener, route, theirs);
                under_schemes(&place, names, &mut add);
            }
        }
    }
    Some(prefixes)
}
