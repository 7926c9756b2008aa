//! The chunked coding as a state machine (RFC 9112 §7.1).
//!
//! ```text
//! Size -> [Blank] -> [Extension] -> SizeEnd -> Data -> DataCr -> DataLf -> Size ...
//!                                      '--(size 0)--> Trailers -> Done
//! ```
//!
//! Every byte is consumed as it is read, so no byte is read twice, and the result does not depend on how the bytes
//! were split into reads. Body bytes are not copied: the caller is told where they lie.
//!
//! Strict: lines end in CRLF; a size is 1 to 16 hex digits at the very start of its line, [`BODY_BYTES_MAX`] at most; blanks are
//! accepted only where the grammar has them. Extensions are parsed, counted and dropped (the proxy writes its own chunks).
//! Trailers are collected and parsed like a head. Trailers that could change the meaning of the message are dropped.
//!
//! Limits: [`EXTENSION_BYTES_MAX`] over a whole body; [`TRAILER_BYTES_MAX`], or `Limits::head_bytes_max` if
//! less; `Limits::fields_max` trailer lines.

use fields::Fields;
use httparse::Status;
use message::{BODY_BYTES_MAX, Seen, is_token_byte};

use crate::limits::Limits;
use crate::lines;
use crate::reject::{Fault, Reject};
use crate::request::room_for;

/// The most bytes of chunk extensions in one body, blanks and semicolons counted.
//= rfc9112 §7.1.1   a recipient ought to limit the total length of chunk extensions
pub const EXTENSION_BYTES_MAX: usize = 16 * 1024;

/// The most bytes of a trailer section.
pub const TRAILER_BYTES_MAX: usize = 16 * 1024;

const SIZE_DIGITS_MAX: u8 = 16;

/// Decodes one chunked body.
#[derive(Debug)]
pub struct ChunkedDecoder {
    state: State,
    extension_bytes: usize,
    trailers: Vec<u8>,
    trailer_bytes_max: usize,
    fields_max: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// In the digits of a size.
    Size {
        value: u64,
        digits: u8,
    },
    /// Blanks after the digits; a semicolon must follow.
    Blank {
        value: u64,
    },
    /// After a semicolon.
    Extension {
        value: u64,
        at: Ext,
    },
    /// The CR of a size line was read.
    SizeEnd {
        value: u64,
    },
    /// In the data; never 0 left.
    Data {
        left: u64,
    },
    /// After the data.
    DataCr,
    DataLf,
    /// In the trailer section; the current line began at `line` of the collected bytes.
    Trailers {
        line: usize,
    },
    Done,
}

/// The position in a chunk extension.
//= rfc9112 §7.1.1   chunk-ext = *( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ext {
    /// After the semicolon: a name must follow.
    Begin,
    Name,
    /// Blanks after the name: `=` or `;` must follow.
    NameBlank,
    /// After the `=`: a value must follow.
    Equals,
    Token,
    Quoted,
    /// After a backslash in quotes.
    Escaped,
    /// After the closing quote.
    QuotedEnd,
    /// Blanks after the value: `;` must follow.
    ValueBlank,
}

impl Ext {
    /// May the line end here?
    fn is_complete(self) -> bool {
        matches!(self, Ext::Name | Ext::Token | Ext::QuotedEnd)
    }

    /// The next state.
    fn next(self, byte: u8) -> Option<Ext> {
        let is_blank = matches!(byte, b' ' | b'\t');
        Some(match (self, byte) {
            (Ext::Begin | Ext::Equals | Ext::NameBlank | Ext::ValueBlank, _) if is_blank => self,
            (Ext::Begin | Ext::Name, _) if is_token_byte(byte) => Ext::Name,
            (Ext::Equals | Ext::Token, _) if is_token_byte(byte) => Ext::Token,
            (Ext::Name, _) if is_blank => Ext::NameBlank,
            (Ext::Token | Ext::QuotedEnd, _) if is_blank => Ext::ValueBlank,
            (Ext::Name | Ext::NameBlank, b'=') => Ext::Equals,
            (Ext::Equals, b'"') => Ext::Quoted,
            (Ext::Quoted, b'"') => Ext::QuotedEnd,
            (Ext::Quoted, b'\\') => Ext::Escaped,
            (Ext::Quoted | Ext::Escaped, b'\t' | b' '..=0x7e | 0x80..) => Ext::Quoted,
            (Ext::Name | Ext::NameBlank | Ext::Token | Ext::QuotedEnd | Ext::ValueBlank, b';') => {
                Ext::Begin
            }
            _ => return None,
        })
    }
}

/// The result of [`ChunkedDecoder::next`].
#[derive(Debug)]
pub enum Chunk {
    /// `buf[start..end]` are bytes of the body, at least one; everything up to `end` is consumed.
    Data {
        /// Where they begin.
        start: usize,
        /// Where they end.
        end: usize,
    },
    /// No body bytes; all `consumed` bytes can be dropped, and more are needed.
    More {
        /// The length of the buffer.
        consumed: usize,
    },
    /// The body is complete; the next message begins at `consumed`.
    End {
        /// The number of bytes that belong to this body.
        consumed: usize,
        /// The trailer lines that may be passed on.
        trailers: Fields,
    },
}

impl ChunkedDecoder {
    /// A decoder at the start of a body.
    pub fn new(limits: &Limits) -> Self {
        Self {
            state: State::Size {
                value: 0,
                digits: 0,
            },
            extension_bytes: 0,
            trailers: Vec::new(),
            trailer_bytes_max: limits.head_bytes_max.min(TRAILER_BYTES_MAX),
            fields_max: limits.fields_max,
        }
    }

    /// Decodes the bytes after those consumed so far. After [`Chunk::End`] it consumes nothing.
    ///
    /// # Errors Always [`Reject::Body`]. Do not call again: it is unknown where the next message begins.
    pub fn next(&mut self, buf: &[u8]) -> Result<Chunk, Reject> {
        self.advance(buf).map_err(Reject::Body)
    }

    /// Has the end of the body been consumed?
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    fn advance(&mut self, buf: &[u8]) -> Result<Chunk, Fault> {
        let mut at = 0;
        if self.is_done() {
            return Ok(Chunk::End {
                consumed: 0,
                trailers: Fields::new(),
            });
        }
        while let Some(&byte) = buf.get(at) {
            if let State::Data { left } = self.state {
                let len = usize::try_from(left)
                    .unwrap_or(usize::MAX)
                    .min(buf.len() - at);
                let left = left - len as u64;
                self.state = if left == 0 {
                    State::DataCr
                } else {
                    State::Data { left }
                };
                return Ok(Chunk::Data {
                    start: at,
                    end: at + len,
                });
            }
            at += 1;
            self.state = match self.state {
                State::Trailers { line } => self.trailer_byte(line, byte)?,
                state => self.frame_byte(state, byte)?,
            };
            if self.is_done() {
                return Ok(Chunk::End {
                    consumed: at,
                    trailers: self.take_trailers()?,
                });
            }
        }
        Ok(Chunk::More { consumed: at })
    }

    /// The state after one byte that is not in data or trailers.
    fn frame_byte(&mut self, state: State, byte: u8) -> Result<State, Fault> {
        Ok(match (state, byte) {
            (State::Size { digits: 1.., value }, b'\r') => State::SizeEnd { value },
            (State::Size { digits: 1.., value } | State::Blank { value }, b';') => {
                self.extension_byte()?;
                let at = Ext::Begin;
                State::Extension { value, at }
            }
            //= rfc9112 §7.1.1   bad white space before the semicolon is taken
            (State::Size { digits: 1.., value } | State::Blank { value }, b' ' | b'\t') => {
                self.extension_byte()?;
                State::Blank { value }
            }
            (State::Size { value, digits }, _) => {
                let digit = (byte as char).to_digit(16).ok_or(Fault::ChunkSize)?;
                //= rfc9112 §7.1   anticipate large numerals and prevent overflow
                if digits == SIZE_DIGITS_MAX {
                    return Err(Fault::ChunkSize);
                }
                let value = value << 4 | u64::from(digit);
                if value > BODY_BYTES_MAX {
                    return Err(Fault::ChunkSize);
                }
                State::Size {
                    value,
                    digits: digits + 1,
                }
            }
            (State::Blank { .. }, _) => return Err(Fault::ChunkSize),
            (State::Extension { value, at }, b'\r') if at.is_complete() => State::SizeEnd { value },
            (State::Extension { value, at }, _) => {
                self.extension_byte()?;
                let at = at.next(byte).ok_or(Fault::ChunkExtension)?;
                State::Extension { value, at }
            }
            (State::SizeEnd { value: 0 }, b'\n') => State::Trailers { line: 0 },
            (State::SizeEnd { value }, b'\n') => State::Data { left: value },
            (State::SizeEnd { .. }, _) => return Err(Fault::ChunkSize),
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => State::Size {
                value: 0,
                digits: 0,
            },
            (State::DataCr | State::DataLf, _) => return Err(Fault::ChunkEnd),
            (State::Data { .. } | State::Trailers { .. } | State::Done, _) => {
                unreachable!("data, trailers and the end are not framing")
            }
        })
    }

    fn extension_byte(&mut self) -> Result<(), Fault> {
        self.extension_bytes += 1;
        if self.extension_bytes > EXTENSION_BYTES_MAX {
            Err(Fault::ChunkExtension)
        } else {
            Ok(())
        }
    }

    /// Collects one byte of the trailer section; its current line began at `line`.
    fn trailer_byte(&mut self, line: usize, byte: u8) -> Result<State, Fault> {
        if self.trailers.len() == self.trailer_bytes_max {
            return Err(Fault::Trailers);
        }
        self.trailers.push(byte);
        match &self.trailers[line..] {
            b"\r\n" => Ok(State::Done),
            [.., b'\r', b'\n'] => Ok(State::Trailers {
                line: self.trailers.len(),
            }),
            [.., b'\n'] => Err(Fault::Trailers),
            _ => Ok(State::Trailers { line }),
        }
    }

    fn take_trailers(&mut self) -> Result<Fields, Fault> {
        let section = std::mem::take(&mut self.trailers);
        if section == b"\r\n" {
            return Ok(Fields::new());
        }
        let limits = Limits {
            fields_max: self.fields_max,
            ..Limits::default()
        };
        parse_trailers(&section, &limits).ok_or(Fault::Trailers)
    }
}

/// Parses a trailer section with its empty line; `None` if it is malformed.
fn parse_trailers(section: &[u8], limits: &Limits) -> Option<Fields> {
    let mut space = Vec::new();
    let parsed = httparse::parse_headers(section, room_for(section, limits, &mut space));
    let Ok(Status::Complete((len, parsed))) = parsed else {
        return None;
    };
    if len != section.len() || !lines::ends_are_strict(section) {
        return None;
    }
    let mut trailers = Fields::with_capacity(parsed.len(), section.len() + parsed.len());
    for line in parsed
        .iter()
        .filter(|line| !is_forbidden_trailer(line.name.as_bytes()))
    {
        trailers.push(line.name.as_bytes(), line.value);
    }
    Some(trailers)
}

/// Is it a field that controls framing, routing, authentication, caching or the reading of a message? Such fields have no
/// effect in trailers, and no later recipient may merge them into the head, so they are dropped.
//= rfc9110 §6.5.1   framing, routing, authentication, request modifiers, response controls, content format
pub fn is_forbidden_trailer(name: &[u8]) -> bool {
    // Of the known fields only ETag is useful as a trailer.
    if !Seen::of(name).is_empty() {
        return Seen::of(name) != Seen::ETAG;
    }
    const OTHERS: &[&str] = &[
        "authentication-info",
        "content-encoding",
        "content-location",
        "content-range",
        "content-type",
        "location",
        "proxy-authenticate",
        "proxy-authentication-info",
        "retry-after",
        "surrogate-control",
        "cdn-cache-control",
        "loligo-cache-control",
        "www-authenticate",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-real-ip",
    ];
    OTHERS
        .iter()
        .any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
}

#[cfg(test)]
mod tests;
