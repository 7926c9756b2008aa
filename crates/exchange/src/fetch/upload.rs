//! A request body on its way to an origin.
//!
//! An HTTP/2 origin may report that it has not processed the request. So the beginning of the body is kept until an answer begins. As
//! long as all parts sent so far are kept, the body can be sent again.
//!
//! Limits: [`KEPT_BYTES_MAX`]. A longer body is sent once.
//! Not known here: which origin is asked, how it frames a part.

use bytes::Bytes;
use message::{Framing, Part};

use crate::{fetch::uploads::Place, request::body::RequestBody};

/// The most bytes kept of a body.
const KEPT_BYTES_MAX: usize = 16 << 10;
/// The most parts kept of a body.
const KEPT_PARTS_MAX: usize = 64;

/// The progress of a request body to the origin.
#[derive(Default)]
pub struct Upload {
    /// Chunked, where the origin speaks HTTP/1.1.
    pub is_chunked: bool,
    /// Framed bytes that are not yet written (and flushed) to the origin.
    pub unsent: Option<Bytes>,
    /// Its place among the client's uploads, until the body is through.
    pub place: Option<Place>,
    /// The parts that can be sent again. `None`: too much was sent, or there is no need.
    kept: Option<Kept>,
}

#[derive(Default)]
struct Kept {
    parts: Vec<Part>,
    bytes: usize,
    /// The index of the next part to be sent again; `parts.len()`: there is none.
    next: usize,
    /// The unsent bytes are a repeated part.
    is_again: bool,
}

fn copy_of(part: &Part) -> Part {
    match part {
        // Copy the bytes too: they share the buffer of a read, which would be kept whole.
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
    /// For a body with this framing.
    pub fn of(framing: Framing) -> Upload {
        Upload {
            is_chunked: framing == Framing::Chunked,
            ..Upload::default()
        }
    }

    /// Gives up the place among the client's uploads if the body is through.
    pub fn is_over_if(&mut self, is_through: bool) {
        if is_through {
            self.place = None;
        }
    }

    /// From now on keeps the parts that are sent, so that a short body can be sent again.
    pub fn keeps(&mut self) {
        self.kept.get_or_insert_default();
    }

    /// An answer has begun, so the body need not be sent again.
    pub fn is_answered(&mut self) {
        // A repetition that has begun is finished first.
        if !self.has_again() {
            self.kept = None;
        }
    }

    /// A part came from the client; `frame` turns it into the bytes to be written.
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

    /// Frames the next part that is to be sent again as the unsent bytes. False: there is none.
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

    /// The unsent bytes were sent.
    pub fn sent(&mut self, body: &mut RequestBody) {
        self.unsent = None;
        match &mut self.kept {
            Some(kept) if kept.is_again => kept.is_again = false,
            _ => body.taken(),
        }
    }

    /// Sends the body again from its beginning. False: the beginning is no longer kept.
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
