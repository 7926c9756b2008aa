//! Frames as they come in (RFC 9113 §6).
//!
//! DATA is passed on as it arrives, a part of a frame at a time (`data`). All other frames are taken whole, so the caller's buffer must
//! have room for the longest: 16,393 bytes. A field block of several frames is collected by `block`; `control` has the frames that carry
//! no part of a message.

use std::ops::Range;
use std::time::Duration;

use super::stage::{Role, Stage};
use super::{Connection, Event, OUTPUT_WAITING_MAX, ResetBy, Taken};
use crate::error::{ErrorCode, Fault};
use crate::frame::{self, HEADER_BYTES, Header, PAYLOAD_BYTES_MAX, PREFACE, flag, kind};
use crate::stream_id::StreamId;

/// An [`Event`] without its borrowed data.
#[derive(Debug)]
pub(super) enum Happened {
    Request {
        stream: StreamId,
        ends: bool,
    },
    Response {
        stream: StreamId,
        ends: bool,
    },
    Data {
        stream: StreamId,
        at: Range<usize>,
        ends: bool,
    },
    Trailers(StreamId),
    Reset {
        stream: StreamId,
        by: ResetBy,
    },
    Refused(Fault),
    GoAway(ErrorCode),
}

/// The result of one step on the input.
pub(super) enum Step {
    More,
    Took(usize, Option<Happened>),
}

pub(super) type Stepped = Result<Option<Happened>, Fault>;

impl Connection {
    /// Takes bytes from the peer, up to the next event. Call again with the rest of the input until there is no event.
    ///
    /// # Errors
    /// The connection ends: write the waiting output, then close.
    pub fn handle_input<'a>(
        &'a mut self,
        input: &'a [u8],
        now: Duration,
    ) -> Result<Taken<'a>, Fault> {
        let mut at = 0;
        let happened = loop {
            if let Some(fault) = self.fatal {
                return Err(fault);
            }
            if self.out.len() > OUTPUT_WAITING_MAX {
                break None;
            }
            match self.step(&input[at..], now) {
                Ok(Step::More) => break None,
                Ok(Step::Took(bytes, happened)) => {
                    let before = at;
                    at += bytes;
                    if let Some(mut happened) = happened {
                        if let Happened::Data { at, .. } = &mut happened {
                            *at = before + at.start..before + at.end;
                        }
                        break Some(happened);
                    }
                }
                Err(fault) => return Err(self.fail(fault)),
            }
        };
        let event = happened.map(|happened| match happened {
            Happened::Request { stream, ends } => Event::Request {
                stream,
                head: self.head.view(ends),
            },
            Happened::Response { stream, ends } => Event::Response {
                stream,
                head: self.head.response(ends),
            },
            Happened::Data { stream, at, ends } => Event::Data {
                stream,
                bytes: &input[at],
                ends,
            },
            Happened::Trailers(stream) => Event::Trailers {
                stream,
                fields: self.head.fields(),
            },
            Happened::Reset { stream, by } => Event::Reset { stream, by },
            Happened::Refused(fault) => Event::Refused(fault),
            Happened::GoAway(code) => Event::GoAway(code),
        });
        Ok(Taken { bytes: at, event })
    }

    #[inline]
    fn step(&mut self, input: &[u8], now: Duration) -> Result<Step, Fault> {
        if self.data.is_some() {
            return Ok(self.go_on_with_data(input));
        }
        if self.stage == Stage::Preface {
            return self.preface(input);
        }
        // An HTTP/1 server answers the preface with an HTTP/1 response.
        if self.stage == Stage::FirstSettings
            && self.role == Role::Client
            && input.starts_with(b"HTTP/1")
        {
            return Err(Fault::Preface);
        }
        let Some(header) = Header::parse(input) else {
            return Ok(Step::More);
        };
        if header.len > PAYLOAD_BYTES_MAX {
            return Err(Fault::FrameTooLarge);
        }
        if self.stage == Stage::FirstSettings
            && (header.kind != kind::SETTINGS || header.has(flag::ACK))
        {
            return Err(Fault::FirstFrame);
        }
        //= rfc9113 §6.10   nothing comes between the frames of a field block
        if self.block_of.is_some() && header.kind != kind::CONTINUATION {
            return Err(Fault::ContinuationExpected);
        }
        if header.kind == kind::DATA {
            return self.data(header, &input[HEADER_BYTES..], now);
        }
        let Some(payload) = input[HEADER_BYTES..].get(..header.len) else {
            return Ok(Step::More);
        };
        let happened = match header.kind {
            kind::HEADERS => self.headers(header, payload, now)?,
            kind::CONTINUATION => self.continuation(header, payload, now)?,
            kind::PRIORITY => self.priority(header, payload, now)?,
            kind::RST_STREAM => self.rst_stream(header, payload, now)?,
            kind::SETTINGS => self.settings(header, payload, now)?,
            kind::PUSH_PROMISE => return Err(Fault::Push),
            kind::PING => self.ping(header, payload, now)?,
            kind::GOAWAY => self.go_away(header, payload, now)?,
            kind::WINDOW_UPDATE => self.window_update(header, payload, now)?,
            kind::PRIORITY_UPDATE => self.priority_update(header, payload, now)?,
            //= rfc9113 §4.1   frames of unknown types are ignored
            _ => {
                self.charge_useless(now)?;
                None
            }
        };
        Ok(Step::Took(HEADER_BYTES + header.len, happened))
    }

    //= rfc9113 §3.4   an invalid preface is an error of the connection
    fn preface(&mut self, input: &[u8]) -> Result<Step, Fault> {
        let len = input.len().min(PREFACE.len());
        if input[..len] != PREFACE[..len] {
            return Err(Fault::Preface);
        }
        if len < PREFACE.len() {
            return Ok(Step::More);
        }
        self.stage = Stage::FirstSettings;
        Ok(Step::Took(len, None))
    }

    /// An error if the stream was never opened.
    pub(super) fn known(&self, id: u32) -> Result<(), Fault> {
        match id {
            0 => Err(Fault::FrameOnWrongStream),
            _ if id > self.streams.last_id() || id.is_multiple_of(2) => Err(Fault::StreamIdle),
            _ => Ok(()),
        }
    }

    pub(super) fn charge_useless(&mut self, now: Duration) -> Result<(), Fault> {
        match self.budget.useless(now) {
            true => Ok(()),
            false => Err(Fault::UselessFrames),
        }
    }

    pub(super) fn charge_reset(&mut self, now: Duration) -> Result<(), Fault> {
        match self.budget.reset(1, now) {
            true => Ok(()),
            false => Err(Fault::ResetFlood),
        }
    }

    /// The error code sent for a fault. A head that is too large is answered by a server, but only reset by a client.
    fn code_of(&self, fault: Fault) -> ErrorCode {
        match fault.status() {
            Some(_) if self.role == Role::Client => ErrorCode::ENHANCE_YOUR_CALM,
            _ => fault.code(),
        }
    }

    /// Sends RST_STREAM on a closed stream, for a frame that came after its end.
    //= rfc9113 §5.1   closed: such a frame is an error of the stream, or of the connection
    pub(super) fn reset_number(
        &mut self,
        id: u32,
        fault: Fault,
        now: Duration,
    ) -> Result<(), Fault> {
        self.counts.add(fault);
        self.charge_reset(now)?;
        frame::write_word(kind::RST_STREAM, id, fault.code().0, &mut self.out);
        Ok(())
    }

    /// Resets a stream for a fault of the peer. A client is charged as for a reset of its own. A server is not: it can cause no more resets than
    /// we send requests.
    //= CVE-2025-8671   made to reset, a server must not have more work under way than streams
    pub(super) fn reset_for(&mut self, stream: StreamId, fault: Fault, now: Duration) -> Stepped {
        self.counts.add(fault);
        if self.role == Role::Server {
            self.charge_reset(now)?;
        }
        self.write_reset(stream, self.code_of(fault));
        Ok(Some(Happened::Reset {
            stream,
            by: ResetBy::Us(fault),
        }))
    }
}
