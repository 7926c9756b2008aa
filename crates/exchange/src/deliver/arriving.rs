//! Answers with a response that a fetch is receiving: all of it, or the one part that is asked for.
//!
//! Not known here: whether the request may have the response.

use base::clock::Instant;

use fields::Fields;
use httpcache::{ByteRange, Span as Part};
use profile::{Class, Flags};

use crate::{
    deliver::{
        spans::{self, Source, Span, Whole},
        stored,
    },
    fetch::{flight::FlightReader, response::Response, share},
    reply::{After, Length, ReplyHead},
    request::{
        exchange::{Exchange, Said},
        wanted::Wanted,
    },
};
use cache::{holding::Holding, object::Object};

/// Passes an arriving response on, or answers the client's condition from its head.
///
/// `None`: nothing was sent, because a part that the fetch no longer keeps has been lost from disk.
pub async fn response(
    ex: &mut Exchange<'_>,
    wanted: &Wanted,
    reader: &FlightReader,
    response: &Response,
    class: Class,
    cache_status: Vec<u8>,
) -> Option<After> {
    if response.status == 200 && share::is_conditional(&wanted.request) {
        let object = head_of(response);
        if stored::is_not_modified(&wanted.request, &object) {
            // The fetch goes on for the store.
            reader.is_content();
            if let Some(body) = response.length {
                ex.record.is_of(response.stored_bytes(body));
            }
            return stored::object(ex, wanted, &object, class, cache_status).await;
        }
    }
    let started = Instant::now();
    let is_shared = class == Class::Collapsed;
    if !is_shared && response.not_stored.is_some() {
        ex.record.facts.flag(Flags::NOT_KEPT);
    }
    let part = part_of(&wanted.request, ex, response);
    let (mut head, length, range) = match part {
        Some((Some(part), total)) => {
            reader.advance(part.first);
            let head = stored::part_head(&response.fields, part, total);
            (head, Length::Known(part.len()), part.first..part.last + 1)
        }
        Some((None, total)) => (stored::unsatisfied_head(ex, total), Length::Known(0), 0..0),
        None => {
            let head = ReplyHead::of_lines(response.status, &response.head);
            match (response.bodiless, response.length) {
                (true, _) => (head, Length::None, 0..0),
                (false, Some(bytes)) if response.is_forwarded => {
                    (head, Length::Known(bytes), 0..bytes)
                }
                (false, Some(bytes)) => (head, Length::Known(bytes), 0..u64::MAX),
                (false, None) => (head, Length::Unknown, 0..u64::MAX),
            }
        }
    };
    if !is_shared && !matches!(part, Some((None, _))) {
        head.add_lines(&response.withheld);
    }
    let age_s = response.standing.age_s(ex.worker.unix_ms(started));
    let said = Said {
        class,
        content_type: response.content_type(),
        //= rfc9111 §5.1   an answer that was not made for this request has an age, be it 0
        age_s: (age_s > 0 || is_shared || response.is_forwarded).then_some(age_s),
        cache_status,
    };
    if let Some(body) = response.length {
        ex.record.is_of(response.stored_bytes(body));
    }
    ex.begin(said, head, length);
    let spans = match range.is_empty() || ex.reply.is_head_only() {
        // The fetch goes on for other readers and the store.
        true => Vec::new(),
        false => vec![Span {
            lead: Default::default(),
            range,
            from: Source::Flight(reader),
        }],
    };
    let mut holding = Holding::default();
    let whole = match response.length {
        Some(bytes) if response.is_forwarded => Whole::Forwarded(&response.fields, bytes),
        Some(bytes) if response.is_resumable => Whole::Arriving(&response.fields, bytes),
        _ => Whole::Unknown,
    };
    let is_begun = spans::send(ex, wanted, whole, &mut holding, spans, b"").await;
    if !ex.reply.sent().is_gone {
        reader.is_content();
    }
    if !is_begun {
        return None;
    }
    // The end of the fetch was not seen if only a part was read, or the answer was broken off.
    ex.record.reads_no_more(&reader.flight, is_shared);
    if response.length.is_none() && reader.flight.last_byte().is_some() {
        let body = reader.flight.arrived_bytes();
        ex.record.is_of(response.stored_bytes(body));
    }
    Some(ex.finish())
}

/// A response as a stored object without its body.
fn head_of(response: &Response) -> Object {
    Object {
        key: Default::default(),
        hash: store::KeyHash(0),
        primary: store::KeyHash(0),
        status: response.status,
        standing: response.standing,
        content_type: response.content_type,
        head: response.head.clone(),
        body: Default::default(),
        large: None,
    }
}

/// The requested part of an arriving response (`None` inside: the range cannot be satisfied), and the complete length. `None` if the
/// request is for the whole or for several parts, or if the length is not known yet.
fn part_of(
    request: &Fields,
    ex: &Exchange<'_>,
    response: &Response,
) -> Option<(Option<Part>, u64)> {
    let total = response.length?;
    if response.status != 200 || ex.reply.is_head_only() || !request.contains(b"range") {
        return None;
    }
    match httpcache::byte_range(request, &response.fields, total) {
        //= rfc9110 §14.2   may ignore Range: several parts of what is not there yet are not waited for
        ByteRange::Whole | ByteRange::Several(_) => None,
        ByteRange::One { first, last } => Some((Some(Part { first, last }), total)),
        ByteRange::Unsatisfiable => Some((None, total)),
    }
}
