//! The one error of this crate: a sentence for the developer who typed the command.
//!
//! No caller distinguishes kinds of errors, so an error is its text: what was being done, then why it
//! failed, outermost first.

use std::fmt;

/// Why a task stopped, as a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(String);

/// The result of everything in this crate that can fail.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// A failure with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

/// Adds to an error what was being done.
pub trait During<T> {
    /// Puts `what` before the error: "reading /a/b: no such file".
    fn during(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: fmt::Display> During<T> for std::result::Result<T, E> {
    fn during(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|e| Failure(format!("{}: {e}", what())))
    }
}

/// `fail!("no {what}")`: leaves the function with a [`Failure`] of that text.
macro_rules! fail {
    ($($arg:tt)*) => {
        return Err($crate::failure::Failure::new(format!($($arg)*)))
    };
}
pub(crate) use fail;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outermost_reason_comes_first() {
        let inner: Result<()> = Err(Failure::new("no such file"));
        let outer = inner.during(|| "reading a".into()).unwrap_err();
        assert_eq!(outer.to_string(), "reading a: no such file");
    }
}
