//! The common parts of the command lines of `loligo` and `loligo-lab`.
//!
//! Their help is laid out alike ([`help`]), shells complete them alike ([`completions`]), both read and print sizes and times
//! ([`units`]), and both write reports as text, JSON, pages and drawings ([`out`]). The tests of both read their command lines in pages ([`pages`]).
//!
//! Not known here: the commands.
#![forbid(unsafe_code)]

pub mod completions;
pub mod drawings;
pub mod help;
pub mod out;
pub mod pages;
pub mod units;

use std::io::{self, Write as _};

use rustix::process::{Resource, getrlimit, setrlimit};

/// Prints to standard output. Errors are ignored, since a reader may close the pipe early.
pub fn print(text: &str) {
    let _ = io::stdout().lock().write_all(text.as_bytes());
}

/// Raises this process's limit of open files to the maximum granted. On an error the present limit stays.
pub fn raise_files_limit() -> io::Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}
