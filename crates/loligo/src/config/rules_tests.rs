//! Rules and what becomes of them.

use expect_test::{Expect, expect};

use super::*;
use crate::config::testing::{complaints, settle as settle_text};

#[track_caller]
fn wrong(text: &str, expected: Expect) {
    expected.assert_eq(&complaints(text));
}

#[test]
fn rules_keep_their_order_and_are_told_in_words() {
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

        [[rule]]
        client-directives = "revalidate"
        ttl = "30d"

        [cache]
        stale-if-error = "1d"
    "#;
    let rules = settle_text(text).unwrap().plan.rules;
    let words: String = rules.iter().map(|rule| explain(rule) + "\n").collect();
    expect![[r#"
        GET; www.example.org, *.example.net; /images, *.css: without its cookies, whatever the query's utm_*, fbclid, by the field accept-language, by the cookie lang, for at least 1m (200, 203, 206, 300, 301, 308, 410 only), for at most 1h, where nothing is said for 2m, stale while revalidated for 1m, stale if the origin fails for 1d, clients' directives ignored, but for only-if-cached
        everything; answered 404, 500-504, 300-399; of type text/html, image/*: does not pass the cache by, sets no cookies, fresh for 5s, errors for 1s, up to 1MiB
        /admin: passes the cache by
        everything: fresh for 30d (200, 203, 206, 300, 301, 308, 410 only), clients' directives obeyed, reloads by one request a second
    "#]]
    .assert_eq(&words);
    let (raw, settled) = crate::config::testing::settle_raw(text);
    let explained = crate::config::explain::explain(&settled.unwrap(), &raw);
    assert!(explained.contains("\n  rule 3        /admin: passes the cache by\n"));
    let grace =
        "\n  stale for     0s while revalidated, 1d if the origin fails, where it says nothing\n";
    assert!(explained.contains(grace), "{explained}");
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

#[test]
fn keys_are_unique() {
    let keys: std::collections::HashSet<_> = RULE.iter().map(|s| s.key).collect();
    assert_eq!(keys.len(), RULE.len());
}
