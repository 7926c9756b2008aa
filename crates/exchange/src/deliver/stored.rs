//! Answers with a stored object: all of it, the requested part or parts, or 304.
//!
//! An object answers only if all of the requested bytes are stored; a large object may lack some fragments.
//!
//! Not known here: whether the object may be served.

use base::clock::Instant;

use bytes::Bytes;
use fields::Fields;
use httpcache::{
    ByteRange, Condition, RequestDirectives, Span as Part, StandingFlags, cache_status::Forward,
};
use profile::{Class, Flags};

use crate::{
    deliver::{
        multipart::Multipart,
        spans::{self, Source, Span, Whole},
    },
    reply::{After, Length, ReplyHead},
    request::{
        exchange::{Exchange, Said, forwarded},
        wanted::Wanted,
    },
    storage::Storage,
};
use cache::{holding::Holding, holes, object::Object};

/// Answers with a stored object, or the requested part of it. `class` is the class of a plain answer.
///
/// `None`: nothing was sent, because a large object lacks fragments of the requested part.
pub async fn object(
    ex: &mut Exchange<'_>,
    wanted: &Wanted,
    object: &Object,
    class: Class,
    cache_status: Vec<u8>,
) -> Option<After> {
    let request: &Fields = &wanted.request;
    let started = Instant::now();
    ex.record.is_of(object.stored_bytes());
    if class == Class::Stale {
        ex.record.facts.flag(Flags::STALE);
    }
    let mut said = Said {
        class,
        content_type: object.content_type(),
        age_s: Some(object.standing.age_s(ex.worker.unix_ms(started))),
        cache_status,
    };
    if is_not_modified(request, object) {
        return Some(not_modified(ex, object, said, started).await);
    }
    let total = object.body_bytes();
    let is_head = ex.reply.is_head_only();
    let range = if request.contains(b"range") && object.status == 200 && !is_head {
        httpcache::byte_range(request, &object.fields(), total)
    } else {
        ByteRange::Whole
    };
    // Take this before checking for the fragments: those present at the check must stay.
    let disk = ex.worker.storage.disk.as_ref();
    let mut holding = Holding::of_range(disk, object, &range, is_head).await;
    if !is_there(&ex.worker.storage, object, &range, total).await {
        return None;
    }
    if object.standing.flags.contains(StandingFlags::NEGATIVE) && class.is_hit() {
        said.class = Class::NegativeHit;
    }
    let (head, length, range) = match range {
        ByteRange::Whole => {
            let head = ReplyHead::of_lines(object.status, &object.head);
            (head, Length::Told(total), 0..total)
        }
        ByteRange::One { first, last } => {
            let head = part_head(&object.fields(), Part { first, last }, total);
            let range = first..last + 1;
            (head, Length::Known(range.end - range.start), range)
        }
        ByteRange::Several(parts) => {
            let hasher = &ex.worker.hasher;
            let multipart = Multipart::new(hasher, &parts, object.content_type(), total);
            return several(ex, wanted, object, said, multipart, &mut holding).await;
        }
        ByteRange::Unsatisfiable => (unsatisfied_head(ex, total), Length::Known(0), 0..0),
    };
    if object.large.is_none() {
        let body = object.body.slice(range.start as usize..range.end as usize);
        // The body of an object read for this answer alone counts for its connection.
        let body = match &ex.record.holder {
            Some(holder) if said.class == Class::DiskHit => holder.count(body),
            _ => body,
        };
        ex.record.room = None;
        return Some(ex.answer(said, head, length, body, started).await);
    }
    ex.begin(said, head, length);
    let span = Span {
        lead: Bytes::new(),
        range,
        from: Source::Disk(object),
    };
    let spans = match is_head || span.range.is_empty() {
        true => Vec::new(),
        false => vec![span],
    };
    let is_begun = spans::send(ex, wanted, Whole::Stored(object), &mut holding, spans, b"").await;
    is_begun.then(|| ex.finish())
}

/// Answers with several parts of an object. `None`: see [`object`].
async fn several(
    ex: &mut Exchange<'_>,
    wanted: &Wanted,
    object: &Object,
    said: Said<'_>,
    multipart: Multipart,
    holding: &mut Holding,
) -> Option<After> {
    let mut fields = fields_of_part(&object.fields());
    fields.set(b"Content-Type", &multipart.content_type);
    let head = ReplyHead::new(206, "", &fields);
    ex.begin(said, head, Length::Known(multipart.bytes()));
    let spans = multipart.pieces.into_iter().map(|piece| Span {
        lead: piece.lead,
        range: piece.range,
        from: match object.large {
            None => Source::Memory(object.body.clone()),
            Some(_) => Source::Disk(object),
        },
    });
    let (spans, tail) = (spans.collect(), &multipart.tail);
    let is_begun = spans::send(ex, wanted, Whole::Stored(object), holding, spans, tail).await;
    is_begun.then(|| ex.finish())
}

/// Answers with a stale object because its origin failed, if the rules allow it. `failure`: the status of the origin's answer, if there
/// was one, and whether the origin could not be reached.
pub async fn on_error(
    ex: &mut Exchange<'_>,
    wanted: &Wanted,
    stale: &Object,
    directives: &RequestDirectives,
    why: Forward,
    (status, disconnected): (Option<u16>, bool),
) -> Option<After> {
    let now = ex.worker.now_ms();
    if !httpcache::may_serve_on_error(&stale.standing, directives, now, disconnected) {
        return None;
    }
    let ttl = stale.standing.ttl_s(now);
    let line = forwarded(ex.edition(), why, |line| {
        //= rfc9211 §2.3   the status that the next hop's response had: without a response there is none
        let line = match status {
            Some(status) => line.forward_status(status),
            None => line,
        };
        line.ttl(ttl).detail("stale-if-error")
    });
    object(ex, wanted, stale, Class::Stale, line).await
}

/// Does the client's condition say that it has this body?
pub fn is_not_modified(request: &Fields, object: &Object) -> bool {
    let is_conditional =
        request.contains(b"if-none-match") || request.contains(b"if-modified-since");
    is_conditional
        && object.status == 200
        && matches!(
            httpcache::evaluate(request, &object.fields()),
            Condition::NotModified
        )
}

async fn not_modified(
    ex: &mut Exchange<'_>,
    object: &Object,
    mut said: Said<'_>,
    started: Instant,
) -> After {
    if said.class.is_hit() {
        said.class = Class::ImsHit;
    }
    said.content_type = b"";
    // A stored response contains our Via already, and so does an arriving one.
    let fields = httpcache::not_modified_fields(&object.fields());
    let head = ReplyHead::new(304, "", &fields);
    let body = Bytes::new();
    ex.answer(said, head, Length::None, body, started).await
}

/// Are all requested bytes of the object stored?
pub async fn has_wanted(ex: &Exchange<'_>, wanted: &Wanted, object: &Object) -> bool {
    let (request, total) = (&wanted.request, object.body_bytes());
    let range = match ex.reply.is_head_only() {
        true => ByteRange::Whole,
        false => httpcache::byte_range(request, &object.fields(), total),
    };
    is_there(&ex.worker.storage, object, &range, total).await
}

/// Are these bytes stored? Checks the index before anything is sent; a later read may still fail.
//= rfc9111 §3.3   an incomplete response answers only what lies wholly within it
async fn is_there(storage: &Storage, object: &Object, range: &ByteRange, total: u64) -> bool {
    let has = async |from: u64, to: u64| {
        holes::are_none(
            storage.disk.as_ref(),
            &storage.cache.fragments,
            object,
            from..to,
        )
        .await
    };
    if object.large.is_none() || storage.disk.is_none() {
        return object.large.is_none();
    }
    match range {
        ByteRange::Whole => has(0, total).await,
        ByteRange::One { first, last } => has(*first, *last + 1).await,
        ByteRange::Several(parts) => {
            for part in parts {
                if !has(part.first, part.last + 1).await {
                    return false;
                }
            }
            true
        }
        ByteRange::Unsatisfiable => true,
    }
}

/// The head of a 206 with one part. The reply adds the length.
pub fn part_head(fields: &Fields, part: Part, total: impl Into<Option<u64>>) -> ReplyHead {
    let mut fields = fields_of_part(fields);
    let mut value = Vec::new();
    httpcache::write_content_range(part.first, part.last, total, &mut value);
    fields.set(b"Content-Range", &value);
    ReplyHead::new(206, "", &fields)
}

/// The fields of a 206 with a part, from the fields of the whole.
//= rfc9530 §2   Content-Digest is of the content of this one message; Repr-Digest is of the whole and stays
fn fields_of_part(whole: &Fields) -> Fields {
    let mut fields = whole.clone();
    for name in [
        &b"content-length"[..],
        b"content-digest",
        b"content-md5",
        b"trailer",
    ] {
        fields.remove(name);
    }
    fields
}

/// The head of a 416.
pub fn unsatisfied_head(ex: &Exchange<'_>, total: u64) -> ReplyHead {
    let mut value = Vec::new();
    httpcache::write_unsatisfied_range(total, &mut value);
    let mut fields = Fields::new();
    let now = ex.worker.unix_ms(Instant::now());
    fields.push(b"Date", &httpcache::format_date(now));
    fields.push(b"Content-Range", &value);
    let mut head = ReplyHead::new(416, "", &fields);
    head.add_lines(&ex.edition().via_line);
    head
}
