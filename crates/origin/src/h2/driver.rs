//! The task of a session: reads, hands input to the streams, and writes what they have queued, until the connection is over.
//!
//! Limits: [`TURN_BYTES`] taken from the streams and not yet written; of the input, one incomplete frame is kept.

use std::{
    cell::RefCell,
    future::poll_fn,
    io::{self, IoSlice},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, BytesMut};
use http2::{Limits, Turn};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Gone, Opening, Place, Session};
use crate::connection::{Destination, Stream};

/// Bytes of bodies in one turn.
const TURN_BYTES: usize = 256 << 10;
/// Pieces of one write.
const SLICES_MAX: usize = 64;
/// The most time for the last frames before the connection is closed.
const LAST_WORD_WAIT: Duration = Duration::from_secs(1);

impl Session {
    /// Begins HTTP/2 on a connection. `input`: the worker's buffer into which a read goes first. Needs `spawn_local`.
    pub(crate) fn start(
        stream: Stream,
        to: &Destination,
        (place, opening): (Place, Opening),
        limits: Limits,
        input: &Rc<RefCell<Box<[u8]>>>,
    ) -> Rc<Session> {
        let session = Session::new(limits, (to.to_string(), place), opening);
        let driver = Driver {
            session: Rc::clone(&session),
            stream,
            space: Rc::clone(input),
            input: BytesMut::new(),
            has_whole: false,
            turn: Turn::new(),
        };
        tokio::task::spawn_local(driver.run());
        session
    }
}

struct Driver {
    session: Rc<Session>,
    stream: Stream,
    space: Rc<RefCell<Box<[u8]>>>,
    /// Bytes that were read and not yet used.
    input: BytesMut,
    /// `input` may have whole frames, which wait until output is written.
    has_whole: bool,
    turn: Turn,
}

/// Dropping the task ends the session too.
impl Drop for Driver {
    fn drop(&mut self) {
        self.session
            .ends(Gone::Closed(io::ErrorKind::ConnectionAborted));
    }
}

impl Driver {
    async fn run(mut self) {
        let why = loop {
            let deadline = self.session.http().next_deadline();
            let left = deadline.map(|at| at.saturating_sub(self.session.now()));
            let turn = poll_fn(|cx| self.poll_turn(cx));
            let step = match left {
                Some(left) => tokio::time::timeout(left, turn).await,
                None => Ok(turn.await),
            };
            match step {
                Ok(Ok(())) => {}
                Ok(Err(why)) => break why,
                Err(_) => self.session.handle_timeout(),
            }
        };
        let fault = self.session.http().fatal();
        let why = fault.map_or(why, Gone::Fault);
        if let Some(fault) = fault {
            self.session.tell_of(fault);
        }
        self.session.ends(why);
        let last_word = poll_fn(|cx| self.poll_output(cx));
        let _ = tokio::time::timeout(LAST_WORD_WAIT, last_word).await;
    }

    /// Reads once, and writes as much as the socket takes.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        self.session.register(cx);
        let read = self.poll_input(cx);
        if let Poll::Ready(Err(error)) = &read {
            return Poll::Ready(Err(Gone::Closed(error.kind())));
        }
        self.session.see_to_end();
        let written = self.poll_output(cx);
        if let Poll::Ready(Err(error)) = &written {
            return Poll::Ready(Err(Gone::Closed(error.kind())));
        }
        if let Some(why) = self.session.over() {
            return Poll::Ready(Err(why));
        }
        let is_written = self.turn.is_empty() && !self.session.http().has_output();
        let is_over = self.session.http().is_over();
        if is_over && (is_written || self.session.http().fatal().is_some()) {
            return Poll::Ready(Err(Gone::Closed(io::ErrorKind::ConnectionAborted)));
        }
        match read.is_ready() || matches!(written, Poll::Ready(Ok(true))) {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }

    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.session.http().must_write() {
            return Poll::Pending;
        }
        if std::mem::take(&mut self.has_whole) {
            let used = self.session.take_input(&self.input);
            self.input.advance(used);
            self.has_whole = self.session.http().must_write();
            return Poll::Ready(Ok(()));
        }
        let mut space = self.space.borrow_mut();
        let mut buf = ReadBuf::new(&mut space);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buf))?;
        let came = buf.filled();
        if came.is_empty() {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        if self.input.is_empty() {
            let used = self.session.take_input(came);
            self.input.extend_from_slice(&came[used..]);
        } else {
            self.input.extend_from_slice(came);
            let used = self.session.take_input(&self.input);
            self.input.advance(used);
        }
        self.has_whole = self.session.http().must_write() && !self.input.is_empty();
        if self.input.is_empty() {
            self.input = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }

    /// Writes the turn at hand, and the next ones while the socket takes them. True: something was written.
    fn poll_output(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut has_written = false;
        loop {
            if self.turn.is_empty() {
                let now = self.session.now();
                if !(self.session.http()).poll_output(&mut self.turn, TURN_BYTES, now) {
                    break;
                }
                self.session.wake_writers();
            }
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = self.turn.chunks_vectored(&mut slices);
            let stream = Pin::new(&mut self.stream);
            match stream.poll_write_vectored(cx, &slices[..count])? {
                Poll::Ready(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(bytes) => self.turn.advance(bytes),
                Poll::Pending if has_written => return Poll::Ready(Ok(true)),
                Poll::Pending => return Poll::Pending,
            }
            has_written = true;
        }
        // Flushes what TLS has buffered.
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        Poll::Ready(Ok(has_written))
    }
}
