//! The disk under a proxy: crashes, several stores, parts that are lost.

use std::{fs, path::Path, time::Duration};

use proxy::plan::{Admin, LazyMode, LocalityMode, StorePlan};

use super::harness::{
    Child, Client, Disk, Exchange, FRESH, Origin, Proxy, answer, assert_same, eventually, head, ok,
    pattern, plan_for, running,
};

/// Waits until the device has these bytes. Direct writes: what another descriptor reads is what was written.
#[track_caller]
fn await_written(store: &Path, body: &[u8]) {
    eventually("it is on disk", || {
        let bytes = fs::read(store).unwrap();
        memchr::memmem::find(&bytes, body).map(drop)
    });
}

/// Answers with this body under a strong tag, or with the part of it that is asked for under that tag.
pub fn send_tagged(exchange: &mut Exchange, body: &[u8]) {
    let range = exchange.field("range").map(|range| {
        let (first, last) = range
            .strip_prefix("bytes=")
            .unwrap()
            .split_once('-')
            .unwrap();
        (
            first.parse::<usize>().unwrap(),
            last.parse::<usize>().unwrap(),
        )
    });
    let tagged = [FRESH, "ETag: \"1\""];
    let Some((first, last)) = range else {
        return exchange.send(ok(&tagged, body));
    };
    assert_eq!(exchange.field("if-range"), Some("\"1\""));
    let range = format!("Content-Range: bytes {first}-{last}/{}", body.len());
    let fields = [tagged[0], tagged[1], &range];
    exchange.send(answer("206 Partial Content", &fields, &body[first..=last]));
}

#[test]
fn what_was_written_before_kill_9_is_found_after_it() {
    let body = pattern(30_000);
    let origin = Origin::sending(ok(&[FRESH], &body));
    let disk = Disk::of_mib(16);
    for n in 0..3 {
        let path = format!("/an-object-of-its-own-{n}");
        let child = Child::start(&origin, &disk.path(), 16);
        child.get(&path);
        await_written(&disk.path(), path.as_bytes());
        child.kill();
        let proxy = Proxy::start(disk.under(plan_for(&origin)));
        for earlier in 0..=n {
            // While the store is looked through, what has not been found yet is a miss.
            let again = eventually("it is found", || {
                let only = ["Cache-Control: only-if-cached"];
                let answer = proxy.ask("GET", &format!("/an-object-of-its-own-{earlier}"), &only);
                answer.is_hit().then_some(answer)
            });
            assert_same(&again.body, &body);
        }
        proxy.stop();
    }
    assert_eq!(origin.requests().len(), 3);
}

#[test]
fn what_an_unsafe_method_made_untrue_stays_so_after_kill_9() {
    let origin = Origin::start(|exchange| {
        let nth = exchange.nth();
        exchange.send(ok(&[FRESH], format!("version {nth}")));
    });
    let disk = Disk::of_mib(16);
    for n in 0..5 {
        let path = format!("/an-object-of-its-own-{n}");
        let child = Child::start(&origin, &disk.path(), 16);
        assert_eq!(child.get(&path).text(), "version 1");
        await_written(&disk.path(), path.as_bytes());
        let mut client = child.client();
        let answer = client.ask("DELETE", &path, &[]).read("DELETE");
        assert_eq!(answer.text(), "version 2");
        child.kill();
        let proxy = Proxy::start(disk.under(plan_for(&origin)));
        assert_eq!(proxy.get(&path).text(), "version 3");
        proxy.stop();
    }
}

#[test]
fn objects_are_spread_over_the_stores_and_one_that_goes_takes_only_its_share() {
    const OBJECTS: usize = 60;
    let origin = Origin::sending(ok(&[FRESH], pattern(3_000)));
    let disk = Disk::of_mib(8);
    let path = |name: &str| disk.path().with_file_name(name);
    let with = |names: &[&str]| {
        let mut plan = plan_for(&origin);
        let store = |name: &&str| StorePlan::at(path(name), Some(8 << 20));
        plan.stores = names.iter().map(store).collect();
        plan.memory_bytes = 0;
        plan
    };
    let hits = |proxy: &Proxy| {
        let mut client = proxy.client();
        let only = ["Cache-Control: only-if-cached"];
        let asked = (0..OBJECTS).map(|n| client.ask("GET", &format!("/{n}"), &only).read("GET"));
        asked.filter(|answer| answer.is_hit()).count()
    };
    let proxy = Proxy::start(with(&["one", "two", "three"]));
    assert_eq!(proxy.ready.stores.len(), 3);
    let mut client = proxy.client();
    for n in 0..OBJECTS {
        assert_same(&client.get(&format!("/{n}")).body, &pattern(3_000));
    }
    assert_eq!(hits(&proxy), OBJECTS);
    drop(client);
    proxy.stop();

    let proxy = Proxy::start(with(&["three", "one", "two"]));
    assert_eq!(hits(&proxy), OBJECTS, "whatever their order");
    proxy.stop();

    let two = Proxy::start(with(&["one", "three"]));
    let left = hits(&two);
    assert!((OBJECTS / 3..OBJECTS).contains(&left), "{left}");
    two.stop();

    // It has missed a run, and so perhaps a purge; the others have missed nothing.
    let proxy = Proxy::start(with(&["one", "two", "three"]));
    let found = &proxy.ready.stores[1];
    assert!(found.contains("starts empty"), "{found}");
    assert_eq!(hits(&proxy), left);
    for n in 0..OBJECTS {
        proxy.get(&format!("/{n}"));
    }
    assert_eq!(hits(&proxy), OBJECTS);
}

#[test]
fn a_body_whose_parts_are_evicted_while_it_is_sent_comes_whole_all_the_same() {
    const LARGE: usize = 24 << 20;
    let origin = Origin::start(|exchange| match exchange.path() {
        "/large" => send_tagged(exchange, &pattern(LARGE)),
        _ => exchange.send(ok(&[FRESH], pattern(1 << 20))),
    });
    let disk = Disk::of_mib(64);
    let mut plan = disk.under(plan_for(&origin));
    plan.admin = Some(Admin {
        address: running::local(),
        allow: Vec::new(),
    });
    let proxy = Proxy::start(plan);
    assert_same(&proxy.get("/large").body, &pattern(LARGE));
    let mut slow = Client::connect(proxy.address());
    slow.ask("GET", "/large", &[]);
    let mut head = slow.read_head();
    // The hand goes round while the client does not read on. What comes while the disk is behind is not stored, and counts for nothing.
    let before = proxy.counter("stored_bytes");
    for n in 0..1000 {
        proxy.get(&format!("/{n}"));
        if proxy.counter("stored_bytes") - before > 130 << 20 {
            break;
        }
    }
    slow.wire.response_body("GET", &mut head);
    assert_eq!(head.cut, None);
    assert_same(&head.body, &pattern(LARGE));
    let parts = origin.requests();
    let parts = parts.iter().filter(|r| r.field("range").is_some()).count();
    assert_eq!(parts, 1, "the rest was asked for");
}

/// Nobody could ask the origin for the rest of these: without a validator the bytes of two answers do not belong together.
#[test]
fn a_body_without_validator_keeps_its_parts_until_they_are_sent() {
    const LARGE: usize = 14 << 20;
    let origin = Origin::start(|exchange| match exchange.path() {
        "/large" => exchange.send(ok(&[FRESH], pattern(LARGE))),
        _ => exchange.send(ok(&[FRESH], pattern(1 << 20))),
    });
    for (policy, asked) in [
        ("second-chance", &[][..]),
        ("second-chance=0", &["Range: bytes=100-14000000"][..]),
        ("lru", &[][..]),
    ] {
        let disk = Disk::of_mib(64);
        let mut plan = disk.under(plan_for(&origin));
        plan.storing.replacement = policy.parse().unwrap();
        let proxy = Proxy::start(plan);
        assert_same(&proxy.get("/large").body, &pattern(LARGE));
        let mut slow = Client::connect(proxy.address());
        slow.ask("GET", "/large", asked);
        let mut head = slow.read_head();
        assert!(head.is_hit());
        // The hand goes round twice while the client does not read on.
        for n in 0..130 {
            proxy.get(&format!("/{n}"));
        }
        slow.wire.response_body("GET", &mut head);
        assert_eq!(head.cut, None, "{policy}");
        let whole = pattern(LARGE);
        let expected = match asked.is_empty() {
            true => &whole[..],
            false => &whole[100..=14_000_000],
        };
        assert_same(&head.body, expected);
        // It was sent, so it leaves as anything else.
        for n in 0..130 {
            proxy.get(&format!("/{n}"));
        }
        let only = ["Cache-Control: only-if-cached"];
        assert_eq!(proxy.ask("GET", "/large", &only).status, 504, "{policy}");
    }
}

#[test]
fn every_policy_admission_and_way_of_reading_serves_what_was_stored() {
    const OBJECTS: usize = 120;
    let body = |n: usize| pattern(40_000 + 777 * n);
    let origin = Origin::start(move |exchange| {
        let n = exchange.path()[1..].parse().unwrap();
        send_tagged(exchange, &body(n));
    });
    for (replacement, admission) in [
        ("second-chance=20", "second-hit"),
        ("reinsertion", "by-size"),
        ("lru", "second-hit"),
        ("lru-threshold=65536", "tinylfu"),
        ("gdsf", "all"),
    ] {
        println!("{replacement}, {admission}");
        // About half of what is asked for fits.
        let disk = Disk::of_mib(8);
        let mut plan = disk.under(plan_for(&origin));
        plan.memory_bytes = 0;
        plan.storing.replacement = replacement.parse().unwrap();
        plan.storing.admission = admission.parse().unwrap();
        plan.storing.locality = LocalityMode::Servers(4);
        plan.storing.lazy_reads = LazyMode::Gather(10);
        for round in 0..3 {
            let proxy = Proxy::start(plan.clone());
            std::thread::scope(|scope| {
                for part in 0..4 {
                    let mut client = proxy.client();
                    scope.spawn(move || {
                        for n in (part..OBJECTS).step_by(4) {
                            // The first quarter is asked for again and again.
                            for n in [n, n / 4] {
                                let answer = client.get(&format!("/{n}"));
                                assert_same(&answer.body, &body(n));
                            }
                        }
                    });
                }
            });
            let mut client = proxy.client();
            let only = ["Cache-Control: only-if-cached"];
            let mut ask = |n: usize| client.ask("GET", &format!("/{n}"), &only).read("GET");
            let hits = (0..OBJECTS).filter(|&n| ask(n).is_hit()).count();
            assert!(
                (5..OBJECTS - 5).contains(&hits),
                "{replacement}, {admission}, round {round}: {hits} of {OBJECTS} are there"
            );
            proxy.stop();
        }
    }
}

#[test]
fn what_lies_beside_comes_along_with_a_read() {
    const OBJECTS: usize = 6;
    let origin = Origin::start(|exchange| {
        let n: usize = exchange.path()[1..].parse().unwrap();
        exchange.send(ok(&[FRESH], pattern(7_000 + n)));
    });
    for (group_bytes, reads_expected) in [(64 << 10, 1), (0, OBJECTS)] {
        let disk = Disk::of_mib(64);
        let mut plan = disk.under(plan_for(&origin));
        plan.storing.lazy_reads = LazyMode::Gather(2);
        plan.storing.group_bytes = group_bytes;
        plan.admin = Some(Admin {
            address: running::local(),
            allow: Vec::new(),
        });
        let first = Proxy::start(plan.clone());
        (0..OBJECTS).for_each(|n| drop(first.get(&format!("/{n}"))));
        first.stop();

        let proxy = Proxy::start(plan);
        let ask = |n: usize| {
            let answer = proxy.get(&format!("/{n}"));
            assert!(answer.is_hit(), "{n}");
            assert_same(&answer.body, &pattern(7_000 + n));
        };
        ask(0);
        // It came along, and what makes it untrue takes it away again.
        proxy.ask("POST", "/3", &["Content-Length: 0"]);
        (1..OBJECTS).filter(|&n| n != 3).for_each(ask);
        assert!(!proxy.get("/3").is_hit());
        let reads = proxy.counter("disk_reads");
        let reads_expected = reads_expected.min(OBJECTS - 1) as u64;
        assert_eq!(reads, reads_expected, "{group_bytes}");
        let came_along = proxy.counter("disk_companions");
        assert_eq!(came_along > 0, group_bytes > 0);
        proxy.stop();
    }
}

#[test]
fn companions_that_nobody_asks_for_are_not_read() {
    const OBJECTS: usize = 300;
    const BYTES: usize = 14_000;
    let origin = Origin::start(|exchange| exchange.send(ok(&[FRESH], pattern(BYTES))));
    let disk = Disk::of_mib(64);
    let mut plan = disk.under(plan_for(&origin));
    plan.storing.lazy_reads = LazyMode::Gather(2);
    plan.admin = Some(Admin {
        address: running::local(),
        allow: Vec::new(),
    });
    let first = Proxy::start(plan.clone());
    (0..OBJECTS).for_each(|n| drop(first.get(&format!("/{n}"))));
    first.stop();

    let proxy = Proxy::start(plan);
    // Each read may bring three more, and nobody wants them.
    let ask = |n: usize| assert!(proxy.get(&format!("/{n}")).is_hit(), "{n}");
    (0..OBJECTS).step_by(4).for_each(ask);
    let reads = proxy.counter("disk_reads");
    assert_eq!(reads, OBJECTS as u64 / 4);
    let alone = proxy.counter("disk_reads_without_companions");
    assert!((reads - 40..reads - 20).contains(&alone), "{alone}");
    let came = proxy.counter("memory_companions");
    assert!((2 * (reads - alone)..=3 * (reads - alone)).contains(&came));
    let read_bytes = proxy.counter("disk_read_bytes") as usize;
    let expected = BYTES * OBJECTS / 4 + (3 * BYTES) * came as usize / 3;
    assert!(read_bytes < expected * 3 / 2, "{read_bytes} {expected}");
    // The first three that came are asked for.
    assert_eq!(proxy.counter("memory_companions_asked"), 0);
    (1..4).for_each(ask);
    assert_eq!(proxy.counter("disk_reads"), reads);
    proxy.await_count("memory_companions_asked", 3);
    let status = proxy.admin("GET", "/status");
    assert!(status.text().contains("\"companions_asked\": 3"));
    proxy.stop();
}

#[test]
fn who_waits_too_long_for_the_disk_is_answered_by_the_origin() {
    let origin = Origin::start(|exchange| {
        let n: usize = exchange.path()[1..].parse().unwrap();
        exchange.send(ok(&[FRESH], pattern(7_000 + n)));
    });
    // A read waits 2 s for others, and none comes: longer than it is worth waiting for, or not.
    for (read_wait_ms, is_hit) in [(5, false), (20_000, true)] {
        let disk = Disk::of_mib(64);
        let mut plan = disk.under(plan_for(&origin));
        plan.storing.lazy_reads = LazyMode::Gather(64);
        plan.storing.lazy_reads_deadline = Duration::from_secs(2);
        plan.storing.read_wait = Duration::from_millis(read_wait_ms);
        plan.admin = Some(Admin {
            address: running::local(),
            allow: Vec::new(),
        });
        let first = Proxy::start(plan.clone());
        assert!(!first.get("/1").is_hit());
        first.stop();

        let proxy = Proxy::start(plan);
        let answer = proxy.get("/1");
        assert_same(&answer.body, &pattern(7_001));
        assert_eq!(answer.is_hit(), is_hit, "{read_wait_ms}");
        assert_eq!(proxy.counter("disk_reads_given_up"), u64::from(!is_hit));
        assert!(proxy.get("/1").is_hit(), "in memory by now");
        proxy.stop();
    }
}

#[test]
fn what_the_short_way_has_read_is_not_read_again() {
    const LARGE: usize = 3 << 20;
    let origin = Origin::start(|exchange| match exchange.request.field("if-none-match") {
        Some(_) => exchange.send(super::harness::head("304 Not Modified", &["ETag: \"1\""])),
        None => {
            let fresh = ["Cache-Control: max-age=1000", "ETag: \"1\""];
            let stale = ["Cache-Control: max-age=0", "ETag: \"1\""];
            match exchange.path() {
                "/large" => exchange.send(ok(&fresh, pattern(LARGE))),
                _ => exchange.send(ok(&stale, pattern(7_000))),
            }
        }
    });
    let disk = Disk::of_mib(64);
    let mut plan = disk.under(plan_for(&origin));
    plan.admin = Some(Admin {
        address: running::local(),
        allow: Vec::new(),
    });
    let first = Proxy::start(plan.clone());
    assert_same(&first.get("/large").body, &pattern(LARGE));
    assert_same(&first.get("/stale").body, &pattern(7_000));
    first.stop();

    let proxy = Proxy::start(plan);
    let reads_of = |target: &str, fields: &[&str], body: &[u8]| {
        let before = proxy.counter("disk_reads");
        let answer = proxy.ask("GET", target, fields);
        assert_same(&answer.body, body);
        proxy.counter("disk_reads") - before
    };
    // The short way reads the head, and the long way only what is not in memory then.
    let large = pattern(LARGE);
    let short_way = reads_of("/large", &[], &large);
    assert!(
        short_way > 2,
        "a head and several fragments, not {short_way}"
    );
    let long_way = reads_of("/large", &["Cache-Control: max-age=900"], &large);
    assert_eq!(long_way, short_way - 1);
    assert_eq!(reads_of("/stale", &[], &pattern(7_000)), 1);
    assert_eq!(origin.count("/stale"), 2, "it was validated");
    proxy.stop();
}

/// Long ones are received where they lie in their record, short ones are copied there; a fragment ends within what came at once.
#[test]
fn bodies_of_every_length_are_the_same_from_origin_memory_and_disk() {
    const KIB: usize = 1 << 10;
    const MIB: usize = 1 << 20;
    let lengths = [
        256 * KIB - 1,
        256 * KIB,
        700_001,
        MIB - 1,
        MIB,
        MIB + 1,
        MIB + 256 * KIB,
        3 * MIB,
        3 * MIB + 300_000,
    ];
    let origin = Origin::start(move |exchange| {
        let length: usize = exchange.path()[1..].parse().unwrap();
        let field = format!("Content-Length: {length}");
        let body = pattern(length);
        // The head comes with some of the body, and that in pieces of no length in particular.
        let mut first = head("200 OK", &[FRESH, &field]);
        first.extend_from_slice(&body[..10_000]);
        exchange.send(&first);
        for piece in body[10_000..].chunks(123_457) {
            exchange.send(piece);
        }
    });
    let disk = Disk::of_mib(512);
    for memory_bytes in [64 << 20, 0] {
        let mut plan = disk.under(plan_for(&origin));
        plan.memory_bytes = memory_bytes;
        plan.limits.memory_object_bytes_max = 4 << 20;
        let proxy = Proxy::start(plan);
        for length in lengths {
            for _ in 0..2 {
                let answer = proxy.get(&format!("/{length}"));
                assert_same(&answer.body, &pattern(length));
            }
        }
        proxy.stop();
    }
    for length in lengths {
        assert_eq!(origin.count(&format!("/{length}")), 1, "{length}");
    }
}
