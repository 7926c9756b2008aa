//! Parents: who is asked, in which form, and what happens when they do not answer.

use std::{net::SocketAddr, path::Path, time::Duration};

use ::proxy::plan::{
    AccessFormat, AccessLog, Direct, Health, LogTarget, Order, Parent, PeerAddress, Plan,
};
use serde_json::Value;

use crate::harness::{
    running::{forward_plan, nobody, with_admin},
    *,
};

/// The address of a peer in a plan.
pub fn at(address: SocketAddr) -> PeerAddress {
    PeerAddress {
        host: address.ip().to_string(),
        port: address.port(),
    }
}

/// A parent with defaults for the rest.
pub fn parent(name: &str, address: SocketAddr) -> Parent {
    Parent {
        name: name.to_owned(),
        at: at(address),
        ..Parent::default()
    }
}

/// A forward proxy with these parents, where a failure to connect is not remembered.
pub fn leaf(parents: Vec<Parent>) -> Plan {
    let mut plan = forward_plan(&[]);
    plan.cache.unreachable_ttl = Duration::ZERO;
    plan.parents = parents;
    plan
}

/// With an access log of JSON lines.
pub fn logging(mut plan: Plan, to: &Path) -> Plan {
    plan.logs.access = Some(AccessLog {
        target: LogTarget::File(to.to_owned()),
        format: AccessFormat::Json,
    });
    plan
}

/// The log's lines, once the proxy has stopped.
pub fn entries(proxy: Proxy, log: &Path) -> Vec<Value> {
    proxy.stop();
    let text = std::fs::read_to_string(log).unwrap();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Whom each request went to, by the log: hierarchy code and peer.
pub fn peers_of(entries: &[Value]) -> Vec<String> {
    let of = |entry: &Value| {
        let word = |name: &str| entry[name].as_str().unwrap().to_owned();
        format!("{}/{}", word("hierarchy"), word("peer"))
    };
    entries.iter().map(of).collect()
}

/// Answers as itself, and what may be stored.
fn naming(name: &'static str) -> Origin {
    Origin::start(move |exchange| exchange.send(ok(&[FRESH], name)))
}

const URL: &str = "http://origin.test/a";

#[test]
fn a_parent_is_asked_with_the_whole_url_and_its_answer_is_stored() {
    let top = Origin::start(|exchange| {
        let mut answer = ok(&[FRESH, "Cache-Status: top; hit; ttl=9"], "from the top");
        if exchange.request.method == "HEAD" {
            answer.truncate(answer.len() - "from the top".len());
        }
        exchange.send(answer);
    });
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let plan = leaf(vec![parent("top", top.address)]);
    let proxy = Proxy::start(logging(plan, &log));
    for hit in [false, true] {
        let answer = proxy.get("http://Origin.test:80/a?b#c");
        // A fragment is no part of a request; whoever sends one is told so.
        assert_eq!(answer.status, 400, "{hit}");
    }
    for hit in [false, true] {
        let answer = proxy.get("http://Origin.test:80/a?b");
        assert_eq!(answer.text(), "from the top");
        let members = answer.fields.all("cache-status");
        assert_eq!(
            members[0], "top; hit; ttl=9",
            "that of the next level stays"
        );
        assert_eq!(members[1].starts_with("loligo; hit"), hit, "{members:?}");
    }
    let asked = top.last();
    assert_eq!(asked.target, "http://origin.test/a?b");
    assert!(asked.field("via").unwrap().starts_with("1.1 loligo ("));
    assert!(asked.field("cdn-loop").unwrap().starts_with("loligo; tag="));
    // The connection is used again, by HEAD and for a part as well.
    proxy.ask("HEAD", "http://origin.test/b", &[]);
    proxy.ask("GET", "http://origin.test/c", &["Range: bytes=0-1"]);
    let requests = top.requests();
    assert_eq!(requests.len(), 3);
    assert!(requests.iter().all(|request| request.connection == 0));
    assert!((requests.iter()).all(|request| request.target.starts_with("http://origin.test/")));
    let entries = entries(proxy, &log);
    let top = "FIRSTUP_PARENT/top";
    assert_eq!(
        peers_of(&entries[2..]),
        [top, "HIER_NONE/", top, top],
        "{entries:?}"
    );
    assert!(entries[2]["flags"].to_string().contains("peer_hit"));
}

#[test]
fn a_body_goes_to_a_parent_too() {
    let top = Origin::start(|exchange| {
        let (body, _) = exchange.body();
        exchange.send(ok(&[], body));
    });
    let proxy = Proxy::start(leaf(vec![parent("top", top.address)]));
    let mut client = proxy.client();
    client.ask("POST", URL, &["Content-Length: 5"]);
    assert_eq!(client.send("hello").read("POST").text(), "hello");
    assert_eq!(top.last().target, URL);
}

#[test]
fn if_one_gives_no_answer_the_next_one_does_and_no_third() {
    let silent = || Origin::start(Exchange::close);
    for (first, attempts) in [(None, 0), (Some(silent()), 1)] {
        let address = first.as_ref().map_or_else(nobody, |first| first.address);
        let second = naming("second");
        let mut plan = leaf(vec![parent("1", address), parent("2", second.address)]);
        plan.parents[0].direct = Direct::Never;
        let proxy = Proxy::start(plan);
        assert_eq!(proxy.get(URL).text(), "second");
        assert_eq!(
            proxy.ask("HEAD", URL, &["Cache-Control: no-cache"]).status,
            200
        );
        let asked = first.map_or(0, |first| first.requests().len());
        assert_eq!(asked, 2 * attempts);
    }
    let (one, two, three) = (silent(), silent(), naming("third"));
    let parents = [&one, &two, &three];
    let parents = parents.map(|parent| self::parent("x", parent.address));
    let proxy = Proxy::start(leaf(parents.into()));
    assert_eq!(proxy.get(URL).status, 502);
    assert_eq!(
        (one.count(URL), two.count(URL), three.count(URL)),
        (1, 1, 0)
    );
}

#[test]
fn what_was_sent_with_a_body_is_not_sent_again() {
    let silent = Origin::start(|exchange| {
        exchange.body();
        exchange.close();
    });
    let second = naming("second");
    let proxy = Proxy::start(leaf(vec![
        parent("1", silent.address),
        parent("2", second.address),
    ]));
    let mut client = proxy.client();
    let answer = client.ask("POST", URL, &["Content-Length: 1"]).send("x");
    let answer = answer.read("POST");
    assert_eq!(answer.status, 502);
    assert!(answer.text().contains("a parent"), "{}", answer.text());
    assert_eq!((silent.requests().len(), second.requests().len()), (1, 0));
    // Where nothing was sent, the next is asked.
    let proxy = Proxy::start(leaf(vec![
        parent("1", nobody()),
        parent("2", second.address),
    ]));
    let mut client = proxy.client();
    let answer = client.ask("POST", URL, &["Content-Length: 1"]).send("x");
    assert_eq!(answer.read("POST").text(), "second");
}

#[test]
fn what_broke_off_on_the_way_is_not_begun_again() {
    let breaking = Origin::start(|exchange| {
        exchange.send(head("200 OK", &[FRESH, "Content-Length: 100"]));
        exchange.send("half");
        exchange.close();
    });
    let second = naming("second");
    let proxy = Proxy::start(leaf(vec![
        parent("1", breaking.address),
        parent("2", second.address),
    ]));
    let mut client = proxy.client();
    let answer = client.ask("GET", URL, &[]).read_whatever("GET");
    assert!(answer.cut.is_some());
    assert_eq!(second.requests().len(), 0);
}

#[test]
fn direct_is_never_after_or_before() {
    let origin = naming("origin");
    let url = format!("http://{}/a", origin.address);
    let live = naming("parent");
    for (direct, parent_address, expected) in [
        (Direct::Never, live.address, "parent"),
        (Direct::Fallback, live.address, "parent"),
        (Direct::Prefer, live.address, "origin"),
        (Direct::Fallback, nobody(), "origin"),
    ] {
        let mut plan = leaf(vec![parent("top", parent_address)]);
        plan.parents[0].direct = direct;
        let proxy = Proxy::start(plan);
        assert_eq!(proxy.get(&url).text(), expected, "{direct:?}");
    }
    let mut plan = leaf(vec![parent("top", nobody())]);
    plan.parents[0].direct = Direct::Never;
    let answer = Proxy::start(plan).get(&url);
    assert_eq!(answer.status, 502);
    assert_eq!(
        answer.cache(),
        "loligo; fwd=uri-miss; detail=connection_refused"
    );
    assert!(answer.text().contains("a parent refused"));
    // The origin is not there: the parent may know more.
    let mut plan = leaf(vec![parent("top", live.address)]);
    plan.parents[0].direct = Direct::Prefer;
    let gone = format!("http://{}/a", nobody());
    assert_eq!(Proxy::start(plan).get(&gone).text(), "parent");
}

#[test]
fn the_dead_are_left_alone_and_come_back_without_a_client() {
    let (relay, top, second) = (Relay::start(), naming("top"), naming("second"));
    let proxy = Proxy::start(with_admin(leaf(vec![
        parent("top", relay.address),
        parent("second", second.address),
    ])));
    // The relay leads nowhere yet: it accepts and closes.
    for n in 0..6 {
        let answer = proxy.get(&format!("http://origin.test/{n}"));
        assert_eq!(answer.text(), "second");
    }
    let standings = || {
        let status: Value = serde_json::from_str(proxy.admin("GET", "/status").text()).unwrap();
        let standing = |peer: &Value| format!("{} {}", peer["name"], peer["alive"]);
        let peers = status["peers"].as_array().unwrap();
        peers.iter().map(standing).collect::<Vec<_>>()
    };
    let mut n = 100;
    eventually("the status says who is dead", || {
        n += 1;
        proxy.get(&format!("http://origin.test/{n}"));
        (standings() == ["\"top\" false", "\"second\" true"]).then_some(())
    });
    relay.lead_to(top.address);
    // Each answer is stored, so each request has a URL of its own.
    eventually("the parent is asked again", || {
        n += 1;
        let answer = proxy.get(&format!("http://origin.test/{n}"));
        (answer.text() == "top").then_some(())
    });
    assert_eq!(standings(), ["\"top\" true", "\"second\" true"]);
}

#[test]
fn a_parent_that_says_it_is_not_well_is_not_asked() {
    let top = Origin::start(|exchange| {
        let status = match (exchange.path(), exchange.nth()) {
            ("/well", 1) => "503 No",
            _ => "200 OK",
        };
        exchange.send(answer(status, &[FRESH], "top"));
    });
    let second = naming("second");
    let mut plan = leaf(vec![
        parent("top", top.address),
        parent("second", second.address),
    ]);
    plan.parents[0].health = Some(Health {
        at: None,
        path: "/well".to_owned(),
    });
    let proxy = Proxy::start(plan);
    let mut n = 0;
    let mut until = |expected: &str| {
        eventually(expected, || {
            n += 1;
            let answer = proxy.get(&format!("http://origin.test/{n}"));
            (answer.text() == expected).then_some(())
        });
    };
    until("second");
    until("top");
    assert!(top.count("/well") >= 2);
}

#[test]
fn by_hash_a_url_has_one_parent_and_in_turn_it_has_any() {
    let (one, two) = (naming("one"), naming("two"));
    let start = |order: Order| {
        let mut plan = leaf(vec![parent("one", one.address), parent("two", two.address)]);
        plan.parents
            .iter_mut()
            .for_each(|parent| parent.order = order);
        Proxy::start(plan)
    };
    let url = |n: u32| format!("http://origin.test/{n}");
    let (proxy, other) = (start(Order::Hash), start(Order::Hash));
    let mut seen = [0, 0];
    for n in 0..40 {
        let answer = proxy.get(&url(n));
        seen[usize::from(answer.text() == "two")] += 1;
        assert_eq!(other.get(&url(n)).text(), answer.text(), "on every leaf");
    }
    assert!(seen.iter().all(|seen| *seen > 5), "{seen:?}");
    let proxy = start(Order::RoundRobin);
    let names: Vec<String> = (0..4)
        .map(|n| proxy.get(&url(n)).text().to_owned())
        .collect();
    assert_eq!(names, ["one", "two", "one", "two"]);
}

#[test]
fn a_parent_is_for_its_domains() {
    let (origin, top) = (naming("origin"), naming("top"));
    let mut plan = leaf(vec![parent("top", top.address)]);
    plan.parents[0].domains = vec!["*.far.test".to_owned()];
    let proxy = Proxy::start(plan);
    assert_eq!(proxy.get("http://a.far.test/").text(), "top");
    let near = format!("http://{}/", origin.address);
    assert_eq!(proxy.get(&near).text(), "origin");
}

#[test]
fn a_tunnel_goes_through_a_parent() {
    let end = Origin::start(|exchange| {
        exchange.send(format!("you said {}", exchange.path()));
        exchange.close();
    });
    let port = end.address.port();
    let top = Proxy::start(forward_plan(&[port]));
    let mut plan = leaf(vec![parent("top", top.address())]);
    plan.parents[0].direct = Direct::Never;
    if let ::proxy::plan::Role::Forward(forward) = &mut plan.listeners[0].role {
        forward.connect_ports = vec![port];
    }
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let proxy = Proxy::start(logging(plan.clone(), &log));
    let mut client = proxy.client();
    let connect = format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    client.send(connect.clone() + "GET /hello HTTP/1.1\r\n\r\n");
    assert_eq!(client.read_head().status, 200);
    assert_eq!(client.wire.read_to_end().0, b"you said /hello");
    drop(client);
    assert_eq!(peers_of(&entries(proxy, &log)), ["FIRSTUP_PARENT/top"]);
    // The parent's own rules hold.
    let strict = Proxy::start(forward_plan(&[]));
    plan.parents[0].at = at(strict.address());
    let proxy = Proxy::start(plan);
    let answer = proxy.client().send(connect).read("CONNECT");
    assert_eq!(answer.status, 403);
    assert!(answer.text().contains("a parent refused a tunnel"));
}

#[test]
fn a_parent_is_no_way_round_the_rules_of_a_listener() {
    let top = naming("top");
    let mut plan = leaf(vec![parent("top", top.address)]);
    if let ::proxy::plan::Role::Forward(forward) = &mut plan.listeners[0].role {
        forward.destinations = ::proxy::plan::Destinations::default();
    }
    let proxy = Proxy::start(plan);
    for host in ["127.0.0.1", "localhost", "169.254.169.254", "[::1]"] {
        let answer = proxy.get(&format!("http://{host}/a"));
        assert_eq!(answer.status, 403, "{host}");
    }
    assert_eq!(top.requests().len(), 0);
    assert_eq!(proxy.get(URL).text(), "top");
}

#[test]
fn a_route_goes_to_its_origin_whatever_parents_there_are() {
    let (origin, top) = (naming("origin"), naming("top"));
    let mut plan = plan_for(&origin);
    plan.parents = vec![parent("top", top.address)];
    assert_eq!(Proxy::start(plan).get("/a").text(), "origin");
    assert_eq!(top.requests().len(), 0);
}

#[test]
fn two_that_are_parents_of_each_other_refuse_the_circle() {
    let relay = Relay::start();
    let start = |name: &str, address| {
        let mut plan = forward_plan(&[443]);
        plan.parents = vec![parent(name, address)];
        plan.parents[0].direct = Direct::Never;
        Proxy::start(plan)
    };
    let one = start("two", relay.address);
    let two = start("one", one.address());
    relay.lead_to(two.address());
    for method in ["GET", "POST", "HEAD"] {
        let answer = one.ask(method, URL, &[]);
        assert_eq!(answer.status, 502, "{method} {}", answer.text());
    }
    let connect = "CONNECT origin.test:443 HTTP/1.1\r\nHost: origin.test:443\r\n\r\n";
    for first in [&two, &one] {
        let answer = first.client().send(connect).read("CONNECT");
        assert_eq!(answer.status, 502, "{}", answer.text());
    }
}

#[test]
fn a_circle_is_seen_without_via_too() {
    let top = naming("top");
    let proxy = Proxy::start(leaf(vec![parent("top", top.address)]));
    proxy.get(URL);
    let loop_id = top.last().field("cdn-loop").unwrap().to_owned();
    let fields = format!("CDN-Loop: other, {loop_id}");
    let back = proxy.ask("GET", "http://origin.test/b", &[&fields]);
    assert_eq!(back.status, 502);
    let others = proxy.ask(
        "GET",
        "http://origin.test/c",
        &["CDN-Loop: loligo; tag=other"],
    );
    assert_eq!(others.status, 200, "another of our name is no circle");
    assert_eq!(
        top.last().fields.all("cdn-loop").len(),
        2,
        "its member stays"
    );
}

/// Leaf, top, origin: who has it is told by the leaf's log.
#[test]
fn each_level_adds_what_it_knows() {
    let origin = naming("origin");
    let dir = tempfile::tempdir().unwrap();
    let top = Proxy::start(forward_plan(&[]));
    let middle = Proxy::start(leaf(vec![parent("top", top.address())]));
    let start = |name: &str| {
        let log = dir.path().join(name);
        let plan = leaf(vec![parent("middle", middle.address())]);
        (Proxy::start(logging(plan, &log)), log)
    };
    let url = |path: &str| format!("http://{}{path}", origin.address);
    top.get(&url("/top"));
    middle.get(&url("/middle"));
    let (leaf, log) = start("leaf");
    for path in ["/none", "/middle", "/top", "/top"] {
        assert_eq!(leaf.get(&url(path)).text(), "origin");
    }
    let entries = entries(leaf, &log);
    let flags: Vec<String> = entries.iter().map(|e| e["flags"].to_string()).collect();
    let has = |at: usize, flag: &str| flags[at].contains(flag);
    assert!(!has(0, "peer_hit") && !has(0, "farther_hit"), "{flags:?}");
    assert!(has(1, "peer_hit") && !has(1, "farther_hit"), "{flags:?}");
    assert!(!has(2, "peer_hit") && has(2, "farther_hit"), "{flags:?}");
    assert!(!has(3, "peer_hit") && !has(3, "farther_hit"), "its own hit");
    assert_eq!(origin.requests().len(), 3);
}

/// Leaf, middle, top, origin; all have the object. The origin is asked in each client's words, and what its 304 says gets to the client:
/// each proxy on the way answers the one below it with a 304 of its own.
#[test]
fn a_reload_reaches_the_origin_and_what_its_304_says_comes_back() {
    let origin = Origin::start(|exchange| {
        let number = format!("X-Number: {}", exchange.request.nth);
        let fields = [FRESH, "ETag: \"1\"", &number];
        match exchange.request.field("if-none-match") {
            Some(_) => exchange.send(head("304 Not Modified", &fields)),
            None => exchange.send(ok(&fields, "hello")),
        }
    });
    let top = Proxy::start(forward_plan(&[]));
    let middle = Proxy::start(leaf(vec![parent("top", top.address())]));
    let leaf = Proxy::start(leaf(vec![parent("middle", middle.address())]));
    let url = format!("http://{}/a", origin.address);
    let number = |answer: Response| -> Option<String> {
        assert_eq!((answer.status, answer.text()), (200, "hello"));
        answer.field("x-number").map(str::to_owned)
    };
    let first = number(leaf.get(&url));
    assert_eq!(number(leaf.get(&url)), first, "a hit");
    for reload in [
        "Cache-Control: no-cache",
        "Pragma: no-cache",
        "Cache-Control: max-age=0",
    ] {
        let asked = origin.requests().len();
        let reloaded = number(leaf.ask("GET", &url, &[reload]));
        assert_eq!(origin.requests().len(), asked + 1, "{reload}");
        assert_eq!(origin.last().field("if-none-match"), Some("\"1\""));
        assert_ne!(reloaded, first, "{reload}");
        for proxy in [&leaf, &middle, &top] {
            assert_eq!(
                number(proxy.get(&url)),
                reloaded,
                "{reload}: each has it now"
            );
        }
    }
}
