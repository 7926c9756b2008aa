//! The state of the one writer: space, open cluster, locality buffers, room.
//!
//! One lock protects all of it, and no disk hit takes that lock.
//!
//! Not known here: the index, records; how something is stored (`insert`).

use crate::evict::room::Room;
use crate::write::cluster::{OpenCluster, WriteId};
use crate::write::frontier::Frontier;
use crate::write::locality::Buffers;
use crate::write::protected::Protected;
use extent::{Extent, Unified};

/// The state that only one thread at a time may touch.
pub(crate) struct Writer {
    pub space: Unified,
    pub open: Option<OpenCluster>,
    pub buffers: Buffers,
    pub room: Room,
    /// Places that another process still reads.
    pub protected: Protected,
    next_write: u64,
    /// Bytes handed out to be written since the last checkpoint began.
    pub bytes_since_checkpoint: u64,
}

impl Writer {
    pub(crate) fn new(space: Unified, room: Room, buffers: Buffers) -> Self {
        Self {
            space,
            open: None,
            buffers,
            room,
            protected: Protected::default(),
            next_write: 0,
            bytes_since_checkpoint: 0,
        }
    }

    /// The number of the next write.
    pub(super) fn next_write(&mut self) -> WriteId {
        let id = WriteId(self.next_write);
        self.next_write += 1;
        id
    }

    /// Has the current region room left?
    pub(crate) fn has_some_room(&self) -> bool {
        let open = self.open.as_ref();
        self.space.largest().is_some() || open.is_some_and(|open| open.left().0 > 0)
    }

    /// Frees an extent; a protected one only when the protection ends. For ordered policies.
    pub(crate) fn give_back(&mut self, extent: Extent) {
        let protected = &mut self.protected;
        match protected.places.iter().any(|place| place.overlaps(extent)) {
            true => protected.owed.push(extent),
            false => self.space.free(extent),
        }
    }

    /// The state of the hand, for the next start. `None` with an ordered policy.
    pub(crate) fn frontier(&self) -> Option<Frontier> {
        let Room::Hand(hand) = &self.room else {
            return None;
        };
        let mut frontier = hand.frontier();
        // Only the free end of the region counts. Gaps before it, which large records leave, stay unused.
        frontier.rest = hand.current.and_then(|region| {
            let whole = hand.grid.extent(region..region + 1);
            let free = self.space.free_pieces();
            let last = free.into_iter().find(|free| free.end() == whole.end())?;
            Some((region, last.first))
        });
        Some(frontier)
    }
}
