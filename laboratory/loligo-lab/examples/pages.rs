//! Man pages and completions of the command line: `cargo run -p loligo-lab --example pages -- FOLDER`.
//!
//! ```text
//! FOLDER/man/loligo.1, loligo-serve.1, loligo-store-ls.1 …
//! FOLDER/man-lab/loligo-bench.1, loligo-bench-polymix.1, loligo-lab.1 …   the laboratory's
//! FOLDER/completions/loligo.bash, _loligo (zsh), loligo.fish              of both programs
//! ```
//!
//! They come from the definitions that the programs themselves parse by, so they cannot say anything else. An example and not a
//! subcommand: the programs do not carry what is needed once, when packages are made.
#![forbid(unsafe_code)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;
use clap_complete::{Shell, generate_to};
use clap_mangen::Man;

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
    let [man, man_of_lab, completions] =
        ["man", "man-lab", "completions"].map(|name| folder.join(name));
    for folder in [&man, &man_of_lab, &completions] {
        fs::create_dir_all(folder)?;
    }
    // `loligo help` is for the terminal; a page for each of its subcommands would say everything twice.
    let mut all = whole().disable_help_subcommand(true);
    all.build();
    Man::new(all.clone()).generate_to(&man)?;
    for sub in all.get_subcommands() {
        let is_of_lab = loligo_lab::command()
            .find_subcommand(sub.get_name())
            .is_some();
        write_pages(sub, if is_of_lab { &man_of_lab } else { &man })?;
    }
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let mut all = loligo::completed(whole());
        generate_to(shell, &mut all, "loligo", &completions)?;
    }
    Ok(())
}

/// The command line of `loligo`, with what `loligo-lab` does of it.
fn whole() -> Command {
    let lab = loligo_lab::command();
    let of_lab = |listed: &Command| {
        let own = lab.find_subcommand(listed.get_name())?.clone();
        let about = listed.get_about().cloned().unwrap_or_default();
        Some(own.about(about).display_order(listed.get_display_order()))
    };
    loligo::command().mut_subcommands(|sub| of_lab(&sub).unwrap_or(sub))
}

fn write_pages(command: &Command, folder: &Path) -> io::Result<()> {
    Man::new(command.clone()).generate_to(folder)?;
    command
        .get_subcommands()
        .try_for_each(|sub| write_pages(sub, folder))
}
