//! A request body on its way from the client to an origin.
//!
//! Framed by Content-Length or chunked (RFC 9112 §6); chunks are decoded and written anew, so that nothing of the
//! client's own framing reaches the origin. Read no faster than it is asked for; every wait has a limit.
//!
//! Not known here: where it goes.

use std::pin::pin;

use bytes::{Buf, Bytes};
use http1::{Chunk, ChunkedDecoder, Framing, RequestHead};
use tokio::io::AsyncReadExt;

use crate::{conn::client::Conn, fetch::pass::Failure, state::Worker};

/// What is read at once.
const BODY_READ_BYTES: usize = 16 << 10;

/// A request body as it comes from the client.
pub struct ClientBody {
    state: BodyState,
    /// Taken from the client, framed, and not yet written (and flushed) to the origin.
    pub unsent: Option<Bytes>,
    chunked_out: bool,
    is_stopped: bool,
}

enum BodyState {
    Done,
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
}

impl ClientBody {
    /// The body that the head announces.
    pub fn new(worker: &Worker, head: &RequestHead) -> ClientBody {
        let state = match head.framing {
            Framing::Length(bytes) if bytes > 0 => BodyState::Length(bytes),
            Framing::Chunked => {
                BodyState::Chunked(Box::new(ChunkedDecoder::new(&worker.shared.limits)))
            }
            _ => BodyState::Done,
        };
        ClientBody {
            state,
            unsent: None,
            chunked_out: head.framing == Framing::Chunked,
            is_stopped: false,
        }
    }

    /// Is there nothing more to pass on?
    pub fn is_done(&self) -> bool {
        matches!(self.state, BodyState::Done) && self.unsent.is_none()
    }

    /// Nothing more is read of it. The client's connection can't be used again.
    pub fn stop(&mut self) {
        self.is_stopped |= !self.is_done();
        self.state = BodyState::Done;
        self.unsent = None;
    }

    /// Is what comes next on the client's connection another request? Not if something of this body may still come.
    pub fn is_through(&self) -> bool {
        self.is_done() && !self.is_stopped
    }

    /// The next bytes to send to the origin, framed; `None` when there is nothing more. Safe to cancel: what
    /// was read stays in the connection's buffer until it is returned.
    pub async fn next(
        &mut self,
        worker: &Worker,
        conn: &mut Conn,
    ) -> Result<Option<Bytes>, Failure> {
        loop {
            match &mut self.state {
                BodyState::Done => return Ok(None),
                BodyState::Length(left) => {
                    if !conn.input.is_empty() {
                        let n = usize::try_from(*left)
                            .unwrap_or(usize::MAX)
                            .min(conn.input.len());
                        *left -= n as u64;
                        let piece = conn.input.split_to(n).freeze();
                        count(conn, n);
                        conn.input_taken();
                        if *left == 0 {
                            self.state = BodyState::Done;
                        }
                        return Ok(Some(piece));
                    }
                }
                BodyState::Chunked(decoder) => {
                    let step = decoder
                        .next(&conn.input)
                        .map_err(|r| Failure::BadBody(r.status(), r.reason()))?;
                    match step {
                        Chunk::Data { start, end } => {
                            let mut out = Vec::with_capacity(end - start + 16);
                            http1::write_chunk_header(end - start, &mut out);
                            out.extend_from_slice(&conn.input[start..end]);
                            out.extend_from_slice(b"\r\n");
                            conn.input.advance(end);
                            count(conn, end);
                            conn.input_taken();
                            return Ok(Some(out.into()));
                        }
                        Chunk::End { consumed, trailers } => {
                            conn.input.advance(consumed);
                            count(conn, consumed);
                            conn.input_taken();
                            self.state = BodyState::Done;
                            debug_assert!(self.chunked_out);
                            let mut out = Vec::new();
                            http1::write_trailers(&trailers, &mut out);
                            return Ok(Some(out.into()));
                        }
                        Chunk::More { consumed } => {
                            conn.input.advance(consumed);
                            count(conn, consumed);
                            conn.input_taken();
                        }
                    }
                }
            }
            conn.input.reserve(BODY_READ_BYTES);
            let limit = worker.shared.plan.timeouts.client_body;
            let read = conn.stream.read_buf(&mut conn.input);
            match conn.watch.limit(limit, pin!(read)).await {
                Err(_) => {
                    return Err(Failure::BadBody(
                        408,
                        "the request body took too long to arrive",
                    ));
                }
                Ok(Ok(n)) if n > 0 => {}
                Ok(_) => return Err(Failure::Client),
            }
        }
    }
}

/// Counts bytes of the body, as the client framed it.
fn count(conn: &Conn, bytes: usize) {
    conn.body_bytes.set(conn.body_bytes.get() + bytes as u64);
}
