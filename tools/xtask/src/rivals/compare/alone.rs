//! One comparison at a time on a machine.
//!
//! Two at once would not only share the cores: each empties the page cache of the whole machine before its runs, and what
//! one writes back the other waits for. So a comparison holds a lock on a file that all users of the machine know,
//! whichever build directory they come from; the kernel lets go of it when the process ends, however it ends.
//!
//! Not known here: what is compared.   Limits: programs that do not ask (a bench by hand) are not kept out.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::failure::{During, Result, fail};

/// Where locks of the machine are, mostly.
const LOCKS: &str = "/run/lock";
const NAME: &str = "loligo-rivals-compare.lock";

/// The machine is ours while this lives.
#[derive(Debug)]
pub struct Alone {
    _file: File,
}

impl Alone {
    /// Takes the machine, or says who has it.
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
        // A comparison that starts now reads this.
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
