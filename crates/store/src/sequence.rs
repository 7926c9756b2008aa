//! The order of records and invalidations.

/// The order of records and invalidations: each takes the next number.
pub type Sequence = u64;
