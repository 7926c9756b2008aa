//! Counts a request at its quotas, before it is answered and before an origin is asked.
//!
//! If a quota is used up and delays requests, the request waits for its turn, or until its client leaves.
//!
//! Limits: at most [`DELAYED_MAX`] requests wait, for at most [`plan::Quota::DELAY_MAX`](plan::Quota::DELAY_MAX) each; others are refused.

use std::{
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::{
    edition::Edition,
    reply::{After, Reply},
    request::{
        exchange::Exchange,
        toll::{Beyond, Entry, Toll, bill, enter_all, give_back, payer, toll},
    },
};
use base::{
    clock::Instant,
    mistakes::{Mistake, makes},
};
use origin::trip::Trip;
use quota::{Chosen, Full, Payer, Quota, Quotas, table::Place};

/// Maximum of requests in the process that wait for their turn. Each keeps its client's connection and some KiB.
pub const DELAYED_MAX: usize = 1024;

static DELAYED: AtomicUsize = AtomicUsize::new(0);

/// A place among the waiting requests.
struct Waiting;

impl Waiting {
    fn take() -> Option<Waiting> {
        let before = DELAYED.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting;
        (before < DELAYED_MAX).then_some(waiting)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        DELAYED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why a request is not served.
pub enum Stopped {
    /// The request is beyond a quota.
    Beyond(Beyond),
    /// The client has gone during the wait.
    Gone,
}

/// Counts a request at all of these quotas; waits for its turn where a quota delays.
async fn enter_in_turn(
    quotas: &Quotas,
    chosen: Chosen,
    payer: &Payer<'_>,
    reply: &mut Reply<'_>,
) -> Result<Vec<Entry>, Stopped> {
    let mut entries: Vec<Entry> = Vec::new();
    for quota in quotas.of(chosen) {
        let key = quota.key(payer);
        let (place, has_waited) = match turn(quota, key, reply).await {
            Ok(turn) => turn,
            Err(stopped) => {
                if !makes(Mistake::KeepPlaceOfLeaver) {
                    give_back(entries);
                }
                return Err(stopped);
            }
        };
        if has_waited {
            quota.counts.delayed.fetch_add(1, Ordering::Relaxed);
        }
        entries.push(Entry {
            quota: Arc::clone(quota),
            key,
            place,
        });
    }
    for entry in &entries {
        entry.quota.counts.passed.fetch_add(1, Ordering::Relaxed);
    }
    Ok(entries)
}

/// Counts a request at one quota, at once or after a wait. True: it has waited.
async fn turn(
    quota: &Arc<Quota>,
    key: u64,
    reply: &mut Reply<'_>,
) -> Result<(Place, bool), Stopped> {
    let patience = quota.patience();
    let beyond = |full| {
        let quota = Arc::clone(quota);
        Stopped::Beyond(Beyond { quota, full })
    };
    // Try to enter first, before a place among the waiting is taken: a granted turn must be used.
    let first = quota.enter(key, Duration::ZERO);
    let full = match first {
        Ok((_, place)) => return Ok((place, false)),
        Err(Full::Always) => return Err(beyond(Full::Always)),
        Err(full) if patience.is_zero() => return Err(beyond(full)),
        Err(full) => full,
    };
    let Some(_waiting) = Waiting::take() else {
        return Err(beyond(full));
    };
    let deadline = Instant::now() + patience;
    loop {
        // Register before looking at the count, so that a place freed in between is not missed.
        let freed = quota.freed.notified();
        tokio::pin!(freed);
        freed.as_mut().enable();
        let left = deadline.saturating_duration_since(Instant::now());
        let wait = match quota.enter(key, left) {
            Ok((wait, place)) if wait.is_zero() => return Ok((place, true)),
            Ok((wait, place)) => {
                // The turn is granted for later. If the client leaves before, the turn is lost, as for a client that was told to retry later.
                return match leave_or(reply, tokio::time::sleep(wait)).await {
                    true => Ok((place, true)),
                    false => Err(Stopped::Gone),
                };
            }
            Err(full @ Full::For(wait)) if wait > left => return Err(beyond(full)),
            Err(Full::For(wait)) => wait,
            Err(full) if left.is_zero() => return Err(beyond(full)),
            Err(Full::Busy) => left,
            Err(Full::Always) => return Err(beyond(Full::Always)),
        };
        let until = async {
            tokio::select! {
                biased;
                () = tokio::time::sleep(wait) => {}
                () = freed => {}
            }
        };
        if !leave_or(reply, until).await {
            return Err(Stopped::Gone);
        }
    }
}

/// Waits for `until`. False: the client has gone before.
async fn leave_or(reply: &mut Reply<'_>, until: impl Future<Output = ()>) -> bool {
    tokio::select! {
        biased;
        () = until => true,
        () = reply.client_leaves() => false,
    }
}

/// Counts a request before it is answered. `has_passed`: the short way has counted it already. `Err`: it was refused.
pub async fn admit(ex: &mut Exchange<'_>, has_passed: bool) -> Result<(), After> {
    let chosen = ex.record.tolls.each;
    if chosen.is_empty() {
        return Ok(());
    }
    let (listener, host) = (Rc::clone(&ex.listener), ex.record.host.clone());
    let payer = payer(&listener, ex.peer.ip(), &host, ex.record.tag);
    let quotas = &listener.edition.quotas;
    if !has_passed {
        match enter_in_turn(quotas, chosen, &payer, &mut ex.reply).await {
            Ok(_) => {}
            Err(stopped) => return Err(refuse(ex, stopped).await),
        }
    }
    ex.record.bill = bill(quotas, chosen, &payer);
    Ok(())
}

/// Counts a request to an origin before it is sent. `None`: no quota applies.
///
/// # Errors
/// The request may not be sent.
pub async fn miss(ex: &mut Exchange<'_>) -> Result<Option<Toll>, Stopped> {
    let chosen = ex.record.tolls.misses;
    if chosen.is_empty() {
        return Ok(None);
    }
    let (listener, host) = (Rc::clone(&ex.listener), ex.record.host.clone());
    let payer = payer(&listener, ex.peer.ip(), &host, ex.record.tag);
    let entries = enter_in_turn(&listener.edition.quotas, chosen, &payer, &mut ex.reply).await?;
    Ok(Some(toll(entries, ex.record.trip())))
}

/// Like [`miss`], without waiting.
///
/// # Errors
/// The request may not be sent now.
pub fn miss_at_once(ex: &mut Exchange<'_>) -> Result<Option<Toll>, Beyond> {
    let trip = ex.record.trip();
    miss_now(ex, &trip)
}

/// Like [`miss_at_once`], for a background fetch.
///
/// # Errors
/// The request may not be sent now; the refusal is counted.
pub fn miss_behind(ex: &Exchange<'_>, trip: &Trip) -> Result<Option<Toll>, Beyond> {
    miss_now(ex, trip).inspect_err(Beyond::note)
}

fn miss_now(ex: &Exchange<'_>, trip: &Trip) -> Result<Option<Toll>, Beyond> {
    let chosen = ex.record.tolls.misses;
    if chosen.is_empty() {
        return Ok(None);
    }
    let payer = payer(&ex.listener, ex.peer.ip(), &ex.record.host, ex.record.tag);
    let entries = enter_all(&ex.edition().quotas, chosen, &payer)?;
    Ok(Some(toll(entries, trip.clone())))
}

/// Answers a request that a quota stopped.
pub async fn refuse(ex: &mut Exchange<'_>, stopped: Stopped) -> After {
    let beyond = match stopped {
        Stopped::Gone => return ex.abandon(profile::Class::Error),
        Stopped::Beyond(beyond) => beyond,
    };
    beyond.note();
    let is_through = ex.body.is_done();
    ex.reply.keep_open_if(is_through);
    let (retry_after, [policy, state]) = (beyond.retry_after_s(), fields(&beyond));
    let seconds = retry_after.map(|s| s.max(1).to_string());
    let mut extra: Vec<(&[u8], &[u8])> = vec![
        (b"RateLimit-Policy", policy.as_bytes()),
        (b"RateLimit", state.as_bytes()),
    ];
    if let Some(seconds) = &seconds {
        //= rfc6585 §4   a 429 MAY include Retry-After
        extra.push((b"Retry-After", seconds.as_bytes()));
    }
    let mut line = Vec::new();
    cache_status(ex.edition(), &mut line);
    let reason = format!("more than limit \"{}\" permits", beyond.quota.plan.name);
    ex.own(429, &reason, &extra, line).await
}

fn cache_status(edition: &Edition, line: &mut Vec<u8>) {
    httpcache::cache_status::CacheStatus::own(&edition.cache_name, line).detail("limit");
}

/// `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers): the amount per window, and when there is quota again.
fn fields(beyond: &Beyond) -> [String; 2] {
    let quota = &beyond.quota.plan;
    let (name, amount) = (&quota.name, quota.rate.amount);
    let window = match quota.what.is_at_once() {
        true => String::new(),
        false => format!(";w={}", quota.rate.period.as_secs().max(1)),
    };
    let unit = match quota.what.is_bytes() {
        true => ";qu=\"content-bytes\"",
        false if quota.what.is_at_once() => ";qu=\"concurrent-requests\"",
        false => "",
    };
    let again = beyond
        .retry_after_s()
        .map_or_else(String::new, |s| format!(";t={}", s.max(1)));
    [
        format!("\"{name}\";q={amount}{unit}{window}"),
        format!("\"{name}\";r=0{again}"),
    ]
}
