//! Loligo, run like its rivals.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::{Plan, Setup, front};
use crate::failure::{During, Result, fail};
use crate::process::CommandLine;
use crate::workspace;

/// The program to run instead of the release build.
static GIVEN: OnceLock<PathBuf> = OnceLock::new();
/// Another build, to compare with the first.
static BESIDE: OnceLock<PathBuf> = OnceLock::new();

/// Makes this program run instead of one built now. Call it once, before anything else.
pub fn use_binary(path: &Path) -> Result<()> {
    give(path, &GIVEN)
}

/// Makes this program run as `loligo-beside`. Call it once, before anything else.
pub fn use_beside(path: &Path) -> Result<()> {
    give(path, &BESIDE)
}

/// The other build, if one was given.
pub fn beside() -> Option<PathBuf> {
    BESIDE.get().cloned()
}

fn give(path: &Path, to: &OnceLock<PathBuf>) -> Result<()> {
    if !path.is_file() {
        fail!("there is no program {}", path.display());
    }
    let path = path
        .canonicalize()
        .during(|| format!("looking for {}", path.display()))?;
    if to.set(path).is_err() {
        fail!("another program was given before");
    }
    Ok(())
}

/// The release binary, or the program given instead.
pub fn binary() -> PathBuf {
    match GIVEN.get() {
        Some(path) => path.clone(),
        None => workspace::target_dir().join("release/loligo"),
    }
}

/// Was a program given instead of the release build?
pub fn is_given() -> bool {
    GIVEN.get().is_some()
}

/// `loligo-lab`, which loads proxies: beside the program that was given, or this workspace's own.
pub fn lab() -> PathBuf {
    let beside = GIVEN.get().map(|given| given.with_file_name("loligo-lab"));
    match beside.filter(|path| path.is_file()) {
        Some(path) => path,
        None => workspace::target_dir().join("release/loligo-lab"),
    }
}

/// Builds the release binary, unless another one was given.
pub fn build() -> Result<()> {
    match is_given() {
        true => Ok(()),
        false => build_package("loligo"),
    }
}

/// Builds `loligo-lab`, unless there is one beside the program that was given.
pub fn build_lab() -> Result<()> {
    match is_given() && lab().with_file_name("loligo") == binary() {
        true => Ok(()),
        false => build_package("loligo-lab"),
    }
}

/// Builds one package. Two packages in one build would each get the features of both.
fn build_package(package: &str) -> Result<()> {
    eprintln!("building {package}");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--package", package])
        .current_dir(workspace::root())
        .status()
        .during(|| "running cargo".into())?;
    if !status.success() {
        fail!("{package} does not build");
    }
    Ok(())
}

pub(super) fn plan(program: &Path, setup: &Setup) -> Plan {
    let run = setup.run.display();
    let store = match &setup.device {
        Some(device) => device.clone(),
        None => setup.data.join("store.loligo"),
    };
    // The load sends reloads, as clients of a forward proxy do, and counts a cached answer to one as wrong. So directives are obeyed.
    let configured = match (&setup.front, &setup.listener) {
        (Some(front), _) => {
            let text = front::of_loligo(front, setup.address, setup.origin);
            match setup.limits.is_empty() {
                true => Some(text),
                false => Some(format!("[limits]\n{}\n{text}", setup.limits)),
            }
        }
        (None, Some(listener)) => Some(format!(
            "[[listener]]\naddress = \"{}\"\n{listener}",
            setup.address
        )),
        (None, None) => None,
    };
    let (listeners, files) = match configured {
        Some(text) => {
            let path = setup.run.join("loligo.toml");
            let flags = vec!["--config".into(), path.display().to_string()];
            (flags, vec![(path, text)])
        }
        None => {
            let flags = [
                "--listen",
                &setup.address.to_string(),
                "--reverse",
                &format!("http://{}", setup.origin),
                "--client-directives",
                "obey",
            ];
            (flags.map(String::from).to_vec(), Vec::new())
        }
    };
    let mut args: Vec<String> = vec!["serve".into()];
    args.extend(listeners);
    args.extend([
        "--store".into(),
        store.display().to_string(),
        "--store-size".into(),
        setup.cache.to_string(),
        "--memory".into(),
        setup.memory.to_string(),
        "--workers".into(),
        setup.workers.to_string(),
        "--admin".into(),
        setup.admin.to_string(),
    ]);
    if setup.logs {
        args.extend(["--access-log".into(), format!("{run}/access.log")]);
    }
    if setup.logs || setup.profile {
        args.extend(["--profile".into(), format!("{run}/requests.profile")]);
    }
    args.extend(setup.extra.iter().cloned());
    Plan {
        files,
        servers: vec![CommandLine::new(&program.display().to_string(), args)],
        ..Plan::default()
    }
}
