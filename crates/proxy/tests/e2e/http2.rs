//! HTTP/2 to clients: what is the same as over HTTP/1, and what is not.

use crate::{
    harness::{
        Disk, FRESH, Origin, Proxy, assert_same, await_hit_by_read, chunk, head, ok, pattern,
        plan_for,
        running::{forward_plan, with_admin},
        tls::{Authority, listener_tls},
    },
    http2_client::{Client, HOST, play, speaking},
};

#[test]
fn a_miss_and_then_hits() {
    let origin = Origin::sending(ok(&[FRESH, "Content-Type: text/plain"], "hello"));
    let proxy = Proxy::start(speaking(with_admin(plan_for(&origin))));
    play(async {
        let client = Client::plain(proxy.address()).await;
        let miss = client.get("/a").await;
        assert_eq!((miss.status, &miss.body[..]), (200, &b"hello"[..]));
        assert!(!miss.is_hit());
        for _ in 0..3 {
            let hit = client.get("/a").await;
            assert_eq!((hit.status, &hit.body[..]), (200, &b"hello"[..]));
            assert!(hit.is_hit(), "{hit:?}");
            assert_eq!(hit.field("content-length"), Some("5"));
            assert_eq!(hit.field("content-type"), Some("text/plain"));
            assert!(hit.field("age").is_some());
            assert_eq!(hit.field("connection"), None);
        }
        let head = client.ask(client.request("HEAD", "/a", &[])).await;
        assert_eq!((head.status, head.body.len()), (200, 0));
        assert!(head.is_hit());
    });
    assert_eq!(origin.requests().len(), 1);
    let asked = &origin.requests()[0];
    assert_eq!(asked.field("host"), Some(HOST));
    assert!(asked.field("via").unwrap().starts_with("2.0 "));
    proxy.await_count("h2_streams", 5);
    // What HTTP/1 has stored is the same.
    assert!(proxy.ask("GET", "/a", &[&format!("Host: {HOST}")]).is_hit());
}

#[test]
fn the_same_over_tls() {
    let authority = Authority::new();
    let signed = authority.sign("a", &[HOST]);
    let origin = Origin::sending(ok(&[FRESH], pattern(100_000)));
    let mut plan = speaking(with_admin(plan_for(&origin)));
    plan.listeners[0].tls = Some(listener_tls(&[&signed]));
    let proxy = Proxy::start(plan);
    play(async {
        let client = Client::tls(proxy.address(), &authority).await;
        for is_hit in [false, true, true] {
            let answer = client.get("/a").await;
            assert_eq!((answer.status, answer.is_hit()), (200, is_hit));
            assert_same(&answer.body, &pattern(100_000));
        }
    });
    // HTTP/1.1 goes on beside it.
    let mut client = authority.client().connect(proxy.address(), HOST);
    assert_eq!(client.get("/a", HOST).status(), "200");
}

#[test]
fn a_forward_proxy_serves_one_who_agreed_on_http2_and_speaks_http1() {
    let authority = Authority::new();
    let signed = authority.sign("a", &[HOST]);
    let origin = Origin::sending(ok(&[FRESH], "hello"));
    let mut plan = speaking(forward_plan(&[]));
    plan.listeners[0].tls = Some(listener_tls(&[&signed]));
    let proxy = Proxy::start(plan);
    let client = authority.client().offering(&["h2", "http/1.1"]);
    let mut client = client.connect(proxy.address(), HOST);
    let host = origin.address.to_string();
    for _ in 0..2 {
        let answer = client.get(&format!("http://{host}/a"), &host);
        assert_eq!((answer.status(), &answer.body[..]), ("200", &b"hello"[..]));
    }
    assert_eq!(client.0.conn.alpn_protocol(), Some(&b"h2"[..]));
    // One who speaks what it agreed on.
    play(async {
        let client = Client::tls(proxy.address(), &authority).await;
        let url = format!("http://{host}/a");
        let request = http::Request::builder().uri(url).body(()).unwrap();
        assert!(client.ask(request).await.is_hit());
    });
}

#[test]
fn large_bodies_both_ways() {
    let origin = Origin::start(|exchange| {
        let (body, _) = exchange.body();
        exchange.send(ok(&[], body));
    });
    let proxy = Proxy::start(speaking(plan_for(&origin)));
    let body = pattern(3 << 20);
    play(async {
        let client = Client::plain(proxy.address()).await;
        let length = body.len().to_string();
        for fields in [&[][..], &[("content-length", &length[..])]] {
            let request = client.request("POST", "/", fields);
            let answer = client.send(request, &body).await;
            assert_eq!((answer.status, answer.broken), (200, None));
            assert_same(&answer.body, &body);
        }
    });
    let asked = origin.requests();
    assert_eq!(asked[0].field("transfer-encoding"), Some("chunked"));
    assert_eq!(asked[1].field("content-length"), Some("3145728"));
}

#[test]
fn an_answer_that_breaks_off_is_reset() {
    let origin = Origin::start(|exchange| {
        match exchange.path() {
            "/length" => exchange.send(head("200 OK", &["Content-Length: 100"])),
            _ => {
                exchange.send(head("200 OK", &["Transfer-Encoding: chunked"]));
                exchange.send(chunk("some"));
            }
        }
        exchange.close();
    });
    let proxy = Proxy::start(speaking(plan_for(&origin)));
    play(async {
        let client = Client::plain(proxy.address()).await;
        for path in ["/length", "/chunked"] {
            let answer = client.get(path).await;
            assert_eq!(answer.broken, Some(h2::Reason::INTERNAL_ERROR), "{path}");
        }
    });
}

#[test]
fn trailers_both_ways() {
    let origin = Origin::start(|exchange| {
        let (body, trailers) = exchange.body();
        assert_eq!(trailers.get("sum"), Some("7"));
        exchange.send(head("200 OK", &["Transfer-Encoding: chunked"]));
        exchange.send(chunk(body));
        exchange.send("0\r\ngrpc-status: 0\r\n\r\n");
    });
    let proxy = Proxy::start(speaking(plan_for(&origin)));
    play(async {
        let client = Client::plain(proxy.address()).await;
        let request = client.request("POST", "/call", &[("te", "trailers")]);
        let (answer, mut stream) = client.begin(request, false).await.unwrap();
        stream.send_data("ping".into(), false).unwrap();
        let mut trailers = http::HeaderMap::new();
        trailers.insert("sum", "7".parse().unwrap());
        stream.send_trailers(trailers).unwrap();
        let answer = crate::http2_client::read(answer.await).await;
        assert_eq!((answer.status, &answer.body[..]), (200, &b"ping"[..]));
        assert_eq!(answer.trailers.unwrap()["grpc-status"], "0");
    });
}

#[test]
fn many_streams_share_one_fetch() {
    let gate = crate::harness::Gate::new();
    let passed = gate.clone();
    let origin = Origin::start(move |exchange| {
        passed.pass();
        exchange.send(ok(&[FRESH], pattern(200_000)));
    });
    let proxy = Proxy::start(speaking(plan_for(&origin)));
    play(async {
        let client = Client::plain(proxy.address()).await;
        let mut asked = Vec::new();
        for _ in 0..50 {
            let client = client.clone();
            asked.push(tokio::task::spawn_local(
                async move { client.get("/a").await },
            ));
        }
        let waiting = gate.clone();
        let waited = tokio::task::spawn_blocking(move || waiting.arrived(1));
        waited.await.unwrap();
        gate.open();
        for one in asked {
            assert_same(&one.await.unwrap().body, &pattern(200_000));
        }
    });
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn from_disk_and_in_parts() {
    let small = ok(&[FRESH, "ETag: \"s\""], pattern(10_000));
    let large = ok(&[FRESH, "ETag: \"l\""], pattern(5 << 20));
    let origin = Origin::start(move |exchange| match exchange.path() {
        "/small" => exchange.send(&small),
        _ => exchange.send(&large),
    });
    let disk = Disk::of_mib(64);
    let mut plan = speaking(with_admin(disk.under(plan_for(&origin))));
    plan.memory_bytes = 0;
    let proxy = Proxy::start(plan);
    play(async {
        let client = Client::plain(proxy.address()).await;
        assert_eq!(client.get("/small").await.body.len(), 10_000);
        assert_eq!(client.get("/large").await.body.len(), 5 << 20);
    });
    await_hit_by_read(&proxy, "/small");
    play(async {
        let client = Client::plain(proxy.address()).await;
        for _ in 0..3 {
            let small = client.get("/small").await;
            assert!(small.is_hit());
            assert_same(&small.body, &pattern(10_000));
            let large = client.get("/large").await;
            assert!(large.is_hit());
            assert_same(&large.body, &pattern(5 << 20));
        }
        let request = client.request("GET", "/large", &[("range", "bytes=2000000-2000009")]);
        let part = client.ask(request).await;
        assert_eq!(part.status, 206);
        assert_same(&part.body, &pattern(5 << 20)[2_000_000..2_000_010]);
        let ranges = [("range", "bytes=0-9,3000000-3000009")];
        let parts = client.ask(client.request("GET", "/large", &ranges)).await;
        let length: usize = parts.field("content-length").unwrap().parse().unwrap();
        assert_eq!((parts.status, parts.body.len()), (206, length));
        let condition = [("if-none-match", "\"s\"")];
        let same = client
            .ask(client.request("GET", "/small", &condition))
            .await;
        assert_eq!((same.status, same.body.len()), (304, 0));
    });
}

#[test]
fn cookies_come_as_one_line_and_variants_stay_apart() {
    let origin = Origin::start(|exchange| {
        let body = format!(
            "{} {}",
            exchange.field("cookie").unwrap_or("none"),
            exchange.field("accept-language").unwrap_or("none")
        );
        exchange.send(ok(&[FRESH, "Vary: Accept-Language"], body));
    });
    let proxy = Proxy::start(speaking(plan_for(&origin)));
    play(async {
        let client = Client::plain(proxy.address()).await;
        let mut request = client.request("GET", "/c", &[("cookie", "a=1")]);
        for crumb in ["b=2", "c=3"] {
            request
                .headers_mut()
                .append("cookie", crumb.parse().unwrap());
        }
        let answer = client.ask(request).await;
        assert_eq!(answer.body, b"a=1; b=2; c=3 none");
        for is_hit in [false, true] {
            for language in ["de", "fr"] {
                let fields = [("accept-language", language)];
                let answer = client.ask(client.request("GET", "/v", &fields)).await;
                assert_eq!(answer.is_hit(), is_hit);
                assert_eq!(answer.body, format!("none {language}").as_bytes());
            }
        }
        // Whoever has no right to it gets no stored answer to Authorization.
        let fields = [("authorization", "Basic eDp5"), ("accept-language", "it")];
        for _ in 0..2 {
            let answer = client.ask(client.request("GET", "/v", &fields)).await;
            assert!(!answer.is_hit());
        }
    });
}

#[test]
fn a_host_that_is_not_served_here_is_misdirected_on_a_connection_for_another() {
    let authority = Authority::new();
    let signed = authority.sign("a", &[HOST]);
    let origin = Origin::sending(ok(&[FRESH], "hello"));
    let mut plan = speaking(plan_for(&origin));
    plan.listeners[0].tls = Some(listener_tls(&[&signed]));
    let proxy::plan::Role::Reverse(routes) = &mut plan.listeners[0].role else {
        panic!()
    };
    routes[0].host = Some(HOST.into());
    let proxy = Proxy::start(plan);
    play(async {
        let client = Client::tls(proxy.address(), &authority).await;
        assert_eq!(client.get("/").await.status, 200);
        let other = http::Request::builder()
            .uri("https://b.example/")
            .body(())
            .unwrap();
        assert_eq!(client.ask(other).await.status, 421);
    });
}

#[test]
fn interim_heads_come_before_the_answer() {
    let origin = Origin::start(|exchange| {
        exchange.send(head("103 Early Hints", &["Link: </a.css>; rel=preload"]));
        if exchange.request.method == "POST" {
            exchange.send(head("100 Continue", &[]));
            exchange.body();
        }
        exchange.send(ok(&[], "done"));
    });
    let proxy = Proxy::start(speaking(plan_for(&origin)));
    play(async {
        let client = Client::plain(proxy.address()).await;
        for method in ["GET", "POST"] {
            let fields: &[(&str, &str)] = match method {
                "POST" => &[("expect", "100-continue")],
                _ => &[],
            };
            let request = client.request(method, "/", fields);
            let (mut answer, mut stream) = client.begin(request, method == "GET").await.unwrap();
            let mut seen = Vec::new();
            while seen.len() < if method == "POST" { 2 } else { 1 } {
                let interim = std::future::poll_fn(|cx| answer.poll_informational(cx)).await;
                seen.push(interim.unwrap().unwrap().status().as_u16());
            }
            if method == "POST" {
                stream.send_data("body".into(), true).unwrap();
            }
            let answer = crate::http2_client::read(answer.await).await;
            assert_eq!((answer.status, &answer.body[..]), (200, &b"done"[..]));
            assert_eq!(
                seen,
                if method == "POST" {
                    vec![103, 100]
                } else {
                    vec![103]
                }
            );
        }
    });
}
