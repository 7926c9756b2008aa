//! Verifies that misses reach a node only as false hits: a comparison of the members' counters.
//!
//! Every request that a node finishes comes from a front: a request routed by a hint, or a push, which is counted as
//! uncachable. One for which the node had to use the origin is therefore a false hit, a stale hit (an object that had to be
//! validated, or a client's reload), or a bug. The front counts both from the node's answers.
//!
//! Not known here: how the requests were made.

use super::bed::Bed;
use super::member::Counts;
use super::report::{Grid, Section};
use super::site::{Role, Route, Shape};
use crate::truths::verdict::Verdict;

/// Requests finished, by class.
const REQUESTS: &str = "loligo_requests_total";
/// Requests that a front sent to a member that did not have the object.
pub const FALSE_HITS: &str = "loligo_cluster_hits_false_total";
/// Requests that a front sent to a member that had the object and had to use the origin all the same.
const STALE_HITS: &str = "loligo_cluster_hits_stale_total";
/// Requests that a front sent to a member that had the object and did not use the origin.
const TRUE_HITS: &str = "loligo_cluster_hits_true_total";

/// Tables the members' counters, with a verdict where fronts route by hints.
pub fn tell(bed: &Bed, gained: &[Counts], section: &mut Section) {
    let mut grid = Grid::new(
        "What the members counted",
        [
            "member",
            "requests",
            "hits",
            "revalidated",
            "misses",
            "uncachable",
            "to the origin",
            "true hits",
            "false hits",
            "CPU s",
        ],
    );
    let number = |value: f64| format!("{value:.0}");
    let (mut at_nodes, mut false_hits, mut stale_hits) = (0.0, 0.0, 0.0);
    for (member, counts) in bed.members.iter().zip(gained) {
        if member.spec.role == Role::Balancer {
            continue;
        }
        let class = |name: &str| counts.sum(REQUESTS, &[name]);
        let asked_again = class("\"revalidated\"") + class("\"stale\"");
        let fetched = counts.sum("loligo_origin_requests_total", &[]);
        false_hits += counts.sum(FALSE_HITS, &[]);
        stale_hits += counts.sum(STALE_HITS, &[]);
        if member.spec.role == Role::Node {
            at_nodes += fetched;
        }
        grid.row([
            member.name().to_owned(),
            number(counts.sum(REQUESTS, &[])),
            number(class("-hit\"")),
            number(asked_again),
            number(class("\"miss\"") + class("\"collapsed\"")),
            number(class("\"uncachable\"")),
            number(fetched),
            number(counts.sum(TRUE_HITS, &[])),
            number(counts.sum(FALSE_HITS, &[])),
            format!("{:.2}", member.cpu().as_secs_f64()),
        ]);
    }
    section.grids.push(grid);
    if bed.site.shape() == Some(Shape::Front) && bed.site.route == Route::Hints {
        let beyond = (at_nodes - false_hits - stale_hits).max(0.0) as u64;
        let mut verdict = Verdict::none(
            "requests for which a node asked the origin without a false or stale hit",
            beyond,
            "see the table",
        );
        verdict.how += &format!(
            " ({at_nodes:.0} at the nodes, {false_hits:.0} false and {stale_hits:.0} stale hits)"
        );
        section.verdicts.push(verdict);
    }
}
