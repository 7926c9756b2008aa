//! The Debian package: the tree, what it says of itself, and the scripts of `deploy/debian/`.
//!
//! `dpkg-deb` packs it, so the archive is right by definition. cargo-deb would do the same from a table in Cargo.toml, but is a
//! build of its own; what is left without it is this file.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{bytes_under, done, files_in, install, program, said, write};
use crate::failure::{Result, fail};
use crate::workspace;

/// Files that the operator may change: dpkg asks before it replaces a changed one.
const CONFFILES: [&str; 2] = ["/etc/loligo/loligo.toml", "/etc/logrotate.d/loligo"];
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

const DESCRIPTION: &str = "caching web proxy for caches bigger than memory
 A forward proxy for clients and a reverse proxy in front of web servers. The whole disk cache is one preallocated file or block device,
 opened once; an object lies in one run of it, so a hit from disk is one read. It caches by RFC 9111, survives crashes, and shows what
 it does: metrics, access log, a profile of every request.
";

/// Packs the tree; the folder gets a `DEBIAN` in it. Gives the package's path.
pub fn pack(tree: &Path, out: &Path, program: &Path, maintainer: &str) -> Result<PathBuf> {
    if maintainer.contains(['\n', '\r']) || !maintainer.contains('@') {
        fail!("--maintainer {maintainer:?}: expected \"Name <address@host>\"");
    }
    let arch = said(Command::new("dpkg").arg("--print-architecture"))?;
    let arch = arch.trim();
    let version = super::VERSION;
    let kibibytes = bytes_under(tree)?.div_ceil(1024);
    let libraries = match program::c_library(program)? {
        Some(newest) => format!("libc6 (>= {newest}), libgcc-s1, passwd"),
        None => "passwd".to_owned(),
    };
    let staged = out.join("staged");
    super::empty(&staged)?;
    // The tree is kept as it is for the archive.
    done(
        Command::new("cp")
            .arg("-a")
            .arg(tree.join("."))
            .arg(&staged),
    )?;
    compress_pages(&staged.join("usr/share/man/man1"))?;
    let control = format!(
        "Package: loligo\nVersion: {version}\nSection: web\nPriority: optional\nArchitecture: {arch}\nMaintainer: {maintainer}\n\
         Installed-Size: {kibibytes}\nDepends: {libraries}\nRecommends: ca-certificates, logrotate\nDescription: {DESCRIPTION}"
    );
    let about = staged.join("DEBIAN");
    write(&about.join("md5sums"), sums(&staged)?, 0o644)?;
    write(&about.join("control"), control, 0o644)?;
    write(&about.join("conffiles"), CONFFILES.join("\n") + "\n", 0o644)?;
    for script in SCRIPTS {
        let from = workspace::root().join("deploy/debian").join(script);
        install(&from, &about.join(script), 0o755)?;
    }
    let deb = out.join(format!("loligo_{version}_{arch}.deb"));
    let mut dpkg = Command::new("dpkg-deb");
    dpkg.env("SOURCE_DATE_EPOCH", program::commit_seconds().to_string());
    // xz, which every dpkg reads; what dpkg-deb takes by default may be too new for the target.
    dpkg.args(["--root-owner-group", "-Zxz", "--build"]);
    dpkg.arg(&staged)
        .arg(&deb)
        .stdout(std::process::Stdio::null());
    done(&mut dpkg)?;
    Ok(deb)
}

/// Debian wants them so; `-n` leaves the time out.
fn compress_pages(folder: &Path) -> Result<()> {
    for page in files_in(folder)? {
        done(Command::new("gzip").arg("-9n").arg(page))?;
    }
    Ok(())
}

/// What `dpkg --verify` compares with.
fn sums(staged: &Path) -> Result<String> {
    let mut files = Vec::new();
    below(staged, &mut files)?;
    let mut md5sum = Command::new("md5sum");
    md5sum.current_dir(staged).arg("--");
    for file in files {
        let name = file.strip_prefix(staged).unwrap_or(&file);
        if !CONFFILES.iter().any(|it| Path::new(&it[1..]) == name) {
            md5sum.arg(name);
        }
    }
    let mut text = String::new();
    for line in said(&mut md5sum)?.lines() {
        let _ = writeln!(text, "{line}");
    }
    Ok(text)
}

fn below(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for path in files_in(folder)? {
        if fs::symlink_metadata(&path).is_ok_and(|it| it.is_dir()) {
            below(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
