//! Collects the data for a request's record while the request is answered.
//!
//! All times are relative to one moment: when the connection was accepted, for its first request, else when the first byte of the
//! head was seen. A [`Trip`] measures the server's part and is read when the request ends; a stage still running then ends with the
//! request.
//!
//! Not known here: how a request is answered, how a record is written.

use base::clock::Instant;
use std::sync::Arc;

use profile::{Class, Flags, StageName};

use crate::{
    fetch::flight::Flight,
    reply::Sent,
    request::{asking::Kept, changing::Changing, toll::Bill},
};
use ledger::{Holder, Lot};
use origin::trip::Trip;
use quota::Tolls;
use record::facts::{Facts, Stages, SwapIn, SwapOut};
use rules::rulebook::Tag;

/// The data collected for a request's record.
pub struct Notes {
    /// When the request began; its stages are relative to this moment.
    pub began: Instant,
    /// When its first byte was seen.
    pub seen: Instant,
    /// Stages so far.
    pub stages: Stages,
    /// Facts so far.
    pub facts: Facts,
    /// The number of the route that matched, on a reverse listener.
    pub route: Option<usize>,
    /// The request, for the access log.
    pub asking: Kept,
    /// The origin that was asked.
    pub origin: Option<Arc<str>>,
    /// How the request was answered.
    pub class: Class,
    /// The answer's Content-Type.
    pub content_type: Vec<u8>,
    /// The answer's Cache-Status.
    pub cache_status: Vec<u8>,
    /// The tag that the operator's rules gave the request.
    pub tag: Option<Tag>,
    /// The changes to the answer's fields, if a rule makes any.
    pub changing: Option<Box<Changing>>,
    /// The quotas that apply to the request.
    pub tolls: Tolls,
    /// The host asked for, if any quotas apply.
    pub host: Box<str>,
    /// The quotas and payers whose bytes are counted when the request ends.
    pub bill: Option<Box<Bill>>,
    /// The holder to whom the ledger attributes the answer's bytes.
    pub holder: Option<Arc<Holder>>,
    /// Ledger entry for the whole record being read from disk, until the read is done.
    pub room: Option<Lot>,
    trip: Option<Trip>,
    waiting: Option<Waiting>,
}

/// The wait for a fetch that another request started.
#[derive(Clone, Copy)]
struct Waiting {
    start: Instant,
    head: Option<Instant>,
    end: Option<Instant>,
}

impl Notes {
    /// For a request whose head is parsed now and whose first byte arrived at `seen`. `accepted`: when its connection was accepted, for
    /// the first request on it.
    pub fn new(asking: Kept, seen: Instant, accepted: Option<Instant>) -> Notes {
        let mut notes = Notes {
            began: accepted.unwrap_or(seen),
            seen,
            stages: Stages::default(),
            facts: Facts::of_request(accepted.is_some()),
            route: None,
            asking,
            origin: None,
            class: Class::Error,
            content_type: Vec::new(),
            cache_status: Vec::new(),
            tag: None,
            changing: None,
            tolls: Tolls::default(),
            host: Box::default(),
            bill: None,
            holder: None,
            room: None,
            trip: None,
            waiting: None,
        };
        if let Some(accepted) = accepted {
            notes.stage(StageName::ClientConnect, accepted, seen, Instant::now());
        }
        notes
    }

    /// Takes over the data of an answer that the short way has begun.
    pub fn begun(
        &mut self,
        class: Class,
        (stages, facts): (Stages, Facts),
        content_type: &[u8],
        cache_status: &[u8],
    ) {
        (self.class, self.stages, self.facts) = (class, stages, facts);
        self.content_type = content_type.to_vec();
        self.cache_status = cache_status.to_vec();
    }

    /// Records a stage: its start, first byte and end.
    pub fn stage(&mut self, name: StageName, start: Instant, first: Instant, end: Instant) {
        self.stages.set(name, self.began, start, first, end);
    }

    /// Records reads from the device.
    pub fn swapped_in(&mut self, read: SwapIn) {
        // The head of a large object may be in memory while its fragments are on disk.
        if self.class == Class::MemoryHit {
            self.class = Class::DiskHit;
        }
        self.facts.swapped_in(&mut self.stages, self.began, read);
    }

    /// Records writes to the store.
    pub fn swapped_out(&mut self, out: SwapOut) {
        self.facts.swapped_out(&mut self.stages, self.began, out);
    }

    /// Sets the origin for the access log.
    pub fn asks(&mut self, host: &Arc<str>) {
        self.origin = Some(Arc::clone(host));
    }

    /// The trip that measures requests to servers on behalf of this request.
    pub fn trip(&mut self) -> Trip {
        let holder = &self.holder;
        self.trip
            .get_or_insert_with(|| Trip::of(holder.clone()))
            .clone()
    }

    /// The answer is, or is part of, an object of `object_bytes`, head and body. The largest value counts: a head whose body is still
    /// to come gives a smaller one.
    pub fn is_of(&mut self, object_bytes: u64) {
        self.facts.object_bytes = self.facts.object_bytes.max(object_bytes);
    }

    /// Begins a wait for a fetch that another request started.
    pub fn waits(&mut self) {
        let now = Instant::now();
        let waiting = self.waiting.get_or_insert(Waiting {
            start: now,
            head: None,
            end: None,
        });
        (waiting.head, waiting.end) = (None, None);
    }

    /// The head of the awaited fetch has arrived.
    pub fn hears_head(&mut self) {
        if let Some(waiting) = &mut self.waiting {
            waiting.head = Some(Instant::now());
        }
    }

    /// Ends the wait at this moment, or at the head's arrival.
    pub fn waits_no_more(&mut self, at: Option<Instant>) {
        if let Some(waiting) = &mut self.waiting
            && waiting.end.is_none()
        {
            waiting.end = at.or(waiting.head);
        }
    }

    /// Stops reading this fetch, which is the request's own or another's.
    pub fn reads_no_more(&mut self, flight: &Flight, is_anothers: bool) {
        if let Some(out) = flight.swap_out().filter(|_| !is_anothers) {
            self.swapped_out(out);
        }
        // While more is to come, the wait lasts until the request ends.
        if let Some(at) = flight.last_byte() {
            self.waits_no_more(Some(at));
        }
    }

    /// The requests to servers so far were in vain and stay recorded; the next server gets a trip of its own.
    pub fn asks_elsewhere(&mut self) {
        self.waits_no_more(None);
        self.trip = self.trip.take().map(|trip| trip.apart());
    }

    /// Does the request share another request's fetch? Then the fetch's stages are not its own.
    pub fn shares(&self) -> bool {
        self.waiting.is_some_and(|waiting| waiting.end.is_none())
    }

    /// The answer was cut short, by the client or by the origin. Only the first of the two causes counts.
    pub fn is_cut(&mut self, by_client: bool) {
        let (aborted, other) = match by_client {
            true => (Flags::CLIENT_ABORTED, Flags::ORIGIN_ABORTED),
            false => (Flags::ORIGIN_ABORTED, Flags::CLIENT_ABORTED),
        };
        if !self.facts.flags.contains(other) {
            self.facts.flag(aborted);
        }
    }

    /// When the request with this answer ended. A hit ends with its last byte, so the clock is not read again.
    pub fn ended(&self, sent: &Sent) -> Instant {
        match sent.taken {
            Some((_, last)) if self.trip.is_none() && self.waiting.is_none() && !sent.is_gone => {
                last
            }
            _ => Instant::now(),
        }
    }

    /// Closes the notes when the request ends: takes over the trip's measurements, and ends running stages.
    pub fn close(&mut self, sent: &Sent, ended: Instant) {
        let began = self.began;
        let is_whole = !self.facts.flags.contains(Flags::ORIGIN_ABORTED);
        if let Some(trip) = &self.trip {
            trip.note(began, ended, &mut self.stages, &mut self.facts);
            if let Some(host) = trip.chosen() {
                self.origin = Some(host);
            }
        }
        if self.class == Class::Stale
            && is_whole
            && self.facts.flags.contains(Flags::ORIGIN_ABORTED)
        {
            // The origin failed and a stored response was served in its place, so this answer is whole.
            self.facts.was_saved = true;
            self.facts.flags = self.facts.flags.without(Flags::ORIGIN_ABORTED);
        }
        if let Some(Waiting { start, head, end }) = self.waiting {
            let end = end.unwrap_or(ended).min(ended);
            let head = head.unwrap_or(end).min(end);
            self.stage(StageName::Wait, start, head, end);
        }
        if let (Some(start), Some((first, last))) = (sent.began, sent.taken) {
            self.stage(StageName::ProxyReply, start, first, last);
        }
        if sent.is_gone {
            self.is_cut(true);
        }
    }

    /// Counts bytes received from a server outside of its responses.
    pub fn received(&self, bytes: u64) {
        if let Some(trip) = &self.trip {
            trip.received(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
    }
}
