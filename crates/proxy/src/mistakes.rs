//! Deliberate mistakes of the proxy, one by one, so that its simulation can show that it would notice them.
//!
//! Without the feature `mistakes`, which only the simulation turns on, none can be made and the checks compile to nothing.

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

            /// How it is written on the command line.
            pub fn name(self) -> &'static str {
                match self {
                    $(Mistake::$mistake => $name,)*
                }
            }
        }
    };
}

mistakes! {
    /// A purge leaves the fetches under way in the table, where later requests join them.
    KeepFlights "keep-flights"
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
