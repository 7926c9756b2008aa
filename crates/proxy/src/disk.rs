//! The store's shell: carries out the reads and writes the store asks for, on this worker's ring.
//!
//! Life of a disk hit: the index is asked under a short lock and pins the extent; one read; the pin goes; header,
//! key and checksum are verified; the read's own buffer becomes the object's head and body.
//! Life of a stored miss: the record is copied into the cluster buffer; whoever fills the buffer carries the
//! write out in a task of its own.
//!
//! Every failure here is a miss, counted and visible; no request fails because of the disk.

use std::{
    cell::Cell,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use device::Engine;
use store::{
    Fragment, Inserted, KeyHash, Lookup, NewRecord, ObjectTotal, Outcome, ReadGuard, RecordParts,
    Sequence, Store, Write,
};
use tokio::sync::Notify;

use crate::{
    metrics::{self, Counters},
    object::{Large, Object},
};

/// The store on this worker's ring.
#[derive(Clone)]
pub struct DiskIo {
    store: Arc<Store>,
    engine: Rc<Engine>,
    counters: Arc<Counters>,
    writes: Rc<WritesUnderWay>,
}

#[derive(Default)]
struct WritesUnderWay {
    count: Cell<usize>,
    one_done: Notify,
}

/// What a read took.
#[derive(Clone, Copy, Debug)]
pub struct SwapIn {
    /// When it was asked for.
    pub start: Instant,
    /// When it was there and verified.
    pub end: Instant,
}

impl DiskIo {
    /// A shell around `store`, reading and writing through `engine`.
    pub fn new(store: Arc<Store>, engine: Rc<Engine>, counters: Arc<Counters>) -> DiskIo {
        DiskIo {
            store,
            engine,
            counters,
            writes: Rc::default(),
        }
    }

    /// The object stored under exactly this key, by one read.
    pub async fn load(&self, hash: KeyHash, key: &[u8]) -> Option<(Object, Option<SwapIn>)> {
        let start = Instant::now();
        let (parts, swap_in) = self.read_record(hash).await?;
        let object = object_of(hash, key, parts)?;
        let swap_in = swap_in.then(|| SwapIn {
            start,
            end: Instant::now(),
        });
        Some((object, swap_in))
    }

    /// One fragment's body of a large object.
    pub async fn load_fragment(&self, key: &[u8], fetch_id: u64, number: u32) -> Option<Bytes> {
        let key = fragment_key(key, fetch_id, number);
        let hash = self.store.hasher().hash(&key);
        let (parts, _) = self.read_record(hash).await?;
        (parts.key == key).then_some(parts.body)
    }

    /// Are all fragments still there? Asked before the head goes out.
    pub fn has_fragments(&self, key: &[u8], large: &Large) -> bool {
        let size = u64::from(self.store.fragment_bytes());
        if u64::from(large.fragments) != large.bytes.div_ceil(size) {
            return false; // written with fragments of another size
        }
        let hasher = self.store.hasher();
        (0..large.fragments).all(|n| {
            let key = fragment_key(key, large.fetch_id, n);
            self.store.contains(hasher.hash(&key))
        })
    }

    /// A record, verified; true beside it when it came from the device.
    async fn read_record(&self, hash: KeyHash) -> Option<(RecordParts, bool)> {
        let (decoded, from_device) = match self.store.look_up(hash) {
            Lookup::Absent => return None,
            Lookup::Buffered(bytes) => {
                // A copy: the object may be kept for long, and the buffer holds a whole cluster.
                let bytes = Bytes::copy_from_slice(&bytes);
                (self.store.decode(&bytes, hash), false)
            }
            Lookup::OnDisk(read) => {
                // The guard unpins, whatever happens to this future.
                let guard = self.store.guard(read);
                return self
                    .read_pinned(guard, hash)
                    .await
                    .map(|parts| (parts, true));
            }
        };
        self.verified(decoded, hash)
            .map(|parts| (parts, from_device))
    }

    /// Reads a pinned record and verifies it.
    async fn read_pinned(&self, guard: ReadGuard, hash: KeyHash) -> Option<RecordParts> {
        metrics::add(&self.counters.disk_reads, 1);
        let (offset, len) = (guard.read().offset, guard.read().len);
        let bytes = match self.engine.read(offset, len).await {
            Ok(bytes) => bytes,
            Err(error) => {
                metrics::add(&self.counters.disk_read_errors, 1);
                tracing::warn!(%error, offset, "a read failed; the object counts as absent");
                return None;
            }
        };
        let decoded = self.store.decode_read(&bytes, guard.read());
        if !guard.done() {
            return None; // killed while it was read
        }
        self.verified(decoded, hash)
    }

    /// Finishes a look-up that found a record on disk: reads it and makes an object of it.
    pub async fn finish_load(&self, guard: ReadGuard, hash: KeyHash, key: &[u8]) -> Option<Object> {
        let parts = self.read_pinned(guard, hash).await?;
        object_of(hash, key, parts)
    }

    fn verified(
        &self,
        decoded: Result<RecordParts, store::Corrupt>,
        hash: KeyHash,
    ) -> Option<RecordParts> {
        match decoded {
            Ok(parts) => Some(parts),
            Err(corrupt) => {
                metrics::add(&self.counters.disk_corrupt, 1);
                tracing::warn!(%corrupt, "a stored record failed verification and was dropped");
                self.store.forget(hash);
                None
            }
        }
    }

    /// Hands a whole object to the store. `body` may be in pieces.
    pub fn store_object(&self, object: &Object, body: &[&[u8]], began: Sequence) -> bool {
        let meta = object.encode_meta();
        let total = object.large.map(|l| ObjectTotal {
            fetch_id: l.fetch_id,
            fragments: l.fragments,
            bytes: l.bytes,
        });
        self.insert(&NewRecord {
            hash: object.hash,
            primary: object.primary,
            key: &object.key,
            meta: &meta,
            body,
            fragment: None,
            total,
            began,
        })
    }

    /// Hands one fragment to the store.
    pub fn store_fragment(
        &self,
        key: &[u8],
        primary: KeyHash,
        fragment: Fragment,
        body: &[&[u8]],
        began: Sequence,
    ) -> bool {
        let key = fragment_key(key, fragment.fetch_id, fragment.number);
        self.insert(&NewRecord {
            hash: self.store.hasher().hash(&key),
            primary,
            key: &key,
            meta: &[],
            body,
            fragment: Some(fragment),
            total: None,
            began,
        })
    }

    fn insert(&self, record: &NewRecord<'_>) -> bool {
        let Inserted { outcome, writes } = self.store.insert(record, unix_ms());
        for write in writes {
            self.carry_out(write);
        }
        let stored = matches!(outcome, Outcome::Stored);
        if stored {
            let bytes: usize = record.body.iter().map(|p| p.len()).sum();
            metrics::add(&self.counters.stored_objects, 1);
            metrics::add(&self.counters.stored_bytes, bytes as u64);
        } else {
            metrics::add(&self.counters.not_stored, 1);
        }
        stored
    }

    /// Writes a cluster out that has waited for long enough.
    pub fn tick(&self) {
        if let Some(write) = self.store.tick(unix_ms()) {
            self.carry_out(write);
        }
    }

    /// Writes the open cluster out and waits for all writes of this worker.
    pub async fn settle(&self) {
        if let Some(write) = self.store.flush() {
            self.carry_out(write);
        }
        loop {
            let one_done = self.writes.one_done.notified();
            if self.writes.count.get() == 0 {
                return;
            }
            one_done.await;
        }
    }

    /// Waits while many writes are under way, but not for ever.
    pub async fn room(&self) {
        if self.writes.count.get() < WRITES_BEFORE_WAIT {
            return;
        }
        let wait = async {
            loop {
                let one_done = self.writes.one_done.notified();
                if self.writes.count.get() < WRITES_BEFORE_WAIT {
                    return;
                }
                one_done.await;
            }
        };
        let _ = tokio::time::timeout(ROOM_WAIT, wait).await;
    }

    fn carry_out(&self, write: Write) {
        let this = self.clone();
        this.writes.count.set(this.writes.count.get() + 1);
        metrics::add(&self.counters.disk_writes, 1);
        metrics::add(&self.counters.disk_write_bytes, write.data.len() as u64);
        tokio::task::spawn_local(async move {
            let result = this.engine.write(write.offset, write.data).await;
            if let Err(error) = &result {
                metrics::add(&this.counters.disk_write_errors, 1);
                tracing::error!(%error, "a write failed; its objects are dropped and caching pauses");
            }
            this.store.write_done(write.id, result.is_ok(), unix_ms());
            this.writes.count.set(this.writes.count.get() - 1);
            this.writes.one_done.notify_waiters();
        });
    }
}

/// Writes of one worker under way before a long body has to wait.
const WRITES_BEFORE_WAIT: usize = 4;
/// How long it waits at most; then the store decides whether it takes more.
const ROOM_WAIT: Duration = Duration::from_secs(1);

/// The object in a record, if it is the one asked for.
fn object_of(hash: KeyHash, key: &[u8], parts: RecordParts) -> Option<Object> {
    if parts.key != key {
        return None; // another key with the same hash
    }
    let large = parts.total.map(|t| Large {
        fetch_id: t.fetch_id,
        fragments: t.fragments,
        bytes: t.bytes,
    });
    Object::decode(hash, parts.key, &parts.meta, parts.body, large)
}

/// Wall time, milliseconds since 1970.
pub fn unix_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_millis() as u64
}

/// The key of a fragment: that of the object, the fetch, the number. No URI holds a NUL.
fn fragment_key(key: &[u8], fetch_id: u64, number: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + 13);
    out.extend_from_slice(key);
    out.push(0);
    out.extend_from_slice(&fetch_id.to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
    out
}
