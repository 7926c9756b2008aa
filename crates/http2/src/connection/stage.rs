//! The states of a connection: its start, an incomplete frame or field block, its shutdown.

use std::time::Duration;

/// Our side of the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// Receives requests.
    Server,
    /// Sends requests.
    Client,
}

/// What the peer must send next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    Preface,
    FirstSettings,
    Frames,
}

/// A DATA frame that is being received.
#[derive(Clone, Copy, Debug)]
pub(super) struct DataFrame {
    pub(super) stream: u32,
    /// Bytes of the body still to come.
    pub(super) left: usize,
    /// Bytes of padding still to come.
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
    /// The length of the block, once it is complete.
    pub(super) bytes: usize,
    pub(super) began_at: Duration,
}

/// The progress of a drain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Drain {
    No,
    /// The first GOAWAY was sent. The final one follows when the client answers the PING, or at this time.
    Asked(Duration),
    /// The final GOAWAY was sent: later streams are ignored.
    Final,
}
