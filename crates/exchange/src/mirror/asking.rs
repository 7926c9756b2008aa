//! Asks the origin of a mirrored route: follows redirects, and fetches tokens.
//!
//! Redirects and tokens lead only to hosts on the operator's lists. Restrictions of the answers on the way are added to the last one.

use std::{borrow::Cow, pin::pin, rc::Rc, time::Duration};

use fields::Fields;
use httpcache::UnixMillis;
use message::{Framing, ResponseHead};

use super::{
    mark::{self, Mark},
    redirect::{self, Next},
    settings::Mirror,
    token::{self, Challenge},
    treating::treated,
    verify,
};
use crate::{
    fetch::whom::{self, AskContext, To},
    request::target::Asked,
};
use base::{
    clock::Instant,
    deadline::Watch,
    mistakes::{Mistake, makes},
};
use origin::{
    Destination,
    outcome::UpstreamError,
    trip::{Hop, Trip},
    upstream::{self, Upstream, Whom},
};
use plan::{HostPort, Mirroring};
use record::metrics;

/// The longest body of a redirect that is read, bytes; reading it frees the connection for reuse.
const REDIRECT_BODY_MAX: u64 = 4 << 10;
/// The longest time for that read.
const REDIRECT_BODY_WAIT: Duration = Duration::from_secs(1);

/// Asks, follows redirects, fetches a token if one is needed, and returns the final head as changed by the route. Its body is changed and
/// checked while it is read.
///
/// # Errors
/// As for any origin; also if there are too many redirects.
pub async fn ask(
    context: &AskContext,
    watch: &Watch,
    to: To<'_>,
    mirror: &Rc<Mirror>,
    method: &str,
    request: &[u8],
) -> Result<(Upstream, ResponseHead), UpstreamError> {
    let mut asking = Asking {
        context,
        watch,
        to,
        mirror,
        method,
        request: Cow::Borrowed(request),
        at: None,
        mark: None,
        has_crossed: false,
        hops: Vec::new(),
    };
    let (mut upstream, mut head) = asking.answered().await?;
    if let Some(mark) = &asking.mark {
        mark.put(head.status, &mut head.fields);
    }
    if !asking.hops.is_empty() && !makes(Mistake::ForgetHops) {
        bind_to_hops(context, to, request, &asking.hops, &upstream, &mut head);
    }
    if asking.has_crossed {
        // Another host's cookie is not meant for the client.
        head.fields.remove(b"set-cookie");
        head.fields.remove(b"set-cookie2");
    }
    let target = &to.asked.target;
    if let Some(filter) = treated(&context.origin.counters, mirror, method, target, &mut head)? {
        upstream.filter_body(Box::new(filter));
    }
    Ok((upstream, head))
}

/// A request that follows redirects.
struct Asking<'a> {
    context: &'a AskContext,
    watch: &'a Watch,
    to: To<'a>,
    mirror: &'a Mirror,
    method: &'a str,
    request: Cow<'a, [u8]>,
    /// The target of the last redirect; `None`: the request goes to the origin.
    at: Option<Next>,
    /// The mark for entity tags of that target; `None` also if a digest verifies each body.
    mark: Option<Mark>,
    /// A redirect has led to another origin.
    has_crossed: bool,
    /// The redirects followed, and when they arrived; at most [`Mirroring::REDIRECTS_MAX`].
    hops: Vec<(ResponseHead, UnixMillis)>,
}

/// Adds the restrictions of the followed redirects, as answers to the client's `request`, to the last answer.
fn bind_to_hops(
    context: &AskContext,
    to: To<'_>,
    request: &[u8],
    hops: &[(ResponseHead, UnixMillis)],
    upstream: &Upstream,
    head: &mut ResponseHead,
) {
    let mut asked_with = Fields::new();
    for name in ["authorization", "cookie"] {
        if has_field(request, format!("\r\n{name}:").as_bytes()) {
            asked_with.push(name.as_bytes(), b"");
        }
    }
    let request = httpcache::Request {
        method: "GET",
        fields: &asked_with,
    };
    let received = UnixMillis(context.wall.ms_at(upstream.received));
    for (hop, at) in hops {
        let hop = hop_of(hop, *at);
        let bound = httpcache::bind(&request, &hop, &hop_of(head, received), &to.listener.rules);
        bound.add_to(&mut head.fields);
    }
}

fn hop_of(head: &ResponseHead, received: UnixMillis) -> httpcache::Hop<'_> {
    httpcache::Hop {
        response: httpcache::Response {
            status: head.status,
            fields: &head.fields,
        },
        received,
    }
}

impl Asking<'_> {
    async fn answered(&mut self) -> Result<(Upstream, ResponseHead), UpstreamError> {
        let scope = token::scope_of(&self.to.asked.target).to_owned();
        let mut may_authorize =
            self.mirror.plan.tokens.is_some() && !has_field(&self.request, b"\r\nauthorization:");
        if may_authorize {
            let known = (self.mirror.tokens.borrow()).get(&scope, Instant::now());
            if let Some(token) = known {
                self.authorize(&token);
            }
        }
        let mut redirects = 0;
        loop {
            let (upstream, head) = self.ask_once().await?;
            if head.status == 401 && self.at.is_none() && may_authorize {
                may_authorize = false;
                if self.fetch_token(&head.fields, &scope).await {
                    finish(self.context, self.watch, upstream, &head).await;
                    continue;
                }
            }
            let Some(next) = self.leads(&head) else {
                return Ok((upstream, head));
            };
            redirects += 1;
            if redirects > Mirroring::REDIRECTS_MAX {
                return Err(UpstreamError::Redirects);
            }
            metrics::add(&self.context.origin.counters.mirror_redirects_followed, 1);
            let received = UnixMillis(self.context.wall.ms_at(upstream.received));
            finish(self.context, self.watch, upstream, &head).await;
            self.hops.push((head, received));
            let is_origin = is_same(&next.destination, &self.to.asked.destination);
            self.has_crossed |= !is_origin;
            let host = match is_origin {
                true => self.to.asked.host.to_string(),
                false => next.destination.as_authority(),
            };
            self.request = redirect::redirected(
                &self.request,
                (self.method, &next.target),
                &host,
                self.has_crossed,
            )
            .into();
            let target = &self.to.asked.target;
            let is_proven = self.mirror.plan.verify && verify::digest_of(target).is_some();
            self.mark = (!is_proven).then(|| Mark::of(&next));
            self.at = Some(next);
        }
    }

    fn authorize(&mut self, token: &str) {
        let value = ["Bearer ", token].concat();
        let request = redirect::with_field(&self.request, b"Authorization", value.as_bytes());
        self.request = request.into();
    }

    async fn ask_once(&self) -> Result<(Upstream, ResponseHead), UpstreamError> {
        let (context, watch) = (self.context, self.watch);
        let request: Cow<[u8]> = match (&self.at, &self.mark) {
            (_, Some(mark)) => mark.conditions(&self.request).into(),
            (Some(_), None) => Cow::Borrowed(&self.request),
            (None, None) => mark::first_conditions(&self.request),
        };
        let is_origin = |next: &&Next| is_same(&next.destination, &self.to.asked.destination);
        let next = match &self.at {
            None => {
                return whom::ask_final(context, watch, self.to, self.method, &request).await;
            }
            // The origin may be an upstream of several servers.
            Some(next) if is_origin(&next) => {
                let asked = Asked {
                    target: next.target.clone(),
                    ..self.to.asked.clone()
                };
                let to = To {
                    asked: &asked,
                    ..self.to
                };
                return whom::ask_final(context, watch, to, self.method, &request).await;
            }
            Some(next) => next,
        };
        let whom = self.whom(&next.destination, self.to.trip);
        upstream::ask_final(&context.origin, watch, &whom, self.method, &request).await
    }

    /// Another server, with its access rules.
    fn whom<'w>(&'w self, destination: &'w Destination, trip: &'w Trip) -> Whom<'w> {
        let listener = self.to.listener;
        let is_origin = is_same(destination, &self.to.asked.destination);
        Whom {
            destination,
            // Only the origin is told about the client.
            header: self.to.asked.header.as_deref().filter(|_| is_origin),
            rules: match is_origin {
                true => &listener.destinations,
                false => &self.mirror.elsewhere,
            },
            hop: Hop::DIRECT,
            trip,
            verdict: None,
            waits: listener.edition.origin_waits(),
            // Only for the origin: another host could use the signature there.
            signer: None,
        }
    }

    /// The target of a redirect, if it is followed.
    fn leads(&self, head: &ResponseHead) -> Option<Next> {
        if self.mirror.plan.follow.is_empty() || !redirect::is_redirect(head.status) {
            return None;
        }
        let origin = &self.to.asked.destination;
        let (at, target) = match &self.at {
            Some(next) => (&next.destination, &next.target),
            None => (origin, &self.to.asked.target),
        };
        let next = redirect::next(at, target, head.fields.first(b"location")?)?;
        self.may_go(at, &next.destination, &self.mirror.plan.follow)
            .then_some(next)
    }

    /// May the proxy go from `at` to this server? Only to listed hosts and the origin, and not from https to http.
    fn may_go(&self, at: &Destination, to: &Destination, listed: &[HostPort]) -> bool {
        let is_listed = |one: &HostPort| one.fits(to.tls, &to.host, to.port);
        let is_known = is_same(to, &self.to.asked.destination) || listed.iter().any(is_listed);
        let is_known = is_known || makes(Mistake::FollowAnywhere);
        is_known && (to.tls || !at.tls)
    }

    /// Fetches the token that a 401 asks for, and adds it to the request. Without a token, the client gets the 401.
    async fn fetch_token(&mut self, fields: &Fields, scope: &str) -> bool {
        self.mirror.tokens.borrow_mut().forget(scope);
        let Some(next) = Challenge::of(fields).and_then(|challenge| challenge.leads()) else {
            return false;
        };
        let next = Next {
            destination: next.destination.as_of(&self.to.asked.destination),
            ..next
        };
        let listed = self.mirror.plan.tokens.as_deref().unwrap_or_default();
        let (origin, counters) = (&self.to.asked.destination, &self.context.origin.counters);
        if !self.may_go(origin, &next.destination, listed) {
            tracing::warn!(at = %next.destination, "a registry sends for a token to a host that is not in token-hosts");
            return false;
        }
        let asked = Instant::now();
        let answer = self.ask_for_token(&next).await;
        let token = answer.ok().and_then(|answer| token::token_of(&answer));
        let Some((token, good_for)) = token else {
            tracing::warn!(at = %next.destination, "no token from there");
            return false;
        };
        metrics::add(&counters.mirror_tokens_fetched, 1);
        let mut tokens = self.mirror.tokens.borrow_mut();
        let has_dropped = tokens.put(scope, Rc::clone(&token), asked + good_for, asked);
        drop(tokens);
        metrics::add(&counters.mirror_tokens_dropped, u64::from(has_dropped));
        self.authorize(&token);
        true
    }

    async fn ask_for_token(&self, next: &Next) -> Result<Vec<u8>, UpstreamError> {
        let (context, watch) = (self.context, self.watch);
        let host = next.destination.as_authority();
        let mut request = Vec::with_capacity(512);
        http1::write_request_line("GET", &next.target, &mut request);
        for (name, value) in [
            ("Host", host.as_str()),
            ("Accept", "application/json"),
            ("Accept-Encoding", "identity"),
        ] {
            http1::head_lines::write_field(name.as_bytes(), value.as_bytes(), &mut request);
        }
        request.extend_from_slice(b"\r\n");
        let trip = Trip::new();
        let whom = self.whom(&next.destination, &trip);
        let answer = upstream::ask_final(&context.origin, watch, &whom, "GET", &request).await?;
        let (upstream, head) = answer;
        if head.status != 200 {
            return Err(UpstreamError::Refused(head.status));
        }
        let mut body = upstream.body(&head);
        let answer = body.whole(&context.origin, watch, token::ANSWER_BYTES_MAX);
        answer.await?.ok_or(UpstreamError::Crowded)
    }
}

/// Are scheme, host and port the same?
fn is_same(one: &Destination, other: &Destination) -> bool {
    (one.tls, one.port) == (other.tls, other.port) && one.host.eq_ignore_ascii_case(&other.host)
}

/// Does a request written by this proxy have the field? `line`: the name in lower case, behind a line break.
fn has_field(request: &[u8], line: &[u8]) -> bool {
    request
        .to_ascii_lowercase()
        .windows(line.len())
        .any(|at| at == line)
}

/// Reads a short body to its end, so that the connection goes back to the pool.
async fn finish(context: &AskContext, watch: &Watch, upstream: Upstream, head: &ResponseHead) {
    let is_short = match head.framing {
        Framing::None => true,
        Framing::Length(bytes) => bytes <= REDIRECT_BODY_MAX,
        Framing::Chunked | Framing::UntilClose => false,
    };
    if is_short {
        let mut body = upstream.body(head);
        let rest = async { while let Ok(Some(_)) = body.next(&context.origin, watch).await {} };
        let _ = watch.limit(REDIRECT_BODY_WAIT, pin!(rest)).await;
    }
}
