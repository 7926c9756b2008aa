//! The short way of HTTP/1: a plain request for a fresh object in memory.
//!
//! No wait, no allocation, no formatting: the key is built in scratch space, and a hit costs one look-up, two numbers appended to the
//! stored head, and one write. Anything else (a directive, a condition, a range, a body, a stale object) returns [`Fast::NotHere`] and
//! takes the long way.
//!
//! An object on disk costs little more: [`Fast::OnDisk`] has its extent pinned, and [`from_disk`] reads, verifies and sends it. If the
//! object is large or not fresh, it goes to the long way together with the request, so nothing is parsed or read again.
//!
//!
//! This file knows how HTTP/1 asks and sends. [`crate::hit`] decides what is a hit.

use base::clock::Instant;
use std::{
    io::{ErrorKind, IoSlice},
    rc::Rc,
};

use bytes::Bytes;
use http1::RequestView;
use message::{Framing, Seen, Version};
use profile::Protocol;

use crate::{
    conn::socket::Conn,
    hit::{
        answer::{Asked, By, Head, Hit, Sent, Sink, Taken, Unsent},
        disk,
        look::{self, Asker, Looked, NOT_PLAIN, Pinned, Plain},
    },
    reply::{After, Reply, h1::H1},
    request::{
        asking,
        body::RequestBody,
        exchange::Exchange,
        incoming::{Absent, Incoming},
        methods,
    },
};
use ledger::pause;
use tls::stream::ClientStream;

/// A longer body read from disk counts in the ledger until it is sent.
const COUNTED_BYTES_MIN: usize = 64 << 10;

/// Bodies up to this are copied behind the head and sent as one buffer: cheaper than a vectored write.
const COPY_BYTES_MAX: usize = 4096;

/// The result of the short way.
pub enum Fast {
    /// The request was a hit.
    Hit(Sent),
    /// The request must take the long way.
    NotHere,
    /// The object is neither in memory nor on disk.
    Absent(Absent),
    /// The object must be read from disk.
    OnDisk(Box<OnDisk>),
}

/// A plain request whose object is on disk.
pub struct OnDisk {
    /// The request, in case it must take the long way.
    incoming: Incoming,
    pinned: Pinned,
}

impl OnDisk {
    /// When the connection was accepted, if this is its first request.
    pub fn accepted(&self) -> Option<Instant> {
        self.incoming.accepted
    }
}

/// Answers the request if the short way can.
pub fn answer(
    conn: &mut Conn,
    view: &RequestView<'_, '_>,
    began: Instant,
    accepted: Option<Instant>,
) -> Fast {
    if view.method != "GET"
        || view.seen.intersects(NOT_PLAIN)
        || view.version != Version::Http11
        || !matches!(view.framing, Framing::None | Framing::Length(0))
        || (view.seen.intersects(Seen::UPGRADE) && asks_to_switch(view))
    {
        return Fast::NotHere;
    }
    let worker = Rc::clone(&conn.worker);
    let mut front = worker.front.borrow_mut();
    let asker = Asker {
        listener: &conn.listener,
        client: conn.peer.ip(),
        is_member: conn.member.is_some(),
        standing: &mut conn.standing,
    };
    let plain = Plain {
        target: view.target,
        host: view.host,
        fields: view,
    };
    let fresh = match look::look(&worker, &mut front, asker, plain, began) {
        Looked::Fresh(fresh) => fresh,
        Looked::Long => return Fast::NotHere,
        Looked::Absent(absent) => return Fast::Absent(absent),
        Looked::OnDisk(pinned) => {
            return Fast::OnDisk(Box::new(OnDisk {
                incoming: Incoming {
                    has_passed: pinned.passed.is_some(),
                    ..Incoming::new(view, began, accepted)
                },
                pinned: *pinned,
            }));
        }
    };
    let asked = Asked {
        asking: asking::of(view, worker.logs_access.get()),
        fields: view,
        seen: began,
        accepted,
    };
    let by = By {
        client: conn.peer,
        tls: conn.tls.as_deref(),
        listener: &conn.listener,
    };
    let mut socket = ToSocket {
        stream: &mut conn.stream,
        keep_open: view.keep_alive,
    };
    Fast::Hit(Hit::in_memory(fresh, by, asked).answer(&worker, &mut socket))
}

/// Might the upgrade be granted? A request for another one (h2c, which some clients always offer) is an ordinary request.
fn asks_to_switch(view: &RequestView<'_, '_>) -> bool {
    view.first(b"upgrade").is_some_and(methods::may_switch_to)
}

/// Writes hits to the client's socket.
struct ToSocket<'c> {
    stream: &'c mut ClientStream,
    keep_open: bool,
}

impl Sink for ToSocket<'_> {
    const PROTOCOL: Protocol = Protocol::Http11;

    #[inline(always)]
    fn write_head(&self, head: &Head<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(head.changed.unwrap_or(&head.object.head));
        out.extend_from_slice(head.said);
        out.extend_from_slice(match self.keep_open {
            true => b"\r\n\r\n",
            false => b"\r\nConnection: close\r\n\r\n",
        });
    }

    /// Head and body go out in one write.
    #[inline(always)]
    fn send(&mut self, head: &mut Vec<u8>, body: &Bytes) -> Taken {
        let head_len = head.len();
        let result = if body.len() <= COPY_BYTES_MAX {
            head.extend_from_slice(body);
            let result = self.stream.try_write(head);
            head.truncate(head_len);
            result
        } else {
            self.stream
                .try_write_vectored(&[IoSlice::new(head), IoSlice::new(body)])
        };
        match result {
            Ok(sent) if sent == head_len + body.len() => Taken::All,
            Ok(sent) => Taken::Some(sent),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Taken::Some(0),
            Err(_) => Taken::Gone,
        }
    }
}

/// Reads an object from disk and sends it: one read, one write. True: the connection stays open. `Err`: the request must take the long
/// way, together with the object that was read.
pub async fn from_disk(conn: &mut Conn, on_disk: Box<OnDisk>) -> Result<bool, Box<Incoming>> {
    let OnDisk {
        mut incoming,
        pinned,
    } = *on_disk;
    let worker = Rc::clone(&conn.worker);
    let ledger = &worker.shared.ledger;
    let bytes = pinned.guard.read().len;
    let mut held = None;
    if bytes > COUNTED_BYTES_MIN {
        let (watch, paused) = (Rc::clone(&conn.watch), &worker.counters.transfers_paused);
        let holder = conn.holder(ledger);
        let room = pause::room_for_whole(ledger, &holder, bytes, &watch, paused);
        // Boxed, so that an idle connection stays small.
        held = Some(Box::pin(room).await);
    }
    let keep_open = incoming.head.keep_alive;
    let by = By {
        client: conn.peer,
        tls: conn.tls.as_deref(),
        listener: &conn.listener,
    };
    let mut socket = ToSocket {
        stream: &mut conn.stream,
        keep_open,
    };
    let sent = disk::answer(&worker, by, &mut incoming, pinned, &mut socket).await;
    let keep_open = match sent {
        None => return Err(Box::new(incoming)),
        Some(Sent::All) => keep_open,
        Some(Sent::Some(unsent)) => {
            // A short body counts only now, with the bytes that the socket did not take.
            let rest = unsent.body.len();
            held.get_or_insert_with(|| conn.holder(ledger).hold(rest));
            send_rest(conn, *unsent, keep_open).await
        }
        Some(Sent::Gone) => false,
    };
    drop(held);
    Ok(keep_open)
}

/// Sends the bytes that the socket did not take. False: the connection is over.
pub async fn send_rest(conn: &mut Conn, unsent: Unsent, keep_open: bool) -> bool {
    let Unsent {
        head,
        body,
        sent,
        status,
        started,
        record,
    } = unsent;
    let worker = &Rc::clone(&conn.worker);
    let (listener, member) = (Rc::clone(&conn.listener), conn.member);
    let (peer, hop) = (conn.peer, conn.hop);
    let body_of_request = RequestBody::framed(Framing::None, &listener.edition.limits);
    let reply = H1::new(conn, Version::Http11, false, keep_open);
    let mut ex = Exchange {
        worker,
        listener,
        peer,
        hop,
        member,
        body: body_of_request,
        reply: Reply::H1(reply.resume((status, sent, started), head, body.len())),
        record,
    };
    if let Ok(()) = ex.reply.piece(body).await {
        let _ = ex.reply.end(None).await;
    }
    ex.finish() == After::KeepOpen
}
