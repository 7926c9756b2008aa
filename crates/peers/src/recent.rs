//! What was purged lately: a sibling may not know of it yet, and what it has would undo the purge.
//!
//! A purge, or the invalidation by an unsafe method, is told to this process alone. So for [`WINDOW`] after it, siblings are not asked
//! for what it was about. The stores remember which names were invalidated since a *sequence*; here it is noted, every
//! [`SAMPLED_EVERY`], how far the sequences had come. After a purge by prefix or tag siblings are not asked for anything in the stores
//! it went to: all of them.
//!
//! Not known here: invalidations of the process before this one; the stores' sequences begin where this one began.
//! Limits: the stores remember 1,024 invalidations a shard; with more in a [`WINDOW`] siblings are not asked for what is in that shard.
//! [`SAMPLES_MAX`] samples.

use std::{
    collections::VecDeque,
    sync::{PoisonError, RwLock},
    time::Duration,
};

use store::{KeyHash, Sequence, Set};

use base::clock::Instant;

/// How long siblings are not asked for what was invalidated; up to [`SAMPLED_EVERY`] longer.
pub const WINDOW: Duration = Duration::from_secs(300);
/// How often the sequences are noted.
const SAMPLED_EVERY: Duration = Duration::from_secs(15);
/// Samples at most: those of a window, the one before it, and one that is too new by a tick.
const SAMPLES_MAX: usize = 23;

struct Sample {
    at: Instant,
    /// By number of the store in the set.
    sequences: Box<[Sequence]>,
}

/// How far the stores' sequences had come at the beginning of the window. See the head of the file.
#[derive(Default)]
pub struct Recent {
    /// Oldest first: that is the beginning of the window.
    samples: RwLock<VecDeque<Sample>>,
}

impl Recent {
    /// Notes how far the sequences have come, if it is time. To be called once a second, and before the first question.
    pub fn tick(&self, stores: &Set, now: Instant) {
        let past = |sample: &Sample| now.saturating_duration_since(sample.at);
        let mut samples = self.samples.write().unwrap_or_else(PoisonError::into_inner);
        if samples
            .back()
            .is_some_and(|last| past(last) < SAMPLED_EVERY)
        {
            return;
        }
        // The oldest goes as soon as the next one is as old as the window.
        while samples.len() > 1 && past(&samples[1]) >= WINDOW || samples.len() >= SAMPLES_MAX {
            samples.pop_front();
        }
        let sequences = stores.stores().map(|store| store.sequence()).collect();
        samples.push_back(Sample { at: now, sequences });
    }

    /// Was what has this name invalidated or put in doubt within the window, or may it have been?
    pub fn was_invalidated(&self, stores: &Set, primary: KeyHash) -> bool {
        let samples = self.samples.read().unwrap_or_else(PoisonError::into_inner);
        let first = samples.front();
        let began = first.and_then(|sample| sample.sequences.get(stores.owner(primary)));
        began.is_none_or(|&began| {
            stores.invalidated_since(primary, began) || stores.predicates_since(primary, began)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::{Identity, Manner, Settings, Store};

    /// All that a predicate may be about meets every record.
    fn stores() -> Set {
        let settings = Settings {
            manner: |_| Manner {
                about: store::About::All,
                soft: false,
            },
            ..Settings::default()
        };
        let identity = Identity::new([7; Identity::RANDOM_BYTES]);
        Set::of_one(std::sync::Arc::new(Store::volatile(&settings, identity)))
    }

    #[test]
    fn a_name_is_spared_for_the_window_and_others_are_not() {
        let (recent, stores, begin) = (Recent::default(), stores(), Instant::now());
        let [purged, other] =
            [&b"GET http://a/"[..], b"GET http://b/"].map(|n| stores.hasher().hash(n));
        assert!(
            recent.was_invalidated(&stores, other),
            "nothing is known yet"
        );
        recent.tick(&stores, begin);
        assert!(!recent.was_invalidated(&stores, purged));
        let _ = stores.invalidate(purged);
        for s in 1..WINDOW.as_secs() {
            recent.tick(&stores, begin + Duration::from_secs(s));
            assert!(recent.was_invalidated(&stores, purged), "after {s} s");
            assert!(!recent.was_invalidated(&stores, other));
        }
        let after = WINDOW + SAMPLED_EVERY * 2;
        for s in WINDOW.as_secs()..=after.as_secs() {
            recent.tick(&stores, begin + Duration::from_secs(s));
        }
        assert!(!recent.was_invalidated(&stores, purged), "it is long ago");
        assert!(recent.samples.read().unwrap().len() < SAMPLES_MAX);
    }

    #[test]
    fn after_a_purge_by_pattern_nothing_is_asked_for() {
        let (recent, stores) = (Recent::default(), stores());
        recent.tick(&stores, Instant::now());
        let other = stores.hasher().hash(b"GET http://b/");
        assert!(!recent.was_invalidated(&stores, other));
        let _ = stores.invalidate_matching(2, b"news").unwrap();
        assert!(recent.was_invalidated(&stores, other));
    }
}
