//! What is hot: a front keeps a copy of what a member holds, and gives it to further members.
//!
//! The copy in the front's memory spares the member's answers; the copies at other members spread what still comes to them, from this front
//! and others. Copies count as begun some time ago (`began`).
//!
//! Not known here: what is hot (`hot`), how a copy is kept or sent.

use hints::view::Groups;
use store::KeyHash;

use crate::{following::trace_of, state::Cluster};
use base::clock::Instant;

use super::{began::Began, context::PushContext};

/// An object that a member holds and that is hot.
#[derive(Clone)]
pub struct Copied {
    /// How purges stood.
    pub began: Began,
    /// Members that hold it, and, if they are enough, all others.
    pub not_to: u64,
}

impl Copied {
    /// For the resource of this name, if it is hot now that it is asked for once more.
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
