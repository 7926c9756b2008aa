//! The operator's cache rules: each thing they can say, by the short way (memory) and the long one, from memory and from disk.

use std::time::Duration;

use proxy::plan::{KeyRule, Rule, StorePlan, Then, When};

use super::harness::{
    Disk, FRESH, Gate, Origin, Proxy, Response, answer, head, ok, pattern, plan_for,
    running::{own_host_plan, with_admin},
};

fn words(words: &str) -> Vec<String> {
    words.split_whitespace().map(str::to_owned).collect()
}

/// For these paths.
fn at(paths: &str, then: Then) -> Rule {
    let when = When {
        paths: words(paths),
        ..When::default()
    };
    Rule {
        name: None,
        when,
        then,
    }
}

fn key(ignore_query: &str, fields: &str, cookies: &str) -> Then {
    Then {
        key: Some(KeyRule {
            ignore_query: words(ignore_query),
            fields: words(fields),
            cookies: words(cookies),
        }),
        ..Then::default()
    }
}

fn secs(seconds: u64) -> Option<Duration> {
    Some(Duration::from_secs(seconds))
}

/// Only from memory, only from disk.
fn everywhere(origin: &Origin, rules: &[Rule], mut play: impl FnMut(&Proxy)) {
    let disk = Disk::of_mib(16);
    for on_disk in [false, true] {
        let mut plan = with_admin(own_host_plan(origin));
        plan.rules = rules.to_vec();
        if on_disk {
            plan.stores = vec![StorePlan::at(disk.path(), Some(16 << 20))];
            plan.memory_bytes = 0;
        }
        play(&Proxy::start(plan));
    }
}

/// Each answer says its number and the Cookie it was asked with.
fn counting(fields: &'static [&'static str]) -> Origin {
    Origin::start(move |exchange| {
        let cookie = exchange.field("cookie").unwrap_or("none").to_owned();
        let nth = exchange.nth();
        exchange.send(ok(fields, format!("{} {nth} {cookie}", exchange.path())));
    })
}

#[track_caller]
fn hit(answer: &Response, text: &str) {
    assert_eq!((answer.text(), answer.is_hit()), (text, true), "{answer:?}");
}

#[track_caller]
fn miss(answer: &Response) -> String {
    assert!(!answer.is_hit(), "{answer:?}");
    answer.text().to_owned()
}

/// A purge by the admin interface.
fn purge(proxy: &Proxy, query: &str) {
    let answer = proxy.admin("DELETE", &format!("/cache?{query}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn bypass_neither_looks_up_nor_stores() {
    let bypass = |on| Then {
        bypass: Some(on),
        ..Then::default()
    };
    let origin = counting(&[FRESH]);
    let rules = [
        at("/live/but-this", bypass(false)),
        at("/live *.cgi", bypass(true)),
    ];
    everywhere(&origin, &rules, |proxy| {
        for path in ["/live", "/live/a", "/%6Cive/b", "/x/y.cgi?q"] {
            let first = miss(&proxy.get(path));
            let again = proxy.get(path);
            assert_ne!(miss(&again), first);
            assert!(again.cache().contains("fwd=bypass"), "{}", again.cache());
            let only = ["Cache-Control: only-if-cached"];
            assert_eq!(proxy.ask("GET", path, &only).status, 504);
            assert!(proxy.ask("HEAD", path, &[]).cache().contains("fwd=bypass"));
        }
        for path in ["/live/but-this", "/lively", "/x/y.cgi.txt"] {
            let first = miss(&proxy.get(path));
            hit(&proxy.get(path), &first);
            // The same on the long way.
            hit(
                &proxy.ask("GET", path, &["Cache-Control: max-stale"]),
                &first,
            );
        }
    });
}

/// What an earlier configuration stored is neither served nor changed.
#[test]
fn bypass_leaves_alone_what_is_stored() {
    let origin = Origin::start(|exchange| {
        let nth = exchange.nth();
        let tag = format!("ETag: \"{nth}\"");
        match exchange.request.method.as_str() {
            "HEAD" => exchange.send(head("200 OK", &[FRESH, &tag, "Content-Length: 9"])),
            _ => exchange.send(ok(&[FRESH, &tag], format!("{nth}"))),
        }
    });
    let disk = Disk::of_mib(16);
    let start = |bypass| {
        let mut plan = disk.under(plan_for(&origin));
        let then = Then {
            bypass: Some(bypass),
            ..Then::default()
        };
        plan.rules = vec![at("/", then)];
        Proxy::start(plan)
    };
    let proxy = start(false);
    let first = miss(&proxy.get("/a"));
    proxy.stop();
    let proxy = start(true);
    assert_ne!(miss(&proxy.get("/a")), first);
    assert!(!proxy.ask("HEAD", "/a", &[]).is_hit());
    proxy.stop();
    hit(&start(false).get("/a"), &first);
}

#[test]
fn ignored_parameters_make_no_difference_but_the_origin_sees_them() {
    let origin = counting(&[FRESH]);
    let rules = [
        at("/all", key("*", "", "")),
        at("/", key("utm_* id", "", "")),
    ];
    everywhere(&origin, &rules, |proxy| {
        let first = miss(&proxy.get("/all?a=1"));
        assert!(first.starts_with("/all?a=1 "), "{first}");
        for path in ["/all", "/all?b", "/all?a=2&c=3"] {
            hit(&proxy.get(path), &first);
            hit(
                &proxy.ask("GET", path, &["Cache-Control: max-stale"]),
                &first,
            );
        }
        let first = miss(&proxy.get("/some?id=7&x=1&utm_a=b"));
        hit(&proxy.get("/some?x=1"), &first);
        hit(&proxy.get("/some?utm_z&x=1&id"), &first);
        miss(&proxy.get("/some"));
        miss(&proxy.get("/some?x=2"));

        // A purge of any of them is one of all, and so is an unsafe method.
        for query in [
            "url=http://test.example/all%3Fz=9".replace("=9", "%3D9"),
            format!("url=http://{}/all%3Fz", origin.address),
            "soft=1&url=http://test.example/all%3Fz".to_owned(),
            "prefix=http://test.example/all%3Fz".to_owned(),
        ] {
            let before = proxy.get("/all").text().to_owned();
            purge(proxy, &query);
            let after = miss(&proxy.get("/all?q"));
            assert_ne!(after, before, "{query}");
            hit(&proxy.get("/all"), &after);
        }
        proxy.ask("POST", "/all?w", &["Content-Length: 0"]);
        miss(&proxy.get("/all"));
    });
}

#[test]
fn fields_and_cookies_that_make_a_difference() {
    let origin = counting(&[FRESH]);
    let rules = [at("/", key("", "x-kind", "lang"))];
    everywhere(&origin, &rules, |proxy| {
        let users: [&[&str]; 5] = [
            &[],
            &["X-Kind: a"],
            &["X-Kind: b"],
            &["Cookie: lang=de"],
            &["Cookie: lang=de; lang=en"],
        ];
        let answers = users.map(|user| miss(&proxy.ask("GET", "/a", user)));
        for (user, text) in users.iter().zip(&answers) {
            hit(&proxy.ask("GET", "/a", user), text);
        }
        // Other cookies make none.
        let other = ["Cookie: id=1; lang=de"];
        hit(&proxy.ask("GET", "/a", &other), &answers[3]);
        // All go together, however they go.
        for query in [
            "url=http://test.example/a".to_owned(),
            format!("url=http://{}/a", origin.address),
            "prefix=http://test.example/a".to_owned(),
            "soft=1&url=http://test.example/a".to_owned(),
        ] {
            purge(proxy, &query);
            for user in users {
                miss(&proxy.ask("GET", "/a", user));
            }
            for user in users {
                assert!(proxy.ask("GET", "/a", user).is_hit());
            }
        }
        proxy.ask("DELETE", "/a", &[]);
        for user in users {
            miss(&proxy.ask("GET", "/a", user));
        }
    });
}

#[test]
fn who_differs_in_the_key_does_not_share_a_fetch() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        let kind = exchange.field("x-kind").unwrap_or_default().to_owned();
        held.pass();
        exchange.send(ok(&[FRESH], kind));
    });
    let mut plan = plan_for(&origin);
    plan.rules = vec![at("/", key("", "x-kind", ""))];
    let proxy = Proxy::start(plan);
    let mut clients: Vec<_> = ["a", "b", "a", "b"]
        .into_iter()
        .map(|kind| {
            let mut client = proxy.client();
            client.ask("GET", "/a", &[&format!("X-Kind: {kind}")]);
            (client, kind)
        })
        .collect();
    gate.arrived(2);
    gate.open();
    for (client, kind) in &mut clients {
        assert_eq!(client.read("GET").text(), *kind);
    }
    for (client, kind) in &mut clients {
        let field = format!("X-Kind: {kind}");
        hit(&client.ask("GET", "/a", &[&field]).read("GET"), kind);
    }
}

#[test]
fn a_field_of_the_connection_makes_no_difference() {
    let origin = Origin::start(|exchange| {
        let kind = exchange.field("x-kind").unwrap_or("none").to_owned();
        exchange.send(ok(&[FRESH], kind));
    });
    let rules = [at("/", key("", "x-kind", ""))];
    let for_us = (&["X-Kind: a", "Connection: X-Kind"][..], "none");
    let for_all = (&["X-Kind: a"][..], "a");
    everywhere(&origin, &rules, |proxy| {
        for (path, order) in [("/a", [for_us, for_all]), ("/b", [for_all, for_us])] {
            for (fields, kind) in order {
                assert_eq!(miss(&proxy.ask("GET", path, fields)), kind, "{path}");
            }
            for (fields, kind) in order {
                hit(&proxy.ask("GET", path, fields), kind);
            }
        }
    });
}

#[test]
fn another_set_of_names_finds_nothing_of_the_old() {
    let origin = counting(&[FRESH]);
    let disk = Disk::of_mib(16);
    let start = |rules: &[Rule]| {
        let mut plan = disk.under(plan_for(&origin));
        plan.rules = rules.to_vec();
        Proxy::start(plan)
    };
    let proxy = start(&[]);
    let alice = ["Cookie: user=alice"];
    let first = miss(&proxy.ask("GET", "/a", &alice));
    hit(&proxy.ask("GET", "/a", &["Cookie: user=bob"]), &first);
    proxy.stop();
    let proxy = start(&[at("/", key("", "", "user"))]);
    let second = miss(&proxy.ask("GET", "/a", &alice));
    hit(&proxy.ask("GET", "/a", &alice), &second);
    miss(&proxy.ask("GET", "/a", &["Cookie: user=bob"]));
}

#[test]
fn cookies_are_stripped_from_requests_and_responses() {
    let strip = Then {
        strip_cookies: Some(true),
        strip_set_cookie: Some(true),
        ..Then::default()
    };
    let origin = counting(&[FRESH, "Set-Cookie: s=1", "Vary: Cookie"]);
    everywhere(&origin, &[at("/static", strip)], |proxy| {
        let answer = proxy.ask("GET", "/static/a", &["Cookie: id=1"]);
        assert!(answer.text().ends_with(" none"), "{}", answer.text());
        assert_eq!(answer.field("set-cookie"), None);
        let again = proxy.ask("GET", "/static/a", &["Cookie: id=2"]);
        hit(&again, answer.text());
        assert_eq!(again.field("set-cookie"), None);
        for _ in 0..2 {
            let other = proxy.ask("GET", "/other", &["Cookie: id=1"]);
            assert!(miss(&other).ends_with(" id=1"));
            assert_eq!(other.field("set-cookie"), Some("s=1"));
        }
    });
}

#[test]
fn a_304_sets_no_cookie_either() {
    let strip = Then {
        strip_set_cookie: Some(true),
        ..Then::default()
    };
    let origin = Origin::start(|exchange| {
        let set = "Set-Cookie: s=1";
        if exchange.field("if-none-match").is_some() {
            return exchange.send(head("304 Not Modified", &[FRESH, "ETag: \"1\"", set]));
        }
        exchange.send(ok(&["Cache-Control: max-age=0", "ETag: \"1\"", set], "a"));
    });
    everywhere(&origin, &[at("/", strip)], |proxy| {
        for n in 0..3 {
            let answer = proxy.get("/a");
            assert_eq!((answer.text(), answer.field("set-cookie")), ("a", None));
            assert_eq!(answer.is_hit(), n == 2);
        }
    });
}

#[test]
fn lifetimes_by_rule() {
    let origin = Origin::start(|exchange| {
        let nth = exchange.nth();
        let (status, control) = match exchange.path() {
            "/silent" | "/silent/redirect" => ("301 Moved Permanently", "X: y"),
            "/error" => ("503 Service Unavailable", "X: y"),
            "/gone" => ("410 Gone", "X: y"),
            "/short" => ("200 OK", "Cache-Control: max-age=0"),
            "/short/private" => ("200 OK", "Cache-Control: private, max-age=9"),
            "/silent/no-store" => ("200 OK", "Cache-Control: no-store"),
            "/silent/no-cache" => ("200 OK", "Cache-Control: no-cache, max-age=9"),
            _ => ("200 OK", "Cache-Control: max-age=10000"),
        };
        exchange.send(answer(status, &[control], format!("{nth}")));
    });
    let rules = [
        at(
            "/silent",
            Then {
                ttl: secs(500),
                ..Then::default()
            },
        ),
        at(
            "/short",
            Then {
                ttl_min: secs(300),
                ..Then::default()
            },
        ),
        at(
            "/long",
            Then {
                ttl_max: secs(100),
                ..Then::default()
            },
        ),
        Rule {
            name: None,
            when: When {
                statuses: vec![(500, 599)],
                ..When::default()
            },
            then: Then {
                ttl: secs(30),
                ..Then::default()
            },
        },
        at(
            "/gone",
            Then {
                negative_ttl: secs(40),
                ..Then::default()
            },
        ),
    ];
    everywhere(&origin, &rules, |proxy| {
        for (path, ttl) in [
            ("/silent", 500),
            ("/silent/redirect", 500),
            ("/short", 300),
            ("/long", 100),
            ("/error", 30),
            ("/gone", 40),
            ("/other", 10_000),
        ] {
            let first = miss(&proxy.get(path));
            let again = proxy.get(path);
            hit(&again, &first);
            let cache = again.cache();
            let left = cache.split("ttl=").nth(1).unwrap();
            let left: i64 = left.split(';').next().unwrap().parse().unwrap();
            assert!((ttl - 15..=ttl).contains(&left), "{path}: {cache}");
        }
        for path in ["/short/private", "/silent/no-store", "/silent/no-cache"] {
            miss(&proxy.get(path));
            miss(&proxy.get(path));
        }
    });
}

#[test]
fn what_is_not_stored_by_type_or_size() {
    let origin = Origin::start(|exchange| {
        let (kind, length) = match exchange.path() {
            "/video" => ("Content-Type: video/mp4", 10),
            "/large" => ("Content-Type: text/plain", 5_000),
            "/chunked" => {
                exchange.send(head("200 OK", &[FRESH, "Transfer-Encoding: chunked"]));
                let piece = super::harness::chunk(pattern(5_000));
                return exchange.send([&piece[..], b"0\r\n\r\n"].concat());
            }
            _ => ("Content-Type: text/plain", 10),
        };
        exchange.send(ok(&[FRESH, kind], pattern(length)));
    });
    let rules = [
        Rule {
            name: None,
            when: When {
                content_types: words("video/*"),
                ..When::default()
            },
            then: Then {
                bypass: Some(true),
                ..Then::default()
            },
        },
        at(
            "/",
            Then {
                object_bytes_max: Some(4_000),
                ..Then::default()
            },
        ),
    ];
    everywhere(&origin, &rules, |proxy| {
        for path in ["/video", "/large", "/chunked"] {
            for _ in 0..2 {
                let answer = proxy.get(path);
                assert!(!answer.is_hit(), "{path}");
                assert_eq!(answer.cache().contains("detail=rule"), path == "/video");
            }
        }
        proxy.get("/small");
        assert!(proxy.get("/small").is_hit());
    });
}

#[test]
fn waiters_share_what_only_a_rule_makes_storable() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        held.pass();
        exchange.send(answer("302 Found", &["Location: /b"], "there"));
    });
    let mut plan = plan_for(&origin);
    plan.rules = vec![Rule {
        name: None,
        when: When {
            statuses: vec![(302, 302)],
            ..When::default()
        },
        then: Then {
            ttl: secs(60),
            ..Then::default()
        },
    }];
    let proxy = Proxy::start(plan);
    let mut clients: Vec<_> = (0..8).map(|_| proxy.client()).collect();
    for client in &mut clients {
        client.ask("GET", "/a", &[]);
    }
    gate.arrived(1);
    // The one worker has seen all of them before it answers this.
    for _ in 0..3 {
        proxy.ask("OPTIONS", "/fence", &["Max-Forwards: 0"]);
    }
    gate.open();
    for client in &mut clients {
        assert_eq!(client.read("GET").text(), "there");
    }
    hit(&proxy.get("/a"), "there");
    assert_eq!(origin.count("/a"), 1);
}

/// Forms of `/static` and `*.css` that an origin may read as `/profile`.
const FORMS: [&str; 22] = [
    "/static/..%2fprofile",
    "/static/../profile",
    "/static/%2e%2e/profile",
    "/static/%2e%2e%2fprofile",
    "/static/.%2e/profile",
    "/static/..;/profile",
    "/static/..;a=b/profile",
    "/static/..%3b/profile",
    "/static/..%5cprofile",
    "/static/..%252fprofile",
    "/static/%252e%252e/profile",
    "/static//../../profile",
    "/static/..%00/profile",
    "/profile%2fx.css",
    "/profile%5cx.css",
    "/profile%3bx.css",
    "/profile;x.css",
    "/profile%23x.css",
    "/profile%3fx.css",
    "/profile%00x.css",
    "/profile%0ax.css",
    "/profile%253bx.css",
];

#[test]
fn a_lifetime_by_path_is_for_paths_that_nobody_reads_otherwise() {
    let origin = counting(&[]);
    let shares = Then {
        ttl: secs(60),
        ..Then::default()
    };
    let rules = [at("/static", shares.clone()), at("*.css", shares)];
    everywhere(&origin, &rules, |proxy| {
        for honest in ["/static/a%20b", "/a/b.css", "/%73tatic/~a", "/a%C3%A4.css"] {
            miss(&proxy.get(honest));
            assert!(proxy.get(honest).is_hit(), "{honest}");
        }
        for form in FORMS {
            miss(&proxy.get(form));
            assert!(!proxy.get(form).is_hit(), "{form}");
        }
    });
}

#[test]
fn a_path_that_may_be_read_as_one_to_bypass_is_bypassed() {
    let origin = counting(&[FRESH]);
    let bypass = Then {
        bypass: Some(true),
        ..Then::default()
    };
    everywhere(&origin, &[at("/profile", bypass)], |proxy| {
        miss(&proxy.get("/static/a%2fb"));
        assert!(proxy.get("/static/a%2fb").is_hit());
        // Nobody is known to take `..` and a NUL for `..`.
        for form in FORMS.into_iter().filter(|form| !form.contains("..%00")) {
            miss(&proxy.get(form));
            assert!(!proxy.get(form).is_hit(), "{form}");
        }
    });
}

#[test]
fn cookies_that_the_origin_does_not_see_keep_no_copies_apart() {
    let origin = counting(&[FRESH]);
    let then = Then {
        strip_cookies: Some(true),
        ..key("", "", "lang")
    };
    everywhere(&origin, &[at("/", then)], |proxy| {
        let first = miss(&proxy.ask("GET", "/a", &["Cookie: lang=de"]));
        hit(&proxy.ask("GET", "/a", &["Cookie: lang=fr"]), &first);
        hit(&proxy.get("/a"), &first);
    });
}
