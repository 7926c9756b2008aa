//! A body in the pieces that it is handed on in.

use bytes::Bytes;
use fields::Fields;

/// What a body consists of.
#[derive(Debug)]
pub enum Part {
    /// Bytes, at least one.
    Data(Bytes),
    /// The end of a body of unknown length, and the trailers behind it, if there are any.
    Trailers(Fields),
}
