//! Hands listening sockets to the workers, and to the process that replaces this one.
//!
//! The control thread binds one socket for each worker and offers them here. A worker takes its sockets when it adopts the edition
//! that has the listener. Sockets that no worker has taken are closed when their listener is removed.
//!
//! This table keeps a second descriptor of each socket, to pass it on to another process (`upgrade`). A socket listens as long as any
//! descriptor is open, so a worker that closes its own must have this one closed first: see [`Listening::forget`].
//!
//! Not known here: how an address is bound (`accepting`), how connections are served.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    os::fd::OwnedFd,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// A listener of this process. Numbers are never reused, so a late message about a removed listener cannot name another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct ListenerId(pub u32);

/// The sockets that wait for their workers, and the descriptors that can be passed on.
#[derive(Default)]
pub struct Listening(Mutex<Table>);

#[derive(Default)]
struct Table {
    offers: Vec<Offer>,
    kept: Vec<Kept>,
}

struct Offer {
    listener: ListenerId,
    /// The sockets not taken yet, each with its worker.
    sockets: Vec<(usize, TcpListener)>,
}

/// The descriptors of one listener that can be passed on.
struct Kept {
    /// `None`: the admin interface.
    listener: Option<ListenerId>,
    configured: SocketAddr,
    sockets: Vec<(usize, TcpListener)>,
}

/// The sockets of an address, to be passed to another process.
#[derive(Debug)]
pub struct Passed {
    /// Are they the admin interface's?
    pub is_admin: bool,
    /// The address as configured, perhaps with port 0.
    pub configured: SocketAddr,
    /// The sockets.
    pub sockets: Vec<OwnedFd>,
}

impl Listening {
    /// Offers the sockets of a listener to `workers` workers in turn. `configured`: its address as configured.
    pub fn offer(
        &self,
        listener: ListenerId,
        configured: SocketAddr,
        sockets: Vec<TcpListener>,
        workers: usize,
    ) {
        let workers = (0..workers.max(1)).cycle();
        let sockets: Vec<_> = workers.zip(sockets).collect();
        let mut table = self.table();
        // A socket that cannot be duplicated is not passed on; the other process binds a new one.
        let twice =
            |(worker, socket): &(usize, TcpListener)| Some((*worker, socket.try_clone().ok()?));
        table.kept.push(Kept {
            listener: Some(listener),
            configured,
            sockets: sockets.iter().filter_map(twice).collect(),
        });
        table.offers.push(Offer { listener, sockets });
    }

    /// Keeps the socket of the admin interface, which is not offered to workers.
    pub fn keep_admin(&self, configured: SocketAddr, socket: &TcpListener) {
        let socket = socket.try_clone().ok().map(|socket| (0, socket));
        self.table().kept.push(Kept {
            listener: None,
            configured,
            sockets: socket.into_iter().collect(),
        });
    }

    /// The sockets that a worker has not taken yet.
    pub fn take(&self, listener: ListenerId, worker: usize) -> Vec<TcpListener> {
        let offers = &mut self.table().offers;
        let mut taken = Vec::new();
        for offer in offers.iter_mut().filter(|it| it.listener == listener) {
            let own = offer.sockets.extract_if(.., |(whose, _)| *whose == worker);
            taken.extend(own.map(|(_, socket)| socket));
        }
        offers.retain(|offer| !offer.sockets.is_empty());
        taken
    }

    /// Closes the second descriptors of a worker's sockets. The worker must call this before it closes its own.
    pub fn forget(&self, listener: ListenerId, worker: usize) {
        for kept in &mut self.table().kept {
            if kept.listener == Some(listener) {
                kept.sockets.retain(|(whose, _)| *whose != worker);
            }
        }
    }

    /// Closes the sockets of all listeners but these.
    pub fn keep(&self, listeners: &[ListenerId]) {
        let mut table = self.table();
        (table.offers).retain(|offer| listeners.contains(&offer.listener));
        (table.kept).retain(|kept| kept.listener.is_none_or(|id| listeners.contains(&id)));
    }

    /// Closes all descriptors that could be passed on.
    pub fn forget_all(&self) {
        self.table().kept.clear();
    }

    /// Duplicates all sockets, for another process.
    ///
    /// # Errors
    /// This process has too many descriptors open.
    pub fn pass_on(&self) -> io::Result<Vec<Passed>> {
        let table = self.table();
        let passed = table.kept.iter().map(|kept| {
            let sockets = kept.sockets.iter();
            let sockets: io::Result<Vec<OwnedFd>> = sockets
                .map(|(_, socket)| Ok(socket.try_clone()?.into()))
                .collect();
            Ok(Passed {
                is_admin: kept.listener.is_none(),
                configured: kept.configured,
                sockets: sockets?,
            })
        });
        passed.collect()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket() -> TcpListener {
        TcpListener::bind("127.0.0.1:0").unwrap()
    }

    const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

    #[test]
    fn each_worker_takes_its_own_once_and_the_rest_goes_with_the_listener() {
        let listening = Listening::default();
        let [first, second] = [ListenerId(1), ListenerId(2)];
        let sockets = vec![socket(), socket(), socket()];
        let addresses: Vec<_> = sockets.iter().map(|it| it.local_addr().unwrap()).collect();
        listening.offer(first, ANY, sockets, 2);
        listening.offer(second, ANY, vec![socket()], 2);
        let of = |taken: Vec<TcpListener>| -> Vec<_> {
            taken.iter().map(|it| it.local_addr().unwrap()).collect()
        };
        assert_eq!(of(listening.take(first, 1)), [addresses[1]]);
        assert!(listening.take(first, 1).is_empty());
        let rest = of(listening.take(first, 0));
        assert_eq!(rest, [addresses[0], addresses[2]], "one more than workers");
        assert!(
            listening.take(second, 1).is_empty(),
            "there is no such worker"
        );
        listening.keep(&[second]);
        assert!(listening.take(first, 0).is_empty());
        assert_eq!(listening.take(second, 0).len(), 1);
        assert!(listening.table().offers.is_empty());
    }

    #[test]
    fn a_socket_that_a_worker_closes_listens_no_more() {
        let listening = Listening::default();
        let id = ListenerId(7);
        listening.offer(id, ANY, vec![socket(), socket()], 2);
        let own = listening.take(id, 0).remove(0);
        let address = own.local_addr().unwrap();
        listening.forget(id, 0);
        drop(own);
        assert!(std::net::TcpStream::connect(address).is_err());
        let passed = listening.pass_on().unwrap();
        assert_eq!(passed[0].sockets.len(), 1, "the other worker's");
        drop(listening.take(id, 1));
        let other = TcpListener::from(passed.into_iter().next().unwrap().sockets.remove(0));
        std::net::TcpStream::connect(other.local_addr().unwrap()).unwrap();
    }
}
