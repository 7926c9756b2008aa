//! The short way: a fresh object in memory, asked for plainly.
//!
//! No wait, no allocation, no formatting machinery: key in scratch space, one look-up, two numbers appended to
//! the stored head, one write. Anything out of the ordinary (a directive, a condition, a range, a body, a
//! stale object) answers [`Fast::NotHere`] and takes the long way.

use std::{io::IoSlice, io::ErrorKind, pin::pin, rc::Rc, time::Instant};

use bytes::{Buf, Bytes};
use http1::{Framing, RequestView, Seen, Version, write_decimal};
use httpcache::StandingFlags;
use profile::{Class, StageName, access::Hierarchy};
use tokio::io::AsyncWriteExt;

use crate::{
    client::Conn,
    metrics,
    state::{Finished, Stages, Worker},
    target,
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
    .union(Seen::UPGRADE)
    .union(Seen::CONTENT_LENGTH)
    .union(Seen::TRANSFER_ENCODING);

/// What became of a request here.
pub enum Fast {
    /// Answered.
    Sent,
    /// Answered, and the client wants no more.
    SentLast,
    /// Answered as far as the socket took it.
    Unsent(Unsent),
    /// The client has gone.
    Failed,
    /// Not for this way.
    NotHere,
}

/// The part of an answer the socket has not taken yet.
pub struct Unsent {
    head: Bytes,
    body: Bytes,
    done: Done,
    keep_open: bool,
}

/// What the log needs of a request that is not finished yet.
struct Done {
    began: Instant,
    stages: Stages,
    class: Class,
    status: u16,
    bytes_out: u64,
    uri: Vec<u8>,
    content_type: Vec<u8>,
}

/// Answers the request if it can be answered here.
pub fn answer(
    worker: &Rc<Worker>,
    conn: &mut Conn,
    view: &RequestView<'_, '_>,
    began: Instant,
    accepted: Option<Instant>,
) -> Fast {
    if view.method != "GET"
        || view.seen.intersects(NOT_PLAIN)
        || view.version != Version::Http11
        || view.framing != Framing::None
    {
        return Fast::NotHere;
    }
    let Ok(place) = target::locate(&conn.listener, view.method, view.target, view.host) else {
        return Fast::NotHere;
    };
    let mut key = worker.key.borrow_mut();
    key.clear();
    place.write_key(&mut key);
    let hash = worker.hasher.hash(&key);
    let mut front = worker.front.borrow_mut();
    let Some(resident) = front.get(&worker.shared.memory, hash, &key) else {
        return Fast::NotHere;
    };
    let object = &resident.object;
    let now = worker.unix_ms(began);
    if !object.standing.is_fresh(now) {
        return Fast::NotHere;
    }

    let mut out = worker.output.borrow_mut();
    out.clear();
    out.extend_from_slice(&object.head);
    out.extend_from_slice(b"Age: ");
    write_decimal(u64::from(object.standing.age_s(now)), &mut out);
    out.extend_from_slice(b"\r\nCache-Status: ");
    let status_from = out.len();
    out.extend_from_slice(worker.shared.plan.name.as_bytes());
    out.extend_from_slice(b"; hit; ttl=");
    write_decimal(object.standing.ttl_s(now).max(0) as u64, &mut out);
    let status_to = out.len();
    if view.keep_alive {
        out.extend_from_slice(b"\r\n\r\n");
    } else {
        out.extend_from_slice(b"\r\nConnection: close\r\n\r\n");
    }
    let head_len = out.len();
    let body = &object.body;
    let total = head_len + body.len();
    let result = if body.len() <= COPY_BYTES_MAX {
        out.extend_from_slice(body);
        conn.stream.try_write(&out)
    } else {
        conn.stream
            .try_write_vectored(&[IoSlice::new(&out), IoSlice::new(body)])
    };
    let sent = match result {
        Ok(sent) => sent,
        Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
        Err(_) => {
            metrics::add(&worker.counters.client_aborts, 1);
            return Fast::Failed;
        }
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
            uri: key[target::KEY_PREFIX.len()..].to_vec(),
            content_type: object.content_type().to_vec(),
        };
        let mut body = body.clone();
        let head = if sent < head_len {
            Bytes::copy_from_slice(&out[sent..head_len])
        } else {
            body.advance(sent - head_len);
            Bytes::new()
        };
        return Fast::Unsent(Unsent {
            head,
            body,
            done,
            keep_open: view.keep_alive,
        });
    }
    worker.finish(&Finished {
        began,
        ended,
        class,
        status: object.status,
        bytes_out: total as u64,
        stages,
        client: conn.peer,
        method: b"GET",
        uri: &key[target::KEY_PREFIX.len()..],
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

/// Sends what the socket did not take at once. False when the connection is over.
pub async fn send_rest(worker: &Rc<Worker>, conn: &mut Conn, mut unsent: Unsent) -> bool {
    let limit = worker.shared.plan.timeouts.client_write;
    let mut whole = true;
    while unsent.head.has_remaining() || unsent.body.has_remaining() {
        let write = async {
            let slices = [IoSlice::new(&unsent.head), IoSlice::new(&unsent.body)];
            conn.stream.write_vectored(&slices).await
        };
        match conn.watch.limit(limit, pin!(write)).await {
            Ok(Ok(n)) if n > 0 => {
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
    stages.set(StageName::ProxyReply, done.began, done.began, done.began, ended);
    worker.finish(&Finished {
        began: done.began,
        ended,
        class: done.class,
        status: done.status,
        bytes_out: done.bytes_out - left,
        stages,
        client: conn.peer,
        method: b"GET",
        uri: &done.uri,
        content_type: &done.content_type,
        hierarchy: Hierarchy::None,
        peer: b"",
        cache_status: b"hit",
    });
    whole && unsent.keep_open
}
