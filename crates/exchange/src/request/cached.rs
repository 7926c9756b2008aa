//! Answers a request from the cache, or from a fetch that fills the cache.
//!
//! `httpcache` makes the decisions about caching; this file puts them in order:
//!
//! 1. Memory, then disk, under the key or (Vary) the variant's key.
//!    A range of an object that is not stored, or not wholly: [`crate::range::part`].
//! 2. Fresh enough: serve. Stale but allowed: serve, and revalidate in the background.
//! 3. Not stored here: a member of our cluster may have it ([`crate::fetch::forwarding`]).
//! 4. Else join the fetch in progress or start one ([`crate::fetch::share`]), and pass its answer on if this request may have it.
//!
//! Not known here: which requests bypass the cache.

use base::mistakes::{Mistake, makes};

use fields::Fields;
use httpcache::{
    RequestDirectives, Verdict,
    cache_status::{CacheStatus, Forward},
    judge,
};
use message::Seen;
use profile::Class;
use store::Sequence;

use crate::{
    deliver::{arriving, stored},
    fetch::{
        flight::{FirstEvent, Validated},
        forwarding as to_members, members, pass,
        response::{FetchError, Response},
        share::{self, Answer, Obtained},
    },
    range::{
        part::{self, Held, MayWait, Outcome},
        validation,
    },
    reply::After,
    request::{
        exchange::{Exchange, forwarded},
        find::{Found, find},
        paying::{self, Stopped},
        refusing,
        wanted::Wanted,
    },
};
use cache::{holes, object::Object};
use cluster::answered;

/// The result of a look-up that did not answer the request.
struct Looked {
    directives: RequestDirectives,
    /// A stored response that must be validated.
    found: Option<Found>,
    /// A large object that lacks some of the wanted bytes.
    held: Option<Held>,
    /// Why the origin is asked.
    why: Forward,
}

/// Answers from the cache, or fetches. `may_wait`: may the request wait for another one about the same object and then look it up again?
pub async fn answer(ex: &mut Exchange<'_>, wanted: &Wanted, may_wait: MayWait) -> After {
    let looked = match look(ex, wanted).await {
        Ok(after) => return after,
        Err(looked) => looked,
    };
    let directives = &looked.directives;
    let why = looked.why;
    let is_lacking = looked.found.is_none() && looked.held.is_none();
    if is_lacking && ex.worker.shared.cluster.is_some() {
        let forwarded = to_members::answer(ex, wanted, directives, why);
        if let Some(after) = Box::pin(forwarded).await {
            return after;
        }
    }
    if directives.only_if_cached {
        return refusing::not_cached(ex).await;
    }
    if ex.member.is_some() {
        if is_lacking && wanted.returns_lacking {
            let reason = "the object is not stored here, and was to be fetched by who has asked";
            return ex.refuse(504, reason, Some(answered::LACKING)).await;
        }
        let (status, fields) = (members::WORKS_ON_IT, Fields::new());
        if ex.reply.interim(status, "", &fields).await.is_err() {
            return ex.abandon(Class::Error);
        }
    }
    if ex.reply.is_head_only() || directives.no_store {
        // The answer is not stored and so cannot be shared: pass the request on unchanged.
        return Box::pin(pass::exchange(ex, wanted, why)).await;
    }
    let is_range = wanted.head.seen.intersects(Seen::RANGE);
    if looked.held.is_some() || (is_range && looked.found.is_none()) {
        let parts = part::answer(ex, wanted, directives, looked.held, why, may_wait);
        match Box::pin(parts).await {
            Outcome::Answered(after) => return after,
            Outcome::Pass => {
                ex.record.asks_elsewhere();
                return Box::pin(pass::exchange(ex, wanted, why)).await;
            }
            Outcome::LookAgain => return Box::pin(answer(ex, wanted, MayWait::No)).await,
            Outcome::Validated => return Box::pin(answer(ex, wanted, MayWait::ForPart)).await,
            Outcome::Fetch => {}
        }
    }
    let may_look_again = may_wait != MayWait::No;
    let found = looked.found.as_ref();
    fetched(ex, wanted, directives, found, why, may_look_again).await
}

/// Looks the response up and serves it if it may be served without asking the origin. `Err`: it may not.
async fn look(ex: &mut Exchange<'_>, wanted: &Wanted) -> Result<After, Box<Looked>> {
    let worker = ex.worker;
    let directives = RequestDirectives::heeded(&wanted.request, wanted.client_directives);
    let mut vary_miss = false;
    let mut found = find(worker, wanted, &mut vary_miss).await;
    let mut is_lost = false;
    let absent = match vary_miss {
        true => Forward::VaryMiss,
        false => Forward::UriMiss,
    };
    let mut why = absent;
    let mut is_sparse = false;
    if let Some(found) = &found {
        if let Some(swap_in) = found.swap_in {
            ex.record.swapped_in(swap_in);
        }
        let now = worker.now_ms();
        let object = found.object();
        let verdict = match makes(Mistake::ServeStale) {
            true => Verdict::Fresh,
            false => judge(&object.standing, &directives, now),
        };
        // Only before a validation is the whole object checked for holes; otherwise just the wanted part, when it is served.
        is_sparse = match verdict {
            Verdict::Fresh | Verdict::StaleAllowed => false,
            Verdict::StaleWhileRevalidate | Verdict::Validate(_) => {
                !holes::is_whole(
                    worker.storage.disk.as_ref(),
                    &worker.shared.cache.fragments,
                    object,
                )
                .await
            }
        };
        let class = class_of(ex, wanted, found, verdict, is_sparse).await;
        match class {
            Err(reason) => why = reason,
            Ok(class) => {
                let mut status = Vec::with_capacity(48);
                let ttl = object.standing.ttl_s(now);
                CacheStatus::hit(&ex.edition().cache_name, &mut status).ttl(ttl);
                if let Some(after) = stored::object(ex, wanted, object, class, status).await {
                    return Ok(after);
                }
                is_lost = true;
                //= rfc9211 §2.2   partial: what is stored does not contain all of what is asked for
                why = Forward::Partial;
            }
        }
    }
    if (is_lost || is_sparse)
        && let Some(it) = &found
        && !holes::are_fillable(it.object())
        // If no fragment is missing, the device was too slow; then keep the object.
        && (is_sparse || !holes::is_whole(worker.storage.disk.as_ref(), &worker.shared.cache.fragments, it.object()).await)
    {
        worker.shared.cache.forget_stored(it.object());
        found = None;
        why = absent;
    }
    let held = found.as_ref().filter(|_| is_lost || is_sparse);
    let held = held
        .filter(|found| worker.shared.cache.still_valid(found.object(), found.began))
        .map(|found| Held {
            object: found.object().clone(),
            began: found.began,
            is_usable: is_lost,
        });
    if is_lost {
        found = None;
    }
    Err(Box::new(Looked {
        directives,
        found,
        held,
        why,
    }))
}

/// The class of an answer from the stored object, if it may be served now; starts validation in the background. `Err`: why the origin is asked.
async fn class_of(
    ex: &Exchange<'_>,
    wanted: &Wanted,
    found: &Found,
    verdict: Verdict,
    is_sparse: bool,
) -> Result<Class, Forward> {
    match verdict {
        Verdict::Fresh => Ok(found.stored.hit_class()),
        Verdict::StaleAllowed => Ok(Class::Stale),
        Verdict::StaleWhileRevalidate if is_sparse => {
            match stored::has_wanted(ex, wanted, found.object()).await {
                true => {
                    validation::validate_behind(ex, wanted, found);
                    Ok(Class::Stale)
                }
                false => Err(Forward::Stale),
            }
        }
        Verdict::StaleWhileRevalidate => {
            share::fetch_behind(ex, wanted, found);
            Ok(Class::Stale)
        }
        Verdict::Validate(reason) => Err(Forward::from(reason)),
    }
}

/// The inputs of a fetch and of its answer.
struct Fetching<'a> {
    wanted: &'a Wanted,
    directives: &'a RequestDirectives,
    /// A stored response that may be served if the origin fails.
    found: Option<&'a Found>,
    why: Forward,
}

/// Joins or starts a fetch and passes its answer on.
async fn fetched(
    ex: &mut Exchange<'_>,
    wanted: &Wanted,
    directives: &RequestDirectives,
    found: Option<&Found>,
    why: Forward,
    may_look_again: bool,
) -> After {
    let obtained = share::obtain(ex, wanted, directives, found, may_look_again).await;
    let answer = match obtained {
        Obtained::Answer(answer) => answer,
        Obtained::LookAgain => return Box::pin(answer(ex, wanted, MayWait::No)).await,
        Obtained::Gone => return ex.abandon(Class::Error),
        Obtained::Stopped(stopped) => {
            return beyond(ex, wanted, directives, found, why, stopped).await;
        }
    };
    if !answer.joined {
        ex.record.asks(&wanted.asked.destination.host);
    }
    let fetching = Fetching {
        wanted,
        directives,
        found: share::valid(&ex.worker.shared.cache, found),
        why,
    };
    match &answer.first_event {
        FirstEvent::Response(response) => fetching.response(ex, &answer, response).await,
        FirstEvent::Validated(validated) => {
            let looked_up = found.map_or(Sequence::MAX, |found| found.began);
            let began = answer.reader.flight.began.min(looked_up);
            fetching
                .validated(ex, began, validated, answer.joined)
                .await
        }
        FirstEvent::Failed(error) => fetching.failed(ex, error).await,
    }
}

/// A quota forbids asking the origin: serves a stale response where the quota permits that, else refuses.
async fn beyond(
    ex: &mut Exchange<'_>,
    wanted: &Wanted,
    directives: &RequestDirectives,
    found: Option<&Found>,
    why: Forward,
    stopped: Stopped,
) -> After {
    if let Stopped::Beyond(beyond) = &stopped
        && beyond.permits_stale()
        && let Some(found) = share::valid(&ex.worker.shared.cache, found)
    {
        // As on a disconnected origin.
        let stale = stored::on_error(ex, wanted, found.object(), directives, why, (None, true));
        if let Some(after) = Box::pin(stale).await {
            beyond.note();
            return after;
        }
    }
    Box::pin(paying::refuse(ex, stopped)).await
}

impl Fetching<'_> {
    /// Answers with the origin's response.
    async fn response(&self, ex: &mut Exchange<'_>, answer: &Answer, response: &Response) -> After {
        let (joined, in_vain) = (answer.joined, answer.in_vain);
        if matches!(response.status, 500 | 502..=504)
            && let Some(after) = self.stale_instead(ex, Some(response.status), false).await
        {
            return after;
        }
        let class = match (joined, response.storable) {
            (true, _) => Class::Collapsed,
            (false, Ok(())) => Class::Miss,
            (false, Err(_)) => Class::Uncachable,
        };
        let status = forwarded(ex.edition(), self.why, |line| {
            let line = response.say_stored(line);
            //= rfc9211 §2.6   false: collapsing was attempted, and did not succeed
            response.say_why_not(match joined || in_vain {
                true => line.collapsed(joined),
                false => line,
            })
        });
        match arriving::response(ex, self.wanted, &answer.reader, response, class, status).await {
            Some(after) => after,
            None => {
                ex.record.asks_elsewhere();
                Box::pin(pass::exchange(ex, self.wanted, Forward::UriMiss)).await
            }
        }
    }

    /// Answers from the stored response, which is still valid. `began`: the invalidation sequence before its look-up or validation.
    async fn validated(
        &self,
        ex: &mut Exchange<'_>,
        began: Sequence,
        validated: &Validated,
        joined: bool,
    ) -> After {
        let worker = ex.worker;
        let cookies = Some(&validated.withheld).filter(|lines| !joined && !lines.is_empty());
        let with_cookies = cookies.map(|lines| validated.object.with_lines(lines));
        let object: &Object = with_cookies.as_ref().unwrap_or(&validated.object);
        let ttl = object.standing.ttl_s(worker.now_ms());
        let status = forwarded(ex.edition(), self.why, |line| {
            let line = line.forward_status(304).ttl(ttl);
            match joined {
                true => line.collapsed(true),
                false => line,
            }
        });
        let class = Class::Revalidated;
        if let Some(after) = stored::object(ex, self.wanted, object, class, status).await {
            return after;
        }
        // Some of the object's body is missing.
        let held = validated.storable.then(|| Held {
            object: validated.object.clone(),
            began,
            is_usable: true,
        });
        let parts = part::answer(
            ex,
            self.wanted,
            self.directives,
            held,
            self.why,
            MayWait::No,
        );
        match Box::pin(parts).await {
            Outcome::Answered(after) => after,
            _ => Box::pin(pass::exchange(ex, self.wanted, self.why)).await,
        }
    }

    /// Answers when the fetch has failed.
    async fn failed(&self, ex: &mut Exchange<'_>, error: &FetchError) -> After {
        let disconnected = !matches!(error, FetchError::Abandoned);
        let code = error.status();
        if let Some(after) = self.stale_instead(ex, None, disconnected).await {
            return after;
        }
        tracing::debug!(%error, "there is no answer");
        let (reason, after_s) = (error.for_client(), error.retry_after_s());
        ex.failed_for_now(self.why, code, error.token(), &reason, after_s)
            .await
    }

    /// Serves the stale object if the origin failed and the rules allow it.
    async fn stale_instead(
        &self,
        ex: &mut Exchange<'_>,
        status: Option<u16>,
        disconnected: bool,
    ) -> Option<After> {
        let object = self.found?.object();
        ex.record.waits_no_more(None);
        let failure = (status, disconnected);
        stored::on_error(ex, self.wanted, object, self.directives, self.why, failure).await
    }
}
