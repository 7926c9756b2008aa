//! The stores: from their blocks to their plans.
//!
//! A block says some things of its own store and some of all of them (`table::STORE`, and the `store.` rows of
//! `table::TOP`). The second kind is taken out first and joins the settings of the whole, whichever block it stands in.
//!
//! Rules kept here, and nowhere else:
//!   S1  what holds for all stores is said once, or the same everywhere
//!   S2  no path twice, links followed; what that does not tell the lock of the device does
//!   S3  where there are several, each has a path, and none is `none`
//!   S4  a store that exists keeps its size unless one is given; a new one leaves half of the free space
//!   S5  new stores on one file system leave half of its free space together
//!   S6  sizes that were given fit into the free space, together where the file system is one
//!   S7  what is there can be opened, what is not can be made
//!
//! Not known here: what is on a device; that is looked at when it is opened.

use std::collections::HashMap;
use std::path::PathBuf;

use proxy::plan::{Plan, StorePlan};

use crate::config::draft::{StoreDraft, StorePath};
use crate::config::into_plan::{find, missing, not_a_power};
use crate::config::machine::{Existing, Machine, OnDisk};
use crate::config::problem::{Place, Problem};
use crate::config::raw::{Given, Raw, RawStore};
use crate::config::settings;
use crate::config::table::{STORE, TOP};
use crate::units::Size;

const MIB: u64 = 1 << 20;

/// The stores, and what was found out about them.
#[derive(Default)]
pub struct Stored {
    /// One for each; empty: memory only.
    pub plans: Vec<StorePlan>,
    /// What is there, for each.
    pub on_disk: Vec<OnDisk>,
    /// What is wrong.
    pub problems: Vec<Problem>,
    /// What may surprise.
    pub notes: Vec<String>,
}

/// The settings of the whole, those of all stores included; the blocks with what they say of their own store; what
/// is wrong with the division.
pub fn split(raw: &Raw) -> (Vec<Given>, Vec<RawStore>, Vec<Problem>) {
    let mut all: Vec<Given> = Vec::new();
    let mut blocks = Vec::new();
    let mut problems = Vec::new();
    for block in &raw.stores {
        let mut own = Vec::new();
        for given in &block.given {
            let key = format!("store.{}", given.key);
            if STORE.iter().any(|row| row.key == given.key) {
                own.push(given.clone());
            } else if TOP.iter().any(|row| row.key == key) {
                let given = Given {
                    key,
                    ..given.clone()
                };
                // S1
                match all.iter().find(|other| other.key == given.key) {
                    Some(other) if other.value != given.value => {
                        let message = format!(
                            "holds for all stores, and another block says {}; say it once",
                            other.value
                        );
                        problems.push(given.problem(message));
                    }
                    Some(_) => {}
                    None => all.push(given),
                }
            } else {
                // By whole names: those of a block alone are too short to tell what is near.
                let whole = STORE.iter().map(|row| format!("store.{}", row.key));
                let known: Vec<String> =
                    whole.chain(TOP.iter().map(|row| row.key.into())).collect();
                let given = Given {
                    key,
                    ..given.clone()
                };
                let problem = settings::unknown(&given, known.iter().map(String::as_str));
                problems.push(problem);
            }
        }
        blocks.push(RawStore {
            place: block.place.clone(),
            given: own,
        });
    }
    settings::apply(
        STORE,
        "store.",
        &raw.replaced,
        &mut StoreDraft::default(),
        &mut problems,
    );
    all.extend(raw.given.iter().cloned());
    if blocks.is_empty() {
        blocks.push(RawStore {
            place: Place::Default,
            given: Vec::new(),
        });
    }
    (all, blocks, problems)
}

/// Checks the blocks, and fills in what depends on the machine.
pub fn settle(blocks: &[RawStore], machine: &Machine) -> Stored {
    let mut making = Making {
        machine,
        several: blocks.len() > 1,
        stored: Stored::default(),
        places: Vec::new(),
        blocks: Vec::new(),
        to_be_made: Vec::new(),
    };
    for block in blocks {
        making.store(block);
    }
    if blocks.len() > Plan::STORES_MAX {
        let message = format!("at most {} stores", Plan::STORES_MAX);
        let place = blocks[Plan::STORES_MAX].place.clone();
        making
            .stored
            .problems
            .push(missing(place, "store", message));
    }
    making.share_space();
    making.check_space();
    making.stored
}

struct Making<'a> {
    machine: &'a Machine,
    several: bool,
    stored: Stored,
    /// Where each is in truth, links followed.
    places: Vec<PathBuf>,
    /// What each was written as, for complaints.
    blocks: Vec<&'a RawStore>,
    /// Those that are not there and whose size was not said: number, and block for complaints.
    to_be_made: Vec<(usize, &'a RawStore)>,
}

impl<'a> Making<'a> {
    fn complain(&mut self, block: &RawStore, key: &str, message: String) {
        let mut problem = find(&block.given, key, "store.");
        if problem.value.is_empty() {
            problem.place = block.place.clone();
        }
        problem.message = message;
        self.stored.problems.push(problem);
    }

    fn store(&mut self, block: &'a RawStore) {
        let mut draft = StoreDraft::default();
        let before = self.stored.problems.len();
        settings::apply(
            STORE,
            "store.",
            &block.given,
            &mut draft,
            &mut self.stored.problems,
        );
        let Some(path) = self.path(block, &draft) else {
            return;
        };
        if let Some(message) = not_a_power(draft.plan.chunk_bytes) {
            self.complain(block, "chunk", message);
        }
        let on_disk = (self.machine.look)(&path);
        // S2
        let place = (self.machine.resolve)(&path);
        if let Some(other) = self.places.iter().position(|other| *other == place) {
            let other = &self.stored.plans[other].path;
            let message = if *other == path {
                "is a store already; give each its own file or device".to_owned()
            } else {
                format!(
                    "is the same as {}, which is a store already; give each its own file or device",
                    other.display()
                )
            };
            self.complain(block, "path", message);
        }
        let size_bytes = match (&on_disk.existing, draft.size) {
            (Some(Existing::Unfit(what)), _) => {
                let shown = path.display();
                let message = format!("{shown} is {what}; name a file, such as {shown}/store");
                self.complain(block, "path", message);
                None
            }
            // An empty file is as good as none.
            (Some(Existing::File(1..)) | Some(Existing::Device), None) => None,
            (_, Some(bytes)) => Some(bytes),
            (Some(Existing::File(0)) | None, None) => {
                if self.stored.problems.len() == before {
                    self.to_be_made.push((self.stored.plans.len(), block));
                }
                Some(StorePlan::SIZE_BYTES.default)
            }
        };
        // S7
        if let (Some(why), None | Some(Existing::File(_) | Existing::Device)) =
            (&on_disk.refused, &on_disk.existing)
        {
            self.complain(block, "path", why.clone());
        }
        if draft.plan.force {
            self.stored.notes.push(format!(
                "{} is taken as a store whatever is on it (force); take force out after the first start",
                path.display()
            ));
        }
        self.stored.plans.push(StorePlan {
            path,
            size_bytes,
            ..draft.plan
        });
        self.stored.on_disk.push(on_disk);
        self.places.push(place);
        self.blocks.push(block);
    }

    /// S3
    fn path(&mut self, block: &RawStore, draft: &StoreDraft) -> Option<PathBuf> {
        match &draft.path {
            StorePath::At(path) => Some(path.clone()),
            StorePath::None if self.several => {
                let message =
                    "means no store at all, but there are others; take this one out, or the others";
                self.complain(block, "path", message.into());
                None
            }
            StorePath::None => {
                if draft.size.is_some() {
                    self.complain(
                        block,
                        "size",
                        "there is no store (store.path is none)".into(),
                    );
                }
                None
            }
            StorePath::Default if self.several => {
                // A bad path has been complained of already.
                if !block.given.iter().any(|given| given.key == "path") {
                    let message = "where there are several stores, each needs a path, such as path = \"/dev/sdb\"";
                    self.complain(block, "path", message.into());
                }
                None
            }
            StorePath::Default => match &self.machine.cache_dir {
                Some(dir) => Some(dir.join("loligo").join("store")),
                None => {
                    let message = "no cache directory is known ($XDG_CACHE_HOME and $HOME are not set); \
                                   say where the store is (flag --store), or none";
                    self.complain(block, "path", message.into());
                    None
                }
            },
        }
    }

    /// S5
    fn share_space(&mut self) {
        let to_be_made = std::mem::take(&mut self.to_be_made);
        for &(number, block) in &to_be_made {
            let on_disk = &self.stored.on_disk;
            let here = &on_disk[number];
            let free_bytes = here.free_bytes.unwrap_or(u64::MAX);
            let sharing = to_be_made
                .iter()
                .filter(|(other, _)| on_disk[*other].file_system == here.file_system)
                .count() as u64;
            let bytes = free_bytes / 2 / sharing.max(1) / MIB * MIB;
            let bytes = bytes.min(StorePlan::SIZE_BYTES.default);
            if bytes < StorePlan::SIZE_BYTES.min {
                let message = format!(
                    "only {} are free where the store would be, too little for half of it to hold one; \
                     choose another place (flag --store), a size (--store-size), or --store none",
                    Size(free_bytes / 1024 * 1024)
                );
                self.complain(block, "path", message);
            }
            self.stored.plans[number].size_bytes = Some(bytes);
        }
    }

    /// S6
    fn check_space(&mut self) {
        let mut left: HashMap<Option<u64>, u64> = HashMap::new();
        for number in 0..self.stored.plans.len() {
            let (plan, on_disk) = (&self.stored.plans[number], &self.stored.on_disk[number]);
            let there = match on_disk.existing {
                Some(Existing::File(bytes)) => bytes,
                Some(_) => continue,
                None => 0,
            };
            let (Some(bytes), Some(free)) = (plan.size_bytes, on_disk.free_bytes) else {
                continue;
            };
            let left = left.entry(on_disk.file_system).or_insert(free);
            let needed = bytes.saturating_sub(there);
            if needed <= *left {
                *left -= needed;
                continue;
            }
            let other = if *left == free {
                ""
            } else {
                "beside the other stores "
            };
            let message = format!(
                "{} do not fit: {other}only {} are free where {} is to be; a smaller size (flag --store-size), or another place",
                Size(bytes),
                Size((*left + there) / MIB * MIB),
                plan.path.display(),
            );
            self.complain(self.blocks[number], "size", message);
        }
    }
}

#[cfg(test)]
#[path = "stores_tests.rs"]
mod tests;
