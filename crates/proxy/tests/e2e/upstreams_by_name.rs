//! Servers that are found by names: they come and go with the answers, and stay while there are none.

use std::{collections::BTreeSet, net::SocketAddr, sync::Arc, thread, time::Duration};

use ::proxy::plan::{HealthCheck, OriginTls, Plan, Records, ServerName};
use serde_json::Value;

use super::{
    harness::{
        listing::{Listing, Service},
        names::NameServer,
        running::*,
        tls::{Authority, listener_tls},
        *,
    },
    origins::saying,
    upstreams::plan_of,
};

/// Before servers that this name leads to. Answers count for a second.
fn plan_by(host: &str, records: Records, names: SocketAddr) -> Plan {
    let mut plan = plan_of(Vec::new());
    plan.upstreams[0].names = vec![ServerName {
        host: host.to_owned(),
        tls: false,
        records,
        backup: false,
    }];
    plan.dns.servers = vec![names];
    plan.dns.ttl_max = Duration::from_secs(1);
    plan
}

fn at(port: u16) -> Records {
    Records::Addresses { port, weight: 1 }
}

/// These hosts of loopback, each of which says where it is, and their port.
fn hosts(hosts: &[&str]) -> (Vec<SocketAddr>, u16) {
    let (_, port) = saying(hosts[0], 0);
    for host in &hosts[1..] {
        saying(host, port);
    }
    let address = |host: &&str| format!("{host}:{port}").parse().unwrap();
    (hosts.iter().map(address).collect(), port)
}

/// Those that answer the next requests.
#[track_caller]
fn who_answers(client: &mut Client) -> BTreeSet<String> {
    let mut ask = |n| {
        let answer = client.get(&format!("/{n}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.text().to_owned()
    };
    (0..20).map(&mut ask).collect()
}

#[track_caller]
fn until_they_answer(client: &mut Client, wanted: &[&str]) {
    eventually("it is they who answer", || {
        let these = who_answers(client);
        these.iter().eq(wanted.iter()).then_some(())
    });
}

fn status(proxy: &Proxy) -> Value {
    let status: Value = serde_json::from_str(proxy.admin("GET", "/status").text()).unwrap();
    status["upstreams"][0].clone()
}

#[test]
fn servers_come_and_go_with_the_answers_and_stay_without() {
    const ALL: [&str; 3] = ["127.0.0.1", "127.0.0.3", "127.0.0.4"];
    let (all, port) = hosts(&ALL);
    let listing = Listing::of(&all[..1]);
    let plans = Plans::of(&plan_by("app.example", at(port), listing.address));
    let proxy = Proxy::start_reloadable(&plans);
    let mut client = proxy.client();
    assert_eq!(who_answers(&mut client).len(), 1);
    listing.set(&all[..2]);
    until_they_answer(&mut client, &ALL[..2]);
    listing.set(&all[1..]);
    until_they_answer(&mut client, &ALL[1..]);
    listing.fail();
    eventually("a look-up has failed", || {
        let names = &status(&proxy)["names"][0];
        (names["servers"] == 2 && names["why"].is_string()).then_some(())
    });
    until_they_answer(&mut client, &ALL[1..]);
    // Not even a reload forgets them.
    assert_eq!(proxy.admin("POST", "/reload").status, 200);
    let mut client = proxy.client();
    until_they_answer(&mut client, &ALL[1..]);
    listing.set(&all[2..]);
    until_they_answer(&mut client, &ALL[2..]);
}

#[test]
fn a_request_before_the_first_answer_waits_for_it() {
    let gate = Gate::new();
    let names = NameServer::start(&gate);
    let (_, port) = hosts(&["127.0.0.1"]);
    let proxy = Proxy::start(plan_by("held.example", at(port), names.address));
    thread::scope(|scope| {
        let asked = scope.spawn(|| proxy.get("/a"));
        gate.arrived(1);
        eventually("it waits", || {
            (status(&proxy)["none_up"] == 0 && !asked.is_finished()).then_some(())
        });
        gate.open();
        assert_eq!(asked.join().unwrap().text(), "127.0.0.1");
    });
}

#[test]
fn a_name_that_does_not_exist_is_told_of_at_once() {
    let gate = Gate::new();
    let names = NameServer::start(&gate);
    let proxy = Proxy::start(plan_by("missing.example", at(80), names.address));
    assert_eq!(proxy.get("/a").status, 503);
    let why = status(&proxy)["names"][0]["why"].clone();
    assert!(why.as_str().unwrap().contains("does not resolve"), "{why}");
}

#[test]
fn services_are_asked_by_their_priorities_and_weights() {
    const HOSTS: [&str; 3] = ["127.0.0.1", "127.0.0.3", "127.0.0.4"];
    let (all, _) = hosts(&HOSTS);
    let listing = Listing::of(&[]);
    let service = |at: usize, priority, weight| Service {
        at: all[at],
        priority,
        weight,
    };
    listing.offer(&[service(0, 10, 30), service(1, 10, 10), service(2, 20, 50)]);
    let plan = plan_by("_http._tcp.example", Records::Services, listing.address);
    let proxy = Proxy::start(plan);
    let mut client = proxy.client();
    let mut counts = [0; 3];
    for n in 0..400 {
        let answer = client.get(&format!("/{n}"));
        counts[HOSTS.iter().position(|it| *it == answer.text()).unwrap()] += 1;
    }
    assert!((260..340).contains(&counts[0]), "{counts:?}");
    assert_eq!(counts[2], 0, "{counts:?}");
    for at in &all[..2] {
        let order = format!("/upstreams/app/{at}?state=down");
        assert_eq!(proxy.admin("POST", &order).status, 200);
    }
    until_they_answer(&mut client, &HOSTS[2..]);
    listing.offer(&[service(0, 10, 0), service(1, 10, 0), service(2, 10, 0)]);
    eventually("the priorities are others", || {
        let servers = status(&proxy)["servers"].clone();
        let is_first = |it: &Value| it["backup"] == false && it["weight"] == 1;
        (servers.as_array().unwrap().iter().all(is_first)).then_some(())
    });
    until_they_answer(&mut client, &HOSTS[2..]);
}

#[test]
fn servers_that_are_found_are_checked_and_begin_slowly() {
    let (mut all, port) = hosts(&["127.0.0.1"]);
    let listing = Listing::of(&all);
    let mut plan = plan_by("app.example", at(port), listing.address);
    plan.upstreams[0].slow_start = Duration::from_secs(3600);
    plan.upstreams[0].health = Some(HealthCheck {
        every: Duration::from_millis(50),
        ..HealthCheck::default()
    });
    let proxy = Proxy::start(plan);
    let mut client = proxy.client();
    assert_eq!(who_answers(&mut client).len(), 1);
    // One that is there, and one that is not.
    saying("127.0.0.3", port);
    all.extend(
        ["127.0.0.3", "127.0.0.5"].map(|it| format!("{it}:{port}").parse::<SocketAddr>().unwrap()),
    );
    listing.set(&all);
    eventually("each is in its state", || {
        let servers = status(&proxy)["servers"].clone();
        let states: Vec<_> = servers
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["state"].clone())
            .collect();
        (states == ["up", "starting", "ill"]).then_some(())
    });
}

/// Servers that a name leads to by TLS, whose certificates an authority of the test has signed.
fn encrypted(plan: Plan, authority: &Authority, name: Option<&str>) -> Plan {
    let mut plan = plan;
    let app = &mut plan.upstreams[0];
    app.names[0].tls = true;
    app.tls = Some(Arc::new(OriginTls {
        ca_file: Some(authority.path("ca.pem")),
        only_ca_file: true,
        name: name.map(str::to_owned),
        ..OriginTls::default()
    }));
    app.health = Some(HealthCheck {
        every: Duration::from_millis(50),
        fall: 1,
        ..HealthCheck::default()
    });
    plan.cache.unreachable_ttl = Duration::ZERO;
    plan
}

#[test]
fn what_a_name_leads_to_is_asked_and_checked_for_that_name() {
    let authority = Authority::new();
    // The first is shown to those that ask for another name, or for none.
    let shown = [
        authority.sign("other", &["other.test"]),
        authority.sign("app", &["app.example"]),
    ];
    let origin = Origin::sending(ok(&["Cache-Control: no-store"], "hello"));
    let mut behind = plan_for(&origin);
    behind.listeners[0].tls = Some(listener_tls(&[&shown[0], &shown[1]]));
    let behind = Proxy::start(behind);
    let listing = Listing::of(&[behind.address()]);
    let addresses = at(behind.address().port());
    for (host, records, name, is_good) in [
        ("app.example", addresses, None, true),
        ("_https._tcp.app.example", Records::Services, None, true),
        ("elsewhere.example", addresses, Some("app.example"), true),
        ("elsewhere.example", addresses, None, false),
        (
            "_https._tcp.elsewhere.example",
            Records::Services,
            None,
            false,
        ),
        ("app.example", addresses, Some("elsewhere.example"), false),
    ] {
        let plan = plan_by(host, records, listing.address);
        let proxy = Proxy::start(encrypted(plan, &authority, name));
        let state = if is_good { "up" } else { "ill" };
        eventually("it was looked at", || {
            let servers = &status(&proxy)["servers"];
            let is_so = servers[0]["state"] == state && !servers[0]["checked"].is_null();
            is_so.then_some(())
        });
        if is_good {
            assert_eq!(proxy.get("/a").text(), "hello", "{host} {name:?}");
        }
        proxy.stop();
        let asked = origin.requests().len();
        // Nobody is asked whose certificate is another one's.
        let mut plan = encrypted(plan_by(host, records, listing.address), &authority, name);
        plan.upstreams[0].health = None;
        let proxy = Proxy::start(plan);
        let status = if is_good { 200 } else { 502 };
        assert_eq!(proxy.get("/a").status, status, "{host} {name:?}");
        assert_eq!(origin.requests().len() - asked, usize::from(is_good));
    }
}

#[test]
fn without_settings_of_its_own_an_upstream_has_those_of_all() {
    let authority = Authority::new();
    let shown = authority.sign("app", &["app.example"]);
    let origin = Origin::sending(ok(&["Cache-Control: no-store"], "hello"));
    let mut behind = plan_for(&origin);
    behind.listeners[0].tls = Some(listener_tls(&[&shown]));
    let behind = Proxy::start(behind);
    let listing = Listing::of(&[behind.address()]);
    for (host, status) in [("app.example", 200), ("elsewhere.example", 502)] {
        let mut plan = plan_by(host, at(behind.address().port()), listing.address);
        plan.upstreams[0].names[0].tls = true;
        plan.tls.ca_file = Some(authority.path("ca.pem"));
        plan.tls.only_ca_file = true;
        let proxy = Proxy::start(plan);
        assert_eq!(proxy.get("/a").status, status, "{host}");
    }
}
