//! Messages as RFC 9112 wants them, those it forbids, and the fields that stay behind.

use std::time::Duration;

use ::proxy::plan::{Listener, Role, Route};

use crate::harness::{
    client::request,
    running::{local, plan, url},
    *,
};

/// An origin whose answer to each path is the path, fresh under `/fresh`.
fn echo() -> Origin {
    Origin::start(|exchange| {
        exchange.body();
        let path = exchange.path().to_owned();
        let control = if path.starts_with("/fresh") {
            FRESH
        } else {
            "Cache-Control: no-store"
        };
        exchange.send(ok(&[control], path));
    })
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let origin = echo();
    let proxy = Proxy::before(&origin);
    proxy.get("/fresh");
    let mut client = proxy.client();
    let paths = ["/fresh", "/a", "/fresh", "/b", "/fresh-c", "/fresh"];
    let requests: String = paths.iter().map(|p| request("GET", p, &[], "")).collect();
    let post = request("POST", "/d", &["Content-Length: 3"], "abc");
    client.send(requests + &post + &request("GET", "/fresh", &[], ""));
    for path in paths {
        let answer = client.read("GET");
        assert_eq!((answer.text(), answer.is_hit()), (path, path == "/fresh"));
    }
    assert_eq!(client.read("POST").text(), "/d");
    assert!(client.read("GET").is_hit());
}

#[test]
fn a_connection_asked_to_close_closes() {
    let origin = echo();
    let proxy = Proxy::before(&origin);
    for _ in 0..2 {
        for path in ["/fresh", "/a"] {
            let mut client = proxy.client();
            let answer = client.ask("GET", path, &["Connection: close"]).read("GET");
            assert_eq!(
                (answer.text(), answer.field("connection")),
                (path, Some("close"))
            );
            client.expect_close();
        }
    }
}

#[test]
fn a_client_of_http_1_0_is_served() {
    let origin = echo();
    let proxy = Proxy::before(&origin);
    for _ in 0..2 {
        let mut client = proxy.client();
        client.send("GET /fresh HTTP/1.0\r\n\r\n");
        assert_eq!(client.read("GET").text(), "/fresh");
        client.expect_close();

        let mut client = proxy.client();
        for _ in 0..2 {
            client.send("GET /fresh HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
            let answer = client.read("GET");
            assert_eq!(answer.text(), "/fresh");
            assert_eq!(answer.field("connection"), Some("keep-alive"));
        }
    }
    assert_eq!(origin.count("/fresh"), 1);
}

/// Sends three chunks and trailers; fresh under `/fresh`.
fn chunking() -> Origin {
    Origin::start(|exchange| {
        let control = if exchange.path() == "/fresh" {
            FRESH
        } else {
            "Cache-Control: no-store"
        };
        let fields = [control, "Transfer-Encoding: chunked", "Trailer: X-Sum"];
        exchange.send(head("200 OK", &fields));
        for data in ["one ", "two ", "three"] {
            exchange.send(chunk(data));
        }
        exchange.send("0\r\nX-Sum: 3\r\n\r\n");
    })
}

#[test]
fn a_chunked_answer_stays_chunked_and_keeps_its_trailers() {
    let origin = chunking();
    let proxy = Proxy::before(&origin);
    for path in ["/fresh", "/a"] {
        let mut client = proxy.client();
        let answer = client.get(path);
        assert_eq!(answer.field("transfer-encoding"), Some("chunked"));
        assert_eq!(answer.text(), "one two three");
        assert_eq!(answer.trailers.get("x-sum"), Some("3"));
        assert_eq!(client.get(path).text(), "one two three");
    }
}

#[test]
fn a_chunked_answer_to_http_1_0_ends_with_the_connection() {
    let origin = chunking();
    let proxy = Proxy::before(&origin);
    for path in ["/fresh", "/a"] {
        let mut client = proxy.client();
        client.send(format!(
            "GET {path} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
        ));
        let answer = client.read("GET");
        assert_eq!(answer.text(), "one two three");
        assert_eq!(answer.field("content-length"), None);
        assert_eq!(answer.field("transfer-encoding"), None);
    }
}

#[test]
fn an_answer_that_ends_with_the_connection_is_chunked_and_not_stored() {
    let origin = Origin::start(|exchange| {
        exchange.send(head("200 OK", &[FRESH]));
        exchange.send("hello");
        exchange.close();
    });
    let proxy = Proxy::before(&origin);
    let mut client = proxy.client();
    for _ in 0..2 {
        let answer = client.get("/a");
        assert_eq!(answer.field("transfer-encoding"), Some("chunked"));
        assert_eq!(answer.text(), "hello");
        assert_eq!(
            answer.cache(),
            "loligo; fwd=uri-miss; detail=close-delimited"
        );
    }
}

#[test]
fn answers_without_a_body_have_none() {
    let origin = Origin::start(|exchange| match exchange.path() {
        "/204" => exchange.send(head("204 No Content", &[FRESH])),
        "/304" => exchange.send(head("304 Not Modified", &["ETag: \"1\""])),
        _ => exchange.send(ok(&[FRESH], "")),
    });
    let proxy = Proxy::before(&origin);
    let mut client = proxy.client();
    for hit in [false, true] {
        let answer = client.get("/204");
        assert_eq!((answer.status, answer.is_hit()), (204, hit));
        let answer = client.get("/empty");
        assert_eq!(
            (answer.status, answer.field("content-length")),
            (200, Some("0"))
        );
        assert_eq!(answer.is_hit(), hit);
        // With no-store the client's own condition goes to the origin.
        let fields = ["If-None-Match: \"1\"", "Cache-Control: no-store"];
        let answer = client.ask("GET", "/304", &fields).read("GET");
        assert_eq!((answer.status, answer.field("etag")), (304, Some("\"1\"")));
    }
}

#[test]
fn fields_for_one_hop_stay_behind() {
    let origin = Origin::start(|exchange| {
        for gone in [
            "keep-alive",
            "proxy-connection",
            "x-one",
            "proxy-authorization",
        ] {
            assert_eq!(exchange.field(gone), None, "{gone}");
        }
        assert_eq!(exchange.field("x-two"), Some("stays"));
        // We ask for trailers on our own behalf, since they reach the client.
        let is_told = (exchange.field("te"), exchange.field("connection"));
        assert_eq!(is_told, (Some("trailers"), Some("TE")));
        exchange.send(ok(
            &[
                "Connection: X-Three, keep-alive",
                "Keep-Alive: timeout=5",
                "Proxy-Connection: keep-alive",
                "X-Three: a",
                "X-Four: stays",
                FRESH,
            ],
            "hello",
        ));
    });
    let proxy = Proxy::before(&origin);
    for method in ["GET", "GET", "POST"] {
        let fields = [
            "Connection: X-One, TE",
            "Keep-Alive: timeout=5",
            "TE: trailers",
            "Proxy-Connection: keep-alive",
            "Proxy-Authorization: Basic YTpi",
            "X-One: a",
            "X-Two: stays",
        ];
        let answer = proxy.ask(method, "/a", &fields);
        for gone in ["connection", "keep-alive", "proxy-connection", "x-three"] {
            assert_eq!(answer.field(gone), None, "{gone}");
        }
        assert_eq!(
            (answer.field("x-four"), answer.text()),
            (Some("stays"), "hello")
        );
    }
}

#[test]
fn via_names_us_behind_those_before() {
    let origin = Origin::start(|exchange| {
        let via = exchange.request.fields.all("via").join(", ");
        exchange.send(ok(&["Via: 1.0 inner", FRESH], via));
    });
    let proxy = Proxy::before(&origin);
    for _ in 0..2 {
        let answer = proxy.ask("GET", "/a", &["Via: 1.0 outer"]);
        assert!(
            answer.text().starts_with("1.0 outer, 1.1 loligo ("),
            "{}",
            answer.text()
        );
        let via = answer.fields.all("via");
        assert_eq!((via.len(), via[0]), (2, "1.0 inner"));
        assert!(via[1].starts_with("1.1 loligo ("), "{via:?}");
    }
}

#[test]
fn each_route_has_its_host_and_its_origin() {
    let host = |exchange: &mut Exchange| {
        let body = format!("{} {}", exchange.field("host").unwrap(), exchange.path());
        exchange.send(ok(&[FRESH], body));
    };
    let (one, two) = (Origin::start(host), Origin::start(host));
    let route = |name: Option<&str>, prefix: &str, origin: &Origin, base: &str, pass_host| Route {
        host: name.map(str::to_owned),
        path_prefix: prefix.to_owned(),
        origin: proxy::plan::OriginUrl {
            path: base.to_owned(),
            ..url(origin.address)
        },
        upstream: None,
        pass_host,
        mirror: Default::default(),
        http2: None,
        tells_client: false,
        tls: None,
        sign: None,
    };
    let routes = vec![
        route(Some("a.example"), "/docs", &two, "/base", false),
        route(Some("a.example"), "/", &one, "", true),
        route(Some("*.b.example"), "/", &one, "", false),
    ];
    let proxy = Proxy::start(plan(Listener {
        role: Role::Reverse(routes),
        ..Listener::forward(local(), Vec::new())
    }));
    let with_port = format!("A.example:{}", way::port());
    for (host, path, expected) in [
        ("a.example", "/x", "a.example /x".to_owned()),
        (&with_port, "/x", String::new()),
        (
            "a.example",
            "/docs/y",
            format!("{} /base/docs/y", two.address),
        ),
        ("w.b.example", "/x", format!("{} /x", one.address)),
    ] {
        let answer = proxy.ask("GET", path, &[&format!("Host: {host}")]);
        // The second names the same resource as the first.
        let expected = if host.starts_with('A') {
            "a.example /x"
        } else {
            &expected
        };
        assert_eq!(
            (answer.text(), answer.is_hit()),
            (expected, host.starts_with('A'))
        );
    }
    assert_eq!(proxy.ask("GET", "/x", &["Host: c.example"]).status, 404);
}

#[test]
fn max_forwards_counts_down_to_us() {
    let origin = echo();
    let proxy = Proxy::before(&origin);
    let here = proxy.ask("OPTIONS", "/a", &["Max-Forwards: 0"]);
    assert_eq!((here.status, origin.requests().len()), (200, 0));
    assert!(here.field("allow").unwrap().contains("GET"));
    proxy.ask("OPTIONS", "/a", &["Max-Forwards: 3"]);
    assert_eq!(origin.last().field("max-forwards"), Some("2"));
    proxy.ask("OPTIONS", "/a", &[]);
    assert_eq!(origin.last().field("max-forwards"), None);
}

#[test]
fn trace_is_not_served() {
    let origin = echo();
    let proxy = Proxy::before(&origin);
    let fields = ["Cookie: secret=1", "Max-Forwards: 0"];
    let answer = proxy.ask("TRACE", "/a", &fields);
    assert_eq!((answer.status, origin.requests().len()), (405, 0));
    assert!(!answer.text().contains("secret"));
}

#[test]
fn malformed_requests_are_refused_and_the_connection_ends() {
    let origin = echo();
    let proxy = Proxy::before(&origin);
    proxy.get("/fresh");
    let field = |line: &str| format!("GET /fresh HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n");
    let post = |lines: &str| format!("POST /a HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\nabc");
    let many = "X: y\r\n".repeat(1100);
    let cases = [
        (400, "GET /fresh HTTP/1.1\nHost: a\n\n".to_owned()),
        (
            400,
            "GET /fresh HTTP/1.1\r\nHost: a\r\nX: y\n\r\n".to_owned(),
        ),
        (400, "GET /fresh HTTP/1.1\r\n\r\n".to_owned()),
        (400, "GET  /fresh HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET /fresh\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET /fresh#top HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "\0\u{1}\u{2}\r\n\r\n".to_owned()),
        (400, field("Host: b")),
        (400, field("X: y\r\n folded")),
        (400, field(" X: y")),
        (400, field("X : y")),
        (400, field("X(: y")),
        (400, field("X: a\0b")),
        (400, field("X: a\rb")),
        (400, "GET /fresh HTTP/1.1\r\nHost: a b\r\n\r\n".to_owned()),
        (400, post("Content-Length: 3\r\nTransfer-Encoding: chunked")),
        (400, post("Content-Length: 3\r\nContent-Length: 4")),
        (400, post("Content-Length: 3, 4")),
        (400, post("Content-Length: +3")),
        (400, post("Content-Length: 99999999999999999999")),
        (400, post("Transfer-Encoding: chunked, gzip")),
        (501, post("Transfer-Encoding: gzip, chunked")),
        (
            400,
            "POST /a HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(),
        ),
        (505, "GET /fresh HTTP/2.0\r\nHost: a\r\n\r\n".to_owned()),
        (
            414,
            format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(20_000)),
        ),
        (431, field(&format!("X: {}", "y".repeat(70_000)))),
        (431, field(many.trim_end())),
    ];
    for (status, bytes) in cases {
        let mut client = proxy.client();
        // A good request behind it must not be answered.
        client.send(bytes.clone() + &request("GET", "/fresh", &[], ""));
        let answer = client.read("GET");
        let asked = &bytes[..bytes.len().min(90)];
        assert_eq!(answer.status, status, "{asked:?}: {}", answer.text());
        assert_eq!(answer.field("connection"), Some("close"), "{asked:?}");
        client.expect_close();
    }
    assert_eq!(origin.requests().len(), 1, "nothing ambiguous is forwarded");
}

#[test]
fn a_header_of_almost_64_kib_goes_both_ways() {
    let origin = Origin::start(|exchange| {
        let long = exchange.field("x-long").unwrap().to_owned();
        exchange.send(ok(&[FRESH, &format!("X-Long: {long}")], "hello"));
    });
    let disk = Disk::of_mib(16);
    let mut plan = disk.under(plan_for(&origin));
    plan.limits.head_bytes_max = 64 << 10;
    let proxy = Proxy::start(plan);
    let long = "y".repeat((64 << 10) - 300);
    for hit in [false, true] {
        let answer = proxy.ask("GET", "/a", &[&format!("X-Long: {long}")]);
        assert_eq!((answer.text(), answer.is_hit()), ("hello", hit));
        assert_eq!(answer.field("x-long"), Some(long.as_str()));
    }
    proxy.stop();
    let answer = Proxy::start(disk.under(plan_for(&origin))).get("/a");
    assert_eq!((answer.text(), answer.is_hit()), ("hello", true));
    assert_eq!(answer.field("x-long"), Some(long.as_str()));
}

#[test]
fn a_head_may_come_byte_by_byte() {
    let origin = echo();
    let proxy = Proxy::before(&origin);
    for path in ["/fresh", "/fresh", "/a"] {
        let mut client = proxy.client();
        for byte in request("GET", path, &["X: y"], "").bytes() {
            client.send([byte]);
        }
        assert_eq!(client.read("GET").text(), path);
    }
    let mut client = proxy.client();
    for byte in request(
        "POST",
        "/b",
        &["Transfer-Encoding: chunked"],
        "3\r\nabc\r\n0\r\n\r\n",
    )
    .bytes()
    {
        client.send([byte]);
    }
    assert_eq!(client.read("POST").text(), "/b");
}

#[test]
fn a_bare_lf_is_refused_though_it_dribbles_in() {
    let origin = echo();
    let proxy = Proxy::before(&origin);
    let mut client = proxy.client();
    for byte in "GET /a HTTP/1.1\nHost: a\n\n".bytes() {
        if !client.wire.send([byte]) {
            break; // refused before the last of them
        }
    }
    assert_eq!(client.read("GET").status, 400);
}

#[test]
fn a_head_that_never_ends_is_given_up() {
    let origin = echo();
    let mut plan = plan_for(&origin);
    plan.timeouts.client_head = Duration::from_secs(1);
    let proxy = Proxy::start(plan);
    let mut client = proxy.client();
    client.send("GET /a HTTP/1.1\r\nHost: a\r\nX: ");
    let answer = client.read("GET");
    assert_eq!(
        (answer.status, answer.field("connection")),
        (408, Some("close"))
    );
    client.expect_close();
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let origin = echo();
    let mut plan = plan_for(&origin);
    plan.timeouts.client_idle = Duration::from_secs(1);
    let proxy = Proxy::start(plan);
    let mut client = proxy.client();
    client.get("/a");
    client.expect_close();
}
