//! From events to answers: what the connection does with bytes that came.
//!
//! A plain request for what is fresh in memory is answered here, without a task and without an allocation. All others get a task, which
//! belongs to the connection.

use std::rc::Rc;

use bytes::Bytes;
use http2::{ErrorCode, Event, Fault, RequestView, ResetBy};
use profile::{Class, Protocol, StageName, access::Asking};

use super::{
    head,
    hit::{self, Hit, Who},
    serve::Server,
    stream::{self, Work},
    websocket::Key,
};
use crate::{
    conn::look::{self, Asker, Fresh, Looked, NOT_PLAIN, Pinned, Plain},
    request::{asking::Kept, finished::Finished, incoming::Incoming},
    state::{StreamCount, Worker},
};
use base::clock::Instant;
use record::{
    facts::{Facts, Stages},
    metrics,
};

/// What is done before other connections of the worker get their turn.
const TURN_COST: usize = 64 * HIT_COST;
/// A hit in memory costs so much of it, and DATA of an upload one, however small its frame is.
const HIT_COST: usize = 16;
/// A request with a task: its task runs before the next connection does.
const TASK_COST: usize = 4 * HIT_COST;

/// How far input was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// All that can be understood.
    All,
    /// It is somebody else's turn, or output must be written first.
    Enough,
    /// The connection ends.
    Fatal,
}

/// What is done about a request.
enum Do {
    /// Its head is in the worker's output, this is its body.
    Hit(Bytes),
    Task(Box<Work>),
    Refuse,
}

impl Server<'_> {
    /// Takes what came at that moment. Returns the bytes that are done with.
    pub fn take_input(&mut self, bytes: &[u8], began: Instant) -> (usize, Taken) {
        let link = Rc::clone(&self.link);
        let worker = self.worker;
        let now = link.at(began);
        let (mut used, mut cost) = (0, 0);
        loop {
            let mut http = link.http();
            let Ok(taken) = http.handle_input(&bytes[used..], now) else {
                return (bytes.len(), Taken::Fatal);
            };
            used += taken.bytes;
            match taken.event {
                None => {
                    let is_enough = http.must_write() && used < bytes.len();
                    return (
                        used,
                        match is_enough {
                            true => Taken::Enough,
                            false => Taken::All,
                        },
                    );
                }
                Some(Event::Request { stream, head }) => {
                    metrics::add(&worker.counters.h2_streams, 1);
                    self.requests += 1;
                    let (ends, head_bytes) = (head.ends, head.head_bytes);
                    match self.request(&head, began) {
                        Do::Hit(body) => {
                            if link.is_early() {
                                metrics::add(&worker.counters.tls_early_hits, 1);
                            }
                            let out = worker.output.borrow();
                            http.begin(stream, [&out, b""], body.is_empty());
                            if !body.is_empty() {
                                http.piece(stream, body, now);
                                http.end(stream);
                            }
                        }
                        Do::Task(work) => {
                            let holder = link.holder(&worker.shared.ledger);
                            let Some(count) = StreamCount::take(worker, &holder, head_bytes) else {
                                metrics::add(&worker.counters.h2_streams_refused, 1);
                                http.reset(stream, ErrorCode::REFUSED_STREAM);
                                continue;
                            };
                            drop(http);
                            let worker = Rc::clone(worker);
                            let stream = link.open(stream, ends);
                            cost += TASK_COST - HIT_COST;
                            self.tasks
                                .spawn_local(stream::run(worker, stream, work, count));
                        }
                        Do::Refuse => http.reset(stream, ErrorCode::REFUSED_STREAM),
                    }
                    cost += HIT_COST;
                }
                Some(Event::Data {
                    stream,
                    bytes,
                    ends,
                }) => {
                    let len = bytes.len();
                    if !link.data(stream, bytes, ends) {
                        http.consumed(stream, len);
                    }
                    cost += 1;
                }
                Some(Event::Trailers { stream, fields }) => link.trailers(stream, fields),
                Some(Event::Reset { stream, by }) => {
                    if let ResetBy::Client(_) = by {
                        metrics::add(&worker.counters.h2_resets, 1);
                    }
                    if !link.reset(stream) {
                        http.release(stream);
                    }
                }
                Some(Event::Refused(fault)) => {
                    self.requests += 1;
                    if fault != Fault::Refused {
                        self.note_malformed(fault, began);
                    }
                }
                Some(Event::GoAway(_)) => {}
            }
            if cost >= TURN_COST {
                return (used, Taken::Enough);
            }
        }
    }

    /// Counts and logs a request whose head was refused, as over HTTP/1. Most of them are reset instead of answered; the log says 400.
    fn note_malformed(&mut self, fault: Fault, began: Instant) {
        let (worker, conn) = (self.worker, &mut self.conn);
        metrics::add(&worker.counters.requests_malformed, 1);
        tracing::debug!(client = %conn.peer, "a request is refused: {fault}");
        let accepted = conn.accepted.take();
        let (kept, ended) = (Kept::nonsense(), Instant::now());
        let mut stages = Stages::default();
        if let Some(accepted) = accepted {
            stages.set(StageName::ClientConnect, accepted, accepted, began, began);
        }
        worker.finish(&Finished {
            began: accepted.unwrap_or(began),
            seen: began,
            ended,
            class: Class::Error,
            status: fault.status().unwrap_or(400),
            bytes_out: 0,
            stages,
            client: conn.peer,
            tls: conn.tls.as_deref(),
            listener: &conn.listener,
            route: None,
            asking: kept.with_body(0),
            has_body: false,
            http_client: Protocol::Http2,
            content_type: b"",
            facts: Facts::of_request(accepted.is_some()),
            peer: b"",
            cache_status: b"",
            tag: None,
        });
    }

    fn request(&mut self, view: &RequestView<'_>, began: Instant) -> Do {
        let (worker, conn) = (self.worker, &mut self.conn);
        if !conn.follow(worker) {
            metrics::add(&worker.counters.client_connections_refused, 1);
            conn.is_leaving = true;
            return Do::Refuse;
        }
        let barred = match conn.asks_for_client() {
            true => {
                let name = conn.listener.listener.naming.field.name().as_bytes();
                conn.believe_lines(view.fields.all(name))
            }
            false => None,
        };
        let accepted = conn.accepted.take();
        let listener = Rc::clone(&conn.listener);
        head::write_target(view, &listener, &mut self.target);
        let client = conn.peer.ip();
        let who = &mut self.who;
        if !Rc::ptr_eq(&who.listener, &listener) {
            who.listener = Rc::clone(&listener);
        }
        (who.peer, who.hop) = (conn.peer, conn.hop);
        let is_plain = view.method == "GET"
            && view.ends
            && barred.is_none()
            && !view.seen.intersects(NOT_PLAIN);
        let mut pinned: Option<Box<Pinned>> = None;
        let mut absent = None;
        if is_plain {
            let mut front = worker.front.borrow_mut();
            let asker = Asker {
                listener: &listener,
                client,
                is_member: false,
                standing: &mut conn.standing,
            };
            let plain = Plain {
                target: &self.target,
                host: Some(view.authority),
                fields: view.fields,
            };
            match look::look(worker, &mut front, asker, plain, began) {
                Looked::Long => {}
                Looked::Absent(found) => absent = Some(found),
                Looked::OnDisk(found) => pinned = Some(found),
                Looked::Fresh(fresh) => {
                    let of = OfHit {
                        worker,
                        who,
                        target: &self.target,
                        view,
                    };
                    return of.answer(fresh, (began, accepted), &mut self.said);
                }
            }
        }
        let random = || {
            let halves = [worker.next_id(), worker.next_id()];
            let mut random = [0; 16];
            random[..8].copy_from_slice(&halves[0].to_le_bytes());
            random[8..].copy_from_slice(&halves[1].to_le_bytes());
            Key::new(random)
        };
        let (head, purpose) = head::of_view(view, &self.target, random);
        let incoming = Incoming {
            accepted,
            barred,
            absent,
            has_passed: pinned.as_ref().is_some_and(|found| found.passed.is_some()),
            ..Incoming::of_head(head, view.head_bytes, began)
        };
        Do::Task(Box::new(Work {
            who: self.who.clone(),
            incoming,
            purpose,
            pinned,
        }))
    }
}

/// A hit in memory.
struct OfHit<'a> {
    worker: &'a Worker,
    who: &'a Who,
    target: &'a str,
    view: &'a RequestView<'a>,
}

impl OfHit<'_> {
    /// Counts, logs, and leaves the head of the answer in the worker's output.
    fn answer(
        &self,
        fresh: Fresh<'_, '_>,
        (began, accepted): (Instant, Option<Instant>),
        said: &mut Vec<u8>,
    ) -> Do {
        let OfHit {
            worker, who, view, ..
        } = *self;
        let Fresh {
            resident,
            hash,
            place,
            rules,
            passed,
        } = fresh;
        let object = &resident.object;
        let mut stages = Stages::default();
        if let (true, Some(accepted)) = (worker.journals(), accepted) {
            stages.set(StageName::ClientConnect, accepted, accepted, began, began);
        }
        let field = |name: &[u8]| match worker.logs_access.get() {
            true => view.fields.first(name).unwrap_or_default(),
            false => b"",
        };
        let block = (worker.shared.cache.memory).block_of(resident, || hit::block_of(object));
        let client = who.peer.ip();
        let hit = Hit {
            who,
            object,
            block: block.map(|block| &block[..]),
            now: worker.unix_ms(began),
            class: Class::MemoryHit,
            began: accepted.unwrap_or(began),
            seen: began,
            started: began,
            stages,
            facts: Facts::of_hit(accepted.is_some(), hash.0, object.stored_bytes()),
            route: place.route_number(),
            asking: Asking {
                method: view.method.as_bytes(),
                host: view.authority.as_bytes(),
                target: self.target.as_bytes(),
                bytes_in: view.head_bytes as u64,
                referer: field(b"referer"),
                user_agent: field(b"user-agent"),
            },
            tag: rules.tag,
            changing: rules.changing(&place, view.fields, client, || worker.next_id()),
            passed,
        };
        let mut out = worker.output.borrow_mut();
        hit.answer(worker, said, &mut out);
        Do::Hit(object.body.clone())
    }
}
