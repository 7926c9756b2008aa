//! The state of a weeding (`weed`).

use crate::sequence::Sequence;
use bytes::Bytes;
use extent::{Chunk, Chunks, Extent};
use std::ops::Range;

/// The store's weeding. It is taken out for a step, so that this lock is not held meanwhile.
#[derive(Debug, Default)]
pub(crate) enum Bed {
    /// No weeding is under way.
    #[default]
    Idle,
    /// The weeding waits for its next step.
    Here(Box<Weeding>),
    /// A step is being taken.
    Busy,
}

/// A step that a weeding wants carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WeedStep {
    Read {
        offset: u64,
        len: usize,
    },
    /// Compute, away from the other work.
    Look,
}

/// A weeding under way.
#[derive(Debug)]
pub(crate) struct Weeding {
    /// Predicates up to here are dropped at the end.
    pub(super) upto: Sequence,
    pub(super) stage: Stage,
    /// The step was handed out.
    pub(super) handed_out: bool,
    /// Where the next batch begins, and how many chunks it spans.
    pub(super) next_chunk: u32,
    pub(super) window_chunks: u32,
    pub(super) places: Vec<Place>,
    /// The next of `places`.
    pub(super) at: usize,
    /// The places of the read under way, and its bytes.
    pub(super) span: Range<usize>,
    pub(super) bytes: Option<Bytes>,
    pub(super) failed_reads: u32,
    pub(super) read_began_ms: u64,
    pub(super) not_before_ms: u64,
}

/// Its next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    Gather,
    Read,
    Look,
    End,
}

/// A record, as the index has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) first: u32,
    pub(super) chunks: u32,
    /// Counted through all shards.
    pub(super) segment: u32,
    pub(super) was_writing: bool,
}

impl Place {
    pub(super) fn extent(self) -> Extent {
        Extent::new(Chunk(self.first), Chunks(self.chunks))
    }
}
