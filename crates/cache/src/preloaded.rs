//! What the short way has read from disk and may not serve as it is: the long way begins with it.

use store::Sequence;

use crate::object::Object;
use record::facts::SwapIn;

/// An object that was read.
pub struct Preloaded {
    /// The object, verified.
    pub object: Object,
    /// What reading it took.
    pub swap_in: Option<SwapIn>,
    /// The invalidation sequence before it was looked up.
    pub began: Sequence,
    /// [`MemoryTier::removals`](crate::memory::MemoryTier::removals) before it was looked up.
    pub removals: u64,
}
