//! Which write holds a record.

use crate::common::{MIB, Shell, body};
use store::{KeyHash, NewRecord, Outcome, Settings};

#[test]
fn an_insert_names_the_write_that_will_hold_its_record() {
    let settings = Settings {
        cluster_bytes: 64 << 10,
        ..Settings::default()
    };
    let mut shell = Shell::new(64 * MIB, settings);
    // Longer than a cluster: a write of its own.
    let long = body(9, 0, 100_000);
    let bodies: Vec<&[u8]> = vec![b"one", &long, b"two", b"three", &long];
    let mut of_key = Vec::new();
    for (n, body) in bodies.into_iter().enumerate() {
        let key = format!("the-key-of-record-{n}").into_bytes();
        let hash = shell.hash(&key);
        let inserted = shell.store.insert(
            &NewRecord {
                hash,
                primary: hash,
                key: &key,
                meta: b"",
                body: &[body],
                fragment: None,
                total: None,
                began: shell.store.sequence(),
                server: 0,
            },
            shell.now_ms,
        );
        assert_eq!(inserted.outcome, Outcome::Stored);
        of_key.push((key, inserted.cluster.expect("it has a place")));
        shell.pending.extend(inserted.writes);
    }
    shell.pending.extend(shell.store.flush());
    let holds = |data: &[u8], key: &[u8]| data.windows(key.len()).any(|part| part == key);
    for (key, cluster) in &of_key {
        let its: Vec<_> = (shell.pending.iter())
            .filter(|write| holds(&write.data, key))
            .map(|write| write.id)
            .collect();
        assert_eq!(its, [*cluster], "{}", String::from_utf8_lossy(key));
    }
    let records: u32 = shell.pending.iter().map(|write| write.records).sum();
    assert_eq!(records as usize, of_key.len());
    assert!(
        shell.pending.len() > 1,
        "several writes, or it says nothing"
    );
    let too_long = vec![7; 8 << 20];
    let refused = shell.store.insert(
        &NewRecord {
            key: b"k",
            hash: KeyHash(1),
            primary: KeyHash(1),
            meta: b"",
            body: &[&too_long],
            fragment: None,
            total: None,
            began: 0,
            server: 0,
        },
        shell.now_ms,
    );
    assert_eq!(
        (refused.outcome, refused.cluster),
        (Outcome::TooLarge, None)
    );
    shell.complete_all();
}
