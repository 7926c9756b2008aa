//! The task of a stream: answers a plain request whose object is on disk, or sends the request the long way. A request that the client
//! has reset before its task runs is only recorded.

use std::{rc::Rc, time::Duration};

use message::{Framing, RequestHead};
use profile::Class;

use super::{
    head::Purpose,
    hit::{ByStream, Who},
    link::{Owned, QUEUED_BYTES_MAX, Stream},
};
use crate::{
    hit::{disk, look::Pinned},
    reply::{Reply, h2::H2},
    request::{
        body::RequestBody,
        exchange::{Asker, Exchange},
        handle,
        incoming::Incoming,
    },
    state::{StreamCount, Worker},
};
use ledger::{Lot, pause};
use record::metrics;

/// How long to wait whether a GET that has not ended has a body.
const END_WAIT: Duration = Duration::from_secs(1);

/// The work of a stream's task.
pub struct Work {
    pub who: Who,
    pub incoming: Incoming,
    /// Nothing follows the head.
    pub has_ended: bool,
    pub purpose: Purpose,
    /// The object on disk that may answer the request.
    pub pinned: Option<Box<Pinned>>,
}

/// Answers the request.
pub async fn run(worker: Rc<Worker>, stream: Stream, mut work: Box<Work>, _count: StreamCount) {
    let owned = Owned(stream.clone());
    let is_taken_back = stream.is_reset();
    let pinned = work.pinned.take().filter(|_| !is_taken_back);
    // Queued bytes stay in memory until the client takes them, so few streams of a connection queue a large object at a time.
    let is_large = |pinned: &Pinned| pinned.guard.read().len > QUEUED_BYTES_MAX;
    let (mut turn, mut room) = (None, None);
    match pinned {
        Some(pinned) if is_large(&pinned) => {
            let bytes = pinned.guard.read().len;
            // Do not keep the pin while waiting for the client: the object is looked up again.
            drop(pinned);
            turn = owned.0.turn_of_large().await;
            // Without a turn, the client has gone.
            if turn.is_some() {
                let (ledger, watch) = (&worker.shared.ledger, worker.deadlines.watch());
                let (holder, paused) = (stream.holder(ledger), &worker.counters.transfers_paused);
                let counted = pause::room_for_whole(ledger, &holder, bytes, &watch, paused);
                room = Some(counted.await);
            }
        }
        Some(pinned) => {
            let is_early = stream.is_early();
            let mut sink = ByStream {
                stream: &stream,
                ledger: &worker.shared.ledger,
            };
            let by = work.who.by();
            let sent = disk::answer(&worker, by, &mut work.incoming, *pinned, &mut sink).await;
            if sent.is_some() {
                metrics::add(&worker.counters.tls_early_hits, u64::from(is_early));
                return;
            }
        }
        None => {}
    }
    long_way(&worker, stream, work, is_taken_back, room).await;
    // Drop it after the exchange: an earlier drop would reset the stream before its last frame.
    drop(turn);
    drop(owned);
}

/// Answers the request by an exchange. `room`: the ledger's count for the record that is read.
async fn long_way(
    worker: &Rc<Worker>,
    stream: Stream,
    work: Box<Work>,
    is_taken_back: bool,
    room: Option<Lot>,
) {
    let Work {
        who,
        mut incoming,
        purpose,
        ..
    } = *work;
    // Only here does a request that is not a hit begin to have effects, so the TLS handshake must be complete.
    if stream.is_early() {
        if !stream.await_handshake().await {
            return;
        }
        // The object may have been stored meanwhile.
        incoming.absent = None;
    }
    if !is_taken_back && may_lack_body(&incoming.head, &purpose) {
        let watch = worker.deadlines.watch();
        let has_body = std::pin::pin!(stream.has_body());
        if let Ok(false) = watch.limit(END_WAIT, has_body).await {
            incoming.head.framing = Framing::None;
        }
    }
    let is_served = !matches!(purpose, Purpose::OtherProtocol);
    let body = match purpose {
        Purpose::Ask if !is_taken_back => {
            RequestBody::of_stream(incoming.head.framing, &stream, worker)
        }
        _ => RequestBody::none(),
    };
    let is_head = incoming.head.method == "HEAD";
    let watch = worker.deadlines.watch();
    let reply = H2::new(stream, watch, who.tls.clone(), is_head, purpose);
    let reply = Reply::H2(Box::new(reply));
    let asker = Asker {
        peer: who.peer,
        hop: who.hop,
        member: None,
    };
    let listener = Rc::clone(&who.listener);
    let mut ex = Exchange::new(worker, listener, asker, &incoming, body, reply);
    ex.record.room = room;
    //= CVE-2023-44487   a request that was reset before anything was done for it costs a record, and no fetch
    if is_taken_back {
        ex.abandon(Class::Error);
        return;
    }
    if !is_served {
        let reason = "of extended CONNECT only websocket is served";
        ex.refuse(501, reason, None).await;
        return;
    }
    Box::pin(handle::handle(&mut ex, incoming)).await;
}

/// Might the body be empty? Some clients end a GET by an empty DATA frame; such a request would otherwise bypass the cache as one with a body.
fn may_lack_body(head: &RequestHead, purpose: &Purpose) -> bool {
    matches!(purpose, Purpose::Ask)
        && head.framing == Framing::Chunked
        && matches!(&head.method[..], "GET" | "HEAD")
}
