//! The state of the cluster, for `/status` and metrics.
//!
//! Not known here: how it is displayed.

use std::sync::atomic::{AtomicU64, Ordering};

use hints::view::ColumnStatus;
use serde::{Serialize, Serializer};

use super::{
    member::{Member, MemberCounters},
    publishing::Publishing,
    push::message::Verdict,
    state::Cluster,
};
use base::member::MemberId;

/// This member's cluster state, and its knowledge of the others.
#[derive(Serialize, Clone, Debug)]
pub struct ClusterStatus {
    /// Our name.
    pub name: String,
    /// Do we route by what others hold?
    pub front: bool,
    /// Do we push fetched objects to other members?
    pub pushes: bool,
    /// Names that we tell others we hold; `null`: we have no store.
    pub told_entries: Option<u64>,
    /// Bytes of memory that this takes.
    pub telling_memory_bytes: u64,
    /// Bytes of memory for the hints of other members.
    pub hints_memory_bytes: u64,
    /// Look-ups that one question takes: one for each group of columns with the same seed and shape.
    pub hints_groups: usize,
    /// Purges of the whole cluster, as far as this member took part.
    pub purges: Purges,
    /// The other members.
    pub members: Vec<MemberStatus>,
}

/// Purges, since the start.
#[derive(Serialize, Clone, Debug)]
pub struct Purges {
    /// Ours, told to others.
    pub told: u64,
    /// Purges of other members that were applied here.
    pub heard: u64,
    /// Ours that wait for other members now.
    pub waiting: u64,
    /// Ours that were acknowledged while a member was away.
    pub away: u64,
    /// Ours that a linked member did not confirm in time.
    pub missing: u64,
    /// Are stored objects withheld now, all or some, until other members have told what was purged?
    pub rejoining: bool,
}

/// Another member, and its counters since the start.
#[derive(Serialize, Clone, Debug)]
pub struct MemberStatus {
    /// Its name.
    pub name: String,
    /// Its address for members.
    pub address: String,
    /// Was it discovered, and is forgotten when it has left? Otherwise it is in the configuration.
    pub discovered: bool,
    /// The word of its [`Standing`](super::Standing).
    pub state: &'static str,
    /// An explanation of that word, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_means: Option<&'static str>,
    /// Is its link up and beating?
    pub trusted: bool,
    /// Seconds since trust in it last began or ended; since our start if it was never trusted.
    pub since_s: u64,
    /// Seconds since it was last trusted, or since our start; `null`: it is trusted.
    pub distrusted_for_s: Option<u64>,
    /// Age of our hints about it: milliseconds since we last had all updates that its last beat had announced. Changes that it has not put into
    /// an update yet (up to its `update-period`) do not count. The oldest of its stores; `null`: none is followed, or the age of one is not known.
    pub lag_ms: Option<u64>,
    /// Bits set here in its filters, or numbers in its directories.
    pub hints_set: u64,
    /// Requests of ours that it is answering.
    pub requests_in_progress: u64,
    /// As its last beat reported it, like the next four.
    pub requests_per_s: u64,
    /// Reads of its disks a second.
    pub disk_reads_per_s: u64,
    /// Time that a read waits for its disk.
    pub disk_queue_ms: u64,
    /// Space in its stores that no live record takes.
    pub free_mib: u64,
    /// The longest body that it accepts in a push.
    pub push_max_bytes: u64,
    /// Its stores that we follow.
    pub columns: Vec<Column>,
    /// Requests that we sent to it.
    pub hits: Hits,
    /// Objects that we fetched although it had them, because no hint told us; `null`: we do not push, and so never learn of them.
    pub false_misses: Option<u64>,
    /// Verdicts on our pushes to it.
    pub pushes: Pushes,
    /// Requests that it failed to answer.
    pub failures: u64,
    /// How often trust in it was lost, orderly shutdowns excepted.
    pub distrusted: u64,
}

/// Requests sent to a member, by whether it had the object.
#[derive(Serialize, Clone, Copy, Debug)]
pub struct Hits {
    /// It had the object.
    pub r#true: u64,
    /// It did not have it: the hint was wrong, or there was none.
    pub r#false: u64,
    /// It had to validate its copy.
    pub stale: u64,
}

impl Hits {
    /// Each count with its label.
    pub fn all(self) -> [(&'static str, u64); 3] {
        [
            ("true", self.r#true),
            ("false", self.r#false),
            ("stale", self.stale),
        ]
    }
}

/// Pushes to a member by its verdict; those without a verdict are `lost`.
#[derive(Clone, Copy, Debug)]
pub struct Pushes(pub [(&'static str, u64); Verdict::ALL.len() + 1]);

impl Serialize for Pushes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0)
    }
}

impl Pushes {
    fn of(counters: &MemberCounters) -> Pushes {
        let verdicts = Verdict::ALL.iter().zip(&counters.pushes);
        let mut all = [(LOST, value(&counters.pushes_lost)); Verdict::ALL.len() + 1];
        for (row, (verdict, count)) in all.iter_mut().zip(verdicts) {
            *row = (verdict.as_str(), value(count));
        }
        Pushes(all)
    }
}

/// The label of pushes without a verdict.
const LOST: &str = "lost";

/// A store of a member.
#[derive(Serialize, Clone, Debug)]
pub struct Column {
    /// The last update applied here; `null`: the first full copy is not complete.
    pub label: Option<u64>,
    /// Updates that the member has made since then, by its last beat.
    pub behind: u64,
    /// See [`MemberStatus::lag_ms`].
    pub lag_ms: Option<u64>,
    /// Names in it, by its last beat.
    pub entries: u64,
    /// Bits set here in its filter, or numbers in its directory.
    pub hints_set: u64,
    /// Progress of a full copy that is being received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filled_percent: Option<u8>,
}

impl Column {
    fn of(column: &ColumnStatus, now_ms: u64) -> Column {
        Column {
            label: column.label,
            behind: column.beat.label.saturating_sub(column.label.unwrap_or(0)),
            lag_ms: (column.complete_ms).map(|then_ms| now_ms.saturating_sub(then_ms)),
            entries: column.beat.entries,
            hints_set: column.marks,
            filled_percent: column.filled_percent,
        }
    }
}

fn value(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// The largest age; `None` if one is not known, or there are none.
fn oldest(columns: &[Column]) -> Option<u64> {
    let each = columns.iter().map(|column| column.lag_ms);
    each.collect::<Option<Vec<_>>>()?.into_iter().max()
}

/// Name, meaning and value of a counter.
type Figure = (&'static str, &'static str, u64);

/// Name and meaning of a counter that each member has, and where to read it.
type Counted = (
    &'static str,
    &'static str,
    fn(&MemberCounters) -> &AtomicU64,
);

const OF_MEMBERS: [Counted; 5] = [
    (
        "cluster_hits_true",
        "Requests sent to members that were answered from their caches",
        |it| &it.hits_true,
    ),
    (
        "cluster_hits_false",
        "Requests sent to members by a wrong hint",
        |it| &it.hits_false,
    ),
    (
        "cluster_hits_stale",
        "Requests sent to members whose object they had to validate",
        |it| &it.hits_stale,
    ),
    (
        "cluster_failures",
        "Requests that members failed to answer",
        |it| &it.failures,
    ),
    (
        "cluster_distrusted",
        "Times that a member's link ended or fell silent",
        |it| &it.distrusted,
    ),
];

impl Cluster {
    /// The present state.
    pub fn status(&self) -> ClusterStatus {
        let told = self.publishing().as_ref().map(Publishing::figures);
        let mut reader = self.view().reader();
        let purges = &self.purging.figures;
        ClusterStatus {
            name: self.plan.name.clone(),
            front: self.plan.front,
            pushes: self.pushing.is_on,
            told_entries: told.map(|told| told.names),
            telling_memory_bytes: told.map_or(0, |told| told.memory_bytes),
            hints_memory_bytes: reader.groups().memory_bytes() as u64,
            hints_groups: reader.groups().iter().count(),
            purges: Purges {
                told: value(&purges.told),
                heard: value(&purges.heard),
                waiting: value(&purges.pending),
                away: value(&purges.away),
                missing: value(&purges.missing),
                rejoining: value(&purges.is_rejoining) != 0,
            },
            members: (self.members())
                .filter_map(|(id, member)| self.member_status(id, member))
                .collect(),
        }
    }

    fn member_status(&self, id: MemberId, member: &Member) -> Option<MemberStatus> {
        let who = member.who()?;
        let known = self.view().status(id.0);
        // Read the clock after the view, so that no time in the view lies in the future.
        let now_ms = self.now_ms();
        let (load, counters) = (&member.load, &member.counted());
        let columns = known.iter().flat_map(|known| &known.columns);
        let columns: Vec<_> = columns.map(|column| Column::of(column, now_ms)).collect();
        let (standing, is_trusted) = (self.standing(id), member.is_trusted());
        let since_s = now_ms.saturating_sub(member.since_ms()) / 1000;
        Some(MemberStatus {
            name: who.name.to_string(),
            address: who.at.to_string(),
            discovered: who.is_discovered,
            state: standing.as_str(),
            state_means: standing.meaning(),
            trusted: is_trusted,
            since_s,
            distrusted_for_s: (!is_trusted).then_some(since_s),
            lag_ms: oldest(&columns),
            hints_set: columns.iter().map(|column| column.hints_set).sum(),
            requests_in_progress: member.in_progress(),
            requests_per_s: value(&load.requests),
            disk_reads_per_s: value(&load.reads),
            disk_queue_ms: value(&load.queue_ms),
            free_mib: value(&load.free_mib),
            push_max_bytes: value(&load.push_max_bytes),
            columns,
            hits: Hits {
                r#true: value(&counters.hits_true),
                r#false: value(&counters.hits_false),
                stale: value(&counters.hits_stale),
            },
            false_misses: (self.pushing.is_on).then(|| value(&counters.false_misses)),
            pushes: Pushes::of(counters),
            failures: value(&counters.failures),
            distrusted: value(&counters.distrusted),
        })
    }

    /// Name, meaning and value of all counters, summed over members.
    pub fn figures(&self) -> Vec<Figure> {
        let mut all = self.figures_of_members().to_vec();
        all.extend(self.figures_of_links());
        all.extend(self.figures_of_hints());
        // Sum over all places, so that members that were forgotten count too.
        let sum = |of: fn(&MemberCounters) -> &AtomicU64| {
            let each = self.places.iter().map(|place| value(of(&place.counters)));
            each.sum()
        };
        all.extend(OF_MEMBERS.map(|(name, meaning, of)| (name, meaning, sum(of))));
        all
    }

    fn figures_of_members(&self) -> [Figure; 6] {
        let now_ms = self.now_ms();
        let is_usable = |(_, it): &(MemberId, &Member)| it.is_usable(now_ms);
        [
            (
                "cluster_members_usable_open",
                "Other members of the cluster that requests may be sent to",
                self.members().filter(is_usable).count() as u64,
            ),
            (
                "cluster_members_open",
                "Other members of the cluster, also those that are away",
                self.members().count() as u64,
            ),
            (
                "cluster_members_forgotten",
                "Members that were discovered and are none any more",
                value(&self.discovery.forgotten),
            ),
            (
                "cluster_discovered_addresses_open",
                "Addresses that the name of the members has (cluster.discover)",
                value(&self.discovery.addresses),
            ),
            (
                "cluster_discovered_unplaced_open",
                "Addresses among them that are left out because there are too many",
                value(&self.discovery.unplaced),
            ),
            (
                "cluster_discovery_failures",
                "Look-ups of the name of the members that failed",
                value(&self.discovery.failures),
            ),
        ]
    }

    fn figures_of_links(&self) -> [Figure; 4] {
        [
            (
                "cluster_handshakes_refused",
                "Cluster connections refused, ours and others': no proof of the key, another name, another version",
                value(&self.counters.handshakes_refused),
            ),
            (
                "cluster_frames_malformed",
                "Links to members that ended because of what came over them",
                value(&self.counters.frames_malformed),
            ),
            (
                "cluster_hint_frames",
                "Frames of hints sent and received",
                value(&self.counters.hint_frames),
            ),
            (
                "cluster_hint_bytes",
                "Bytes of hints sent and received",
                value(&self.counters.hint_bytes),
            ),
        ]
    }

    fn figures_of_hints(&self) -> [Figure; 7] {
        let told = self.publishing().as_ref().map(Publishing::figures);
        let told = told.unwrap_or_default();
        let followed = self.view().figures();
        [
            (
                "cluster_told_names_open",
                "Names that this member tells others that it holds",
                told.names,
            ),
            (
                "cluster_told_updates",
                "Updates of what this member holds",
                told.updates,
            ),
            ("cluster_told_entries", "Entries in them", told.entries),
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
        ]
    }
}
