//! Where a body ends, and whether the connection stays open after it.
//!
//! One walk over the parsed field lines ([`Facts::gather`]) notes the known fields and keeps the values that matter.
//! Requests and responses then apply their own rules. A repeated field is only noted here; the caller decides whether
//! to accept it.
//!
//! Source: RFC 9112 §6 and §9.3, RFC 9110 §8.6.

use httparse::Header;
use message::{Seen, is_token, parse_content_length, split_tokens};

use crate::reject::Fault;

/// The most options in all Connection lines of a message. More are refused, because removing hop-by-hop fields
/// compares each option with each field.
pub const CONNECTION_OPTIONS_MAX: usize = 64;

const DECIDING: Seen = Seen::HOST
    .union(Seen::CONTENT_LENGTH)
    .union(Seen::TRANSFER_ENCODING)
    .union(Seen::CONNECTION)
    .union(Seen::PROXY_CONNECTION)
    .union(Seen::EXPECT);

/// The framing information in the field lines of a head.
#[derive(Default)]
pub(crate) struct Facts<'b> {
    pub seen: Seen,
    /// Fields of `DECIDING` that occur in more than one line.
    pub repeated: Seen,
    pub host: &'b [u8],
    pub length: &'b [u8],
    /// Two Content-Length lines differ in their bytes.
    pub lengths_differ: bool,
    pub coding: &'b [u8],
    pub expect: &'b [u8],
    pub close: bool,
    pub keep_alive: bool,
    options: usize,
}

impl<'b> Facts<'b> {
    #[inline]
    pub(crate) fn gather(fields: &[Header<'b>]) -> Result<Self, Fault> {
        let mut facts = Self::default();
        for field in fields {
            let bit = Seen::of(field.name.as_bytes());
            if bit.intersects(DECIDING) {
                facts.note(bit, field.value)?;
            } else if bit.is_empty() && is_disguised(field.name.as_bytes()) {
                return Err(Fault::FieldName);
            }
            facts.seen = facts.seen.union(bit);
        }
        Ok(facts)
    }

    fn note(&mut self, bit: Seen, value: &'b [u8]) -> Result<(), Fault> {
        let again = self.seen.contains(bit);
        if again {
            self.repeated = self.repeated.union(bit);
        }
        match bit {
            Seen::HOST => self.host = value,
            Seen::CONTENT_LENGTH => {
                self.lengths_differ |= again && self.length != value;
                self.length = value;
            }
            Seen::TRANSFER_ENCODING => self.coding = value,
            Seen::EXPECT => self.expect = value,
            Seen::CONNECTION => self.note_options(value)?,
            // Proxy-Connection is no standard field. Only its `close` is obeyed, because that is always safe.
            _ => {
                self.close |=
                    split_tokens(value).any(|option| option.eq_ignore_ascii_case(b"close"))
            }
        }
        Ok(())
    }

    fn note_options(&mut self, value: &[u8]) -> Result<(), Fault> {
        for option in split_tokens(value) {
            self.options += 1;
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
        if self.options > CONNECTION_OPTIONS_MAX {
            Err(Fault::ConnectionOptions)
        } else {
            Ok(())
        }
    }

    /// Is the body chunked? Any Transfer-Encoding other than one line `chunked` is a fault.
    pub(crate) fn is_chunked(&self) -> Result<bool, Fault> {
        if !self.seen.contains(Seen::TRANSFER_ENCODING) {
            return Ok(false);
        }
        if self.repeated.contains(Seen::TRANSFER_ENCODING) {
            return Err(Fault::TransferEncoding);
        }
        if self.coding.eq_ignore_ascii_case(b"chunked") {
            return Ok(true);
        }
        Err(coding_fault(self.coding))
    }

    /// The announced length, if any. The caller decides whether a repeated field is accepted.
    pub(crate) fn content_length(&self) -> Result<Option<u64>, Fault> {
        if !self.seen.contains(Seen::CONTENT_LENGTH) {
            return Ok(None);
        }
        parse_content_length(self.length)
            .map(Some)
            .ok_or(Fault::ContentLength)
    }

    /// Are both Content-Length and Transfer-Encoding present, as in classic request smuggling?
    pub(crate) fn has_length_and_coding(&self) -> bool {
        self.seen
            .contains(Seen::CONTENT_LENGTH.union(Seen::TRANSFER_ENCODING))
    }
}

/// Is it a framing field with `_` for `-`? It has no meaning in HTTP, but servers that turn names into variables (CGI, WSGI)
/// take it for the real field.
fn is_disguised(name: &[u8]) -> bool {
    matches!(name.len(), 14 | 17)
        && (name.eq_ignore_ascii_case(b"content_length")
            || name.eq_ignore_ascii_case(b"transfer_encoding"))
}

/// If the list is well-formed and has `chunked` only at its end, another of its codings is unknown. Any other list
/// is malformed.
//= rfc9112 §6.1   a transfer coding that is not understood: 501
//= rfc9112 §6.3   chunked is not the final coding of a request: 400
fn coding_fault(value: &[u8]) -> Fault {
    let count = split_tokens(value).count();
    let clean = split_tokens(value).enumerate().all(|(index, coding)| {
        is_token(coding) && (index + 1 == count || !coding.eq_ignore_ascii_case(b"chunked"))
    });
    if clean {
        Fault::TransferCodingUnknown
    } else {
        Fault::TransferEncoding
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codings() {
        let fault = |text: &str| coding_fault(text.as_bytes());
        for unknown in ["gzip", "gzip, chunked", "xchunked", "identity"] {
            assert_eq!(fault(unknown), Fault::TransferCodingUnknown, "{unknown:?}");
        }
        for malformed in [
            "chunked,",
            ",chunked",
            "chunked, chunked",
            "chunked, gzip",
            "",
            "\"chunked\"",
            "chunked;q=1",
            "a b",
        ] {
            assert_eq!(fault(malformed), Fault::TransferEncoding, "{malformed:?}");
        }
    }
}
