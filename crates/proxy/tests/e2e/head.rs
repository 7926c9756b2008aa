//! HEAD: answered from what is stored, and a word about it where it goes to the origin (RFC 9111 §4.3.5).

use crate::harness::{client::request, *};

/// An origin whose GET is stored stale, and whose HEAD says this.
fn saying(said: &'static [&'static str]) -> Origin {
    Origin::start(move |exchange| match exchange.request.method.as_str() {
        "HEAD" => exchange.send(head("200 OK", said)),
        _ => exchange.send(ok(
            &[
                "ETag: \"1\"",
                "X: get",
                "Cache-Control: max-age=60",
                "Age: 100",
            ],
            format!("hello {}", exchange.nth()),
        )),
    })
}

#[test]
fn a_head_that_matches_freshens_what_is_stored() {
    for said in [
        &["ETag: \"1\"", FRESH, "X: head", "Content-Length: 7"][..],
        &["ETag: \"1\"", FRESH, "X: head"],
        &[FRESH, "X: head"],
    ] {
        let origin = saying(said);
        let disk = Disk::of_mib(4);
        let proxy = Proxy::start(disk.under(plan_for(&origin)));
        proxy.get("/a");
        let answer = proxy.ask("HEAD", "/a", &[]);
        assert_eq!((answer.status, answer.field("x")), (200, Some("head")));
        assert!(
            answer.cache().starts_with("loligo; fwd=stale"),
            "{}",
            answer.cache()
        );
        let hit = proxy.get("/a");
        assert!(hit.is_hit(), "{said:?}: {}", hit.cache());
        assert_eq!((hit.text(), hit.field("x")), ("hello 1", Some("head")));
        assert_eq!(hit.fields.all("via").len(), 1);
        assert!(proxy.ask("HEAD", "/a", &[]).is_hit());
    }
}

#[test]
fn a_head_that_does_not_makes_it_stale() {
    for said in [
        &["ETag: \"2\"", FRESH][..],
        &["ETag: \"1\"", FRESH, "Content-Length: 8"],
        &["Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT", FRESH],
        // Nothing says that these fields are for all.
        &["ETag: \"1\"", FRESH, "Set-Cookie: a=b"],
    ] {
        let origin = Origin::start(move |exchange| match exchange.request.method.as_str() {
            "HEAD" => exchange.send(head("200 OK", said)),
            _ => exchange.send(ok(
                &["ETag: \"1\"", FRESH],
                format!("hello {}", exchange.nth()),
            )),
        });
        let proxy = Proxy::before(&origin);
        proxy.get("/a");
        proxy.ask("HEAD", "/a", &["Cache-Control: no-cache"]);
        let answer = proxy.get("/a");
        assert!(
            answer.cache().starts_with("loligo; fwd=stale"),
            "{said:?}: {}",
            answer.cache()
        );
        assert_eq!(answer.field("set-cookie"), None);
        assert_eq!(origin.last().field("if-none-match"), Some("\"1\""));
    }
}

#[test]
fn other_answers_to_head_say_nothing_of_it() {
    let origin = Origin::start(move |exchange| match exchange.request.method.as_str() {
        "HEAD" => exchange.send(head("403 Forbidden", &["ETag: \"2\"", "Content-Length: 3"])),
        _ => exchange.send(ok(&["ETag: \"1\"", FRESH], "hello")),
    });
    let proxy = Proxy::before(&origin);
    proxy.get("/a");
    let answer = proxy.ask("HEAD", "/a", &["Cache-Control: no-cache"]);
    assert_eq!(
        (answer.status, answer.field("content-length")),
        (403, Some("3"))
    );
    assert!(proxy.get("/a").is_hit());
}

#[test]
fn a_head_for_what_is_not_stored_is_passed_on_and_stores_nothing() {
    let origin = saying(&[FRESH, "Content-Length: 7"]);
    let proxy = Proxy::before(&origin);
    let mut client = proxy.client();
    for _ in 0..2 {
        let answer = client.ask("HEAD", "/a", &[]).read("HEAD");
        assert_eq!(answer.field("content-length"), Some("7"));
        assert_eq!(answer.cache(), "loligo; fwd=uri-miss; detail=pass");
    }
    assert_eq!(client.get("/a").text(), "hello 3");
}

#[test]
fn a_dead_origin_is_covered_up_for_head_as_for_get() {
    let origin = Origin::start(|exchange| match exchange.path() {
        "/gone" if exchange.nth() > 1 => exchange.close(),
        "/broken" if exchange.nth() > 1 => exchange.send(answer("503 Busy", &[], "")),
        _ => exchange.send(ok(
            &["Cache-Control: max-age=1, stale-if-error=600", "Age: 100"],
            "hello",
        )),
    });
    let proxy = Proxy::before(&origin);
    for path in ["/gone", "/broken"] {
        proxy.get(path);
        let mut client = proxy.client();
        let answer = client.ask("HEAD", path, &[]).read("HEAD");
        assert_eq!(
            (answer.status, answer.field("content-length")),
            (200, Some("5"))
        );
        assert!(
            answer.cache().contains("stale-if-error"),
            "{}",
            answer.cache()
        );
        assert_eq!(client.get(path).text(), "hello");
    }
}

#[test]
fn a_body_that_a_head_holds_back_is_no_request() {
    let origin = Origin::start(|exchange| {
        match (exchange.request.method.as_str(), exchange.path()) {
            ("HEAD", "/busy") => exchange.send(answer("503 Busy", &[], "")),
            ("HEAD", _) => {}
            _ => return exchange.send(ok(&[FRESH], "hello")),
        }
        exchange.close();
    });
    let proxy = Proxy::before(&origin);
    let canary = request("GET", "/canary", &[], "");
    let length = format!("Content-Length: {}", canary.len());
    for path in ["/busy", "/gone"] {
        proxy.get(path);
        let mut client = proxy.client();
        let answer = client.ask("HEAD", path, &[&length]).read("HEAD");
        assert_eq!(
            (answer.status, answer.field("content-length")),
            (200, Some("5")),
            "what is stored covers it up"
        );
        assert_eq!(answer.field("connection"), Some("close"));
        client.send(&canary).expect_close();
    }
    assert_eq!(origin.count("/canary"), 0);
}

#[test]
fn via_tells_the_version_that_was_received() {
    let origin = Origin::start(|exchange| {
        let via = exchange.field("via").unwrap_or("none").to_owned();
        let length = via.len();
        exchange.send(format!(
            "HTTP/1.0 200 OK\r\n{FRESH}\r\nContent-Length: {length}\r\n\r\n{via}"
        ));
        exchange.close();
    });
    let proxy = Proxy::before(&origin);
    for (path, method) in [("/a", "GET"), ("/b", "POST")] {
        let mut client = proxy.client();
        client.send(format!("{method} {path} HTTP/1.0\r\n\r\n"));
        let answer = client.read(method);
        assert!(
            answer.text().starts_with("1.0 loligo ("),
            "{}",
            answer.text()
        );
        assert!(answer.field("via").unwrap().starts_with("1.0 loligo ("));
    }
    assert!(
        proxy
            .get("/a")
            .field("via")
            .unwrap()
            .starts_with("1.0 loligo (")
    );
}
