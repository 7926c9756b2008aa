//! The steps of an upgrade by name, at each of which a test can hold a process.
//!
//! `cargo xtask torture --upgrade` kills either process at each step, and a step may take less than a millisecond. So a process with
//! [`VARIABLE`] in its environment stops at a step if the directory in that variable has a file of the step's name. The process writes a
//! file `NAME.held` there and continues once the first file is gone. Without the variable, a step costs one read of the environment, and
//! an upgrade has some twenty steps.
//!
//! Limits: [`HELD_MAX`], well below the time that either process waits for the other.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Names the directory; for tests.
pub const VARIABLE: &str = "LOLIGO_UPGRADE_HOLD";
/// How long a process is held at most.
const HELD_MAX: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_micros(500);

macro_rules! steps {
    ($($(#[$doc:meta])* $step:ident $name:literal)*) => {
        /// A point in an upgrade, named after the next action: first the old process's points, then the new one's, each in their order.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Step {
            $($(#[$doc])* $step,)*
        }

        impl Step {
            /// The step's name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Step::$step => $name,)*
                }
            }
        }
    };
}

steps! {
    /// An upgrade was requested; no process was started.
    OldStarts "old-starts"
    /// Hello has arrived; nothing was offered.
    OldOffers "old-offers"
    /// Prepared has arrived; the stores accept writes.
    OldFreezes "old-freezes"
    /// The stores are frozen; Frozen was not sent.
    OldHasFrozen "old-has-frozen"
    /// Frozen was sent; the new process reads the stores.
    OldWaits "old-waits"
    /// Ready has arrived; no stored response is served any more, and Go was not sent.
    OldLetsGo "old-lets-go"
    /// Go was sent; this process still accepts.
    OldStops "old-stops"
    /// This process does not accept any more; Serving has not arrived.
    OldDrains "old-drains"
    /// Serving has arrived; no invalidation was told, and requests are in progress.
    OldTells "old-tells"
    /// Nothing was sent.
    NewBegins "new-begins"
    /// All descriptors have arrived; the configuration was not read.
    NewHasAll "new-has-all"
    /// The process listens on its addresses; Prepared was not sent.
    NewPrepares "new-prepares"
    /// Frozen has arrived; the stores were not read.
    NewReads "new-reads"
    /// The stores were read and the workers started; Ready was not sent.
    NewIsReady "new-is-ready"
    /// Go has arrived; the stores are not marked as in use.
    NewMarks "new-marks"
    /// The stores are marked as in use; no connection is accepted.
    NewOpens "new-opens"
    /// This process accepts; Serving was not sent.
    NewServes "new-serves"
    /// Serving was sent; the old process may still tell invalidations.
    NewListens "new-listens"
}

/// Called at each step; holds the process if a test asks for that.
pub fn at(step: Step) {
    tracing::debug!("upgrade: {}", step.name());
    if let Some(dir) = std::env::var_os(VARIABLE) {
        hold(Path::new(&dir), step, HELD_MAX);
    }
}

fn hold(dir: &Path, step: Step, longest: Duration) {
    let wanted = dir.join(step.name());
    if !wanted.exists() {
        return;
    }
    let held = dir.join(format!("{}.held", step.name()));
    if let Err(error) = std::fs::write(&held, std::process::id().to_string()) {
        tracing::warn!(%error, "{}", held.display());
    }
    tracing::warn!("held at {}, as {VARIABLE} says", step.name());
    let deadline = Instant::now() + longest;
    while wanted.exists() && Instant::now() < deadline {
        thread::sleep(LOOK_EVERY);
    }
    let _ = std::fs::remove_file(held);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_held_until_its_file_is_gone_and_others_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        hold(dir.path(), Step::OldWaits, Duration::from_secs(60));
        std::fs::write(at("old-waits"), "").unwrap();
        hold(dir.path(), Step::NewReads, Duration::from_secs(60));
        thread::scope(|scope| {
            let held = scope.spawn(|| hold(dir.path(), Step::OldWaits, Duration::from_secs(60)));
            while !at("old-waits.held").exists() {
                thread::yield_now();
            }
            assert!(!held.is_finished());
            std::fs::remove_file(at("old-waits")).unwrap();
        });
        assert!(!at("old-waits.held").exists());
    }

    #[test]
    fn nobody_is_held_for_good() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("old-waits"), "").unwrap();
        hold(dir.path(), Step::OldWaits, Duration::from_millis(1));
    }
}
