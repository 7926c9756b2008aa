//! A member is killed, held still or cut off under load, and comes back.
//!
//! Three things are asked: no client sees an error, no byte is wrong, and [`BACK_MAX_S`] seconds after the member is back the
//! hit ratio is what it was before.
//!
//! Not known here: how clients ask.

use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

use super::bed::Bed;
use super::crowd::{Demand, Second, Sum};
use super::report::{Grid, Lines, Section};
use super::site::Role;
use crate::failure::{Result, fail};
use crate::interrupt;
use crate::truths::verdict::Verdict;

/// How long a member is away.
const AWAY: Duration = Duration::from_secs(10);
/// From its return until the hit ratio must be what it was.
const BACK_MAX_S: usize = 10;
/// A hit ratio is the mean of so many seconds.
const SMOOTH_S: usize = 3;
/// So far may it be below what it was, points: three seconds of 300 requests vary by 1.5 points (one standard deviation).
const BELOW_MAX: f64 = 5.0;
/// What it was is the mean of so many seconds before the fault.
const BEFORE_S: usize = 10;
/// How long the hit ratio is watched after the return.
const WATCHED: Duration = Duration::from_secs(20);

/// What happens to a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fault {
    /// SIGKILL; started again ten seconds later
    Kill,
    /// SIGSTOP, ten seconds later SIGCONT
    Stop,
    /// Its cable is pulled, for ten seconds
    Cut,
}

impl Fault {
    /// As a title says it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kill => "killed",
            Self::Stop => "held still",
            Self::Cut => "cut off",
        }
    }
}

/// Who it happens to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Victim {
    /// A member with a store: the last
    Node,
    /// A front, of at least two; of equals the last
    Front,
}

/// Lets it happen after `warm`, and tells what became of the clients.
pub fn run(
    bed: &mut Bed,
    fault: Fault,
    victim: Victim,
    demand: Demand,
    warm: Duration,
) -> Result<Section> {
    let nth = find(bed, victim)?;
    let name = bed.members[nth].name().to_owned();
    let mut section = Section::new(format!(
        "{name} is {} for {} s",
        fault.name(),
        AWAY.as_secs()
    ));
    if fault == Fault::Cut && !bed.network.has_cables() {
        section
            .remarks
            .push("not tried: members have no network of their own (this needs root)".into());
        return Ok(section);
    }
    bed.fill(demand)?;
    let crowd = bed.crowd(demand)?;
    interrupt::pause(warm + Duration::from_secs(BEFORE_S as u64))?;
    bed.check_alive()?;
    let gone_at = crowd.now();
    away(bed, fault, nth, AWAY, |_| Ok(()))?;
    let back_at = crowd.now();
    interrupt::pause(WATCHED + Duration::from_secs(SMOOTH_S as u64))?;
    bed.check_alive()?;
    let examples = crowd.examples();
    let seconds = crowd.end();
    judge(&mut section, &seconds, gone_at, back_at);
    section.remarks.extend(
        examples
            .iter()
            .map(|example| format!("an error: {example}")),
    );
    Ok(section)
}

fn find(bed: &Bed, victim: Victim) -> Result<usize> {
    let is_one = |role: Role| match victim {
        Victim::Node => role.has_store(),
        Victim::Front => role.is_door(),
    };
    let doors = bed.doors().len();
    let found = bed
        .members
        .iter()
        .rposition(|member| is_one(member.spec.role));
    match found {
        Some(nth) if !bed.members[nth].spec.role.is_door() || doors > 1 => Ok(nth),
        _ => fail!("the only front cannot be missed: --fronts 2"),
    }
}

/// Takes a member away for so long, and does something in the middle of it.
pub fn away(
    bed: &mut Bed,
    fault: Fault,
    nth: usize,
    time: Duration,
    meanwhile: impl FnOnce(&Bed) -> Result<()>,
) -> Result<()> {
    let do_it = |bed: &Bed| {
        interrupt::pause(time / 2)?;
        meanwhile(bed)?;
        interrupt::pause(time / 2)
    };
    match fault {
        Fault::Kill => {
            bed.members[nth].kill()?;
            do_it(bed)?;
            bed.members[nth].start()
        }
        Fault::Stop => {
            let _held = bed.members[nth].hold()?;
            do_it(bed)
        }
        Fault::Cut => {
            let _cut = bed.members[nth].host.cut()?;
            do_it(bed)
        }
    }
}

/// The second, after the return, from which on the hit ratio is what it was.
fn back_after(seconds: &[Second], before: f64, back_at: usize) -> Option<usize> {
    let after = seconds.get(back_at..)?;
    let is_back = |window: &[Second]| Sum::of(window).hit_percent >= before - BELOW_MAX;
    after.windows(SMOOTH_S).position(is_back)
}

fn judge(section: &mut Section, seconds: &[Second], gone_at: usize, back_at: usize) {
    let before = Sum::of(&seconds[gone_at.saturating_sub(BEFORE_S)..gone_at.min(seconds.len())]);
    let during = Sum::of(&seconds[gone_at.min(seconds.len())..back_at.min(seconds.len())]);
    let all = Sum::of(seconds);
    section
        .verdicts
        .push(Verdict::none("client errors", all.errors, "see below"));
    let back = back_after(seconds, before.hit_percent, back_at);
    section.verdicts.push(Verdict {
        what: format!("hit ratio back within {BACK_MAX_S} s of the return"),
        how: match back {
            Some(after) => format!(
                "before {:.1} %, while it was away {:.1} %, back after {after} s",
                before.hit_percent, during.hit_percent
            ),
            None => format!("before {:.1} %, not back", before.hit_percent),
        },
        is_met: back.is_some_and(|after| after <= BACK_MAX_S),
    });
    if all.cut > 0 {
        section.remarks.push(format!(
            "{} bodies ended early because the member that was sending them was killed",
            all.cut
        ));
    }
    if all.again > 0 {
        section.remarks.push(format!(
            "{} requests were asked again at another door",
            all.again
        ));
    }
    let mut grid = Grid::new(
        "Second by second",
        ["second", "answers", "hit %", "p99 ms", "errors", ""],
    );
    for (n, second) in seconds
        .iter()
        .enumerate()
        .skip(gone_at.saturating_sub(BEFORE_S))
    {
        let what = match n {
            n if n == gone_at => "gone",
            n if n == back_at => "back",
            _ => "",
        };
        grid.row([
            n.to_string(),
            second.answers.to_string(),
            format!("{:.1}", second.hit_percent()),
            format!("{:.1}", Sum::of(std::slice::from_ref(second)).p99_ms),
            second.errors.to_string(),
            what.to_owned(),
        ]);
    }
    section.grids.push(grid);
    let points = seconds.iter().enumerate();
    section.lines.push(Lines {
        caption: format!("Hit ratio: {}", section.title),
        y: "percent".into(),
        series: vec![(
            "hits".into(),
            points
                .map(|(n, second)| (n as f64, second.hit_percent()))
                .collect(),
        )],
        marks: vec![
            (gone_at as f64, "gone".into()),
            (back_at as f64, "back".into()),
        ],
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(hits: &[u64]) -> Vec<Second> {
        let of = |hits: &u64| Second {
            answers: 100,
            fetched: 100 - hits,
            ..Second::default()
        };
        hits.iter().map(of).collect()
    }

    #[test]
    fn a_hit_ratio_is_back_when_three_seconds_are_near_what_it_was() {
        let seconds = seconds(&[70, 70, 40, 40, 50, 69, 60, 70, 70]);
        assert_eq!(back_after(&seconds, 70.0, 2), Some(3));
        assert_eq!(back_after(&seconds[..6], 70.0, 2), None);
        assert_eq!(back_after(&seconds, 70.0, 20), None);
    }

    #[test]
    fn errors_and_a_hit_ratio_that_stays_low_are_missed() {
        let mut low = seconds(&[&[70; 10][..], &[40; 40][..]].concat());
        let verdicts = |seconds: &[Second]| {
            let mut section = Section::new("");
            judge(&mut section, seconds, 10, 20);
            let met = section.verdicts.iter().map(|verdict| verdict.is_met);
            met.collect::<Vec<_>>()
        };
        assert_eq!(verdicts(&low), [true, false]);
        assert_eq!(verdicts(&seconds(&[70; 50])), [true, true]);
        low[12].errors = 1;
        assert_eq!(verdicts(&low), [false, false]);
    }
}
