//! Reads the last stream of GOAWAY from an HTTP/2 connection: it says which requests the server answers, and which may be retried. The
//! client library used here does not expose it.
//!
//! Not known here: other frames.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The type of the frame; its header's length; then follows the last stream (RFC 9113 sections 4.1 and 6.8).
pub const GOAWAY: u8 = 7;
const HEAD_BYTES: usize = 9;
const LAST_STREAM_END: usize = HEAD_BYTES + 4;

/// Parses received frames for the last stream of GOAWAY.
struct Frames {
    last: Rc<Cell<u32>>,
    /// The frame header, with GOAWAY also the last stream, as far as received.
    head: Vec<u8>,
    /// Bytes of the frame still to be skipped.
    rest: usize,
}

impl Frames {
    fn new(last: Rc<Cell<u32>>) -> Self {
        Self {
            last,
            head: Vec::new(),
            rest: 0,
        }
    }

    fn take(&mut self, mut bytes: &[u8]) {
        loop {
            let rest = self.rest.min(bytes.len());
            self.rest -= rest;
            bytes = &bytes[rest..];
            let Some((byte, behind)) = bytes.split_first() else {
                return;
            };
            self.head.push(*byte);
            bytes = behind;
            match self.head[..] {
                [_, _, _, GOAWAY, _, _, _, _, _] => {}
                [a, b, c, _, _, _, _, _, _] => {
                    self.rest = u32::from_be_bytes([0, a, b, c]) as usize;
                    self.head.clear();
                }
                [a, b, c, _, _, _, _, _, _, d, e, f, g] => {
                    let len = u32::from_be_bytes([0, a, b, c]) as usize;
                    self.rest = (HEAD_BYTES + len).saturating_sub(LAST_STREAM_END);
                    let last = u32::from_be_bytes([d & 0x7f, e, f, g]);
                    self.last.set(self.last.get().min(last));
                    self.head.clear();
                }
                _ => {}
            }
        }
    }
}

/// A stream whose received frames are parsed.
pub struct Overheard<S> {
    stream: S,
    frames: Frames,
}

impl<S> Overheard<S> {
    /// Sets `last` to the last stream once a GOAWAY arrives.
    pub fn new(stream: S, last: Rc<Cell<u32>>) -> Self {
        Self {
            stream,
            frames: Frames::new(last),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Overheard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, into))?;
        self.frames.take(&into.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Overheard<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_last_stream_counts_however_its_bytes_come() {
        let data = [&[0, 0, 5, 0, 0, 0, 0, 0, 1][..], &[GOAWAY; 5]].concat();
        let goaway =
            |last: [u8; 4]| [&[0, 0, 8, GOAWAY, 0, 0, 0, 0, 0], &last[..], &[0; 4]].concat();
        let first = goaway([0x7f, 0xff, 0xff, 0xff]);
        let all = [&data[..], &first, &data, &goaway([0, 0, 1, 3]), &data].concat();
        for step in [1, 2, 5, 9, 13, all.len()] {
            let mut frames = Frames::new(Rc::new(Cell::new(u32::MAX)));
            all.chunks(step).for_each(|piece| frames.take(piece));
            assert_eq!((frames.last.get(), frames.rest), (259, 0), "{step}");
        }
    }
}
