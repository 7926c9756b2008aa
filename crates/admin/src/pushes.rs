//! What is counted of pushes between members of our cluster, for the metrics and the status.

use std::sync::atomic::{AtomicU64, Ordering};

use cluster::{Cluster, member::MemberCounters, push::message::Verdict};

/// A name, what it means, and the value.
type Figure = (&'static str, &'static str, u64);

/// All figures.
pub fn figures(cluster: &Cluster) -> Vec<Figure> {
    let (pushing, receiving) = (&cluster.pushing, &cluster.receiving);
    let relaxed = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let sum = |of: &dyn Fn(&MemberCounters) -> &AtomicU64| -> u64 {
        cluster
            .counted()
            .map(|counters| relaxed(of(counters)))
            .sum()
    };
    let (bytes, _, dropped) = pushing.figures();
    let counters = &pushing.counters;
    let mut all = vec![
        (
            "cluster_push_bytes_open",
            "Bytes collected for pushes, waiting, and on their way",
            bytes,
        ),
        (
            "cluster_pushes_dropped_full",
            "Pushes dropped, or not begun, because the queue of pushes was full",
            dropped.full,
        ),
        (
            "cluster_pushes_dropped_old",
            "Pushes dropped because no member took them for ten seconds",
            dropped.old,
        ),
        (
            "cluster_pushes_replaced",
            "Pushes not sent because a newer version of the object came",
            dropped.replaced,
        ),
        (
            "cluster_pushes_purged",
            "Pushes not sent because the object was purged meanwhile",
            relaxed(&counters.purged),
        ),
        (
            "cluster_pushes_untold",
            "Pushes not begun because no member had told which purges it has heard when the fetch began",
            relaxed(&counters.untold),
        ),
        (
            "cluster_pushes_too_long",
            "Fetched objects that were too long to be pushed (cluster.push-max)",
            relaxed(&counters.too_long),
        ),
        (
            "cluster_pushes_unanswered",
            "Pushes that a member did not answer",
            sum(&|of| &of.pushes_lost),
        ),
        (
            "cluster_pushes_given_up",
            "Pushes that no member has taken",
            relaxed(&counters.given_up),
        ),
    ];
    for verdict in Verdict::ALL {
        let (name, help) = of_sent(verdict);
        all.push((name, help, sum(&|of| &of.pushes[verdict as usize])));
    }
    all.push((
        "cluster_false_misses",
        "Objects fetched and pushed to a member that had them already, which no hint told of; its copy may have been out of date",
        sum(&|of| &of.false_misses),
    ));
    for (verdict, taken) in Verdict::ALL.into_iter().zip(&receiving.verdicts) {
        let (name, help) = of_taken(verdict);
        all.push((name, help, relaxed(taken)));
    }
    all
}

fn of_sent(verdict: Verdict) -> (&'static str, &'static str) {
    match verdict {
        Verdict::Stored => ("cluster_pushes_stored", "Pushes that a member has stored"),
        Verdict::Policy => (
            "cluster_pushes_refused_policy",
            "Pushes that a member's rules or admission did not want",
        ),
        Verdict::Invalidated => (
            "cluster_pushes_refused_invalidated",
            "Pushes that a member refused because of a purge since the fetch began, or because it cannot rule one out",
        ),
        Verdict::Size => (
            "cluster_pushes_refused_size",
            "Pushes that were too long for a member",
        ),
        Verdict::Paused => (
            "cluster_pushes_refused_paused",
            "Pushes that a member refused because it stored nothing, or had too much to do",
        ),
        Verdict::Disk => (
            "cluster_pushes_refused_disk",
            "Pushes that a member's store did not take",
        ),
        Verdict::Malformed => (
            "cluster_pushes_refused_malformed",
            "Pushes that a member could not read",
        ),
    }
}

fn of_taken(verdict: Verdict) -> (&'static str, &'static str) {
    match verdict {
        Verdict::Stored => (
            "cluster_pushed_stored",
            "Pushes of other members stored here",
        ),
        Verdict::Policy => (
            "cluster_pushed_refused_policy",
            "Pushes of other members refused: our rules or admission did not want them",
        ),
        Verdict::Invalidated => (
            "cluster_pushed_refused_invalidated",
            "Pushes of other members refused: purged since the fetch began, or that cannot be ruled out",
        ),
        Verdict::Size => (
            "cluster_pushed_refused_size",
            "Pushes of other members refused: too long",
        ),
        Verdict::Paused => (
            "cluster_pushed_refused_paused",
            "Pushes of other members refused: nothing is stored now, or too much is under way",
        ),
        Verdict::Disk => (
            "cluster_pushed_refused_disk",
            "Pushes of other members refused: the store did not take them",
        ),
        Verdict::Malformed => (
            "cluster_pushed_refused_malformed",
            "Pushes of other members refused: not understood",
        ),
    }
}
