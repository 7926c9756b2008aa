//! HEAD requests that go to the origin, and what their answers say about stored responses to GET.
//!
//! A fresh stored GET response answers HEAD (`exchange`). Otherwise HEAD is passed on. A 200 answer is the head that GET would have
//! brought (RFC 9111 §4.3.5). If the answer describes the stored response, it freshens that response, as a 304 does; if it describes
//! another one, the stored response becomes stale, and the next GET asks the origin. If the origin fails, the stored response's head
//! may be served under the same rules as its body.
//!
//! Only a response stored before the HEAD was sent is touched, and only the variant that the HEAD would have selected. Its fields
//! are updated only if the HEAD's own answer could have been stored for everybody: otherwise a cookie meant for one client would
//! be kept for all.

use std::rc::Rc;

use httpcache::{Request, RequestDirectives, UnixMillis, cache_status::Forward};
use message::{Framing, ResponseHead};
use store::Sequence;

use crate::{
    deliver::stored,
    fetch::{prepare, response::Asker},
    listener::ListenerState,
    reply::After,
    request::{exchange::Exchange, find, wanted::Wanted},
    state::Worker,
    storage::Storage,
};
use cache::object::Object;

/// Updates or expires the stored response after an answer to HEAD. `began`: the invalidation sequence when the HEAD was sent.
pub async fn note(
    worker: &Rc<Worker>,
    listener: &ListenerState,
    wanted: &Wanted,
    response: &ResponseHead,
    asked_at: UnixMillis,
    began: Sequence,
) {
    if !matches!(response.status, 200 | 404 | 410) || response.framing != Framing::None {
        return;
    }
    let Some(found) = find::find(worker, wanted, &mut false).await else {
        return;
    };
    let stored = found.object();
    if stored.standing.received > asked_at {
        return; // It is the younger of the two.
    }
    let fields = stored.fields();
    let matches = stored.status == 200
        && response.status == 200
        && httpcache::describes(&response.fields, &fields, stored.body_bytes());
    let fresh = matches.then(|| {
        freshened(
            &worker.storage,
            listener,
            wanted,
            stored,
            response,
            asked_at,
        )
    });
    let object = fresh.flatten().unwrap_or_else(|| {
        let mut stale = stored.clone();
        stale.standing.expire();
        stale
    });
    prepare::republish(&worker.storage, &object, began.min(found.began));
}

/// The stored response with the HEAD answer's fields; `None` if these may not be kept.
fn freshened(
    storage: &Storage,
    listener: &ListenerState,
    wanted: &Wanted,
    stored: &Object,
    response: &ResponseHead,
    asked_at: UnixMillis,
) -> Option<Object> {
    let asker = Asker {
        request: &wanted.request,
        met: &wanted.met,
        listener,
    };
    let (fresh, decision) = prepare::freshened(
        storage,
        asker,
        stored,
        (&response.fields, response.version),
        asked_at,
    );
    let request = Request {
        method: "GET",
        fields: &wanted.request,
    };
    let storable = |fields| {
        let answer = httpcache::Response {
            status: 200,
            fields,
        };
        httpcache::storable(&request, &answer, &decision.rules).is_ok()
    };
    // If the rules strip Set-Cookie from stored responses, the client's own cookies do not count against storing.
    let its_own = match decision.strip_set_cookie {
        true => &prepare::without_cookies(&response.fields),
        false => &response.fields,
    };
    let (before, after) = (stored.fields(), fresh.fields());
    let same_vary = httpcache::vary_list(&before) == httpcache::vary_list(&after);
    let may_be_kept = decision.stores && stored.body_bytes() <= decision.object_bytes_max;
    (may_be_kept && storable(its_own) && storable(&after) && same_vary).then_some(fresh)
}

/// Answers with the head of a stale stored response if the origin failed and the rules allow it. `failure`: see [`stored::on_error`].
pub async fn instead(
    ex: &mut Exchange<'_>,
    wanted: &Wanted,
    why: Forward,
    failure: (Option<u16>, bool),
) -> Option<After> {
    let found = find::find(ex.worker, wanted, &mut false).await?;
    let directives = RequestDirectives::heeded(&wanted.request, wanted.client_directives);
    stored::on_error(ex, wanted, found.object(), &directives, why, failure).await
}
