//! Why a device could not be opened, in words that say what to do about it.

use std::io;
use std::path::PathBuf;

use crate::buffer::ALIGN_BYTES;
use crate::holders::Process;

/// Why a device could not be opened, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum OpenError {
    #[error("cannot open {}: {source}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("{} does not exist: create it, or allow it to be created", path.display())]
    Missing { path: PathBuf },
    #[error("{path} does not exist; no file is created among the devices: is the name right?", path = path.display())]
    NoDevice { path: PathBuf },
    #[error(
        "{} is in use by another process{}: stop that one first, or give each its own store",
        path.display(),
        in_brackets(by.as_ref())
    )]
    InUse { path: PathBuf, by: Option<Process> },
    #[error(
        "{} is in use: mounted on {}; nothing was written. If it is not needed: umount it first",
        path.display(),
        mounted_on.display()
    )]
    Mounted { path: PathBuf, mounted_on: PathBuf },
    #[error("{} is in use by {by}; nothing was written. Take another, or take that apart first", path.display())]
    Held { path: PathBuf, by: String },
    #[error(
        "{path} carries {name} at byte {at}; nothing was written. If it is not needed: loligo store init --force {path}",
        path = path.display()
    )]
    Signature {
        path: PathBuf,
        name: &'static str,
        at: u64,
    },
    #[error(
        "{path} is a disk with partitions ({names}); nothing was written. Name one of them, or if they are not needed: \
         loligo store init --force {path}",
        path = path.display()
    )]
    Partitioned { path: PathBuf, names: String },
    #[error("{} is neither a regular file nor a block device", path.display())]
    WrongKind { path: PathBuf },
    #[error("{} is new: say how large it shall be, at least {ALIGN_BYTES} bytes", path.display())]
    SizeNeeded { path: PathBuf },
    #[error(
        "{} has {found} bytes: too short for a store, and not empty, so it is something else. Nothing was written; name another \
         file, or remove this one if it is not needed",
        path.display()
    )]
    TooShort { path: PathBuf, found: u64 },
    #[error(
        "{} has {found} bytes and cannot be resized to {asked}: leave the size out, or remove the file to start anew",
        path.display()
    )]
    SizeDiffers {
        path: PathBuf,
        found: u64,
        asked: u64,
    },
    #[error("{} has only {found} bytes, not {asked}: ask for less, or leave the size out", path.display())]
    BeyondDevice {
        path: PathBuf,
        found: u64,
        asked: u64,
    },
    #[error(
        "no room for {asked} bytes at {}: its file system has {free} free; ask for less, or make room",
        path.display()
    )]
    NoSpace {
        path: PathBuf,
        asked: u64,
        free: u64,
    },
}

fn in_brackets(by: Option<&Process>) -> String {
    by.map(|by| format!(" ({by})")).unwrap_or_default()
}
