//! Turns the events of received bytes into answers and tasks.
//!
//! A plain request for a fresh object in memory is answered here, without a task and without an allocation. Every other request gets a
//! task, which belongs to the connection.

use std::{rc::Rc, time::Duration};

use bytes::Bytes;
use http2::{Connection, ErrorCode, Event, Fault, RequestView, ResetBy, StreamId};
use profile::{Class, Protocol, StageName, access::Asking};

use super::{
    block::block_of,
    head,
    hit::ByConnection,
    serve::Server,
    stream::{self, Work},
    websocket::Key,
};
use crate::{
    hit::{
        answer::{Asked, Hit},
        look::{self, Asker, Looked, NOT_PLAIN, Pinned, Plain},
    },
    request::{
        asking::Kept,
        finished::Finished,
        incoming::{Absent, Incoming},
    },
    state::StreamCount,
};
use base::clock::Instant;
use base::mistakes::{Mistake, makes};
use record::{
    facts::{Facts, Stages},
    metrics,
};

/// Cost of the events handled before other connections of the worker are served.
const TURN_COST: usize = 64 * HIT_COST;
/// Cost of a hit in memory. A DATA frame of an upload costs 1, however small it is.
const HIT_COST: usize = 16;
/// Cost of a request with a task: the task runs before the next connection does.
const TASK_COST: usize = 4 * HIT_COST;

/// How much of the input was handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// All complete frames.
    All,
    /// Other connections must be served, or output must be written first.
    Enough,
    /// The connection ends.
    Fatal,
}

/// How to handle a request.
enum Do {
    /// Its head is in the worker's output; this is its body.
    Hit(Bytes),
    Task(Box<Work>),
    Refuse,
}

impl Server<'_> {
    /// Handles bytes received at `began`. Returns how many were used.
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
                    let what = self.request(&head, began);
                    cost += self.carry_out(what, &mut http, stream, now);
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
                    if let ResetBy::Peer(_) = by {
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
                Some(Event::Response { .. } | Event::GoAway(_)) => {}
            }
            if cost >= TURN_COST {
                return (used, Taken::Enough);
            }
        }
    }

    /// Carries out the decision about a request. Returns its cost.
    fn carry_out(
        &mut self,
        what: Do,
        http: &mut Connection,
        stream: StreamId,
        now: Duration,
    ) -> usize {
        let (worker, link) = (self.worker, &self.link);
        match what {
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
                HIT_COST
            }
            Do::Task(work) => {
                let holder = link.holder(&worker.shared.ledger);
                let head_bytes = work.incoming.head_bytes;
                let Some(count) = StreamCount::take(worker, &holder, head_bytes) else {
                    metrics::add(&worker.counters.h2_streams_refused, 1);
                    http.reset(stream, ErrorCode::REFUSED_STREAM);
                    return 0;
                };
                let stream = link.open(stream, work.has_ended);
                let task = stream::run(Rc::clone(worker), stream, work, count);
                // Boxed first, as in `fetch::task`: the runtime moves a future several times.
                self.tasks.spawn_local(Box::pin(task));
                TASK_COST
            }
            Do::Refuse => {
                http.reset(stream, ErrorCode::REFUSED_STREAM);
                HIT_COST
            }
        }
    }

    /// Counts and logs a request with a malformed head, as over HTTP/1. Most of these are reset instead of answered; the log says 400.
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

    /// Decides how to handle a request that was seen at `began`.
    fn request(&mut self, view: &RequestView<'_>, began: Instant) -> Do {
        let (worker, conn) = (self.worker, &mut self.conn);
        if !conn.follow() {
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
        if !makes(Mistake::MixStreams) || self.target.is_empty() {
            head::write_target(view, &conn.listener, &mut self.target);
        }
        let who = &mut self.who;
        if !Rc::ptr_eq(&who.listener, &conn.listener) {
            who.listener = Rc::clone(&conn.listener);
        }
        (who.peer, who.hop) = (conn.peer, conn.hop);
        let is_plain = view.method == "GET"
            && view.ends
            && barred.is_none()
            && !view.seen.intersects(NOT_PLAIN);
        let (pinned, absent) = match is_plain {
            true => match self.hit(view, began, accepted) {
                Ok(body) => return Do::Hit(body),
                Err(found) => found,
            },
            false => (None, None),
        };
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
            has_ended: view.ends,
            purpose,
            pinned,
        }))
    }

    /// Answers a plain request from memory: leaves the head in the worker's output, and returns the body. `Err`: the result of the look-up,
    /// which need not be repeated.
    fn hit(
        &mut self,
        view: &RequestView<'_>,
        seen: Instant,
        accepted: Option<Instant>,
    ) -> Result<Bytes, (Option<Box<Pinned>>, Option<Absent>)> {
        let (worker, who) = (self.worker, &self.who);
        let mut front = worker.front.borrow_mut();
        let asker = Asker {
            listener: &who.listener,
            client: who.peer.ip(),
            is_member: false,
            standing: &mut self.conn.standing,
        };
        let plain = Plain {
            target: &self.target,
            host: Some(view.authority),
            fields: view.fields,
        };
        let fresh = match look::look(worker, &mut front, asker, plain, seen) {
            Looked::Fresh(fresh) => fresh,
            Looked::Long => return Err((None, None)),
            Looked::Absent(absent) => return Err((None, Some(absent))),
            Looked::OnDisk(pinned) => return Err((Some(pinned), None)),
        };
        let asked = Asked {
            asking: asking_of(view, &self.target, worker.logs_access.get()),
            fields: view.fields,
            seen,
            accepted,
        };
        let (resident, memory) = (fresh.resident, &worker.shared.cache.memory);
        let object = &resident.object;
        let block = memory.block_of(resident, || block_of(object));
        let mut sink = ByConnection {
            block: block.map(|block| &block[..]),
        };
        Hit::in_memory(fresh, who.by(), asked).answer(worker, &mut sink);
        Ok(object.body.clone())
    }
}

/// The log's description of a request. Reads Referer and User-Agent only if an access log is written (`logged`).
fn asking_of<'a>(view: &RequestView<'a>, target: &'a str, logged: bool) -> Asking<'a> {
    let fields = view.fields;
    let field = |name: &[u8]| match logged {
        true => fields.first(name).unwrap_or_default(),
        false => b"",
    };
    Asking {
        method: view.method.as_bytes(),
        host: view.authority.as_bytes(),
        target: target.as_bytes(),
        bytes_in: view.head_bytes as u64,
        referer: field(b"referer"),
        user_agent: field(b"user-agent"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cache::{disk::DiskIo, lazy::LazyReads};
    use device::{Device, Engine, EngineKind};
    use fields::Fields;
    use message::{Scheme, Seen};
    use record::journal::Journal;

    use super::*;
    use crate::{
        conn::socket::Conn,
        listener::listener_states,
        state::{Shared, Worker},
        testing,
    };

    /// A worker with an empty disk.
    fn worker(shared: &Arc<Shared>) -> Rc<Worker> {
        let (edition, cache) = (shared.edition(), &shared.cache);
        let engine = Rc::new(Engine::new(EngineKind::Auto, Device::memory(1 << 20)).unwrap());
        let (mode, deadline) = Default::default();
        let disk = DiskIo::new(
            Arc::clone(&cache.store),
            vec![LazyReads::new(engine, mode, deadline, Arc::default())],
            (Arc::clone(&shared.counters[0]), Arc::clone(&shared.events)),
            Arc::clone(&cache.wake_up),
            &edition.plan.storing,
            shared.clock.clone(),
        );
        let tls = origin::Tls::only(Vec::new());
        let connector = origin::Connector::new(origin::Settings::default(), tls);
        let journal = Journal::open(&edition.plan, 0, false).unwrap().writer();
        let shared = Arc::clone(shared);
        Rc::new(Worker::new(shared, 0, Some(disk), connector, journal))
    }

    fn view(fields: &Fields, seen: Seen) -> RequestView<'_> {
        RequestView {
            method: "GET",
            scheme: Some(Scheme::Http),
            authority: "a.example",
            path: "/a",
            protocol: None,
            fields,
            seen,
            content_length: None,
            ends: true,
            expect_continue: false,
            takes_trailers: false,
            priority: http2::Priority::default(),
            head_bytes: 100,
        }
    }

    #[tokio::test]
    async fn the_task_of_a_miss_is_told_that_there_is_nothing() {
        let shared = testing::shared();
        let worker = worker(&shared);
        let states = listener_states(&shared.edition(), worker.hasher);
        let listening = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listening.local_addr().unwrap();
        let _client = tokio::net::TcpStream::connect(address).await.unwrap();
        let (socket, peer) = listening.accept().await.unwrap();
        let conn = Conn::new(
            Rc::clone(&worker),
            Rc::clone(&states[0]),
            socket,
            peer,
            None,
        );
        let mut server = Server::new(&worker, conn);
        let mut ask = |seen| match server.request(&view(&Fields::new(), seen), Instant::now()) {
            Do::Task(work) => *work,
            _ => panic!("nothing is stored"),
        };
        let absent = ask(Seen::default()).incoming.absent.unwrap();
        let key = String::from_utf8_lossy(&absent.key);
        assert!(key.contains("http://a.example/a"), "{key}");
        // Only the long way looks this one up.
        assert!(ask(Seen::PRAGMA).incoming.absent.is_none());
    }
}
