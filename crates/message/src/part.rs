//! A body, handed on in pieces.

use bytes::Bytes;
use fields::Fields;

/// A piece of a body.
#[derive(Debug)]
pub enum Part {
    /// Bytes, at least one.
    Data(Bytes),
    /// The end of a body of unknown length, with its trailers, if any.
    Trailers(Fields),
}
