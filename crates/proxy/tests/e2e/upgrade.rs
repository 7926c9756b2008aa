//! Another process takes a proxy's place. Here both are threads of one process, which the stores and sockets do not know; processes of their own
//! are in `loligo/tests/upgrade.rs`, and killed in `cargo xtask torture --upgrade`.

use std::{
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use ::proxy::plan::{Listener, Plan, StorePlan};
use serde_json::Value;

use super::harness::{client::request, running::*, *};
use super::{http2_client::speaking, http2_crowd::Crowd};

/// A proxy, and those that take its place.
pub struct House {
    pub proxy: Proxy,
    heirs: Heirs,
    plans: Plans,
    plan: Plan,
}

impl House {
    pub fn of(plan: Plan) -> House {
        let plan = with_admin(plan);
        let plans = Plans::of(&plan);
        let (proxy, heirs) = Proxy::start_with_heirs(&plans);
        House {
            proxy,
            heirs,
            plans,
            plan,
        }
    }

    /// Another one takes over; the one before, which may still end requests.
    #[track_caller]
    pub fn upgrade(&mut self) -> Proxy {
        let answer = eventually("the process before has ended", || {
            let answer = self.proxy.admin("POST", "/upgrade");
            // That one has ended is heard a moment later.
            let is_too_early = answer.text().contains("still ends its requests");
            (!is_too_early).then_some(answer)
        });
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(
            answer.text().contains("has taken over"),
            "{}",
            answer.text()
        );
        let next = self.heirs.next();
        assert_eq!(next.ready.listeners, self.proxy.ready.listeners);
        assert_eq!(next.ready.admin, self.proxy.ready.admin);
        std::mem::replace(&mut self.proxy, next)
    }

    /// It is refused with these words, and the proxy serves and stores on.
    #[track_caller]
    fn refused(&mut self, why: &str) {
        let answer = self.proxy.admin("POST", "/upgrade");
        assert_eq!(answer.status, 503, "{}", answer.text());
        assert!(answer.text().contains(why), "{}", answer.text());
    }

    fn status(&self) -> Value {
        serde_json::from_str(self.proxy.admin("GET", "/status").text()).unwrap()
    }
}

/// Says how often each target was asked for.
fn counting() -> Origin {
    Origin::start(|exchange| {
        let nth = exchange.nth();
        exchange.send(ok(&[FRESH], format!("version {nth}")));
    })
}

/// Only what is stored.
#[track_caller]
fn stored(proxy: &Proxy, target: &str) -> Option<String> {
    let answer = proxy.ask("GET", target, &["Cache-Control: only-if-cached"]);
    (answer.status == 200).then(|| answer.text().to_owned())
}

#[track_caller]
fn purge(proxy: &Proxy, origin: &Origin, target: &str) {
    let url = format!("/cache?url=http://{}{target}", origin.address);
    let answer = proxy.admin("DELETE", &url);
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn with_memory_alone_the_next_one_listens_at_the_same_places_and_begins_empty() {
    let origin = counting();
    let mut house = House::of(own_host_plan(&origin));
    assert_eq!(house.proxy.get("/a").text(), "version 1");
    let before = house.upgrade();
    before.ended().unwrap();
    assert_eq!(stored(&house.proxy, "/a"), None);
    assert_eq!(house.proxy.get("/a").text(), "version 2");
    // And so on.
    for _ in 0..3 {
        house.upgrade().ended().unwrap();
    }
    assert_eq!(house.proxy.get("/a").text(), "version 3");
}

#[test]
fn hits_come_from_disk_right_after() {
    let (origin, disk) = (counting(), Disk::of_mib(16));
    let mut house = House::of(disk.under(own_host_plan(&origin)));
    for n in 0..50 {
        assert_eq!(house.proxy.get(&format!("/{n}")).text(), "version 1");
    }
    for round in 0..3 {
        house.upgrade().ended().unwrap();
        for n in 0..50 {
            let text = stored(&house.proxy, &format!("/{n}"));
            assert_eq!(text.as_deref(), Some("version 1"), "round {round}, {n}");
        }
        // It stores, too.
        house.proxy.get(&format!("/of-round-{round}"));
    }
    assert!(stored(&house.proxy, "/of-round-1").is_some());
    // The last one closes the store in order.
    let House { proxy, plan, .. } = house;
    proxy.stop();
    let proxy = Proxy::start(plan);
    assert_eq!(stored(&proxy, "/49").as_deref(), Some("version 1"));
    assert_eq!(stored(&proxy, "/of-round-2").as_deref(), Some("version 1"));
}

#[test]
fn several_stores_are_handed_over_as_one() {
    let (origin, disk) = (counting(), Disk::of_mib(16));
    let mut plan = own_host_plan(&origin);
    for name in ["one", "two"] {
        let more = disk.named(name, plan.clone());
        plan.stores.extend(more.stores);
    }
    let mut house = House::of(plan);
    for n in 0..20 {
        house.proxy.get(&format!("/{n}"));
    }
    house.upgrade().ended().unwrap();
    for n in 0..20 {
        assert!(stored(&house.proxy, &format!("/{n}")).is_some(), "{n}");
    }
    purge(&house.proxy, &origin, "/3");
    house.upgrade().ended().unwrap();
    assert_eq!(stored(&house.proxy, "/3"), None);
    assert!(stored(&house.proxy, "/4").is_some());
}

#[test]
fn a_download_under_way_ends_whole_through_the_old_process() {
    let body = pattern(20 << 20);
    let gate = Gate::new();
    let (held, sent) = (gate.clone(), body.clone());
    let origin = Origin::start(move |exchange| match exchange.path() {
        "/slow" => {
            exchange.send(head(
                "200 OK",
                &[FRESH, &format!("Content-Length: {}", sent.len())],
            ));
            exchange.send(&sent[..100_000]);
            held.pass();
            exchange.send(&sent[100_000..]);
        }
        "/large" => exchange.send(ok(&[FRESH], &sent)),
        _ => exchange.send(ok(&[FRESH], &sent[..4 << 20])),
    });
    let disk = Disk::of_mib(128);
    let mut house = House::of(disk.under(draining_long(own_host_plan(&origin))));
    // One from the origin, one from disk: larger than what sockets hold.
    let mut from_origin = house.proxy.client();
    from_origin.ask("GET", "/slow", &[]);
    assert_eq!(from_origin.read_head().status, 200);
    assert_same(&house.proxy.get("/large").body, &body);
    eventually("it is stored", || stored_large(&house.proxy));
    let mut from_disk = house.proxy.client();
    from_disk.ask("GET", "/large", &[]);
    let first = from_disk.read_head();
    assert_eq!(first.status, 200);
    let old = house.upgrade();
    // The new one fills its store meanwhile and goes round in it. (What an answer needs is a quarter of it at most.)
    for n in 0..40 {
        house.proxy.get(&format!("/other-{n}"));
    }
    assert_same(&from_disk.bytes(body.len()), &body);
    gate.open();
    assert_same(&from_origin.bytes(body.len()), &body);
    drop((from_disk, from_origin));
    old.ended().unwrap();
}

fn stored_large(proxy: &Proxy) -> Option<()> {
    let answer = proxy.ask("HEAD", "/large", &["Cache-Control: only-if-cached"]);
    (answer.status == 200).then_some(())
}

#[test]
fn a_post_under_way_makes_untrue_what_the_new_process_has_stored() {
    let disk = Disk::of_mib(16);
    for has_disk in [false, true] {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::start(move |exchange| {
            let nth = exchange.nth();
            if exchange.request.head.method == "POST" {
                exchange.body();
                held.pass();
            }
            exchange.send(ok(&[FRESH], format!("version {nth}")));
        });
        let plan = draining_long(own_host_plan(&origin));
        let mut house = House::of(match has_disk {
            true => disk.under(plan),
            false => plan,
        });
        house.proxy.get("/a");
        let mut client = house.proxy.client();
        client.send(request("POST", "/a", &["Content-Length: 2"], "hi"));
        gate.arrived(1);
        let old = house.upgrade();
        let text = house.proxy.get("/a").text().to_owned();
        assert_eq!(stored(&house.proxy, "/a"), Some(text));
        gate.open();
        assert_eq!(client.read("POST").status, 200);
        assert_eq!(stored(&house.proxy, "/a"), None, "the POST came after");
        old.ended().unwrap();
    }
}

#[test]
fn a_purge_asked_of_the_old_process_holds_in_the_new_one() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        if exchange.path() == "/held" {
            held.pass();
        }
        exchange.send(ok(&[FRESH, "Surrogate-Key: a"], exchange.path()));
    });
    let disk = Disk::of_mib(16);
    let mut house = House::of(disk.under(draining_long(own_host_plan(&origin))));
    for target in ["/one", "/two", "/p/one", "/p/two"] {
        house.proxy.get(target);
    }
    // A request keeps the old process from ending, and a connection to its admin interface is open.
    let mut client = house.proxy.client();
    client.ask("GET", "/held", &[]);
    gate.arrived(1);
    let address = house.proxy.ready.admin.unwrap();
    let mut admin = Client::connect(address);
    let host = format!("Host: {address}");
    assert_eq!(
        admin.ask("GET", "/healthz", &[&host]).read("GET").status,
        200
    );
    let old = house.upgrade();
    for (kind, url, gone) in [("url", "/one", "/one"), ("prefix", "/p/", "/p/two")] {
        assert!(stored(&house.proxy, gone).is_some());
        let target = format!("/cache?{kind}=http://{}{url}", origin.address);
        let answer = admin.ask("DELETE", &target, &[&host]).read("DELETE");
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(
            answer.text().contains("\"durable\": true"),
            "{}",
            answer.text()
        );
        assert_eq!(stored(&house.proxy, gone), None);
    }
    assert!(stored(&house.proxy, "/two").is_some());
    gate.open();
    assert_eq!(client.read("GET").text(), "/held");
    drop((admin, client));
    old.ended().unwrap();
    house.upgrade().ended().unwrap();
    assert_eq!(stored(&house.proxy, "/one"), None);
    assert_eq!(stored(&house.proxy, "/p/one"), None);
    assert!(stored(&house.proxy, "/two").is_some());
}

#[test]
fn a_new_process_with_a_wrong_configuration_leaves_the_old_one_as_it_was() {
    let (origin, disk) = (counting(), Disk::of_mib(16));
    let mut house = House::of(disk.under(own_host_plan(&origin)));
    house.proxy.get("/a");
    house.plans.set(Err("loligo.toml:3: nonsense".to_owned()));
    house.refused("loligo.toml:3: nonsense");
    house.heirs.failure();
    // An address that somebody else has.
    let taken = TcpListener::bind(local()).unwrap();
    let mut wrong = house.plan.clone();
    let more = Listener::reverse(taken.local_addr().unwrap(), Vec::new(), url(origin.address));
    wrong.listeners.push(more);
    house.plans.set(Ok(wrong));
    house.refused("cannot listen on");
    house.heirs.failure();
    // Other stores.
    let mut wrong = house.plan.clone();
    wrong.stores.push(StorePlan::at("/nowhere", None));
    house.plans.set(Ok(wrong));
    house.refused("wants a restart");
    house.heirs.failure();
    // It stores as before.
    assert_eq!(house.proxy.get("/b").text(), "version 1");
    house.plans.set(Ok(house.plan.clone()));
    house.upgrade().ended().unwrap();
    for target in ["/a", "/b"] {
        assert_eq!(stored(&house.proxy, target).as_deref(), Some("version 1"));
    }
    assert_eq!(house.status()["configuration"]["edition"], 1);
}

#[test]
fn one_upgrade_at_a_time_and_none_while_the_process_before_still_ends_requests() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        if exchange.path() == "/held" {
            held.pass();
        }
        exchange.send(ok(&[FRESH], "x"));
    });
    let mut house = House::of(draining_long(own_host_plan(&origin)));
    let mut client = house.proxy.client();
    client.ask("GET", "/held", &[]);
    gate.arrived(1);
    let old = house.upgrade();
    house.refused("still ends its requests");
    gate.open();
    assert_eq!(client.read("GET").text(), "x");
    drop(client);
    old.ended().unwrap();
    let again = eventually("the process before has ended", || {
        let answer = house.proxy.admin("POST", "/upgrade");
        (answer.status == 200).then(|| house.heirs.next())
    });
    assert_eq!(again.get("/b").text(), "x");
}

#[test]
fn an_upgrade_in_a_storm_of_reloads_waits_for_a_moment_between_two() {
    let origin = counting();
    let mut house = House::of(own_host_plan(&origin));
    let admin = house.proxy.ready.admin.unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let host = format!("Host: {admin}");
                while !stop.load(Ordering::Relaxed) {
                    // Of which process, and what it says, is all the same.
                    let mut client = Client::connect(admin);
                    let _ = client.ask("POST", "/reload", &[&host]).wire.response_head();
                }
            });
        }
        for _ in 0..10 {
            house.upgrade().ended().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn nobody_who_connects_meanwhile_is_refused_or_cut() {
    let (origin, disk) = (counting(), Disk::of_mib(16));
    let mut plan = own_host_plan(&origin);
    plan.workers = 2;
    let mut house = House::of(disk.under(plan));
    house.proxy.get("/a");
    let address = house.proxy.address();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let asking = thread::spawn(move || {
        let mut asked = 0;
        while !stopped.load(Ordering::Relaxed) {
            // Each on a connection of its own: one that waits may be closed between two requests.
            let answer = Client::connect(address).get("/a");
            assert_eq!(answer.status, 200);
            assert!(answer.text().starts_with("version"), "{}", answer.text());
            asked += 1;
        }
        asked
    });
    for _ in 0..10 {
        house.upgrade().ended().unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    assert!(asking.join().unwrap() > 0);
}

/// From memory, from disk as one record and as several, from the origin, and from fetches that several share and that are stored.
const OF_A_CROWD: &[(&str, usize)] = &[
    ("/memory/1", 30_000),
    ("/disk/1", 700_000),
    ("/miss/1", 300_000),
    ("/large/1", 3_300_000),
    ("/memory/2", 60_000),
    ("/disk/2", 900_000),
    ("/disk/3", 500_000),
    ("/large/2", 4_200_000),
    ("/large/new", 2_900_000),
    ("/miss/2", 900_000),
    ("/disk/4", 800_000),
    ("/disk/new", 600_000),
    ("/memory/3", 90_000),
];

#[test]
fn no_body_over_http2_is_cut_by_an_upgrade_or_a_stop() {
    let origin = Origin::start(|exchange| {
        let path = exchange.path().to_owned();
        let found = OF_A_CROWD.iter().find(|(known, _)| path.starts_with(known));
        let lasts = match path.starts_with("/miss") {
            true => "Cache-Control: no-store",
            false => FRESH,
        };
        // Without a validator: what is lost on the way cannot be asked for again.
        exchange.send(ok(&[lasts], pattern(found.map_or(0, |it| it.1))));
    });
    let disk = Disk::of_mib(128);
    let mut plan = speaking(draining_long(own_host_plan(&origin)));
    (plan.workers, plan.memory_bytes) = (2, 3 << 20);
    let mut house = House::of(disk.under(plan));
    let address = house.proxy.ready.listeners[0];
    let crowd = Crowd::start(4, address, OF_A_CROWD);
    let goes_on = || {
        let before = crowd.whole();
        eventually("the crowd goes on", || {
            (crowd.whole() > before + 15).then_some(())
        });
    };
    for _ in 0..3 {
        goes_on();
        house.upgrade().ended().unwrap();
    }
    goes_on();
    house.proxy.begin_to_stop();
    let House { proxy, .. } = house;
    proxy.ended().unwrap();
    let whole = crowd.whole();
    let cut = crowd.stop();
    assert!(cut.is_empty(), "{} of {whole}: {cut:#?}", cut.len());
}

#[test]
fn a_process_that_cannot_start_another_says_so() {
    let origin = counting();
    let proxy = Proxy::start(with_admin(plan_for(&origin)));
    let answer = proxy.admin("POST", "/upgrade");
    assert_eq!(answer.status, 503);
    assert!(answer.text().contains("cannot start another"));
    let host = format!("Host: {}", proxy.ready.admin.unwrap());
    let fields = [&*host, "Sec-Fetch-Site: cross-site"];
    let mut client = Client::connect(proxy.ready.admin.unwrap());
    let page = client.ask("POST", "/upgrade", &fields).read("POST");
    assert_eq!(page.status, 403, "no web page may do that");
    assert_eq!(proxy.admin("GET", "/upgrade").status, 405);
}
