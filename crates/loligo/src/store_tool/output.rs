//! The output of commands: results, notes, and errors.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::Path;

/// The exit status if something requested is not there, or is damaged.
const EXIT_FOUND_WANTING: u8 = 1;
/// The exit status if the store cannot be used.
const EXIT_UNUSABLE: u8 = 2;

/// Why a command ends early: the message and the exit status.
#[derive(Debug)]
pub struct Failure {
    pub message: String,
    pub code: u8,
}

impl Failure {
    /// Something requested is not there, or is damaged.
    pub fn wanting(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            code: EXIT_FOUND_WANTING,
        }
    }

    /// The store cannot be used.
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
    /// An error of the output: nothing else here uses `std::io`.
    fn from(error: io::Error) -> Self {
        // It is no failure if the reader of the output has closed it (`head`).
        let (message, code) = match error.kind() {
            io::ErrorKind::BrokenPipe => (String::new(), 0),
            _ => (format!("cannot write the output: {error}"), EXIT_UNUSABLE),
        };
        Self { message, code }
    }
}

/// Prints a line on standard output.
pub fn say(line: impl Display) -> Result<(), Failure> {
    writeln!(io::stdout().lock(), "{line}")?;
    Ok(())
}

/// Prints a note, which is not a result, on standard error.
pub fn note(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "loligo: {line}");
}
