//! The whole command, small: two kills, on a file.

use std::process::Command;
use std::time::Instant;

use super::test_bed::{Fault, On};
use super::trial::{self, Plan};
use crate::progress::Progress;
use crate::size::Bytes;
use crate::workspace;

/// The debug build of the program. Builds the whole workspace: a build of that package alone
/// has other features, and would recompile everything in the midst of `cargo test --workspace`.
fn loligo() -> std::path::PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args([
            "test",
            "--quiet",
            "--workspace",
            "--no-run",
            "--test",
            "command",
        ])
        .current_dir(workspace::root())
        .status()
        .unwrap();
    assert!(status.success());
    workspace::target_dir().join("debug/loligo")
}

#[test]
fn two_kills() {
    let binary = loligo();
    let begun = Instant::now();
    let plan = Plan {
        on: On::File,
        kills: 2,
        seed: 12,
        seconds: (1.0, 2.0),
        faults: vec![Fault::Flip],
        store: Bytes(64 << 20),
        strict: false,
        whole_downloads: super::WHOLE_DOWNLOADS,
        bounded_waits: super::BOUNDED_WAITS,
        extra: Vec::new(),
        upgrade: false,
        kills_before: 0,
        name: format!("test-{}", std::process::id()),
    };
    let report = trial::run(&plan, &binary, &mut Progress::new("two kills", 2)).unwrap();
    assert_eq!(report.complaint(0.0), None, "{}", report.text());
    assert_eq!(report.deeds.kills, 2);
    assert!(report.objects_compared > 100, "{}", report.text());
    assert!(report.posts > 0 && report.purges > 0, "{}", report.text());
    assert!(begun.elapsed().as_secs() < 60);
}

#[test]
fn lives_have_two_ends() {
    assert_eq!(super::seconds("1..6"), Ok((1.0, 6.0)));
    assert_eq!(super::seconds("0.5..0.5"), Ok((0.5, 0.5)));
    for wrong in ["6..1", "1", "..", "-1..2", "1..1e9", "a..b"] {
        assert!(super::seconds(wrong).is_err(), "{wrong}");
    }
}
