//! `loligo profile export` as people use it.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use profile::{Class, Event, MARK_TEXT_BYTES_MAX, Mark, MarkKind, Record};

fn export(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loligo"))
        .args(["profile", "export"])
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Two requests and a mark between them.
fn profile() -> Vec<u8> {
    let mut bytes = Vec::new();
    profile::write_file_header(7, &mut bytes);
    let mut record = Record::begun(1_700_000_000_000_000);
    record.class = Class::DiskHit;
    record.encode(&mut bytes);
    let mark = Mark {
        at_unix_us: 1_700_000_000_500_000,
        kind: MarkKind::Purge,
        text: "a, \"b\"".to_owned(),
    };
    assert!(mark.text.len() < MARK_TEXT_BYTES_MAX);
    Event::Mark(mark).encode(&mut bytes);
    record.class = Class::Miss;
    record.encode(&mut bytes);
    bytes
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn file(&self, name: &str, bytes: &[u8]) -> String {
        std::fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

#[test]
fn requests_and_events_are_two_tables() {
    let folder = Folder::new();
    let file = folder.file("a,b.profile", &profile());
    let output = export(&[&file, "--csv", "-"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let csv = text(&output.stdout);
    let lines: Vec<&str> = csv.split("\r\n").collect();
    assert_eq!(lines.len(), 4, "names, two requests, nothing: {csv}");
    assert!(lines[0].starts_with("source,began,total_us,class,"));
    let quoted = format!("\"{file}\",2023-11-14T22:13:20.000000Z,0,disk-hit,");
    assert!(lines[1].starts_with(&quoted), "{}", lines[1]);
    assert!(lines[2].contains(",miss,"));

    let csv = text(&export(&[&file, &file, "--csv", "-", "--events"]).stdout);
    let lines: Vec<&str> = csv.split("\r\n").collect();
    assert_eq!(lines.len(), 4, "{csv}");
    let end = ",purge,\"a, \"\"b\"\"\"";
    assert!(lines[1].ends_with(end) && lines[2].ends_with(end), "{csv}");
}

#[test]
fn a_file_appears_when_it_is_whole() {
    let folder = Folder::new();
    let file = folder.file("a", &profile());
    let out = folder.path("out.csv");
    assert!(export(&[&file, "--csv", &out]).status.success());
    assert_eq!(folder.names(), ["a", "out.csv"]);
    assert_eq!(
        std::fs::read_to_string(&out)
            .unwrap()
            .matches("\r\n")
            .count(),
        3
    );
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_has_its_marks_at_both_ends() {
    let folder = Folder::new();
    let file = folder.file("a", &profile());
    let out = folder.path("out.parquet");
    let output = export(&[&file, "--parquet", &out]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let bytes = std::fs::read(&out).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
}

#[test]
fn bad_input_is_told_and_writes_nothing() {
    let folder = Folder::new();
    let good = folder.file("good", &profile());
    let foreign = folder.file("foreign", b"hello, world, hello");
    let mut later = profile();
    later[8] = 9;
    let later = folder.file("later", &later);
    let out = folder.path("out.csv");
    for (file, why) in [
        (&*foreign, "foreign: this is not a profile file"),
        (&later, "later: profile format version 9 is not known here"),
        (&folder.path("none"), "none: No such file"),
    ] {
        let output = export(&[&good, file, "--csv", &out]);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            text(&output.stderr).contains(why),
            "{}",
            text(&output.stderr)
        );
    }
    let output = export(&[&good, "--csv", &good]);
    assert!(text(&output.stderr).contains("would overwrite this profile"));
    assert_eq!(folder.names(), ["foreign", "good", "later"]);
    assert_eq!(std::fs::read(&good).unwrap(), profile());
    assert_eq!(export(&[&good]).status.code(), Some(2));
    assert_eq!(
        export(&[&good, "--csv", "-", "--parquet", "-"])
            .status
            .code(),
        Some(2)
    );
}

#[test]
fn a_torn_file_gives_the_rest() {
    let folder = Folder::new();
    let whole = profile();
    let torn = [&whole[..whole.len() - 1], &whole].concat();
    let file = folder.file("torn", &torn);
    let output = export(&[&file, "--csv", "-"]);
    assert!(output.status.success());
    assert_eq!(text(&output.stdout).matches("\r\n").count(), 4);
    assert!(text(&output.stderr).contains("torn: "));
    assert!(text(&output.stderr).contains("are not a whole record"));
}

#[test]
fn standard_input_is_read_and_a_closed_pipe_is_no_failure() {
    let mut bytes = Vec::new();
    profile::write_file_header(7, &mut bytes);
    for i in 0..50_000 {
        Record::begun(1_700_000_000_000_000 + i).encode(&mut bytes);
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_loligo"))
        .args(["profile", "export", "-", "--csv", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Close the output before its end.
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        // The command may end before it has read all input.
        let _ = stdin.write_all(&bytes);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    assert_eq!(text(&output.stderr), "");
}
