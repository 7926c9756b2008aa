//! Long records in small stores: one read each, and a hand that still goes round.

use crate::common::{MIB, Shell, body};
use store::{
    FORMAT_VERSION, FORMAT_VERSION_OLDEST, Geometry, Lookup, OpenPlan, Outcome, Settings,
    Superblock,
};

const KIB: u64 = 1 << 10;

#[test]
fn one_read_for_every_body_of_up_to_a_mebibyte() {
    for mib in [64, 128] {
        let mut shell = Shell::new(mib * MIB, Settings::default());
        for len in [10_000, 130_000, 400_000, 1_000_000, MIB] {
            assert!(len <= shell.store.fragment_bytes().into(), "{len} is cut");
            let key = format!("http://www.example.org/{len}");
            let bytes = body(len, 0, len as usize);
            assert_eq!(shell.put(key.as_bytes(), &bytes), Outcome::Stored);
            shell.settle();
            let read = shell.read(key.as_bytes());
            let parts = shell.store.decode_read(&shell.bytes_of(&read), &read);
            assert!(parts.unwrap().body == bytes, "{len} in {mib} MiB");
            assert!(shell.store.read_done(read));
        }
    }
}

/// Reads a record, and writes it again if that is wanted. Is it there?
fn hit(shell: &mut Shell, key: &[u8]) -> bool {
    let Lookup::OnDisk(read) = shell.store.look_up(shell.hash(key)) else {
        return false;
    };
    let parts = shell
        .store
        .decode_read(&shell.bytes_of(&read), &read)
        .unwrap();
    let renewal = read.renewal();
    assert!(shell.store.read_done(read));
    if let Some(renewal) = renewal {
        let inserted = shell.store.renew(renewal, &parts, shell.now_ms);
        shell.pending.extend(inserted.writes);
        shell.complete_all();
    }
    true
}

/// A sweep writes a fifth of a stretch again at most. What is longer would leave, however often it is read.
#[test]
fn what_is_longer_than_the_share_of_a_stretch_has_a_second_chance() {
    let mut shell = Shell::new(64 * MIB, Settings::default());
    let long = body(1, 0, MIB as usize);
    assert_eq!(shell.put(b"long", &long), Outcome::Stored);
    shell.settle();
    for n in 0..3 * 64 * MIB / 60_000 {
        let other = format!("other{n}");
        let stored = shell.put(other.as_bytes(), &body(n, 1, 60_000));
        assert_eq!(stored, Outcome::Stored);
        shell.complete_all();
        if n % 20 == 0 {
            assert!(hit(&mut shell, b"long"), "gone after {n} others");
        }
    }
    let figures = shell.store.figures();
    assert!(
        figures.evictions > 0 && figures.reinserted > 0,
        "{figures:?}"
    );
    shell.store.audit().unwrap();
}

/// Long records alone: each region takes two, and none is refused.
#[test]
fn the_hand_goes_round_with_long_records_alone() {
    let mut shell = Shell::new(64 * MIB, Settings::default());
    let bytes = body(2, 0, MIB as usize);
    for n in 0..150u64 {
        assert_eq!(shell.put(&n.to_le_bytes(), &bytes), Outcome::Stored);
        shell.complete_all();
    }
    let left = (0..150u64).filter(|n| shell.get(&n.to_le_bytes()).is_some());
    let left = left.count();
    assert!(left >= 46, "{left} of 62 that the area has room for");
    shell.store.audit().unwrap();
}

/// The superblock of a store as version 5 wrote it: it says nothing of fragments.
fn set_back(shell: &mut Shell) {
    let field = |name: &str| {
        let fields = store::layout::superblock::FIELDS;
        let found = fields.iter().find(|field| field.name == name);
        let field = found.unwrap();
        field.at..field.at + field.len
    };
    for at in Superblock::OFFSETS {
        let copy = &mut shell.disk[at as usize..][..Superblock::COPY_BYTES];
        copy[field("VERSION")].copy_from_slice(&FORMAT_VERSION_OLDEST.to_le_bytes());
        copy[field("FRAGMENT_BYTES")].fill(0);
        let checksum = field("CHECKSUM");
        let sum = twox_hash::XxHash3_64::oneshot(&copy[..checksum.start]);
        copy[checksum].copy_from_slice(&sum.to_le_bytes());
    }
}

#[test]
fn a_store_of_the_version_before_keeps_what_it_has() {
    // As that version planned it.
    let before = Geometry::plan(64 * MIB, 512).unwrap();
    let before = before.with_region_bytes(256 * KIB);
    let mut shell = Shell::with_geometry(before.clone(), Settings::default());
    for n in 0..50u64 {
        assert_eq!(
            shell.put(&n.to_le_bytes(), &body(n, 0, 50_000)),
            Outcome::Stored
        );
    }
    for is_clean in [true, false] {
        shell.settle();
        if is_clean {
            shell.close();
        }
        set_back(&mut shell);
        let wanted = Geometry::plan(64 * MIB, 512).unwrap();
        assert_ne!(wanted, before);
        let plan = OpenPlan::of(&shell.disk[..Superblock::BYTES], &wanted);
        let OpenPlan::Recover { superblock, .. } = plan else {
            panic!("{plan:?}");
        };
        assert_eq!(superblock.version, FORMAT_VERSION_OLDEST);
        let recovered = shell.reopen();
        assert!(!recovered.empty, "{recovered:?}");
        assert!(recovered.words.contains("earlier version"), "{recovered:?}");
        assert_eq!(shell.store.fragment_bytes(), 65_024, "as it was cut");
        assert_eq!(shell.store.geometry(), &before);
        for n in 0..50u64 {
            let found = shell.get(&n.to_le_bytes());
            assert_eq!(found.unwrap().body, body(n, 0, 50_000));
        }
        let now = Superblock::decode(&shell.disk).unwrap();
        assert_eq!((now.version, now.fragment_bytes), (FORMAT_VERSION, 65_024));
    }
}
