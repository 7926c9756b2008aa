//! Tests of this suite once more, by clients that speak TLS, or HTTP/2 ([`crate::harness::way`]).

use std::{env, process::Command};

use super::harness::way::VARIABLE;

/// What a cache is about, bodies of requests, and what clients may ask.
const PART: [&str; 6] = [
    "cache::",
    "ranges::",
    "head::",
    "interim::",
    "bodies::",
    "access::",
];

/// Runs the tests of these names once more, in a process of its own. Nothing if this is such a process.
fn run_over(way: &str, names: &[&str]) {
    if env::var_os(VARIABLE).is_some() {
        return;
    }
    let ran = Command::new(env::current_exe().unwrap())
        .args(names)
        .env(VARIABLE, way)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "over {way}:\n{said}");
    assert!(!said.contains("running 0 tests"), "nothing was run");
}

#[test]
fn a_part_of_the_tests_runs_over_tls() {
    run_over("tls", &PART);
}

#[test]
fn a_part_of_the_tests_runs_over_http2() {
    run_over("h2", &PART);
}

/// All of them: minutes, so by hand, with `--ignored`.
#[test]
#[ignore = "as long as all other tests together: by hand"]
fn all_tests_run_over_tls() {
    run_over("tls", &[]);
}

#[test]
#[ignore = "as long as all other tests together: by hand"]
fn all_tests_run_over_http2() {
    run_over("h2", &[]);
}
