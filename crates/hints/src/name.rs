//! What the objects of a cluster are called in hints.
//!
//! In `serve` and `accelerate` the name of an object is its *trace* (`store::Tracing`), a number of 64 bits. The study of paper 003 names
//! them by 20 bytes, its implementation by two numbers ([`crate::paper`]). Registrar and view take any of them.
//!
//! Not known here: how a trace is made.

use crate::bloom::Shape;

/// A name: what a directory has of it, and which bits of a filter.
pub trait Name {
    /// As a number; two names that share it are one to a directory.
    fn number(&self) -> u64;

    /// Its positions in a filter of this shape, each below [`Shape::bits`]. Two of them may be the same.
    fn positions(&self, shape: Shape) -> impl Iterator<Item = u32>;
}

impl Name for u64 {
    fn number(&self) -> u64 {
        *self
    }

    #[inline]
    fn positions(&self, shape: Shape) -> impl Iterator<Item = u32> {
        shape.positions(*self)
    }
}
