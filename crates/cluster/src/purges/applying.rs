//! What a purge does in this process, whoever was asked for it.
//!
//! Not known here: where it came from, and who is told.

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

/// What a change of this process is applied to.
#[derive(Clone)]
pub struct LocalCache {
    /// What is stored.
    pub cache: Arc<Cache>,
    /// Wall time.
    pub clock: Clock,
    /// The cluster, which takes no copies of what goes for a while.
    pub cluster: Option<Arc<Cluster>>,
}

/// What became of a change in this process.
#[derive(Debug, Default)]
pub struct Applied {
    /// Was anything of the names there?
    pub found: bool,
    /// To be settled.
    pub handles: Vec<DurabilityHandles>,
    /// A pattern was not taken: the others behind it neither.
    pub refused: Option<NotTaken>,
}

impl LocalCache {
    /// Forgets what a change is about in this process, or makes it stale, and takes no copies of it for a while. It holds at once; after a crash when the handles are settled.
    pub fn apply(&self, change: &Change) -> Applied {
        let (cache, hasher) = (&self.cache, self.cache.hasher());
        let now = UnixMillis(self.clock.now().as_millis() as u64);
        if let Some(cluster) = &self.cluster {
            // Before it: whoever sees a sequence behind it sees this too.
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
