//! The stores: from their blocks to their plans.
//!
//! A block has settings of its own store and settings of all stores ([`rows`], and the `store.` rows of
//! `general`). Those of all stores are taken out first and join the settings of the whole, whichever block they are in.
//!
//! Rules kept here, and nowhere else:
//!   S1  a setting of all stores is written once, or the same everywhere
//!   S2  no path twice, links followed; other doubles are found by the lock of the device
//!   S3  where there are several, each has a path, and none is `none`
//!   S4  a store that exists keeps its size unless one is given; a new one leaves half of the free space
//!   S5  new stores on one file system leave half of its free space together
//!   S6  sizes that were given fit into the free space, together where the file system is one
//!   S7  a store that exists can be opened, one that does not can be made
//!
//! Not known here: the content of a device; opening it looks at that.

use std::collections::HashMap;
use std::path::PathBuf;

use proxy::plan::{Plan, StorePlan};

use super::machine::{Existing, Machine, OnDisk};
use super::problem::Problem;
use super::raw::{Block, Given, Raw};
use super::rows::{Row, apply, numbers, rows, unknown};
use super::{Found, general, values};
use crate::units::Size;

const MIB: u64 = 1 << 20;

/// The settings of one block that are about its own store.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct StoreDraft {
    path: StorePath,
    /// Its other settings; its size is `None` where it was not given.
    plan: StorePlan,
}

/// Where a store is.
#[derive(Clone, PartialEq, Default, Debug)]
pub enum StorePath {
    /// In the user's cache directory.
    #[default]
    Default,
    /// There is none.
    None,
    /// Here.
    At(PathBuf),
}

/// Settings of one store: of `[store]`, or of each `[[store]]`.
pub fn rows() -> Vec<Row<StoreDraft>> {
    let mut rows = rows![StoreDraft:
        /// One file, made if it is not there, or a block device (all that is on it goes). `none`: memory only. Where there are several
        /// stores, each needs one.
        "store.path": "a path or `none`", "`loligo/store` in the user's cache directory" => path = values::store_path;
    ];
    rows.extend(numbers(
        "store.",
        StorePlan::SETTINGS,
        |s: &mut StoreDraft| &mut s.plan,
    ));
    rows
}

/// Is this a setting of one store?
pub fn is_own(given: &Given) -> bool {
    rows().iter().any(|row| row.key == given.key)
}

/// Takes the settings that hold for all stores out of the blocks; the blocks keep those of their own store.
pub fn split(raw: &Raw, problems: &mut Vec<Problem>) -> (Vec<Given>, Vec<Block>) {
    let (own, general) = (rows(), general::rows());
    let mut all: Vec<Given> = Vec::new();
    let mut blocks = raw.stores.clone();
    for block in &mut blocks {
        for given in std::mem::take(&mut block.given) {
            if own.iter().any(|row| row.key == given.key) {
                block.given.push(given);
            } else if general.iter().any(|row| row.key == given.key) {
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
                let own = own.iter().map(|row| row.key.as_str());
                let known = own.chain(general.iter().map(|row| row.key.as_str()));
                problems.push(unknown(&given, known));
            }
        }
    }
    apply(&own, &raw.replaced, &mut StoreDraft::default(), problems);
    if blocks.is_empty() {
        blocks.push(Block::default());
    }
    (all, blocks)
}

/// Checks the blocks, and fills in what depends on the machine; with what is on disk for each.
pub fn settle(
    blocks: &[Block],
    machine: &Machine,
    found: &mut Found,
) -> (Vec<StorePlan>, Vec<OnDisk>) {
    let mut making = Making {
        machine,
        found,
        several: blocks.len() > 1,
        plans: Vec::new(),
        on_disk: Vec::new(),
        places: Vec::new(),
        blocks: Vec::new(),
        to_be_made: Vec::new(),
    };
    for block in blocks {
        making.store(block);
    }
    if let Some(block) = blocks.get(Plan::STORES_MAX) {
        let message = format!("at most {} stores", Plan::STORES_MAX);
        making.complain(block, "store", message);
    }
    making.share_space();
    making.check_space();
    (making.plans, making.on_disk)
}

struct Making<'a> {
    machine: &'a Machine,
    found: &'a mut Found,
    several: bool,
    /// One for each; empty: memory only.
    plans: Vec<StorePlan>,
    /// What is on disk at the path of each.
    on_disk: Vec<OnDisk>,
    /// The path of each, links followed.
    places: Vec<PathBuf>,
    /// The block of each, for complaints.
    blocks: Vec<&'a Block>,
    /// Stores that do not exist yet and have no size: number, and block for complaints.
    to_be_made: Vec<(usize, &'a Block)>,
}

impl<'a> Making<'a> {
    fn complain(&mut self, block: &Block, key: &str, message: impl Into<String>) {
        self.found.problems.push(block.problem(key, message));
    }

    fn store(&mut self, block: &'a Block) {
        let mut draft = StoreDraft::default();
        let before = self.found.problems.len();
        apply(&rows(), &block.given, &mut draft, &mut self.found.problems);
        let Some(path) = self.path(block, &draft) else {
            return;
        };
        let on_disk = (self.machine.look)(&path);
        // S2
        let place = (self.machine.resolve)(&path);
        if let Some(other) = self.places.iter().position(|other| *other == place) {
            let other = &self.plans[other].path;
            let message = if *other == path {
                "is a store already; give each its own file or device".to_owned()
            } else {
                format!(
                    "is the same as {}, which is a store already; give each its own file or device",
                    other.display()
                )
            };
            self.complain(block, "store.path", message);
        }
        let size_bytes = match (&on_disk.existing, draft.plan.size_bytes) {
            (Some(Existing::Unfit(what)), _) => {
                let shown = path.display();
                let message = format!("{shown} is {what}; name a file, such as {shown}/store");
                self.complain(block, "store.path", message);
                None
            }
            // An empty file is as good as none.
            (Some(Existing::File(1..)) | Some(Existing::Device), None) => None,
            (_, Some(bytes)) => Some(bytes),
            (Some(Existing::File(0)) | None, None) => {
                if self.found.problems.len() == before {
                    self.to_be_made.push((self.plans.len(), block));
                }
                Some(StorePlan::SIZE_BYTES.default)
            }
        };
        // S7
        if let (Some(why), None | Some(Existing::File(_) | Existing::Device)) =
            (&on_disk.refused, &on_disk.existing)
        {
            self.complain(block, "store.path", why.clone());
        }
        if draft.plan.force {
            self.found.notes.push(format!(
                "{} is taken as a store whatever is on it (force); take force out after the first start",
                path.display()
            ));
        }
        self.plans.push(StorePlan {
            path,
            size_bytes,
            ..draft.plan
        });
        self.on_disk.push(on_disk);
        self.places.push(place);
        self.blocks.push(block);
    }

    /// S3
    fn path(&mut self, block: &Block, draft: &StoreDraft) -> Option<PathBuf> {
        match &draft.path {
            StorePath::At(path) => Some(path.clone()),
            StorePath::None if self.several => {
                let message =
                    "means no store at all, but there are others; take this one out, or the others";
                self.complain(block, "store.path", message);
                None
            }
            StorePath::None => {
                if draft.plan.size_bytes.is_some() {
                    self.complain(
                        block,
                        "store.size",
                        "there is no store (store.path is none)",
                    );
                }
                None
            }
            StorePath::Default if self.several => {
                // A bad path has been complained of already.
                if !block.says("store.path") {
                    let message = "where there are several stores, each needs a path, such as path = \"/dev/sdb\"";
                    self.complain(block, "store.path", message);
                }
                None
            }
            StorePath::Default => match &self.machine.cache_dir {
                Some(dir) => Some(dir.join("loligo").join("store")),
                None => {
                    let message = "no cache directory is known ($XDG_CACHE_HOME and $HOME are not set); \
                                   say where the store is (flag --store), or none";
                    self.complain(block, "store.path", message);
                    None
                }
            },
        }
    }

    /// S5
    fn share_space(&mut self) {
        let to_be_made = std::mem::take(&mut self.to_be_made);
        for &(number, block) in &to_be_made {
            let on_disk = &self.on_disk;
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
                self.complain(block, "store.path", message);
            }
            self.plans[number].size_bytes = Some(bytes);
        }
    }

    /// S6
    fn check_space(&mut self) {
        let mut left: HashMap<Option<u64>, u64> = HashMap::new();
        for number in 0..self.plans.len() {
            let (plan, on_disk) = (&self.plans[number], &self.on_disk[number]);
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
            self.complain(self.blocks[number], "store.size", message);
        }
    }
}

#[cfg(test)]
#[path = "stores_tests.rs"]
mod tests;
