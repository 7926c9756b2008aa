//! Paying: what a request does before it is answered, and before an origin is asked for it.
//!
//! A quota is asked at once. If its turn comes later and the quota delays, the request waits, and leaves if its client does. Of several
//! quotas all must have room; what was counted for the first ones is given back if a later one refuses.
//!
//! A [`Bill`] notes whose bytes are counted; a [`Toll`] is held while an origin is asked. Both count when they know how much it was.
//!
//! Limits: [`DELAYED_MAX`] requests wait at a time, for at most [`plan::Quota::DELAY_MAX`](plan::Quota::DELAY_MAX) each; a further one is refused.

use std::{
    net::IpAddr,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::{
    edition::Edition,
    listener::ListenerState,
    reply::{After, Reply},
    request::exchange::Exchange,
};
use base::{
    clock::Instant,
    mistakes::{Mistake, makes},
};
use origin::trip::Trip;
use plan::{Excess, What};
use quota::{Chosen, Full, Payer, Quota, Quotas, table::Place};
use rules::rulebook::Tag;

/// Requests of the process that wait for their turn at a time. Each keeps its client's connection and some KiB.
pub const DELAYED_MAX: usize = 1024;

static DELAYED: AtomicUsize = AtomicUsize::new(0);

/// A place among those that wait.
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

/// What was counted at a quota.
struct Entry {
    quota: Arc<Quota>,
    key: u64,
    place: Place,
}

/// A request is beyond a quota.
pub struct Beyond {
    quota: Arc<Quota>,
    full: Full,
}

/// Why a request does not go on.
pub enum Stopped {
    /// It is beyond a quota.
    Beyond(Beyond),
    /// Its client has gone while it waited.
    Gone,
}

/// Whose bytes are counted when a request has been answered.
#[derive(Default)]
pub struct Bill(Vec<(Arc<Quota>, u64)>);

impl Bill {
    /// Counts what was sent.
    pub fn pay(&self, bytes: u64) {
        for (quota, key) in &self.0 {
            quota.owe(*key, bytes);
        }
    }
}

/// The right to ask an origin. What came is counted when it is dropped.
pub struct Toll {
    entries: Vec<Entry>,
    trip: Trip,
    before: u64,
}

impl Toll {
    /// The origin is not asked after all.
    pub fn give_back(mut self) {
        for entry in self.entries.drain(..) {
            entry.quota.give_back(entry.key, entry.place);
            entry.quota.counts.passed.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Toll {
    fn drop(&mut self) {
        let bytes = self.trip.bytes_in().saturating_sub(self.before);
        for entry in &self.entries {
            match entry.quota.plan.what {
                What::MissBytes => entry.quota.owe(entry.key, bytes),
                What::FetchesAtOnce if makes(Mistake::KeepFetchPlace) => {}
                What::FetchesAtOnce => entry.quota.leave(entry.key, entry.place),
                _ => {}
            }
        }
    }
}

/// An open connection, as far as connections are counted.
pub struct Counted(Vec<Entry>);

impl Drop for Counted {
    fn drop(&mut self) {
        if makes(Mistake::KeepConnectionPlace) {
            return;
        }
        for entry in &self.0 {
            entry.quota.leave(entry.key, entry.place);
        }
    }
}

/// Counts something at all of these quotas, or at none.
fn enter_all(quotas: &Quotas, chosen: Chosen, payer: &Payer<'_>) -> Result<Vec<Entry>, Beyond> {
    let mut entries: Vec<Entry> = Vec::new();
    for quota in quotas.of(chosen) {
        let key = quota.key(payer);
        match quota.enter(key, Duration::ZERO) {
            Ok((_, place)) => entries.push(Entry {
                quota: Arc::clone(quota),
                key,
                place,
            }),
            Err(full) => {
                give_back(entries);
                let quota = Arc::clone(quota);
                return Err(Beyond { quota, full });
            }
        }
    }
    for entry in &entries {
        entry.quota.counts.passed.fetch_add(1, Ordering::Relaxed);
    }
    Ok(entries)
}

fn give_back(entries: Vec<Entry>) {
    for entry in entries {
        entry.quota.give_back(entry.key, entry.place);
    }
}

/// Counts a request at all of these quotas; it waits for its turn where a quota delays.
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

/// Enters a quota, at once or after a wait. True: it has waited.
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
    // Asked before whether it can wait: a turn that is given must be taken.
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
        // Registered before the count is looked at, so that no end of another is missed.
        let freed = quota.freed.notified();
        tokio::pin!(freed);
        freed.as_mut().enable();
        let left = deadline.saturating_duration_since(Instant::now());
        let wait = match quota.enter(key, left) {
            Ok((wait, place)) if wait.is_zero() => return Ok((place, true)),
            Ok((wait, place)) => {
                // The turn is ours, but later. If the client leaves it is lost, as it is for whoever was told to come later.
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

/// Waits. False: the client has gone meanwhile.
async fn leave_or(reply: &mut Reply<'_>, until: impl Future<Output = ()>) -> bool {
    tokio::select! {
        biased;
        () = until => true,
        () = reply.client_leaves() => false,
    }
}

fn payer<'a>(
    listener: &'a ListenerState,
    client: IpAddr,
    host: &'a str,
    tag: Option<Tag>,
) -> Payer<'a> {
    Payer {
        client,
        host,
        listener: listener.id,
        tag: listener.book.tag(tag),
    }
}

/// On the short way: is a request within these quotas, at once? Then it is counted.
///
/// # Errors
/// It is not, or not yet. The long way asks again.
pub fn passes(
    listener: &ListenerState,
    chosen: Chosen,
    (client, host): (IpAddr, &str),
    tag: Option<Tag>,
) -> Result<Option<Box<Bill>>, Beyond> {
    let quotas = &listener.edition.quotas;
    let payer = payer(listener, client, host, tag);
    enter_all(quotas, chosen, &payer)?;
    Ok(bill(quotas, chosen, &payer))
}

/// The bill of a request, if bytes are counted.
fn bill(quotas: &Quotas, chosen: Chosen, payer: &Payer<'_>) -> Option<Box<Bill>> {
    let of_bytes = quotas
        .of(chosen)
        .filter(|quota| quota.plan.what == What::Bytes);
    let lines: Vec<_> = of_bytes
        .map(|quota| (Arc::clone(quota), quota.key(payer)))
        .collect();
    (!lines.is_empty()).then(|| Box::new(Bill(lines)))
}

/// Counts a request before it is answered. `has_passed`: the short way has counted it already. `Some`: it was answered.
pub async fn admit(ex: &mut Exchange<'_>, has_passed: bool) -> Option<After> {
    let chosen = ex.record.tolls.each;
    if chosen.is_empty() {
        return None;
    }
    let (listener, host) = (Rc::clone(&ex.listener), ex.record.host.clone());
    let payer = payer(&listener, ex.peer.ip(), &host, ex.record.tag);
    let quotas = &listener.edition.quotas;
    if !has_passed {
        match enter_in_turn(quotas, chosen, &payer, &mut ex.reply).await {
            Ok(_) => {}
            Err(stopped) => return Some(refuse(ex, stopped).await),
        }
    }
    ex.record.bill = bill(quotas, chosen, &payer);
    None
}

/// Counts a request to an origin before it is sent. `None`: no quota is about it.
///
/// # Errors
/// It may not be sent.
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

/// The same without waiting.
///
/// # Errors
/// It may not be sent now.
pub fn miss_at_once(ex: &mut Exchange<'_>) -> Result<Option<Toll>, Beyond> {
    let trip = ex.record.trip();
    miss_now(ex, &trip)
}

/// The same for what is fetched behind the client's back.
///
/// # Errors
/// It may not be sent now, and that is counted.
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

fn toll(entries: Vec<Entry>, trip: Trip) -> Toll {
    let before = trip.bytes_in();
    Toll {
        entries,
        trip,
        before,
    }
}

/// Counts a connection. `None`: there may be no more.
pub fn connection(listener: &ListenerState, client: IpAddr) -> Option<Counted> {
    let payer = payer(listener, client, "", None);
    let entered = enter_all(&listener.edition.quotas, listener.tolls.connections, &payer);
    match entered {
        Ok(entries) => Some(Counted(entries)),
        Err(beyond) => {
            beyond.quota.counts.refused.fetch_add(1, Ordering::Relaxed);
            None
        }
    }
}

impl Beyond {
    /// May what is stale be served in place of an answer?
    pub fn permits_stale(&self) -> bool {
        self.quota.plan.then == Excess::Stale
    }

    /// Counts one that was not let through.
    pub fn note(&self) {
        self.quota.counts.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Whole seconds after which it is worth another try. `None`: it never is.
    fn retry_after_s(&self) -> Option<u64> {
        match self.full {
            Full::For(wait) => Some(wait.as_secs() + u64::from(wait.subsec_nanos() > 0)),
            Full::Busy => Some(1),
            Full::Always => None,
        }
    }
}

/// Answers a request that does not go on.
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

/// `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers): how much in how long, and when there is some again.
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
