//! Shell completions of the value of a flag that stands for a setting: the words in the table of settings.

use crate::cli::FLAGS;
use crate::config::rows::Row;
use crate::config::{general, listeners, stores};

/// The words that the setting of a flag takes: the literal ones in its form.
pub fn words(flag: &str) -> Vec<&'static str> {
    let setting = (FLAGS.iter()).find(|(name, _)| name.strip_prefix("--") == Some(flag));
    let Some((_, key)) = setting else {
        return Vec::new();
    };
    fn forms<T>(rows: Vec<Row<T>>) -> impl Iterator<Item = (String, String)> {
        rows.into_iter().map(|row| (row.key, row.form))
    }
    let all = forms(general::rows())
        .chain(forms(listeners::rows()))
        .chain(forms(stores::rows()));
    let form = all
        .into_iter()
        .find(|(name, _)| name == key)
        .map(|(_, form)| form);
    // Literal words are in backticks: every second piece of the split.
    let form = form.unwrap_or_default();
    let written = form.split('`').skip(1).step_by(2);
    let is_word = |text: &&str| text.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
    // The parser needs `'static` words; this process ends once the completions are written.
    let stay = |text: &str| -> &'static str { String::leak(text.to_owned()) };
    written.filter(is_word).map(stay).collect()
}

#[cfg(test)]
mod tests {
    use clap::{Arg, ValueHint};
    use commands::completions::assert_known;

    use crate::{command, completed};

    fn arg(command_name: &str, long: &str) -> Arg {
        let all = completed(command());
        let sub = all.find_subcommand(command_name).unwrap();
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
        let all = completed(command());
        assert_known(&all);
        all.debug_assert();
    }
}
