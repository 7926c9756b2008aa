//! More bodies on their way than there is memory for: what is held, who waits, who goes.

use std::time::{Duration, Instant};

use super::budgets::gauge;
use crate::{
    harness::{
        Client, Origin, PATIENCE, Proxy, assert_same, eventually, ok, pattern, plan_for,
        running::with_admin,
    },
    http2_client::speaking,
    http2_raw::{Raw, get},
};

const MIB: u64 = 1 << 20;
const BUDGET: u64 = 4 * MIB;
const INITIAL_WINDOW_SIZE: u16 = 4;

/// With [`BUDGET`] for bodies on their way.
fn tight(origin: &Origin) -> Proxy {
    let mut plan = speaking(with_admin(plan_for(origin)));
    plan.memory_bytes = MIB;
    plan.limits.transfer_buffer_bytes = BUDGET;
    Proxy::start(plan)
}

/// What this counter comes to rest at.
fn rest_of(proxy: &Proxy, counter: &str) -> u64 {
    let (mut last, mut since) = (proxy.counter(counter), Instant::now());
    eventually("it comes to rest", || {
        let now = proxy.counter(counter);
        if now != last {
            (last, since) = (now, Instant::now());
        }
        (since.elapsed() > Duration::from_secs(1)).then_some(last)
    })
}

/// The windows are closed, so nothing of a body leaves the proxy: what has come from the origin is what it holds.
#[test]
fn streams_that_take_nothing_hold_what_the_buffer_has_for_them_and_make_room() {
    const CONNECTIONS: usize = 8;
    const STREAMS: u32 = 50;
    let body = pattern(200_000);
    let origin = Origin::sending(ok(&["Cache-Control: no-store"], &body));
    let proxy = tight(&origin);
    let mut attackers: Vec<Raw> = (0..CONNECTIONS)
        .map(|_| Raw::connect_with(proxy.address(), &[(INITIAL_WINDOW_SIZE, 0)]))
        .collect();
    for (nth, raw) in attackers.iter_mut().enumerate() {
        for stream in 0..STREAMS {
            raw.send(&get(2 * stream + 1, &format!("/{nth}/{stream}")));
        }
    }
    let held = rest_of(&proxy, "origin_bytes");
    let streams = CONNECTIONS as u64 * u64::from(STREAMS);
    assert!(held <= BUDGET + streams * 4096, "{held} bytes are held");
    let counted = gauge(&proxy, "transfer_bytes");
    assert!(counted >= held * 9 / 10, "{counted} of {held} are counted");
    // One who holds nothing has what it asks for.
    let began = Instant::now();
    assert_same(&proxy.get("/small").body, &body);
    assert!(began.elapsed() < PATIENCE / 4);
    // Those who hold much and take nothing go; one who is served was not touched.
    eventually("some are cut", || {
        (proxy.counter("transfers_cut") > 0).then_some(())
    });
}

#[test]
fn slow_readers_wait_for_room_and_have_all_of_their_bodies() {
    // More than the kernel takes for a client that reads nothing.
    let body = pattern(12 << 20);
    let origin = Origin::sending(ok(&["Cache-Control: no-store"], &body));
    let proxy = tight(&origin);
    let mut clients: Vec<Client> = (0..12).map(|_| proxy.client()).collect();
    for (nth, client) in clients.iter_mut().enumerate() {
        client.ask("GET", &format!("/{nth}"), &[]);
    }
    eventually("it is crowded, or all wait", || {
        (proxy.counter("origin_bytes") > 12 * MIB).then_some(())
    });
    assert!(gauge(&proxy, "transfer_bytes") <= BUDGET);
    std::thread::scope(|scope| {
        for client in clients {
            let body = &body;
            scope.spawn(move || {
                let mut client = client;
                assert_same(&client.read("GET").body, body);
            });
        }
    });
    assert_eq!(proxy.counter("transfers_cut"), 0);
}

/// Many who read one stored object hold parts of it while there is little room, not a whole fragment each.
#[test]
fn readers_of_a_stored_body_hold_small_parts_of_it() {
    use crate::harness::{Disk, FRESH};
    const CLIENTS: usize = 24;
    let body = pattern(16 << 20);
    let origin = Origin::sending(ok(&[FRESH], &body));
    let disk = Disk::of_mib(512);
    let mut plan = with_admin(disk.under(plan_for(&origin)));
    plan.memory_bytes = MIB;
    plan.limits.transfer_buffer_bytes = BUDGET;
    let proxy = Proxy::start(plan);
    assert_same(&proxy.get("/a").body, &body);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| proxy.client()).collect();
    for client in &mut clients {
        client.ask("GET", "/a", &[]);
    }
    let mut most = 0;
    let began = Instant::now();
    std::thread::scope(|scope| {
        for client in &mut clients {
            let body = &body;
            // Slowly at first: each takes a little again and again.
            scope.spawn(move || {
                let head = client.read_head();
                assert_eq!(head.status, 200);
                let mut came = Vec::new();
                while came.len() < body.len() {
                    let left = body.len() - came.len();
                    came.extend(client.bytes(left.min(256 << 10)));
                }
                assert_same(&came, body);
            });
        }
        while began.elapsed() < Duration::from_millis(500) {
            most = most.max(gauge(&proxy, "transfer_bytes"));
        }
    });
    assert!(most <= 2 * BUDGET, "{most} bytes were held");
    assert_eq!(proxy.counter("transfers_cut"), 0);
    assert_eq!(origin.count("/a"), 1);
}
