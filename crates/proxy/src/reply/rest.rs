//! The rest of a large object: from its origin, when it was lost from disk while it was being sent.
//!
//! A body in fragments may take hours to send, and room is made meanwhile: what has not been read yet may be gone. The
//! head is out, so there is no other answer any more; but the bytes that are missing can be asked for, if it is certain
//! that they belong to the same representation: a strong validator says so (RFC 9110 §13.1.5, §15.3.7). Anything but exactly
//! these bytes ends the connection instead, and the client sees that it has not got all.
//!
//! Not known here: what is stored.

use std::{ops::Range, rc::Rc};

use bytes::Bytes;
use fields::Fields;
use httpcache::RequestDirectives;

use crate::{
    cache::object::Object,
    conn::client::Conn,
    fetch::task,
    fetch::upstream,
    record::metrics,
    reply::answer::{self, Gone},
    request::exchange::Wanted,
    state::Worker,
};

/// How the rest went.
#[derive(Debug, PartialEq, Eq)]
pub enum Rest {
    /// All of it was sent.
    Sent,
    /// It cannot be had, or not all of it.
    Lost,
    /// The client has gone.
    Gone,
}

/// Sends the bytes of `range` of an object's body from its origin, and adds what was sent to `bytes`.
pub async fn send(
    worker: &Rc<Worker>,
    conn: &mut Conn,
    wanted: &Wanted,
    object: &Object,
    range: Range<u64>,
    bytes: &mut u64,
) -> Rest {
    let stored = object.fields();
    let (first, last) = (range.start, range.end - 1);
    let Some(request) = request(worker, wanted, &stored, first, last) else {
        return Rest::Lost;
    };
    let watch = worker.deadlines.watch();
    let asked = &wanted.asked;
    let rules = &Rc::clone(&conn.listener).destinations;
    let answered =
        upstream::ask_final(worker, &watch, &asked.destination, rules, "GET", &request).await;
    let (upstream, head) = match answered {
        Ok(answered) => answered,
        Err(error) => {
            worker.counters.origin_failed(error.token());
            return Rest::Lost;
        }
    };
    let total = object.body_bytes();
    if head.status != 206 || !httpcache::is_part(&stored, &head.fields, first, last, total) {
        return Rest::Lost;
    }
    metrics::add(&worker.counters.bodies_completed, 1);
    let mut body = upstream.body(worker, &head);
    let mut left = range.end - range.start;
    loop {
        match body.next(worker, &watch).await {
            Ok(Some(piece)) if piece.len() as u64 <= left => {
                left -= piece.len() as u64;
                match answer::write_both(worker, conn, piece, Bytes::new()).await {
                    Ok(sent) => *bytes += sent,
                    Err((Gone, sent)) => {
                        *bytes += sent;
                        return Rest::Gone;
                    }
                }
            }
            Ok(None) if left == 0 => return Rest::Sent,
            _ => return Rest::Lost,
        }
    }
}

/// `None` if the client wants nothing from the origin, or nobody could tell whether the bytes fit.
fn request(
    worker: &Worker,
    wanted: &Wanted,
    stored: &Fields,
    first: u64,
    last: u64,
) -> Option<Vec<u8>> {
    if RequestDirectives::parse(&wanted.request).only_if_cached {
        return None;
    }
    let mut fields = Fields::clone(&wanted.request);
    message::remove_hop_by_hop(&mut fields);
    httpcache::remove_conditions(&mut fields);
    fields.remove(b"proxy-authorization");
    httpcache::ask_for_part(stored, first, last, &mut fields)
        .then(|| task::write_request(worker, "GET", wanted.head.version, &wanted.asked, &fields))
}
