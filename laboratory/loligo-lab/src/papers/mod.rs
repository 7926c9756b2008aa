//! `loligo papers`: the claims of the five papers beside the stored results, with the age of each result.
//!
//! Nothing is measured here: `results` reads the stored results (docs/papers.toml), `told` formats them as text, JSON and a page, and
//! `documented` generates the tables of docs/papers.md.
//!
//! Not known here: how a figure was measured; each row names its command.

#[cfg(test)]
mod documented;
mod results;
mod told;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use results::Paper;

pub const PAPERS_HELP: &str = "\
Examples:
  loligo papers                                all claims, with the age of each figure
  loligo papers --paper 002                    of one paper
  loligo papers --html papers.html             a page that needs nothing besides itself
  loligo papers --json | jq '.papers[0].claims[0]'

Nothing is measured by this command. Each row names the command that makes its figures again, and the page of docs that tells the \
machine and the date: `lab`, `model` and `report` are commands of loligo, `rivals`, `bench` and `cluster` of `cargo xtask`. What follows \
from it all is in docs/papers.md.";

#[derive(Args, Debug)]
pub struct PapersFlags {
    /// One paper alone
    #[arg(long, value_name = "NUMBER", value_parser = results::NUMBERS)]
    pub paper: Option<String>,

    /// As JSON: to a file, or in place of the text
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,

    /// As a page: to a file, or in place of the text
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub html: Option<PathBuf>,
}

/// Runs the command.
pub fn run(flags: &PapersFlags) -> ExitCode {
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    match write(flags, today) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("loligo: {message}");
            ExitCode::FAILURE
        }
    }
}

fn write(flags: &PapersFlags, today: Date) -> Result<(), String> {
    let papers: Vec<Paper> = results::stored()
        .into_iter()
        .filter(|paper| flags.paper.as_ref().is_none_or(|one| *one == paper.number))
        .collect();
    let is_stdout = |path: &Option<PathBuf>| path.as_deref() == Some(Path::new("-"));
    if !is_stdout(&flags.json) && !is_stdout(&flags.html) {
        commands::print(&told::text(&papers, today));
    }
    if let Some(path) = &flags.json {
        put(path, &told::json(&papers, today))?;
    }
    match &flags.html {
        Some(path) => put(path, &told::page(&papers, today).html()),
        None => Ok(()),
    }
}

fn put(path: &Path, text: &str) -> Result<(), String> {
    match path.as_os_str() == "-" {
        true => commands::print(text),
        false => std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))?,
    }
    Ok(())
}
