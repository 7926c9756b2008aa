//! What the pages show is true: each configuration in them is one, each command line is understood.
//!
//! A page may show a part of a file. A block that stands alone is taken as it is; one that does not is taken as settings of a listener.
//! The commands of the laboratory belong to `loligo-lab`, whose tests look at them.

use std::ffi::OsString;
use std::path::Path;

use clap::Parser;
use commands::pages::{self, Shown};

use super::into_plan;
use super::testing::{machine, raw};
use crate::cli::Cli;
use crate::laboratory;

fn all_pages() -> Vec<Shown> {
    pages::all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
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
    for page in all_pages() {
        let path = page.path.display();
        for (line, text) in page.blocks(&["toml"]) {
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

#[test]
fn command_lines_in_pages_are_understood() {
    let mut count = 0;
    for page in all_pages() {
        for (first, words) in page.commands("loligo") {
            let typed: Vec<OsString> = words.iter().map(OsString::from).collect();
            if laboratory::is_asked(&typed) {
                continue;
            }
            count += 1;
            if let Err(error) = Cli::try_parse_from([&["loligo".to_owned()], &words[..]].concat()) {
                let path = page.path.display();
                panic!("{path}:{first}: loligo {}: {error}", words.join(" "));
            }
        }
    }
    assert!(count > 25, "{count} commands");
}
