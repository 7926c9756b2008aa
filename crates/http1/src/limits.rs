//! How much of a head is accepted.

use crate::lenient::Lenient;

/// The most field lines in a head, if nothing else is said.
pub const FIELDS_MAX: usize = 1024;

/// How much of a head is accepted. More is refused with 431, or 414 for the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The head, from the first byte to the empty line, in bytes.
    pub head_bytes_max: usize,
    /// Field lines in a head or a trailer section. Only heads with more than a [`Scratch`](crate::Scratch) has room for cost an allocation.
    pub fields_max: usize,
    /// The request target, in bytes.
    pub target_bytes_max: usize,
    /// What is read of a response though the grammar forbids it.
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
