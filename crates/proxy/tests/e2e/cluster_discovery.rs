//! Members that come and go: they are found by a name, or when they knock, and are forgotten when they have left for good.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use proxy::plan::{Cluster, PeerAddress, Plan, StorePlan};
use serde_json::Value;
use tempfile::TempDir;

use super::harness::{
    Exchange, FRESH, Origin, Proxy, Response,
    cluster::{addresses, await_hint, cluster, member},
    eventually,
    listing::Listing,
    ok, plan_for,
};

/// Answered from the cache or not at all.
const CACHED: &[&str] = &["Cache-Control: only-if-cached"];
const FORGET_AFTER: Duration = Duration::from_secs(1);

fn counting() -> Origin {
    Origin::start(|exchange: &mut Exchange| {
        let text = format!("version {}", exchange.nth());
        exchange.send(ok(&[FRESH], text));
    })
}

/// A machine: its store and its journal, and the name server that it asks.
struct Machine<'m> {
    dir: TempDir,
    number: usize,
    all: &'m [SocketAddr],
    listing: &'m Listing,
}

impl<'m> Machine<'m> {
    fn of(number: usize, all: &'m [SocketAddr], listing: &'m Listing) -> Machine<'m> {
        Machine {
            dir: tempfile::tempdir().unwrap(),
            number,
            all,
            listing,
        }
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    fn plan(&self, origin: &Origin) -> Plan {
        let mut plan = member(plan_for(origin), self.number, self.all);
        plan.memory_bytes = 0;
        plan.storing.cluster_deadline = Duration::from_millis(10);
        plan.stores = vec![StorePlan::at(self.store(), Some(16 << 20))];
        plan.dns.servers = vec![self.listing.address];
        (plan.dns.timeout, plan.dns.attempts) = (Duration::from_secs(1), 1);
        let settings = cluster(&mut plan);
        settings.members.clear();
        settings.front = true;
        settings.discover = Some(PeerAddress {
            host: "nodes.example".to_owned(),
            port: self.all[0].port(),
        });
        settings.discover_every = Duration::from_millis(100);
        settings.forget_after = FORGET_AFTER;
        settings.state = Some(self.dir.path().join("state"));
        settings.rejoin_wait = Cluster::default().rejoin_wait;
        plan
    }

    fn start(&self, origin: &Origin) -> Proxy {
        Proxy::start(self.plan(origin))
    }

    fn await_written(&self, path: &str) {
        eventually("it is on disk", || {
            let bytes = std::fs::read(self.store()).unwrap();
            memchr::memmem::find(&bytes, path.as_bytes()).map(drop)
        });
    }
}

/// What the member says of the others: `n2 up, n3 away`.
fn told(proxy: &Proxy) -> String {
    let status: Value = serde_json::from_str(proxy.admin("GET", "/status").text()).unwrap();
    let members = status["cluster"]["members"].as_array().unwrap();
    let word = |member: &Value, key: &str| member[key].as_str().unwrap().to_owned();
    let mut told: Vec<String> = (members.iter())
        .map(|member| format!("{} {}", word(member, "name"), word(member, "state")))
        .collect();
    told.sort();
    told.join(", ")
}

#[track_caller]
fn await_told(proxy: &Proxy, wanted: &str) {
    let mut last = String::new();
    let is_told = || {
        last = told(proxy);
        (last == wanted).then_some(())
    };
    let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        eventually(wanted, is_told);
    }));
    assert!(waited.is_ok(), "{last}, never {wanted}");
}

fn purge(proxy: &Proxy, path: &str) -> Response {
    let answer = proxy.admin("DELETE", &format!("/cache?url=http://test.example{path}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

/// Until a purge there is heard by all.
fn await_purges(proxy: &Proxy) {
    eventually("purges reach all", || {
        let answer = proxy.admin("DELETE", "/cache?url=http://nobody.example/");
        (answer.status == 200 && !answer.text().contains("away")).then_some(())
    });
}

fn fill(proxy: &Proxy, path: &str) -> String {
    proxy.get(path);
    eventually("it is found", || {
        let answer = proxy.ask("GET", path, CACHED);
        answer.is_hit().then(|| answer.text().to_owned())
    })
}

#[test]
fn three_find_each_other_a_fourth_joins_and_leaves_and_nobody_restarts() {
    let origin = counting();
    let all = addresses(4);
    let listing = Listing::of(&all[..3]);
    let machines: Vec<_> = (0..4).map(|n| Machine::of(n, &all, &listing)).collect();
    let three: Vec<Proxy> = machines[..3].iter().map(|it| it.start(&origin)).collect();
    await_told(&three[0], "n2 up, n3 up");
    await_told(&three[1], "n1 up, n3 up");
    await_told(&three[2], "n1 up, n2 up");
    three.iter().for_each(await_purges);

    let fourth = machines[3].start(&origin);
    listing.set(&all);
    for proxy in &three {
        eventually("the fourth is known", || {
            told(proxy).contains("n4 up").then_some(())
        });
    }
    await_told(&fourth, "n1 up, n2 up, n3 up");
    three.iter().for_each(await_purges);
    await_purges(&fourth);
    // It is used: what it holds, others ask it for; and purges reach it.
    fill(&fourth, "/a");
    await_hint(&three[0], "http://test.example/a", "n4");
    assert_eq!(three[0].get("/a").text(), "version 1");
    purge(&three[1], "/a");
    assert_eq!(fourth.get("/a").text(), "version 2");

    // Away is not gone: a purge says so.
    drop(fourth);
    eventually("it is away", || {
        told(&three[0]).contains("n4 away").then_some(())
    });
    assert!(eventually("a purge names it", || {
        let answer = purge(&three[0], "/a");
        answer
            .text()
            .contains("away")
            .then(|| answer.text().contains("n4"))
    }));
    std::thread::sleep(2 * FORGET_AFTER);
    let is_told = told(&three[0]);
    assert!(is_told.contains("n4 away"), "it is in the name: {is_told}");
    listing.set(&all[..3]);
    for proxy in &three {
        eventually("it is forgotten", || {
            (!told(proxy).contains("n4")).then_some(())
        });
    }
    await_told(&three[0], "n2 up, n3 up");
    assert!(!purge(&three[0], "/a").text().contains("away"));
    eventually("it is counted", || {
        (three[0].counter("cluster_members_forgotten") >= 1).then_some(())
    });
    assert_eq!(three[0].counter("cluster_handshakes_refused"), 0);
}

/// What a member tells as soon as it has come counts, although nobody has looked yet who is there.
#[test]
fn those_that_start_together_know_that_they_were_told() {
    let origin = counting();
    for _ in 0..3 {
        let all = addresses(3);
        let listing = Listing::of(&all);
        let machines: Vec<_> = (0..3).map(|n| Machine::of(n, &all, &listing)).collect();
        let three: Vec<Proxy> = machines.iter().map(|it| it.start(&origin)).collect();
        for proxy in &three {
            eventually("it serves what is stored", || {
                let metrics = proxy.admin("GET", "/metrics");
                let is_so = metrics
                    .text()
                    .contains("\nloligo_cluster_purges_rejoining_open 0\n");
                is_so.then_some(())
            });
            assert_eq!(proxy.counter("cluster_purges_untold"), 0);
        }
    }
}

#[test]
fn one_that_returns_after_it_was_forgotten_brings_nothing_back() {
    let origin = counting();
    let all = addresses(2);
    let listing = Listing::of(&all);
    let machines: Vec<_> = (0..2).map(|n| Machine::of(n, &all, &listing)).collect();
    let first = machines[0].start(&origin);
    let second = machines[1].start(&origin);
    await_told(&first, "n2 up");
    await_told(&second, "n1 up");
    await_purges(&first);
    await_purges(&second);
    fill(&second, "/purged");
    fill(&second, "/kept");
    machines[1].await_written("/purged");
    machines[1].await_written("/kept");

    drop(second);
    listing.set(&all[..1]);
    await_told(&first, "");
    assert!(!purge(&first, "/purged").text().contains("away"));
    assert!(!purge(&first, "/other").text().contains("away"));

    let second = machines[1].start(&origin);
    // It knocks, and is a member again before the name has it.
    await_told(&first, "n2 up");
    let kept = eventually("what was not purged is served again", || {
        let answer = second.ask("GET", "/kept", CACHED);
        answer.is_hit().then(|| answer.text().to_owned())
    });
    assert_eq!(kept, "version 1");
    assert!(!second.ask("GET", "/purged", CACHED).is_hit());
    assert_eq!(second.get("/purged").text(), "version 2");
    assert_eq!(second.counter("cluster_purges_lost"), 0, "it was told");
}

#[test]
fn a_purge_waits_for_one_that_has_knocked_just_now() {
    let origin = counting();
    let all = addresses(2);
    let (listing, hers) = (Listing::of(&all[..1]), Listing::of(&[]));
    hers.fail();
    let first = Machine::of(0, &all, &listing);
    let first = first.start(&origin);
    let second = Machine::of(1, &all, &hers);
    let mut plan = second.plan(&origin);
    plan.memory_bytes = 1 << 20;
    let second = Proxy::start(plan);
    fill(&second, "/a");
    hers.set(&all);
    eventually("it has knocked", || {
        told(&first).contains("n2").then_some(())
    });
    if !purge(&first, "/a").text().contains("away") {
        assert!(!second.ask("GET", "/a", CACHED).is_hit());
    }
}

#[test]
fn a_name_that_is_not_answered_changes_nothing() {
    let origin = counting();
    let all = addresses(2);
    let (listing, silent) = (Listing::of(&all), Listing::of(&[]));
    let first = Machine::of(0, &all, &listing);
    let first = first.start(&origin);
    // The second finds nobody, and is found.
    silent.fail();
    let second = Machine::of(1, &all, &silent);
    let second = second.start(&origin);
    await_told(&first, "n2 up");
    await_told(&second, "n1 up");
    let forgotten = eventually("it has known its own address", || {
        let forgotten = first.counter("cluster_members_forgotten");
        (forgotten > 0).then_some(forgotten)
    });
    listing.fail();
    let failures = first.counter("cluster_discovery_failures");
    eventually("it has asked some more", || {
        (first.counter("cluster_discovery_failures") > failures + 3).then_some(())
    });
    std::thread::sleep(2 * FORGET_AFTER);
    await_told(&first, "n2 up");
    await_told(&second, "n1 up");
    assert_eq!(
        first.counter("cluster_members_forgotten"),
        forgotten,
        "nobody but its own address"
    );
}

/// Two machines with one name are an operator's mistake: one of them is a member, the other is refused and counted.
#[test]
fn another_with_our_own_name_is_no_member() {
    let origin = counting();
    let all = addresses(2);
    let listing = Listing::of(&all);
    let machines: Vec<_> = (0..2).map(|n| Machine::of(n, &all, &listing)).collect();
    let first = machines[0].start(&origin);
    let mut plan = machines[1].plan(&origin);
    cluster(&mut plan).name = "n1".to_owned();
    let _second = Proxy::start(plan);
    eventually("it is refused", || {
        (first.counter("cluster_handshakes_refused") > 0).then_some(())
    });
    let away = format!("{} away", all[1]);
    await_told(&first, &away);
    assert_eq!(first.get("/a").status, 200);
}
