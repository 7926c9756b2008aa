//! A barrier between a test and the threads it has started.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::PATIENCE;

/// Closed at first. Whoever comes by waits until it is opened; the test can see how many came.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    open: bool,
    arrived: usize,
}

impl Gate {
    pub fn new() -> Gate {
        Gate::default()
    }

    /// Waits here until the gate is open.
    pub fn pass(&self) {
        self.lock().arrived += 1;
        self.0.1.notify_all();
        self.wait("the gate was never opened", |state| state.open);
    }

    /// Lets everybody through, now and later.
    pub fn open(&self) {
        self.lock().open = true;
        self.0.1.notify_all();
    }

    /// Waits until so many have come.
    pub fn arrived(&self, count: usize) {
        self.wait("too few came to the gate", |state| state.arrived >= count);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, otherwise: &str, until: impl Fn(&State) -> bool) {
        let waited = self
            .0
            .1
            .wait_timeout_while(self.lock(), PATIENCE, |state| !until(state));
        let timed_out = waited.unwrap_or_else(PoisonError::into_inner).1.timed_out();
        assert!(!timed_out, "{otherwise}");
    }
}
