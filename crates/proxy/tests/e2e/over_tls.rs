//! Tests of this suite once more, by clients that speak TLS ([`crate::harness::way`]).

use std::{env, process::Command};

use super::harness::way::VARIABLE;

/// Runs the tests of these names once more, in a process of its own, over TLS.
fn run_over_tls(names: &[&str]) {
    let ran = Command::new(env::current_exe().unwrap())
        .args(names)
        .env(VARIABLE, "tls")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "over TLS:\n{said}");
    assert!(!said.contains("running 0 tests"), "nothing was run");
}

/// What a cache is about, also for clients of TLS.
#[test]
fn a_part_of_the_tests_runs_over_tls() {
    if env::var_os(VARIABLE).is_none() {
        run_over_tls(&["cache::", "ranges::", "head::", "interim::", "bodies::"]);
    }
}

/// All of them: minutes, so by hand, with `--ignored`.
#[test]
#[ignore = "as long as all other tests together: by hand"]
fn all_tests_run_over_tls() {
    run_over_tls(&[]);
}
