//! Sends an answer whose bytes come from disk and from the origin.
//!
//! Not known here: which bytes are missing, and which bytes of the answer may be stored.

use std::ops::Range;

use bytes::Bytes;
use fields::Fields;
use message::ResponseHead;
use profile::Class;

use super::{Outcome, Part, Parts};
use crate::{
    deliver::{
        spans::{self, FromOrigin, Source, Span, Whole},
        stored,
    },
    range::fill::Filling,
    reply::{Length, ReplyHead},
    request::exchange::{Said, forwarded},
};
use cache::{holding::Holding, object::Object};
use origin::upstream::Upstream;

/// The bytes of an answer and their sources.
pub(super) struct Flow {
    /// Fields of the whole representation.
    pub(super) fields: Fields,
    /// Field lines for this client only.
    pub(super) withheld: Bytes,
    /// The value of Age, if the answer has it.
    pub(super) age_s: Option<u32>,
    /// The stored object, if there is one. Without it the client wants nothing beyond `span`.
    pub(super) object: Option<Object>,
    /// Keeps the fragments that the answer needs.
    pub(super) holding: Holding,
    /// Length of the whole representation, if known.
    pub(super) total: Option<u64>,
    /// The bytes from the origin.
    pub(super) span: Part,
    /// The bytes for the client. Those outside of `span` are stored.
    pub(super) want: Range<u64>,
    /// The status is 206; otherwise 200 with the whole representation.
    pub(super) is_part: bool,
}

impl Parts<'_, '_> {
    /// Sends the wanted bytes from disk and from the origin, and stores those from the origin:
    ///
    /// ```text
    /// wanted by the client      [---------------------------)
    /// sent by the origin               [============)           one request, under way before the answer begins
    /// from                       disk       origin     disk
    /// ```
    pub(super) async fn send(
        &mut self,
        flow: Flow,
        upstream: Upstream,
        answered: &ResponseHead,
        filling: Option<Filling>,
    ) -> Outcome {
        let worker = self.ex.worker;
        let Flow {
            mut fields,
            object,
            mut holding,
            span,
            want,
            ..
        } = flow;
        let cache_status = forwarded(self.ex.edition(), self.why, |line| {
            let line = line.forward_status(206);
            match filling {
                Some(_) => line.stored(true),
                None => line,
            }
        });
        let content_type = fields.first(b"content-type").unwrap_or_default().to_vec();
        let said = Said {
            class: match object {
                Some(_) => Class::Miss,
                None => Class::Uncachable,
            },
            content_type: &content_type,
            age_s: flow.age_s,
            cache_status,
        };
        let (first, last) = (want.start, want.end - 1);
        let mut head = match flow.is_part {
            true => stored::part_head(&fields, Part { first, last }, flow.total),
            false => {
                fields.remove(b"content-length");
                ReplyHead::new(200, "", &fields)
            }
        };
        head.add_lines(&flow.withheld);
        let length = Length::Known(want.end - want.start);
        if let Some(object) = &object {
            self.ex.record.is_of(object.stored_bytes());
        }
        self.ex.begin(said, head, length);

        // If nothing is stored, waiting would be useless: then the lock is dropped here.
        let fill_lock = self.fill_lock.take();
        let filling = filling.map(|filling| filling.with_fill_lock(fill_lock));
        let behind = span.last + 1;
        let from_origin = span.first..behind;
        let body = upstream.body(answered);
        let origin = FromOrigin::new(worker.deadlines.watch(), body, from_origin, filling);
        let origin = Source::Origin(Box::new(origin));
        let mut spans = Vec::with_capacity(3);
        let mut add = |range: Range<u64>, from| {
            let lead = Bytes::new();
            if !range.is_empty() {
                spans.push(Span { lead, range, from });
            }
        };
        if let Some(object) = &object {
            add(want.start..want.end.min(span.first), Source::Disk(object));
        }
        add(want.start.max(span.first)..want.end.min(behind), origin);
        if let Some(object) = &object {
            add(behind.max(want.start)..want.end, Source::Disk(object));
        }
        let (ex, wanted) = (&mut *self.ex, self.wanted);
        let whole = object.as_ref().map_or(Whole::Unknown, Whole::Stored);
        match spans::send(ex, wanted, whole, &mut holding, spans, b"").await {
            true => Outcome::Answered(ex.finish()),
            false => Outcome::Pass,
        }
    }
}
