//! The released program: stripped, and its requirements on the system.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{done, said};
use crate::failure::{During, Result};
use crate::workspace;

/// Writes the program without symbols, and the symbols to a file of their own, linked so that a debugger finds them.
pub fn strip(built: &Path, to: &Path, debug: &Path) -> Result<()> {
    let objcopy = || Command::new("objcopy");
    done(objcopy().arg("--only-keep-debug").arg(built).arg(debug))?;
    let mut link = std::ffi::OsString::from("--add-gnu-debuglink=");
    link.push(debug);
    done(objcopy().arg("--strip-all").arg(link).arg(built).arg(to))
}

/// The kernel's name of the architecture.
pub fn architecture() -> &'static str {
    std::env::consts::ARCH
}

/// The time of the last commit: packages of one commit are identical, whenever they are made.
pub fn commit_seconds() -> u64 {
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"])
        .current_dir(workspace::root());
    let seconds = said(&mut git).ok();
    seconds
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

/// The newest version of the GNU C library that the program needs, such as 2.34.
pub fn c_library(program: &Path) -> Result<Option<String>> {
    let bytes = fs::read(program).during(|| format!("reading {}", program.display()))?;
    Ok(newest(&bytes))
}

/// Versions are in the string table of the dynamic linker, each terminated by a zero.
fn newest(bytes: &[u8]) -> Option<String> {
    const NAME: &[u8] = b"GLIBC_";
    let found = memchr::memmem::find_iter(bytes, NAME).filter_map(|at| {
        let rest = &bytes[at + NAME.len()..];
        let text = std::str::from_utf8(rest.split(|b| *b == 0).next()?).ok()?;
        let numbers: Option<Vec<u32>> = text.split('.').map(|n| n.parse().ok()).collect();
        numbers
    });
    let newest = found.max()?;
    let numbers: Vec<_> = newest.iter().map(u32::to_string).collect();
    Some(numbers.join("."))
}

#[cfg(test)]
mod tests {
    use super::newest;

    #[test]
    fn the_newest_version_counts_by_number() {
        let table = b"\0GLIBC_2.9\0GLIBC_2.34\0GLIBC_2.3.4\0GLIBC_PRIVATE\0GLIBC_\0";
        assert_eq!(newest(table).as_deref(), Some("2.34"));
        assert_eq!(newest(b"musl"), None);
        assert_eq!(newest(b"GLIBC_2.99999999999\0"), None);
    }
}
