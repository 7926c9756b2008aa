//! Who waits for another's fetch: how many, and for how long.

use std::time::{Duration, Instant};

use super::harness::{running::with_admin, *};

#[test]
fn those_that_find_no_place_share_another_fetch() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        held.pass();
        exchange.send(ok(&[FRESH], "hello"));
    });
    let mut plan = with_admin(plan_for(&origin));
    plan.limits.waiters_max = 3;
    let proxy = Proxy::start(plan);
    let mut clients: Vec<_> = (0..8).map(|_| proxy.client()).collect();
    for client in &mut clients {
        client.ask("GET", "/a", &[]);
    }
    // One fetch for three each, and one for the two behind.
    gate.arrived(3);
    eventually("all of the others wait", || {
        (proxy.counter("flights_joined") == 5).then_some(())
    });
    gate.open();
    for client in &mut clients {
        assert_eq!(client.read("GET").text(), "hello");
    }
    assert_eq!(origin.count("/a"), 3);
    assert!(proxy.get("/a").is_hit());
}

#[test]
fn nobody_waits_longer_than_for_an_origin() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        held.pass();
        exchange.close();
    });
    let mut plan = plan_for(&origin);
    plan.timeouts.origin_first_byte = Duration::from_secs(2);
    let proxy = Proxy::start(plan);
    let began = Instant::now();
    let mut clients: Vec<_> = (0..4).map(|_| proxy.client()).collect();
    for client in &mut clients {
        client.ask("GET", "/a", &[]);
    }
    for client in &mut clients {
        assert_eq!(client.read("GET").status, 504);
    }
    assert!(began.elapsed() < PATIENCE / 2, "not as long as the origin");
    assert_eq!(origin.count("/a"), 1, "a time-out is one for all");
    gate.open();
}
