//! Second chances: the shorter a record, the sooner it is written again.

use crate::common::{MIB, Shell, body, second_chances};
use store::{Fragment, Geometry, Lookup, NewRecord, Outcome, Read, RecordParts, Settings};

const MIDDLING: usize = 8000;

/// Of many regions, so that little is empty ahead of the writer.
fn shell(settings: Settings) -> Shell {
    let geometry = Geometry::plan(16 * MIB, 512).unwrap();
    Shell::with_geometry(geometry.with_region_bytes(256 << 10), settings)
}

fn put(shell: &mut Shell, key: &[u8], len: usize, server: u64) -> Outcome {
    let hash = shell.hash(key);
    shell.put_record(&NewRecord {
        hash,
        primary: hash,
        key,
        meta: b"meta",
        body: &[&body(1, 0, len)],
        fragment: None,
        total: None,
        began: shell.store.sequence(),
        server,
    })
}

/// Stores records of middling length of a server (0: none is named); before each, `look` is told what share of the area has been written, in percent.
fn go_round(shell: &mut Shell, server: u64, mut look: impl FnMut(&mut Shell, u64)) {
    let area = shell.store.geometry().data_bytes();
    for n in 0.. {
        let percent = shell.store.figures().write_bytes * 100 / area;
        if percent >= 97 {
            return;
        }
        look(shell, percent);
        let key = format!("middling{n}");
        let stored = put(shell, key.as_bytes(), MIDDLING, server);
        assert_eq!(stored, Outcome::Stored);
        shell.complete_all();
    }
}

fn read(shell: &Shell, key: &[u8]) -> Option<(Read, RecordParts)> {
    let Lookup::OnDisk(read) = shell.store.look_up(shell.hash(key)) else {
        return None;
    };
    let bytes = shell.bytes_of(&read);
    let parts = shell.store.decode_read(&bytes, &read).unwrap();
    Some((read, parts))
}

/// At how many percent of the area written a short, a middling and a long record are to be written again.
fn first_at(settings: Settings, server: u64) -> [u64; 3] {
    let mut shell = shell(settings);
    let names = ["short", "usual", "long"];
    for (name, len) in names.into_iter().zip([300, MIDDLING, 60_000]) {
        put(&mut shell, name.as_bytes(), len, server);
    }
    shell.settle();
    let mut first_at = [None; 3];
    go_round(&mut shell, server, |shell, percent| {
        for (at, name) in first_at.iter_mut().zip(names) {
            let Some((read, _)) = read(shell, name.as_bytes()) else {
                continue;
            };
            if read.renewal().is_some() && at.is_none() {
                *at = Some(percent);
            }
            assert!(shell.store.read_done(read));
        }
    });
    first_at.map(|at| at.expect("all of them come near the hand"))
}

#[test]
fn the_shorter_the_sooner() {
    // Buffers alone gather nothing: who stores must say of which server it is.
    for (locality_buffers, server) in [(0, 0), (0, 7), (8, 0)] {
        let settings = Settings {
            locality_buffers,
            ..Settings::default()
        };
        let [short, usual, long] = first_at(settings, server);
        // Some percent of the area are empty ahead of the writer, and the hand is so much further.
        assert!((40..=50).contains(&short), "{short}");
        assert!((70..=80).contains(&usual), "{usual}");
        assert!((80..=90).contains(&long), "{long}");
    }
}

#[test]
fn what_lies_together_has_one_window() {
    let settings = Settings {
        locality_buffers: 8,
        ..Settings::default()
    };
    let [short, usual, long] = first_at(settings, 7);
    assert!((70..=80).contains(&short), "{short}");
    assert_eq!((usual, long), (short, short));
}

#[test]
fn the_short_end_of_a_long_object_is_no_short_object() {
    let mut shell = shell(second_chances());
    for (key, fragment) in [(&b"end"[..], true), (&b"whole"[..], false)] {
        let hash = shell.hash(key);
        let stored = shell.put_record(&NewRecord {
            hash,
            primary: hash,
            key,
            meta: b"",
            body: &[&body(1, 0, 300)],
            fragment: fragment.then_some(Fragment {
                fetch_id: 1,
                number: 3,
            }),
            total: None,
            began: shell.store.sequence(),
            server: 0,
        });
        assert_eq!(stored, Outcome::Stored);
    }
    shell.settle();
    let mut renewed_at = [None; 2];
    go_round(&mut shell, 0, |shell, percent| {
        for (at, key) in renewed_at.iter_mut().zip(["end", "whole"]) {
            let Some((read, parts)) = read(shell, key.as_bytes()) else {
                continue;
            };
            let renewal = read.renewal();
            assert!(shell.store.read_done(read));
            if let Some(renewal) = renewal.filter(|_| at.is_none()) {
                let renewed = shell.store.renew(renewal, &parts, shell.now_ms);
                shell.pending.extend(renewed.writes);
                if renewed.outcome == Outcome::Stored {
                    *at = Some(percent);
                }
            }
        }
    });
    let [end, whole] = renewed_at.map(|at| at.expect("both come near the hand"));
    assert!(whole <= 50 && end >= 80, "{whole} {end}");
}
