//! Turns Ctrl-C into an ordinary error, so that guards stop everything that was started.
//!
//! Servers, mounts and loop devices are held by guards whose `Drop` undoes them. A signal that simply ended the
//! process would skip those, so the first SIGINT, SIGTERM or SIGHUP only raises a flag; every wait in this crate goes
//! through [`pause`] or [`check`] and turns the flag into a [`Failure`]. The second signal ends the process at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::failure::{During, Failure, Result};

static RAISED: AtomicBool = AtomicBool::new(false);

/// How often a waiting task checks the flag.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Begins to listen for signals, on a thread of its own.
pub fn listen() -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .during(|| "starting the signal listener".into())?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            let (Ok(mut int), Ok(mut term), Ok(mut hup)) = (
                signal(SignalKind::interrupt()),
                signal(SignalKind::terminate()),
                signal(SignalKind::hangup()),
            ) else {
                return;
            };
            loop {
                tokio::select! {
                    _ = int.recv() => {}
                    _ = term.recv() => {}
                    _ = hup.recv() => {}
                }
                if RAISED.swap(true, Ordering::SeqCst) {
                    std::process::exit(130);
                }
                eprintln!("\ninterrupted: stopping what was started (once more to leave at once)");
            }
        });
    });
    Ok(())
}

/// An error once a signal has asked to stop.
pub fn check() -> Result<()> {
    if RAISED.load(Ordering::SeqCst) {
        return Err(Failure::new("interrupted"));
    }
    Ok(())
}

/// Sleeps, unless interrupted.
pub fn pause(total: Duration) -> Result<()> {
    let end = Instant::now() + total;
    loop {
        check()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(LOOK_EVERY));
    }
}

/// Polls `done` until it returns true; `Ok(false)` if `limit` passes first.
pub fn wait_until(limit: Duration, mut done: impl FnMut() -> bool) -> Result<bool> {
    let end = Instant::now() + limit;
    loop {
        if done() {
            return Ok(true);
        }
        if Instant::now() >= end {
            return Ok(false);
        }
        pause(LOOK_EVERY)?;
    }
}
