//! One request and its answer.
//!
//! An [`Exchange`] has what a request needs from its head to its record: the worker that carries it, the listener it came in by,
//! its body, and the [`Reply`] that answers it. It is made by whoever has parsed a head (a connection, a test), and needs no
//! socket: peer and listener are values, and what a protocol looks like on the wire is the reply's business.
//!
//! ```text
//! head parsed ─> Exchange::new ─> request::handle ─> begin, pieces, end ─> finish: record, counters, log
//! ```
//!
//! Every request ends in [`Exchange::finish`], once. (A hit that the socket took at once is counted by the short way itself.)
//! The resource that is asked for is not part of it: a [`Wanted`](crate::request::wanted::Wanted) never changes, and is lent beside it.
//!
//! Not known here: what is answered.

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

/// Who has asked.
#[derive(Clone, Copy)]
pub struct Asker {
    /// The client's address, as in [`Exchange::peer`].
    pub peer: SocketAddr,
    /// The address of whoever asks us.
    pub hop: SocketAddr,
    /// The member of our cluster that has forwarded it.
    pub member: Option<MemberId>,
}

/// One request and its answer.
pub struct Exchange<'c> {
    /// The worker that carries it.
    pub worker: &'c Rc<Worker>,
    /// The listener that it came in by.
    pub listener: Rc<ListenerState>,
    /// The client's address: the one that access, logs, rules and limits go by ([`crate::conn::who`]).
    pub peer: SocketAddr,
    /// The address of whoever asks us: the client's, or that of the last proxy before us.
    pub hop: SocketAddr,
    /// The member of our cluster that has forwarded it.
    pub member: Option<MemberId>,
    /// What comes behind its head.
    pub body: RequestBody,
    /// The way back.
    pub reply: Reply<'c>,
    /// What is noted for its record.
    pub record: Notes,
}

/// Value of Cache-Status for an answer that was asked of the origin.
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

/// What an answer says of itself besides its head.
pub struct Said<'a> {
    /// The class of the request.
    pub class: Class,
    /// Its Content-Type, for the log.
    pub content_type: &'a [u8],
    /// Its age, if that is told.
    pub age_s: Option<u32>,
    /// Value of Cache-Status; empty: none is sent.
    pub cache_status: Vec<u8>,
}

impl<'c> Exchange<'c> {
    /// A request that has just come. `incoming` keeps its head.
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

    /// The configuration under which it is answered: that of its listener when it came.
    pub fn edition(&self) -> &Edition {
        &self.listener.edition
    }

    /// Begins an answer: what it says of itself goes behind the lines of its head.
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

    /// Answers with a body that is at hand, from `started` on.
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

    /// An answer of our own: a sentence for the person who sees it, if there is one, and further fields.
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

    /// An answer of our own with this body.
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

    /// An answer of our own whose Cache-Status has this detail, if any.
    pub async fn refuse(&mut self, status: u16, reason: &str, detail: Option<&str>) -> After {
        let mut line = Vec::new();
        if let Some(detail) = detail {
            CacheStatus::own(&self.edition().cache_name, &mut line).detail(detail);
        }
        self.own(status, reason, &[], line).await
    }

    /// The answer that is owed when the origin gives none.
    pub async fn failed(&mut self, why: Forward, status: u16, token: &str, reason: &str) -> After {
        self.failed_for_now(why, status, token, reason, None).await
    }

    /// The same; `retry_after_s`: when it is worth another try, if that is known.
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

    /// Nothing is sent, for the client has gone.
    pub fn abandon(&mut self, class: Class) -> After {
        self.reply.leave();
        self.record.class = class;
        self.finish()
    }

    /// Ends an exchange that was a tunnel since `started`, through which so many bytes went to the client.
    pub fn finish_tunnel(&mut self, started: Instant, to_client: u64) -> After {
        self.record.class = Class::Tunnel;
        self.record.received(to_client);
        self.finish_with(Some((started, to_client)))
    }

    /// Has the client's connection another request behind this one? Not if it may still send a body that nobody reads.
    pub fn keep_open_without_body(&mut self, framing: Framing) {
        self.reply
            .keep_open_if(matches!(framing, Framing::None | Framing::Length(0)));
    }

    /// Counts and logs the request; says what happens to the connection.
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
