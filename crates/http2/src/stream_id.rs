//! Which stream of a connection.

/// A stream of one connection. The number is never used again on it; the place in memory may be, and is checked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StreamId {
    pub(crate) id: u32,
    pub(crate) slot: u32,
}

impl StreamId {
    /// The number on the wire, odd.
    pub const fn number(self) -> u32 {
        self.id
    }
}
