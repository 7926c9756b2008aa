//! The one place that says who is asked for what the cache does not answer, and in which order.
//!
//! | what | who is asked, one after the other |
//! |---|---|
//! | a GET that others may share | siblings that seem to have it, then as the next line |
//! | any request | a mirror's origin and where that leads, else parents, servers and origin (`whom`) |
//! | the rest of an answer that broke off | the member that seems to have it, if one sent the beginning; then as the line above |
//! | what a member of our cluster may have | that member (`forwarding`), before any of these |
//!
//! Not known here: what becomes of the answer.

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

/// Sends a GET that others may share, and waits for the first head. Siblings are asked first, if `asks_siblings`.
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

/// Asks for the rest of an answer: the member that seems to have it, if a member sent the beginning, then the origin. `is_rest`: is it that?
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

/// Sends a GET with these fields, and waits for the final head. Interim responses are dropped, failures counted.
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

/// Sends a request without a body to whoever is to be asked, and waits for the first head, which may be that of an interim response.
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
            // Boxed, because it is rare and would double the future of every fetch.
            Box::pin(asking::ask(context, watch, to, mirror, method, request)).await
        }
        _ => whom::ask_first(context, watch, to, method, request).await,
    }
}

/// As [`ask`], and waits for the final head. Interim responses are dropped.
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
