//! The store as the simulation calls it: the only file to be adapted when the store's calls change.
//!
//! Not known here: how the store is used, and what is correct.

use bytes::Bytes;
use store::{
    Companion, Corrupt, Front, Geometry, Heard, HeldChunks, Identity, KeyHash, Lookup, Marker,
    Mistake, Mistakes, Move, Needed, NewRecord, NotFrozen, Read, RecordParts, Reinsertion, Renewal,
    Sequence, Settings, Store, Superblock, Told, WriteId, Writes,
};

pub use store::{
    DurabilityHandle, Found, Inserted, OpenPlan, Progress, Settled, Work, WorkId, WorkOp,
};

use crate::world;

/// The settings that a run chooses.
#[derive(Clone, Debug)]
pub struct Choice {
    /// As in the store's settings.
    pub cluster_bytes: u32,
    /// As in the store's settings.
    pub cluster_deadline_ms: u64,
    /// As in the store's settings.
    pub shards: usize,
    /// As in the store's settings.
    pub locality_buffers: usize,
    /// The name of an eviction policy.
    pub policy: &'static str,
    /// A deliberate mistake of the store.
    pub mistake: Option<Mistake>,
}

impl Choice {
    /// Whether the policy fills one region after the other, so that older records are evicted earlier.
    pub fn fills_in_turn(&self) -> bool {
        self.policy.starts_with(POLICIES[0]) || self.policy == REINSERTION
    }
}

/// The policies that runs choose from, besides the default.
pub const POLICIES: &[&str] = &[
    "second-chance",
    "second-chance=0",
    "second-chance=60",
    "lru",
    "gdsf",
];

/// The default.
pub const REINSERTION: &str = "reinsertion";

fn settings(choice: &Choice) -> Settings {
    Settings {
        cluster_bytes: choice.cluster_bytes,
        cluster_deadline_ms: choice.cluster_deadline_ms,
        shards: choice.shards,
        locality_buffers: choice.locality_buffers,
        replacement: choice.policy.parse().expect("POLICIES names what there is"),
        manner: world::manner,
        words: world::words,
        mistakes: choice.mistake.map(Mistakes::only).unwrap_or_default(),
        ..Settings::default()
    }
}

/// Why bytes must not be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotServed {
    /// A good record, but killed by an invalidation.
    Dead,
    /// Another key's record: the index confused the keys.
    OtherKey,
    /// Not a record, and why.
    Corrupt(String),
}

impl NotServed {
    fn of(corrupt: Corrupt) -> Self {
        match corrupt {
            Corrupt::Invalidated => Self::Dead,
            Corrupt::Hash => Self::OtherKey,
            other => Self::Corrupt(other.to_string()),
        }
    }
}

/// The result of a recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// A description.
    pub words: String,
    /// Whether the store is empty.
    pub empty: bool,
}

/// A store under simulation.
#[derive(Debug)]
pub struct SimulatedStore {
    store: Store,
}

impl SimulatedStore {
    /// An empty store, in place of `previous` if there was one.
    pub fn create(
        geometry: Geometry,
        choice: &Choice,
        identity: Identity,
        previous: Option<&Superblock>,
    ) -> Self {
        let identity = match previous {
            Some(previous) => identity.after(previous),
            None => identity,
        };
        let store = Store::create(geometry, &settings(choice), identity);
        Self { store }
    }

    /// Recovers the store on the disk.
    pub fn recover(
        superblock: Superblock,
        found: &Found,
        choice: &Choice,
        identity: Identity,
    ) -> (Self, Recovery) {
        let (store, recovered) = Store::recover(superblock, found, &settings(choice), identity);
        let recovery = Recovery {
            words: recovered.words,
            empty: recovered.empty,
        };
        (Self { store }, recovery)
    }

    /// Writes to make before anything else, with a flush after each.
    pub fn opening(&self) -> Vec<(u64, Bytes)> {
        self.store.opening()
    }

    /// The hash of a full key.
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        self.store.hasher().hash(key)
    }

    /// The current sequence.
    pub fn sequence(&self) -> Sequence {
        self.store.sequence()
    }

    /// Stores a record.
    pub fn insert(&self, record: &NewRecord<'_>, now_ms: u64) -> Inserted {
        self.store.insert(record, now_ms)
    }

    /// Renews a record that was read in the window in front of the hand.
    pub fn renew(&self, renewal: Renewal, parts: &RecordParts, now_ms: u64) -> Inserted {
        self.store.renew(renewal, parts, now_ms)
    }

    /// A cluster write has ended.
    pub fn write_done(&self, id: WriteId, ok: bool, now_ms: u64) {
        self.store.write_done(id, ok, now_ms);
    }

    /// Lets time pass.
    pub fn tick(&self, now_ms: u64) -> Writes {
        self.store.tick(now_ms)
    }

    /// Writes locality buffers and the open cluster now.
    pub fn flush(&self) -> Writes {
        self.store.flush()
    }

    /// Looks up a record.
    pub fn look_up(&self, hash: KeyHash) -> Lookup {
        self.store.look_up(hash)
    }

    /// Looks up a record for an answer that needs it.
    pub fn look_up_needed(&self, hash: KeyHash) -> Lookup {
        self.store.look_up_needed(hash)
    }

    /// Verifies a needed record; none if it must not be served.
    pub fn decode_needed(
        &self,
        bytes: &Bytes,
        hash: KeyHash,
        read: Option<&Read>,
    ) -> Option<RecordParts> {
        self.store.decode_needed(bytes, hash, read).ok()
    }

    /// The place of a record on the disk, if there is such a record and its write has ended.
    pub fn place_of(&self, hash: KeyHash) -> Option<u64> {
        match self.store.look_up(hash) {
            Lookup::OnDisk(read) => {
                let offset = read.offset;
                let _ = self.store.read_done(read);
                Some(offset)
            }
            Lookup::Absent | Lookup::Buffered(_) => None,
        }
    }

    /// Whether there is such a record.
    pub fn contains(&self, hash: KeyHash) -> bool {
        self.store.contains(hash)
    }

    /// Verifies a buffered record.
    ///
    /// # Errors
    /// Why it must not be served.
    pub fn decode(&self, bytes: &Bytes, hash: KeyHash) -> Result<RecordParts, NotServed> {
        self.store.decode(bytes, hash).map_err(NotServed::of)
    }

    /// Front and body of a fragment that was read, verified part by part; none if a part does not verify, or if it is not a fragment.
    pub fn body_by_parts(&self, bytes: &Bytes, read: &Read) -> Option<(Front, Vec<u8>)> {
        let front = self.store.decode_front(bytes, read).ok()?;
        let mut body = Vec::new();
        let piece = front.body_len / 3 + 1;
        while (body.len() as u64) < front.body_len {
            let at = body.len() as u64;
            let part = at..(at + piece).min(front.body_len);
            let blocks = front.around(part.clone());
            let wanted = bytes.get(blocks.start as usize..blocks.end as usize)?;
            let part = self.store.decode_part(&front, blocks.start, wanted, part);
            body.extend_from_slice(&wanted[part.ok()?]);
        }
        Some((front, body))
    }

    /// Verifies a record that was read.
    ///
    /// # Errors
    /// Why it must not be served.
    pub fn decode_read(&self, bytes: &Bytes, read: &Read) -> Result<RecordParts, NotServed> {
        self.store.decode_read(bytes, read).map_err(NotServed::of)
    }

    /// How far a read may extend.
    pub fn reach(&self, read: &Read, wanted: usize) -> usize {
        self.store.reach(read, wanted)
    }

    /// The companions that a read returned.
    pub fn companions(&self, bytes: &Bytes, read: &Read) -> Vec<Companion> {
        self.store.companions(bytes, read)
    }

    /// Ends a read; returns whether its record may be served.
    pub fn read_done(&self, read: Read) -> bool {
        self.store.read_done(read)
    }

    /// Ends a read that the device refused.
    pub fn read_failed(&self, read: Read) {
        self.store.read_failed(read);
    }

    /// Whether the primary was invalidated since `began`.
    pub fn invalidated_since(&self, primary: KeyHash, began: Sequence) -> bool {
        self.store.invalidated_since(primary, began)
    }

    /// Drops a record that does not verify.
    pub fn forget(&self, hash: KeyHash) {
        self.store.forget(hash);
    }

    /// The marker of a resource with variants.
    pub fn marker(&self, primary: KeyHash) -> Option<Marker> {
        self.store.marker(primary)
    }

    /// Sets the marker of a resource with variants.
    pub fn set_marker(&self, primary: KeyHash, list: &[u8], began: Sequence) -> Option<Marker> {
        self.store.set_marker(primary, list, began)
    }

    /// Sets the same marker with more in its list.
    pub fn resume_marker(&self, primary: KeyHash, salt: u64, list: &[u8]) -> Option<Marker> {
        self.store.resume_marker(primary, salt, list)
    }

    /// Invalidates a primary key.
    pub fn invalidate(&self, primary: KeyHash) -> DurabilityHandle {
        self.store.invalidate(primary).handle
    }

    /// Invalidates a primary key; the log entry is written only if a record of it is or was stored.
    pub fn invalidate_stored(&self, primary: KeyHash) -> DurabilityHandle {
        self.store.invalidate_stored(primary).handle
    }

    /// Puts a primary key in doubt.
    pub fn doubt(&self, primary: KeyHash) -> DurabilityHandle {
        self.store.doubt(primary).handle
    }

    /// Invalidates by predicate; none if there is no room for the predicate.
    pub fn invalidate_matching(&self, kind: u8, pattern: &[u8]) -> Option<DurabilityHandle> {
        self.store.invalidate_matching(kind, pattern).ok()
    }

    /// The progress of an invalidation.
    pub fn settled(&self, handle: DurabilityHandle) -> Settled {
        self.store.settled(handle)
    }

    /// The next background work.
    pub fn next_work(&self, now_ms: u64) -> Option<Work> {
        self.store.next_work(now_ms)
    }

    /// Background work has ended.
    pub fn work_done(&self, id: WorkId, result: Result<Option<Bytes>, ()>, now_ms: u64) {
        self.store.work_done(id, result, now_ms);
    }

    /// Keeps a record from being evicted. Returns false if it is not there, or if too many are kept.
    pub fn need(&self, hash: KeyHash) -> bool {
        self.store.need(hash) == Needed::Noted
    }

    /// The record is no longer needed.
    pub fn release(&self, hash: KeyHash) {
        self.store.release(hash);
    }

    /// The next stretch to be read for reinsertion.
    pub fn next_reinsertion(&self, now_ms: u64) -> Option<Reinsertion> {
        self.store.next_reinsertion(now_ms)
    }

    /// Ends a read for reinsertion.
    pub fn reinsertion_done(&self, read: Reinsertion, bytes: Option<Bytes>, now_ms: u64) -> Writes {
        self.store.reinsertion_done(read, bytes, now_ms)
    }

    /// The next record to be moved.
    pub fn next_move(&self) -> Option<Move> {
        self.store.next_move()
    }

    /// The read for a move has ended or failed.
    pub fn move_done(&self, moved: Move, bytes: Option<Bytes>, now_ms: u64) -> Writes {
        self.store.move_done(moved, bytes, now_ms)
    }

    /// Begins to leave the disk as after a clean stop, while reads go on.
    ///
    /// # Errors
    /// If that is not possible now.
    pub fn freeze(&self) -> Result<Writes, NotFrozen> {
        self.store.freeze()
    }

    /// Whether the disk is in that state.
    pub fn is_frozen(&self) -> bool {
        self.store.is_frozen()
    }

    /// Ends the freeze.
    pub fn thaw(&self) {
        self.store.thaw();
    }

    /// Hands the store over to another process, which must protect the returned chunks.
    pub fn hand_over(&self) -> Vec<HeldChunks> {
        self.store.hand_over()
    }

    /// Invalidations that the other process must be told.
    pub fn next_told(&self) -> Vec<Told> {
        self.store.next_told()
    }

    /// The other process has made them durable, or failed to.
    pub fn told_done(&self, heard: Heard) {
        self.store.told_done(heard);
    }

    /// Protects chunks that the previous process still reads.
    pub fn protect(&self, held: &[HeldChunks]) {
        self.store.protect(held);
    }

    /// The previous process has ended.
    pub fn unprotect(&self) {
        self.store.unprotect();
    }

    /// Begins a clean close.
    pub fn begin_close(&self) {
        self.store.begin_close();
    }

    /// Whether the store is closed.
    pub fn is_closed(&self) -> bool {
        self.store.is_closed()
    }

    /// Progress of the recovery; none if nothing is left to scan.
    pub fn recovery(&self) -> Option<Progress> {
        self.store.recovery()
    }

    /// Checks all invariants.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn audit(&self) -> Result<(), String> {
        self.store.audit()
    }

    /// Counts of this life: records evicted, checkpoints, second chances, records moved, reinserted, weedings, records weeded, regions
    /// noted, notes.
    pub fn deeds(&self) -> [u64; 9] {
        let figures = self.store.figures();
        [
            figures.evictions + figures.stretch_evictions,
            figures.checkpoints,
            figures.second_chances,
            figures.moved,
            figures.reinserted,
            figures.weedings,
            figures.weeded,
            figures.noted_regions,
            figures.notes,
        ]
    }
}
