//! The stores: from their blocks to their plans.
//!
//! A block has settings of its own store and settings of all stores (`rows`, and the `store.` rows of
//! `general`). Settings of all stores are first moved to the settings outside blocks, whichever block they are in.
//!
//! Rules kept here, and nowhere else:
//!   S1  a setting of all stores is written once, or is the same everywhere
//!   S2  no path is used twice, links followed; the lock of the device finds other duplicates
//!   S3  if there are several stores, each has a path, and none is `none`
//!   S4  a store that exists keeps its size unless one is given; a new one leaves half of the free space
//!   S5  new stores on one file system leave half of its free space together
//!   S6  given sizes fit into the free space, together if they are on one file system
//!   S7  a store that exists can be opened, one that does not can be made
//!   S8  an existing file has the given size, if one is given
//!
//! Not known here: the content of a device, which is checked when it is opened.

use std::collections::HashMap;
use std::path::PathBuf;

use commands::units::Size;
use proxy::plan::{Plan, StorePlan};

use super::apply::{apply, unknown};
use super::machine::{Existing, Machine, OnDisk};
use super::problem::{Found, Problem};
use super::raw::{Block, Given, Raw};
use super::rows::{Row, numbers, rows};
use super::values::StorePath;
use super::{general, values};

const MIB: u64 = 1 << 20;

/// The settings of one block that are about its own store.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct StoreDraft {
    path: StorePath,
    /// The other settings; the size is `None` if it was not given.
    plan: StorePlan,
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

/// Takes the settings of all stores out of the blocks; the blocks keep those of their own store.
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

/// A store in the making.
struct Candidate<'a> {
    /// For messages.
    block: &'a Block,
    plan: StorePlan,
    on_disk: OnDisk,
    /// Its path, links followed.
    place: PathBuf,
    /// The store does not exist yet and has no given size: it gets a share of the free space.
    takes_a_share: bool,
}

/// Checks the blocks, and fills in defaults that depend on the machine. Returns each plan, and what is on disk at its path.
pub fn settle(
    blocks: &[Block],
    machine: &Machine,
    found: &mut Found,
) -> (Vec<StorePlan>, Vec<OnDisk>) {
    let mut stores = Vec::new();
    for block in blocks {
        let store = candidate(block, blocks.len() > 1, &stores, machine, found);
        stores.extend(store);
    }
    if let Some(block) = blocks.get(Plan::STORES_MAX) {
        let message = format!("at most {} stores", Plan::STORES_MAX);
        found.problems.push(block.problem("store", message));
    }
    share_space(&mut stores, &mut found.problems);
    check_space(&stores, &mut found.problems);
    let parts = stores.into_iter().map(|store| (store.plan, store.on_disk));
    parts.unzip()
}

fn candidate<'a>(
    block: &'a Block,
    several: bool,
    others: &[Candidate<'_>],
    machine: &Machine,
    found: &mut Found,
) -> Option<Candidate<'a>> {
    let mut draft = StoreDraft::default();
    let before = found.problems.len();
    apply(&rows(), &block.given, &mut draft, &mut found.problems);
    let path = path(block, &draft, several, machine, &mut found.problems)?;
    let mut complain = |message: String| found.problems.push(block.problem("store.path", message));
    // S2
    let place = (machine.resolve)(&path);
    if let Some(other) = others.iter().find(|other| other.place == place) {
        let same = match other.plan.path == path {
            true => "is a store already".to_owned(),
            false => format!(
                "is the same as {}, which is a store already",
                other.plan.path.display()
            ),
        };
        complain(format!("{same}; give each its own file or device"));
    }
    let on_disk = (machine.look)(&path);
    let shown = path.display();
    match (&on_disk.existing, &on_disk.refused) {
        (Some(Existing::Unfit(what)), _) => {
            complain(format!(
                "{shown} is {what}; name a file, such as {shown}/store"
            ));
        }
        // S7
        (_, Some(why)) if !machine.open_stores.contains(&path) => complain(why.clone()),
        _ => {}
    }
    // S8
    if let (Some(Existing::File(there @ 1..)), Some(given)) =
        (&on_disk.existing, draft.plan.size_bytes)
        && *there != given
    {
        let there = Size(*there);
        let message = format!(
            "{shown} has {there}, and a store keeps its size: write that, or leave size out; for a new, empty store of {} remove the file \
             while no proxy runs",
            Size(given)
        );
        found.problems.push(block.problem("store.size", message));
    }
    if draft.plan.force {
        found.notes.push(format!(
            "{shown} is taken as a store whatever is on it (force); take force out after the first start"
        ));
    }
    let is_good = found.problems.len() == before;
    // S4. An empty file counts as none.
    let is_new = matches!(on_disk.existing, None | Some(Existing::File(0)));
    Some(Candidate {
        block,
        takes_a_share: is_new && is_good && draft.plan.size_bytes.is_none(),
        plan: StorePlan { path, ..draft.plan },
        on_disk,
        place,
    })
}

/// S3
fn path(
    block: &Block,
    draft: &StoreDraft,
    several: bool,
    machine: &Machine,
    problems: &mut Vec<Problem>,
) -> Option<PathBuf> {
    let (key, message) = match (&draft.path, several) {
        (StorePath::At(path), _) => return Some(path.clone()),
        (StorePath::None, true) => (
            "store.path",
            "means no store at all, but there are others; take this one out, or the others",
        ),
        (StorePath::None, false) if draft.plan.size_bytes.is_none() => return None,
        (StorePath::None, false) => ("store.size", "there is no store (store.path is none)"),
        // A bad path has been reported already.
        (StorePath::Default, true) if block.says("store.path") => return None,
        (StorePath::Default, true) => (
            "store.path",
            "where there are several stores, each needs a path, such as path = \"/dev/sdb\"",
        ),
        (StorePath::Default, false) => match &machine.cache_dir {
            Some(dir) => return Some(dir.join("loligo").join("store")),
            None => (
                "store.path",
                "no cache directory is known ($XDG_CACHE_HOME and $HOME are not set); \
                 say where the store is (flag --store), or none",
            ),
        },
    };
    problems.push(block.problem(key, message));
    None
}

/// S5
fn share_space(stores: &mut [Candidate<'_>], problems: &mut Vec<Problem>) {
    let takers = stores.iter().filter(|store| store.takes_a_share);
    let systems: Vec<_> = takers.map(|store| store.on_disk.file_system).collect();
    for store in stores.iter_mut().filter(|store| store.takes_a_share) {
        let on_disk = &store.on_disk;
        let free_bytes = on_disk.free_bytes.unwrap_or(u64::MAX);
        let sharing = systems
            .iter()
            .filter(|other| **other == on_disk.file_system);
        let bytes = free_bytes / 2 / sharing.count() as u64 / MIB * MIB;
        let bytes = bytes.min(StorePlan::SIZE_BYTES.default);
        if bytes < StorePlan::SIZE_BYTES.min {
            let message = format!(
                "only {} are free where the store would be, too little for half of it to hold one; \
                 choose another place (flag --store), a size (--store-size), or --store none",
                Size(free_bytes / 1024 * 1024)
            );
            problems.push(store.block.problem("store.path", message));
        }
        store.plan.size_bytes = Some(bytes);
    }
}

/// S6
fn check_space(stores: &[Candidate<'_>], problems: &mut Vec<Problem>) {
    let mut left: HashMap<Option<u64>, u64> = HashMap::new();
    for Candidate {
        block,
        plan,
        on_disk,
        ..
    } in stores
    {
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
        problems.push(block.problem("store.size", message));
    }
}

#[cfg(test)]
#[path = "stores_tests.rs"]
mod tests;
