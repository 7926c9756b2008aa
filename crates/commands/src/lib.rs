//! What the programs `loligo` and `loligo-lab` have in common at the command line.
//!
//! Their help is laid out alike ([`help`]), shells complete them alike ([`completions`]), both read and print sizes and times
//! ([`units`]), and both write reports as text, JSON, pages and drawings ([`out`]).
//!
//! Not known here: what the commands do.
#![forbid(unsafe_code)]

pub mod completions;
pub mod drawings;
pub mod help;
pub mod out;
pub mod units;

use std::io::{self, Write as _};

use rustix::process::{Resource, getrlimit, setrlimit};

/// Prints to standard output. A reader that has seen enough is no failure.
pub fn print(text: &str) {
    let _ = io::stdout().lock().write_all(text.as_bytes());
}

/// Raises the number of files this process may open to the most it is granted. Failing that we keep what we have.
pub fn raise_files_limit() -> io::Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}
