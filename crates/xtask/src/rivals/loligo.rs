//! Ourselves, run like everybody else.

use std::path::PathBuf;
use std::process::Command;

use super::{Plan, Setup};
use crate::failure::{During, Result, fail};
use crate::process::CommandLine;
use crate::workspace;

/// The release binary.
pub fn binary() -> PathBuf {
    workspace::target_dir().join("release/loligo")
}

/// Builds the release binary.
pub fn build() -> Result<()> {
    eprintln!("building loligo");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--package", "loligo"])
        .current_dir(workspace::root())
        .status()
        .during(|| "running cargo".into())?;
    if !status.success() {
        fail!("loligo does not build");
    }
    Ok(())
}

pub(super) fn plan(setup: &Setup) -> Plan {
    let run = setup.run.display();
    let store = match &setup.device {
        Some(device) => device.clone(),
        None => setup.data.join("store.loligo"),
    };
    let mut args: Vec<String> = vec![
        "serve".into(),
        "--listen".into(),
        setup.address.to_string(),
        "--reverse".into(),
        format!("http://{}", setup.origin),
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
    ];
    if setup.logs {
        args.extend(["--access-log".into(), format!("{run}/access.log")]);
    }
    if setup.logs || setup.profile {
        args.extend(["--profile".into(), format!("{run}/requests.profile")]);
    }
    args.extend(setup.extra.iter().cloned());
    Plan {
        servers: vec![CommandLine::new(&binary().display().to_string(), args)],
        ..Plan::default()
    }
}
