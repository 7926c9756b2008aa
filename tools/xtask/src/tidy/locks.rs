//! The simulations have a lock file of their own: it must have the versions of packages that are shipped.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::Finding;
use crate::failure::{During, Result};

/// The simulations' lock file, from the root.
const OTHER: &str = "tools/Cargo.lock";

#[derive(Deserialize)]
struct Lock {
    package: BTreeSet<Package>,
}

#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
    /// `None` for a crate of this repository.
    source: Option<String>,
}

/// Every package of the simulations that the product uses in another version, or not at all.
pub fn check(root: &Path) -> Result<Vec<(PathBuf, Finding)>> {
    let read =
        |file: &str| fs::read_to_string(root.join(file)).during(|| format!("reading {file}"));
    let apart = apart(&read("Cargo.lock")?, &read(OTHER)?)?;
    let findings = apart.into_iter().map(|package| {
        let message = format!(
            "{package} is not in Cargo.lock; CONTRIBUTING.md says how the two are made alike"
        );
        (OTHER.into(), Finding::error(None, message))
    });
    Ok(findings.collect())
}

fn apart(ours: &str, other: &str) -> Result<Vec<String>> {
    let parse = |text| toml::from_str::<Lock>(text).during(|| "reading a lock file".into());
    let (ours, other) = (parse(ours)?.package, parse(other)?.package);
    let foreign = other.difference(&ours).filter(|p| p.source.is_some());
    Ok(foreign
        .map(|p| format!("{} {}", p.name, p.version))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_told_and_a_crate_of_ours_is_not() {
        let of = |name, version, source| {
            format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n{source}\n")
        };
        let source = "source = \"registry\"";
        let ours = of("bytes", "1.0.0", source);
        let other = of("bytes", "1.0.1", source) + &of("simulation", "0.1.0", "");
        assert_eq!(apart(&ours, &other).unwrap(), ["bytes 1.0.1"]);
        assert!(apart(&ours, &ours).unwrap().is_empty());
    }
}
