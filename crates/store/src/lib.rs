//! The object store as a state machine: index, cluster writes, eviction, recovery.
//!
//! One preallocated file or device holds everything: superblock, checkpoints, invalidation log, region journal, records in runs
//! of chunks. This crate decides; it never touches the device, the clock or the network. A call returns the I/O it
//! wants, the caller carries it out and reports back:
//!
//! | to | call | then |
//! |---|---|---|
//! | open | [`OpenPlan::of`], [`Store::recover`] or [`Store::create`] | write [`Store::opening`], each flushed, before anything else |
//! | keep it going | [`Store::next_work`], until it returns none | carry out the [`Work`], [`Store::work_done`] |
//! | read | [`Store::look_up`] | carry out the [`Read`], [`Store::decode_read`], [`Store::read_done`], compare the key |
//! | read a part of a fragment | [`Store::part_of`] | carry out one read or two, [`Store::decode_front`], [`Store::decode_part`], [`Store::read_done`] |
//! | read beyond the record | [`Store::reach`] | [`Store::companions`], before the read is done |
//! | store | [`Store::insert`], [`Store::renew`] | carry out the [`Write`]s, [`Store::write_done`] for each |
//! | write worthy records again | [`Store::next_reinsertion`], when there is time | read, [`Store::reinsertion_done`], then the [`Write`]s |
//! | keep needed records | [`Store::need`], [`Needs`]; [`Store::next_move`], until there is none | read, [`Store::move_done`], then the [`Write`]s |
//! | meet deadlines | [`Store::tick`], every tenth of a second | carry out the writes |
//! | purge | [`Store::invalidate`], [`Store::invalidate_matching`] | acknowledge when [`Store::settled`] says durable |
//! | close | [`Store::flush`], [`Store::begin_close`] | [`Store::next_work`] until [`Store::is_closed`] |
//! | hand over | [`Store::freeze`], [`Store::is_frozen`], [`Store::thaw`] or [`Store::hand_over`] | [`Store::next_told`], [`Store::told_done`] |
//! | take over | as opening, then [`Store::protect`] | [`Store::unprotect`] |
//! | use several stores | [`Set`] | |
//! | inspect a store | [`Inspection`], [`Summary`] | |
//!
//! The life of a record: put into an open cluster (*writing*: served from the buffer), written (*live*: one read serves
//! it), then evicted (the hand has come by, or a policy chose it; its readers may finish) or killed (invalidated, replaced,
//! corrupt: its readers are told not to serve it). Its chunks are reused when its own write has completed and its last
//! reader has gone. With the default policy, also the hand must have come by and the region's note be durable.
//!
//! Invariants of the store:
//! * every byte that [`Store::decode`] hands out is what was stored under exactly that key hash by this store in this
//!   epoch: MAC, checksum, place; the caller compares the full key;
//! * after [`Store::invalidate`] has returned, no look-up finds what was stored before, no fill that began before it
//!   is published, no read that began before it may be served; once it is settled as durable, that holds over every crash;
//! * records never overlap (`audit`);
//! * tables, buffers and the work of a call are bounded; the bounds are named where they are defined.
//!
//! A crash loses writes that had not reached the disk, and may bring back an older version of a replaced record, but
//! never a durably invalidated one (docs/decisions/0017).
//!
//! The files, from below; no file uses one of a row below its own. The methods of `Store` lie in files above `store`, each for one
//! purpose.
//!
//! | | files |
//! |---|---|
//! | the ground | `sequence`, `lock`, `secret`, `mistakes`, `figures`, `layout`, `memory`, `script`, `pause` |
//! | where a record lies | `index/`: `key`, `pieces`, `entry`, `segment`, `marker`, `reading`; `evict/left`, `book` |
//! | what lies on the disk | `record`, `blocks`, `geometry`, `recover/`: `superblock`, `journal`, `checkpoint`; `log/`: `entry`, `page`, `replay` |
//! | settings, and purges that still apply | `settings`, `evict/need`; `log/`: `predicates`, `soft`, `invalidation` |
//! | room, and what is being written | `evict/`: `grid`, `aging`, `region`, `room`; `write/`: `cluster`, `waiting`, `locality`, `frontier`, `protected`, `writer` |
//! | what is under way | `recover/`: `picture`, `scanned`, `scan_reads`; `log/weeding`, `handover`, `jobs` |
//! | all of it, and its locks | `shard`, `store` |
//! | looking up | `verify`, `part`, `index/`: `look_up`, `variants`, `trace`; `write/companions` |
//! | storing, making room | `write/`: `insert`, `gather`; `evict/`: `choose`, `needed`, `moves`, `window` |
//! | purging, work in the background | `invalidating`, `log/weed`, `background`, `recover/snapshot`, `handing`, `audit` |
//! | starting | `joining`, `recover/`: `open`, `logged`, `loaded`, `resumption`, `scan`, `rebuild` |
//! | using several, looking into one | `set`, `inspect` |
//!
//! Not known here: HTTP, freshness, sockets, system calls.
//! Source: paper 000, sections 3 and 4; `docs/format.md` for every byte.
#![forbid(unsafe_code)]

mod audit;
mod background;
mod blocks;
mod book;
mod evict;
mod figures;
mod fragments;
mod geometry;
mod handing;
mod handover;
mod index;
mod inspect;
mod invalidating;
mod jobs;
mod joining;
pub mod layout;
mod lock;
mod log;
mod memory;
mod mistakes;
mod part;
mod pause;
mod record;
mod recover;
mod script;
mod secret;
mod sequence;
pub mod set;
mod settings;
mod shard;
mod store;
mod verify;
mod write;

pub use evict::moves::{MOVES_MAX, Move};
pub use evict::need::NEEDS_MAX;
pub use evict::needed::{Needed, Needs};
pub use evict::reinsert::Reinsertion;
pub use figures::Figures;
pub use geometry::{Geometry, TooSmall};
pub use handing::{Heard, HeldChunks, NotFrozen, Told};
pub use index::key::{KeyHash, KeyHasher};
pub use index::lists::LIST_BYTES_MAX;
pub use index::look_up::ReadGuard;
pub use index::marker::Marker;
pub use index::notes::NOTES_MAX;
pub use index::reading::{Lookup, Read, Renewal};
pub use index::trace::{Traced, Tracing};
pub use inspect::{
    CheckpointSummary, Inspection, JournalSummary, LogSummary, Peek, Place, RecordHead, ScanRead,
    Summary,
};
pub use invalidating::{DurabilityHandle, Invalidated, NotTaken, Settled};
pub use jobs::{Work, WorkId, WorkOp};
pub use log::predicates::{Full, Met, Predicates};
pub use mistakes::{Mistake, Mistakes};
pub use part::PartPlace;
pub use record::corrupt::Corrupt;
pub use record::{
    Fragment, Front, HEADER_BYTES, KEY_BYTES_MAX, META_BYTES_MAX, NewRecord, ObjectTotal,
    RecordParts,
};
pub use recover::open::{Found, Identity, OpenPlan};
pub use recover::rebuild::Recovered;
pub use recover::scan_reads::Progress;
pub use recover::superblock::{
    FORMAT_VERSION, FORMAT_VERSION_OLDEST, IndexPlace, State, Superblock, SuperblockError,
};
pub use secret::{Pseudonyms, Secret};
pub use sequence::Sequence;
pub use set::Set;
pub use settings::{
    About, CLUSTERS_IN_FLIGHT_MIN, IN_FLIGHT_BYTES_MAX, LOCALITY_BUFFER_BYTES,
    LOCALITY_BUFFERS_MAX, Manner, RECORD_BYTES_MAX, Replacement, Settings, UnknownReplacement,
    Words,
};
pub use store::Store;
pub use write::cluster::{Write, WriteId, Writes};
pub use write::companions::Companion;
pub use write::insert::{BodyLayout, InPlace, Inserted, Outcome};
