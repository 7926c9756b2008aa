//! `loligo bench` as people use it: a run, its files, what is made of them. The proxy is a port where nobody listens, which
//! is all it takes to have something to report.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

fn bench(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loligo"))
        .arg("bench")
        .args(arguments)
        .current_dir(dir)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Half a second of a test against nobody.
fn run(dir: &Path, more: &[&str]) -> Output {
    // A port that was free a moment ago.
    let port = |address: &str| {
        TcpListener::bind((address, 0))
            .unwrap()
            .local_addr()
            .unwrap()
    };
    let proxy = port("127.0.0.1").to_string();
    let origin = port("127.1.0.1").to_string();
    let mut arguments = vec![
        "polymix",
        "--proxy",
        &proxy,
        "--origin",
        &origin,
        "--one-address",
        "--rate",
        "40",
        "--cache-size",
        "1MiB",
        "--time-scale",
        "1/28800",
        "--phases",
        "inc1,top1",
    ];
    arguments.extend(more);
    bench(dir, &arguments)
}

#[test]
fn help_teaches_by_examples() {
    let dir = tempfile::tempdir().unwrap();
    for (command, example) in [
        (
            "polymix",
            "loligo bench polymix --proxy http://127.0.0.1:3128",
        ),
        ("robots", "--share 2/2"),
        ("search", "loligo bench search --proxy 127.0.0.1:3128"),
        ("report", "loligo bench report run.json --html run.html"),
        ("compare", "loligo bench compare loligo.json squid.json"),
    ] {
        let output = bench(dir.path(), &[command, "--help"]);
        assert_eq!(output.status.code(), Some(0));
        assert!(text(&output.stdout).contains(example), "{command}");
    }
}

#[test]
fn a_run_is_reported_read_back_and_compared() {
    let dir = tempfile::tempdir().unwrap();
    let out = ["--label", "nobody", "--json", "a.json", "--html", "a.html"];
    let first = run(dir.path(), &out);
    // Answers were wrong: there were none.
    assert_eq!(first.status.code(), Some(1), "{}", text(&first.stderr));
    let said = text(&first.stdout);
    assert!(said.contains("no connection"), "{said}");
    assert_eq!(text(&first.stderr), "", "progress is for terminals");
    let page = std::fs::read_to_string(dir.path().join("a.html")).unwrap();
    assert!(page.contains("nobody: PolyMix-3 at 40 requests/s"));

    let again = bench(dir.path(), &["report", "a.json", "--html", "b.html"]);
    assert_eq!(again.status.code(), Some(1));
    assert_eq!(text(&again.stdout), said);
    let page_again = std::fs::read_to_string(dir.path().join("b.html")).unwrap();
    assert_eq!(page, page_again);
    let json = bench(dir.path(), &["report", "a.json", "--json", "-"]);
    let written = std::fs::read_to_string(dir.path().join("a.json")).unwrap();
    assert_eq!(text(&json.stdout), written);

    std::fs::copy(dir.path().join("a.json"), dir.path().join("c.json")).unwrap();
    let both = bench(
        dir.path(),
        &["compare", "a.json", "c.json", "--html", "both.html"],
    );
    assert_eq!(both.status.code(), Some(0), "{}", text(&both.stderr));
    assert_eq!(
        text(&both.stdout).matches("nobody").count(),
        4,
        "{}",
        text(&both.stdout)
    );
    assert!(dir.path().join("both.html").exists());
}

#[test]
fn what_is_no_report_is_refused_with_advice() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("old.json"), "{\"phases\":[]}").unwrap();
    let output = bench(dir.path(), &["report", "old.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("make it again"),
        "{}",
        text(&output.stderr)
    );
    let output = bench(dir.path(), &["report", "none.json"]);
    assert!(text(&output.stderr).contains("none.json"));
    let share = [
        "robots",
        "--proxy",
        "127.0.0.1:1",
        "--rate",
        "9",
        "--cache-size",
        "1MiB",
        "--share",
        "1/2",
    ];
    let output = bench(dir.path(), &share);
    assert!(
        text(&output.stderr).contains("--world"),
        "parts must agree on it"
    );
}
