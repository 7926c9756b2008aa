//! Reading ahead: while a fragment of a large object is sent, the next ones are read.
//!
//! Without it the device idles while a client takes a fragment, and the client waits while the device reads.
//!
//! Only clients that took their last fragment quickly ([`QUICK`]) get it: others take nothing sooner, and what is read waits in
//! memory. What was read for a client that then takes nothing is dropped, and read again.
//!
//! Only one such client gets it, while it is the only one of the process: several keep the device busy by themselves, and what is
//! read for them sooner makes small hits wait.
//!
//! Limits: [`FRAGMENTS_MAX`] fragments for an answer, counted into the budget of all transfers; none is begun while a quarter of that is
//! on its way to clients.
//! Not known here: what is done with a fragment, and what without it.

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

/// Fragments that are read beside the one that is being sent.
const FRAGMENTS_MAX: usize = 2;
/// A client that takes a fragment in less is quick.
const QUICK: Duration = Duration::from_millis(100);

/// The reads ahead of one answer.
#[derive(Default)]
pub struct Ahead {
    reads: VecDeque<Read>,
    is_quick: bool,
    /// Counts the answer among those of quick clients.
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
    /// The client took a fragment in so long.
    pub fn sent(&mut self, took: Duration) {
        self.is_quick = took < QUICK;
    }

    /// Lets go of what was read.
    pub fn give_up(&mut self) {
        self.reads.clear();
        self.is_quick = false;
        self.counted = None;
    }

    /// Begins to read the fragments behind `number`, of those that are wanted up to `end`, in bytes of the body.
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
            // A part of one is read as such.
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

    /// The fragment that was read ahead, once it is there; `Some(None)`: it could not be read. `None`: it was not read ahead.
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
