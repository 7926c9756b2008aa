//! Read-ahead: while a fragment of a stored body is sent, the next one is read.
//!
//! Else the disk rests while the client takes a fragment, and the client waits while the next one is read and its checksum computed.
//!
//! Limits: one fragment ahead for each answer, counted in the budget of all transfers from its beginning. None is read ahead where fragments
//! take half of that budget already, and a client that has to give back its fragment gives back this one too.
//! Not known here: what is sent, and what happens if a fragment is missing.

use std::rc::Rc;

use tokio::task::JoinHandle;

use crate::{
    cache::disk::{LoadedFragment, Waits},
    cache::object::Object,
    fetch::flight::Held,
    state::Worker,
};

/// A read that nobody has asked for yet; dropped, it is left.
pub struct Ahead {
    number: u32,
    read: JoinHandle<Option<LoadedFragment>>,
    _held: Held,
}

impl Ahead {
    /// Begins to read a fragment of an object. Nothing if there is no room for it.
    pub fn begin(worker: &Rc<Worker>, object: &Object, number: u32) -> Option<Ahead> {
        let (disk, large) = (worker.disk.as_ref()?, object.large?);
        if number >= large.fragments || worker.shared.is_crowded_by_fragments() {
            return None;
        }
        let mut held = worker.shared.flights.hold_fragment();
        held.set(u64::from(disk.store_of(object.primary).fragment_bytes()));
        let (disk, primary, key) = (disk.clone(), object.primary, object.key.clone());
        let read = tokio::task::spawn_local(async move {
            let waits = Waits::WhileItAnswers;
            disk.load_fragment(primary, &key, large.fetch_id, number, waits)
                .await
        });
        Some(Ahead {
            number,
            read,
            _held: held,
        })
    }

    /// Is it this one that is read?
    pub fn is_of(&self, number: u32) -> bool {
        self.number == number
    }

    /// The fragment, if it is there.
    pub async fn fragment(mut self) -> Option<LoadedFragment> {
        (&mut self.read).await.ok().flatten()
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.read.abort();
    }
}
