//! A hit whose object is read from disk: one read, verified, and sent as it is.
//!
//! If the object is large, stale or purged meanwhile, it goes the long way together with the request, so nothing is read twice.
//!
//! Not known here: waiting for memory before the read, the client's connection.

use crate::{
    hit::{
        answer::{Asked, By, Hit, Sent, Sink},
        look::Pinned,
    },
    request::{asking, incoming::Incoming, target},
    state::Worker,
};
use base::clock::Instant;
use cache::{
    disk::{Loaded, Unread},
    preloaded::Preloaded,
};
use profile::Class;

/// Reads the object and sends it. `None`: the request must take the long way, together with the object that was read.
pub async fn answer<S: Sink>(
    worker: &Worker,
    by: By<'_>,
    incoming: &mut Incoming,
    pinned: Pinned,
    sink: &mut S,
) -> Option<Sent> {
    let Pinned {
        guard,
        key,
        hash,
        route,
        sequence,
        removals,
        rules,
        passed,
    } = pinned;
    let cache = &worker.shared.cache;
    let loaded = match &worker.storage.disk {
        Some(disk) => disk.finish_load(guard, hash, &key).await,
        None => Err(Unread::Absent),
    };
    let started = Instant::now();
    let Loaded {
        object,
        swap_in,
        beside,
    } = match loaded {
        Ok(loaded) => loaded,
        Err(unread) => {
            match unread {
                Unread::Absent => {}
                Unread::GivenUp => incoming.skips_disk = true,
                Unread::Other(other) => incoming.other = Some(other),
            }
            return None;
        }
    };
    cache.take_along(beside, sequence);
    let now = worker.unix_ms(started);
    if object.large.is_some()
        || !object.standing.is_fresh_for(by.listener.foreign, now)
        || !cache.still_valid(&object, sequence)
    {
        incoming.loaded = Some(Box::new(Preloaded {
            object,
            swap_in,
            began: sequence,
            removals,
        }));
        return None;
    }
    let head = &incoming.head;
    let place = match rules.changes {
        true => target::locate(by.listener, "GET", &head.target, head.host.as_deref()).ok(),
        false => None,
    };
    let hit = Hit {
        by,
        asked: Asked {
            asking: asking::of_head(head, incoming.head_bytes, worker.logs_access.get()),
            fields: &head.fields,
            seen: incoming.began,
            accepted: incoming.accepted,
        },
        object: &object,
        hash,
        class: Class::DiskHit,
        now,
        started,
        swap_in,
        route,
        rules,
        place,
        passed,
    };
    let sent = hit.answer(worker, sink);
    (cache.memory).promote(&object, |object| cache.may_publish(object, sequence));
    Some(sent)
}
