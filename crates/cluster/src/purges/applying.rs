//! Applies a purge in this process, whichever member it was sent to.
//!
//! Not known here: where it came from, and which members are told.

use std::sync::Arc;

use httpcache::UnixMillis;
use store::{NotTaken, set::DurabilityHandles};

use super::super::state::Cluster;
use base::clock::Clock;
use cache::{
    Cache,
    predicate::{About, Predicate, TAG_BYTES_MAX},
};
use purging::change::{Change, PATTERN_BYTES_MAX, Pattern};

const _: () = assert!(PATTERN_BYTES_MAX == TAG_BYTES_MAX);

/// What purges in this process are applied to.
#[derive(Clone)]
pub struct LocalCache {
    /// Our cache.
    pub cache: Arc<Cache>,
    /// The wall clock.
    pub clock: Clock,
    /// Our cluster, which takes no copies of purged objects for a while.
    pub cluster: Option<Arc<Cluster>>,
}

/// The result of applying a change in this process.
#[derive(Debug, Default)]
pub struct Applied {
    /// Was there an object of one of the names?
    pub found: bool,
    /// Handles to await: when all are done, the change is durable.
    pub handles: Vec<DurabilityHandles>,
    /// The store has refused a pattern; the patterns after it were not tried.
    pub refused: Option<NotTaken>,
}

impl LocalCache {
    /// Removes the objects that a change names, or makes them stale. Takes effect at once, and survives a crash once the handles are settled.
    pub fn apply(&self, change: &Change) -> Applied {
        let (cache, hasher) = (&self.cache, self.cache.hasher());
        let now = UnixMillis(self.clock.now().as_millis() as u64);
        if let Some(cluster) = &self.cluster {
            // Note it before applying it: a thread that sees the new sequence must also see this.
            (cluster.purging).note(hasher, change, cluster.now_ms());
        }
        let mut applied = Applied::default();
        for name in &change.names {
            let primary = hasher.hash(name);
            let (there, handles) = match (change.soft, change.is_of_unsafe_method) {
                (true, _) => cache.doubt(primary, now),
                (false, true) => cache.invalidate_stored(primary),
                (false, false) => cache.invalidate(primary),
            };
            applied.found |= there;
            applied.handles.push(handles);
        }
        for pattern in &change.patterns {
            let about = match pattern.clone() {
                Pattern::Prefix(prefix) => About::Prefix(prefix),
                Pattern::Tag(tag) => About::Tag(tag),
            };
            let soft = change.soft;
            match cache.invalidate_matching(&Predicate { about, soft }, now) {
                Ok(handles) => applied.handles.push(handles),
                Err(refused) => {
                    applied.refused = Some(refused);
                    break;
                }
            }
        }
        applied
    }
}
