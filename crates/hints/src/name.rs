//! The names of objects in hints.
//!
//! In `serve` and `accelerate` the name of an object is its *trace* (`store::Tracing`), a 64-bit number. The study of paper 003 uses 20 bytes, its
//! implementation two numbers ([`crate::paper`]). Registrar and view accept all of them.
//!
//! Not known here: how a trace is made.

use crate::bloom::Shape;

/// A name: its number in a directory, and its positions in a filter.
pub trait Name {
    /// The number of the name. A directory cannot tell names with the same number apart.
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
