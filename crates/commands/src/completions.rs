//! Prepares a command line for shell completion: flags that take words get the words, flags that take files get files.
//!
//! A flag that stands for a setting is plain text to the parser, since the settings' own table parses it; a shell would offer the current
//! directory's files for it. Here such a flag gets the words of that table. A flag that takes neither words nor a file gets no
//! completion.
//!
//! Not known here: which flags take words; how a completion is written (`clap_complete`).

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, ValueHint};

/// Value names of flags that take a file, a folder or a device.
const FILES: [&str; 7] = [
    "DIR", "FILE", "FILES", "FOLDER", "PATH", "PROFILE", "SOURCE",
];

/// The words that a flag of this name takes; empty if it takes anything.
pub type Words = fn(&str) -> Vec<&'static str>;

/// Adds completion hints to a command and its subcommands.
pub fn completed(mut command: Command, words: Words) -> Command {
    let names: Vec<String> = (command.get_arguments())
        .map(|arg| arg.get_id().to_string())
        .collect();
    for name in names {
        command = command.mut_arg(name, |arg| hinted(arg, words));
    }
    let names: Vec<String> = (command.get_subcommands())
        .map(|sub| sub.get_name().to_owned())
        .collect();
    for name in names {
        command = command.mut_subcommand(name, |sub| completed(sub, words));
    }
    command
}

fn hinted(arg: Arg, words: Words) -> Arg {
    let takes_value = arg.get_action().takes_values();
    if !takes_value || is_known(&arg) {
        return arg;
    }
    let named = arg.get_value_names().unwrap_or_default();
    if named.iter().any(|name| FILES.contains(&name.as_str())) {
        return arg.value_hint(ValueHint::AnyPath);
    }
    match arg.get_long().map(words).unwrap_or_default() {
        words if words.is_empty() => arg.value_hint(ValueHint::Other),
        words => arg.value_parser(PossibleValuesParser::new(words)),
    }
}

fn is_known(arg: &Arg) -> bool {
    arg.get_value_hint() != ValueHint::Unknown || !arg.get_possible_values().is_empty()
}

/// For tests: panics if a flag has no hint for its value.
pub fn assert_known(command: &Command) {
    let mut values = (command.get_arguments()).filter(|arg| arg.get_action().takes_values());
    if let Some(unknown) = values.find(|arg| !is_known(arg)) {
        panic!("{} {}", command.get_name(), unknown.get_id());
    }
    command.get_subcommands().for_each(assert_known);
}
