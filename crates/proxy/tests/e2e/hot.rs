//! Large objects that are asked for again: their fragments come from memory, and are those of what is stored now.

use std::sync::atomic::{AtomicU8, Ordering};

use proxy::plan::Plan;

use super::{
    budgets::gauge,
    harness::{running::with_admin, *},
    ranges::{TAG, ask_range, asked, expect_part, ranged, serve},
};

const MIB: u64 = 1 << 20;
/// Some fragments, and a part of one.
const LEN: usize = (3 << 20) + 12_345;

/// Fragments of almost a quarter of a mebibyte, and memory for many of them.
fn told(disk: &Disk, origin: &Origin) -> Plan {
    let mut plan = with_admin(disk.under(plan_for(origin)));
    plan.memory_bytes = 64 * MIB;
    plan
}

/// Another body each time.
fn changing() -> Origin {
    let times = AtomicU8::new(0);
    Origin::start(move |exchange| {
        let body = salted_pattern(LEN, times.fetch_add(1, Ordering::SeqCst));
        exchange.send(ok(&[FRESH], body));
    })
}

/// Read so often that all of it is in memory.
fn heat(proxy: &Proxy, path: &str, body: &[u8]) {
    for _ in 0..4 {
        assert_same(&proxy.get(path).body, body);
    }
    let before = proxy.counter("disk_reads");
    let answer = proxy.get(path);
    assert!(answer.is_hit());
    assert_same(&answer.body, body);
    assert_eq!(proxy.counter("disk_reads"), before, "all from memory");
}

#[test]
fn pages_go_to_other_machines_and_copies_to_clients_here() {
    for sends_pages_here in [false, true] {
        let body = pattern(LEN);
        let origin = ranged(body.clone(), &[FRESH, TAG]);
        let disk = Disk::of_mib(256);
        let mut plan = told(&disk, &origin);
        plan.sends_pages_here = sends_pages_here;
        let proxy = Proxy::start(plan);
        heat(&proxy, "/a", &body);
        let before = proxy.counter("body_bytes_uncopied");
        // All that was asked for is under way before the client reads anything.
        let mut client = proxy.client();
        for _ in 0..4 {
            client.ask("GET", "/a", &[]);
        }
        for _ in 0..4 {
            assert_same(&client.read("GET").body, &body);
        }
        let part = ask_range(&mut client, "/a", "bytes=1000000-1999999");
        expect_part(&part, &body, (1_000_000, 1_999_999));
        let sent = 4 * LEN as u64 + 1_000_000;
        let uncopied = proxy.counter("body_bytes_uncopied") - before;
        match sends_pages_here {
            // Short pieces are copied: the last fragment has one.
            true => assert!(uncopied > sent * 9 / 10, "{uncopied} of {sent}"),
            false => assert_eq!(uncopied, 0),
        }
        proxy.stop();
    }
}

#[test]
fn a_quick_client_alone_is_read_ahead_for() {
    let body = pattern(LEN);
    let origin = ranged(body.clone(), &[FRESH, TAG]);
    let disk = Disk::of_mib(256);
    let mut plan = told(&disk, &origin);
    plan.memory_bytes = 0;
    let proxy = Proxy::start(plan);
    assert_same(&proxy.get("/a").body, &body);
    let before = proxy.counter("fragments_read_ahead");
    // The first is not, and what was sent may have taken long here.
    let ahead = eventually("something is read ahead", || {
        let answer = proxy.get("/a");
        assert!(answer.is_hit());
        assert_same(&answer.body, &body);
        let ahead = proxy.counter("fragments_read_ahead") - before;
        (ahead > 0).then_some(ahead)
    });
    assert!(ahead <= (LEN as u64).div_ceil(MIB / 5), "{ahead}");
    proxy.stop();
}

#[test]
fn what_is_hot_is_not_read_from_the_disk() {
    let body = pattern(LEN);
    let origin = ranged(body.clone(), &[FRESH, TAG]);
    let disk = Disk::of_mib(256);
    let proxy = Proxy::start(told(&disk, &origin));
    heat(&proxy, "/a", &body);
    assert!(proxy.counter("memory_fragment_served_bytes") >= LEN as u64);
    let before = proxy.counter("disk_reads");
    let mut client = proxy.client();
    for (first, last) in [(0, 99), (1_000_000, 1_999_999), (LEN - 5, LEN - 1)] {
        let answer = ask_range(&mut client, "/a", &format!("bytes={first}-{last}"));
        expect_part(&answer, &body, (first, last));
    }
    assert_eq!(proxy.counter("disk_reads"), before);
    assert_eq!(asked(&origin), ["all"]);
    proxy.stop();
}

#[test]
fn what_is_in_memory_alone_is_not_asked_for_again() {
    let body = pattern(LEN);
    let origin = Origin::start(move |exchange| match exchange.path() {
        "/a" => serve(exchange, &pattern(LEN), &[FRESH, TAG]),
        _ => exchange.send(ok(&[FRESH], pattern(LEN))),
    });
    let disk = Disk::of_mib(24);
    let proxy = Proxy::start(told(&disk, &origin));
    heat(&proxy, "/a", &body);
    // The store is written over, and the memory is not.
    for n in 0..20 {
        proxy.get(&format!("/{n}"));
    }
    let before = proxy.counter("disk_reads");
    let answer = proxy.get("/a");
    assert_same(&answer.body, &body);
    assert!(answer.is_hit(), "{}", answer.cache());
    let part = ask_range(&mut proxy.client(), "/a", "bytes=5-2000000");
    expect_part(&part, &body, (5, 2_000_000));
    assert_eq!(proxy.counter("disk_reads"), before);
    assert_eq!(origin.count("/a"), 1);
    proxy.stop();
}

#[test]
fn a_purged_object_is_not_served_from_its_fragments() {
    let origin = changing();
    let disk = Disk::of_mib(256);
    let proxy = Proxy::start(told(&disk, &origin));
    for fetched in 0..3 {
        heat(&proxy, "/a", &salted_pattern(LEN, fetched));
        assert_eq!(
            proxy
                .admin("DELETE", "/cache?prefix=http://test.example/")
                .status,
            200
        );
    }
    assert_eq!(origin.count("/a"), 3);
    proxy.stop();
}

#[test]
fn an_object_that_was_replaced_is_not_served_from_its_fragments() {
    let origin = changing();
    let disk = Disk::of_mib(256);
    let proxy = Proxy::start(told(&disk, &origin));
    heat(&proxy, "/a", &salted_pattern(LEN, 0));
    for fetched in 1..4 {
        let body = salted_pattern(LEN, fetched);
        let answer = proxy.ask("GET", "/a", &["Cache-Control: no-cache"]);
        assert_same(&answer.body, &body);
        // The first reads after it, too.
        let (first, last) = (100_000, 800_000);
        let answer = ask_range(&mut proxy.client(), "/a", "bytes=100000-800000");
        expect_part(&answer, &body, (first, last));
        heat(&proxy, "/a", &body);
    }
    proxy.stop();
}

#[test]
fn who_has_all_of_an_answer_finds_it_stored() {
    let len = |path: &str| 50_000 * path[1..].parse::<usize>().unwrap();
    let origin = Origin::start(move |exchange| {
        let body = pattern(len(exchange.path()));
        exchange.send(ok(&[FRESH], body));
    });
    let disk = Disk::of_mib(256);
    let proxy = Proxy::start(told(&disk, &origin));
    // Each on a connection of its own, and so perhaps on another worker.
    for n in 1..80 {
        let path = format!("/{n}");
        assert_same(&proxy.get(&path).body, &pattern(len(&path)));
        let again = proxy.get(&path);
        assert!(again.is_hit(), "{path}: {}", again.cache());
    }
    proxy.stop();
}

#[test]
fn slow_clients_get_their_bytes_after_others_have_taken_the_room() {
    const OBJECTS: usize = 40;
    let origin = Origin::start(|exchange| {
        let salt: u8 = exchange.path()[1..].parse().unwrap();
        exchange.send(ok(&[FRESH], salted_pattern(LEN, salt)));
    });
    let disk = Disk::of_mib(512);
    let mut plan = told(&disk, &origin);
    plan.memory_bytes = 16 * MIB;
    let proxy = Proxy::start(plan);
    heat(&proxy, "/0", &salted_pattern(LEN, 0));
    let mut slow: Vec<Client> = (0..8).map(|_| proxy.client()).collect();
    for client in &mut slow {
        client.ask("GET", "/0", &[]);
    }
    // As much as the sockets take is under way.
    eventually("all are served", || {
        let served = proxy.counter("memory_fragment_served_bytes");
        (served >= LEN as u64 + 8 * MIB / 4).then_some(())
    });
    for salt in 1..OBJECTS {
        let path = format!("/{salt}");
        for _ in 0..3 {
            assert_same(&proxy.get(&path).body, &salted_pattern(LEN, salt as u8));
        }
    }
    assert!(proxy.counter("memory_fragments_evicted") > 0);
    let bytes = gauge(&proxy, "memory_bytes");
    assert!(bytes <= 16 * MIB, "{bytes}");
    for client in &mut slow {
        assert_same(&client.read("GET").body, &salted_pattern(LEN, 0));
    }
    proxy.stop();
}

#[test]
fn a_long_download_leaves_small_objects_in_memory() {
    let large = pattern(40 << 20);
    let origin = Origin::start(move |exchange| match exchange.path() {
        "/large" => exchange.send(ok(&[FRESH], &large)),
        _ => exchange.send(ok(&[FRESH], pattern(10_000))),
    });
    let disk = Disk::of_mib(512);
    let mut plan = told(&disk, &origin);
    plan.memory_bytes = 8 * MIB;
    let proxy = Proxy::start(plan);
    let small: Vec<String> = (0..400).map(|n| format!("/{n}")).collect();
    let in_memory = || {
        let before = proxy.counter("disk_reads");
        let mut client = proxy.client();
        for path in &small {
            assert_eq!(client.get(path).body.len(), 10_000);
        }
        proxy.counter("disk_reads") == before
    };
    eventually("all are in memory", || in_memory().then_some(()));
    for _ in 0..3 {
        assert_eq!(proxy.get("/large").body.len(), 40 << 20);
    }
    assert!(in_memory(), "they still are");
    proxy.stop();
}
