//! Opening the stores at the start.
//!
//! The store says step by step what to read and write (`store::OpenPlan`). This file carries it out synchronously
//! before the first request. Afterwards the background thread takes over, up to closing (`background`).
//!
//! Two steps. First all files and devices are opened, locked and inspected ([`look`]), so that a broken one is found
//! before anybody can connect. Then log, journal and checkpoint are read ([`Candidates::open`]). A store that cannot
//! be opened ends the start. With `required` off it is left out with an error in the log: the other stores get its
//! share, and without any the proxy serves from memory.

use std::{path::PathBuf, sync::Arc};

use device::{AlignedBuf, Device, OpenOptions};
use store::{
    Found, Geometry, Identity, OpenPlan, Set, Settings, Store, Superblock,
    set::{Joining, SetNumbers, join, member_id, moves, placement},
};

use plan::proof::common_number;
use plan::{Plan, StorePlan, User};

/// Why there is no store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file or device cannot be opened.
    #[error(transparent)]
    Open(#[from] device::OpenError),
    /// It is too small.
    #[error("{path}: {source}")]
    Size {
        /// The store.
        path: String,
        /// The reason.
        source: store::TooSmall,
    },
    /// It contains something else.
    #[error("{path}: {message}")]
    Refused {
        /// The store.
        path: String,
        /// Why, and what to do.
        message: String,
    },
    /// It cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The store.
        path: String,
        /// What happened.
        source: device::IoFault,
    },
    /// The system gives no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(getrandom::Error),
}

/// A store that is left out.
#[derive(Clone, Debug)]
pub struct Absent {
    /// Its file or device.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

/// The stores that can be opened, and those that cannot.
pub struct Candidates {
    all: Vec<Candidate>,
    absent: Vec<Absent>,
    required: bool,
}

/// The opened stores.
pub struct Opened {
    /// All of them as one.
    pub set: Arc<Set>,
    /// In the set's order, each with its device.
    pub stores: Vec<(Arc<Store>, Arc<Device>)>,
    /// For each store, the findings in words.
    pub found: Vec<String>,
}

impl Opened {
    /// Marks the stores as in use. This must be the first write to them.
    ///
    /// The stores are marked one right after the other: a kill between two of these writes leaves the second store with an older
    /// generation, and the next start would empty it.
    ///
    /// # Errors
    /// A device does not take the write.
    pub fn mark(&self) -> Result<(), StoreError> {
        for (store, device) in &self.stores {
            for (offset, data) in store.opening() {
                device
                    .write_all_sync(offset, &data)
                    .and_then(|()| device.flush_sync())
                    .map_err(|source| StoreError::Io {
                        path: device.path().display().to_string(),
                        source,
                    })?;
            }
        }
        Ok(())
    }
}

impl Opened {
    /// The devices, in the set's order.
    pub fn devices(&self) -> impl Iterator<Item = Arc<Device>> {
        self.stores.iter().map(|(_, device)| Arc::clone(device))
    }
}

/// A device that was opened, and the plan that its first bytes suggest.
struct Candidate {
    plan: StorePlan,
    device: Arc<Device>,
    geometry: Geometry,
    start: OpenPlan,
}

impl Candidate {
    fn superblock(&self) -> Option<&Superblock> {
        match &self.start {
            OpenPlan::Recover { superblock, .. } => Some(superblock),
            OpenPlan::Fresh { .. } | OpenPlan::Refused { .. } => None,
        }
    }

    /// Writes the first block back unchanged, to find out whether the device takes writes before the set is formed.
    fn check_writing(&self) -> Result<(), StoreError> {
        let mut copy = vec![0; self.device.logical_block_bytes() as usize];
        self.device
            .read_exact_sync(0, &mut copy)
            .and_then(|()| self.device.write_all_sync(0, &copy))
            .and_then(|()| self.device.flush_sync())
            .map_err(self.io())
    }

    fn io(&self) -> impl Fn(device::IoFault) -> StoreError {
        let path = self.plan.path.display().to_string();
        move |source| StoreError::Io {
            path: path.clone(),
            source,
        }
    }
}

/// Inspects devices that another process has locked, and left as after a clean stop. Writes nothing, since that process may use them on.
///
/// # Errors
/// A device cannot be read.
pub fn look_at_passed(plan: &Plan, passed: &[Arc<Device>]) -> Result<Candidates, StoreError> {
    let stores = plan.stores.iter().zip(passed);
    let all = stores.map(|(store, device)| candidate(store, Some(Arc::clone(device))));
    Ok(Candidates {
        all: all.collect::<Result<_, _>>()?,
        absent: Vec::new(),
        required: true,
    })
}

/// Opens and locks the files and devices of a plan's stores, and tests whether they can be read and written. The devices in
/// `found` are used instead of opening any.
///
/// # Errors
/// A store cannot be used, and all are required.
pub fn look(plan: &Plan, found: Option<Vec<Arc<Device>>>) -> Result<Candidates, StoreError> {
    let required = plan.storing.required;
    let mut found = found.into_iter().flatten();
    let (mut all, mut absent) = (Vec::new(), Vec::new());
    for store in &plan.stores {
        let candidate = candidate(store, found.next());
        let checked = candidate.and_then(|it| it.check_writing().map(|()| it));
        match checked {
            Ok(candidate) => all.push(candidate),
            Err(error) if required => return Err(error),
            Err(error) => absent.push(Absent::of(store, &error)),
        }
    }
    Ok(Candidates {
        all,
        absent,
        required,
    })
}

impl Absent {
    /// Logs the error.
    fn of(plan: &StorePlan, error: &StoreError) -> Absent {
        let path = plan.path.clone();
        tracing::error!(path = %path.display(), %error, "this store cannot be opened: it is left out");
        let why = error.to_string();
        Absent { path, why }
    }
}

impl Candidates {
    /// The same, but every store starts empty, so that a cluster is not told of objects that may not be served.
    pub fn start_empty(mut self, reason: &'static str) -> Candidates {
        for candidate in &mut self.all {
            if let OpenPlan::Recover { superblock, .. } = &candidate.start {
                let previous = Some(superblock.clone());
                candidate.start = OpenPlan::Fresh { reason, previous };
            }
        }
        self
    }

    /// Gives files that belong to root to this user, so that they can be opened without root the next time. Devices stay as they are.
    ///
    /// # Errors
    /// The file system does not permit it.
    pub fn give_to(&self, user: &User) -> Result<(), StoreError> {
        for candidate in &self.all {
            let given = candidate.device.give_to(user.uid, user.gid);
            given.map_err(candidate.io())?;
        }
        Ok(())
    }

    /// Opens the usable stores, if there are any, marks them as in use, and returns those that are left out.
    ///
    /// # Errors
    /// A store cannot be opened or marked, and all stores are required.
    pub fn open(self, plan: &Plan) -> Result<(Option<Opened>, Vec<Absent>), StoreError> {
        self.open_with(plan, |opened| opened.mark())
    }

    /// As [`Self::open`], but the caller [marks](Opened::mark) the stores.
    ///
    /// # Errors
    /// A store cannot be opened, and all stores are required.
    pub fn open_unmarked(self, plan: &Plan) -> Result<(Option<Opened>, Vec<Absent>), StoreError> {
        self.open_with(plan, |_| Ok(()))
    }

    fn open_with(
        self,
        plan: &Plan,
        mark: impl FnOnce(&Opened) -> Result<(), StoreError>,
    ) -> Result<(Option<Opened>, Vec<Absent>), StoreError> {
        let mut absent = self.absent;
        if self.all.is_empty() {
            return Ok((None, absent));
        }
        match open(plan, &self.all).and_then(|opened| mark(&opened).map(|()| opened)) {
            Ok(opened) => Ok((Some(opened), absent)),
            Err(error) if self.required => Err(error),
            // Rare, since all stores could be written just before. It is unknown which of them are marked as in use by now,
            // and so which of them would miss purges: give up.
            Err(error) => {
                let left_out = |candidate: &Candidate| Absent::of(&candidate.plan, &error);
                absent.extend(self.all.iter().map(left_out));
                Ok((None, absent))
            }
        }
    }
}

/// Recovers the stores, or starts them empty.
fn open(plan: &Plan, candidates: &[Candidate]) -> Result<Opened, StoreError> {
    let superblocks: Vec<_> = candidates.iter().map(|c| c.superblock().cloned()).collect();
    let (numbers, joining) = join(&superblocks, fresh_numbers(plan)?);
    // The ids of all members determine the placement, and opening needs the placement.
    let mut identities = Vec::new();
    for (candidate, superblock) in candidates.iter().zip(&superblocks) {
        let previous = match &candidate.start {
            OpenPlan::Fresh { previous, .. } => previous.as_ref(),
            _ => superblock.as_ref(),
        };
        identities.push(identity(previous)?.in_set(numbers));
    }
    let members: Vec<(u64, u32)> = candidates
        .iter()
        .zip(&identities)
        .map(|(candidate, identity)| (member_id(identity.uuid()), candidate.plan.weight))
        .collect();
    let placement = placement(&members);
    let settings = settings(plan);
    let mut opened = Vec::new();
    let mut found = Vec::new();
    let kept = joining.iter().map(|joining| match joining {
        Joining::Keeps(superblock) => Some(&**superblock),
        Joining::StartsEmpty { .. } => None,
    });
    let kept: Vec<_> = members
        .iter()
        .zip(kept)
        .map(|(&(id, weight), block)| (id, weight, block))
        .collect();
    for ((candidate, identity), (joining, &(_, weight, block))) in candidates
        .iter()
        .zip(identities)
        .zip(joining.iter().zip(&kept))
    {
        let moves = block.map(|block| moves(block, &kept)).unwrap_or_default();
        let identity = identity.placed(placement, weight, moves);
        let (store, words) = start(candidate, joining, &settings, identity)?;
        opened.push((Arc::new(store), Arc::clone(&candidate.device)));
        found.push(words);
    }
    let set = Set::new(
        opened
            .iter()
            .zip(&members)
            .map(|((store, _), &(id, weight))| (Arc::clone(store), id, weight)),
    );
    Ok(Opened {
        set: Arc::new(set),
        stores: opened,
        found,
    })
}

/// Opens the file or device, or uses `found`.
fn candidate(plan: &StorePlan, found: Option<Arc<Device>>) -> Result<Candidate, StoreError> {
    let path = plan.path.display().to_string();
    let device = match found {
        Some(device) => device,
        None => device_at(plan)?,
    };
    let mut first = vec![0; Superblock::BYTES];
    device
        .read_exact_sync(0, &mut first)
        .map_err(|source| StoreError::Io {
            path: path.clone(),
            source,
        })?;
    // A store keeps the chunks it was made with.
    let chunk_bytes = OpenPlan::chunk_bytes(&first).max(device.logical_block_bytes());
    let geometry =
        Geometry::plan(device.size(), chunk_bytes).map_err(|source| StoreError::Size {
            path: path.clone(),
            source,
        })?;
    let start = match OpenPlan::of(&first, &geometry) {
        OpenPlan::Refused { .. } if plan.force => OpenPlan::Fresh {
            reason: "it was taken by force",
            previous: None,
        },
        OpenPlan::Refused { message } => return Err(StoreError::Refused { path, message }),
        start => start,
    };
    Ok(Candidate {
        plan: plan.clone(),
        device,
        geometry,
        start,
    })
}

fn device_at(plan: &StorePlan) -> Result<Arc<Device>, StoreError> {
    if let Some(folder) = plan.path.parent()
        && !folder.as_os_str().is_empty()
        && let Err(error) = std::fs::create_dir_all(folder)
    {
        tracing::debug!(%error, "cannot create the store's folder");
    }
    let opened = Device::open(
        &plan.path,
        OpenOptions {
            size_bytes: plan.size_bytes,
            create: true,
            direct: plan.direct,
            force: plan.force,
            ..OpenOptions::default()
        },
    )?;
    if let Some(why) = &opened.buffered_because {
        tracing::info!(%why, path = %plan.path.display(), "the file system has no direct I/O; the store goes through the page cache");
    }
    Ok(opened.device)
}

/// The store of one candidate, and the findings in words.
fn start(
    candidate: &Candidate,
    joining: &Joining,
    settings: &Settings,
    identity: Identity,
) -> Result<(Store, String), StoreError> {
    let empty = |identity, reason: &str| {
        let store = Store::create(candidate.geometry.clone(), settings, identity);
        (store, format!("starts empty: {reason}"))
    };
    let (checkpoint, superblock) = match (&candidate.start, joining) {
        (OpenPlan::Recover { checkpoint, .. }, Joining::Keeps(superblock)) => {
            (checkpoint, Superblock::clone(superblock))
        }
        (OpenPlan::Fresh { reason, .. }, _) => return Ok(empty(identity, reason)),
        (_, Joining::StartsEmpty { reason }) => return Ok(empty(identity, reason)),
        (OpenPlan::Refused { message }, _) => return Ok(empty(identity, message)),
    };
    let read = |offset: u64, len: usize| {
        let mut bytes = AlignedBuf::zeroed(len);
        match candidate.device.read_exact_sync(offset, &mut bytes) {
            Ok(()) => Some(bytes.into_bytes()),
            Err(error) => {
                tracing::warn!(%error, offset, "a part of the store's books cannot be read");
                None
            }
        }
    };
    let [log, journal] = superblock.geometry.logs();
    let found = Found {
        log: read(log.0, log.1),
        journal: read(journal.0, journal.1),
        checkpoint: checkpoint.and_then(|at| read(at.offset, usize::try_from(at.bytes).ok()?)),
    };
    let (store, recovered) = Store::recover(superblock, &found, settings, identity);
    Ok((store, recovered.words))
}

/// A store without a device: it keeps markers and invalidations for the memory tier, and no object.
/// `seed` is the seed of its key hashes, if another process has chosen one.
pub fn without_device(seed: Option<u64>) -> Result<Arc<Set>, StoreError> {
    let settings = Settings {
        manner,
        words,
        ..Settings::default()
    };
    let identity = match seed {
        None => identity(None)?,
        Some(hash_seed) => identity(None)?.in_set(SetNumbers {
            hash_seed,
            ..SetNumbers::default()
        }),
    };
    let store = Store::volatile(&settings, identity);
    Ok(Arc::new(Set::of_one(Arc::new(store))))
}

fn identity(previous: Option<&Superblock>) -> Result<Identity, StoreError> {
    let mut random = [0; Identity::RANDOM_BYTES];
    base::chance::fill(&mut random).map_err(StoreError::Random)?;
    let identity = Identity::new(random);
    Ok(match previous {
        Some(previous) => identity.after(previous),
        None => identity,
    })
}

/// The numbers of a new set. The stores of all members of a cluster share a hash seed, so that one hash finds an object in any of them.
fn fresh_numbers(plan: &Plan) -> Result<SetNumbers, StoreError> {
    let mut uuid = [0; 16];
    base::chance::fill(&mut uuid).map_err(StoreError::Random)?;
    Ok(SetNumbers {
        uuid,
        generation: 1,
        hash_seed: match &plan.cluster {
            Some(cluster) => common_number(&cluster.key, "the hash seed of a store"),
            None => base::chance::u64().map_err(StoreError::Random)?,
        },
    })
}

/// The plan's settings for storing, in the store's terms.
pub fn settings(plan: &Plan) -> Settings {
    let storing = &plan.storing;
    Settings {
        cluster_bytes: storing.cluster_bytes,
        cluster_deadline_ms: storing.cluster_deadline.as_millis() as u64,
        replacement: storing.replacement,
        watermarks: storing.watermarks,
        fragment_bytes: storing.fragment_bytes,
        locality_buffers: storing.locality.buffers(),
        manner,
        words,
        ..Settings::default()
    }
}

pub use crate::predicate::{manner, words};
