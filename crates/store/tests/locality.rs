//! Locality buffers: what is open for many servers at once must not cost the room of the others.

mod common;

use common::{MIB, Random, Shell, body};
use store::{NewRecord, Outcome, Settings};

/// After three rounds over a store of 64 MiB, objects of 500 servers.
fn records_kept_with(locality_buffers: usize) -> u64 {
    let settings = Settings {
        locality_buffers,
        ..Settings::default()
    };
    let mut shell = Shell::new(64 * MIB, settings);
    let mut random = Random(5);
    let mut bytes = 0;
    let mut number = 0u64;
    while bytes < 3 * 64 * MIB {
        let len = if random.one_in(20) {
            random.below(120_000)
        } else {
            random.below(16_000)
        };
        number += 1;
        let key = number.to_le_bytes();
        let hash = shell.hash(&key);
        let record = NewRecord {
            hash,
            primary: hash,
            key: &key,
            meta: b"",
            body: &[&body(number, 1, len as usize)],
            fragment: None,
            total: None,
            began: shell.store.sequence(),
            server: random.below(500).min(random.below(500)),
        };
        assert_eq!(shell.put_record(&record), Outcome::Stored);
        shell.complete_all();
        bytes += len;
    }
    shell.store.audit().unwrap();
    shell.store.figures().records
}

#[test]
fn locality_buffers_cost_little_room() {
    let (without, with) = (records_kept_with(0), records_kept_with(32));
    assert!(
        with * 10 >= without * 8,
        "{with} records kept, {without} without"
    );
}
