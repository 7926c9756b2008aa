//! Smaller rules of HTTP that a proxy has to keep, each by itself.

use proxy::plan::{AdmissionKind, Forward, Listener, Role};

use super::harness::{running::*, *};

const TAG: &str = "ETag: \"1\"";

/// An origin that answers with what it was asked.
fn echo() -> Origin {
    Origin::start(|exchange| {
        let line = format!("{} {}", exchange.request.method, exchange.path());
        exchange.send(ok(&["Cache-Control: no-store"], line));
    })
}

#[test]
fn options_for_a_whole_server_is_asked_of_it_with_an_asterisk() {
    let origin = echo();
    let proxy = Proxy::start(forward_plan(&[]));
    let server = format!("http://{}", origin.address);
    let host = format!("Host: {}", origin.address);
    for (method, behind, expected) in [
        ("OPTIONS", "", "OPTIONS *"),
        ("OPTIONS", "/", "OPTIONS /"),
        ("OPTIONS", "?q", "OPTIONS /?q"),
        ("OPTIONS", "/a", "OPTIONS /a"),
        ("GET", "", "GET /"),
    ] {
        let target = format!("{server}{behind}");
        let answer = proxy.ask(method, &target, &[&host, "Max-Forwards: 1"]);
        assert_eq!(answer.text(), expected, "{method} {target}");
    }
    let before = origin.requests().len();
    let answer = proxy.ask("OPTIONS", &server, &[&host, "Max-Forwards: 0"]);
    assert_eq!((answer.status, origin.requests().len()), (200, before));
}

#[test]
fn allow_names_connect_only_where_it_is_allowed() {
    let origin = echo();
    let forward = |ports: &[u16]| {
        let mut listener = Listener::forward(local(), Vec::new());
        listener.role = Role::Forward(Forward {
            connect_ports: ports.to_vec(),
            ..Forward::for_address(listener.address.ip())
        });
        plan(listener)
    };
    for (plan, names_connect) in [
        (plan_for(&origin), false),
        (forward(&[]), false),
        (forward(&[443]), true),
    ] {
        let proxy = Proxy::start(plan);
        for method in ["OPTIONS", "TRACE"] {
            let answer = proxy.ask(method, "http://a/", &["Host: a", "Max-Forwards: 0"]);
            let allow = answer.field("allow").unwrap();
            assert_eq!(allow.contains("CONNECT"), names_connect, "{method} {allow}");
            assert!(allow.starts_with("GET, HEAD, POST"));
        }
    }
    let proxy = Proxy::before(&origin);
    let answer = proxy.ask("CONNECT", "a:443", &[]);
    assert_eq!(answer.status, 405);
    assert!(answer.field("allow").unwrap().starts_with("GET, HEAD"));
}

#[test]
fn only_if_cached_reaches_no_origin_whatever_stands_beside_it() {
    let origin = Origin::sending(ok(&[FRESH, TAG], "whole"));
    let proxy = Proxy::before(&origin);
    proxy.get("/stored");
    let only = "Cache-Control: only-if-cached";
    for path in ["/stored", "/other"] {
        for beside in [
            &["If-Match: \"1\""][..],
            &["If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT"],
            &["Connection: upgrade", "Upgrade: x"],
            &[
                "Connection: upgrade, http2-settings",
                "Upgrade: h2c",
                "HTTP2-Settings: x",
            ],
            &["Range: bytes=0-1", "If-Match: \"1\""],
        ] {
            let answer = proxy.ask("GET", path, &[&[only], beside].concat());
            let here = answer.status == 504 || (path == "/stored" && answer.is_hit());
            assert!(
                here,
                "{path} {beside:?}: {} {}",
                answer.status,
                answer.cache()
            );
        }
    }
    // A body behind it is not the next request.
    let mut client = proxy.client();
    let fields = &[only, "Content-Length: 4"];
    client.send(client::request("GET", "/other", fields, "abcd"));
    assert_eq!(client.read("GET").status, 504);
    client.expect_close();
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn freshening_writes_our_via_anew_and_not_once_more() {
    // What stands in the 200 and in the 304, and what is sent to clients: before our own line.
    for (in_200, in_304, expected) in [
        (None, None, None),
        (Some("1.1 up"), None, Some("1.1 up")),
        (Some("1.1 up"), Some("1.0 other"), Some("1.0 other")),
        (
            None,
            Some("1.1 loligo (like us)"),
            Some("1.1 loligo (like us)"),
        ),
    ] {
        let origin = Origin::start(move |exchange| {
            let is_question = exchange.field("if-none-match").is_some();
            let via = if is_question { in_304 } else { in_200 };
            let via = via.map(|via| format!("Via: {via}"));
            let mut fields = vec!["Cache-Control: max-age=0", TAG];
            fields.extend(via.as_deref());
            exchange.send(match is_question {
                true => head("304 Not Modified", &fields),
                false => ok(&fields, "whole"),
            });
        });
        let disk = Disk::of_mib(16);
        let mut own = Vec::new();
        for n in 0..4 {
            let proxy = Proxy::start(disk.under(plan_for(&origin)));
            for again in [false, true] {
                let answer = proxy.get("/a");
                assert_eq!(answer.text(), "whole");
                let mut lines = answer.fields.all("via");
                let last = lines.pop().unwrap().to_owned();
                assert!(last.starts_with("1.1 loligo ("), "{last}");
                let is_from_origin = n == 0 && !again;
                let others = if is_from_origin { in_200 } else { expected };
                assert_eq!(lines, Vec::from_iter(others), "restart {n}");
                own.push(last);
            }
            proxy.stop();
        }
        own.dedup();
        assert_eq!(own.len(), 4, "each process names itself: {own:?}");
        assert_eq!(origin.requests().len(), 8);
    }
}

#[test]
fn cache_status_says_stored_only_of_what_is() {
    const CHUNKED: &[&str] = &[FRESH, TAG, "Transfer-Encoding: chunked"];
    let origin = Origin::start(|exchange| match exchange.path() {
        "/chunks" => {
            exchange.send(head("200 OK", CHUNKED));
            exchange.send([chunk("whole"), chunk("")].concat());
        }
        "/long-chunks" => {
            exchange.send(head("200 OK", CHUNKED));
            exchange.send([chunk(pattern(40_000)), chunk("")].concat());
        }
        "/long" => exchange.send(ok(&[FRESH, TAG], pattern(40_000))),
        _ => exchange.send(ok(&[FRESH, TAG], "whole")),
    });
    let stored = "loligo; fwd=uri-miss; stored";
    let unknown = "loligo; fwd=uri-miss";
    let too_large = "loligo; fwd=uri-miss; detail=too-large";

    let disk = Disk::of_mib(16);
    let mut limited = disk.under(plan_for(&origin));
    limited.limits.object_bytes_max = 20_000;
    limited.limits.memory_object_bytes_max = 20_000;
    let mut without_disk = plan_for(&origin);
    without_disk.limits.memory_object_bytes_max = 20_000;
    for plan in [limited, without_disk] {
        let proxy = Proxy::start(plan);
        for (path, expected, is_stored) in [
            ("/short", stored, true),
            ("/long", too_large, false),
            ("/chunks", unknown, true),
            ("/long-chunks", unknown, false),
        ] {
            assert_eq!(proxy.get(path).cache(), expected, "{path}");
            assert_eq!(proxy.get(path).is_hit(), is_stored, "{path}");
        }
    }

    // Where little comes in, and is too long for memory.
    let disk = Disk::of_mib(16);
    let mut choosy = disk.under(plan_for(&origin));
    choosy.limits.memory_object_bytes_max = 20_000;
    choosy.storing.admission = AdmissionKind::SecondHit;
    let proxy = Proxy::start(choosy);
    let not_admitted = "loligo; fwd=uri-miss; detail=not-admitted";
    assert_eq!(proxy.get("/long").cache(), not_admitted);
    assert_eq!(proxy.get("/long").cache(), stored);
    assert!(proxy.get("/long").is_hit());
    assert_eq!(proxy.get("/short").cache(), stored);
}
