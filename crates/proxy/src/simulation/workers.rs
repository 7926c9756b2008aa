//! The workers that have started on this thread.

use std::{
    cell::RefCell,
    rc::{Rc, Weak},
};

use exchange::state::Worker;

thread_local! {
    static WORKERS: RefCell<Vec<Weak<Worker>>> = const { RefCell::new(Vec::new()) };
}

/// Adds a worker.
pub fn register(worker: &Rc<Worker>) {
    WORKERS.with_borrow_mut(|workers| workers.push(Rc::downgrade(worker)));
}

/// The workers added since the last call.
pub fn taken() -> Vec<Weak<Worker>> {
    WORKERS.take()
}
