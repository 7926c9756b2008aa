//! The Debian packages: the file tree of each, its control file, and the scripts of `deploy/debian/`.
//!
//! `dpkg-deb` packs the tree, so the archive is valid by definition. cargo-deb would do the same from a table in Cargo.toml, but has to be
//! built itself; it would replace no more than this file.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Package, bytes_under, done, files_in, install, program, said, write};
use crate::failure::{Result, fail};
use crate::workspace;

/// The control file of a package.
pub struct Control {
    section: &'static str,
    /// Dependencies besides the C library; further lines, such as recommendations.
    depends: &'static str,
    others: &'static str,
    /// Files that the operator may change: dpkg asks before it replaces a changed one.
    conffiles: &'static [&'static str],
    /// Scripts of `deploy/debian/`.
    scripts: &'static [&'static str],
    description: &'static str,
}

/// The server, and the tools of its operator.
pub const LOLIGO: Package = Package {
    name: "loligo",
    files: &[
        ("deploy/debian/loligo.toml", "etc/loligo/loligo.toml"),
        ("deploy/debian/loligo.logrotate", "etc/logrotate.d/loligo"),
        (
            "deploy/debian/loligo.service",
            "lib/systemd/system/loligo.service",
        ),
        (
            "deploy/debian/loligo.sysusers",
            "usr/lib/sysusers.d/loligo.conf",
        ),
        (
            "deploy/debian/loligo.tmpfiles",
            "usr/lib/tmpfiles.d/loligo.conf",
        ),
        ("CHANGELOG.md", "usr/share/doc/loligo/CHANGELOG.md"),
    ],
    man: "man",
    completions: &[
        ("loligo.bash", "bash-completion/completions/loligo"),
        ("_loligo", "zsh/vendor-completions/_loligo"),
        ("loligo.fish", "fish/vendor_completions.d/loligo.fish"),
    ],
    debian: Control {
        section: "web",
        depends: "passwd",
        others: "Recommends: ca-certificates, logrotate\nSuggests: loligo-lab\n",
        conffiles: &["/etc/loligo/loligo.toml", "/etc/logrotate.d/loligo"],
        scripts: &["postinst", "prerm", "postrm"],
        description: "caching web proxy for caches bigger than memory
 A forward proxy for clients and a reverse proxy in front of web servers. The whole disk cache is one preallocated file or block device,
 opened once; an object lies in one run of it, so a hit from disk is one read. It caches by RFC 9111, survives crashes, and shows what
 it does: metrics, access log, a profile of every request.
",
    },
};

/// The laboratory. A machine that only loads proxies needs no server, so the package does not depend on it.
pub const LAB: Package = Package {
    name: "loligo-lab",
    files: &[],
    man: "man-lab",
    completions: &[],
    debian: Control {
        section: "web",
        depends: "",
        others: "Suggests: loligo\nEnhances: loligo\n",
        conffiles: &[],
        scripts: &[],
        description: "load generator and storage lab of the caching web proxy Loligo
 The commands bench, lab, model and papers of loligo: a load for any proxy, PolyMix, of which every answer is compared byte by byte; layouts
 and policies of a cache compared on traces; what a cluster with fronts can carry; what five papers claim and what was found. They are typed as \"loligo bench\" where loligo is
 installed, else as \"loligo-lab bench\".
",
    },
};

/// Packs the tree, adding a `DEBIAN` folder. Returns the package's path.
pub fn pack(
    package: &Package,
    tree: &Path,
    out: &Path,
    program: &Path,
    maintainer: &str,
) -> Result<PathBuf> {
    let Package { name, debian, .. } = package;
    if maintainer.contains(['\n', '\r']) || !maintainer.contains('@') {
        fail!("--maintainer {maintainer:?}: expected \"Name <address@host>\"");
    }
    let arch = said(Command::new("dpkg").arg("--print-architecture"))?;
    let arch = arch.trim();
    let version = super::VERSION;
    let kibibytes = bytes_under(tree)?.div_ceil(1024);
    let c_library = program::c_library(program)?;
    let mut needs = c_library.map_or_else(Vec::new, |newest| {
        vec![format!("libc6 (>= {newest})"), "libgcc-s1".to_owned()]
    });
    if !debian.depends.is_empty() {
        needs.push(debian.depends.to_owned());
    }
    let depends = match needs.is_empty() {
        true => String::new(),
        false => format!("Depends: {}\n", needs.join(", ")),
    };
    let staged = out.join("staged");
    super::empty(&staged)?;
    // Pack a copy: the archive for other systems needs the tree unchanged.
    done(
        Command::new("cp")
            .arg("-a")
            .arg(tree.join("."))
            .arg(&staged),
    )?;
    compress_pages(&staged.join("usr/share/man/man1"))?;
    let control = format!(
        "Package: {name}\nVersion: {version}\nSection: {}\nPriority: optional\nArchitecture: {arch}\nMaintainer: {maintainer}\n\
         Installed-Size: {kibibytes}\n{depends}{}Description: {}",
        debian.section, debian.others, debian.description
    );
    let about = staged.join("DEBIAN");
    write(
        &about.join("md5sums"),
        sums(&staged, debian.conffiles)?,
        0o644,
    )?;
    write(&about.join("control"), control, 0o644)?;
    if !debian.conffiles.is_empty() {
        let lines = debian.conffiles.join("\n") + "\n";
        write(&about.join("conffiles"), lines, 0o644)?;
    }
    for script in debian.scripts {
        let from = workspace::root().join("deploy/debian").join(script);
        install(&from, &about.join(script), 0o755)?;
    }
    let deb = out.join(format!("{name}_{version}_{arch}.deb"));
    let mut dpkg = Command::new("dpkg-deb");
    dpkg.env("SOURCE_DATE_EPOCH", program::commit_seconds().to_string());
    // xz, which every dpkg reads; the default of dpkg-deb may be too new for the target.
    dpkg.args(["--root-owner-group", "-Zxz", "--build"]);
    dpkg.arg(&staged)
        .arg(&deb)
        .stdout(std::process::Stdio::null());
    done(&mut dpkg)?;
    Ok(deb)
}

/// Debian wants compressed pages; `-n` leaves the time out.
fn compress_pages(folder: &Path) -> Result<()> {
    for page in files_in(folder)? {
        done(Command::new("gzip").arg("-9n").arg(page))?;
    }
    Ok(())
}

/// The checksums for `dpkg --verify`.
fn sums(staged: &Path, conffiles: &[&str]) -> Result<String> {
    let mut files = Vec::new();
    below(staged, &mut files)?;
    let mut md5sum = Command::new("md5sum");
    md5sum.current_dir(staged).arg("--");
    for file in files {
        let name = file.strip_prefix(staged).unwrap_or(&file);
        if !conffiles.iter().any(|it| Path::new(&it[1..]) == name) {
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
