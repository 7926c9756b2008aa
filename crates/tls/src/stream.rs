//! A client's connection: a socket, or TLS over one.
//!
//! A plain connection goes straight to its socket. Over TLS:
//!
//! - *Writing* encrypts some 64 KiB and writes them at once; the next piece is encrypted when the socket has taken all of
//!   that. So `try_write` may report bytes as taken that still wait here. They are sent by the next operation on the connection: a
//!   write, a read, a shutdown, or [`ClientStream::poll_settle`], which must be called before a connection is dropped.
//! - *Reading* gives out decrypted bytes, and reads the socket only when they are used up. The stream ends cleanly only if the
//!   client has sent close_notify; otherwise the end is an error.
//! - An idle connection keeps only the state of the session: records pass through buffers of the worker (`session`).
//!
//! Not known here: handshakes, HTTP.

use std::{
    cell::OnceCell,
    io::{self, ErrorKind, IoSlice},
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use rustls::CommonState;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::session::{Scratch, Session};
use super::shaking::Early;
use base::socket::{self, Socket};
use ledger::{Holder, Ledger, Lot};

/// See the head of the file.
pub enum ClientStream {
    /// Unencrypted.
    Plain(Socket),
    /// Encrypted.
    Tls(Box<TlsStream>),
}

/// TLS over a socket.
pub struct TlsStream {
    tcp: Socket,
    session: Session,
    scratch: Rc<Scratch>,
    /// The handshake, while early data is read.
    early: Option<Box<Early>>,
    /// Counts encrypted bytes that are not sent.
    unsent: Option<Lot>,
    /// The holder to which they are counted.
    holder: OnceCell<Arc<Holder>>,
}

impl ClientStream {
    /// The socket below.
    pub fn socket(&self) -> &Socket {
        match self {
            ClientStream::Plain(socket) => socket,
            ClientStream::Tls(tls) => &tls.tcp,
        }
    }

    /// Are the bytes read now early data, in a handshake that is not complete? They may be a replay, so only answers from the
    /// cache are allowed.
    #[inline]
    pub fn is_early(&self) -> bool {
        matches!(self, ClientStream::Tls(tls) if tls.early.is_some())
    }

    /// The time left for a handshake with early data.
    pub fn early_left(&self) -> Option<Duration> {
        match self {
            ClientStream::Plain(_) => None,
            ClientStream::Tls(tls) => tls.early.as_ref().map(|early| early.left()),
        }
    }

    /// Completes the handshake. `or_input`: also returns once early data can be read.
    pub fn poll_handshake(&mut self, cx: &mut Context<'_>, or_input: bool) -> Poll<io::Result<()>> {
        match self {
            ClientStream::Plain(_) => Poll::Ready(Ok(())),
            ClientStream::Tls(tls) => tls.poll_handshake(cx, or_input),
        }
    }

    /// Writes as much as is taken without waiting.
    #[inline]
    pub fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            ClientStream::Plain(socket) => socket.try_write(bytes),
            ClientStream::Tls(tls) => tls.try_write(&[IoSlice::new(bytes)]),
        }
    }

    /// The same for several pieces.
    #[inline]
    pub fn try_write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            ClientStream::Plain(socket) => socket.try_write_vectored(pieces),
            ClientStream::Tls(tls) => tls.try_write(pieces),
        }
    }

    /// The connection's holder in the ledger. Encrypted bytes not yet sent are counted to it too.
    pub fn holder(&self, ledger: &Ledger) -> Arc<Holder> {
        match self {
            ClientStream::Plain(_) => ledger.holder(),
            ClientStream::Tls(tls) => Arc::clone(tls.holder.get_or_init(|| ledger.holder())),
        }
    }

    /// Bytes that were written and that the client has not acknowledged yet.
    pub fn untaken_bytes(&self) -> u64 {
        socket::untaken_bytes(self.socket())
    }

    /// Must [`Self::poll_settle`] be called before the connection is dropped?
    pub fn is_unsettled(&self) -> bool {
        matches!(self, ClientStream::Tls(_))
    }

    /// Sends the waiting bytes and close_notify.
    pub fn poll_settle(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            ClientStream::Plain(_) => Poll::Ready(Ok(())),
            ClientStream::Tls(tls) => {
                tls.session.end();
                tls.poll_flush(cx)
            }
        }
    }
}

impl TlsStream {
    /// A connection before its handshake.
    pub fn new(tcp: Socket, session: Session, scratch: &Rc<Scratch>) -> TlsStream {
        let scratch = Rc::clone(scratch);
        TlsStream {
            tcp,
            session,
            scratch,
            early: None,
            unsent: None,
            holder: OnceCell::new(),
        }
    }

    /// Bytes read from now on are early data, until the handshake is complete.
    pub fn begin_early(&mut self, early: Early) {
        self.early = Some(Box::new(early));
    }

    /// Continues the handshake until it is complete; `or_input`: or until early data can be read.
    pub fn poll_handshake(&mut self, cx: &mut Context<'_>, or_input: bool) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_flush(cx))?;
            if !self.agreed().is_handshaking() || or_input && self.session.has_plain() {
                return Poll::Ready(Ok(()));
            }
            if !ready!(self.poll_fill(cx, None))? {
                return Poll::Ready(Err(ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// The parameters agreed on.
    pub fn agreed(&self) -> &CommonState {
        self.session.agreed()
    }

    /// The session.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// The socket. To be read only before the session has read from it.
    pub fn socket_mut(&mut self) -> &mut Socket {
        &mut self.tcp
    }

    /// Gives back the socket, for a client that does not speak TLS.
    pub fn into_socket(self) -> Socket {
        self.tcp
    }

    /// Reads the socket once; false: it has ended. Decrypted bytes go to `reader`, if there is one, and are kept otherwise. Records that are not
    /// valid are answered with an alert, as far as the socket takes it.
    pub fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        reader: Option<&mut ReadBuf<'_>>,
    ) -> Poll<io::Result<bool>> {
        let TlsStream {
            tcp,
            session,
            scratch,
            early,
            ..
        } = self;
        let mut space = scratch.for_reading();
        let room = reader.as_ref().map_or(0, |reader| reader.remaining());
        let mut buf = ReadBuf::new(session.place_for(&mut space, room));
        ready!(Pin::new(tcp).poll_read(cx, &mut buf))?;
        let read = buf.filled().len();
        if read == 0 {
            return Poll::Ready(Ok(false));
        }
        let taken = session.take(&mut space, read, reader);
        drop(space);
        let has_ended = taken.is_err() || !session.agreed().is_handshaking();
        let early = early.take_if(|_| has_ended);
        let taken = self.or_alert(taken, cx);
        if let Some(early) = early {
            early.ended(&taken);
        }
        Poll::Ready(taken.map(|()| true))
    }

    /// Handles bytes that are read already.
    pub fn feed(&mut self, bytes: &[u8], cx: &mut Context<'_>) -> io::Result<()> {
        let scratch = Rc::clone(&self.scratch);
        let mut rest = bytes;
        while !rest.is_empty() {
            let mut space = scratch.for_reading();
            let place = self.session.place_for(&mut space, rest.len());
            let (now, later) = rest.split_at(rest.len().min(place.len()));
            place[..now.len()].copy_from_slice(now);
            let taken = self.session.take(&mut space, now.len(), None);
            self.or_alert(taken, cx)?;
            rest = later;
        }
        Ok(())
    }

    fn or_alert(
        &mut self,
        taken: Result<(), rustls::Error>,
        cx: &mut Context<'_>,
    ) -> io::Result<()> {
        taken.map_err(|error| {
            let _ = self.poll_flush(cx);
            io::Error::new(ErrorKind::InvalidData, error)
        })
    }

    /// Counts encrypted bytes that are not sent.
    fn count(&mut self) {
        let bytes = self.session.unsent().len();
        if bytes == 0 {
            self.unsent = None;
            return;
        }
        if let (None, Some(ledger)) = (&self.unsent, self.scratch.ledger()) {
            let holder = self.holder.get_or_init(|| ledger.holder());
            self.unsent = Some(holder.hold(0));
        }
        if let Some(unsent) = &mut self.unsent {
            unsent.set(bytes);
        }
    }

    /// Sends the encrypted bytes.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let TlsStream { tcp, session, .. } = self;
        while !session.unsent().is_empty() {
            let sent = ready!(Pin::new(&mut *tcp).poll_write(cx, session.unsent()))?;
            if sent == 0 {
                return Poll::Ready(Err(ErrorKind::WriteZero.into()));
            }
            session.sent(sent);
        }
        self.unsent = None;
        Poll::Ready(Ok(()))
    }

    /// Writes some of `pieces`, after skipping `skip` bytes.
    fn poll_write_behind(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
        skip: usize,
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_flush(cx))?;
        let TlsStream {
            tcp,
            session,
            scratch,
            ..
        } = self;
        let mut sealed = scratch.for_sealing();
        // Bytes that the socket does not take are held. While memory is short, encrypt little, to hold little.
        let crowded = scratch.ledger().filter(|ledger| ledger.is_crowded());
        let first = crowded.map(|ledger| [IoSlice::new(first_of(pieces, skip, ledger.step()))]);
        let (pieces, skip) = match &first {
            Some(first) => (&first[..], 0),
            None => (pieces, skip),
        };
        let (taken, made) = session.seal(pieces, skip, &mut sealed)?;
        let mut records = sealed.records(made);
        while !records.is_empty() {
            match Pin::new(&mut *tcp).poll_write(cx, records) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(sent)) => records = &records[sent..],
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                // Keep the rest, to be sent later.
                Poll::Pending => {
                    session.keep(records);
                    break;
                }
            }
        }
        drop(sealed);
        if !self.session.unsent().is_empty() {
            self.count();
        }
        Poll::Ready(Ok(taken))
    }

    /// Writes until everything is taken, or the socket takes no more.
    fn try_write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut cx = Context::from_waker(Waker::noop());
        let all = pieces.iter().map(|piece| piece.len()).sum();
        let mut taken = 0;
        while taken < all {
            match self.poll_write_behind(&mut cx, pieces, taken) {
                Poll::Ready(Ok(n)) if n > 0 => taken += n,
                Poll::Ready(Ok(_)) => return Err(ErrorKind::WriteZero.into()),
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending if taken > 0 => break,
                Poll::Pending => return Err(ErrorKind::WouldBlock.into()),
            }
        }
        Ok(taken)
    }

    fn poll_read_plain(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        loop {
            // First send waiting bytes (the last answer, alerts, new keys). A full socket does not stop us from reading the client's bytes.
            if !self.session.unsent().is_empty()
                && let Poll::Ready(Err(error)) = self.poll_flush(cx)
            {
                return Poll::Ready(Err(error));
            }
            if buf.filled().len() > before || self.session.read(buf)?.is_some() {
                return Poll::Ready(Ok(()));
            }
            if !ready!(self.poll_fill(cx, Some(buf)))? {
                return Poll::Ready(Err(ErrorKind::UnexpectedEof.into()));
            }
        }
    }
}

/// At most `most` bytes of the first piece that has any after `skip` bytes.
fn first_of<'a>(pieces: &'a [IoSlice<'_>], skip: usize, most: usize) -> &'a [u8] {
    let mut skip = skip;
    for piece in pieces {
        if skip < piece.len() {
            return &piece[skip..][..most.min(piece.len() - skip)];
        }
        skip -= piece.len();
    }
    &[]
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
            ClientStream::Tls(tls) => tls.poll_write_behind(cx, &[IoSlice::new(bytes)], 0),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            ClientStream::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, pieces),
            ClientStream::Tls(tls) => tls.poll_write_behind(cx, pieces, 0),
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
                tls.session.end();
                ready!(tls.poll_flush(cx))?;
                Pin::new(&mut tls.tcp).poll_shutdown(cx)
            }
        }
    }
}
