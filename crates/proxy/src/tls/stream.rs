//! A client's connection: a socket, or TLS over one.
//!
//! A plain connection goes straight to its socket. Over TLS:
//!
//! - *Writing* encrypts at most 64 KiB (rustls' own bound of what it keeps) and writes it at once; the next piece is taken when the socket has taken all of
//!   it. So `try_write` may report bytes as taken that still wait here. They go out with whatever is done next on the connection: a
//!   write, a read, a shutdown, or [`ClientStream::poll_settle`], without which no connection may be dropped in peace.
//! - *Reading* gives out what was decrypted, and reads the socket only when that is used up. The end of the stream is one only if the
//!   client has said so (close_notify); a connection that just ends is an error.
//! - After an idle moment nothing is kept but the state of the session and rustls' own 4 KiB of space for reading.
//!
//! Not known here: handshakes, HTTP.

use std::{
    io::{self, BufRead, ErrorKind, IoSlice, Read, Write},
    pin::Pin,
    task::{Context, Poll, Waker, ready},
};

use rustls::ServerConnection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::socket::{self, Socket};

/// See the head of the file.
pub enum ClientStream {
    /// As it comes.
    Plain(Socket),
    /// Encrypted.
    Tls(Box<TlsStream>),
}

/// TLS over a socket, once its handshake is complete.
pub struct TlsStream {
    tcp: Socket,
    session: ServerConnection,
}

impl ClientStream {
    /// The socket below.
    pub fn socket(&self) -> &Socket {
        match self {
            ClientStream::Plain(socket) => socket,
            ClientStream::Tls(tls) => &tls.tcp,
        }
    }

    /// Writes what is taken now, without waiting.
    #[inline]
    pub fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            ClientStream::Plain(socket) => socket.try_write(bytes),
            ClientStream::Tls(tls) => tls.try_write(&[IoSlice::new(bytes)]),
        }
    }

    /// The same of two pieces and more.
    #[inline]
    pub fn try_write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            ClientStream::Plain(socket) => socket.try_write_vectored(pieces),
            ClientStream::Tls(tls) => tls.try_write(pieces),
        }
    }

    /// Bytes that were written and that the client has not taken yet.
    pub fn untaken_bytes(&self) -> u64 {
        socket::untaken_bytes(self.socket())
    }

    /// Must it be told that this is the end, or has it not got all that was written?
    pub fn is_unsettled(&self) -> bool {
        matches!(self, ClientStream::Tls(_))
    }

    /// Sends what waits, and says that this is the end.
    pub fn poll_settle(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            ClientStream::Plain(_) => Poll::Ready(Ok(())),
            ClientStream::Tls(tls) => {
                tls.session.send_close_notify();
                tls.poll_flush(cx)
            }
        }
    }
}

/// The socket as rustls wants it.
struct Adapter<'a, 'b> {
    tcp: &'a mut Socket,
    cx: &'a mut Context<'b>,
}

fn now_or_block<T>(polled: Poll<io::Result<T>>) -> io::Result<T> {
    match polled {
        Poll::Ready(result) => result,
        Poll::Pending => Err(ErrorKind::WouldBlock.into()),
    }
}

impl Read for Adapter<'_, '_> {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        let mut buf = ReadBuf::new(space);
        now_or_block(Pin::new(&mut *self.tcp).poll_read(self.cx, &mut buf))?;
        Ok(buf.filled().len())
    }
}

impl Write for Adapter<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        now_or_block(Pin::new(&mut *self.tcp).poll_write(self.cx, bytes))
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        now_or_block(Pin::new(&mut *self.tcp).poll_write_vectored(self.cx, pieces))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A pending result for one that would block.
fn or_pending<T>(result: io::Result<T>) -> Poll<io::Result<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Poll::Pending,
        result => Poll::Ready(result),
    }
}

impl TlsStream {
    /// Before its handshake.
    pub fn new(tcp: Socket, session: ServerConnection) -> TlsStream {
        TlsStream { tcp, session }
    }

    /// The session.
    pub fn session(&mut self) -> &mut ServerConnection {
        &mut self.session
    }

    /// The socket, as long as nothing was read.
    pub fn socket_mut(&mut self) -> &mut Socket {
        &mut self.tcp
    }

    /// The socket again, for somebody who does not speak TLS.
    pub fn into_socket(self) -> Socket {
        self.tcp
    }

    /// Reads the socket once; true: something came. What cannot be understood is answered with an alert, as far as the socket takes it.
    pub fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let TlsStream { tcp, session } = self;
        let read = session.read_tls(&mut Adapter { tcp, cx });
        let n = ready!(or_pending(read))?;
        self.process(cx)?;
        Poll::Ready(Ok(n > 0))
    }

    /// Takes bytes that were read already.
    pub fn feed(&mut self, mut bytes: &[u8], cx: &mut Context<'_>) -> io::Result<()> {
        while !bytes.is_empty() {
            self.session.read_tls(&mut bytes)?;
            self.process(cx)?;
        }
        Ok(())
    }

    fn process(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if let Err(error) = self.session.process_new_packets() {
            let _ = self.poll_flush(cx);
            return Err(io::Error::new(ErrorKind::InvalidData, error));
        }
        Ok(())
    }

    /// Sends what is encrypted.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let TlsStream { tcp, session } = self;
        while session.wants_write() {
            let written = session.write_tls(&mut Adapter { tcp, cx });
            if ready!(or_pending(written))? == 0 {
                return Poll::Ready(Err(ErrorKind::WriteZero.into()));
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write_pieces(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_flush(cx))?;
        let taken = self.session.writer().write_vectored(pieces)?;
        // What the socket does not take now it takes later.
        if let Poll::Ready(Err(error)) = self.poll_flush(cx) {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(taken))
    }

    /// Writes until all of it is taken, or the socket takes no more.
    fn try_write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut cx = Context::from_waker(Waker::noop());
        let mut taken = 0;
        loop {
            let mut rest = [IoSlice::new(&[]); 2];
            let mut skip = taken;
            for (to, from) in rest.iter_mut().zip(pieces) {
                let skipped = skip.min(from.len());
                *to = IoSlice::new(&from[skipped..]);
                skip -= skipped;
            }
            if rest.iter().all(|piece| piece.is_empty()) {
                return Ok(taken);
            }
            match self.poll_write_pieces(&mut cx, &rest) {
                Poll::Ready(Ok(n)) if n > 0 => taken += n,
                Poll::Ready(Ok(_)) => return Err(ErrorKind::WriteZero.into()),
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending if taken > 0 => return Ok(taken),
                Poll::Pending => return Err(ErrorKind::WouldBlock.into()),
            }
        }
    }

    /// Copies decrypted bytes; `Ok(None)`: there are none yet. `Ok(Some(0))`: the client has finished.
    fn take_plain(&mut self, buf: &mut ReadBuf<'_>) -> io::Result<Option<usize>> {
        let mut reader = self.session.reader();
        let mut taken = 0;
        while buf.remaining() > 0 {
            let n = match reader.fill_buf() {
                Ok(chunk) => {
                    let n = chunk.len().min(buf.remaining());
                    buf.put_slice(&chunk[..n]);
                    n
                }
                Err(_) if taken > 0 => break,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            };
            reader.consume(n);
            taken += n;
            if n == 0 {
                break;
            }
        }
        Ok(Some(taken))
    }

    fn poll_read_plain(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        loop {
            // The answer to the last request, alerts, new keys: what the socket takes no more of does not keep the client from being heard.
            if self.session.wants_write()
                && let Poll::Ready(Err(error)) = self.poll_flush(cx)
            {
                return Poll::Ready(Err(error));
            }
            if self.take_plain(buf)?.is_some() {
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_fill(cx))?;
        }
    }
}

impl AsyncRead for ClientStream {
    #[inline]
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            ClientStream::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            ClientStream::Tls(tls) => tls.poll_read_plain(cx, buf),
        }
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            ClientStream::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            ClientStream::Tls(tls) => tls.poll_write_pieces(cx, &[IoSlice::new(bytes)]),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            ClientStream::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, pieces),
            ClientStream::Tls(tls) => tls.poll_write_pieces(cx, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            ClientStream::Plain(socket) => Pin::new(socket).poll_flush(cx),
            ClientStream::Tls(tls) => tls.poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            ClientStream::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            ClientStream::Tls(tls) => {
                tls.session.send_close_notify();
                ready!(tls.poll_flush(cx))?;
                Pin::new(&mut tls.tcp).poll_shutdown(cx)
            }
        }
    }
}
