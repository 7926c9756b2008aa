//! Predicates that put in doubt instead of killing: what a soft purge asks of the store.

use crate::common::{MIB, Shell, body};
use store::{About, Lookup, Manner, Outcome, Settings, Settled};

const SOFT: u8 = 9;

fn settings() -> Settings {
    Settings {
        manner: |kind| Manner {
            about: About::Prefix,
            soft: kind == SOFT,
        },
        ..Settings::default()
    }
}

fn doubted(shell: &Shell, key: &[u8]) -> bool {
    shell.get(key).expect("it is there").doubted
}

#[test]
fn what_is_in_doubt_is_there_and_says_so_until_a_newer_one_comes() {
    for clean in [None, Some(true), Some(false)] {
        let mut shell = Shell::new(4 * MIB, settings());
        let before = shell.store.sequence();
        shell.put(b"a/1", b"1");
        shell.put(b"b/1", b"1");
        assert!(!doubted(&shell, b"a/1"), "in the buffer");
        shell.settle();
        assert!(!doubted(&shell, b"a/1"), "on disk");
        let handle = shell.store.invalidate_matching(SOFT, b"a/").unwrap();
        shell.work();
        assert_eq!(shell.store.settled(handle), Settled::Durable);
        match clean {
            None => {}
            Some(true) => {
                shell.close();
                shell.reopen();
            }
            Some(false) => {
                shell.reopen();
            }
        }
        assert!(doubted(&shell, b"a/1"), "{clean:?}");
        assert!(!doubted(&shell, b"b/1"));
        // A fill that began before is in doubt, so it is not stored.
        let old = shell.put_since(b"a/2", b"1", before);
        assert_eq!(old, Outcome::Invalidated);
        assert_eq!(shell.put(b"a/1", b"2"), Outcome::Stored);
        assert!(!doubted(&shell, b"a/1"));
        shell.store.audit().unwrap();
    }
}

#[test]
fn what_is_in_doubt_gets_no_second_chance() {
    let mut shell = Shell::new(4 * MIB, settings());
    shell.put(b"a", b"1");
    shell.fill(2 * MIB, 20_000);
    let read = shell.read(b"a");
    let parts = shell
        .store
        .decode_read(&shell.bytes_of(&read), &read)
        .unwrap();
    let renewal = read.renewal().expect("half way round it is near");
    assert!(shell.store.read_done(read));
    let _ = shell.store.invalidate_matching(SOFT, b"a").unwrap();
    let renewed = shell.store.renew(renewal, &parts, shell.now_ms);
    assert_eq!(renewed.outcome, Outcome::Invalidated);
    assert!(doubted(&shell, b"a"));
}

/// The predicate is forgotten when every region was opened after it: no record may be left by then that it is about.
#[test]
fn nothing_in_doubt_outlasts_its_predicate() {
    let mut shell = Shell::new(16 * MIB, settings());
    shell.put(b"a", &body(1, 0, 5000));
    shell.settle();
    let _ = shell.store.invalidate_matching(SOFT, b"a").unwrap();
    shell.work();
    for n in 0..6000u64 {
        assert_eq!(
            shell.put(&n.to_le_bytes(), &body(n, 0, 8000)),
            Outcome::Stored
        );
        shell.complete_all();
        if let Lookup::OnDisk(read) = shell.store.look_up(shell.hash(b"a")) {
            let bytes = shell.bytes_of(&read);
            let parts = shell.store.decode_read(&bytes, &read).unwrap();
            assert!(parts.doubted, "{n}");
            let renewal = read.renewal();
            assert!(shell.store.read_done(read));
            if let Some(renewal) = renewal {
                let renewed = shell.store.renew(renewal, &parts, shell.now_ms);
                assert_eq!(renewed.outcome, Outcome::Invalidated);
            }
        }
    }
    assert!(shell.get(b"a").is_none(), "gone with its stretch");
}
