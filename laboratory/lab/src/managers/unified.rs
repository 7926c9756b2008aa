//! UNIFIED: our own way, the allocator of the production store under the lab's requests.
//!
//! One file; an object is one extent, cut from the front of the largest free piece, so that objects that arrive one after the other
//! lie one after the other and go out as one write of a cluster. A read is one read. With locality buffers and lazy reads it
//! has what won in paper 002, too.
//!
//! Not known here: the regions and records of the production store; see `layouts` for those.
//! Limits: those of `extent`. When no piece is long enough the object is refused, and counted.
//! Sources: paper 000 section 4; paper 002 sections 3.5 and 3.6.

use std::io;

use extent::{Chunk, Chunks, Extent};

use super::slots::{Run, SLOT_BYTES};
use super::stream::{Options, Space, Stream};
use super::{Manager, Settings};
use crate::DiskRequest;
use crate::disks::Disk;

/// Room at the front of the largest free piece, a cluster at a time.
pub struct LargestPiece {
    space: extent::Unified,
    cluster: u32,
    /// Cut from the largest piece and not yet given out.
    open: Option<Extent>,
}

impl LargestPiece {
    fn new(slots: u32, cluster: u32) -> LargestPiece {
        LargestPiece {
            space: extent::Unified::new_all_free(Chunks(slots)),
            cluster,
            open: None,
        }
    }

    /// A run of that length; `None` if no piece is that long.
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

    /// Gives a run back.
    pub fn give_back(&mut self, run: Run) {
        self.space
            .free(Extent::new(Chunk(run.first), Chunks(run.slots)));
    }
}

/// The manager.
pub struct Unified(Stream);

impl Unified {
    /// All free. `locality`: with locality buffers and lazy reads.
    pub fn new(settings: &Settings, locality: bool) -> Unified {
        let slots = settings.file_bytes / u64::from(SLOT_BYTES);
        let slots = u32::try_from(slots).unwrap_or(u32::MAX - 1);
        let options = Options {
            packetizer: true,
            lazy: locality,
            locality,
        };
        let space = Space::Largest(LargestPiece::new(
            slots,
            settings.cluster_bytes / SLOT_BYTES,
        ));
        Unified(Stream::over(
            space,
            settings,
            options,
            settings.cluster_bytes,
        ))
    }
}

impl Manager for Unified {
    fn prepare(&mut self, disk: &mut dyn Disk) -> io::Result<()> {
        self.0.prepare(disk)
    }

    fn handle(&mut self, request: DiskRequest, disk: &mut dyn Disk) -> io::Result<()> {
        self.0.handle(request, disk)
    }

    fn finish(&mut self, disk: &mut dyn Disk) -> io::Result<()> {
        self.0.finish(disk)
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        self.0.figures()
    }
}
