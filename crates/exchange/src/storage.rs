//! What a worker stores and reads objects with.
//!
//! Not known here: who asks for them.

use std::{rc::Rc, sync::Arc};

use httpcache::UnixMillis;
use store::KeyHasher;

use base::clock::{Instant, WallClock};
use cache::{Cache, disk::DiskIo};
use cluster::Cluster;
use ledger::Ledger;
use purging::change::Change;

/// What a worker stores and reads objects with.
pub struct Storage {
    /// Both tiers, which all workers share.
    pub cache: Arc<Cache>,
    /// The stores' shells on this worker's ring.
    pub disk: Option<DiskIo>,
    /// The hash function of the stores.
    pub hasher: KeyHasher,
    /// What is held of bodies on their way.
    pub ledger: Ledger,
    /// The cluster that hears of what is out of date.
    pub cluster: Option<Arc<Cluster>>,
    /// What time it is on this thread.
    pub wall: Rc<WallClock>,
}

impl Storage {
    /// Wall time now.
    pub fn now_ms(&self) -> UnixMillis {
        UnixMillis(self.wall.ms_at(Instant::now()))
    }

    /// Is there room for so many bytes more, to promise it to what is to be stored? What lies in rooms counts as a whole: a reader of
    /// its last byte holds all of it.
    pub fn has_room_for(&self, bytes: u64) -> bool {
        self.ledger.may_promise(bytes, self.cache.rooms.bytes())
    }

    /// Tells the other members of a cluster, if there is one, that what is stored under this name is out of date. Nobody waits for it.
    pub fn tell_members(&self, name: &[u8]) {
        if let Some(cluster) = &self.cluster {
            let names = vec![name.to_vec()];
            let change = Change {
                names,
                ..Change::default()
            };
            (cluster.purging).note(self.hasher, &change, cluster.now_ms());
            cluster.purging.tell_later(&change);
        }
    }
}
