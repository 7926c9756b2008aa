//! The crates of the program and their licences: the `copyright` file of the packages.
//!
//! cargo lists the crates that are compiled in. A crate under terms incompatible with ours ends the making of packages: the
//! licences that may be in the product are listed here ([`MAY`]). Their texts are copied, each once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use super::said;
use crate::failure::{During, Result, fail};
use crate::workspace;

/// Licences that may be in the product.
const MAY: [&str; 12] = [
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "MIT",
    "MIT-0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "0BSD",
    "BSL-1.0",
    "Unicode-3.0",
    "CC0-1.0",
];

const ABOUT: &str =
    "Loligo is licensed under the Apache License, Version 2.0; on Debian systems its text is in
/usr/share/common-licenses/Apache-2.0, and below.

The program contains the libraries listed here. Their terms follow the list.

";

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    manifest_path: PathBuf,
    source: Option<String>,
}

/// The text for the program of this crate.
pub fn collect(crate_name: &str) -> Result<String> {
    let used = used(crate_name)?;
    let json = said(cargo().args(["metadata", "--format-version", "1"]))?;
    let metadata: Metadata =
        serde_json::from_str(&json).during(|| "reading cargo metadata".into())?;
    let mut list = ABOUT.to_owned();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in metadata.packages {
        let label = format!("{} v{}", package.name, package.version);
        if package.source.is_none() || !used.contains(&label) {
            continue;
        }
        let terms = package.license.as_deref().unwrap_or("");
        if !is_permitted(terms) {
            fail!(
                "{label} is under {terms:?}: not in the list of tools/xtask/src/dist/licences.rs. Leave the crate out, or add terms that \
                 permit the product to be handed out under its own licence"
            );
        }
        let _ = writeln!(list, "  {label}: {terms}");
        let folder = package.manifest_path.parent().unwrap_or(Path::new("."));
        let mut found = Vec::new();
        find(folder, 0, &mut found);
        found.sort();
        for path in found {
            if let Ok(text) = fs::read_to_string(&path) {
                texts
                    .entry(text.trim().to_owned())
                    .or_default()
                    .push(label.clone());
            }
        }
    }
    let own = workspace::root().join("LICENSE");
    let own = fs::read_to_string(&own).during(|| "reading LICENSE".into())?;
    let _ = write!(list, "\n==== loligo\n\n{}\n", own.trim_end());
    for (text, mut labels) in texts {
        labels.dedup();
        let _ = write!(list, "\n==== {}\n\n{text}\n", labels.join(", "));
    }
    Ok(list)
}

fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(workspace::root());
    cargo
}

/// Crates that are compiled into the program for this machine.
fn used(crate_name: &str) -> Result<BTreeSet<String>> {
    let tree = said(cargo().args([
        "tree",
        "--package",
        crate_name,
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ]))?;
    let label = |line: &str| {
        let mut words = line.split(' ');
        Some(format!("{} {}", words.next()?, words.next()?))
    };
    Ok(tree.lines().filter_map(label).collect())
}

/// Whether these terms allow it, in at least one way. Written as SPDX expressions, or in the older form MIT/Apache-2.0.
fn is_permitted(terms: &str) -> bool {
    let all = |way: &str| way.split(" AND ").all(|one| MAY.contains(&one.trim()));
    if terms.contains('(') {
        // Parentheses are not parsed; then every licence of the expression must be in the list.
        return all(&terms.replace(['(', ')'], "").replace(" OR ", " AND "));
    }
    terms.replace('/', " OR ").split(" OR ").any(all)
}

/// Licence files, at most two folders down: sources copied into a library have their own.
fn find(folder: &Path, depth: u32, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().to_uppercase();
        if path.is_dir() && depth < 3 && name != "TARGET" {
            find(&path, depth + 1, found);
        } else if ["LICENSE", "LICENCE", "COPYING", "NOTICE", "COPYRIGHT"]
            .iter()
            .any(|start| name.starts_with(start))
            && !name.ends_with(".RS")
        {
            found.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_permitted;

    #[test]
    fn one_way_is_enough_and_all_of_it_must_be_permitted() {
        for yes in [
            "MIT",
            "MIT/Apache-2.0",
            "Apache-2.0 OR GPL-3.0-only",
            "Apache-2.0 AND ISC",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
        ] {
            assert!(is_permitted(yes), "{yes}");
        }
        for no in [
            "",
            "GPL-3.0-only",
            "MPL-2.0",
            "MIT AND GPL-2.0-or-later",
            "AGPL-3.0 OR SSPL-1.0",
            "GPL-2.0-only AND (MIT OR ISC)",
        ] {
            assert!(!is_permitted(no), "{no}");
        }
    }
}
