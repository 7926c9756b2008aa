//! Replacement is exact LRU over the whole store, though the index is in shards: the same trace gives the same hits
//! as one list.

use crate::common::{Random, Shell, body};
use store::Outcome;

const KEYS: u64 = 6000;

#[test]
fn the_same_hits_as_one_list() {
    let mut shell = Shell::lru();
    let mut random = Random(42);
    // Coldest first. All records take two chunks.
    let mut list: Vec<u64> = Vec::new();
    let mut evicted = 0;
    let mut hits = 0;
    for _ in 0..30_000 {
        // Skewed, so that some keys stay and others come and go.
        let key = random.below(KEYS).min(random.below(KEYS));
        let at = list.iter().position(|&listed| listed == key);
        let found = shell.get(&key.to_le_bytes()).is_some();
        assert_eq!(found, at.is_some(), "key {key}");
        match at {
            Some(at) => {
                hits += 1;
                list.remove(at);
            }
            None => {
                let outcome = shell.put(&key.to_le_bytes(), &body(key, 0, 600));
                assert_eq!(outcome, Outcome::Stored);
                shell.complete_all();
                let now = shell.store.figures().evictions;
                list.drain(..(now - evicted) as usize);
                evicted = now;
            }
        }
        list.push(key);
    }
    assert!(
        evicted > 5_000 && hits > 10_000,
        "{evicted} evictions, {hits} hits"
    );
    assert!(list.len() > 2_800, "{} records in 3072 places", list.len());
}
