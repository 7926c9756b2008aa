//! A million resources with Vary: all are found, and nothing is logged for them.
//!
//! Nothing is written to a disk, so it measures the index alone: `cargo test -p store --test all many_variants -- --nocapture`.

use store::{Geometry, Identity, NewRecord, Outcome, Settings, Store};

fn store_of(bytes: u64) -> Store {
    let geometry = Geometry::plan(bytes, 512).unwrap();
    Store::create(
        geometry,
        &Settings::default(),
        Identity::new([3; Identity::RANDOM_BYTES]),
    )
}

/// Carries out all that is to be done in the background.
fn work(store: &Store) {
    while let Some(work) = store.next_work(1) {
        store.work_done(work.id, Ok(None), 1);
    }
}

fn key_of(resource: u64, salt: u64) -> [u8; 17] {
    let mut key = [b'v'; 17];
    key[..8].copy_from_slice(&resource.to_le_bytes());
    key[8..16].copy_from_slice(&salt.to_le_bytes());
    key
}

/// Stores a variant of each resource; of so many that are looked up afterwards, how many are hits.
fn fill(bytes: u64, resources: u64) {
    let store = store_of(bytes);
    work(&store);
    let before = store.figures();
    let hash = |resource: u64| store.hasher().hash(&resource.to_le_bytes());
    for resource in 0..resources {
        let began = store.sequence();
        let marker = store.set_marker(hash(resource), b"accept-encoding", began);
        let key = key_of(resource, marker.expect("there is room").salt);
        let record = NewRecord {
            hash: store.hasher().hash(&key),
            primary: hash(resource),
            key: &key,
            meta: b"",
            body: &[&[b'x'; 2000]],
            fragment: None,
            total: None,
            began,
            server: 0,
        };
        loop {
            let inserted = store.insert(&record, 1);
            for write in inserted.writes {
                store.write_done(write.id, true, 1);
            }
            work(&store);
            match inserted.outcome {
                Outcome::Stored => break,
                outcome => assert_ne!(outcome, Outcome::Invalidated),
            }
        }
    }
    for write in store.flush() {
        store.write_done(write.id, true, 1);
    }
    let is_hit = |&resource: &u64| {
        let marker = store.marker(hash(resource));
        marker.is_some_and(|marker| {
            store.contains(store.hasher().hash(&key_of(resource, marker.salt)))
        })
    };
    let hits = (0..resources).filter(is_hit).count() as u64;
    let figures = store.figures();
    println!(
        "{resources} resources: {hits} hits, {} markers, {} records, {} log commits, {:.2} bytes of index a resource with its variant",
        figures.markers,
        figures.records,
        figures.log_commits - before.log_commits,
        figures.index_bytes as f64 / resources as f64
    );
    assert_eq!(figures.log_commits, before.log_commits);
    // Two keys in 13,000 or so cannot be told apart, and the later one takes the place.
    assert!(hits > resources - resources / 1000, "{hits}");
    assert!(is_hit(&0) && is_hit(&(resources - 1)));
}

#[test]
fn a_million_resources_in_10_gib() {
    fill(10 << 30, 1_000_000);
}
