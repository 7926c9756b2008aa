//! Reinsertion: before a stretch is cleared, the records in it that are worth most are written again.
//!
//! ```text
//!          | swept now | read now, and the best written again |                      the hand goes this way -->
//! region   | s | s | s | c | c | c | c |   |   |
//!                        |       |
//!                        +-------+--> a read of neighbours --> verified --> the writer's front
//! ```
//!
//! The choice is made when the previous sweep ends (`coming`). The shell reads ([`Store::next_reinsertion`]) and passes the bytes
//! ([`Store::reinsertion_done`]). The sweep does not wait for that: records that were not read in time leave. While the disk is late,
//! a record that is read near the hand is written again, as with `second-chance`.
//!
//! The read pins nothing. A record is written again if
//!
//! - its bytes are whole and its own, it lies where the index says, and nothing has purged it;
//! - under the locks under which the copy is published, the index still has it at this place, and it was neither purged nor put in doubt
//!   since before the read. So a purge, a newer version, or the sweep wins, whenever it comes;
//! - its stretch was not swept meanwhile: until then nothing else can lie in that place.
//!
//! A record that cannot be verified is dropped and counted.
//!
//! *Parts of large objects* are not written again here, because the index does not tell that they belong together. They have
//! the second chance of their object, whether the disk keeps up or not.
//!
//! Limits: one read under way, of [`READ_BYTES`] or one record, and a pause of [`PAUSE_TIMES`] its duration. None while the
//! device is behind with writing, none during a scan.
//!
//! Not known here: what else the device has to do; the shell asks when it has little.

use crate::evict::coming::{Candidate, Coming};
use crate::index::key::KeyHash;
use crate::index::reading::Renewal;
use crate::lock::lock;
use crate::mistakes::{Mistake, Mistakes};
use crate::record::corrupt::Corrupt;
use crate::record::{Expected, Header, RecordParts};
use crate::sequence::Sequence;
use crate::store::Store;
use crate::write::cluster::Writes;
use crate::write::insert::{Again, Outcome};
use bytes::Bytes;
use extent::{Chunks, Extent};
use std::sync::atomic::Ordering;

/// Bytes read at once; one record may be longer.
const READ_BYTES: u32 = 256 << 10;

/// A gap of up to this length between two chosen records is read along.
const GAP_BYTES: u32 = 64 << 10;

/// A read is followed by a pause of this many times its duration.
const PAUSE_TIMES: u64 = 3;

/// The longest pause.
const PAUSE_MS_MAX: u64 = 10_000;

/// The shortest pause: a fast device reads for less than a millisecond.
const PAUSE_MS_MIN: u64 = 1;

/// The pause while the device is behind with writing, or storing is paused.
const LATE_MS: u64 = 50;

/// The pause after a read that failed.
const FAILED_MS: u64 = 1_000;

/// Records of the coming stretch to read: carry out the read and pass the bytes to [`Store::reinsertion_done`].
#[derive(Debug)]
#[must_use = "no other is handed out before reinsertion_done"]
pub struct Reinsertion {
    places: Vec<Extent>,
    offset: u64,
    len: usize,
    /// The sequence before the read: invalidations since then count.
    began: Sequence,
    began_ms: u64,
    /// The number of sweeps that had ended when the stretch was listed.
    sweeps: u64,
}

impl Reinsertion {
    /// Where to read, in bytes from the start of the store.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// How many bytes to read.
    pub fn bytes(&self) -> usize {
        self.len
    }
}

impl Store {
    /// The next records to read in order to write them again, if the device has time for that. Call it when [`Self::next_work`] returns
    /// none. `now_ms` as for [`Self::insert`].
    pub fn next_reinsertion(&self, now_ms: u64) -> Option<Reinsertion> {
        let is_shut = self.is_scanning() || self.is_closed_to_inserts() || !self.takes_records();
        if is_shut || self.limits.replacement.reinserted_percent().is_none() {
            return None;
        }
        let is_late = self.pause.is_on(now_ms) || self.is_behind();
        let mut coming = lock(&self.coming);
        // If the clock was set back, the pause is at most the longest one.
        coming.not_before_ms = coming.not_before_ms.min(now_ms + PAUSE_MS_MAX);
        if now_ms < coming.not_before_ms || coming.is_busy() || coming.is_done() {
            return None;
        }
        if is_late {
            coming.not_before_ms = now_ms + LATE_MS;
            return None;
        }
        let begin_choice = coming.begin_choice();
        drop(coming);
        if let Some((sweeps, candidates, room)) = begin_choice {
            let chosen = Coming::choose(candidates, room);
            lock(&self.coming).chosen(sweeps, chosen);
        }
        let chunks = |bytes: u32| Chunks(bytes / self.geometry.chunk_bytes);
        let (gap, most) = (chunks(GAP_BYTES), chunks(READ_BYTES));
        let (sweeps, places) = lock(&self.coming).next_window(gap, most)?;
        let (first, end) = (places.first()?.first, places.last()?.end());
        Some(Reinsertion {
            offset: self.geometry.offset_of(first.0),
            len: (end.0 - first.0) as usize * self.chunk_bytes(),
            places,
            began: self.sequence(),
            began_ms: now_ms,
            sweeps,
        })
    }

    /// Takes the bytes of a reinsertion, or `None` if they could not be read. Carry out the returned writes. `now_ms` as for
    /// [`Self::insert`].
    pub fn reinsertion_done(&self, read: Reinsertion, bytes: Option<Bytes>, now_ms: u64) -> Writes {
        let mut writes = Writes::default();
        let took_ms = now_ms.saturating_sub(read.began_ms);
        let mut pause_ms = took_ms * PAUSE_TIMES;
        match bytes.filter(|bytes| bytes.len() >= read.len) {
            None => {
                self.counters.read_failures.add(1);
                pause_ms = FAILED_MS;
            }
            Some(bytes) => {
                self.counters.reinsertion_bytes.add(read.len as u64);
                let chunk_bytes = self.chunk_bytes();
                let first = read.places.first().map_or(0, |place| place.first.0);
                for &place in &read.places {
                    let at = (place.first.0 - first) as usize * chunk_bytes;
                    let bytes = bytes.slice(at..at + place.len.0 as usize * chunk_bytes);
                    if let Some(more) = self.reinsert(&bytes, place, &read, now_ms) {
                        writes.append(more);
                    }
                }
            }
        }
        let mut coming = lock(&self.coming);
        coming.not_before_ms = now_ms + pause_ms.clamp(PAUSE_MS_MIN, PAUSE_MS_MAX);
        coming.read();
        writes
    }

    /// In how many milliseconds [`Self::next_reinsertion`] may have something; at most `longest`.
    pub fn next_reinsertion_in_ms(&self, now_ms: u64, longest: u64) -> u64 {
        if self.limits.replacement.reinserted_percent().is_none() {
            return longest;
        }
        let coming = lock(&self.coming);
        match coming.is_busy() || coming.is_done() {
            true => longest,
            false => (coming.not_before_ms.saturating_sub(now_ms)).clamp(1, longest),
        }
    }

    /// Writes a record again if it is whole and still valid.
    fn reinsert(
        &self,
        bytes: &Bytes,
        place: Extent,
        read: &Reinsertion,
        now_ms: u64,
    ) -> Option<Writes> {
        let mistakes = self.limits.mistakes;
        if read.sweeps != self.sweeps.load(Ordering::Relaxed) {
            return None;
        }
        let Ok(header) = Header::decode(bytes, &self.secret, mistakes) else {
            // The owner of a record without a valid header is unknown, so it leaves with its stretch.
            self.counters.corrupt.add(1);
            return None;
        };
        let hash = header.hash;
        let is_careless = mistakes.make(Mistake::ReinsertTheDead);
        if !is_careless && !self.has_there(hash, place) {
            return None;
        }
        let parts = match self.verify_to_reinsert(bytes, hash, place) {
            Ok(parts) => parts,
            Err(Corrupt::Hash) => return None,
            Err(_) => {
                self.forget(hash);
                return None;
            }
        };
        if parts.fragment.is_some() || parts.total.is_some() {
            return None;
        }
        let began = match is_careless {
            true => self.sequence(),
            false => read.began,
        };
        let renewal = Renewal {
            hash,
            first: place.first,
            began,
        };
        let again = Again {
            copy_of: place.first,
            at_once: false,
            sweeps: Some(read.sweeps),
        };
        let inserted = self.write_again(renewal, &parts, again, now_ms);
        if inserted.outcome == Outcome::Stored {
            self.counters.reinserted.add(1);
            let bytes = u64::from(place.len.0) * u64::from(self.geometry.chunk_bytes);
            self.counters.reinserted_bytes.add(bytes);
        }
        Some(inserted.writes)
    }

    fn verify_to_reinsert(
        &self,
        bytes: &Bytes,
        hash: KeyHash,
        place: Extent,
    ) -> Result<RecordParts, Corrupt> {
        let mistakes = self.limits.mistakes;
        let expected = Expected {
            mistakes: match mistakes.make(Mistake::ReinsertUnverified) {
                true => Mistakes::only(Mistake::NoChecksum),
                false => mistakes,
            },
            ..self.expected(hash, Some(place))
        };
        let whole = crate::record::decode(bytes, expected);
        match mistakes.make(Mistake::ReinsertTheDead) {
            true => whole,
            false => self.judge(whole, hash, Some(place)),
        }
    }

    /// A sweep has ended: the candidates that it has listed are read next. Called with the writer locked.
    pub(crate) fn coming_listed(&self, candidates: Vec<Candidate>) {
        let sweeps = self.sweeps.fetch_add(1, Ordering::Relaxed) + 1;
        if self.limits.replacement.reinserted_percent().is_some() {
            let keeps_up = lock(&self.coming).sweep_ended(sweeps, candidates);
            self.reads_stretches.store(keeps_up, Ordering::Relaxed);
        }
    }
}
