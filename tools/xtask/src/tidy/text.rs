//! Rules about single files.

use std::path::Path;

use super::{Finding, Severity};

/// One file, one story: a file of more lines gets a warning, above the second limit an error.
const LINES_WARNED: usize = 800;
const LINES_MAX: usize = 1200;

/// The only crate that may hold `unsafe`.
const UNSAFE_CRATE: &str = "crates/device/";
const FORBID: &str = "#![forbid(unsafe_code)]";

/// Kinds of files whose lines must not end in white space.
const TEXT: [&str; 6] = ["rs", "toml", "md", "sh", "yml", "json"];

/// Written in pieces, so that this file does not match itself.
const UNFINISHED: [&str; 4] = [
    concat!("to", "do!("),
    concat!("unimpl", "emented!("),
    concat!("d", "bg!("),
    concat!("<<<<", "<<< "),
];

/// All findings in a file; `path` is relative to the root of the workspace.
pub fn check(path: &Path, content: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("");
    let is_script = path.starts_with(".ci");
    if TEXT.contains(&extension) || is_script {
        blanks(content, &mut findings);
    }
    if extension == "rs" {
        length(content, &mut findings);
        module_docs(content, &mut findings);
        unfinished(content, &mut findings);
        unsafe_code(path, content, &mut findings);
    }
    findings
}

fn blanks(content: &str, findings: &mut Vec<Finding>) {
    for (n, line) in content.split('\n').enumerate() {
        if line.ends_with([' ', '\t', '\r']) {
            findings.push(Finding::error(Some(n + 1), "trailing white space"));
        }
    }
    if !content.is_empty() && !content.ends_with('\n') {
        findings.push(Finding::error(None, "the last line has no end"));
    }
}

fn length(content: &str, findings: &mut Vec<Finding>) {
    let lines = content.lines().count();
    if lines > LINES_MAX {
        let message =
            format!("{lines} lines, at most {LINES_MAX}: a second story is a second file");
        findings.push(Finding::error(None, message));
    } else if lines > LINES_WARNED {
        findings.push(Finding {
            severity: Severity::Warning,
            line: None,
            message: format!("{lines} lines: getting long"),
        });
    }
}

/// Module docs must come before everything but inner attributes.
fn module_docs(content: &str, findings: &mut Vec<Finding>) {
    let first = content
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with("#!["));
    if !first.is_some_and(|line| line.starts_with("//!")) {
        findings.push(Finding::error(Some(1), "no module docs (`//!`) at the top"));
    }
}

fn unfinished(content: &str, findings: &mut Vec<Finding>) {
    for (n, line) in content.lines().enumerate() {
        for word in UNFINISHED {
            if line.contains(word) {
                findings.push(Finding::error(Some(n + 1), format!("unfinished: {word}")));
            }
        }
    }
}

/// The root of a crate must forbid `unsafe`.
fn unsafe_code(path: &Path, content: &str, findings: &mut Vec<Finding>) {
    let shown = path.to_string_lossy();
    let is_root = super::layers::FOLDERS
        .iter()
        .any(|folder| shown.starts_with(folder))
        && (shown.ends_with("/src/lib.rs") || shown.ends_with("/src/main.rs"));
    if is_root
        && !shown.starts_with(UNSAFE_CRATE)
        && !content.lines().any(|line| line.trim() == FORBID)
    {
        findings.push(Finding::error(None, format!("{FORBID} is missing")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, content: &str) -> Vec<String> {
        check(Path::new(path), content)
            .into_iter()
            .map(|f| f.message)
            .collect()
    }

    #[test]
    fn a_tidy_file() {
        let lib = "//! What for.\n#![forbid(unsafe_code)]\n\nfn f() {}\n";
        assert!(messages("crates/a/src/lib.rs", lib).is_empty());
        let attribute_first = "#![forbid(unsafe_code)]\n//! What for.\n";
        assert!(messages("crates/a/src/lib.rs", attribute_first).is_empty());
    }

    #[test]
    fn each_rule_finds_its_fault() {
        let docs = "//! Docs.\n";
        for (path, content, finds) in [
            ("a.rs", "fn f() {}\n".to_owned(), "no module docs"),
            ("a.md", "one \ntwo\n".into(), "trailing white space"),
            ("a.md", "one".into(), "no end"),
            (".ci/run", "one\t\n".into(), "trailing white space"),
            (
                "a.rs",
                format!("{docs}{}", "\n".repeat(LINES_WARNED)),
                "getting long",
            ),
            (
                "a.rs",
                format!("{docs}{}", "\n".repeat(LINES_MAX)),
                "second story",
            ),
            (
                "a.rs",
                format!("{docs}fn f() {{ {}) }}\n", UNFINISHED[0]),
                "unfinished",
            ),
            ("crates/a/src/main.rs", docs.into(), "forbid(unsafe_code)"),
        ] {
            let found = messages(path, &content);
            assert!(
                found.len() == 1 && found[0].contains(finds),
                "{path}: {finds}: {found:?}"
            );
        }
    }

    #[test]
    fn device_may_be_unsafe_and_images_are_left_alone() {
        assert!(messages("crates/device/src/lib.rs", "//! Docs.\n").is_empty());
        assert!(messages("a.svg", "x ").is_empty());
    }
}
