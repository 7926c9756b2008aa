//! Reads one answer piece by piece as it arrives, and compares every byte.
//!
//! Keeps only an incomplete head; the expected bytes of the body are computed (see `body`), so none of them are kept.
//!
//! Not known here: sockets, time-outs.   Limits: a head of `wire::HEAD_BYTES_MAX`.
//! Source: RFC 9112 §6.3 for where a body ends.

use crate::body::Body;
use crate::check::{Expected, Fault, Judged};
use crate::wire::{self, Response};

/// An answer that is being read.
#[derive(Debug)]
pub struct Answer {
    expected: Expected,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The bytes of the head so far.
    Head(Vec<u8>),
    Body {
        head: Response,
        hit: bool,
        body: Body,
        /// The part of the body that the server sends: first byte, and the byte after the last.
        part: (u64, u64),
        offset: u64,
    },
}

/// An answer that was correct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finished {
    /// 200, 206 or 304.
    pub status: u16,
    /// When the server answered, in Unix milliseconds by its own clock, if the answer says so.
    pub made_ms: Option<u64>,
    /// It had a Content-MD5, which was correct.
    pub checksum: bool,
    /// A cache answered. Always false for a 304, which does not tell.
    pub hit: bool,
    /// Bytes of the body.
    pub body_bytes: u64,
    /// The connection can be used again.
    pub keep_alive: bool,
}

impl Answer {
    /// An answer of which no byte has arrived yet.
    #[must_use]
    pub fn new(expected: Expected) -> Self {
        Self {
            expected,
            state: State::Head(Vec::new()),
        }
    }

    /// Whether any byte has arrived.
    #[must_use]
    pub fn begun(&self) -> bool {
        !matches!(&self.state, State::Head(head) if head.is_empty())
    }

    /// The exchange in which the server made this answer, if the head is complete and names one.
    #[must_use]
    pub fn exchange(&self) -> Option<u64> {
        match &self.state {
            State::Head(_) => None,
            State::Body { head, .. } => head.exchange,
        }
    }

    /// Bytes of the body that have arrived.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        match &self.state {
            State::Head(_) => 0,
            State::Body { offset, part, .. } => *offset - part.0,
        }
    }

    /// Takes the bytes that arrived at `now_s`; returns the answer if they complete it.
    ///
    /// # Errors
    /// The fault of the answer. The connection must not be used again.
    pub fn take(&mut self, bytes: &[u8], now_s: u64) -> Result<Option<Finished>, Fault> {
        let State::Head(kept) = &mut self.state else {
            return self.take_body(bytes);
        };
        if kept.is_empty() {
            return match parse(bytes)? {
                Some(head) => self.take_head(head, bytes, now_s),
                None => {
                    kept.extend_from_slice(bytes);
                    Ok(None)
                }
            };
        }
        kept.extend_from_slice(bytes);
        let Some(head) = parse(kept)? else {
            return Ok(None);
        };
        let whole = std::mem::take(kept);
        self.take_head(head, &whole, now_s)
    }

    /// `whole` begins with the head.
    fn take_head(
        &mut self,
        head: Response,
        whole: &[u8],
        now_s: u64,
    ) -> Result<Option<Finished>, Fault> {
        let rest = &whole[head.head_bytes..];
        let judged = self.expected.judge(&head, now_s)?;
        match judged {
            Judged::Object { hit, version, part } if part.0 < part.1 => {
                let body = Body::new(self.expected.request.id, version);
                let wrong = |sum: &String| *sum != body.content_md5();
                if head.status == 200 && head.checksum.as_ref().is_some_and(wrong) {
                    return Err(Fault::WrongChecksum);
                }
                self.state = State::Body {
                    hit,
                    body,
                    part,
                    offset: part.0,
                    head,
                };
                self.take_body(rest)
            }
            _ if !rest.is_empty() => Err(Fault::Trailing),
            _ => Ok(Some(Finished {
                status: head.status,
                made_ms: head.made_ms,
                checksum: false,
                hit: matches!(judged, Judged::Object { hit: true, .. }),
                body_bytes: 0,
                keep_alive: head.keep_alive,
            })),
        }
    }

    fn take_body(&mut self, bytes: &[u8]) -> Result<Option<Finished>, Fault> {
        let State::Body {
            head,
            hit,
            body,
            part,
            offset,
        } = &mut self.state
        else {
            unreachable!("called with a head");
        };
        let left = part.1 - *offset;
        if bytes.len() as u64 > left {
            return Err(match head.length {
                Some(_) => Fault::Trailing,
                None => Fault::WrongLength,
            });
        }
        if let Some(at) = body.difference(*offset, bytes) {
            return Err(Fault::WrongBytes { at });
        }
        *offset += bytes.len() as u64;
        let done = *offset == part.1 && head.length.is_some();
        Ok(done.then_some(Finished {
            status: head.status,
            made_ms: head.made_ms,
            checksum: head.checksum.is_some(),
            hit: *hit,
            body_bytes: *offset - part.0,
            keep_alive: head.keep_alive,
        }))
    }

    /// The connection was closed.
    ///
    /// # Errors
    /// If the answer is not complete.
    pub fn end(&self) -> Result<Finished, Fault> {
        match &self.state {
            State::Head(kept) if kept.is_empty() => Err(Fault::Closed),
            State::Body {
                head,
                hit,
                part,
                offset,
                ..
            } if head.length.is_none() && *offset == part.1 => Ok(Finished {
                status: head.status,
                made_ms: head.made_ms,
                checksum: head.checksum.is_some(),
                hit: *hit,
                body_bytes: *offset - part.0,
                keep_alive: false,
            }),
            _ => Err(Fault::Truncated),
        }
    }
}

fn parse(bytes: &[u8]) -> Result<Option<Response>, Fault> {
    wire::parse_response(bytes).map_err(|_| Fault::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::{Kind, ObjectId};
    use crate::request::{Condition, Method, Request};
    use crate::wire::{Minor, Reply, write_reply};

    const NOW_S: u64 = 1_700_000_000;

    fn expected() -> Expected {
        let id = (1..)
            .map(|number| ObjectId {
                world: 1,
                server: 0,
                kind: Kind::Html,
                number,
            })
            .find(|id| id.cachable())
            .unwrap();
        let request = Request {
            id,
            offered: false,
            offered_lru: false,
            condition: Condition::Basic,
            method: Method::Get,
            abort: false,
            repeat: false,
        };
        Expected {
            request,
            exchange: 5,
            sent_s: NOW_S,
            life: id.life(1.0),
            reloaded_ms: None,
        }
    }

    fn message(expected: &Expected) -> Vec<u8> {
        let version = expected.asked();
        let mut bytes = Vec::new();
        let reply = Reply {
            status: 200,
            length: expected.request.id.size(),
            cachable: true,
            now_s: NOW_S,
            modified_s: version.since_s,
            expires_s: version.until_s,
            exchange: 4,
            version: version.number,
            made_ms: NOW_S * 1_000,
            range: None,
            checksum: None,
            keep_alive: true,
        };
        write_reply(&reply, Minor::Zero, &mut bytes);
        let head = bytes.len();
        let body = Body::new(expected.request.id, version.number);
        bytes.resize(head + usize::try_from(body.len()).unwrap(), 0);
        body.fill(0, &mut bytes[head..]);
        bytes
    }

    fn read(bytes: &[u8], piece: usize) -> Result<Finished, Fault> {
        let mut answer = Answer::new(expected());
        for bytes in bytes.chunks(piece) {
            if let Some(finished) = answer.take(bytes, NOW_S)? {
                return Ok(finished);
            }
        }
        answer.end()
    }

    #[test]
    fn pieces_make_no_difference() {
        let bytes = message(&expected());
        for piece in [1, 7, 64, 1000, bytes.len()] {
            let finished = read(&bytes, piece).unwrap();
            assert_eq!(finished.body_bytes, expected().request.id.size());
            assert!(finished.hit && finished.keep_alive);
        }
    }

    #[test]
    fn every_wrong_byte_of_a_body_is_found() {
        let bytes = message(&expected());
        let body = bytes.len() - usize::try_from(expected().request.id.size()).unwrap();
        for at in (body..bytes.len()).step_by(31) {
            let mut wrong = bytes.clone();
            wrong[at] ^= 0x20;
            let at = (at - body) as u64;
            assert_eq!(read(&wrong, 500), Err(Fault::WrongBytes { at }));
        }
    }

    #[test]
    fn a_checksum_must_be_that_of_the_body() {
        let bytes = message(&expected());
        let body = Body::new(expected().request.id, expected().asked().number);
        let with = |sum: &str| {
            let at = bytes.windows(2).position(|end| end == b"\r\n").unwrap();
            let field = format!("\r\nContent-MD5: {sum}");
            read(
                &[&bytes[..at], field.as_bytes(), &bytes[at..]].concat(),
                500,
            )
        };
        assert!(with(&body.content_md5()).unwrap().checksum);
        let wrong = with("Q2hlY2sgSW50ZWdyaXR5IQ==");
        assert_eq!(wrong, Err(Fault::WrongChecksum));
        assert!(!read(&bytes, 500).unwrap().checksum);
    }

    #[test]
    fn short_and_long_answers_are_found() {
        let mut bytes = message(&expected());
        assert_eq!(read(&bytes[..bytes.len() - 1], 500), Err(Fault::Truncated));
        assert_eq!(read(&bytes[..20], 500), Err(Fault::Truncated));
        assert_eq!(read(&[], 500), Err(Fault::Closed));
        bytes.push(b'!');
        assert_eq!(read(&bytes, bytes.len()), Err(Fault::Trailing));
    }
}
