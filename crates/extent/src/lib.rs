//! Where the next object goes: free-space management over one long row of chunks.
//!
//! The store is one file or device cut into *chunks* of one size. An object takes one *extent*, a run of
//! neighbouring chunks, so that one write stores it and one read brings it back. Here is kept which chunks are free:
//!
//! | type | chooses | merges neighbours through |
//! |---|---|---|
//! | [`Unified`] | the largest piece (worst fit) | front and rear hash tables |
//! | [`LinearMerge`], [`WordMerge`] | the largest piece | testing bits (words) of the bit vector in a row |
//! | [`TreeMerge`] | the largest piece | a tree ordered by address |
//! | [`FirstFit`], [`BestFit`] | the lowest, the smallest piece that fits | a tree ordered by address |
//! | [`Buddy`] | the smallest power of two that fits | the buddy's address |
//! | [`Oracle`] | any of the first three | nothing: it looks at every chunk; for tests |
//!
//! All stand behind [`SpaceManager`]. The proxy uses `Unified`; the rivals are there to be measured against.
//!
//! Not known here: objects, files, time, the size of a chunk in bytes.
//! Limits: at most 2^32 - 1 chunks.
//! Source: paper 000, sections 4.1 to 4.6.
#![forbid(unsafe_code)]

mod bitmap;
mod ends;
mod heap;
mod oracle;
mod rivals;
#[cfg(test)]
mod script;
mod types;
mod unified;

pub use oracle::{Fit, Oracle};
pub use rivals::best_fit::{BestFit, Tightest};
pub use rivals::buddy::Buddy;
pub use rivals::first_fit::{FirstFit, Lowest};
pub use rivals::linear_merge::{BitByBit, LinearMerge, Scan, ScanMerge, WordByWord, WordMerge};
pub use rivals::tree_merge::{Choose, Longest, TreeMerge, Trees};
pub use types::{Chunk, Chunks, Extent};
pub use unified::{Overlap, Unified};

/// Keeps account of which chunks are free and which are used.
///
/// The result of every call depends on nothing but the calls before it: equal sequences give equal extents.
pub trait SpaceManager {
    /// A space of `total` chunks, every one free. `total` may be 0.
    fn new_all_free(total: Chunks) -> Self
    where
        Self: Sized;

    /// Takes `len` neighbouring chunks; `None` if no free piece is that long. `len` must not be 0 (asserted).
    fn allocate(&mut self, len: Chunks) -> Option<Extent>;

    /// Gives the chunks of `e` back and merges them with free neighbours. Every chunk of `e` must be in use
    /// (asserted: a double free is our own error). Except for [`Buddy`], `e` need not be an extent as it was
    /// allocated: parts of one, or several neighbours at once, are as good.
    fn free(&mut self, e: Extent);

    /// Takes exactly `e`, as when an index is reloaded. `false`, and nothing changed, if `e` is empty, lies
    /// beyond the end, or any of its chunks is in use.
    fn reserve(&mut self, e: Extent) -> bool;

    /// How many chunks are free.
    fn free_chunks(&self) -> Chunks;

    /// How many free pieces there are; no two of them touch (except for [`Buddy`]).
    fn pieces(&self) -> usize;

    /// The longest free piece, of equal ones the lowest.
    fn largest(&self) -> Option<Extent>;

    /// The size of the space, used and free.
    fn total(&self) -> Chunks;

    /// All free pieces in order of address. Takes O(n lg n) time: for tests and reports.
    fn free_pieces(&self) -> Vec<Extent>;

    /// Checks every invariant in full, O(n lg n); says what is wrong. For tests and simulation.
    fn audit(&self) -> Result<(), String>;
}
