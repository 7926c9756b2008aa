//! A list of hosts from a file: up to millions of names, each looked up in about a microsecond.
//!
//! A line is a name: `example.org` is that host alone, `*.example.org` every name below it, `.example.org` both. An address is matched
//! as it is. A `#` begins a comment. Letter case and a dot at the end make no difference.
//!
//! Names are stored reversed and sorted in one buffer (`gro.elpmaxe`), so a name and all names below it share a prefix. A look-up searches
//! for the whole host, then for each of its suffixes after a dot: at most as many binary searches as the host has labels.
//!
//! Limits: [`HostList::NAMES_MAX`] names, [`HostList::BYTES_MAX`] bytes of file. About 5 bytes a name besides its text.
//! Not known here: when the file is read again.

use std::{
    fmt, fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
    time::SystemTime,
};

use std::os::unix::fs::MetadataExt;

/// The host itself.
const ITSELF: u8 = 1;
/// All names below it.
const BELOW: u8 = 2;
/// The longest name.
const NAME_BYTES_MAX: usize = 253;
/// The most wrong lines that an error message lists.
const TOLD_MAX: usize = 5;

/// A list of hosts.
#[derive(Clone)]
pub struct HostList {
    path: PathBuf,
    stamp: Stamp,
    /// For each entry a byte with its kind ([`ITSELF`], [`BELOW`]), and the name, reversed.
    text: Vec<u8>,
    /// Where each entry begins, sorted by name.
    starts: Vec<u32>,
}

/// Metadata that differs when a file has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    modified: Option<SystemTime>,
    inode: u64,
    bytes: u64,
}

impl Stamp {
    /// The stamp of the file at a path.
    pub fn of(path: &Path) -> io::Result<Stamp> {
        fs::metadata(path).map(|data| Stamp::of_metadata(&data))
    }

    fn of_metadata(data: &fs::Metadata) -> Stamp {
        Stamp {
            modified: data.modified().ok(),
            inode: data.ino(),
            bytes: data.len(),
        }
    }
}

impl HostList {
    /// The most names of a list.
    pub const NAMES_MAX: usize = 10_000_000;
    /// The longest file, bytes.
    pub const BYTES_MAX: u64 = 512 << 20;

    /// Reads a file.
    ///
    /// # Errors
    /// A message for people: the file cannot be read, or which lines are wrong, and what to do.
    pub fn read(path: &Path) -> Result<HostList, String> {
        let told = path.display();
        let at_fault = |error: io::Error| {
            format!("{told}: {error}; name a file with one host a line that this user may read")
        };
        // Taken before reading, so that a change during the read is noticed later.
        let stamp = Stamp::of(path).map_err(at_fault)?;
        if stamp.bytes > Self::BYTES_MAX {
            let most = Self::BYTES_MAX >> 20;
            return Err(format!("{told}: longer than {most} MiB; name fewer hosts"));
        }
        let text = fs::read(path).map_err(at_fault)?;
        let (text, starts) = sorted(&text).map_err(|wrong| {
            let lines = wrong.into_iter().map(|(line, why)| match line {
                0 => format!("{told}: {why}"),
                line => format!("{told}:{line}: {why}"),
            });
            lines.collect::<Vec<_>>().join("\n")
        })?;
        Ok(HostList {
            path: path.to_owned(),
            stamp,
            text,
            starts,
        })
    }

    /// A list of these lines, without a file.
    ///
    /// # Errors
    /// As for [`HostList::read`].
    pub fn of_text(text: &str) -> Result<HostList, String> {
        let wrong = |wrong: Vec<(usize, String)>| wrong[0].1.clone();
        let (text, starts) = sorted(text.as_bytes()).map_err(wrong)?;
        Ok(HostList {
            path: PathBuf::new(),
            stamp: Stamp {
                modified: None,
                inode: 0,
                bytes: 0,
            },
            text,
            starts,
        })
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The stamp of the file when it was read.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// How many names it has.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Has it no name?
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Is this host on the list? It must be lower case, without a dot at its end; an address without brackets.
    pub fn contains(&self, host: &str) -> bool {
        if host.is_empty() || host.len() > NAME_BYTES_MAX {
            return false;
        }
        let mut space = [0; NAME_BYTES_MAX];
        let reversed = &mut space[..host.len()];
        for (to, from) in reversed.iter_mut().zip(host.bytes().rev()) {
            *to = from;
        }
        if self.has(reversed, ITSELF) {
            return true;
        }
        memchr::memchr_iter(b'.', reversed).any(|dot| self.has(&reversed[..dot], BELOW))
    }

    fn has(&self, reversed: &[u8], kind: u8) -> bool {
        let found = (self.starts).binary_search_by(|&start| name(&self.text, start).cmp(reversed));
        found.is_ok_and(|at| self.text[self.starts[at] as usize] & kind != 0)
    }
}

/// The name of the entry that begins at `start`. No name has a byte below `-`, so the next entry's kind byte ends it.
fn name(text: &[u8], start: u32) -> &[u8] {
    let rest = &text[start as usize + 1..];
    let end = rest.iter().position(|&byte| byte <= ITSELF | BELOW);
    &rest[..end.unwrap_or(rest.len())]
}

type Wrong = Vec<(usize, String)>;

/// The entries of a file, sorted by name.
fn sorted(file: &[u8]) -> Result<(Vec<u8>, Vec<u32>), Wrong> {
    let mut text: Vec<u8> = Vec::with_capacity(file.len() + 1);
    let mut starts: Vec<u32> = Vec::new();
    let mut wrong = Vec::new();
    let mut lower = String::new();
    for (number, line) in file.split(|&byte| byte == b'\n').enumerate() {
        let line = line.split(|&byte| byte == b'#').next().unwrap_or_default();
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        if starts.len() == HostList::NAMES_MAX {
            let most = HostList::NAMES_MAX;
            return Err(vec![(number + 1, format!("more than {most} names"))]);
        }
        match entry(line, &mut lower) {
            Some(kind) => {
                starts.push(text.len() as u32);
                text.push(kind);
                text.extend(lower.bytes().rev());
            }
            None => {
                let line: String = String::from_utf8_lossy(line).chars().take(60).collect();
                let why = format!(
                    "\"{line}\": expected a host such as \"example.org\", \".example.org\" with all names below it, or \"*.example.org\" for those alone; names with other letters as \"xn--\""
                );
                wrong.push((number + 1, why));
                if wrong.len() == TOLD_MAX {
                    return Err(wrong);
                }
            }
        }
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    starts.sort_unstable_by(|&a, &b| name(&text, a).cmp(name(&text, b)));
    // Entries of the same name are merged into the first.
    starts.dedup_by(|&mut next, &mut first| {
        let is_same = name(&text, first) == name(&text, next);
        if is_same {
            text[first as usize] |= text[next as usize];
        }
        is_same
    });
    starts.shrink_to_fit();
    // Stored in the order of the names, so that neighbours in a search are neighbours in memory.
    let mut placed = Vec::with_capacity(text.len());
    for start in &mut starts {
        let name = name(&text, *start);
        let at = placed.len() as u32;
        placed.push(text[*start as usize]);
        placed.extend_from_slice(name);
        *start = at;
    }
    Ok((placed, starts))
}

/// Reads the name of a line into `lower`; returns which hosts it means.
fn entry(line: &[u8], lower: &mut String) -> Option<u8> {
    let line = str::from_utf8(line).ok()?;
    let (kind, name) = match line.strip_prefix("*.") {
        Some(name) => (BELOW, name),
        None => match line.strip_prefix('.') {
            Some(name) => (ITSELF | BELOW, name),
            None => (ITSELF, line),
        },
    };
    lower.clear();
    if kind == ITSELF
        && let Some(address) = address(name)
    {
        lower.push_str(&address.to_string());
        return Some(kind);
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    lower.push_str(name);
    lower.make_ascii_lowercase();
    is_name(lower).then_some(kind)
}

/// An address, with or without brackets, in its canonical form.
pub fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    let address: IpAddr = bare.unwrap_or(text).parse().ok()?;
    Some(address.to_canonical())
}

fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        !label.is_empty() && label.len() <= 63 && label.bytes().all(good)
    };
    name.len() <= NAME_BYTES_MAX && name.split('.').all(is_label)
}

impl PartialEq for HostList {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path && self.starts == other.starts && self.text == other.text
    }
}

impl fmt::Debug for HostList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} hosts of {}", self.len(), self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_name_those_below_it_or_both() {
        let list = HostList::of_text(
            "# a comment\nA.org\n*.b.org   # below\n.C.org.\n\n192.0.2.1\n[2001:db8:0::1]\nd.org\n*.d.org\n",
        )
        .unwrap();
        assert_eq!(list.len(), 6);
        for host in [
            "a.org",
            "x.b.org",
            "y.x.b.org",
            "c.org",
            "x.c.org",
            "192.0.2.1",
            "2001:db8::1",
            "d.org",
            "x.d.org",
        ] {
            assert!(list.contains(host), "{host}");
        }
        for host in [
            "x.a.org",
            "b.org",
            "ab.org",
            "xc.org",
            "org",
            "",
            "192.0.2.10",
            "2.0.2.1",
            "a.org.x",
            ".a.org",
        ] {
            assert!(!list.contains(host), "{host}");
        }
        assert!(!list.contains(&"a.".repeat(200)));
    }

    #[test]
    fn wrong_lines_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hosts");
        let error = HostList::read(&path).unwrap_err();
        assert!(error.contains("No such file"), "{error}");
        fs::write(
            &path,
            "a.org\n0.0.0.0 ads.example\n\nhttp://b.org/\nok.org\nm\u{fc}ller.de\n",
        )
        .unwrap();
        let error = HostList::read(&path).unwrap_err();
        let lines: Vec<_> = error.lines().collect();
        assert_eq!(lines.len(), 3);
        let name = path.display().to_string();
        for (line, at) in lines.iter().zip([2, 4, 6]) {
            assert!(line.starts_with(&format!("{name}:{at}: ")), "{line}");
        }
        fs::write(&path, "x y\n".repeat(1000)).unwrap();
        assert_eq!(HostList::read(&path).unwrap_err().lines().count(), TOLD_MAX);
    }

    #[test]
    fn a_changed_file_has_another_stamp() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hosts");
        fs::write(&path, "a.org").unwrap();
        let list = HostList::read(&path).unwrap();
        assert_eq!(Stamp::of(&path).unwrap(), list.stamp());
        let other = directory.path().join("other");
        fs::write(&other, "b.org").unwrap();
        fs::rename(&other, &path).unwrap();
        assert_ne!(Stamp::of(&path).unwrap(), list.stamp());
    }

    #[test]
    fn a_hundred_thousand_names_and_their_slow_twin() {
        let mut text = String::new();
        for n in 0..100_000 {
            let front = ["", "*.", "."][n % 3];
            text.push_str(&format!("{front}h{}.d{}.example\n", n / 10, n % 10));
        }
        let list = HostList::of_text(&text).unwrap();
        let slow = |host: &str| {
            text.lines().any(|line| match line.strip_prefix("*.") {
                Some(name) => host.ends_with(&format!(".{name}")),
                None => match line.strip_prefix('.') {
                    Some(name) => host == name || host.ends_with(&format!(".{name}")),
                    None => host == line,
                },
            })
        };
        for n in (0..10_200).step_by(511) {
            for host in [
                format!("h{n}.d{}.example", n % 10),
                format!("x.y.h{n}.d{}.example", n % 7),
                format!("xh{n}.d3.example"),
            ] {
                assert_eq!(list.contains(&host), slow(&host), "{host}");
            }
        }
    }
}
