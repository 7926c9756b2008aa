//! What the pages show is true: each configuration in them is one, each command line is understood.
//!
//! A page may show a part of a file. A block that stands alone is taken as it is; one that does not is taken as settings of a listener.
//! `loligo bench`, `lab` and `model` belong to `loligo-lab`, whose command line is not known here.

use std::path::{Path, PathBuf};

use clap::Parser;

use super::into_plan;
use super::testing::{machine, raw};
use crate::cli::Cli;

/// Every page that an operator reads, with its text.
fn pages() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = std::fs::read_dir(root.join("docs")).expect("docs");
    let mut paths: Vec<PathBuf> = docs.map(|entry| entry.expect("a page").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    paths.extend(["README.md", "deploy/README.md"].map(|page| root.join(page)));
    paths.sort();
    let named = paths.into_iter().map(|path| {
        let text = std::fs::read_to_string(&path).expect("a page");
        (path.display().to_string(), text)
    });
    named.collect()
}

/// The blocks of a page in one of these languages: number of the first line, and text.
fn blocks(page: &str, languages: &[&str]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, bool, String)> = None;
    for (number, line) in page.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(language)) => {
                open = Some((number + 2, languages.contains(&language), String::new()));
            }
            (None, None) => {}
            (Some(_), Some(_)) => {
                let (first, is_wanted, text) = open.take().expect("an open block");
                found.extend(is_wanted.then_some((first, text)));
            }
            (Some((_, _, text)), None) => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    found
}

/// Why a file would not be taken, on a machine that has room for everything and the files that it names.
fn refusal(text: &str) -> Option<String> {
    let planned = raw(text).and_then(|raw| into_plan(&raw, &machine()));
    let problems = planned.err()?;
    let mut told = problems.iter().map(ToString::to_string);
    let of_machine = ["do not fit", "No such file"];
    told.find(|problem| !of_machine.iter().any(|words| problem.contains(words)))
}

#[test]
fn configurations_in_pages_are_taken() {
    let (mut count, mut refused) = (0, Vec::new());
    for (path, page) in pages() {
        for (line, text) in blocks(&page, &["toml"]) {
            count += 1;
            let of_listener = format!(
                "[[listener]]\naddress = \"10.0.0.5:8080\"\nallow = \"10.0.0.0/8\"\n{text}"
            );
            if let Some(why) = refusal(&text)
                && let Some(inside) = refusal(&of_listener)
            {
                refused.push(format!("{path}:{line}: {why}; in a listener: {inside}"));
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(count > 30, "{count} blocks");
}

/// The words of a command of this program, without what a shell takes away.
fn command(line: &str) -> Option<Vec<String>> {
    let line = line.trim_start().trim_start_matches("$ ");
    let rest = line.strip_prefix("loligo ")?;
    let rest = rest.split(" #").next()?;
    let rest = rest.split("&&").next()?;
    let mut words = vec!["loligo".to_owned()];
    let mut is_quoted = false;
    let mut word = String::new();
    for character in rest.chars().chain([' ']) {
        match character {
            '\'' => is_quoted = !is_quoted,
            '>' | '&' | '|' if !is_quoted => break,
            ' ' if !is_quoted => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            other => word.push(other),
        }
    }
    Some(words)
}

#[test]
fn command_lines_in_pages_are_understood() {
    let mut count = 0;
    for (path, page) in pages() {
        for (first, text) in blocks(&page, &["sh", "console"]) {
            let text = text.replace("\\\n", " ");
            for words in text.lines().filter_map(command) {
                if ["bench", "lab", "model"].contains(&words[1].as_str()) {
                    continue;
                }
                count += 1;
                if let Err(error) = Cli::try_parse_from(&words) {
                    panic!("{path}:{first}: {}: {error}", words.join(" "));
                }
            }
        }
    }
    assert!(count > 25, "{count} commands");
}
