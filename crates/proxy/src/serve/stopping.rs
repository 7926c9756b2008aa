//! Stopping: the signals, and the end of requests in progress.

use std::{io, sync::Arc, thread::JoinHandle, time::Duration};

use device::Device;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};

use base::phase::{Phase, Stopper};
use record::journal::Reopener;

/// How long a stop waits for workers that were told to cut everything; longer than they wait for their disks.
const STOP_MAX: Duration = Duration::from_secs(60);
/// How often a stop checks for that.
const STOP_STEP: Duration = Duration::from_millis(5);

/// Signals of the process.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    hang_up: Signal,
    user_1: Signal,
    user_2: Signal,
}

impl Signals {
    /// From now on these signals do not end the process.
    pub(super) fn take() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            hang_up: signal(SignalKind::hangup())?,
            user_1: signal(SignalKind::user_defined1())?,
            user_2: signal(SignalKind::user_defined2())?,
        })
    }

    /// Carries out the signals: stop (a second one cuts requests), reopen the logs, and with SIGHUP reload. SIGQUIT and SIGUSR1 are for
    /// operators used to nginx; SIGUSR2 has no meaning here, but must not end the process.
    pub(super) async fn obey(mut self, stopper: Stopper, reopen: Reopener, reload: impl Fn()) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => stopper.stop_or_cut(),
                _ = self.interrupt.recv() => stopper.stop_or_cut(),
                _ = self.quit.recv() => stopper.stop_or_cut(),
                _ = self.hang_up.recv() => {
                    // Logs are rotated even if the configuration is refused.
                    reopen.reopen();
                    reload();
                }
                _ = self.user_1.recv() => reopen.reopen(),
                _ = self.user_2.recv() => tracing::warn!("SIGUSR2 means nothing here; it is ignored"),
            }
        }
    }
}

/// Lets requests in progress end, and cuts requests that take longer than `limit`.
pub(super) async fn drain(
    limit: Duration,
    phase: &watch::Sender<Phase>,
    threads: &[JoinHandle<()>],
) {
    tracing::info!("draining");
    if tokio::time::timeout(limit, all_ended(threads))
        .await
        .is_err()
    {
        tracing::warn!(?limit, "requests are still in progress; cutting them");
        phase.send_replace(Phase::Stopping);
        if tokio::time::timeout(STOP_MAX, all_ended(threads))
            .await
            .is_err()
        {
            tracing::error!("a worker does not end; what it was doing is given up");
        }
    }
}

/// Logs for each store whether it was closed in order.
pub(super) fn tell_how_they_closed(devices: &[Arc<Device>], closed: Vec<Result<(), String>>) {
    for (result, device) in closed.into_iter().zip(devices) {
        let path = device.path().display();
        match result {
            Ok(()) => tracing::info!(%path, "the store is closed in order"),
            Err(reason) => tracing::warn!(
                %path,
                reason,
                "the store was not closed in order; the next start goes on as after a crash"
            ),
        }
    }
}

/// Waits until each thread has finished its work. The kernel may need longer to end a thread: one with hanging disk operations ends
/// when they do.
async fn all_ended(threads: &[JoinHandle<()>]) {
    while !threads.iter().all(JoinHandle::is_finished) {
        tokio::time::sleep(STOP_STEP).await;
    }
}
