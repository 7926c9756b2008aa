//! The object store as a state machine: index, cluster write, eviction, record format.
//!
//! One preallocated file or device holds everything: superblock, index, records in runs of chunks. This crate decides;
//! it never touches the device, the clock or the network. A call returns the I/O it wants, the caller carries it
//! out and reports back:
//!
//! | to | call | then |
//! |---|---|---|
//! | open, close | see [`OpenPlan`] and [`CloseImage`] | |
//! | read | [`Store::look_up`] | carry out the [`Read`], [`Store::decode`], compare the key, [`Store::read_done`] |
//! | store | [`Store::insert`] | carry out the [`Write`]s, [`Store::write_done`] for each |
//! | wait | [`Store::tick`], every tenth of a second | carry out the write |
//! | purge | [`Store::invalidate`] | |
//!
//! The life of a record: cut into the open cluster (*writing*: served from the buffer), written (*live*: one read serves
//! it), then evicted (coldest first, its readers may finish) or killed (invalidated, replaced, corrupt: its readers are
//! told not to serve it). Its chunks are free when its own write has completed and its last reader has gone.
//!
//! What holds at all times:
//! * every byte that [`Store::decode`] hands out is what was stored under exactly that key hash by this store in this
//!   epoch: MAC, checksum, place; the caller compares the full key;
//! * after [`Store::invalidate`] has returned, no look-up finds what was stored before, no fill that began before it
//!   is published, no read that began before it may be served;
//! * records never overlap (`audit`);
//! * tables, buffers and the work of a call are bounded; the bounds are named where they are defined.
//!
//! What does not hold yet: after an unclean stop the store starts empty (the superblock says *open*, the epoch rises, every
//! old record is refused). Room for checkpoints, an invalidation log and a region journal is in the [`Geometry`].
//!
//! Not known here: HTTP, freshness, sockets, system calls.
//! Source: paper 000, sections 3 and 4; `docs/format.md` for every byte.
#![forbid(unsafe_code)]

mod buffer;
mod cluster;
mod evict;
mod figures;
mod geometry;
mod image;
mod invalidation;
mod key;
pub mod layout;
mod marker;
mod open;
mod pause;
mod record;
mod settings;
mod shard;
mod store;
mod superblock;
mod writer;

pub use cluster::{Write, WriteId, Writes};
pub use figures::Figures;
pub use geometry::{Geometry, TooSmall};
pub use image::LoadError;
pub use key::{KeyHash, KeyHasher};
pub use marker::{LIST_BYTES_MAX, Marker};
pub use open::{CloseImage, Identity, OpenPlan, StillWriting};
pub use record::{
    Corrupt, Fragment, HEADER_BYTES, KEY_BYTES_MAX, META_BYTES_MAX, NewRecord, ObjectTotal,
    RecordParts,
};
pub use settings::{CLUSTERS_IN_FLIGHT_MAX, RECORD_BYTES_MAX, Settings};
pub use store::{Lookup, Read, ReadGuard, Sequence, Store};
pub use superblock::{FORMAT_VERSION, IndexPlace, Secret, State, Superblock, SuperblockError};
pub use writer::{Inserted, Outcome};

use std::sync::{Mutex, MutexGuard};

/// A thread that panicked while holding a lock may have left it half changed: better to stop than to go on with it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .expect("a thread panicked while it changed the store")
}
