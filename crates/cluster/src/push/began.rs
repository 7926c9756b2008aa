//! The state of purges, here and at each member, when a fetch began. The response may be older than any later purge.
//!
//! Every beat of a member carries the invalidation sequence of each of its stores. A fetch notes the last ones received, and its push carries
//! the one of the target store: the member refuses the object if a later purge covers it. A beat is late, so the sequence may be too low,
//! which is safe. A sequence means nothing after the member's column has begun anew, so the column's incarnation goes with it.
//!
//! A copy of an object that another *member* holds counts as begun [`HEARD_AFTER`] ago ([`Moments::long_ago`]). A purge may reach this front,
//! or the target of the copy, before it reaches the source of the copy. But the difference is at most [`HEARD_AFTER`], because a later
//! purge would not have been acknowledged.
//!
//! Not known here: the object, frames.
//! Limits: [`MOMENTS_MAX`] moments, one a second.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hints::view::Groups;
use store::Sequence;

use base::clock::Instant;

/// A purge that has not reached every member within this time is not acknowledged.
const HEARD_AFTER: Duration = Duration::from_secs(10);
/// Moments that are kept.
const MOMENTS_MAX: usize = HEARD_AFTER.as_secs() as usize + 2;

/// The state of purges when a fetch began.
#[derive(Clone, Debug)]
pub struct Began {
    /// The sequence of our own store that the object belongs to.
    pub own: Sequence,
    told: Arc<[Told]>,
}

/// The invalidation sequence of a member's store, as the member has told it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    /// The member.
    pub member: u8,
    /// The number of the store.
    pub column: u8,
    /// The incarnation of the column that the sequence belongs to.
    pub incarnation: u64,
    /// Its last invalidation sequence.
    pub sequence: Sequence,
}

impl Began {
    /// The present state. `own`: our own sequence.
    pub fn now(own: Sequence, groups: &Groups) -> Began {
        Began {
            own,
            told: told(groups),
        }
    }

    /// What the member had told of this store. `None`: nothing, so the member cannot tell which purges came since.
    pub fn of(&self, member: u8, column: u8) -> Option<Told> {
        let is_it = |told: &&Told| (told.member, told.column) == (member, column);
        self.told.iter().find(is_it).copied()
    }

    /// Had no member told a sequence?
    pub fn knows_nothing(&self) -> bool {
        self.told.is_empty()
    }

    /// Had this member told a sequence?
    pub fn knows(&self, member: u8) -> bool {
        self.told.iter().any(|told| told.member == member)
    }
}

fn told(groups: &Groups) -> Arc<[Told]> {
    let followed = groups.iter().flat_map(|group| group.followed());
    let told = followed.filter_map(|followed| {
        Some(Told {
            member: followed.node,
            column: followed.number,
            incarnation: followed.column.incarnation,
            sequence: followed.sequence()?,
        })
    });
    told.collect()
}

/// The states of the last seconds.
#[derive(Default)]
pub struct Moments(Mutex<VecDeque<Moment>>);

struct Moment {
    at: Instant,
    /// The sequence of each of our stores.
    own: Box<[Sequence]>,
    told: Arc<[Told]>,
}

impl Moments {
    /// Records the present state; to be called once a second. `own`: the sequences of our stores.
    pub fn note(&self, at: Instant, own: Box<[Sequence]>, groups: &Groups) {
        let mut moments = self.lock();
        if moments.len() == MOMENTS_MAX {
            moments.pop_front();
        }
        let told = told(groups);
        moments.push_back(Moment { at, own, told });
    }

    /// The newest state that is at least [`HEARD_AFTER`] old. If there is none, the state before anything was told. `store`: ours.
    pub fn long_ago(&self, now: Instant, store: usize) -> Began {
        let moments = self.lock();
        let is_old = |moment: &&Moment| now.saturating_duration_since(moment.at) >= HEARD_AFTER;
        let old = moments.iter().rev().find(is_old);
        let own = old.and_then(|moment| moment.own.get(store).copied());
        Began {
            own: own.unwrap_or(0),
            told: old.map_or_else(
                || Arc::new([]) as Arc<[Told]>,
                |moment| Arc::clone(&moment.told),
            ),
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Moment>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seconds: u64) -> Moments {
        let moments = Moments::default();
        let start = Instant::now();
        for n in 0..=seconds {
            moments.note(
                start + Duration::from_secs(n),
                Box::new([n]),
                &Groups::default(),
            );
        }
        moments
    }

    #[test]
    fn long_ago_is_before_every_purge_that_may_be_on_its_way() {
        let now = Instant::now() + Duration::from_secs(15);
        let began = after(15).long_ago(now, 0).own;
        assert!((4..=5).contains(&began), "{began}");
    }

    #[test]
    fn without_a_moment_of_then_every_purge_may_be_missing() {
        let now = Instant::now() + Duration::from_secs(5);
        let began = after(5).long_ago(now, 0);
        assert_eq!(began.own, 0);
        assert_eq!(began.of(0, 0), None);
    }

    #[test]
    fn only_the_last_moments_are_kept() {
        assert_eq!(after(100).lock().len(), MOMENTS_MAX);
    }
}
