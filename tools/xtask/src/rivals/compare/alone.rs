//! One comparison at a time on a machine.
//!
//! Two comparisons at once would share the cores. Each would also empty the other's page cache before its runs, and wait for
//! the other's write-back. So a comparison locks a file at a place that is the same for all users and build directories. The
//! kernel releases the lock when the process ends, however it ends.
//!
//! Not known here: what is compared.   Limits: programs that do not take the lock (a bench by hand) are not kept out.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::failure::{During, Result, fail};

/// The usual directory of a machine's locks.
const LOCKS: &str = "/run/lock";
const NAME: &str = "loligo-rivals-compare.lock";

/// The lock on the machine, held while this lives.
#[derive(Debug)]
pub struct Alone {
    _file: File,
}

impl Alone {
    /// Takes the lock. The error names the comparison that holds it.
    pub fn on_this_machine(command: &str) -> Result<Self> {
        let dir = if Path::new(LOCKS).is_dir() {
            PathBuf::from(LOCKS)
        } else {
            std::env::temp_dir()
        };
        Self::holding(&dir.join(NAME), command)
    }

    fn holding(path: &Path, command: &str) -> Result<Self> {
        let opening = || format!("opening {}", path.display());
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .during(opening)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut holder = String::new();
            let _ = file.read_to_string(&mut holder);
            fail!(
                "another comparison is running, {}; both would disturb each other, so wait for it or stop it",
                holder.trim()
            );
        }
        // A comparison that finds the lock taken reads this text.
        file.set_len(0).during(opening)?;
        writeln!(file, "process {}: {command}", std::process::id()).during(opening)?;
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_refused_by_name_until_the_first_has_gone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        let first = Alone::holding(&path, "compare --disk slow, a long one").unwrap();
        let said = Alone::holding(&path, "b").unwrap_err().to_string();
        let own = format!(
            "process {}: compare --disk slow, a long one",
            std::process::id()
        );
        assert!(said.contains(&own), "{said}");
        drop(first);
        // Cut off what a longer name has left.
        let _second = Alone::holding(&path, "b").unwrap();
        let said = Alone::holding(&path, "c").unwrap_err().to_string();
        assert!(said.contains(": b;"), "{said}");
    }
}
