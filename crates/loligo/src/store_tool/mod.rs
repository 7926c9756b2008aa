//! `loligo store`: making, reading and emptying a store that no proxy has open.
//!
//! | command | file | opens |
//! |---|---|---|
//! | init | `init` | alone, to write |
//! | inspect | `inspect` | to read |
//! | ls | `ls`, `reading` | to read |
//! | get | `get` | to read |
//! | verify | `verify` | to read |
//! | rm | `rm` | alone, to write |
//!
//! Commands that read use `store::Inspection`, which cannot write, on a device that is opened for reading: the store stays as it is. `opened` does the opening, `stored` knows keys, `show` how things look.
//!
//! Results go to standard output, everything else (progress, warnings, errors) to standard error. No colours.

mod args;
mod get;
mod init;
mod inspect;
mod ls;
mod opened;
mod reading;
mod rm;
mod show;
mod stored;
mod verify;

use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

pub use args::{STORE_HELP, StoreCommand};

/// Something asked for is not there, or not whole.
const EXIT_FOUND_WANTING: u8 = 1;
/// There is nothing to work on.
const EXIT_UNUSABLE: u8 = 2;

/// Why a command ends early: what is said, and the exit status.
#[derive(Debug)]
pub struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// What was asked for is not there, or damaged.
    fn wanting(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            code: EXIT_FOUND_WANTING,
        }
    }

    /// The store cannot be worked on.
    fn unusable(path: &Path, message: impl Display) -> Self {
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

/// Runs one command.
pub fn run(command: &StoreCommand) -> ExitCode {
    let done = match command {
        StoreCommand::Init(flags) => init::init(flags),
        StoreCommand::Inspect(flags) => inspect::inspect(flags),
        StoreCommand::Ls(flags) => ls::ls(flags),
        StoreCommand::Get(flags) => get::get(flags),
        StoreCommand::Verify(flags) => verify::verify(flags),
        StoreCommand::Rm(flags) => rm::rm(flags),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.message.is_empty() {
                eprintln!("loligo: {}", failure.message);
            }
            ExitCode::from(failure.code)
        }
    }
}

/// A line on standard output.
fn say(line: impl Display) -> Result<(), Failure> {
    writeln!(io::stdout().lock(), "{line}")?;
    Ok(())
}

/// What should be known and is no result.
fn note(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "loligo: {line}");
}
