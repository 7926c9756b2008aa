//! The number of a cluster's write, by which a request's record finds the write that holds its object.
//!
//! Unique in the process over all stores; a start begins anew. 0 stands for none.

use base::clock::Instant;

use store::WriteId;

use record::events::{Events, number};

/// One of the stores of a set.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// The store's number in the set.
    pub index: usize,
    /// How many stores the set has.
    pub of: usize,
}

/// A write under way.
#[derive(Clone, Copy, Debug)]
pub struct Underway {
    began: Instant,
    write: profile::Write,
}

impl Member {
    /// The number of a write of this store.
    pub fn number_of(self, id: WriteId) -> u64 {
        // `index` is below `of`, so no two writes share a number.
        1 + id.number() * self.of as u64 + self.index as u64
    }

    /// A write of this store is given to the device now.
    pub fn begin(self, write: &store::Write) -> Underway {
        Underway {
            began: Instant::now(),
            write: profile::Write {
                bytes: write.data.len() as u64,
                records: write.records,
                store: number(self.index),
                cluster: self.number_of(write.id),
                ..profile::Write::default()
            },
        }
    }
}

impl Underway {
    /// Records that the device has taken the write. A failed write is not recorded, since its objects are not on disk.
    pub fn done(self, events: &Events) {
        events.write(self.began, self.write);
    }
}
