//! A node joins and another leaves under load: the effect on the hit ratio, and the objects that move.
//!
//! With hints no object has to move: each node keeps its objects, and a node that joins is given new ones. Where a hash of the key
//! chooses the node, each change assigns a share of the keys to another node, which fetches them again.
//!
//! Not known here: how a node is found.

use std::time::Duration;

use serde::Serialize;

use super::bed::{Bed, Costs};
use super::crowd::{Crowd, Demand, Second, Sum};
use crate::failure::{Result, fail};
use crate::interrupt;

/// The mean over this many seconds is a steady state.
const STEADY_S: usize = 10;
/// How many seconds after a change are measured.
const WATCHED_S: usize = 20;
const SMOOTH_S: usize = 3;

/// The effects of a change.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    pub before_percent: f64,
    /// The lowest mean over three seconds.
    pub worst_percent: f64,
    pub after_percent: f64,
    /// Answers of the origin beyond its previous rate, in the measured seconds.
    pub fetched_again: f64,
    /// Bytes of these answers.
    pub fetched_again_bytes: f64,
    pub errors: u64,
}

/// A steady state.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Steady {
    pub sum: Sum,
    /// CPU time of all members for each answer.
    pub cpu_us: f64,
    /// Bytes on members' cables for each answer, sent and received.
    pub moved_bytes: f64,
}

/// The measurements of one bed.
#[derive(Debug, Clone, Serialize)]
pub struct Story {
    pub steady: Steady,
    pub join: Change,
    pub leave: Change,
    pub seconds: Vec<Second>,
    /// The seconds at which a node joined and one left.
    pub moments: (usize, usize),
    pub examples: Vec<String>,
}

/// The bed's last node, which must be absent, joins after `warm`; later the first one leaves.
pub fn run(bed: &mut Bed, demand: Demand, warm: Duration) -> Result<Story> {
    let Some(joiner) = bed.nodes().pop().filter(|n| !bed.members[*n].is_running()) else {
        fail!("the last node runs already");
    };
    bed.fill(demand)?;
    let crowd = bed.crowd(demand)?;
    interrupt::pause(warm)?;
    let (costs, from) = (bed.costs(), crowd.now());
    interrupt::pause(Duration::from_secs(STEADY_S as u64))?;
    let steady = steady(&crowd, from, &costs, &bed.costs());
    let joined = crowd.now();
    bed.members[joiner].start()?;
    interrupt::pause(Duration::from_secs((WATCHED_S + STEADY_S) as u64))?;
    bed.check_alive()?;
    let left = crowd.now();
    // The first node leaves, not the one that has just joined: the others still hold the objects given to that one.
    let leaver = bed.nodes()[0];
    bed.members[leaver].stop()?;
    interrupt::pause(Duration::from_secs(WATCHED_S as u64 + 1))?;
    bed.check_alive()?;
    let examples = crowd.examples();
    let seconds = crowd.end();
    Ok(Story {
        steady,
        join: change(&seconds, joined, demand),
        leave: change(&seconds, left, demand),
        seconds,
        moments: (joined, left),
        examples,
    })
}

fn steady(crowd: &Crowd, from: usize, before: &Costs, after: &Costs) -> Steady {
    let seconds = crowd.seconds();
    let sum = Sum::of(&seconds[from.min(seconds.len())..]);
    let answers = sum.answers.max(1) as f64;
    let moved = |costs: &Costs| costs.moved.sent + costs.moved.received;
    Steady {
        sum,
        cpu_us: after.cpu.saturating_sub(before.cpu).as_secs_f64() * 1e6 / answers,
        moved_bytes: (moved(after) - moved(before)) as f64 / answers,
    }
}

fn change(seconds: &[Second], at: usize, demand: Demand) -> Change {
    let before = Sum::of(&seconds[at.saturating_sub(STEADY_S)..at]);
    let watched = &seconds[at.min(seconds.len())..(at + WATCHED_S).min(seconds.len())];
    let hits = watched
        .windows(SMOOTH_S)
        .map(|window| Sum::of(window).hit_percent);
    let all = Sum::of(watched);
    let last = Sum::of(&watched[watched.len().saturating_sub(SMOOTH_S)..]);
    let again = (before.hit_percent - all.hit_percent) / 100.0 * all.answers as f64;
    Change {
        before_percent: before.hit_percent,
        worst_percent: hits.fold(f64::INFINITY, f64::min),
        after_percent: last.hit_percent,
        fetched_again: again.max(0.0),
        fetched_again_bytes: again.max(0.0) * demand.body_bytes as f64 * 9.0 / 8.0,
        errors: all.errors,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_held_against_the_seconds_before_it() {
        let of = |hits: u64| Second {
            answers: 100,
            fetched: 100 - hits,
            ..Second::default()
        };
        let seconds: Vec<Second> = [vec![of(80); 10], vec![of(50); 3], vec![of(80); 17]].concat();
        let demand = Demand {
            rate: 100,
            clients: 1,
            objects: 1,
            fresh_percent: 0,
            body_bytes: 800,
            seed: 1,
        };
        let change = change(&seconds, 10, demand);
        assert_eq!(
            (
                change.before_percent,
                change.worst_percent,
                change.after_percent
            ),
            (80.0, 50.0, 80.0)
        );
        assert!((change.fetched_again - 90.0).abs() < 1e-6, "{change:?}");
        assert!((change.fetched_again_bytes - 81_000.0).abs() < 1.0);
    }
}
