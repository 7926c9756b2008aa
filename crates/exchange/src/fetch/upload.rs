//! A request body on its way to an origin.
//!
//! To an origin of HTTP/2, which may turn out not to have taken the request, its beginning is kept until an answer begins: a body of which
//! all that was sent is kept can be sent again.
//!
//! Limits: [`KEPT_BYTES_MAX`]. A longer body is sent once.
//! Not known here: who is asked, how a part is framed there.

use bytes::Bytes;
use message::{Framing, Part};

use crate::{fetch::uploads::Place, request::body::RequestBody};

/// What is kept of a body.
const KEPT_BYTES_MAX: usize = 16 << 10;
/// In so many parts.
const KEPT_PARTS_MAX: usize = 64;

/// What is on its way from the request body to the origin.
#[derive(Default)]
pub struct Upload {
    /// Chunked, where the origin speaks HTTP/1.1.
    pub is_chunked: bool,
    /// Framed, and not yet written (and flushed) to the origin.
    pub unsent: Option<Bytes>,
    /// Its place among the client's uploads, until it is through.
    pub place: Option<Place>,
    /// What can be sent again; `None`: too much was sent, or nothing needs to be.
    kept: Option<Kept>,
}

#[derive(Default)]
struct Kept {
    parts: Vec<Part>,
    bytes: usize,
    /// The first that is to be sent again; behind the last: none is.
    next: usize,
    /// What is unsent comes from here.
    is_again: bool,
}

fn copy_of(part: &Part) -> Part {
    match part {
        // A copy of the bytes, too: they are a part of what was read.
        Part::Data(data) => Part::Data(Bytes::copy_from_slice(data)),
        Part::Trailers(trailers) => Part::Trailers(trailers.clone()),
    }
}

fn bytes_of(part: &Part) -> usize {
    match part {
        Part::Data(data) => data.len(),
        Part::Trailers(trailers) => trailers.as_wire().len(),
    }
}

impl Upload {
    /// Of a body that is announced so.
    pub fn of(framing: Framing) -> Upload {
        Upload {
            is_chunked: framing == Framing::Chunked,
            ..Upload::default()
        }
    }

    /// Its body is through, whether by bytes or by its end alone: another one may have its place.
    pub fn is_over_if(&mut self, is_through: bool) {
        if is_through {
            self.place = None;
        }
    }

    /// From now on what is sent can be sent again, as long as it is short.
    pub fn keeps(&mut self) {
        self.kept.get_or_insert_default();
    }

    /// An answer has begun: nothing is sent again.
    pub fn is_answered(&mut self) {
        // What goes out again goes out to its end.
        if !self.has_again() {
            self.kept = None;
        }
    }

    /// A part came from the client: `frame` makes of it what is written.
    pub fn put(&mut self, part: Option<Part>, frame: impl FnOnce(Part, bool) -> Bytes) {
        let Some(part) = part else {
            self.unsent = None;
            return;
        };
        if let Some(kept) = &mut self.kept {
            let bytes = kept.bytes + bytes_of(&part);
            if bytes > KEPT_BYTES_MAX || kept.parts.len() == KEPT_PARTS_MAX {
                self.kept = None;
            } else {
                kept.parts.push(copy_of(&part));
                (kept.bytes, kept.next) = (bytes, kept.parts.len());
                kept.is_again = false;
            }
        }
        self.unsent = Some(frame(part, self.is_chunked));
    }

    /// Is there a part that is to be sent again?
    pub fn has_again(&self) -> bool {
        let kept = self.kept.as_ref();
        kept.is_some_and(|kept| kept.next < kept.parts.len() || kept.is_again)
    }

    /// The next part that is to be sent again becomes what is unsent. False: there is none.
    pub fn put_again(&mut self, frame: impl FnOnce(Part, bool) -> Bytes) -> bool {
        let Some(kept) = &mut self.kept else {
            return false;
        };
        let Some(part) = kept.parts.get(kept.next) else {
            return false;
        };
        kept.next += 1;
        kept.is_again = true;
        self.unsent = Some(frame(copy_of(part), self.is_chunked));
        true
    }

    /// What was unsent is sent.
    pub fn sent(&mut self, body: &mut RequestBody) {
        self.unsent = None;
        match &mut self.kept {
            Some(kept) if kept.is_again => kept.is_again = false,
            _ => body.taken(),
        }
    }

    /// All that was sent goes out again. False: that is not there any more.
    pub fn begins_anew(&mut self, body: &mut RequestBody) -> bool {
        if self.kept.is_none() {
            return false;
        }
        if self.unsent.is_some() {
            self.sent(body);
        }
        if let Some(kept) = &mut self.kept {
            (kept.next, kept.is_again) = (0, false);
        }
        true
    }
}
