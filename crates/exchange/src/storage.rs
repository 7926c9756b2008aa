//! A worker's means to store and read objects.
//!
//! Not known here: which request needs an object.

use std::{rc::Rc, sync::Arc};

use httpcache::UnixMillis;
use store::KeyHasher;

use base::clock::{Instant, WallClock};
use cache::{Cache, disk::DiskIo};
use cluster::Cluster;
use ledger::Ledger;
use purging::change::Change;

/// A worker's means to store and read objects.
pub struct Storage {
    /// The memory tier and the stores, shared by all workers.
    pub cache: Arc<Cache>,
    /// The stores' shells on this worker's ring.
    pub disk: Option<DiskIo>,
    /// The hash function of the stores.
    pub hasher: KeyHasher,
    /// Memory held for bodies.
    pub ledger: Ledger,
    /// The cluster to tell about out-of-date objects.
    pub cluster: Option<Arc<Cluster>>,
    /// Wall time on this thread.
    pub wall: Rc<WallClock>,
}

impl Storage {
    /// Wall time now.
    pub fn now_ms(&self) -> UnixMillis {
        UnixMillis(self.wall.ms_at(Instant::now()))
    }

    /// Is there room to promise so many bytes to an object that is to be stored? Rooms count as a whole: a reader of a room's last byte
    /// keeps all of it in memory.
    pub fn has_room_for(&self, bytes: u64) -> bool {
        self.ledger.may_promise(bytes, self.cache.rooms.bytes())
    }

    /// Tells the cluster's other members, if any, that the resource of this name is out of date. Does not wait for them.
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
