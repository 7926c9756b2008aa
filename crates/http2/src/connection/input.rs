//! Frames as they come in (RFC 9113 §6).
//!
//! DATA is given as it arrives, a part of a frame at a time. All other frames are taken whole, so that the caller's buffer
//! must hold one: 16,393 bytes. A field block of several frames is collected by `block`.

use std::ops::Range;
use std::time::Duration;

use super::settings::{self, WINDOW_DEFAULT, WINDOW_MAX};
use super::{
    Connection, DRAIN_PING, Drain, EARLY_PRIORITIES_MAX, Event, OUTPUT_WAITING_MAX, ResetBy, Taken,
};
use crate::frame::{self, HEADER_BYTES, Header, PAYLOAD_BYTES_MAX, PREFACE, flag, kind, word};
use crate::streams::Gone;
use crate::{ErrorCode, Fault, Priority, StreamId};

/// What is expected of the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    Preface,
    FirstSettings,
    Frames,
}

/// A DATA frame of which not all has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct DataFrame {
    stream: u32,
    /// Of the body.
    left: usize,
    /// Behind it.
    padding: usize,
    ends: bool,
}

/// An event, without what it borrows.
#[derive(Debug)]
pub(super) enum Happened {
    Request {
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

/// What a step did with the input.
pub(super) enum Step {
    More,
    Took(usize, Option<Happened>),
}

type Stepped = Result<Option<Happened>, Fault>;

impl Connection {
    /// Takes bytes from the client, up to the next event. Call again with what is left, until there is no event.
    ///
    /// # Errors
    /// The connection ends: write what is to be written, and close.
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
            kind::GOAWAY => self.go_away(header, payload)?,
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

    /// The header of a DATA frame; its body follows as it comes.
    fn data(&mut self, header: Header, rest: &[u8], now: Duration) -> Result<Step, Fault> {
        let Header { len, stream, .. } = header;
        if stream == 0 {
            return Err(Fault::FrameOnWrongStream);
        }
        if stream > self.streams.last_id() || stream.is_multiple_of(2) {
            return Err(Fault::StreamIdle);
        }
        let (pad_field, padding) = if header.has(flag::PADDED) {
            match rest.first() {
                _ if len == 0 => return Err(Fault::FrameLength),
                None => return Ok(Step::More),
                Some(&padding) => (1, usize::from(padding)),
            }
        } else {
            (0, 0)
        };
        //= rfc9113 §6.1   padding as long as the payload or longer
        let left = len.checked_sub(pad_field + padding).ok_or(Fault::Padding)?;
        //= rfc9113 §6.9.1   the whole payload counts, and counts on the connection whatever becomes of the stream (C1)
        self.recv_window -= len as i64;
        if self.recv_window < 0 {
            return Err(Fault::WindowExceededConnection);
        }
        let ends = header.has(flag::END_STREAM);
        self.data = Some(DataFrame {
            stream,
            left,
            padding,
            ends,
        });
        if !(self.budget.data(left, now) || ends) {
            return Err(Fault::SmallFrames);
        }
        if left == 0 && !ends {
            self.charge_useless(now)?;
        }
        let happened = self.charge_data(header, left, now)?;
        self.credit((pad_field + padding) as u32);
        Ok(Step::Took(HEADER_BYTES + pad_field, happened))
    }

    /// A DATA frame with `left` bytes of a body begins: may its stream have it?
    fn charge_data(&mut self, header: Header, left: usize, now: Duration) -> Stepped {
        let len = header.len as i64;
        let Some(stream) = self.streams.find(header.stream) else {
            if self.streams.how_gone(header.stream) == Some(Gone::ResetByUs) {
                return Ok(None);
            }
            self.streams.note_gone(header.stream, Gone::ResetByUs);
            self.reset_number(header.stream, Fault::DataOnClosed, now)?;
            return Ok(None);
        };
        let found = self.streams.get_mut(stream).expect("it was found");
        if found.is_reset {
            if found.is_reset_by_client {
                self.reset_number(header.stream, Fault::DataOnClosed, now)?;
            }
            return Ok(None);
        }
        let padding = len - left as i64;
        if found.recv_ended {
            return self.reset_for(stream, Fault::DataOnClosed, now);
        }
        found.recv_window -= len;
        if found.recv_window < 0 {
            return self.reset_for(stream, Fault::WindowExceeded, now);
        }
        // Padding is taken at once.
        found.recv_credit += padding as u32;
        //= rfc9113 §8.1.1   the sum of DATA and Content-Length must be equal
        if let Some(expected) = &mut found.recv_expected {
            match expected.checked_sub(left as u64) {
                Some(left) => *expected = left,
                None => return self.reset_for(stream, Fault::LengthDiffers, now),
            }
            if header.has(flag::END_STREAM) && *expected > 0 {
                return self.reset_for(stream, Fault::LengthDiffers, now);
            }
        }
        Ok(None)
    }

    /// Gives what has come of a DATA frame's body, then passes over its padding.
    fn go_on_with_data(&mut self, input: &[u8]) -> Step {
        let Some(frame) = &mut self.data else {
            return Step::More;
        };
        if frame.left == 0 && !frame.ends {
            let padding = frame.padding.min(input.len());
            frame.padding -= padding;
            if frame.padding > 0 {
                return match padding {
                    0 => Step::More,
                    _ => Step::Took(padding, None),
                };
            }
            self.data = None;
            return Step::Took(padding, None);
        }
        let bytes = frame.left.min(input.len());
        if bytes == 0 && frame.left > 0 {
            return Step::More;
        }
        frame.left -= bytes;
        let ends = frame.ends && frame.left == 0;
        if ends {
            // Said once; padding may follow.
            frame.ends = false;
        }
        let id = frame.stream;
        let stream = self.streams.find(id);
        let found = stream.and_then(|stream| Some((stream, self.streams.get_mut(stream)?)));
        let Some((stream, found)) = found.filter(|(_, found)| !found.is_reset) else {
            self.credit(bytes as u32);
            return Step::Took(bytes, None);
        };
        found.recv_held += bytes as u32;
        found.recv_ended |= ends;
        if found.is_released && !found.is_tunnel {
            // The caller has answered, and wants no more; the answer is on its way.
            self.consumed(stream, bytes);
            if ends {
                self.settle(stream);
            }
            return Step::Took(bytes, None);
        }
        if ends {
            // A tunnel whose caller is gone already.
            self.settle(stream);
        }
        Step::Took(
            bytes,
            Some(Happened::Data {
                stream,
                at: 0..bytes,
                ends,
            }),
        )
    }

    //= rfc9113 §6.3   priorities of RFC 7540 are read and ignored
    fn priority(&mut self, header: Header, payload: &[u8], now: Duration) -> Stepped {
        self.charge_useless(now)?;
        if header.stream == 0 {
            return Err(Fault::FrameOnWrongStream);
        }
        let fault = match word(payload) {
            _ if payload.len() != 5 => Fault::PriorityLength,
            Some(parent) if parent & frame::STREAM_MASK == header.stream => Fault::SelfDependency,
            _ => return Ok(None),
        };
        match self.streams.find(header.stream) {
            Some(stream) => self.reset_for(stream, fault, now),
            // RST_STREAM on an idle stream is not allowed to us.
            None if header.stream > self.streams.last_id() => Err(Fault::FrameLength),
            None => self.reset_number(header.stream, fault, now).map(|()| None),
        }
    }

    fn rst_stream(&mut self, header: Header, payload: &[u8], now: Duration) -> Stepped {
        let code = word(payload)
            .filter(|_| payload.len() == 4)
            .ok_or(Fault::FrameLength)?;
        self.known(header.stream)?;
        let Some(stream) = self.streams.find(header.stream) else {
            self.charge_useless(now)?;
            return Ok(None);
        };
        let found = self.streams.get(stream).expect("it was found");
        if found.is_reset {
            self.charge_useless(now)?;
            return Ok(None);
        }
        self.charge_reset(now)?;
        let found = self.streams.get_mut(stream).expect("it was found");
        found.is_reset_by_client = true;
        self.note_reset(stream);
        self.settle(stream);
        Ok(Some(Happened::Reset {
            stream,
            by: ResetBy::Client(ErrorCode(code)),
        }))
    }

    fn settings(&mut self, header: Header, payload: &[u8], now: Duration) -> Stepped {
        if header.stream != 0 {
            return Err(Fault::FrameOnWrongStream);
        }
        if header.has(flag::ACK) {
            if !payload.is_empty() {
                return Err(Fault::FrameLength);
            }
            if self.settings_acked {
                self.charge_useless(now)?;
                return Ok(None);
            }
            self.settings_acked = true;
            // Streams that began with more than our SETTINGS give have less now, perhaps below 0.
            let excess = i64::from(WINDOW_DEFAULT) - i64::from(self.limits.stream_window);
            for index in 0..self.streams.len() {
                let stream = self.streams.at(index).expect("it is one of them");
                let found = self.streams.get_mut(stream).expect("it is one of them");
                found.recv_window -= excess.max(0);
            }
            return Ok(None);
        }
        if !payload.len().is_multiple_of(6) {
            return Err(Fault::FrameLength);
        }
        if self.stage == Stage::FirstSettings {
            self.stage = Stage::Frames;
        } else {
            self.charge_useless(now)?;
        }
        let before = i64::from(self.settings.initial_window);
        self.settings.apply(payload)?;
        settings::write_ack(&mut self.out);
        let more = i64::from(self.settings.initial_window) - before;
        if more != 0 {
            self.shift_windows(more, now)?;
        }
        Ok(None)
    }

    //= rfc9113 §6.9.2   a change of the initial window shifts the window of every stream, perhaps below 0
    fn shift_windows(&mut self, more: i64, now: Duration) -> Result<(), Fault> {
        for index in 0..self.streams.len() {
            let stream = self.streams.at(index).expect("it is one of them");
            let found = self.streams.get_mut(stream).expect("it is one of them");
            found.send_window += more;
            if found.send_window > WINDOW_MAX {
                return Err(Fault::WindowOverflowConnection);
            }
            self.heed_window(stream, now);
        }
        Ok(())
    }

    /// Keeps C3 after the window of a stream has changed.
    fn heed_window(&mut self, stream: StreamId, now: Duration) {
        let found = self.streams.get_mut(stream).expect("its window changed");
        let is_ready = found.is_writable() && found.queued > 0 && found.send_window > 0;
        if is_ready == found.is_ready {
            return;
        }
        found.is_ready = is_ready;
        if is_ready {
            found.moved_at = found
                .moved_at
                .max(now.saturating_sub(self.limits.stall_time / 2));
            self.ready.insert(stream, found.priority);
        } else {
            self.ready.remove(stream, found.priority);
        }
    }

    fn ping(&mut self, header: Header, payload: &[u8], now: Duration) -> Stepped {
        if header.stream != 0 {
            return Err(Fault::FrameOnWrongStream);
        }
        if payload.len() != 8 {
            return Err(Fault::FrameLength);
        }
        if header.has(flag::ACK) {
            if payload == DRAIN_PING && matches!(self.drain, Drain::Asked(_)) {
                self.drain_finally();
            } else {
                self.charge_useless(now)?;
            }
            return Ok(None);
        }
        self.charge_useless(now)?;
        let answer = Header {
            flags: flag::ACK,
            ..header
        };
        answer.write(&mut self.out);
        self.out.extend_from_slice(payload);
        Ok(None)
    }

    fn go_away(&mut self, header: Header, payload: &[u8]) -> Stepped {
        if header.stream != 0 {
            return Err(Fault::FrameOnWrongStream);
        }
        let code = payload.get(4..).and_then(word).ok_or(Fault::FrameLength)?;
        let is_first = !std::mem::replace(&mut self.peer_is_leaving, true);
        Ok(is_first.then_some(Happened::GoAway(ErrorCode(code))))
    }

    fn window_update(&mut self, header: Header, payload: &[u8], now: Duration) -> Stepped {
        let word = word(payload)
            .filter(|_| payload.len() == 4)
            .ok_or(Fault::FrameLength)?;
        let more = i64::from(word & frame::STREAM_MASK);
        self.charge_useless(now)?;
        if header.stream == 0 {
            if more == 0 {
                return Err(Fault::WindowZeroConnection);
            }
            self.send_window += more;
            return match self.send_window > WINDOW_MAX {
                true => Err(Fault::WindowOverflowConnection),
                false => Ok(None),
            };
        }
        self.known(header.stream)?;
        let Some(stream) = self.streams.find(header.stream) else {
            // It crossed the end of the stream.
            return Ok(None);
        };
        let found = self.streams.get_mut(stream).expect("it was found");
        if found.is_reset {
            return Ok(None);
        }
        //= rfc9113 §6.9   an increment of 0 is an error of the stream
        if more == 0 {
            return self.reset_for(stream, Fault::WindowZero, now);
        }
        found.send_window += more;
        if found.send_window > WINDOW_MAX {
            return self.reset_for(stream, Fault::WindowOverflow, now);
        }
        self.heed_window(stream, now);
        Ok(None)
    }

    //= rfc9218 §7.1
    fn priority_update(&mut self, header: Header, payload: &[u8], now: Duration) -> Stepped {
        self.charge_useless(now)?;
        if header.stream != 0 {
            return Err(Fault::PriorityUpdate);
        }
        let (id, value) = payload.split_first_chunk::<4>().ok_or(Fault::FrameLength)?;
        let id = u32::from_be_bytes(*id) & frame::STREAM_MASK;
        if id.is_multiple_of(2) {
            return Err(Fault::PriorityUpdate);
        }
        let priority = Priority::parse(value);
        if id > self.streams.last_id() {
            self.early_priorities.retain(|&(early, _)| early != id);
            //= rfc9218 §7.1   a server may discard what it has no room for
            if self.early_priorities.len() < EARLY_PRIORITIES_MAX {
                self.early_priorities.push((id, priority));
            }
        } else if let Some(stream) = self.streams.find(id) {
            let found = self.streams.get_mut(stream).expect("it was found");
            if found.is_ready {
                self.ready.remove(stream, found.priority);
                self.ready.insert(stream, priority);
            }
            found.priority = priority;
        }
        Ok(None)
    }

    /// A frame of a stream that was opened, at some time.
    fn known(&self, id: u32) -> Result<(), Fault> {
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
        match self.budget.reset(now) {
            true => Ok(()),
            false => Err(Fault::ResetFlood),
        }
    }

    /// Resets a stream that is closed, for a frame that came behind its end.
    //= rfc9113 §5.1   closed: such a frame is an error of the stream, or of the connection
    fn reset_number(&mut self, id: u32, fault: Fault, now: Duration) -> Result<(), Fault> {
        self.counts.add(fault);
        self.charge_reset(now)?;
        frame::write_word(kind::RST_STREAM, id, fault.code().0, &mut self.out);
        Ok(())
    }

    /// Resets a stream for what the client did. It costs as much as a reset by the client.
    //= CVE-2025-8671   made to reset, a server must not have more work under way than streams
    pub(super) fn reset_for(&mut self, stream: StreamId, fault: Fault, now: Duration) -> Stepped {
        self.counts.add(fault);
        self.charge_reset(now)?;
        self.write_reset(stream, fault.code());
        Ok(Some(Happened::Reset {
            stream,
            by: ResetBy::Us(fault),
        }))
    }
}
