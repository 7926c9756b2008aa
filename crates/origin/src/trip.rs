//! The times and bytes of a request to a server, and how it ended.
//!
//! A [`Trip`] is shared by the client's request, the fetch task, the connection and the body, all on one worker. Each notes its own
//! times, and the client's request reads them when it ends, before the end of the fetch or after it. A stage that is still
//! running then ends with the request.
//!
//! | stage | start | first | end |
//! |---|---|---|---|
//! | dns | look-up asked | the end | answer |
//! | proxy-connect | connect() called, or connection taken from the pool | TCP up | TLS up and the request's last byte written |
//! | server-reply | proxy-connect's end | head parsed | last byte of the body read, or the answer given up |
//!
//! The stage `peer` is the time in which siblings are asked, up to the choice of one.
//!
//! When a server is asked again (a dead pooled connection, a failed validation, a missing part), the times begin anew and
//! the bytes are added up. Waiting for a slot belongs to no stage, unless the wait failed: then it is the proxy-connect.
//!
//! Not known here: requests, records' numbers.

use base::clock::Instant;
use std::{cell::RefCell, rc::Rc, sync::Arc};

use message::Version;
use profile::{Flags, Hierarchy, Protocol, StageName};

use crate::connection::{ConnectTimes, Destination};
use ledger::Holder;
use record::facts::{Facts, Stages};

/// The next server on a request's way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Hop {
    /// The origin, a parent or a sibling.
    pub hierarchy: Hierarchy,
    /// The number of the parent or sibling.
    pub number: u8,
}

impl Hop {
    /// To the origin.
    pub const DIRECT: Hop = Hop {
        hierarchy: Hierarchy::Direct,
        number: 0,
    };

    /// The parent or sibling of this number. (`plan::PEERS_MAX` fits in `u8`.)
    pub fn to(hierarchy: Hierarchy, number: usize) -> Hop {
        let number = u8::try_from(number).unwrap_or(u8::MAX);
        Hop { hierarchy, number }
    }
}

/// Times and bytes of asking a server, for one request.
#[derive(Clone, Default)]
pub struct Trip(Rc<RefCell<Times>>);

#[derive(Default)]
struct Times {
    /// The origin, parent or sibling that is asked, once it is known.
    hop: Hop,
    server: Option<(Arc<str>, u16)>,
    /// The server's host, if it was chosen among several.
    host: Option<Arc<str>>,
    /// Flags of the whole trip, and of the last attempt.
    flags: Flags,
    flags_now: Flags,
    is_tls: bool,
    version: Protocol,
    bytes_in: u64,
    /// The connection that the body's memory is counted to.
    holder: Option<Arc<Holder>>,
    /// When siblings were asked: start, first answer, decision.
    siblings: Option<(Instant, Instant, Instant)>,
    dns: Option<(Instant, Instant)>,
    connect: Option<Connect>,
    reply: Option<Reply>,
}

#[derive(Clone, Copy)]
struct Connect {
    start: Instant,
    up: Instant,
    end: Instant,
}

#[derive(Clone, Copy)]
struct Reply {
    start: Instant,
    head: Option<Instant>,
    /// When the last bytes so far were read.
    last: Instant,
    is_over: bool,
}

impl Trip {
    /// No server is asked yet.
    pub fn new() -> Trip {
        Trip::default()
    }

    /// A trip for this client connection.
    pub fn of(holder: Option<Arc<Holder>>) -> Trip {
        let trip = Trip::new();
        trip.0.borrow_mut().holder = holder;
        trip
    }

    /// The client connection that waits for this trip; `None`: none does.
    pub fn holder(&self) -> Option<Arc<Holder>> {
        self.0.borrow().holder.clone()
    }

    /// A second trip, for another attempt while the first one goes on. Flags, bytes and siblings' times until now are copied.
    #[must_use]
    pub fn apart(&self) -> Trip {
        let times = self.0.borrow();
        Trip(Rc::new(RefCell::new(Times {
            flags: times.flags,
            bytes_in: times.bytes_in,
            siblings: times.siblings,
            holder: times.holder.clone(),
            ..Times::default()
        })))
    }

    /// The request validates a stored response.
    pub fn validates(&self) {
        self.0.borrow_mut().flags |= Flags::VALIDATED;
    }

    /// This server is asked, for the first time or again.
    pub fn begins(&self, server: &Destination, hop: Hop) {
        let mut times = self.0.borrow_mut();
        times.hop = hop;
        times.server = Some((Arc::clone(&server.host), server.port));
        (times.flags_now, times.is_tls) = (Flags::default(), server.tls);
        (times.dns, times.connect, times.reply) = (None, None, None);
    }

    /// This host was chosen among several.
    pub fn chose(&self, host: &Arc<str>) {
        self.0.borrow_mut().host = Some(Arc::clone(host));
    }

    /// The host that was chosen last, if there were several.
    pub fn chosen(&self) -> Option<Arc<str>> {
        self.0.borrow().host.clone()
    }

    /// The origin, parent or sibling that is asked, as far as known.
    pub fn hop(&self) -> Hop {
        self.0.borrow().hop
    }

    /// Notes when siblings were asked: start, first answer, decision.
    pub fn asked_siblings(&self, began: Instant, first: Instant, decided: Instant) {
        self.0.borrow_mut().siblings = Some((began, first, decided));
    }

    /// Adds flags of the answer.
    pub fn flag(&self, flags: Flags) {
        self.0.borrow_mut().flags_now |= flags;
    }

    /// A connection is there: a new one, made in these times, or one taken from the pool at `start`.
    pub fn connected(&self, start: Instant, took: &ConnectTimes, is_reused: bool) {
        let mut times = self.0.borrow_mut();
        let (start, end) = took.connect.unwrap_or((start, start));
        let up = took.tcp.unwrap_or(start);
        times.dns = took.dns;
        times.connect = Some(Connect { start, up, end });
        let flags = times.flags_now.with(Flags::REUSED_SERVER, is_reused);
        times.flags_now = flags.with(Flags::TLS_SERVER, times.is_tls);
    }

    /// Connecting failed; the attempt took these times.
    pub fn not_connected(&self, took: &ConnectTimes) {
        let mut times = self.0.borrow_mut();
        times.dns = took.dns;
        let connect = took.connect.or(took.queue.filter(|_| took.dns.is_none()));
        times.connect = connect.map(|(start, end)| Connect {
            start,
            up: took.tcp.unwrap_or(end),
            end,
        });
    }

    /// Everything of the request that was there so far is written. Ignored once the head of the answer has come.
    pub fn sent(&self) {
        let now = Instant::now();
        let mut times = self.0.borrow_mut();
        if times.reply.is_some_and(|reply| reply.head.is_some()) {
            return;
        }
        if let Some(connect) = &mut times.connect {
            connect.end = now;
        }
        times.reply = Some(Reply {
            start: now,
            head: None,
            last: now,
            is_over: false,
        });
    }

    /// When the connection was taken from the pool or begun; now, if there is none yet.
    pub fn began(&self) -> Instant {
        let connect = self.0.borrow().connect;
        connect.map_or_else(Instant::now, |connect| connect.start)
    }

    /// When the request was sent, if its answer has not begun; else now.
    pub fn asked_last(&self) -> Instant {
        let reply = self.0.borrow().reply;
        let unanswered = reply.filter(|reply| reply.head.is_none());
        unanswered.map_or_else(Instant::now, |reply| reply.start)
    }

    /// Counts bytes read, of a head or a body.
    pub fn received(&self, bytes: usize) {
        self.0.borrow_mut().bytes_in += bytes as u64;
    }

    /// Bytes that were read so far.
    pub fn bytes_in(&self) -> u64 {
        self.0.borrow().bytes_in
    }

    /// Counts bytes read of a body.
    pub fn received_body(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let mut times = self.0.borrow_mut();
        times.bytes_in += bytes as u64;
        if let Some(reply) = &mut times.reply {
            reply.last = Instant::now();
        }
    }

    /// The head of the answer was parsed.
    pub fn answered(&self, version: Version, now: Instant) {
        let mut times = self.0.borrow_mut();
        times.version = match version {
            Version::Http10 => Protocol::Http10,
            Version::Http11 => Protocol::Http11,
            Version::Http2 => Protocol::Http2,
        };
        // The answer may have come before the request was written.
        let start = times.reply.map_or(now, |reply| reply.start);
        times.reply = Some(Reply {
            start,
            head: Some(now),
            last: now,
            is_over: false,
        });
    }

    /// The answer is complete: the last read brought its last byte.
    pub fn ended(&self) {
        if let Some(reply) = &mut self.0.borrow_mut().reply {
            reply.is_over = true;
        }
    }

    /// The rest of the answer will not be read.
    pub fn left(&self) {
        if let Some(reply) = &mut self.0.borrow_mut().reply
            && !reply.is_over
        {
            (reply.last, reply.is_over) = (Instant::now(), true);
        }
    }

    /// The server broke off, or did not answer.
    pub fn broke_off(&self) {
        self.left();
        self.0.borrow_mut().flags_now |= Flags::ORIGIN_ABORTED;
    }

    /// When the last byte of the answer so far was read.
    pub fn last_byte(&self) -> Option<Instant> {
        Some(self.0.borrow().reply?.last)
    }

    /// Copies the times and facts to the record of a request that ran from `began` to `ended`.
    pub fn note(&self, began: Instant, ended: Instant, stages: &mut Stages, facts: &mut Facts) {
        let times = self.0.borrow();
        if times.hop.hierarchy == Hierarchy::None {
            return;
        }
        (facts.hierarchy, facts.peer) = (times.hop.hierarchy, times.hop.number);
        (facts.server, facts.http_server) = (times.server.clone(), times.version);
        facts.bytes_in = times.bytes_in;
        facts.flags = facts.flags | times.flags | times.flags_now;
        let mut set = |name, start, first: Instant, end: Instant| {
            stages.set(name, began, start, first.min(ended), end.min(ended));
        };
        if let Some((start, first, end)) = times.siblings {
            set(StageName::Peer, start, first, end);
        }
        if let Some((start, end)) = times.dns {
            set(StageName::Dns, start, end, end);
        }
        if let Some(Connect { start, up, end }) = times.connect {
            set(StageName::ProxyConnect, start, up, end);
        }
        if let Some(reply) = times.reply {
            let end = match reply.is_over {
                true => reply.last,
                false => ended,
            };
            set(
                StageName::ServerReply,
                reply.start,
                reply.head.unwrap_or(end),
                end,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn asked(trip: &Trip) {
        let server = Destination {
            tls: true,
            host: "a.example".into(),
            port: 443,
            member: None,
            terms: None,
            http2: None,
        };
        trip.begins(&server, Hop::DIRECT);
    }

    fn noted(trip: &Trip, began: Instant, ended: Instant) -> (Stages, Facts) {
        let (mut stages, mut facts) = (Stages::default(), Facts::default());
        trip.note(began, ended, &mut stages, &mut facts);
        (stages, facts)
    }

    #[test]
    fn who_asked_nobody_claims_nothing() {
        let now = Instant::now();
        let (stages, facts) = noted(&Trip::new(), now, now);
        assert!(stages.0.iter().all(Option::is_none));
        assert_eq!((facts.hierarchy, facts.server), (Hierarchy::None, None));
    }

    #[test]
    fn what_goes_on_when_the_request_ends_ends_with_it() {
        let (trip, began) = (Trip::new(), Instant::now());
        asked(&trip);
        trip.connected(began, &ConnectTimes::default(), true);
        trip.sent();
        trip.answered(Version::Http11, Instant::now());
        let ended = Instant::now() + Duration::from_secs(1);
        let reply =
            |ended| noted(&trip, began, ended).0.0[StageName::ServerReply as usize].unwrap();
        let open = reply(ended);
        assert!(open.total_us >= 1_000_000 && open.first_us < open.total_us);
        trip.ended();
        assert_eq!(reply(ended).total_us, open.first_us, "the head was all");
        trip.broke_off();
        assert_eq!(
            reply(ended).total_us,
            open.first_us,
            "nothing is left to break"
        );
    }

    #[test]
    fn who_asks_again_begins_anew_and_adds_bytes_up() {
        let (trip, began) = (Trip::new(), Instant::now());
        trip.validates();
        for is_reused in [true, false] {
            asked(&trip);
            trip.connected(Instant::now(), &ConnectTimes::default(), is_reused);
            trip.sent();
            trip.received(10);
            if is_reused {
                trip.broke_off();
            }
        }
        let (stages, facts) = noted(&trip, began, Instant::now());
        let start = |name| stages.0[name as usize].unwrap().start_us;
        assert!(start(StageName::ProxyConnect) <= start(StageName::ServerReply));
        let expected = Flags::VALIDATED.with(Flags::TLS_SERVER, true);
        assert_eq!((facts.flags, facts.bytes_in), (expected, 20));
    }

    #[test]
    fn a_look_up_that_failed_is_no_connect() {
        let (trip, now) = (Trip::new(), Instant::now());
        asked(&trip);
        let took = ConnectTimes {
            queue: Some((now, now)),
            dns: Some((now, now)),
            ..ConnectTimes::default()
        };
        trip.not_connected(&took);
        let (stages, _) = noted(&trip, now, now);
        assert!(stages.0[StageName::Dns as usize].is_some());
        assert_eq!(stages.0[StageName::ProxyConnect as usize], None);
        let took = ConnectTimes { dns: None, ..took };
        trip.not_connected(&took);
        let (stages, _) = noted(&trip, now, now);
        assert!(
            stages.0[StageName::ProxyConnect as usize].is_some(),
            "all were busy"
        );
    }
}
