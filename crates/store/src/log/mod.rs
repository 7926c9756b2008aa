//! The invalidation log: invalidations that must survive a crash.
//!
//! Every invalidation goes here, and is durable here before it is acknowledged; recovery drops the records it kills. Pages of
//! 4 KiB are filled one after the other. The page being filled lies in the *tail*: four slots, two at the start
//! of the log's area (A and B) and two at its end (A and B). A commit writes the page to both slots of one pair, and
//! the next one after it has succeeded goes to the other pair. So a torn write never touches what was acknowledged
//! last, one copy silently lost does no harm, and no single large write gone astray hits both copies. When
//! the page is full, a commit of its own puts it into the *ring*; only then the next page is begun. The ring wraps: the
//! oldest page makes room.
//!
//! ```text
//! commit    pair A    pair B    ring
//!   1       page 0                       a new log: empty
//!   2                 page 0             some entries
//!   3       page 0                       more; the next would not fit
//!   4                           page 0   what is in pair A already
//!   5                 page 1             fails, perhaps torn: page 0 is in A and in the ring
//!   6                 page 1             the same entries, and what came since
//! ```
//!
//! Why the ring has commits of its own: if a crash left the beginning of page 1 but not page 0 in the ring, page 0
//! would count as missing. It costs one flush a page, of some 200 entries.
//!
//! The *horizon* is a sequence: every acknowledged entry above it is in the log. It rises when the ring wraps, and when a replay
//! finds a page missing. The caller makes a checkpoint before entries that it needs wrap away: [`Log::pages_left_before`].
//!
//! Invariants:
//!   L1  a slot that holds what was acknowledged last is not written before a later commit was acknowledged
//!   L2  a page is put into the ring when all of it was acknowledged, and its successor is begun when the ring has it
//!   L3  page numbers, commit numbers and positions go on above all that was acknowledged or replayed, over crashes too
//!
//! Demanded of the caller: [`Log::end_commit`] with true means that all writes were done and then flushed. The pages that a
//! [`Replay`](replay::Replay) read are flushed too (the opening superblock does it) before the first commit is written: a page
//! that was read may still be in a volatile cache. And [`Log::opening_writes`] are among the first writes: a flush that failed
//! may have dropped pages that a read still shows.
//!
//! Limits: [`WAITING_BYTES_MAX`]; one commit at a time, of at most two pages; in memory, 8 bytes for each page.
//! Not known here: what entries mean, durability handles, checkpoints, the place of the area in the store.
//! Source: docs/decisions/0016.

pub mod entry;
pub mod invalidation;
mod page;
pub mod predicates;
pub mod replay;
pub mod soft;
pub mod weed;
pub mod weeding;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use crate::log::entry::{Entry, TEXT_BYTES_MAX};
use crate::secret::Secret;
use crate::sequence::Sequence;
use bytes::Bytes;
use page::{Area, PAGE_BYTES, Page};
use std::collections::VecDeque;

/// Entries that wait for a commit take at most this on the disk; one more is refused, see [`Refused::Full`].
pub(crate) const WAITING_BYTES_MAX: usize = 1 << 20;

/// Counts the entries ever appended, over restarts too. The position of an entry is how many came before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Position(pub u64);

/// Why an entry was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Refused {
    /// Too many wait: the device is too slow, or fails. Answer 503; later there may be room.
    #[error("too many invalidations wait for the disk")]
    Full,
    /// Its pattern is longer than [`TEXT_BYTES_MAX`].
    #[error("the pattern is longer than {TEXT_BYTES_MAX} bytes")]
    TooLong,
}

/// The writes of a commit. Carry them out in any order, and flush, before [`Log::end_commit`].
#[derive(Clone, Debug)]
pub(crate) struct Commit {
    #[cfg(test)]
    pub number: u64,
    /// Offsets in bytes from the start of the log's area, each with one aligned page.
    pub writes: Vec<(u64, Bytes)>,
    /// Entries below this are durable when the commit is done.
    pub reaches: Position,
}

/// The log as a state machine. See the head of this file.
#[derive(Debug)]
pub(crate) struct Log {
    area: Area,
    epoch: u64,
    secret: Secret,
    /// The page being filled.
    page: Page,
    /// The page takes no more entries: it is full, or was found by a replay.
    closed: bool,
    ring: Ring,
    /// `page` differs from what was acknowledged.
    changed: bool,
    /// `before` of each page the log holds, oldest first, the current one last.
    held: VecDeque<Sequence>,
    waiting: VecDeque<(Sequence, Entry)>,
    waiting_bytes: usize,
    /// The tail pair that the next commit goes to.
    pair: usize,
    commit: u64,
    under_way: Option<To>,
    durable: Position,
    /// Entries that another process has made durable, because this one writes no more.
    told: u64,
}

/// Is the page being filled, once closed, in its ring place?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ring {
    /// The place still has the page to be replaced, if the ring has wrapped.
    No,
    /// A write was begun: neither the old page nor the new one can be relied on.
    Begun,
    Yes,
}

/// Where the commit under way goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum To {
    Tail,
    Ring,
}

impl Log {
    /// The log of a new store, in an area of `bytes` bytes. The log has no entries to tell up to `horizon`.
    ///
    /// Carry out [`Self::opening_writes`] at once: an area without a successful one is damaged. No log may have been in this area under
    /// the same epoch and secret.
    pub(crate) fn new(bytes: u64, epoch: u64, secret: Secret, horizon: Sequence) -> Self {
        let area = Area::of(bytes).expect("the geometry gives the log whole pages, and enough");
        Self {
            area,
            epoch,
            secret,
            page: Page::new(0, 0, horizon),
            closed: false,
            ring: Ring::No,
            changed: true,
            held: VecDeque::from([horizon]),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            pair: 0,
            commit: 0,
            under_way: None,
            durable: Position(0),
            told: 0,
        }
    }

    /// The first page of a log without entries, new or replayed: offsets from the start of its area. Write and flush it before anything
    /// else is done with the store. Empty for a log that has entries.
    pub(crate) fn opening_writes(&mut self) -> Vec<(u64, Bytes)> {
        if !self.changed || self.end() > Position(0) {
            return Vec::new();
        }
        let commit = self.begin_commit();
        let writes = commit.map(|commit| commit.writes).unwrap_or_default();
        self.end_commit(true);
        writes
    }

    /// Takes an entry. It is durable when [`Self::durable`] is above its position. Sequences may come in any order.
    ///
    /// # Errors
    /// See [`Refused`]; nothing was taken.
    pub(crate) fn append(&mut self, sequence: Sequence, entry: Entry) -> Result<Position, Refused> {
        if !entry.fits() {
            return Err(Refused::TooLong);
        }
        let bytes = self.waiting_bytes + entry.width();
        if bytes > WAITING_BYTES_MAX {
            return Err(Refused::Full);
        }
        let position = self.end();
        self.waiting_bytes = bytes;
        self.waiting.push_back((sequence, entry));
        Ok(position)
    }

    /// The position of the next entry.
    pub(crate) fn end(&self) -> Position {
        Position(self.page.head.end() + self.told + self.waiting.len() as u64)
    }

    /// Is there anything to write besides what the commit under way writes?
    pub(crate) fn needs_commit(&self) -> bool {
        let unwritten = self.changed || (self.closed && self.ring != Ring::Yes);
        (unwritten && self.under_way.is_none()) || !self.waiting.is_empty()
    }

    /// The next commit: as many waiting entries as fit the page, or the page to the ring. None if there is nothing to do, or
    /// while one is under way.
    pub(crate) fn begin_commit(&mut self) -> Option<Commit> {
        if self.under_way.is_some() || !self.needs_commit() {
            return None;
        }
        self.commit += 1;
        // While the page holds anything unacknowledged it goes to the tail again, full or not (L2).
        if !self.changed && (self.closed || self.page_is_full()) {
            if self.ring != Ring::Yes {
                return Some(self.put_into_ring());
            }
            self.turn_page();
        }
        while let Some((sequence, entry)) = self.waiting.front() {
            if !self.page.has_room_for(entry) {
                break;
            }
            self.page.push(*sequence, entry);
            self.waiting_bytes -= entry.width();
            self.waiting.pop_front();
        }
        self.changed = true;
        let slots = self.area.tail(self.pair);
        Some(self.commit_to(To::Tail, &slots))
    }

    /// The commit under way is done. `ok`: all was written, then flushed. If not, its entries wait for the next one.
    pub(crate) fn end_commit(&mut self, ok: bool) {
        let to = self.under_way.take();
        let to = to.expect("a commit ends that was begun");
        if !ok {
            return;
        }
        self.durable = Position(self.page.head.end());
        match to {
            To::Ring => self.ring = Ring::Yes,
            To::Tail => {
                self.changed = false;
                self.pair = 1 - self.pair;
            }
        }
    }

    /// Is every entry durable that has ever been in a page? Waiting entries do not count.
    pub(crate) fn is_settled(&self) -> bool {
        self.under_way.is_none() && self.durable == Position(self.page.head.end())
    }

    /// The first `most` of the waiting entries.
    pub(crate) fn waiting(&self, most: usize) -> impl Iterator<Item = &Entry> {
        self.waiting.iter().take(most).map(|(_, entry)| entry)
    }

    /// The first `entries` waiting entries are durable elsewhere. This log is not written to any more.
    pub(crate) fn told(&mut self, entries: usize) {
        for (_, entry) in self.waiting.drain(..entries) {
            self.waiting_bytes -= entry.width();
        }
        self.told += entries as u64;
        self.durable = Position(self.page.head.end() + self.told);
    }

    /// All entries below this are durable.
    pub(crate) fn durable(&self) -> Position {
        self.durable
    }

    /// Every acknowledged entry with a higher sequence is in the log.
    pub(crate) fn horizon(&self) -> Sequence {
        self.held.front().copied().expect("a log holds a page")
    }

    /// How many more pages can be put into the ring before the horizon rises above `sequence`. 0: it rises with the next page,
    /// or has risen.
    pub(crate) fn pages_left_before(&self, sequence: Sequence) -> u64 {
        if self.horizon() > sequence {
            return 0;
        }
        // Sorted: `before` never falls from one page to the next.
        let expendable = self.held.partition_point(|&before| before <= sequence) - 1;
        let own_place = u64::from(self.ring == Ring::No);
        self.area.ring_pages() + own_place + expendable as u64 - self.held.len() as u64
    }

    /// Would the next commit make the log forget what came after `sequence`?
    pub(crate) fn would_forget(&self, sequence: Sequence) -> bool {
        let to_ring = !self.changed && (self.closed || self.page_is_full());
        to_ring
            && self.ring == Ring::No
            && self.horizon() <= sequence
            && self.pages_left_before(sequence) == 0
    }

    /// The most pages that the log holds, besides the one being filled.
    pub(crate) fn ring_pages(&self) -> u64 {
        self.area.ring_pages()
    }

    fn page_is_full(&self) -> bool {
        let next = self.waiting.front();
        next.is_some_and(|(_, entry)| !self.page.has_room_for(entry))
    }

    fn put_into_ring(&mut self) -> Commit {
        self.closed = true;
        if self.ring == Ring::No {
            self.ring = Ring::Begun;
            // The oldest page is lost with the first attempt, even if that is reported as failed.
            if self.held.len() as u64 > self.area.ring_pages() {
                self.held.pop_front();
            }
        }
        let slot = self.area.ring(self.page.head.number);
        self.commit_to(To::Ring, &[slot])
    }

    fn turn_page(&mut self) {
        self.page = self.page.next();
        self.closed = false;
        self.ring = Ring::No;
        self.held.push_back(self.page.head.before);
    }

    fn commit_to(&mut self, to: To, slots: &[u64]) -> Commit {
        self.under_way = Some(to);
        self.page.head.commit = self.commit;
        self.page.head.horizon = self.horizon();
        let bytes = self.page.encode(self.epoch, &self.secret);
        let offsets = slots.iter().map(|slot| slot * PAGE_BYTES as u64);
        Commit {
            #[cfg(test)]
            number: self.commit,
            writes: offsets.map(|offset| (offset, bytes.clone())).collect(),
            reaches: Position(self.page.head.end()),
        }
    }
}
