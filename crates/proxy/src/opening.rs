//! Opening the store at the start, closing it at the end.
//!
//! The store says step by step what to read and write (`store::OpenPlan`, `store::CloseImage`); here it is done,
//! synchronously, before the first and after the last request. A store that was not closed in order starts
//! empty, and says so.

use std::sync::Arc;

use device::{Device, OpenOptions};
use replacement::Watermarks;
use store::{Geometry, Identity, OpenPlan, Settings, Store, Superblock};

use crate::plan::StorePlan;

/// Why there is no store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file or device.
    #[error(transparent)]
    Open(#[from] device::OpenError),
    /// Its size.
    #[error("{path}: {source}")]
    Size {
        /// The store.
        path: String,
        /// What is wrong.
        source: store::TooSmall,
    },
    /// Something else is in it.
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

/// An opened store.
pub struct OpenedStore {
    /// The state machine.
    pub store: Arc<Store>,
    /// Its bytes.
    pub device: Arc<Device>,
    /// What was found, in words.
    pub found: String,
}

/// Opens the store, loads its index or starts it empty, and marks it open.
pub fn open(plan: &StorePlan) -> Result<OpenedStore, StoreError> {
    let path = plan.path.display().to_string();
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
        },
    )?;
    if let Some(why) = &opened.buffered_because {
        tracing::warn!(%why, path, "the file system has no direct I/O; the store goes through the page cache");
    }
    let device = opened.device;
    let size = |source| StoreError::Size {
        path: path.clone(),
        source,
    };
    let io = |source| StoreError::Io {
        path: path.clone(),
        source,
    };
    let chunk_bytes = plan.chunk_bytes.max(device.logical_block_bytes());
    let geometry = Geometry::plan(device.size(), chunk_bytes).map_err(size)?;
    let settings = settings(plan);
    let mut start = vec![0; Superblock::BYTES];
    device.read_exact_sync(0, &mut start).map_err(io)?;
    let (store, found) = match OpenPlan::of(&start, &geometry) {
        OpenPlan::Refused { message } => return Err(StoreError::Refused { path, message }),
        OpenPlan::Fresh { reason, previous } => {
            let store = Store::create(geometry, &settings, identity(previous.as_ref())?);
            (store, format!("starts empty: {reason}"))
        }
        OpenPlan::Load { superblock, index } => {
            let mut image = vec![0; usize::try_from(index.bytes).unwrap_or(0)];
            let loaded = device
                .read_exact_sync(index.offset, &mut image)
                .map_err(|e| e.to_string())
                .and_then(|()| {
                    Store::load(&superblock, &image, &settings).map_err(|e| e.to_string())
                });
            match loaded {
                Ok(store) => {
                    let objects = store.figures().records;
                    (store, format!("{objects} records found in order"))
                }
                Err(reason) => {
                    let identity = identity(Some(&superblock))?;
                    let store = Store::create(geometry, &settings, identity);
                    (
                        store,
                        format!("starts empty: the index cannot be used: {reason}"),
                    )
                }
            }
        }
    };
    write_superblock(&device, &store.opening_superblock()).map_err(io)?;
    Ok(OpenedStore {
        store: Arc::new(store),
        device,
        found,
    })
}

/// A store without a device: it keeps markers and invalidations for the memory tier, and no object.
pub fn without_device() -> Result<Arc<Store>, StoreError> {
    let geometry = Geometry::plan(8 << 20, 512).map_err(|source| StoreError::Size {
        path: "memory".into(),
        source,
    })?;
    Ok(Arc::new(Store::create(
        geometry,
        &Settings::default(),
        identity(None)?,
    )))
}

/// Writes the index and marks the store closed. All workers have ended.
pub fn close(store: &Store, device: &Device) -> Result<(), String> {
    while let Some(write) = store.flush() {
        let ok = device.write_all_sync(write.offset, &write.data).is_ok();
        store.write_done(write.id, ok, 0);
    }
    let image = store.close_image().map_err(|e| e.to_string())?;
    let written = device
        .write_all_sync(image.offset, &image.bytes)
        .and_then(|()| device.flush_sync())
        .and_then(|()| write_superblock(device, &image.superblock));
    written.map_err(|e| e.to_string())
}

fn write_superblock(device: &Device, superblock: &[u8]) -> Result<(), device::IoFault> {
    for offset in Superblock::OFFSETS {
        device.write_all_sync(offset, superblock)?;
        device.flush_sync()?;
    }
    Ok(())
}

fn identity(previous: Option<&Superblock>) -> Result<Identity, StoreError> {
    let mut random = [0; Identity::RANDOM_BYTES];
    getrandom::fill(&mut random).map_err(StoreError::Random)?;
    let identity = Identity::new(random);
    Ok(match previous {
        Some(previous) => identity.after(previous),
        None => identity,
    })
}

fn settings(plan: &StorePlan) -> Settings {
    Settings {
        cluster_bytes: plan.cluster_bytes,
        cluster_deadline_ms: plan.cluster_deadline.as_millis() as u64,
        watermarks: Watermarks {
            high_percent: plan.high_watermark_percent,
            low_percent: plan.low_watermark_percent,
        },
        fragment_bytes: plan.fragment_bytes,
        ..Settings::default()
    }
}
