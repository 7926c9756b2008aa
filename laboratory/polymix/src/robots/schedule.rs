//! When each robot sends its next request.
//!
//! A heap of robots, ordered by the work at which their next turn is (see `clock`). The phase sets how fast work passes and how often a
//! robot repeats old objects. In PolyMix-4 the load of a phase is the share of active robots: the others have turns too, but send
//! nothing.
//!
//! Not known here: which objects are requested, connections.   Limits: checks at least every `TICK`.   Source: spec sections 2 and 6.

use std::collections::BinaryHeap;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

use super::{News, Shared, TICK};
use crate::Mix;
use crate::clock::{Pace, gap};
use crate::phases::{Line, Phase};
use crate::random::Chance;
use crate::server::Counters;

/// The turns of all robots.
pub(super) struct Schedule {
    due: BinaryHeap<Due>,
    /// Work done in earlier phases.
    base: f64,
    chance: Chance,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Due {
    work: f64,
    robot: u32,
}

impl Eq for Due {}

impl Ord for Due {
    /// The earliest turn is the greatest, as `BinaryHeap` wants it.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other
            .work
            .total_cmp(&self.work)
            .then(other.robot.cmp(&self.robot))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Schedule {
    pub(super) fn new(robots: u32, chance: &mut Chance) -> Self {
        let mut chance = Chance::new(chance.draw());
        let mut first = |robot| Due {
            work: gap(false, chance.unit()),
            robot,
        };
        let due = (0..robots).map(&mut first).collect();
        Self {
            due,
            base: 0.0,
            chance,
        }
    }

    /// Runs a phase; returns when it ended.
    pub(super) async fn run(
        &mut self,
        shared: &Rc<Shared>,
        phase: &Phase,
        begins: Instant,
        origin: Option<&Counters>,
        progress: &mut impl FnMut(News<'_>),
    ) -> Instant {
        let length_s = phase.length_s();
        // In PolyMix-4 the load is the share of active robots, not their pace.
        let by_population = shared.settings.mix == Mix::Four;
        let speed = shared.settings.speed;
        let pace = if by_population {
            Pace::new(Line::flat(speed), length_s)
        } else {
            Pace::of(phase, speed)
        };
        let in_ramp = !by_population && phase.load.from != phase.load.to;
        let mut next_progress = begins + Duration::from_secs(1);
        loop {
            let now = Instant::now();
            let at_s = (now - begins).as_secs_f64().min(length_s);
            let share = at_s / length_s;
            let work = self.base + pace.done(at_s);
            let active = phase.load.at(share) * f64::from(shared.settings.robots);
            let (recurrence, special) = (phase.recurrence.at(share), phase.special.at(share));
            while let Some(due) = self.due.peek().copied().filter(|due| due.work <= work) {
                self.due.pop();
                let intended = begins + Duration::from_secs_f64(pace.when(due.work - self.base));
                if !by_population || f64::from(due.robot) < active {
                    shared.ask(due.robot, intended, recurrence, special);
                }
                self.due.push(Due {
                    work: due.work + gap(in_ramp, self.chance.unit()),
                    robot: due.robot,
                });
            }
            if now >= next_progress {
                shared.note(origin);
                progress(News::Standing(&shared.progress(phase.name, begins)));
                next_progress = now + Duration::from_secs(1);
            }
            if let Some(ended) = shared.ended(phase, begins) {
                shared.note(origin);
                self.base += pace.done((ended - begins).as_secs_f64());
                return ended;
            }
            tokio::time::sleep_until(self.wake(&pace, begins, length_s)).await;
        }
    }

    fn wake(&self, pace: &Pace, begins: Instant, length_s: f64) -> Instant {
        let next_s = self
            .due
            .peek()
            .map_or(f64::INFINITY, |due| pace.when(due.work - self.base));
        let tick = Instant::now() + TICK;
        (begins + Duration::from_secs_f64(next_s.min(length_s))).min(tick)
    }
}
