//! Locks for simultaneous requests that miss the same part: one fetches it, the others wait.
//!
//! A part is read from its origin at the pace of its client, so other requests do not share it while it arrives, as they share a whole
//! response (`flight`). They read the stored fragments afterwards. The lock is released when the first fragment is stored, when it is
//! clear that nothing will be stored, or when the fetch ends for any reason. A request waits once, for a short time; then it fetches
//! for itself, so that no queue forms for answers that cannot be shared.
//!
//! Limits: one entry for each fetch of a part in progress; [`WAIT_MAX`].
//! Not known here: the bytes that are fetched.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use store::KeyHash;
use tokio::sync::Semaphore;

use base::deadline::Watch;

/// The longest wait for another request's part.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// A resource or variant, and the number of the fragment at which the part begins.
type Place = (u64, u64);
/// The semaphore of an entry is closed when its fetch ends, which wakes waiting requests in the order of their arrival.
type Table = HashMap<Place, Arc<Semaphore>>;

/// The parts being fetched in the process.
#[derive(Default)]
pub struct FillLocks(Mutex<Table>);

/// The right to fetch a part; released when dropped.
pub struct FillLock {
    fill_locks: Arc<FillLocks>,
    place: Place,
    /// Closed when the lock is released.
    over: Arc<Semaphore>,
}

impl FillLocks {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock of the part that begins with this fragment; `Err`: another request has it.
    fn take(self: &Arc<Self>, place: Place) -> Result<FillLock, Arc<Semaphore>> {
        let mut table = self.lock();
        if let Some(others) = table.get(&place) {
            return Err(Arc::clone(others));
        }
        let over = Arc::new(Semaphore::new(0));
        table.insert(place, Arc::clone(&over));
        Ok(FillLock {
            fill_locks: Arc::clone(self),
            place,
            over,
        })
    }
}

impl Drop for FillLock {
    fn drop(&mut self) {
        self.fill_locks.lock().remove(&self.place);
        self.over.close();
    }
}

/// Takes the lock if it is free.
pub fn take_if_free(fill_locks: &Arc<FillLocks>, hash: KeyHash, fragment: u64) -> Option<FillLock> {
    fill_locks.take((hash.0, fragment)).ok()
}

/// Takes the lock if it is free. Otherwise waits at most [`WAIT_MAX`] until it is released, and returns `None`.
pub async fn take_or_wait(
    fill_locks: &Arc<FillLocks>,
    watch: &Watch,
    hash: KeyHash,
    fragment: u64,
) -> Option<FillLock> {
    match fill_locks.take((hash.0, fragment)) {
        Ok(fill_lock) => Some(fill_lock),
        Err(over) => {
            let _ = watch.limit(WAIT_MAX, pin!(over.acquire())).await;
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, rc::Rc};

    use tokio::task::{JoinSet, LocalSet};

    use super::*;

    #[test]
    fn one_at_a_time_for_each_place() {
        let fill_locks = Arc::new(FillLocks::default());
        let fill_lock = fill_locks.take((1, 0)).ok().unwrap();
        let over = fill_locks.take((1, 0)).err().unwrap();
        assert!(fill_locks.take((1, 1)).is_ok());
        assert!(fill_locks.take((2, 0)).is_ok());
        assert!(!over.is_closed());
        drop(fill_lock);
        assert!(over.is_closed());
        assert!(fill_locks.take((1, 0)).is_ok());
        assert!(fill_locks.lock().is_empty());
    }

    #[tokio::test]
    async fn those_that_wait_go_on_in_the_order_in_which_they_came() {
        let fill_locks = Arc::new(FillLocks::default());
        let fill_lock = fill_locks.take((1, 0)).ok().unwrap();
        let order = Rc::new(RefCell::new(Vec::new()));
        let waiting = async {
            let mut tasks = JoinSet::new();
            for number in 0..16 {
                let (order, fill_locks) = (Rc::clone(&order), Arc::clone(&fill_locks));
                tasks.spawn_local(async move {
                    let over = fill_locks.take((1, 0)).err().unwrap();
                    let _ = over.acquire().await;
                    order.borrow_mut().push(number);
                });
            }
            tokio::task::yield_now().await;
            drop(fill_lock);
            tasks.join_all().await;
        };
        LocalSet::new().run_until(waiting).await;
        assert_eq!(*order.borrow(), (0..16).collect::<Vec<_>>());
    }
}
