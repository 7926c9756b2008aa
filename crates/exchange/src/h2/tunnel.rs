//! A stream as two flows of bytes, after CONNECT or the switch to WebSocket (RFC 9113 §8.5).
//!
//! END_STREAM ends a flow, as FIN does in TCP. A reset counts as a broken connection.

use std::{
    io::{self, ErrorKind},
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::link::{Came, Stream};

/// The client's end of a tunnel.
pub struct StreamEnd(pub Stream);

impl AsyncRead for StreamEnd {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Poll::Ready(came) = self.0.poll_body(cx, buf.remaining()) else {
            return Poll::Pending;
        };
        Poll::Ready(match came {
            Came::Data(data, _) => {
                buf.put_slice(&data);
                self.0.taken(data.len(), None);
                Ok(())
            }
            Came::End(_) => Ok(()),
            Came::Gone => Err(ErrorKind::ConnectionReset.into()),
        })
    }
}

impl AsyncWrite for StreamEnd {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Poll::Ready(is_there) = self.0.poll_room(cx) else {
            return Poll::Pending;
        };
        if !is_there {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        let taken = bytes.len().min(self.0.room());
        self.0.piece(Bytes::copy_from_slice(&bytes[..taken]));
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.0.is_gone() {
            self.0.end(None);
        }
        Poll::Ready(Ok(()))
    }
}
