//! Sends a request to a server of an upstream, and to another server if the first gives no answer.
//!
//! A request is sent again only where that is safe: any request, if no connection could be made; idempotent methods without a body, if the connection
//! broke before a head; safe methods also after a time-out, and after 500, 502, 503 or 504. (A request with a body, or with a method
//! that is not idempotent, is sent once, by [`connect`].) Repeats after a connection was made are limited by the [`Budget`](super::budget::Budget).
//! An answer with such a status is kept until another server answers, and passed on if none does.
//!
//! Not known here: which servers are up.

use std::{net::IpAddr, rc::Rc, sync::Arc};

use message::ResponseHead;
use twox_hash::XxHash3_64;

use super::{Group, Tried, Turn, Upstream, locked, turn::is_bad};
use base::{
    clock::Instant,
    deadline::Watch,
    mistakes::{Mistake, makes},
};
use origin::{
    ConnectError, Destination, Lease, OriginContext, Verdict,
    outcome::UpstreamError,
    upstream::{self, Fit, Whom, is_safe},
};
use plan::Balance;

use std::sync::atomic::Ordering::Relaxed;

/// A request to an upstream.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// The origin for which the upstream stands.
    pub origin: Whom<'a>,
    /// The host in the resource's URL.
    pub host: &'a str,
    /// The target in origin form.
    pub target: &'a str,
    /// The client, if the choice depends on it.
    pub client: Option<IpAddr>,
}

/// Sends a request without a body and with an idempotent method. Waits for the first head, which may be that of an interim response.
pub async fn ask(
    context: &OriginContext,
    watch: &Watch,
    to: Asked<'_>,
    of: &Group,
    method: &str,
    request: &[u8],
) -> Result<(upstream::Upstream, ResponseHead), UpstreamError> {
    let of = &of.known().await;
    let mut tries = Tries::begin(of, &to, true);
    let mut turn = tries.first()?;
    let mut kept = None;
    loop {
        let verdict: Rc<dyn Verdict> = turn.clone();
        let Destination { terms, http2, .. } = to.origin.destination;
        let at = turn.member().destination(terms.as_ref(), *http2);
        let whom = whom_of(to.origin, &at, &verdict);
        let answer = upstream::ask(context, watch, &whom, method, request).await;
        let may_repeat = is_safe(method) || makes(Mistake::RepeatUnsafe);
        let next = match &answer {
            Ok((_, head)) if is_bad(head.status) && may_repeat => tries.next(true),
            Ok(_) => None,
            Err(UpstreamError::Connect(error)) if may_try_another(error) => tries.next(false),
            Err(error) if error.may_go_on(is_safe(method)) => tries.next(true),
            Err(_) => None,
        };
        let Some(next) = next else {
            return match (answer, kept) {
                (Err(_), Some(kept)) => Ok(kept),
                (answer, _) => answer,
            };
        };
        tracing::debug!(server = turn.server().name, "another server is asked");
        kept = answer.ok().or(kept);
        turn = next;
    }
}

/// A connection to a server, for a request that may be sent only once.
pub async fn connect(
    context: &OriginContext,
    to: Asked<'_>,
    of: &Group,
    fit: Fit,
) -> Result<Lease, UpstreamError> {
    let of = &of.known().await;
    let mut tries = Tries::begin(of, &to, false);
    let mut turn = tries.first()?;
    loop {
        let verdict: Rc<dyn Verdict> = turn.clone();
        let Destination { terms, http2, .. } = to.origin.destination;
        let at = turn.member().destination(terms.as_ref(), *http2);
        let whom = whom_of(to.origin, &at, &verdict);
        let error = match upstream::connect(context, &whom, fit).await {
            Ok((lease, _)) => return Ok(lease),
            Err(error) => error,
        };
        let may_go_on = match &error {
            UpstreamError::Connect(error) => may_try_another(error),
            _ => false,
        };
        turn = match may_go_on.then(|| tries.next(false)).flatten() {
            Some(next) => next,
            None => return Err(error),
        };
    }
}

/// No connection was made. Is the cause the server's? If it is on this machine, another server would not help.
fn may_try_another(error: &ConnectError) -> bool {
    !matches!(error, ConnectError::Forbidden(_) | ConnectError::Exhausted)
}

fn whom_of<'a>(origin: Whom<'a>, at: &'a Destination, verdict: &'a Rc<dyn Verdict>) -> Whom<'a> {
    Whom {
        destination: at,
        verdict: Some(verdict),
        ..origin
    }
}

/// The servers that are asked for one request, one after the other.
struct Tries<'a> {
    of: &'a Arc<Upstream>,
    key: u64,
    tried: Tried,
    left: u32,
    may_try: bool,
}

impl<'a> Tries<'a> {
    fn begin(of: &'a Arc<Upstream>, asked: &Asked<'_>, is_repeatable: bool) -> Tries<'a> {
        locked(&of.common.budget).request(Instant::now());
        let key = match of.plan.balance {
            Balance::LeastOutstanding | Balance::RoundRobin => 0,
            Balance::HashUrl => {
                XxHash3_64::oneshot_with_seed(hash(asked.host.as_bytes()), asked.target.as_bytes())
            }
            Balance::HashClient => match asked.client {
                Some(IpAddr::V4(ip)) => hash(&ip.octets()),
                Some(IpAddr::V6(ip)) => hash(&ip.octets()),
                None => 0,
            },
        };
        Tries {
            of,
            key,
            tried: Tried::default(),
            left: of.plan.retries,
            may_try: is_repeatable && of.plan.retries > 0,
        }
    }

    /// The first server.
    fn first(&mut self) -> Result<Rc<Turn>, UpstreamError> {
        let now = Instant::now();
        let chosen = (self.of).choose(self.key, &mut self.tried, self.may_try, now);
        let Some((number, is_trial)) = chosen else {
            self.of.common.counts.none_up.fetch_add(1, Relaxed);
            return Err(UpstreamError::NoServer {
                upstream: self.of.name().into(),
                back_in_s: self.of.back_in(now).as_secs().max(1) as u32,
            });
        };
        Ok(Turn::begin(self.of, number, is_trial))
    }

    /// The next server, if another try is allowed. `costs`: the last server has received the request, so the budget must allow it.
    fn next(&mut self, costs: bool) -> Option<Rc<Turn>> {
        let now = Instant::now();
        self.left = self.left.checked_sub(1)?;
        // One trial a request is enough.
        let (number, is_trial) = self.of.choose(self.key, &mut self.tried, false, now)?;
        if costs && !locked(&self.of.common.budget).take(now) {
            self.of.common.counts.retries_refused.fetch_add(1, Relaxed);
            if is_trial {
                let server = &self.of.members[number].server;
                locked(&server.breaker).give_up_trial(now);
            }
            return None;
        }
        self.of.common.counts.retries.fetch_add(1, Relaxed);
        Some(Turn::begin(self.of, number, is_trial))
    }
}

fn hash(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}
