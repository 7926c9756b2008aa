//! A made-up machine for tests: 4 cores, 4 GiB of RAM, a cache directory with 100 GiB free.
//!
//! The last part of a path decides what is on its disk: see `look`.

use std::path::Path;

use proxy::plan::CredentialSource;

use super::file::parse;
use super::machine::{Existing, Machine, OnDisk};
use super::problem::Problem;
use super::raw::Raw;
use super::{Settled, into_plan};
use crate::cli::Flags;

pub fn machine() -> Machine {
    Machine {
        cores: 4,
        ram_bytes: 4 << 30,
        files_max: 1 << 20,
        is_root: false,
        users: "root:x:0:0:root:/root:/bin/bash\nproxy:x:13:14:proxy:/bin:/usr/sbin/nologin\n"
            .into(),
        groups: "root:x:0:\nproxy:x:14:\nadm:x:4:u\n".into(),
        open_stores: Vec::new(),
        cache_dir: Some("/home/u/.cache".into()),
        look,
        resolve,
        appendable,
        certificates,
        certificate: |files, _| match files.chain.starts_with("/missing") {
            true => Err("No such file or directory".into()),
            false => Ok(None),
        },
        client_certificate: |files| match files.chain.starts_with("/missing") {
            true => Err("No such file or directory".into()),
            false => Ok(None),
        },
        client_ca: certificates,
        credentials: |source| match source {
            CredentialSource::File(path) => certificates(path),
            CredentialSource::Environment => Err("AWS_ACCESS_KEY_ID is not set".into()),
            _ => Ok(()),
        },
        time_zone: || Ok("Europe/Berlin".into()),
        cluster_key: |path| match path.starts_with("/missing") {
            true => Err("No such file or directory".into()),
            false => Ok(proxy::plan::ClusterKey::new([7; 32])),
        },
    }
}

fn appendable(path: &Path) -> Result<(), String> {
    match path.parent() {
        Some(dir) if dir == Path::new("/missing") => {
            Err("there is no directory /missing; make it first".into())
        }
        _ => Ok(()),
    }
}

fn certificates(path: &Path) -> Result<(), String> {
    match path.starts_with("/missing") {
        true => Err("No such file or directory".into()),
        false => Ok(()),
    }
}

/// `/alias` is a link to `/x`.
fn resolve(path: &Path) -> std::path::PathBuf {
    match path.strip_prefix("/alias") {
        Ok(rest) => Path::new("/x").join(rest),
        Err(_) => path.to_owned(),
    }
}

fn look(path: &Path) -> OnDisk {
    let existing = match path.file_name().and_then(|name| name.to_str()) {
        Some("half-gib") => Some(Existing::File(512 << 20)),
        Some("empty") => Some(Existing::File(0)),
        Some("device") => Some(Existing::Device),
        Some("dir") => Some(Existing::Unfit("a directory")),
        _ => None,
    };
    let (file_system, free_bytes) = match path.parent().and_then(|dir| dir.to_str()) {
        Some("/full") => (1, 5 << 20),
        Some("/small") => (2, (3 << 30) + 12_345),
        _ => (3, 100 << 30),
    };
    OnDisk {
        existing,
        free_bytes: Some(free_bytes),
        file_system: Some(file_system),
        refused: path
            .starts_with("/closed")
            .then(|| format!("{} cannot be opened: Permission denied", path.display())),
    }
}

/// Reads a file's text as `loligo.toml`.
pub fn settle(text: &str) -> Result<Settled, Vec<Problem>> {
    into_plan(&raw(text)?, &machine())
}

/// The settings of a file.
pub fn raw(text: &str) -> Result<Raw, Vec<Problem>> {
    parse(text, Path::new("loligo.toml")).map_err(|problem| vec![problem])
}

/// What is wrong with a file and flags, one complaint a line.
pub fn complaints_of(text: &str, flags: &Flags) -> String {
    let mut raw = raw(text).unwrap();
    flags.add_to(&mut raw);
    told(into_plan(&raw, &machine()))
}

/// What is wrong with a text, one complaint a line.
pub fn complaints(text: &str) -> String {
    told(settle(text))
}

fn told(settled: Result<Settled, Vec<Problem>>) -> String {
    match settled {
        Ok(_) => "nothing is wrong".to_owned(),
        Err(problems) => problems
            .iter()
            .map(|problem| format!("{problem}\n"))
            .collect(),
    }
}
