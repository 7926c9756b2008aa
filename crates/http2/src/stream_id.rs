//! The public handle of a stream.

/// A stream of one connection. Its number is never used again on the connection. Its slot may be, so each access checks the number.
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
