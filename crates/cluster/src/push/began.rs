//! How purges stood when a fetch began, here and at each member: which purges may be missing in what was fetched.
//!
//! A member tells the invalidation sequence of each of its stores with every beat. A fetch notes what was told last, and a push gives it
//! back: the member refuses what one of the purges since then is about. What was told comes late, so it is older than it had to be,
//! which is safe. A sequence is worth nothing to another life of the member, so its column's incarnation goes with it.
//!
//! A copy of what another *member* holds counts as begun [`HEARD_AFTER`] ago ([`Moments::long_ago`]): a purge may have reached this
//! front, or the member that the copy goes to, before it has reached the one that it comes from; but not by more than this, or it was not
//! acknowledged.
//!
//! Not known here: what is fetched or pushed, frames.
//! Limits: [`MOMENTS_MAX`] moments, one a second.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hints::view::Groups;
use store::Sequence;

use base::clock::Instant;

/// A purge that has not reached every member after so long was not acknowledged.
const HEARD_AFTER: Duration = Duration::from_secs(10);
/// Moments that are kept.
const MOMENTS_MAX: usize = HEARD_AFTER.as_secs() as usize + 2;

/// How purges stood when a fetch began.
#[derive(Clone, Debug)]
pub struct Began {
    /// Here, in the store that has what is fetched.
    pub own: Sequence,
    told: Arc<[Told]>,
}

/// What a member has told of one of its stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    /// The member.
    pub member: u8,
    /// The number of the store.
    pub column: u8,
    /// The life of the column that the sequence is of.
    pub incarnation: u64,
    /// Its last invalidation sequence.
    pub sequence: Sequence,
}

impl Began {
    /// As it is now. `own`: the sequence here.
    pub fn now(own: Sequence, groups: &Groups) -> Began {
        Began {
            own,
            told: told(groups),
        }
    }

    /// What the member had told of this store. `None`: nothing, or the member cannot tell what was purged since.
    pub fn of(&self, member: u8, column: u8) -> Option<Told> {
        let is_it = |told: &&Told| (told.member, told.column) == (member, column);
        self.told.iter().find(is_it).copied()
    }

    /// Has no member told anything?
    pub fn knows_nothing(&self) -> bool {
        self.told.is_empty()
    }

    /// Has this member told anything?
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

/// How it stood in the last seconds.
#[derive(Default)]
pub struct Moments(Mutex<VecDeque<Moment>>);

struct Moment {
    at: Instant,
    /// Of each store here.
    own: Box<[Sequence]>,
    told: Arc<[Told]>,
}

impl Moments {
    /// As it is now; to be called once a second. `own`: the sequences of the stores here.
    pub fn note(&self, at: Instant, own: Box<[Sequence]>, groups: &Groups) {
        let mut moments = self.lock();
        if moments.len() == MOMENTS_MAX {
            moments.pop_front();
        }
        let told = told(groups);
        moments.push_back(Moment { at, own, told });
    }

    /// As it was [`HEARD_AFTER`] ago, or earlier. Without a moment of then: as if nothing was ever told. `store`: here.
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
