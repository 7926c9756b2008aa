//! Stale answers and those who doubt: validation, freshening, stale-if-error, stale-while-revalidate.

use crate::harness::*;

#[test]
fn a_304_freshens_what_is_stored() {
    let origin = Origin::start(|exchange| match exchange.field("if-none-match") {
        None => exchange.send(ok(&[STALE, &["ETag: \"1\"", "X-A: old"]].concat(), "hello")),
        Some(etag) => {
            assert_eq!(etag, "\"1\"");
            let fields = [FRESH, "ETag: \"1\"", "X-A: new"];
            exchange.send(head("304 Not Modified", &fields));
        }
    });
    let disk = Disk::of_mib(16);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    proxy.get("/a");

    let freshened = proxy.get("/a");
    let cache = freshened.cache();
    assert!(
        cache.starts_with("loligo; fwd=stale; fwd-status=304; ttl=600"),
        "{cache}"
    );
    let from_memory = proxy.get("/a");
    proxy.stop();
    let from_disk = Proxy::start(disk.under(plan_for(&origin))).get("/a");
    for answer in [&freshened, &from_memory, &from_disk] {
        assert_eq!((answer.status, answer.text()), (200, "hello"));
        assert_eq!(answer.field("x-a"), Some("new"));
        assert!(answer.age() < Some(100));
    }
    assert!(from_memory.is_hit() && from_disk.is_hit());
    assert_eq!(origin.count("/a"), 2);
}

#[test]
fn a_304_that_restricts_reuse_ends_it() {
    let origin = Origin::start(|exchange| match exchange.field("if-none-match") {
        None => exchange.send(ok(&[STALE, &["ETag: \"1\""]].concat(), "hello")),
        Some(_) => {
            let fields = ["Cache-Control: no-store", "ETag: \"1\""];
            exchange.send(head("304 Not Modified", &fields));
        }
    });
    let proxy = Proxy::before(&origin);
    proxy.get("/a");
    assert_eq!(proxy.get("/a").text(), "hello");
    proxy.get("/a");
    assert_eq!(origin.last().field("if-none-match"), None);
}

#[test]
fn a_200_replaces_what_is_stored() {
    let origin = Origin::start(|exchange| match exchange.field("if-none-match") {
        None => exchange.send(ok(&[STALE, &["ETag: \"1\""]].concat(), "one")),
        Some(_) => exchange.send(ok(&[FRESH, "ETag: \"2\""], "two")),
    });
    let disk = Disk::of_mib(16);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    assert_eq!(proxy.get("/a").text(), "one");
    assert_eq!(proxy.get("/a").cache(), "loligo; fwd=stale; stored");
    let hit = proxy.get("/a");
    assert_eq!((hit.text(), hit.is_hit()), ("two", true));
    proxy.stop();
    let hit = Proxy::start(disk.under(plan_for(&origin))).get("/a");
    assert_eq!((hit.text(), hit.is_hit()), ("two", true));
}

#[test]
fn without_etag_the_date_of_change_is_asked_about() {
    let changed = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT";
    let origin = Origin::start(move |exchange| match exchange.field("if-modified-since") {
        None => exchange.send(ok(&[STALE, &[changed]].concat(), "hello")),
        Some(since) => {
            assert!(changed.ends_with(since));
            exchange.send(head("304 Not Modified", &[FRESH]));
        }
    });
    let proxy = Proxy::before(&origin);
    proxy.get("/a");
    assert_eq!(proxy.get("/a").text(), "hello");
    assert!(proxy.get("/a").is_hit());
}

#[test]
fn a_failing_origin_is_covered_by_stale_if_error() {
    let stale = ["Cache-Control: max-age=60, stale-if-error=1000", "Age: 100"];
    let origin = Origin::start(move |exchange| match (exchange.path(), exchange.nth()) {
        (_, 1) => exchange.send(ok(&stale, "hello")),
        ("/503", _) => exchange.send(answer("503 Service Unavailable", &[], "sorry")),
        _ => exchange.close(),
    });
    let proxy = Proxy::before(&origin);
    // A server that gave no answer has no status.
    for (path, status) in [("/503", "fwd-status=503; "), ("/closes", "")] {
        proxy.get(path);
        for _ in 0..2 {
            let answer = proxy.get(path);
            assert_eq!((answer.status, answer.text()), (200, "hello"));
            let cache = answer.cache();
            let begin = format!("loligo; fwd=stale; {status}ttl=-");
            assert!(
                cache.starts_with(&begin) && cache.ends_with("stale-if-error"),
                "{cache}"
            );
        }
    }
}

#[test]
fn without_stale_if_error_a_503_is_passed_on() {
    let origin = Origin::start(|exchange| match exchange.nth() {
        1 => exchange.send(ok(&[STALE, &["ETag: \"1\""]].concat(), "hello")),
        _ => exchange.send(answer("503 Service Unavailable", &[], "sorry")),
    });
    let proxy = Proxy::before(&origin);
    proxy.get("/a");
    let answer = proxy.get("/a");
    assert_eq!((answer.status, answer.text()), (503, "sorry"));
}

#[test]
fn stale_while_revalidate_does_not_wait() {
    let gate = Gate::new();
    let behind = gate.clone();
    let origin = Origin::start(move |exchange| match exchange.nth() {
        1 => {
            let stale = [
                "Cache-Control: max-age=60, stale-while-revalidate=1000",
                "Age: 100",
            ];
            exchange.send(ok(&stale, "old"));
        }
        _ => {
            behind.pass();
            exchange.send(ok(&[FRESH], "new"));
        }
    });
    let proxy = Proxy::before(&origin);
    proxy.get("/a");
    for _ in 0..3 {
        let stale = proxy.get("/a");
        assert_eq!(stale.text(), "old");
        assert!(
            stale.cache().starts_with("loligo; hit; ttl=-"),
            "{}",
            stale.cache()
        );
        gate.arrived(1);
    }
    gate.open();
    eventually("the new one", || {
        (proxy.get("/a").text() == "new").then_some(())
    });
    assert_eq!(origin.count("/a"), 2, "one fetch behind the clients");
}

#[test]
fn a_client_that_has_it_gets_304() {
    let origin = Origin::sending(ok(&[FRESH, "ETag: \"1\""], "hello"));
    let proxy = Proxy::before(&origin);
    // The first time it is fetched whole, for the others; the second time it is there.
    for hit in [false, true] {
        let mut client = proxy.client();
        let answer = client
            .ask("GET", "/a", &["If-None-Match: \"0\", W/\"1\""])
            .read("GET");
        assert_eq!((answer.status, answer.body.len()), (304, 0));
        assert_eq!(answer.field("etag"), Some("\"1\""));
        assert_eq!(answer.is_hit(), hit);
        assert_eq!(client.get("/a").text(), "hello");
    }
    let other = proxy.ask("GET", "/a", &["If-None-Match: \"2\""]);
    assert_eq!((other.status, other.text()), (200, "hello"));
    assert_eq!(origin.count("/a"), 1);
    // Nothing was stored, so the origin was told what the client has.
    let asked = origin.last();
    assert_eq!(asked.field("if-none-match"), Some("\"0\", W/\"1\""));
}

#[test]
fn a_client_may_demand_a_look_at_the_origin() {
    let origin = Origin::start(|exchange| match exchange.field("if-none-match") {
        None => exchange.send(ok(&[FRESH, "ETag: \"1\""], "hello")),
        Some(_) => exchange.send(head("304 Not Modified", &[FRESH, "ETag: \"1\""])),
    });
    let proxy = Proxy::before(&origin);
    proxy.get("/a");
    for (n, demand) in ["max-age=0", "no-cache", "min-fresh=601"]
        .into_iter()
        .enumerate()
    {
        let field = format!("Cache-Control: {demand}");
        let answer = proxy.ask("GET", "/a", &[&field]);
        assert_eq!((answer.status, answer.text()), (200, "hello"));
        let cache = answer.cache();
        assert!(
            cache.starts_with("loligo; fwd=request; fwd-status=304"),
            "{cache}"
        );
        assert_eq!(origin.count("/a"), 2 + n, "{demand}");
    }
    assert!(
        proxy
            .ask("GET", "/a", &["Cache-Control: max-age=300"])
            .is_hit()
    );
    proxy.ask("GET", "/a", &["Pragma: no-cache"]);
    assert_eq!(origin.count("/a"), 5);
}

#[test]
fn an_origin_may_demand_to_be_asked_each_time() {
    let origin = Origin::start(|exchange| {
        let fields = ["Cache-Control: no-cache, max-age=600", "ETag: \"1\""];
        match exchange.field("if-none-match") {
            None => exchange.send(ok(&fields, "hello")),
            Some(_) => exchange.send(head("304 Not Modified", &fields)),
        }
    });
    let proxy = Proxy::before(&origin);
    for n in 1..4 {
        let answer = proxy.get("/a");
        assert_eq!((answer.text(), answer.is_hit()), ("hello", false));
        assert_eq!(origin.count("/a"), n);
        assert_eq!(origin.last().field("if-none-match").is_some(), n > 1);
    }
}

#[test]
fn must_revalidate_forbids_what_max_stale_allows() {
    let origin = Origin::start(|exchange| match exchange.path() {
        "/must" => exchange.send(ok(
            &[
                "Cache-Control: max-age=60, must-revalidate",
                "Age: 100",
                "ETag: \"1\"",
            ],
            "hello",
        )),
        _ => exchange.send(ok(&[STALE, &["ETag: \"1\""]].concat(), "hello")),
    });
    let proxy = Proxy::before(&origin);
    for (path, hit) in [("/must", false), ("/may", true)] {
        proxy.get(path);
        let patient = proxy.ask("GET", path, &["Cache-Control: max-stale=1000"]);
        assert_eq!(patient.is_hit(), hit, "{path}");
    }
}

#[test]
fn a_304_for_one_client_says_nothing_of_what_others_are_given() {
    let origin = Origin::start(|exchange| match exchange.field("if-none-match") {
        None => exchange.send(ok(&[STALE, &["ETag: \"1\""]].concat(), "hello")),
        Some(_) => exchange.send(head("304 Not Modified", &["ETag: \"1\""])),
    });
    let disk = Disk::of_mib(16);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    proxy.get("/a");
    for fields in [&["Authorization: x"][..], &[]] {
        let answer = proxy.ask("GET", "/a", fields);
        assert_eq!((answer.status, answer.text()), (200, "hello"));
        let last = origin.last();
        assert_eq!(last.field("if-none-match"), Some("\"1\""), "{fields:?}");
    }
}

/// The memory tier refuses a head that has grown too long; what it had is not served in its place.
#[test]
fn what_outgrows_the_memory_when_it_is_freshened_is_served_fresh() {
    let long = format!("X-Long: {}", "x".repeat(2000));
    let origin = Origin::start(move |exchange| {
        let tag = "ETag: \"1\"";
        match exchange.field("if-none-match") {
            _ if exchange.request.method == "HEAD" => {
                exchange.send(head("200 OK", &[FRESH, tag, &long]));
            }
            None => exchange.send(ok(&[STALE, &[tag]].concat(), "hello")),
            Some(_) => exchange.send(head("304 Not Modified", &[FRESH, tag, &long])),
        }
    });
    let disk = Disk::of_mib(16);
    let mut plan = disk.under(plan_for(&origin));
    plan.limits.memory_object_bytes_max = 1024;
    let proxy = Proxy::start(plan);
    for (path, method) in [("/a", "GET"), ("/b", "HEAD")] {
        proxy.get(path);
        proxy.ask(method, path, &[]);
        let answer = proxy.get(path);
        assert!(answer.is_hit(), "{method}: {}", answer.cache());
        assert_eq!(answer.text(), "hello");
        assert_eq!(answer.field("x-long").map(str::len), Some(2000));
        assert_eq!(origin.count(path), 2);
    }
}
