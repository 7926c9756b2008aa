//! How many of an origin's connections the uploads of one client may hold.
//!
//! An upload holds its connection for as long as its client likes, within the least rate. So the uploads of one client may hold a quarter
//! of the connections of this worker to an origin. While the origin is quiet (less than half of its connections are in use) they may hold
//! up to half. A further upload waits until another one of its client is through, or the origin is quiet. An upload counts from before it
//! gets a connection until its body is through.
//!
//! Not known here: connections. Limits: a place for each upload, and one for each client that has any.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    net::IpAddr,
    pin::pin,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use base::clock::Instant;
use origin::Destination;

/// One client may always hold one of this many parts of an origin's connections.
const PART: usize = 4;
/// While less than one of this many parts of the connections is in use, one client may hold that part.
const PART_QUIET: usize = 2;
/// How often a waiting upload checks whether the origin is quiet.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The least interval between two lines in the log.
const TELL_EVERY: Duration = Duration::from_secs(60);
/// An IPv6 client has too many addresses to be counted by address, so its network counts.
const NETWORK_BITS: u32 = 64;

type Key = (IpAddr, Destination);

/// The uploads of one worker.
#[derive(Clone, Default)]
pub struct Uploads(Rc<Inner>);

#[derive(Default)]
struct Inner {
    clients: RefCell<HashMap<Key, Rc<Places>>>,
    told: Cell<Option<Instant>>,
}

/// The places of one client for one origin.
struct Places {
    own: Arc<Semaphore>,
    /// The places beyond the client's quarter.
    more: Arc<Semaphore>,
}

impl Places {
    fn new(connections: usize) -> Places {
        let own = (connections / PART).max(1);
        let more = (connections / PART_QUIET).saturating_sub(own);
        Places {
            own: Arc::new(Semaphore::new(own)),
            more: Arc::new(Semaphore::new(more)),
        }
    }

    fn at_once(&self, is_quiet: impl Fn() -> bool) -> Option<OwnedSemaphorePermit> {
        let own = Arc::clone(&self.own).try_acquire_owned().ok();
        own.or_else(|| match is_quiet() {
            true => Arc::clone(&self.more).try_acquire_owned().ok(),
            false => None,
        })
    }

    /// The place that becomes free first.
    async fn wait(&self, is_quiet: impl Fn() -> bool) -> Option<OwnedSemaphorePermit> {
        let mut own = pin!(Arc::clone(&self.own).acquire_owned());
        loop {
            if let Ok(permit) = timeout(LOOK_EVERY, &mut own).await {
                return permit.ok();
            }
            if is_quiet()
                && let Ok(permit) = Arc::clone(&self.more).try_acquire_owned()
            {
                return Some(permit);
            }
        }
    }
}

/// A place among the uploads of a client to an origin.
pub struct Place {
    uploads: Uploads,
    key: Key,
    places: Rc<Places>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Uploads {
    /// Waits for a place for one more upload of this client. `connections` is the most connections to this origin, `in_use` the number of
    /// those in use now. `None`: no place became free in time.
    pub async fn place(
        &self,
        client: IpAddr,
        to: &Destination,
        (connections, in_use): (usize, impl Fn() -> usize),
        patience: Duration,
    ) -> Option<Place> {
        let key = (network(client), to.clone());
        let is_quiet = || in_use() < connections / PART_QUIET;
        let places = {
            let mut all = self.0.clients.borrow_mut();
            let places = all.entry(key.clone());
            Rc::clone(places.or_insert_with(|| Rc::new(Places::new(connections))))
        };
        // Made before the wait, so that its drop cleans up if the wait is given up.
        let mut place = Place {
            uploads: self.clone(),
            key,
            places: Rc::clone(&places),
            permit: None,
        };
        drop(places);
        place.permit = match place.places.at_once(is_quiet) {
            None => {
                self.tell(&place.key);
                let wait = place.places.wait(is_quiet);
                timeout(patience, wait).await.ok()?
            }
            permit => permit,
        };
        place.permit.is_some().then_some(place)
    }

    /// Logs that an upload waits.
    fn tell(&self, (client, to): &Key) {
        let now = Instant::now();
        let ago = self
            .0
            .told
            .get()
            .map(|at| now.saturating_duration_since(at));
        if ago.is_none_or(|ago| ago >= TELL_EVERY) {
            self.0.told.set(Some(now));
            tracing::warn!(%client, %to, "an upload waits until another one of its client is through");
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.permit = None;
        let mut all = self.uploads.0.clients.borrow_mut();
        // Each upload that has a place or waits for one has a handle, and the table has one: this is the last upload.
        if Rc::strong_count(&self.places) == 2 {
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
            terms: None,
            http2: None,
        }
    }

    #[tokio::test]
    async fn a_client_gets_a_quarter_and_others_theirs() {
        let (uploads, a, b) = (Uploads::default(), to("a"), to("b"));
        let [one, other]: [IpAddr; 2] = ["192.0.2.1", "192.0.2.2"].map(|ip| ip.parse().unwrap());
        let now = Duration::ZERO;
        let first = uploads.place(one, &a, (8, || 8), now).await;
        let second = uploads.place(one, &a, (8, || 8), now).await;
        assert!(first.is_some() && second.is_some());
        assert!(uploads.place(one, &a, (8, || 8), now).await.is_none());
        assert!(uploads.place(other, &a, (8, || 8), now).await.is_some());
        assert!(uploads.place(one, &b, (8, || 8), now).await.is_some());
        let waiting = uploads.place(one, &a, (8, || 8), Duration::from_secs(20));
        let (waited, ()) = tokio::join!(waiting, async { drop(first) });
        assert!(waited.is_some());
        drop((second, waited));
        assert!(
            uploads.0.clients.borrow().is_empty(),
            "nothing is left of them"
        );
    }

    #[tokio::test]
    async fn addresses_of_one_network_are_one_client() {
        let (uploads, a, now) = (Uploads::default(), to("a"), Duration::ZERO);
        let ip = |ip: &str| ip.parse().unwrap();
        let _one = uploads
            .place(ip("2001:db8::1"), &a, (4, || 4), now)
            .await
            .unwrap();
        assert!(
            uploads
                .place(ip("2001:db8::2"), &a, (4, || 4), now)
                .await
                .is_none()
        );
        assert!(
            uploads
                .place(ip("2001:db9::2"), &a, (4, || 4), now)
                .await
                .is_some()
        );
    }

    #[tokio::test]
    async fn a_quiet_origin_gives_one_client_half() {
        let (uploads, a, now) = (Uploads::default(), to("a"), Duration::ZERO);
        let one: IpAddr = "192.0.2.1".parse().unwrap();
        let in_use = Cell::new(0);
        let connections = || (8, || in_use.get());
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(uploads.place(one, &a, connections(), now).await.unwrap());
        }
        assert!(uploads.place(one, &a, connections(), now).await.is_none());
        held.pop();
        in_use.set(4);
        assert!(uploads.place(one, &a, connections(), now).await.is_none());
        let waiting = uploads.place(one, &a, connections(), Duration::from_secs(20));
        let (waited, ()) = tokio::join!(waiting, async { in_use.set(3) });
        assert!(waited.is_some());
        drop((held, waited));
        assert!(uploads.0.clients.borrow().is_empty());
    }
}
