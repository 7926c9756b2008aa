//! The short way: a fresh object in memory, asked for plainly.
//!
//! No wait, no allocation, no formatting machinery: key in scratch space, one look-up, two numbers appended to
//! the stored head, one write. Anything out of the ordinary (a directive, a condition, a range, a body, a
//! stale object) answers [`Fast::NotHere`] and takes the long way.
//!
//! An object that is not in memory but on disk is nearly as plain: [`Fast::OnDisk`] has its extent pinned, and
//! [`from_disk`] reads, verifies and sends it. Should that come to nothing (stale, corrupt, gone), the request is
//! parsed again and takes the long way too.

use crate::clock::Instant;
use std::{io::ErrorKind, io::IoSlice, rc::Rc};

use bytes::{Buf, Bytes};
use http1::{Framing, RequestView};
use httpcache::{StandingFlags, UnixMillis};
use message::{Seen, Version, write_decimal};
use profile::{Class, StageName, access::Hierarchy};
use store::{KeyHash, Lookup, ReadGuard, Sequence};

use crate::{
    cache::disk::Unread,
    cache::object::Object,
    conn::client::{Conn, Incoming},
    conn::pace::{self, Wrote},
    fetch::pass,
    record::metrics,
    request::asking::{Asking, Kept},
    request::rulebook::Shape,
    request::target,
    state::{Finished, Stages, Worker},
};

/// Bodies up to this are copied behind the head and sent as one buffer: cheaper than a vectored write.
const COPY_BYTES_MAX: usize = 4096;

/// Fields that make a request take the long way.
const NOT_PLAIN: Seen = Seen::CACHE_CONTROL
    .union(Seen::PRAGMA)
    .union(Seen::RANGE)
    .union(Seen::IF_RANGE)
    .union(Seen::IF_NONE_MATCH)
    .union(Seen::IF_MODIFIED_SINCE)
    .union(Seen::IF_MATCH)
    .union(Seen::IF_UNMODIFIED_SINCE)
    .union(Seen::EXPECT)
    .union(Seen::CONTENT_LENGTH)
    .union(Seen::TRANSFER_ENCODING);

/// What became of a request here.
pub enum Fast {
    /// Answered.
    Sent,
    /// Answered, and the client wants no more.
    SentLast,
    /// Answered as far as the socket took it.
    Unsent(Box<Unsent>),
    /// The client has gone.
    Failed,
    /// Not for this way.
    NotHere,
    /// Not in memory: to be read from disk.
    OnDisk(Box<OnDisk>),
}

/// A plain request whose object is on disk.
pub struct OnDisk {
    guard: Option<ReadGuard>,
    /// The key, and behind it the request's head, in case the long way must be taken.
    key_and_head: Vec<u8>,
    key_len: usize,
    route: Option<usize>,
    hash: KeyHash,
    sequence: Sequence,
    began: Instant,
    accepted: Option<Instant>,
    keep_open: bool,
}

impl OnDisk {
    /// What was asked, as far as it is wanted.
    fn asking(&self, worker: &Worker) -> Asking<'_> {
        let nothing = Asking {
            method: b"GET",
            ..Asking::default()
        };
        if !worker.logs_access {
            return nothing;
        }
        let head = &self.key_and_head[self.key_len..];
        let mut scratch = http1::Scratch::new();
        let parsed = http1::parse_request(head, &worker.shared.limits, &mut scratch);
        let view = parsed.ok().flatten();
        view.map_or(nothing, |view| Asking::of(&view, true))
    }

    /// The request for the long way.
    fn into_incoming(self, worker: &Worker, skips_disk: bool) -> Option<Box<Incoming>> {
        let head = &self.key_and_head[self.key_len..];
        let mut scratch = http1::Scratch::new();
        let parsed = http1::parse_request(head, &worker.shared.limits, &mut scratch);
        let view = parsed.ok().flatten()?;
        Some(Box::new(Incoming {
            head: view.to_owned(),
            head_bytes: view.head_bytes,
            began: self.began,
            accepted: self.accepted,
            skips_disk,
        }))
    }
}

/// The part of an answer the socket has not taken yet.
pub struct Unsent {
    head: Bytes,
    body: Bytes,
    done: Done,
    keep_open: bool,
}

impl Unsent {
    /// What is left of `head` and `body` behind the first `sent` bytes.
    fn new(head: &[u8], body: &Bytes, sent: usize, done: Done, keep_open: bool) -> Unsent {
        let of_head = sent.min(head.len());
        Unsent {
            head: Bytes::copy_from_slice(&head[of_head..]),
            body: body.slice(sent - of_head..),
            done,
            keep_open,
        }
    }
}

/// What the log needs of a request that is not finished yet.
struct Done {
    began: Instant,
    stages: Stages,
    class: Class,
    status: u16,
    bytes_out: u64,
    route: Option<usize>,
    asking: Kept,
    content_type: Vec<u8>,
    cache_status: Vec<u8>,
}

/// Answers the request if it can be answered here.
pub fn answer(
    worker: &Rc<Worker>,
    conn: &mut Conn,
    view: &RequestView<'_, '_>,
    head: &[u8],
    began: Instant,
    accepted: Option<Instant>,
) -> Fast {
    if view.method != "GET"
        || view.seen.intersects(NOT_PLAIN)
        || view.version != Version::Http11
        || view.framing != Framing::None
        || (view.seen.intersects(Seen::UPGRADE) && asks_to_switch(view))
    {
        return Fast::NotHere;
    }
    let Ok(place) = target::locate(&conn.listener, view.method, view.target, view.host) else {
        return Fast::NotHere;
    };
    let mut key = worker.key.borrow_mut();
    key.clear();
    if conn.listener.book.is_empty() {
        place.write_key(&mut key);
    } else {
        let ruled = place.ruled(&conn.listener.book, view.method);
        // What fields make a difference to is found through its marker.
        if ruled.bypass || ruled.shape.is_some_and(Shape::has_extras) {
            return Fast::NotHere;
        }
        place.write_shaped_key(ruled.shape, &mut key);
    }
    let hash = worker.hasher.hash(&key);
    let mut front = worker.front.borrow_mut();
    let Some(resident) = front.get(&worker.shared.memory, hash, &key) else {
        match &worker.disk {
            Some(disk) if !disk.is_shut(hash) => {}
            _ => return Fast::NotHere,
        }
        // Noted before the look-up: what is invalidated after it is not served.
        let store = worker.shared.store.of(hash);
        let sequence = store.sequence();
        let Lookup::OnDisk(read) = store.look_up(hash) else {
            return Fast::NotHere;
        };
        let mut key_and_head = Vec::with_capacity(key.len() + view.head_bytes);
        key_and_head.extend_from_slice(&key);
        key_and_head.extend_from_slice(&head[..view.head_bytes]);
        return Fast::OnDisk(Box::new(OnDisk {
            guard: Some(store.guard(read)),
            key_and_head,
            key_len: key.len(),
            route: place.route_number(),
            hash,
            sequence,
            began,
            accepted,
            keep_open: view.keep_alive,
        }));
    };
    let object = &resident.object;
    let now = worker.unix_ms(began);
    if !object.standing.is_fresh_for(conn.listener.foreign, now) {
        return Fast::NotHere;
    }

    let mut out = worker.output.borrow_mut();
    let (status_from, status_to) = write_hit_head(worker, object, now, view.keep_alive, &mut out);
    let head_len = out.len();
    let body = &object.body;
    let total = head_len + body.len();
    let Some(sent) = send(conn, &mut out, body) else {
        metrics::add(&worker.counters.client_aborts, 1);
        return Fast::Failed;
    };
    let class = if object.standing.flags.contains(StandingFlags::NEGATIVE) {
        Class::NegativeHit
    } else {
        Class::MemoryHit
    };
    let ended = Instant::now();
    let mut stages = Stages::default();
    if worker.journals {
        if let Some(accepted) = accepted {
            stages.set(StageName::ClientConnect, began, accepted, began, began);
        }
        stages.set(StageName::ProxyReply, began, began, ended, ended);
    }
    if sent < total {
        let done = Done {
            began,
            stages,
            class,
            status: object.status,
            bytes_out: total as u64,
            route: place.route_number(),
            asking: Asking::of(view, worker.logs_access).into(),
            content_type: object.content_type().to_vec(),
            cache_status: out[status_from..status_to].to_vec(),
        };
        let unsent = Unsent::new(&out, body, sent, done, view.keep_alive);
        return Fast::Unsent(Box::new(unsent));
    }
    worker.finish(&Finished {
        began,
        ended,
        class,
        status: object.status,
        bytes_out: total as u64,
        stages,
        client: conn.peer,
        listener: &conn.listener,
        route: place.route_number(),
        asking: Asking::of(view, worker.logs_access),
        content_type: object.content_type(),
        hierarchy: Hierarchy::None,
        peer: b"",
        cache_status: &out[status_from..status_to],
    });
    if view.keep_alive {
        Fast::Sent
    } else {
        Fast::SentLast
    }
}

/// Might the upgrade be honoured? Others (h2c, which some clients always offer) are ordinary requests.
fn asks_to_switch(view: &RequestView<'_, '_>) -> bool {
    view.first(b"upgrade").is_some_and(pass::may_switch_to)
}

/// Puts the head of a hit together; returns where our Cache-Status lies in it.
fn write_hit_head(
    worker: &Worker,
    object: &Object,
    now: UnixMillis,
    keep_open: bool,
    out: &mut Vec<u8>,
) -> (usize, usize) {
    out.clear();
    out.extend_from_slice(&object.head);
    out.extend_from_slice(b"Age: ");
    write_decimal(u64::from(object.standing.age_s(now)), out);
    out.extend_from_slice(b"\r\nCache-Status: ");
    let from = out.len();
    let prefix = &worker.shared.hit_prefix;
    httpcache::cache_status::write_hit(prefix, object.standing.ttl_s(now), out);
    let to = out.len();
    if keep_open {
        out.extend_from_slice(b"\r\n\r\n");
    } else {
        out.extend_from_slice(b"\r\nConnection: close\r\n\r\n");
    }
    (from, to)
}

/// Writes head and body as far as the socket takes them now; `None` when the client has gone.
fn send(conn: &Conn, head: &mut Vec<u8>, body: &Bytes) -> Option<usize> {
    let result = if body.len() <= COPY_BYTES_MAX {
        let head_len = head.len();
        head.extend_from_slice(body);
        let result = conn.stream.try_write(head);
        head.truncate(head_len);
        result
    } else {
        conn.stream
            .try_write_vectored(&[IoSlice::new(head), IoSlice::new(body)])
    };
    match result {
        Ok(sent) => Some(sent),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Some(0),
        Err(_) => None,
    }
}

/// What became of a plain request for an object on disk.
pub enum FromDisk {
    /// Answered; true when the connection stays.
    Sent(bool),
    /// It must take the long way.
    NotServed(Box<Incoming>),
}

/// Reads an object from disk and sends it: one read, one write.
pub async fn from_disk(worker: &Rc<Worker>, conn: &mut Conn, on_disk: Box<OnDisk>) -> FromDisk {
    let Some(disk) = &worker.disk else {
        return FromDisk::Sent(false);
    };
    let mut on_disk = *on_disk;
    let start = Instant::now();
    let shared = &worker.shared;
    let loaded = match on_disk.guard.take() {
        Some(guard) => {
            let key = &on_disk.key_and_head[..on_disk.key_len];
            disk.finish_load(guard, on_disk.hash, key).await
        }
        None => Err(Unread::Absent),
    };
    let skips_disk = matches!(loaded, Err(Unread::GivenUp));
    let object = loaded.ok().map(|loaded| {
        shared.take_along(loaded.beside, on_disk.sequence);
        loaded.object
    });
    let read = Instant::now();
    let now = worker.unix_ms(read);
    let foreign = conn.listener.foreign;
    let object = object.filter(|o| {
        o.large.is_none()
            && o.standing.is_fresh_for(foreign, now)
            && shared.still_valid(o, on_disk.sequence)
    });
    let Some(object) = object else {
        return match on_disk.into_incoming(worker, skips_disk) {
            Some(incoming) => FromDisk::NotServed(incoming),
            None => FromDisk::Sent(false),
        };
    };
    let class = match object.standing.flags.contains(StandingFlags::NEGATIVE) {
        true => Class::NegativeHit,
        false => Class::DiskHit,
    };
    let mut stages = Stages::default();
    let began = on_disk.began;
    if worker.journals {
        if let Some(accepted) = on_disk.accepted {
            stages.set(StageName::ClientConnect, began, accepted, began, began);
        }
        stages.set(StageName::SwapIn, began, start, read, read);
    }
    let asking = on_disk.asking(worker);
    let (unsent, whole) = {
        let mut out = worker.output.borrow_mut();
        let (from, to) = write_hit_head(worker, &object, now, on_disk.keep_open, &mut out);
        let total = out.len() + object.body.len();
        match send(conn, &mut out, &object.body) {
            None => {
                metrics::add(&worker.counters.client_aborts, 1);
                (None, false)
            }
            Some(sent) if sent == total => {
                let ended = Instant::now();
                if worker.journals {
                    stages.set(StageName::ProxyReply, began, read, ended, ended);
                }
                worker.finish(&Finished {
                    began,
                    ended,
                    class,
                    status: object.status,
                    bytes_out: total as u64,
                    stages,
                    client: conn.peer,
                    listener: &conn.listener,
                    route: on_disk.route,
                    asking,
                    content_type: object.content_type(),
                    hierarchy: Hierarchy::None,
                    peer: b"",
                    cache_status: &out[from..to],
                });
                (None, true)
            }
            Some(sent) => {
                let done = Done {
                    began,
                    stages,
                    class,
                    status: object.status,
                    bytes_out: total as u64,
                    route: on_disk.route,
                    asking: asking.into(),
                    content_type: object.content_type().to_vec(),
                    cache_status: out[from..to].to_vec(),
                };
                let unsent = Unsent::new(&out, &object.body, sent, done, on_disk.keep_open);
                (Some(unsent), true)
            }
        }
    };
    let sequence = on_disk.sequence;
    shared
        .memory
        .promote(&object, |object| shared.may_publish(object, sequence));
    let keep_open = match unsent {
        Some(unsent) => send_rest(worker, conn, unsent).await,
        None => whole && on_disk.keep_open,
    };
    FromDisk::Sent(keep_open)
}

/// Sends what the socket did not take at once. False when the connection is over.
pub async fn send_rest(worker: &Rc<Worker>, conn: &mut Conn, mut unsent: Unsent) -> bool {
    let mut whole = true;
    while unsent.head.has_remaining() || unsent.body.has_remaining() {
        match pace::write_once(worker, conn, &unsent.head, &unsent.body, None).await {
            Wrote::Some(n) => {
                let of_head = n.min(unsent.head.len());
                unsent.head.advance(of_head);
                unsent.body.advance(n - of_head);
            }
            _ => {
                whole = false;
                break;
            }
        }
    }
    let done = unsent.done;
    let left = (unsent.head.len() + unsent.body.len()) as u64;
    if !whole {
        metrics::add(&worker.counters.client_aborts, 1);
    }
    let ended = Instant::now();
    let mut stages = done.stages;
    stages.set(
        StageName::ProxyReply,
        done.began,
        done.began,
        done.began,
        ended,
    );
    worker.finish(&Finished {
        began: done.began,
        ended,
        class: done.class,
        status: done.status,
        bytes_out: done.bytes_out - left,
        stages,
        client: conn.peer,
        listener: &conn.listener,
        route: done.route,
        asking: done.asking.with_body(0),
        content_type: &done.content_type,
        hierarchy: Hierarchy::None,
        peer: b"",
        cache_status: &done.cache_status,
    });
    whole && unsent.keep_open
}
