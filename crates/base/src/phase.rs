//! Whether the process serves, drains or stops.

use tokio::sync::watch;

/// How far the process has come in stopping.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd)]
pub enum Phase {
    /// Serving.
    Running,
    /// No new connections; requests in progress finish.
    Draining,
    /// Requests still in progress are cut.
    Stopping,
}

/// Ends a running proxy from another thread; for tests and embedding.
#[derive(Clone)]
pub struct Stopper(pub watch::Sender<Phase>);

impl Stopper {
    /// Begins to drain.
    pub fn stop(&self) {
        self.0.send_if_modified(|phase| {
            let first = *phase == Phase::Running;
            if first {
                *phase = Phase::Draining;
            }
            first
        });
    }

    /// Begins to drain; when called again, cuts the requests still in progress.
    pub fn stop_or_cut(&self) {
        if *self.0.borrow() == Phase::Running {
            self.stop();
            return;
        }
        tracing::warn!("asked again to stop; requests in progress are cut");
        self.0.send_replace(Phase::Stopping);
    }
}
