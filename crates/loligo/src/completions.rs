//! The command line as shells are to complete it: words where words are taken, files where files are.
//!
//! A flag that stands for a setting is text to the parser, since the settings' own table reads it; a shell would offer the files of the
//! current directory for it. Here such a flag gets the words of that table. Whatever else takes neither words nor a file is completed by
//! nothing.
//!
//! Not known here: how a completion is written (`clap_complete`, `examples/pages.rs`).

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, ValueHint};

use crate::cli::FLAGS;
use crate::config::{general, listeners, stores};

/// What values are called that name a file, a folder or a device.
const FILES: [&str; 7] = [
    "DIR", "FILE", "FILES", "FOLDER", "PATH", "PROFILE", "SOURCE",
];

/// The command, and so its subcommands.
pub fn completed(mut command: Command) -> Command {
    let names: Vec<String> = (command.get_arguments())
        .map(|arg| arg.get_id().to_string())
        .collect();
    for name in names {
        command = command.mut_arg(name, hinted);
    }
    let names: Vec<String> = (command.get_subcommands())
        .map(|sub| sub.get_name().to_owned())
        .collect();
    for name in names {
        command = command.mut_subcommand(name, completed);
    }
    command
}

fn hinted(arg: Arg) -> Arg {
    let takes_value = arg.get_action().takes_values();
    let is_known =
        arg.get_value_hint() != ValueHint::Unknown || !arg.get_possible_values().is_empty();
    if !takes_value || is_known {
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

/// The words that the setting of a flag takes: those in its form that are written out.
fn words(flag: &str) -> Vec<&'static str> {
    let setting = (FLAGS.iter()).find(|(name, _)| name.strip_prefix("--") == Some(flag));
    let Some((_, key)) = setting else {
        return Vec::new();
    };
    fn forms<T>(rows: Vec<crate::config::rows::Row<T>>) -> impl Iterator<Item = (String, String)> {
        rows.into_iter().map(|row| (row.key, row.form))
    }
    let all = forms(general::rows())
        .chain(forms(listeners::rows()))
        .chain(forms(stores::rows()));
    let form = all
        .into_iter()
        .find(|(name, _)| name == key)
        .map(|(_, form)| form);
    // Between the first and the second backtick, the third and the fourth, and so on.
    let form = form.unwrap_or_default();
    let written = form.split('`').skip(1).step_by(2);
    let is_word = |text: &&str| text.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
    // The parser wants words that stay; this process ends when the completions are written.
    let stay = |text: &str| -> &'static str { String::leak(text.to_owned()) };
    written.filter(is_word).map(stay).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arg(command: &str, long: &str) -> Arg {
        let all = completed(crate::command());
        let sub = all.find_subcommand(command).unwrap();
        let mut args = sub.get_arguments();
        args.find(|arg| arg.get_long() == Some(long))
            .unwrap()
            .clone()
    }

    fn offered(command: &str, long: &str) -> Vec<String> {
        let values = arg(command, long).get_possible_values();
        values
            .iter()
            .map(|value| value.get_name().to_owned())
            .collect()
    }

    #[test]
    fn words_are_offered_where_words_are_taken() {
        assert_eq!(offered("serve", "io-engine"), ["auto", "uring", "threads"]);
        let formats = offered("check", "access-log-format");
        assert!(formats.contains(&"squid".to_owned()), "{formats:?}");
        assert_eq!(offered("serve", "allow"), ["any"]);
    }

    #[test]
    fn files_are_offered_only_where_files_are_taken() {
        let hint = |command, long| arg(command, long).get_value_hint();
        assert_eq!(hint("serve", "config"), ValueHint::AnyPath);
        assert_eq!(hint("serve", "store"), ValueHint::AnyPath);
        assert_eq!(hint("serve", "access-log"), ValueHint::AnyPath);
        assert_eq!(hint("serve", "workers"), ValueHint::Other);
        assert_eq!(hint("explain", "header"), ValueHint::Other);
        assert_eq!(hint("report", "live"), ValueHint::Other);
    }

    #[test]
    fn every_value_is_of_one_kind_and_the_parser_still_stands() {
        fn look(command: &Command) {
            for arg in command
                .get_arguments()
                .filter(|arg| arg.get_action().takes_values())
            {
                let is_known = arg.get_value_hint() != ValueHint::Unknown
                    || !arg.get_possible_values().is_empty();
                assert!(is_known, "{} {}", command.get_name(), arg.get_id());
            }
            command.get_subcommands().for_each(look);
        }
        let all = completed(crate::command());
        look(&all);
        all.debug_assert();
    }
}
