//! Large downloads that a purge overtakes: what began before it ends whole, what begins after it is new.

use super::harness::{running::with_admin, *};

const LARGE: usize = 20 << 20;
const TAGS: &str = "Cache-Tag: red";

/// The body of a version: no two agree anywhere.
fn version(n: u8) -> Vec<u8> {
    salted_pattern(LARGE, n)
}

/// How `/a` is purged, and whether the origin is told.
const PURGES: &[&str] = &["url", "prefix", "tag", "soft", "POST"];

fn purge(proxy: &Proxy, how: &str) {
    // The name that the clients of these tests ask for.
    let url = "http://test.example/a";
    if how == "POST" {
        assert_eq!(proxy.ask("POST", "/a", &[]).status, 200);
        return;
    }
    let query = match how {
        "url" => format!("url={url}"),
        "prefix" => format!("prefix={url}"),
        "soft" => format!("soft=1&prefix={url}"),
        _ => "tag=red".to_owned(),
    };
    let answer = proxy.admin("DELETE", &format!("/cache?{query}"));
    assert_eq!(answer.status, 200, "{how}: {}", answer.text());
}

fn plan_with(origin: &Origin, disk: &Disk) -> ::proxy::plan::Plan {
    let mut plan = with_admin(disk.under(plan_for(origin)));
    // The slow ones stand still until the test reads on.
    plan.timeouts.client_write = std::time::Duration::from_secs(600);
    plan
}

/// The old version until the purge, then the new one.
fn changing() -> Origin {
    let is_new = std::sync::atomic::AtomicBool::new(false);
    Origin::start(move |exchange| {
        use std::sync::atomic::Ordering::SeqCst;
        if exchange.path() == "/change" || exchange.request.method == "POST" {
            is_new.store(true, SeqCst);
            return exchange.send(ok(&[], "done"));
        }
        let n = u8::from(is_new.load(SeqCst));
        let tag = format!("ETag: \"{n}\"");
        exchange.send(ok(&[FRESH, TAGS, &tag], version(n)));
    })
}

/// A client that has read the head and a bit of the body.
fn begun(proxy: &Proxy) -> (Client, Response) {
    let mut client = proxy.client();
    client.ask("GET", "/a", &[]);
    let mut head = client.read_head();
    head.body = client.bytes(100);
    (client, head)
}

#[track_caller]
fn assert_ends_whole((mut client, head): (Client, Response), n: u8, what: &str) {
    let length: usize = head.field("content-length").unwrap().parse().unwrap();
    assert_eq!(length, LARGE);
    let (rest, end) = client.wire.exactly(LARGE - head.body.len());
    let got = head.body.len() + rest.len();
    assert_eq!(got, LARGE, "{what}: cut, {end:?}");
    assert_same(&[head.body, rest].concat(), &version(n));
}

#[test]
fn what_is_sent_from_disk_before_a_purge_ends_whole() {
    for how in PURGES {
        let origin = changing();
        let disk = Disk::of_mib(128);
        let proxy = Proxy::start(plan_with(&origin, &disk));
        assert_same(&proxy.get("/a").body, &version(0));
        let early = begun(&proxy);
        assert!(early.1.is_hit());
        proxy.get("/change");
        purge(&proxy, how);
        assert_ends_whole(begun(&proxy), 1, how);
        let late = begun(&proxy);
        assert_ends_whole(early, 0, how);
        assert_ends_whole(late, 1, how);
        assert_eq!(origin.count("/a"), if *how == "POST" { 3 } else { 2 });
    }
}

/// Also where everything is written anew meanwhile: what is being sent keeps its place.
#[test]
fn it_ends_whole_though_the_store_is_filled_with_other_things() {
    let origin = {
        let is_new = std::sync::atomic::AtomicBool::new(false);
        Origin::start(move |exchange| {
            use std::sync::atomic::Ordering::SeqCst;
            match exchange.path() {
                "/change" => {
                    is_new.store(true, SeqCst);
                    exchange.send(ok(&[], "done"));
                }
                "/a" => {
                    let n = u8::from(is_new.load(SeqCst));
                    let tag = format!("ETag: \"{n}\"");
                    exchange.send(ok(&[FRESH, &tag], version(n)));
                }
                _ => exchange.send(ok(&[FRESH], pattern(4 << 20))),
            }
        })
    };
    let disk = Disk::of_mib(96);
    let proxy = Proxy::start(plan_with(&origin, &disk));
    assert_same(&proxy.get("/a").body, &version(0));
    let early = begun(&proxy);
    proxy.get("/change");
    purge(&proxy, "url");
    // More than one and a half times what the store holds.
    for n in 0..40 {
        proxy.get(&format!("/other{n}"));
    }
    assert_ends_whole(early, 0, "filled");
}

/// Two who share a fetch, one of them slow; the purge comes in the middle of it.
#[test]
fn what_is_still_arriving_at_a_purge_ends_whole_also_for_who_lags() {
    for how in PURGES {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::start(move |exchange| {
            if exchange.request.method == "POST" {
                return exchange.send(ok(&[], "done"));
            }
            let n = u8::from(exchange.nth() > 1);
            let length = format!("Content-Length: {LARGE}");
            let tag = format!("ETag: \"{n}\"");
            exchange.send(head("200 OK", &[FRESH, TAGS, &tag, &length]));
            let body = version(n);
            exchange.send(&body[..LARGE / 2]);
            if n == 0 {
                held.pass();
            }
            exchange.send(&body[LARGE / 2..]);
        });
        let disk = Disk::of_mib(128);
        let mut plan = plan_with(&origin, &disk);
        plan.limits.transfer_bytes_max = 1 << 20;
        let proxy = Proxy::start(plan);
        let slow = begun(&proxy);
        let (mut fast, mut response) = begun(&proxy);
        assert!(response.cache().contains("collapsed"));
        response.body.extend(fast.bytes(LARGE / 2 - 100));
        gate.arrived(1);
        purge(&proxy, how);
        let late = begun(&proxy);
        gate.open();
        assert_ends_whole((fast, response), 0, how);
        assert_ends_whole(slow, 0, how);
        assert_ends_whole(late, 1, how);
        let answer = proxy.get("/a");
        assert!(answer.is_hit(), "{how}: {}", answer.cache());
        assert_same(&answer.body, &version(1));
        assert_eq!(origin.count("/a"), if how == &"POST" { 3 } else { 2 });
    }
}
