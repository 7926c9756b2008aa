//! The cluster: from `[cluster]` and its `[[cluster.member]]` blocks to `proxy::plan::Cluster`.
//!
//! Rules kept here, and nowhere else:
//!   C1  a cluster has an address, a key, and at least one other member or a name by which members are discovered
//!   C2  no two members have the same name or address
//!   C3  the file may list this member among the others, so that all members have the same list; it is left out
//!   C5  with discovery, this member has a name of its own: the given one, or an address that is not unspecified
//!   C4  a member has a part in the cluster: it is a front, or has a store
//!
//! Not known here: whether a member can be reached.

use std::net::SocketAddr;
use std::path::PathBuf;

use proxy::plan::{
    self, ClusterMember, ClusterMiss, ClusterRoute, FalseHit, HintKind, MEMBERS_MAX, PeerAddress,
    Spread, StorePlan,
};

use super::apply::apply;
use super::general::Draft;
use super::machine::Machine;
use super::problem::Problem;
use super::raw::{Block, Given, Raw, Value};
use super::rows::{Row, numbers, rows};
use super::values;

/// The values of `[cluster]`.
#[derive(Default, Clone, PartialEq, Debug)]
pub struct ClusterDraft {
    plan: plan::Cluster,
    name: Option<String>,
    address: Option<SocketAddr>,
    key_file: Option<PathBuf>,
    replacement_burst: Option<Option<u32>>,
}

/// The values of a `[[cluster.member]]`.
#[derive(Default)]
pub struct MemberDraft {
    name: Option<String>,
    at: Option<PeerAddress>,
}

/// Settings of `[cluster]`.
pub fn rows() -> Vec<Row<ClusterDraft>> {
    let mut rows = rows![ClusterDraft:
        /// The name of this member, by which the others know it.
        "cluster.name": "a word", "its address" => name = values::peer_name;
        /// Where members connect: for hints, purges, and requests that are forwarded. Not for clients. What goes over it is not
        /// encrypted; members prove to each other that they have the key.
        "cluster.address": "`ADDRESS:PORT`", "required" => address = values::socket_address;
        /// A name whose addresses are those of all members, and the port where members connect: members come and go without a change of any
        /// file. It is asked every `discover-every`; a member that opens a link and proves the key is one, too. Beside or instead of
        /// `[[cluster.member]]`.
        "cluster.discover": "`HOST:PORT` or `none`", "none" => plan.discover = discovered;
        /// The file with the cluster's key, 64 hexadecimal digits, the same for all members: `loligo cluster key > cluster.key`.
        "cluster.key-file": "a path", "required" => key_file = values::path;
        /// How members tell what they hold. `bloom`: a filter of some bits an object, now and then wrong; `directory`: a table of all
        /// objects, exact, 16 bytes and more for each object of each member. All members alike.
        "cluster.hints": "`bloom`, `directory`", "bloom" => plan.hints = |given| values::word(given, &[
            ("bloom", HintKind::Bloom), ("directory", HintKind::Directory),
        ]);
        /// How a front chooses the member that it asks. `hints`: one that holds the object. The others are there to compare: `hash`:
        /// each URL has its member, one that has a quarter more to do than its share is passed over; `round-robin`: in turn; `least`: the
        /// one with the least to do.
        "cluster.route": "`hints`, `hash`, `round-robin`, `least`", "hints" => plan.route = |given| values::word(given, &[
            ("hints", ClusterRoute::Hints), ("hash", ClusterRoute::Hash), ("round-robin", ClusterRoute::RoundRobin),
            ("least", ClusterRoute::Least),
        ]);
        /// Who fetches what no member holds. `own`: the front itself; `home`: the member that the URL belongs to, so that no two fetch
        /// the same at once.
        "cluster.miss": "`own`, `home`", "own" => plan.miss = |given| values::word(given, &[
            ("own", ClusterMiss::Own), ("home", ClusterMiss::Home),
        ]);
        /// What a member does with a request for something that it does not hold, which a wrong hint has brought. `fetch`: it fetches and
        /// stores it; `return`: it says so, and the front fetches.
        "cluster.false-hit": "`fetch`, `return`", "fetch" => plan.false_hit = |given| values::word(given, &[
            ("fetch", FalseHit::Fetch), ("return", FalseHit::Return),
        ]);
        /// How a front without a store chooses the member that it pushes to. `load`: of two, the one with less to do and more room; `hash`:
        /// each server has its member, whose disk then has a site's objects together.
        "cluster.spread": "`load`, `hash`", "load" => plan.spread = |given| values::word(given, &[
            ("load", Spread::Load), ("hash", Spread::Hash),
        ]);
        /// The most objects that one which comes may drive out of the memory of a front without a store; with more, it is not kept there.
        /// So a long object does not empty the memory of short ones. -1: any number; for a front whose clients ask for long objects again soon.
        "cluster.replacement-burst": "a number, 1 to 1000000, or -1", "10" => replacement_burst = burst;
        /// The directory of the journal, which keeps purges for members that are away. A start without it drops what was stored
        /// before: a member with a store wants one. Never a copy of another member's: the purges of the two would be taken for each other.
        "cluster.state": "a path or `none`", "none" => plan.state = values::path_or_none;
    ];
    rows.extend(numbers(
        "cluster.",
        plan::Cluster::SETTINGS,
        |draft: &mut ClusterDraft| &mut draft.plan,
    ));
    rows
}

/// Settings of a `[[cluster.member]]`.
pub fn member_rows() -> Vec<Row<MemberDraft>> {
    rows![MemberDraft:
        /// Its name, as its own file says.
        "cluster.member.name": "a word", "its address" => name = values::peer_name;
        /// Its `cluster.address`, as this member reaches it.
        "cluster.member.address": "`HOST:PORT`", "required" => at = member_address;
    ]
}

/// A host and a port.
fn member_address(given: &Given) -> Result<PeerAddress, String> {
    let at = values::peer_address(given)?;
    match values::text(given)?
        .trim()
        .ends_with(&format!(":{}", at.port))
    {
        true => Ok(at),
        false => Err("expected HOST:PORT, such as \"10.0.0.12:3130\"".to_owned()),
    }
}

fn discovered(given: &Given) -> Result<Option<PeerAddress>, String> {
    match values::text(given)?.trim() {
        "none" => Ok(None),
        _ => member_address(given).map(Some),
    }
}

/// -1 is without bound.
fn burst(given: &Given) -> Result<Option<u32>, String> {
    const MAX: i64 = plan::Cluster::REPLACEMENT_BURST_MAX as i64;
    let number = match &given.value {
        Value::Number(number) => Some(*number),
        Value::Text(text) => text.trim().parse().ok(),
        _ => None,
    };
    match number {
        Some(-1) => Ok(None),
        Some(number @ 1..=MAX) => Ok(Some(number as u32)),
        _ => Err(format!("expected a number, 1 to {MAX}, or -1")),
    }
}

/// Checks the block, and those of the other members.
pub fn settle(
    raw: &Raw,
    draft: &Draft,
    stores: &[StorePlan],
    machine: &Machine,
    problems: &mut Vec<Problem>,
) -> Option<plan::Cluster> {
    let Some(block) = &raw.cluster else {
        if let Some(member) = raw.members.first() {
            problems
                .push(member.problem("cluster.member", "needs a [cluster] that it is a member of"));
        }
        return None;
    };
    let mut own = ClusterDraft::default();
    apply(&rows(), &block.given, &mut own, problems);
    let mut cluster = own.plan;
    if let Some(burst) = own.replacement_burst {
        cluster.replacement_burst = burst;
    }
    // C1
    match own.address {
        Some(address) => cluster.address = address,
        None if block.says("cluster.address") => {}
        None => problems.push(block.problem(
            "cluster.address",
            "a cluster needs an address where members connect, such as address = \"10.0.0.11:3130\"",
        )),
    }
    let has_name = own.name.is_some();
    cluster.name = own.name.unwrap_or_else(|| cluster.address.to_string());
    key(&mut cluster, own.key_file, block, machine, problems);
    cluster.members = members(&raw.members, &cluster.name, problems);
    // C5
    if cluster.discover.is_some() && !has_name && cluster.address.ip().is_unspecified() {
        let message = "every member that is discovered needs a name of its own, such as that of its machine: set it here, or start with --cluster-name";
        problems.push(block.problem("cluster.name", message));
    }
    if cluster.members.is_empty()
        && cluster.discover.is_none()
        && !block.says("cluster.discover")
        && raw
            .members
            .iter()
            .all(|member| member.says("cluster.member.address"))
    {
        let message = "a cluster needs another member: [[cluster.member]] with its name and address, or discover, a name that lists them";
        problems.push(block.problem("cluster.member", message));
    }
    if draft.plan.digests.serve {
        let message =
            "not together with [cluster]: only one of the two can follow what the stores hold";
        problems.push(block.problem("digest.serve", message));
    }
    // C4
    if !cluster.front && stores.is_empty() {
        let message = "is false and there is no store, so this member has no part in the cluster; set one of the two";
        problems.push(block.problem("cluster.front", message));
    }
    Some(cluster)
}

fn key(
    cluster: &mut plan::Cluster,
    file: Option<PathBuf>,
    block: &Block,
    machine: &Machine,
    problems: &mut Vec<Problem>,
) {
    let Some(file) = file else {
        if !block.says("cluster.key-file") {
            let message = "a cluster needs a key: `loligo cluster key > cluster.key`, the same file for all members";
            problems.push(block.problem("cluster.key-file", message));
        }
        return;
    };
    match (machine.cluster_key)(&file) {
        Ok(key) => cluster.key = key,
        Err(why) => {
            let message = format!("{}: {why}", file.display());
            problems.push(block.problem("cluster.key-file", message));
        }
    }
}

fn members(blocks: &[Block], own: &str, problems: &mut Vec<Problem>) -> Vec<ClusterMember> {
    let mut members: Vec<ClusterMember> = Vec::new();
    for block in blocks {
        let mut draft = MemberDraft::default();
        apply(&member_rows(), &block.given, &mut draft, problems);
        let key = "cluster.member.address";
        let Some(at) = draft.at else {
            if !block.says(key) {
                let message = "every member needs an address, such as address = \"10.0.0.12:3130\"";
                problems.push(block.problem(key, message));
            }
            continue;
        };
        let name = draft.name.unwrap_or_else(|| at.to_string());
        // C3
        if name == own {
            continue;
        }
        // C2
        if members.iter().any(|member| member.name == name) {
            let message = format!("another member is called {name}");
            problems.push(block.problem("cluster.member.name", message));
        }
        if members.iter().any(|member| member.at == at) {
            problems.push(block.problem(key, format!("there is a member at {at} already")));
        }
        members.push(ClusterMember { name, at });
    }
    if members.len() > MEMBERS_MAX {
        let message = format!("at most {MEMBERS_MAX} beside this one");
        problems.push(blocks[0].problem("cluster.member", message));
    }
    members
}

#[cfg(test)]
mod tests {
    use crate::config::testing::{complaints, settle};

    const SOUND: &str = "[cluster]\nname = \"n1\"\naddress = \"127.0.0.1:3130\"\nkey-file = \"cluster.key\"\nfront = true\n\
        [[cluster.member]]\nname = \"n1\"\naddress = \"127.0.0.1:3130\"\n[[cluster.member]]\naddress = \"Other.example:3130\"\n";

    #[test]
    fn all_members_may_have_one_list_and_each_leaves_out_itself() {
        let cluster = settle(SOUND).unwrap().plan.cluster.unwrap();
        let names: Vec<_> = cluster.members.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(
            (cluster.name.as_str(), names),
            ("n1", vec!["other.example:3130"])
        );
        assert_eq!(cluster.replacement_burst, Some(10));
        let burst = |value: &str| {
            let text = SOUND.replace(
                "front = true",
                &format!("front = true\nreplacement-burst = {value}"),
            );
            settle(&text).map(|settled| settled.plan.cluster.unwrap().replacement_burst)
        };
        assert_eq!((burst("-1"), burst("10")), (Ok(None), Ok(Some(10))));
        assert!(burst("-2").is_err() && burst("0").is_err());
    }

    #[test]
    fn a_name_may_list_the_members() {
        let at = SOUND.find("[[cluster.member]]").unwrap();
        let text = format!("{}discover = \"Nodes.example:3130\"\n", &SOUND[..at]);
        let cluster = settle(&text).unwrap().plan.cluster.unwrap();
        let discover = cluster.discover.unwrap().to_string();
        assert_eq!(
            (discover.as_str(), cluster.members.len()),
            ("nodes.example:3130", 0)
        );
        let both = SOUND.replacen("front", "discover = \"nodes.example:3130\"\nfront", 1);
        assert_eq!(
            settle(&both).unwrap().plan.cluster.unwrap().members.len(),
            1
        );
        let none = SOUND.replacen("front", "discover = \"none\"\nfront", 1);
        assert!(
            settle(&none)
                .unwrap()
                .plan
                .cluster
                .unwrap()
                .discover
                .is_none()
        );
        let nameless =
            text.replacen("name = \"n1\"\n", "", 1)
                .replacen("127.0.0.1:3130", "0.0.0.0:3130", 1);
        assert!(complaints(&nameless).contains("needs a name of its own"));
        let portless = text.replacen("example:3130", "example", 1);
        assert!(complaints(&portless).contains("expected HOST:PORT"));
    }

    #[test]
    fn what_a_cluster_needs_is_told() {
        for (old, new, told) in [
            (
                "key-file = \"cluster.key\"\n",
                "",
                "cluster.key-file: a cluster needs a key",
            ),
            (
                "\"cluster.key\"",
                "\"/missing/key\"",
                "/missing/key: No such file or directory",
            ),
            (
                "address = \"127.0.0.1:3130\"\nkey",
                "key",
                "cluster.address: a cluster needs an address",
            ),
            ("Other.example:3130", "other.example", "expected HOST:PORT"),
            (
                "front = true",
                "front = false\n[store]\npath = \"none\"",
                "this member has no part in the cluster",
            ),
            ("front = true", "frnt = true", "did you mean \"front\"?"),
            (
                "[cluster]",
                "[digest]\nserve = true\n[cluster]",
                "not together with [cluster]",
            ),
            (
                "address = \"Other.example:3130\"",
                "name = \"n1\"\naddress = \"a:1\"",
                "needs another member",
            ),
        ] {
            let complaints = complaints(&SOUND.replacen(old, new, 1));
            assert!(complaints.contains(told), "{new}: {complaints}");
        }
        let alone = complaints("[[cluster.member]]\naddress = \"a:1\"\n");
        assert!(alone.contains("cluster"), "{alone}");
    }
}
