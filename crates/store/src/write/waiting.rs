//! A record that waits in a locality buffer (`gather`), as its shard has it.

use crate::record::{Head, Header};
use crate::sequence::Sequence;
use bytes::Bytes;

/// See the head of the file.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// Distinguishes it from another record of its key.
    pub(super) handle: u64,
    /// As it will be on the disk, except for place and sequence.
    pub(super) bytes: Bytes,
    pub(super) header: Header,
    /// Length without padding.
    pub(super) record_bytes: u64,
    pub(super) uses: u8,
}

impl Waiting {
    /// Its bytes. Counts as a use.
    pub(crate) fn serve(&mut self) -> Bytes {
        self.uses = self.uses.saturating_add(1);
        self.bytes.clone()
    }

    /// Its length with padding.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(crate) fn began(&self) -> Sequence {
        self.header.began
    }

    pub(super) fn head(&self) -> Head<'_> {
        let head = self.header.head(&self.bytes);
        head.expect("this store has put the record together")
    }
}
