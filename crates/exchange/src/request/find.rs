//! Looks up the stored response for a request: in memory, then on disk.
//!
//! The response lies under the key or, if a marker says that there are variants, under the variant's key. Objects from disk are
//! promoted. If another tag's response lies under the key's hash, and that tag is still in use, the request is marked
//! ([`Wanted::is_contested`]): its own response is then stored as a variant, so that both are kept. The invalidation sequence is
//! read before the look-up, so that later users of the result can detect a purge in between.
//!
//! For a large object the look-up returns the head. Its fragments are looked up when the wanted ones are known (`holes`).
//!
//! Not known here: whether the response may be served.

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

/// A stored response, and the circumstances of its look-up.
pub struct Found {
    /// The response, and the tier that had it.
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

/// Looks in memory, then on disk. Promotes an object found on disk.
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
    // A rule's extras are part of variants' keys only, so such a request has no direct entry.
    let may_be_direct = wanted.extras.is_empty();
    wanted.is_contested.set(false);
    if wanted.is_absent.take()
        && may_be_direct
        && shared.cache.store.marker(wanted.primary).is_none()
    {
        return None;
    }
    // The key of another tag's response under the same name.
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

/// A look-up of one response.
struct Search<'a> {
    cache: &'a Cache,
    /// `None`: do not read disks.
    disk: Option<&'a DiskIo>,
    wanted: &'a Wanted,
    /// The invalidation sequence before the look-up.
    began: Sequence,
}

impl Search<'_> {
    /// Accepts an object in memory if it is for this request.
    fn in_memory(&self, resident: Arc<Resident>) -> Option<Found> {
        let object = &resident.object;
        // A large object needs its fragments from disk.
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

    /// Was the object stored because of cache fields that do not count for this listener? Then it is invisible here.
    fn is_foreign(&self, object: &Object) -> bool {
        self.wanted.is_foreign(&object.standing)
    }

    /// The object on disk under this key, if it is for this request.
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
        // `still_valid` fails if the object was purged during the read.
        if self.is_foreign(&object) || !cache.still_valid(&object, began) {
            return None;
        }
        if !is_cut_as_here(Some(disk), wanted, &object) {
            cache.forget_stored(&object);
            return None;
        }
        // A large object that replaces this one is not in memory; only the count of removals shows its arrival.
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

/// Is a large object cut into fragments of the size that the store uses now? True for all others.
fn is_cut_as_here(disk: Option<&DiskIo>, wanted: &Wanted, object: &Object) -> bool {
    match (&object.large, disk) {
        (Some(large), Some(disk)) => disk.fits(wanted.primary, large),
        _ => true,
    }
}
