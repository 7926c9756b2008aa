//! Handing whole objects and fragments to the stores, and waiting while there is no room.
//!
//! A stored miss: the record is copied into the cluster buffer; the insert that fills the buffer starts a task that carries out the
//! write (`DiskIo::carry_out`). An object that the store refuses counts as absent, and the record it should have replaced is forgotten.
//!
//! Not known here: reading.

use base::clock::Instant;
use std::time::Duration;

use store::{BodyLayout, Fragment, KeyHash, NewRecord, ObjectTotal, Outcome, Sequence};

use crate::{
    disk::{DiskIo, Member},
    object::Object,
};
use base::clock::unix_ms;
use ledger::room::Room;
use plan::LocalityMode;
use record::{facts::Handed, metrics};
use rules::key::{fragment_key, server_of_key};

/// How long a worker waits for its writes when it ends; the same if a device is set aside; the interval of its checks.
const SETTLE_MAX: Duration = Duration::from_secs(30);
const SETTLE_SHUT_MAX: Duration = Duration::from_secs(2);
const SETTLE_STEP: Duration = Duration::from_millis(100);
/// Writes of one worker under way before a long body has to wait.
const WRITES_BEFORE_WAIT: usize = 4;
/// The longest wait before the room is checked again.
const ROOM_STEP: Duration = Duration::from_millis(10);
/// The longest wait of a whole object for a disk that is behind. Its reader waits with it.
pub(super) const OBJECT_WAIT: Duration = Duration::from_secs(1);
/// After a wait that was too short, no object waits again for this long, unless there was room meanwhile.
pub(super) const NOT_AGAIN_FOR: Duration = Duration::from_secs(5);
/// The longest wait for room; then the store decides whether it takes more.
const ROOM_WAIT: Duration = Duration::from_secs(1);

impl DiskIo {
    /// Hands a whole object to the store. `body` may be in pieces, and lie in a room.
    pub fn store_object(
        &self,
        object: &Object,
        body: &[&[u8]],
        room: Option<&mut Room>,
        began: Sequence,
    ) -> Handed {
        let meta = object.encode_meta();
        let record = NewRecord {
            body,
            server: self.server_of(object.primary, &object.key),
            ..record_of(object, &meta, began)
        };
        let handed = self.insert(&record, room);
        if handed.is_stored() {
            let bytes = body.iter().map(|piece| piece.len()).sum::<usize>() + object.head.len();
            self.tell(&object.key, Some(bytes as u64));
        }
        handed
    }

    /// Where in its record the body of an object lies, if it has `body_len` bytes.
    pub fn layout_of_object(&self, object: &Object, body_len: u64) -> Option<BodyLayout> {
        let store = &self.member(object.primary).store;
        let meta = object.encode_meta();
        store.layout_of(&record_of(object, &meta, 0), body_len)
    }

    /// The same for the body of a fragment.
    pub fn layout_of_fragment(
        &self,
        key: &[u8],
        primary: KeyHash,
        body_len: u64,
    ) -> Option<BodyLayout> {
        let store = &self.member(primary).store;
        // Which fragment does not matter: their keys are of one length.
        let fragment = Fragment {
            fetch_id: 0,
            number: 0,
        };
        let key = fragment_key(key, fragment.fetch_id, fragment.number);
        let record = self.record_of_fragment(&key, primary, fragment, 0);
        store.layout_of(&record, body_len)
    }

    /// Forgets an object whose successor is not stored on disk.
    pub fn forget(&self, object: &Object) {
        self.member(object.primary).store.forget(object.hash);
    }

    /// Hands one fragment to the store.
    pub fn store_fragment(
        &self,
        key: &[u8],
        primary: KeyHash,
        fragment: Fragment,
        (body, room): (&[&[u8]], Option<&mut Room>),
        began: Sequence,
    ) -> Handed {
        let server = self.server_of(primary, key);
        let key = fragment_key(key, fragment.fetch_id, fragment.number);
        let record = NewRecord {
            body,
            server,
            ..self.record_of_fragment(&key, primary, fragment, began)
        };
        self.insert(&record, room)
    }

    fn record_of_fragment<'a>(
        &self,
        key: &'a [u8],
        primary: KeyHash,
        fragment: Fragment,
        began: Sequence,
    ) -> NewRecord<'a> {
        NewRecord {
            hash: self.set.hasher().hash(key),
            primary,
            key,
            meta: &[],
            body: &[],
            fragment: Some(fragment),
            total: None,
            began,
            server: 0,
        }
    }

    /// A number for the server that a key names; 0 if records are not gathered by server.
    fn server_of(&self, primary: KeyHash, key: &[u8]) -> u64 {
        let is_gathered = match self.locality {
            LocalityMode::Servers(servers) => servers > 0,
            LocalityMode::Measured => self.member(primary).reads.is_lazy(),
        };
        if !is_gathered {
            return 0;
        }
        // Never 0, which stands for no server.
        self.set.hasher().hash(server_of_key(key)).0 | 1
    }

    fn insert(&self, record: &NewRecord<'_>, room: Option<&mut Room>) -> Handed {
        let member = self.member(record.primary);
        let handed = match member.is_shut() {
            true => Handed::Refused,
            false => {
                let store = &member.store;
                let inserted = match room {
                    Some(room) => store.insert_laid(record, room, unix_ms()),
                    None => store.insert(record, unix_ms()),
                };
                self.carry_out(member, inserted.writes);
                let cluster = inserted.cluster.map(|id| member.place.number_of(id));
                match inserted.outcome {
                    Outcome::Stored => Handed::Stored(cluster.unwrap_or(0)),
                    _ => Handed::Refused,
                }
            }
        };
        if handed.is_stored() {
            let bytes: usize = record.body.iter().map(|p| p.len()).sum();
            metrics::add(&self.counters.stored_objects, 1);
            metrics::add(&self.counters.stored_bytes, bytes as u64);
        } else {
            metrics::add(&self.counters.not_stored, 1);
            // The stored object that this one should replace is out of date. But if a purge came since this fill began, the
            // stored object is newer and stays.
            if !self.is_too_late(record) {
                member.store.forget(record.hash);
            }
        }
        handed
    }

    /// Was the object purged, or made stale, since its fill began?
    fn is_too_late(&self, record: &NewRecord<'_>) -> bool {
        let &NewRecord {
            primary,
            began,
            key,
            meta,
            ..
        } = record;
        self.set.is_purged_since(primary, began, key, meta)
            || self.set.is_doubted(primary, began, key, meta)
    }

    /// Writes out all buffers and open clusters, and waits for all writes of this worker.
    pub async fn settle(&self) {
        for member in &*self.members {
            self.carry_out(member, member.store.flush());
        }
        let begun = Instant::now();
        loop {
            let one_done = self.writes.one_done.notified();
            let longest = match self.members.iter().any(Member::is_shut) {
                true => SETTLE_SHUT_MAX,
                false => SETTLE_MAX,
            };
            let writes = self.writes.count.get();
            if writes == 0 {
                return;
            }
            if begun.elapsed() >= longest {
                tracing::warn!(writes, "the disk does not take what is left to write");
                return;
            }
            let _ = tokio::time::timeout(SETTLE_STEP, one_done).await;
        }
    }

    /// Waits, with a limit, while many writes are under way or while there is no room for a fragment.
    pub async fn room_for_fragment(&self, primary: KeyHash) {
        let member = self.member(primary);
        let store = &member.store;
        let bytes = u64::from(store.fragment_bytes());
        let is_full = || {
            !member.is_shut()
                && (self.writes.count.get() >= WRITES_BEFORE_WAIT
                    || store.is_behind()
                    || !store.has_room_for(bytes))
        };
        self.wait_while(is_full, ROOM_WAIT).await;
    }

    /// Can an object of this length be handed over without waiting? True if the device gets no operations now.
    pub fn has_room_for_object(&self, primary: KeyHash, bytes: u64) -> bool {
        let member = self.member(primary);
        let store = &member.store;
        member.is_shut() || !store.is_behind() && store.has_room_for(bytes)
    }

    /// Waits a short time while the disk is behind, so that the object can be stored; not repeatedly on a disk that
    /// takes nothing.
    pub async fn room_for_object(&self, primary: KeyHash, bytes: u64) {
        let member = self.member(primary);
        let store = &member.store;
        let is_full = || !self.has_room_for_object(primary, bytes);
        if !is_full() {
            self.writes.waited_in_vain.set(None);
            return;
        }
        if store.is_paused(unix_ms()) {
            return;
        }
        let in_vain = self.writes.waited_in_vain.get();
        if in_vain.is_some_and(|at: Instant| at.elapsed() < NOT_AGAIN_FOR) {
            return;
        }
        metrics::add(&self.counters.disk_waits, 1);
        let has_room = self.wait_while(is_full, OBJECT_WAIT).await;
        let in_vain = (!has_room).then(Instant::now);
        self.writes.waited_in_vain.set(in_vain);
    }

    /// False if the disk is still behind after the longest wait.
    async fn wait_while(&self, is_full: impl Fn() -> bool, longest: Duration) -> bool {
        let deadline = Instant::now() + longest;
        while is_full() {
            if Instant::now() >= deadline {
                return false;
            }
            let one_done = self.writes.one_done.notified();
            tokio::select! {
                biased;
                () = one_done => {}
                () = self.wake_up.work_done(ROOM_STEP) => {}
            }
        }
        true
    }
}

/// The record of an object, without its body.
fn record_of<'a>(object: &'a Object, meta: &'a [u8], began: Sequence) -> NewRecord<'a> {
    NewRecord {
        hash: object.hash,
        primary: object.primary,
        key: &object.key,
        meta,
        body: &[],
        fragment: None,
        total: object.large.map(|l| ObjectTotal {
            fetch_id: l.fetch_id,
            fragments: l.fragments,
            bytes: l.bytes,
        }),
        began,
        server: 0,
    }
}
