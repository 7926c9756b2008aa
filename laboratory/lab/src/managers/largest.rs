//! Space allocation of UNIFIED: a cluster at a time from the front of the largest free piece, by the allocator of the production store
//! (crate `extent`). Objects that arrive in sequence are adjacent and are written with one call per cluster; an
//! object is one extent, so that it is read with one call.
//!
//! Not known here: the regions and records of the production store; see `layouts` for those.
//! Limits: those of `extent`. When no piece is long enough the object is refused, and counted.
//! Source: paper 000 section 4.

use extent::{Chunk, Chunks, Extent};

use super::slots::Run;

/// Allocates from the front of the largest free piece, a cluster at a time.
pub struct LargestPiece {
    space: extent::Unified,
    cluster: u32,
    /// The rest of the cluster cut last.
    open: Option<Extent>,
}

impl LargestPiece {
    /// A space in which all slots are free.
    pub fn new(slots: u32, cluster: u32) -> LargestPiece {
        LargestPiece {
            space: extent::Unified::new_all_free(Chunks(slots)),
            cluster,
            open: None,
        }
    }

    /// Allocates a run of this length; `None` if no piece is that long.
    pub fn take(&mut self, slots: u32) -> Option<Run> {
        let want = Chunks(slots);
        let open = match self.open.take() {
            Some(open) if open.len >= want => open,
            rest => {
                rest.into_iter().for_each(|rest| self.space.free(rest));
                let cluster = want.max(Chunks(self.cluster));
                self.space.cut_largest(want, cluster)?
            }
        };
        let end = open.first.0 + slots;
        if open.len > want {
            self.open = Some(Extent::new(Chunk(end), open.len - want));
        }
        Some(Run {
            first: open.first.0,
            slots,
        })
    }

    /// Frees a run.
    pub fn give_back(&mut self, run: Run) {
        self.space
            .free(Extent::new(Chunk(run.first), Chunks(run.slots)));
    }
}
