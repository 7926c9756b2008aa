//! From flags and file to a checked configuration, or to error messages on standard error.

use std::io::{self, Read as _};
use std::path::Path;
use std::process::ExitCode;

use crate::cli::Flags;
use crate::config::file::{self, FILE_BYTES_MAX};
use crate::config::machine::Machine;
use crate::config::problem::Problem;
use crate::config::raw::Raw;
use crate::config::{Settled, into_plan};

/// The exit status if a file cannot be read, or a proxy does not answer.
pub const EXIT_UNREADABLE: u8 = 2;

/// Reads the file, adds the flags, checks all of it; reports problems on standard error.
pub fn settle(flags: &Flags) -> Result<(Settled, Raw), ExitCode> {
    settle_with(flags, &Machine::this(), |_| {})
}

/// Like [`settle`], with the command's own settings added after the flags.
pub fn settle_with(
    flags: &Flags,
    machine: &Machine,
    add_own: impl Fn(&mut Raw),
) -> Result<(Settled, Raw), ExitCode> {
    read_and_settle(flags, machine, add_own).map_err(complain_of)
}

/// Prints the reason, and returns the exit status for it.
pub fn complain_of(unsettled: Unsettled) -> ExitCode {
    match unsettled {
        Unsettled::Unreadable(why) => {
            eprintln!("loligo: {why}");
            ExitCode::from(EXIT_UNREADABLE)
        }
        Unsettled::Wrong(problems) => complain(problems),
    }
}

/// Why a configuration cannot be used.
pub enum Unsettled {
    /// The file cannot be read: its name, and why.
    Unreadable(String),
    /// The configuration has these problems.
    Wrong(Vec<Problem>),
}

/// Reads the file, adds the flags, checks all of it.
pub fn read_and_settle(
    flags: &Flags,
    machine: &Machine,
    add_own: impl Fn(&mut Raw),
) -> Result<(Settled, Raw), Unsettled> {
    let mut raw = match &flags.config {
        None => Raw::default(),
        Some(path) => {
            let text = read(path)
                .map_err(|e| Unsettled::Unreadable(format!("{}: {e}", path.display())))?;
            // A file that is not TOML has no settings; messages about missing settings would mislead.
            file::parse(&text, path).map_err(|problem| Unsettled::Wrong(vec![problem]))?
        }
    };
    flags.add_to(&mut raw);
    add_own(&mut raw);
    into_plan(&raw, machine)
        .map(|settled| (settled, raw))
        .map_err(Unsettled::Wrong)
}

fn complain(problems: Vec<Problem>) -> ExitCode {
    for problem in problems {
        eprintln!("loligo: {problem}");
    }
    ExitCode::FAILURE
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?
        .take(FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "too large for a configuration file",
        ));
    }
    Ok(text)
}
