//! Lists of hosts are read again when their files change, without a reload: programs write them.
//!
//! A file that cannot be read, or has a wrong line, is told of once, and counts as a refused reload; what was read before goes on to hold. A
//! file that is written in place may be read half; whoever writes one should rename it into its place.
//!
//! Not known here: how a plan comes into force.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use plan::{HostList, Plan, Stamp};

/// How often the files are looked at.
pub const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What is known of files that could not be read.
#[derive(Default)]
pub struct Watched {
    /// How they were then; `None`: not there.
    refused: HashMap<PathBuf, Option<Stamp>>,
}

/// Has a plan any list?
pub fn has_any(plan: &Plan) -> bool {
    lists(plan).next().is_some()
}

fn lists(plan: &Plan) -> impl Iterator<Item = &Arc<HostList>> {
    plan.rules.iter().flat_map(|rule| &rule.when.host_lists)
}

impl Watched {
    /// Looks at the files. The plan with what has changed, or what is wrong; `None`: nothing has changed.
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
        // A million names take a moment.
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
