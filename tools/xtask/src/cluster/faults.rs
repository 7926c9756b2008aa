//! Faults under load: a member is killed, stopped or cut off, its disk hangs, or it and another member do not reach each other;
//! then the fault ends.
//!
//! Four things are verified: no client sees an error, no byte is wrong, [`BACK_MAX_S`] seconds after the return the hit ratio is as
//! before, and at the end every front finds what any member has (no false misses).
//!
//! Not known here: how clients make requests.

use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

use super::audit;
use super::bed::Bed;
use super::crowd::{Demand, Second, Sum};
use super::misses::FALSE_HITS;
use super::report::{Grid, Lines, Section};
use super::site::{Role, Route};
use crate::block::Loop;
use crate::failure::{Result, fail};
use crate::interrupt;
use crate::truths::verdict::Verdict;

/// How long the fault lasts.
const AWAY: Duration = Duration::from_secs(10);
/// Within this time after the return the hit ratio must be as before.
const BACK_MAX_S: usize = 10;
/// A hit ratio is the mean over this many seconds.
const SMOOTH_S: usize = 3;
/// Points by which it may stay below the earlier one: three seconds of 300 requests vary by 1.5 points (one standard deviation).
const BELOW_MAX: f64 = 5.0;
/// The earlier hit ratio is the mean over this many seconds before the fault.
const BEFORE_S: usize = 10;
/// After this time every member knows what the others hold: hints are sent once a second.
const TOLD: Duration = Duration::from_secs(3);
/// How long the hit ratio is measured after the return.
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
    /// Its disk answers nothing for ten seconds: a loop device that the kernel's throttle holds up
    Disk,
    /// It and one other member do not reach each other for ten seconds; everybody else reaches both
    Part,
}

impl Fault {
    /// The name for titles.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kill => "killed",
            Self::Stop => "held still",
            Self::Cut => "cut off",
            Self::Disk => "without an answer from its disk",
            Self::Part => "parted from another member",
        }
    }

    /// Whether the member still answers clients during the fault.
    pub fn leaves_reachable(self) -> bool {
        matches!(self, Self::Disk | Self::Part)
    }

    /// The reason why this fault is impossible for this bed, if it is.
    pub fn lacks(self, bed: &Bed) -> Option<String> {
        match self {
            Self::Cut | Self::Part if !bed.network.has_cables() => {
                Some("members have no network of their own (this needs root)".into())
            }
            Self::Disk if !bed.has_disk() => Some(match Loop::can_be_limited() {
                Err(why) => why.to_string(),
                Ok(()) => "the member has no disk".into(),
            }),
            _ => None,
        }
    }
}

/// The effects of a fault on clients.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    pub what: String,
    pub errors: u64,
    pub wrong: u64,
    pub cut: u64,
    /// Requests sent to a member that did not have the object.
    pub false_hits: u64,
    /// Objects that at the end some member has and some front does not find.
    pub false_misses: Option<u64>,
    /// Objects that no member has any more.
    pub lost: Option<u64>,
    pub before: Sum,
    pub during: Sum,
    /// Seconds from the return until the hit ratio is as before.
    pub back_s: Option<usize>,
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

/// Causes the fault after `warm`, and reports its effects on clients.
pub fn run(
    bed: &mut Bed,
    fault: Fault,
    victim: Victim,
    demand: Demand,
    warm: Duration,
) -> Result<Section> {
    let nth = find(bed, victim)?;
    if fault == Fault::Disk && !bed.members[nth].spec.role.has_store() {
        fail!("a front has no disk");
    }
    let name = bed.members[nth].name().to_owned();
    let mut section = Section::new(format!(
        "{name} is {} for {} s",
        fault.name(),
        AWAY.as_secs()
    ));
    if let Some(why) = fault.lacks(bed) {
        section.remarks.push(format!("not tried: {why}"));
        return Ok(section);
    }
    bed.fill(demand)?;
    let counted = bed.counts()?;
    interrupt::pause(TOLD)?;
    let lost_before = audit::run(bed, demand)?.lost;
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
    let false_hits = bed
        .counts()?
        .iter()
        .zip(&counted)
        .fold(0.0, |sum, (now, then)| {
            sum + now.since(then).sum(FALSE_HITS, &[])
        });
    let mut outcome = judge(&mut section, &seconds, gone_at, back_at);
    outcome.false_hits = false_hits as u64;
    if bed.site.shape().is_some() && bed.site.route == Route::Hints {
        interrupt::pause(TOLD)?;
        let found = audit::run(bed, demand)?;
        let beside = format!(
            "of {} objects; {} are held by nobody, before it were {lost_before}",
            found.objects, found.lost
        );
        let what = "objects that a member has and a front does not find, in the end";
        // An object that a node fetches while its disk hangs is in its memory only, and contents of memory are not announced.
        if fault == Fault::Disk && bed.site.memory.0 > 0 {
            let remark = format!("{what}: {}, in memory, {beside}", found.missed);
            section.remarks.push(remark);
        } else {
            let mut verdict = Verdict::none(what, found.missed, "counted by asking everybody");
            verdict.how += &format!(" {beside}");
            section.verdicts.push(verdict);
        }
        outcome.false_misses = Some(found.missed);
        outcome.lost = Some(found.lost.saturating_sub(lost_before));
    }
    section.outcome = Some(outcome);
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

/// The member from which this one is separated: a node for a front, the first member for a node.
fn partner(bed: &Bed, nth: usize) -> usize {
    let is_front = bed.members[nth].spec.role == Role::Front;
    let is_one = |n: &usize| *n != nth && (!is_front || bed.members[*n].spec.role.has_store());
    let mut others = (0..bed.members.len()).filter(is_one);
    others.next().expect("there are at least two members")
}

/// Takes a member away for this time, and calls a function in the middle of it.
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
        Fault::Disk => {
            assert_eq!(
                Some(&nth),
                bed.nodes().last(),
                "only the last node has a disk"
            );
            let _hung = bed.hang()?;
            do_it(bed)
        }
        Fault::Part => {
            let _parted = bed.network.part(partner(bed, nth), nth)?;
            do_it(bed)
        }
    }
}

/// The second after the return from which the hit ratio is as before.
fn back_after(seconds: &[Second], before: f64, back_at: usize) -> Option<usize> {
    let after = seconds.get(back_at..)?;
    let is_back = |window: &[Second]| Sum::of(window).hit_percent >= before - BELOW_MAX;
    after.windows(SMOOTH_S).position(is_back)
}

fn judge(section: &mut Section, seconds: &[Second], gone_at: usize, back_at: usize) -> Outcome {
    let before = Sum::of(&seconds[gone_at.saturating_sub(BEFORE_S)..gone_at.min(seconds.len())]);
    let during = Sum::of(&seconds[gone_at.min(seconds.len())..back_at.min(seconds.len())]);
    let all = Sum::of(seconds);
    section
        .verdicts
        .push(Verdict::none("client errors", all.errors, "see below"));
    section
        .verdicts
        .push(Verdict::none("wrong answers", all.wrong, "see below"));
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
            (second.errors + second.wrong).to_string(),
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
    Outcome {
        what: section.title.clone(),
        errors: all.errors,
        wrong: all.wrong,
        cut: all.cut,
        false_hits: 0,
        false_misses: None,
        lost: None,
        before,
        during,
        back_s: back,
    }
}

/// All outcomes as a table.
pub fn table(outcomes: &[&Outcome]) -> Grid {
    let mut grid = Grid::new(
        "What faults did",
        [
            "fault",
            "errors",
            "wrong",
            "bodies cut",
            "false hits",
            "false misses",
            "lost",
            "hit % before",
            "hit % away",
            "p99 ms before",
            "p99 ms away",
            "back after s",
        ],
    );
    for it in outcomes {
        grid.row([
            it.what.clone(),
            it.errors.to_string(),
            it.wrong.to_string(),
            it.cut.to_string(),
            it.false_hits.to_string(),
            it.false_misses.map_or("-".into(), |n| n.to_string()),
            it.lost.map_or("-".into(), |n| n.to_string()),
            format!("{:.1}", it.before.hit_percent),
            format!("{:.1}", it.during.hit_percent),
            format!("{:.1}", it.before.p99_ms),
            format!("{:.1}", it.during.p99_ms),
            it.back_s.map_or("never".into(), |s| s.to_string()),
        ]);
    }
    grid
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
        assert_eq!(verdicts(&low), [true, true, false]);
        assert_eq!(verdicts(&seconds(&[70; 50])), [true, true, true]);
        low[12].errors = 1;
        assert_eq!(verdicts(&low), [false, true, false]);
        low[12].wrong = 1;
        assert_eq!(verdicts(&low), [false, false, false]);
    }
}
