//! The laboratory at the command line: `loligo bench`, `loligo lab`, `loligo model`, `loligo papers`.
//!
//! A separate program, so that the server does not contain it. `loligo` runs it for these commands. When it is started by its own name it
//! does the same, and its help names `loligo` in either case.
//!
//! Not known here: the proxy.
#![forbid(unsafe_code)]

mod bench;
mod lab;
mod lab_traces;
mod model;
mod papers;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use commands::help;

use bench::{BENCH_HELP, BenchCommand};
use lab::{LAB_HELP, LabCommand};
use model::{MODEL_HELP, ModelCommand};
use papers::{PAPERS_HELP, PapersFlags};

#[derive(Parser, Debug)]
#[command(
    name = "loligo-lab",
    bin_name = "loligo",
    version,
    about = "The laboratory of Loligo: a load for any proxy, a storage lab, a model of clusters",
    after_help = "Each command explains itself: loligo bench --help",
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Load a proxy as a day of web traffic does, and check every byte it answers
    #[command(subcommand, after_help = BENCH_HELP)]
    Bench(BenchCommand),
    /// Ask which layout a cache's disk should have: the storage lab, paper 002 again
    #[command(subcommand, after_help = LAB_HELP)]
    Lab(LabCommand),
    /// Ask what a cluster of caches with fronts can carry: the model of paper 003, and Loligo's own costs
    #[command(subcommand, after_help = MODEL_HELP)]
    Model(ModelCommand),
    /// Show what the five papers claim beside what was found, and how old each figure is
    #[command(after_help = PAPERS_HELP)]
    Papers(PapersFlags),
}

/// The clap command line with its help texts. Man pages are made from it (`examples/pages.rs`).
pub fn command() -> clap::Command {
    help::laid_out(Cli::command())
}

/// Runs the command on the command line.
pub fn run() -> ExitCode {
    let typed = command().get_matches();
    let cli = Cli::from_arg_matches(&typed).unwrap_or_else(|error| error.exit());
    match cli.command {
        Command::Bench(command) => bench::run(&command),
        Command::Lab(command) => lab::run(&command),
        Command::Model(command) => model::run(&command),
        Command::Papers(flags) => papers::run(&flags),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::error::ErrorKind;
    use commands::pages;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
        help::assert_fits(&command());
    }

    /// Do these words, which follow the program's name, begin with a command of this program?
    fn is_ours(words: &[String]) -> bool {
        let first = words.first();
        first.is_some_and(|name| command().find_subcommand(name).is_some())
    }

    fn understood(words: &[String]) -> Result<(), clap::Error> {
        let typed = std::iter::once("loligo").chain(words.iter().map(String::as_str));
        command().try_get_matches_from(typed).map(drop)
    }

    #[test]
    fn command_lines_in_pages_are_understood() {
        let (mut count, mut wrong) = (0, Vec::new());
        for page in pages::all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")) {
            for program in ["loligo", "loligo-lab"] {
                let whole = page.commands(program).into_iter().map(|it| (it, true));
                let named = page.mentions(program).into_iter().map(|it| (it, false));
                let ours = whole.chain(named).filter(|((_, words), _)| is_ours(words));
                for ((line, words), is_whole) in ours {
                    count += 1;
                    if let Err(error) = understood(&words)
                        && (is_whole || !is_short(&words, &error))
                    {
                        let path = page.path.display();
                        wrong.push(format!("{path}:{line}: {}: {error}", words.join(" ")));
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(count > 60, "{count} commands");
    }

    /// Commands that pages mention as removed, with the commit that last had them.
    const GONE: [&str; 2] = ["freespace", "working-set"];

    /// A sentence may name a command without its required arguments, or with placeholders: `loligo bench COMMAND`.
    fn is_short(words: &[String], error: &clap::Error) -> bool {
        let stands_for_others = |word: &String| {
            let is_name = word.len() > 1 && word.bytes().all(|b| b.is_ascii_uppercase());
            is_name || word.contains('…') || word.contains("...")
        };
        let lacks = matches!(
            error.kind(),
            ErrorKind::MissingRequiredArgument
                | ErrorKind::MissingSubcommand
                | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        );
        let is_gone = words
            .get(1)
            .is_some_and(|name| GONE.contains(&name.as_str()));
        lacks || is_gone || words.iter().any(stands_for_others)
    }

    #[test]
    fn loligo_lists_these_commands_in_the_same_words() {
        let loligo = loligo::command();
        for sub in command().get_subcommands() {
            let listed = loligo.find_subcommand(sub.get_name()).unwrap();
            let about = sub.get_about().unwrap();
            let said = format!("{about} (comes with loligo-lab)");
            assert_eq!(listed.get_about().unwrap().to_string(), said);
        }
    }
}
