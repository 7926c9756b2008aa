//! What `/metrics` tells of each other member of the cluster: the tables of it. Every line has a label `member`.
//!
//! Not known here: how it is encoded.   Limits: [`MEMBERS_MAX`](plan::MEMBERS_MAX) members, so some 2,000 lines.

use cluster::{MemberStatus, Standing};

/// A figure, and what it means. `None`: there is no line for it now.
pub struct Figure<T> {
    /// Its name.
    pub name: &'static str,
    /// What it means.
    pub help: &'static str,
    /// Its value.
    pub of: fn(&MemberStatus) -> Option<T>,
}

/// A family with a line for each word of a further label.
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// What it means.
    pub help: &'static str,
    /// The further label.
    pub label: &'static str,
    /// Does it only grow?
    pub is_counter: bool,
    /// The words and their values.
    pub of: fn(&MemberStatus) -> Vec<(&'static str, u64)>,
}

/// What goes up and down.
pub const GAUGES: [Figure<f64>; 8] = [
    Figure {
        name: "cluster_member_trusted",
        help: "1 while the member's link is up and it is heard",
        of: |m| Some(f64::from(u8::from(m.trusted))),
    },
    Figure {
        name: "cluster_member_since_seconds",
        help: "Time since trust in the member began, or was lost, in seconds",
        of: |m| Some(m.since_s as f64),
    },
    Figure {
        name: "cluster_member_lag_seconds",
        help: "How old what is known of the member's stores is, in seconds: time since all updates were here that it had made by its last beat; no line while nothing is known",
        of: |m| m.lag_ms.map(|lag_ms| lag_ms as f64 / 1000.0),
    },
    Figure {
        name: "cluster_member_hints_set",
        help: "Bits of the member's filters, or numbers of its directories, that are set here",
        of: |m| Some(m.hints_set as f64),
    },
    Figure {
        name: "cluster_member_names",
        help: "Names that the member says it holds",
        of: |m| Some(m.columns.iter().map(|column| column.entries).sum::<u64>() as f64),
    },
    Figure {
        name: "cluster_member_requests_in_progress",
        help: "Requests of this proxy that the member is answering",
        of: |m| Some(m.requests_in_progress as f64),
    },
    Figure {
        name: "cluster_member_requests_per_second",
        help: "Requests a second that the member says it is asked",
        of: |m| Some(m.requests_per_s as f64),
    },
    Figure {
        name: "cluster_member_disk_queue_seconds",
        help: "How long the member says a read waits for its disk, in seconds",
        of: |m| Some(m.disk_queue_ms as f64 / 1000.0),
    },
];

/// What only grows.
pub const COUNTERS: [Figure<u64>; 3] = [
    Figure {
        name: "cluster_member_false_misses",
        help: "Objects fetched and pushed to the member that it had already, which no hint told of; no line where nothing is pushed",
        of: |m| m.false_misses,
    },
    Figure {
        name: "cluster_member_failures",
        help: "Requests that the member failed to answer",
        of: |m| Some(m.failures),
    },
    Figure {
        name: "cluster_member_distrusted",
        help: "Times that the member's link ended or fell silent",
        of: |m| Some(m.distrusted),
    },
];

/// What has a label besides.
pub const FAMILIES: [Family; 3] = [
    Family {
        name: "cluster_member_state",
        help: "1 for the state that the member is in, 0 for the others",
        label: "state",
        is_counter: false,
        of: |m| {
            let words = Standing::ALL.into_iter().map(Standing::as_str);
            words.map(|it| (it, u64::from(it == m.state))).collect()
        },
    },
    Family {
        name: "cluster_member_hits",
        help: "Requests sent to the member, by whether it had what was asked for (true, false), or had to validate it (stale)",
        label: "had",
        is_counter: true,
        of: |m| m.hits.all().to_vec(),
    },
    Family {
        name: "cluster_member_pushes",
        help: "Pushes to the member, by its verdict (lost: it gave none)",
        label: "verdict",
        is_counter: true,
        of: |m| m.pushes.0.to_vec(),
    },
];
