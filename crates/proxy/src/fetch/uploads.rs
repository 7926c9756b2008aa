//! How many of an origin's connections the uploads of one client may hold.
//!
//! An upload holds its connection for as long as its client likes, within the least rate. So a client gets no more than a quarter of the
//! connections of this worker to an origin for them; a further upload waits for one of its own. An upload counts from before it gets a
//! connection until its body is through.
//!
//! Not known here: connections. Limits: a place for each upload, and one for each client that has any.

use std::{cell::RefCell, collections::HashMap, net::IpAddr, rc::Rc, sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::origin::Destination;

/// The part of an origin's connections that is one client's.
const PART: usize = 4;
/// A client of IPv6 has more addresses than can be counted: the network counts.
const NETWORK_BITS: u32 = 64;

type Key = (IpAddr, Destination);

/// The uploads of one worker.
#[derive(Clone, Default)]
pub struct Uploads(Rc<RefCell<HashMap<Key, Arc<Semaphore>>>>);

/// A place among the uploads of a client to an origin.
pub struct Place {
    uploads: Uploads,
    key: Key,
    permit: Option<OwnedSemaphorePermit>,
}

impl Uploads {
    /// A place for one more upload of this client, when there is one. `connections`: there may be so many to this origin. `None`: no
    /// place became free in time.
    pub async fn place(
        &self,
        client: IpAddr,
        to: &Destination,
        connections: usize,
        patience: Duration,
    ) -> Option<Place> {
        let key = (network(client), to.clone());
        let most = (connections / PART).max(1);
        let places = {
            let mut all = self.0.borrow_mut();
            let places = all.entry(key.clone());
            Arc::clone(places.or_insert_with(|| Arc::new(Semaphore::new(most))))
        };
        // Made before the wait: one that is given up clears away, too.
        let mut place = Place {
            uploads: self.clone(),
            key,
            permit: None,
        };
        let permit = match Arc::clone(&places).try_acquire_owned() {
            Ok(permit) => Ok(permit),
            Err(_) => timeout(patience, places.acquire_owned()).await.ok()?,
        };
        place.permit = Some(permit.ok()?);
        Some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.permit = None;
        let mut all = self.uploads.0.borrow_mut();
        // Whoever has a place or waits for one has a handle to it.
        if let Some(places) = all.get(&self.key)
            && Arc::strong_count(places) == 1
        {
            all.remove(&self.key);
        }
    }
}

fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => {
            let mask = u128::MAX << (128 - NETWORK_BITS);
            IpAddr::V6((address.to_bits() & mask).into())
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(host: &str) -> Destination {
        Destination {
            tls: false,
            host: host.into(),
            port: 80,
            member: None,
        }
    }

    #[tokio::test]
    async fn a_client_gets_a_quarter_and_others_theirs() {
        let (uploads, a, b) = (Uploads::default(), to("a"), to("b"));
        let [one, other]: [IpAddr; 2] = ["192.0.2.1", "192.0.2.2"].map(|ip| ip.parse().unwrap());
        let now = Duration::ZERO;
        let first = uploads.place(one, &a, 8, now).await;
        let second = uploads.place(one, &a, 8, now).await;
        assert!(first.is_some() && second.is_some());
        assert!(uploads.place(one, &a, 8, now).await.is_none());
        assert!(uploads.place(other, &a, 8, now).await.is_some());
        assert!(uploads.place(one, &b, 8, now).await.is_some());
        let waiting = uploads.place(one, &a, 8, Duration::from_secs(20));
        let (waited, ()) = tokio::join!(waiting, async { drop(first) });
        assert!(waited.is_some());
        drop((second, waited));
        assert!(uploads.0.borrow().is_empty(), "nothing is left of them");
    }

    #[tokio::test]
    async fn addresses_of_one_network_are_one_client() {
        let (uploads, a, now) = (Uploads::default(), to("a"), Duration::ZERO);
        let ip = |ip: &str| ip.parse().unwrap();
        let _one = uploads.place(ip("2001:db8::1"), &a, 4, now).await.unwrap();
        assert!(uploads.place(ip("2001:db8::2"), &a, 4, now).await.is_none());
        assert!(uploads.place(ip("2001:db9::2"), &a, 4, now).await.is_some());
    }
}
