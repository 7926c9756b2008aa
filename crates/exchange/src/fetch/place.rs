//! The key under which a response is stored.
//!
//! It is the key of the resource, or of a variant if the response has Vary, a rule adds extras, or a response of another tag is stored
//! under the name. Variants are found through the marker, which has the list of selecting fields.
//!
//! `httpcache::list_after` decides about the list after a response that names other fields, or none (docs/decisions/0107).
//!
//! Not known here: how a response is stored, and whether it may be.

use bytes::Bytes;
use httpcache::VaryList;
use store::{KeyHash, Marker, Sequence};

use crate::{
    fetch::response::{FetchRequest, Response},
    storage::Storage,
};
use cache::Cache;
use rules::key::{name_of_key, variant_key};

/// The key to store under.
#[derive(Clone)]
pub struct Place {
    /// The key.
    pub key: Bytes,
    /// Its hash.
    pub hash: KeyHash,
    /// The hash of the name in the key.
    pub primary: KeyHash,
}

impl Place {
    /// Where this response is stored. `None`: the response applies to no other request, there is no room for its list, or it was purged.
    /// `began` is the invalidation sequence of the fetch.
    pub fn of(
        storage: &Storage,
        began: Sequence,
        fetch_request: &FetchRequest,
        response: &Response,
    ) -> Option<Place> {
        let cache = &storage.cache;
        let FetchRequest { key, request, .. } = fetch_request;
        let primary = (storage.hasher).hash(name_of_key(key));
        let present = cache.store.marker(primary);
        let known = (present.as_ref()).and_then(|marker| VaryList::from_bytes(&marker.list));
        let replaced = || {
            let stale = fetch_request.stale.as_ref()?;
            (stale.status == response.status).then(|| stale.fields())
        };
        let list = httpcache::list_after(known.as_ref(), request, &response.fields, replaced);
        let list = list.ok()?;
        let is_plain = list.is_none()
            && present.is_none()
            && !fetch_request.is_contested
            && fetch_request.extras.is_empty();
        if is_plain {
            return Some(Place {
                key: Bytes::copy_from_slice(key),
                hash: primary,
                primary,
            });
        }
        let goes_on = (known.as_ref().zip(list.as_ref()))
            .is_some_and(|(before, list)| list.continues(before))
            && !cache.store.invalidated_since(primary, began);
        // Without a list the response becomes the only variant of its tag.
        let list = list.map(|list| list.to_bytes()).unwrap_or_default();
        let resumed = (present.filter(|_| goes_on))
            .and_then(|marker| cache.store.resume_marker(primary, marker.salt, &list));
        let marker = resumed.or_else(|| set_marker(cache, primary, &list, began))?;
        // Remove the response kept directly under the name, or it would be found first. `set_marker` has removed it from the store.
        cache.memory.remove(primary);
        let Marker { salt, list } = marker;
        let key = variant_key(key, salt, &list, request, &fetch_request.extras);
        Some(Place {
            hash: storage.hasher.hash(&key),
            key: key.into(),
            primary,
        })
    }
}

/// As `Store::set_marker`; logs once if there are too many lists.
fn set_marker(cache: &Cache, primary: KeyHash, list: &[u8], began: Sequence) -> Option<Marker> {
    static SAID: std::sync::Once = std::sync::Once::new();
    let store = cache.store.of(primary);
    let marker = store.set_marker(primary, list, began);
    if marker.is_none() && store.lists_refused() > 0 {
        SAID.call_once(|| {
            tracing::warn!(
                "too many different Vary fields are in use: answers with one more are not stored \
                 (lists_refused counts them); have the origins name fewer fields in Vary"
            );
        });
    }
    marker
}
