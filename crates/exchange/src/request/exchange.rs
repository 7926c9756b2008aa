//! One request and its answer.
//!
//! An [`Exchange`] holds the state of a request from its parsed head to its record: the worker, the listener, the request body, and the
//! [`Reply`] that answers it. The code that parses a head (a connection, a test) makes the exchange. It needs no socket: peer and
//! listener are values, and the reply alone knows the wire format.
//!
//! ```text
//! head parsed ─> Exchange::new ─> request::handle ─> begin, pieces, end ─> finish: record, counters, log
//! ```
//!
//! Every request ends in [`Exchange::finish`], once. (The short way counts a hit itself if the socket took the whole answer at once.)
//! The requested resource is a separate value: a [`Wanted`](crate::request::wanted::Wanted) never changes, and is passed beside it.
//!
//! Not known here: how a request is answered.

use base::clock::Instant;
use std::{net::SocketAddr, rc::Rc};

use bytes::Bytes;
use fields::Fields;
use httpcache::cache_status::{CacheStatus, Forward};
use message::{Framing, reason_phrase};
use profile::{Class, StageName};

use crate::{
    edition::Edition,
    listener::ListenerState,
    reply::{After, Length, Reply, ReplyHead},
    request::{
        asking::Kept, body::RequestBody, finished::Finished, incoming::Incoming, notes::Notes,
    },
    state::Worker,
};
use base::member::MemberId;
use record::metrics;

/// The addresses and cluster member behind a request.
#[derive(Clone, Copy)]
pub struct Asker {
    /// The client's address, as in [`Exchange::peer`].
    pub peer: SocketAddr,
    /// The address of our direct peer.
    pub hop: SocketAddr,
    /// The cluster member that forwarded the request.
    pub member: Option<MemberId>,
}

/// One request and its answer.
pub struct Exchange<'c> {
    /// The worker that serves the request.
    pub worker: &'c Rc<Worker>,
    /// The listener that accepted the request's connection.
    pub listener: Rc<ListenerState>,
    /// The client's address, which access rules, logs, rules and limits use ([`crate::conn::who`]).
    pub peer: SocketAddr,
    /// The address of our direct peer: the client, or the last proxy before us.
    pub hop: SocketAddr,
    /// The cluster member that forwarded the request.
    pub member: Option<MemberId>,
    /// The request body.
    pub body: RequestBody,
    /// Sends the answer to the client.
    pub reply: Reply<'c>,
    /// Data for the request's record.
    pub record: Notes,
}

/// The Cache-Status value of an answer for which the origin was asked.
pub fn forwarded(
    edition: &Edition,
    why: Forward,
    say: impl FnOnce(CacheStatus<'_>) -> CacheStatus<'_>,
) -> Vec<u8> {
    let mut line = Vec::with_capacity(96);
    let name = &edition.cache_name;
    say(CacheStatus::forwarded(name, why, &mut line));
    line
}

/// Facts about an answer besides its head.
pub struct Said<'a> {
    /// The class of the request.
    pub class: Class,
    /// The answer's Content-Type, for the log.
    pub content_type: &'a [u8],
    /// The value of Age; `None`: no Age is sent.
    pub age_s: Option<u32>,
    /// Value of Cache-Status; empty: none is sent.
    pub cache_status: Vec<u8>,
}

impl<'c> Exchange<'c> {
    /// A request that has just arrived, with the head in `incoming`.
    pub fn new(
        worker: &'c Rc<Worker>,
        listener: Rc<ListenerState>,
        asker: Asker,
        incoming: &Incoming,
        body: RequestBody,
        reply: Reply<'c>,
    ) -> Exchange<'c> {
        let asking = Kept::of(
            &incoming.head,
            incoming.head_bytes,
            worker.logs_access.get(),
        );
        let mut record = Notes::new(asking, incoming.began, incoming.accepted);
        record.tolls = listener.tolls;
        record.holder = Some(reply.holder(&worker.shared.ledger));
        Exchange {
            worker,
            listener,
            peer: asker.peer,
            hop: asker.hop,
            member: asker.member,
            body,
            reply,
            record,
        }
    }

    /// The configuration that the request is answered under: its listener's when the request arrived.
    pub fn edition(&self) -> &Edition {
        &self.listener.edition
    }

    /// Begins an answer: adds Age and Cache-Status to the head, then applies the rules.
    pub fn begin(&mut self, said: Said<'_>, mut head: ReplyHead, length: Length) {
        if let Some(age_s) = said.age_s {
            head.add_number(b"Age", u64::from(age_s));
        }
        if !said.cache_status.is_empty() {
            head.add(b"Cache-Status", &said.cache_status);
        }
        if let Some(changing) = &self.record.changing {
            let of = (head.status, said.content_type);
            changing.change_answer(of, &said.cache_status, head.lines_mut());
        }
        self.reply.begin(head, length);
        let record = &mut self.record;
        record.class = said.class;
        record.content_type.clear();
        if self.worker.logs_access.get() {
            record.content_type.extend_from_slice(said.content_type);
        }
        record.cache_status = said.cache_status;
    }

    /// Answers with a body in memory; the answer was begun at `started`.
    pub async fn answer(
        &mut self,
        said: Said<'_>,
        head: ReplyHead,
        length: Length,
        body: Bytes,
        started: Instant,
    ) -> After {
        self.begin(said, head, length);
        self.reply.starts(started);
        if let Ok(()) = self.reply.piece(body).await {
            let _ = self.reply.end(None).await;
        }
        self.finish()
    }

    /// Answers with a text of our own: a sentence for the user, if `reason` is not empty, and extra fields.
    pub async fn own(
        &mut self,
        status: u16,
        reason: &str,
        extra: &[(&[u8], &[u8])],
        cache_status: Vec<u8>,
    ) -> After {
        let body = match reason {
            "" => String::new(),
            reason => format!("{status} {}\n{reason}\n", reason_phrase(status)),
        };
        let class = match status {
            ..400 => Class::Uncachable,
            _ => Class::Error,
        };
        let content_type = Some("text/plain; charset=utf-8").filter(|_| !body.is_empty());
        let said = Said {
            class,
            content_type: b"text/plain",
            age_s: None,
            cache_status,
        };
        self.own_body(said, status, content_type, extra, body.into())
            .await
    }

    /// Answers with a body of our own.
    pub async fn own_body(
        &mut self,
        said: Said<'_>,
        status: u16,
        content_type: Option<&str>,
        extra: &[(&[u8], &[u8])],
        body: Bytes,
    ) -> After {
        let started = Instant::now();
        let mut fields = Fields::new();
        fields.push(
            b"Date",
            &httpcache::format_date(self.worker.unix_ms(started)),
        );
        if let Some(content_type) = content_type {
            fields.push(b"Content-Type", content_type.as_bytes());
        }
        fields.push(b"Cache-Control", b"no-store");
        for (name, value) in extra {
            fields.push(name, value);
        }
        let mut head = ReplyHead::new(status, "", &fields);
        head.add_lines(&self.edition().via_line);
        let length = Length::Known(body.len() as u64);
        self.answer(said, head, length, body, started).await
    }

    /// Answers with a text of our own. Cache-Status has this detail, if any.
    pub async fn refuse(&mut self, status: u16, reason: &str, detail: Option<&str>) -> After {
        let mut line = Vec::new();
        if let Some(detail) = detail {
            CacheStatus::own(&self.edition().cache_name, &mut line).detail(detail);
        }
        self.own(status, reason, &[], line).await
    }

    /// Answers a request that the origin gave no response to.
    pub async fn failed(&mut self, why: Forward, status: u16, token: &str, reason: &str) -> After {
        self.failed_for_now(why, status, token, reason, None).await
    }

    /// Like [`Exchange::failed`]. `retry_after_s`: when a retry is worthwhile, if that is known.
    pub async fn failed_for_now(
        &mut self,
        why: Forward,
        status: u16,
        token: &str,
        reason: &str,
        retry_after_s: Option<u32>,
    ) -> After {
        let line = forwarded(self.edition(), why, |line| line.detail(token));
        let Some(seconds) = retry_after_s else {
            return self.own(status, reason, &[], line).await;
        };
        //= rfc9209 §2.1.1   error: the type of the problem that the intermediary has met
        let name = self.edition().cache_name.clone();
        let proxy_status = [&name, &b"; error="[..], token.as_bytes()].concat();
        let seconds = seconds.to_string();
        let extra: [(&[u8], &[u8]); 2] = [
            (b"Retry-After", seconds.as_bytes()),
            (b"Proxy-Status", &proxy_status),
        ];
        self.own(status, reason, &extra, line).await
    }

    /// Finishes without an answer, since the client has gone.
    pub fn abandon(&mut self, class: Class) -> After {
        self.reply.leave();
        self.record.class = class;
        self.finish()
    }

    /// Finishes an exchange that has been a tunnel since `started` and sent `to_client` bytes to the client.
    pub fn finish_tunnel(&mut self, started: Instant, to_client: u64) -> After {
        self.record.class = Class::Tunnel;
        self.record.received(to_client);
        self.finish_with(Some((started, to_client)))
    }

    /// Keeps the connection open only if the request has no body: an unread body would be taken for the next request.
    pub fn keep_open_without_body(&mut self, framing: Framing) {
        self.reply
            .keep_open_if(matches!(framing, Framing::None | Framing::Length(0)));
    }

    /// Counts and logs the request. Returns what happens to the connection.
    pub fn finish(&mut self) -> After {
        self.finish_with(None)
    }

    fn finish_with(&mut self, tunnel: Option<(Instant, u64)>) -> After {
        let (worker, sent) = (self.worker, self.reply.sent());
        if sent.is_gone {
            metrics::add(&worker.counters.client_aborts, 1);
            self.reply.keep_open_if(false);
        }
        let ended = self.record.ended(&sent);
        self.record.close(&sent, ended);
        if let Some(bill) = self.record.bill.take() {
            bill.pay(sent.bytes + tunnel.map_or(0, |(_, bytes)| bytes));
        }
        if let Some((started, _)) = tunnel {
            (self.record).stage(StageName::ProxyReply, started, started, ended);
        }
        let record = &self.record;
        let name_of_peer = (worker.shared).name_of_peer(record.facts.hierarchy, record.facts.peer);
        worker.finish(&Finished {
            began: record.began,
            seen: record.seen,
            ended,
            class: record.class,
            status: sent.status,
            bytes_out: sent.bytes + tunnel.map_or(0, |(_, bytes)| bytes),
            stages: record.stages,
            facts: record.facts.clone(),
            client: self.peer,
            tls: self.reply.encryption(),
            listener: &self.listener,
            route: record.route,
            asking: record.asking.with_body(self.body.received),
            has_body: self.body.received > 0,
            http_client: record.asking.protocol(),
            content_type: &record.content_type,
            peer: match &name_of_peer {
                Some(name) => name.as_bytes(),
                None => record.origin.as_deref().unwrap_or_default().as_bytes(),
            },
            cache_status: &record.cache_status,
            tag: record.tag,
        });
        self.reply.after()
    }
}
