//! Limits on the connections of the admin interface, and on concurrent answers.
//!
//! Idle clients cannot block the interface. When all places are taken, the connection that has waited longest for its client is closed: for a
//! request, for the rest of a head, or for the client to take an answer. A connection whose answer is being made, or that streams, is kept.
//!
//! [`ANSWERS_MAX`] answers are made at a time, and [`WAITING_MAX`] requests wait for their turn; further ones are refused. So there is always a
//! connection that can be closed, and health checks, which need no turn, are always answered.
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

/// Connections at once, at most; see above.
pub const CONNECTIONS_MAX: usize = 256;
/// Answers made at a time, at most.
const ANSWERS_MAX: usize = 64;
/// Requests that wait for their turn, at most.
const WAITING_MAX: usize = 128;

const _: () = assert!(ANSWERS_MAX + WAITING_MAX + LISTENERS_MAX < CONNECTIONS_MAX);

/// The places of connections.
pub struct Room {
    places: RefCell<Vec<(Place, AbortHandle)>>,
    turns: Semaphore,
    waiting: Cell<usize>,
}

/// The place of a connection: since when it has waited for its client; `None` while it does not wait.
#[derive(Clone)]
pub struct Place(Rc<Cell<Option<Instant>>>);

impl Place {
    /// The place of a new connection.
    pub fn new() -> Place {
        Place(Rc::new(Cell::new(Some(Instant::now()))))
    }

    /// From now on the connection waits for its client.
    pub fn waits(&self) {
        self.0.set(Some(Instant::now()));
    }

    /// From now on the client waits for us.
    pub fn is_busy(&self) {
        self.0.set(None);
    }
}

/// Counts a waiting request until dropped.
struct Waiting<'a>(&'a Cell<usize>);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Room {
    /// A room without connections.
    pub fn new() -> Room {
        Room {
            places: RefCell::default(),
            turns: Semaphore::new(ANSWERS_MAX),
            waiting: Cell::new(0),
        }
    }

    /// Makes room for one more connection, if necessary by closing the one that has waited longest.
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

    /// Enters a connection with its task.
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
