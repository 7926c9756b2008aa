//! The cost of rules and routes for a hit, over a number of rounds: `MEASURE=1000000 cargo test --release -p rules --lib cost -- --nocapture`.

use std::{hint::black_box, time::Instant};

use fields::Fields;

use super::*;
use plan::{Edit, FieldFits, FieldIs, HostList, Hours, How, Rule, Text, Then, Verdict};

/// `count` rules of all kinds, of which only the last matches.
fn many(count: usize) -> Vec<Rule> {
    let list = std::sync::Arc::new(HostList::of_text(".ads.example\n").unwrap());
    let mut rules: Vec<Rule> = (0..count - 1)
        .map(|n| {
            let mut when = When::default();
            match n % 10 {
                0 | 1 => when.hosts = vec![format!("h{n}.example.org"), format!("*.d{n}.example")],
                2 | 3 => when.paths = vec![format!("/section{n}")],
                4 => when.paths = vec![format!("*.x{n}")],
                5 | 6 => {
                    when.clients = vec![
                        format!("10.{}.{}.0/24", n / 256 % 256, n % 256)
                            .parse()
                            .unwrap(),
                    ]
                }
                7 => when.methods = vec!["POST".to_owned()],
                8 => {
                    when.fields = vec![FieldFits {
                        name: "user-agent".to_owned(),
                        how: FieldIs::One(vec![format!("*bot{n}*")]),
                    }];
                }
                _ if n == 9 => when.host_lists = vec![list.clone()],
                _ => when.hours = vec![Hours::parse("Sa 00:00-00:01 UTC").unwrap()],
            }
            // Half of the rules have a verdict.
            let then = match n % 4 {
                0 => Then {
                    verdict: Some(Verdict::Allow),
                    ..Then::default()
                },
                1 => Then {
                    verdict: Some(Verdict::Deny { words: None }),
                    ..Then::default()
                },
                _ => Then {
                    bypass: Some(true),
                    ..Then::default()
                },
            };
            rule(when, then)
        })
        .collect();
    rules.push(rule(When::default(), Then::default()));
    rules
}

fn rule(when: When, then: Then) -> Rule {
    Rule {
        name: None,
        when,
        then,
    }
}

fn measure(what: &str, mut once: impl FnMut()) {
    let rounds = std::env::var("MEASURE").ok();
    let rounds: u32 = rounds.map_or(10, |rounds| rounds.parse().unwrap());
    let mut best = f64::MAX;
    for _ in 0..5 {
        let began = Instant::now();
        (0..rounds).for_each(|_| once());
        best = best.min(began.elapsed().as_nanos() as f64 / f64::from(rounds));
    }
    println!("{what}: {best:.0} ns");
}

#[test]
fn the_cost_of_many_rules() {
    let mut fields = Fields::new();
    for (name, value) in [
        ("Host", "www.example.org"),
        (
            "User-Agent",
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)",
        ),
        ("Accept", "text/html,application/xhtml+xml"),
        ("Accept-Encoding", "gzip, br"),
    ] {
        fields.push(name.as_bytes(), value.as_bytes());
    }
    let question = Question {
        method: "GET",
        scheme: Some(message::Scheme::Http),
        host: "www.example.org",
        port: 80,
        path: Some("/images/2026/11/a-photo-of-a-squid.jpg?size=large"),
        fields: &fields,
    };
    let client = "192.0.2.1".parse().unwrap();
    for count in [1, 10, 100, 1000, 10_000] {
        let book = Rulebook::new(&many(count));
        let mut standing = Standing::default();
        let mut met = Met::default();
        measure(&format!("{count} rules"), || {
            let among = standing.of(&book, 1, client, 0, 1_700_000_000_000);
            let ruled = book.request(book.met(among, black_box(&question)), true);
            met = black_box(ruled.met);
        });
        assert_eq!(met.iter().collect::<Vec<_>>(), [count - 1]);
        measure(&format!("a connection of {count} rules"), || {
            black_box(book.may_meet(client, 0, 1_700_000_000_000));
        });
    }
}

#[test]
fn the_cost_of_a_rule_for_each_host() {
    for count in [1, 1000, 10_000] {
        let of_host = |n: usize| {
            let hosts = vec![format!("www.site{n}.example"), format!("*.site{n}.example")];
            let when = When {
                hosts,
                paths: vec!["/wp-content".to_owned(), "*.css".to_owned()],
                ..When::default()
            };
            let ttl = Some(std::time::Duration::from_secs(60));
            rule(
                when,
                Then {
                    ttl,
                    ..Then::default()
                },
            )
        };
        let rules: Vec<Rule> = (0..count).map(of_host).collect();
        let book = Rulebook::new(&rules);
        let host = format!("www.site{}.example", count / 2);
        let question = Question {
            method: "GET",
            scheme: Some(message::Scheme::Http),
            host: &host,
            port: 80,
            path: Some("/wp-content/themes/a/style.css"),
            fields: &Fields::new(),
        };
        let mut standing = Standing::default();
        let client = "192.0.2.1".parse().unwrap();
        let mut met = Met::default();
        measure(&format!("{count} hosts with a rule each"), || {
            let among = standing.of(&book, 1, client, 0, 0);
            let ruled = book.request(book.met(among, black_box(&question)), true);
            met = black_box(ruled.met);
        });
        assert_eq!(met.iter().collect::<Vec<_>>(), [count / 2]);
    }
}

#[test]
fn the_cost_of_routes() {
    for count in [1, 1000, 10_000] {
        let route = |n: usize| {
            let mut route = plan::Route::everything_to(plan::OriginUrl {
                tls: false,
                host: "o".to_owned(),
                port: 80,
                path: String::new(),
            });
            route.host = Some(format!("www.site{n}.example"));
            route
        };
        let routes: Vec<plan::Route> = (0..count).map(route).collect();
        let index = crate::routing::RouteIndex::new(&routes);
        let (host, path) = (
            format!("www.site{}.example", count - 1),
            "/wp-content/themes/a/style.css",
        );
        measure(&format!("{count} routes"), || {
            assert_eq!(index.find(black_box(&host), path), Some(count - 1));
        });
    }
}

#[test]
fn the_cost_of_changing_a_head() {
    let edit = |name: &str, how| Edit {
        name: name.to_owned(),
        how,
    };
    let hsts = edit(
        "Strict-Transport-Security",
        How::Set(Text::plain("max-age=31536000")),
    );
    let server = edit("Server", How::Remove);
    let book = Rulebook::new(&[rule(
        When::default(),
        Then {
            response_edits: vec![hsts, server],
            ..Then::default()
        },
    )]);
    let head: &[u8] = b"HTTP/1.1 200 OK\r\nServer: o\r\nContent-Type: text/html\r\nETag: \"abc\"\r\n\
        Last-Modified: Mon, 23 Nov 2026 00:00:00 GMT\r\nCache-Control: max-age=600\r\nVia: 1.1 loligo\r\n\
        Date: Mon, 23 Nov 2026 00:00:00 GMT\r\nContent-Length: 1000\r\n";
    let values = edits::Values {
        client: "192.0.2.1".parse().unwrap(),
        listener: "l",
        asked: edits::AskedFor {
            method: "GET",
            scheme: None,
            host: "h",
            port: 80,
            path: "/",
        },
        id: 0,
        cache_status: b"",
        status: 200,
    };
    let mut lines = Vec::with_capacity(1024);
    measure("set one field, remove another", || {
        lines.clear();
        lines.extend_from_slice(black_box(head));
        let changes = book.response_edits(&Met::of(&[0]), 200, b"text/html");
        edits::change_head(&mut lines, &changes, &values);
    });
    assert!(lines.ends_with(b"\r\nStrict-Transport-Security: max-age=31536000\r\n"));
    assert!(!lines.windows(7).any(|seven| seven == b"Server:"));
}
