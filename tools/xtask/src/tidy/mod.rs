//! `cargo xtask tidy`: rules of this workspace that no compiler checks.
//!
//! Each rule is a function from text to findings, so that a test can show it; this module walks the tree, prints and
//! counts. A finding of [`Severity::Error`] fails the task.

mod layers;
mod links;
mod locks;
mod pages;
mod source;
mod text;
mod walls;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::failure::{During, Result, fail};
use crate::workspace;

/// Files that must exist.
const REQUIRED: [&str; 8] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "LICENSE",
    "docs/glossary.md",
    "docs/format.md",
    "docs/decisions",
];

/// Files and directories that are not checked.
const SKIPPED: [&str; 6] = [
    ".git",
    "target",
    "corpus",
    "artifacts",
    "node_modules",
    ".cargo",
];

/// Whether a finding fails the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    Warning,
    Error,
}

/// A broken rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    /// 1-based, where there is one
    pub line: Option<usize>,
    pub message: String,
}

impl Finding {
    fn error(line: Option<usize>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            line,
            message: message.into(),
        }
    }
}

/// What is printed beside findings.
#[derive(Debug, Default, Args)]
pub struct Options {
    /// Print the arrows of this crate's largest circle of files
    #[arg(long, value_name = "CRATE")]
    circle: Option<String>,
}

/// Checks all files and prints the findings.
pub fn run(options: &Options) -> Result<()> {
    let root = workspace::root();
    let mut findings: Vec<(PathBuf, Finding)> = Vec::new();
    for path in REQUIRED {
        if !exists(&root.join(path)) {
            findings.push((path.into(), Finding::error(None, "is missing")));
        }
    }
    let crates = layers::read(&root)?;
    findings.extend(layers::check(&crates));
    findings.extend(links::check(&root)?);
    findings.extend(locks::check(&root)?);
    findings.extend(pages::check(&root)?);
    let shapes = walls::read(&root)?;
    findings.extend(walls::check(&shapes));
    let mut files = Vec::new();
    walk(&root, &mut files)?;
    for path in files {
        let shown = path.strip_prefix(&root).unwrap_or(&path).to_path_buf();
        // Files that are not text are not checked.
        let Ok(content) = fs::read_to_string(&path) else {
            continue;
        };
        let of_file = text::check(&shown, &content);
        findings.extend(of_file.into_iter().map(|f| (shown.clone(), f)));
    }
    let mut errors = 0;
    for (path, finding) in &findings {
        let line = finding.line.map(|n| format!(":{n}")).unwrap_or_default();
        let word = match finding.severity {
            Severity::Warning => "warning",
            Severity::Error => {
                errors += 1;
                "error"
            }
        };
        println!("{word}: {}{line}: {}", path.display(), finding.message);
    }
    walls::print(&shapes, options.circle.as_deref());
    if errors > 0 {
        fail!("tidy: {errors} errors");
    }
    println!("tidy: {} crates, clean", crates.len());
    Ok(())
}

/// Whether this is a file, or a directory that is not empty.
fn exists(path: &Path) -> bool {
    match fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_some(),
        Err(_) => path.is_file(),
    }
}

fn walk(dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let mut entries: Vec<_> = fs::read_dir(dir)
        .during(|| format!("reading {}", dir.display()))?
        .flatten()
        .collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name();
        if SKIPPED.iter().any(|s| name == *s) {
            continue;
        }
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => walk(&entry.path(), files)?,
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
    Ok(())
}
