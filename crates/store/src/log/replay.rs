//! From the bytes of the log's area back to the log.
//!
//! The newest page is the one of highest number, then highest commit, in the tail. Before it come the pages of
//! the ring, as far back as each leads to the next without a gap. The content of a missing page (torn, lost, damaged) is unknown,
//! but the page after it tells how high its sequences may have been: that is the new horizon. Entries below the horizon
//! are of no use, whole or not.
//!
//! The ring may have a page that the tail no longer has, if only one slot of the tail had it. So the ring may be ahead by one page; a
//! tail that is further behind has lost more than that.
//!
//! Entries that were written but never acknowledged may be found as well. They are replayed like all
//! others: to invalidate too much is allowed.
//!
//! The log goes on in a new page, once the page found is in the ring: another copy of it, torn or whole, may exist unseen.
//! Commit numbers jump for the same reason. A log that is still empty stays in its first page, which the opening writes once
//! more: the page that was read may never have been made durable, and a later replay has nothing else to go by.
//!
//! Foreign bytes are answered with [`Damaged`], never with a panic.

use super::entry::Entry;
use super::page::{self, Area, Head, PAGE_BYTES, Page};
use super::{Log, Position, Ring};
use crate::secret::Secret;
use crate::sequence::Sequence;
use std::collections::VecDeque;

/// Commit numbers go on so far above the highest seen. The last commits, one under way and perhaps many that failed, may
/// be invisible now, and yet be seen by a later replay.
const COMMITS_SKIPPED: u64 = 1 << 20;

/// No log can be made of these bytes: acknowledged invalidations may be missing, and it is unknown which. The store must
/// start empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Damaged {
    /// The area has a length that no log has.
    #[error("the invalidation log has a wrong length")]
    Length,
    /// None of the four slots holds a page of this store and epoch.
    #[error("the invalidation log has no whole page at its end")]
    NoTail,
    /// The ring is newer than the tail by more than a page, so the last pages are lost.
    #[error("the end of the invalidation log is older than the rest")]
    Stale,
}

/// The result of a replay.
#[derive(Debug)]
pub(crate) struct Replay<'a> {
    /// The log, ready to go on.
    pub log: Log,
    /// All entries above the horizon and some below, in the order in which they were appended.
    pub entries: Entries<'a>,
    /// Every acknowledged entry with a higher sequence is among the entries.
    pub horizon: Sequence,
    /// No entry that was ever acknowledged has a higher sequence, not even one that is missing.
    pub highest_sequence: Sequence,
    /// How many pages count.
    pub pages: u64,
    /// False if a page is missing, and the horizon is higher than it was when the log was last written.
    pub whole: bool,
}

#[derive(Clone, Copy)]
struct Found<'a> {
    head: Head,
    body: &'a [u8],
}

/// The pages of an area that are whole, each in its place.
struct Slots<'a> {
    places: Area,
    /// The newer of each pair.
    tails: [Option<Found<'a>>; 2],
    ring: Vec<Option<Found<'a>>>,
}

impl<'a> Replay<'a> {
    /// Reads the whole area of a log that should exist.
    ///
    /// # Errors
    /// See [`Damaged`].
    pub(crate) fn of(area: &'a [u8], epoch: u64, secret: Secret) -> Result<Self, Damaged> {
        let slots = Slots::read(area, epoch, &secret)?;
        let newest = slots.newest()?;
        let pages = slots.pages_up_to(newest);
        let first = pages.front().map_or(newest, |first| *first);
        let horizon = first.head.before;
        // The oldest page of a full ring may be gone, because the newest was being written to its place.
        let whole =
            horizon <= newest.head.horizon || pages.len() as u64 >= slots.places.ring_pages();
        let commits = slots.ring.iter().chain(&slots.tails).flatten();
        let commit = commits.map(|found| found.head.commit).max().unwrap_or(0);
        let in_ring = slots.in_ring(newest.head.number);
        let same = in_ring.is_some_and(|found| found.body == newest.body);
        let log = Log {
            area: slots.places,
            epoch,
            secret,
            page: Page {
                head: newest.head,
                body: newest.body.to_vec(),
            },
            closed: newest.head.entries > 0,
            ring: if same { Ring::Yes } else { Ring::No },
            changed: newest.head.entries == 0,
            held: pages.iter().map(|found| found.head.before).collect(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            pair: 1 - slots.newest_pair(),
            commit: commit + COMMITS_SKIPPED,
            under_way: None,
            // Entries that were found count as durable, since a clean stop asks whether all are.
            durable: Position(newest.head.end()),
            told: 0,
        };
        Ok(Self {
            log,
            horizon,
            highest_sequence: newest.head.highest,
            pages: pages.len() as u64,
            whole,
            entries: Entries {
                pages: pages.iter().map(|found| found.body).collect(),
                rest: &[],
            },
        })
    }
}

impl<'a> Slots<'a> {
    fn read(area: &'a [u8], epoch: u64, secret: &Secret) -> Result<Self, Damaged> {
        let places = Area::of(area.len() as u64).ok_or(Damaged::Length)?;
        let read = |slot: u64| {
            let at = slot as usize * PAGE_BYTES;
            let (head, body) = page::decode(area.get(at..at + PAGE_BYTES)?, epoch, secret)?;
            Some(Found { head, body })
        };
        let tails = [0, 1].map(|pair| {
            places
                .tail(pair)
                .into_iter()
                .filter_map(read)
                .max_by_key(age)
        });
        let slots = 2..2 + places.ring_pages();
        let ring = slots
            .map(|slot| read(slot).filter(|found| places.ring(found.head.number) == slot))
            .collect();
        Ok(Self {
            places,
            tails,
            ring,
        })
    }

    fn newest_of_tail(&self) -> Option<Found<'a>> {
        self.tails.into_iter().flatten().max_by_key(age)
    }

    /// The pair of the tail that has the newest page of both.
    fn newest_pair(&self) -> usize {
        let newest = self.newest_of_tail();
        usize::from(self.tails[1].as_ref().map(age) == newest.as_ref().map(age))
    }

    fn in_ring(&self, number: u64) -> Option<Found<'a>> {
        let slot = self.places.ring(number) - 2;
        self.ring.get(slot as usize).copied().flatten()
    }

    /// The page that was written last.
    fn newest(&self) -> Result<Found<'a>, Damaged> {
        let newest = self.newest_of_tail().ok_or(Damaged::NoTail)?;
        let end = |found: &Found| (found.head.number, found.head.end());
        match self.ring.iter().flatten().max_by_key(|found| end(found)) {
            Some(last) if last.head.number > newest.head.number + 1 => Err(Damaged::Stale),
            // An earlier start found this page in one slot of the tail, because a crash had prevented the other write, and put it into
            // the ring. Now that slot is gone too. Nothing newer was acknowledged: it would be in two slots.
            Some(last) if end(last) > end(&newest) => Ok(*last),
            _ => Ok(newest),
        }
    }

    /// The pages that follow one another up to this one, oldest first.
    fn pages_up_to(&self, newest: Found<'a>) -> VecDeque<Found<'a>> {
        let mut pages = VecDeque::from([newest]);
        let mut first = newest;
        let oldest = newest.head.number.saturating_sub(self.places.ring_pages());
        for number in (oldest..newest.head.number).rev() {
            match self.in_ring(number) {
                Some(found) if found.head.leads_to(&first.head) => first = found,
                _ => break,
            }
            pages.push_front(first);
        }
        pages
    }
}

/// Of two pages the one with the greater age is the newer.
fn age(found: &Found) -> (u64, u64) {
    (found.head.number, found.head.commit)
}

/// The entries of a log, read from its bytes one by one: a large log has millions.
#[derive(Clone, Debug)]
pub(crate) struct Entries<'a> {
    pages: VecDeque<&'a [u8]>,
    rest: &'a [u8],
}

impl Iterator for Entries<'_> {
    type Item = (Sequence, Entry);

    fn next(&mut self) -> Option<Self::Item> {
        while self.rest.is_empty() {
            self.rest = self.pages.pop_front()?;
        }
        // Every page was checked when it was decoded, so this is never None.
        let (sequence, entry, rest) = Entry::take(self.rest)?;
        self.rest = rest;
        Some((sequence, entry))
    }
}
