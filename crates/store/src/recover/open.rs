//! Opening: the reads, decisions and writes of the shell, step by step.
//!
//! 1. Plan the [`Geometry`] for the size of the file or device; read [`Superblock::BYTES`] at 0.
//! 2. Ask [`OpenPlan::of`]. *Recover*: read log, journal and checkpoint as far as they can be read, and call
//!    [`Store::recover`]. *Fresh*: [`Store::create`] with an [`Identity`] (after the old superblock, if there is one). *Refused*: stop
//!    and show the message.
//! 3. Write [`Store::opening`], with a flush after each, before anything else.
//! 4. Carry out [`Store::next_work`] from now on. If the store was not closed in order that includes the scan; it serves meanwhile.
//!
//! To close: [`Store::begin_close`].

use crate::evict::room::Room;
use crate::fragments::fragment_bytes;
use crate::geometry::Geometry;
use crate::index::SPARE_MARKERS_VOLATILE;
use crate::jobs::Background;
use crate::joining::{Moves, SetNumbers};
use crate::lock::lock;
use crate::log::Log;
use crate::recover::journal::{self, Journal};
use crate::recover::superblock::{
    FORMAT_VERSION, FORMAT_VERSION_OLDEST, IndexPlace, State, Superblock, SuperblockError,
};
use crate::secret::Secret;
use crate::sequence::Sequence;
use crate::settings::{Limits, Settings};
use crate::store::Store;
use bytes::Bytes;
use std::sync::atomic::Ordering;

/// The identity of a new or emptied store. The randomness comes from the caller.
#[derive(Clone, Debug)]
pub struct Identity {
    uuid: [u8; 16],
    secret: Secret,
    hash_seed: u64,
    epoch: u64,
    generation: u64,
    set: SetNumbers,
    pub(crate) placement: u64,
    pub(crate) weight: u32,
    pub(crate) moves: Moves,
}

impl Identity {
    /// Bytes of randomness an identity takes.
    pub const RANDOM_BYTES: usize = 40;

    /// The identity of a new store. `random` must come from the system's source of secrets.
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
            set: SetNumbers::default(),
            placement: 0,
            weight: 1,
            moves: Moves::default(),
        }
    }

    /// Names the store for life.
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Makes it a member of a set, with the key hashes that all members share.
    #[must_use]
    pub fn in_set(self, set: SetNumbers) -> Self {
        Self {
            set,
            hash_seed: set.hash_seed,
            ..self
        }
    }

    /// Sets the set's placement of objects, see [`crate::set::placement`], the store's weight in it, and how keys move.
    #[must_use]
    pub fn placed(self, placement: u64, weight: u32, moves: Moves) -> Self {
        Self {
            placement,
            weight,
            moves,
            ..self
        }
    }

    /// Keeps the placement of `previous`: for opening one member by itself.
    #[must_use]
    pub fn placed_as(self, previous: &Superblock) -> Self {
        self.placed(previous.placement, previous.weight, Moves::default())
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

/// How to open a store, by the bytes at the place of the superblock.
#[derive(Clone, Debug)]
pub enum OpenPlan {
    /// A store of ours: read what [`Found`] asks for, and [`Store::recover`] it.
    Recover {
        /// For [`Store::recover`].
        superblock: Superblock,
        /// The checkpoint to read, if one was ever made.
        checkpoint: Option<IndexPlace>,
    },
    /// Start empty.
    Fresh {
        /// Why, to be shown.
        reason: &'static str,
        /// For [`Identity::after`], if a superblock could be read.
        previous: Option<Superblock>,
    },
    /// Leave the file or device as it is.
    Refused {
        /// The reason, and what the operator can do.
        message: String,
    },
}

impl OpenPlan {
    /// The chunk length of the store that begins with `start`; the default if there is no store yet.
    pub fn chunk_bytes(start: &[u8]) -> u32 {
        let copy = |offset: u64| start.get(offset as usize..).unwrap_or_default();
        let [first, second] = Superblock::OFFSETS.map(copy);
        Superblock::decode_newest(first, second)
            .map_or(Geometry::CHUNK_BYTES_DEFAULT, |superblock| {
                superblock.geometry.chunk_bytes
            })
    }

    /// `start`: the first [`Superblock::BYTES`] of the file or device. `wanted`: the geometry of a new store of its size.
    pub fn of(start: &[u8], wanted: &Geometry) -> Self {
        let copy = |offset: u64| start.get(offset as usize..).unwrap_or_default();
        let [first, second] = Superblock::OFFSETS.map(copy);
        match Superblock::decode_newest(first, second) {
            Ok(superblock) => Self::with(superblock, wanted),
            Err(SuperblockError::Blank) => Self::Fresh { reason: "the store is new", previous: None },
            Err(SuperblockError::Damaged) => {
                Self::Fresh { reason: "the superblock is damaged in both its copies", previous: None }
            }
            Err(SuperblockError::Foreign) => Self::Refused {
                message: "this is not a Loligo store and not empty; name another file, or remove this one \
                          if it is not needed"
                    .into(),
            },
            Err(SuperblockError::Version { found }) if found < FORMAT_VERSION_OLDEST => Self::Fresh {
                reason: "an older Loligo wrote it, in a format that this one does not read",
                previous: None,
            },
            Err(SuperblockError::Version { found }) => Self::Refused {
                message: format!(
                    "the store has format version {found}, this program reads versions {FORMAT_VERSION_OLDEST} \
                     to {FORMAT_VERSION}; use the Loligo that wrote it, or remove the store to start with an empty \
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
        // The rest of the geometry stays as it was when the store was made, even if a new store would differ.
        let of = |geometry: &Geometry| (geometry.total_bytes, geometry.chunk_bytes);
        if of(&superblock.geometry) != of(wanted) {
            return fresh(
                "the size of the store or of its chunks was changed",
                superblock,
            );
        }
        Self::Recover {
            checkpoint: superblock.index,
            superblock,
        }
    }
}

/// The parts read from a store; `None` where the device refused.
#[derive(Debug, Default)]
pub struct Found {
    /// The whole invalidation log: [`Geometry::invalidation_log_bytes`] at [`Geometry::invalidation_log_at`].
    pub log: Option<Bytes>,
    /// The whole region journal: [`Geometry::region_journal_bytes`] at [`Geometry::region_journal_at`].
    pub journal: Option<Bytes>,
    /// The checkpoint that the plan named.
    pub checkpoint: Option<Bytes>,
}

impl Store {
    /// An empty store.
    pub fn create(geometry: Geometry, settings: &Settings, identity: Identity) -> Self {
        let fragment_bytes = fragment_bytes(settings.fragment_bytes, &geometry);
        let limits = Limits::fit(settings, &geometry, fragment_bytes);
        let superblock = Superblock {
            version: FORMAT_VERSION,
            state: State::Open,
            uuid: identity.uuid,
            epoch: identity.epoch,
            secret: identity.secret,
            hash_seed: identity.hash_seed,
            generation: identity.generation,
            index: None,
            checkpoint_generation: 0,
            accept_from: 0,
            set_uuid: identity.set.uuid,
            set_generation: identity.set.generation,
            placement: identity.placement,
            keys_left_at: 0,
            weight: identity.weight,
            policy: u32::from(limits.policy().is_some()),
            fragment_bytes,
            second_first: false,
            geometry,
        };
        let mut background = fresh_background(superblock.clone(), 0);
        // Written after the superblock. If the log were overwritten while the superblock still named the old epoch, a crash in between would
        // leave an old store without its last invalidations. This way it leaves a new store without a log, which starts empty again.
        let mut log_and_journal = background.opening_of_log();
        let geometry = &superblock.geometry;
        let at = geometry.region_journal_at;
        let journal = background.journal.initial_writes();
        log_and_journal.extend(
            journal
                .into_iter()
                .map(|(offset, data)| (at + offset, data)),
        );
        let store = Self::with(&superblock, limits, 0, 0, background);
        if let Room::Hand(hand) = &mut store.writer().room {
            hand.begin_empty();
            let next = hand.next_chunk();
            store.hand_at.store(next.0, Ordering::Relaxed);
        }
        store.set_opening(&superblock, log_and_journal);
        store
    }

    /// A store without a device: it keeps markers and invalidations, and no record. Every invalidation is settled at once.
    pub fn volatile(settings: &Settings, identity: Identity) -> Self {
        let geometry = Geometry::plan(Geometry::MIN_STORE_BYTES, Geometry::CHUNK_BYTES_DEFAULT)
            .expect("the smallest store can be planned");
        let store = Self::create(geometry, settings, identity);
        store.background().set_volatile();
        for number in 0..store.shards.len() {
            store.shard(number).index.spare_markers = SPARE_MARKERS_VOLATILE;
        }
        store.open_for_records.store(false, Ordering::SeqCst);
        store
    }

    /// The writes to carry out before anything else, each flushed before the next: offsets from the start of the store, whole pages.
    pub fn opening(&self) -> Vec<(u64, Bytes)> {
        lock(&self.opening).clone()
    }

    /// Sets the answer of [`Self::opening`]: the superblock's two copies, then `others`.
    pub(crate) fn set_opening(&self, superblock: &Superblock, others: Vec<(u64, Bytes)>) {
        let copy = superblock.encode();
        let [first, second] = Superblock::OFFSETS;
        let offsets = if superblock.second_first {
            [second, first]
        } else {
            [first, second]
        };
        let copies = offsets.map(|offset| (offset, copy.clone()));
        *lock(&self.opening) = copies.into_iter().chain(others).collect();
    }
}

/// Log and journal of an empty store.
pub(crate) fn fresh_background(superblock: Superblock, horizon: Sequence) -> Background {
    let geometry = &superblock.geometry;
    let log = Log::new(
        geometry.invalidation_log_bytes,
        superblock.epoch,
        superblock.secret,
        horizon,
    );
    let journal = Journal::new(
        geometry.regions(),
        geometry.region_journal_bytes,
        journal::Start {
            epoch: superblock.epoch,
            generation: superblock.generation,
            secret: superblock.secret,
        },
    );
    Background::new(superblock, log, journal)
}
