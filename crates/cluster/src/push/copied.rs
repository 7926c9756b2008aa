//! Hot objects: a front keeps a copy of an object that a member holds, and sends it to further members.
//!
//! The copy in the front's memory saves requests to the member. The copies at other members spread the requests that remain, from this front
//! and from others. A copy counts as fetched some time ago (`began`).
//!
//! Not known here: which objects are hot (`hot`), how a copy is kept or sent.

use hints::view::Groups;
use store::KeyHash;

use crate::{following::trace_of, state::Cluster};
use base::clock::Instant;

use super::{began::Began, context::PushContext};

/// A hot object that a member holds.
#[derive(Clone)]
pub struct Copied {
    /// The state of purges that the copy counts from.
    pub began: Began,
    /// Members that get no copy: those that hold the object, or all if enough hold it.
    pub not_to: u64,
}

impl Copied {
    /// Counts a request for the resource of this name; if it is hot now, how to copy it.
    pub fn of_hot(context: &PushContext, name: &[u8], primary: KeyHash) -> Option<Copied> {
        let cluster = &context.cluster;
        let pushing = &cluster.pushing;
        if !pushing.hot.asked(primary) {
            return None;
        }
        let groups = context.groups();
        let store = context.cache.store.owner(primary);
        Some(Copied {
            began: pushing.moments.long_ago(Instant::now(), store),
            not_to: not_to(cluster, &groups, name),
        })
    }
}

fn not_to(cluster: &Cluster, groups: &Groups, name: &[u8]) -> u64 {
    let holders = groups.nodes(trace_of(name));
    let are_enough = holders.count_ones() >= u32::from(cluster.plan.hot_copies);
    if are_enough { u64::MAX } else { holders }
}
