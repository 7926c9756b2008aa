//! Several parts of a representation in one body: multipart/byteranges.
//!
//! ```text
//! --BOUNDARY CRLF Content-Type, Content-Range CRLF CRLF bytes CRLF     once a part; the first has no CRLF before it
//! --BOUNDARY-- CRLF
//! ```
//!
//! The length is known beforehand, so the answer has a Content-Length, and the parts are read one after the other from wherever the
//! body is kept. The boundary is a keyed hash of unpredictable values, so no body can contain it on purpose.
//!
//! Not known here: the choice of parts (`httpcache` decides and limits them), where the bytes are.
//! Source: RFC 9110 §14.6, §15.3.7.2; RFC 2046 §5.1.1.

use std::{ops::Range, sync::atomic::AtomicU64};

use bytes::Bytes;
use httpcache::Span;
use store::KeyHasher;

use base::{chance, clock};

/// Makes each boundary different.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// A part of a body, and the bytes before it.
pub struct Piece {
    /// Sent before the part.
    pub lead: Bytes,
    /// The part's position in the body.
    pub range: Range<u64>,
}

/// A multipart body.
pub struct Multipart {
    /// Value of Content-Type.
    pub content_type: Vec<u8>,
    /// The parts in their order.
    pub pieces: Vec<Piece>,
    /// The bytes behind the last part.
    pub tail: Bytes,
}

impl Multipart {
    /// A body with these parts of a representation of this type and length.
    pub fn new(
        hasher: &KeyHasher,
        parts: &[Span],
        content_type: &[u8],
        complete_length: u64,
    ) -> Multipart {
        let boundary = boundary(hasher);
        let piece = |(n, part): (usize, &Span)| {
            let mut lead = Vec::with_capacity(160);
            if n > 0 {
                lead.extend_from_slice(b"\r\n");
            }
            lead.extend_from_slice(b"--");
            lead.extend_from_slice(boundary.as_bytes());
            //= rfc9110 §15.3.7.2   the Content-Type that a 200 would have, and a Content-Range, in each part
            if !content_type.is_empty() {
                lead.extend_from_slice(b"\r\nContent-Type: ");
                lead.extend_from_slice(content_type);
            }
            lead.extend_from_slice(b"\r\nContent-Range: ");
            httpcache::write_content_range(part.first, part.last, complete_length, &mut lead);
            lead.extend_from_slice(b"\r\n\r\n");
            Piece {
                lead: lead.into(),
                range: part.first..part.last + 1,
            }
        };
        Multipart {
            content_type: format!("multipart/byteranges; boundary={boundary}").into_bytes(),
            pieces: parts.iter().enumerate().map(piece).collect(),
            tail: format!("\r\n--{boundary}--\r\n").into_bytes().into(),
        }
    }

    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        let of = |piece: &Piece| piece.lead.len() as u64 + piece.range.end - piece.range.start;
        self.pieces.iter().map(of).sum::<u64>() + self.tail.len() as u64
    }
}

fn boundary(hasher: &KeyHasher) -> String {
    let mut seed = clock::unix().as_nanos().to_le_bytes().to_vec();
    seed.extend_from_slice(&chance::count(&COUNT).to_le_bytes());
    let one = hasher.hash(&seed).0;
    seed.push(0);
    let two = hasher.hash(&seed).0;
    format!("{one:016x}{two:016x}")
}
