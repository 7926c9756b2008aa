//! Routes a request by the present state of the members.
//!
//! A member may be asked for what it holds while it is trusted, not avoided, and has heard all purges. A draining member is not sent
//! objects that it does not hold yet.
//!
//! Not known here: the request, except the name of its resource. [`routing`] makes the choice itself.

use std::sync::atomic::Ordering;

use hints::view::Groups;

use super::{
    following::trace_of,
    member::{Member, hash},
    routing::{self, Known, Policy, Reason, TRIED_MAX},
    state::Cluster,
};
use base::member::MemberId;
use peers::choice::Candidate;
use plan::{ClusterMiss, ClusterRoute, MEMBERS_MAX};

/// The number of this member among the candidates.
const OWN: usize = MEMBERS_MAX;

/// Where a request goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// The members to try, in this order.
    pub members: [Option<MemberId>; TRIED_MAX],
    /// Why these were chosen.
    pub reason: Reason,
}

/// Has this member a store that other members are told of?
pub fn is_node(hints: &Groups, id: MemberId) -> bool {
    hints.columns_of(id.0).next().is_some()
}

impl Cluster {
    /// The members to ask for the resource of this name (`GET http://...`); `None`: this member fetches for itself.
    pub fn route(&self, hints: &Groups, name: &[u8]) -> Option<Route> {
        self.route_by(self.policy(), hints, name)
    }

    /// The same for an object too long to be pushed by a front without a store: if nobody holds it, its home member fetches it.
    pub fn route_too_long(&self, hints: &Groups, name: &[u8]) -> Option<Route> {
        let policy = Policy {
            miss: ClusterMiss::Home,
            ..self.policy()
        };
        self.route_by(policy, hints, name)
    }

    fn route_by(&self, policy: Policy, hints: &Groups, name: &[u8]) -> Option<Route> {
        let Policy { route, miss } = policy;
        let mask = match route {
            ClusterRoute::Hints => hints.nodes(trace_of(name)),
            ClusterRoute::Hash | ClusterRoute::RoundRobin | ClusterRoute::Least => 0,
        };
        if route == ClusterRoute::Hints && mask == 0 && miss == ClusterMiss::Own {
            return None;
        }
        let now_ms = self.now_ms();
        let has_hint = mask != 0;
        let others = self.members().filter_map(|(id, member)| {
            let can_be_asked = match has_hint {
                true => mask & id.bit() != 0 && member.is_usable(now_ms),
                false => member.takes_new(now_ms) && is_node(hints, id),
            };
            let can_be_asked = can_be_asked && self.purging.is_current(id);
            can_be_asked.then(|| candidate(member, usize::from(id.0), now_ms))
        });
        let mut candidates: Vec<Candidate> = others.collect();
        if !has_hint && self.has_store {
            candidates.push(self.own_candidate(&candidates));
        }
        let known = Known {
            candidates: &candidates,
            mask,
            name: hash(name),
            turn: match route {
                ClusterRoute::RoundRobin => self.turn.fetch_add(1, Ordering::Relaxed),
                _ => 0,
            },
            own: OWN,
        };
        let routing::Route { members, reason } = routing::route(policy, &known)?;
        let id = |number: usize| u8::try_from(number).ok().map(MemberId);
        Some(Route {
            members: members.map(|number| number.and_then(id)),
            reason,
        })
    }

    /// This member as a candidate, with the average load of the others.
    fn own_candidate(&self, others: &[Candidate]) -> Candidate {
        let all: u64 = others.iter().map(|other| other.waiting).sum();
        Candidate {
            number: OWN,
            weight: 1,
            name_hash: hash(self.plan.name.as_bytes()),
            waiting: all / others.len().max(1) as u64,
        }
    }

    fn policy(&self) -> Policy {
        Policy {
            route: self.plan.route,
            miss: self.plan.miss,
        }
    }
}

fn candidate(member: &Member, number: usize, now_ms: u64) -> Candidate {
    Candidate {
        number,
        weight: 1,
        name_hash: member.name_hash(),
        waiting: member.busyness(now_ms),
    }
}
