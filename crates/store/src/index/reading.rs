//! The result of a look-up: nothing, a buffered record, or a read to carry out, which pins the record's place.
//!
//! Not known here: the index, the use of the bytes.

use crate::index::key::KeyHash;
use crate::sequence::Sequence;
use bytes::Bytes;
use extent::{Chunk, Extent};

/// A device read to carry out. It pins its extent: each must come back through [`Store::read_done`](crate::Store::read_done), even if the read
/// failed or its waiter has gone; [`Store::guard`](crate::Store::guard) ensures that.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a read pins its extent until read_done"]
pub struct Read {
    /// Where, in bytes from the start of the store.
    pub offset: u64,
    /// How many bytes: whole chunks.
    pub len: usize,
    pub(crate) hash: KeyHash,
    pub(crate) extent: Extent,
    pub(crate) began: Sequence,
    pub(crate) renew: bool,
}

impl Read {
    /// The hash that was looked up.
    pub fn hash(&self) -> KeyHash {
        self.hash
    }

    /// `Some` if the record is near the hand. If it is whole and may be served, write it again: [`Store::renew`](crate::Store::renew).
    pub fn renewal(&self) -> Option<Renewal> {
        self.renew.then_some(Renewal {
            hash: self.hash,
            first: self.extent.first,
            began: self.began,
        })
    }
}

/// A record to be written again, see [`Store::renew`](crate::Store::renew).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Renewal {
    pub(crate) hash: KeyHash,
    pub(crate) first: Chunk,
    pub(crate) began: Sequence,
}

/// The result of a look-up.
#[derive(Debug)]
pub enum Lookup {
    /// There is no such record.
    Absent,
    /// The record is on disk: carry out the read.
    OnDisk(Read),
    /// The record's write is not complete. Its bytes, as they will be on disk (except the place in the header of a
    /// waiting record).
    Buffered(Bytes),
}
