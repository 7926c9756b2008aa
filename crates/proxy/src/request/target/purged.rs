//! The names under which what a purge calls by a URL may be stored.
//!
//! Who purges and who stored it may be different listeners, of different configurations. So a URL is read in each way that the present
//! listeners, routes and rules can read it; what has one of these names goes, however it was reached.
//!
//! Not known here: who may purge, how something is invalidated.

use std::{rc::Rc, sync::Arc};

use message::{Named, Scheme};

use super::{Place, RouteState};
use crate::{
    listener::ListenerState,
    plan::Role,
    request::key::{KEY_PREFIX, add_names},
};

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
