//! Whether the process serves, drains or stops.

/// How far the process is on its way out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd)]
pub enum Phase {
    /// Serving.
    Running,
    /// No new connections; requests in progress finish.
    Draining,
    /// Whatever is still there is cut.
    Stopping,
}
