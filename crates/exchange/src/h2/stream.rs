//! The task of a stream: a plain request whose object is on disk, or the long way of a request. One that the client has reset before the task
//! ran is only recorded.

use std::{rc::Rc, time::Duration};

use message::{Framing, RequestHead};
use profile::{Class, Flags, StageName, access::Asking};

use super::{
    head::Purpose,
    hit::{Hit, Who},
    link::{Owned, QUEUED_BYTES_MAX, Stream},
};
use crate::{
    conn::look::Pinned,
    reply::{Reply, h2::H2},
    request::{
        asking::Kept,
        body::RequestBody,
        exchange::{Asker, Exchange},
        handle,
        incoming::Incoming,
        target,
    },
    state::{StreamCount, Worker},
};
use base::clock::Instant;
use cache::{disk::Unread, preloaded::Preloaded};
use ledger::pause;
use record::{
    facts::{Facts, Stages},
    metrics,
};

/// How long a GET that has not ended is waited for, to see whether it has a body.
const END_WAIT: Duration = Duration::from_secs(1);

/// What a stream's task is to do.
pub struct Work {
    pub who: Who,
    pub incoming: Incoming,
    pub purpose: Purpose,
    /// Its object, if that is on disk and may answer it.
    pub pinned: Option<Box<Pinned>>,
}

/// Answers the request.
pub async fn run(worker: Rc<Worker>, stream: Stream, work: Box<Work>, _count: StreamCount) {
    let owned = Owned(stream.clone());
    let is_taken_back = stream.is_reset();
    let Work {
        who,
        mut incoming,
        purpose,
        mut pinned,
    } = *work;
    if is_taken_back {
        pinned = None;
    }
    // What is queued is in memory until the client takes it, so few streams of a connection queue a large object at a time.
    let is_large = |pinned: &Pinned| pinned.guard.read().len > QUEUED_BYTES_MAX;
    let turn = match &pinned {
        Some(found) if is_large(found) => {
            let bytes = found.guard.read().len;
            // Not pinned for as long as the client likes: it is looked up again.
            pinned = None;
            let turn = owned.0.turn_of_large().await;
            let room = async {
                let (ledger, watch) = (&worker.shared.ledger, worker.deadlines.watch());
                let (holder, paused) = (stream.holder(ledger), &worker.counters.transfers_paused);
                pause::room_for_whole(ledger, &holder, bytes, &watch, paused).await
            };
            match turn {
                Some(turn) => Some((turn, room.await)),
                None => None, // the client has gone
            }
        }
        _ => None,
    };
    let (turn, room) = turn.unzip();
    let is_early = stream.is_early();
    if let Some(pinned) = pinned
        && from_disk(&worker, &stream, &who, &mut incoming, *pinned).await
    {
        metrics::add(&worker.counters.tls_early_hits, u64::from(is_early));
        return;
    }
    // The one place where a request that is no hit begins to have effects.
    if is_early {
        if !stream.await_handshake().await {
            return;
        }
        // It may have been stored meanwhile.
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
            RequestBody::of_stream(incoming.head.framing, &stream, &worker)
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
    let mut ex = Exchange::new(
        &worker,
        Rc::clone(&who.listener),
        asker,
        &incoming,
        body,
        reply,
    );
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
    // Behind the exchange, whose last word it would cut off.
    drop(ex);
    drop(turn);
    drop(owned);
}

/// Some clients end a GET by an empty DATA frame of its own. It would pass by the cache, as one with a body does.
fn may_lack_body(head: &RequestHead, purpose: &Purpose) -> bool {
    matches!(purpose, Purpose::Ask)
        && head.framing == Framing::Chunked
        && matches!(&head.method[..], "GET" | "HEAD")
}

/// Reads an object from disk and sends it, with one read. False: the request must take the long way, with what was read.
async fn from_disk(
    worker: &Rc<Worker>,
    stream: &Stream,
    who: &Who,
    incoming: &mut Incoming,
    pinned: Pinned,
) -> bool {
    let shared = &worker.shared;
    let sequence = pinned.sequence;
    let loaded = match &worker.storage.disk {
        Some(disk) => {
            disk.finish_load(pinned.guard, pinned.hash, &pinned.key)
                .await
        }
        None => Err(Unread::Absent),
    };
    let (object, swap_in) = match loaded {
        Ok(loaded) => {
            shared.cache.take_along(loaded.beside, sequence);
            (loaded.object, loaded.swap_in)
        }
        Err(Unread::Absent) => return false,
        Err(Unread::GivenUp) => {
            incoming.skips_disk = true;
            return false;
        }
        Err(Unread::Other(other)) => {
            incoming.other = Some(other);
            return false;
        }
    };
    let read = Instant::now();
    let now = worker.unix_ms(read);
    if object.large.is_some()
        || !object.standing.is_fresh_for(who.listener.foreign, now)
        || !shared.cache.still_valid(&object, sequence)
    {
        incoming.loaded = Some(Box::new(Preloaded {
            object,
            swap_in,
            began: sequence,
            removals: pinned.removals,
        }));
        return false;
    }
    let mut facts = Facts::of_hit(
        incoming.accepted.is_some(),
        pinned.hash.0,
        object.stored_bytes(),
    );
    let (seen, mut stages) = (incoming.began, Stages::default());
    let began = incoming.accepted.unwrap_or(seen);
    if let Some(accepted) = incoming.accepted {
        stages.set(StageName::ClientConnect, began, accepted, seen, seen);
    }
    if let Some(swap_in) = swap_in {
        facts.swapped_in(&mut stages, began, swap_in);
    }
    let (rules, client) = (pinned.rules, who.peer.ip());
    let head = &incoming.head;
    let place = match rules.changes {
        true => target::locate(&who.listener, "GET", &head.target, head.host.as_deref()).ok(),
        false => None,
    };
    let changing = (place.as_ref())
        .and_then(|place| rules.changing(place, &head.fields, client, || worker.next_id()));
    let kept;
    let asking = match worker.logs_access.get() {
        true => {
            kept = Kept::of(head, incoming.head_bytes, true);
            kept.with_body(0)
        }
        false => Asking {
            method: b"GET",
            ..Asking::default()
        },
    };
    if stream.is_gone() {
        metrics::add(&worker.counters.client_aborts, 1);
        facts.flag(Flags::CLIENT_ABORTED);
    }
    let hit = Hit {
        who,
        object: &object,
        block: None,
        now,
        class: Class::DiskHit,
        began,
        seen,
        started: read,
        stages,
        facts,
        route: pinned.route,
        asking,
        tag: rules.tag,
        changing,
        passed: pinned.passed,
    };
    let mut out = worker.output.borrow_mut();
    hit.answer(worker, &mut Vec::with_capacity(64), &mut out);
    stream.begin(&out, object.body.is_empty());
    if !object.body.is_empty() {
        // Counted as long as it is queued; what goes to memory counts there.
        let holder = stream.holder(&shared.ledger);
        stream.piece(holder.count(object.body.clone()));
        stream.end(None);
    }
    drop(out);
    shared
        .cache
        .memory
        .promote(&object, |object| shared.cache.may_publish(object, sequence));
    true
}
