//! Sending what comes from disk and from the origin in one answer.
//!
//! ```text
//! wanted by the client      [---------------------------)
//! sent by the origin               [============)           one request, under way before the answer begins
//! from                       disk       origin     disk
//! ```
//!
//! What the origin sends goes to the client, as far as it is wanted, and into fragments (`filling`). It is read no faster than
//! the client reads: who leaves after a minute of film has not made us fetch the rest, but for the fragment that is on its
//! way. If the origin breaks off, it is asked once more for what lacks, if it is certain that it belongs to the same (`rest`);
//! else the client sees that it has not got all.
//!
//! Not known here: what was asked for, and whether the origin's bytes belong to the object (`parts`).

use crate::clock::Instant;
use std::{ops::Range, rc::Rc};

use bytes::Bytes;
use fields::Fields;
use httpcache::{
    Span,
    cache_status::{CacheStatus, Forward},
};
use profile::Class;

use crate::{
    cache::holding::Holding,
    cache::object::{self, Object},
    conn::client::{After, Conn},
    fetch::upstream::Body,
    range::fill::{self, Filling},
    reply::answer::{self, Answering, Gone, Sent},
    reply::pieces::{self, Sending},
    reply::rest,
    request::exchange::Wanted,
    state::Worker,
};

/// What is sent, and where it comes from.
pub struct Flow {
    /// Fields of the whole representation.
    pub fields: Fields,
    /// Further field lines, for the one who asked alone.
    pub withheld: Bytes,
    /// Age, if it is told.
    pub age_s: Option<u32>,
    /// What is stored of it, if anything is.
    pub object: Option<Object>,
    /// What it needs of that.
    pub holding: Holding,
    /// Length of the whole representation; always there if all of it is sent.
    pub total: Option<u64>,
    /// The bytes that the origin sends.
    pub span: Span,
    /// The bytes that the client gets. What lies outside of `span` is stored.
    pub want: Range<u64>,
    /// Why the origin was asked.
    pub why: Forward,
    /// 206, or 200 for all of it.
    pub is_part: bool,
}

/// Sends the bytes that are wanted, from disk and from the origin, and stores those from the origin. `None`: nothing was sent,
/// since the first of them are not there.
pub async fn send(
    worker: &Rc<Worker>,
    conn: &mut Conn,
    on: &mut Answering,
    wanted: &Wanted,
    mut flow: Flow,
    mut body: Body,
    mut filling: Option<Filling>,
) -> Option<After> {
    let started = Instant::now();
    let content_type = flow
        .fields
        .first(b"content-type")
        .unwrap_or_default()
        .to_vec();
    let mut cache_status = Vec::with_capacity(64);
    let line = CacheStatus::forwarded(&worker.shared.cache_name, flow.why, &mut cache_status)
        .forward_status(206);
    if filling.is_some() {
        line.stored(true);
    }
    let mut holding = std::mem::take(&mut flow.holding);
    let holding = &mut holding;
    let Flow {
        want, total, span, ..
    } = flow;
    let mut head = Vec::with_capacity(512);
    let status = if flow.is_part {
        let (first, last) = (want.start, want.end - 1);
        answer::write_part_head(&flow.fields, Span { first, last }, total, &mut head);
        206
    } else {
        let mut fields = flow.fields;
        let mut value = Vec::new();
        message::write_decimal(total.unwrap_or(want.end), &mut value);
        fields.set(b"Content-Length", &value);
        object::write_head(200, message::reason_phrase(200), &fields, &mut head);
        200
    };
    head.extend_from_slice(&flow.withheld);
    answer::write_age_and_status(flow.age_s, &cache_status, &mut head);
    on.end_head(&mut head);
    let mut lead = Bytes::from(head);
    let mut bytes = 0;
    let mut sending = Sending::Sent;

    // Before what the origin sends: from disk.
    let behind = span.last + 1;
    if want.start < span.first {
        let before = want.start..want.end.min(span.first);
        sending = match &flow.object {
            Some(object) => {
                let (lead, bytes) = (&mut lead, &mut bytes);
                pieces::from_disk(worker, conn, wanted, object, holding, lead, before, bytes).await
            }
            None => Sending::Lost,
        };
        if sending == Sending::NotBegun {
            return None;
        }
    }
    // What the origin sends.
    let watch = worker.deadlines.watch();
    let mut at = span.first;
    while sending == Sending::Sent && at < behind.min(want.end) {
        let piece = match body.next(worker, &watch).await {
            Ok(Some(piece)) if piece.len() as u64 <= behind - at => piece,
            answered => {
                if let Err(error) = answered {
                    worker.counters.origin_failed(error.token());
                }
                filling = None;
                sending = Sending::Lost;
                break;
            }
        };
        let from = want.start.clamp(at, at + piece.len() as u64) - at;
        let to = want.end.clamp(at, at + piece.len() as u64) - at;
        let part = piece.slice(from as usize..to as usize);
        at += piece.len() as u64;
        if let Some(filling) = &mut filling {
            filling.take(worker, piece).await;
        }
        match answer::write_both(worker, conn, std::mem::take(&mut lead), part).await {
            Ok(sent) => bytes += sent,
            Err((Gone, sent)) => {
                bytes += sent;
                sending = Sending::Gone;
            }
        }
    }
    if let Some(filling) = filling.filter(Filling::is_amid) {
        fill::complete_behind(worker, filling, body);
    }
    let rest = at.max(want.start)..behind.min(want.end);
    if sending == Sending::Lost
        && !rest.is_empty()
        && let Some(object) = &flow.object
    {
        // The origin broke off, perhaps because it had to wait for what came from disk: once more.
        let lead = std::mem::take(&mut lead);
        sending = match pieces::write(worker, conn, lead, Bytes::new(), &mut bytes).await {
            Sending::Sent => rest::send(worker, conn, wanted, object, rest, &mut bytes)
                .await
                .into(),
            other => other,
        };
    }
    // Behind it: from disk again.
    if sending == Sending::Sent && behind < want.end {
        sending = match &flow.object {
            Some(object) => {
                let rest = behind..want.end;
                let (lead, bytes) = (&mut lead, &mut bytes);
                pieces::from_disk(worker, conn, wanted, object, holding, lead, rest, bytes).await
            }
            None => Sending::Lost,
        };
    }
    if matches!(sending, Sending::Lost | Sending::NotBegun) {
        // What is there goes out, then the connection ends: the client sees that it is not all.
        if let Ok(sent) = answer::write_both(worker, conn, lead, Bytes::new()).await {
            bytes += sent;
        }
        on.break_off(true);
    }
    let sent = Sent {
        class: match flow.object {
            Some(_) => Class::Miss,
            None => Class::Uncachable,
        },
        status,
        bytes,
        started,
        content_type: &content_type,
        cache_status: &cache_status,
        gone: sending == Sending::Gone,
    };
    Some(on.finish(worker, conn, &sent))
}
