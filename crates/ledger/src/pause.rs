//! Waiting for room in the ledger.
//!
//! Waiters look again at every tick of the worker's table of time-outs. Room appears when any client takes bytes, and a notification of
//! all waiters would cost more.
//!
//! Not known here: what is read afterwards.

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

/// How long a body waits that holds nothing itself: other bytes of its connection are the reason, not the body.
pub const OWN_WAIT_MAX: Duration = Duration::from_secs(2);

/// The longest wait of [`room_for_whole`]. By then other clients have taken something, or will not for long.
const WHOLE_WAIT_MAX: Duration = Duration::from_secs(2);

/// How often other tasks get a turn before a wait: a piece goes from its fetch to a stream, to its connection, to the socket.
const TURNS: usize = 4;

/// Waits until the holder may get more, and returns how much. `paused` is increased if there was a wait. `is_due`, called with the time waited:
/// end the wait, and grant [`STEP_BYTES_MIN`].
pub async fn until_granted(
    ledger: &Ledger,
    holder: &Holder,
    watch: &Watch,
    paused: &AtomicU64,
    is_due: impl Fn(Duration) -> bool,
) -> usize {
    // A client that takes bytes at once makes room before a wait is needed.
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

/// Waits at most `WHOLE_WAIT_MAX` for room for a body that is read as a whole, and counts the body in any case.
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
