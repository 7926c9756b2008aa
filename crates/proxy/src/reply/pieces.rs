//! Sending stretches of a stored body: from memory, or fragment by fragment from disk.
//!
//! A fragment of a large object may be gone when its turn comes. As long as nothing has been sent the caller can do something
//! else; later, the rest of the stretch comes from the origin (`rest`), or the client sees that it has not got all.
//!
//! A fragment that is being sent is held in memory, and counted into the budget of all transfers. When half of that is used up by them, a client
//! that takes nothing for [`CROWDED_WAIT`] is held a small piece of it, and the rest is read again when that piece is through:
//! the slow ones cost a slow one's worth of memory, and the fast ones are not touched.
//!
//! Not known here: heads, which stretches, what becomes of the request.

use std::{ops::Range, rc::Rc, time::Duration};

use bytes::{Buf, Bytes};

use crate::{
    cache::disk::Waits,
    cache::holding::Holding,
    cache::object::Object,
    conn::client::Conn,
    conn::pace::{self, Wrote},
    deliver::multipart::Piece,
    record::metrics,
    reply::answer::{self, Gone},
    reply::rest::{self, Rest},
    request::exchange::Wanted,
    state::Worker,
};

/// So long may a client take nothing before it gives back what is held for it, if there is need.
const CROWDED_WAIT: Duration = Duration::from_secs(1);

/// What is left to such a client.
const SMALL_PIECE_BYTES: usize = 16 << 10;

/// How the sending went.
#[derive(Debug, PartialEq, Eq)]
pub enum Sending {
    /// Nothing was sent: the first bytes are not there.
    NotBegun,
    /// All of it was sent.
    Sent,
    /// Not all of it can be had.
    Lost,
    /// The client has gone.
    Gone,
}

impl From<Rest> for Sending {
    fn from(rest: Rest) -> Sending {
        match rest {
            Rest::Sent => Sending::Sent,
            Rest::Lost => Sending::Lost,
            Rest::Gone => Sending::Gone,
        }
    }
}

/// Sends these stretches one after the other, then `tail`. What was sent is added to `bytes`.
#[allow(clippy::too_many_arguments)]
pub async fn send(
    worker: &Rc<Worker>,
    conn: &mut Conn,
    wanted: &Wanted,
    object: &Object,
    holding: &mut Holding,
    pieces: Vec<Piece>,
    tail: Bytes,
    bytes: &mut u64,
) -> Sending {
    for Piece { mut lead, range } in pieces {
        let sending = match object.large {
            None => {
                let body = object.body.slice(range.start as usize..range.end as usize);
                write(worker, conn, std::mem::take(&mut lead), body, bytes).await
            }
            Some(_) => {
                let lead = &mut lead;
                from_disk(worker, conn, wanted, object, holding, lead, range, bytes).await
            }
        };
        if sending != Sending::Sent {
            return sending;
        }
    }
    match tail.is_empty() {
        true => Sending::Sent,
        false => write(worker, conn, tail, Bytes::new(), bytes).await,
    }
}

/// Sends two stretches of bytes that are at hand.
pub async fn write(
    worker: &Worker,
    conn: &mut Conn,
    lead: Bytes,
    body: Bytes,
    bytes: &mut u64,
) -> Sending {
    match answer::write_both(worker, conn, lead, body).await {
        Ok(sent) => {
            *bytes += sent;
            Sending::Sent
        }
        Err((Gone, sent)) => {
            *bytes += sent;
            Sending::Gone
        }
    }
}

/// Sends `lead`, and a stretch of a large object's body.
#[allow(clippy::too_many_arguments)]
pub async fn from_disk(
    worker: &Rc<Worker>,
    conn: &mut Conn,
    wanted: &Wanted,
    object: &Object,
    holding: &mut Holding,
    lead: &mut Bytes,
    range: Range<u64>,
    bytes: &mut u64,
) -> Sending {
    let store = worker.shared.store.of(object.primary);
    let size = u64::from(store.fragment_bytes());
    let mut at = range.start;
    while at < range.end {
        let number = (at / size) as u32;
        let piece = match (&worker.disk, object.large) {
            (Some(disk), Some(large)) => {
                let waits = Waits::for_answer(*bytes > 0);
                disk.load_fragment(object.primary, &object.key, large.fetch_id, number, waits)
                    .await
            }
            _ => None,
        };
        let skip = (at % size) as usize;
        let expected = size.min(object.body_bytes() - u64::from(number) * size);
        let Some(piece) = piece.filter(|p| p.len() as u64 == expected) else {
            holding.read(worker.disk.as_ref(), number);
            let is_late = is_indexed(worker, object, number);
            if !is_late && !httpcache::has_strong_validator(&object.fields()) {
                // Nobody can fill the hole, so the rest is of no use either.
                store.forget(object.hash);
            }
            if *bytes == 0 {
                return Sending::NotBegun;
            }
            // Lost after the head went out: the rest from elsewhere, or a visible end.
            if !lead.is_empty() {
                let sent = write(worker, conn, std::mem::take(lead), Bytes::new(), bytes).await;
                if sent != Sending::Sent {
                    return sent;
                }
            }
            let rest = at..range.end;
            let sent = rest::send(worker, conn, wanted, object, rest, bytes).await;
            return sent.into();
        };
        let len = (piece.len() - skip).min((range.end - at) as usize);
        let sent = write_held(worker, conn, lead, piece, skip..skip + len, bytes).await;
        let Ok(sent) = sent else {
            return Sending::Gone;
        };
        at += sent as u64;
        if sent == len {
            // Not before: what was given back is read again.
            holding.read(worker.disk.as_ref(), number);
        }
    }
    Sending::Sent
}

/// Sends `lead` and this part of a fragment, which is counted as long as it is held. Returns how much of the part was sent: less
/// than all if the rest had to be given back.
pub async fn write_held(
    worker: &Worker,
    conn: &mut Conn,
    lead: &mut Bytes,
    fragment: Bytes,
    part: Range<usize>,
    bytes: &mut u64,
) -> Result<usize, Gone> {
    let mut held = worker.shared.flights.hold_fragment();
    held.set(fragment.len() as u64);
    let mut body = fragment.slice(part);
    drop(fragment);
    let (mut sent, mut head) = (0, std::mem::take(lead));
    while head.has_remaining() || body.has_remaining() {
        match pace::write_once(worker, conn, &head, &body, Some(CROWDED_WAIT)).await {
            Wrote::Some(n) => {
                let of_head = n.min(head.len());
                head.advance(of_head);
                body.advance(n - of_head);
                sent += n - of_head;
                *bytes += n as u64;
            }
            Wrote::Nothing => {
                let small = SMALL_PIECE_BYTES;
                if body.len() > small && worker.shared.is_crowded_by_fragments() {
                    metrics::add(&worker.counters.fragments_given_back, 1);
                    body = Bytes::copy_from_slice(&body[..small]);
                    held.set(small as u64);
                }
            }
            Wrote::Gone => return Err(Gone),
        }
    }
    Ok(sent)
}

/// Is a fragment that could not be read all the same there? Then its device was too slow, and may give it another time.
fn is_indexed(worker: &Worker, object: &Object, number: u32) -> bool {
    match (&worker.disk, object.large) {
        (Some(disk), Some(large)) => {
            disk.has_fragment(object.primary, &object.key, large.fetch_id, number)
        }
        _ => false,
    }
}
