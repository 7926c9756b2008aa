//! Interim responses: passed on as they come, to whom they are for, and never kept.

use crate::harness::*;
use crate::ranges::{F, TAG, ask_range, expect_part, serve};

const HINTS: &str = "Link: </style.css>; rel=preload";

/// An origin that hints, waits at the gate, and answers with these fields.
fn hinting(gate: &Gate, fields: &'static [&'static str]) -> Origin {
    let held = gate.clone();
    Origin::start(move |exchange| {
        exchange.send(head("103 Early Hints", &[HINTS]));
        held.pass();
        exchange.send(ok(fields, "hello"));
    })
}

#[track_caller]
fn hinted(client: &mut Client) {
    let hints = client.read_head();
    assert_eq!(
        (hints.status, hints.field("link")),
        (103, Some("</style.css>; rel=preload"))
    );
    assert!(hints.field("via").unwrap().starts_with("1.1 loligo"));
    assert_eq!(hints.field("cache-status"), None);
}

#[test]
fn they_arrive_before_the_answer_is_there() {
    for (method, fields) in [("GET", &[FRESH][..]), ("GET", &[]), ("DELETE", &[])] {
        let gate = Gate::new();
        let origin = hinting(&gate, fields);
        let proxy = Proxy::before(&origin);
        let mut client = proxy.client();
        client.ask(method, "/a", &[]);
        hinted(&mut client);
        gate.open();
        assert_eq!(client.read(method).text(), "hello", "{method}");
    }
}

#[test]
fn they_are_not_stored() {
    let gate = Gate::new();
    gate.open();
    let origin = hinting(&gate, &[FRESH]);
    let proxy = Proxy::before(&origin);
    let mut client = proxy.client();
    client.ask("GET", "/a", &[]);
    hinted(&mut client);
    assert_eq!(client.read("GET").text(), "hello");
    let hit = client.ask("GET", "/a", &[]).read("GET");
    assert!(hit.is_hit() && hit.field("link").is_none());
}

#[test]
fn a_request_without_storing_hears_them_too() {
    let gate = Gate::new();
    let origin = hinting(&gate, &[]);
    let proxy = Proxy::before(&origin);
    let mut client = proxy.client();
    client.ask("GET", "/a", &["Cache-Control: no-store"]);
    hinted(&mut client);
    gate.open();
    assert_eq!(client.read("GET").text(), "hello");
}

#[test]
fn http_1_0_hears_none() {
    for path in ["/a", "/b"] {
        let gate = Gate::new();
        gate.open();
        let origin = hinting(&gate, &[FRESH]);
        let proxy = Proxy::before(&origin);
        let mut client = proxy.client();
        let control = if path == "/b" {
            "Cache-Control: no-store\r\n"
        } else {
            ""
        };
        client.send(format!("GET {path} HTTP/1.0\r\n{control}\r\n"));
        assert_eq!(client.read("GET").text(), "hello");
    }
}

#[test]
fn those_who_wait_with_the_same_request_hear_them_others_do_not() {
    let gate = Gate::new();
    let origin = hinting(&gate, &[FRESH]);
    let proxy = Proxy::before(&origin);
    let (mut first, mut same, mut other) = (proxy.client(), proxy.client(), proxy.client());
    first.ask("GET", "/a", &["Cookie: a=1"]);
    hinted(&mut first);
    same.ask("GET", "/a", &["Cookie: a=1"]);
    hinted(&mut same);
    other.ask("GET", "/a", &["Cookie: a=2"]);
    gate.open();
    assert_eq!(other.read_head().status, 200);
    assert_eq!(first.read("GET").text(), "hello");
    assert_eq!(same.read("GET").text(), "hello");
    assert_eq!(origin.count("/a"), 1);
}

#[test]
fn a_hundred_is_for_those_who_asked_for_it() {
    let origin = Origin::start(|exchange| {
        exchange.send(head("100 Continue", &[]));
        exchange.send(head("102 Processing", &["Content-Length: 0", "X: y"]));
        exchange.send(ok(&[FRESH], "hello"));
    });
    let proxy = Proxy::before(&origin);
    for (path, fields) in [("/a", &[][..]), ("/b", &["Cache-Control: no-store"])] {
        let mut client = proxy.client();
        let interim = client.ask("GET", path, fields).read_head();
        assert_eq!((interim.status, interim.field("x")), (102, Some("y")));
        assert_eq!(interim.field("content-length"), None);
        assert_eq!(client.read("GET").text(), "hello");
    }
}

#[test]
fn too_many_are_an_error_of_the_origin() {
    for (many, status) in [(16, 200), (17, 502)] {
        let origin = Origin::start(move |exchange| {
            for _ in 0..many {
                exchange.send(head("103 Early Hints", &[HINTS]));
            }
            exchange.body();
            exchange.send(ok(&[], "hello"));
        });
        let proxy = Proxy::before(&origin);
        for (method, body) in [("GET", ""), ("POST", "ab")] {
            let mut client = proxy.client();
            let length = format!("Content-Length: {}", body.len());
            client.send(client::request(method, "/a", &[&length], body));
            let mut answer = client.read_head();
            let mut heard = 0;
            while answer.status < 200 {
                heard += 1;
                answer = client.read_head();
            }
            assert_eq!((answer.status, heard), (status, 16), "{method}");
        }
    }
}

#[test]
fn one_that_announces_a_body_spoils_the_connection() {
    let origin = Origin::start(|exchange| {
        exchange.send(head("103 Early Hints", &["Content-Length: 5"]));
        exchange.send(ok(&[], "hello"));
    });
    let proxy = Proxy::before(&origin);
    for _ in 0..2 {
        let mut client = proxy.client();
        client.ask("GET", "/a", &[]);
        assert_eq!(client.read_head().status, 103);
        assert_eq!(client.read("GET").text(), "hello");
    }
    let connections: Vec<_> = origin.requests().iter().map(|r| r.connection).collect();
    assert_eq!(connections, [0, 1]);
}

#[test]
fn before_a_part_it_is_not_taken_for_the_answer() {
    let gate = Gate::new();
    let held = gate.clone();
    let body = pattern(3 * F);
    let sent = body.clone();
    let origin = Origin::start(move |exchange| {
        if exchange.path() == "/other" {
            return exchange.send(ok(&[FRESH], "other"));
        }
        exchange.send(head("103 Early Hints", &[HINTS]));
        held.pass();
        serve(exchange, &sent, &[FRESH, TAG]);
    });
    let disk = Disk::of_mib(32);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    let mut first = proxy.client();
    first.ask("GET", "/a", &["Range: bytes=0-9"]);
    gate.arrived(1);
    // Its connection is nobody else's before the answer was there.
    assert_eq!(proxy.get("/other").text(), "other");
    gate.open();
    expect_part(&first.read("GET"), &body, (0, 9));
    // A hole in what is stored, and then what is left of it.
    let mut client = proxy.client();
    for span in [(2 * F, 2 * F + 9), (0, 3 * F - 1)] {
        let range = format!("bytes={}-{}", span.0, span.1);
        expect_part(&ask_range(&mut client, "/a", &range), &body, span);
        assert_eq!(proxy.get("/other").text(), "other");
    }
    assert_same(&client.get("/a").body, &body);
    assert_eq!(origin.count("/a"), 3);
}
