//! Servers whose companions are asked for, seldom or late, and probes.

use super::*;

const SERVER: KeyHash = KeyHash(5 << 32);
const OTHER: KeyHash = KeyHash(6 << 32);
/// Bytes of a companion, and of the room for them: a full one has a hundred.
const BYTES: u64 = 1000;
const ROOM: u64 = 100 * BYTES;

/// Makes reads of a server; each read that may bring companions brings one. Every `one_in`th companion is asked for at once.
/// Returns the number of reads that brought one.
fn read(companions: &Companions, server: KeyHash, reads: usize, one_in: usize) -> usize {
    let mut brought = 0;
    for _ in 0..reads {
        let Some(came) = companions.may_come(server) else {
            continue;
        };
        companions.brought(BYTES);
        brought += 1;
        if brought % one_in == 0 {
            companions.asked(came, ROOM);
        }
    }
    brought
}

#[test]
fn companions_that_nobody_asks_for_stop_coming() {
    let companions = Companions::default();
    let first = JUDGED_FROM as usize;
    assert_eq!(read(&companions, SERVER, first, usize::MAX), first);
    let probe = (0..PROBE_EVERY).find_map(|_| companions.may_come(SERVER));
    assert!(probe.is_some_and(|came| !came.pays));
    let probes = read(&companions, SERVER, 6400, usize::MAX);
    assert_eq!(probes, 6400 / PROBE_EVERY as usize);
    // Reads of another server are counted apart.
    assert_eq!(read(&companions, OTHER, first, usize::MAX), first);
    assert_eq!(companions.brought_count() as usize, 2 * first + probes);
}

#[test]
fn companions_that_save_one_read_in_eight_come_along() {
    let companions = Companions::default();
    let one_in = PAYS_ONE_IN as usize;
    assert_eq!(read(&companions, SERVER, 10_000, one_in - 2), 10_000);
    let few = read(&companions, OTHER, 10_000, 3 * one_in);
    assert!(few < 1000, "{few}");
}

#[test]
fn they_come_again_when_they_are_asked_for_again() {
    let companions = Companions::default();
    read(&companions, SERVER, 10_000, usize::MAX);
    let reads = read(&companions, SERVER, 64 * PROBE_EVERY as usize, 1);
    assert!(reads > 1000, "{reads}");
    assert_eq!(read(&companions, SERVER, 1000, 2), 1000);
}

/// A probe's companion stays until popularity asks for it. With all reads bringing some, it would have left.
#[test]
fn one_that_is_asked_for_late_does_not_count() {
    let companions = Companions::default();
    let in_time = |late: usize| {
        let came = companions.may_come(SERVER).unwrap();
        companions.brought(BYTES);
        read(&companions, OTHER, late, 2);
        let cell = &companions.cells[usize::from(came.cell)];
        let before = cell.asked.load(Relaxed);
        companions.asked(came, ROOM);
        cell.asked.load(Relaxed) - before
    };
    assert_eq!([90, 110].map(in_time), [1, 0]);
    // Many reads later the mean has been halved, and is the same.
    read(&companions, OTHER, 10_000, 2);
    assert_eq!([90, 110].map(in_time), [1, 0]);
    assert!(companions.asked_count() > 4);
}
