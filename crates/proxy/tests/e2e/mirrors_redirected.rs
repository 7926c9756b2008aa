//! Redirects that a route follows: the strictest of all answers on the way decides who else may have the end, and for how long.

use std::sync::{
    Arc,
    atomic::{AtomicU8, AtomicU16, Ordering::Relaxed},
};

use proxy::plan::Plan;

use super::{
    harness::{
        Disk, FRESH, Gate, Origin, Proxy, answer, assert_same, eventually, head, ok, salted_pattern,
    },
    mirrors::{following, host, mirror, redirect_with},
    ranges::{F, TAG, ask_range, bounds, expect_part, part, serve},
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

/// Files of one length, `/0`, `/1` and so on, that say the same of themselves; and a server that redirects to the one of this number.
fn alike(len: usize, fields: &'static [&'static str]) -> (Origin, Origin, Plan, Arc<AtomicU8>) {
    let files = Origin::start(move |exchange| {
        serve(
            exchange,
            &salted_pattern(len, number(exchange.path())),
            fields,
        );
    });
    let at = files.address;
    let leads = Arc::new(AtomicU8::new(0));
    let told = Arc::clone(&leads);
    let origin = Origin::start(move |exchange| {
        let nth = told.load(Relaxed);
        exchange.send(redirect_with(&format!("http://{at}/{nth}?signed"), &[]));
    });
    let plan = mirror(&origin, following(host("127.0.0.1", at.port())));
    (origin, files, plan, leads)
}

fn number(path: &str) -> u8 {
    path[1..2].parse().unwrap()
}

/// The tag of one file says nothing of another one, though it is the same text.
#[test]
fn a_redirect_to_another_file_of_the_same_tag_is_not_validated_by_it() {
    let (_origin, files, plan, leads) = alike(100, &[TAG, "Cache-Control: max-age=0"]);
    let proxy = Proxy::start(plan);
    let first = proxy.get("/a");
    assert_same(&first.body, &salted_pattern(100, 0));
    assert!(proxy.get("/a").cache().contains("fwd-status=304"));
    assert_eq!(files.last().field("if-none-match"), Some("\"1\""));
    leads.store(1, Relaxed);
    assert_same(&proxy.get("/a").body, &salted_pattern(100, 1));
    assert_eq!(files.last().field("if-none-match"), None);
    assert!(proxy.get("/a").cache().contains("fwd-status=304"));
    // What a client has is no more than what is stored.
    let tag = first.field("etag").unwrap();
    let has = |tag: &str| proxy.ask("GET", "/a", &[&format!("If-None-Match: {tag}")]);
    assert_same(&has(tag).body, &salted_pattern(100, 1));
    assert_same(&has("\"1\"").body, &salted_pattern(100, 1));
    leads.store(0, Relaxed);
    assert_eq!(has(tag).status, 304);
}

/// The same for dates: a redirect back to an older file, of a server without tags.
#[test]
fn a_redirect_to_an_older_file_is_not_validated_by_its_date() {
    let files = Origin::start(|exchange| {
        let day = 9 - number(exchange.path());
        let modified = format!("Last-Modified: Sun, 0{day} Nov 2020 08:49:37 GMT");
        let fields = [modified.as_str(), "Cache-Control: max-age=0"];
        match exchange.field("if-modified-since") {
            Some(_) if exchange.field("if-none-match").is_none() => {
                exchange.send(head("304 Not Modified", &fields[1..]));
            }
            _ => exchange.send(ok(&fields, &exchange.path()[..2])),
        }
    });
    let at = files.address;
    let leads = Arc::new(AtomicU8::new(0));
    let told = Arc::clone(&leads);
    let origin = Origin::start(move |exchange| match told.load(Relaxed) {
        2 if exchange.field("if-modified-since").is_some() => {
            exchange.send(head("304 Not Modified", &["Cache-Control: max-age=0"]));
        }
        2 => exchange.send(ok(&["Cache-Control: max-age=0"], "here")),
        nth => exchange.send(redirect_with(&format!("http://{at}/{nth}"), &[])),
    });
    let proxy = Proxy::start(mirror(&origin, following(host("127.0.0.1", at.port()))));
    assert_eq!(proxy.get("/a").text(), "/0");
    assert!(proxy.get("/a").cache().contains("fwd-status=304"));
    leads.store(1, Relaxed);
    assert_eq!(proxy.get("/a").text(), "/1");
    assert!(proxy.get("/a").cache().contains("fwd-status=304"));
    // Nor if the server, which knows dates alone, has a file of its own instead.
    leads.store(2, Relaxed);
    assert_eq!(proxy.get("/a").text(), "here");
}

/// Parts of files that say the same of themselves are not put together, whichever way the second one is asked for.
#[test]
fn parts_of_two_ends_are_not_put_together() {
    const LEN: usize = 8 * F;
    const MODIFIED: &str = "Last-Modified: Sun, 08 Nov 2020 08:49:37 GMT";
    const DATE: &str = "Date: Sun, 15 Nov 2020 08:49:37 GMT";
    for (fields, is_tagged) in [
        (&[TAG, FRESH][..], true),
        (&[TAG, "Cache-Control: max-age=0"], true),
        // Fresh for a lifetime, so the date would be asked with.
        (
            &[MODIFIED, DATE, "Cache-Control: max-age=2000000000"],
            false,
        ),
    ] {
        let (_origin, files, plan, leads) = alike(LEN, fields);
        let disk = Disk::of_mib(32);
        let proxy = Proxy::start(disk.under(plan));
        let (one, other) = (salted_pattern(LEN, 0), salted_pattern(LEN, 1));
        let part = |from: usize| (from * F, from * F + 2 * F - 1);
        let ask = |from: usize| {
            let (first, last) = part(from);
            ask_range(&mut proxy.client(), "/a", &format!("bytes={first}-{last}"))
        };
        expect_part(&ask(0), &one, part(0));
        expect_part(&ask(4), &one, part(4));
        let tag = is_tagged.then_some("\"1\"");
        assert_eq!(files.last().field("if-range"), tag);
        leads.store(1, Relaxed);
        expect_part(&ask(2), &other, part(2));
        let whole = proxy.get("/a");
        assert_same(&whole.body, &other);
        for from in [0, 2, 4] {
            expect_part(&ask(from), &other, part(from));
        }
    }
}

/// Nor does what one client is led to end the parts that are stored for all, at a server that heeds no If-Range.
#[test]
fn nobody_with_cookies_ends_parts_that_are_stored_for_all() {
    const LEN: usize = 8 * F;
    const NONE: u8 = 9;
    let files = Origin::start(|exchange| {
        let number = number(&exchange.path()[2..]);
        let span = bounds(exchange.field("range").unwrap(), LEN);
        let tag = format!("ETag: \"{number}\"");
        exchange.send(match number {
            NONE => answer("416 Range Not Satisfiable", &[], ""),
            _ => part(&salted_pattern(LEN, number), span, &[FRESH, &tag]),
        });
    });
    let at = files.address;
    let origin = Origin::start(move |exchange| {
        let to = exchange.field("cookie").map_or("0", |cookie| &cookie[3..]);
        exchange.send(redirect_with(&format!("http://{at}/f?{to}"), &[]));
    });
    let disk = Disk::of_mib(32);
    let plan = mirror(&origin, following(host("127.0.0.1", at.port())));
    let proxy = Proxy::start(disk.under(plan));
    let span = |from: usize| (from * F, from * F + 2 * F - 1);
    let ask = |from: usize, cookie: &str| {
        let (first, last) = span(from);
        proxy.ask(
            "GET",
            "/a",
            &[&format!("Range: bytes={first}-{last}"), cookie],
        )
    };
    let file = salted_pattern(LEN, 0);
    expect_part(&ask(0, "X: y"), &file, span(0));
    let of_another = ask(2, "Cookie: to=1");
    expect_part(&of_another, &salted_pattern(LEN, 1), span(2));
    assert_eq!(ask(2, &format!("Cookie: to={NONE}")).status, 416);
    let answer = ask(0, "X: y");
    expect_part(&answer, &file, span(0));
    assert!(answer.is_hit(), "{}", answer.cache());
    for is_hit in [false, true] {
        let answer = ask(4, "X: y");
        expect_part(&answer, &file, span(4));
        assert_eq!(answer.is_hit(), is_hit, "{}", answer.cache());
    }
}
