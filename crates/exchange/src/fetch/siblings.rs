//! Asks siblings for responses that they have stored.
//!
//! Before a fetch goes to a parent or the origin, a sibling may have the response. Whether it has is known from its digest, from ICP (all
//! siblings at once; the first hit counts), or by trying one sibling a request, chosen by the hash of the URL. The sibling that seems to
//! have the response is asked by HTTP with `Cache-Control: only-if-cached`. A fetch makes at most one such request, limited by
//! `head-wait`. Without an answer from the sibling's cache that is fresh by our own rules, the fetch goes on as if there were no
//! siblings: the client never sees a sibling's error, and no such answer is stored.
//!
//! Siblings are not asked for
//!   - requests whose fetch is not shared: other methods, ranges, uploads, upgrades, requests with `no-store`;
//!   - requests with Authorization, because a sibling's stored response is not for one user, and ICP carries no fields at all;
//!   - revalidations and reloads (`no-cache`, `max-age`, `min-fresh`), which want the origin's answer;
//!   - `https` URLs, because the connection to a sibling is not encrypted;
//!   - destinations that the listener may not reach, as far as the address is visible here, and any destination if forward listeners
//!     differ in their destination rules: a sibling's answer might come from a place that only another listener may reach;
//!   - resources that were recently purged or written to (`recent`), since siblings may not know about that;
//!   - by ICP or digest, a URL whose stored response has Vary: both know only URLs. A sibling that is tried gets all fields.
//!
//! Not known here: whether the answer is stored.

use std::{future::poll_fn, task::Poll};

use httpcache::{Request, RequestDirectives, Standing, UnixMillis};
use message::{Authority, Named, ResponseHead, Scheme};
use profile::Hierarchy;
use store::KeyHash;

use crate::{
    fetch::{
        response::Asker,
        whom::{self, AskContext, To, whom_of},
    },
    request::target,
};
use base::{clock::Instant, deadline::Watch};
use cache::Cache;
use origin::{
    outcome::UpstreamError,
    trip::Hop,
    upstream::{self, Upstream},
};
use peers::{
    choice::{Candidate, choose},
    digest::Digests,
    icp::{Answer, Icp},
    known::hash_of_url,
    proxied,
};
use plan::{Ask, Order, Plan, Role, Sibling};
use record::metrics;

/// The context for asking siblings.
pub struct SiblingContext<'a> {
    /// Connections, and the known siblings.
    pub asking: &'a AskContext,
    /// The siblings' digests.
    pub digests: &'a Digests,
    /// The ICP socket, if any sibling is asked by ICP.
    pub icp: Option<&'a Icp>,
    /// The cache, which knows recent purges and markers.
    pub cache: &'a Cache,
}

/// A response wanted from siblings.
pub struct Wish<'a> {
    /// The resource, listener and trip.
    pub to: To<'a>,
    /// The request that the response is for.
    pub asker: Asker<'a>,
    /// The hash of the resource's name.
    pub primary: KeyHash,
}

/// May siblings be asked at all?
fn may_ask(context: &SiblingContext<'_>, wish: &Wish<'_>) -> bool {
    if context.asking.peers.siblings().is_empty() {
        return false;
    }
    let fields = wish.asker.request;
    let directives = RequestDirectives::parse(fields);
    let wants_origin = directives.no_cache
        || directives.no_store
        || directives.max_age_s.is_some()
        || directives.min_fresh_s.is_some();
    let To {
        asked, listener, ..
    } = wish.to;
    let destination = &asked.destination;
    let is_reachable = || {
        let checked =
            (context.asking.origin.connector).check_literal(destination, &listener.destinations);
        checked.is_ok()
    };
    matches!(listener.listener.role, Role::Forward(_))
        && !destination.tls
        && !wants_origin
        && !fields.contains(b"authorization")
        && !fields.contains(b"range")
        && (listener.key_tag.is_empty() || have_same_rules(&listener.edition.plan))
        && is_reachable()
}

/// Do all forward listeners have the same destination rules? A sibling does not know which listener a client used.
fn have_same_rules(plan: &Plan) -> bool {
    let mut rules = plan.listeners.iter().filter_map(|one| match &one.role {
        Role::Forward(forward) => Some(&forward.destinations),
        Role::Reverse(_) => None,
    });
    let first = rules.next();
    rules.all(|other| Some(other) == first)
}

/// Asks siblings, if that is allowed. Returns a sibling's answer from its cache. `request`: in the form for the origin.
pub async fn ask(
    context: &SiblingContext<'_>,
    watch: &Watch,
    wish: &Wish<'_>,
    request: &[u8],
) -> Option<(Upstream, ResponseHead)> {
    if !may_ask(context, wish) {
        return None;
    }
    let peers = &context.asking.peers;
    if (peers.recent).was_invalidated(&context.cache.store, wish.primary) {
        metrics::add(&context.asking.origin.counters.siblings_spared, 1);
        return None;
    }
    let url = proxied::url(&wish.to.asked.destination, &wish.to.asked.target);
    let began = Instant::now();
    let Found { number, first } = one_that_has(context, wish, &url).await?;
    let answer = match number {
        Some(number) => fetch(context, watch, wish, number, request).await,
        None => None,
    };
    let decided = Instant::now();
    let trip = wish.to.trip;
    trip.asked_siblings(began, first.unwrap_or(decided), decided);
    answer
}

/// The result of looking for a sibling.
struct Found {
    /// The sibling that seems to have the response.
    number: Option<usize>,
    /// When the first answer to an ICP query arrived.
    first: Option<Instant>,
}

/// Looks for a sibling that seems to have the response. `None`: no sibling was asked.
async fn one_that_has(context: &SiblingContext<'_>, wish: &Wish<'_>, url: &str) -> Option<Found> {
    let host = &wish.to.asked.destination.host;
    let known = &context.asking.peers;
    let peers = wish
        .to
        .listener
        .edition
        .plan
        .siblings
        .iter()
        .zip(known.siblings());
    // Digests and ICP know only URLs, not variants.
    let varies = context.cache.store.marker(wish.primary).is_some();
    let live = peers.enumerate().filter(|(_, (sibling, peer))| {
        peer.health.is_alive() && sibling.is_for(host) && (!varies || sibling.ask == Ask::Try)
    });
    let live: Vec<(usize, &Sibling)> = live.map(|(n, (sibling, _))| (n, sibling)).collect();
    let one_of = |is_one: &dyn Fn(usize, &Sibling) -> bool| {
        let ones = live
            .iter()
            .filter(|(number, sibling)| is_one(*number, sibling));
        let candidates: Vec<Candidate> = ones
            .filter_map(|(number, _)| Some(known.sibling(*number)?.candidate(*number, 1)))
            .collect();
        choose(Order::Hash, &candidates, hash_of_url(url), 0)[0]
    };
    let found = |number| Found {
        number: Some(number),
        first: None,
    };
    // Digests first: a look into one costs no message.
    let name = name_of(wish.to.asked);
    let says_yes = |number: usize, sibling: &Sibling| {
        sibling.ask == Ask::Digest && context.digests.may_have(number, &name)
    };
    if let Some(number) = one_of(&says_yes) {
        return Some(found(number));
    }
    let by_icp = match context.icp {
        Some(icp) => first_hit(icp, &live, &name).await,
        None => None,
    };
    if by_icp.as_ref().is_some_and(|found| found.number.is_some()) {
        return by_icp;
    }
    match one_of(&|_, sibling| sibling.ask == Ask::Try) {
        Some(number) => Some(found(number)),
        None => by_icp,
    }
}

/// The URL in the normal form of keys, which siblings use too.
fn name_of(asked: &target::Asked) -> Vec<u8> {
    let destination = &asked.destination;
    let named = Named {
        scheme: Scheme::of_tls(destination.tls),
        authority: Authority {
            host: &destination.host,
            port: Some(destination.port),
        },
        path: &asked.target,
    };
    let mut name = Vec::with_capacity(64 + asked.target.len());
    named.write(&mut name);
    name
}

/// Sends an ICP query to all siblings that use ICP, and waits for the first hit, or until all have answered or timed out. `None`: no
/// sibling uses ICP.
async fn first_hit(icp: &Icp, live: &[(usize, &Sibling)], name: &[u8]) -> Option<Found> {
    let by_icp = live
        .iter()
        .filter(|(_, sibling)| matches!(sibling.ask, Ask::Icp { .. }));
    let mut asking: Vec<(usize, _)> = by_icp
        .map(|(number, sibling)| (*number, Box::pin(icp.ask(*number, name, sibling.wait))))
        .collect();
    if asking.is_empty() {
        return None;
    }
    let mut first = None;
    let number = poll_fn(|cx| {
        let mut hit = None;
        asking.retain_mut(|(number, answer)| match answer.as_mut().poll(cx) {
            Poll::Pending => true,
            Poll::Ready(answer) => {
                if answer != Answer::Nothing {
                    first.get_or_insert_with(Instant::now);
                }
                if answer == Answer::Hit {
                    hit.get_or_insert(*number);
                }
                false
            }
        });
        match (hit, asking.is_empty()) {
            (Some(number), _) => Poll::Ready(Some(number)),
            (None, true) => Poll::Ready(None),
            (None, false) => Poll::Pending,
        }
    });
    let number = number.await;
    Some(Found { number, first })
}

/// Fetches from a sibling a response that it seems to have.
async fn fetch(
    context: &SiblingContext<'_>,
    watch: &Watch,
    wish: &Wish<'_>,
    number: usize,
    request: &[u8],
) -> Option<(Upstream, ResponseHead)> {
    let peer = context.asking.peers.sibling(number)?;
    let limit = wish
        .to
        .listener
        .edition
        .plan
        .siblings
        .get(number)?
        .head_wait;
    let loop_id = context.asking.peers.loop_id.as_bytes();
    //= rfc9111 §5.2.1.7   only-if-cached: a sibling serves what it has, and fetches nothing
    let more: [(&[u8], &[u8]); 2] = [
        (b"CDN-Loop", loop_id),
        (b"Cache-Control", b"only-if-cached"),
    ];
    let request = proxied::request(
        (&wish.to.asked.destination, &wish.to.asked.target),
        request,
        &more,
    );
    let hop = Hop::to(Hierarchy::Sibling, number);
    let whom = whom_of(
        context.asking,
        &wish.to.listener.edition,
        &peer.destination,
        hop,
        wish.to.trip,
    );
    let asked_at = context.asking.now_ms();
    let answer = {
        let _waiting = peer.wait();
        let asking = upstream::ask_final(&context.asking.origin, watch, &whom, "GET", &request);
        tokio::time::timeout(limit, asking).await
    };
    match answer.unwrap_or(Err(UpstreamError::Timeout)) {
        Ok((upstream, head))
            if is_from_its_cache(&head)
                && is_fresh(wish.asker, &head, asked_at, context.asking.now_ms()) =>
        {
            peer.health.answered();
            context.digests.tried(number, true);
            Some((upstream, head))
        }
        Ok((upstream, head)) => {
            peer.health.answered();
            context.digests.tried(number, false);
            upstream.keep(&context.asking.origin, watch, &head).await;
            None
        }
        Err(error) => {
            tracing::debug!(sibling = %peer.name, %error, "gave no answer");
            whom::note_failure(peer, &error);
            None
        }
    }
}

/// Is the answer from the sibling's cache? A refusal or a miss has a status of 400 or more. 404 and 410 may be stored answers, and
/// would come from the origin too; a sibling has no reason to make them itself.
fn is_from_its_cache(head: &ResponseHead) -> bool {
    match head.status {
        404 | 410 => true,
        // The request was not for a range, a validation, or another protocol.
        101 | 206 | 304 => false,
        status => status < 400,
    }
}

/// Is the answer fresh by our own rules? A sibling may serve stale responses, by its rules or because its clock is wrong; then the
/// origin must be asked.
fn is_fresh(
    asker: Asker<'_>,
    head: &ResponseHead,
    asked_at: UnixMillis,
    received: UnixMillis,
) -> bool {
    let request = Request {
        method: "GET",
        fields: asker.request,
    };
    let answer = httpcache::Response {
        status: head.status,
        fields: &head.fields,
    };
    let rules = asker.decide(head.status, &head.fields).rules;
    Standing::of(&request, &answer, asked_at, received, &rules).is_fresh(received)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_not_taken_for_what_was_asked_for() {
        let from_cache = |status: u16| {
            let text = format!("HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n");
            let limits = http1::Limits {
                head_bytes_max: 1000,
                fields_max: 10,
                target_bytes_max: 100,
                ..http1::Limits::default()
            };
            let head = http1::parse_response(text.as_bytes(), &limits, "GET");
            is_from_its_cache(&head.unwrap().unwrap().0)
        };
        for status in [200, 203, 204, 301, 302, 404, 410] {
            assert!(from_cache(status), "{status}");
        }
        for status in [206, 304, 400, 401, 403, 407, 429, 500, 502, 503, 504] {
            assert!(!from_cache(status), "{status}");
        }
    }
}
