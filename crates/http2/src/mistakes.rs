//! Deliberate mistakes, one by one, so that the simulation of a link can show that it would notice them.
//!
//! Without the feature `mistakes`, which only that simulation turns on, none can be made and the checks compile to nothing.

macro_rules! mistakes {
    ($($(#[$doc:meta])* $mistake:ident $name:literal)*) => {
        /// What to do wrong.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Mistake {
            $($(#[$doc])* $mistake,)*
        }

        impl Mistake {
            /// All of them.
            pub const ALL: &'static [Mistake] = &[$(Mistake::$mistake),*];

            /// How it is written.
            pub fn name(self) -> &'static str {
                match self {
                    $(Mistake::$mistake => $name,)*
                }
            }
        }
    };
}

mistakes! {
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

#[cfg(feature = "mistakes")]
thread_local! {
    static MADE: std::cell::Cell<Option<Mistake>> = const { std::cell::Cell::new(None) };
}

/// From now on this mistake is made on this thread, or none.
#[cfg(feature = "mistakes")]
pub fn make_mistake(mistake: Option<Mistake>) {
    MADE.set(mistake);
}

/// Is this mistake to be made?
#[cfg(feature = "mistakes")]
pub(crate) fn makes(mistake: Mistake) -> bool {
    MADE.get() == Some(mistake)
}

/// Is this mistake to be made?
#[cfg(not(feature = "mistakes"))]
#[inline(always)]
pub(crate) const fn makes(_: Mistake) -> bool {
    false
}
