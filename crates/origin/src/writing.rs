//! Writing to an origin within a time limit, while reading anything that the origin sends meanwhile.
//!
//! Not known here: what is written.

use std::{
    future::poll_fn,
    io,
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::{Lease, h2::Seat, outcome::UpstreamError};
use base::deadline::Watch;

/// Writes all of `bytes`.
///
/// # Errors
/// The origin has closed, or took nothing for `limit`.
pub(super) async fn write_all(
    limit: Duration,
    watch: &Watch,
    lease: &mut Lease,
    mut bytes: &[u8],
) -> Result<(), UpstreamError> {
    let stream = lease.stream();
    while !bytes.is_empty() {
        let n = watch
            .limit(limit, pin!(stream.write(bytes)))
            .await
            .map_err(|_| UpstreamError::Timeout)?
            .map_err(UpstreamError::Closed)?;
        if n == 0 {
            return Err(UpstreamError::Closed(io::ErrorKind::WriteZero.into()));
        }
        bytes = &bytes[n..];
    }
    watch
        .limit(limit, pin!(stream.flush()))
        .await
        .map_err(|_| UpstreamError::Timeout)?
        .map_err(UpstreamError::Closed)
}

/// What happened first while a piece of a request body was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moved {
    /// The piece is written.
    Sent,
    /// The origin sent something, or closed. Some of the piece may be unsent.
    Heard,
}

/// Writes `unsent` and reads at the same time, because an origin may answer before it has read the body, or stop reading the body
/// until its answer is read.
pub(super) async fn write_or_hear(
    limit: Duration,
    watch: &Watch,
    lease: &mut Lease,
    unsent: &mut Bytes,
    input: &mut BytesMut,
) -> Result<Moved, UpstreamError> {
    const HEARD_BYTES: usize = 4 << 10;
    loop {
        let before = unsent.len();
        let step = poll_fn(|cx| {
            let mut stream = Pin::new(lease.stream());
            let written = if unsent.is_empty() {
                stream.as_mut().poll_flush(cx).map_ok(|()| 0)
            } else {
                stream.as_mut().poll_write(cx, unsent)
            };
            match written {
                Poll::Ready(Ok(0)) if !unsent.is_empty() => {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                Poll::Ready(Ok(n)) => {
                    unsent.advance(n);
                    return Poll::Ready(Ok(Moved::Sent));
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {}
            }
            let mut heard = [0; HEARD_BYTES];
            let mut heard = ReadBuf::new(&mut heard);
            // An error of this read is returned again by the next read, which expects an answer.
            stream.poll_read(cx, &mut heard).map(|_| {
                input.extend_from_slice(heard.filled());
                Ok(Moved::Heard)
            })
        });
        match watch.limit(limit, pin!(step)).await {
            Err(_) => return Err(UpstreamError::Timeout),
            Ok(Err(error)) => return Err(UpstreamError::Closed(error)),
            Ok(Ok(Moved::Heard)) => return Ok(Moved::Heard),
            // Nothing was left to write, and the stream is flushed.
            Ok(Ok(Moved::Sent)) if before == 0 => return Ok(Moved::Sent),
            Ok(Ok(Moved::Sent)) => {}
        }
    }
}

/// The same on a stream of HTTP/2.
pub(super) async fn seat_write_or_hear(
    limit: Duration,
    watch: &Watch,
    seat: &mut Seat,
    unsent: &mut Bytes,
) -> Result<Moved, UpstreamError> {
    let step = poll_fn(|cx| {
        if let Poll::Ready(written) = seat.poll_write(cx, unsent) {
            return Poll::Ready(written.map(|()| Moved::Sent));
        }
        seat.poll_news(cx).map(|()| Ok(Moved::Heard))
    });
    let moved = watch.limit(limit, pin!(step)).await;
    moved.unwrap_or(Err(UpstreamError::Timeout))
}
