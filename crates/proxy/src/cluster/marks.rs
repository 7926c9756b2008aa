//! How invalidations stood at moments of the past: what a fetch that began elsewhere, or on another's word, may have missed.
//!
//! A member tells a *mark* with each beat, and notes the invalidation sequence of each of its stores beside it. A front that pushes
//! says the last mark that it had heard when its fetch began. The purges that came after that mark may be missing in what was fetched,
//! and the member refuses it if one of them is about it. The front may have heard the mark late, or the push may take long: then
//! the mark is older than it had to be, which is safe.
//!
//! A front that keeps a copy of what another member holds counts it as begun [`HEARD_AFTER`] ago ([`Marks::long_ago`]): a purge may
//! have reached the front before it reached that member, but not by more than this, or it was not acknowledged.
//!
//! Not known here: what is fetched or pushed; frames.
//! Limits: [`MARKS_MAX`] marks, one each half second at most, so those of two minutes. An older one is unknown, and what speaks
//! of it is refused.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::Sequence;

use crate::clock::Instant;

/// Marks that are kept.
const MARKS_MAX: usize = 256;
/// Marks come no closer to each other; a moment earlier than asked for does no harm.
const APART: Duration = Duration::from_millis(500);
/// A purge that has not reached every member after so long was not acknowledged.
pub const HEARD_AFTER: Duration = Duration::from_secs(10);

/// Marks of this process.
pub struct Marks(Mutex<Noted>);

struct Noted {
    /// The number of the next mark. Those of another process are others: the upper half is chance.
    next: u64,
    marks: VecDeque<Mark>,
}

struct Mark {
    number: u64,
    at: Instant,
    /// Of each store.
    sequences: Box<[Sequence]>,
}

impl Marks {
    /// No marks yet. `incarnation`: differs from start to start.
    pub fn new(incarnation: u64) -> Marks {
        Marks(Mutex::new(Noted {
            next: incarnation << 32 | 1,
            marks: VecDeque::new(),
        }))
    }

    /// The mark of this moment, or of one shortly before. `sequences`: those of the stores now.
    pub fn mark(&self, now: Instant, sequences: impl FnOnce() -> Box<[Sequence]>) -> u64 {
        let mut noted = self.lock();
        if let Some(last) = noted.marks.back()
            && now.saturating_duration_since(last.at) < APART
        {
            return last.number;
        }
        let number = noted.next;
        noted.next += 1;
        if noted.marks.len() == MARKS_MAX {
            noted.marks.pop_front();
        }
        noted.marks.push_back(Mark {
            number,
            at: now,
            sequences: sequences(),
        });
        number
    }

    /// The sequence of a store at a mark; `None` if that is too old, or another process's.
    pub fn sequence_at(&self, mark: u64, store: usize) -> Option<Sequence> {
        let noted = self.lock();
        let at = noted.marks.binary_search_by_key(&mark, |mark| mark.number);
        let mark = &noted.marks[at.ok()?];
        mark.sequences.get(store).copied()
    }

    /// The sequence of a store [`HEARD_AFTER`] ago, or earlier; 0 if there was no mark then.
    pub fn long_ago(&self, now: Instant, store: usize) -> Sequence {
        let noted = self.lock();
        let is_old = |mark: &&Mark| now.saturating_duration_since(mark.at) >= HEARD_AFTER;
        let mark = noted.marks.iter().rev().find(is_old);
        mark.and_then(|mark| mark.sequences.get(store).copied())
            .unwrap_or(0)
    }

    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_tells_how_each_store_stood() {
        let marks = Marks::new(7);
        let start = Instant::now();
        let first = marks.mark(start, || Box::new([10, 20]));
        let second = marks.mark(start + APART, || Box::new([11, 20]));
        assert_eq!(marks.sequence_at(first, 0), Some(10));
        assert_eq!(marks.sequence_at(second, 0), Some(11));
        assert_eq!(marks.sequence_at(first, 2), None);
        assert_eq!(Marks::new(8).mark(start, || Box::new([])), 8 << 32 | 1);
        assert_eq!(
            marks.sequence_at(8 << 32 | 1, 0),
            None,
            "of another process"
        );
    }

    #[test]
    fn a_mark_asked_for_at_once_is_the_one_before_and_never_later() {
        let marks = Marks::new(7);
        let start = Instant::now();
        let first = marks.mark(start, || Box::new([10]));
        assert_eq!(marks.mark(start + APART / 2, || Box::new([11])), first);
        assert_eq!(marks.sequence_at(first, 0), Some(10));
    }

    #[test]
    fn the_oldest_marks_are_forgotten() {
        let marks = Marks::new(7);
        let start = Instant::now();
        let all: Vec<_> = (0..MARKS_MAX as u32 + 1)
            .map(|n| marks.mark(start + n * APART, || Box::new([n.into()])))
            .collect();
        assert_eq!(marks.sequence_at(all[0], 0), None);
        assert_eq!(marks.sequence_at(all[1], 0), Some(1));
    }

    #[test]
    fn long_ago_is_before_every_purge_that_may_be_on_its_way() {
        let marks = Marks::new(7);
        let start = Instant::now();
        for n in 0..20 {
            marks.mark(start + n * HEARD_AFTER / 10, || Box::new([n.into()]));
        }
        assert_eq!(marks.long_ago(start + HEARD_AFTER / 2, 0), 0);
        assert_eq!(marks.long_ago(start + 2 * HEARD_AFTER, 0), 10);
    }
}
