//! Reads lists of hosts again when their files change, without a reload, since programs write these files.
//!
//! A file that cannot be read or has a malformed line is reported once and counts as a refused reload; the previous list stays in force.
//! A file written in place may be read half-way; programs should write a new file and rename it.
//!
//! Not known here: how a plan is applied.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use plan::{HostList, Plan, Stamp};

/// How often the files are checked.
pub const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Files that were refused.
#[derive(Default)]
pub struct Watched {
    /// Each refused file's state at that time; `None`: it did not exist.
    refused: HashMap<PathBuf, Option<Stamp>>,
}

/// Does a plan have any list?
pub fn has_any(plan: &Plan) -> bool {
    lists(plan).next().is_some()
}

fn lists(plan: &Plan) -> impl Iterator<Item = &Arc<HostList>> {
    plan.rules.iter().flat_map(|rule| &rule.when.host_lists)
}

impl Watched {
    /// Checks the files. Returns the plan with the changed lists, or the errors; `None`: nothing has changed.
    pub async fn look(&mut self, plan: &Plan) -> Option<Result<Plan, String>> {
        let mut changed: Vec<PathBuf> = Vec::new();
        for list in lists(plan) {
            let path = list.path();
            let now = Stamp::of(path).ok();
            let is_known = now == Some(list.stamp()) || self.refused.get(path) == Some(&now);
            if !is_known && !changed.iter().any(|known| known == path) {
                changed.push(path.to_owned());
            }
        }
        if changed.is_empty() {
            return None;
        }
        let mut plan = plan.clone();
        let mut wrong = Vec::new();
        for path in changed {
            match self.read(&path).await {
                Ok(list) => put(&mut plan, &Arc::new(list)),
                Err(why) => wrong.push(why),
            }
        }
        match wrong.is_empty() {
            true => Some(Ok(plan)),
            false => Some(Err(wrong.join("\n"))),
        }
    }

    async fn read(&mut self, path: &Path) -> Result<HostList, String> {
        let before = Stamp::of(path).ok();
        let of = path.to_owned();
        // Reading a million names takes time.
        let read = tokio::task::spawn_blocking(move || HostList::read(&of)).await;
        let read = read.unwrap_or_else(|_| Err(format!("{}: not read", path.display())));
        match &read {
            Ok(_) => self.refused.remove(path),
            Err(_) => self.refused.insert(path.to_owned(), before),
        };
        read
    }
}

fn put(plan: &mut Plan, new: &Arc<HostList>) {
    let rules = plan.rules.iter_mut();
    for list in rules.flat_map(|rule| &mut rule.when.host_lists) {
        if list.path() == new.path() {
            *list = Arc::clone(new);
        }
    }
}
