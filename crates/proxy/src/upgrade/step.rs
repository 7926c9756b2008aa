//! The steps of an upgrade by name, and a place at each of them where a test may hold a process.
//!
//! `cargo xtask torture --upgrade` kills either process at each step, and a step may take less than a millisecond. So a process whose
//! environment has [`VARIABLE`] stops at a step for which there is a file of the step's name in the directory that the variable names. It
//! writes a file `NAME.held` there and goes on when the first one is gone. Without the variable a step costs one look at the environment, and
//! an upgrade has some twenty of them.
//!
//! Limits: [`HELD_MAX`], well below what either process waits for the other.

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
        /// Where a process is when it has not yet done what comes next: those of the old one first, each in the order in which they come.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Step {
            $($(#[$doc])* $step,)*
        }

        impl Step {
            /// How a step is called.
            pub fn name(self) -> &'static str {
                match self {
                    $(Step::$step => $name,)*
                }
            }
        }
    };
}

steps! {
    /// It was asked for an upgrade, and has started nobody.
    OldStarts "old-starts"
    /// Hello has come; nothing was offered.
    OldOffers "old-offers"
    /// Prepared has come; the stores take writes.
    OldFreezes "old-freezes"
    /// The stores are frozen; the other has not heard it.
    OldHasFrozen "old-has-frozen"
    /// The other has heard it and reads the stores.
    OldWaits "old-waits"
    /// Ready has come; nothing that is stored is served any more, and Go was not said.
    OldLetsGo "old-lets-go"
    /// Go was said; this process still accepts.
    OldStops "old-stops"
    /// It does not accept any more; Serving has not come.
    OldDrains "old-drains"
    /// Serving has come; nobody was told, and requests under way go on.
    OldTells "old-tells"
    /// Nothing was said.
    NewBegins "new-begins"
    /// All descriptors have come; the configuration was not read.
    NewHasAll "new-has-all"
    /// It listens where it should; Prepared was not said.
    NewPrepares "new-prepares"
    /// Frozen has come; the stores were not read.
    NewReads "new-reads"
    /// They were read and workers started; Ready was not said.
    NewIsReady "new-is-ready"
    /// Go has come; the stores are not marked as in use.
    NewMarks "new-marks"
    /// They are; nobody is accepted.
    NewOpens "new-opens"
    /// It accepts; Serving was not said.
    NewServes "new-serves"
    /// Serving was said; the old process may still tell.
    NewListens "new-listens"
}

/// A process has come to this step.
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
