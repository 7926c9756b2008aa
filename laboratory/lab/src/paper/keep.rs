//! Finished runs, kept in a file, so that an interrupted experiment can continue.
//!
//! One line a run, as JSON: its key and its outcome. A line is written when its run is finished; a last line that is cut off
//! is ignored. The key has the workload, the manager with all its settings, the disk, and the version of the
//! models. After a change of a model, old lines no longer match.
//!
//! Not known here: experiments.   Limits: the file is read whole.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::experiment::Outcome;

#[derive(Serialize, Deserialize)]
struct Line {
    run: String,
    outcome: Outcome,
}

/// The finished runs.
#[derive(Default)]
pub struct Keep {
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    done: HashMap<String, Outcome>,
    file: Option<File>,
}

impl Keep {
    /// Keeps runs in memory only.
    pub fn in_memory() -> Keep {
        Keep::default()
    }

    /// Keeps runs in a file, which is made if it does not exist.
    pub fn in_file(path: &Path) -> io::Result<Keep> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
            Err(e) => return Err(e),
        };
        let lines = text.lines().map(serde_json::from_str::<Line>);
        let done = lines
            .filter_map(|line| line.ok().map(|line| (line.run, line.outcome)))
            .collect();
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        if !text.is_empty() && !text.ends_with('\n') {
            file.write_all(b"\n")?;
        }
        Ok(Keep {
            inside: Mutex::new(Inside {
                done,
                file: Some(file),
            }),
        })
    }

    /// The outcome of this run, if it is finished.
    pub fn find(&self, run: &str) -> Option<Outcome> {
        let inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        inside.done.get(run).cloned()
    }

    /// Adds a finished run.
    pub fn add(&self, run: &str, outcome: &Outcome) -> io::Result<()> {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &mut inside.file {
            let line = Line {
                run: run.to_owned(),
                outcome: outcome.clone(),
            };
            let mut text = serde_json::to_string(&line).map_err(io::Error::other)?;
            text.push('\n');
            file.write_all(text.as_bytes())?;
        }
        inside.done.insert(run.to_owned(), outcome.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_found_after_a_crash() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("runs");
        let outcome = Outcome {
            seconds: 2.5,
            requests_per_s: 380.0,
            gets_per_s: 400.0,
            calls: Default::default(),
            figures: [("x".to_owned(), 1.0)].into(),
        };
        Keep::in_file(&path).unwrap().add("a", &outcome).unwrap();
        // An interrupted write leaves a part of the next line.
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"run\":\"b\",\"outc").unwrap();
        let keep = Keep::in_file(&path).unwrap();
        assert_eq!(keep.find("a"), Some(outcome.clone()));
        assert_eq!(keep.find("b"), None);
        keep.add("b", &outcome).unwrap();
        assert_eq!(Keep::in_file(&path).unwrap().find("b"), Some(outcome));
    }
}
