//! Tests of rules: their plans, or the messages about them.

use std::time::Duration;

use expect_test::{Expect, expect};
use proxy::plan::{ClientDirectives, FieldIs};

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
            loligo.toml:1: rule: this rule says nothing; add what is to be done, such as ttl = "5m", bypass = true or deny = true
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
            loligo.toml:200001: rule: at most 100000 rules; lists of hosts and paths take fewer
        "#]],
    );
}

#[test]
fn rules_decide_and_change_fields() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = directory.path().join("hosts");
    std::fs::write(&hosts, ".ads.example\n").unwrap();
    let text = format!(
        r#"
        [[listener]]
        address = "127.0.0.1:3128"
        name = "inner"

        [[rule]]
        name = "no ads"
        client = ["10.0.0.0/8", "192.0.2.7"]
        listener = ["inner"]
        time = ["Mo-Fr 08:00-18:00", "Su UTC"]
        scheme = "http"
        host = ["[*]", "[2001:db8:0::1]", "*.example.org"]
        host-list = "{}"
        port = [80, "8000-8100"]
        query = ["debug", "mode=*"]
        header = {{ User-Agent = "*bot, or so*", X-A = ["a", "b"], X-B = false }}
        deny = "no"
        tag = "ads"

        [[rule]]
        listener = 3128
        redirect = "https://${{host}}${{path}}${{query}}"
        redirect-status = 308

        [[rule]]
        answer = {{ status = 204 }}
        response-set = {{ Access-Control-Allow-Origin = "*", X-Id = "${{id}}" }}
        response-add.Link = "<a>"
        response-remove = ["Server", "ETag"]
        request-set.X-Api-Key = "secret"
        request-remove = "Cookie"
        "#,
        hosts.display()
    );
    let rules = settle_text(&text).unwrap().plan.rules;
    let [ads, moved, cors] = &rules[..] else {
        panic!("{rules:?}");
    };
    assert_eq!(ads.name.as_deref(), Some("no ads"));
    let when = &ads.when;
    assert_eq!((when.clients.len(), &when.listeners[..]), (2, &[0][..]));
    assert_eq!(when.hours.len(), 2);
    assert_eq!(when.hosts, ["[*]", "2001:db8::1", "*.example.org"]);
    assert!(when.host_lists[0].contains("x.ads.example"));
    assert_eq!(when.ports, [80..=80, 8000..=8100]);
    let fields: Vec<_> = when.fields.iter().map(|it| (&*it.name, &it.how)).collect();
    let some = |words: &[&str]| FieldIs::One(words.iter().map(|&it| it.to_owned()).collect());
    assert_eq!(
        fields,
        [
            ("user-agent", &some(&["*bot, or so*"])),
            ("x-a", &some(&["a", "b"])),
            ("x-b", &FieldIs::There(false)),
        ]
    );
    let words = Some("no".to_owned());
    assert_eq!(ads.then.verdict, Some(Verdict::Deny { words }));
    assert_eq!(ads.then.tag.as_deref(), Some("ads"));
    assert_eq!(moved.when.listeners, [0]);
    assert!(matches!(
        moved.then.verdict,
        Some(Verdict::Redirect { status: 308, .. })
    ));
    let names = |edits: &[Edit]| {
        let names = edits.iter().map(|edit| edit.name.clone());
        names.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        names(&cors.then.response_edits),
        "Server ETag Access-Control-Allow-Origin X-Id Link"
    );
    assert_eq!(names(&cors.then.request_edits), "Cookie X-Api-Key");
}

#[test]
fn what_rules_cannot_decide_or_change_is_told() {
    wrong(
        "[[rule]]\nlistener = \"outer\"\ntime = \"Mon 8-9\"\nclient = []\nscheme = \"ftp\"\nquery = \"a&b\"\nheader = \"x\"\n\
         deny = false\ntag = \"a\\\"b\"\n\
         [[rule]]\nhost-list = \"/missing/hosts\"\nallow = true\ndeny = true\n\
         [[rule]]\nstatus = 404\ndeny = true\n\
         [[rule]]\nanswer = { status = 204, body = \"x\" }\n\
         [[rule]]\nanswer = { statsu = 200 }\n\
         [[rule]]\nredirect = \"ftp://${host}\"\n\
         [[rule]]\nredirect-status = 302\n\
         [[rule]]\nredirect = \"https://${hots}/\"\n\
         [[rule]]\nrequest-set = { Host = \"a\" }\n\
         [[rule]]\nrequest-set = { X = \"${status}\" }\n\
         [[rule]]\nresponse-set = { Vary = \"a\" }\n\
         [[rule]]\nresponse-set = { X-A = \"a\\r\\nb\" }\n\
         [[rule]]\nresponse-remove = \"Age\"\n\
         [[rule]]\nresponse-set = { X-A = \"a\" }\nresponse-remove = \"x-a\"\n",
        expect![[r#"
            loligo.toml:2: rule.listener = "outer": "outer": there is no such listener; name one by its name, address or port: 127.0.0.1:3128
            loligo.toml:3: rule.time = "Mon 8-9": "Mon 8-9": expected hours such as "Mo-Fr 08:00-18:00", "Sa 22:00-06:00", "12:00-13:00" or "Su", with UTC at the end if they are not of this machine's time zone
            loligo.toml:4: rule.client = []: expected at least one network, or leave it out
            loligo.toml:5: rule.scheme = "ftp": expected http or https
            loligo.toml:6: rule.query = "a&b": "a&b": expected the name of a parameter, or a pattern for its name and value such as "debug=*"
            loligo.toml:7: rule.header = "x": expected a table such as { User-Agent = "*curl*" }
            loligo.toml:8: rule.deny = false: expected true, or a sentence for whoever is refused
            loligo.toml:9: rule.tag = "a\"b": expected at most 64 letters, digits, spaces, dashes, dots, slashes and colons
            loligo.toml:11: rule.host-list = "/missing/hosts": /missing/hosts: No such file or directory (os error 2); name a file with one host a line that this user may read
            loligo.toml:13: rule.deny = true: a rule decides one thing: allow, deny, answer or redirect; write two rules
            loligo.toml:16: rule.deny = true: is decided before there is a response; take status and content-type out of this rule, or write two rules
            loligo.toml:18: rule.answer = { body = "x", status = 204 }: an answer with status 204 has no body
            loligo.toml:20: rule.answer = { statsu = 200 }: there is no "statsu" here; there are status, body, file, content-type
            loligo.toml:22: rule.redirect = "ftp://${host}": expected a URL such as "https://${host}${path}${query}", or a path
            loligo.toml:24: rule.redirect-status = 302: is the status of redirect; say where to
            loligo.toml:26: rule.redirect = "https://${hots}/": there is no ${hots} here; there are client, listener, scheme, host, port, method, path, query, id
            loligo.toml:28: rule.request-set = …: Host decides which resource is meant; use the route's pass-host and origin
            loligo.toml:30: rule.request-set = …: X: there is no ${status} here; there are client, listener, scheme, host, port, method, path, query, id
            loligo.toml:32: rule.response-set = { Vary = "a" }: Vary is what caches choose by; use key-fields
            loligo.toml:34: rule.response-set = { X-A = "a\r\nb" }: X-A: a value has no line ends and no other control characters
            loligo.toml:36: rule.response-remove = "Age": Age is what the proxy says of itself
            loligo.toml:37: rule: X-A is changed twice by this rule
        "#]],
    );
}

#[test]
fn what_origins_are_told_is_not_shown() {
    let text =
        "[[rule]]\nrequest-set = { X-Api-Key = \"s3cret\" }\nresponse-set = { X-A = \"shown\" }\n";
    let raw = crate::config::testing::raw(text).unwrap();
    let settled = crate::config::into_plan(&raw, &crate::config::testing::machine()).unwrap();
    let told = crate::config::explain::explain(&settled, &raw);
    assert!(!told.contains("s3cret") && told.contains("shown"), "{told}");
}

#[test]
fn hours_of_this_machine_need_a_time_zone_that_is_known() {
    let zone = |text: &str| settle_text(text).unwrap().time_zone;
    let rule = |time: &str| {
        format!("[[rule]]\ndeny = true\n[[rule]]\nhost = \"a\"\ntime = \"{time}\"\nbypass = true\n")
    };
    assert_eq!(
        zone(&rule("Mo-Fr 08:00-18:00")).as_deref(),
        Some("Europe/Berlin")
    );
    assert_eq!(zone(&rule("Mo-Fr 08:00-18:00 UTC")), None);
    assert_eq!(zone("[[rule]]\ndeny = true\n"), None);
    let lost = crate::config::machine::Machine {
        time_zone: || Err("TZ=Berlin is no time zone that is known here".into()),
        ..crate::config::testing::machine()
    };
    let raw = crate::config::testing::raw(&rule("Sa")).unwrap();
    let problems = crate::config::into_plan(&raw, &lost).unwrap_err();
    assert_eq!(
        problems[0].to_string(),
        "loligo.toml:5: rule.time = \"Sa\": TZ=Berlin is no time zone that is known here; or write UTC behind the hours"
    );
}

#[test]
fn a_lifetime_by_ending_without_a_type_is_noted() {
    let notes = |text: &str| settle_text(text).unwrap().notes;
    assert_eq!(
        notes("[[rule]]\npath = [\"/a\", \"*.css\"]\nttl = \"1d\"\n"),
        [
            "loligo.toml:1: rule 1: a lifetime by the ending of a path alone: an application that answers /account/x.css with the account has it stored for all; say the content-type as well"
        ]
    );
    for silent in [
        "path = \"*.css\"\nttl = \"1d\"\ncontent-type = \"text/css\"",
        "path = \"*.css\"\nttl = \"0s\"",
        "path = \"*.css\"\nbypass = true",
        "path = \"/static\"\nttl = \"1d\"",
    ] {
        assert_eq!(notes(&format!("[[rule]]\n{silent}\n")), [""; 0], "{silent}");
    }
    let preset = "[[listener]]\npreset = \"pypi\"\nupstream = \"https://index.example\"\n";
    assert_eq!(notes(preset), [""; 0]);
}

#[test]
fn of_many_notes_of_one_kind_the_first_are_told_and_how_many_more() {
    let css = "[[rule]]\npath = \"*.css\"\nttl = \"1d\"\n";
    let notes = |rules: usize| settle_text(&css.repeat(rules)).unwrap().notes;
    // The first rule covers the others.
    assert_eq!(notes(5).len(), 4 + 5);
    let notes = notes(1000);
    assert_eq!(notes.len(), 2 * 6);
    assert!(notes[4].contains("rule 6: never counts"), "{notes:?}");
    assert_eq!(notes[5], "… and the same of 994 more rules");
    assert!(notes[6].contains("rule 1: a lifetime"), "{notes:?}");
    assert_eq!(notes[11], "… and the same of 995 more rules");
}
