//! Recently purged names: a sibling may not know of the purge, and its copy would undo it.
//!
//! A purge, or an invalidation by an unsafe method, is known only to this process. So for [`WINDOW`] after it, siblings are not asked for the
//! names it covers. The stores remember which names were invalidated since a *sequence*; every [`SAMPLED_EVERY`] the present sequences are
//! recorded here. After a purge by prefix or tag, siblings are not asked for anything in the stores that it was applied to, which are all.
//!
//! Not known here: invalidations before this process started, because the stores' sequences begin with the process.
//! Limits: the stores remember 1,024 invalidations a shard. With more within [`WINDOW`], siblings are not asked for any name of that shard.
//! [`SAMPLES_MAX`] samples.

use std::{
    collections::VecDeque,
    sync::{PoisonError, RwLock},
    time::Duration,
};

use store::{KeyHash, Sequence, Set};

use base::clock::Instant;

/// How long siblings are not asked for an invalidated name; up to [`SAMPLED_EVERY`] longer.
pub const WINDOW: Duration = Duration::from_secs(300);
/// How often the sequences are recorded.
const SAMPLED_EVERY: Duration = Duration::from_secs(15);
/// Samples at most: those of a window, the one before it, and one that is too new by a tick.
const SAMPLES_MAX: usize = 23;

struct Sample {
    at: Instant,
    /// Indexed by the number of the store in the set.
    sequences: Box<[Sequence]>,
}

/// Sequences of the stores, back to the beginning of the window. See the head of this file.
#[derive(Default)]
pub struct Recent {
    /// Oldest first. The oldest is the beginning of the window.
    samples: RwLock<VecDeque<Sample>>,
}

impl Recent {
    /// Records the present sequences, if it is time. To be called once a second, and before the first question.
    pub fn tick(&self, stores: &Set, now: Instant) {
        let past = |sample: &Sample| now.saturating_duration_since(sample.at);
        let mut samples = self.samples.write().unwrap_or_else(PoisonError::into_inner);
        if samples
            .back()
            .is_some_and(|last| past(last) < SAMPLED_EVERY)
        {
            return;
        }
        // Remove the oldest sample once the next one is as old as the window.
        while samples.len() > 1 && past(&samples[1]) >= WINDOW || samples.len() >= SAMPLES_MAX {
            samples.pop_front();
        }
        let sequences = stores.stores().map(|store| store.sequence()).collect();
        samples.push_back(Sample { at: now, sequences });
    }

    /// Was this name invalidated or made stale within the window, or may it have been?
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
