//! Rules that change fields: of requests before the cache looks at them, of answers when they go out.

use ::proxy::plan::{Edit, How, Plan, ProxyProtocol, Rule, Text, Then, When};

use crate::harness::{running::own_host_plan, *};

fn edits(edits: &[(&str, &str, &str)]) -> Vec<Edit> {
    let edit = |&(how, name, value): &(&str, &str, &str)| {
        let text = || Text::parse(value, true).unwrap();
        Edit {
            name: name.to_owned(),
            how: match how {
                "set" => How::Set(text()),
                "add" => How::Add(text()),
                _ => How::Remove,
            },
        }
    };
    edits.iter().map(edit).collect()
}

fn answers(changes: &[(&str, &str, &str)]) -> Rule {
    Rule {
        then: Then {
            response_edits: edits(changes),
            ..Then::default()
        },
        ..Rule::default()
    }
}

fn requests(changes: &[(&str, &str, &str)]) -> Rule {
    Rule {
        then: Then {
            request_edits: edits(changes),
            ..Then::default()
        },
        ..Rule::default()
    }
}

fn with(mut plan: Plan, rules: impl Into<Vec<Rule>>) -> Plan {
    plan.rules = rules.into();
    plan
}

fn of_many(mut plan: Plan) -> Plan {
    plan.listeners[0].naming.proxy_protocol = ProxyProtocol::Always;
    plan.listeners[0].allow = vec!["192.0.2.0/24".parse().unwrap()];
    plan
}

fn client(proxy: &Proxy, last: u8) -> Client {
    let mut client = proxy.client();
    client.send(format!("PROXY TCP4 192.0.2.{last} 10.0.0.1 1 80\r\n"));
    client
}

#[test]
fn no_client_gets_what_was_put_in_for_another() {
    let disk = Disk::of_mib(16);
    for on_disk in [false, true] {
        let fields = [FRESH, "X-Who: origin", "Server: o/1", "Link: <a>"];
        let origin = Origin::sending(ok(&fields, "body"));
        let rules = [answers(&[
            ("remove", "server", ""),
            (
                "set",
                "x-who",
                "${client} ${method} ${scheme}://${host}:${port}${path}${query}",
            ),
            ("add", "Link", "<b>"),
            ("set", "X-Cache", "${cache-status} ${status}"),
        ])];
        let mut plan = with(plan_for(&origin), rules);
        if on_disk {
            plan = disk.under(plan);
            plan.memory_bytes = 0;
        }
        let proxy = Proxy::start(of_many(plan));
        for last in 1..4 {
            let mut client = client(&proxy, last);
            for fields in [
                &[][..],
                &["Cache-Control: max-stale"],
                &["Range: bytes=0-1"],
            ] {
                let answer = client.ask("GET", "/a?b", fields).read("GET");
                let (scheme, port) = (way::scheme(), way::port());
                let who = format!("192.0.2.{last} GET {scheme}://test.example:{port}/a?b");
                assert_eq!(answer.field("x-who"), Some(who.as_str()), "{answer:?}");
                assert_eq!(answer.fields.all("x-who").len(), 1);
                assert_eq!(answer.field("server"), None);
                let links = answer.fields.all("link");
                assert_eq!(links, ["<a>", "<b>"]);
                let cache = format!("{} {}", answer.cache(), answer.status);
                assert_eq!(answer.field("x-cache"), Some(cache.as_str()));
                assert_eq!(answer.field("age").is_some(), answer.is_hit());
            }
        }
        assert_eq!(origin.requests().len(), 1);
    }
}

#[test]
fn answers_of_our_own_and_304_are_changed_too() {
    let origin = Origin::start(|exchange| match exchange.path() {
        "/gone" => exchange.close(),
        _ => exchange.send(ok(&[FRESH, "ETag: \"e\""], "body")),
    });
    let hsts = [("set", "Strict-Transport-Security", "max-age=1")];
    let errors = Rule {
        when: When {
            statuses: vec![(500, 599)],
            ..When::default()
        },
        ..answers(&[("set", "X-Error", "yes")])
    };
    let proxy = Proxy::start(with(plan_for(&origin), [answers(&hsts), errors]));
    for (target, fields, status) in [
        ("/a", &[][..], 200),
        ("/a", &["If-None-Match: \"e\""], 304),
        ("/gone", &[], 502),
        ("/none", &["Cache-Control: only-if-cached"], 504),
    ] {
        let answer = proxy.ask("GET", target, fields);
        assert_eq!(answer.status, status);
        let found = answer.field("strict-transport-security");
        assert_eq!(found, Some("max-age=1"), "{status}");
        assert_eq!(answer.field("x-error").is_some(), status >= 500);
    }
}

#[test]
fn a_variant_is_chosen_by_what_the_origin_sees() {
    let origin = Origin::start(|exchange| {
        let language = exchange
            .field("accept-language")
            .unwrap_or("none")
            .to_owned();
        let secret = exchange.field("x-key").unwrap_or("none").to_owned();
        let fields = [FRESH, "Vary: Accept-Language"];
        exchange.send(ok(&fields, format!("{language} {secret}")));
    });
    let german = Rule {
        when: When {
            paths: vec!["/de".to_owned()],
            ..When::default()
        },
        ..requests(&[("set", "Accept-Language", "de")])
    };
    let rules = [
        german,
        requests(&[("set", "X-Key", "s3cret"), ("remove", "Cookie", "")]),
    ];
    let proxy = Proxy::start(with(own_host_plan(&origin), rules));
    let get = |path: &str, language: &str| {
        let field = format!("Accept-Language: {language}");
        let answer = proxy.ask("GET", path, &[&field, "X-Key: forged", "Cookie: a=b"]);
        (answer.text().to_owned(), answer.is_hit())
    };
    // One variant for all, by the rewritten field.
    assert_eq!(get("/de", "en"), ("de s3cret".to_owned(), false));
    assert_eq!(get("/de", "fr"), ("de s3cret".to_owned(), true));
    // And one for each elsewhere.
    assert_eq!(get("/a", "en"), ("en s3cret".to_owned(), false));
    assert_eq!(get("/a", "fr"), ("fr s3cret".to_owned(), false));
    assert_eq!(get("/a", "en"), ("en s3cret".to_owned(), true));
    assert_eq!(get("/a", "fr"), ("fr s3cret".to_owned(), true));
    for request in origin.requests() {
        assert_eq!(request.fields.all("x-key").len(), 1);
        assert_eq!(request.field("cookie"), None);
    }
}

#[test]
fn a_request_has_one_number_on_both_sides_and_each_another() {
    let origin = Origin::start(|exchange| {
        let id = exchange.field("x-id").unwrap_or("none").to_owned();
        exchange.send(ok(&["Cache-Control: no-store"], id));
    });
    let mut rule = answers(&[("set", "X-Id", "${id}")]);
    rule.then.request_edits = edits(&[("set", "X-Id", "${id}")]);
    let proxy = Proxy::start(with(plan_for(&origin), [rule]));
    let ids: std::collections::BTreeSet<_> = (0..20)
        .map(|_| {
            let answer = proxy.get("/a");
            assert_eq!(answer.field("x-id"), Some(answer.text()));
            answer.text().to_owned()
        })
        .collect();
    assert_eq!(ids.len(), 20);
}
