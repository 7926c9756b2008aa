//! Explanations agree with serving.

use proptest::prelude::*;

use super::*;
use plan::{Canned, FieldFits, FieldIs, Listener, OriginUrl, Scheme, Text, Then, When};

fn asking(method: &str, url: &str) -> Asking {
    Asking {
        method: method.to_owned(),
        url: url.to_owned(),
        client: "192.0.2.1".parse().unwrap(),
        listener: None,
        fields: Vec::new(),
        at: Minute::parse("We 09:30"),
        now: Duration::from_secs(1_700_000_000),
    }
}

fn plan(rules: Vec<Rule>) -> Plan {
    let allow: Vec<ipnet::IpNet> = vec!["192.0.2.0/24".parse().unwrap()];
    let forward = Listener::forward("127.0.0.1:3128".parse().unwrap(), allow.clone());
    let origin = OriginUrl {
        tls: false,
        host: "o".into(),
        port: 8080,
        path: String::new(),
    };
    let reverse = Listener::reverse("127.0.0.1:8000".parse().unwrap(), allow, origin);
    Plan {
        rules,
        ..Plan::with_listeners(vec![forward, reverse])
    }
}

fn rule(when: When, then: Then) -> Rule {
    Rule {
        name: None,
        when,
        then,
    }
}

fn list(words: &str) -> Vec<String> {
    words.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn it_is_told_which_rules_fit_and_why_others_do_not() {
    let deny = Then {
        verdict: Some(Verdict::Deny {
            words: Some("no".into()),
        }),
        ..Then::default()
    };
    let mut late = rule(
        When {
            hours: vec![plan::Hours::parse("Sa").unwrap()],
            ..When::default()
        },
        deny.clone(),
    );
    late.name = Some("late".into());
    let rules = vec![
        late,
        rule(
            When {
                hosts: list("*.bad.example"),
                ..When::default()
            },
            deny,
        ),
    ];
    let plan = plan(rules);
    let told = explain(&plan, &asking("GET", "http://x.BAD.example/")).unwrap();
    assert_eq!(
        (told.outcome, told.by.as_deref()),
        ("denied", Some("rule 2"))
    );
    assert_eq!(told.told.as_deref(), Some("no"));
    let unmet = told.rules[0].unmet.as_deref().unwrap();
    assert!(unmet.starts_with("time: it is We 09:30 here"), "{unmet}");
    assert!(
        told.to_string()
            .starts_with("listener 127.0.0.1:3128, We 09:30 here, ")
    );
    let told = explain(&plan, &asking("GET", "http://good.example/a?b")).unwrap();
    assert_eq!(told.outcome, "served");
    assert_eq!(told.stored_as.as_deref(), Some("http://good.example/a?b"));
    assert_eq!(told.origin.as_deref(), Some("good.example:80"));
    assert_eq!(told.rules[1].unmet.as_deref(), Some("host"));
    let told = explain(&plan, &asking("CONNECT", "x.bad.example:443")).unwrap();
    assert_eq!(told.outcome, "denied");
    let told = explain(&plan, &asking("CONNECT", "good.example:22")).unwrap();
    assert_eq!(told.outcome, "refused");
    let stranger = Asking {
        client: "198.51.100.1".parse().unwrap(),
        ..asking("GET", "http://good.example/")
    };
    assert_eq!(explain(&plan, &stranger).unwrap().outcome, "refused");
    let reverse = Asking {
        listener: Some("8000".into()),
        ..asking("GET", "http://x.bad.example/a")
    };
    let told = explain(&plan, &reverse).unwrap();
    assert_eq!(
        (told.outcome, &*told.listener),
        ("denied", "127.0.0.1:8000")
    );
    for (method, url) in [("G T", "http://a/"), ("GET", "ftp://a/"), ("CONNECT", "a")] {
        assert!(
            explain(&plan, &asking(method, url)).is_err(),
            "{method} {url}"
        );
    }
}

#[test]
fn without_rules_of_time_there_is_none() {
    let told = explain(&plan(Vec::new()), &asking("GET", "http://good.example/")).unwrap();
    assert_eq!(told.time, None);
    let words = told.to_string();
    assert!(words.starts_with("listener 127.0.0.1:3128\n"), "{words}");
}

fn verdict() -> impl Strategy<Value = Option<Verdict>> {
    prop_oneof![
        Just(None),
        Just(Some(Verdict::Allow)),
        Just(Some(Verdict::Deny { words: None })),
        Just(Some(Verdict::Answer(Canned {
            status: 204,
            body: Default::default(),
            content_type: None,
        }))),
        Just(Some(Verdict::Redirect {
            to: Text::plain("/x"),
            status: 302,
        })),
    ]
}

fn some<T: Clone + std::fmt::Debug + 'static>(values: Vec<T>) -> impl Strategy<Value = Vec<T>> {
    proptest::sample::subsequence(values.clone(), 0..=values.len().min(2))
}

prop_compose! {
    fn when()(
        clients in some(vec!["192.0.2.0/24", "198.51.100.0/24"]),
        listeners in some(vec![0, 1]),
        hosts in some(list("a.org *.a.org [*] 192.0.2.7")),
        paths in some(list("/a *.jpg /a/b")),
        methods in some(list("GET POST")),
        queries in some(list("x y=*")),
        scheme in proptest::option::of(Just(Scheme::Http)),
        hours in some(vec!["Mo-We 08:00-10:00", "Sa"]),
        has_field in proptest::option::of(any::<bool>()),
    ) -> When {
        When {
            clients: clients.into_iter().map(|net| net.parse().unwrap()).collect(),
            hours: hours.into_iter().map(|it| plan::Hours::parse(it).unwrap()).collect(),
            fields: has_field.into_iter().map(|is_there| FieldFits {
                name: "x-a".into(),
                how: FieldIs::There(is_there),
            }).collect(),
            listeners, hosts, paths, methods, queries, scheme,
            ..When::default()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Compares the reasons of each rule with the rule sets that requests are served by.
    #[test]
    fn reasons_and_serving_agree(
        rules in proptest::collection::vec((when(), verdict()), 0..8),
        method in proptest::sample::select(vec!["GET", "HEAD", "POST", "CONNECT"]),
        host in proptest::sample::select(vec!["a.org", "x.A.org.", "192.0.2.7", "[2001:db8::1]", "b"]),
        path in proptest::sample::select(vec!["/", "/a", "/a/../b", "/x.jpg?x", "//a?y=1", "/%61/b"]),
        client in proptest::sample::select(vec!["192.0.2.9", "198.51.100.9", "::1"]),
        has_field in any::<bool>(),
    ) {
        let rules = rules.into_iter().map(|(when, verdict)| {
            rule(when, Then { verdict, ..Then::default() })
        });
        let plan = plan(rules.collect());
        let url = match method {
            "CONNECT" => format!("{host}:443"),
            _ => format!("http://{host}{path}"),
        };
        let mut asking = asking(method, &url);
        asking.client = client.parse().unwrap();
        if has_field {
            asking.fields.push(("X-A".into(), "b".into()));
        }
        let told = explain(&plan, &asking).unwrap();
        let first = plan.rules.iter().enumerate().zip(&told.rules)
            .find(|((_, rule), told)| told.fits && rule.then.verdict.is_some());
        prop_assert_eq!(told.by, first.map(|((at, rule), _)| rule.told(at)));
    }
}
