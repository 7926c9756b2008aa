//! Random rules and requests: all rules at once find what one by one is found.

use std::time::Duration;

use fields::Fields;
use proptest::{collection::vec, option, prelude::*, sample::select};

use super::*;
use crate::rulebook::fits::Seen;
use plan::{Canned, FieldFits, Then};

/// Texts from few words, so that they often agree.
fn words(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    select(words).prop_map(str::to_owned)
}

fn host() -> impl Strategy<Value = String> {
    words(&[
        "a",
        "a.org",
        "b.a.org",
        "c.b.a.org",
        "ba.org",
        "A.org",
        "a.org.",
        "a.org..",
        ".a.org",
        "",
        "10.0.0.1",
        "10.0.0.1.",
        "::1",
        "0::1",
        "127.1",
        "a.1",
    ])
}

fn host_pattern() -> impl Strategy<Value = String> {
    words(&[
        "a",
        "a.org",
        "b.a.org",
        "*.a.org",
        "*.org",
        "*.b.a.org",
        "10.0.0.1",
        "::1",
        "[*]",
        "*a.org",
        "*",
    ])
}

fn path() -> impl Strategy<Value = String> {
    let piece = words(&[
        "/", "a", "b", "ab", ".jpg", "..", ".", "%61", "%2f", "%252e", "\\", ";x", "//", "/a/",
        "#", "%3b", "%20",
    ]);
    vec(piece, 0..7).prop_map(|pieces| format!("/{}", pieces.concat()))
}

fn path_pattern() -> impl Strategy<Value = String> {
    words(&[
        "/", "/a", "/a/", "/a/b", "/a/b/", "/ab", "/b", "*", "*.jpg", "/a*", "*/b/*", "/a/*/b",
        "*a", "/*a*b", "**b", "/%61",
    ])
}

fn query() -> impl Strategy<Value = String> {
    let piece = words(&[
        "a", "a=1", "b=2", "a=%31", "a+b", "%61=1", "=", "c=d=e", "&", ";",
    ]);
    vec(piece, 0..4).prop_map(|pieces| pieces.join("&"))
}

fn query_pattern() -> impl Strategy<Value = String> {
    words(&["a", "b", "a=1", "a=*", "*=2", "c=*e", "*", "a b"])
}

fn value() -> impl Strategy<Value = String> {
    words(&["", "bot", "a bot b", "x", "botbot", "Bot"])
}

fn field() -> impl Strategy<Value = FieldFits> {
    let how = prop_oneof![
        any::<bool>().prop_map(FieldIs::There),
        vec(
            words(&["bot", "*bot*", "bot*", "*b", "*", "a*b*b", "x"]),
            1..3
        )
        .prop_map(FieldIs::One),
    ];
    (words(&["user-agent", "x-a"]), how).prop_map(|(name, how)| FieldFits { name, how })
}

fn when() -> impl Strategy<Value = When> {
    let list =
        ["a.org\n", ".b.a.org\n*.org\n"].map(|text| Arc::new(HostList::of_text(text).unwrap()));
    let few = || 0..3usize;
    (
        vec(host_pattern(), few()),
        vec(path_pattern(), few()),
        vec(query_pattern(), 0..2),
        vec(field(), few()),
        vec(words(&["GET", "POST"]), 0..2),
        option::weighted(0.2, select(&[Scheme::Http, Scheme::Https][..])),
        vec(select(vec![80..=80u16, 1..=1024, 8080..=9000]), 0..2),
        vec(select(list.to_vec()), 0..2),
        // Most rules have few kinds of conditions.
        vec(prop::bool::weighted(0.3), 8),
    )
        .prop_map(
            |(hosts, paths, queries, fields, methods, scheme, ports, host_lists, has)| {
                let mut when = When::default();
                if has[0] {
                    when.hosts = hosts;
                }
                if has[1] {
                    when.paths = paths;
                }
                if has[2] {
                    when.queries = queries;
                }
                if has[3] {
                    when.fields = fields;
                }
                if has[4] {
                    when.methods = methods;
                }
                if has[5] {
                    when.scheme = scheme;
                }
                if has[6] {
                    when.ports = ports;
                }
                if has[7] {
                    when.host_lists = host_lists;
                }
                when
            },
        )
}

fn rule() -> impl Strategy<Value = Rule> {
    let canned = Verdict::Answer(Canned {
        status: 204,
        body: Default::default(),
        content_type: None,
    });
    let verdict = select(vec![
        None,
        Some(Verdict::Allow),
        Some(Verdict::Deny { words: None }),
        Some(canned),
    ]);
    let bypass = option::weighted(0.3, any::<bool>());
    let ttl = option::weighted(0.3, (0..2u64).prop_map(Duration::from_secs));
    (when(), verdict, bypass, ttl).prop_map(|(when, verdict, bypass, ttl)| Rule {
        name: None,
        when,
        then: Then {
            verdict,
            bypass,
            ttl,
            ..Then::default()
        },
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn all_at_once_is_one_by_one(
        rules in vec(rule(), 1..20),
        among in any::<u128>(),
        (host, path, query) in (host(), option::weighted(0.9, path()), query()),
        lines in vec((words(&["User-Agent", "X-A", "x-b"]), value()), 0..4),
        method in words(&["GET", "HEAD", "POST", "PUT"]),
        scheme in option::of(select(&[Scheme::Http, Scheme::Https][..])),
        port in select(vec![80, 443, 8080u16]),
    ) {
        let mut fields = Fields::new();
        for (name, value) in &lines {
            fields.push(name.as_bytes(), value.as_bytes());
        }
        let target = path.map(|path| format!("{path}?{query}"));
        let question = Question { method: &method, scheme, host: &host, port, path: target.as_deref(), fields: &fields };
        let seen = Seen::of(question, &method);
        let mut one_by_one = 0;
        for (number, rule) in rules.iter().enumerate() {
            if among & 1 << number != 0 && seen.unmet(rule).is_none() {
                one_by_one |= 1u128 << number;
            }
        }
        let among = Met(among & ((1 << rules.len()) - 1));
        let at_once = Index::new(&rules).met(among, &question, &method);
        prop_assert_eq!(at_once.iter().collect::<Vec<_>>(), Met(one_by_one).iter().collect::<Vec<_>>(), "{:?} {}", target, host);
    }
}
