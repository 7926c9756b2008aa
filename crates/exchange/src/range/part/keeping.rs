//! Decides which stored object the parts of a response belong to, and whether the response may be stored in parts at all.
//!
//! Not known here: storing the fragments themselves (`fill`), sending.   Source: RFC 9111 §3.4.

use bytes::Bytes;

use super::{Part, Parts};
use crate::fetch::{place::Place, response::Response, storing};
use cache::object::{Large, Object};
use http1::head_lines;

impl Parts<'_, '_> {
    /// The object that the parts of this response belong to: the stored one if it is the same representation, otherwise a new one. `Err`:
    /// the response may not be stored in parts; `true`: nor will the next one.
    pub(super) async fn keep(
        &self,
        response: &Response,
        span: Part,
        total: Option<u64>,
    ) -> Result<Option<Object>, bool> {
        let (worker, size) = (self.ex.worker, self.fragment_bytes);
        let shared = &worker.shared;
        let (Some(disk), Some(total)) = (&worker.storage.disk, total) else {
            return Err(true);
        };
        let store = shared.cache.store.of(self.wanted.primary);
        let most = (self.ex.edition())
            .plan
            .limits
            .object_bytes_max
            .min(store.object_bytes_max())
            .min(response.decision.object_bytes_max);
        //= rfc9111 §3.4   only if they all share the same strong validator
        if response.storable.is_err()
            || !httpcache::has_strong_validator(&response.fields)
            || total > most
        {
            return Err(true);
        }
        let is_of_use = total > size && span.len() >= size.min(total - span.first);
        let Ok(fragments) = u32::try_from(total.div_ceil(size)) else {
            return Err(true);
        };
        if !is_of_use {
            return Err(false);
        }
        let (storage, fetch_request) = (&worker.storage, &self.fetch_request);
        let Some(place) = Place::of(storage, self.began, fetch_request, response) else {
            return Err(false);
        };
        let known = disk.load(place.primary, place.hash, &place.key).await;
        let known = known.ok().map(|loaded| loaded.object).filter(|object| {
            let fits = |large: &Large| large.bytes == total && disk.fits(place.primary, large);
            object.status == 200
                && object.large.as_ref().is_some_and(fits)
                && httpcache::is_of_same(&object.fields(), &response.fields)
                && shared.cache.still_valid(object, self.began)
        });
        let large = known.and_then(|object| object.large).unwrap_or(Large {
            fetch_id: storing::next_fetch_id(),
            fragments,
            bytes: total,
        });
        // The new fields are complete, so they replace the stored ones (RFC 9111 §3.4).
        let mut head = Vec::with_capacity(response.head.len() + 32);
        head.extend_from_slice(&response.head);
        head_lines::write_number_field(b"Content-Length", total, &mut head);
        let object = Object {
            key: place.key,
            hash: place.hash,
            primary: place.primary,
            status: 200,
            standing: response.standing,
            content_type: response.content_type,
            head: head.into(),
            body: Bytes::new(),
            large: Some(large),
        };
        let handed = disk.store_object(&object, &[], None, self.began);
        let is_stored = handed.is_stored() && !shared.cache.take_back_hidden(&object);
        shared.cache.memory.remove(object.hash);
        Ok(Some(object).filter(|_| is_stored))
    }
}
