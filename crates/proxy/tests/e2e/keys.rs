//! What a key means: the same under every configuration. Who may not fetch is not served, what was purged stays purged, and an
//! unsafe method takes all copies, whichever listener or rule stored them.

use proxy::plan::{
    Admin, Destinations, Forward, KeyRule, Listener, Plan, Role, Route, Rule, Then, When,
};

use super::harness::{
    Child, Client, Disk, FRESH, Gate, Origin, Proxy, Response, assert_same, ok, pattern, plan_for,
    running::{forward_plan, local, own_host_plan, plan},
};

/// Each answer says how many requests for its target there were.
fn counting() -> Origin {
    Origin::start(|exchange| {
        let nth = exchange.nth();
        exchange.send(ok(&[FRESH], format!("version {nth}")));
    })
}

/// A forward listener that reaches the ordinary addresses and these networks besides.
fn forward_to(networks: &[&str]) -> Listener {
    let mut listener = Listener::forward(local(), Vec::new());
    listener.role = Role::Forward(Forward {
        destinations: Destinations {
            allow: networks.iter().map(|net| net.parse().unwrap()).collect(),
            ..Destinations::default()
        },
        ..Forward::for_address(local().ip())
    });
    listener
}

/// The plan with these listeners behind its own, an admin interface, and this store.
fn with(disk: &Disk, listeners: Vec<Listener>) -> Plan {
    let mut listeners = listeners.into_iter();
    let mut all = plan(listeners.next().unwrap());
    all.listeners.extend(listeners);
    all.admin = Some(Admin {
        address: local(),
        allow: Vec::new(),
    });
    disk.under(all)
}

fn listener(mut plan: Plan) -> Listener {
    plan.listeners.remove(0)
}

/// A forward listener that reaches this machine, as the origins of these tests need it.
fn forward() -> Listener {
    listener(forward_plan(&[]))
}

fn get_at(proxy: &Proxy, at: usize, target: &str, fields: &[&str]) -> Response {
    let mut client = Client::connect(proxy.ready.listeners[at]);
    client.ask("GET", target, fields).read("GET")
}

#[track_caller]
fn purge(admin: Option<std::net::SocketAddr>, query: &str) {
    let admin = admin.unwrap();
    let host = format!("Host: {admin}");
    let mut client = Client::connect(admin);
    let answer = client.ask("DELETE", &format!("/cache?{query}"), &[&host]);
    let answer = answer.read("DELETE");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.text().contains("\"durable\": true"));
}

/// A restart with other listeners hands nobody what he may not fetch.
#[test]
fn a_restart_opens_no_way_around_a_listeners_policy() {
    let origin = counting();
    let url = format!("http://{}/a", origin.address);
    let reverse = || listener(own_host_plan(&origin));
    let earlier: [(Listener, &str); 3] = [
        (forward(), &url),
        (reverse(), "/a"),
        (forward_to(&["127.0.0.0/8"]), &url),
    ];
    for (stored_by, target) in earlier {
        let disk = Disk::of_mib(8);
        let proxy = Proxy::start(with(&disk, vec![stored_by]));
        assert_eq!(proxy.get(target).status, 200);
        assert!(proxy.get(target).is_hit());
        proxy.stop();
        for now in [
            vec![forward_to(&[])],
            vec![forward_to(&[]), reverse()],
            vec![forward_to(&["192.0.2.0/24"])],
        ] {
            let proxy = Proxy::start(with(&disk, now));
            for fields in [&[][..], &["Cache-Control: max-stale"]] {
                let answer = get_at(&proxy, 0, &url, fields);
                assert_eq!(answer.status, 403, "{answer:?}");
            }
            proxy.stop();
        }
    }
}

/// What a listener stored is found again by one of the same policy, wherever that stands in the list.
#[test]
fn a_listener_finds_its_own_after_a_restart_with_others() {
    let origin = counting();
    let url = format!("http://{}/a", origin.address);
    let disk = Disk::of_mib(8);
    let lists: [fn() -> Listener; 2] = [
        || forward_to(&["127.0.0.0/8", "192.0.2.0/24"]),
        || forward_to(&["192.0.2.0/24", "127.0.0.0/8", "192.0.2.0/24"]),
    ];
    let proxy = Proxy::start(with(&disk, vec![lists[0]()]));
    let first = proxy.get(&url);
    assert!(!first.is_hit());
    proxy.stop();
    let others = vec![listener(plan_for(&origin)), forward_to(&[]), lists[1]()];
    let proxy = Proxy::start(with(&disk, others));
    assert!(get_at(&proxy, 2, &url, &[]).is_hit());
}

/// Its listener is taken away, the URL is purged, the listener comes back.
#[test]
fn a_purge_outlives_the_listeners_that_were_there() {
    let origin = counting();
    let url = format!("http://{}/a", origin.address);
    let passing = || listener(plan_for(&origin));
    let own_host = || listener(own_host_plan(&origin));
    let host = format!("Host: {}", origin.address);
    let plays: [(Listener, Listener, &str); 4] = [
        (forward(), passing(), &url),
        (forward(), own_host(), &url),
        (own_host(), forward(), "/a"),
        (passing(), forward(), "/a"),
    ];
    for (stores, purges, target) in plays {
        let disk = Disk::of_mib(8);
        let start = |listener: &Listener| Proxy::start(with(&disk, vec![listener.clone()]));
        let proxy = start(&stores);
        let first = get_at(&proxy, 0, target, &[&host]);
        assert!(!first.is_hit());
        proxy.stop();
        let proxy = start(&stores);
        assert!(get_at(&proxy, 0, target, &[&host]).is_hit());
        proxy.stop();
        let proxy = start(&purges);
        purge(proxy.ready.admin, &format!("url={url}"));
        proxy.stop();
        let again = get_at(&start(&stores), 0, target, &[&host]);
        assert!(!again.is_hit() && again.text() != first.text(), "{again:?}");
    }
}

/// The same with a crash behind the purge.
#[test]
fn a_purge_outlives_listeners_and_kill_9() {
    let origin = counting();
    let url = format!("http://{}/a", origin.address);
    let disk = Disk::of_mib(16);
    let start = || Proxy::start(with(&disk, vec![forward()]));
    let proxy = start();
    proxy.get(&url);
    assert!(proxy.get(&url).is_hit());
    proxy.stop();
    let child = Child::start(&origin, &disk.path(), 16);
    purge(Some(child.admin), &format!("url={url}"));
    child.kill();
    let proxy = start();
    let only = ["Cache-Control: only-if-cached"];
    assert_eq!(proxy.ask("GET", &url, &only).status, 504);
    assert_eq!(proxy.get(&url).text(), "version 2");
}

fn rule(hosts: &str, ignore_query: &str, fields: &str) -> Rule {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    Rule {
        name: None,
        when: When {
            hosts: words(hosts),
            ..When::default()
        },
        then: Then {
            key: Some(KeyRule {
                ignore_query: words(ignore_query),
                fields: words(fields),
                cookies: Vec::new(),
            }),
            ..Then::default()
        },
    }
}

/// The rules are changed, the URL is purged, the rules are changed back.
#[test]
fn a_purge_outlives_the_rules_that_were_there() {
    let origin = counting();
    let cut = || vec![rule("", "utm_*", "")];
    let by_kind = || vec![rule("", "", "x-kind")];
    let plays = [
        (by_kind(), vec![], "/a", "/a"),
        (vec![], by_kind(), "/b", "/b"),
        // As it was typed, and as the rule made it.
        (vec![], cut(), "/c?utm_a=1", "/c?utm_a=1"),
        (cut(), vec![], "/d?utm_a=1", "/d"),
        (cut(), by_kind(), "/e?utm_a=1", "/e"),
    ];
    for own_host in [false, true] {
        let disk = Disk::of_mib(8);
        let start = |rules: &[Rule]| {
            let listener = match own_host {
                true => own_host_plan(&origin),
                false => plan_for(&origin),
            };
            let mut plan = with(&disk, listener.listeners);
            plan.rules = rules.to_vec();
            Proxy::start(plan)
        };
        for (stores, purges, asked, purged) in &plays {
            let proxy = start(stores);
            let kind = ["X-Kind: k"];
            proxy.ask("GET", asked, &kind);
            assert!(proxy.ask("GET", asked, &kind).is_hit());
            proxy.stop();
            let proxy = start(purges);
            let purged = purged.replace('?', "%3F").replace('=', "%3D");
            purge(
                proxy.ready.admin,
                &format!("url=http://test.example{purged}"),
            );
            proxy.stop();
            let proxy = start(stores);
            assert!(!proxy.ask("GET", asked, &kind).is_hit(), "{asked}");
            proxy.stop();
        }
    }
}

/// RFC 9111 section 4.4: all that is stored for the target URI.
#[test]
fn an_unsafe_method_takes_every_listeners_copy() {
    let origin = counting();
    let url = format!("http://{}/a", origin.address);
    let host = format!("Host: {}", origin.address);
    let both = [(0, "/a"), (1, url.as_str())];
    for reverse in [plan_for(&origin), own_host_plan(&origin)] {
        for on_disk in [false, true] {
            let disk = Disk::of_mib(8);
            let mut plan = with(&disk, vec![listener(reverse.clone()), forward()]);
            match on_disk {
                true => plan.memory_bytes = 0,
                false => plan.stores.clear(),
            }
            let proxy = Proxy::start(plan);
            let fill = || both.map(|(at, target)| get_at(&proxy, at, target, &[&host]).is_hit());
            for (at, target) in both {
                fill();
                fill();
                assert_eq!(fill(), [true; 2]);
                let mut client = Client::connect(proxy.ready.listeners[at]);
                client.ask("POST", target, &[&host, "Content-Length: 0"]);
                assert_eq!(client.read("POST").status, 200);
                assert_eq!(fill(), [false; 2], "{at}, on disk: {on_disk}");
            }
        }
    }
}

/// Two listeners that reach different places ask for one URI in turn: each has its own copy, and neither throws out the other's.
#[test]
fn listeners_of_different_reach_keep_a_copy_each() {
    let plain = counting();
    let varying = Origin::start(|exchange| {
        let nth = exchange.nth();
        exchange.send(ok(&[FRESH, "Vary: X-Kind"], format!("version {nth}")));
    });
    for origin in [&plain, &varying] {
        let url = format!("http://{}/a", origin.address);
        for on_disk in [false, true] {
            let disk = Disk::of_mib(8);
            let listeners = || {
                vec![
                    forward(),
                    forward_to(&["127.0.0.0/8"]),
                    listener(own_host_plan(origin)),
                ]
            };
            let start = || {
                let mut plan = with(&disk, listeners());
                match on_disk {
                    true => plan.memory_bytes = 0,
                    false => plan.stores.clear(),
                }
                Proxy::start(plan)
            };
            let ask = |proxy: &Proxy| {
                [(0, &*url), (1, &*url), (2, "/a")].map(|(at, target)| {
                    let answer = get_at(proxy, at, target, &[]);
                    (answer.text().to_owned(), answer.is_hit())
                })
            };
            let proxy = start();
            assert!(
                ask(&proxy).iter().all(|(_, is_hit)| !is_hit),
                "nobody is given another's"
            );
            ask(&proxy);
            let settled = ask(&proxy);
            assert!(settled.iter().all(|(_, is_hit)| *is_hit), "{settled:?}");
            let [a, b, c] = settled.each_ref().map(|(text, _)| text);
            assert!(a != b && b != c && a != c, "{settled:?}");
            assert_eq!(ask(&proxy), settled);
            proxy.stop();
            if on_disk {
                let proxy = start();
                assert_eq!(ask(&proxy), settled);
            }
        }
    }
}

/// A rule for one name of a site says nothing of its other name, though both have one URI.
#[test]
fn what_a_rule_adds_separates_those_it_is_about_from_the_others() {
    let origin = Origin::start(|exchange| {
        let kind = exchange.field("x-kind").unwrap_or("none").to_owned();
        exchange.send(ok(&[FRESH], kind));
    });
    for on_disk in [false, true] {
        let disk = Disk::of_mib(8);
        let mut plan = with(&disk, own_host_plan(&origin).listeners);
        plan.rules = vec![
            rule("one.example", "", "x-kind"),
            rule("two.example", "", "x-other"),
        ];
        match on_disk {
            true => plan.memory_bytes = 0,
            false => plan.stores.clear(),
        }
        let proxy = Proxy::start(plan);
        let ask = |host: &str, kind: &str| {
            let answer = proxy.ask("GET", "/a", &[host, &format!("X-Kind: {kind}")]);
            (answer.text().to_owned(), answer.is_hit())
        };
        let asked = [
            ("Host: three.example", "a"),
            ("Host: two.example", "b"),
            ("Host: one.example", "c"),
            ("Host: one.example", "d"),
        ];
        for (host, kind) in asked {
            assert_eq!(ask(host, kind), (kind.to_owned(), false), "{host}");
        }
        // What was stored before it was known that there is more than one is fetched once more.
        ask("Host: three.example", "a");
        for (host, kind) in asked {
            assert_eq!(ask(host, kind), (kind.to_owned(), true), "{host}");
        }
        let mut client = proxy.client();
        let host = "Host: three.example";
        assert_eq!(
            client.ask("DELETE", "/a", &[host]).read("DELETE").status,
            200
        );
        for (host, kind) in asked {
            assert!(!ask(host, kind).1, "{host}");
        }
    }
}

/// One route passes Host on, another has a path of its own: the same URI may mean two resources of one origin.
#[test]
fn a_made_up_host_does_not_reach_what_another_route_stores() {
    let origin = Origin::start(|exchange| {
        let path = exchange.path().to_owned();
        exchange.send(ok(&[FRESH], path));
    });
    let mut listener = listener(plan_for(&origin));
    let Role::Reverse(routes) = &mut listener.role else {
        panic!("a reverse listener");
    };
    let mut route: Route = routes[0].clone();
    route.origin.path = "/base".into();
    let passing = Route {
        pass_host: true,
        ..route.clone()
    };
    let mapping = Route {
        host: Some("site.example".into()),
        pass_host: false,
        ..route
    };
    *routes = vec![mapping, passing];
    let proxy = Proxy::start(plan(listener));
    let made_up = format!("Host: {}", origin.address);
    for _ in 0..3 {
        for (path, host, got) in [
            ("/base/a", &*made_up, "/base/base/a"),
            ("/a", "Host: site.example", "/base/a"),
        ] {
            assert_eq!(proxy.ask("GET", path, &[host]).text(), got, "{host}");
        }
        // Without a Host the route's own name goes to the origin, and into the URI.
        let mut client = proxy.client();
        client.send("GET /a HTTP/1.0\r\n\r\n");
        assert_eq!(client.read("GET").text(), "/base/a");
    }
}

/// Nobody is given the answer to a fetch that his own listener could not have made.
#[test]
fn listeners_of_different_reach_share_no_fetch() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        let nth = exchange.nth();
        held.pass();
        exchange.send(ok(&[FRESH], format!("version {nth}")));
    });
    let url = format!("http://{}/a", origin.address);
    let mut all = plan(forward());
    all.listeners.push(forward_to(&["127.0.0.0/8"]));
    let proxy = Proxy::start(all);
    let mut clients: Vec<Client> = [0, 1, 0, 1]
        .into_iter()
        .map(|at| Client::connect(proxy.ready.listeners[at]))
        .collect();
    for client in &mut clients {
        client.ask("GET", &url, &[]);
    }
    gate.arrived(2);
    gate.open();
    let answers: Vec<String> = clients
        .iter_mut()
        .map(|client| client.read("GET").text().to_owned())
        .collect();
    assert_eq!((&answers[0], &answers[1]), (&answers[2], &answers[3]));
    assert_ne!(answers[0], answers[1]);
    assert_eq!(origin.count("/a"), 2);
}

/// Large objects, and parts of them.
#[test]
fn fragments_of_different_tags_are_kept_apart() {
    let body = |nth: usize| {
        let mut body = pattern(3 << 20);
        body.rotate_left(nth);
        body
    };
    let origin = Origin::start(move |exchange| {
        let nth = exchange.nth();
        let tag = format!("ETag: \"{nth}\"");
        exchange.send(ok(&[FRESH, &tag], body(nth)));
    });
    let url = format!("http://{}/a", origin.address);
    let disk = Disk::of_mib(64);
    let proxy = Proxy::start(with(&disk, vec![forward(), forward_to(&["127.0.0.0/8"])]));
    for _ in 0..2 {
        for at in [0, 1] {
            get_at(&proxy, at, &url, &[]);
        }
    }
    let mut seen = Vec::new();
    for at in [0, 1, 0] {
        let whole = get_at(&proxy, at, &url, &[]);
        assert!(whole.is_hit(), "{at}: {:?}", whole.fields);
        let tag = whole.field("etag").unwrap();
        let nth: usize = tag.trim_matches('"').parse().unwrap();
        seen.push(nth);
        let expected = body(nth);
        assert_same(&whole.body, &expected);
        let part = get_at(&proxy, at, &url, &["Range: bytes=1000000-2500000"]);
        assert_eq!((part.status, part.is_hit()), (206, true));
        assert_same(&part.body, &expected[1_000_000..=2_500_000]);
    }
    assert!(seen[0] == seen[2] && seen[0] != seen[1], "{seen:?}");
}

/// What another configuration stored under the URI as the client types it is not true any more either.
#[test]
fn an_unsafe_method_takes_what_was_stored_under_other_rules() {
    let origin = counting();
    let disk = Disk::of_mib(8);
    let start = |rules: Vec<Rule>| {
        let mut plan = with(&disk, plan_for(&origin).listeners);
        plan.rules = rules;
        Proxy::start(plan)
    };
    let proxy = start(vec![]);
    proxy.get("/a?utm_a=1");
    assert!(proxy.get("/a?utm_a=1").is_hit());
    proxy.stop();
    let proxy = start(vec![rule("", "utm_*", "")]);
    proxy.get("/a");
    proxy.ask("POST", "/a?utm_a=1", &["Content-Length: 0"]);
    assert!(!proxy.get("/a").is_hit());
    proxy.stop();
    assert!(!start(vec![]).get("/a?utm_a=1").is_hit());
}

/// An origin has moved: what the old one said is served to nobody, and makes room for what the new one says.
#[test]
fn what_nobody_can_ask_for_any_more_is_replaced() {
    let (before, after) = (counting(), counting());
    for on_disk in [true, false] {
        let disk = Disk::of_mib(8);
        let start = |origin: &Origin, memory_bytes| {
            let mut plan = with(&disk, plan_for(origin).listeners);
            plan.memory_bytes = memory_bytes;
            Proxy::start(plan)
        };
        let memory_bytes = if on_disk { 0 } else { 64 << 20 };
        let proxy = start(&before, memory_bytes);
        let first = proxy.get("/a");
        assert!(!first.is_hit());
        proxy.stop();
        let proxy = start(&after, memory_bytes);
        assert!(proxy.get("/a").cache().contains("fwd=uri-miss"));
        assert!(proxy.get("/a").is_hit());
        proxy.stop();
        // Not as a variant: there is no trace of the first, and none of a list.
        let proxy = start(&before, memory_bytes);
        let again = proxy.get("/a");
        assert_ne!(again.text(), first.text());
        assert!(again.cache().contains("fwd=uri-miss"), "{again:?}");
    }
}

/// Keys meant something else in older stores.
#[test]
fn a_store_of_an_older_format_starts_empty_and_says_so() {
    let origin = counting();
    let disk = Disk::of_mib(8);
    let start = || Proxy::start(disk.under(plan_for(&origin)));
    let proxy = start();
    proxy.get("/a");
    proxy.stop();
    let mut bytes = std::fs::read(disk.path()).unwrap();
    for copy in store::Superblock::OFFSETS {
        let version = copy as usize + 8;
        let older = store::FORMAT_VERSION_OLDEST - 1;
        bytes[version..version + 4].copy_from_slice(&older.to_le_bytes());
    }
    std::fs::write(disk.path(), bytes).unwrap();
    let proxy = start();
    let said = &proxy.ready.stores[0];
    assert!(
        said.contains("starts empty: an older Loligo wrote it"),
        "{said}"
    );
    assert!(!proxy.get("/a").is_hit());
    proxy.stop();
    let proxy = start();
    assert!(proxy.get("/a").is_hit(), "{}", proxy.ready.stores[0]);
}
