//! Limits of clients, hosts and listeners: who is counted, what is free, and what becomes of those beyond.

use std::{
    io::Read,
    net::{SocketAddr, TcpListener, TcpStream},
    time::{Duration, Instant},
};

use ::proxy::plan::{
    ClientField, Excess, Naming, Per, Plan, ProxyProtocol, Quota, QuotaKeys, Rate, Rule, Then,
    What, When,
};

use crate::harness::{
    running::{Plans, forward_plan, with_admin},
    *,
};

const HOUR: Duration = Duration::from_secs(3600);

/// So many in an hour, all of them at once if need be.
pub fn hourly(what: What, amount: u64) -> Quota {
    Quota {
        name: "q".to_owned(),
        per: Per::Client,
        what,
        rate: Rate {
            amount,
            period: HOUR,
        },
        burst: amount.max(1),
        then: Excess::Refuse,
        keys: QuotaKeys::default(),
    }
}

fn then(then: Excess, quota: Quota) -> Quota {
    Quota { then, ..quota }
}

fn under(quota: Quota, mut plan: Plan) -> Plan {
    plan.listeners[0].quotas.push(quota.name.clone());
    plan.quotas.push(quota);
    with_admin(plan)
}

/// Its origin answers with what may be stored.
fn limited(origin: &Origin, quota: Quota) -> Proxy {
    Proxy::start(under(quota, plan_for(origin)))
}

fn storable() -> Origin {
    Origin::sending(ok(&[FRESH], "body"))
}

/// A figure of the limit from `/metrics`.
#[track_caller]
fn count(proxy: &Proxy, name: &str) -> u64 {
    let answer = proxy.admin("GET", "/metrics");
    let begin = format!("loligo_limit_{name}{{limit=\"q\"}} ");
    let mut lines = answer.text().lines();
    let value = lines.find_map(|line| line.strip_prefix(&begin));
    value.expect("it is exposed").parse().unwrap()
}

#[track_caller]
fn refused(answer: &Response) {
    assert_eq!(
        (answer.status, answer.cache()),
        (429, "loligo; detail=limit")
    );
}

#[test]
fn hits_are_free_of_a_limit_on_misses() {
    let origin = storable();
    let proxy = limited(&origin, hourly(What::Misses, 3));
    for target in ["/1", "/2", "/3"] {
        assert_eq!(proxy.get(target).status, 200);
    }
    let answer = proxy.get("/4");
    refused(&answer);
    assert_eq!(answer.field("ratelimit-policy"), Some("\"q\";q=3;w=3600"));
    let retry_after: u64 = answer.field("retry-after").unwrap().parse().unwrap();
    assert!((1190..=1200).contains(&retry_after), "{retry_after}");
    assert_eq!(
        answer.field("ratelimit"),
        Some(format!("\"q\";r=0;t={retry_after}").as_str())
    );
    let mut client = proxy.client();
    for _ in 0..1000 {
        assert!(client.get("/1").is_hit());
    }
    // On the long way, too.
    let hit = client.ask("GET", "/1", &["Cache-Control: max-stale"]);
    assert!(hit.read("GET").is_hit());
    // Nothing was looked up for them.
    let counts = ["passed_total", "refused_total", "delayed_total", "keys"];
    assert_eq!(counts.map(|name| count(&proxy, name)), [3, 1, 0, 1]);
    assert_eq!(origin.requests().len(), 3);
}

#[test]
fn each_of_sixty_four_clients_behind_a_balancer_has_its_own_count() {
    let origin = storable();
    let mut plan = under(hourly(What::Requests, 2), plan_for(&origin));
    plan.listeners[0].naming.proxy_protocol = ProxyProtocol::Always;
    plan.listeners[0].allow = vec!["192.0.2.0/24".parse().unwrap()];
    let proxy = Proxy::start(plan);
    for n in 0..64 {
        let mut client = proxy.client();
        client.send(format!("PROXY TCP4 192.0.2.{n} 10.0.0.1 1 80\r\n"));
        // The second one is a hit on the short way.
        let statuses = [0; 4].map(|_| client.get("/a").status);
        assert_eq!(statuses, [200, 200, 429, 429], "client {n}");
    }
    assert_eq!(count(&proxy, "passed_total"), 128);
    assert_eq!(count(&proxy, "refused_total"), 128);
    assert_eq!(count(&proxy, "keys"), 64);
}

#[test]
fn a_client_cannot_be_another_one_by_saying_so() {
    let origin = storable();
    let mut plan = under(hourly(What::Requests, 2), plan_for(&origin));
    plan.listeners[0].naming = Naming {
        trusted: vec!["10.0.0.0/8".parse().unwrap()],
        field: ClientField::XForwardedFor,
        ..Naming::default()
    };
    let proxy = Proxy::start(plan);
    let ask = |n| {
        let field = format!("X-Forwarded-For: 192.0.2.{n}");
        proxy.ask("GET", "/a", &[&field]).status
    };
    assert_eq!([0, 1, 2, 3].map(ask), [200, 200, 429, 429]);
}

#[test]
fn hosts_and_listeners_are_counted_apart() {
    let origin = storable();
    let per = |per| Quota {
        per,
        ..hourly(What::Misses, 1)
    };
    let proxy = limited(&origin, per(Per::Host));
    let ask =
        |host: &str, target: &str| proxy.ask("GET", target, &[&format!("Host: {host}")]).status;
    assert_eq!(ask("a.example", "/1"), 200);
    assert_eq!(ask("b.example", "/1"), 200);
    assert_eq!(ask("A.example.", "/2"), 429);
    let proxy = limited(&origin, per(Per::Listener));
    let ask =
        |host: &str, target: &str| proxy.ask("GET", target, &[&format!("Host: {host}")]).status;
    assert_eq!(ask("a.example", "/1"), 200);
    assert_eq!(ask("b.example", "/1"), 429);
}

#[test]
fn whoever_joins_a_fetch_pays_nothing() {
    let gate = Gate::new();
    let origin = Origin::start({
        let gate = gate.clone();
        move |exchange| {
            gate.pass();
            exchange.send(ok(&[FRESH], "body"));
        }
    });
    let proxy = limited(&origin, hourly(What::Misses, 1));
    let mut first = proxy.client();
    first.ask("GET", "/a", &[]);
    gate.arrived(1);
    let mut others: Vec<_> = (0..5)
        .map(|_| {
            let mut client = proxy.client();
            client.ask("GET", "/a", &[]);
            client
        })
        .collect();
    eventually("they have joined", || {
        (proxy.counter("flights_joined") == 5).then_some(())
    });
    gate.open();
    assert_eq!(first.read("GET").status, 200);
    assert!(
        others
            .iter_mut()
            .all(|client| client.read("GET").status == 200)
    );
    assert_eq!(count(&proxy, "passed_total"), 1);
}

#[test]
fn everything_that_is_sent_on_is_a_miss() {
    let origin = Origin::start(|exchange| {
        if exchange.request.method == "POST" {
            exchange.body();
        }
        exchange.send(ok(
            STALE,
            if exchange.request.method == "HEAD" {
                ""
            } else {
                "body"
            },
        ));
    });
    // What was stored is stale: it is validated each time.
    let proxy = limited(&origin, hourly(What::Misses, 3));
    assert_eq!([0; 4].map(|_| proxy.get("/a").status), [200, 200, 200, 429]);
    let ask = |proxy: &Proxy, method: &str| {
        let mut client = proxy.client();
        let fields: &[&str] = if method == "POST" {
            &["Content-Length: 0"]
        } else {
            &[]
        };
        client.ask(method, "/b", fields).read(method).status
    };
    for method in ["POST", "HEAD", "DELETE", "OPTIONS"] {
        let proxy = limited(&origin, hourly(What::Misses, 1));
        assert_eq!([0; 2].map(|_| ask(&proxy, method)), [200, 429], "{method}");
    }
    // A tunnel.
    let plan = under(
        hourly(What::Misses, 1),
        forward_plan(&[origin.address.port()]),
    );
    let proxy = Proxy::start(plan);
    let target = origin.address.to_string();
    let mut client = proxy.client();
    let head = client.ask("CONNECT", &target, &[]).read_head();
    assert_eq!(head.status, 200);
    let mut client = proxy.client();
    assert_eq!(client.ask("CONNECT", &target, &[]).read("GET").status, 429);
    assert_eq!(count(&proxy, "passed_total"), 1);
}

#[test]
fn a_body_of_a_refused_request_is_no_request() {
    let origin = storable();
    let proxy = limited(&origin, hourly(What::Misses, 0));
    let mut client = proxy.client();
    let inner = "GET /inner HTTP/1.1\r\nHost: a\r\n\r\n";
    let length = format!("Content-Length: {}", inner.len());
    client.ask("POST", "/", &[&length]).send(inner);
    refused(&client.read("POST"));
    client.expect_close();
}

#[test]
fn a_rate_of_0_refuses_for_ever() {
    let origin = storable();
    let proxy = limited(&origin, hourly(What::Misses, 0));
    let answer = proxy.get("/a");
    refused(&answer);
    assert_eq!(answer.field("retry-after"), None);
    assert_eq!(answer.field("ratelimit"), Some("\"q\";r=0"));
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn a_part_is_one_miss_and_then_free() {
    let body = pattern(600_000);
    let origin = Origin::start({
        let body = body.clone();
        move |exchange| {
            let Some(range) = exchange.field("range").map(str::to_owned) else {
                return exchange.send(ok(&[FRESH, "ETag: \"1\""], &body));
            };
            let (first, last) = range
                .strip_prefix("bytes=")
                .unwrap()
                .split_once('-')
                .unwrap();
            let first: usize = first.parse().unwrap();
            let last = last
                .parse::<usize>()
                .unwrap_or(usize::MAX)
                .min(body.len() - 1);
            let place = format!("Content-Range: bytes {first}-{last}/{}", body.len());
            exchange.send(answer(
                "206 Partial Content",
                &[FRESH, "ETag: \"1\"", &place],
                &body[first..=last],
            ));
        }
    });
    let disk = Disk::of_mib(16);
    let proxy = Proxy::start(under(
        hourly(What::Misses, 1),
        disk.under(plan_for(&origin)),
    ));
    let part = |range: &str| proxy.ask("GET", "/a", &[&format!("Range: bytes={range}")]);
    let first = part("0-99");
    assert_eq!(first.status, 206);
    assert_same(&first.body, &body[..100]);
    eventually("it is stored", || part("0-99").is_hit().then_some(()));
    refused(&part("500000-500099"));
}

#[test]
fn a_delayed_request_waits_for_its_turn() {
    let origin = storable();
    let quota = Quota {
        rate: Rate {
            amount: 10,
            period: Duration::from_secs(1),
        },
        burst: 1,
        ..then(Excess::Delay(PATIENCE), hourly(What::Misses, 1))
    };
    let proxy = limited(&origin, quota);
    let began = Instant::now();
    let mut clients: Vec<_> = (0..4)
        .map(|n| {
            let mut client = proxy.client();
            client.ask("GET", &format!("/{n}"), &[]);
            client
        })
        .collect();
    assert!(
        clients
            .iter_mut()
            .all(|client| client.read("GET").status == 200)
    );
    assert!(began.elapsed() >= Duration::from_millis(299));
    assert_eq!(count(&proxy, "passed_total"), 4);
    assert!(count(&proxy, "delayed_total") >= 1);
    assert_eq!(count(&proxy, "refused_total"), 0);
}

#[test]
fn a_turn_that_is_too_far_away_is_not_waited_for() {
    let origin = storable();
    let delay = Excess::Delay(Duration::from_secs(2));
    let proxy = limited(&origin, then(delay, hourly(What::Misses, 1)));
    assert_eq!(proxy.get("/1").status, 200);
    refused(&proxy.get("/2"));
    assert_eq!(count(&proxy, "delayed_total"), 0);
}

/// An origin that holds requests for `/held` until the gate opens.
fn holding(gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::start(move |exchange| {
        if exchange.path() == "/held" {
            gate.pass();
        }
        exchange.send(ok(&[FRESH], "body"));
    })
}

fn at_once(amount: u64, excess: Excess) -> Quota {
    then(excess, hourly(What::FetchesAtOnce, amount))
}

#[test]
fn fetches_at_once_are_counted_while_they_last() {
    let gate = Gate::new();
    let origin = holding(&gate);
    let proxy = limited(&origin, at_once(1, Excess::Refuse));
    let mut first = proxy.client();
    first.ask("GET", "/held", &[]);
    gate.arrived(1);
    let second = proxy.get("/b");
    refused(&second);
    assert_eq!(second.field("retry-after"), Some("1"));
    gate.open();
    assert_eq!(first.read("GET").status, 200);
    eventually("the fetch has ended", || {
        (count(&proxy, "keys") == 0).then_some(())
    });
    assert_eq!(proxy.get("/b").status, 200);
}

#[test]
fn who_waits_for_a_fetch_to_end_goes_on_when_it_does_or_leaves() {
    let gate = Gate::new();
    let origin = holding(&gate);
    let proxy = limited(&origin, at_once(1, Excess::Delay(PATIENCE)));
    let mut first = proxy.client();
    first.ask("GET", "/held", &[]);
    gate.arrived(1);
    let (mut waiting, mut leaving) = (proxy.client(), proxy.client());
    waiting.ask("GET", "/b", &[]);
    leaving.ask("GET", "/c", &[]);
    leaving.finish_sending();
    eventually("it has gone", || {
        (proxy.counter("client_aborts") == 1).then_some(())
    });
    gate.open();
    assert_eq!(first.read("GET").status, 200);
    assert_eq!(waiting.read("GET").status, 200);
    assert_eq!((origin.count("/b"), origin.count("/c")), (1, 0));
    assert_eq!(count(&proxy, "delayed_total"), 1);
}

#[test]
fn what_is_stale_takes_the_place_of_a_miss() {
    let origin = Origin::sending(ok(&[STALE, &["ETag: \"1\""]].concat(), "old"));
    let proxy = limited(&origin, then(Excess::Stale, hourly(What::Misses, 1)));
    assert_eq!(proxy.get("/a").status, 200);
    let stale = proxy.get("/a");
    assert_eq!((stale.status, stale.text()), (200, "old"));
    assert!(
        stale.cache().contains("detail=stale-if-error"),
        "{}",
        stale.cache()
    );
    refused(&proxy.get("/b"));
    assert_eq!(origin.requests().len(), 1);
    assert_eq!(count(&proxy, "refused_total"), 2);
}

#[test]
fn what_must_be_validated_is_not_served_stale() {
    let fields = [
        "Cache-Control: max-age=60, must-revalidate",
        "Age: 100",
        "ETag: \"1\"",
    ];
    let origin = Origin::sending(ok(&fields, "old"));
    let proxy = limited(&origin, then(Excess::Stale, hourly(What::Misses, 1)));
    assert_eq!(proxy.get("/a").status, 200);
    refused(&proxy.get("/a"));
}

#[test]
fn a_refresh_behind_a_client_is_left_out_beyond_the_limit() {
    let fields = [
        "Cache-Control: max-age=60, stale-while-revalidate=6000",
        "Age: 100",
    ];
    let origin = Origin::sending(ok(&fields, "old"));
    let proxy = limited(&origin, hourly(What::Misses, 2));
    // The first one is a miss, the next one has it refreshed, and then there is no more.
    eventually("a refresh is left out", || {
        assert_eq!(proxy.get("/a").status, 200);
        (count(&proxy, "refused_total") > 0).then_some(())
    });
    // The refresh that was allowed may still be on its way.
    eventually("the origin is asked twice", || {
        (origin.requests().len() == 2).then_some(())
    });
}

#[test]
fn bytes_from_origins_are_owed() {
    let origin = Origin::start(|exchange| {
        let long = exchange.path() == "/long";
        exchange.send(ok(&[FRESH], pattern(if long { 50_000 } else { 10 })));
    });
    let proxy = limited(&origin, hourly(What::MissBytes, 20_000));
    // Each head counts, too.
    assert_eq!(proxy.get("/1").status, 200);
    assert_eq!(proxy.get("/long").status, 200);
    eventually("it is counted", || {
        (proxy.get("/2").status == 429).then_some(())
    });
    assert!(proxy.get("/long").is_hit());
    let answer = proxy.get("/3");
    assert_eq!(
        answer.field("ratelimit-policy"),
        Some("\"q\";q=20000;qu=\"content-bytes\";w=3600")
    );
    let wait: u64 = answer.field("retry-after").unwrap().parse().unwrap();
    // 50,000 of 20,000 an hour, and a burst of 20,000.
    assert!((5390..6000).contains(&wait), "{wait}");
}

#[test]
fn bytes_to_clients_are_owed_for_hits_too() {
    let origin = Origin::sending(ok(&[FRESH], pattern(30_000)));
    let proxy = limited(&origin, hourly(What::Bytes, 100_000));
    let statuses = [0; 6].map(|_| proxy.get("/a").status);
    assert_eq!(statuses, [200, 200, 200, 200, 429, 429]);
    assert_eq!(count(&proxy, "passed_total"), 4);
}

#[test]
fn so_many_connections_and_no_more() {
    let origin = storable();
    let proxy = limited(&origin, hourly(What::Connections, 2));
    let (mut first, mut second) = (proxy.client(), proxy.client());
    assert_eq!(first.get("/a").status, 200);
    assert_eq!(second.get("/a").status, 200);
    let mut third = TcpStream::connect(proxy.address()).unwrap();
    assert_eq!(third.read_to_end(&mut Vec::new()).unwrap(), 0);
    assert_eq!(count(&proxy, "refused_total"), 1);
    drop(first);
    eventually("there is room", || {
        (count(&proxy, "keys") == 1 && try_get(proxy.address())).then_some(())
    });
    assert_eq!(second.get("/a").status, 200);
}

/// A request that may be refused with its connection.
fn try_get(address: SocketAddr) -> bool {
    let mut client = Client::connect(address);
    client.ask("GET", "/a", &["Connection: close"]);
    client.wire.response_head().is_ok()
}

#[test]
fn a_reload_keeps_the_counts_of_what_has_not_changed() {
    let origin = storable();
    let mut plan = under(hourly(What::Requests, 2), plan_for(&origin));
    let plans = Plans::of(&plan);
    let proxy = Proxy::start_reloadable(&plans);
    let reload = |plan: &Plan| {
        plans.set(Ok(plan.clone()));
        assert_eq!(proxy.admin("POST", "/reload").status, 200);
    };
    let mut client = proxy.client();
    assert_eq!([0; 3].map(|_| client.get("/a").status), [200, 200, 429]);
    plan.cache.default_ttl = Duration::from_secs(77);
    reload(&plan);
    assert_eq!(client.get("/a").status, 429);
    assert_eq!(count(&proxy, "passed_total"), 2);
    // One that is changed begins anew.
    plan.quotas[0].burst = 3;
    reload(&plan);
    assert_eq!(client.get("/a").status, 200);
    plan.listeners[0].quotas.clear();
    reload(&plan);
    assert!((0..10).all(|_| client.get("/a").status == 200));
}

#[test]
fn all_limits_of_a_listener_must_have_room_and_none_pays_for_another() {
    let origin = storable();
    let mut plan = under(hourly(What::Misses, 2), plan_for(&origin));
    let tight = Quota {
        name: "tight".into(),
        per: Per::Host,
        ..hourly(What::Misses, 1)
    };
    plan = under(tight, plan);
    let proxy = Proxy::start(plan);
    let ask =
        |host: &str, target: &str| proxy.ask("GET", target, &[&format!("Host: {host}")]).status;
    assert_eq!(ask("a", "/1"), 200);
    // Refused by the second one: the first one has it back.
    assert_eq!([ask("a", "/2"), ask("a", "/3")], [429, 429]);
    assert_eq!(ask("b", "/1"), 200);
    assert_eq!(ask("c", "/1"), 429);
    let status = proxy.admin("GET", "/status");
    let status: serde_json::Value = serde_json::from_slice(&status.body).unwrap();
    assert_eq!(status["limits"][0]["passed"], 2);
    assert_eq!(status["limits"][1]["refused"], 2);
}

#[test]
fn a_rule_names_limits_for_what_it_is_about() {
    let origin = storable();
    let mut plan = plan_for(&origin);
    let requests = hourly(What::Requests, 3);
    let misses = Quota {
        name: "misses".into(),
        ..hourly(What::Misses, 1)
    };
    plan.rules = vec![Rule {
        name: None,
        when: When {
            paths: vec!["/api".into()],
            ..When::default()
        },
        then: Then {
            quotas: vec![requests.name.clone(), misses.name.clone()],
            ..Then::default()
        },
    }];
    plan.quotas = vec![requests, misses];
    let proxy = Proxy::start(with_admin(plan));
    let mut client = proxy.client();
    let mut ask = |target: &str| client.get(target).status;
    assert_eq!(
        ["/api/a", "/api/b", "/api/a"].map(&mut ask),
        [200, 429, 200]
    );
    // Hits on the short way are counted, and refused.
    assert_eq!(["/api/a", "/api/a"].map(&mut ask), [429, 429]);
    assert!((0..5).all(|n| ask(&format!("/other/{n}")) == 200));
    assert_eq!(count(&proxy, "passed_total"), 3);
}

/// A rule for a path that gives a tag.
fn tagging(path: &str, tag: &str) -> Rule {
    Rule {
        name: None,
        when: When {
            paths: vec![path.to_owned()],
            ..When::default()
        },
        then: Then {
            tag: Some(tag.to_owned()),
            ..Then::default()
        },
    }
}

#[test]
fn tags_are_counted_apart_and_what_has_none_together() {
    let origin = storable();
    for what in [What::Misses, What::Requests] {
        let quota = Quota {
            per: Per::Tag,
            ..hourly(what, 2)
        };
        let mut plan = under(quota, plan_for(&origin));
        plan.rules = vec![tagging("/a", "a"), tagging("/b", "b"), tagging("/c", "a")];
        let proxy = Proxy::start(plan);
        let mut client = proxy.client();
        let mut ask = |target: &str| client.get(target).status;
        assert_eq!(["/a/1", "/b/1", "/c/1"].map(&mut ask), [200; 3]);
        assert_eq!(["/a/2", "/b/2", "/c/2"].map(&mut ask), [429, 200, 429]);
        assert_eq!(["/1", "/2", "/3"].map(&mut ask), [200, 200, 429]);
        // Hits, on the short way.
        let of_hits = if what == What::Misses { 200 } else { 429 };
        assert_eq!(["/a/1", "/b/1", "/1"].map(&mut ask), [of_hits; 3]);
    }
}

#[test]
fn a_rules_limit_is_one_of_tunnels_too() {
    let origin = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = origin.local_addr().unwrap();
    let mut plan = with_admin(forward_plan(&[to.port()]));
    plan.quotas = vec![hourly(What::Misses, 1)];
    plan.rules = vec![Rule {
        name: None,
        when: When {
            hosts: vec!["127.0.0.1".to_owned()],
            ..When::default()
        },
        then: Then {
            quotas: vec!["q".to_owned()],
            ..Then::default()
        },
    }];
    let proxy = Proxy::start(plan);
    let connect = |host: &str| {
        let target = format!("{host}:{}", to.port());
        let mut client = proxy.client();
        client.send(format!(
            "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"
        ));
        client.read_head().status
    };
    assert_eq!(connect("127.0.0.1"), 200);
    assert_eq!(connect("127.0.0.1"), 429);
    assert_eq!(connect("localhost"), 200, "the rule is not about it");
    assert_eq!(count(&proxy, "refused_total"), 1);
}
