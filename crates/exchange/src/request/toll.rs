//! Counts a request's bytes, fetches and connection at quotas.
//!
//! If several quotas apply, all must have room; if a later one refuses, the earlier ones get their count back. A [`Bill`] notes
//! at which quotas a request's bytes are counted. A [`Toll`] is held while an origin is asked. Both count when the amount is known.
//!
//! Not known here: waiting for a turn, the answer to the client (`paying`).

use std::{
    net::IpAddr,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use crate::listener::ListenerState;
use base::mistakes::{Mistake, makes};
use origin::trip::Trip;
use plan::{Excess, What};
use quota::{Chosen, Full, Payer, Quota, Quotas, table::Place};
use rules::rulebook::Tag;

/// One count at a quota.
pub(super) struct Entry {
    pub(super) quota: Arc<Quota>,
    pub(super) key: u64,
    pub(super) place: Place,
}

/// A request is beyond a quota.
pub struct Beyond {
    pub(super) quota: Arc<Quota>,
    pub(super) full: Full,
}

/// The quotas at which a request's bytes are counted once it is answered.
#[derive(Default)]
pub struct Bill(Vec<(Arc<Quota>, u64)>);

impl Bill {
    /// Counts the bytes sent.
    pub fn pay(&self, bytes: u64) {
        for (quota, key) in &self.0 {
            quota.owe(*key, bytes);
        }
    }
}

/// The right to ask an origin. Dropping it counts the bytes received.
pub struct Toll {
    entries: Vec<Entry>,
    trip: Trip,
    before: u64,
}

impl Toll {
    /// Takes the count back: the origin is not asked after all.
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

/// An open connection that is counted at quotas.
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

/// Counts a request or connection at all of these quotas, or at none.
pub(super) fn enter_all(
    quotas: &Quotas,
    chosen: Chosen,
    payer: &Payer<'_>,
) -> Result<Vec<Entry>, Beyond> {
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

pub(super) fn give_back(entries: Vec<Entry>) {
    for entry in entries {
        entry.quota.give_back(entry.key, entry.place);
    }
}

pub(super) fn payer<'a>(
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

/// On the short way: counts a request at these quotas if all have room at once.
///
/// # Errors
/// A quota has no room now. The long way asks again.
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

/// The bill of a request, if any quota counts its bytes.
pub(super) fn bill(quotas: &Quotas, chosen: Chosen, payer: &Payer<'_>) -> Option<Box<Bill>> {
    let of_bytes = quotas
        .of(chosen)
        .filter(|quota| quota.plan.what == What::Bytes);
    let lines: Vec<_> = of_bytes
        .map(|quota| (Arc::clone(quota), quota.key(payer)))
        .collect();
    (!lines.is_empty()).then(|| Box::new(Bill(lines)))
}

pub(super) fn toll(entries: Vec<Entry>, trip: Trip) -> Toll {
    let before = trip.bytes_in();
    Toll {
        entries,
        trip,
        before,
    }
}

/// Counts a connection. `None`: a quota refuses the connection.
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
    /// May a stale response be served instead of a refusal?
    pub fn permits_stale(&self) -> bool {
        self.quota.plan.then == Excess::Stale
    }

    /// Counts a refused request.
    pub fn note(&self) {
        self.quota.counts.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Whole seconds after which a retry is worthwhile. `None`: never.
    pub(super) fn retry_after_s(&self) -> Option<u64> {
        match self.full {
            Full::For(wait) => Some(wait.as_secs() + u64::from(wait.subsec_nanos() > 0)),
            Full::Busy => Some(1),
            Full::Always => None,
        }
    }
}
