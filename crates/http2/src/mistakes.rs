//! Deliberate mistakes, one by one, so that the simulation of a link can show that it would notice them.
//!
//! Without the feature `mistakes`, which only that simulation turns on, none can be made and the checks compile to nothing.

::mistakes::mistakes! {
    /// Consumed bytes of a stream are announced to the client twice.
    CreditTwice "credit-twice"
    /// Consumed bytes of the connection are never announced.
    NoCredit "no-credit"
    /// The last DATA frame of an answer does not end its stream.
    LoseEnd "lose-end"
    /// DATA is not charged to the window of the connection.
    IgnoreConnectionWindow "ignore-connection-window"
    /// A new initial window does not touch the streams that are open.
    KeepWindows "keep-windows"
    /// A stream whose window opens again sends no more.
    ForgetReady "forget-ready"
    /// An answer goes on after the client's reset.
    SendBehindReset "send-behind-reset"
    /// A slot is freed when the client resets its stream, though the caller is still at work.
    FreeAtReset "free-at-reset"
}
