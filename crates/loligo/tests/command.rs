//! The binary as people use it: help, check, dump, exit status.

use std::path::Path;
use std::process::{Command, Output};

fn loligo(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loligo"))
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn write(dir: &Path, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = dir.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn help_teaches_by_examples() {
    for (command, example) in [
        (
            &["serve", "--help"][..],
            "loligo serve --listen 0.0.0.0:80 --allow any --reverse",
        ),
        (&["check", "--help"], "loligo check -c /etc/loligo.toml"),
        (
            &["profile", "dump", "--help"],
            "loligo profile dump requests.profile --json",
        ),
        (&["--help"], "curl -x http://127.0.0.1:3128"),
    ] {
        let output = loligo(command);
        assert_eq!(output.status.code(), Some(0));
        assert!(
            text(&output.stdout).contains(example),
            "{}",
            text(&output.stdout)
        );
    }
}

#[test]
fn settings_lists_them_all() {
    let said = text(&loligo(&["settings"]).stdout);
    assert!(said.contains("| `io-engine`<br>`--io-engine` |"), "{said}");
}

#[test]
fn check_explains_a_good_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(
        dir.path(),
        "a.toml",
        "store.path = \"the-store\"\nstore.size = \"64MiB\"\n",
    );
    let output = loligo(&["check", "-c", &file]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(said.contains("forward proxy on 127.0.0.1:3128"), "{said}");
    assert!(
        said.contains(&format!("{}/the-store", dir.path().display())),
        "{said}"
    );
    assert!(
        !dir.path().join("the-store").exists(),
        "check changes nothing"
    );
}

#[test]
fn check_tells_file_line_key_and_value() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(
        dir.path(),
        "a.toml",
        "workers = 1\n\n[store]\nsize = \"1KiB\"\nsiez = 3\n",
    );
    let output = loligo(&["check", "-c", &file, "--store", "none"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said.contains("a.toml:4: store.size = \"1KiB\": must be from 4MiB to 2TiB"),
        "{said}"
    );
    assert!(
        said.contains(
            "a.toml:5: store.siez = 3: there is no such setting here; did you mean \"store.size\"?"
        ),
        "{said}"
    );
}

#[test]
fn exit_status_2_is_for_what_can_not_be_read() {
    assert_eq!(
        loligo(&["check", "-c", "/no/such/file"]).status.code(),
        Some(2)
    );
    assert_eq!(loligo(&["serve", "--no-such-flag"]).status.code(), Some(2));
    assert_eq!(
        loligo(&["serve", "--store-size", "1"]).status.code(),
        Some(1)
    );
}

#[test]
fn a_profile_is_dumped_as_columns_and_as_json() {
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = Vec::new();
    profile::write_file_header(&mut bytes);
    let mut record = profile::Record::begun(1_700_000_000_000_000);
    record.class = profile::Class::DiskHit;
    record.encode(&mut bytes);
    record.encode(&mut bytes);
    let file = write(dir.path(), "p", &bytes[..bytes.len() - 1]);

    let output = loligo(&["profile", "dump", &file]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        text(&output.stdout).lines().count(),
        2,
        "a header and one whole record"
    );
    assert!(
        text(&output.stderr).contains("not a whole record"),
        "{}",
        text(&output.stderr)
    );

    let output = loligo(&["profile", "dump", "--json", &file]);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["class"], "disk-hit");

    let other = write(dir.path(), "q", "not a profile at all");
    let output = loligo(&["profile", "dump", &other]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("this is not a profile file"));
}
