//! What a front fetches goes to a member that keeps it: as the member would have stored it, unless it was purged meanwhile, and
//! whatever becomes of the member.

use std::{net::SocketAddr, time::Duration};

use ::proxy::{Clock, plan::Plan};

use crate::harness::{
    cluster::{self, addresses, await_hint, cluster, member},
    *,
};

/// The Host of the harness's requests.
const SITE: &str = "http://test.example";

/// An origin whose bodies tell their path; `/NUMBER` has so many bytes.
fn origin() -> Origin {
    Origin::start(|exchange| {
        let body = body_of(exchange.path());
        exchange.send(ok(&[FRESH, "ETag: \"1\""], body));
    })
}

fn body_of(path: &str) -> Vec<u8> {
    let digits = path.trim_start_matches('/').split('?').next().unwrap();
    match digits.parse() {
        Ok(bytes) => pattern(bytes),
        Err(_) => path.as_bytes().to_vec(),
    }
}

/// The plan as that of a front that pushes.
fn front(plan: Plan, number: usize, all: &[SocketAddr]) -> Plan {
    let mut plan = cluster::front(plan, number, all);
    cluster(&mut plan).push_max_bytes = 1 << 20;
    plan
}

/// A member with a store, and a front without one.
struct Pair {
    origin: Origin,
    node: Proxy,
    front: Proxy,
    _disk: Disk,
}

fn pair_at(origin: Origin, clock: Clock, set: impl FnOnce(&mut Plan)) -> Pair {
    let all = addresses(2);
    let disk = Disk::of_mib(64);
    let plan = disk.under(member(plan_for(&origin), 0, &all));
    let node = Proxy::start_at(plan, clock.clone());
    let mut plan = front(plan_for(&origin), 1, &all);
    set(&mut plan);
    let front = Proxy::start_at(plan, clock);
    await_member(&front, 1);
    Pair {
        origin,
        node,
        front,
        _disk: disk,
    }
}

/// What members and the front have said of the answer.
fn said(answer: &Response) -> String {
    answer.fields.all("cache-status").join(", ")
}

/// Until so many members take what this front pushes: until it has heard their beats.
fn await_member(front: &Proxy, members: usize) {
    eventually("members have been heard", || {
        let status = front.admin("GET", "/cluster/route?url=http://test.example/nothing");
        let heard = status.text().matches("does not seem to have it").count();
        (heard >= members).then_some(())
    });
}

/// Until this counter of a proxy has this value.
#[track_caller]
fn await_count(proxy: &Proxy, name: &str, count: u64) {
    let mut is = 0;
    eventually(&format!("{name} {count}"), || {
        is = proxy.counter(name);
        (is >= count).then_some(())
    });
    assert_eq!(is, count, "{name}");
}

#[test]
fn a_hint_is_there_as_soon_as_the_push_begins() {
    let pair = pair_at(origin(), Clock::default(), |plan| {
        cluster(plan).update_period = Duration::from_secs(3600);
    });
    pair.front.get("/eager");
    await_hint(&pair.front, &format!("{SITE}/eager"), "n1");
}

#[test]
fn what_is_too_long_is_left_to_a_member_the_next_time() {
    let pair = pair_at(origin(), Clock::default(), |plan| {
        cluster(plan).push_max_bytes = 100_000;
    });
    let path = "/300000";
    assert_same(&pair.front.get(path).body, &body_of(path));
    await_count(&pair.front, "cluster_pushes_too_long", 1);
    assert_eq!(pair.node.counter("cluster_pushed_stored"), 0);
    for _ in 0..2 {
        assert_same(&pair.front.get(path).body, &body_of(path));
    }
    assert_eq!(pair.origin.count(path), 2);
    assert!(pair.node.get(path).is_hit());
    assert_eq!(pair.front.counter("cluster_pushes_too_long"), 1);
}

#[test]
fn what_is_hot_is_kept_by_the_front_until_it_is_purged() {
    let origin = origin();
    let all = addresses(3);
    let disks = [Disk::of_mib(64), Disk::of_mib(64)];
    let nodes = [0, 1].map(|n| Proxy::start(disks[n].under(member(plan_for(&origin), n, &all))));
    let mut plan = front(plan_for(&origin), 2, &all);
    plan.memory_bytes = 64 << 20;
    cluster(&mut plan).hot_rate = 10;
    let front = Proxy::start(plan);
    await_member(&front, 2);
    nodes[0].get("/1000");
    await_hint(&front, &format!("{SITE}/1000"), "n1");
    eventually("the front keeps a copy", || {
        let answer = front.get("/1000");
        assert_same(&answer.body, &body_of("/1000"));
        (!said(&answer).contains("detail=hint")).then_some(())
    });
    assert_eq!(origin.count("/1000"), 1);
    let purged = front.admin("DELETE", &format!("/cache?url={SITE}/1000"));
    assert_eq!(purged.status, 200, "{}", purged.text());
    let answer = front.get("/1000");
    assert!(
        !said(&answer).starts_with("loligo; hit; ttl") || said(&answer).contains("detail"),
        "{}",
        said(&answer)
    );
    assert_same(&answer.body, &body_of("/1000"));
}
