//! How the cluster stands, for `/status` and metrics.
//!
//! Not known here: how it is shown.

use std::sync::atomic::{AtomicU64, Ordering};

use hints::view::{ColumnStatus, NodeStatus};
use serde::Serialize;

use super::{Cluster, Member, MemberId};

/// This member, and what it knows of the others.
#[derive(Serialize, Debug)]
pub struct ClusterStatus {
    /// Our name.
    name: String,
    /// Do we route by what others hold?
    front: bool,
    /// What we tell others that we hold, names; `null`: we have no store.
    told_entries: Option<u64>,
    /// Bytes of memory for telling it.
    telling_memory_bytes: u64,
    /// Bytes of memory of what others hold.
    hints_memory_bytes: u64,
    /// Look-ups that one question takes: groups of columns with one seed and shape.
    hints_groups: usize,
    /// The other members.
    members: Vec<MemberStatus>,
}

#[derive(Serialize, Debug)]
struct MemberStatus {
    name: String,
    address: String,
    /// False: the configuration names it.
    discovered: bool,
    /// `away`: its link is down, or silent; `avoided`: requests to it failed a moment ago; `draining`: it ends; else `up`.
    state: &'static str,
    /// Seconds since it came, or was distrusted.
    since_s: u64,
    requests_in_progress: u64,
    requests_per_s: u64,
    disk_reads_per_s: u64,
    disk_queue_ms: u64,
    free_mib: u64,
    /// Its stores, as far as they are followed.
    columns: Vec<Column>,
    hits: Hits,
    failures: u64,
    distrusted: u64,
}

#[derive(Serialize, Debug)]
struct Hits {
    r#true: u64,
    r#false: u64,
    stale: u64,
}

#[derive(Serialize, Debug)]
struct Column {
    /// The last update that counts here; `null`: the first full copy is not whole.
    label: Option<u64>,
    /// Updates that the member has made since; by its last beat.
    behind: u64,
    /// Names in it, by its last beat.
    entries: u64,
    /// Of a full copy that is coming.
    #[serde(skip_serializing_if = "Option::is_none")]
    filled_percent: Option<u8>,
}

impl Column {
    fn of(column: &ColumnStatus) -> Column {
        Column {
            label: column.label,
            behind: column.beat.label.saturating_sub(column.label.unwrap_or(0)),
            entries: column.beat.entries,
            filled_percent: column.filled_percent,
        }
    }
}

impl MemberStatus {
    fn of(member: &Member, known: Option<NodeStatus>, now_ms: u64) -> Option<MemberStatus> {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (load, counted, who) = (&member.load, member.counted(), member.who()?);
        Some(MemberStatus {
            name: who.name.to_string(),
            address: who.at.to_string(),
            discovered: who.is_discovered,
            state: member.state(now_ms),
            since_s: now_ms.saturating_sub(member.since_ms()) / 1000,
            requests_in_progress: member.in_progress(),
            requests_per_s: value(&load.requests),
            disk_reads_per_s: value(&load.reads),
            disk_queue_ms: value(&load.queue_ms),
            free_mib: value(&load.free_mib),
            columns: known.map_or_else(Vec::new, |known| {
                known.columns.iter().map(Column::of).collect()
            }),
            hits: Hits {
                r#true: counted.hits_true,
                r#false: counted.hits_false,
                stale: counted.hits_stale,
            },
            failures: counted.failures,
            distrusted: counted.distrusted,
        })
    }
}

impl Cluster {
    /// How it stands.
    pub fn status(&self) -> ClusterStatus {
        let now_ms = self.now_ms();
        let told = self.publishing().as_ref().map(super::Publishing::figures);
        let mut reader = self.view().reader();
        let of = |(id, member): (MemberId, &Member)| {
            let known = self.view().status(id.0);
            MemberStatus::of(member, known, now_ms)
        };
        ClusterStatus {
            name: self.plan.name.clone(),
            front: self.plan.front,
            told_entries: told.map(|[_, _, names, _]| names),
            telling_memory_bytes: told.map_or(0, |[_, _, _, bytes]| bytes),
            hints_memory_bytes: reader.groups().memory_bytes() as u64,
            hints_groups: reader.groups().iter().count(),
            members: self.members().filter_map(of).collect(),
        }
    }

    /// Name, meaning and value of what is counted, all members together.
    pub fn figures(&self) -> Vec<(&'static str, &'static str, u64)> {
        let relaxed = Ordering::Relaxed;
        // Of those that were forgotten, too.
        let sum = |of: fn(&Member) -> u64| self.places.iter().map(of).sum::<u64>();
        let own = |counter: &AtomicU64| counter.load(relaxed);
        let now_ms = self.now_ms();
        let is_usable = |(_, it): &(MemberId, &Member)| it.is_usable(now_ms);
        let usable = self.members().filter(is_usable).count();
        let told = self.publishing().as_ref().map(super::Publishing::figures);
        let [updates, entries, names, _] = told.unwrap_or_default();
        let followed = self.view().figures();
        vec![
            (
                "cluster_members_usable_open",
                "Other members of the cluster that requests may be sent to",
                usable as u64,
            ),
            (
                "cluster_members_open",
                "Other members of the cluster, also those that are away",
                self.members().count() as u64,
            ),
            (
                "cluster_members_forgotten",
                "Members that were discovered and are none any more",
                own(&self.discovery.forgotten),
            ),
            (
                "cluster_discovered_addresses_open",
                "Addresses that the name of the members has (cluster.discover)",
                own(&self.discovery.addresses),
            ),
            (
                "cluster_discovered_unplaced_open",
                "Addresses among them that are left out because there are too many",
                own(&self.discovery.unplaced),
            ),
            (
                "cluster_discovery_failures",
                "Look-ups of the name of the members that failed",
                own(&self.discovery.failures),
            ),
            (
                "cluster_handshakes_refused",
                "Cluster connections refused, ours and others': no proof of the key, another name, another version",
                own(&self.counters.handshakes_refused),
            ),
            (
                "cluster_frames_malformed",
                "Links to members that ended because of what came over them",
                own(&self.counters.frames_malformed),
            ),
            (
                "cluster_hint_frames",
                "Frames of hints sent and received",
                own(&self.counters.hint_frames),
            ),
            (
                "cluster_hint_bytes",
                "Bytes of hints sent and received",
                own(&self.counters.hint_bytes),
            ),
            (
                "cluster_told_names_open",
                "Names that this member tells others that it holds",
                names,
            ),
            (
                "cluster_told_updates",
                "Updates of what this member holds",
                updates,
            ),
            ("cluster_told_entries", "Entries in them", entries),
            (
                "cluster_followed_updates",
                "Updates of what other members hold",
                followed.updates,
            ),
            (
                "cluster_followed_entries",
                "Entries in them that were applied",
                followed.entries,
            ),
            (
                "cluster_followed_full_copies",
                "Full copies of what a member holds",
                followed.full_copies,
            ),
            (
                "cluster_followed_gaps",
                "Links that ended because an update was lost",
                followed.gaps,
            ),
            (
                "cluster_hits_true",
                "Requests sent to members that were answered from their caches",
                sum(|it| it.counters.hits_true.load(Ordering::Relaxed)),
            ),
            (
                "cluster_hits_false",
                "Requests sent to members by a wrong hint",
                sum(|it| it.counters.hits_false.load(Ordering::Relaxed)),
            ),
            (
                "cluster_hits_stale",
                "Requests sent to members whose object they had to validate",
                sum(|it| it.counters.hits_stale.load(Ordering::Relaxed)),
            ),
            (
                "cluster_failures",
                "Requests that members failed to answer",
                sum(|it| it.counters.failures.load(Ordering::Relaxed)),
            ),
            (
                "cluster_distrusted",
                "Times that a member's link ended or fell silent",
                sum(|it| it.counters.distrusted.load(Ordering::Relaxed)),
            ),
        ]
    }
}
