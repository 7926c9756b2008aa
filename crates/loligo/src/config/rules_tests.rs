//! Rules and what becomes of them.

use std::time::Duration;

use expect_test::{Expect, expect};
use proxy::plan::ClientDirectives;

use super::*;
use crate::config::testing::{complaints, settle as settle_text};

#[track_caller]
fn wrong(text: &str, expected: Expect) {
    expected.assert_eq(&complaints(text));
}

#[test]
fn rules_keep_their_order_and_say_what_was_written() {
    let text = r#"
        [[rule]]
        host = ["WWW.example.org", "*.example.net"]
        path = "/images, *.css"
        method = ["GET"]
        ignore-query = ["utm_*", "fbclid"]
        key-fields = ["Accept-Language"]
        key-cookies = ["lang"]
        strip-cookies = true
        ttl-min = "1m"
        ttl-max = "1h"
        default-ttl = "2m"
        stale-while-revalidate = "1m"
        stale-if-error = "1d"
        client-directives = "ignore"

        [[rule]]
        status = [404, "500-504", "3xx"]
        content-type = ["text/HTML", "image/*"]
        ttl = "5s"
        negative-ttl = "1s"
        object-max = "1MiB"
        strip-set-cookie = true
        bypass = false

        [[rule]]
        path = "/admin"
        bypass = true
    "#;
    let rules = settle_text(text).unwrap().plan.rules;
    let list = |texts: &[&str]| {
        texts
            .iter()
            .map(|&text| text.to_owned())
            .collect::<Vec<_>>()
    };
    let time = |seconds| Some(Duration::from_secs(seconds));
    let special = Rule {
        name: None,
        when: When {
            hosts: list(&["www.example.org", "*.example.net"]),
            paths: list(&["/images", "*.css"]),
            methods: list(&["GET"]),
            ..When::default()
        },
        then: Then {
            key: Some(KeyRule {
                ignore_query: list(&["utm_*", "fbclid"]),
                fields: list(&["accept-language"]),
                cookies: list(&["lang"]),
            }),
            strip_cookies: Some(true),
            ttl_min: time(60),
            ttl_max: time(3600),
            default_ttl: time(120),
            stale_while_revalidate: time(60),
            stale_if_error: time(86_400),
            client_directives: Some(ClientDirectives::Ignore),
            ..Then::default()
        },
    };
    let errors = Rule {
        name: None,
        when: When {
            statuses: vec![(404, 404), (500, 504), (300, 399)],
            content_types: list(&["text/html", "image/*"]),
            ..When::default()
        },
        then: Then {
            ttl: time(5),
            negative_ttl: time(1),
            object_bytes_max: Some(1 << 20),
            strip_set_cookie: Some(true),
            bypass: Some(false),
            ..Then::default()
        },
    };
    let admin = Rule {
        name: None,
        when: When {
            paths: list(&["/admin"]),
            ..When::default()
        },
        then: Then {
            bypass: Some(true),
            ..Then::default()
        },
    };
    assert_eq!(rules, [special, errors, admin]);
}

#[test]
fn complaints_say_where_and_what_to_write() {
    wrong(
        "[[rule]]\nhost = \"a b\"\npath = \"x\"\nmethod = \"get\"\nstatus = 99\ncontent-type = \"html\"\n\
         ignore-query = \"a*b\"\nkey-fields = \"Cookie\"\nkey-cookies = []\nttl = 5\nttl-min = \"900d\"\n\
         client-directives = \"no\"\nobject-max = \"much\"\nbypass = \"yes\"\nttl-mx = \"1s\"\n",
        expect![[r#"
            loligo.toml:2: rule.host = "a b": expected a host name without port, or "*.example.org" for all names below one
            loligo.toml:3: rule.path = "x": "x": expected a path that begins with / or *, without ? or #
            loligo.toml:4: rule.method = "get": "get": expected methods in capitals, such as "GET" or "POST"; GET means HEAD, too
            loligo.toml:5: rule.status = 99: "99": expected a status from 200 to 599, a range such as "500-504", or a class such as "5xx"
            loligo.toml:6: rule.content-type = "html": "html": expected a media type such as "text/html" or "image/*"
            loligo.toml:7: rule.ignore-query = "a*b": "a*b": expected the name of a query parameter, the beginning of one and a *, or "*" for all
            loligo.toml:8: rule.key-fields = "Cookie": "Cookie": expected the name of a request field (cookies are named in key-cookies)
            loligo.toml:9: rule.key-cookies = []: expected at least one value, and none empty; or leave it out
            loligo.toml:10: rule.ttl = 5: expected a time such as "500ms", "30s", "5m", "2h" or "1d"
            loligo.toml:11: rule.ttl-min = "900d": must be from 0s to 365d
            loligo.toml:12: rule.client-directives = "no": expected obey, revalidate or ignore
            loligo.toml:13: rule.object-max = "much": expected a size such as "64KiB", "256MiB", "10GiB" or "500MB"
            loligo.toml:14: rule.bypass = "yes": expected true or false, without quotes
            loligo.toml:15: rule.ttl-mx = "1s": there is no such setting here; did you mean "ttl-max"?
        "#]],
    );
    wrong(
        "[rule]\nttl = \"1s\"\n",
        expect![[r#"
            loligo.toml:1: rule: expected blocks that begin with [[rule]], two brackets
        "#]],
    );
}

#[test]
fn what_only_makes_sense_together_is_looked_at() {
    wrong(
        "[[rule]]\npath = \"/a\"\n\n[[rule]]\nstatus = 404\nignore-query = \"*\"\nstrip-cookies = true\nclient-directives = \"obey\"\n\n\
         [[rule]]\nmethod = \"POST\"\nkey-fields = \"a\"\n\n[[rule]]\nttl-min = \"2s\"\nttl-max = \"1s\"\n",
        expect![[r#"
            loligo.toml:1: rule: this rule says nothing; add what is to be done, such as ttl = "5m" or bypass = true
            loligo.toml:6: rule.ignore-query = "*": is decided before there is a response; take status and content-type out of this rule, or write two rules
            loligo.toml:7: rule.strip-cookies = true: is decided before there is a response; take status and content-type out of this rule, or write two rules
            loligo.toml:8: rule.client-directives = "obey": is decided before there is a response; take status and content-type out of this rule, or write two rules
            loligo.toml:11: rule.method = "POST": is about what is stored, which is answers to GET; add "GET", or leave method out
            loligo.toml:15: rule.ttl-min = "2s": must not exceed ttl-max, 1s
        "#]],
    );
    let many = "[[rule]]\nbypass = true\n".repeat(Rule::RULES_MAX + 1);
    wrong(
        &many,
        expect![[r#"
            loligo.toml:257: rule: at most 128 rules; lists of hosts and paths take fewer
        "#]],
    );
}
