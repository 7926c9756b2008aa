//! Places that another process still reads: they are kept from the allocator.

use extent::{Chunk, Extent, Unified};

/// The places that [`Store::protect`](crate::Store::protect) keeps from the allocator.
#[derive(Debug, Default)]
pub(crate) struct Protected {
    pub places: Vec<Extent>,
    /// Extents that only the protection keeps from being free. With an ordered policy they are freed when it ends.
    pub owed: Vec<Extent>,
}

impl Protected {
    /// The parts of protected places that lie in a region.
    pub(crate) fn within(&self, region: Extent) -> impl Iterator<Item = Extent> {
        let inside = self.places.iter().filter(move |it| it.overlaps(region));
        inside.map(move |place| common(*place, region))
    }

    /// Takes the free chunks of `place` from the allocator.
    pub(crate) fn take_free(&mut self, place: Extent, space: &mut Unified) {
        let free = space.free_pieces();
        for piece in free.into_iter().filter(|piece| piece.overlaps(place)) {
            let piece = common(piece, place);
            if space.reserve(piece) {
                self.owed.push(piece);
            }
        }
    }

    /// The allocator was rebuilt from the records, so it has the owed extents as free: takes them again.
    pub(crate) fn take_anew(&mut self, space: &mut Unified) {
        self.owed.clear();
        for place in self.places.clone() {
            self.take_free(place, space);
        }
    }
}

/// The common part of two extents that overlap.
fn common(a: Extent, b: Extent) -> Extent {
    let first = Chunk(a.first.0.max(b.first.0));
    let end = Chunk(a.end().0.min(b.end().0));
    Extent::between(first, end)
}
