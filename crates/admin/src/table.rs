//! The table of figures: the name, the help text and the source of each. A figure is defined once.
//!
//! A [`Column`] is a family of `/metrics`. What `figures!` defines is also a field of `/status`, under the first name. The workers' counters have a
//! similar table (`record::metrics`), and so have those of the stores (`store::Figures`).
//!
//! Each line is also the help text of a metric, so it must be understood without the lines around it.
//!
//! Not known here: the output formats, when figures are gathered.   Limits: [`MEMBERS_MAX`](plan::MEMBERS_MAX) members, so some 2,000 lines.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use prometheus_client::metrics::MetricType;
use serde::Serialize;

use crate::{
    facts::{Facts, LimitFacts, StoreFacts},
    process::Process,
    snapshot::{ClassFigures, Snapshot},
};
use base::{heads::HeadBudget, phase::Phase};
use cache::Cache;
use cluster::{Cluster, MemberStatus, Standing, member::MemberCounters, push::message::Verdict};
use ledger::Ledger;
use record::{
    metrics::{DIAGNOSTICS_LOST, SESSIONS_FORGOTTEN},
    protocols::ProtocolFigures,
};
use upstreams::{ServerStanding, UpstreamStanding};

/// A figure of each `T`.
pub struct Column<T> {
    /// Its name in `/metrics`.
    pub name: &'static str,
    /// Its help text.
    pub help: &'static str,
    /// A counter, or a gauge.
    pub kind: MetricType,
    /// Its value.
    pub of: fn(&T) -> Value,
}

/// A value, as it is written.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// A number of things.
    Count(u64),
    /// The same, possibly negative.
    Signed(i64),
    /// A time or a ratio.
    Real(f64),
    /// No line is written at present.
    Unknown,
}

impl From<u64> for Value {
    fn from(n: u64) -> Value {
        Value::Count(n)
    }
}

impl From<f64> for Value {
    fn from(x: f64) -> Value {
        Value::Real(x)
    }
}

impl<T> From<Option<T>> for Value
where
    Value: From<T>,
{
    fn from(maybe: Option<T>) -> Value {
        maybe.map_or(Value::Unknown, Value::from)
    }
}

/// Defines tables of columns.
macro_rules! columns {
    ($(#[doc = $doc:literal] $table:ident of $row:ty { $($kind:ident $name:literal, $help:literal = |$it:ident| $value:expr;)* })*) => {
        $(#[doc = $doc]
        pub const $table: &[Column<$row>] = &[$(Column {
            name: $name,
            help: $help,
            kind: MetricType::$kind,
            of: |$it| Value::from($value),
        }),*];)*
    };
}

/// Defines structs of figures with their columns.
macro_rules! figures {
    ($(#[doc = $doc:literal] $facts:ident of ($($from:ident: $of:ty),*) {
        $($(#[$only:meta])? $kind:ident $field:ident $name:literal, $help:literal = $value:expr;)*
    })*) => {
        $(#[doc = $doc]
        #[derive(Clone, Debug, Serialize)]
        pub struct $facts {
            $(#[doc = $help] $(#[$only])? pub $field: u64,)*
        }

        impl $facts {
            columns! {
                /// The columns of `/metrics`.
                COLUMNS of $facts { $($kind $name, $help = |it| it.$field;)* }
            }

            /// The present values.
            pub fn now($($from: &$of),*) -> $facts {
                $facts { $($field: $value),* }
            }
        })*
    };
}

figures! {
    /// The memory tier.
    MemoryFacts of (cache: Cache) {
        Gauge bytes "memory_bytes", "Bytes of the objects in the memory tier, fragments of large ones among them" = cache.memory.bytes() + cache.fragments.bytes();
        Gauge bytes_max "memory_bytes_max", "The bound on bytes in the memory tier" = cache.memory.bytes_max();
        Gauge objects "memory_objects", "Objects in the memory tier" = cache.memory.objects();
        Counter evicted "memory_evicted", "Objects pushed out of the memory tier for want of room" = cache.memory.evicted();
        Counter burst_refused "memory_burst_refused", "Objects not kept in memory because they would have driven out too many (cluster.replacement-burst)" = cache.memory.burst_refused();
        Counter companions "memory_companions", "Companions (disk_companions) that came to memory, where they were not yet" = cache.memory.companions.brought_count();
        Counter companions_asked "memory_companions_asked", "Those of them that were asked for" = cache.memory.companions.asked_count();
        #[serde(skip)] Gauge fragments "memory_fragments", "Fragments of large objects in memory" = cache.fragments.fragments();
        #[serde(skip)] Gauge fragment_bytes "memory_fragment_bytes", "Bytes of these fragments" = cache.fragments.bytes();
        #[serde(skip)] Counter fragments_evicted "memory_fragments_evicted", "Fragments pushed out of memory for want of room" = cache.fragments.evicted();
        #[serde(skip)] Counter fragment_served_bytes "memory_fragment_served_bytes", "Bytes of fragments that were sent from memory" = cache.fragments.served_bytes();
    }

    /// Heads and bodies in transit.
    TransferFacts of (heads: HeadBudget, ledger: Ledger, bytes_max: u64, cache: Cache) {
        #[serde(skip)] Gauge head_bytes "head_bytes", "Bytes kept of heads that are not complete, and behind requests" = heads.bytes();
        Gauge bytes "transfer_bytes", "Bytes of bodies on their way from origins to clients and store" = ledger.bytes();
        Gauge bytes_max "transfer_bytes_max", "The bound on bytes of bodies on their way" = *bytes_max;
        Gauge room_bytes "room_bytes", "Memory in which long bodies are received where they are stored, and what is kept for the next ones; at most a quarter of limits.transfer-buffer" = cache.rooms.bytes();
    }
}

columns! {
    /// The process, as the kernel reports it; these have the standard names.
    PROCESS of Process {
        Counter "process_cpu_seconds", "Processor time of all threads, user and system, in seconds" = |it| it.cpu_s;
        Gauge "process_start_time_seconds", "When the process started, in seconds since 1970" = |it| it.started_unix_s;
        Gauge "process_resident_memory_bytes", "Memory of the process that is in RAM, in bytes" = |it| it.resident_bytes;
        Gauge "process_open_fds", "Open files of the process, sockets among them" = |it| it.open_fds;
        Gauge "process_max_fds", "How many files the process may have open (ulimit -n)" = |it| it.max_fds;
    }

    /// The proxy and its configuration.
    PROXY of Facts {
        Gauge "uptime_seconds", "Time since the process came up, in seconds" = |it| it.uptime.as_secs_f64();
        Gauge "running", "1 while serving, 0 while draining" = |it| u64::from(it.phase == Phase::Running);
        Counter "diagnostics_lost", "Messages on standard error dropped because nobody read them" = |_it| DIAGNOSTICS_LOST.load(Relaxed);
        Gauge "stores_absent", "Stores that could not be opened and are left out" = |it| it.stores_absent;
        Gauge "config_edition", "The edition of the configuration that is in force: 1 at the start, one more with each reload" = |it| u64::from(it.configuration.edition);
        Gauge "config_loaded_seconds", "When it was loaded, in seconds since 1970" = |it| it.configuration.loaded.as_secs_f64();
        Counter "config_reload_failures", "Reloads that were refused, so that the configuration stayed as it was" = |it| it.configuration.failures;
    }

    /// TLS to clients, ACME, and the bound on client connections.
    CLIENTS of Facts {
        Counter "tls_sessions_forgotten", "TLS sessions, kept for early-data, that made room for newer ones (limits.tls-sessions)" = |_it| SESSIONS_FORGOTTEN.load(Relaxed);
        Counter "acme_issued", "Certificates that were issued by acme.directory" = |it| it.configuration.acme.map(|(issued, _)| issued);
        Counter "acme_failures", "Orders for a certificate that have failed" = |it| it.configuration.acme.map(|(_, failures)| failures);
        Gauge "client_connections_max", "The bound on open client connections" = |it| it.connections_max;
    }

    /// Requests by class.
    CLASSES of ClassFigures {
        Counter "requests", "Requests finished, by what became of them: the classes of the access log" = |it| it.requests;
        Counter "response_bytes", "Bytes sent to clients, heads included, by what became of the request" = |it| it.bytes;
    }

    /// Hits since the start.
    HIT_RATIOS of Snapshot {
        Gauge "hit_ratio_documents", "Part (0 to 1) of the requests since the start that were answered from the cache, without tunnels and errors" = |it| it.hit_ratio_documents().unwrap_or(f64::NAN);
        Gauge "hit_ratio_bytes", "Part (0 to 1) of the bytes sent since the start that came from the cache, without tunnels and errors" = |it| it.hit_ratio_bytes().unwrap_or(f64::NAN);
    }

    /// Requests and connections by protocol and encryption.
    PROTOCOLS of ProtocolFigures {
        Counter "protocol_requests", "Requests finished, by the client's protocol and the encryption of its connection" = |it| it.requests;
        Counter "protocol_connections", "Client connections, by what is spoken on them: counted once that is known" = |it| it.connections;
        Gauge "protocol_connections_open", "Client connections open now, by what is spoken on them" = |it| it.open;
    }

    /// Each upstream.
    UPSTREAMS of UpstreamStanding {
        Counter "upstream_retries", "Requests that were sent to one more server of the upstream, because one gave no answer or a bad one" = |it| it.retries;
        Counter "upstream_retries_refused", "Requests that could have been sent to one more server and were not, because a tenth of those of the last ten seconds had been" = |it| it.retries_refused;
        Counter "upstream_none_up", "Requests for which no server of the upstream was up" = |it| it.none_up;
        Counter "upstream_ejections_spared", "Failures for which a server would have been put out, if at least half of them had been left" = |it| it.spared;
    }

    /// Each server of an upstream.
    SERVERS of ServerStanding {
        Gauge "upstream_server_up", "1 while the server gets requests: nothing that is known of it, and no operator, speaks against it" = |it| u64::from(it.is_up());
        Gauge "upstream_server_in_flight", "Requests on their way to the server, their answers' bodies included" = |it| u64::from(it.in_flight);
        Gauge "upstream_server_check_failed", "1 if the last check of the server has failed; 0 also if it is not checked" = |it| u64::from(it.checked.as_ref().is_some_and(|check| !check.well));
        Counter "upstream_server_requests", "Requests for which the server was chosen, since it was configured" = |it| it.requests;
        Counter "upstream_server_failures", "Those of them that it gave no answer, or 500, 502, 503 or 504" = |it| it.failures;
        Counter "upstream_server_ejections", "How often the server was put out because of what came of requests" = |it| it.ejections;
    }

    /// Each limit.
    LIMITS of LimitFacts {
        Counter "limit_passed", "Requests (or connections) within a limit, by its name" = |it| it.passed;
        Counter "limit_delayed", "Requests that waited for their turn at a limit" = |it| it.delayed;
        Counter "limit_refused", "Requests beyond a limit: answered 429 or from what is stale, not refreshed behind a client, or connections closed" = |it| it.refused;
        Counter "limit_keys_shared", "Look-ups at a limit for clients or hosts that shared a count, because keys-max of them were busy" = |it| it.keys_shared;
        Gauge "limit_keys", "Clients, hosts or listeners that a limit counts apart now, some idle ones among them" = |it| it.keys;
    }

    /// Each store, in addition to its own figures.
    STORES of StoreFacts {
        Gauge "store_bytes", "Size of the store's file or device in bytes" = |it| it.bytes;
        Gauge "store_paused", "1 while nothing is stored because a write failed" = |it| u64::from(it.paused);
        Gauge "store_aside", "1 while nobody asks the store's device, because it does not answer" = |it| u64::from(it.aside);
        Gauge "store_abandoned_read_bytes", "Bytes of reads that nobody waits for any more and the device has not ended" = |it| it.abandoned_bytes;
        Gauge "store_recovery_left_bytes", "Bytes still to be looked through after an unclean stop" = |it| it.recovery.as_ref().map_or(0, |scan| scan.total_bytes - scan.done_bytes);
    }

    /// Each other member of the cluster.
    MEMBERS of MemberStatus {
        Gauge "cluster_member_trusted", "1 while the member's link is up and it is heard" = |it| f64::from(u8::from(it.trusted));
        Gauge "cluster_member_since_seconds", "Time since trust in the member began, or was lost, in seconds" = |it| it.since_s as f64;
        Gauge "cluster_member_lag_seconds", "How old what is known of the member's stores is, in seconds: time since all updates were here that it had made by its last beat; no line while nothing is known" = |it| it.lag_ms.map(|lag_ms| lag_ms as f64 / 1000.0);
        Gauge "cluster_member_hints_set", "Bits of the member's filters, or numbers of its directories, that are set here" = |it| it.hints_set as f64;
        Gauge "cluster_member_names", "Names that the member says it holds" = |it| it.columns.iter().map(|column| column.entries).sum::<u64>() as f64;
        Gauge "cluster_member_requests_in_progress", "Requests of this proxy that the member is answering" = |it| it.requests_in_progress as f64;
        Gauge "cluster_member_requests_per_second", "Requests a second that the member says it is asked" = |it| it.requests_per_s as f64;
        Gauge "cluster_member_disk_queue_seconds", "How long the member says a read waits for its disk, in seconds" = |it| it.disk_queue_ms as f64 / 1000.0;
        Counter "cluster_member_false_misses", "Objects fetched and pushed to the member that it had already, which no hint told of; no line where nothing is pushed" = |it| it.false_misses;
        Counter "cluster_member_failures", "Requests that the member failed to answer" = |it| it.failures;
        Counter "cluster_member_distrusted", "Times that the member's link ended or fell silent" = |it| it.distrusted;
    }

    /// Pushes between members of the cluster, without labels.
    PUSHES of Cluster {
        Gauge "cluster_push_bytes_open", "Bytes collected for pushes, waiting, and on their way" = |it| it.pushing.figures().0;
        Counter "cluster_pushes_dropped_full", "Pushes dropped, or not begun, because the queue of pushes was full" = |it| it.pushing.figures().2.full;
        Counter "cluster_pushes_dropped_old", "Pushes dropped because no member took them for ten seconds" = |it| it.pushing.figures().2.old;
        Counter "cluster_pushes_replaced", "Pushes not sent because a newer version of the object came" = |it| it.pushing.figures().2.replaced;
        Counter "cluster_pushes_purged", "Pushes not sent because the object was purged meanwhile" = |it| it.pushing.counters.purged.load(Relaxed);
        Counter "cluster_pushes_untold", "Pushes not begun because no member had told which purges it has heard when the fetch began" = |it| it.pushing.counters.untold.load(Relaxed);
        Counter "cluster_pushes_too_long", "Fetched objects that were too long to be pushed (cluster.push-max)" = |it| it.pushing.counters.too_long.load(Relaxed);
        Counter "cluster_pushes_unanswered", "Pushes that a member did not answer" = |it| sum(it, |of| &of.pushes_lost);
        Counter "cluster_pushes_given_up", "Pushes that no member has taken" = |it| it.pushing.counters.given_up.load(Relaxed);
        Counter "cluster_pushes_stored", "Pushes that a member has stored" = |it| sum(it, |of| &of.pushes[Verdict::Stored as usize]);
        Counter "cluster_pushes_refused_policy", "Pushes that a member's rules or admission did not want" = |it| sum(it, |of| &of.pushes[Verdict::Policy as usize]);
        Counter "cluster_pushes_refused_size", "Pushes that were too long for a member" = |it| sum(it, |of| &of.pushes[Verdict::Size as usize]);
        Counter "cluster_pushes_refused_invalidated", "Pushes that a member refused because of a purge since the fetch began, or because it cannot rule one out" = |it| sum(it, |of| &of.pushes[Verdict::Invalidated as usize]);
        Counter "cluster_pushes_refused_paused", "Pushes that a member refused because it stored nothing, or had too much to do" = |it| sum(it, |of| &of.pushes[Verdict::Paused as usize]);
        Counter "cluster_pushes_refused_disk", "Pushes that a member's store did not take" = |it| sum(it, |of| &of.pushes[Verdict::Disk as usize]);
        Counter "cluster_pushes_refused_malformed", "Pushes that a member could not read" = |it| sum(it, |of| &of.pushes[Verdict::Malformed as usize]);
        Counter "cluster_false_misses", "Objects fetched and pushed to a member that had them already, which no hint told of; its copy may have been out of date" = |it| sum(it, |of| &of.false_misses);
        Counter "cluster_pushed_stored", "Pushes of other members stored here" = |it| taken(it, Verdict::Stored);
        Counter "cluster_pushed_refused_policy", "Pushes of other members refused: our rules or admission did not want them" = |it| taken(it, Verdict::Policy);
        Counter "cluster_pushed_refused_size", "Pushes of other members refused: too long" = |it| taken(it, Verdict::Size);
        Counter "cluster_pushed_refused_invalidated", "Pushes of other members refused: purged since the fetch began, or that cannot be ruled out" = |it| taken(it, Verdict::Invalidated);
        Counter "cluster_pushed_refused_paused", "Pushes of other members refused: nothing is stored now, or too much is under way" = |it| taken(it, Verdict::Paused);
        Counter "cluster_pushed_refused_disk", "Pushes of other members refused: the store did not take them" = |it| taken(it, Verdict::Disk);
        Counter "cluster_pushed_refused_malformed", "Pushes of other members refused: not understood" = |it| taken(it, Verdict::Malformed);
    }
}

/// A family with a line for each word of a further label: name, that label, help text, kind, values.
type ByWord = (
    &'static str,
    &'static str,
    &'static str,
    MetricType,
    fn(&MemberStatus) -> Vec<(&'static str, u64)>,
);

/// Families of each other member of the cluster with such a label.
pub const MEMBERS_BY_WORD: [ByWord; 3] = [
    (
        "cluster_member_state",
        "state",
        "1 for the state that the member is in, 0 for the others",
        MetricType::Gauge,
        |it| {
            let words = Standing::ALL.map(Standing::as_str).into_iter();
            words
                .map(|word| (word, u64::from(word == it.state)))
                .collect()
        },
    ),
    (
        "cluster_member_hits",
        "had",
        "Requests sent to the member, by whether it had what was asked for (true, false), or had to validate it (stale)",
        MetricType::Counter,
        |it| it.hits.all().to_vec(),
    ),
    (
        "cluster_member_pushes",
        "verdict",
        "Pushes to the member, by its verdict (lost: it gave none)",
        MetricType::Counter,
        |it| it.pushes.0.to_vec(),
    ),
];

/// Name, help text and value of each figure of pushes.
pub fn pushes(cluster: &Cluster) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
    PUSHES.iter().filter_map(|column| {
        let Value::Count(n) = (column.of)(cluster) else {
            return None;
        };
        Some((column.name, column.help, n))
    })
}

/// The sum over all members.
fn sum(cluster: &Cluster, of: fn(&MemberCounters) -> &AtomicU64) -> u64 {
    cluster
        .counted()
        .map(|counters| of(counters).load(Relaxed))
        .sum()
}

/// Pushes of other members that we answered with this verdict.
fn taken(cluster: &Cluster, verdict: Verdict) -> u64 {
    cluster.receiving.verdicts[verdict as usize].load(Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verdict_is_counted_on_both_sides() {
        for verdict in Verdict::ALL.map(Verdict::as_str) {
            for side in ["cluster_pushes_", "cluster_pushed_"] {
                let mut names = PUSHES.iter().filter_map(|it| it.name.strip_prefix(side));
                let is_it = |name: &str| name.trim_start_matches("refused_") == verdict;
                assert!(names.any(is_it), "{side}{verdict}");
            }
        }
    }
}
