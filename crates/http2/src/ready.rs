//! Which stream sends DATA next (RFC 9218 §10).
//!
//! The lowest urgency goes first. Within an urgency, answers that are not incremental are sent one after the other, in the order of
//! the requests; incremental ones take turns, a frame each; the two kinds alternate.
//!
//! Only streams with queued bytes and an open window are here (C3 of `connection`).

use std::collections::VecDeque;

use crate::priority::{Priority, URGENCIES};
use crate::stream_id::StreamId;

#[derive(Default)]
struct Level {
    /// Sorted by identifier.
    whole: VecDeque<StreamId>,
    /// In the order of their turns.
    shared: VecDeque<StreamId>,
    shared_is_next: bool,
}

#[derive(Default)]
pub(crate) struct Ready {
    levels: [Level; URGENCIES],
    /// A bit for each level that has streams.
    filled: u8,
}

impl Ready {
    pub(crate) fn is_empty(&self) -> bool {
        self.filled == 0
    }

    #[inline]
    pub(crate) fn insert(&mut self, stream: StreamId, priority: Priority) {
        let level = self.level(priority);
        if priority.incremental {
            level.shared.push_back(stream);
        } else {
            // Nearly always the end, or the front if the stream was just taken.
            let at = level.whole.partition_point(|other| other.id < stream.id);
            level.whole.insert(at, stream);
        }
        self.filled |= 1 << priority.urgency;
    }

    /// Removes and returns the stream that sends next.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<StreamId> {
        if self.filled == 0 {
            return None;
        }
        let urgency = self.filled.trailing_zeros();
        let level = &mut self.levels[urgency as usize];
        let (first, second) = match level.shared_is_next {
            true => (&mut level.shared, &mut level.whole),
            false => (&mut level.whole, &mut level.shared),
        };
        let taken = first.pop_front().or_else(|| second.pop_front());
        level.shared_is_next = !level.shared_is_next;
        if level.whole.is_empty() && level.shared.is_empty() {
            self.filled &= !(1 << urgency);
        }
        taken
    }

    pub(crate) fn remove(&mut self, stream: StreamId, priority: Priority) {
        let level = self.level(priority);
        let queue = match priority.incremental {
            true => &mut level.shared,
            false => &mut level.whole,
        };
        queue.retain(|other| *other != stream);
        if level.whole.is_empty() && level.shared.is_empty() {
            self.filled &= !(1 << priority.urgency);
        }
    }

    /// Gives back the memory of an empty queue.
    pub(crate) fn release_buffers(&mut self) {
        if self.is_empty() {
            *self = Ready::default();
        }
    }

    /// Heap memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let of = |level: &Level| level.whole.capacity() + level.shared.capacity();
        self.levels.iter().map(of).sum::<usize>() * size_of::<StreamId>()
    }

    fn level(&mut self, priority: Priority) -> &mut Level {
        &mut self.levels[usize::from(priority.urgency)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(streams: &[(u32, &str)]) -> Vec<u32> {
        let mut ready = Ready::default();
        for &(id, priority) in streams {
            ready.insert(
                StreamId { id, slot: id },
                Priority::parse(priority.as_bytes()),
            );
        }
        std::iter::from_fn(|| ready.take().map(|stream| stream.id)).collect()
    }

    #[test]
    fn by_urgency_then_by_request() {
        assert_eq!(
            order(&[(1, "u=5"), (3, ""), (5, "u=0"), (7, "")]),
            [5, 3, 7, 1]
        );
        assert_eq!(order(&[(9, ""), (3, ""), (5, "")]), [3, 5, 9]);
    }

    #[test]
    fn incremental_ones_alternate_with_whole_ones() {
        assert_eq!(order(&[(1, "i"), (3, ""), (5, "i"), (7, "")]), [3, 1, 7, 5]);
    }

    #[test]
    fn removed_ones_are_not_taken() {
        let mut ready = Ready::default();
        let stream = StreamId { id: 1, slot: 0 };
        ready.insert(stream, Priority::default());
        ready.remove(stream, Priority::default());
        assert!(ready.is_empty());
        assert_eq!(ready.take(), None);
    }
}
