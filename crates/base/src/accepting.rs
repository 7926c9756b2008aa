//! How workers get their connections.
//!
//! Every worker has a listening socket of its own for each address (SO_REUSEPORT). The thread that accepts a connection therefore
//! serves it, and no other thread has to be woken. The kernel spreads connections by a hash of their addresses: evenly over
//! thousands, unevenly over a few dozen. So a worker with clearly more connections than another *deals* the next one to that
//! worker, through a channel ([`Dealers`]). Below [`EVEN_BELOW`] connections the numbers stay equal; above, they differ by an
//! eighth at most, which costs less than a hop for every second connection.
//!
//! With SO_REUSEPORT a second proxy of the same user could listen on the same address, and each would get half of the
//! clients. An address is therefore first bound without it ([`listen`]).
//!
//! Not known here: HTTP, who may connect (`client`).
//!
//! Limits: [`BACKLOG`] connections wait in the kernel for each socket, [`DEAL_MAX`] in a channel; when the channel is full the
//! worker keeps the connection.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::mpsc;

use crate::{listening::ListenerId, member::MemberId, socket::Detached};

/// Connections that may wait in the kernel, for each socket.
const BACKLOG: i32 = 4096;
/// Dealt connections waiting for a worker to take them.
const DEAL_MAX: usize = 1024;
/// While the emptiest worker has fewer connections than this, no worker has more than one connection more.
const EVEN_BELOW: u64 = 8;

/// A connection on its way to another worker.
pub struct Dealt {
    /// The listener that accepted it.
    pub listener: ListenerId,
    /// The socket, non-blocking.
    pub stream: Detached,
    /// The client's address.
    pub peer: SocketAddr,
    /// The cluster member that opened the connection and has proved its identity.
    pub member: Option<MemberId>,
}

/// A channel to every worker.
#[derive(Clone)]
pub struct Dealers(Arc<[mpsc::Sender<Dealt>]>);

impl Dealers {
    /// Channels for `workers` workers, and the receiving end of each.
    pub fn new(workers: usize) -> (Dealers, Vec<mpsc::Receiver<Dealt>>) {
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..workers).map(|_| mpsc::channel(DEAL_MAX)).unzip();
        (Dealers(senders.into()), receivers)
    }

    /// The worker that gets the connection that `own` has just accepted; `None`: `own` keeps it. `taken`: how many connections a
    /// worker has.
    pub fn other_than(&self, own: usize, taken: impl Fn(usize) -> u64) -> Option<usize> {
        let open = |worker| self.open(worker, &taken);
        let others = (0..self.0.len()).filter(|&worker| worker != own);
        let (least, worker) = others.map(|worker| (open(worker), worker)).min()?;
        is_uneven(open(own), least).then_some(worker)
    }

    /// The worker with the fewest connections.
    pub fn emptiest(&self, taken: impl Fn(usize) -> u64) -> usize {
        let workers = 0..self.0.len();
        let least = workers.min_by_key(|&worker| self.open(worker, &taken));
        least.unwrap_or(0)
    }

    /// The connections that a worker has, and those on their way to it.
    fn open(&self, worker: usize, taken: &impl Fn(usize) -> u64) -> u64 {
        let waiting = DEAL_MAX - self.0[worker].capacity();
        taken(worker) + waiting as u64
    }

    /// Sends a connection to a worker; gives it back if the worker has ended or its channel is full.
    pub fn deal(&self, worker: usize, dealt: Dealt) -> Result<(), Dealt> {
        self.0[worker]
            .try_send(dealt)
            .map_err(mpsc::error::TrySendError::into_inner)
    }
}

/// Has a worker with `own` connections too many, compared with a worker that has `least`?
fn is_uneven(own: u64, least: u64) -> bool {
    own > least + least / EVEN_BELOW
}

/// Opens `sockets` sockets that listen on one address. For port 0 the system chooses a port, and all of them use it.
///
/// # Errors
/// The address is in use, or this process may not use it.
pub fn listen(address: SocketAddr, sockets: usize) -> io::Result<Vec<TcpListener>> {
    if address.port() != 0 {
        bind(address, false)?;
    }
    let mut all = Vec::with_capacity(sockets);
    let mut address = address;
    for _ in 0..sockets {
        let socket = bind(address, sockets > 1)?;
        socket.listen(BACKLOG)?;
        let socket = TcpListener::from(socket);
        address = socket.local_addr()?;
        all.push(socket);
    }
    Ok(all)
}

/// Opens more sockets on an address that already has listeners.
///
/// # Errors
/// The other listeners do not share their address, or this process may not use it.
pub fn listen_beside(address: SocketAddr, sockets: usize) -> io::Result<Vec<TcpListener>> {
    let beside = (0..sockets).map(|_| {
        let socket = bind(address, true)?;
        socket.listen(BACKLOG)?;
        Ok(TcpListener::from(socket))
    });
    beside.collect()
}

fn bind(address: SocketAddr, is_shared: bool) -> io::Result<Socket> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(is_shared)?;
    if address.is_ipv6() {
        socket.set_only_v6(false).ok();
    }
    // Accepted connections inherit this: answers are written whole, and waiting to fill a segment only delays them.
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket;
    use std::net::TcpStream;

    #[test]
    fn a_worker_with_clearly_more_connections_deals_to_the_emptiest() {
        let (dealers, _receivers) = Dealers::new(3);
        for (open, expected) in [
            ([0, 0, 0], None),
            ([1, 0, 0], Some(1)),
            ([1, 1, 0], Some(2)),
            ([1, 1, 1], None),
            ([8, 7, 7], Some(1)),
            ([18, 16, 99], None),
            ([19, 16, 99], Some(1)),
            ([0, 9, 9], None),
        ] {
            assert_eq!(
                dealers.other_than(0, |worker| open[worker]),
                expected,
                "{open:?}"
            );
        }
        let (alone, _receiver) = Dealers::new(1);
        assert_eq!(alone.other_than(0, |_| 5), None);
    }

    #[tokio::test]
    async fn what_waits_in_a_channel_counts_and_a_full_one_gives_back() {
        let (dealers, mut receivers) = Dealers::new(2);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let dealt = || {
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            stream.set_nonblocking(true).unwrap();
            let peer = stream.local_addr().unwrap();
            let stream = socket::of(tokio::net::TcpStream::from_std(stream).unwrap());
            Dealt {
                listener: ListenerId(0),
                stream: socket::detach(stream).unwrap(),
                peer,
                member: None,
            }
        };
        assert_eq!(dealers.other_than(0, |worker| [1, 0][worker]), Some(1));
        assert!(dealers.deal(1, dealt()).is_ok());
        assert_eq!(dealers.other_than(0, |worker| [1, 0][worker]), None);
        assert!(receivers[1].try_recv().is_ok());
        receivers.truncate(1);
        assert!(dealers.deal(1, dealt()).is_err(), "that worker has ended");
    }

    #[test]
    fn an_address_is_shared_by_our_sockets_and_by_nobody_else() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let ours = listen(any, 3).unwrap();
        let address = ours[0].local_addr().unwrap();
        assert!(
            ours.iter()
                .all(|socket| socket.local_addr().unwrap() == address)
        );
        for sockets in [1, 3] {
            let refused = listen(address, sockets).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        }
        drop(ours);
        listen(address, 2).expect("it is free again");
    }

    #[test]
    fn an_accepted_connection_does_not_wait_to_fill_a_segment() {
        let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0)), 1).unwrap();
        let _client = TcpStream::connect(listener[0].local_addr().unwrap()).unwrap();
        listener[0].set_nonblocking(false).unwrap();
        let (accepted, _) = listener[0].accept().unwrap();
        assert!(accepted.nodelay().unwrap());
    }
}
