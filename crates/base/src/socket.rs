//! A TCP connection, to a client or an origin: tokio's own, and in a simulation also one in memory.
//!
//! Without the feature `simulation` [`Socket`] is [`TcpStream`] itself.
//!
//! Not known here: who is at the other end.

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

/// Takes a connection out of this runtime.
///
/// # Errors
/// The runtime does not let go of it.
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

/// Takes it into this one.
///
/// # Errors
/// The runtime does not take it.
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

/// Closing it will be a reset: the other side sees that the answer is not complete, and the kernel keeps nothing for it.
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

/// It breaks when what was written is not taken for so long.
pub fn give_up_after(socket: &Socket, longest: Duration) {
    #[cfg(not(feature = "simulation"))]
    let _ = socket2::SockRef::from(socket).set_tcp_user_timeout(Some(longest));
    #[cfg(feature = "simulation")]
    if let Socket::Tcp(tcp) = socket {
        let _ = socket2::SockRef::from(tcp).set_tcp_user_timeout(Some(longest));
    }
}

/// It takes no more while the kernel has so many bytes that it has not sent. So what is decided about order and priorities is not overtaken
/// by what lies there already, and a client that takes nothing holds less memory of the kernel.
pub fn keep_unsent_below(socket: &Socket, bytes: u32) {
    #[cfg(not(feature = "simulation"))]
    let _ = socket2::SockRef::from(socket).set_tcp_notsent_lowat(bytes);
    #[cfg(feature = "simulation")]
    if let Socket::Tcp(tcp) = socket {
        let _ = socket2::SockRef::from(tcp).set_tcp_notsent_lowat(bytes);
    }
}

/// Is it better sent pages of a file than a copy of them? Not if the other side is on this machine, unless `also_here`: there the
/// kernel copies the bytes in any case, and two copies in one run are cheaper than pages one by one.
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

/// Is the other side of a connection between these addresses on this machine?
fn is_on_this_machine(peer: IpAddr, own: IpAddr) -> bool {
    let (peer, own) = (peer.to_canonical(), own.to_canonical());
    peer.is_loopback() || peer == own
}

/// Writes what the socket takes of `bytes`, behind which more comes at once.
///
/// # Errors
/// As of a write.
pub async fn write_ahead(socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
    let send = |tcp: BorrowedFd<'_>| Ok(rustix::net::send(tcp, bytes, SendFlags::MORE)?);
    when_writable(socket, send).await
}

/// Sends what the socket takes of a body that is kept there, without a copy.
///
/// # Errors
/// As of a write.
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

/// Has the kernel anything to be read from it: bytes, an end, an error? It is asked now, whatever the runtime knows.
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

/// Bytes that were written and that the other side has not taken yet.
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

    /// How much a connection takes whose other side reads nothing.
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
