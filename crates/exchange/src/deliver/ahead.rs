//! Reads ahead: the next fragments of a large object are read while one is sent.
//!
//! Without it the device idles while a client takes a fragment, and the client waits while the device reads.
//!
//! Only clients that took their last fragment quickly ([`QUICK`]) benefit: a slower one takes no byte sooner, and the fragments wait in
//! memory. If a client then takes nothing, its fragments are dropped and read again later.
//!
//! Reading ahead is limited to one such client in the process, while it is the only one: several keep the device busy by themselves, and
//! reading ahead for them delays small hits.
//!
//! Limits: [`FRAGMENTS_MAX`] fragments an answer, counted in the budget of all transfers; no read begins while a quarter of that budget is
//! on its way to clients.
//! Not known here: how a fragment is used, and what happens without one.

use std::{collections::VecDeque, rc::Rc, sync::Arc, time::Duration};

use tokio::task::JoinHandle;

use crate::state::Worker;
use cache::{
    disk::{LoadedFragment, Waits},
    object::Object,
};
use ledger::{Holder, Lot};
use record::metrics;
use rules::key::fragment_key;

/// Fragments read besides the one that is being sent.
const FRAGMENTS_MAX: usize = 2;
/// A client that takes a fragment in less time is quick.
const QUICK: Duration = Duration::from_millis(100);

/// The reads ahead of one answer.
#[derive(Default)]
pub struct Ahead {
    reads: VecDeque<Read>,
    is_quick: bool,
    /// Counts the answer as one to a quick client.
    counted: Option<Arc<()>>,
}

struct Read {
    number: u32,
    task: JoinHandle<Option<LoadedFragment>>,
    _held: Lot,
}

impl Drop for Read {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Ahead {
    /// The client took a fragment in `took`.
    pub fn sent(&mut self, took: Duration) {
        self.is_quick = took < QUICK;
    }

    /// Drops the fragments read ahead.
    pub fn give_up(&mut self) {
        self.reads.clear();
        self.is_quick = false;
        self.counted = None;
    }

    /// Begins to read the fragments after `number`, up to byte `end` of the body.
    pub fn begin(
        &mut self,
        worker: &Rc<Worker>,
        holder: &Arc<Holder>,
        object: &Object,
        number: u32,
        end: u64,
    ) {
        let (Some(disk), Some(large)) = (&worker.storage.disk, &object.large) else {
            return;
        };
        let shared = &worker.shared;
        if !self.is_quick {
            self.counted = None;
            return;
        }
        (self.counted).get_or_insert_with(|| shared.flights.hold_quick());
        if shared.flights.quick_answers() > 1 {
            return;
        }
        let store = disk.store_of(object.primary);
        let size = u64::from(store.fragment_bytes());
        while self.reads.len() < FRAGMENTS_MAX && shared.ledger.may_read_ahead() {
            let next = self.reads.back().map_or(number, |last| last.number) + 1;
            let begins = u64::from(next) * size;
            let ends = (begins + size).min(object.body_bytes());
            // A partly wanted fragment is not read ahead.
            if begins >= ends || ends > end {
                return;
            }
            let key = fragment_key(&object.key, large.fetch_id, next);
            if shared
                .cache
                .fragments
                .contains(store.hasher().hash(&key), &key)
            {
                return;
            }
            let held = holder.hold((ends - begins) as usize);
            let (disk, of) = (disk.clone(), (object.primary, object.key.clone()));
            let fetch_id = large.fetch_id;
            let waits = Waits::for_answer(true);
            let task = async move {
                let (primary, key) = of;
                (disk.load_fragment(primary, &key, fetch_id, next, waits)).await
            };
            metrics::add(&worker.counters.fragments_read_ahead, 1);
            self.reads.push_back(Read {
                number: next,
                task: tokio::task::spawn_local(task),
                _held: held,
            });
        }
    }

    /// Waits for the fragment that was read ahead. `Some(None)`: it could not be read. `None`: it was not read ahead.
    pub async fn take(&mut self, number: u32) -> Option<Option<LoadedFragment>> {
        while let Some(mut read) = self.reads.pop_front() {
            if read.number == number {
                let loaded = (&mut read.task).await;
                return Some(loaded.ok().flatten());
            }
        }
        None
    }
}
