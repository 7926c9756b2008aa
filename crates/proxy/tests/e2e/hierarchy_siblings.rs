//! Siblings: asked for what they have, and nothing they say or fail to say reaches a client as an error.

use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use ::proxy::plan::{Ask, Plan, Sibling};

use crate::{
    harness::{running::forward_plan, *},
    hierarchy::{at, entries, leaf, logging, parent, peers_of},
};

/// A proxy that tries these siblings.
fn trying(siblings: &[SocketAddr]) -> Plan {
    let sibling = |(n, address): (usize, &SocketAddr)| Sibling {
        name: format!("sibling-{n}"),
        at: at(*address),
        ask: Ask::Try,
        ..Sibling::default()
    };
    Plan {
        siblings: siblings.iter().enumerate().map(sibling).collect(),
        ..leaf(Vec::new())
    }
}

fn origin() -> Origin {
    Origin::start(|exchange| exchange.send(ok(&[FRESH], "origin")))
}

fn url(origin: &Origin, path: &str) -> String {
    format!("http://{}{path}", origin.address)
}

#[test]
fn what_a_sibling_has_is_had_from_it_and_the_rest_from_the_origin() {
    let origin = origin();
    let other = Proxy::start(forward_plan(&[]));
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let proxy = Proxy::start(logging(trying(&[other.address()]), &log));
    other.get(&url(&origin, "/there"));
    for path in ["/there", "/there", "/nowhere", "/nowhere"] {
        let answer = proxy.get(&url(&origin, path));
        assert_eq!((answer.status, answer.text()), (200, "origin"), "{path}");
    }
    assert_eq!((origin.count("/there"), origin.count("/nowhere")), (1, 1));
    let entries = entries(proxy, &log);
    let direct = format!("HIER_DIRECT/{}", origin.address.ip());
    assert_eq!(
        peers_of(&entries),
        ["SIBLING_HIT/sibling-0", "HIER_NONE/", &direct, "HIER_NONE/"]
    );
    let has_peer_stage = |at: usize| entries[at].to_string().contains("\"peer\":{");
    assert!(has_peer_stage(0) && has_peer_stage(2), "{:?}", entries[0]);
    assert!(!has_peer_stage(1) && !has_peer_stage(3));
    assert!(entries[0]["flags"].to_string().contains("peer_hit"));
}

#[test]
fn a_sibling_is_asked_as_rfc_9111_says_and_its_no_is_not_kept() {
    let origin = origin();
    let sibling = Origin::start(|exchange| {
        exchange.send(answer("504 No", &[FRESH], "nothing here"));
    });
    let mut plan = trying(&[sibling.address]);
    plan.cache.error_ttl = Duration::from_secs(600);
    let proxy = Proxy::start(plan);
    for path in ["/a", "/b"] {
        let answer = proxy.get(&url(&origin, path));
        assert_eq!((answer.status, answer.text()), (200, "origin"));
    }
    let asked = sibling.requests();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].target, url(&origin, "/a"));
    assert_eq!(asked[0].field("cache-control"), Some("only-if-cached"));
    assert!(asked[0].field("via").unwrap().starts_with("1.1 loligo ("));
    assert_eq!(asked[1].connection, 0, "the connection is used again");
    assert_eq!(origin.last().field("cache-control"), None);
}

#[test]
fn no_word_of_a_sibling_is_a_clients_error() {
    let origin = origin();
    let silent = Gate::new();
    let held = silent.clone();
    let sibling = Origin::start(move |exchange| {
        let path = exchange.path().rsplit('/').next().unwrap().to_owned();
        match path.as_str() {
            "closes" => exchange.close(),
            "babbles" => exchange.send("what?\r\n\r\n"),
            "silent" => held.pass(),
            status => exchange.send(answer(&format!("{status} X"), &[FRESH], "sibling")),
        }
    });
    let mut plan = trying(&[sibling.address]);
    plan.siblings[0].head_wait = Duration::from_secs(2);
    let proxy = Proxy::start(plan);
    for path in [
        "/400", "/401", "/403", "/closes", "/407", "/429", "/500", "/babbles", "/502", "/503",
        "/504", "/206", "/silent", "/304",
    ] {
        let answer = proxy.get(&url(&origin, path));
        assert_eq!((answer.status, answer.text()), (200, "origin"), "{path}");
        // Twice, if a connection from the pool was closed under the request.
        assert!(
            (1..=2).contains(&sibling.count(&url(&origin, path))),
            "{path}"
        );
    }
    for path in ["/404", "/410", "/200"] {
        assert_eq!(proxy.get(&url(&origin, path)).text(), "sibling", "{path}");
    }
    silent.open();
}

#[test]
fn a_sibling_that_hangs_costs_its_wait_and_then_nothing() {
    let origin = origin();
    let silent = Gate::new();
    let held = silent.clone();
    let sibling = Origin::start(move |_| held.pass());
    let mut plan = trying(&[sibling.address]);
    plan.siblings[0].head_wait = Duration::from_millis(50);
    let proxy = Proxy::start(plan);
    let began = Instant::now();
    for n in 0..20 {
        assert_eq!(proxy.get(&url(&origin, &format!("/{n}"))).text(), "origin");
    }
    // Three failures, and it is dead. A connection can still be made, so that a probe brings it back once in a second or so.
    let asked = sibling.requests().len();
    let most = 3 + 3 * began.elapsed().as_secs() as usize + 3;
    assert!((3..=most).contains(&asked), "{asked} of 20");
    assert!(asked < 20 || began.elapsed() > Duration::from_secs(5));
    silent.open();
}

#[test]
fn what_cannot_be_a_siblings_to_say_is_not_asked() {
    let origin = Origin::start(|exchange| {
        let fields: &[&str] = match exchange.path() {
            "/stale" => &["Cache-Control: max-age=60", "Age: 100", "ETag: \"x\""],
            _ => &[FRESH],
        };
        exchange.send(ok(fields, "origin"));
    });
    let sibling = Origin::sending(answer("504 No", &[], ""));
    let proxy = Proxy::start(trying(&[sibling.address]));
    for (method, path, field) in [
        ("GET", "/a", "Authorization: Basic eDp5"),
        ("GET", "/b", "Range: bytes=0-1"),
        ("GET", "/c", "Cache-Control: no-cache"),
        ("GET", "/d", "Cache-Control: max-age=0"),
        ("GET", "/e", "Cache-Control: no-store"),
        ("GET", "/f", "If-None-Match: \"x\""),
        ("HEAD", "/g", "Accept: */*"),
        ("POST", "/h", "Content-Length: 0"),
        ("GET", "/i", "Cache-Control: only-if-cached"),
    ] {
        let answer = proxy.ask(method, &url(&origin, path), &[field]);
        let expected = if path == "/i" { 504 } else { 200 };
        assert_eq!(answer.status, expected, "{path}");
    }
    assert_eq!(sibling.requests().len(), 0);
    // For the first time it is; whether it still holds is the origin's to say.
    for _ in 0..3 {
        assert_eq!(proxy.get(&url(&origin, "/stale")).status, 200);
    }
    assert_eq!(sibling.requests().len(), 1);
}

#[test]
fn after_a_siblings_no_parents_are_asked() {
    let top = Origin::sending(ok(&[FRESH], "top"));
    let sibling = Origin::sending(answer("504 No", &[], ""));
    let mut plan = trying(&[sibling.address]);
    plan.parents = vec![parent("top", top.address)];
    let proxy = Proxy::start(plan);
    assert_eq!(proxy.get("http://origin.test/a").text(), "top");
    assert_eq!((sibling.requests().len(), top.requests().len()), (1, 1));
}

/// One request that waits, in the worst case, for one that waits for it.
#[test]
fn two_that_ask_each_other_for_one_url_at_once_do_not_wait_for_each_other() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        held.pass();
        exchange.send(ok(&[FRESH], "origin"));
    });
    let relay = Relay::start();
    let one = Proxy::start(trying(&[relay.address]));
    let two = Proxy::start(trying(&[one.address()]));
    relay.lead_to(two.address());
    for n in 0..5 {
        let target = url(&origin, &format!("/{n}"));
        let asking: Vec<_> = [one.address(), two.address(), one.address(), two.address()]
            .into_iter()
            .map(|address| {
                let target = target.clone();
                thread::spawn(move || Client::connect(address).get(&target))
            })
            .collect();
        // Each fetch reaches the origin, though the other one is under way: neither waits for the other.
        if n == 0 {
            gate.arrived(2);
            gate.open();
        }
        for answer in asking {
            assert_eq!(answer.join().unwrap().text(), "origin");
        }
        assert!((1..=2).contains(&origin.count(&format!("/{n}"))));
    }
}

#[test]
fn who_wants_only_what_is_stored_joins_no_fetch() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        held.pass();
        exchange.send(ok(&[FRESH], "origin"));
    });
    let sibling = Origin::sending(answer("504 No", &[], ""));
    let proxy = Proxy::start(trying(&[sibling.address]));
    let target = url(&origin, "/a");
    let mut first = proxy.client();
    first.ask("GET", &target, &[]);
    gate.arrived(1);
    let only = proxy.ask("GET", &target, &["Cache-Control: only-if-cached"]);
    assert_eq!(only.status, 504);
    assert_eq!(sibling.requests().len(), 1, "asked by the fetch, not by it");
    gate.open();
    assert_eq!(first.read("GET").text(), "origin");
}
