//! Man pages and completions of the command line: `cargo run -p loligo --example pages -- FOLDER`.
//!
//! ```text
//! FOLDER/man/loligo.1, loligo-serve.1, loligo-store-ls.1 …
//! FOLDER/completions/loligo.bash, _loligo (zsh), loligo.fish
//! ```
//!
//! They come from the definition that the program itself parses by, so they cannot say anything else. An example and not a
//! subcommand: the program does not carry what is needed once, when a package is made.
#![forbid(unsafe_code)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap_complete::{Shell, generate_to};

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("pages: say where to write: pages FOLDER");
        return ExitCode::from(2);
    };
    match write(&folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pages: writing to {}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}

fn write(folder: &Path) -> io::Result<()> {
    let (man, completions) = (folder.join("man"), folder.join("completions"));
    fs::create_dir_all(&man)?;
    fs::create_dir_all(&completions)?;
    // `loligo help` is for the terminal; a page for each of its subcommands would say everything twice.
    clap_mangen::generate_to(loligo::command().disable_help_subcommand(true), &man)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        generate_to(shell, &mut loligo::completed(), "loligo", &completions)?;
    }
    Ok(())
}
