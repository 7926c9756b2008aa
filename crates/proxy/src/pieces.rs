//! Sending stretches of a stored body: from memory, or fragment by fragment from disk.
//!
//! A fragment of a large object may be gone when its turn comes. As long as nothing has been sent the caller can do something
//! else; later, the rest of the stretch comes from the origin (`rest`), or the client sees that it has not got all.
//!
//! Not known here: heads, which stretches, what becomes of the request.

use std::{ops::Range, rc::Rc};

use bytes::Bytes;

use crate::{
    answer::{self, Gone},
    client::Conn,
    exchange::Wanted,
    holding::Holding,
    multipart::Piece,
    object::Object,
    rest::{self, Rest},
    state::Worker,
};

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
                disk.load_fragment(object.primary, &object.key, large.fetch_id, number)
                    .await
            }
            _ => None,
        };
        holding.read(worker.disk.as_ref(), number);
        let skip = (at % size) as usize;
        let expected = size.min(object.body_bytes() - u64::from(number) * size);
        let Some(piece) = piece.filter(|p| p.len() as u64 == expected) else {
            if !httpcache::has_strong_validator(&object.fields()) {
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
        let body = piece.slice(skip..skip + len);
        let sent = write(worker, conn, std::mem::take(lead), body, bytes).await;
        if sent != Sending::Sent {
            return sent;
        }
        at += len as u64;
    }
    Sending::Sent
}
