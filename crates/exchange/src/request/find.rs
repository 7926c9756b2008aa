//! Looking up the stored response for a request: in memory, then on disk.
//!
//! It is under the key or, if a marker says that there are variants, under the variant's key. Objects from disk are promoted.
//! If another tag's response lies under the key's hash, and may still be asked for, the request is marked
//! ([`Wanted::is_contested`]): its response is then stored as a variant, so that both are kept. The invalidation sequence is
//! read before the look-up, so that later users of the result can tell whether it was purged meanwhile.
//!
//! Of a large object that is the head. Which of its fragments are there is asked when it is known which are wanted (`holes`).
//!
//! Not known here: whether it may be served.

use std::{rc::Rc, sync::Arc};

use profile::Class;
use store::{KeyHash, Sequence};

use crate::{request::wanted::Wanted, state::Worker};
use cache::{
    Cache,
    disk::{DiskIo, Unread},
    memory::Resident,
    object::Object,
};
use purging::gate::Served;
use record::facts::SwapIn;
use rules::key::{self, variant_key};

/// A stored response, and the state at its look-up.
pub struct Found {
    /// The response, and where it was.
    pub stored: Stored,
    /// The times of the read from disk.
    pub swap_in: Option<SwapIn>,
    /// The invalidation sequence before the look-up.
    pub began: Sequence,
}

impl Found {
    /// The response.
    pub fn object(&self) -> &Object {
        self.stored.object()
    }
}

/// A stored response in either tier.
pub enum Stored {
    /// In memory.
    Memory(Arc<Resident>),
    /// On disk.
    Disk(Box<Object>),
}

impl Stored {
    /// The response.
    pub fn object(&self) -> &Object {
        match self {
            Stored::Memory(resident) => &resident.object,
            Stored::Disk(object) => object,
        }
    }

    /// The class of a plain answer from it.
    pub fn hit_class(&self) -> Class {
        match self {
            Stored::Memory(_) => Class::MemoryHit,
            Stored::Disk(_) => Class::DiskHit,
        }
    }
}

/// Looks in memory, then on disk; promotes what came from disk.
pub async fn find(worker: &Rc<Worker>, wanted: &Wanted, vary_miss: &mut bool) -> Option<Found> {
    let shared = &worker.shared;
    let served = shared.served();
    if served == Served::Nothing {
        return None;
    }
    let reads = served == Served::All && !wanted.skips_disk;
    let search = Search {
        cache: &shared.cache,
        disk: worker.storage.disk.as_ref().filter(|_| reads),
        wanted,
        began: shared.cache.store.sequence(wanted.primary),
    };
    let is_in_use = |other: &[u8]| shared.edition().tags.contains(key::tag_of_key(other));
    // The extras of a rule are in the keys of variants only.
    let may_be_direct = wanted.extras.is_empty();
    wanted.is_contested.set(false);
    if wanted.is_absent.take()
        && may_be_direct
        && shared.cache.store.marker(wanted.primary).is_none()
    {
        return None;
    }
    // The key of what another tag has stored under the name.
    let mut other = wanted.other.take();
    if may_be_direct {
        match shared.cache.memory.look_up(wanted.primary, &wanted.key) {
            Ok(resident) => return search.in_memory(resident),
            Err(in_memory) => other = in_memory.or(other),
        }
    }
    let variant;
    let (hash, key): (KeyHash, &[u8]) = match shared.cache.store.marker(wanted.primary) {
        None if !may_be_direct => return None,
        None => {
            if let Some(other) = other {
                wanted.is_contested.set(is_in_use(&other));
                return None;
            }
            (wanted.primary, &wanted.key)
        }
        Some(marker) => {
            *vary_miss = true;
            let (salt, list) = (marker.salt, &marker.list);
            variant = variant_key(&wanted.key, salt, list, &wanted.request, &wanted.extras);
            let hash = worker.hasher.hash(&variant);
            if let Some(resident) = shared.cache.memory.get(hash, &variant) {
                return search.in_memory(resident);
            }
            (hash, &variant)
        }
    };
    search.on_disk(hash, key, is_in_use).await
}

/// A look for one response.
struct Search<'a> {
    cache: &'a Cache,
    /// `None`: disks are not read for it.
    disk: Option<&'a DiskIo>,
    wanted: &'a Wanted,
    /// The invalidation sequence before it.
    began: Sequence,
}

impl Search<'_> {
    /// What lies in memory, if it is for this request.
    fn in_memory(&self, resident: Arc<Resident>) -> Option<Found> {
        let object = &resident.object;
        // The fragments of a large one may not be read.
        if self.is_foreign(object) || object.large.is_some() && self.disk.is_none() {
            return None;
        }
        if !is_cut_as_here(self.disk, self.wanted, object) {
            self.cache.forget_stored(object);
            return None;
        }
        Some(Found {
            stored: Stored::Memory(resident),
            swap_in: None,
            began: self.began,
        })
    }

    /// Is it stored by other cache fields than count here, and so invisible?
    fn is_foreign(&self, object: &Object) -> bool {
        self.wanted.is_foreign(&object.standing)
    }

    /// What lies on disk under this key, if it is for this request.
    async fn on_disk(
        &self,
        hash: KeyHash,
        key: &[u8],
        is_in_use: impl Fn(&[u8]) -> bool,
    ) -> Option<Found> {
        let (cache, wanted, disk, began) = (self.cache, self.wanted, self.disk?, self.began);
        let memory = &cache.memory;
        let removals = memory.removals(hash);
        let preloaded = wanted.loaded.take().filter(|it| it.object.key == key);
        let (object, swap_in, began, removals) = match preloaded {
            Some(it) => (it.object, it.swap_in, it.began, it.removals),
            None => {
                let loaded = disk.load(wanted.primary, hash, key).await;
                if let Err(Unread::Other(other)) = &loaded {
                    wanted.is_contested.set(is_in_use(other));
                }
                let loaded = loaded.ok()?;
                cache.take_along(loaded.beside, began);
                cache.hit_on_disk(wanted.primary, loaded.object.body_bytes());
                (loaded.object, loaded.swap_in, began, removals)
            }
        };
        // The second: it was purged while it was read.
        if self.is_foreign(&object) || !cache.still_valid(&object, began) {
            return None;
        }
        if !is_cut_as_here(Some(disk), wanted, &object) {
            cache.forget_stored(&object);
            return None;
        }
        // A large object that takes the place of this one is not in memory. That it came is seen by this.
        let is_last = || memory.removals(hash) == removals;
        memory.promote(&object, |object| {
            cache.may_publish(object, began) && is_last()
        });
        Some(Found {
            stored: Stored::Disk(Box::new(object)),
            swap_in,
            began,
        })
    }
}

/// Is it cut into fragments as the store cuts them, if it is?
fn is_cut_as_here(disk: Option<&DiskIo>, wanted: &Wanted, object: &Object) -> bool {
    match (&object.large, disk) {
        (Some(large), Some(disk)) => disk.fits(wanted.primary, large),
        _ => true,
    }
}
