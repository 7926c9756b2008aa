//! Where a connection stands: in its beginning, in a frame, in a block, at its end.

use std::time::Duration;

/// Which side of a connection we are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// Requests come.
    Server,
    /// Requests go out.
    Client,
}

/// What is expected of the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    Preface,
    FirstSettings,
    Frames,
}

/// A DATA frame of which not all has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct DataFrame {
    pub(super) stream: u32,
    /// Of the body.
    pub(super) left: usize,
    /// Behind it.
    pub(super) padding: usize,
    pub(super) ends: bool,
}

/// A block whose last frame has not come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incomplete {
    pub(super) stream: u32,
    pub(super) ends: bool,
    pub(super) depends_on_itself: bool,
    pub(super) continuations: usize,
    /// Of the whole block.
    pub(super) bytes: usize,
    pub(super) began_at: Duration,
}

/// How far a drain has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Drain {
    No,
    /// The client was told; at this time, or when it answers the PING, it is told the last stream.
    Asked(Duration),
    /// Later streams are not ours.
    Final,
}
