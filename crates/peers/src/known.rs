//! The peers of the plan, and their state that all workers share.
//!
//! Parents with the same `domains` form a *group*. For each host the first group that applies is used. Then `direct` says whether the origin
//! is asked before the parents, after them, or not at all. At most two of these are tried for one request ([`Ways`]).
//!
//! Not known here: requests, sockets.   Limits: `PEERS_MAX` parents, and as many siblings.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use profile::Hierarchy;
use twox_hash::XxHash3_64;

use super::{
    choice::{Candidate, choose},
    health::Health,
    recent::Recent,
};
use base::access::Destinations;
use origin::Destination;
use plan::{Direct, Order, Parent, PeerAddress, Plan, Sibling};

/// Another proxy.
pub struct Peer {
    /// Its name in logs.
    pub name: Arc<str>,
    /// Its address for HTTP. The TLS settings are not included, because they belong to an edition of the configuration.
    pub destination: Destination,
    /// Is it alive?
    pub health: Health,
    /// Requests that wait for the head of its response.
    waiting: AtomicU64,
    name_hash: u64,
}

impl Peer {
    fn new(name: &str, at: &PeerAddress, is_tls: bool) -> Peer {
        Peer {
            name: name.into(),
            destination: destination(at, is_tls),
            health: Health::default(),
            waiting: AtomicU64::new(0),
            name_hash: XxHash3_64::oneshot(name.as_bytes()),
        }
    }

    /// This peer as a candidate to choose. `number`: its own.
    pub fn candidate(&self, number: usize, weight: u32) -> Candidate {
        Candidate {
            number,
            weight,
            name_hash: self.name_hash,
            waiting: self.waiting.load(Ordering::Relaxed),
        }
    }

    /// Requests that wait for the head of its response.
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Counts a waiting request until the returned guard is dropped.
    pub fn wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(self)
    }
}

/// A request that waits for a peer.
pub struct Waiting<'a>(&'a Peer);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The destination for an address in the plan.
pub fn destination(at: &PeerAddress, is_tls: bool) -> Destination {
    Destination {
        tls: is_tls,
        host: at.host.as_str().into(),
        port: at.port,
        member: None,
        terms: None,
        http2: None,
    }
}

/// A next hop for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// The origin.
    Direct,
    /// The parent of this number.
    Parent(usize),
}

/// The first hop to try, and the second if the first gives no response.
pub type Ways = [Option<Way>; 2];

/// Parents with the same domains.
struct Group {
    /// Numbers in the plan.
    members: Vec<usize>,
    order: Order,
    direct: Direct,
    turn: AtomicU64,
}

/// All peers.
pub struct Peers {
    parents: Vec<Peer>,
    siblings: Vec<Peer>,
    groups: Vec<Group>,
    /// Names that siblings are not asked for, because they were purged recently.
    pub recent: Recent,
    /// Destinations that peers may have: all that the operator configures, except our own addresses.
    pub rules: Destinations,
    /// Our member of CDN-Loop.
    pub loop_id: String,
}

impl Peers {
    /// The peers of a plan. `own`: the addresses that this process listens on. `via_line`: our line in Via, `Via: 1.1 NAME (TAG)`.
    pub fn new(plan: &Plan, own: Vec<SocketAddr>, via_line: &[u8]) -> Peers {
        let mut groups: Vec<Group> = Vec::new();
        for (number, parent) in plan.parents.iter().enumerate() {
            let is_of = |group: &&mut Group| {
                let first = group.members.first().and_then(|n| plan.parents.get(*n));
                first.is_some_and(|first| first.domains == parent.domains)
            };
            match groups.iter_mut().find(is_of) {
                Some(group) => group.members.push(number),
                None => groups.push(Group {
                    members: vec![number],
                    order: parent.order,
                    direct: parent.direct,
                    turn: AtomicU64::new(0),
                }),
            }
        }
        let of_parent = |parent: &Parent| Peer::new(&parent.name, &parent.at, parent.tls.is_some());
        let of_sibling = |sibling: &Sibling| Peer::new(&sibling.name, &sibling.at, false);
        Peers {
            parents: plan.parents.iter().map(of_parent).collect(),
            siblings: plan.siblings.iter().map(of_sibling).collect(),
            groups,
            recent: Recent::default(),
            rules: Destinations {
                loopback: true,
                link_local: true,
                allow: Vec::new(),
                own,
                connect_ports: Vec::new(),
            },
            loop_id: loop_id(via_line),
        }
    }

    /// The parent of this number.
    pub fn parent(&self, number: usize) -> Option<&Peer> {
        self.parents.get(number)
    }

    /// The sibling of this number.
    pub fn sibling(&self, number: usize) -> Option<&Peer> {
        self.siblings.get(number)
    }

    /// The name of a peer that was asked; `None` if it was not a peer.
    pub fn name_of(&self, hierarchy: Hierarchy, number: u8) -> Option<&str> {
        let number = usize::from(number);
        let peer = match hierarchy {
            Hierarchy::Parent => self.parent(number),
            Hierarchy::Sibling => self.sibling(number),
            Hierarchy::None | Hierarchy::Direct | Hierarchy::Node => None,
        };
        peer.map(|peer| &*peer.name)
    }

    /// All parents, in order.
    pub fn parents(&self) -> &[Peer] {
        &self.parents
    }

    /// All siblings, in order.
    pub fn siblings(&self) -> &[Peer] {
        &self.siblings
    }

    /// The hops for a URL of this host. `hash_of_url` is called only if the choice of parents needs it.
    pub fn ways(&self, plan: &Plan, host: &str, hash_of_url: impl FnOnce() -> u64) -> Ways {
        let is_for = |group: &&Group| {
            let mut members = group.members.iter().filter_map(|n| plan.parents.get(*n));
            members.next().is_some_and(|parent| parent.is_for(host))
        };
        let Some(group) = self.groups.iter().find(is_for) else {
            return [Some(Way::Direct), None];
        };
        let url = match group.order {
            Order::Hash => hash_of_url(),
            Order::First | Order::RoundRobin => 0,
        };
        let turn = match group.order {
            Order::RoundRobin => group.turn.fetch_add(1, Ordering::Relaxed),
            Order::First | Order::Hash => 0,
        };
        let chosen = |only_alive: bool| {
            let candidates = self.candidates(plan, group, only_alive);
            choose(group.order, &candidates, url, turn).map(|one| one.map(Way::Parent))
        };
        match (group.direct, chosen(true)) {
            // All parents are dead and nothing else may be asked. Ask dead ones, because one may be back by now.
            (Direct::Never, [None, _]) => chosen(false),
            (Direct::Never, ways) => ways,
            (Direct::Fallback, [Some(first), None]) => [Some(first), Some(Way::Direct)],
            (Direct::Fallback, [None, _]) => [Some(Way::Direct), None],
            (Direct::Fallback, ways) => ways,
            (Direct::Prefer, [first, _]) => [Some(Way::Direct), first],
        }
    }

    fn candidates(&self, plan: &Plan, group: &Group, only_alive: bool) -> Vec<Candidate> {
        let members = group.members.iter();
        let candidate = |number: &usize| {
            let (peer, parent) = (self.parents.get(*number)?, plan.parents.get(*number)?);
            let is_candidate = !only_alive || peer.health.is_alive();
            is_candidate.then(|| peer.candidate(*number, parent.weight))
        };
        members.filter_map(candidate).collect()
    }
}

/// NAME and TAG as our member of CDN-Loop.
//= rfc8586 §2   cdn-id may be a pseudonym; parameters tell more of it
fn loop_id(via_line: &[u8]) -> String {
    let line = String::from_utf8_lossy(via_line);
    let mut words = line.split_ascii_whitespace().skip(2);
    let name = words.next().unwrap_or(Plan::NAME);
    let tag = words.next().unwrap_or_default();
    format!("{name}; tag={}", tag.trim_matches(['(', ')']))
}

/// The hash by which a URL finds its parent; the same on every machine.
pub fn hash_of_url(url: &str) -> u64 {
    XxHash3_64::oneshot(url.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(direct: Direct, names: &[(&str, &str)]) -> (Plan, Peers) {
        let parent = |(name, domain): &(&str, &str)| Parent {
            name: (*name).to_owned(),
            domains: Some((*domain).to_owned())
                .filter(|domain| !domain.is_empty())
                .into_iter()
                .collect(),
            direct,
            ..Parent::default()
        };
        let plan = Plan {
            parents: names.iter().map(parent).collect(),
            ..Plan::with_listeners(Vec::new())
        };
        let peers = Peers::new(&plan, Vec::new(), b"Via: 1.1 me (12ab)\r\n");
        assert_eq!(peers.loop_id, "me; tag=12ab");
        (plan, peers)
    }

    fn dies(peers: &Peers, number: usize) {
        peers.parents()[number].health.is_ill();
    }

    #[test]
    fn direct_is_never_after_or_before_the_parents() {
        let (p, direct) = (|n| Some(Way::Parent(n)), Some(Way::Direct));
        for (mode, both, one_dead, both_dead) in [
            (Direct::Never, [p(0), p(1)], [p(1), None], [p(0), p(1)]),
            (
                Direct::Fallback,
                [p(0), p(1)],
                [p(1), direct],
                [direct, None],
            ),
            (
                Direct::Prefer,
                [direct, p(0)],
                [direct, p(1)],
                [direct, None],
            ),
        ] {
            let (plan, peers) = plan(mode, &[("a", ""), ("b", "")]);
            let ways = || peers.ways(&plan, "x.example", || 0);
            assert_eq!(ways(), both, "{mode:?}");
            dies(&peers, 0);
            assert_eq!(ways(), one_dead, "{mode:?}");
            dies(&peers, 1);
            assert_eq!(ways(), both_dead, "{mode:?}");
            peers.parents()[0].health.is_well();
            assert!(ways().contains(&p(0)), "{mode:?}");
        }
    }

    #[test]
    fn the_first_group_that_is_for_a_host_counts() {
        let (plan, peers) = plan(
            Direct::Never,
            &[
                ("a", "*.a.example"),
                ("b", "b.example"),
                ("c", "*.a.example"),
            ],
        );
        let ways = |host: &str| peers.ways(&plan, host, || 0);
        assert_eq!(
            ways("x.a.example"),
            [Some(Way::Parent(0)), Some(Way::Parent(2))]
        );
        assert_eq!(ways("B.example"), [Some(Way::Parent(1)), None]);
        assert_eq!(ways("other.example"), [Some(Way::Direct), None]);
    }

    #[test]
    fn a_request_waits_until_it_is_dropped() {
        let (_, peers) = plan(Direct::Never, &[("a", "")]);
        let count = || peers.parents()[0].waiting.load(Ordering::Relaxed);
        let two = (peers.parents()[0].wait(), peers.parents()[0].wait());
        assert_eq!(count(), 2);
        drop(two);
        assert_eq!(count(), 0);
    }
}
