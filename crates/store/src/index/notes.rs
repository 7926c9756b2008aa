//! What came to a segment and what left, for those who follow an index from outside (`trace`).

use crate::index::pieces::Short;

/// Notes of a segment, of some 2,500 entries, between two collections.
pub const NOTES_MAX: usize = 512;

/// Changes of a segment that nobody has collected yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    /// In the order in which they happened.
    pub notes: Vec<(Short, bool)>,
    /// There were more than fit.
    pub are_lost: bool,
}

impl Notes {
    pub(crate) fn came(&mut self, short: Short) {
        self.note(short, true);
    }

    pub(crate) fn left(&mut self, short: Short) {
        self.note(short, false);
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.notes.capacity() * size_of::<(Short, bool)>()
    }

    fn note(&mut self, short: Short, came: bool) {
        match self.notes.len() < NOTES_MAX {
            true => self.notes.push((short, came)),
            false => self.are_lost = true,
        }
    }
}
