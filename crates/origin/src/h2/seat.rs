//! A request's place in a session: first reserved, then a stream.
//!
//! Dropping a seat gives it up: a stream that has not ended on both sides is reset (CANCEL).
//!
//! Not known here: time limits, where the request comes from.

use std::{
    cell::RefCell,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::Bytes;
use fields::Fields;
use http2::StreamId;
use ledger::window::Window;
use message::{Part, ResponseHead};

use super::{Gone, QUEUED_BYTES_MAX, Session, head, inward::Inward};
use crate::outcome::UpstreamError;

/// A place in a session.
pub(crate) struct Seat {
    session: Rc<Session>,
    had_others: bool,
    stream: Option<Stream>,
}

struct Stream {
    id: StreamId,
    inward: Rc<RefCell<Inward>>,
    /// Bytes of the announced body still to be sent.
    to_send: Option<u64>,
    /// The end of the body, with its trailers, if it was given and not yet sent.
    ending: Option<Fields>,
    has_ended: bool,
}

impl Seat {
    pub(super) fn kept(session: Rc<Session>) -> Seat {
        Seat {
            had_others: session.has_carried(),
            session,
            stream: None,
        }
    }

    /// Has its session carried a request before?
    pub(crate) fn is_reused(&self) -> bool {
        self.had_others
    }

    /// The session.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Is the connection alive? After a silence the server is asked.
    pub(crate) async fn is_alive(&self, is_once: bool) -> bool {
        self.session.is_alive(is_once).await
    }

    /// Sends the head of a request in its HTTP/1.1 form. `window`: counts the memory of the answer.
    pub(crate) fn ask(&mut self, request: &[u8], window: Window) -> Result<(), UpstreamError> {
        debug_assert!(self.stream.is_none(), "a seat is for one request");
        let request = head::request(request, self.session.place.is_tls);
        let request = request.expect("a request that we wrote has a line and Host");
        let parts = [&request.block[..], b""];
        let now = self.session.now();
        let sent = (self.session.http()).request(parts, request.asked, now);
        let Some(id) = sent else {
            // The server has sent GOAWAY, or lowered its bound, since the place was reserved.
            let over = self.session.over().filter(|_| !self.had_others);
            return Err(over.unwrap_or(Gone::Unprocessed).error());
        };
        self.session.give_up_place();
        let inward = self.session.open(id, request.asked.is_head, window);
        // A gRPC call may stay open for days with few bytes, so its window is widened only when needed.
        if !request.asked.is_head && !request.is_call {
            self.session.widen(id, &mut inward.borrow_mut());
        }
        self.stream = Some(Stream {
            id,
            inward,
            to_send: request.body_bytes,
            ending: None,
            has_ended: request.asked.ends,
        });
        Ok(())
    }

    fn stream(&self) -> &Stream {
        self.stream
            .as_ref()
            .expect("the head of its request was sent")
    }

    // Receiving.

    /// The next head.
    pub(crate) fn poll_head(&self, cx: &Context<'_>) -> Poll<Result<ResponseHead, UpstreamError>> {
        let mut inward = self.stream().inward.borrow_mut();
        if let Some(head) = inward.heads.pop_front() {
            return Poll::Ready(Ok(head));
        }
        if let Some(gone) = inward.gone {
            return Poll::Ready(Err(gone.error()));
        }
        inward.waits_to_read(cx);
        Poll::Pending
    }

    /// Has anything arrived that was not taken?
    pub(crate) fn poll_news(&self, cx: &Context<'_>) -> Poll<()> {
        let mut inward = self.stream().inward.borrow_mut();
        if inward.has_news() {
            return Poll::Ready(());
        }
        inward.waits_to_read(cx);
        Poll::Pending
    }

    /// Waits until this many bytes of the body have arrived, or the body has ended.
    pub(crate) fn poll_held(&self, cx: &Context<'_>, bytes: usize) -> Poll<()> {
        let mut inward = self.stream().inward.borrow_mut();
        if inward.held().len() >= bytes || inward.has_ended || inward.gone.is_some() {
            return Poll::Ready(());
        }
        inward.waits_to_read(cx);
        Poll::Pending
    }

    /// The first `bytes_max` bytes of the body that have arrived, without taking them.
    pub(crate) fn peek(&self, bytes_max: usize) -> Vec<u8> {
        let inward = self.stream().inward.borrow();
        let held = inward.held();
        held[..held.len().min(bytes_max)].to_vec()
    }

    /// The next piece of the body, at most `bytes_max`; `None`: the end. Taking it lets the server send as many bytes more.
    pub(crate) fn poll_piece(
        &self,
        cx: &Context<'_>,
        bytes_max: usize,
    ) -> Poll<Result<Option<Bytes>, UpstreamError>> {
        let stream = self.stream();
        let mut inward = stream.inward.borrow_mut();
        if !inward.held().is_empty() {
            let piece = inward.take(bytes_max);
            self.session.taken(stream.id, piece.len(), &mut inward);
            return Poll::Ready(Ok(Some(piece)));
        }
        if inward.has_ended {
            return Poll::Ready(Ok(None));
        }
        if let Some(gone) = inward.gone {
            return Poll::Ready(Err(gone.error()));
        }
        inward.waits_to_read(cx);
        Poll::Pending
    }

    /// Trailers, once the body has ended.
    pub(crate) fn take_trailers(&self) -> Option<Fields> {
        self.stream().inward.borrow_mut().trailers.take()
    }

    // Sending.

    /// Frames a part of the request body. Trailers are kept until the end is sent.
    pub(crate) fn frame(&mut self, part: Part) -> Bytes {
        match part {
            Part::Data(data) => data,
            Part::Trailers(trailers) => {
                let stream = self.stream.as_mut().expect("a body follows its head");
                stream.ending = Some(trailers);
                Bytes::new()
            }
        }
    }

    /// Queues bytes of the body, or its end, and waits until there is room for more.
    pub(crate) fn poll_write(
        &mut self,
        cx: &Context<'_>,
        unsent: &mut Bytes,
    ) -> Poll<Result<(), UpstreamError>> {
        let stream = self.stream.as_mut().expect("a body follows its head");
        let inward = stream.inward.borrow();
        if let Some(gone) = inward.gone {
            return Poll::Ready(Err(gone.error()));
        }
        let now = self.session.now();
        let mut http = self.session.http();
        if !http.is_writable(stream.id) && !stream.has_ended {
            return Poll::Ready(Err(Gone::Closed(std::io::ErrorKind::BrokenPipe).error()));
        }
        if !stream.has_ended {
            let piece = inward.count(std::mem::take(unsent));
            if let Some(left) = &mut stream.to_send {
                *left = left.saturating_sub(piece.len() as u64);
                stream.has_ended = *left == 0;
            }
            http.piece(stream.id, piece, now);
            if let Some(trailers) = stream.ending.take().filter(|_| !stream.has_ended) {
                stream.has_ended = true;
                match trailers.is_empty() {
                    true => http.end(stream.id),
                    false => {
                        let mut block = Vec::with_capacity(128);
                        http2::write_lines(trailers.as_wire(), &mut block);
                        http.trailers(stream.id, block);
                    }
                }
            } else if stream.has_ended {
                http.end(stream.id);
            }
        }
        let has_room = stream.has_ended || http.queued(stream.id) < QUEUED_BYTES_MAX;
        drop((http, inward));
        self.session.wake();
        if has_room {
            return Poll::Ready(Ok(()));
        }
        stream.inward.borrow_mut().waits_to_write(cx);
        Poll::Pending
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        match &self.stream {
            None => self.session.give_up_place(),
            Some(stream) => self.session.release(stream.id),
        }
        // A retired session may be over now.
        self.session.wake();
    }
}
