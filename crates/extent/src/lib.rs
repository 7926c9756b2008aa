//! Free-space management over one long row of chunks: decides where the next object is stored.
//!
//! The store is one file or device, cut into *chunks* of one size. An object takes one *extent*, a run of neighbouring chunks, so that one write
//! stores it and one read returns it. This crate keeps track of the free chunks.
//!
//! [`Unified`] keeps a bit vector of the chunks, a heap of the free pieces with the longest on top (worst fit), and front and rear hash tables, by
//! which a freed extent finds its neighbours. `benches/merge` compares it with other ways to find neighbours, and `tests/model` checks it
//! against a slow model.
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
