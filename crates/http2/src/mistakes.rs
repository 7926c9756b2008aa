//! Deliberate mistakes, one by one, so that the simulation of a link can show that it would notice them.
//!
//! Without the feature `mistakes`, which only that simulation turns on, none can be made and the checks compile to nothing.

::mistakes::mistakes! {
    /// What was taken of a stream is announced to the client twice.
    CreditTwice "credit-twice"
    /// What was taken of the connection is never announced.
    NoCredit "no-credit"
    /// The last DATA frame of an answer does not end its stream.
    LoseEnd "lose-end"
    /// DATA is not charged to the window of the connection.
    IgnoreConnectionWindow "ignore-connection-window"
    /// A new initial window does not touch the streams that are open.
    KeepWindows "keep-windows"
    /// A stream whose window was opened again is not sent on.
    ForgetReady "forget-ready"
    /// An answer goes on behind the client's reset.
    SendBehindReset "send-behind-reset"
    /// A slot is free when the client resets, with its caller still at work.
    FreeAtReset "free-at-reset"
}
