//! Requests that miss the same part at once: one fetches it, the others wait.
//!
//! A part is read from its origin at the pace of the client that asked for it, so it is not shared while it arrives, as a
//! whole response is (`flight`). But it is stored fragment by fragment, and requests that waited find it there. The lock is
//! given back when the first fragment is stored, when it is clear that nothing will be stored, or when the fetch has ended
//! for whatever reason. A request waits once, and not for long: then it fetches for itself, so that no queue forms for answers
//! that cannot be shared.
//!
//! Limits: an entry for each fetch of a part that is under way; [`WAIT_MAX`].
//! Not known here: what is fetched.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use store::KeyHash;
use tokio::sync::watch;

use crate::deadline::Watch;

/// The longest that a request waits for another one's part.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// A resource or variant, and where the part begins: the number of a fragment.
type Place = (u64, u64);
type Table = HashMap<Place, watch::Receiver<()>>;

/// The parts that are being fetched, of the whole process.
#[derive(Default)]
pub struct FillLocks(Mutex<Table>);

/// The right to fetch; given back when dropped.
pub struct FillLock {
    fill_locks: Arc<FillLocks>,
    place: Place,
    /// Waiting requests see that it is gone.
    _over: watch::Sender<()>,
}

impl FillLocks {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock of what begins in this fragment; `Err`: another request has it.
    fn take(self: &Arc<Self>, place: Place) -> Result<FillLock, watch::Receiver<()>> {
        let mut table = self.lock();
        if let Some(others) = table.get(&place) {
            return Err(others.clone());
        }
        let (over, waiting) = watch::channel(());
        table.insert(place, waiting);
        Ok(FillLock {
            fill_locks: Arc::clone(self),
            place,
            _over: over,
        })
    }
}

impl Drop for FillLock {
    fn drop(&mut self) {
        self.fill_locks.lock().remove(&self.place);
    }
}

/// The lock, if no other request has it; else waits until it is given back, for so long at most: `None`.
pub async fn take_or_wait(
    fill_locks: &Arc<FillLocks>,
    watch: &Watch,
    hash: KeyHash,
    fragment: u64,
) -> Option<FillLock> {
    match fill_locks.take((hash.0, fragment)) {
        Ok(fill_lock) => Some(fill_lock),
        Err(mut over) => {
            let _ = watch.limit(WAIT_MAX, pin!(over.changed())).await;
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_for_each_place() {
        let fill_locks = Arc::new(FillLocks::default());
        let fill_lock = fill_locks.take((1, 0)).ok().unwrap();
        let over = fill_locks.take((1, 0)).err().unwrap();
        assert!(fill_locks.take((1, 1)).is_ok());
        assert!(fill_locks.take((2, 0)).is_ok());
        assert!(over.has_changed().is_ok());
        drop(fill_lock);
        assert!(over.has_changed().is_err(), "the sender is gone");
        assert!(fill_locks.take((1, 0)).is_ok());
        assert!(fill_locks.lock().is_empty());
    }
}
