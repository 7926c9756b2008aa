//! The order in which servers are asked for a response that the cache does not have.
//!
//! | request | servers, in order |
//! |---|---|
//! | a GET whose answer can be shared | siblings that seem to have it, then as the next line |
//! | any request | a mirror's origin and the targets of its redirects, else parents, servers and origin (`whom`) |
//! | the rest of an answer that was cut short | the member that seems to have it, if a member sent the beginning; then as the line above |
//! | an object that a cluster member may have | that member (`forwarding`), before any of these |
//!
//! Not known here: how the answer is used.

use fields::Fields;
use message::ResponseHead;

use crate::{
    fetch::{
        members,
        siblings::{self, SiblingContext, Wish},
        whom::{self, AskContext, To},
    },
    mirror::{asking, settings::takes},
    request::{exchange::Exchange, onward, wanted::Wanted},
};
use base::deadline::Watch;
use origin::{
    outcome::UpstreamError,
    trip::Trip,
    upstream::{Upstream, is_interim},
};

/// Sends a GET whose answer can be shared, and waits for the first head. Siblings are asked first if `asks_siblings`.
pub async fn ask_for_all(
    context: &SiblingContext<'_>,
    watch: &Watch,
    wish: &Wish<'_>,
    asks_siblings: bool,
    request: &[u8],
) -> Result<(Upstream, ResponseHead), UpstreamError> {
    if asks_siblings {
        let of_sibling = Box::pin(siblings::ask(context, watch, wish, request));
        if let Some(answered) = of_sibling.await {
            return Ok(answered);
        }
    }
    ask(context.asking, watch, wish.to, "GET", request).await
}

/// Asks for the rest of an answer: first a member, if a member sent the beginning, then the origin. `is_rest`: does this head belong to it?
pub async fn ask_for_rest(
    ex: &mut Exchange<'_>,
    wanted: &Wanted,
    fields: &Fields,
    is_of_member: bool,
    is_rest: impl Fn(&ResponseHead) -> bool,
) -> Option<(Upstream, ResponseHead)> {
    if is_of_member {
        let answered = Box::pin(members::ask(ex, wanted, fields)).await;
        if let Some(answered) = answered.filter(|(_, head)| is_rest(head)) {
            return Some(answered);
        }
    }
    let trip = ex.record.trip();
    ask_with(ex, wanted, fields, &trip).await.ok()
}

/// Sends a GET with these fields, and waits for the final head. Interim responses are dropped. Failures are counted.
pub async fn ask_with(
    ex: &Exchange<'_>,
    wanted: &Wanted,
    fields: &Fields,
    trip: &Trip,
) -> Result<(Upstream, ResponseHead), UpstreamError> {
    let (worker, asked) = (ex.worker, &wanted.asked);
    let request = onward::request(ex.edition(), "GET", wanted.head.version, asked, fields);
    let watch = worker.deadlines.watch();
    let to = To {
        asked,
        listener: &ex.listener,
        trip,
    };
    let answered = ask_final(&worker.asking, &watch, to, "GET", &request).await;
    answered.inspect_err(|error| worker.counters.origin_failed(error.token()))
}

/// Sends a request without a body to the servers in their order, and waits for the first head, which may be an interim response's.
/// `request`: in the form for the origin. The answer is as the route changes it ([`crate::mirror`]).
pub async fn ask(
    context: &AskContext,
    watch: &Watch,
    to: To<'_>,
    method: &str,
    request: &[u8],
) -> Result<(Upstream, ResponseHead), UpstreamError> {
    match &to.asked.mirror {
        Some(mirror) if takes(method) => {
            // Boxed, because mirrors are rare and would double the future of every fetch.
            Box::pin(asking::ask(context, watch, to, mirror, method, request)).await
        }
        _ => whom::ask_first(context, watch, to, method, request).await,
    }
}

/// Like [`ask`], but waits for the final head. Interim responses are dropped.
pub async fn ask_final(
    context: &AskContext,
    watch: &Watch,
    to: To<'_>,
    method: &str,
    request: &[u8],
) -> Result<(Upstream, ResponseHead), UpstreamError> {
    let (mut upstream, mut head) = ask(context, watch, to, method, request).await?;
    while is_interim(&head) {
        head = whom::next_head(context, watch, &mut upstream, method).await?;
    }
    whom::note_levels(&upstream, &head);
    Ok((upstream, head))
}
