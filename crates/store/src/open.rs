//! Opening and closing: what the shell reads, decides and writes, step by step.
//!
//! To open:
//! 1. plan the [`Geometry`] for the size of the file or device; read [`Superblock::BYTES`] at 0;
//! 2. ask [`OpenPlan::of`]. *Load*: read the index it names and call [`Store::load`]; if that fails, treat it as
//!    *Fresh*. *Fresh*: [`Store::create`] with an [`Identity`] (after the old superblock, if there is one).
//!    *Refused*: stop and show the message;
//! 3. write [`Store::opening_superblock`] at each of [`Superblock::OFFSETS`], with a flush after each, before anything else.
//!
//! To close, when no request is left:
//! 1. [`Store::flush`], carry out the write, wait for all writes to be reported done;
//! 2. [`Store::close_image`]: write the index at its offset and flush, then the superblock at each of
//!    [`Superblock::OFFSETS`], with a flush after each.
//!
//! A stop at any other moment leaves the superblock open, and the next start is *Fresh* with the next epoch.

use crate::geometry::Geometry;
use crate::image::{self, About, LoadError};
use crate::key::KeyHash;
use crate::marker::Marker;
use crate::settings::{Limits, Settings};
use crate::shard::Slot;
use crate::store::Store;
use crate::superblock::{FORMAT_VERSION, IndexPlace, Secret, State, Superblock, SuperblockError};
use bytes::Bytes;
use extent::{Chunks, SpaceManager, Unified};
use std::sync::atomic::Ordering;

/// Who a new or emptied store is. The randomness comes from the caller.
#[derive(Clone, Debug)]
pub struct Identity {
    uuid: [u8; 16],
    secret: Secret,
    hash_seed: u64,
    epoch: u64,
    generation: u64,
}

impl Identity {
    /// Bytes of randomness an identity takes.
    pub const RANDOM_BYTES: usize = 40;

    /// A new store's. `random` must come from the system's source of secrets.
    pub fn new(random: [u8; Self::RANDOM_BYTES]) -> Self {
        let part = |from: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&random[from..from + 8]);
            bytes
        };
        let pair = |from: usize| {
            let mut bytes = [0; 16];
            bytes.copy_from_slice(&random[from..from + 16]);
            bytes
        };
        Self {
            uuid: pair(0),
            secret: Secret(pair(16)),
            hash_seed: u64::from_le_bytes(part(32)),
            epoch: 1,
            generation: 0,
        }
    }

    /// The same store as `previous`, emptied: the next epoch (and a new secret besides).
    pub fn after(self, previous: &Superblock) -> Self {
        Self {
            uuid: previous.uuid,
            epoch: previous.epoch.wrapping_add(1),
            generation: previous.generation.wrapping_add(1),
            ..self
        }
    }
}

/// What to do with what was found at the place of the superblock.
#[derive(Clone, Debug)]
pub enum OpenPlan {
    /// Stopped in order: read the index at `index` and [`Store::load`] it.
    Load {
        /// For [`Store::load`].
        superblock: Superblock,
        /// What to read.
        index: IndexPlace,
    },
    /// Start empty.
    Fresh {
        /// Why, to be shown.
        reason: &'static str,
        /// For [`Identity::after`], if a superblock could be read.
        previous: Option<Superblock>,
    },
    /// Do not touch it.
    Refused {
        /// Why, and what can be done.
        message: String,
    },
}

impl OpenPlan {
    /// `start`: the first [`Superblock::BYTES`] of the file or device. `wanted`: the geometry for its size.
    pub fn of(start: &[u8], wanted: &Geometry) -> Self {
        let copy = |offset: u64| start.get(offset as usize..).unwrap_or_default();
        let [first, second] = Superblock::OFFSETS.map(copy);
        match Superblock::decode_newest(first, second) {
            Ok(superblock) => Self::with(superblock, wanted),
            Err(SuperblockError::Blank) => Self::Fresh { reason: "the store is new", previous: None },
            Err(SuperblockError::Damaged) => {
                Self::Fresh { reason: "the superblock is damaged", previous: None }
            }
            Err(SuperblockError::Foreign) => Self::Refused {
                message: "this is not a Loligo store and not empty; name another file, or remove this one \
                          if it is not needed"
                    .into(),
            },
            Err(SuperblockError::Version { found }) => Self::Refused {
                message: format!(
                    "the store has format version {found}, this program reads and writes version \
                     {FORMAT_VERSION}; use the Loligo that wrote it, or remove the store to start with an empty \
                     one (it holds nothing but copies)"
                ),
            },
        }
    }

    fn with(superblock: Superblock, wanted: &Geometry) -> Self {
        let fresh = |reason, previous| Self::Fresh {
            reason,
            previous: Some(previous),
        };
        if superblock.geometry != *wanted {
            return fresh(
                "the size of the store or of its chunks was changed",
                superblock,
            );
        }
        match superblock.index {
            Some(index) => Self::Load { superblock, index },
            None => fresh("the store was not stopped in order", superblock),
        }
    }
}

/// What a clean stop writes: first `index` at `offset`, flushed, then `superblock` at each of
/// [`Superblock::OFFSETS`], each flushed.
#[derive(Clone, Debug)]
#[must_use = "without it the next start is empty"]
pub struct CloseImage {
    /// Where the index goes.
    pub offset: u64,
    /// The index: whole pages, in memory aligned to 4096 bytes.
    pub bytes: Bytes,
    /// One copy of the superblock, state clean.
    pub superblock: Bytes,
}

/// Closing came too early: some records are not on disk yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{in_flight} writes are not complete, or the last cluster was not flushed")]
pub struct StillWriting {
    /// Writes not reported done.
    pub in_flight: usize,
}

impl Store {
    /// An empty store.
    pub fn create(geometry: Geometry, settings: &Settings, identity: Identity) -> Self {
        let space = Unified::new_all_free(Chunks(geometry.data_chunks));
        let limits = Limits::fit(settings, &geometry);
        let superblock = Superblock {
            state: State::Open,
            uuid: identity.uuid,
            epoch: identity.epoch,
            secret: identity.secret,
            hash_seed: identity.hash_seed,
            generation: identity.generation,
            geometry,
            index: None,
        };
        Self::with(superblock, limits, space, 0)
    }

    /// The store as it was closed. `index`: what was read at the place the plan named.
    ///
    /// # Errors
    /// The index can't be used; then create the store with an identity after this superblock.
    pub fn load(
        superblock: &Superblock,
        index: &[u8],
        settings: &Settings,
    ) -> Result<Self, LoadError> {
        if superblock.state != State::Clean {
            return Err(LoadError::NotClean);
        }
        let geometry = &superblock.geometry;
        let image = image::decode(index, superblock.generation, superblock.epoch, geometry)?;
        let extents = image.entries.iter().map(|&(_, extent, _)| extent);
        let space = Unified::from_used(Chunks(geometry.data_chunks), extents)
            .map_err(|overlap| LoadError::Contradiction(overlap.to_string()))?;
        let opened = Superblock {
            state: State::Open,
            generation: superblock.generation.wrapping_add(1),
            index: None,
            ..superblock.clone()
        };
        let store = Self::with(
            opened,
            Limits::fit(settings, geometry),
            space,
            image.sequence,
        );
        // Coldest first, so that the stamps rise with the warmth.
        for &(hash, extent, flags) in image.entries.iter().rev() {
            let mut shard = store.shard(store.shard_of(hash));
            if shard.find(hash).is_some() {
                return Err(LoadError::Contradiction(format!("two records of {hash:?}")));
            }
            let stamp = store.clock.fetch_add(1, Ordering::Relaxed);
            shard.publish(Slot::new(hash, extent, flags, stamp));
        }
        for (primary, marker) in image.markers {
            let mut shard = store.shard(store.shard_of(primary));
            let number = marker.salt;
            shard.markers.set(primary, marker, number);
        }
        Ok(store)
    }

    /// One copy of the superblock that says the store is in use. To be written at each of [`Superblock::OFFSETS`],
    /// each flushed, before the first other write.
    pub fn opening_superblock(&self) -> Bytes {
        self.superblock.encode()
    }

    /// What to write for a clean stop. Nothing is stored from here on; invalidations after this are lost, so
    /// all requests must have ended.
    ///
    /// # Errors
    /// Not everything is on disk: flush, wait for the writes, ask again.
    pub fn close_image(&self) -> Result<CloseImage, StillWriting> {
        let writer = self.writer();
        let in_flight = crate::lock(&self.flights).len();
        if in_flight > 0 || writer.open.is_some() {
            return Err(StillWriting { in_flight });
        }
        // Inserts that wait for the writer's lock see this when they have it.
        self.closed.store(true, Ordering::SeqCst);
        let mut slots: Vec<Slot> = Vec::new();
        let mut markers: Vec<(u64, KeyHash, Marker)> = Vec::new();
        for number in 0..self.shards.len() {
            let shard = self.shard(number);
            slots.extend(shard.iter_coldest_first());
            markers.extend(
                shard
                    .markers
                    .iter()
                    .map(|(n, primary, marker)| (n, primary, marker.clone())),
            );
        }
        slots.sort_unstable_by_key(|slot| std::cmp::Reverse(slot.stamp));
        markers.sort_unstable_by_key(|&(number, ..)| std::cmp::Reverse(number));
        let markers: Vec<_> = markers
            .into_iter()
            .map(|(_, primary, marker)| (primary, marker))
            .collect();

        let generation = self.superblock.generation.wrapping_add(1);
        let about = About {
            generation,
            epoch: self.epoch,
            sequence: self.sequence(),
        };
        let bytes = image::encode(about, &markers, &slots, self.geometry.checkpoint_bytes);
        let offset = self.geometry.index_at(generation);
        let superblock = Superblock {
            state: State::Clean,
            generation,
            index: Some(IndexPlace {
                offset,
                bytes: bytes.len() as u64,
            }),
            ..self.superblock.clone()
        };
        Ok(CloseImage {
            offset,
            bytes,
            superblock: superblock.encode(),
        })
    }
}
