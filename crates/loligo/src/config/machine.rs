//! Cores, memory, files and disks of the machine, as far as defaults and checks depend on them. Read once and passed in, so that tests can
//! use a made-up machine.

use std::path::{Path, PathBuf};

use proxy::plan::{CertificateFiles, ClusterKey, CredentialSource};
use rustix::fs::{Access, access};
use rustix::process::{Resource, getrlimit};

/// The RAM, if it cannot be found out.
const RAM_BYTES_UNKNOWN: u64 = 1 << 30;

/// The most bytes that are read of a file of users or groups. Later entries are not found.
const ACCOUNTS_BYTES_MAX: u64 = 16 << 20;

/// A machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Cores this process may use.
    pub cores: usize,
    /// RAM this process may use, bytes.
    pub ram_bytes: u64,
    /// Files this process may open at once (the hard limit; `serve` raises the soft one to it).
    pub files_max: u64,
    /// Was this process started as root?
    pub is_root: bool,
    /// The system's users: `/etc/passwd`.
    pub users: String,
    /// Its groups: `/etc/group`.
    pub groups: String,
    /// Stores that this process has open. They need not be opened again, which a process that gave up root might not be allowed to do.
    pub open_stores: Vec<PathBuf>,
    /// The user's cache directory.
    pub cache_dir: Option<PathBuf>,
    /// Finds out what is at a path on disk.
    pub look: fn(&Path) -> OnDisk,
    /// The path with its links followed, as far as it exists.
    pub resolve: fn(&Path) -> PathBuf,
    /// Checks that a log can be written there; the error says why not, and what to do.
    pub appendable: fn(&Path) -> Result<(), String>,
    /// Reads the key of a cluster; the error says why not.
    pub cluster_key: fn(&Path) -> Result<ClusterKey, String>,
    /// Checks that the file has certificates; the error says why not.
    pub certificates: fn(&Path) -> Result<(), String>,
    /// Checks that a start can show the certificate. `true`: the certificate must also be valid now. Returns a note, or why not.
    pub certificate: fn(&CertificateFiles, bool) -> Result<Option<String>, String>,
    /// Checks that the certificate can be shown to origins. Returns a note, or why not.
    pub client_certificate: fn(&CertificateFiles) -> Result<Option<String>, String>,
    /// Checks that the file has authorities that can judge certificates of clients.
    pub client_ca: fn(&Path) -> Result<(), String>,
    /// Checks that there are credentials, as far as that can be seen without network requests; the error says what is missing.
    pub credentials: fn(&CredentialSource) -> Result<(), String>,
    /// The name of the time zone for the hours in rules; the error says what to do.
    pub time_zone: fn() -> Result<String, String>,
}

/// What was found at a path.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OnDisk {
    /// The file or device that exists already.
    pub existing: Option<Existing>,
    /// Free bytes in the file system of the path, if the file system reports them.
    pub free_bytes: Option<u64>,
    /// The identifier of that file system.
    pub file_system: Option<u64>,
    /// Why the file cannot be opened, or made, and what to do.
    pub refused: Option<String>,
}

/// A file or device that exists already.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Existing {
    /// A file of so many bytes.
    File(u64),
    /// A block device.
    Device,
    /// Something that cannot hold a store, such as "a directory".
    Unfit(&'static str),
}

impl Machine {
    /// This machine.
    pub fn this() -> Self {
        Machine {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            ram_bytes: ram_bytes(),
            files_max: getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX),
            is_root: rustix::process::geteuid().is_root(),
            users: accounts("/etc/passwd"),
            groups: accounts("/etc/group"),
            open_stores: Vec::new(),
            cache_dir: cache_dir(),
            look,
            resolve,
            appendable,
            cluster_key,
            certificate,
            time_zone: proxy::name_of_zone,
            credentials: proxy::look_at_credentials,
            client_ca: |path| proxy::check_client_ca(path).map_err(|e| e.to_string()),
            certificates: proxy::check_certificates,
            client_certificate: |files| {
                let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
                proxy::look_at_client_certificate(files, now).map_err(|e| e.to_string())
            },
        }
    }
}

/// Checks a certificate and its key.
fn certificate(files: &CertificateFiles, is_strict: bool) -> Result<Option<String>, String> {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    let shown = match is_strict {
        true => proxy::check_certificate(files, now),
        false => proxy::look_at_certificate(files),
    };
    let shown = shown.map_err(|e| e.to_string())?;
    Ok(shown.ends_soon(now))
}

/// The text of a file of users or groups; empty if there is none. Users of a directory service are not in the file, and must be named
/// by number.
fn accounts(path: &str) -> String {
    use std::io::Read as _;
    let mut text = Vec::new();
    let read = std::fs::File::open(path).map(|file| file.take(ACCOUNTS_BYTES_MAX));
    let _ = read.and_then(|mut file| file.read_to_end(&mut text));
    String::from_utf8_lossy(&text).into_owned()
}

/// `$XDG_CACHE_HOME` if absolute (as its specification asks), else `~/.cache`.
fn cache_dir() -> Option<PathBuf> {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))
}

/// The machine's RAM, or what the control group leaves of it.
fn ram_bytes() -> u64 {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let total = read(Path::new("/proc/meminfo"))
        .and_then(|text| mem_total(&text))
        .unwrap_or(RAM_BYTES_UNKNOWN);
    // cgroup v2: every ancestor's limit counts.
    let group = read(Path::new("/proc/self/cgroup")).and_then(|text| {
        text.lines()
            .find_map(|line| line.strip_prefix("0::/").map(str::to_owned))
    });
    let root = Path::new("/sys/fs/cgroup");
    let limits = group.into_iter().flat_map(|group| {
        root.join(group)
            .ancestors()
            .take_while(|dir| dir.starts_with(root))
            .map(Path::to_owned)
            .collect::<Vec<_>>()
    });
    limits
        .filter_map(|dir| read(&dir.join("memory.max"))?.trim().parse().ok())
        .fold(total, u64::min)
}

fn mem_total(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

fn look(path: &Path) -> OnDisk {
    use std::os::unix::fs::FileTypeExt as _;
    let existing = std::fs::metadata(path).ok().map(|meta| {
        let kind = meta.file_type();
        if kind.is_file() {
            Existing::File(meta.len())
        } else if kind.is_block_device() {
            Existing::Device
        } else if kind.is_dir() {
            Existing::Unfit("a directory")
        } else {
            Existing::Unfit("neither a file nor a block device")
        }
    });
    // The nearest directory that exists; a bare name is in the current directory.
    let file_system = path
        .ancestors()
        .map(|dir| {
            if dir.as_os_str().is_empty() {
                Path::new(".")
            } else {
                dir
            }
        })
        .find_map(|dir| rustix::fs::statvfs(dir).ok());
    OnDisk {
        existing,
        // A file system that counts no blocks (9p, FUSE) does not report free space; making the file will show whether there is room.
        free_bytes: (file_system.as_ref())
            .filter(|fs| fs.f_blocks > 0)
            .map(|fs| fs.f_bavail.saturating_mul(fs.f_frsize)),
        file_system: file_system.map(|fs| fs.f_fsid),
        refused: refused(path, Access::READ_OK | Access::WRITE_OK, true),
    }
}

fn appendable(path: &Path) -> Result<(), String> {
    if path.is_dir() {
        return Err("this is a directory; name a file in it".to_owned());
    }
    refused(path, Access::WRITE_OK, false).map_or(Ok(()), Err)
}

/// Why a file cannot be opened in this way, or made if there is none. `folders`: its directory may be made, too.
fn refused(path: &Path, how: Access, folders: bool) -> Option<String> {
    let may = |path: &Path, how| access(path, how).map_err(|e| plain(&e.into()));
    if path.exists() {
        let why = may(path, how).err()?;
        return Some(format!("{} cannot be opened: {why}", path.display()));
    }
    let named = |dir: &Path| match dir.as_os_str().is_empty() {
        true => Path::new(".").to_owned(),
        false => dir.to_owned(),
    };
    let mut above = path.ancestors().skip(1).map(named);
    let dir = match folders {
        true => above.find(|dir| dir.exists())?,
        false => above.next()?,
    };
    if !dir.exists() {
        let dir = dir.display();
        return Some(format!("there is no directory {dir}; make it first"));
    }
    let why = match dir.is_dir() {
        true => may(&dir, Access::WRITE_OK | Access::EXEC_OK).err()?,
        false => "it is no directory".to_owned(),
    };
    Some(format!(
        "nothing can be made in {}: {why}; choose another place, or let this user write there",
        dir.display()
    ))
}

fn cluster_key(path: &Path) -> Result<ClusterKey, String> {
    let text = std::fs::read_to_string(path).map_err(|e| plain(&e))?;
    ClusterKey::from_hex(&text).ok_or_else(|| {
        "is no key of a cluster, which is 64 hexadecimal digits: `loligo cluster key`".to_owned()
    })
}

/// The text of an error, without the system's number.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    text[..end].to_owned()
}

/// Follows the links in a path. A part that does not exist yet stays as it is, and so does a dangling link.
fn resolve(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = path
        .ancestors()
        .find_map(|dir| Some((dir, dir.canonicalize().ok()?)));
    match there {
        Some((dir, real)) => match path.strip_prefix(dir) {
            Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
            _ => real,
        },
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_something_of_everything() {
        let machine = Machine::this();
        assert!(machine.cores >= 1);
        assert!(machine.ram_bytes >= 16 << 20);
        assert!(machine.files_max >= 16);
    }

    #[test]
    fn meminfo_is_read() {
        assert_eq!(
            mem_total("MemFree: 1 kB\nMemTotal:       16384 kB\n"),
            Some(16 << 20)
        );
        assert_eq!(mem_total("nonsense"), None);
    }

    #[test]
    fn a_path_is_resolved_as_far_as_it_exists() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real");
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, dir.path().join("link")).unwrap();
        let same = |a: &str, b: &str| resolve(&dir.path().join(a)) == resolve(&dir.path().join(b));
        assert!(same("real", "link"));
        assert!(same("real/new/store", "link/./new/store"));
        assert!(!same("real/new", "link/other"));
    }

    #[test]
    fn a_log_needs_a_directory_that_takes_it_and_nothing_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| appendable(&dir.path().join(name));
        assert_eq!(at("access.log"), Ok(()));
        assert!(at("no/access.log").unwrap_err().contains("make it first"));
        assert!(appendable(dir.path()).unwrap_err().contains("a directory"));
        std::fs::write(dir.path().join("file"), b"").unwrap();
        assert_eq!(at("file"), Ok(()));
        let under = look(&dir.path().join("file/store"));
        assert!(under.refused.unwrap().contains("it is no directory"));
        assert_eq!(look(&dir.path().join("new/store")).refused, None);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn certificates_are_looked_for() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ca.pem");
        let certificates = Machine::this().certificates;
        let missing = certificates(&file).unwrap_err();
        assert!(
            missing.starts_with("cannot be read: No such file"),
            "{missing}"
        );
        std::fs::write(&file, "nothing").unwrap();
        let told = certificates(&file).unwrap_err();
        assert!(told.starts_with("has no certificate"), "{told}");
    }

    #[test]
    fn looking_finds_files_directories_and_free_space() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        std::fs::write(&file, b"12345").unwrap();
        assert_eq!(look(&file).existing, Some(Existing::File(5)));
        assert_eq!(
            look(dir.path()).existing,
            Some(Existing::Unfit("a directory"))
        );
        let absent = look(&dir.path().join("no/such/file"));
        assert_eq!(absent.existing, None);
        assert!(absent.free_bytes.is_some());
        assert!(
            look(Path::new("bare-name-that-is-not-there"))
                .free_bytes
                .is_some()
        );
    }

    #[test]
    fn a_file_system_that_counts_no_blocks_does_not_say_what_is_free() {
        let there = look(Path::new("/proc/store"));
        assert_eq!((there.free_bytes, there.existing), (None, None));
    }
}
