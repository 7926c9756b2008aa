//! Limits on the size of a head.

use crate::lenient::Lenient;

/// The default limit of field lines in a head.
pub const FIELDS_MAX: usize = 1024;

/// Limits on the size of a head. A larger head is refused with 431, a longer target with 414.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The head, from the first byte to the empty line, in bytes.
    pub head_bytes_max: usize,
    /// Field lines in a head or a trailer section. Heads with more lines than fit in a [`Scratch`](crate::Scratch) cost an allocation.
    pub fields_max: usize,
    /// The request target, in bytes.
    pub target_bytes_max: usize,
    /// The malformations accepted in responses.
    pub lenient: Lenient,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes_max: 64 * 1024,
            fields_max: FIELDS_MAX,
            target_bytes_max: 16 * 1024,
            lenient: Lenient::NOTHING,
        }
    }
}
