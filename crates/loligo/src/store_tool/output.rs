//! What a command says: results, what should be known, and why it ends early.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::Path;

/// Something asked for is not there, or not whole.
const EXIT_FOUND_WANTING: u8 = 1;
/// There is nothing to work on.
const EXIT_UNUSABLE: u8 = 2;

/// Why a command ends early: what is said, and the exit status.
#[derive(Debug)]
pub struct Failure {
    pub message: String,
    pub code: u8,
}

impl Failure {
    /// What was asked for is not there, or damaged.
    pub fn wanting(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            code: EXIT_FOUND_WANTING,
        }
    }

    /// The store cannot be worked on.
    pub fn unusable(path: &Path, message: impl Display) -> Self {
        Self {
            message: format!("{}: {message}", path.display()),
            code: EXIT_UNUSABLE,
        }
    }
}

impl From<device::OpenError> for Failure {
    fn from(error: device::OpenError) -> Self {
        Self {
            message: error.to_string(),
            code: EXIT_UNUSABLE,
        }
    }
}

impl From<io::Error> for Failure {
    /// Of the output: nothing else here is done by `std::io`.
    fn from(error: io::Error) -> Self {
        // A reader that has seen enough (`head`) is no failure.
        let (message, code) = match error.kind() {
            io::ErrorKind::BrokenPipe => (String::new(), 0),
            _ => (format!("cannot write the output: {error}"), EXIT_UNUSABLE),
        };
        Self { message, code }
    }
}

/// A line on standard output.
pub fn say(line: impl Display) -> Result<(), Failure> {
    writeln!(io::stdout().lock(), "{line}")?;
    Ok(())
}

/// What should be known and is no result.
pub fn note(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "loligo: {line}");
}
