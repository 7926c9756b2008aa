//! Room at the admin interface: connections, and answers at a time.
//!
//! Clients that wait do not shut it. Where all places are taken, the connection that has waited longest gives way: for a request, for the rest of
//! a head, or for its client to take an answer. A connection whose answer is being made, or that streams, keeps its place.
//!
//! [`ANSWERS_MAX`] answers are made at a time, and [`WAITING_MAX`] requests wait for their turn; one more is refused. So a place that gives
//! way is always found, and health, which takes no turn, is always answered.
//!
//! Limits: [`CONNECTIONS_MAX`], [`ANSWERS_MAX`], [`WAITING_MAX`].

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    task::AbortHandle,
};

use base::clock::Instant;
use record::live::LISTENERS_MAX;

/// The most connections at once; see above.
pub const CONNECTIONS_MAX: usize = 256;
/// The most answers that are made at a time.
const ANSWERS_MAX: usize = 64;
/// The most requests that wait until theirs is.
const WAITING_MAX: usize = 128;

const _: () = assert!(ANSWERS_MAX + WAITING_MAX + LISTENERS_MAX < CONNECTIONS_MAX);

/// The places.
pub struct Room {
    places: RefCell<Vec<(Place, AbortHandle)>>,
    turns: Semaphore,
    waiting: Cell<usize>,
}

/// That of a connection: since when it waits for its client; `None` while it does not.
#[derive(Clone)]
pub struct Place(Rc<Cell<Option<Instant>>>);

impl Place {
    /// Of a connection that begins.
    pub fn new() -> Place {
        Place(Rc::new(Cell::new(Some(Instant::now()))))
    }

    /// From now on it waits for its client.
    pub fn waits(&self) {
        self.0.set(Some(Instant::now()));
    }

    /// Its client waits for us.
    pub fn is_busy(&self) {
        self.0.set(None);
    }
}

/// A request that waits is counted.
struct Waiting<'a>(&'a Cell<usize>);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Room {
    /// Empty.
    pub fn new() -> Room {
        Room {
            places: RefCell::default(),
            turns: Semaphore::new(ANSWERS_MAX),
            waiting: Cell::new(0),
        }
    }

    /// Makes room for one more connection.
    pub fn make(&self) {
        let mut places = self.places.borrow_mut();
        places.retain(|(_, task)| !task.is_finished());
        while places.len() >= CONNECTIONS_MAX {
            let waits = places.iter().enumerate();
            let waits = waits.filter_map(|(at, (place, _))| Some((place.0.get()?, at)));
            let Some((_, longest)) = waits.min() else {
                return;
            };
            places.swap_remove(longest).1.abort();
        }
    }

    /// A connection has this place.
    pub fn take(&self, place: Place, task: AbortHandle) {
        self.places.borrow_mut().push((place, task));
    }

    /// Waits until an answer may be made. `None`: too many wait already.
    pub async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        if let Ok(turn) = self.turns.try_acquire() {
            return Some(turn);
        }
        if self.waiting.get() >= WAITING_MAX {
            return None;
        }
        self.waiting.set(self.waiting.get() + 1);
        let _waiting = Waiting(&self.waiting);
        self.turns.acquire().await.ok()
    }
}
