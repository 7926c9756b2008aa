//! The steps of an upgrade at which a process is held and killed, and which of the two must be left then.
//!
//! The steps are those of `proxy::upgrade::step`; a process is held by a file of the step's name in a directory that its environment names.
//! A step that is not there any more would never be come to, which a trial reports.
//!
//! Limits: [`COME_MAX`] until a process comes to a step.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::chance::Chance;
use crate::failure::{During, Result};
use crate::interrupt;

/// Tells a process where the files are.
pub const VARIABLE: &str = "LOLIGO_UPGRADE_HOLD";
const COME_MAX: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// Who is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Left {
    Old,
    New,
    /// The service manager starts one.
    Nobody,
}

/// A step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    pub name: &'static str,
    /// Who must be left if the old process is killed there,
    pub without_old: Left,
    /// and if the new one is. `None`: it is not there yet.
    pub without_new: Option<Left>,
}

const fn step(name: &'static str, without_old: Left, without_new: Option<Left>) -> Step {
    Step {
        name,
        without_old,
        without_new,
    }
}

/// In the order in which they come, but for those of the two processes that come at the same time.
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
        // From Frozen on the new process can go on alone,
        step("old-waits", New, Some(Old)),
        step("new-reads", New, Some(Old)),
        step("new-is-ready", New, Some(Old)),
        // and from Go on the old one cannot.
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

/// Kills at steps, in an order by chance: each once before one comes again.
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

/// Kills at a step.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct AtStep {
    pub old_killed: u64,
    pub new_killed: u64,
}

/// Kills by step.
pub type AtSteps = BTreeMap<&'static str, AtStep>;

/// In a line.
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

/// A step at which whoever comes is held, until this is dropped.
pub struct Hold {
    file: PathBuf,
    held: PathBuf,
}

impl Hold {
    /// From now on.
    pub fn new(dir: &Path, step: Step) -> Result<Hold> {
        let hold = Hold {
            file: dir.join(step.name),
            held: dir.join(format!("{}.held", step.name)),
        };
        // Of one that was killed there.
        let _ = fs::remove_file(&hold.held);
        fs::write(&hold.file, "").during(|| format!("writing {}", hold.file.display()))?;
        Ok(hold)
    }

    /// Waits until a process is held; whether one was.
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
