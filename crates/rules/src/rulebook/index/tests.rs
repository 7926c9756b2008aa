//! Random rules and requests: the index finds the same rules as checking them one by one.

use std::{sync::Arc, time::Duration};

use ::fields::Fields;
use proptest::{collection::vec, option, prelude::*, sample::select};

use super::*;
use crate::rulebook::fits::{Seen, unmet_by_connection};
use message::Scheme;
use plan::{Canned, FieldFits, FieldIs, HostList, Hours, Minute, Rule, Then, Verdict, When};

/// Texts of few words, so that rules and requests often agree.
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
        "*a", "/*a*b", "**b", "/%61", "**", "*ab*", "/b*", "*b*a*", "*jpg", "*.*",
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
        connection(),
        // Most rules have few kinds of conditions.
        vec(prop::bool::weighted(0.3), 9),
    )
        .prop_map(
            |(
                hosts,
                paths,
                queries,
                fields,
                methods,
                scheme,
                ports,
                host_lists,
                connection,
                has,
            )| {
                let mut when = match has[8] {
                    true => connection,
                    false => When::default(),
                };
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

/// Conditions about the connection.
fn connection() -> impl Strategy<Value = When> {
    let networks = [
        "0.0.0.0/0",
        "10.0.0.0/8",
        "10.1.0.0/16",
        "10.1.2.3/32",
        "::/0",
        "2001:db8::/32",
        "2001:db8::1/128",
    ];
    let networks = networks.map(|it| it.parse().unwrap());
    let hours = ["Mo", "Mo-Fr 08:00-18:00", "22:00-06:00 UTC", "Sa UTC"];
    let hours = hours.map(|it| Hours::parse(it).unwrap());
    (
        vec(select(networks.to_vec()), 0..3),
        vec(0..3usize, 0..2),
        vec(select(hours.to_vec()), 0..2),
    )
        .prop_map(|(clients, listeners, hours)| When {
            clients,
            listeners,
            hours,
            ..When::default()
        })
}

fn circumstances() -> impl Strategy<Value = Circumstances> {
    let clients = [
        "10.1.2.3",
        "10.1.9.9",
        "10.9.9.9",
        "192.0.2.1",
        "::ffff:10.1.2.3",
        "2001:db8::1",
        "2001:db8::2",
        "::1",
    ];
    let minute = || (0..7u8, 0..1440u16).prop_map(|(day, minute)| Minute { day, minute });
    (select(clients.to_vec()), 0..3usize, minute(), minute()).prop_map(
        |(client, listener, local, utc)| Circumstances {
            client: client.parse().unwrap(),
            listener,
            local,
            utc,
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
        rules in vec(rule(), 1..40),
        at in circumstances(),
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
        let fits = |rule: &Rule| unmet_by_connection(&rule.when, &at).is_none() && seen.unmet(rule).is_none();
        let one_by_one: Vec<usize> = (0..).zip(&rules).filter(|(_, rule)| fits(rule)).map(|(number, _)| number).collect();
        let index = Index::new(&rules);
        let at_once = index.met(&index.among(&at), &question, &method);
        prop_assert_eq!(at_once.iter().collect::<Vec<_>>(), one_by_one, "{:?} {}", target, host);
    }
}

/// Requests against so many rules that no list of the index is short.
#[test]
fn of_thousands_of_rules_those_that_fit_are_found() {
    let rule = |when| Rule {
        when,
        ..Rule::default()
    };
    let rules: Vec<Rule> = (0..3000)
        .map(|n| {
            let mut when = When::default();
            match n % 6 {
                0 => when.hosts = vec![format!("h{n}.example"), format!("*.d{n}.example")],
                1 => when.paths = vec![format!("/p{n}/*.jpg"), format!("/q{n}")],
                2 => when.paths = vec![format!("*.e{n}")],
                3 => {
                    when.clients = vec![format!("10.{}.{}.0/24", n / 256, n % 256).parse().unwrap()]
                }
                4 => {
                    when.fields = vec![FieldFits {
                        name: "user-agent".to_owned(),
                        how: FieldIs::One(vec![format!("*bot{n}/*")]),
                    }];
                }
                // A hundred hosts by thirty paths.
                _ => {
                    when.hosts = vec![format!("s{}.example", n % 100)];
                    when.paths = vec![format!("/t{}/", n / 100)];
                }
            }
            rule(when)
        })
        .collect();
    let index = Index::new(&rules);
    let met = |client: &str, host: &str, path: &str, agent: &str| {
        let mut fields = Fields::new();
        fields.push(b"User-Agent", agent.as_bytes());
        let question = Question {
            method: "GET",
            scheme: Some(Scheme::Http),
            host,
            port: 80,
            path: Some(path),
            fields: &fields,
        };
        let among = index.among(&Circumstances {
            client: client.parse().unwrap(),
            listener: 0,
            local: Minute::default(),
            utc: Minute::default(),
        });
        index
            .met(&among, &question, "GET")
            .iter()
            .collect::<Vec<_>>()
    };
    assert_eq!(met("192.0.2.1", "h6.example", "/", ""), [6]);
    assert_eq!(
        met("192.0.2.1", "a.d2994.example", "/p7/a.jpg", ""),
        [7, 2994]
    );
    assert_eq!(
        met("10.4.1.9", "h", "/a.e2996", "a bot1000/1"),
        [1000, 2996]
    );
    assert_eq!(met("10.10.191.9", "h", "/q7/x", ""), [7, 2751]);
    assert_eq!(met("10.0.3.9", "s11.example", "/t0/x", ""), [3, 11]);
    assert!(met("192.0.2.1", "s11.example", "/t1/x", "").is_empty());
}
