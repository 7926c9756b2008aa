//! Records of started servers, written where another process finds them.
//!
//! Each server has a run directory named by its label, with a `record.json` that lists its processes and everything that must be
//! undone after their end. A [`Record`] alone is enough to stop a server and clean up after it.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::block;
use crate::failure::{During, Result};
use crate::process::{self, Identity};
use crate::workspace;

const NAME: &str = "record.json";
/// The directory of named shared memory.
pub(super) const SHARED_MEMORY: &str = "/dev/shm";

/// A server that was started, and all that is needed to undo its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub rival: String,
    pub label: String,
    pub address: SocketAddr,
    /// the server first, then its helpers
    pub servers: Vec<Identity>,
    /// prefix of names it may leave in shared memory
    pub shared_memory: Option<String>,
    /// a file system to be unmounted
    pub mounted: Option<PathBuf>,
    /// a cache that is removed at the end
    pub remove: Option<PathBuf>,
}

/// The run directory of a label.
pub(super) fn directory(label: &str) -> PathBuf {
    workspace::run_dir().join("servers").join(label)
}

impl Record {
    pub(super) fn new(rival: &str, label: &str, address: SocketAddr) -> Self {
        Self {
            rival: rival.to_owned(),
            label: label.to_owned(),
            address,
            servers: Vec::new(),
            shared_memory: None,
            mounted: None,
            remove: None,
        }
    }

    pub(super) fn read(run: &Path) -> Result<Option<Self>> {
        let path = run.join(NAME);
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(&path).during(|| format!("reading {}", path.display()))?;
        serde_json::from_str(&text)
            .map(Some)
            .during(|| format!("reading {}", path.display()))
    }

    pub(super) fn write(&self, run: &Path) -> Result<()> {
        let path = run.join(NAME);
        let text = serde_json::to_string_pretty(self).during(|| "writing a record".into())?;
        fs::write(&path, text).during(|| format!("writing {}", path.display()))
    }

    /// The pid of the server itself, if it runs.
    pub fn main_pid(&self) -> Option<u32> {
        let main = self.servers.first().filter(|i| i.is_alive())?;
        Some(main.pid)
    }

    /// Does any of its processes run?
    pub fn is_alive(&self) -> bool {
        self.servers.iter().any(Identity::is_alive)
    }

    /// Stops the processes that still run and removes what they left. Logs and configuration stay. A second call does no harm.
    pub fn undo(&self) -> Result<()> {
        let mut outcome = Ok(());
        for server in self.servers.iter().rev() {
            outcome = outcome.and(process::stop_recorded(*server));
        }
        if let Some(prefix) = &self.shared_memory {
            for entry in fs::read_dir(SHARED_MEMORY).into_iter().flatten().flatten() {
                if entry.file_name().to_string_lossy().starts_with(prefix) {
                    // Someone else may have removed it just now.
                    let _ = fs::remove_file(entry.path());
                    let _ = fs::remove_dir_all(entry.path());
                }
            }
        }
        if let Some(dir) = &self.mounted {
            outcome = outcome.and(block::unmount(dir));
        }
        if let Some(dir) = self.remove.as_ref().filter(|dir| dir.exists()) {
            let removed = fs::remove_dir_all(dir);
            outcome = outcome.and(removed.during(|| format!("removing {}", dir.display())));
        }
        let record = directory(&self.label).join(NAME);
        if outcome.is_ok() && record.exists() {
            outcome = fs::remove_file(&record).during(|| format!("removing {}", record.display()));
        }
        outcome
    }
}

/// All records of servers that were started and not stopped.
pub fn all_records() -> Result<Vec<Record>> {
    let mut records = Vec::new();
    for entry in fs::read_dir(workspace::run_dir().join("servers"))
        .into_iter()
        .flatten()
        .flatten()
    {
        records.extend(Record::read(&entry.path())?);
    }
    records.sort_by(|a, b| a.label.cmp(&b.label));
    Ok(records)
}
