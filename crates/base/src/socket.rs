//! A TCP connection to a client or an origin: tokio's own, or in a simulation one in memory.
//!
//! Without the feature `simulation` [`Socket`] is [`TcpStream`] itself.
//!
//! Not known here: the peer.

use std::{
    io,
    net::IpAddr,
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use device::Arena;
use rustix::{
    io::Errno,
    net::{RecvFlags, SendFlags, recv},
};
use tokio::{io::Interest, net::TcpStream};

#[cfg(feature = "simulation")]
pub mod memory;

#[cfg(not(feature = "simulation"))]
pub use tokio::net::TcpStream as Socket;

#[cfg(feature = "simulation")]
pub use memory::Socket;

/// A connection on its way from one worker's runtime to another's.
#[cfg(not(feature = "simulation"))]
pub type Detached = std::net::TcpStream;

#[cfg(feature = "simulation")]
pub use memory::Detached;

/// Takes a connection out of the current runtime.
///
/// # Errors
/// The runtime does not release the socket.
pub fn detach(socket: Socket) -> std::io::Result<Detached> {
    match socket {
        #[cfg(not(feature = "simulation"))]
        tcp => tcp.into_std(),
        #[cfg(feature = "simulation")]
        Socket::Tcp(tcp) => tcp.into_std().map(Detached::Tcp),
        #[cfg(feature = "simulation")]
        Socket::Memory(memory) => Ok(Detached::Memory(Box::new(memory))),
    }
}

/// Registers a connection with the current runtime.
///
/// # Errors
/// The runtime does not accept the socket.
pub fn attach(detached: Detached) -> std::io::Result<Socket> {
    match detached {
        #[cfg(not(feature = "simulation"))]
        tcp => TcpStream::from_std(tcp),
        #[cfg(feature = "simulation")]
        Detached::Tcp(tcp) => TcpStream::from_std(tcp).map(Socket::Tcp),
        #[cfg(feature = "simulation")]
        Detached::Memory(memory) => Ok(Socket::Memory(*memory)),
    }
}

/// The socket of an accepted or opened connection.
#[cfg(not(feature = "simulation"))]
pub fn of(tcp: TcpStream) -> Socket {
    tcp
}

/// The socket of an accepted or opened connection.
#[cfg(feature = "simulation")]
pub fn of(tcp: TcpStream) -> Socket {
    Socket::Tcp(tcp)
}

/// Closing the socket will send a reset. The peer thus sees that the answer is incomplete, and the kernel keeps no unsent bytes.
pub fn reset_when_closed(socket: &Socket) {
    let zero = Some(Duration::ZERO);
    #[cfg(not(feature = "simulation"))]
    let _ = socket2::SockRef::from(socket).set_linger(zero);
    #[cfg(feature = "simulation")]
    match socket {
        Socket::Tcp(tcp) => _ = socket2::SockRef::from(tcp).set_linger(zero),
        Socket::Memory(memory) => memory.reset_when_closed(),
    }
}

/// The connection breaks when written bytes are not acknowledged for `longest`.
pub fn give_up_after(socket: &Socket, longest: Duration) {
    #[cfg(not(feature = "simulation"))]
    let _ = socket2::SockRef::from(socket).set_tcp_user_timeout(Some(longest));
    #[cfg(feature = "simulation")]
    if let Socket::Tcp(tcp) = socket {
        let _ = socket2::SockRef::from(tcp).set_tcp_user_timeout(Some(longest));
    }
}

/// The socket takes no more bytes while the kernel holds this many unsent ones. New data of higher priority then waits behind few bytes,
/// and a client that reads nothing holds less kernel memory.
pub fn keep_unsent_below(socket: &Socket, bytes: u32) {
    #[cfg(not(feature = "simulation"))]
    let _ = socket2::SockRef::from(socket).set_tcp_notsent_lowat(bytes);
    #[cfg(feature = "simulation")]
    if let Socket::Tcp(tcp) = socket {
        let _ = socket2::SockRef::from(tcp).set_tcp_notsent_lowat(bytes);
    }
}

/// Is it cheaper to send pages of a file than a copy of them? Not to a peer on this machine, unless `also_here`: there the kernel
/// copies the bytes in any case, and two copies in one run are cheaper than pages one by one.
pub fn takes_pages(socket: &Socket, also_here: bool) -> bool {
    #[cfg(not(feature = "simulation"))]
    let tcp = socket;
    #[cfg(feature = "simulation")]
    let Socket::Tcp(tcp) = socket else {
        return false;
    };
    also_here
        || match (tcp.peer_addr(), tcp.local_addr()) {
            (Ok(peer), Ok(own)) => !is_on_this_machine(peer.ip(), own.ip()),
            _ => false,
        }
}

/// Is the peer of a connection between these addresses on this machine?
fn is_on_this_machine(peer: IpAddr, own: IpAddr) -> bool {
    let (peer, own) = (peer.to_canonical(), own.to_canonical());
    peer.is_loopback() || peer == own
}

/// Writes as much of `bytes` as the socket takes. The caller writes more directly afterwards.
///
/// # Errors
/// As for a write.
pub async fn write_ahead(socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
    let send = |tcp: BorrowedFd<'_>| Ok(rustix::net::send(tcp, bytes, SendFlags::MORE)?);
    when_writable(socket, send).await
}

/// Sends as much of a body in the arena as the socket takes, without a copy.
///
/// # Errors
/// As for a write.
pub async fn send_kept(
    socket: &Socket,
    arena: &Arena,
    place: u64,
    len: usize,
) -> io::Result<usize> {
    when_writable(socket, |tcp| arena.send(tcp, place, len)).await
}

async fn when_writable(
    socket: &Socket,
    send: impl Fn(BorrowedFd<'_>) -> io::Result<usize>,
) -> io::Result<usize> {
    #[cfg(not(feature = "simulation"))]
    let tcp = socket;
    #[cfg(feature = "simulation")]
    let Socket::Tcp(tcp) = socket else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let send = || send(tcp.as_fd());
    tcp.async_io(Interest::WRITABLE, send).await
}

/// Has the kernel anything to read: bytes, an end, an error? Asks the kernel directly, whatever the runtime's readiness says.
pub fn is_readable(socket: &Socket) -> bool {
    #[cfg(not(feature = "simulation"))]
    let tcp = socket;
    #[cfg(feature = "simulation")]
    let tcp = match socket {
        Socket::Tcp(tcp) => tcp,
        Socket::Memory(memory) => return memory.is_readable(),
    };
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let peeked = recv(tcp.as_fd(), &mut [0u8; 1], flags);
    !matches!(peeked, Err(Errno::WOULDBLOCK | Errno::INTR))
}

/// Written bytes that the peer has not acknowledged yet.
pub fn untaken_bytes(socket: &Socket) -> u64 {
    #[cfg(not(feature = "simulation"))]
    let untaken = device::unacknowledged_bytes(socket);
    #[cfg(feature = "simulation")]
    let untaken = match socket {
        Socket::Tcp(tcp) => device::unacknowledged_bytes(tcp),
        Socket::Memory(memory) => return memory.untaken_bytes(),
    };
    untaken.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Duration, is_on_this_machine, keep_unsent_below, of};

    /// How many bytes a connection takes whose peer reads nothing.
    async fn taken_by(unsent_max: Option<u32>) -> usize {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let other = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().await.unwrap();
        let socket = of(socket);
        if let Some(bytes) = unsent_max {
            keep_unsent_below(&socket, bytes);
        }
        let (mut taken, mut in_vain) = (0, 0);
        while in_vain < 20 {
            match socket.try_write(&[7; 64 << 10]) {
                Ok(n) => (taken, in_vain) = (taken + n, 0),
                Err(_) => {
                    in_vain += 1;
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        }
        drop(other);
        taken
    }

    #[tokio::test]
    async fn the_kernel_is_given_no_more_than_it_may_have_unsent() {
        let (bounded, free) = (taken_by(Some(64 << 10)).await, taken_by(None).await);
        assert!(
            bounded + (512 << 10) < free,
            "{bounded} bytes with a bound, {free} without"
        );
    }

    #[test]
    fn a_client_is_on_this_machine_by_loopback_or_by_our_own_address() {
        for (peer, own, is_here) in [
            ("127.0.0.1", "127.0.0.1", true),
            ("127.3.2.1", "127.0.0.1", true),
            ("::1", "::1", true),
            ("::ffff:127.0.0.1", "::ffff:127.0.0.1", true),
            ("192.0.2.7", "192.0.2.7", true),
            ("::ffff:192.0.2.7", "192.0.2.7", true),
            ("192.0.2.8", "192.0.2.7", false),
            ("::ffff:192.0.2.8", "::ffff:192.0.2.7", false),
            ("2001:db8::8", "2001:db8::7", false),
        ] {
            let (from, to) = (peer.parse().unwrap(), own.parse().unwrap());
            assert_eq!(is_on_this_machine(from, to), is_here, "{peer} to {own}");
        }
    }
}
