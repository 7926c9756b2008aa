//! The steps of an upgrade at which a process is held and killed, and which of the two processes must survive.
//!
//! The steps are those of `proxy::upgrade::step`; a process is held by a file with the step's name in a directory that its environment
//! names. A step that no longer exists is never reached, which a trial reports.
//!
//! Limits: [`COME_MAX`] until a process reaches a step.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::chance::Chance;
use crate::failure::{During, Result};
use crate::interrupt;

/// The variable with the directory of these files.
pub const VARIABLE: &str = "LOLIGO_UPGRADE_HOLD";
const COME_MAX: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// The process that survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Left {
    Old,
    New,
    /// None: the service manager starts a process.
    Nobody,
}

/// A step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    pub name: &'static str,
    /// The survivor if the old process is killed at this step.
    pub without_old: Left,
    /// The survivor if the new process is killed. `None`: it does not exist yet.
    pub without_new: Option<Left>,
}

const fn step(name: &'static str, without_old: Left, without_new: Option<Left>) -> Step {
    Step {
        name,
        without_old,
        without_new,
    }
}

/// In the order in which they occur, except that steps of the two processes may occur at the same time.
pub const STEPS: [Step; 18] = {
    use Left::{New, Nobody, Old};
    [
        step("old-starts", Nobody, None),
        step("new-begins", Nobody, Some(Old)),
        step("old-offers", Nobody, Some(Old)),
        step("new-has-all", Nobody, Some(Old)),
        step("new-prepares", Nobody, Some(Old)),
        step("old-freezes", Nobody, Some(Old)),
        step("old-has-frozen", Nobody, Some(Old)),
        // From Frozen on the new process can go on alone;
        step("old-waits", New, Some(Old)),
        step("new-reads", New, Some(Old)),
        step("new-is-ready", New, Some(Old)),
        // from Go on the old one cannot.
        step("old-lets-go", New, Some(Old)),
        step("old-stops", New, Some(Nobody)),
        step("old-drains", New, Some(Nobody)),
        step("new-marks", New, Some(Nobody)),
        step("new-opens", New, Some(Nobody)),
        step("new-serves", New, Some(Nobody)),
        step("old-tells", New, Some(Nobody)),
        step("new-listens", New, Some(Nobody)),
    ]
};

/// Kills at steps, in random order: each once before any is repeated.
#[derive(Debug, Default)]
pub struct Deck(Vec<(Step, bool)>);

impl Deck {
    /// The next step, and whether the old process is to be killed there.
    pub fn draw(&mut self, chance: &mut Chance) -> (Step, bool) {
        if self.0.is_empty() {
            let both = |step: Step| [Some((step, true)), step.without_new.map(|_| (step, false))];
            self.0 = STEPS.into_iter().flat_map(both).flatten().collect();
        }
        let at = chance.below(self.0.len() as u64) as usize;
        self.0.swap_remove(at)
    }
}

/// Number of kills at a step.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct AtStep {
    pub old_killed: u64,
    pub new_killed: u64,
}

/// Kills by step.
pub type AtSteps = BTreeMap<&'static str, AtStep>;

/// All steps in one line.
pub fn text(steps: &AtSteps) -> String {
    let of = |step: &Step| steps.get(step.name).copied().unwrap_or_default();
    let old: Vec<u64> = STEPS.iter().map(|step| of(step).old_killed).collect();
    let with_new = STEPS.iter().filter(|step| step.without_new.is_some());
    let new: Vec<u64> = with_new.map(|step| of(step).new_killed).collect();
    let told = |counts: &[u64]| {
        let least = counts.iter().min().unwrap_or(&0);
        let most = counts.iter().max().unwrap_or(&0);
        format!("{least} to {most} times at each of {}", counts.len())
    };
    format!(
        "killed at a named step: the old process {}, the new one {}",
        told(&old),
        told(&new)
    )
}

/// Holds any process that reaches a step, until this is dropped.
pub struct Hold {
    file: PathBuf,
    held: PathBuf,
}

impl Hold {
    /// Holds processes at this step from now on.
    pub fn new(dir: &Path, step: Step) -> Result<Hold> {
        let hold = Hold {
            file: dir.join(step.name),
            held: dir.join(format!("{}.held", step.name)),
        };
        // The file may be from a process that was killed at this step.
        let _ = fs::remove_file(&hold.held);
        fs::write(&hold.file, "").during(|| format!("writing {}", hold.file.display()))?;
        Ok(hold)
    }

    /// Waits until a process is held; returns whether one was.
    pub fn await_it(&self) -> Result<bool> {
        let deadline = Instant::now() + COME_MAX;
        while !self.held.exists() {
            if Instant::now() > deadline {
                return Ok(false);
            }
            interrupt::pause(LOOK_EVERY)?;
        }
        Ok(true)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn these_are_the_steps_of_the_proxy() {
        let source = include_str!("../../../../crates/proxy/src/upgrade/step.rs");
        let (_, table) = source.split_once("\nsteps! {").unwrap();
        let (table, _) = table.split_once("\n}").unwrap();
        let mut theirs: Vec<&str> = table.split('"').skip(1).step_by(2).collect();
        let mut ours = STEPS.map(|step| step.name);
        theirs.sort_unstable();
        ours.sort_unstable();
        assert_eq!(theirs, ours);
    }

    #[test]
    fn every_step_comes_once_for_each_process_before_one_comes_again() {
        let mut chance = Chance::new(7);
        let mut deck = Deck::default();
        let kills = STEPS.len() + STEPS.iter().filter(|it| it.without_new.is_some()).count();
        for _ in 0..2 {
            let mut steps = AtSteps::new();
            for _ in 0..kills {
                let (step, is_old) = deck.draw(&mut chance);
                let at = steps.entry(step.name).or_default();
                *(match is_old {
                    true => &mut at.old_killed,
                    false => &mut at.new_killed,
                }) += 1;
            }
            assert_eq!(
                text(&steps),
                "killed at a named step: the old process 1 to 1 times at each of 18, the new one 1 to 1 times at each of 17"
            );
        }
    }
}
