//! What is remembered of failures: errors, origins that cannot be reached, answers that are for one request only.

use std::time::Duration;

use crate::harness::*;

#[test]
fn an_origin_that_refuses_is_not_asked_again_at_once() {
    let origin = Origin::sending(ok(&[], "hello"));
    let mut plan = plan_for(&origin);
    plan.cache.unreachable_ttl = Duration::from_secs(60);
    drop(origin);
    let proxy = Proxy::start(plan);
    let mut client = proxy.client();
    for (method, status, detail) in [
        ("GET", 502, "detail=connection_refused"),
        ("GET", 503, "detail=destination_unavailable"),
        ("POST", 503, "detail=destination_unavailable"),
        ("HEAD", 503, "detail=destination_unavailable"),
    ] {
        let answer = client.ask(method, "/a", &[]).read(method);
        assert_eq!(answer.status, status, "{method}");
        assert!(
            answer.cache().ends_with(detail),
            "{method}: {}",
            answer.cache()
        );
    }
}

#[test]
fn with_zero_it_is_asked_each_time() {
    let origin = Origin::sending(ok(&[], "hello"));
    let mut plan = plan_for(&origin);
    plan.cache.unreachable_ttl = Duration::ZERO;
    drop(origin);
    let proxy = Proxy::start(plan);
    for _ in 0..2 {
        assert!(
            proxy
                .get("/a")
                .cache()
                .ends_with("detail=connection_refused")
        );
    }
}

#[test]
fn what_is_stored_covers_up_for_it() {
    let fields = [STALE, &["ETag: \"1\""]].concat();
    let origin = Origin::sending(ok(&fields, "hello"));
    let mut plan = plan_for(&origin);
    plan.cache.unreachable_ttl = Duration::from_secs(60);
    let proxy = Proxy::start(plan);
    proxy.get("/a");
    drop(origin);
    for _ in 0..3 {
        let answer = proxy.get("/a");
        assert_eq!((answer.status, answer.text()), (200, "hello"));
        assert!(
            answer.cache().contains("stale-if-error"),
            "{}",
            answer.cache()
        );
    }
}

#[test]
fn failures_of_the_origin_are_kept_by_rule() {
    let origin = Origin::start(|exchange| match exchange.path() {
        "/said" => exchange.send(answer("503 Busy", &["Cache-Control: no-store"], "busy")),
        _ => exchange.send(answer("503 Busy", &[], "busy")),
    });
    let mut plan = plan_for(&origin);
    plan.cache.error_ttl = Duration::from_secs(60);
    let proxy = Proxy::start(plan);
    for hit in [false, true] {
        let answer = proxy.get("/a");
        assert_eq!(
            (answer.status, answer.text(), answer.is_hit()),
            (503, "busy", hit)
        );
        assert!(!proxy.get("/said").is_hit());
    }
    let proxy = Proxy::before(&origin);
    for _ in 0..2 {
        assert!(!proxy.get("/a").is_hit());
    }
}

#[test]
fn who_asks_for_what_cannot_be_shared_does_not_wait() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        let control = match exchange.nth() {
            1 => "Cache-Control: private",
            2 | 3 => {
                held.pass();
                "Cache-Control: private"
            }
            _ => FRESH,
        };
        exchange.send(ok(&[control], "hello"));
    });
    let proxy = Proxy::before(&origin);
    proxy.get("/a");
    let (mut one, mut two) = (proxy.client(), proxy.client());
    one.ask("GET", "/a", &[]);
    two.ask("GET", "/a", &[]);
    // Both are at the origin before either has an answer.
    gate.arrived(2);
    gate.open();
    for client in [&mut one, &mut two] {
        let answer = client.read("GET");
        assert_eq!(answer.cache(), "loligo; fwd=uri-miss; detail=private");
    }
    assert_eq!(proxy.get("/a").cache(), "loligo; fwd=uri-miss; stored");
    assert!(proxy.get("/a").is_hit());
}

#[test]
fn once_it_can_be_shared_it_is() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| match exchange.nth() {
        1 => exchange.send(ok(&["Cache-Control: no-store"], "hello")),
        2 => exchange.send(ok(
            &["Cache-Control: max-age=60", "Age: 100", "ETag: \"1\""],
            "hello",
        )),
        _ => {
            held.pass();
            exchange.send(ok(&[FRESH], "hello"));
        }
    });
    let proxy = Proxy::before(&origin);
    proxy.get("/a");
    proxy.get("/a");
    let mut one = proxy.client();
    one.ask("GET", "/a", &[]);
    gate.arrived(1);
    let mut two = proxy.client();
    two.ask("GET", "/a", &[]);
    gate.open();
    assert_eq!(one.read("GET").text(), "hello");
    assert_eq!(two.read("GET").text(), "hello");
    assert_eq!(origin.count("/a"), 3);
}

#[test]
fn what_is_remembered_is_counted() {
    let private = ["Cache-Control: private"];
    let origin = Origin::start(move |exchange| match exchange.path() {
        "/private" => exchange.send(ok(&private, "mine")),
        _ => exchange.send(ok(&[FRESH], "all")),
    });
    let mut plan = plan_for(&origin);
    plan.cache.unreachable_ttl = Duration::from_secs(60);
    plan.admin = Some(::proxy::plan::Admin {
        address: running::local(),
        allow: Vec::new(),
    });
    let proxy = Proxy::start(plan);
    let hit_for_pass = || {
        (
            proxy.counter("flights_hit_for_pass_noted"),
            proxy.counter("flights_hit_for_pass"),
        )
    };
    for path in ["/all", "/private", "/private", "/private", "/all"] {
        // A connection each, so that none is left that could be used when the origin is gone.
        proxy.ask("GET", path, &[]);
    }
    assert_eq!(hit_for_pass(), (3, 2));
    drop(origin);
    for _ in 0..4 {
        assert_ne!(proxy.get("/other").status, 200);
    }
    eventually("they are published", || {
        let noted = proxy.counter("origin_failures_noted");
        let recalled = proxy.counter("origin_failures_recalled");
        (noted == 1 && recalled >= 2).then_some(())
    });
}
