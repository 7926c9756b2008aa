//! HTTP caching, requirement by requirement: scenarios of a few lines each (`*.scn`), played over every way in which an
//! answer can come about: from memory, from disk, from a fetch in progress; in the reverse and in the forward role. Some of these ways are
//! played by clients that speak TLS or HTTP/2 as well; `LOLIGO_E2E_WAY=tls`, or `h2`, plays them all so.
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
    env, fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    process::Command,
    thread,
};

use harness::way::{VARIABLE, Way, way};
use lab::{Lab, MODES, Mode};
use parser::{Scenario, Step};

/// Names the modes to play, all of them if it is not set.
const MODES_VARIABLE: &str = "SCENARIO_MODES";

#[test]
fn scenarios() {
    let only = env::var(MODES_VARIABLE).unwrap_or_default();
    let is_chosen = |mode: &&Mode| only.is_empty() || only.split('|').any(|it| it == mode.name);
    let modes: Vec<Mode> = MODES.iter().filter(is_chosen).copied().collect();
    assert!(!modes.is_empty(), "no mode is named {only}");
    let all = all();
    let wanted = env::var("SCENARIO").unwrap_or_default();
    let chosen = |s: &&Scenario| s.title.contains(&wanted) || s.file.contains(&wanted);
    let chosen: Vec<&Scenario> = all.iter().filter(chosen).collect();
    let faults: Vec<String> = thread::scope(|scope| {
        let chosen = &chosen;
        let runs = modes
            .iter()
            .map(|mode| scope.spawn(move || run(*mode, chosen)));
        let runs: Vec<_> = runs.collect();
        runs.into_iter()
            .flat_map(|run| run.join().unwrap())
            .collect()
    });
    assert!(
        faults.is_empty(),
        "{} of {} scenarios in {} ways:\n{}",
        faults.len(),
        chosen.len(),
        modes.len(),
        faults.join("\n")
    );
}

/// Plays some modes once more, in a process of its own whose clients speak TLS or HTTP/2. Nothing if this is such a process.
fn play_over(way: &str, modes: &[&str]) {
    if env::var_os(VARIABLE).is_some() {
        return;
    }
    let played = Command::new(env::current_exe().unwrap())
        .args(["--exact", "scenarios"])
        .env(VARIABLE, way)
        .env(MODES_VARIABLE, modes.join("|"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&played.stdout);
    let told = String::from_utf8_lossy(&played.stderr);
    assert!(played.status.success(), "over {way}:\n{said}\n{told}");
}

#[test]
fn some_are_played_over_tls() {
    play_over("tls", &["disk, reverse"]);
}

#[test]
fn some_are_played_over_http2() {
    play_over("h2", &["memory, forward", "fetch in progress, reverse"]);
}

/// All over each: a minute or two, so by hand, with `--ignored`.
#[test]
#[ignore = "takes several times as long as the others: by hand"]
fn all_are_played_over_each_way() {
    play_over("tls", &[]);
    play_over("h2", &[]);
}

/// Plays them all in one way; returns what went wrong.
fn run(mode: Mode, scenarios: &[&Scenario]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut common: Option<Lab> = None;
    let is_http2 = way() == Way::H2;
    for (number, scenario) in scenarios.iter().enumerate() {
        let restarts = scenario.steps.iter().any(|s| matches!(s.1, Step::Restart));
        let other_role = if mode.forward { "reverse" } else { "forward" };
        let is_out = |with: &String| with == other_role || (is_http2 && with == "http1");
        if (restarts && !mode.disk) || scenario.with.iter().any(is_out) {
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

/// Says where it is played: no setting.
fn is_role(with: &str) -> bool {
    matches!(with, "forward" | "reverse" | "http1")
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
