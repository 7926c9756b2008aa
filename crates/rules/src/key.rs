//! Keys of stored responses.
//!
//! ```text
//! key of a resource    GET http://www.example.org/a?b [TAB tag]
//!                      \________ its name __________/
//! ```
//!
//! The hash of the *name* is the primary hash. Purges and unsafe methods act on it, so they apply under all listeners and under
//! all rules, past and future. A rule that cuts the query changes the URI before the look-up.
//!
//! The *tag* says how the resource was reached. It is not hashed, but compared with the rest of the key, so that a client
//! gets from the cache only what it could have fetched:
//!
//! | reached by | tag |
//! |---|---|
//! | a forward listener with the destination rules of a public one | none |
//! | another forward listener | a hash of its destination rules |
//! | a route, under its origin's name | the origin; `tls` before it if its clients speak TLS |
//! | a route, under the client's host (`pass-host`) | `host` and the origin, because the client chooses the host in the URI |
//! | a route that changes its answers (`mirror`) | one of these two, and the changes |
//! | a route to an upstream, either way | the same with `upstream` and its name, not its servers: they may change |
//! | a route that presents a certificate, asks for another name in TLS, or verifies nothing | the same with a hash of these settings |
//! | a route whose requests are signed | the same with a hash of the source of its credentials |
//!
//! Clients of a TLS listener and clients of a plain one fetch different resources, though the host is the same: an application redirects
//! one of them to the other, by X-Forwarded-Proto. Under the client's host the URI contains the scheme, so the tag need not.
//!
//! Keys derived from the key of a resource:
//!
//! ```text
//! variant              <resource> LF salt values extras    found through a marker, which has the salt and says which fields select;
//!                                                          extras: what a cache rule adds (`rulebook`)
//! fragment             <resource or variant> NUL fetch number
//! ```
//!
//! Variants and fragments are found by the hash of the whole key.
//!
//! Not known here: where the parts of a URI come from (`target`), the values of a variant (`httpcache::vary`).

use base::mistakes::{Mistake, makes};
use std::collections::{BTreeSet, HashSet};

use fields::Fields;
use httpcache::VaryList;
use store::{KeyHash, KeyHasher};

use crate::rulebook::Rulebook;
use plan::{Destinations, Listener, Plan, Role, Route};

/// The tag of a forward listener, with its TAB. It depends only on the listener's own rules, not on their order or on other
/// listeners.
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

/// The tags of a route's resources, with their TABs: under its origin's name, and under the client's host. `is_tls`: its clients
/// speak TLS.
pub fn route_tags(route: &Route, is_tls: bool) -> [Vec<u8>; 2] {
    let kind = match route.upstream {
        Some(_) => "upstream ",
        None => "",
    };
    let (origin, mirror) = (route.origin_name(), &route.mirror);
    let tls = if is_tls { "tls " } else { "" };
    let by = [
        route.tls.as_ref().map(|it| it.tag()),
        route.sign.as_ref().map(|it| it.tag()),
    ];
    let by: String = by.into_iter().flatten().collect();
    let tags = [
        format!("\t{tls}{kind}{origin}{by}{}", mirror.tag(false)),
        format!("\thost {kind}{origin}{by}{}", mirror.tag(true)),
    ];
    tags.map(String::into_bytes)
}

/// All tags that clients of this plan can ask with. A record with another tag belongs to another configuration, and may be
/// replaced.
pub fn tags_in_use(plan: &Plan, hasher: KeyHasher) -> HashSet<Vec<u8>> {
    let listeners = plan.listeners.iter();
    listeners
        .flat_map(|listener| tags_of(listener, hasher))
        .collect()
}

/// The tags that the clients of a listener can ask with.
pub fn tags_of(listener: &Listener, hasher: KeyHasher) -> Vec<Vec<u8>> {
    match &listener.role {
        Role::Forward(forward) => vec![forward_tag(&forward.destinations, hasher)],
        Role::Reverse(routes) => {
            let is_tls = listener.tls.is_some();
            let tags = (routes.iter()).flat_map(|route| route_tags(route, is_tls));
            tags.collect()
        }
    }
}

/// The tag in the key of a resource, with its TAB.
pub fn tag_of_key(key: &[u8]) -> &[u8] {
    &key[name_of_key(key).len()..]
}

/// The name in the key of a resource, variant or fragment: everything before the first TAB, LF or NUL. No URI contains one.
pub fn name_of_key(key: &[u8]) -> &[u8] {
    let end = memchr::memchr3(b'\t', b'\n', 0, key);
    &key[..end.unwrap_or(key.len())]
}

/// The hash by which the record of this key is found: of its name, or, for a variant or fragment, of the whole key.
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

/// The key of a variant: that of the resource, the marker's salt, the selecting values, and the extras of a rule.
pub fn variant_key(
    resource: &[u8],
    salt: u64,
    list: &[u8],
    request: &Fields,
    extras: &[u8],
) -> Vec<u8> {
    let mut key = Vec::with_capacity(resource.len() + 64);
    key.extend_from_slice(resource);
    key.push(b'\n');
    key.extend_from_slice(&salt.to_le_bytes());
    if let Some(list) = VaryList::from_bytes(list)
        && !makes(Mistake::OneVariant)
    {
        httpcache::vary_key(&list, request, &mut key);
    }
    key.extend_from_slice(extras);
    key
}

/// The key of a fragment: the object's key, NUL, the number of the fetch, the fragment's number. No URI holds a NUL.
pub fn fragment_key(key: &[u8], fetch_id: u64, number: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + 13);
    out.extend_from_slice(key);
    out.push(0);
    out.extend_from_slice(&fetch_id.to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
    out
}

/// Adds the names under which this URI may be stored: the URI itself, and the URI as cut by each rule.
pub fn add_names(uri: &[u8], book: &Rulebook, names: &mut Vec<Vec<u8>>) {
    for shape in std::iter::once(None).chain(book.shapes().iter().map(Some)) {
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
