//! The stores' shell: carries out the reads and writes they ask for, on this worker's rings.
//!
//! One store of the set has everything of a primary key, so each call names the primary.
//!
//! A disk hit: a look-up under a short lock pins the extent; one read (`lazy`); the pin is released; header, key and
//! checksum are verified; the read's own buffer becomes the object's head and body. A record near the hand is written
//! again. Only the wanted part of a fragment is read (`parts`). Where reads take long, a read reaches beyond its record
//! ([`Storing::group_bytes`](plan::Storing)), and the companions of the same server, such as a page's images, go to memory before they
//! are asked for. `keeping` hands objects to the stores and waits for room.
//!
//! Every failure here becomes a counted miss. No request fails because of the disk, and none waits for it without a
//! limit. A device that is set aside (`watch`) gets no operations: its records count as absent, and nothing is stored
//! on it.

use base::clock::Instant;
use std::{cell::Cell, pin::pin, rc::Rc, sync::Arc, time::Duration};

use bytes::Bytes;
use device::IoFault;
use httpcache::UnixMillis;
use store::{
    Companion, Corrupt, KeyHash, Lookup, Read, ReadGuard, RecordParts, Renewal, Set, Store, Writes,
};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use crate::{
    background::WakeUp,
    companions::{Came, Companions},
    lazy::{Brought, Gathered, LazyReads},
    object::{Large, Object},
    parts::RecentParts,
    written,
};
use base::{
    clock::{Clock, unix_ms},
    deadline::{Deadlines, Elapsed},
};
use peers::digest::Digests;
use plan::{LocalityMode, Storing};
use record::{
    events::{Events, number},
    facts::SwapIn,
    metrics::{self, Counters},
};
use rules::key::{fragment_key, server_of_key};

/// The stores on this worker's rings.
#[derive(Clone)]
pub struct DiskIo {
    pub(super) set: Arc<Set>,
    /// In the set's order.
    pub(super) members: Rc<[Member]>,
    pub(super) counters: Arc<Counters>,
    pub(super) wake_up: Arc<WakeUp>,
    pub(super) writes: Rc<WritesUnderWay>,
    /// Whether records are gathered by origin server.
    pub(super) locality: LocalityMode,
    /// How far a read may reach where reads take long; 0: no further than its record.
    group_bytes: usize,
    /// How long an answer waits for the disk.
    read_wait: Duration,
    /// The parts of fragments that were read last.
    pub(super) recent: Rc<RecentParts>,
    clock: Clock,
    events: Arc<Events>,
    /// Whether companions pay.
    companions: Arc<Companions>,
    /// The digests that are told which objects are stored and read again.
    digests: Option<Arc<Digests>>,
}

pub(super) struct Member {
    /// The store's place in the set.
    pub(super) place: written::Member,
    pub(super) store: Arc<Store>,
    pub(super) reads: LazyReads,
    /// Permits to read a fragment; see [`FRAGMENTS_AT_ONCE`].
    fragments: Semaphore,
    /// The deadlines of waits for reads.
    deadlines: Deadlines,
}

/// The most fragments of one store that a worker reads at once. Verifying one takes about a millisecond, so hundreds
/// at once would delay every other request. More would not make the disk faster, since each read is long.
const FRAGMENTS_AT_ONCE: usize = 8;

/// A record that was read.
struct Found {
    parts: RecordParts,
    renewal: Option<Renewal>,
    from_device: bool,
    /// Its companions of the same server.
    beside: Vec<Companion>,
    /// Set if the read was to bring companions.
    came: Option<Came>,
}

/// An object that was looked up.
pub struct Loaded {
    /// The object.
    pub object: Object,
    /// The times of the read; `None` if it was still in a buffer.
    pub swap_in: Option<SwapIn>,
    /// Fresh, verified companions of the same server; see [`Cache::take_along`](super::Cache::take_along).
    pub beside: Vec<(Object, Came)>,
}

/// How long a read may wait for the disk.
#[derive(Clone, Copy)]
pub enum Waits {
    /// [`Storing::read_wait`](plan::Storing); then the origin is asked.
    ForAWhile,
    /// The answer has begun, and the origin may have another body by now: [`PATIENCE`] times as long, while the device
    /// answers others.
    WhileItAnswers,
}

impl Waits {
    /// The limit, depending on whether the answer has begun.
    pub fn for_answer(has_begun: bool) -> Waits {
        match has_begun {
            true => Waits::WhileItAnswers,
            false => Waits::ForAWhile,
        }
    }
}

/// Why a record could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unread {
    /// It does not exist any more, or it is damaged.
    Absent,
    /// The device did not answer in time.
    GivenUp,
    /// The record there has this other key with the same hash. The two keys differ in their tag.
    Other(Bytes),
}

/// The purpose of a read.
#[derive(Clone, Copy)]
enum Reader<'a> {
    /// A request for this key.
    Request(&'a [u8]),
    /// An answer that has begun: it may read records that were purged since.
    Answer,
}

/// The writes of this worker.
#[derive(Default)]
pub(super) struct WritesUnderWay {
    /// How many are under way.
    pub(super) count: Cell<usize>,
    /// Notified whenever a write ends.
    pub(super) one_done: Notify,
    /// When an object last waited for room and got none.
    pub(super) waited_in_vain: Cell<Option<Instant>>,
}

/// A fragment that was looked up.
pub struct LoadedFragment {
    /// Its body.
    pub body: Bytes,
    /// The times of the read; `None` if it was still in a buffer.
    pub swap_in: Option<SwapIn>,
}

impl Member {
    /// Must its device get no operations now?
    pub(super) fn is_shut(&self) -> bool {
        let health = self.reads.engine().device().health();
        health.is_aside() || health.abandoned_bytes() >= ABANDONED_BYTES_MAX
    }
}

impl DiskIo {
    /// A shell around the stores of `set`, each with the reads of its own engine, in the set's order.
    pub fn new(
        set: Arc<Set>,
        reads: Vec<LazyReads>,
        (counters, events): (Arc<Counters>, Arc<Events>),
        wake_up: Arc<WakeUp>,
        storing: &Storing,
        clock: Clock,
    ) -> DiskIo {
        let of = set.stores().len();
        let members = set.stores().cloned().zip(reads).enumerate();
        DiskIo {
            members: members
                .map(|(index, (store, reads))| Member {
                    place: written::Member { index, of },
                    store,
                    reads,
                    fragments: Semaphore::new(FRAGMENTS_AT_ONCE),
                    deadlines: Deadlines::new(),
                })
                .collect(),
            set,
            counters,
            wake_up,
            writes: Rc::default(),
            locality: storing.locality,
            group_bytes: storing.group_bytes as usize,
            read_wait: storing.read_wait,
            recent: Rc::default(),
            clock,
            events,
            companions: Arc::default(),
            digests: None,
        }
    }

    /// The same, with the shared counts that decide whether a read brings companions.
    pub fn judged_by(mut self, companions: &Arc<Companions>) -> DiskIo {
        self.companions = Arc::clone(companions);
        self
    }

    /// The same, and the digest is told which objects are stored and read again.
    pub fn telling(mut self, digests: &Arc<Digests>) -> DiskIo {
        let has_own = digests.own.is_some();
        self.digests = has_own.then(|| Arc::clone(digests));
        self
    }

    pub(super) fn tell(&self, key: &[u8], stored_bytes: Option<u64>) {
        if let Some(digests) = &self.digests {
            digests.met(key, stored_bytes);
        }
    }

    fn now(&self) -> UnixMillis {
        UnixMillis(self.clock.now().as_millis() as u64)
    }

    pub(super) fn member(&self, primary: KeyHash) -> &Member {
        &self.members[self.set.owner(primary)]
    }

    /// Must the device of this primary key get no operations now?
    pub fn is_shut(&self, primary: KeyHash) -> bool {
        self.member(primary).is_shut()
    }

    /// The object stored under exactly this key, by one read.
    pub async fn load(
        &self,
        primary: KeyHash,
        hash: KeyHash,
        key: &[u8],
    ) -> Result<Loaded, Unread> {
        let start = Instant::now();
        let waits = Waits::ForAWhile;
        let found = self.read_record(primary, hash, waits, Reader::Request(key));
        let found = found.await?;
        let swap_in = self.swap_in(primary, start, &found);
        self.loaded(primary, hash, key, found, swap_in)
    }

    /// The times of a read that was asked for at `start` and ends now.
    fn swap_in(&self, primary: KeyHash, start: Instant, found: &Found) -> Option<SwapIn> {
        let end = Instant::now();
        found.from_device.then(|| SwapIn {
            start,
            first: end,
            end,
            reads: 1,
            store: self.number_of_store(primary),
        })
    }

    /// The number of the store that has everything of a primary key.
    pub fn number_of_store(&self, primary: KeyHash) -> u8 {
        number(self.member(primary).place.index)
    }

    /// The body of one fragment, for an answer that has begun. A fragment that the answer needs is read even if it
    /// was purged since ([`store::Needs`]).
    pub async fn load_fragment(
        &self,
        primary: KeyHash,
        key: &[u8],
        fetch_id: u64,
        number: u32,
        waits: Waits,
    ) -> Option<LoadedFragment> {
        let start = Instant::now();
        let key = fragment_key(key, fetch_id, number);
        let hash = self.set.hasher().hash(&key);
        let turn = self.turn(primary, waits).await.ok()?;
        let found = self.read_record(primary, hash, waits, Reader::Answer);
        let found = found.await.ok()?;
        let swap_in = self.swap_in(primary, start, &found);
        let Found { parts, renewal, .. } = found;
        drop(turn);
        if parts.key != key {
            return None;
        }
        // A purged record is not written again.
        if !(self.set).is_purged_since(primary, parts.began, &parts.key, &parts.meta) {
            self.renew(primary, renewal, &parts);
        }
        Some(LoadedFragment {
            body: parts.body,
            swap_in,
        })
    }

    /// Waits for one of the [`FRAGMENTS_AT_ONCE`] permits, no longer than for the read itself. An answer that has
    /// begun then goes on without a permit.
    pub(super) async fn turn(
        &self,
        primary: KeyHash,
        waits: Waits,
    ) -> Result<Option<SemaphorePermit<'_>>, Unread> {
        let member = self.member(primary);
        let watch = member.deadlines.watch();
        let turn = pin!(member.fragments.acquire());
        match (watch.limit_idle(self.read_wait, turn).await, waits) {
            (Ok(turn), _) => Ok(turn.ok()),
            (Err(Elapsed), Waits::WhileItAnswers) => Ok(None),
            (Err(Elapsed), Waits::ForAWhile) => {
                metrics::add(&self.counters.disk_reads_given_up, 1);
                Err(Unread::GivenUp)
            }
        }
    }

    /// Is the object cut into fragments as this store cuts them?
    pub fn fits(&self, primary: KeyHash, large: &Large) -> bool {
        let size = u64::from(self.member(primary).store.fragment_bytes());
        u64::from(large.fragments) == large.bytes.div_ceil(size)
    }

    /// The store that has everything of a primary key.
    pub fn store_of(&self, primary: KeyHash) -> &Arc<Store> {
        &self.member(primary).store
    }

    /// Wakes the background thread if a needed record must be moved.
    pub fn see_to_moves(&self) {
        if self.members.iter().any(|member| member.store.wants_moves()) {
            self.wake_up.ring();
        }
    }

    /// Does this fragment exist, as far as the index knows?
    pub fn has_fragment(&self, primary: KeyHash, key: &[u8], fetch_id: u64, number: u32) -> bool {
        let store = &self.member(primary).store;
        store.contains(store.hasher().hash(&fragment_key(key, fetch_id, number)))
    }

    /// Reads a record and verifies it.
    async fn read_record(
        &self,
        primary: KeyHash,
        hash: KeyHash,
        waits: Waits,
        reader: Reader<'_>,
    ) -> Result<Found, Unread> {
        let member = self.member(primary);
        let looked_up = match reader {
            Reader::Answer => member.store.look_up_needed(hash),
            Reader::Request(_) => member.store.look_up(hash),
        };
        match looked_up {
            Lookup::Absent => Err(Unread::Absent),
            Lookup::Buffered(bytes) => {
                // Copy: the object may live long, and the buffer holds a whole cluster.
                let bytes = Bytes::copy_from_slice(&bytes);
                let decoded = match reader {
                    Reader::Answer => member.store.decode_needed(&bytes, hash, None),
                    Reader::Request(_) => member.store.decode(&bytes, hash),
                };
                let parts = self.verified(&member.store, decoded, hash);
                Ok(Found {
                    parts: parts.ok_or(Unread::Absent)?,
                    renewal: None,
                    from_device: false,
                    beside: Vec::new(),
                    came: None,
                })
            }
            Lookup::OnDisk(read) => {
                // The guard unpins even if this future is dropped.
                let guard = member.store.guard(read);
                self.read_pinned(member, guard, waits, reader).await
            }
        }
    }

    /// Reads a pinned record and verifies it.
    async fn read_pinned(
        &self,
        member: &Member,
        guard: ReadGuard,
        waits: Waits,
        reader: Reader<'_>,
    ) -> Result<Found, Unread> {
        if member.is_shut() {
            metrics::add(&self.counters.disk_reads_untried, 1);
            return Err(Unread::GivenUp);
        }
        metrics::add(&self.counters.disk_reads, 1);
        let (len, hash) = (guard.read().len, guard.read().hash());
        let (reach, came) = self.reach(member, guard.read(), reader);
        let read = member.reads.read(guard.read().offset, len, reach);
        let answer = self.in_time(member, waits, read).await;
        let Brought { bytes, is_part } = match answer.ok_or(Unread::GivenUp)? {
            Ok(brought) => brought,
            Err(error) => return Err(self.read_failed(guard, &error)),
        };
        metrics::add(&self.counters.disk_read_bytes, bytes.len() as u64);
        let mut beside = match came {
            Some(_) => member.store.companions(&bytes, guard.read()),
            None => Vec::new(),
        };
        let own = match is_part {
            // Copy: the object may live long, and the buffer holds the whole group.
            true => Bytes::copy_from_slice(&bytes[..len]),
            false => bytes,
        };
        let decoded = match reader {
            Reader::Answer => member.store.decode_needed(&own, hash, Some(guard.read())),
            Reader::Request(_) => member.store.decode_read(&own, guard.read()),
        };
        let renewal = guard.read().renewal();
        if !guard.done() && matches!(reader, Reader::Request(_)) {
            return Err(Unread::Absent); // killed while it was read
        }
        let parts = self.verified(&member.store, decoded, hash);
        let parts = parts.ok_or(Unread::Absent)?;
        if !beside.is_empty() {
            let server = server_of_key(&parts.key);
            let owner = self.set.owner(parts.primary);
            // If another store owns the key by now, a purge may have reached only that one.
            beside.retain(|it| {
                server_of_key(&it.parts.key) == server && self.set.owner(it.parts.primary) == owner
            });
        }
        Ok(Found {
            renewal,
            from_device: true,
            beside,
            came,
            parts,
        })
    }

    /// A read has failed, so the record counts as absent.
    pub(super) fn read_failed(&self, guard: ReadGuard, error: &IoFault) -> Unread {
        metrics::add(&self.counters.disk_read_errors, 1);
        let offset = guard.read().offset;
        tracing::warn!(%error, offset, "a read failed; the object counts as absent");
        if matches!(error, IoFault::Device { .. } | IoFault::Short { .. }) {
            guard.failed();
        }
        Unread::Absent
    }

    /// A read with a limit on its wait.
    pub(super) async fn in_time<T>(
        &self,
        member: &Member,
        waits: Waits,
        read: impl Future<Output = T>,
    ) -> Option<T> {
        let mut read = pin!(read);
        let watch = member.deadlines.watch();
        let patience = match waits {
            Waits::ForAWhile => 1,
            Waits::WhileItAnswers => PATIENCE,
        };
        for _ in 0..patience {
            // Idle: a device that is set aside ends all waits at once (`tick`).
            match watch.limit_idle(self.read_wait, read.as_mut()).await {
                Ok(answer) => return Some(answer),
                Err(Elapsed) if member.is_shut() => break,
                Err(Elapsed) => {}
            }
        }
        metrics::add(&self.counters.disk_reads_given_up, 1);
        None
    }

    /// How far a read reaches: beyond its record if reads take long and companions of the object's server pay.
    fn reach(&self, member: &Member, read: &Read, reader: Reader<'_>) -> (usize, Option<Came>) {
        let alone = (read.len, None);
        let Reader::Request(key) = reader else {
            return alone;
        };
        let reach = match member.reads.is_lazy() {
            true => member.store.reach(read, self.group_bytes),
            false => read.len,
        };
        if reach == read.len {
            return alone;
        }
        let server = self.set.hasher().hash(server_of_key(key));
        match self.companions.may_come(server) {
            Some(came) => (reach, Some(came)),
            None => {
                metrics::add(&self.counters.disk_reads_without_companions, 1);
                alone
            }
        }
    }

    /// Writes used records near the hand again.
    fn renew(&self, primary: KeyHash, renewal: Option<Renewal>, parts: &RecordParts) {
        if let Some(renewal) = renewal {
            let member = self.member(primary);
            let renewed = member.store.renew(renewal, parts, unix_ms());
            self.carry_out(member, renewed.writes);
        }
    }

    /// The object in a record, if it is the one asked for, and its companions. A stale object is not written again,
    /// since its validation will bring a new one, unless it may be served while the origin fails. Companions are
    /// written again together with it, so that the group stays together, if those of their server pay.
    fn loaded(
        &self,
        primary: KeyHash,
        hash: KeyHash,
        key: &[u8],
        found: Found,
        swap_in: Option<SwapIn>,
    ) -> Result<Loaded, Unread> {
        if found.parts.key != key {
            return Err(Unread::Other(found.parts.key));
        }
        let object = object_of(hash, found.parts.clone()).ok_or(Unread::Absent)?;
        self.tell(key, None);
        let now = self.now();
        if object.standing.is_of_use(now) {
            self.renew(primary, found.renewal, &found.parts);
        }
        let mut beside = Vec::new();
        for Companion {
            hash,
            parts,
            renewal,
            ..
        } in found.beside
        {
            let is_whole = parts.fragment.is_none() && parts.total.is_none() && !parts.doubted;
            let object = is_whole.then(|| object_of(hash, parts.clone()));
            let fresh = object.flatten().filter(|it| it.standing.is_fresh(now));
            if let (Some(object), Some(came)) = (fresh, found.came) {
                if came.pays {
                    self.renew(primary, renewal, &parts);
                }
                beside.push((object, came));
            }
        }
        metrics::add(&self.counters.disk_companions, beside.len() as u64);
        Ok(Loaded {
            object,
            swap_in,
            beside,
        })
    }

    /// Finishes a look-up that found a record: reads it and makes an object of it.
    pub async fn finish_load(
        &self,
        guard: ReadGuard,
        primary: KeyHash,
        key: &[u8],
    ) -> Result<Loaded, Unread> {
        let start = Instant::now();
        let hash = guard.read().hash();
        let member = self.member(primary);
        let waits = Waits::ForAWhile;
        let found = self
            .read_pinned(member, guard, waits, Reader::Request(key))
            .await?;
        let swap_in = self.swap_in(primary, start, &found);
        self.loaded(primary, hash, key, found, swap_in)
    }

    pub(super) fn verified<T>(
        &self,
        store: &Store,
        decoded: Result<T, Corrupt>,
        hash: KeyHash,
    ) -> Option<T> {
        match decoded {
            Ok(parts) => Some(parts),
            // The index took another key's record for this one. That record is fine.
            Err(Corrupt::Hash) => None,
            Err(Corrupt::Invalidated) => {
                store.forget(hash);
                None
            }
            Err(corrupt) => {
                metrics::add(&self.counters.disk_corrupt, 1);
                tracing::warn!(%corrupt, "a stored record failed verification and was dropped");
                store.forget(hash);
                None
            }
        }
    }

    /// How many reads were gathered so far (`lazy`), over all stores.
    pub fn gathered(&self) -> Gathered {
        let all = self.members.iter().map(|member| member.reads.gathered());
        all.fold(Gathered::default(), |all, of| Gathered {
            batches: all.batches + of.batches,
            reads: all.reads + of.reads,
            along: all.along + of.along,
            straight: all.straight + of.straight,
        })
    }

    /// Writes clusters whose deadline has passed, and ends waits for overdue reads.
    pub fn tick(&self) {
        for member in &*self.members {
            match member.is_shut() {
                true => member.deadlines.drain(),
                false => member.deadlines.resume(),
            }
            member.deadlines.sweep(Instant::now());
            self.carry_out(member, member.store.tick(unix_ms()));
        }
    }

    /// Carries out the writes that a store has asked for, each in a task of its own.
    pub(super) fn carry_out(&self, member: &Member, writes: Writes) {
        if writes.is_empty() {
            return;
        }
        for write in writes {
            self.writes.count.set(self.writes.count.get() + 1);
            metrics::add(&self.counters.disk_writes, 1);
            metrics::add(&self.counters.disk_write_bytes, write.data.len() as u64);
            let (writes, counters) = (Rc::clone(&self.writes), Arc::clone(&self.counters));
            let (store, wake_up) = (Arc::clone(&member.store), Arc::clone(&self.wake_up));
            let engine = Rc::clone(member.reads.engine());
            let (place, events) = (member.place, Arc::clone(&self.events));
            tokio::task::spawn_local(async move {
                let underway = place.begin(&write);
                let result = engine.write(write.offset, write.data).await;
                match &result {
                    Ok(()) => underway.done(&events),
                    Err(error) => {
                        metrics::add(&counters.disk_write_errors, 1);
                        tracing::error!(%error, "a write failed; its objects are dropped and caching pauses");
                    }
                }
                store.write_done(write.id, result.is_ok(), unix_ms());
                if store.wants_room() {
                    wake_up.ring();
                }
                writes.count.set(writes.count.get() - 1);
                writes.one_done.notify_waiters();
            });
        }
        // Wake the background thread only when room is short; waking it for each cluster would cost more than its
        // work.
        if member.store.wants_room() {
            self.wake_up.ring();
        }
    }
}

/// How many times `store.read-wait` an answer that has begun waits for its next part.
const PATIENCE: u32 = 12;
/// A device with this many bytes of abandoned reads gets no more reads, because each holds its memory until it ends.
const ABANDONED_BYTES_MAX: u64 = 64 << 20;
/// The object in a record.
fn object_of(hash: KeyHash, parts: RecordParts) -> Option<Object> {
    let large = parts.total.map(|t| Large {
        fetch_id: t.fetch_id,
        fragments: t.fragments,
        bytes: t.bytes,
    });
    let doubted = parts.doubted;
    let mut object = Object::decode(hash, parts.key, &parts.meta, parts.body, large)?;
    if doubted {
        // The time of the soft purge is unknown, so it counts from the response's creation.
        object.standing.expire();
    }
    Some(object)
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
