//! A TCP connection, to a client or an origin: tokio's own, and in a simulation also one in memory.
//!
//! Without the feature `simulation` [`Socket`] is [`TcpStream`] itself.
//!
//! Not known here: who is at the other end.

use std::time::Duration;

use tokio::net::TcpStream;

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
