//! A lock whose holder may panic.

use std::sync::{Mutex, MutexGuard};

/// A thread that panicked while holding a lock may have left it half changed: better to stop than to go on with it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .expect("a thread panicked while it changed the store")
}
