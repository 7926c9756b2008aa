//! Tests of markers.

use super::*;
use crate::geometry::Geometry;
use crate::index::carried::Carried;
use crate::index::pieces::Short;
use crate::index::usage::UsageBits;
use crate::record::NewRecord;
use crate::recover::open::Identity;
use crate::settings::Settings;
use crate::store::Store;
use crate::write::insert::Outcome;
use std::sync::atomic::Ordering;

fn store(settings: &Settings) -> Store {
    let geometry = Geometry::plan(4 << 20, 512).unwrap();
    Store::create(
        geometry,
        settings,
        Identity::new([1; Identity::RANDOM_BYTES]),
    )
}

fn carried(salt: u64, list: &[u8]) -> Carried<'_> {
    let root = List::root_of(list);
    Carried { salt, root, list }
}

#[test]
fn a_purge_that_comes_while_a_scan_looks_is_not_undone() {
    let store = store(&Settings::default());
    let (purged, other) = (store.hasher().hash(b"/a"), store.hasher().hash(b"/b"));
    let carried = carried(1 << 16, b"accept");
    let began = store.sequence();
    assert!(!store.is_dead(purged, began, b"/a", b""));
    let _ = store.invalidate(purged);
    assert!(!store.variant_found(purged, began, &carried, None));
    assert_eq!(store.marker(purged), None);
    assert!(store.variant_found(other, began, &carried, None));
    assert!(store.marker(other).is_some());
}

#[test]
fn what_is_stored_during_a_scan_stays_though_a_marker_had_its_place() {
    let store = store(&Settings::default());
    while let Some(work) = store.next_work(0) {
        store.work_done(work.id, Ok(None), 0);
    }
    let (found, primary) = (store.hasher().hash(b"/a"), store.hasher().hash(b"/b"));
    let marker = store
        .set_marker(primary, b"accept", store.sequence())
        .unwrap();
    let variant = NewRecord {
        // The index cannot tell it from /a.
        hash: KeyHash(found.0 ^ 1 << Short::BITS),
        primary,
        key: &marker.salt.to_le_bytes(),
        meta: b"",
        body: &[b"x"],
        fragment: None,
        total: None,
        began: store.sequence(),
        server: 0,
    };
    store.scanning.store(true, Ordering::SeqCst);
    assert_eq!(store.insert(&variant, 0).outcome, Outcome::Stored);
    let carried = carried(1 << 16, b"accept");
    assert!(!store.variant_found(found, store.sequence(), &carried, None));
    assert!(store.contains(variant.hash));
    assert_eq!(store.marker(found), None);
}

#[test]
fn a_marker_that_was_found_below_the_floor_does_not_get_a_salt_of_its_past() {
    let mut index = Index::new(1, UsageBits::NONE);
    let primary = KeyHash(1);
    let set = |index: &mut Index, list: &[u8]| {
        let set = index.set_marker(primary, list, |_, _| ());
        set.unwrap().0.salt
    };
    let first = set(&mut index, b"accept");
    let second = set(&mut index, b"cookie");
    assert!(second > first);
    // Another marker of the segment leaves, so the floor rises.
    index.drop_marker(primary, false);
    assert!(index.found_marker(primary, &carried(first, b"accept"), None));
    assert!(set(&mut index, b"origin") > second);
    // One salt that was given for two lists.
    index.drop_marker(primary, false);
    assert!(index.found_marker(primary, &carried(first, b"accept"), None));
    assert!(!index.found_marker(primary, &carried(first, b"cookie"), None));
    assert!(index.marker(primary).unwrap().0.salt > second);
}

#[test]
fn soft_purges_of_what_is_out_of_reach_make_room_for_others() {
    let store = store(&Settings {
        replacement: "lru".parse().unwrap(),
        shards: 1,
        ..Settings::default()
    });
    let max = store.limits.soft_purges_max as u64;
    assert!(max > 0);
    for n in 0..3 * max {
        let primary = store.hasher().hash(&n.to_le_bytes());
        store
            .set_marker(primary, b"accept", store.sequence())
            .unwrap();
        let _ = store.doubt(primary);
        assert!(store.marker(primary).is_some(), "{n} of {max}");
        store.shard(0).index.drop_marker(primary, false);
    }
}

#[test]
fn the_newest_variant_that_a_scan_finds_tells_the_salt() {
    use std::cmp::Ordering;
    let primary = KeyHash(7);
    let (low, high, higher) = (1 << 16, 1 << 16 | 2, 1 << 16 | 5);
    let mut index = Index::new(1, UsageBits::NONE);
    assert!(index.found_marker(primary, &carried(high, b"accept"), None));
    let newer = Some(Ordering::Greater);
    assert!(index.found_marker(primary, &carried(low, b"cookie"), newer));
    let older = Some(Ordering::Less);
    assert!(!index.found_marker(primary, &carried(higher, b"accept"), older));
    assert_eq!(index.marker(primary).unwrap().0.salt, low);
    // None of them is given again.
    let (next, _) = index.set_marker(primary, b"range", |_, _| ()).unwrap();
    assert!(next.salt > higher);
}
