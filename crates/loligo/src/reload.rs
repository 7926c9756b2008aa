//! `loligo reload`: a running proxy reads its configuration again.
//!
//! This command asks the proxy's admin interface. The proxy reloads and reports the result, which is printed as by `loligo check`.
//!
//! Exit status: 0 the configuration is in force; 1 it was refused, or the proxy does not answer; 2 the address is malformed.

use std::process::ExitCode;

use crate::cli::ReloadFlags;
use crate::settle::EXIT_UNREADABLE;
use crate::top::ask::{self, Place};
use crate::top::words::harmless;

/// Asks the proxy to reload.
pub fn run(flags: &ReloadFlags) -> ExitCode {
    let place = match Place::parse(flags.url.as_deref().unwrap_or(ask::URL)) {
        Ok(place) => place,
        Err(why) => {
            eprintln!("loligo: {why}");
            return ExitCode::from(EXIT_UNREADABLE);
        }
    };
    let target = match flags.partial {
        true => "/reload?partial=1",
        false => "/reload",
    };
    match place.post(target) {
        Ok((200, words)) => {
            commands::print(&shown(&words));
            ExitCode::SUCCESS
        }
        Ok((status, words)) => {
            for line in shown(&words).lines() {
                eprintln!("loligo: {line}");
            }
            if status == 404 {
                eprintln!(
                    "loligo: this proxy is older than `loligo reload`; send it SIGHUP, or restart it"
                );
            }
            ExitCode::FAILURE
        }
        Err(why) => {
            eprintln!("loligo: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The text of another program, made safe for a terminal: line by line without control characters.
pub fn shown(words: &[u8]) -> String {
    let words = String::from_utf8_lossy(words);
    words
        .lines()
        .map(|line| format!("{}\n", harmless(line)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_moves_the_cursor_is_shown() {
        assert_eq!(shown(b"a\x1b[2J\nb\n").lines().count(), 2);
        assert!(!shown(b"a\x1b[2J").contains('\x1b'));
    }
}
