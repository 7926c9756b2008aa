//! The layers of crates: which crate may use which others.
//!
//! This is the one place where the order is written. A crate may use crates of the layers below its own. Tests may also use
//! crates of their own layer, never those above. A crate that is not in the table is an error.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::Finding;
use crate::failure::{During, Result};

/// Bottom first; crates of one layer do not use each other.
const LAYERS: [&[&str]; 19] = [
    // A macro, for all crates that are simulated.
    &["mistakes"],
    &[
        "fields",
        "extent",
        "replacement",
        "profile",
        "hints",
        "page",
        "wire",
        "queueing",
    ],
    // The report computes from records alone.
    &["message", "report", "commands"],
    &["http1", "http2", "httpcache", "store", "device"],
    // Only simulations use simulations; of the proxy's crates the benchmark uses only an LRU list, a replay none.
    &["simulation", "hints-simulation", "polymix", "replay"],
    // The lab compares designs of the store; it drives the store and PolyMix, and the proxy does not use it.
    &["lab"],
    // The data plane, from below.
    &["base", "plan"],
    &["rules", "purging"],
    &["record"],
    &["quota", "ledger"],
    &["origin"],
    &["upstreams", "peers", "tls"],
    &["cache"],
    &["cluster"],
    &["exchange"],
    &["admin"],
    &["proxy"],
    // The programs, and the simulation of the proxy in virtual time: they do not use each other.
    &["loligo", "loligo-lab", "proxy-simulation"],
    &["xtask"],
];

/// The parts of a manifest that matter here.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Manifest {
    dependencies: BTreeMap<String, toml::Value>,
    build_dependencies: BTreeMap<String, toml::Value>,
    dev_dependencies: BTreeMap<String, toml::Value>,
    workspace: Option<toml::Value>,
    /// The path of the manifest, from the root.
    #[serde(skip)]
    path: PathBuf,
}

impl Manifest {
    /// Whether it is a workspace of its own, such as the fuzz targets, which need another compiler.
    fn is_own_workspace(&self) -> bool {
        self.workspace.is_some()
    }
}

/// The folders of crates: the product, its measurements, the developers' tools.
pub const FOLDERS: [&str; 3] = ["crates", "laboratory", "tools"];

/// All crates by directory name.
pub fn read(root: &Path) -> Result<BTreeMap<String, Manifest>> {
    let mut found = BTreeMap::new();
    for folder in FOLDERS.map(|folder| root.join(folder)) {
        for entry in fs::read_dir(&folder)
            .during(|| format!("reading {}", folder.display()))?
            .flatten()
        {
            let path = entry.path().join("Cargo.toml");
            let Ok(text) = fs::read_to_string(&path) else {
                continue;
            };
            let mut manifest: Manifest =
                toml::from_str(&text).during(|| format!("reading {}", path.display()))?;
            manifest.path = path.strip_prefix(root).unwrap_or(&path).to_owned();
            if !manifest.is_own_workspace() {
                found.insert(entry.file_name().to_string_lossy().into_owned(), manifest);
            }
        }
    }
    Ok(found)
}

fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&name))
}

/// Every dependency that points up or sideways, by crate.
pub fn check(crates: &BTreeMap<String, Manifest>) -> Vec<(PathBuf, Finding)> {
    let mut findings = Vec::new();
    for (name, manifest) in crates {
        let Some(own) = layer(name) else {
            let message =
                format!("{name} has no layer; give it one in tools/xtask/src/tidy/layers.rs");
            findings.push((manifest.path.clone(), Finding::error(None, message)));
            continue;
        };
        let used = manifest
            .dependencies
            .keys()
            .chain(manifest.build_dependencies.keys());
        for (dependency, ceiling) in used
            .map(|d| (d, own))
            .chain(manifest.dev_dependencies.keys().map(|d| (d, own + 1)))
        {
            if crates.contains_key(dependency)
                && layer(dependency).is_some_and(|theirs| theirs >= ceiling)
            {
                let message = format!("{name} uses {dependency}, which is not below it");
                findings.push((manifest.path.clone(), Finding::error(None, message)));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(manifests: &[(&str, &str)]) -> Vec<String> {
        let crates = manifests
            .iter()
            .map(|(name, text)| ((*name).to_owned(), toml::from_str(text).unwrap()))
            .collect();
        check(&crates).into_iter().map(|(_, f)| f.message).collect()
    }

    #[test]
    fn down_is_allowed() {
        let down = "[dependencies]\nfields.workspace = true\nbytes = \"1\"";
        assert!(findings(&[("http1", down), ("fields", "")]).is_empty());
    }

    #[test]
    fn up_and_sideways_are_not() {
        let up = "[dependencies]\nhttp1.workspace = true";
        assert_eq!(
            findings(&[("fields", up), ("http1", "")]),
            ["fields uses http1, which is not below it"]
        );
        let sideways = "[build-dependencies]\nstore.workspace = true";
        assert_eq!(findings(&[("device", sideways), ("store", "")]).len(), 1);
    }

    #[test]
    fn tests_may_use_their_equals() {
        let equal = "[dev-dependencies]\ndevice.workspace = true";
        assert!(findings(&[("store", equal), ("device", "")]).is_empty());
        let up = "[dev-dependencies]\nproxy.workspace = true";
        assert_eq!(findings(&[("store", up), ("proxy", "")]).len(), 1);
    }

    #[test]
    fn a_newcomer_needs_a_place() {
        assert!(findings(&[("new", "")])[0].starts_with("new has no layer"));
    }
}
