//! What many may take together, and the slow: heads without an end, bodies that nobody reads.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::crowded::rest_of;
use crate::harness::{running::with_admin, *};

/// A gauge by its name in `/metrics`.
pub fn gauge(proxy: &Proxy, name: &str) -> u64 {
    let answer = proxy.admin("GET", "/metrics");
    let name = format!("loligo_{name} ");
    let value = answer.text().lines().find_map(|l| l.strip_prefix(&name));
    value.expect("it is exposed").parse().unwrap()
}

/// A request head without an end.
fn unfinished(bytes: usize) -> String {
    let start = "GET /a HTTP/1.1\r\nHost: a\r\n";
    let lines = (0..).map(|n| format!("X-{n}: {}\r\n", "y".repeat(1000)));
    let mut head = start.to_owned();
    head.extend(lines.take(bytes / 1010));
    head
}

const MIB: u64 = 1 << 20;

#[test]
fn heads_without_an_end_have_a_budget_and_others_do_not_suffer() {
    let origin = Origin::sending(ok(&[FRESH], "whole"));
    for workers in [1, 2] {
        let mut plan = with_admin(plan_for(&origin));
        plan.workers = workers;
        plan.limits.head_buffer_bytes = MIB;
        let proxy = Proxy::start(plan);
        // An ordinary request, of which half has come.
        let mut ordinary = proxy.client();
        ordinary.send("GET /a HTTP/1.1\r\nHost: a\r\n");
        let mut greedy: Vec<Client> = (0..300).map(|_| proxy.client()).collect();
        for client in &mut greedy {
            client.wire.send(unfinished(14_000));
        }
        eventually("some of them have gone", || {
            let kept = gauge(&proxy, "head_bytes");
            (proxy.counter("heads_shed") >= 200 && kept <= MIB).then_some(())
        });
        ordinary.send("\r\n");
        assert_eq!(ordinary.read("GET").text(), "whole");
        let answer = greedy.swap_remove(0).read("GET");
        assert!(matches!(answer.status, 408 | 431), "{}", answer.status);
        // Nothing is left of those that have left.
        drop(greedy);
        eventually("it is all given back", || {
            (gauge(&proxy, "head_bytes") == 0).then_some(())
        });
        assert_eq!(proxy.get("/a").text(), "whole");
    }
}

#[test]
fn what_comes_behind_requests_counts_too() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        held.pass();
        exchange.send(ok(&["Cache-Control: no-store"], "whole"));
    });
    let mut plan = with_admin(plan_for(&origin));
    plan.limits.head_buffer_bytes = MIB;
    let proxy = Proxy::start(plan);
    let mut clients: Vec<Client> = (0..100).map(|_| proxy.client()).collect();
    let further =
        client::request("GET", "/b", &[&format!("X: {}", "y".repeat(6_000))], "").repeat(5);
    for (n, client) in clients.iter_mut().enumerate() {
        client
            .wire
            .send(client::request("GET", &format!("/{n}"), &[], "") + &further);
    }
    eventually("some are refused", || {
        (proxy.counter("heads_shed") > 0).then_some(())
    });
    assert!(gauge(&proxy, "head_bytes") < 2 * MIB);
    drop(clients);
    gate.open();
}

/// The beginning of a body that came with the head is counted until the origin has taken it, not as long as the upload lasts.
#[test]
fn an_upload_does_not_stay_counted() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        exchange.body();
        held.pass();
        exchange.send(ok(&["Cache-Control: no-store"], "whole"));
    });
    let proxy = Proxy::start(with_admin(plan_for(&origin)));
    let mut clients: Vec<Client> = (0..8).map(|_| proxy.client()).collect();
    let fields = ["Content-Length: 30000"];
    for client in &mut clients {
        let begun = client::request("POST", "/a", &fields, "") + &"y".repeat(20_000);
        client.wire.send(begun);
    }
    // All have been seen, and none is through.
    eventually("all are asked for", || {
        (proxy.counter("origin_connections") == 8).then_some(())
    });
    eventually("nothing is counted any more", || {
        (gauge(&proxy, "head_bytes") == 0).then_some(())
    });
    for client in &mut clients {
        client.wire.send("y".repeat(10_000));
    }
    gate.open();
    for mut client in clients {
        assert_eq!(client.read("POST").text(), "whole");
    }
}

#[test]
fn how_long_a_head_may_be() {
    let long = format!("X: {}", "y".repeat(20_000));
    let origin = Origin::start({
        let long = format!("X: {}", "y".repeat(60_000));
        move |exchange| exchange.send(ok(&[FRESH, &long], "whole"))
    });
    let proxy = Proxy::before(&origin);
    let answer = proxy.get("/a");
    assert_eq!((answer.status, answer.text()), (200, "whole"));
    assert_eq!(proxy.ask("GET", "/a", &[&long]).status, 431);
    let long = format!("X: {}", "y".repeat(15_000));
    assert_eq!(proxy.ask("GET", "/a", &[&long]).status, 200);
}

/// How long what dribbles in lasts if nobody ends it, on a machine that has other things to do, too.
const DRIBBLED: Duration = Duration::from_secs(60);
/// When it has been ended by its limit of a second, and not by itself.
const SOON: Duration = Duration::from_secs(30);

/// Sends a byte at a time, faster than any single wait is long, as long as somebody listens.
fn dribble(wire: &mut wire::Wire) {
    let began = Instant::now();
    while began.elapsed() < DRIBBLED && wire.send("y") {
        thread::sleep(Duration::from_millis(40));
    }
}

#[test]
fn a_head_that_dribbles_in_from_a_client_has_an_end() {
    let origin = Origin::sending(ok(&[FRESH], "whole"));
    let mut plan = plan_for(&origin);
    plan.timeouts.client_head = Duration::from_secs(1);
    let proxy = Proxy::start(plan);
    let mut client = proxy.client();
    let mut writing = wire::Wire::new(client.wire.stream().try_clone().unwrap());
    let began = Instant::now();
    let writer = thread::spawn(move || {
        writing.send("GET /a HTTP/1.1\r\nHost: a\r\nX: ");
        dribble(&mut writing);
    });
    assert_eq!(client.read_whatever("GET").status, 408);
    assert!(began.elapsed() < SOON);
    drop(client);
    writer.join().unwrap();
}

#[test]
fn a_head_that_dribbles_in_from_an_origin_has_an_end() {
    let origin = Origin::start(|exchange| {
        if exchange.path().ends_with("hints") {
            // Each interim response has a time of its own; there are not many.
            for _ in 0..600 {
                if !(exchange.wire).send(head("103 Early Hints", &["Link: </a>"])) {
                    return exchange.close();
                }
                thread::sleep(Duration::from_millis(100));
            }
        }
        exchange.send("HTTP/1.1 200 OK\r\nX: ");
        dribble(&mut exchange.wire);
        exchange.close();
    });
    let mut plan = plan_for(&origin);
    plan.timeouts.origin_first_byte = Duration::from_secs(1);
    let proxy = Proxy::start(plan);
    let upgrade = &["Connection: upgrade", "Upgrade: x"][..];
    let asked = [
        ("GET", "/a", &[][..], 504),
        ("HEAD", "/b", &[], 504),
        ("GET", "/c", upgrade, 504),
        ("GET", "/d", &["Range: bytes=0-1"], 504),
        ("POST", "/e", &["Content-Length: 0"], 504),
        ("GET", "/hints", &[], 502),
    ];
    let askers = asked.map(|(method, path, fields, status)| {
        let mut client = proxy.client();
        thread::spawn(move || {
            let began = Instant::now();
            client.ask(method, path, fields);
            let answer = loop {
                let head = client.read_head();
                if head.status >= 200 {
                    break head;
                }
            };
            assert_eq!(answer.status, status, "{method} {path}");
            assert!(began.elapsed() < SOON, "{method} {path}");
        })
    });
    for asker in askers {
        asker.join().unwrap();
    }
}

#[test]
fn who_takes_nothing_is_reset_and_counted() {
    let body = pattern(16 << 20);
    let origin = Origin::sending(ok(&[FRESH], &body));
    for memory in [0, 64 * MIB] {
        let mut plan = with_admin(plan_for(&origin));
        plan.memory_bytes = memory;
        plan.limits.memory_object_bytes_max = 32 * MIB;
        plan.timeouts.client_write = Duration::from_secs(1);
        let proxy = Proxy::start(plan);
        if memory > 0 {
            assert_same(&proxy.get("/a").body, &body);
        }
        let mut client = proxy.client();
        client.ask("GET", "/a", &[]);
        eventually("it is cut", || {
            (proxy.counter("client_connections_slow") == 1).then_some(())
        });
        // What the kernel has of it is gone with the reset.
        let (_, end) = client.wire.read_to_end();
        assert_eq!(end, End::Reset);
    }
}

#[test]
fn fragments_that_nobody_takes_are_given_back_and_read_again() {
    // Each holds a fragment of 512 KiB; there is room for four of them. Had all come at once, each might have had a part alone.
    const AT_ONCE: usize = 4;
    let body = pattern(20 << 20);
    let origin = Origin::sending(ok(&[FRESH], &body));
    let disk = Disk::of_mib(512);
    let mut plan = with_admin(disk.under(plan_for(&origin)));
    plan.memory_bytes = MIB;
    plan.limits.transfer_buffer_bytes = 4 * MIB;
    let proxy = Proxy::start(plan);
    assert_same(&proxy.get("/a").body, &body);
    let mut clients: Vec<Client> = Vec::new();
    for _ in 0..2 {
        for _ in 0..AT_ONCE {
            clients.push(proxy.client());
            clients.last_mut().unwrap().ask("GET", "/a", &[]);
        }
        rest_of(&proxy, "disk_reads");
    }
    eventually("some are given back", || {
        let given_back = proxy.counter("fragments_given_back") >= 1;
        (given_back && gauge(&proxy, "transfer_bytes") <= 2 * MIB).then_some(())
    });
    // What is fetched meanwhile is stored all the same.
    assert!(proxy.get("/b").cache().ends_with("; stored"));
    // Others are served as if nothing was, and nobody gets less than all.
    assert_same(&proxy.get("/a").body, &body);
    for client in clients.iter_mut().take(2) {
        let answer = client.read("GET");
        assert!(answer.is_hit());
        assert_same(&answer.body, &body);
    }
    assert_eq!(origin.count("/a"), 1);
}

/// A body of 600 KiB has a room of its own, of which the smallest buffer has one; the others are received in pieces.
#[test]
fn bodies_that_do_not_end_hold_no_more_than_the_buffer_has_for_them() {
    const CLIENTS: usize = 8;
    let body = pattern(600 << 10);
    let gate = Gate::new();
    let held = gate.clone();
    let (front, back) = (
        body[..body.len() - 1].to_vec(),
        body[body.len() - 1..].to_vec(),
    );
    let origin = Origin::start(move |exchange| {
        let length = format!("Content-Length: {}", front.len() + 1);
        exchange.send(head("200 OK", &[FRESH, &length]));
        exchange.send(&front);
        held.pass();
        exchange.send(&back);
    });
    let disk = Disk::of_mib(1024);
    let mut plan = with_admin(disk.under(plan_for(&origin)));
    plan.limits.transfer_buffer_bytes = 4 * MIB;
    plan.memory_bytes = MIB;
    let proxy = Proxy::start(plan);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| proxy.client()).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        client.ask("GET", &format!("/{n}"), &[]);
    }
    gate.arrived(CLIENTS);
    eventually("one has a room", || {
        (gauge(&proxy, "room_bytes") > 600 << 10).then_some(())
    });
    assert!(gauge(&proxy, "room_bytes") <= MIB);
    gate.open();
    for client in &mut clients {
        assert_same(&client.read("GET").body, &body);
    }
    for n in 0..CLIENTS {
        // All come to the disk at once, and what it has no room for within a second is stored by the next request.
        eventually("it is stored", || {
            let again = proxy.get(&format!("/{n}"));
            assert_same(&again.body, &body);
            again.is_hit().then_some(())
        });
    }
    assert!(gauge(&proxy, "room_bytes") <= MIB);
}
