//! Finds the other resources that the answer to an unsafe method names, for invalidation.
//!
//! Location and Content-Location contain URIs. A forward proxy stores responses under the URIs that clients and origins use. A
//! reverse proxy stores them under the origin's URI, while an origin that knows its public name may answer with that name. So both
//! readings are tried, and a public URI is located like a request for it, through the routes. The proxy does not know whether
//! clients reach the public name by http or https in front of it; either counts as the same origin.
//!
//! Not known here: how a resource is invalidated. `httpcache` decides which of the named URIs count.

use fields::Fields;

use crate::{
    listener::ListenerState,
    request::{target, wanted::Wanted},
};
use plan::Role;
use rules::key::{KEY_PREFIX, name_of_key};

/// The URIs named by the response to this request, as keys contain them.
//= rfc9111 §4.4   URIs in Location and Content-Location, if of the same origin
pub fn named_uris(listener: &ListenerState, wanted: &Wanted, response: &Fields) -> Vec<String> {
    let own = name_of_key(&wanted.key).strip_prefix(KEY_PREFIX);
    let own = own.and_then(|uri| std::str::from_utf8(uri).ok());
    let own = own.unwrap_or_default();
    let mut found = httpcache::invalidated_uris(own, response);
    if matches!(listener.listener.role, Role::Forward(_)) {
        return found;
    }
    for scheme in ["http", "https"] {
        let Some(public) = public_uri(scheme, wanted) else {
            continue;
        };
        for uri in httpcache::invalidated_uris(&public, response) {
            if let Some(uri) = behind(listener, wanted, &uri)
                && uri != own
                && !found.contains(&uri)
            {
                found.push(uri);
            }
        }
    }
    found
}

/// The request's target as its client sees it.
fn public_uri(scheme: &str, wanted: &Wanted) -> Option<String> {
    let target = &wanted.head.target;
    if !target.starts_with('/') {
        return Some(target.clone());
    }
    let host = wanted.head.host.as_deref().filter(|h| !h.is_empty())?;
    Some(format!("{scheme}://{host}{target}"))
}

/// The URI in keys for a public URI.
fn behind(listener: &ListenerState, wanted: &Wanted, public: &str) -> Option<String> {
    let path = message::Named::parse(public)?.path;
    let path = if path.starts_with('/') { path } else { "/" };
    let host = wanted.head.host.as_deref();
    let place = target::locate(listener, "GET", path, host).ok()?;
    let mut uri = Vec::new();
    place.write_uri(&mut uri);
    String::from_utf8(uri).ok()
}
