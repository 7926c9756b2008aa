//! Lays help texts out for a terminal of any width.
//!
//! Texts behind the flags (`after_help`) are written in lines, as sources are. clap wraps lines longer than the terminal, so a paragraph
//! with line breaks of its own would be wrapped twice. Here each paragraph becomes one line, which clap wraps once. Indented text
//! (examples, tables) gets line breaks here, because clap would continue it at the left margin.
//!
//! Not known here: the contents of the texts.

use std::borrow::Cow;

use clap::Command;

/// Indented lines are broken at so many columns, which every terminal has.
const COLUMNS: usize = 78;
/// A gap this wide separates a command from its description.
const GAP: &str = "   ";

/// Lays out the texts of a command and its subcommands.
pub fn laid_out(mut command: Command) -> Command {
    if let Some(text) = command.get_after_help().map(ToString::to_string) {
        command = command.after_help(lay_out(&text));
    }
    let names: Vec<String> = command
        .get_subcommands()
        .map(|sub| sub.get_name().to_owned())
        .collect();
    for name in names {
        command = command.mut_subcommand(name, laid_out);
    }
    command
}

fn lay_out(text: &str) -> String {
    let mut out = String::new();
    // Does the previous line continue with this one?
    let mut goes_on = false;
    for line in text.lines() {
        let is_prose = !line.is_empty() && !line.starts_with(' ');
        if goes_on {
            out.push(if is_prose { ' ' } else { '\n' });
        } else if !out.is_empty() {
            out.push('\n');
        }
        out += &if is_prose {
            Cow::Borrowed(line)
        } else {
            indented(line)
        };
        goes_on = is_prose && !line.ends_with(':');
    }
    out
}

/// Lays out a line of an example or a table. A long command is broken by backslashes, so that it can be pasted as it is.
fn indented(line: &str) -> Cow<'_, str> {
    if line.chars().count() <= COLUMNS {
        return Cow::Borrowed(line);
    }
    let margin = line.len() - line.trim_start().len();
    let said = line.trim_start().split_once(GAP);
    let (command, remark) = said.map_or((line.trim_start(), None), |(command, remark)| {
        (command, Some(remark.trim_start()))
    });
    let mut lines = fill(&steps(command), margin, margin + 4, " \\");
    if let Some(remark) = remark {
        let words: Vec<&str> = remark.split(' ').collect();
        let column = line.find(remark).unwrap_or(margin + 6);
        if column <= COLUMNS / 3 {
            // A table: keep its second column together.
            let rows = fill(&words, column, column, "");
            lines = vec![format!(
                "{:<column$}{}",
                lines.concat(),
                rows[0].trim_start()
            )];
            lines.extend_from_slice(&rows[1..]);
        } else {
            lines.extend(fill(&words, margin + 6, margin + 6, ""));
        }
    }
    Cow::Owned(lines.join("\n"))
}

/// Splits a command where it may be broken: before a flag, or before the next command of a pipe.
fn steps(command: &str) -> Vec<&str> {
    let mut steps = Vec::new();
    let mut from = 0;
    for (at, _) in command.match_indices(' ') {
        if command[at + 1..].starts_with(['-', '|']) && !command[..at].ends_with('|') {
            steps.push(&command[from..at]);
            from = at + 1;
        }
    }
    steps.push(&command[from..]);
    steps
}

/// Fills lines with pieces: the first line begins at one column, the others at another.
fn fill(pieces: &[&str], first: usize, others: usize, tie: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = " ".repeat(first);
    let mut is_empty = true;
    for piece in pieces {
        if !is_empty && line.chars().count() + 1 + piece.chars().count() + tie.len() > COLUMNS {
            lines.push(std::mem::replace(&mut line, " ".repeat(others)) + tie);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line += piece;
        is_empty = false;
    }
    lines.push(line);
    lines
}

/// For tests: panics if a help text has wrong line breaks on terminals of usual widths.
pub fn assert_fits(command: &Command) {
    for columns in [80, 120] {
        for help in printed(command, columns) {
            let lines: Vec<&str> = help.lines().collect();
            for pair in lines.windows(2) {
                assert_pair(pair[0], pair[1], columns, &help);
            }
        }
    }
}

/// Every help text, as it is printed at this width.
fn printed(command: &Command, columns: usize) -> Vec<String> {
    fn all(command: &mut Command, out: &mut Vec<String>) {
        out.push(command.render_long_help().to_string());
        command.get_subcommands_mut().for_each(|sub| all(sub, out));
    }
    let mut command = command.clone().term_width(columns);
    command.build();
    let mut out = Vec::new();
    all(&mut command, &mut out);
    out
}

fn assert_pair(line: &str, next: &str, columns: usize, help: &str) {
    let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
    assert!(
        line.chars().count() <= columns || line.starts_with("Usage:"),
        "{line}"
    );
    // A line of prose goes on only because the next word did not fit.
    if is_prose(line) && is_prose(next) && !line.ends_with(':') {
        let word = next.split(' ').next().unwrap_or_default();
        let fits = line.chars().count() + 1 + word.chars().count() <= columns;
        assert!(!fits, "at {columns}: {line:?}, then {next:?}\n{help}");
    }
    // An indented line must continue indented.
    assert!(
        !(line.starts_with("  ")
            && is_prose(next)
            && !line.ends_with('.')
            && next.starts_with(char::is_lowercase)),
        "{line:?}, then {next:?}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_is_one_line_and_an_example_fits() {
        let text = "Examples:\n  loligo serve\n\nA paragraph of\ntwo lines.\n  \
                    loligo bench polymix --proxy 127.0.0.1:3128 --rate 5000 --cache-size 1GiB --time-scale 1/240\n  \
                    loligo check                                                  what without arguments would be done\n  \
                    bu      Boston University: time, user, machine, URL, bytes, seconds; tabs between\nThe end.";
        let expected = "Examples:\n  loligo serve\n\nA paragraph of two lines.\n  \
                        loligo bench polymix --proxy 127.0.0.1:3128 --rate 5000 --cache-size 1GiB \\\n      \
                        --time-scale 1/240\n  \
                        loligo check\n        what without arguments would be done\n  \
                        bu      Boston University: time, user, machine, URL, bytes, seconds; tabs\n          \
                        between\nThe end.";
        assert_eq!(lay_out(text), expected);
    }
}
