//! Where the next object goes: free-space management over one long row of chunks.
//!
//! The store is one file or device cut into *chunks* of one size. An object takes one *extent*, a run of
//! neighbouring chunks, so that one write stores it and one read brings it back. Here is kept which chunks are free.
//!
//! [`Unified`] keeps a bit vector of the chunks, a heap of the free pieces with the longest on top (worst fit), and front and
//! rear hash tables, by which a freed extent finds its neighbours. Other ways to find them are measured against it in
//! `benches/merge`, and a slow twin checks it in `tests/model`.
//!
//! Not known here: objects, files, time, the size of a chunk in bytes.
//! Limits: at most 2^32 - 1 chunks.
//! Source: paper 000, sections 4.1 to 4.6.
#![forbid(unsafe_code)]

mod bitmap;
mod ends;
mod heap;
#[cfg(test)]
mod script;
mod types;
mod unified;

pub use types::{Chunk, Chunks, Extent};
pub use unified::{Overlap, Unified};
