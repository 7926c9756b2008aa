//! Frames that carry no part of a message: PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE (RFC 9113 §6), and
//! PRIORITY_UPDATE (RFC 9218 §7.1).
//!
//! Beyond a few, most of these frames are useless to us, so they are charged to the budget.

use std::time::Duration;

use super::asking::ALIVE_PING;
use super::input::{Happened, Stepped};
use super::settings::{self, WINDOW_DEFAULT, WINDOW_MAX};
use super::stage::{Drain, Role, Stage};
use super::{Connection, DRAIN_PING, ResetBy};
use crate::error::{ErrorCode, Fault};
use crate::frame::{self, Header, flag, word};
use crate::mistakes::{Mistake, makes};
use crate::priority::Priority;
use crate::stream_id::StreamId;
use crate::streams::Stream;

/// A reset within this time after the request is charged.
const RAPID: Duration = Duration::from_secs(1);

impl Connection {
    //= rfc9113 §6.3   priorities of RFC 7540 are read and ignored
    pub(super) fn priority(&mut self, header: Header, payload: &[u8], now: Duration) -> Stepped {
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
            // RST_STREAM must not be sent on an idle stream.
            None if header.stream > self.streams.last_id() => Err(match fault {
                Fault::PriorityLength => Fault::FrameLength,
                _ => Fault::StreamIdle,
            }),
            None => self.reset_number(header.stream, fault, now).map(|()| None),
        }
    }

    pub(super) fn rst_stream(&mut self, header: Header, payload: &[u8], now: Duration) -> Stepped {
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
        // A later reset is free: the client held a stream for that time, so `streams_max` bounds how often it can do this. A server can only
        // reset requests that we chose to send.
        if now.saturating_sub(found.began) < RAPID && self.role == Role::Server {
            self.charge_reset(now)?;
        }
        let found = self.streams.get_mut(stream).expect("it was found");
        found.is_reset_by_peer = true;
        self.note_reset(stream);
        self.settle(stream);
        Ok(Some(Happened::Reset {
            stream,
            by: ResetBy::Peer(ErrorCode(code)),
        }))
    }

    pub(super) fn settings(&mut self, header: Header, payload: &[u8], now: Duration) -> Stepped {
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
            self.decoder.after_settings();
            // Streams that began with a larger window than our SETTINGS give now shrink to it, perhaps below 0.
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
        } else if !self.budget.settings(now) {
            return Err(Fault::UselessFrames);
        }
        let before = i64::from(self.settings.initial_window);
        self.settings.apply(self.role, payload)?;
        settings::write_ack(&mut self.out);
        let more = i64::from(self.settings.initial_window) - before;
        if more != 0 && !makes(Mistake::KeepWindows) {
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
        found.note_pace(now);
        let is_ready = found.is_writable() && found.queued > 0 && found.send_window > 0;
        if is_ready == found.is_ready || makes(Mistake::ForgetReady) {
            return;
        }
        found.is_ready = is_ready;
        if is_ready {
            self.ready.insert(stream, found.priority);
        } else {
            self.ready.remove(stream, found.priority);
        }
    }

    pub(super) fn ping(&mut self, header: Header, payload: &[u8], now: Duration) -> Stepped {
        if header.stream != 0 {
            return Err(Fault::FrameOnWrongStream);
        }
        if payload.len() != 8 {
            return Err(Fault::FrameLength);
        }
        if header.has(flag::ACK) {
            if payload == DRAIN_PING && matches!(self.drain, Drain::Asked(_)) {
                self.drain_finally();
            } else if payload == ALIVE_PING && self.is_ping_out {
                self.is_ping_out = false;
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

    pub(super) fn go_away(&mut self, header: Header, payload: &[u8], now: Duration) -> Stepped {
        if header.stream != 0 {
            return Err(Fault::FrameOnWrongStream);
        }
        let code = payload.get(4..).and_then(word).ok_or(Fault::FrameLength)?;
        //= rfc9113 §6.8   the last stream identifier MUST NOT increase
        let last = word(payload).unwrap_or_default() & frame::STREAM_MASK;
        let is_less = last < self.peer_last;
        self.peer_last = self.peer_last.min(last);
        let is_first = !std::mem::replace(&mut self.peer_is_leaving, true);
        if !is_first {
            self.charge_useless(now)?;
        }
        let is_news = is_first || is_less && self.role == Role::Client;
        Ok(is_news.then_some(Happened::GoAway(ErrorCode(code))))
    }

    pub(super) fn window_update(
        &mut self,
        header: Header,
        payload: &[u8],
        now: Duration,
    ) -> Stepped {
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
            self.note_pace(now);
            return match self.send_window > WINDOW_MAX {
                true => Err(Fault::WindowOverflowConnection),
                false => Ok(None),
            };
        }
        self.known(header.stream)?;
        let Some(stream) = self.streams.find(header.stream) else {
            // The frame crossed the end of its stream.
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
    pub(super) fn priority_update(
        &mut self,
        header: Header,
        payload: &[u8],
        now: Duration,
    ) -> Stepped {
        self.charge_useless(now)?;
        //= rfc9218 §7.1   a server does not send it: PROTOCOL_ERROR
        if header.stream != 0 || self.role == Role::Client {
            return Err(Fault::PriorityUpdate);
        }
        let (id, value) = payload.split_first_chunk::<4>().ok_or(Fault::FrameLength)?;
        let id = u32::from_be_bytes(*id) & frame::STREAM_MASK;
        if id.is_multiple_of(2) {
            return Err(Fault::PriorityUpdate);
        }
        let priority = Priority::parse(value);
        if id > self.streams.last_id() {
            return self.note_early_priority(id, priority).map(|()| None);
        }
        if let Some(stream) = self.streams.find(id) {
            let found = self.streams.get_mut(stream).expect("it was found");
            if found.is_ready {
                self.ready.remove(stream, found.priority);
                self.ready.insert(stream, priority);
            }
            found.priority = priority;
        }
        Ok(None)
    }

    /// Keeps the priority of a request that has not come yet.
    //= rfc9218 §7.1   prioritized idle streams and active ones together MUST NOT exceed SETTINGS_MAX_CONCURRENT_STREAMS
    fn note_early_priority(&mut self, id: u32, priority: Priority) -> Result<(), Fault> {
        let mut early = self.early_priorities.iter_mut();
        if let Some(known) = early.find(|(early, _)| *early == id) {
            known.1 = priority;
            return Ok(());
        }
        let is_active =
            |stream: &Stream| !(stream.is_reset || stream.recv_ended && stream.send_ended);
        let active = self
            .streams
            .iter()
            .filter(|(_, stream)| is_active(stream))
            .count();
        if self.early_priorities.len() + active < self.limits.streams_max as usize {
            self.early_priorities.push((id, priority));
            return Ok(());
        }
        match self.settings_acked {
            true => Err(Fault::PriorityUpdate),
            // The client may not know the bound yet: drop this priority, which is legal because priorities are advice.
            false => Ok(()),
        }
    }
}
