//! Which rules are met, and their combined effect.

use std::time::Duration;

use super::paths::path_fits;
use super::*;
use plan::{KeyRule, Then, Verdict};

/// The effect on a request without fields.
fn ruled<'b>(book: &'b Rulebook, method: &str, host: &str, path: &str) -> Ruled<'b> {
    let question = Question {
        method,
        scheme: Some(message::Scheme::Http),
        host,
        port: 80,
        path: Some(path),
        fields: &Fields::new(),
    };
    let client = std::net::Ipv4Addr::LOCALHOST.into();
    book.request(book.met(&book.may_meet(client, 0, 0), &question), true)
}

fn list(words: &str) -> Vec<String> {
    words.split_whitespace().map(str::to_owned).collect()
}

fn shape(ignored: &str, fields: &str, cookies: &str) -> Shape {
    Shape::new(&KeyRule {
        ignore_query: list(ignored),
        fields: list(fields),
        cookies: list(cookies),
    })
}

#[test]
fn paths_and_globs() {
    for (pattern, path, fits) in [
        ("/", "/", true),
        ("/", "/a/b", true),
        ("/a", "/a", true),
        ("/a", "/a/b", true),
        ("/a", "/ab", false),
        ("/a/", "/a", false),
        ("/a/", "/a/b", true),
        ("/a", "/%61/x", true),
        ("/a", "/%2561", false),
        ("/a", "/%6", false),
        ("*.jpg", "/x/y.jpg", true),
        ("*.jpg", "/x/y.jpg.gz", false),
        ("*.jpg", "/x/y%2Ejpg", true),
        ("/api/*/list", "/api/a/b/list", true),
        ("/api/*/list", "/api/list", false),
        ("/*a*b", "/xaxabxb", true),
        ("/*a*b", "/xaxabxbc", false),
        ("*", "/", true),
    ] {
        assert_eq!(
            path_fits(pattern.as_bytes(), path),
            fits,
            "{pattern} {path}"
        );
    }
}

#[test]
fn ignored_parameters_are_left_out() {
    for (ignored, uri, left) in [
        ("*", "http://h/a?b=c&d", "http://h/a"),
        ("*", "http://h/a", "http://h/a"),
        ("utm_*", "http://h/a?utm_x=1&b=2&utm_y", "http://h/a?b=2"),
        ("utm_*", "http://h/a?utm_x=1", "http://h/a"),
        ("b", "http://h/a?b=1&bb=2&b&c=b", "http://h/a?bb=2&c=b"),
        ("b", "http://h/a?", "http://h/a?"),
        ("b", "http://h/a?&b", "http://h/a?"),
        ("b", "http://h/a?x&&b&y", "http://h/a?x&&y"),
        ("b", "http://h/a?b=1;c=2", "http://h/a?b=1;c=2"),
        ("", "http://h/a?b=1", "http://h/a?b=1"),
    ] {
        let mut out = [b"GET ", uri.as_bytes()].concat();
        shape(ignored, "", "").cut_query(&mut out, 4);
        assert_eq!(String::from_utf8_lossy(&out[4..]), left, "{ignored} {uri}");
    }
}

#[test]
fn extras_differ_where_values_do() {
    let shape = shape("", "x-a accept-language", "lang");
    assert_eq!(
        shape.extras(&Fields::new()),
        b"accept-language=\0x-a=\0cookie:lang=\0\0\0\0"
    );
    let extras = |lines: &[(&str, &str)]| {
        let mut request = Fields::new();
        for (name, value) in lines {
            request.push(name.as_bytes(), value.as_bytes());
        }
        shape.extras(&request)
    };
    let all = [
        extras(&[]),
        extras(&[("X-A", "")]),
        extras(&[("X-A", "1")]),
        extras(&[("Cookie", "lang=de")]),
        extras(&[("Cookie", "lang=")]),
        extras(&[("Cookie", "lang=de; lang=en")]),
        extras(&[("Cookie", "lang=en; lang=de")]),
        extras(&[("X-A", "1"), ("Cookie", "lang=de")]),
    ];
    for (n, one) in all.iter().enumerate() {
        assert!(!all[..n].contains(one), "{n}");
    }
    let spelt = extras(&[("Cookie", "id=1;lang=de ; Lang=x; slang=y")]);
    assert_eq!(spelt, all[3]);
    assert_eq!(extras(&[("Cookie", "id=1"), ("Cookie", "lang=de")]), all[3]);
}

fn rule(when: When, then: Then) -> Rule {
    Rule {
        name: None,
        when,
        then,
    }
}

#[test]
fn of_each_thing_the_first_rule_that_says_it_counts() {
    let short = Some(Duration::from_secs(5));
    let long = Some(Duration::from_secs(500));
    let at = |paths: &str| When {
        paths: list(paths),
        ..When::default()
    };
    let book = Rulebook::new(&[
        rule(
            When {
                statuses: vec![(500, 599)],
                ..at("/a")
            },
            Then {
                ttl: short,
                bypass: Some(true),
                ..Then::default()
            },
        ),
        rule(
            at("/a /b"),
            Then {
                ttl: long,
                ..Then::default()
            },
        ),
        rule(
            When {
                methods: list("POST"),
                ..When::default()
            },
            Then {
                strip_cookies: Some(true),
                ..Then::default()
            },
        ),
        rule(
            When::default(),
            Then {
                ttl_max: short,
                bypass: Some(true),
                ..Then::default()
            },
        ),
    ]);
    let general = httpcache::Rules::default();
    let a = ruled(&book, "GET", "h", "/a?x");
    assert!(a.bypass && !a.strip_cookies && a.shape.is_none());
    let decide = |path: &str, status| {
        let ruled = ruled(&book, "HEAD", "h", path);
        let decision = book.response(&ruled.met, status, None, &general);
        (
            decision.rules.ttl_s,
            decision.rules.ttl_max_s,
            decision.stores,
        )
    };
    assert_eq!(decide("/a", 200), (Some(500), 5, true));
    assert_eq!(decide("/a", 503), (Some(5), 5, false));
    // A ttl without status does not apply to errors.
    assert_eq!(decide("/b", 503), (None, 5, true));
    assert_eq!(decide("/b", 410), (Some(500), 5, true));
    assert_eq!(decide("/c", 200), (None, 5, true));
    assert!(ruled(&book, "POST", "h", "/c").strip_cookies);
    assert!(!ruled(&Rulebook::default(), "GET", "h", "/").bypass);
}

#[test]
fn an_allowing_rule_that_stores_more_holds_however_the_path_is_read() {
    let styles = |verdict| {
        let when = When {
            paths: list("*.css"),
            ..When::default()
        };
        let then = Then {
            verdict,
            ttl: Some(Duration::from_secs(60)),
            ..Then::default()
        };
        Rulebook::new(&[rule(when, then)])
    };
    for verdict in [None, Some(Verdict::Allow)] {
        let book = styles(verdict);
        let ttl_s = |path| {
            let met = ruled(&book, "GET", "h", path).met;
            let decision = book.response(&met, 200, None, &httpcache::Rules::default());
            decision.rules.ttl_s
        };
        assert_eq!(ttl_s("/a.css"), Some(60));
        assert_eq!(ttl_s("/account%3bx.css"), None);
        assert_eq!(ttl_s("/account%2fx.css"), None);
        assert_eq!(ttl_s("/account%5Cx.css"), None);
    }
}

#[test]
fn keys_are_shaped_as_for_get_whatever_the_method() {
    let book = Rulebook::new(&[rule(
        When {
            methods: list("GET"),
            hosts: list("*.example.org"),
            ..When::default()
        },
        Then {
            key: Some(KeyRule {
                ignore_query: list("*"),
                ..KeyRule::default()
            }),
            ..Then::default()
        },
    )]);
    for method in ["GET", "HEAD", "POST"] {
        assert!(ruled(&book, method, "www.Example.org", "/").shape.is_some());
        assert!(ruled(&book, method, "example.org", "/").shape.is_none());
    }
}

#[test]
fn types_are_compared_without_parameters() {
    let when = When {
        content_types: list("image/* text/html"),
        ..When::default()
    };
    for (value, fits) in [
        (Some("image/png"), true),
        (Some("Text/HTML ;charset=utf-8"), true),
        (Some("text/html5"), false),
        (Some("images/png"), false),
        (Some(""), false),
        (None, false),
    ] {
        let value = value.map(str::as_bytes);
        assert_eq!(response_fits(&when, 200, value), fits, "{value:?}");
    }
}
