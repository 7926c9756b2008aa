//! From the bytes of the log's area back to the log.
//!
//! The newest page is the one of highest number, then highest commit, in the tail. Before it come the pages of
//! the ring, as far back as each leads to the next without a gap. Where one is missing (torn, lost, damaged) nobody
//! can say what it held, and the one after it says how high its sequences may have been: that is the new horizon. Entries
//! below it are of no use, whole or not.
//!
//! The ring may have a page that the tail no longer has, if it was found in one slot there. It may be ahead by one; a tail that
//! is further behind has lost more than that.
//!
//! Entries that were written but never acknowledged may be found as well. They are replayed like all
//! others: to invalidate too much is allowed.
//!
//! The log goes on in a new page, once the one found is in the ring: a copy that we did not see might still be
//! somewhere, torn or whole. Commit numbers jump for the same reason. A log that is still empty stays in its first page, which is
//! written once more, by the opening: what was read may never have been made durable, and there is nothing else that a
//! later replay could go by.
//!
//! Given foreign bytes this answers [`Damaged`], never with a panic.

use super::entry::Entry;
use super::page::{self, Area, Head, PAGE_BYTES, Page};
use super::{Log, Position, Ring};
use crate::secret::Secret;
use crate::sequence::Sequence;
use std::collections::VecDeque;

/// Commit numbers go on so far above the highest seen: of the last commits, one under way and perhaps many that failed,
/// nothing may be seen now, and something by a later replay.
const COMMITS_SKIPPED: u64 = 1 << 20;

/// No log can be made of these bytes: acknowledged invalidations may be missing, and nothing says which. The store must
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

/// What was found.
#[derive(Debug)]
pub(crate) struct Replay<'a> {
    /// Ready to go on with.
    pub log: Log,
    /// All entries above the horizon and some below, in the order in which they were appended.
    pub entries: Entries<'a>,
    /// Every acknowledged entry with a higher sequence is among the entries.
    pub horizon: Sequence,
    /// No entry that was ever acknowledged has a higher sequence, not even one that is missing.
    pub highest_sequence: Sequence,
    /// How many pages count.
    pub pages: u64,
    /// False: a page is missing, and the horizon is higher than it was when the log was last written.
    pub whole: bool,
}

#[derive(Clone, Copy)]
struct Found<'a> {
    head: Head,
    body: &'a [u8],
}

impl<'a> Replay<'a> {
    /// Reads the whole area of a log that should exist.
    ///
    /// # Errors
    /// See [`Damaged`].
    pub(crate) fn of(area: &'a [u8], epoch: u64, secret: Secret) -> Result<Self, Damaged> {
        let places = Area::of(area.len() as u64).ok_or(Damaged::Length)?;
        let read = |slot: u64| {
            let at = slot as usize * PAGE_BYTES;
            let (head, body) = page::decode(area.get(at..at + PAGE_BYTES)?, epoch, &secret)?;
            Some(Found { head, body })
        };
        let tails = [0, 1].map(|pair| {
            places
                .tail(pair)
                .into_iter()
                .filter_map(read)
                .max_by_key(age)
        });
        let newest = tails.into_iter().flatten().max_by_key(age);
        let mut newest = newest.ok_or(Damaged::NoTail)?;
        let pair_of_newest = usize::from(tails[1].is_some_and(|tail| age(&tail) == age(&newest)));

        let slots = 2..2 + places.ring_pages();
        let ring: Vec<Option<Found>> = slots
            .map(|slot| read(slot).filter(|found| places.ring(found.head.number) == slot))
            .collect();
        let in_ring = |number: u64| {
            ring.get((places.ring(number) - 2) as usize)
                .copied()
                .flatten()
        };
        let end = |found: &Found| (found.head.number, found.head.end());
        if let Some(last) = ring.iter().flatten().max_by_key(|found| end(found)) {
            if last.head.number > newest.head.number + 1 {
                return Err(Damaged::Stale);
            }
            // A start found a page in one slot of the tail only, for a crash had prevented the other, put it into the ring, and
            // now that slot is gone too. Nothing newer was acknowledged: it would be in two slots.
            if end(last) > end(&newest) {
                newest = *last;
            }
        }

        let mut pages = VecDeque::from([newest]);
        let mut first = newest;
        let oldest = newest.head.number.saturating_sub(places.ring_pages());
        for number in (oldest..newest.head.number).rev() {
            match in_ring(number) {
                Some(found) if found.head.leads_to(&first.head) => first = found,
                _ => break,
            }
            pages.push_front(first);
        }

        let horizon = first.head.before;
        // The newest may have been on its way to the ring, where it took the place of the oldest.
        let whole = horizon <= newest.head.horizon || pages.len() as u64 >= places.ring_pages();
        let commits = ring.iter().chain(&tails).flatten();
        let commit = commits.map(|found| found.head.commit).max().unwrap_or(0);
        let same = in_ring(newest.head.number).is_some_and(|found| found.body == newest.body);
        let log = Log {
            area: places,
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
            pair: 1 - pair_of_newest,
            commit: commit + COMMITS_SKIPPED,
            under_way: None,
            // What was found waits for nothing more: a clean stop asks whether all is durable.
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

/// Of two pages the one that is greater in this is the newer.
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
