//! Peers: what they must not be asked for, must not be believed, and must not be blamed for.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use ::proxy::plan::{Ask, Destinations, Direct, Forward, Health, Listener, Plan, Role, Sibling};

use crate::{
    harness::{
        running::{local, with_admin},
        *,
    },
    hierarchy::{at, leaf, parent},
};

fn trying(sibling: SocketAddr) -> Plan {
    let mut plan = with_admin(leaf(Vec::new()));
    plan.siblings = vec![Sibling {
        name: "sibling".to_owned(),
        at: at(sibling),
        ask: Ask::Try,
        ..Sibling::default()
    }];
    plan
}

fn saying(text: &'static str) -> Origin {
    Origin::start(move |exchange| exchange.send(ok(&[FRESH], text)))
}

fn url(origin: &Origin, path: &str) -> String {
    format!("http://{}{path}", origin.address)
}

fn limit(plan: &mut Plan, listener: usize) {
    if let Role::Forward(forward) = &mut plan.listeners[listener].role {
        forward.destinations = Destinations::default();
    }
}

#[test]
fn a_sibling_is_no_way_round_the_rules_of_a_listener() {
    let sibling = saying("sibling");
    let mut plan = trying(sibling.address);
    limit(&mut plan, 0);
    let proxy = Proxy::start(plan);
    for host in ["127.0.0.1", "localhost", "169.254.169.254", "[::1]"] {
        let answer = proxy.get(&format!("http://{host}/a"));
        assert_eq!(answer.status, 403, "{host}");
    }
    assert_eq!(sibling.requests().len(), 0);
    assert_eq!(proxy.get("http://origin.test/a").text(), "sibling");
}

#[test]
fn of_listeners_with_different_rules_only_those_with_the_default_ones_ask() {
    let (origin, sibling) = (saying("origin"), saying("sibling"));
    let mut plan = trying(sibling.address);
    let mut other = Listener::forward(local(), Vec::new());
    other.role = Role::Forward(Forward {
        destinations: Destinations::default(),
        ..Forward::for_address(other.address.ip())
    });
    plan.listeners.push(other);
    let proxy = Proxy::start(plan);
    assert_eq!(proxy.get(&url(&origin, "/a")).text(), "origin");
    assert_eq!(sibling.requests().len(), 0);
}

#[test]
fn a_stale_answer_of_a_sibling_is_not_taken() {
    let origin = saying("origin");
    let sibling = Origin::start(|exchange| {
        let fields: &[&str] = match exchange.path().rsplit('/').next() {
            Some("old") => &["Cache-Control: max-age=60", "Age: 61"],
            Some("no-cache") => &["Cache-Control: no-cache, max-age=60"],
            Some("unknown") => &[],
            _ => &["Cache-Control: max-age=60", "Age: 10"],
        };
        exchange.send(ok(fields, "sibling"));
    });
    let proxy = Proxy::start(trying(sibling.address));
    for path in ["/old", "/no-cache", "/unknown"] {
        assert_eq!(proxy.get(&url(&origin, path)).text(), "origin", "{path}");
    }
    assert_eq!(proxy.get(&url(&origin, "/fresh")).text(), "sibling");
    let asked = sibling.requests();
    assert_eq!(asked.len(), 4);
    assert_eq!(asked[3].connection, 0, "the connection is used again");
}

#[test]
fn what_was_written_to_or_purged_is_not_had_back_from_a_sibling() {
    let (origin, sibling) = (saying("origin"), saying("sibling"));
    let proxy = Proxy::start(trying(sibling.address));
    for path in ["/a", "/b"] {
        assert_eq!(proxy.get(&url(&origin, path)).text(), "sibling");
    }
    let posted = proxy.ask("POST", &url(&origin, "/a"), &["Content-Length: 0"]);
    assert_eq!(posted.status, 200);
    assert_eq!(proxy.get(&url(&origin, "/a")).text(), "origin");
    assert_eq!(proxy.get(&url(&origin, "/c")).text(), "sibling");
    proxy.await_count("siblings_spared", 1);
    let target = format!("/cache?prefix={}", url(&origin, "/"));
    assert_eq!(proxy.admin("DELETE", &target).status, 200);
    for path in ["/b", "/d"] {
        assert_eq!(proxy.get(&url(&origin, path)).text(), "origin", "{path}");
    }
    proxy.await_count("siblings_spared", 3);
}

#[test]
fn a_long_refusal_does_not_delay_the_client() {
    let origin = saying("origin");
    let gate = Gate::new();
    let held = gate.clone();
    // Its head, and then nothing.
    let sibling = Origin::start(move |exchange| {
        exchange.send("HTTP/1.1 504 No\r\nContent-Length: 100\r\n\r\n");
        held.pass();
    });
    let mut plan = trying(sibling.address);
    plan.siblings[0].head_wait = Duration::from_secs(600);
    let proxy = Proxy::start(plan);
    assert_eq!(proxy.get(&url(&origin, "/a")).text(), "origin");
    assert_eq!(sibling.requests().len(), 1);
    gate.open();
}

#[test]
fn a_slow_origin_does_not_kill_a_parent_and_a_put_is_not_sent_twice() {
    let gate = Gate::new();
    let held = gate.clone();
    let top = Origin::start(move |exchange| match exchange.path().contains("slow") {
        true => held.pass(),
        false => exchange.send(ok(&[FRESH], "top")),
    });
    let other = saying("other");
    let mut plan = leaf(vec![
        parent("top", top.address),
        parent("other", other.address),
    ]);
    for parent in &mut plan.parents {
        parent.direct = Direct::Never;
    }
    plan.timeouts.origin_first_byte = Duration::from_secs(1);
    let proxy = Proxy::start(plan);
    let put = proxy.ask("PUT", "http://origin.test/slow", &["Content-Length: 0"]);
    assert_eq!(put.status, 504);
    assert_eq!(other.requests().len(), 0);
    for n in 0..5 {
        let answer = proxy.get(&format!("http://origin.test/slow/{n}"));
        assert_eq!(answer.text(), "other");
    }
    assert_eq!(proxy.get("http://origin.test/quick").text(), "top");
    gate.open();
}

/// Two failures, an upload that goes well, and one more failure are not three in a row.
#[test]
fn an_upload_that_goes_well_counts_for_a_parent() {
    let top = Origin::start(|exchange| {
        exchange.body();
        match exchange.path().contains("closes") {
            true => exchange.close(),
            false => exchange.send(ok(&["Cache-Control: no-store"], "top")),
        }
    });
    let mut plan = leaf(vec![parent("top", top.address)]);
    plan.parents[0].direct = Direct::Fallback;
    let proxy = Proxy::start(plan);
    let post = |path: &str| {
        let request = client::request(
            "POST",
            &format!("http://origin.test{path}"),
            &["Content-Length: 1"],
            "x",
        );
        proxy.client().send(request).read("POST")
    };
    for path in ["/closes", "/closes", "/well", "/closes", "/closes"] {
        let expected = if path == "/well" { 200 } else { 502 };
        assert_eq!(post(path).status, expected, "{path}");
    }
    assert_eq!(post("/well").text(), "top", "it is not dead");
}

#[test]
fn a_full_house_does_not_kill_a_parent_that_is_looked_at() {
    let gate = Gate::new();
    let held = gate.clone();
    let top = Origin::start(move |exchange| {
        if exchange.path().contains("held") {
            held.pass();
        }
        exchange.send(ok(&["Cache-Control: no-store"], "top"));
    });
    let second = saying("second");
    let mut plan = leaf(vec![
        parent("top", top.address),
        parent("second", second.address),
    ]);
    plan.parents[0].health = Some(Health {
        path: "/health".to_owned(),
        at: None,
    });
    plan.parents[0].health_interval = Duration::from_secs(1);
    (plan.workers, plan.pool.per_origin_max) = (1, 1);
    plan.timeouts.connect = Duration::from_millis(100);
    let proxy = Proxy::start(plan);
    let mut first = proxy.client();
    first.ask("GET", "http://origin.test/held", &[]);
    gate.arrived(1);
    // Each waits for the connection as long as it may, and so does each look.
    let began = Instant::now();
    let mut n = 0;
    while began.elapsed() < Duration::from_secs(3) {
        n += 1;
        let answer = proxy.get(&format!("http://origin.test/{n}"));
        assert_eq!(answer.text(), "second");
    }
    assert_eq!(top.requests().len() - top.count("/health"), 1);
    gate.open();
    assert_eq!(first.read("GET").text(), "top");
    assert_eq!(proxy.get("http://origin.test/last").text(), "top");
}

#[test]
fn a_parent_that_answers_a_look_with_a_hint_first_is_well() {
    let top = Origin::start(|exchange| {
        let hint = match exchange.path() {
            "/health" => "HTTP/1.1 103 Early Hints\r\n\r\n",
            _ => "",
        };
        let answer = ok(&["Cache-Control: no-store"], "top");
        exchange.send([hint.as_bytes(), &answer].concat());
    });
    let second = saying("second");
    let mut plan = leaf(vec![
        parent("top", top.address),
        parent("second", second.address),
    ]);
    plan.parents[0].health = Some(Health {
        path: "/health".to_owned(),
        at: None,
    });
    plan.parents[0].health_interval = Duration::from_secs(1);
    let proxy = Proxy::start(plan);
    // Once the second look begins, the first one is over.
    eventually("two looks", || (top.count("/health") > 1).then_some(()));
    assert_eq!(proxy.get("http://origin.test/a").text(), "top");
}
