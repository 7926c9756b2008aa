//! Which process or mount holds a disk or a file, when the system says only "busy".
//!
//! Used after a refused opening, to say what to do about it. It reads the mount table, the list of swap spaces, and
//! in `/sys/dev/block` the devices made of a disk and its partitions. A disk is busy when one of its partitions is,
//! and the other way round, so all of them are checked. Locks on files are found in `/proc/locks`.
//!
//! Not known here: whether the device may be opened. The kernel decides that. If nothing is found here, as in a
//! container with its own `/proc`, the refusal stands without a reason.
//!
//! Sources: proc_pid_mountinfo(5), proc_locks(5), sysfs-block of the kernel's ABI documentation.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A process that has a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its name in the kernel; empty if unknown.
    pub name: String,
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.as_str() {
            "" => write!(f, "pid {}", self.pid),
            name => write!(f, "pid {}, {name}", self.pid),
        }
    }
}

/// The number of a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    major: u32,
    minor: u32,
}

/// What holds a block device.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    Mount(PathBuf),
    /// Swap, or other devices: in words.
    Other(String),
}

impl Number {
    /// The holder of the block device at `path`.
    pub(crate) fn of_path(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        let is_block = metadata.file_type().is_block_device();
        is_block.then(|| Self::of(metadata.rdev()))
    }

    fn of(device: u64) -> Self {
        Self {
            major: rustix::fs::major(device),
            minor: rustix::fs::minor(device),
        }
    }

    fn parse(text: &str, radix: u32) -> Option<Self> {
        let (major, minor) = text.trim().split_once(':')?;
        Some(Self {
            major: u32::from_str_radix(major, radix).ok()?,
            minor: u32::from_str_radix(minor, radix).ok()?,
        })
    }

    fn folder(self) -> PathBuf {
        PathBuf::from(format!("/sys/dev/block/{}:{}", self.major, self.minor))
    }

    /// Its partitions that the kernel knows, by name.
    pub(crate) fn partitions(self) -> Vec<(String, Number)> {
        let mut found: Vec<_> = entries(&self.folder())
            .filter(|path| path.join("partition").exists())
            .filter_map(|path| Some((name_of(&path)?, number_in(&path)?)))
            .collect();
        found.sort_by_key(|(_, number)| number.minor);
        found
    }

    /// The disk, if this is a partition.
    fn whole(self) -> Option<Number> {
        let folder = fs::canonicalize(self.folder()).ok()?;
        folder.join("partition").exists().then_some(())?;
        number_in(folder.parent()?)
    }

    /// What holds it, its partitions, or the disk it is a partition of.
    pub(crate) fn holder(self) -> Option<Holder> {
        let mut family = vec![self];
        family.extend(self.partitions().into_iter().map(|(_, number)| number));
        family.extend(self.whole());
        let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
        if let Some(at) = mounted_at(&mounts, &family, Number::of_path) {
            return Some(Holder::Mount(at));
        }
        let swaps = fs::read("/proc/swaps").unwrap_or_default();
        if swaps_on(&swaps, &family, Number::of_path) {
            return Some(Holder::Other("the system, which swaps to it".into()));
        }
        let mut made: Vec<_> = family
            .iter()
            .flat_map(|number| entries(&number.folder().join("holders")))
            .filter_map(|path| described(&path))
            .collect();
        made.sort();
        made.dedup();
        (!made.is_empty()).then(|| Holder::Other(made.join(", ")))
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

fn name_of(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_string_lossy().into_owned())
}

fn number_in(folder: &Path) -> Option<Number> {
    Number::parse(&fs::read_to_string(folder.join("dev")).ok()?, 10)
}

/// A device by its name and, if it is a mapping, the mapping's: `dm-0 (vg0-root)`.
fn described(folder: &Path) -> Option<String> {
    let name = name_of(folder)?;
    match fs::read_to_string(folder.join("dm/name")) {
        Ok(mapping) => Some(format!("{name} ({})", mapping.trim())),
        Err(_) => Some(name),
    }
}

/// The first mount point of one of these devices. Some file systems (btrfs) have device numbers of their own, so the
/// number of the mounted device is compared as well.
fn mounted_at(
    mounts: &[u8],
    family: &[Number],
    number_of: impl Fn(&Path) -> Option<Number>,
) -> Option<PathBuf> {
    mounts.split(|b| *b == b'\n').find_map(|line| {
        let fields: Vec<_> = line.split(|b| *b == b' ').collect();
        let number = str::from_utf8(fields.get(2)?).ok()?;
        let optional_end = fields.iter().position(|field| *field == b"-")?;
        let source = fields.get(optional_end + 2)?;
        let by_source = || {
            source
                .starts_with(b"/")
                .then(|| number_of(&unescaped(source)))?
        };
        let belongs = |number: Option<Number>| number.is_some_and(|n| family.contains(&n));
        let ours = belongs(Number::parse(number, 10)) || belongs(by_source());
        ours.then(|| fields.get(4).map(|at| unescaped(at)))?
    })
}

fn swaps_on(swaps: &[u8], family: &[Number], number_of: impl Fn(&Path) -> Option<Number>) -> bool {
    swaps.split(|b| *b == b'\n').skip(1).any(|line| {
        let path = line.split(|b| b.is_ascii_whitespace()).next();
        path.filter(|path| path.starts_with(b"/"))
            .and_then(|path| number_of(&unescaped(path)))
            .is_some_and(|number| family.contains(&number))
    })
}

/// These tables write a space as `\040`.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let octal = (*first == b'\\')
            .then(|| str::from_utf8(after.get(..3)?).ok())
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(octal.unwrap_or(*first));
        rest = if octal.is_some() { &after[3..] } else { after };
    }
    OsString::from_vec(bytes).into()
}

/// The process that has this file locked.
pub(crate) fn locked_by(metadata: &Metadata) -> Option<Process> {
    let locks = fs::read_to_string("/proc/locks").ok()?;
    process(lock_owner(
        &locks,
        Number::of(metadata.dev()),
        metadata.ino(),
    )?)
}

fn process(pid: u32) -> Option<Process> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some(Process {
        pid,
        name: name.trim().to_owned(),
    })
}

/// `1: FLOCK ADVISORY WRITE 1234 fe:00:9977916 0 EOF`. A process that only waits has an arrow after the first number.
fn lock_owner(locks: &str, device: Number, inode: u64) -> Option<u32> {
    locks.lines().find_map(|line| {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        let ["FLOCK", _, _, pid, file, ..] = *fields.get(1..)? else {
            return None;
        };
        let (number, locked) = file.rsplit_once(':')?;
        let same = Number::parse(number, 16) == Some(device) && locked.parse() == Ok(inode);
        same.then(|| pid.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn number(major: u32, minor: u32) -> Number {
        Number { major, minor }
    }

    #[test]
    fn a_mount_is_found_by_number_or_by_what_was_mounted() {
        let mounts = b"22 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw\n\
            30 22 0:26 / /proc rw - proc proc rw\n\
            31 22 8:17 / /srv/my\\040disk rw - xfs /dev/sdb1 rw\n\
            32 22 0:44 /sub /mnt/b rw shared:7 - btrfs /dev/sdc rw\n";
        let at = |family: &[Number]| {
            mounted_at(mounts, family, |path| {
                (path == Path::new("/dev/sdc")).then_some(number(8, 32))
            })
        };
        assert_eq!(at(&[number(254, 0)]), Some("/".into()));
        assert_eq!(
            at(&[number(8, 16), number(8, 17)]),
            Some("/srv/my disk".into())
        );
        assert_eq!(at(&[number(8, 32)]), Some("/mnt/b".into()));
        assert_eq!(at(&[number(8, 48)]), None);
    }

    #[test]
    fn swap_spaces_are_found_by_the_number_of_their_path() {
        let swaps =
            b"Filename\t\t\t\tType\t\tSize\n/dev/sdb2                  partition\t100\t0\t-2\n";
        let number_of = |path: &Path| (path == Path::new("/dev/sdb2")).then_some(number(8, 18));
        assert!(swaps_on(swaps, &[number(8, 18)], number_of));
        assert!(!swaps_on(swaps, &[number(8, 1)], number_of));
    }

    #[test]
    fn the_owner_of_a_lock_is_found_not_who_waits_for_it() {
        let locks = "1: POSIX  ADVISORY  WRITE 77 fe:00:99 0 EOF\n\
            2: -> FLOCK  ADVISORY  WRITE 78 fe:00:99 0 EOF\n\
            3: FLOCK  ADVISORY  WRITE 79 fe:01:99 0 EOF\n\
            4: FLOCK  ADVISORY  WRITE 80 fe:00:99 0 EOF\n";
        assert_eq!(lock_owner(locks, number(254, 0), 99), Some(80));
        assert_eq!(lock_owner(locks, number(254, 0), 98), None);
    }

    #[test]
    fn escapes_are_undone_and_other_backslashes_kept() {
        let cases = [
            ("a\\040b", "a b"),
            ("\\134", "\\"),
            ("a\\", "a\\"),
            ("\\9zz", "\\9zz"),
        ];
        for (escaped, plain) in cases {
            assert_eq!(unescaped(escaped.as_bytes()), PathBuf::from(plain));
        }
    }

    #[test]
    fn a_process_has_a_name() {
        let me = process(std::process::id()).unwrap();
        assert!(
            me.to_string().starts_with(&format!("pid {}, ", me.pid)),
            "{me}"
        );
    }
}
