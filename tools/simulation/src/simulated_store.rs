//! The store as the simulation calls it: the one file to be adapted when the store's calls change.
//!
//! Not known here: what is done with it, and what is right.

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

/// What a run chooses.
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
    /// What the store does wrong on purpose.
    pub mistake: Option<Mistake>,
}

impl Choice {
    /// Does the policy fill one region after the other, so that what is older is also gone earlier?
    pub fn fills_in_turn(&self) -> bool {
        self.policy.starts_with(POLICIES[0]) || self.policy == REINSERTION
    }
}

/// The policies that runs choose from beside the default.
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

/// Why bytes are not to be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotServed {
    /// They are a good record, but an invalidation has killed it.
    Dead,
    /// They are another key's record: the index has taken one key for another.
    OtherKey,
    /// They are no record, and why.
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

/// What a recovery found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// In words.
    pub words: String,
    /// Nothing was kept.
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

    /// The store that lies there.
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

    /// What to write before anything else, a flush after each.
    pub fn opening(&self) -> Vec<(u64, Bytes)> {
        self.store.opening()
    }

    /// The hash of a full key.
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        self.store.hasher().hash(key)
    }

    /// The present.
    pub fn sequence(&self) -> Sequence {
        self.store.sequence()
    }

    /// Stores a record.
    pub fn insert(&self, record: &NewRecord<'_>, now_ms: u64) -> Inserted {
        self.store.insert(record, now_ms)
    }

    /// Stores a record again that was read where room will be made next.
    pub fn renew(&self, renewal: Renewal, parts: &RecordParts, now_ms: u64) -> Inserted {
        self.store.renew(renewal, parts, now_ms)
    }

    /// A cluster write is over.
    pub fn write_done(&self, id: WriteId, ok: bool, now_ms: u64) {
        self.store.write_done(id, ok, now_ms);
    }

    /// Time goes on.
    pub fn tick(&self, now_ms: u64) -> Writes {
        self.store.tick(now_ms)
    }

    /// Locality buffers and the open cluster are to be written now.
    pub fn flush(&self) -> Writes {
        self.store.flush()
    }

    /// Finds a record.
    pub fn look_up(&self, hash: KeyHash) -> Lookup {
        self.store.look_up(hash)
    }

    /// Finds a record for one who needs it.
    pub fn look_up_needed(&self, hash: KeyHash) -> Lookup {
        self.store.look_up_needed(hash)
    }

    /// Verifies a record that somebody needs. None: it is not to be served.
    pub fn decode_needed(
        &self,
        bytes: &Bytes,
        hash: KeyHash,
        read: Option<&Read>,
    ) -> Option<RecordParts> {
        self.store.decode_needed(bytes, hash, read).ok()
    }

    /// Where a record lies on the disk, if there is such a record, and its write is over.
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

    /// Is there such a record?
    pub fn contains(&self, hash: KeyHash) -> bool {
        self.store.contains(hash)
    }

    /// Verifies a buffered record.
    ///
    /// # Errors
    /// Why it is not to be served.
    pub fn decode(&self, bytes: &Bytes, hash: KeyHash) -> Result<RecordParts, NotServed> {
        self.store.decode(bytes, hash).map_err(NotServed::of)
    }

    /// The front and the body of a fragment that was read, verified part by part. None: something does not verify, or it is no fragment.
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
    /// Why it is not to be served.
    pub fn decode_read(&self, bytes: &Bytes, read: &Read) -> Result<RecordParts, NotServed> {
        self.store.decode_read(bytes, read).map_err(NotServed::of)
    }

    /// How far a read may reach.
    pub fn reach(&self, read: &Read, wanted: usize) -> usize {
        self.store.reach(read, wanted)
    }

    /// What came along with a read.
    pub fn companions(&self, bytes: &Bytes, read: &Read) -> Vec<Companion> {
        self.store.companions(bytes, read)
    }

    /// Ends a read. May it be served?
    pub fn read_done(&self, read: Read) -> bool {
        self.store.read_done(read)
    }

    /// Ends a read that the device refused.
    pub fn read_failed(&self, read: Read) {
        self.store.read_failed(read);
    }

    /// Was the primary invalidated since?
    pub fn invalidated_since(&self, primary: KeyHash, began: Sequence) -> bool {
        self.store.invalidated_since(primary, began)
    }

    /// Drops a record that does not verify.
    pub fn forget(&self, hash: KeyHash) {
        self.store.forget(hash);
    }

    /// How to find the variants.
    pub fn marker(&self, primary: KeyHash) -> Option<Marker> {
        self.store.marker(primary)
    }

    /// Says how to find the variants.
    pub fn set_marker(&self, primary: KeyHash, list: &[u8], began: Sequence) -> Option<Marker> {
        self.store.set_marker(primary, list, began)
    }

    /// The same marker, with more in its list.
    pub fn resume_marker(&self, primary: KeyHash, salt: u64, list: &[u8]) -> Option<Marker> {
        self.store.resume_marker(primary, salt, list)
    }

    /// Invalidates a primary key.
    pub fn invalidate(&self, primary: KeyHash) -> DurabilityHandle {
        self.store.invalidate(primary).handle
    }

    /// Invalidates a primary key, and logs that only where something of it is or was stored.
    pub fn invalidate_stored(&self, primary: KeyHash) -> DurabilityHandle {
        self.store.invalidate_stored(primary).handle
    }

    /// Puts a primary key in doubt.
    pub fn doubt(&self, primary: KeyHash) -> DurabilityHandle {
        self.store.doubt(primary).handle
    }

    /// Invalidates what matches; None if there is no room for it.
    pub fn invalidate_matching(&self, kind: u8, pattern: &[u8]) -> Option<DurabilityHandle> {
        self.store.invalidate_matching(kind, pattern).ok()
    }

    /// How far an invalidation has come.
    pub fn settled(&self, handle: DurabilityHandle) -> Settled {
        self.store.settled(handle)
    }

    /// Background work.
    pub fn next_work(&self, now_ms: u64) -> Option<Work> {
        self.store.next_work(now_ms)
    }

    /// Background work is over.
    pub fn work_done(&self, id: WorkId, result: Result<Option<Bytes>, ()>, now_ms: u64) {
        self.store.work_done(id, result, now_ms);
    }

    /// Keeps a record from being evicted. False: it is not there, or too much is kept.
    pub fn need(&self, hash: KeyHash) -> bool {
        self.store.need(hash) == Needed::Noted
    }

    /// It is needed no more.
    pub fn release(&self, hash: KeyHash) {
        self.store.release(hash);
    }

    /// What is to be read in order to be written again.
    pub fn next_reinsertion(&self, now_ms: u64) -> Option<Reinsertion> {
        self.store.next_reinsertion(now_ms)
    }

    /// As the store's.
    pub fn reinsertion_done(&self, read: Reinsertion, bytes: Option<Bytes>, now_ms: u64) -> Writes {
        self.store.reinsertion_done(read, bytes, now_ms)
    }

    /// As the store's.
    pub fn next_move(&self) -> Option<Move> {
        self.store.next_move()
    }

    /// It was read, or could not be.
    pub fn move_done(&self, moved: Move, bytes: Option<Bytes>, now_ms: u64) -> Writes {
        self.store.move_done(moved, bytes, now_ms)
    }

    /// Begins to leave the disk as a clean stop would, while reads go on.
    ///
    /// # Errors
    /// It can't be done now.
    pub fn freeze(&self) -> Result<Writes, NotFrozen> {
        self.store.freeze()
    }

    /// Is the disk so?
    pub fn is_frozen(&self) -> bool {
        self.store.is_frozen()
    }

    /// Goes on as before.
    pub fn thaw(&self) {
        self.store.thaw();
    }

    /// Another process has it from here on, and must protect what this gives.
    pub fn hand_over(&self) -> Vec<HeldChunks> {
        self.store.hand_over()
    }

    /// What another process must be told.
    pub fn next_told(&self) -> Vec<Told> {
        self.store.next_told()
    }

    /// It has made that durable, or not.
    pub fn told_done(&self, heard: Heard) {
        self.store.told_done(heard);
    }

    /// What the process before still reads.
    pub fn protect(&self, held: &[HeldChunks]) {
        self.store.protect(held);
    }

    /// It has ended.
    pub fn unprotect(&self) {
        self.store.unprotect();
    }

    /// Stops in order.
    pub fn begin_close(&self) {
        self.store.begin_close();
    }

    /// Has it stopped?
    pub fn is_closed(&self) -> bool {
        self.store.is_closed()
    }

    /// How far the recovery has come; None if nothing is left to scan.
    pub fn recovery(&self) -> Option<Progress> {
        self.store.recovery()
    }

    /// Checks all invariants.
    ///
    /// # Errors
    /// Which does not hold.
    pub fn audit(&self) -> Result<(), String> {
        self.store.audit()
    }

    /// What it did in this life: records evicted, checkpoints, second chances, records moved, reinserted, weedings, records weeded, regions
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
