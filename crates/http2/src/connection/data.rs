//! Received DATA (RFC 9113 §6.1), charged to the windows (§6.9).
//!
//! A DATA frame is passed on as it arrives, a part at a time. Its whole length is charged when its header comes, whatever happens to its
//! stream. Bytes that no caller will consume are credited to the connection at once: padding, and bodies of streams that are gone.

use std::time::Duration;

use super::Connection;
use super::input::{Happened, Step, Stepped};
use super::stage::{DataFrame, Role};
use crate::error::Fault;
use crate::frame::{HEADER_BYTES, Header, flag};
use crate::streams::{Answer, Gone};

impl Connection {
    /// Takes the header of a DATA frame; `go_on_with_data` takes its body.
    pub(super) fn data(
        &mut self,
        header: Header,
        rest: &[u8],
        now: Duration,
    ) -> Result<Step, Fault> {
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
        // A frame that ends its stream is useful, however small.
        let missing = match self.budget.data(left, now) {
            _ if ends => 0,
            _ if left == 0 => {
                self.charge_useless(now)?;
                0
            }
            missing => missing,
        };
        let happened = self.charge_data(header, left, missing, now)?;
        self.credit((pad_field + padding) as u32);
        Ok(Step::Took(HEADER_BYTES + pad_field, happened))
    }

    /// Charges a new DATA frame to its stream: `left` bytes of body, `missing` bytes too small.
    fn charge_data(&mut self, header: Header, left: usize, missing: u32, now: Duration) -> Stepped {
        let len = header.len as i64;
        let Some(stream) = self.streams.find(header.stream) else {
            self.charge_unread(missing)?;
            //= rfc9113 §5.4.2   what was sent before the reset was known is ignored; no window is opened for more
            return match self.streams.charge_gone(header.stream, len) {
                Some(true) => Ok(None),
                Some(false) => Err(Fault::DataBehindReset),
                None => {
                    let window = self.window_of_gone();
                    let how = Gone::ResetByUs { window };
                    self.streams.note_gone(header.stream, how);
                    self.reset_number(header.stream, Fault::DataOnClosed, now)?;
                    Ok(None)
                }
            };
        };
        let found = self.streams.get(stream).expect("it was found");
        let (is_reset, is_released) = (found.is_reset, found.is_released);
        if is_reset {
            self.charge_unread(missing)?;
        } else if is_released && !self.budget.unread_of_open(missing) {
            return self.reset_for(stream, Fault::SmallOfStream, now);
        }
        let found = self.streams.get_mut(stream).expect("it was found");
        if is_reset {
            if found.is_reset_by_peer {
                self.reset_number(header.stream, Fault::DataOnClosed, now)?;
                return Ok(None);
            }
            found.recv_window -= len;
            return match found.recv_window >= 0 {
                true => Ok(None),
                false => Err(Fault::DataBehindReset),
            };
        }
        let padding = len - left as i64;
        if found.recv_ended {
            return self.reset_for(stream, Fault::DataOnClosed, now);
        }
        //= rfc9113 §8.1   content comes behind the final head
        if self.role == Role::Client && found.answer != Answer::Begun {
            return self.reset_for(stream, Fault::HeadMissing, now);
        }
        found.recv_window -= len;
        if found.recv_window < 0 {
            return self.reset_for(stream, Fault::WindowExceeded, now);
        }
        // Limited by its own window, or by the connection's, which it shares with others.
        found.recv_was_short |= found.recv_window < i64::from(found.recv_window_max / 4)
            || self.recv_window < i64::from(self.limits.connection_window / 4);
        if !is_released {
            found.recv_small += missing;
        }
        // Padding is credited at once, or a client that sends nothing else would wait forever.
        found.recv_credit += padding as u32;
        self.credit_stream(stream);
        let found = self.streams.get_mut(stream).expect("it was found");
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

    /// Charges a DATA frame that is `missing` bytes too small and is never consumed.
    fn charge_unread(&mut self, missing: u32) -> Result<(), Fault> {
        match self.budget.unread(missing) {
            true => Ok(()),
            false => Err(Fault::SmallFrames),
        }
    }

    /// Passes on the received bytes of a DATA frame's body, then skips its padding.
    pub(super) fn go_on_with_data(&mut self, input: &[u8]) -> Step {
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
            // The end is reported once; padding may follow.
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
        self.recv_debt += match ends {
            true => found.returns(),
            false => 0,
        };
        if found.is_released && !found.is_tunnel {
            // The caller has released the stream and wants no more of the body; its answer is on the way.
            self.consumed(stream, bytes);
            if ends {
                self.settle(stream);
            }
            return Step::Took(bytes, None);
        }
        if ends {
            // The caller may have released this tunnel already.
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
}
