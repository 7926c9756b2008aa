//! Head, body and record of a hit.
//!
//! Age and Cache-Status follow the stored head, whose lines an operator's rule may change. Nothing is allocated for a hit that no rule
//! changes and that the client takes at once. Instruction counts matter here: code that a memory hit runs once is inlined, since a call
//! copies its arguments.
//!
//! Not known here: where the object was stored, the wire format of a head, when a client takes the bytes sent.

use std::net::SocketAddr;

use bytes::Bytes;
use httpcache::{StandingFlags, UnixMillis};
use message::write_decimal;
use profile::{Class, Flags, Protocol, StageName, access::Asking};
use store::KeyHash;

use crate::{
    hit::look::{Fresh, Passed, RulesOfHit},
    listener::ListenerState,
    request::{asking::Kept, finished::Finished, notes::Notes, target::Place},
    state::Worker,
};
use base::clock::Instant;
use cache::object::Object;
use record::{
    facts::{Facts, Stages, SwapIn},
    metrics,
};
use rules::rulebook::fits::FieldLines;
use tls::seen::Seen;

/// The beginnings of the lines behind a stored head; the second one ends the first line.
const AGE: &[u8] = b"Age: ";
const CACHE_STATUS: &[u8] = b"\r\nCache-Status: ";

/// The client and listener of a request.
#[derive(Clone, Copy)]
pub struct By<'a> {
    /// The client's address.
    pub client: SocketAddr,
    /// The encryption of the client's connection; `None`: there is none.
    pub tls: Option<&'a Seen>,
    /// The listener that accepted the request.
    pub listener: &'a ListenerState,
}

/// A plain request and its times.
pub struct Asked<'a> {
    /// The request, for the log.
    pub asking: Asking<'a>,
    /// The request's fields, for rules about them.
    pub fields: &'a dyn FieldLines,
    /// When the request's first byte was seen.
    pub seen: Instant,
    /// When the connection was accepted, if this is its first request.
    pub accepted: Option<Instant>,
}

/// The head of a hit.
pub struct Head<'a> {
    /// The object with the stored head.
    pub object: &'a Object,
    /// Status line and field lines that replace the stored ones.
    pub changed: Option<&'a [u8]>,
    /// Age and Cache-Status as lines; the second line has no end.
    pub said: &'a [u8],
    /// The value of Age.
    pub age: &'a [u8],
    /// The value of Cache-Status.
    pub cache_status: &'a [u8],
}

/// Sends hits in one protocol.
pub trait Sink {
    /// The protocol.
    const PROTOCOL: Protocol;

    /// Writes a head into `out`, which is empty.
    fn write_head(&self, head: &Head<'_>, out: &mut Vec<u8>);

    /// Sends the written head and the body, as far as the client takes them now.
    fn send(&mut self, head: &mut Vec<u8>, body: &Bytes) -> Taken;
}

/// The part of an answer that a client has taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// All of it, or the rest is queued.
    All,
    /// So many bytes.
    Some(usize),
    /// Nothing: the client has gone.
    Gone,
}

/// The result of sending a hit.
pub enum Sent {
    /// The hit was sent, counted and logged.
    All,
    /// The client took only a part.
    Some(Box<Unsent>),
    /// The client has gone. The hit was counted and logged.
    Gone,
}

/// The rest of an answer that the client took only a part of.
pub struct Unsent {
    /// The unsent part of the head.
    pub head: Vec<u8>,
    /// The unsent part of the body.
    pub body: Bytes,
    /// Bytes sent.
    pub sent: u64,
    /// The status.
    pub status: u16,
    /// When its first write began.
    pub started: Instant,
    /// The data for the record.
    pub record: Notes,
}

/// A stored object that answers a plain request.
pub struct Hit<'a> {
    pub(super) by: By<'a>,
    pub(super) asked: Asked<'a>,
    pub(super) object: &'a Object,
    /// The object's primary hash.
    pub(super) hash: KeyHash,
    pub(super) class: Class,
    /// The time that Age refers to.
    pub(super) now: UnixMillis,
    /// When the answer began.
    pub(super) started: Instant,
    /// The times of the read from disk.
    pub(super) swap_in: Option<SwapIn>,
    /// The number of the route.
    pub(super) route: Option<usize>,
    pub(super) rules: RulesOfHit,
    /// The resource asked for, if rules change fields of the answer.
    pub(super) place: Option<Place<'a>>,
    pub(super) passed: Passed,
}

impl<'a> Hit<'a> {
    /// For an object in memory.
    #[inline]
    pub fn in_memory(fresh: Fresh<'a, 'a>, by: By<'a>, asked: Asked<'a>) -> Hit<'a> {
        Hit {
            by,
            object: &fresh.resident.object,
            hash: fresh.hash,
            class: Class::MemoryHit,
            now: fresh.now,
            started: asked.seen,
            asked,
            swap_in: None,
            route: fresh.place.route_number(),
            place: fresh.rules.changes.then_some(fresh.place),
            rules: fresh.rules,
            passed: fresh.passed,
        }
    }

    /// Sends the hit, counts and logs it. If the client took only a part, the caller sends the rest and finishes.
    pub fn answer<S: Sink>(self, worker: &Worker, sink: &mut S) -> Sent {
        let (mut said, mut out) = (worker.said.borrow_mut(), worker.output.borrow_mut());
        let from = self.write_head(sink, || worker.next_id(), &mut said, &mut out);
        let (object, cache_status) = (self.object, &said[from..]);
        let taken = sink.send(&mut out, &object.body);
        let journals = worker.journals();
        let (mut stages, mut facts) = self.noted(journals);
        let class = match object.standing.flags.contains(StandingFlags::NEGATIVE) {
            true => Class::NegativeHit,
            false => self.class,
        };
        let (bytes_out, sent) = match taken {
            Taken::All => (out.len() + object.body.len(), Sent::All),
            Taken::Gone => (0, Sent::Gone),
            Taken::Some(sent) => {
                let mut record = self.notes(S::PROTOCOL);
                record.begun(class, (stages, facts), object.content_type(), cache_status);
                record.bill = self.passed.flatten();
                let unsent = Unsent::of(object, &out, sent, self.started, record);
                return Sent::Some(unsent);
            }
        };
        let Asked { asking, seen, .. } = self.asked;
        let (began, ended) = (self.asked.began(), Instant::now());
        if let Sent::Gone = sent {
            metrics::add(&worker.counters.client_aborts, 1);
            facts.flag(Flags::CLIENT_ABORTED);
            // Stages are also counted for all classes but memory hits (`Counters::staged`).
        } else if journals || class != Class::MemoryHit {
            stages.set(StageName::ProxyReply, began, self.started, ended, ended);
        }
        let bytes_out = bytes_out as u64;
        if let Some(Some(bill)) = &self.passed {
            bill.pay(bytes_out);
        }
        worker.finish(&Finished {
            began,
            seen,
            ended,
            class,
            status: object.status,
            bytes_out,
            stages,
            client: self.by.client,
            tls: self.by.tls,
            listener: self.by.listener,
            route: self.route,
            asking,
            has_body: false,
            http_client: S::PROTOCOL,
            content_type: object.content_type(),
            facts,
            peer: b"",
            cache_status,
            tag: self.rules.tag,
        });
        sent
    }

    /// Writes Age and Cache-Status into `said`, and the head into `out`. Returns the position in `said` of Cache-Status's value. `id`: a
    /// number unique to this request.
    #[inline(always)]
    fn write_head<S: Sink>(
        &self,
        sink: &S,
        id: impl FnOnce() -> u64,
        said: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> usize {
        let (object, listener) = (self.object, self.by.listener);
        let standing = &object.standing;
        said.clear();
        said.extend_from_slice(AGE);
        write_decimal(u64::from(standing.age_s(self.now)), said);
        let age_end = said.len();
        said.extend_from_slice(CACHE_STATUS);
        let from = said.len();
        let prefix = &listener.edition.hit_prefix;
        httpcache::cache_status::write_hit(prefix, standing.ttl_s(self.now), said);
        let cache_status = &said[from..];
        let (client, fields) = (self.by.client.ip(), self.asked.fields);
        let place = self.place.as_ref();
        let changing = place.and_then(|place| self.rules.changing(place, fields, client, id));
        let changed = changing.map(|changing| {
            let mut lines = object.head.to_vec();
            let kind = (object.status, object.content_type());
            changing.change(listener, kind, cache_status, &mut lines);
            lines
        });
        out.clear();
        let head = Head {
            object,
            changed: changed.as_deref(),
            said,
            age: &said[AGE.len()..age_end],
            cache_status,
        };
        sink.write_head(&head, out);
        from
    }

    /// Stages and facts of the record before the answer is sent. A memory hit has stages only if they are read (`journals`).
    #[inline(always)]
    fn noted(&self, journals: bool) -> (Stages, Facts) {
        let Asked { seen, accepted, .. } = self.asked;
        let began = self.asked.began();
        let mut stages = Stages::default();
        if let Some(accepted) = accepted
            && (journals || self.class != Class::MemoryHit)
        {
            stages.set(StageName::ClientConnect, began, accepted, seen, seen);
        }
        let stored_bytes = self.object.stored_bytes();
        let mut facts = Facts::of_hit(accepted.is_some(), self.hash.0, stored_bytes);
        if let Some(swap_in) = self.swap_in {
            facts.swapped_in(&mut stages, began, swap_in);
        }
        (stages, facts)
    }

    /// The notes of an answer that the client took only a part of.
    #[cold]
    fn notes(&self, protocol: Protocol) -> Notes {
        let asking = Kept::of_asking(self.asked.asking, protocol);
        let mut record = Notes::new(asking, self.asked.seen, Some(self.asked.began()));
        (record.route, record.tag) = (self.route, self.rules.tag);
        record
    }
}

impl Asked<'_> {
    /// When the request began; its stages are relative to this moment.
    fn began(&self) -> Instant {
        self.accepted.unwrap_or(self.seen)
    }
}

impl Unsent {
    /// The rest of this object's answer, of which `sent` bytes of head and body were sent.
    #[cold]
    fn of(
        object: &Object,
        head: &[u8],
        sent: usize,
        started: Instant,
        record: Notes,
    ) -> Box<Unsent> {
        let of_head = sent.min(head.len());
        Box::new(Unsent {
            head: head[of_head..].to_vec(),
            body: object.body.slice(sent - of_head..),
            sent: sent as u64,
            status: object.status,
            started,
            record,
        })
    }
}
