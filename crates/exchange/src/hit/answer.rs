//! Head, body and record of a hit.
//!
//! Age and Cache-Status are told behind the stored head, in which a rule of the operator's may change lines. Nothing is allocated for a
//! hit that no rule changes and that the client takes at once. Instructions count here: what a hit in memory goes through once is
//! inlined, since a call copies what is handed over.
//!
//! Not known here: where the object lay, how a head looks on the wire, when a client takes what it is sent.

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

/// How the lines begin that are told behind a stored head; the second ends the first.
const AGE: &[u8] = b"Age: ";
const CACHE_STATUS: &[u8] = b"\r\nCache-Status: ";

/// Who asks, and where.
#[derive(Clone, Copy)]
pub struct By<'a> {
    /// The client's address.
    pub client: SocketAddr,
    /// What is known of the encryption of its connection; `None`: there is none.
    pub tls: Option<&'a Seen>,
    /// The listener that it comes by.
    pub listener: &'a ListenerState,
}

/// What is asked, and since when.
pub struct Asked<'a> {
    /// For the log.
    pub asking: Asking<'a>,
    /// For rules about fields.
    pub fields: &'a dyn FieldLines,
    /// When its first byte was seen.
    pub seen: Instant,
    /// When its connection was accepted, if it is the first request on it.
    pub accepted: Option<Instant>,
}

/// The head of a hit.
pub struct Head<'a> {
    /// The object, which has the stored head.
    pub object: &'a Object,
    /// Status line and field lines in place of the stored ones.
    pub changed: Option<&'a [u8]>,
    /// Age and Cache-Status as lines; the second has no end.
    pub said: &'a [u8],
    /// Value of Age.
    pub age: &'a [u8],
    /// Value of Cache-Status.
    pub cache_status: &'a [u8],
}

/// How a protocol sends a hit.
pub trait Sink {
    /// Which one it is.
    const PROTOCOL: Protocol;

    /// Writes a head into `out`, which is empty.
    fn write_head(&self, head: &Head<'_>, out: &mut Vec<u8>);

    /// Sends the head that was written, and the body, as far as the client takes them now.
    fn send(&mut self, head: &mut Vec<u8>, body: &Bytes) -> Taken;
}

/// What a client has taken of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// All, or it is queued.
    All,
    /// So many bytes.
    Some(usize),
    /// Nothing: it has gone.
    Gone,
}

/// What became of a hit.
pub enum Sent {
    /// It was sent, counted and logged.
    All,
    /// It was sent as far as the client took it.
    Some(Box<Unsent>),
    /// The client has gone; it was counted and logged.
    Gone,
}

/// An answer that the client has not taken all of.
pub struct Unsent {
    /// What is left of the head.
    pub head: Vec<u8>,
    /// What is left of the body.
    pub body: Bytes,
    /// Bytes that it took.
    pub sent: u64,
    /// The status.
    pub status: u16,
    /// When its first write began.
    pub started: Instant,
    /// For the record.
    pub record: Notes,
}

/// A stored object that answers a plain request.
pub struct Hit<'a> {
    pub(super) by: By<'a>,
    pub(super) asked: Asked<'a>,
    pub(super) object: &'a Object,
    /// Its primary hash.
    pub(super) hash: KeyHash,
    pub(super) class: Class,
    /// The time at which its age is told.
    pub(super) now: UnixMillis,
    /// When the answer began.
    pub(super) started: Instant,
    /// How it was read.
    pub(super) swap_in: Option<SwapIn>,
    /// The number of the route.
    pub(super) route: Option<usize>,
    pub(super) rules: RulesOfHit,
    /// What is asked for, if the rules change fields of its answer.
    pub(super) place: Option<Place<'a>>,
    pub(super) passed: Passed,
}

impl<'a> Hit<'a> {
    /// Of an object in memory.
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

    /// Sends it, counts it and logs it. Where the client has yet to take a part, whoever sends that does the rest.
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
            // The stages of others than memory hits are counted too (`Counters::staged`).
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

    /// Writes Age and Cache-Status into `said`, and the head into `out`. Returns where in `said` the value of Cache-Status begins. `id`:
    /// a number of this request alone.
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

    /// What its record has to say until it is sent. A hit in memory has stages only where somebody reads them (`journals`).
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

    /// The notes of one that goes on.
    #[cold]
    fn notes(&self, protocol: Protocol) -> Notes {
        let asking = Kept::of_asking(self.asked.asking, protocol);
        let mut record = Notes::new(asking, self.asked.seen, Some(self.asked.began()));
        (record.route, record.tag) = (self.route, self.rules.tag);
        record
    }
}

impl Asked<'_> {
    /// When it began: its stages are counted from here.
    fn began(&self) -> Instant {
        self.accepted.unwrap_or(self.seen)
    }
}

impl Unsent {
    /// Of this object, of whose head and body so many bytes were sent.
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
