//! Commands of the laboratory, which another program runs: `loligo-lab`.
//!
//! A server needs no load generator and no storage lab. So `loligo bench ...` becomes `loligo-lab bench ...`, in this process: signals,
//! standard streams and exit status are those of the other program. It is searched in the folder of this program, then in PATH.
//!
//! Not known here: the arguments of these commands. The other program has their help, completions and manual pages.

use std::env;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{self, ExitCode};

use clap::Command;

const PROGRAM: &str = "loligo-lab";

/// The command could not be run.
const EXIT_NOT_RUN: u8 = 2;

/// What is handed over, and what the help of `loligo` says of it.
const COMMANDS: [(&str, &str); 4] = [
    (
        "bench",
        "Load a proxy as a day of web traffic does, and check every byte it answers",
    ),
    (
        "lab",
        "Ask which layout a cache's disk should have: the storage lab, paper 002 again",
    ),
    (
        "model",
        "Ask what a cluster of caches with fronts can carry: the model of paper 003, and Loligo's own costs",
    ),
    (
        "papers",
        "Show what the five papers claim beside what was found, and how old each figure is",
    ),
];

/// Adds the commands to the list of commands.
pub fn listed(command: Command) -> Command {
    command.subcommands(COMMANDS.map(|(name, about)| {
        let about = format!("{about} (comes with {PROGRAM})");
        Command::new(name).about(about)
    }))
}

/// Do these words after the program's name ask for a command of the laboratory, or for help about one?
pub fn is_asked(words: &[OsString]) -> bool {
    let name = match words {
        [help, name, ..] if help == "help" => name,
        [name, ..] => name,
        [] => return false,
    };
    COMMANDS.iter().any(|(known, _)| name == known)
}

/// Becomes the other program; returns only if that fails.
pub fn hand_over(words: &[OsString]) -> ExitCode {
    let beside = env::current_exe().map(|own| own.with_file_name(PROGRAM));
    let beside = beside.ok().filter(|path| path.is_file());
    let program = beside.unwrap_or_else(|| PathBuf::from(PROGRAM));
    let error = process::Command::new(&program).args(words).exec();
    if error.kind() == ErrorKind::NotFound {
        let how = match cfg!(debug_assertions) {
            true => "cargo build --package loligo-lab",
            false => "cargo build --release --package loligo-lab",
        };
        eprintln!(
            "loligo: this command comes with {PROGRAM}, which is neither beside this program nor in PATH: install the package {PROGRAM}, or \
             build it ({how})"
        );
    } else {
        eprintln!("loligo: running {}: {error}", program.display());
    }
    ExitCode::from(EXIT_NOT_RUN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_decides() {
        let is_asked = |line: &str| {
            let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            super::is_asked(&words)
        };
        for yes in ["bench", "lab trace x", "model --help", "help bench polymix"] {
            assert!(is_asked(yes), "{yes}");
        }
        for no in [
            "",
            "help",
            "serve bench",
            "benches",
            "help serve",
            "--help bench",
        ] {
            assert!(!is_asked(no), "{no}");
        }
    }

    #[test]
    fn the_help_lists_them_and_says_whose_they_are() {
        let help = crate::command().render_help().to_string();
        for (name, _) in COMMANDS {
            assert!(help.contains(&format!("\n  {name} ")), "{help}");
        }
        assert_eq!(help.matches("loligo-lab").count(), COMMANDS.len(), "{help}");
    }
}
