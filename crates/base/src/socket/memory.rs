//! Connections in memory, for the simulation: two byte pipes that behave as the two directions of a TCP connection.
//!
//! Each direction holds a bounded number of bytes, so writers wait for readers. Dropping a socket ends its direction. If it is
//! dropped with unread bytes, or after [`Memory::reset_when_closed`], the connection is reset and bytes that the peer has not read
//! are lost, as in TCP.
//!
//! Connections to origins are made by the simulation's replacement of the network ([`set_network`]), which is set for each
//! thread.
//!
//! Not known here: time, except the delay while connecting.

use std::{
    cell::RefCell,
    collections::VecDeque,
    io::{self, ErrorKind, IoSlice},
    net::SocketAddr,
    pin::Pin,
    rc::Rc,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// A TCP connection, or one end of a connection in memory.
#[derive(Debug)]
pub enum Socket {
    /// A TCP connection.
    Tcp(TcpStream),
    /// One end of a connection in memory.
    Memory(Memory),
}

/// A connection on its way to another runtime.
#[derive(Debug)]
pub enum Detached {
    /// A TCP connection.
    Tcp(std::net::TcpStream),
    /// A connection in memory, which belongs to no runtime.
    Memory(Box<Memory>),
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    room: usize,
    is_ended: bool,
    is_reset: bool,
    has_no_reader: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    fn wake(&mut self) {
        self.reader.take().into_iter().for_each(Waker::wake);
        self.writer.take().into_iter().for_each(Waker::wake);
    }
}

/// One end of a connection in memory.
#[derive(Debug)]
pub struct Memory {
    incoming: Arc<Mutex<Pipe>>,
    outgoing: Arc<Mutex<Pipe>>,
    local: SocketAddr,
    peer: SocketAddr,
    resets: AtomicBool,
}

/// Both ends of a connection; each direction holds `room` bytes.
pub fn pair(one: SocketAddr, other: SocketAddr, room: usize) -> (Socket, Socket) {
    let pipe = || {
        Arc::new(Mutex::new(Pipe {
            room: room.max(1),
            ..Pipe::default()
        }))
    };
    let (there, back) = (pipe(), pipe());
    let end = |incoming: &Arc<_>, outgoing: &Arc<_>, local, peer| {
        Socket::Memory(Memory {
            incoming: Arc::clone(incoming),
            outgoing: Arc::clone(outgoing),
            local,
            peer,
            resets: AtomicBool::new(false),
        })
    };
    (
        end(&back, &there, one, other),
        end(&there, &back, other, one),
    )
}

fn lock(pipe: &Mutex<Pipe>) -> MutexGuard<'_, Pipe> {
    pipe.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Memory {
    pub(super) fn reset_when_closed(&self) {
        self.resets.store(true, Ordering::Relaxed);
    }

    pub(super) fn untaken_bytes(&self) -> u64 {
        lock(&self.outgoing).bytes.len() as u64
    }

    pub(super) fn is_readable(&self) -> bool {
        let pipe = lock(&self.incoming);
        pipe.is_reset || pipe.is_ended || !pipe.bytes.is_empty()
    }

    fn read(&self, buf: &mut ReadBuf<'_>, waker: Option<&Waker>) -> io::Result<()> {
        let mut pipe = lock(&self.incoming);
        if pipe.is_reset {
            return Err(ErrorKind::ConnectionReset.into());
        }
        if pipe.bytes.is_empty() && !pipe.is_ended {
            if let Some(waker) = waker {
                pipe.reader = Some(waker.clone());
            }
            return Err(ErrorKind::WouldBlock.into());
        }
        let n = buf.remaining().min(pipe.bytes.len());
        let (front, back) = pipe.bytes.as_slices();
        let of_front = n.min(front.len());
        buf.put_slice(&front[..of_front]);
        buf.put_slice(&back[..n - of_front]);
        pipe.bytes.drain(..n);
        pipe.writer.take().into_iter().for_each(Waker::wake);
        Ok(())
    }

    fn write(&self, slices: &[IoSlice<'_>], waker: Option<&Waker>) -> io::Result<usize> {
        let mut pipe = lock(&self.outgoing);
        if pipe.is_reset || lock(&self.incoming).is_reset {
            return Err(ErrorKind::ConnectionReset.into());
        }
        if pipe.has_no_reader || pipe.is_ended {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let wanted: usize = slices.iter().map(|slice| slice.len()).sum();
        let mut left = pipe.room.saturating_sub(pipe.bytes.len()).min(wanted);
        if left == 0 && wanted > 0 {
            if let Some(waker) = waker {
                pipe.writer = Some(waker.clone());
            }
            return Err(ErrorKind::WouldBlock.into());
        }
        let written = left;
        for slice in slices {
            let n = left.min(slice.len());
            pipe.bytes.extend(&slice[..n]);
            left -= n;
        }
        pipe.reader.take().into_iter().for_each(Waker::wake);
        Ok(written)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let mut incoming = lock(&self.incoming);
        let is_reset = self.resets.load(Ordering::Relaxed) || !incoming.bytes.is_empty();
        incoming.has_no_reader = true;
        incoming.wake();
        drop(incoming);
        let mut outgoing = lock(&self.outgoing);
        outgoing.is_ended = true;
        if is_reset {
            outgoing.is_reset = true;
            outgoing.bytes.clear();
        }
        outgoing.wake();
    }
}

fn poll<T>(result: io::Result<T>) -> Poll<io::Result<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Poll::Pending,
        result => Poll::Ready(result),
    }
}

impl Socket {
    /// Connects to an origin, over the simulated network if one is set, else over the real one.
    pub async fn connect(to: SocketAddr) -> io::Result<Socket> {
        let network = NETWORK.with_borrow(|network| network.as_ref().map(|network| network(to)));
        let Some(connection) = network else {
            return TcpStream::connect(to).await.map(Socket::Tcp);
        };
        tokio::time::sleep(connection.after).await;
        match connection.outcome {
            Some(outcome) => outcome.map_err(io::Error::from),
            None => std::future::pending().await,
        }
    }

    /// Writes as many bytes as there is room for now.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(tcp) => tcp.try_write(bytes),
            Self::Memory(memory) => memory.write(&[IoSlice::new(bytes)], None),
        }
    }

    /// Writes as many bytes as there is room for now.
    pub fn try_write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(tcp) => tcp.try_write_vectored(slices),
            Self::Memory(memory) => memory.write(slices, None),
        }
    }

    /// Reads the bytes available now.
    pub fn try_read(&self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(tcp) => tcp.try_read(out),
            Self::Memory(memory) => {
                let mut buf = ReadBuf::new(out);
                memory.read(&mut buf, None)?;
                Ok(buf.filled().len())
            }
        }
    }

    /// The address of the other end.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(tcp) => tcp.peer_addr(),
            Self::Memory(memory) => Ok(memory.peer),
        }
    }

    /// The address of this end.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(tcp) => tcp.local_addr(),
            Self::Memory(memory) => Ok(memory.local),
        }
    }

    /// Sets TCP_NODELAY; does nothing for a connection in memory, which never delays bytes.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        match self {
            Self::Tcp(tcp) => tcp.set_nodelay(nodelay),
            Self::Memory(_) => Ok(()),
        }
    }

    /// Waits until there is something to read, for tests with real sockets.
    #[cfg(test)]
    pub async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(tcp) => tcp.readable().await,
            Self::Memory(_) => Ok(()),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Self::Memory(memory) => poll(memory.read(buf, Some(cx.waker()))),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Self::Memory(memory) => poll(memory.write(&[IoSlice::new(bytes)], Some(cx.waker()))),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_write_vectored(cx, slices),
            Self::Memory(memory) => poll(memory.write(slices, Some(cx.waker()))),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Self::Memory(memory) => {
                let mut pipe = lock(&memory.outgoing);
                pipe.is_ended = true;
                pipe.wake();
                Poll::Ready(Ok(()))
            }
        }
    }
}

/// The outcome of connecting to an origin.
pub struct Connection {
    /// How long connecting takes.
    pub after: Duration,
    /// The connection, or an error; `None`: no outcome, ever.
    pub outcome: Option<Result<Socket, ErrorKind>>,
}

type Network = Rc<dyn Fn(SocketAddr) -> Connection>;

thread_local! {
    static NETWORK: RefCell<Option<Network>> = const { RefCell::new(None) };
}

/// From now on `network` makes the connections of this thread; `None`: the system does.
pub fn set_network(network: Option<Network>) {
    NETWORK.set(network);
}

/// Has this thread a simulated network?
pub fn is_set() -> bool {
    NETWORK.with_borrow(Option::is_some)
}
