//! Timeouts: of the handshake, of field blocks, of drains, of stalled streams.

use std::time::Duration;

use super::stage::{Drain, Stage};
use super::{Connection, Event, ResetBy};
use crate::error::{ErrorCode, Fault};

impl Connection {
    /// When [`Connection::handle_timeout`] must be called next, at the latest.
    pub fn next_deadline(&self) -> Option<Duration> {
        if self.fatal.is_some() {
            return None;
        }
        let handshake = match self.stage {
            Stage::Preface | Stage::FirstSettings => {
                Some(self.started_at + self.limits.preface_time)
            }
            Stage::Frames if !self.settings_acked => {
                Some(self.started_at + self.limits.settings_time)
            }
            Stage::Frames => None,
        };
        let drain = match self.drain {
            Drain::Asked(until) => Some(until),
            Drain::No | Drain::Final => None,
        };
        let block = self
            .block_of
            .as_ref()
            .map(|block| block.began_at + self.limits.block_time);
        let stall = (self.streams.len() > 0).then_some(self.stall_look_at);
        [handshake, drain, block, stall].into_iter().flatten().min()
    }

    /// Changes [`crate::Limits::stall_time`]: the time for which a client may take nothing of a stream.
    pub fn set_stall_time(&mut self, stall_time: Duration, now: Duration) {
        self.limits.stall_time = stall_time;
        self.stall_look_at = self.stall_look_at.min(now + stall_time / 4);
    }

    /// Handles timeouts that are due. An event reports a stalled stream that was reset; call again until there is none.
    ///
    /// # Errors
    /// The connection ends: write the waiting output, then close.
    pub fn handle_timeout(&mut self, now: Duration) -> Result<Option<Event<'static>>, Fault> {
        if let Some(fault) = self.fatal {
            return Err(fault);
        }
        let since_start = now.saturating_sub(self.started_at);
        if self.stage != Stage::Frames {
            if since_start >= self.limits.preface_time {
                return Err(self.fail(Fault::PrefaceTimeout));
            }
        } else if !self.settings_acked && since_start >= self.limits.settings_time {
            return Err(self.fail(Fault::SettingsTimeout));
        }
        let block = self.block_of.as_ref();
        if block.is_some_and(|block| now >= block.began_at + self.limits.block_time) {
            return Err(self.fail(Fault::BlockTimeout));
        }
        if let Drain::Asked(until) = self.drain
            && now >= until
        {
            self.drain_finally();
        }
        if now < self.stall_look_at {
            return Ok(None);
        }
        self.note_pace(now);
        let limits = self.limits;
        if self.pace.is_too_slow(now, &limits) {
            return Err(self.fail(Fault::WindowStalled));
        }
        let stalled = self
            .streams
            .iter()
            .find(|(_, stream)| stream.queued > 0 && stream.is_too_slow(now, &limits))
            .map(|(stream, _)| stream);
        let Some(stream) = stalled else {
            // A stall is noticed late by a quarter of `stall_time` at most.
            self.stall_look_at = now + limits.stall_time / 4;
            return Ok(None);
        };
        self.counts.add(Fault::Stalled);
        self.write_reset(stream, Fault::Stalled.code());
        Ok(Some(Event::Reset {
            stream,
            by: ResetBy::Us(Fault::Stalled),
        }))
    }

    /// Sends the final GOAWAY: streams above its last one are ignored from now on.
    pub(super) fn drain_finally(&mut self) {
        self.write_go_away(self.last_taken(), ErrorCode::NO_ERROR);
        self.drain = Drain::Final;
    }
}
