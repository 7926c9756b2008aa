//! The forward role: absolute targets, tunnels, upgrades; and no way round in circles.

use std::sync::{Arc, OnceLock};

use ::proxy::plan::{
    AccessFormat, AccessLog, Destinations, Forward, LenientHosts, Listener, LogTarget, Role,
};

use crate::harness::{
    running::{forward_plan, local, nobody, plan, url},
    *,
};

#[test]
fn an_absolute_target_is_fetched_and_stored() {
    let origin = Origin::start(|exchange| {
        assert_eq!(exchange.path(), "/a?b=c");
        let host = exchange.field("host").unwrap().to_owned();
        exchange.send(ok(&[FRESH], host));
    });
    let proxy = Proxy::start(forward_plan(&[]));
    let mut client = proxy.client();
    for hit in [false, true] {
        // The target counts, not Host (RFC 9112 §3.2.2).
        let answer = client.get(&format!("http://{}/a?b=c", origin.address));
        assert_eq!(answer.text(), origin.address.to_string());
        assert_eq!(answer.is_hit(), hit);
    }
    let name = format!("http://LOCALHOST:{}/a?b=c", origin.address.port());
    assert_eq!(client.get(&name).status, 200, "names are resolved");
}

/// Odd heads of a host that the operator names, and of none other; what says two things is refused of all.
#[test]
fn odd_lines_of_named_hosts_are_read() {
    const BARE: &str = "HTTP/1.1 200 OK\nCache-Control: max-age=60\nContent-Length: 5\n\nhello";
    const FOLDED: &str = "HTTP/1.1 200 OK\r\nCache-Control: public,\r\n max-age=60\r\nContent-Length: 5\r\n\r\nhello";
    const TWO: &str = "HTTP/1.1 200 OK\nContent-Length: 5\nContent-Length: 6\n\nhello!";
    let origin = Origin::start(|exchange| {
        exchange.body();
        exchange.send(match exchange.path() {
            "/bare" => BARE,
            "/folded" => FOLDED,
            _ => TWO,
        });
    });
    let proxy_for = |hosts: &[&str]| {
        let mut plan = forward_plan(&[]);
        let Role::Forward(forward) = &mut plan.listeners[0].role else {
            panic!("a forward plan");
        };
        forward.lenient = LenientHosts {
            bare_lf: true,
            folding: true,
            hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        };
        Proxy::start(plan)
    };
    let url = |path: &str| format!("http://{}{path}", origin.address);
    let (strict, lenient) = (proxy_for(&["other.example"]), proxy_for(&["127.0.0.1"]));
    for path in ["/bare", "/folded", "/two"] {
        assert_eq!(strict.get(&url(path)).status, 502, "{path}");
    }
    for path in ["/bare", "/folded"] {
        for hit in [false, true] {
            let answer = lenient.get(&url(path));
            assert_eq!((answer.text(), answer.is_hit()), ("hello", hit), "{path}");
        }
        assert_eq!(lenient.ask("POST", &url(path), &[]).text(), "hello");
    }
    let folded = lenient.get(&url("/folded"));
    assert_eq!(folded.field("cache-control"), Some("public, max-age=60"));
    assert_eq!(lenient.get(&url("/two")).status, 502);
}

#[test]
fn an_absolute_target_without_a_path_is_the_root() {
    let origin = Origin::start(|exchange| {
        let target = exchange.path().to_owned();
        exchange.send(ok(&[FRESH], target));
    });
    let proxy = Proxy::start(forward_plan(&[]));
    assert_eq!(proxy.get(&format!("http://{}", origin.address)).text(), "/");
    assert_eq!(
        proxy.get(&format!("http://{}?a", origin.address)).text(),
        "/?a"
    );
}

#[test]
fn other_targets_are_refused() {
    let proxy = Proxy::start(forward_plan(&[]));
    for (target, status) in [
        ("/a", 400),
        ("ftp://127.0.0.1/a", 501),
        ("http://", 400),
        ("http://127.0.0.1:99999/", 400),
        ("http://224.0.0.1/", 403),
    ] {
        assert_eq!(proxy.get(target).status, status, "{target}");
    }
}

#[test]
fn an_origin_that_is_not_there_is_a_bad_gateway() {
    let gone = nobody();
    let proxy = Proxy::start(forward_plan(&[]));
    let answer = proxy.get(&format!("http://{gone}/a"));
    assert_eq!(answer.status, 502);
    assert_eq!(
        answer.cache(),
        "loligo; fwd=uri-miss; detail=connection_refused"
    );
}

/// Reads one line and answers it; then reads on to the end and says how that was.
fn talking() -> Origin {
    Origin::start(|exchange| {
        exchange.send(format!("you said {}\r\n", exchange.path()));
        let (rest, end) = exchange.wire.read_to_end();
        exchange.send(format!("{} {end:?}", String::from_utf8(rest).unwrap()));
        exchange.close();
    })
}

#[test]
fn a_tunnel_carries_bytes_both_ways_and_half_closes() {
    let origin = talking();
    let port = origin.address.port();
    let proxy = Proxy::start(forward_plan(&[port]));
    let mut client = proxy.client();
    // What follows the head at once belongs to the tunnel too.
    let connect = format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    client.send(connect + "GET /hello HTTP/1.1\r\n\r\n");
    let opened = client.read_head();
    assert_eq!(opened.status, 200);
    for absent in ["content-length", "transfer-encoding"] {
        assert_eq!(opened.field(absent), None);
    }
    assert_eq!(client.bytes(17), b"you said /hello\r\n");
    client.send("last words").finish_sending();
    let (rest, end) = client.wire.read_to_end();
    assert_eq!(String::from_utf8(rest).unwrap(), "last words Closed");
    assert_eq!(end, End::Closed);
}

#[test]
fn a_tunnel_to_another_port_or_to_us_is_refused() {
    let origin = talking();
    let port = origin.address.port();
    let proxy = Proxy::start(forward_plan(&[443]));
    for (target, status) in [
        (format!("127.0.0.1:{port}"), 403),
        ("127.0.0.1".to_owned(), 400),
        ("127.0.0.1:443/a".to_owned(), 400),
    ] {
        let answer = proxy.client().ask("CONNECT", &target, &[]).read("CONNECT");
        assert_eq!(answer.status, status, "{target}");
    }
    let reverse = Proxy::before(&origin);
    let answer = reverse
        .client()
        .ask("CONNECT", "127.0.0.1:443", &[])
        .read("CONNECT");
    assert_eq!(answer.status, 405);
    assert!(origin.requests().is_empty());
}

#[test]
fn an_upgrade_turns_the_connection_into_a_tunnel() {
    let origin = Origin::start(|exchange| {
        assert_eq!(exchange.field("upgrade"), Some("chat"));
        assert_eq!(exchange.field("connection"), Some("Upgrade"));
        let mut switch = head(
            "101 Switching Protocols",
            &["Connection: Upgrade", "Upgrade: chat"],
        );
        switch.extend_from_slice(b"welcome");
        exchange.send(switch);
        let (said, _) = exchange.wire.exactly(5);
        exchange.send([&b"heard "[..], &said].concat());
        exchange.close();
    });
    let forward = Proxy::start(forward_plan(&[]));
    let reverse = Proxy::before(&origin);
    for (proxy, target) in [
        (&forward, format!("http://{}/chat", origin.address)),
        (&reverse, "/chat".to_owned()),
    ] {
        let mut client = proxy.client();
        client.ask("GET", &target, &["Connection: Upgrade", "Upgrade: chat"]);
        let switched = client.read_head();
        assert_eq!(
            (switched.status, switched.field("upgrade")),
            (101, Some("chat"))
        );
        assert_eq!(client.bytes(7), b"welcome");
        client.send("hello");
        assert_eq!(client.wire.read_to_end().0, b"heard hello");
    }
}

#[test]
fn an_upgrade_that_nobody_may_ask_for_ends_here() {
    let origin = Origin::sending(ok(&[], "hello"));
    let proxy = Proxy::before(&origin);
    for asked in [
        "GET /a HTTP/1.1\r\nHost: a\r\nUpgrade: chat\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nUpgrade: chat\r\n\r\n",
        "GET /a HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\n",
    ] {
        let answer = proxy.client().send(asked).read("GET");
        assert_eq!((answer.status, answer.text()), (200, "hello"));
        let arrived = origin.last();
        assert_eq!(arrived.field("upgrade"), None, "{asked}");
        assert_eq!(arrived.field("connection"), None, "{asked}");
    }
}

#[test]
fn an_upgrade_the_origin_ignores_is_an_ordinary_request() {
    let origin = Origin::sending(ok(&[FRESH], "hello"));
    let proxy = Proxy::before(&origin);
    let mut client = proxy.client();
    let fields = ["Connection: Upgrade", "Upgrade: chat"];
    assert_eq!(client.ask("GET", "/a", &fields).read("GET").text(), "hello");
    assert_eq!(client.get("/a").text(), "hello");
}

#[test]
fn a_switch_nobody_asked_for_is_a_bad_gateway() {
    let origin = Origin::start(|exchange| {
        exchange.send(head(
            "101 Switching Protocols",
            &["Connection: Upgrade", "Upgrade: chat"],
        ));
    });
    let proxy = Proxy::before(&origin);
    for method in ["GET", "POST"] {
        assert_eq!(proxy.ask(method, "/a", &[]).status, 502);
    }
}

#[test]
fn the_proxy_does_not_fetch_from_itself() {
    let mut both = forward_plan(&[]);
    both.listeners.push(both.listeners[0].clone());
    let proxy = Proxy::start(both);
    for own in &proxy.ready.listeners {
        for host in [
            "127.0.0.1",
            "0.0.0.0",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
        ] {
            let answer = proxy.get(&format!("http://{host}:{}/a", own.port()));
            assert_eq!(answer.status, 403, "{host}: {}", answer.text());
        }
        // The name has another address too, where nobody listens.
        let answer = proxy.get(&format!("http://localhost:{}/a", own.port()));
        assert_eq!(answer.status, 403, "{}", answer.text());
    }
}

#[test]
fn a_loop_through_others_ends() {
    // A neighbour that sends whatever it is asked back to the proxy, as a misconfigured one would.
    let back = Arc::new(OnceLock::new());
    let to = Arc::clone(&back);
    let neighbour = Origin::start(move |exchange| {
        let lines = exchange.request.fields.0.iter();
        let fields: Vec<String> = lines
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        let method = exchange.request.method.clone();
        let mut client = Client::connect(*to.get().unwrap());
        let answer = client.ask(&method, exchange.path(), &fields).read(&method);
        let status = format!("{} Whatever", answer.status);
        exchange.send(crate::harness::answer(&status, &[], answer.body));
    });
    let proxy = Proxy::before(&neighbour);
    back.set(proxy.address()).unwrap();
    for (n, method) in ["GET", "POST"].into_iter().enumerate() {
        assert_eq!(proxy.ask(method, "/a", &[]).status, 502);
        assert_eq!(
            neighbour.requests().len(),
            n + 1,
            "{method} goes round once"
        );
    }
}

#[test]
fn two_proxies_of_one_name_are_no_loop() {
    let origin = Origin::sending(ok(&[FRESH], "hello"));
    let inner = Proxy::start(way::undress(plan_for(&origin)));
    let outer = Proxy::start(plan(Listener::reverse(
        local(),
        Vec::new(),
        url(inner.address()),
    )));
    for _ in 0..2 {
        let answer = outer.get("/a");
        assert_eq!((answer.status, answer.text()), (200, "hello"));
    }
    assert_eq!(origin.last().fields.all("via").len(), 2);
}

/// A route reaches what it names, a public forward listener nothing of this machine, not even from the cache.
#[test]
fn what_a_route_fetched_is_not_for_a_forward_client() {
    let origin = Origin::sending(ok(&[FRESH], "hello"));
    let mut public = Listener::forward(local(), Vec::new());
    public.role = Role::Forward(Forward {
        connect_ports: Vec::new(),
        destinations: Destinations::default(),
        ..Forward::for_address(local().ip())
    });
    let mut plan = plan_for(&origin);
    plan.listeners.push(public);
    let proxy = Proxy::start(plan);
    assert_eq!(proxy.get("/a").text(), "hello");
    assert!(proxy.get("/a").is_hit());
    let target = format!("http://{}/a", origin.address);
    for fields in [&[][..], &["Cache-Control: max-stale"]] {
        let mut client = Client::connect(proxy.ready.listeners[1]);
        let answer = client.ask("GET", &target, fields).read("GET");
        assert_eq!(answer.status, 403, "{answer:?}");
    }
}

#[test]
fn the_access_log_has_the_uri_alone() {
    // More than a socket takes at once.
    const BYTES: usize = 4_000_000;
    let origin = Origin::sending(ok(&[FRESH], pattern(BYTES)));
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("access.log");
    let mut plan = forward_plan(&[]);
    plan.memory_bytes = 1 << 30;
    plan.limits.memory_object_bytes_max = BYTES as u64 * 2;
    plan.logs.access = Some(AccessLog {
        target: LogTarget::File(log.clone()),
        format: AccessFormat::Squid,
    });
    let proxy = Proxy::start(plan);
    let target = format!("http://{}/a", origin.address);
    // Fetched; by the short way, at once and with a client that reads later; by the long one.
    proxy.get(&target);
    assert!(proxy.get(&target).is_hit());
    let mut late = proxy.client();
    late.ask("GET", &target, &[]);
    let max_stale = ["Cache-Control: max-stale"];
    assert!(proxy.ask("GET", &target, &max_stale).is_hit());
    assert!(late.read("GET").is_hit());
    proxy.stop();
    let log = std::fs::read_to_string(log).unwrap();
    let uris: Vec<&str> = log
        .lines()
        .map(|line| line.split(" GET ").nth(1).unwrap())
        .map(|rest| rest.split(' ').next().unwrap())
        .collect();
    assert_eq!(uris, [&target[..]; 4]);
}
