//! An object that the short way has read from disk but cannot serve as it is. The long way uses it instead of reading it again.

use store::Sequence;

use crate::object::Object;
use record::facts::SwapIn;

/// An object that was read.
pub struct Preloaded {
    /// The object, verified.
    pub object: Object,
    /// The times of the read; `None` if it was still in a buffer.
    pub swap_in: Option<SwapIn>,
    /// The invalidation sequence before the look-up.
    pub began: Sequence,
    /// [`MemoryTier::removals`](crate::memory::MemoryTier::removals) before the look-up.
    pub removals: u64,
}
