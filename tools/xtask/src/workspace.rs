//! Directories: the workspace, its build directory, the run directory of servers and benches.

use std::path::{Path, PathBuf};

/// The root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("this crate lies in tools/xtask")
        .to_path_buf()
}

/// The workspace of the simulations.
pub fn simulations() -> PathBuf {
    root().join("tools")
}

/// Cargo's build directory.
pub fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// Directory for the servers' configurations, logs and, unless specified otherwise, caches.
pub fn run_dir() -> PathBuf {
    target_dir().join("xtask")
}

/// The path of a program, if it is on the PATH or in a directory of system programs.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from))
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_the_root() {
        assert!(root().join("tools/xtask/src/workspace.rs").is_file());
        assert!(program("sh").is_some());
        assert!(program("no-such-program-here").is_none());
    }
}
