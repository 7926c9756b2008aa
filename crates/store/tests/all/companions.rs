//! What comes along with a read: whole, alive, of this round, and nothing else.

use std::collections::HashMap;

use crate::common::{MIB, Random, Shell, body};
use bytes::Bytes;
use store::{Companion, Lookup, Outcome, Read, Settings};

const WANTED: usize = 64 << 10;

/// What the disk has from the read's beginning on, as far as the store lets it reach.
fn bytes_with(shell: &Shell, read: &Read, wanted: usize) -> Bytes {
    let (at, len) = (read.offset as usize, shell.store.reach(read, wanted));
    Bytes::copy_from_slice(&shell.disk[at..at + len])
}

/// Reads `key` and says what came along.
fn companions_of(shell: &Shell, key: &[u8], wanted: usize) -> Vec<Companion> {
    let read = shell.read(key);
    let bytes = bytes_with(shell, &read, wanted);
    let found = shell.store.companions(&bytes, &read);
    assert!(shell.store.read_done(read));
    found
}

fn keys(companions: &[Companion]) -> Vec<&[u8]> {
    companions.iter().map(|c| &c.parts.key[..]).collect()
}

#[test]
fn what_was_stored_next_comes_along() {
    let mut shell = Shell::small();
    for (n, key) in [b"a", b"b", b"c"].into_iter().enumerate() {
        shell.put(key, &body(n as u64, 0, 9_000));
    }
    shell.settle();
    let found = companions_of(&shell, b"a", WANTED);
    assert_eq!(keys(&found), [b"b", b"c"]);
    assert_eq!(found[0].parts.body, body(1, 0, 9_000));
    assert_eq!(found[1].hash, shell.hash(b"c"));
    assert!(keys(&companions_of(&shell, b"c", WANTED)).is_empty());
    // Only what is whole.
    assert_eq!(keys(&companions_of(&shell, b"a", 20 << 10)), [b"b"]);
    assert!(companions_of(&shell, b"a", 0).is_empty());
}

#[test]
fn what_is_dead_or_damaged_stays_behind() {
    let mut shell = Shell::small();
    for key in [b"a", b"b", b"c", b"d", b"e"] {
        shell.put(key, &body(u64::from(key[0]), 0, 3_000));
    }
    shell.settle();
    shell.purge(b"b");
    shell.put(b"c", b"newer");
    let place = shell.read(b"d");
    shell.disk[place.offset as usize + 1_000] ^= 1;
    assert!(shell.store.read_done(place));
    // The newer c is in a buffer still, the older one lies between b and d.
    assert_eq!(keys(&companions_of(&shell, b"a", WANTED)), [b"e"]);
    assert!(
        shell.store.contains(shell.hash(b"d")),
        "its own read shall tell"
    );
}

#[test]
fn a_read_reaches_to_the_end_of_its_region_and_not_with_other_policies() {
    let settings = Settings {
        replacement: "lru".parse().unwrap(),
        ..Settings::default()
    };
    let mut by_use = Shell::new(64 * MIB, settings);
    by_use.put(b"a", b"1");
    by_use.put(b"b", b"1");
    by_use.settle();
    let read = by_use.read(b"a");
    assert_eq!(by_use.store.reach(&read, WANTED), read.len);
    assert!(by_use.store.read_done(read));

    let mut shell = Shell::small();
    let mut last_in_region = 0;
    for n in 0..2_000u64 {
        shell.put(&n.to_le_bytes(), &body(n, 0, 9_000));
        shell.settle();
        let read = shell.read(&n.to_le_bytes());
        let geometry = shell.store.geometry();
        let region_bytes = geometry.region_bytes();
        let in_region = (read.offset - geometry.data_at) % region_bytes;
        let reach = shell.store.reach(&read, WANTED) as u64;
        assert!(in_region + reach <= region_bytes);
        last_in_region += usize::from(reach < WANTED as u64);
        assert!(shell.store.read_done(read));
    }
    assert!(last_in_region > 0);
}

/// Rounds and rounds over a small store, with replacements, purges, and reads that take their time.
#[test]
fn whatever_comes_along_is_the_newest_of_its_key() {
    let mut shell = Shell::small();
    let mut random = Random(11);
    let mut versions: HashMap<u64, Option<u64>> = HashMap::new();
    let (mut came_along, mut to_renew) = (0, 0);
    let mut slow: Vec<(Read, Bytes)> = Vec::new();
    for step in 0..40_000u64 {
        let key = random.below(1_500);
        let name = key.to_le_bytes();
        match random.below(20) {
            0 => {
                shell.purge(&name);
                versions.insert(key, None);
            }
            1..6 => {
                if let Lookup::OnDisk(read) = shell.store.look_up(shell.hash(&name)) {
                    let bytes = bytes_with(&shell, &read, WANTED);
                    slow.push((read, bytes));
                }
            }
            _ => {
                let len = random.below(20_000) as usize;
                if shell.put(&name, &body(key, step, len)) == Outcome::Stored {
                    versions.insert(key, Some(step));
                }
                if random.one_in(4) {
                    shell.settle();
                }
            }
        }
        if slow.len() > 3 || random.one_in(5) {
            for (read, bytes) in slow.drain(..) {
                for companion in shell.store.companions(&bytes, &read) {
                    let key = u64::from_le_bytes((*companion.parts.key).try_into().unwrap());
                    let version = versions[&key].expect("purged, and comes along");
                    let len = companion.parts.body.len();
                    assert_eq!(companion.parts.body, body(key, version, len), "{key}");
                    came_along += 1;
                    to_renew += u64::from(companion.renewal.is_some());
                    // Not more than the store could find itself.
                    assert!(shell.store.contains(companion.hash));
                }
                let _ = shell.store.read_done(read);
            }
        }
    }
    shell.store.audit().unwrap();
    assert!(came_along > 5_000, "{came_along}");
    assert!(to_renew > 100, "{to_renew}");
    assert!(shell.store.figures().evictions > 5_000);
}
