//! What ranges of large objects read from the disk, and what damaged blocks spoil.

use std::{fs, os::unix::fs::FileExt};

use proxy::plan::{Admin, LazyMode, Plan};

use super::{
    harness::*,
    ranges::{TAG, ask_range, asked, expect_part, expect_parts, ranged},
};

/// Large enough for fragments of almost a quarter of a mebibyte.
const STORE_MIB: u64 = 256;
const LEN: usize = (8 << 20) + 12_345;
const RANGE: usize = 64 << 10;

fn told(mut plan: Plan) -> Plan {
    // On a slow disk the read of the head brings its neighbours along, which says nothing about ranges.
    plan.storing.lazy_reads = LazyMode::Gather(1);
    Plan {
        admin: Some(Admin {
            address: running::local(),
            allow: Vec::new(),
        }),
        ..plan
    }
}

/// A proxy that has this body on its disk, and nothing in memory.
fn stored(disk: &Disk, origin: &Origin, body: &[u8]) -> Proxy {
    let plan = disk.under(plan_for(origin));
    let proxy = Proxy::start(plan.clone());
    assert_same(&proxy.get("/a").body, body);
    proxy.stop();
    Proxy::start(told(plan))
}

/// Bytes read from the device by what is done.
fn read_by(proxy: &Proxy, act: impl FnOnce()) -> u64 {
    let before = proxy.counter("disk_read_bytes");
    act();
    proxy.counter("disk_read_bytes") - before
}

fn assert_at_most(read: u64, sent: usize, percent: u64) {
    let sent = sent as u64;
    println!("{read} bytes were read for {sent}: {} %", read * 100 / sent);
    assert!(read > 0, "the disk was asked");
    assert!(read * 100 <= sent * percent, "{read} for {sent}");
}

#[test]
fn a_range_reads_little_more_than_it_sends() {
    let body = pattern(LEN);
    let origin = ranged(body.clone(), &[FRESH, TAG, "Content-Type: text/x"]);
    let disk = Disk::of_mib(STORE_MIB);
    let proxy = stored(&disk, &origin, &body);
    let mut client = proxy.client();
    let mut at = 1;
    let mut next = |room: usize| {
        at = u64::wrapping_mul(at, 6_364_136_223_846_793_005) + 1;
        (at >> 20) as usize % (body.len() - room)
    };
    // The head of the object, once for all.
    ask_range(&mut client, "/a", "bytes=0-0");

    let read = read_by(&proxy, || {
        for _ in 0..300 {
            let first = next(RANGE);
            let last = first + RANGE - 1;
            let answer = ask_range(&mut client, "/a", &format!("bytes={first}-{last}"));
            expect_part(&answer, &body, (first, last));
            assert!(answer.is_hit());
        }
    });
    assert_at_most(read, 300 * RANGE, 130);

    // Several in one answer.
    let read = read_by(&proxy, || {
        for _ in 0..20 {
            let far = body.len() / 2;
            let first = next(far + RANGE);
            let spans = [first, first + far].map(|first| (first, first + RANGE - 1));
            let [(a, b), (c, d)] = spans;
            let answer = ask_range(&mut client, "/a", &format!("bytes={a}-{b},{c}-{d}"));
            expect_parts(&answer, &body, &spans);
        }
    });
    assert_at_most(read, 40 * RANGE, 130);

    // A long one: whole fragments, and parts of the first and the last.
    let read = read_by(&proxy, || {
        for _ in 0..10 {
            let first = next(1 << 20);
            let last = first + (1 << 20) - 1;
            let answer = ask_range(&mut client, "/a", &format!("bytes={first}-{last}"));
            expect_part(&answer, &body, (first, last));
        }
    });
    assert_at_most(read, 10 << 20, 115);
    assert_eq!(asked(&origin), ["all"]);
    proxy.stop();
}

#[test]
fn ranges_one_after_the_other_read_each_block_once() {
    let body = pattern(LEN);
    let origin = ranged(body.clone(), &[FRESH, TAG]);
    let disk = Disk::of_mib(STORE_MIB);
    let proxy = stored(&disk, &origin, &body);
    for step in [RANGE, 16 << 10, 1000] {
        const TIMES: usize = 64;
        let len = step * TIMES;
        let mut client = proxy.client();
        let read = read_by(&proxy, || {
            for first in (0..len).step_by(step) {
                let last = first + step - 1;
                let answer = ask_range(&mut client, "/a", &format!("bytes={first}-{last}"));
                expect_part(&answer, &body, (first, last));
            }
        });
        // The object's head comes with each; what is short has a front and a last block that are long for it.
        let heads = TIMES * 512;
        assert_at_most(read - heads.min(read as usize) as u64, len + 8192, 105);
    }
    assert_eq!(asked(&origin), ["all"]);
    proxy.stop();
}

/// Changes a byte of the body where it lies on the disk.
fn damage(disk: &Disk, body: &[u8], at: usize) {
    let at = at / 8 * 8;
    let store = fs::read(disk.path()).unwrap();
    let place = memchr::memmem::find(&store, &body[at..at + 64]).expect("it is stored");
    let file = fs::OpenOptions::new().write(true).open(disk.path());
    let changed = [store[place] ^ 1];
    file.unwrap().write_all_at(&changed, place as u64).unwrap();
}

#[test]
fn a_damaged_block_spoils_no_range_without_it_and_is_filled_from_the_origin() {
    const HURT: usize = 3_000_000;
    let body = pattern(LEN);
    let origin = ranged(body.clone(), &[FRESH, TAG]);
    let disk = Disk::of_mib(STORE_MIB);
    let plan = disk.under(plan_for(&origin));
    let proxy = Proxy::start(plan.clone());
    assert_same(&proxy.get("/a").body, &body);
    proxy.stop();
    damage(&disk, &body, HURT);

    let proxy = Proxy::start(told(plan));
    let mut client = proxy.client();
    let mut hit = |(first, last): (usize, usize)| {
        let answer = ask_range(&mut client, "/a", &format!("bytes={first}-{last}"));
        expect_part(&answer, &body, (first, last));
        answer.is_hit()
    };
    // In the same fragment, on both sides.
    assert!(hit((HURT - 30_000, HURT - 5000)));
    assert!(hit((HURT + 5000, HURT + 30_000)));
    assert_eq!(proxy.counter("disk_corrupt"), 0);
    assert_eq!(asked(&origin), ["all"]);
    // With the block: what was verified before is sent, and the rest is the origin's.
    hit((HURT - 1_000_000, HURT + 10_000));
    proxy.await_count("disk_corrupt", 1);
    assert_eq!(asked(&origin).len(), 2);
    // All of the fragment counts as lost, so the first of these is fetched, too; then it is whole again.
    hit((HURT - 100, HURT + 100));
    let fetched = asked(&origin).len();
    assert!(hit((HURT - 30_000, HURT + 30_000)));
    assert_eq!(asked(&origin).len(), fetched);
    proxy.await_count("disk_corrupt", 1);
    proxy.stop();
}

#[test]
fn a_damaged_block_that_nobody_can_fill_ends_the_answer() {
    const HURT: usize = 3_000_000;
    let body = pattern(LEN);
    // Without a validator no part of another answer belongs to it.
    let origin = ranged(body.clone(), &[FRESH]);
    let disk = Disk::of_mib(STORE_MIB);
    let plan = disk.under(plan_for(&origin));
    let proxy = Proxy::start(plan.clone());
    assert_same(&proxy.get("/a").body, &body);
    proxy.stop();
    damage(&disk, &body, HURT);

    let proxy = Proxy::start(told(plan));
    let first = HURT - 1_000_000;
    let range = format!("Range: bytes={first}-{}", HURT + 10_000);
    let mut client = proxy.client();
    client.ask("GET", "/a", &[&range]);
    let answer = client.read_whatever("GET");
    assert!(answer.cut.is_some(), "what is damaged is not sent");
    let got = &answer.body[..];
    assert!(got.len() > 500_000 && got == &body[first..first + got.len()]);
    // The object is forgotten, and fetched again.
    assert_same(&proxy.get("/a").body, &body);
    assert_eq!(asked(&origin), ["all", "all"]);
    proxy.stop();
}
