//! A minimal Debian, made of this machine's own packages.
//!
//! Debian's tool for this downloads packages; here the files of some installed packages are copied, with dpkg's records of them. So dpkg
//! works in the root as on a new machine: it knows these packages, checks the new one's dependencies, and runs its scripts.
//!
//! Mounts are made in a name space of the command that needs them ([`Root::command`]), so no mount is left behind.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{done, empty, files_in, said, write};
use crate::failure::{During, Result, fail};

/// Packages in addition to those of every Debian (`Essential`); their dependencies are added.
const PACKAGES: [&str; 4] = ["libc-bin", "libgcc-s1", "passwd", "systemd"];
/// dpkg's records of installed packages.
const STATUS: &str = "var/lib/dpkg/status";

/// The root.
pub struct Root {
    path: PathBuf,
}

impl Root {
    /// Makes a new root in place of an existing one.
    pub fn make(path: &Path) -> Result<Self> {
        empty(path)?;
        let status = fs::read_to_string(Path::new("/").join(STATUS)).during(|| {
            format!("reading /{STATUS}: a clean root is made of a Debian's own packages")
        })?;
        let packages = closure(&installed(&status));
        for link in ["bin", "sbin", "lib", "lib64"] {
            if let Ok(target) = fs::read_link(Path::new("/").join(link)) {
                fs::create_dir_all(path.join(&target)).during(|| "making the clean root".into())?;
                std::os::unix::fs::symlink(target, path.join(link))
                    .during(|| "making the clean root".into())?;
            }
        }
        let root = Self {
            path: path.to_owned(),
        };
        root.copy_files(&packages)?;
        root.copy_knowledge(&packages, &status)?;
        for folder in ["dev", "proc", "sys", "run", "tmp", "etc", "root"] {
            fs::create_dir_all(path.join(folder)).during(|| "making the clean root".into())?;
        }
        // base-passwd does this when it is installed.
        for name in ["passwd", "group"] {
            let master = path.join(format!("usr/share/base-passwd/{name}.master"));
            super::install(&master, &path.join("etc").join(name), 0o644)?;
        }
        Ok(root)
    }

    /// The path of the root.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn copy_files(&self, packages: &BTreeMap<&str, &str>) -> Result<()> {
        let mut list = String::new();
        for name in packages.keys() {
            for file in said(Command::new("dpkg-query").args(["--listfiles", name]))?.lines() {
                // Lines about diversions are not paths; documentation is not needed.
                let is_wanted =
                    file.starts_with('/') && !file.starts_with("/usr/share/doc/") && file != "/.";
                if is_wanted && fs::symlink_metadata(file).is_ok() {
                    let _ = writeln!(list, ".{file}");
                }
            }
        }
        let names = self.path.with_extension("files");
        write(&names, list, 0o644)?;
        let mut from = Command::new("tar");
        from.args(["-C", "/", "--no-recursion", "-cf", "-", "-T"])
            .arg(&names);
        let mut from = from
            .stdout(Stdio::piped())
            .spawn()
            .during(|| "running tar".into())?;
        let piped = from.stdout.take().expect("it was asked for");
        let mut to = Command::new("tar");
        to.arg("-C")
            .arg(&self.path)
            .args(["--keep-directory-symlink", "-xpf", "-"]);
        done(to.stdin(piped))?;
        let ended = from.wait().during(|| "running tar".into())?;
        if !ended.success() {
            fail!(
                "copying the files of packages into {}: {ended}",
                self.path.display()
            );
        }
        Ok(())
    }

    fn copy_knowledge(&self, packages: &BTreeMap<&str, &str>, status: &str) -> Result<()> {
        let kept = status
            .split("\n\n")
            .filter(|one| field(one, "Package").is_some_and(|name| packages.contains_key(name)));
        let kept: Vec<&str> = kept.collect();
        write(&self.path.join(STATUS), kept.join("\n\n") + "\n", 0o644)?;
        let info = self.path.join("var/lib/dpkg/info");
        fs::create_dir_all(&info).during(|| "making the clean root".into())?;
        for file in files_in(Path::new("/var/lib/dpkg/info"))? {
            let name = file
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            // A name such as `libbz2-1.0:amd64.list` may have dots.
            let stem = name.rsplit_once('.').map_or("", |(stem, _)| stem);
            let package = stem.split(':').next().unwrap_or("");
            if packages.contains_key(package)
                && (name.ends_with(".list") || name.ends_with(".md5sums"))
            {
                super::install(&file, &info.join(&name), 0o644)?;
            }
        }
        Ok(())
    }

    /// A command in the root, as this user or as root. Only this command sees `/proc` and `/dev`.
    pub fn command(&self, user: Option<&str>, words: &[&str]) -> Command {
        inside(&self.path, user, words)
    }

    /// All files and folders, except those that always differ.
    pub fn paths(&self) -> Result<BTreeSet<PathBuf>> {
        fn walk(root: &Path, folder: &Path, found: &mut BTreeSet<PathBuf>) -> Result<()> {
            for path in files_in(folder)? {
                found.insert(path.strip_prefix(root).unwrap_or(&path).to_owned());
                if fs::symlink_metadata(&path).is_ok_and(|it| it.is_dir()) {
                    walk(root, &path, found)?;
                }
            }
            Ok(())
        }
        let mut found = BTreeSet::new();
        walk(&self.path, &self.path, &mut found)?;
        Ok(found)
    }
}

/// A command in a root file system. Its mounts vanish with it; its process id is that of the child.
pub fn inside(root: &Path, user: Option<&str>, words: &[&str]) -> Command {
    const MOUNT: &str = "mount -t proc proc \"$1/proc\" && mount --rbind /dev \"$1/dev\" && shift && exec chroot \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", MOUNT, "sh"]).arg(root);
    if let Some(user) = user {
        command.arg(format!("--userspec={user}"));
    }
    command.arg(root).args(words);
    command.env_clear();
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// Packages by name, with dpkg's records of them.
fn installed(status: &str) -> BTreeMap<&str, &str> {
    let stanzas = status.split("\n\n");
    let named =
        stanzas.filter(|one| field(one, "Status").is_some_and(|it| it.ends_with(" installed")));
    named
        .filter_map(|one| Some((field(one, "Package")?, one)))
        .collect()
}

fn field<'a>(stanza: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = stanza.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// These packages and all their dependencies. Of alternatives the first installed one; a virtual package is left out.
fn closure<'a>(installed: &BTreeMap<&'a str, &'a str>) -> BTreeMap<&'a str, &'a str> {
    let mut taken = BTreeMap::new();
    let is_essential = |stanza: &str| field(stanza, "Essential") == Some("yes");
    let essential = installed.iter().filter(|(_, stanza)| is_essential(stanza));
    let names = essential.map(|(name, _)| *name).chain(PACKAGES);
    let mut open: Vec<String> = names.map(str::to_owned).collect();
    while let Some(name) = open.pop() {
        let Some((name, stanza)) = installed.get_key_value(name.as_str()) else {
            continue;
        };
        if taken.insert(*name, *stanza).is_some() {
            continue;
        }
        for depends in ["Depends", "Pre-Depends"]
            .iter()
            .filter_map(|it| field(stanza, it))
        {
            for group in depends.split(", ") {
                let name = |one: &str| one.trim().split([' ', ':']).next().unwrap_or("").to_owned();
                let there = group
                    .split('|')
                    .map(name)
                    .find(|it| installed.contains_key(it.as_str()));
                open.extend(there);
            }
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_depended_on_comes_along() {
        let status = "Package: dpkg\nEssential: yes\nStatus: install ok installed\nPre-Depends: libc6 (>= 2.14), tar (>= 1.28-1)\n\n\
                      Package: libc6\nStatus: install ok installed\nDepends: libgcc-s1, no-such:any | libcrypt1\n\n\
                      Package: libcrypt1\nStatus: install ok installed\n\nPackage: tar\nStatus: deinstall ok config-files\n\n\
                      Package: vim\nStatus: install ok installed\n";
        let all = installed(status);
        let names: Vec<_> = closure(&all).into_keys().collect();
        assert_eq!(names, ["dpkg", "libc6", "libcrypt1"]);
    }
}
