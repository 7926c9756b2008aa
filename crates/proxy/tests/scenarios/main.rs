//! HTTP caching, requirement by requirement: scenarios of a few lines each (`*.scn`), played over every way in which an
//! answer can come about: from memory, from disk, from a fetch in progress; in the reverse and in the forward role.
//!
//! `parser` is the language, `lab` the origin, proxy and clock, `player` goes through the steps. To play some of them only:
//! `SCENARIO='part of a title or file' cargo test -p proxy --test scenarios`.
//!
//! The second test holds docs/http.md to the scenarios and to the `//= rfc…` citations in the code.

mod docs;
#[allow(dead_code, unused_imports)]
#[path = "../e2e/harness/mod.rs"]
mod harness;
mod lab;
mod parser;
mod player;

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    thread,
};

use lab::{Lab, MODES, Mode};
use parser::{Scenario, Step};

#[test]
fn scenarios() {
    let all = all();
    let wanted = std::env::var("SCENARIO").unwrap_or_default();
    let chosen = |s: &&Scenario| s.title.contains(&wanted) || s.file.contains(&wanted);
    let chosen: Vec<&Scenario> = all.iter().filter(chosen).collect();
    let faults: Vec<String> = thread::scope(|scope| {
        let runs = MODES.map(|mode| {
            let chosen = &chosen;
            scope.spawn(move || run(mode, chosen))
        });
        runs.into_iter()
            .flat_map(|run| run.join().unwrap())
            .collect()
    });
    assert!(
        faults.is_empty(),
        "{} of {} scenarios in {} ways:\n{}",
        faults.len(),
        chosen.len(),
        MODES.len(),
        faults.join("\n")
    );
}

/// Plays them all in one way; returns what went wrong.
fn run(mode: Mode, scenarios: &[&Scenario]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut common: Option<Lab> = None;
    for (number, scenario) in scenarios.iter().enumerate() {
        let restarts = scenario.steps.iter().any(|s| matches!(s.1, Step::Restart));
        let other_role = if mode.forward { "reverse" } else { "forward" };
        if (restarts && !mode.disk) || scenario.with.iter().any(|with| with == other_role) {
            continue;
        }
        let prefix = format!("/s{number}");
        let played = catch_unwind(AssertUnwindSafe(|| {
            if scenario.with.iter().all(|with| is_role(with)) {
                let lab = common.get_or_insert_with(|| Lab::new(mode, &[]));
                player::play(lab, &prefix, scenario)
            } else {
                player::play(&mut Lab::new(mode, &scenario.with), &prefix, scenario)
            }
        }));
        let found = played.unwrap_or_else(|panic| {
            common = None;
            let text = panic.downcast_ref::<String>().cloned();
            vec![(scenario.line, text.unwrap_or_else(|| "panicked".to_owned()))]
        });
        for (line, fault) in found {
            let (file, title) = (&scenario.file, &scenario.title);
            faults.push(format!("{file}:{line}: ({}) {title}: {fault}", mode.name));
        }
    }
    faults
}

/// For one role only: no setting.
fn is_role(with: &str) -> bool {
    matches!(with, "forward" | "reverse")
}

/// Every scenario, by file name.
fn all() -> Vec<Scenario> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|f| f.unwrap().path())
        .collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "scn"));
    files.sort();
    let scenario = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        parser::parse(name, &fs::read_to_string(path).unwrap())
    };
    files.iter().flat_map(scenario).collect()
}
