//! Listening sockets on their way to the workers.
//!
//! The control thread binds, one socket for each worker, and offers them here; each worker takes its own when it takes over the edition
//! that has the listener. What nobody has taken is closed when its listener goes.
//!
//! Not known here: how an address is bound (`conn/accepting`), what is done with a connection.

use std::{
    net::TcpListener,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// A listener of this process. Its number is never given to another one, so that what comes late is not taken for the other's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct ListenerId(pub u32);

/// The sockets that wait.
#[derive(Default)]
pub struct Listening(Mutex<Vec<Offer>>);

struct Offer {
    listener: ListenerId,
    /// One for each worker, until it takes it.
    sockets: Vec<Option<TcpListener>>,
}

impl Listening {
    /// Sockets of a listener, one for each worker.
    pub fn offer(&self, listener: ListenerId, sockets: Vec<TcpListener>) {
        let sockets = sockets.into_iter().map(Some).collect();
        self.offers().push(Offer { listener, sockets });
    }

    /// The socket of a worker, once.
    pub fn take(&self, listener: ListenerId, worker: usize) -> Option<TcpListener> {
        let mut offers = self.offers();
        let at = offers.iter().position(|offer| offer.listener == listener)?;
        let socket = offers[at].sockets.get_mut(worker)?.take();
        if offers[at].sockets.iter().all(Option::is_none) {
            offers.remove(at);
        }
        socket
    }

    /// Closes what was offered for others than these.
    pub fn keep(&self, listeners: &[ListenerId]) {
        (self.offers()).retain(|offer| listeners.contains(&offer.listener));
    }

    fn offers(&self) -> MutexGuard<'_, Vec<Offer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_worker_takes_its_own_once_and_the_rest_goes_with_the_listener() {
        let socket = || TcpListener::bind("127.0.0.1:0").unwrap();
        let listening = Listening::default();
        let [first, second] = [ListenerId(1), ListenerId(2)];
        let sockets = vec![socket(), socket()];
        let addresses: Vec<_> = sockets.iter().map(|it| it.local_addr().unwrap()).collect();
        listening.offer(first, sockets);
        listening.offer(second, vec![socket()]);
        let taken = listening.take(first, 1).unwrap();
        assert_eq!(taken.local_addr().unwrap(), addresses[1]);
        assert!(listening.take(first, 1).is_none());
        assert!(
            listening.take(second, 1).is_none(),
            "there is no such worker"
        );
        listening.keep(&[second]);
        assert!(listening.take(first, 0).is_none());
        assert!(listening.take(second, 0).is_some());
        assert!(listening.offers().is_empty());
    }
}
