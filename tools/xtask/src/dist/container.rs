//! The root file system of the image: the program, the C library it was linked with, certificates, one user.
//!
//! The image has the same program as the Debian package, with the libraries that the dynamic linker names for it.
//! Why not a static program: docs/decisions/0060.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{empty, install, said, write};
use crate::failure::{Result, fail};
use crate::workspace;

/// The user of the image; the manifests of deploy/kubernetes run it as the same.
pub const USER: u32 = 10001;
/// Paths of the certificates of authorities on most systems; the first that exists is used.
const CERTIFICATES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
];

/// Makes the root; returns the bytes of the libraries.
pub fn lay_out(root: &Path, program: &Path, licences: &str) -> Result<u64> {
    empty(root)?;
    install(program, &root.join("usr/bin/loligo"), 0o755)?;
    let mut bytes = 0;
    for library in libraries(program)? {
        let to = root.join(library.strip_prefix("/").unwrap_or(&library));
        install(&library, &to, 0o755)?;
        bytes += std::fs::metadata(&to).map_or(0, |it| it.len());
    }
    let mut certificates = CERTIFICATES.iter().map(Path::new);
    let Some(certificates) = certificates.find(|path| path.is_file()) else {
        fail!(
            "no certificates of authorities in {}: install ca-certificates",
            CERTIFICATES.join(", ")
        );
    };
    install(certificates, &root.join(&CERTIFICATES[0][1..]), 0o644)?;
    let config = workspace::root().join("deploy/container/loligo.toml");
    install(&config, &root.join("etc/loligo/loligo.toml"), 0o644)?;
    let users =
        format!("root:x:0:0::/:/nologin\nloligo:x:{USER}:{USER}::/var/lib/loligo:/nologin\n");
    write(&root.join("etc/passwd"), users, 0o644)?;
    write(
        &root.join("etc/group"),
        format!("root:x:0:\nloligo:x:{USER}:\n"),
        0o644,
    )?;
    write(
        &root.join("usr/share/doc/loligo/copyright"),
        licences,
        0o644,
    )?;
    // A file, since some tools leave out an empty folder.
    write(&root.join("var/lib/loligo/.keep"), "", 0o644)?;
    Ok(bytes)
}

/// The files that the dynamic linker needs, including the linker itself. A static program needs none.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let Ok(listed) = said(Command::new("ldd").arg(program)) else {
        return Ok(Vec::new());
    };
    if listed.contains("not found") {
        fail!(
            "{} lacks a library on this machine:\n{listed}",
            program.display()
        );
    }
    Ok(listed.lines().filter_map(path_in).collect())
}

/// The path in `libc.so.6 => /lib/libc.so.6 (0x7f…)` or `/lib64/ld-linux-x86-64.so.2 (0x7f…)`; the kernel's vDSO has no path.
fn path_in(line: &str) -> Option<PathBuf> {
    let path = line.split_whitespace().find(|word| word.starts_with('/'))?;
    Some(PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::path_in;
    use std::path::Path;

    #[test]
    fn paths_are_found_in_lines() {
        let linux = "\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f1c)";
        assert_eq!(
            path_in(linux).as_deref(),
            Some(Path::new("/lib/x86_64-linux-gnu/libm.so.6"))
        );
        let linker = "\t/lib64/ld-linux-x86-64.so.2 (0x00007f1c)";
        assert_eq!(
            path_in(linker).as_deref(),
            Some(Path::new("/lib64/ld-linux-x86-64.so.2"))
        );
        assert_eq!(path_in("\tlinux-vdso.so.1 (0x00007ffd)"), None);
        assert_eq!(path_in("\tstatically linked"), None);
    }
}
