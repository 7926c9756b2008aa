//! Turns an origin's response into the form that is sent and stored.
//!
//! Removes hop-by-hop fields and fields for one client only, adds our own, and evaluates the caching rules. A stored response is
//! freshened with the fields of a 304, of a 206 for the same representation, or of a 200 to HEAD.
//!
//! Not known here: bodies, readers.

use base::mistakes::{Mistake, makes};
use std::sync::Arc;

use fields::Fields;
use httpcache::{NotStorable, Request, Standing, UnixMillis};
use message::{Framing, ResponseHead, Version, reason_phrase};
use store::Sequence;

use crate::{
    edition::Edition,
    fetch::response::{Asker, FetchRequest, Response},
    request::onward::via_of,
    storage::Storage,
};
use cache::object::Object;
use http1::head_lines;
use rules::{key::name_of_key, rulebook::Decision};

/// Room for the lines of Date and the name of Via.
const ADDED_BYTES: usize = 64;

/// The fields for clients: without the hop-by-hop ones, with Date and our Via.
pub fn response_fields(
    edition: &Edition,
    received: &Fields,
    version: Version,
    at: UnixMillis,
) -> Fields {
    let via = via_of(edition, version);
    let mut fields = received.clone_with_room(2, via.len() + ADDED_BYTES);
    message::remove_hop_by_hop(&mut fields);
    fields.remove(b"content-length");
    fields.remove(b"proxy-authenticate");
    //= rfc9111 §3.1   what is specific to the proxy in front is not stored, nor does it concern the client
    fields.remove(b"proxy-authentication-info");
    fields.remove(b"proxy-authorization");
    if !fields.contains(b"date") {
        //= rfc9110 §6.6.1   a recipient with a clock that forwards a response without Date appends one
        fields.push(b"Date", &httpcache::format_date(at));
    }
    fields.push(b"Via", &via);
    fields
}

/// The response as it is sent and stored, and the rules for it. `asked_at`, `received`: when the request was sent, and when the head
/// arrived.
pub fn response(
    fetch_request: &FetchRequest,
    head: &ResponseHead,
    asked_at: UnixMillis,
    received: UnixMillis,
) -> Response {
    let decision = fetch_request.asker().decide(head.status, &head.fields);
    let request = Request {
        method: "GET",
        fields: &fetch_request.request,
    };
    let rules = &decision.rules;
    let stripped = decision
        .strip_set_cookie
        .then(|| without_cookies(&head.fields));
    let mut answer = httpcache::Response {
        status: head.status,
        fields: stripped.as_ref().unwrap_or(&head.fields),
    };
    let (mut storable, mut standing) =
        httpcache::assess(&request, &answer, asked_at, received, rules);
    if storable.is_err() && stripped.is_some() {
        // The response is for one client only, so it keeps that client's cookies.
        answer.fields = &head.fields;
        standing = Standing::of(&request, &answer, asked_at, received, rules);
    }
    let head_fields = answer.fields;
    if head.framing == Framing::UntilClose && storable.is_ok() {
        // Such a body may be cut short unnoticed.
        storable = Err(NotStorable::CloseDelimited);
    }
    if makes(Mistake::StorePrivate) && head.status == 200 && head.framing != Framing::UntilClose {
        storable = Ok(());
    }
    if !decision.stores && storable.is_ok() {
        storable = Err(NotStorable::Rule);
    }
    let length = match head.framing {
        Framing::None => Some(0),
        Framing::Length(bytes) => Some(bytes),
        Framing::Chunked | Framing::UntilClose => None,
    };
    let mut fields = response_fields(
        &fetch_request.listener.edition,
        head_fields,
        head.version,
        received,
    );
    fields.remove(b"age");
    let mut withheld = Vec::new();
    httpcache::take_withheld(&mut fields).write_to(&mut withheld);
    if storable.is_ok() && !rules.store_set_cookie && !makes(Mistake::KeepCookies) {
        httpcache::take_cookies(&mut fields).write_to(&mut withheld);
    }
    let mut wire = Vec::with_capacity(512);
    let content_type = head_lines::write_head(head.status, &reason_of(head), &fields, &mut wire);
    //= rfc9110 §15.3.7.3   parts are put together only if they share the same strong validator
    let is_resumable = head.status == 200
        && length.is_some()
        && httpcache::has_strong_validator(&fields)
        // The route changes the origin's body, so a range from the origin would not fit.
        && fetch_request.asked.mirror.is_none();
    Response {
        status: head.status,
        fields,
        head: wire.into(),
        withheld: withheld.into(),
        content_type,
        length,
        bodiless: matches!(head.status, 204 | 304),
        standing,
        storable,
        stored: false,
        not_stored: None,
        asked_with: Arc::clone(&fetch_request.request),
        decision,
        is_forwarded: fetch_request.is_forwarded,
        is_resumable,
    }
}

/// The fields without the ones that `strip-set-cookie` removes.
pub fn without_cookies(fields: &Fields) -> Fields {
    let mut fields = fields.clone();
    fields.remove(b"set-cookie");
    fields.remove(b"set-cookie2");
    fields
}

fn reason_of(head: &ResponseHead) -> String {
    if head.reason.is_empty() {
        reason_phrase(head.status).to_owned()
    } else {
        head.reason.clone()
    }
}

/// The stored object with the fields of a 304, of a 206 for the same representation, or of a 200 to HEAD.
pub fn freshened(
    storage: &Storage,
    asker: Asker<'_>,
    stale: &Object,
    (not_modified, version): (&Fields, Version),
    asked_at: UnixMillis,
) -> (Object, Decision) {
    let received = storage.now_ms();
    let mut update = not_modified.clone();
    message::remove_hop_by_hop(&mut update);
    let mut fields = httpcache::freshen(&stale.fields(), &update, &asker.listener.rules);
    let decision = asker.decide(stale.status, &fields);
    if decision.strip_set_cookie {
        fields = without_cookies(&fields);
    }
    let request = Request {
        method: "GET",
        fields: asker.request,
    };
    // Age counts from the 304 (RFC 9111 §4.2.3), so use its Age, not the stored one.
    let answer = httpcache::Response {
        status: stale.status,
        fields: &fields,
    };
    let standing = Standing::of(&request, &answer, asked_at, received, &decision.rules);
    fields.remove(b"age");
    if !fields.contains(b"date") {
        fields.push(b"Date", &httpcache::format_date(received));
    }
    if !not_modified.contains(b"via") {
        // The last stored Via line is ours, from this process or an earlier one.
        let mut left = fields.count(b"via");
        fields.retain(|name, _| {
            let is_via = name.eq_ignore_ascii_case(b"via");
            left -= usize::from(is_via);
            !(is_via && left == 0)
        });
    }
    fields.push(b"Via", &via_of(&asker.listener.edition, version));
    let mut wire = Vec::with_capacity(stale.head.len() + 64);
    let content_type = head_lines::write_head(
        stale.status,
        reason_phrase(stale.status),
        &fields,
        &mut wire,
    );
    let object = Object {
        standing,
        content_type,
        head: wire.into(),
        ..stale.clone()
    };
    (object, decision)
}

/// A stored response that the origin has confirmed.
pub struct Confirmed {
    /// The response, freshened.
    pub object: Object,
    /// The operator's rules for the response.
    pub decision: Decision,
    /// May the response still be stored? Then it has replaced the stale one.
    pub is_kept: bool,
}

/// Freshens a stored response and replaces the stale one. `began`: the invalidation sequence before the origin was asked.
pub fn confirmed(
    storage: &Storage,
    fetch_request: &FetchRequest,
    stale: &Object,
    update: (&Fields, Version),
    asked_at: UnixMillis,
    began: Sequence,
) -> Confirmed {
    let (object, decision) = freshened(storage, fetch_request.asker(), stale, update, asked_at);
    let is_kept = is_kept(storage, fetch_request, stale, &object, &decision);
    if is_kept {
        // A purge since the look-up of the stale object must win, too.
        let began = began.min(fetch_request.stale_began);
        republish(storage, &object, began);
    }
    Confirmed {
        object,
        decision,
        is_kept,
    }
}

/// May a freshened object be stored? If it may not be stored for any client, the stale one is removed too.
fn is_kept(
    storage: &Storage,
    fetch_request: &FetchRequest,
    stale: &Object,
    fresh: &Object,
    decision: &Decision,
) -> bool {
    let fields = fresh.fields();
    let request = Request {
        method: "GET",
        fields: &fetch_request.request,
    };
    let answer = httpcache::Response {
        status: fresh.status,
        fields: &fields,
    };
    let same_vary = httpcache::vary_list(&stale.fields()) == httpcache::vary_list(&fields);
    let storable = httpcache::storable(&request, &answer, &decision.rules);
    // The answer is for this client only and does not decide what others may be given.
    let is_for_one = match storable {
        Err(NotStorable::Authorization | NotStorable::Cookie | NotStorable::RequestNoStore) => true,
        Err(NotStorable::Private) => speaks_for_one(fetch_request),
        _ => false,
    };
    if is_for_one {
        return false;
    }
    let fits = fresh.body_bytes() <= decision.object_bytes_max;
    if storable.is_err() || !decision.stores || !fits || !same_vary {
        //= rfc9111 §4.3.4   a 304 that restricts reuse (no-store, private) ends it; one that changes Vary moves it
        match same_vary {
            true => end_of(storage, stale),
            false => end_of_all(storage, stale),
        }
        return false;
    }
    true
}

/// May a mirror's answer differ for clients without this request's credentials? The redirects that a mirror follows may depend on
/// credentials, and make the answer `private` only for the client that sent them.
pub fn speaks_for_one(fetch_request: &FetchRequest) -> bool {
    let fields = &fetch_request.request;
    fetch_request.asked.mirror.is_some()
        && (fields.contains(b"cookie") || fields.contains(b"authorization"))
}

/// Removes a stored response that is out of date and has no successor. Not waited for until durable: a crash may bring back a stale
/// response, never a purged one.
//= rfc9111 §4.1   other variants are answers to other requests: they stay
pub fn end_of(storage: &Storage, stale: &Object) {
    match stale.hash == stale.primary {
        true => end_of_all(storage, stale),
        false => {
            storage.cache.forget_stored(stale);
            // Members know a record by the resource's name only, so they drop its other variants as well.
            storage.tell_members(name_of_key(&stale.key));
        }
    }
}

fn end_of_all(storage: &Storage, stale: &Object) {
    let _ = storage.cache.invalidate(stale.primary);
    storage.tell_members(name_of_key(&stale.key));
}

/// Stores an object in place of an older one with the same body. `began`: a purge since then wins.
pub fn republish(storage: &Storage, object: &Object, began: Sequence) {
    let may_publish = |object: &Object| storage.cache.may_publish(object, began);
    if storage.cache.memory.admits(object.memory_bytes()) {
        storage.cache.memory.insert(object.clone(), may_publish);
    } else {
        // Also remove the old copy from memory, or it would be found before the new one on disk.
        storage.cache.memory.remove(object.hash);
    }
    if let Some(disk) = &storage.disk {
        // The head changed, so the record is written again; a large object's fragments stay where they are.
        disk.store_object(object, &[&object.body], None, began);
        storage.cache.take_back_hidden(object);
    }
}
