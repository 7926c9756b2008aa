//! The `loligo` command: flags and a configuration file become a plan, and the plan runs.
//!
//! ```text
//! flags --> cli ----------+--> Raw ----> config ----> Plan ----> serve ----> the data plane
//! a file --> config::raw -+   (as said)   (checked,    \----> config::explain ("check")
//!                                          with the machine)
//! ```
//!
//! Exit status: 0 all is well; 1 the configuration is wrong, or running failed; 2 the command line is not
//! understood, or the file can not be read.
#![forbid(unsafe_code)]

mod accelerate;
mod cli;
mod completions;
mod config;
mod diagnostics;
mod dump;
mod explain;
mod laboratory;
mod profile_export;
mod reload;
mod report;
mod serve;
mod settle;
mod store_tool;
mod top;
mod upgrade;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};
use commands::{help, print};

use cli::{Cli, ClusterCommand, Command, Flags, ProfileCommand};
use config::Settled;
use config::machine::Machine;
use config::raw::Raw;
use proxy::Succession;
use settle::{complain_of, read_and_settle, settle};

/// The command line as clap knows it, with its help. Manual pages are made from it (`examples/pages.rs` of `loligo-lab`).
pub fn command() -> clap::Command {
    help::laid_out(laboratory::listed(Cli::command()))
}

/// A command line with these commands, as shells complete it.
pub fn completed(command: clap::Command) -> clap::Command {
    commands::completions::completed(command, completions::words)
}

/// Runs the command in `words`: the arguments after the program's name.
pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Vec<_> = words.collect();
    if laboratory::is_asked(&words) {
        return laboratory::hand_over(&words);
    }
    let typed = command()
        .no_binary_name(true)
        .bin_name("loligo")
        .get_matches_from(words);
    let cli = Cli::from_arg_matches(&typed).unwrap_or_else(|error| error.exit());
    match cli.command {
        Command::Serve(flags) => serve_with(flags),
        Command::Accelerate(flags) => accelerate::run(flags),
        Command::Check(flags) => match settle(&flags) {
            Ok((settled, raw)) => check(settled, &raw),
            Err(code) => code,
        },
        Command::Explain(flags) => explain::run(&flags),
        Command::Reload(flags) => reload::run(&flags),
        Command::Upgrade(flags) => upgrade::run(&flags),
        Command::Settings => {
            print(&config::reference::reference());
            ExitCode::SUCCESS
        }
        Command::Cluster(ClusterCommand::Key) => new_key(),
        Command::Store(command) => store_tool::run(&command),
        Command::Top(flags) => top::run(&flags),
        Command::Report(flags) => report::run(&flags),
        Command::Profile(ProfileCommand::Dump(flags)) => dump::dump(&flags),
        Command::Profile(ProfileCommand::Export(flags)) => profile_export::export(&flags),
    }
}

/// `loligo serve`
fn serve_with(flags: Flags) -> ExitCode {
    let mut machine = Machine::this();
    let from = match upgrade::predecessor() {
        Ok(from) => from,
        Err(why) => {
            eprintln!("loligo: this process does not take over: {why}");
            return ExitCode::FAILURE;
        }
    };
    if let Some(from) = &from {
        // The predecessor has locked these stores, and hands them over to this process.
        machine.open_stores = from.store_paths();
    }
    let launch = Some(upgrade::launch());
    match read_and_settle(&flags, &machine, |_| {}) {
        Ok((settled, raw)) => {
            let succession = Succession { from, launch };
            serve::serve(settled, raw, machine, flags, |_| {}, succession)
        }
        Err(unsettled) => {
            if let Some(from) = from {
                from.refuse(&serve::in_lines(&unsettled));
            }
            complain_of(unsettled)
        }
    }
}

/// `loligo check`, for a configuration without problems of its own.
fn check(mut settled: Settled, raw: &Raw) -> ExitCode {
    let taken = config::addresses::taken(&settled.plan);
    settled.notes.extend(taken.notes);
    print(&config::explain::explain(&settled, raw));
    for problem in &taken.problems {
        eprintln!("loligo: {problem}");
    }
    match taken.problems.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// `loligo cluster key`
fn new_key() -> ExitCode {
    match proxy::new_cluster_key() {
        Ok(key) => {
            print(&format!("{}\n", key.to_hex()));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("loligo: the system gives no random numbers: {error}");
            ExitCode::FAILURE
        }
    }
}
