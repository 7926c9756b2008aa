//! Redirects that a route follows: the strictest of all answers on the way decides who else may have the end, and for how long.

use std::sync::{Arc, atomic::AtomicU16, atomic::Ordering::Relaxed};

use proxy::plan::Plan;

use super::{
    harness::{Gate, Origin, Proxy, eventually, head, ok},
    mirrors::{following, host, mirror, redirect_with},
};

/// A first server that redirects with what the target names after `?`, to one whose answers have these fields.
fn chain(end: &'static [&'static str]) -> (Origin, Origin, Plan) {
    let files = Origin::start(move |exchange| {
        let fields: Vec<_> = end.iter().copied().chain(["ETag: \"1\""]).collect();
        match exchange.field("if-none-match") {
            Some(_) => exchange.send(head("304 Not Modified", &fields)),
            None => {
                let nth = exchange.nth();
                exchange.send(ok(&fields, format!("file {nth}")));
            }
        }
    });
    let at = files.address;
    let origin = Origin::start(move |exchange| {
        let said = exchange.path().split_once('?').map_or("", |(_, said)| said);
        let fields: Vec<_> = said
            .split('&')
            .filter(|it| !it.is_empty())
            .map(|it| it.replace('=', ": ").replace("+", " ").replace("~", "="))
            .collect();
        let fields: Vec<_> = fields.iter().map(String::as_str).collect();
        exchange.send(redirect_with(&format!("http://{at}/f"), &fields));
    });
    let plan = mirror(&origin, following(host("127.0.0.1", at.port())));
    (origin, files, plan)
}

const PUBLIC: &[&str] = &["Cache-Control: public, max-age=1000"];

/// The strictest of all answers on the way decides, and what the client has said of itself counts for each of them.
#[test]
fn what_a_redirect_leads_one_client_to_is_for_that_client() {
    let (_origin, _files, plan) = chain(PUBLIC);
    let proxy = Proxy::start(plan);
    let (authorised, cookie) = ("Authorization: Basic YTpi", "Cookie: sid=1");
    for (number, (asked_with, said)) in [
        (authorised, ""),
        (authorised, "Cache-Control=max-age~60"),
        (cookie, ""),
        (cookie, "Cache-Control=private,+no-store"),
        ("X: y", "Cache-Control=no-store"),
        ("X: y", "Cache-Control=private"),
        (
            "X: y",
            "Cache-Control=max-age~60&CDN-Cache-Control=no-store",
        ),
        ("X: y", "Set-Cookie=a~b"),
        ("X: y", "Vary=*"),
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/{number}?{said}");
        let first = proxy.ask("GET", &path, &[asked_with]);
        assert_eq!(first.status, 200, "{path}");
        assert!(!first.cache().contains("stored"), "{path} {first:?}");
        assert!(!proxy.get(&path).is_hit(), "{asked_with} {path}");
        let part = proxy.ask(
            "GET",
            &format!("/part{path}"),
            &[asked_with, "Range: bytes=0-1"],
        );
        assert!(!part.cache().contains("stored"), "{path} {part:?}");
    }
    for (asked_with, said) in [
        ("X: y", ""),
        ("X: y", "Cache-Control=max-age~60"),
        (authorised, "Cache-Control=public,max-age~60"),
        (authorised, "Cache-Control=must-revalidate,max-age~60"),
        (cookie, "Cache-Control=max-age~60"),
    ] {
        let path = format!("/shared/{}?{said}", asked_with.len());
        assert_eq!(proxy.ask("GET", &path, &[asked_with]).status, 200);
        assert!(proxy.get(&path).is_hit(), "{asked_with} {said}");
    }
}

#[test]
fn the_shortest_lifetime_on_the_way_counts_and_each_vary() {
    for end in [PUBLIC, &["CDN-Cache-Control: max-age=1000"]] {
        let (_origin, _files, plan) = chain(end);
        let proxy = Proxy::start(plan);
        for said in [
            "Cache-Control=max-age~50",
            "Cache-Control=max-age~500,+s-maxage~50",
            "Cache-Control=max-age~100&Age=50",
            "CDN-Cache-Control=max-age~50",
        ] {
            let path = format!("/?{said}");
            proxy.get(&path);
            let ttl = proxy.get(&path).cache().to_owned();
            let left = ttl
                .rsplit_once("; ttl=")
                .and_then(|(_, ttl)| ttl.parse().ok());
            assert!(matches!(left, Some(40..=50)), "{path} {ttl}");
        }
        let kind = |kind: &str| proxy.ask("GET", "/?Vary=X-Kind", &[&format!("X-Kind: {kind}")]);
        assert!(!kind("a").is_hit());
        assert!(!kind("b").is_hit());
        assert!(kind("a").is_hit() && kind("b").is_hit());
    }
}

#[test]
fn a_redirect_that_forbids_ends_what_is_stored_when_it_is_validated() {
    let forbids = Arc::new(AtomicU16::new(0));
    let files = Origin::start(|exchange| {
        let fields = ["ETag: \"1\"", "Cache-Control: max-age=0"];
        match exchange.field("if-none-match") {
            Some(_) => exchange.send(head("304 Not Modified", &fields)),
            None => exchange.send(ok(&fields, "the file")),
        }
    });
    let (at, told) = (files.address, Arc::clone(&forbids));
    let origin = Origin::start(move |exchange| {
        let fields: &[&str] = match told.load(Relaxed) {
            0 => &[],
            _ => &["Cache-Control: no-store"],
        };
        exchange.send(redirect_with(&format!("http://{at}/f"), fields));
    });
    let proxy = Proxy::start(mirror(&origin, following(host("127.0.0.1", at.port()))));
    let asked = || files.last().field("if-none-match").is_some();
    proxy.get("/a");
    assert!(proxy.get("/a").cache().contains("fwd-status=304") && asked());
    forbids.store(1, Relaxed);
    assert_eq!(proxy.get("/a").text(), "the file");
    assert!(asked());
    assert_eq!(proxy.get("/a").text(), "the file");
    assert!(!asked(), "nothing is stored any more");
}

/// What is given to one client alone says nothing of what is stored for all.
#[test]
fn nobody_with_credentials_ends_what_is_stored_for_all() {
    let files = Origin::start(|exchange| {
        let fields = ["ETag: \"1\"", "Cache-Control: public, max-age=0"];
        match exchange.field("if-none-match") {
            _ if exchange.path() == "/gone" => exchange.send(head(
                "404 Not Found",
                &["Content-Length: 0", "Cache-Control: public, max-age=9"],
            )),
            Some(_) if exchange.path() == "/same" => {
                exchange.send(head("304 Not Modified", &fields));
            }
            _ => exchange.send(ok(&fields, "the file")),
        }
    });
    let at = files.address;
    let origin = Origin::start(move |exchange| {
        let to = exchange.field("x-to").unwrap_or("same");
        exchange.send(redirect_with(&format!("http://{at}/{to}"), &[]));
    });
    let proxy = Proxy::start(mirror(&origin, following(host("127.0.0.1", at.port()))));
    let asked = || files.last().field("if-none-match").is_some();
    proxy.get("/a");
    for credentials in ["Authorization: Basic YTpi", "Cookie: sid=1"] {
        for to in ["same", "other", "gone"] {
            for part in ["X: y", "Range: bytes=0-1", "Range: bytes=0-1,4-5"] {
                proxy.ask("GET", "/a", &[credentials, part, &format!("X-To: {to}")]);
                assert_eq!(proxy.get("/a").text(), "the file");
                assert!(asked(), "{credentials} {to} {part}");
            }
        }
    }
}

#[test]
fn nobody_waits_for_what_a_redirect_gives_another() {
    let gate = Gate::new();
    let held = gate.clone();
    let files = Origin::start(move |exchange| {
        held.pass();
        let nth = exchange.nth();
        exchange.send(ok(PUBLIC, format!("file {nth}")));
    });
    let at = files.address;
    let origin = Origin::start(move |exchange| {
        let fields = ["Cache-Control: private"];
        exchange.send(redirect_with(&format!("http://{at}/f"), &fields));
    });
    let proxy = Proxy::start(mirror(&origin, following(host("127.0.0.1", at.port()))));
    let mut first = proxy.client();
    first.ask("GET", "/a", &["Cookie: sid=1"]);
    gate.arrived(1);
    let mut second = proxy.client();
    second.ask("GET", "/a", &["Cookie: sid=2"]);
    eventually("it waits", || {
        (proxy.counter("flights_joined") == 1).then_some(())
    });
    gate.open();
    let (first, second) = (first.read("GET"), second.read("GET"));
    assert_ne!(first.text(), second.text());
    assert_eq!(files.requests().len(), 2);
}
