//! Which fragments of a large object are there.
//!
//! Only the index knows which fragments exist (docs/decisions/0021), so each fragment is looked up, in some 100 ns. An object of 100 GB has
//! 100,000 fragments. So an answer looks up only the fragments it sends, and lets other tasks of its worker run in between. All fragments
//! are looked up when the whole body is sent, for HEAD, and when a stale object is to be validated.
//!
//! A fragment that is only in memory may be evicted before it is sent. It counts as there only if it can be fetched again from the origin.
//!
//! Not known here: the handling of an object with holes.

use std::ops::Range;

use crate::{disk::DiskIo, fragments::FragmentMemory, object::Object};
use rules::key::fragment_key;

/// How many fragments are looked up before other tasks run: this takes a tenth of a millisecond.
pub const AT_ONCE: u32 = 1024;

/// Can holes of this object be filled? Only if a strong validator tells whether the origin still has the same representation.
pub fn are_fillable(object: &Object) -> bool {
    object.status == 200 && httpcache::has_strong_validator(&object.fields())
}

/// Are all fragments of the object there?
pub async fn is_whole(disk: Option<&DiskIo>, memory: &FragmentMemory, object: &Object) -> bool {
    are_none(disk, memory, object, 0..object.body_bytes()).await
}

/// Are all fragments of these bytes there: is none missing?
pub async fn are_none(
    disk: Option<&DiskIo>,
    memory: &FragmentMemory,
    object: &Object,
    bytes: Range<u64>,
) -> bool {
    look(disk, memory, object, bytes, Until::First)
        .await
        .is_empty()
}

/// From the first to the last missing fragment of these bytes. Empty if the object has none.
pub async fn missing(
    disk: Option<&DiskIo>,
    memory: &FragmentMemory,
    object: &Object,
    bytes: Range<u64>,
) -> Range<u32> {
    look(disk, memory, object, bytes, Until::Last).await
}

/// Which missing fragment is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    First,
    Last,
}

async fn look(
    disk: Option<&DiskIo>,
    memory: &FragmentMemory,
    object: &Object,
    bytes: Range<u64>,
    until: Until,
) -> Range<u32> {
    let (Some(disk), Some(large)) = (disk, &object.large) else {
        return 0..0;
    };
    let store = disk.store_of(object.primary);
    let hasher = store.hasher();
    let size = u64::from(store.fragment_bytes());
    let all = (bytes.start / size) as u32..bytes.end.div_ceil(size) as u32;
    let fragments = are_fillable(object).then_some(memory);
    let mut missing: Option<Range<u32>> = None;
    for number in all.clone() {
        if number > all.start && (number - all.start).is_multiple_of(AT_ONCE) {
            tokio::task::yield_now().await;
        }
        let key = fragment_key(&object.key, large.fetch_id, number);
        let hash = hasher.hash(&key);
        let is_there =
            store.contains(hash) || fragments.is_some_and(|memory| memory.contains(hash, &key));
        if !is_there {
            missing.get_or_insert(number..number).end = number + 1;
            if until == Until::First {
                break;
            }
        }
    }
    missing.unwrap_or(0..0)
}
