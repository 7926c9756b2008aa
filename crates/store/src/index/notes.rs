//! Notes of the entries that came to a segment or left it, for followers of an index (`trace`).

use crate::index::pieces::Short;

/// Notes of a segment, of some 2,500 entries, between two collections.
pub const NOTES_MAX: usize = 512;

/// Changes of a segment that were not collected yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    /// In the order in which they happened.
    pub notes: Vec<(Short, bool)>,
    /// Whether some were lost for want of room.
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
