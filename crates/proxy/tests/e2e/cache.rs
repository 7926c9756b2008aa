//! What is stored and found again, and what makes it go.

use ::proxy::plan::IoEngine;

use crate::harness::*;

#[test]
fn a_miss_then_a_memory_hit_then_after_a_restart_a_disk_hit() {
    let body = pattern(10_000);
    let origin = Origin::sending(ok(&[FRESH, "Age: 7", "X-A: b"], &body));
    let disk = Disk::of_mib(16);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));

    let miss = proxy.get("/a");
    assert_eq!(miss.cache(), "loligo; fwd=uri-miss; stored");
    let from_memory = proxy.get("/a");
    proxy.stop();
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    let from_disk = proxy.get("/a");

    for hit in [&from_memory, &from_disk] {
        assert!(hit.is_hit() && hit.age() >= Some(7), "{:?}", hit.fields);
        assert!(hit.cache().contains("; ttl=59"), "{}", hit.cache());
        assert_same(&hit.body, &body);
        for same in ["x-a", "via", "date", "cache-control", "content-length"] {
            assert_eq!(hit.field(same), miss.field(same));
        }
    }
    assert_same(&miss.body, &body);
    assert_eq!(origin.count("/a"), 1);
    let found = &proxy.ready.stores[0];
    assert!(found.contains("1 record found in order"), "{found}");
}

#[test]
fn either_io_engine_reads_what_the_other_wrote() {
    let body = pattern(2_500_000);
    let origin = Origin::sending(ok(&[FRESH], &body));
    let disk = Disk::of_mib(16);
    let plan = |io_engine| {
        let mut plan = disk.under(plan_for(&origin));
        plan.storing.io_engine = io_engine;
        plan
    };
    for (io_engine, hit) in [
        (IoEngine::Threads, false),
        (IoEngine::Auto, true),
        (IoEngine::Threads, true),
    ] {
        let proxy = Proxy::start(plan(io_engine));
        let answer = proxy.get("/a");
        assert_eq!(answer.is_hit(), hit, "{}", proxy.ready.io_engine);
        assert_same(&answer.body, &body);
        proxy.stop();
    }
}

#[test]
fn a_copy_of_a_store_in_use_is_as_one_after_a_crash() {
    let origin = Origin::sending(ok(&[FRESH], "hello"));
    let disk = Disk::of_mib(4);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    proxy.get("/a");
    std::fs::copy(disk.path(), disk.path().with_file_name("copy")).unwrap();

    let other = Proxy::start(disk.named("copy", plan_for(&origin)));
    let found = &other.ready.stores[0];
    assert!(!found.contains("starts empty"), "{found}");
    let answer = other.get("/a");
    assert_eq!(answer.text(), "hello");
    assert!(other.get("/a").is_hit());
}

#[test]
fn what_may_not_be_stored_is_asked_for_again() {
    const COOKIE: &[&str] = &[FRESH, "Set-Cookie: a=b"];
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("no-store", &[], &["Cache-Control: no-store, max-age=600"]),
        ("private", &[], &["Cache-Control: private, max-age=600"]),
        ("set-cookie", &[], COOKIE),
        ("authorization", &["Authorization: Basic YTpi"], &[FRESH]),
        ("vary-star", &[], &[FRESH, "Vary: *"]),
        ("no-freshness", &[], &["X-A: b"]),
    ];
    for (reason, asked, said) in cases {
        let origin = Origin::sending(ok(said, "hello"));
        let disk = Disk::of_mib(4);
        let proxy = Proxy::start(disk.under(plan_for(&origin)));
        for _ in 0..2 {
            let answer = proxy.ask("GET", "/a", asked);
            let status = format!("loligo; fwd=uri-miss; detail={reason}");
            assert_eq!((answer.cache(), answer.text()), (status.as_str(), "hello"));
        }
        assert_eq!(origin.count("/a"), 2, "{reason}");
    }
}

#[test]
fn a_request_with_no_store_leaves_nothing_behind() {
    let origin = Origin::sending(ok(&[FRESH], "hello"));
    let proxy = Proxy::before(&origin);
    proxy.ask("GET", "/a", &["Cache-Control: no-store"]);
    assert!(!proxy.get("/a").is_hit());
    assert!(proxy.get("/a").is_hit());
}

#[test]
fn an_authorised_request_may_have_what_is_for_all() {
    let origin = Origin::sending(ok(&["Cache-Control: public, max-age=600"], "hello"));
    let proxy = Proxy::before(&origin);
    proxy.ask("GET", "/a", &["Authorization: Basic YTpi"]);
    assert!(
        proxy
            .ask("GET", "/a", &["Authorization: Basic Yzpk"])
            .is_hit()
    );
}

#[test]
fn each_variant_is_found_again() {
    let origin = Origin::start(|exchange| {
        let language = exchange
            .field("accept-language")
            .unwrap_or("none")
            .to_owned();
        exchange.send(ok(&[FRESH, "Vary: Accept-Language"], language));
    });
    let disk = Disk::of_mib(16);
    let get = |proxy: &Proxy, language: &str| {
        let field = format!("Accept-Language: {language}");
        let answer = proxy.ask("GET", "/a", &[&field]);
        assert_eq!(answer.text(), language);
        answer.is_hit()
    };
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    assert!(!get(&proxy, "en"));
    assert!(!get(&proxy, "de"));
    assert!(get(&proxy, "en"));
    assert!(get(&proxy, "de"));
    assert_eq!(proxy.get("/a").cache(), "loligo; fwd=vary-miss; stored");
    proxy.stop();

    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    assert!(get(&proxy, "de"));
    assert!(get(&proxy, "en"));
    assert!(!get(&proxy, "fr"));
    assert_eq!(origin.count("/a"), 4);
}

#[test]
fn head_is_answered_from_a_stored_get() {
    let origin = Origin::sending(ok(&[FRESH], "hello"));
    let proxy = Proxy::before(&origin);
    proxy.get("/a");
    let mut client = proxy.client();
    let head = client.ask("HEAD", "/a", &[]).read("HEAD");
    assert_eq!(
        (head.status, head.field("content-length")),
        (200, Some("5"))
    );
    assert!(head.is_hit());
    assert_eq!(
        client.get("/a").text(),
        "hello",
        "behind it on the same connection"
    );
    assert_eq!(origin.count("/a"), 1);
}

#[test]
fn head_for_what_is_not_stored_is_passed_on() {
    let origin = Origin::start(|exchange| {
        assert_eq!(exchange.request.method, "HEAD");
        exchange.send(head("200 OK", &[FRESH, "Content-Length: 5"]));
    });
    let proxy = Proxy::before(&origin);
    let mut client = proxy.client();
    for _ in 0..2 {
        let head = client.ask("HEAD", "/a", &[]).read("HEAD");
        assert_eq!(
            (head.status, head.field("content-length")),
            (200, Some("5"))
        );
    }
    assert_eq!(origin.count("/a"), 2);
}

#[test]
fn a_range_of_a_stored_object_is_cut_out() {
    let origin = Origin::sending(ok(&[FRESH, "ETag: \"1\""], "0123456789"));
    let disk = Disk::of_mib(16);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    proxy.get("/a");
    let cases: &[(&[&str], u16, &str, Option<&str>)] = &[
        (&["Range: bytes=2-4"], 206, "234", Some("bytes 2-4/10")),
        (&["Range: bytes=7-"], 206, "789", Some("bytes 7-9/10")),
        (&["Range: bytes=-2"], 206, "89", Some("bytes 8-9/10")),
        (&["Range: bytes=8-99"], 206, "89", Some("bytes 8-9/10")),
        (&["Range: bytes=10-"], 416, "", Some("bytes */10")),
        (
            &["Range: bytes=2-4", "If-Range: \"1\""],
            206,
            "234",
            Some("bytes 2-4/10"),
        ),
        (
            &["Range: bytes=2-4", "If-Range: \"0\""],
            200,
            "0123456789",
            None,
        ),
        (&["Range: bytes=4-2"], 200, "0123456789", None),
        (&["Range: lines=1-2"], 200, "0123456789", None),
    ];
    let check = |proxy: &Proxy| {
        for (fields, status, body, content_range) in cases {
            let answer = proxy.ask("GET", "/a", fields);
            assert_eq!(
                (answer.status, answer.text()),
                (*status, *body),
                "{fields:?}"
            );
            assert_eq!(answer.field("content-range"), *content_range, "{fields:?}");
            assert!(answer.is_hit());
        }
    };
    check(&proxy);
    proxy.stop();
    check(&Proxy::start(disk.under(plan_for(&origin))));
    assert_eq!(origin.count("/a"), 1);
}

#[test]
fn a_range_of_what_is_not_stored_is_passed_on() {
    let origin = Origin::start(|exchange| {
        assert_eq!(exchange.field("range"), Some("bytes=2-4"));
        let fields = [FRESH, "Content-Range: bytes 2-4/10"];
        exchange.send(answer("206 Partial Content", &fields, "234"));
    });
    let proxy = Proxy::before(&origin);
    for _ in 0..2 {
        let answer = proxy.ask("GET", "/a", &["Range: bytes=2-4"]);
        assert_eq!((answer.status, answer.text()), (206, "234"));
    }
    assert_eq!(origin.count("/a"), 2);
}

#[test]
fn ranges_of_a_large_object_cross_fragments() {
    const MIB: usize = 1 << 20;
    let body = pattern(3 * MIB + 12_345);
    let origin = Origin::sending(ok(&[FRESH], &body));
    let disk = Disk::of_mib(32);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    assert_same(&proxy.get("/a").body, &body);
    // What a client has whole is published a moment later.
    eventually("it is stored", || {
        let only = ["Cache-Control: only-if-cached", "Range: bytes=0-0"];
        proxy.ask("GET", "/a", &only).is_hit().then_some(())
    });
    let check = |proxy: &Proxy| {
        let mut client = proxy.client();
        for (first, last) in [
            (0, 9),
            (MIB - 1, MIB),
            (MIB, MIB),
            (MIB + 5, 3 * MIB - 1),
            (MIB - 10, 3 * MIB + 10),
            (3 * MIB + 12_344, 3 * MIB + 12_344),
            (0, body.len() - 1),
        ] {
            let field = format!("Range: bytes={first}-{last}");
            let part = client.ask("GET", "/a", &[&field]).read("GET");
            assert_eq!((part.status, part.is_hit()), (206, true));
            assert_same(&part.body, &body[first..=last]);
        }
        let whole = client.get("/a");
        assert!(whole.is_hit());
        assert_same(&whole.body, &body);
    };
    check(&proxy);
    proxy.stop();
    check(&Proxy::start(disk.under(plan_for(&origin))));
    assert_eq!(origin.count("/a"), 1);
}

/// An origin that counts versions of each resource and has `method` write a new one.
fn versions() -> Origin {
    let version = std::sync::atomic::AtomicU64::new(1);
    Origin::start(move |exchange| {
        exchange.body();
        match (exchange.request.method.as_str(), exchange.path()) {
            ("GET", _) => {
                let v = version.load(std::sync::atomic::Ordering::SeqCst);
                exchange.send(ok(&[FRESH], format!("v{v}")));
            }
            (_, "/fails") => exchange.send(answer("500 Internal Server Error", &[], "")),
            _ => {
                version.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                exchange.send(answer("201 Created", &["Location: /b"], "done"));
            }
        }
    })
}

#[test]
fn an_unsafe_method_invalidates_what_it_wrote_to() {
    let origin = versions();
    let disk = Disk::of_mib(16);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        let mut client = proxy.client();
        for path in ["/a", "/b", "/c"] {
            client.get(path);
            assert!(client.get(path).is_hit());
        }
        let done = client.ask(method, "/a", &[]).read(method);
        assert_eq!((done.status, done.text()), (201, "done"));
        assert!(!client.get("/a").is_hit(), "the target");
        assert!(!client.get("/b").is_hit(), "Location");
        assert!(client.get("/c").is_hit(), "something else");
        assert_eq!(client.get("/a").text(), client.get("/b").text());
    }
    proxy.ask("POST", "/c", &[]);
    proxy.stop();
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    assert!(
        !proxy.get("/c").is_hit(),
        "nor does it come back from the disk"
    );
}

#[test]
fn an_unsafe_method_that_failed_invalidates_nothing() {
    let origin = versions();
    let proxy = Proxy::before(&origin);
    proxy.get("/fails");
    assert_eq!(proxy.ask("POST", "/fails", &[]).status, 500);
    assert!(proxy.get("/fails").is_hit());
}

#[test]
fn all_variants_are_invalidated_together() {
    let origin = Origin::start(|exchange| {
        let body = format!("{:?} {}", exchange.field("a"), exchange.nth());
        exchange.send(ok(&[FRESH, "Vary: A"], body));
    });
    let proxy = Proxy::before(&origin);
    for field in ["A: 1", "A: 2"] {
        proxy.ask("GET", "/a", &[field]);
        assert!(proxy.ask("GET", "/a", &[field]).is_hit());
    }
    proxy.ask("POST", "/a", &[]);
    for field in ["A: 1", "A: 2"] {
        assert!(!proxy.ask("GET", "/a", &[field]).is_hit());
        assert!(proxy.ask("GET", "/a", &[field]).is_hit());
    }
}

#[test]
fn only_if_cached_asks_nobody() {
    let origin = Origin::sending(ok(&[FRESH], "hello"));
    let proxy = Proxy::before(&origin);
    let only = ["Cache-Control: only-if-cached"];
    assert_eq!(proxy.ask("GET", "/a", &only).status, 504);
    assert_eq!(origin.count("/a"), 0);
    proxy.get("/a");
    assert!(proxy.ask("GET", "/a", &only).is_hit());
    assert_eq!(origin.count("/a"), 1);
}

#[test]
fn other_statuses_are_stored_as_well() {
    let cases = [
        ("/404", "404 Not Found", "gone"),
        ("/301", "301 Moved Permanently", ""),
        ("/410", "410 Gone", "gone"),
    ];
    let origin = Origin::start(move |exchange| {
        let (_, status, body) = cases.iter().find(|c| c.0 == exchange.path()).unwrap();
        exchange.send(answer(status, &[FRESH, "Location: /x"], body));
    });
    let proxy = Proxy::before(&origin);
    for (path, _, body) in cases {
        for hit in [false, true] {
            let answer = proxy.get(path);
            assert_eq!(answer.status.to_string(), path[1..]);
            assert_eq!((answer.text(), answer.is_hit()), (body, hit));
        }
    }
}

#[test]
fn a_chunked_answer_is_stored_with_its_length() {
    let origin = Origin::start(|exchange| {
        exchange.send(head("200 OK", &[FRESH, "Transfer-Encoding: chunked"]));
        exchange.send([chunk("hel"), chunk("lo"), b"0\r\n\r\n".to_vec()].concat());
    });
    let proxy = Proxy::before(&origin);
    let mut client = proxy.client();
    let miss = client.get("/a");
    assert_eq!((miss.text(), miss.field("content-length")), ("hello", None));
    let hit = client.get("/a");
    assert_eq!(
        (hit.text(), hit.field("content-length")),
        ("hello", Some("5"))
    );
    assert_eq!(hit.field("transfer-encoding"), None);
}

#[test]
fn one_resource_has_one_key_and_a_query_makes_another() {
    let origin = Origin::start(|exchange| {
        let body = exchange.path().to_owned();
        exchange.send(ok(&[FRESH], body));
    });
    let proxy = Proxy::before(&origin);
    proxy.get("/a");
    assert!(!proxy.get("/a?x=1").is_hit());
    assert!(!proxy.get("/A").is_hit());
    assert_eq!(proxy.get("/a?x=1").text(), "/a?x=1");
    // The origin hears the Host and may answer each otherwise; where it does not, a made-up one makes no copy.
    let elsewhere = ["Host: elsewhere.example"];
    assert!(!proxy.ask("GET", "/a", &elsewhere).is_hit());
    let proxy = Proxy::start(running::own_host_plan(&origin));
    proxy.get("/a");
    assert!(proxy.ask("GET", "/a", &elsewhere).is_hit());
}

#[test]
fn the_memory_tier_holds_no_more_than_it_was_given() {
    let body = pattern(4000);
    let origin = Origin::sending(ok(&[FRESH], &body));
    let mut plan = plan_for(&origin);
    plan.memory_bytes = 1 << 20;
    let proxy = Proxy::start(plan);
    let mut client = proxy.client();
    let mut hits = [0; 3];
    for (round, hits) in hits.iter_mut().enumerate() {
        for n in 0..400 {
            let path = format!("/{}", if round == 2 { n % 50 } else { n });
            let answer = client.get(&path);
            assert_same(&answer.body, &body);
            *hits += u32::from(answer.is_hit());
        }
    }
    assert_eq!(hits[0], 0);
    assert!(hits[1] < 400, "1.6 MB do not fit into 1 MiB");
    assert!(hits[2] >= 350, "200 KB do: {hits:?}");
}

/// Fields that the client's connection names end here (RFC 9110 §7.6.1), and the answer is none to them.
#[test]
fn a_field_of_the_connection_selects_no_variant() {
    let origin = Origin::start(|exchange| {
        let device = exchange.field("x-device").unwrap_or("none").to_owned();
        exchange.send(ok(&[FRESH, "Vary: X-Device"], device));
    });
    let proxy = Proxy::before(&origin);
    let for_us = (&["X-Device: mobile", "Connection: X-Device"][..], "none");
    let for_all = (&["X-Device: mobile"][..], "mobile");
    for (path, order) in [("/a", [for_us, for_all]), ("/b", [for_all, for_us])] {
        for is_hit in [false, true] {
            for (fields, device) in order {
                let answer = proxy.ask("GET", path, fields);
                assert_eq!((answer.text(), answer.is_hit()), (device, is_hit), "{path}");
            }
        }
    }
}

#[test]
fn a_304_from_the_cache_names_this_proxy_once() {
    let origin = Origin::sending(ok(&[FRESH, "ETag: \"a\"", "Via: 1.1 front"], "x"));
    let proxy = Proxy::before(&origin);
    let condition = ["If-None-Match: \"a\""];
    let whole = proxy.get("/a");
    let via = whole.fields.all("via").join(", ");
    assert_eq!(via.matches(',').count(), 1, "{via}");
    // From what is stored, and from what arrives.
    for target in ["/a", "/b"] {
        let answer = proxy.ask("GET", target, &condition);
        assert_eq!((answer.status, answer.is_hit()), (304, target == "/a"));
        assert_eq!(answer.fields.all("via").join(", "), via, "{target}");
    }
}

#[test]
fn what_a_policy_does_not_take_is_not_said_to_be_stored() {
    let origin = Origin::start(|exchange| {
        let bytes = exchange.path()[1..].parse().unwrap();
        exchange.send(ok(&[FRESH], pattern(bytes)));
    });
    let disk = Disk::of_mib(16);
    let mut plan = disk.under(plan_for(&origin));
    plan.storing.replacement = "lru-threshold=10000".parse().unwrap();
    plan.memory_bytes = 0;
    let proxy = Proxy::start(plan);
    for (bytes, says) in [
        ("5000", "loligo; fwd=uri-miss; stored"),
        ("9990", "loligo; fwd=uri-miss; detail=not-admitted"),
        ("20000", "loligo; fwd=uri-miss; detail=not-admitted"),
        ("3000000", "loligo; fwd=uri-miss; detail=not-admitted"),
    ] {
        let target = format!("/{bytes}");
        assert_eq!(proxy.get(&target).cache(), says, "{bytes}");
        assert_eq!(
            proxy.get(&target).is_hit(),
            says.ends_with("stored"),
            "{bytes}"
        );
    }
}

#[test]
fn a_hit_announces_no_trailers() {
    let origin = Origin::start(|exchange| {
        let fields = [FRESH, "Trailer: X-Sum", "Content-Type: text/x"];
        let head = head(
            "200 OK",
            &[&fields[..], &["Transfer-Encoding: chunked"]].concat(),
        );
        let body = [chunk("hello"), b"0\r\nX-Sum: 1\r\n\r\n".to_vec()].concat();
        exchange.send([head, body].concat());
    });
    let proxy = Proxy::before(&origin);
    let miss = proxy.get("/a");
    assert_eq!(miss.field("trailer"), Some("X-Sum"));
    assert_eq!(miss.trailers.get("x-sum"), Some("1"));
    for method in ["GET", "HEAD"] {
        let hit = proxy.ask(method, "/a", &[]);
        assert!(hit.is_hit() && hit.field("trailer").is_none(), "{hit:?}");
        assert_eq!(hit.field("content-type"), Some("text/x"));
    }
    let part = proxy.ask("GET", "/a", &["Range: bytes=1-2"]);
    assert_eq!((part.text(), part.field("trailer")), ("el", None));
}

#[test]
fn a_get_with_a_body_is_not_answered_from_the_cache() {
    let origin = Origin::start(|exchange| {
        exchange.body();
        let nth = exchange.nth();
        exchange.send(ok(&[FRESH], nth.to_string()));
    });
    let proxy = Proxy::before(&origin);
    let mut client = proxy.client();
    let first = client.get("/a");
    let with_body = client::request("GET", "/a", &["Content-Length: 1"], "x");
    let passed = client.send(with_body).read("GET");
    assert_eq!(passed.cache(), "loligo; fwd=method; detail=pass");
    assert_ne!(passed.text(), first.text());
    // A length of 0 is no body, by the short way as by the long one.
    for fields in [
        &["Content-Length: 0"][..],
        &["Content-Length: 0", "Cache-Control: x"],
    ] {
        let answer = client.ask("GET", "/a", fields).read("GET");
        assert!(answer.is_hit(), "{answer:?}");
        assert_eq!(answer.text(), first.text());
    }
}
