//! Waiting for room in the ledger.
//!
//! Looked at again with every tick of the worker's table of time-outs: room comes when some client anywhere takes what waits for it, and
//! nobody has to tell all those who wait.
//!
//! Not known here: what is read then.

use std::{
    future::pending,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use super::{Holder, Ledger, Lot, STEP_BYTES_MIN};
use base::{
    clock::Instant,
    deadline::{TICK, Watch},
};
use record::metrics;

/// So long does a body wait of which nothing is on its way: it is not what its connection has too much of.
pub const OWN_WAIT_MAX: Duration = Duration::from_secs(2);

/// Meanwhile others take something, or nobody will for long.
const WHOLE_WAIT_MAX: Duration = Duration::from_secs(2);

/// So often do all others have their turn before a wait: a piece goes from its fetch to a stream, to its connection, to the socket.
const TURNS: usize = 4;

/// Waits until the holder may get more, and says how much. `paused` counts that it had to. `is_due`: it gets the least all the same, having
/// waited for so long.
pub async fn until_granted(
    ledger: &Ledger,
    holder: &Holder,
    watch: &Watch,
    paused: &AtomicU64,
    is_due: impl Fn(Duration) -> bool,
) -> usize {
    // A client that takes what comes makes room before anybody has to wait.
    for _ in 0..TURNS {
        if let Some(granted) = ledger.grant(holder) {
            return granted;
        }
        tokio::task::yield_now().await;
    }
    let began = Instant::now();
    let mut is_counted = false;
    loop {
        if let Some(granted) = ledger.grant(holder) {
            return granted;
        }
        if is_due(began.elapsed()) {
            return STEP_BYTES_MIN;
        }
        metrics::add(paused, u64::from(!std::mem::replace(&mut is_counted, true)));
        let _ = watch.limit(TICK, pending::<()>()).await;
    }
}

/// Waits until there is room for a body that is read as a whole, for so long at most, and counts it from then on.
pub async fn room_for_whole(
    ledger: &Ledger,
    holder: &Arc<Holder>,
    bytes: usize,
    watch: &Watch,
    paused: &AtomicU64,
) -> Lot {
    let began = Instant::now();
    let mut is_counted = false;
    while !ledger.has_room_for(bytes as u64, 0) && began.elapsed() < WHOLE_WAIT_MAX {
        metrics::add(paused, u64::from(!std::mem::replace(&mut is_counted, true)));
        let _ = watch.limit(TICK, pending::<()>()).await;
    }
    holder.hold(bytes)
}
