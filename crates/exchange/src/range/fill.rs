//! Stores the fragments of a large object as they arrive, one by one.
//!
//! The head record has the number of fragments and the id of the fetch; the index knows which fragments exist. So storing a
//! fragment updates no list that an eviction or a crash could make wrong, and the object is complete as soon as its last
//! fragment is stored.
//!
//! Invariants:
//!   P1  a fragment is stored only if all its bytes came from the representation that the head record names
//!   P2  a fragment of which a byte is missing is not stored
//!   P3  the store refuses what was purged since `began`
//!
//! Limits: one fragment is kept in memory, and counted in the budget of all transfers.
//! Not known here: whether the bytes belong to the object (`part` checks that first), clients.

use std::rc::Rc;

use bytes::Bytes;
use store::{Fragment, Sequence};

use crate::{range::fill_lock::FillLock, state::Worker, storage::Storage};
use base::clock::Instant;
use cache::object::{Large, Object};
use ledger::Promise;
use origin::body::Body;
use record::facts::SwapOut;

/// Stores arriving bytes in fragments.
pub struct Filling {
    object: Object,
    large: Large,
    began: Sequence,
    fragment_bytes: u64,
    /// Position of the next byte.
    at: u64,
    /// The bytes of the current fragment so far.
    pieces: Vec<Bytes>,
    /// Memory promised for the rest of the fragment.
    kept: Promise,
    kept_bytes: u64,
    /// The start of the current fragment is missing, so bytes are skipped up to the next fragment.
    is_skipping: bool,
    replaces: bool,
    /// The lock of this part, if other requests wait for its first fragment.
    fill_lock: Option<FillLock>,
    is_over: bool,
    swap_out: Option<SwapOut>,
}

impl Filling {
    /// Stores bytes from position `at` on. `replaces`: also store fragments that the index has already. `None`: there is no disk, or no
    /// memory for a fragment.
    pub fn begin(
        storage: &Storage,
        object: &Object,
        at: u64,
        began: Sequence,
        replaces: bool,
    ) -> Option<Filling> {
        let large = object.large?;
        storage.disk.as_ref()?;
        let fragment_bytes = u64::from(storage.cache.store.of(object.primary).fragment_bytes());
        let mut kept = storage.ledger.promise();
        if !storage.has_room_for(fragment_bytes.min(large.bytes)) {
            return None;
        }
        kept.set(fragment_bytes.min(large.bytes));
        Some(Filling {
            object: object.clone(),
            large,
            began,
            fragment_bytes,
            at,
            pieces: Vec::new(),
            kept,
            kept_bytes: 0,
            is_skipping: !at.is_multiple_of(fragment_bytes),
            replaces,
            fill_lock: None,
            is_over: false,
            swap_out: None,
        })
    }

    /// Releases the lock when the first fragment is stored, for the requests that wait for it.
    pub fn with_fill_lock(mut self, fill_lock: Option<FillLock>) -> Filling {
        self.fill_lock = fill_lock;
        self
    }

    /// Takes the next bytes of the object.
    pub async fn take(&mut self, storage: &Storage, mut bytes: Bytes) {
        while !bytes.is_empty() && !self.is_over {
            let left = self.left();
            let piece = bytes.split_to(left.min(bytes.len()));
            if piece.is_empty() {
                self.is_over = true; // more than the object has
                break;
            }
            let piece_len = piece.len();
            self.at += piece_len as u64;
            if !self.is_skipping {
                self.kept_bytes += piece_len as u64;
                self.pieces.push(piece);
            }
            if piece_len == left {
                self.store(storage).await;
                self.fill_lock = None;
                self.pieces.clear();
                self.kept_bytes = 0;
                self.is_skipping = false;
            }
        }
        let most = match self.is_over {
            true => 0,
            false => self.fragment_bytes.min(self.large.bytes),
        };
        self.kept.set(most.saturating_sub(self.kept_bytes));
    }

    /// Bytes up to the end of the current fragment; 0 at the end of the object.
    fn left(&self) -> usize {
        let border = (self.at - self.at % self.fragment_bytes)
            .saturating_add(self.fragment_bytes)
            .min(self.large.bytes);
        usize::try_from(border - self.at).unwrap_or(usize::MAX)
    }

    /// The times of the writes to the store so far, if there were any.
    pub fn swap_out(&self) -> Option<SwapOut> {
        self.swap_out
    }

    /// Has storing ended?
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Is a fragment incomplete, so that stopping now would waste it?
    pub fn is_amid(&self) -> bool {
        !self.is_over && self.kept_bytes > 0
    }

    async fn store(&mut self, storage: &Storage) {
        let Some(disk) = &storage.disk else {
            return;
        };
        let number = (self.at - 1) / self.fragment_bytes;
        let (object, id) = (&self.object, self.large.fetch_id);
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let is_there = || disk.has_fragment(object.primary, &object.key, id, number);
        if self.is_skipping || (!self.replaces && is_there()) {
            return;
        }
        disk.room_for_fragment(object.primary).await;
        let pieces: Vec<&[u8]> = self.pieces.iter().map(|p| &p[..]).collect();
        let fragment = Fragment {
            fetch_id: id,
            number,
        };
        let start = Instant::now();
        let handed = disk.store_fragment(
            &object.key,
            object.primary,
            fragment,
            (&pieces, None),
            self.began,
        );
        let store = disk.number_of_store(object.primary);
        self.swap_out = Some(SwapOut::after(self.swap_out, start, store, handed));
        self.is_over = !handed.is_stored();
    }
}

/// Fetches the rest of the current fragment in the background, after the client has left.
pub fn complete_behind(worker: &Rc<Worker>, mut filling: Filling, mut body: Body) {
    let worker = Rc::clone(worker);
    worker.fetches.set(worker.fetches.get() + 1);
    tokio::task::spawn_local(async move {
        let under_way = UnderWay(&worker);
        let watch = worker.deadlines.watch();
        // A piece may reach into the next fragment; that rest is not needed.
        let mut left = filling.left();
        while left > 0 {
            let Ok(Some(mut bytes)) = body.next(&worker.origin, &watch).await else {
                break;
            };
            bytes.truncate(left);
            left -= bytes.len();
            filling.take(&worker.storage, bytes).await;
        }
        drop(under_way);
    });
}

/// Counts a fetch that a drain waits for, until it is dropped.
pub(super) struct UnderWay<'a>(pub(super) &'a Worker);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetches.set(self.0.fetches.get() - 1);
    }
}
