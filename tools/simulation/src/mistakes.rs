//! Deliberate mistakes of the store, by name: they prove that the simulation would notice real ones.
//!
//! Each mistake removes one precaution of the store. `cargo xtask sim --mistakes` switches on one after the other and runs seeds until
//! one fails. A mistake that no seed notices is a gap in the simulation (or the precaution is useless).
//!
//! Not known here: how the store implements them.

use std::fmt;
use std::str::FromStr;

pub use store::Mistake;

/// A mistake by its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named(pub Mistake);

/// There is no such mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownMistake(String);

impl fmt::Display for UnknownMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Mistake::ALL.iter().chain(&Mistake::SELDOM);
        let names: Vec<_> = known.map(|mistake| mistake.name()).collect();
        write!(
            f,
            "no mistake is called {:?}; there are {}",
            self.0,
            names.join(", ")
        )
    }
}

impl std::error::Error for UnknownMistake {}

impl FromStr for Named {
    type Err = UnknownMistake;

    fn from_str(text: &str) -> Result<Self, UnknownMistake> {
        let mut known = Mistake::ALL.iter().chain(&Mistake::SELDOM);
        let found = known.find(|mistake| mistake.name() == text);
        found
            .map(|mistake| Self(*mistake))
            .ok_or_else(|| UnknownMistake(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for mistake in Mistake::ALL.into_iter().chain(Mistake::SELDOM) {
            assert_eq!(mistake.name().parse(), Ok(Named(mistake)));
        }
        let error = "no-idea".parse::<Named>().unwrap_err().to_string();
        assert!(error.contains("no-idea") && error.contains("no-log"));
    }
}
