//! Places that another process still reads: they are kept from the allocator.

use extent::{Chunk, Extent, Unified};

/// The places that [`Store::protect`](crate::Store::protect) keeps from the allocator.
#[derive(Debug, Default)]
pub(crate) struct Protected {
    pub places: Vec<Extent>,
    /// What would be free otherwise, and does not count as used by a record; with an ordered policy it is free afterwards.
    pub owed: Vec<Extent>,
}

impl Protected {
    /// Those within a region.
    pub(crate) fn within(&self, region: Extent) -> impl Iterator<Item = Extent> {
        let inside = self.places.iter().filter(move |it| it.overlaps(region));
        inside.map(move |place| common(*place, region))
    }

    /// Takes what is free in that place from the allocator.
    pub(crate) fn take_free(&mut self, place: Extent, space: &mut Unified) {
        let free = space.free_pieces();
        for piece in free.into_iter().filter(|piece| piece.overlaps(place)) {
            let piece = common(piece, place);
            if space.reserve(piece) {
                self.owed.push(piece);
            }
        }
    }

    /// The allocator was made anew from the records: it has what was owed to the one before.
    pub(crate) fn take_anew(&mut self, space: &mut Unified) {
        self.owed.clear();
        for place in self.places.clone() {
            self.take_free(place, space);
        }
    }
}

/// Where two that overlap do.
fn common(a: Extent, b: Extent) -> Extent {
    let first = Chunk(a.first.0.max(b.first.0));
    let end = Chunk(a.end().0.min(b.end().0));
    Extent::between(first, end)
}
