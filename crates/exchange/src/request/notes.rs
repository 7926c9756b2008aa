//! What is noted of a request while it is answered, for its record.
//!
//! All moments are counted from one: when the connection was accepted, for the first request on it, else when the first byte of the
//! head was seen. What the server does is noted by a [`Trip`], which is read when the request ends; a stage that is going on then ends
//! with the request.
//!
//! Not known here: what is answered, how a record is written.

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

/// What is noted of a request while it is answered.
pub struct Notes {
    /// When it began: its stages are counted from here.
    pub began: Instant,
    /// When its first byte was seen.
    pub seen: Instant,
    /// Stages so far.
    pub stages: Stages,
    /// Facts so far.
    pub facts: Facts,
    /// The number of the route that took it, on a reverse listener.
    pub route: Option<usize>,
    /// What it asks.
    pub asking: Kept,
    /// The origin that was asked.
    pub origin: Option<Arc<str>>,
    /// What became of it.
    pub class: Class,
    /// Content-Type of its answer.
    pub content_type: Vec<u8>,
    /// Our Cache-Status in it.
    pub cache_status: Vec<u8>,
    /// What the operator's rules call it.
    pub tag: Option<Tag>,
    /// What its answer's fields are changed by, if a rule says so.
    pub changing: Option<Box<Changing>>,
    /// The quotas that are about it.
    pub tolls: Tolls,
    /// The host that is asked for, if there are any.
    pub host: Box<str>,
    /// Whose bytes are counted when it ends.
    pub bill: Option<Box<Bill>>,
    /// Whose the bytes of its answer are, as the ledger counts.
    pub holder: Option<Arc<Holder>>,
    /// What counts for the whole record that is read from disk, until it is there.
    pub room: Option<Lot>,
    trip: Option<Trip>,
    waiting: Option<Waiting>,
}

/// Waiting for what another request has asked for.
#[derive(Clone, Copy)]
struct Waiting {
    start: Instant,
    head: Option<Instant>,
    end: Option<Instant>,
}

impl Notes {
    /// Of a request that asks this; its head is parsed now, its first byte was `seen` then. `accepted`: when its connection was, if it
    /// is the first on it.
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

    /// Notes an answer that has begun elsewhere.
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

    /// Notes a stage: when it began, when its first byte was there, when it was over.
    pub fn stage(&mut self, name: StageName, start: Instant, first: Instant, end: Instant) {
        self.stages.set(name, self.began, start, first, end);
    }

    /// Notes reads of the device.
    pub fn swapped_in(&mut self, read: SwapIn) {
        // Of a large object the head may be in memory and its fragments not.
        if self.class == Class::MemoryHit {
            self.class = Class::DiskHit;
        }
        self.facts.swapped_in(&mut self.stages, self.began, read);
    }

    /// Notes what was given to the store.
    pub fn swapped_out(&mut self, out: SwapOut) {
        self.facts.swapped_out(&mut self.stages, self.began, out);
    }

    /// The server at this host is asked, says the access log.
    pub fn asks(&mut self, host: &Arc<str>) {
        self.origin = Some(Arc::clone(host));
    }

    /// Where it is noted what asking a server takes, on behalf of this request.
    pub fn trip(&mut self) -> Trip {
        let holder = &self.holder;
        self.trip
            .get_or_insert_with(|| Trip::of(holder.clone()))
            .clone()
    }

    /// Its answer is, or is a part of, an object of so many bytes, head and body. Of several the largest counts: a head whose body is
    /// still to come says less.
    pub fn is_of(&mut self, object_bytes: u64) {
        self.facts.object_bytes = self.facts.object_bytes.max(object_bytes);
    }

    /// Waits for what another request has asked for.
    pub fn waits(&mut self) {
        let now = Instant::now();
        let waiting = self.waiting.get_or_insert(Waiting {
            start: now,
            head: None,
            end: None,
        });
        (waiting.head, waiting.end) = (None, None);
    }

    /// The head of that is there.
    pub fn hears_head(&mut self) {
        if let Some(waiting) = &mut self.waiting {
            waiting.head = Some(Instant::now());
        }
    }

    /// Waiting was over then, or with the head.
    pub fn waits_no_more(&mut self, at: Option<Instant>) {
        if let Some(waiting) = &mut self.waiting
            && waiting.end.is_none()
        {
            waiting.end = at.or(waiting.head);
        }
    }

    /// It reads no more of this fetch, which is its own or another's.
    pub fn reads_no_more(&mut self, flight: &Flight, is_anothers: bool) {
        if let Some(out) = flight.swap_out().filter(|_| !is_anothers) {
            self.swapped_out(out);
        }
        // While more is to come, its own part came until now: the wait ends with the request.
        if let Some(at) = flight.last_byte() {
            self.waits_no_more(Some(at));
        }
    }

    /// What was asked for so far was in vain, and is left to others; whoever is asked next is asked anew.
    pub fn asks_elsewhere(&mut self) {
        self.waits_no_more(None);
        self.trip = self.trip.take().map(|trip| trip.apart());
    }

    /// Does it share another request's answer? Then what that does is not its own.
    pub fn shares(&self) -> bool {
        self.waiting.is_some_and(|waiting| waiting.end.is_none())
    }

    /// The answer ended before its end, on whose side?
    pub fn is_cut(&mut self, by_client: bool) {
        let (aborted, other) = match by_client {
            true => (Flags::CLIENT_ABORTED, Flags::ORIGIN_ABORTED),
            false => (Flags::ORIGIN_ABORTED, Flags::CLIENT_ABORTED),
        };
        if !self.facts.flags.contains(other) {
            self.facts.flag(aborted);
        }
    }

    /// When a request whose answer this is ended. The clock is not read again after a hit: its last byte was its end.
    pub fn ended(&self, sent: &Sent) -> Instant {
        match sent.taken {
            Some((_, last)) if self.trip.is_none() && self.waiting.is_none() && !sent.is_gone => {
                last
            }
            _ => Instant::now(),
        }
    }

    /// The request has ended: notes the stages that others have measured, and those that were going on.
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
            // It was answered from what is stored, because the origin failed: this answer is whole.
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

    /// Notes so many bytes that came from a server beside its answers.
    pub fn received(&self, bytes: u64) {
        if let Some(trip) = &self.trip {
            trip.received(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
    }
}
