//! Misses never reach a node except by false hits: what the members count, side by side.
//!
//! Every request that a node finishes came from a front. One that it could not answer from its cache is therefore a false hit, an
//! object that had to be asked for again (stale, reloaded), or a mistake.
//!
//! Not known here: how the requests were made.

use super::bed::Bed;
use super::member::Counts;
use super::report::{Grid, Section};
use super::site::Role;

/// Puts what the members counted beside each other.
pub fn tell(bed: &Bed, gained: &[Counts], section: &mut Section) {
    let mut grid = Grid::new(
        "What the members counted",
        [
            "member",
            "requests",
            "hits",
            "misses",
            "to the origin",
            "CPU s",
        ],
    );
    for (member, counts) in bed.members.iter().zip(gained) {
        if member.spec.role == Role::Balancer {
            continue;
        }
        let requests = counts.sum(REQUESTS, &[]);
        let hits = counts.sum(REQUESTS, &["-hit\""]);
        grid.row([
            member.name().to_owned(),
            format!("{requests:.0}"),
            format!("{hits:.0}"),
            format!("{:.0}", counts.sum(REQUESTS, &["class=\"miss\""])),
            format!("{:.0}", counts.sum("loligo_origin_requests_total", &[])),
            format!("{:.2}", member.cpu().as_secs_f64()),
        ]);
    }
    section.grids.push(grid);
}

/// Requests finished, by class.
pub const REQUESTS: &str = "loligo_requests_total";
