//! What a store does beside a disk that is slow: who reads for long holds nobody up, and a burst is taken.

use crate::common::{MIB, Shell, body};
use store::{Outcome, Settings};

/// On a disk with a long queue somebody reads in almost every region that is to be used again.
#[test]
fn who_reads_slowly_keeps_a_record_and_not_its_region() {
    let mut shell = Shell::new(16 * MIB, Settings::default());
    let mut reads = Vec::new();
    let mut n = 0u64;
    // In each stretch some are being read when the hand comes, and for as long as it takes to go round twice.
    while n < 4000 {
        n += 1;
        let outcome = shell.put(&n.to_le_bytes(), &body(n, 0, 12_000));
        assert_eq!(outcome, Outcome::Stored, "number {n}");
        shell.complete_all();
        if n.is_multiple_of(25) && n < 1300 {
            shell.settle();
            reads.push((n, shell.read(&n.to_le_bytes())));
        }
    }
    assert_eq!(shell.store.figures().reads_pinned, reads.len() as u64);
    shell.store.audit().unwrap();
    for (n, read) in reads {
        let parts = shell.store.decode_read(&shell.bytes_of(&read), &read);
        assert_eq!(parts.unwrap().body, body(n, 0, 12_000));
        assert!(shell.store.read_done(read));
    }
    shell.close();
    shell.reopen();
    assert_eq!(
        shell.get(&n.to_le_bytes()).unwrap().body,
        body(n, 0, 12_000)
    );
    shell.store.audit().unwrap();
}

/// As a disk of a hundred writes a second sees it: nothing of the burst has been written when its end comes.
#[test]
fn a_small_store_takes_a_burst_of_large_objects() {
    let mut shell = Shell::new(32 * MIB, Settings::default());
    shell.fill(64 * MIB, 60_000);
    let burst = 5 * MIB;
    for n in 0..burst / 60_000 {
        let key = format!("burst{n}");
        let outcome = shell.put(key.as_bytes(), &body(n, 1, 60_000));
        assert_eq!(outcome, Outcome::Stored, "number {n}");
    }
    let under_way: usize = shell.pending.iter().map(|write| write.data.len()).sum();
    assert!(under_way as u64 > 4 * MIB, "{under_way}");
    shell.settle();
    for n in 0..burst / 60_000 {
        let found = shell.get(format!("burst{n}").as_bytes());
        assert_eq!(found.unwrap().body, body(n, 1, 60_000));
    }
    shell.store.audit().unwrap();
}
