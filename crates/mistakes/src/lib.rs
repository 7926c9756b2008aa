//! Deliberate mistakes, one by one, so that a simulation can show that it would notice them.
//!
//! A crate that is simulated lists its own with [`mistakes!`], in a module `mistakes`, and asks `makes(...)` where one would be made.
//! Without the feature `mistakes` of *that* crate, which only its simulation turns on, none can be made and the checks compile to
//! nothing. One is made by a thread, since a simulation has one.
//!
//! Not for the store: several of them run on one thread of its simulation, so each has its mistakes in its settings.
#![forbid(unsafe_code)]

/// Defines `Mistake`, with a line for each one and its name on the command line; `make_mistake`; and `makes`.
#[macro_export]
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
        pub fn makes(mistake: Mistake) -> bool {
            MADE.get() == Some(mistake)
        }

        /// Is this mistake to be made?
        #[cfg(not(feature = "mistakes"))]
        #[inline(always)]
        pub const fn makes(_: Mistake) -> bool {
            false
        }
    };
}
