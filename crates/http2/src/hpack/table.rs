//! The dynamic table of a decoder (RFC 7541 §2.3.2 and §4).
//!
//! Names and values are consecutive in one buffer. New entries are appended, old ones leave at the front; the gap in front
//! is closed once it is as long as the table may be. So the buffer is at most twice the table, and an entry costs a copy.
//!
//! Not known here: the static table.   Limit: `bytes_max`, which counts 32 bytes for each entry beside its text.

use std::collections::VecDeque;

use super::note::Note;

/// Room that an entry takes beyond its name and value (RFC 7541 §4.1).
const ENTRY_OVERHEAD_BYTES: usize = 32;

#[derive(Clone, Copy)]
struct Entry {
    /// Where the name is in `text`; the value follows.
    at: u32,
    name_len: u32,
    value_len: u32,
    note: Note,
}

impl Entry {
    fn size(&self) -> usize {
        self.text_len() + ENTRY_OVERHEAD_BYTES
    }

    fn text_len(&self) -> usize {
        self.name_len as usize + self.value_len as usize
    }
}

pub(super) struct Table {
    text: Vec<u8>,
    /// Newest first.
    entries: VecDeque<Entry>,
    /// The size of the table as RFC 7541 §4.1 counts it.
    bytes: usize,
    bytes_max: usize,
}

impl Table {
    pub(super) const fn new(bytes_max: usize) -> Self {
        Self {
            text: Vec::new(),
            entries: VecDeque::new(),
            bytes: 0,
            bytes_max,
        }
    }

    /// The entry at an index, where 0 is the newest: name, value and note.
    pub(super) fn get(&self, index: usize) -> Option<(&[u8], &[u8], Note)> {
        let entry = self.entries.get(index)?;
        let text = &self.text[entry.at as usize..][..entry.text_len()];
        let (name, value) = text.split_at(entry.name_len as usize);
        Some((name, value, entry.note))
    }

    //= rfc7541 §4.4   old entries leave first; one that is larger than the table empties it, and that is no error
    pub(super) fn push(&mut self, name: &[u8], value: &[u8], note: Note) {
        let entry_bytes = name.len() + value.len() + ENTRY_OVERHEAD_BYTES;
        self.shrink_to(self.bytes_max.saturating_sub(entry_bytes));
        if entry_bytes > self.bytes_max {
            return;
        }
        self.close_gap();
        self.entries.push_front(Entry {
            at: self.text.len() as u32,
            name_len: name.len() as u32,
            value_len: value.len() as u32,
            note,
        });
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(value);
        self.bytes += entry_bytes;
    }

    /// Gives back unused capacity.
    pub(super) fn release_buffers(&mut self) {
        self.text.shrink_to_fit();
        self.entries.shrink_to_fit();
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.text.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    //= rfc7541 §4.3
    pub(super) fn set_bytes_max(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        self.shrink_to(bytes_max);
    }

    fn shrink_to(&mut self, bytes: usize) {
        while self.bytes > bytes {
            let oldest = self.entries.pop_back().expect("bytes count the entries");
            self.bytes -= oldest.size();
        }
        if self.entries.is_empty() {
            self.text.clear();
        }
    }

    fn close_gap(&mut self) {
        let gap = match self.entries.back() {
            Some(oldest) => oldest.at,
            None => return,
        };
        if (gap as usize) < self.bytes_max {
            return;
        }
        self.text.drain(..gap as usize);
        self.entries.iter_mut().for_each(|entry| entry.at -= gap);
    }
}

#[cfg(test)]
impl Table {
    pub(super) fn text_len(&self) -> usize {
        self.text.len()
    }
}
