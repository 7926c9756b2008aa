//! Purges by prefix and tag, hard and soft: what they take and what they leave, in memory and on disk, over a crash, and
//! against fetches under way. (Purges of one URL are in `cache` and `sharing`.)

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use proxy::plan::{Plan, StorePlan};

use super::harness::{
    Child, Client, Disk, FRESH, Gate, Origin, Proxy, Response, answer, eventually, ok, plan_for,
    running::{own_host_plan, with_admin},
};

/// Asks the admin interface, and expects it to have been done for good.
#[track_caller]
fn purge(admin: SocketAddr, query: &str) -> String {
    let host = format!("Host: {admin}");
    let target = format!("/cache?{query}");
    let answer = Client::connect(admin)
        .ask("DELETE", &target, &[&host])
        .read("DELETE");
    assert_eq!(answer.status, 200, "{query}: {}", answer.text());
    assert!(answer.text().contains("\"durable\": true"));
    answer.text().to_owned()
}

/// One without disk, one without memory, one with three stores.
fn everywhere(origin: &Origin, mut play: impl FnMut(&str, Plan)) {
    let plan = || with_admin(own_host_plan(origin));
    play("memory", plan());
    let disk = Disk::of_mib(8);
    let store = |name: &str| StorePlan::at(disk.path().with_file_name(name), Some(8 << 20));
    let mut one = plan();
    (one.stores, one.memory_bytes) = (vec![store("one")], 0);
    play("disk", one);
    let mut three = plan();
    three.stores = ["two", "three", "four"].map(store).to_vec();
    play("three disks", three);
}

/// An origin that counts: each answer to a path says its number. Tags are what the query says.
fn counting() -> Origin {
    Origin::start(|exchange| {
        let nth = exchange.nth();
        let mut fields = vec![FRESH.to_owned()];
        if let Some((_, tags)) = exchange.path().split_once('?') {
            fields.push(tags.replace('=', ": ").replace('+', " "));
        }
        if exchange.path().starts_with("/vary") {
            fields.push("Vary: Accept".into());
        }
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        exchange.send(ok(&fields, format!("{nth}")));
    })
}

const PATHS: &[&str] = &[
    "/a/1",
    "/a/2?Cache-Tag=red,blue",
    "/ab",
    "/b?Surrogate-Key=blue+green",
    "/c?Cache-Tag=blueish",
    "/vary/1?Surrogate-Key=red",
];

/// Which of them have been fetched anew, by their numbers.
#[track_caller]
fn fetched(proxy: &Proxy) -> Vec<usize> {
    let mut client = proxy.client();
    let number = |path: &&str| client.get(path).text().parse().unwrap();
    PATHS.iter().map(number).collect()
}

#[test]
fn a_prefix_or_tag_takes_what_it_names_and_nothing_else() {
    let origin = counting();
    everywhere(&origin, |name, plan| {
        let proxy = Proxy::start(plan);
        let admin = proxy.ready.admin.unwrap();
        let before = fetched(&proxy);
        assert_eq!(fetched(&proxy), before, "{name}: stored");
        let mut expected = before;
        for (query, gone) in [
            // The client's name, and the origin's.
            ("prefix=http://test.example/a/".to_owned(), &[0, 1][..]),
            (format!("prefix=http://{}/a", origin.address), &[0, 1, 2]),
            ("tag=blue".to_owned(), &[1, 3]),
            ("tag=RED".to_owned(), &[1, 5]),
            ("tag=nobody".to_owned(), &[]),
            ("soft=1&tag=blue".to_owned(), &[1, 3]),
            ("soft=1&prefix=http://test.example/vary/".to_owned(), &[5]),
            ("soft=1&url=http://test.example/a/1".to_owned(), &[0]),
            (
                "prefix=HTTP://test.example:80".to_owned(),
                &[0, 1, 2, 3, 4, 5],
            ),
        ] {
            purge(admin, &query);
            for &at in gone {
                expected[at] += 1;
            }
            for _ in 0..2 {
                assert_eq!(fetched(&proxy), expected, "{name}: {query}");
            }
        }
    });
}

#[test]
fn all_variants_go_together() {
    let origin = counting();
    everywhere(&origin, |name, plan| {
        let proxy = Proxy::start(plan);
        let admin = proxy.ready.admin.unwrap();
        let url = "/vary?Surrogate-Key=v";
        let both = || {
            let mut client = proxy.client();
            ["Accept: a", "Accept: b"].map(|accept| {
                let answer = client.ask("GET", url, &[accept]).read("GET");
                (answer.text().parse::<usize>().unwrap(), answer.is_hit())
            })
        };
        for query in [
            "tag=v",
            "prefix=http://test.example/va",
            "soft=1&tag=v",
            "soft=1&url=http://test.example/vary%3FSurrogate-Key%3Dv",
            "soft=1&prefix=http://test.example/v",
        ] {
            both();
            assert!(both().iter().all(|(_, hit)| *hit), "{name}");
            purge(admin, query);
            assert!(both().iter().all(|(_, hit)| !hit), "{name}: {query}");
        }
    });
}

/// Waits until the device has these bytes.
#[track_caller]
fn await_written(store: &Path, bytes: &[u8]) {
    eventually("it is on disk", || {
        memchr::memmem::find(&fs::read(store).unwrap(), bytes).map(drop)
    });
}

#[test]
fn it_holds_after_kill_9() {
    let origin = Origin::start(|exchange| {
        let nth = exchange.nth();
        if exchange.field("if-none-match").is_some() {
            return exchange.send(answer("304 Not Modified", &[FRESH, "ETag: \"1\""], ""));
        }
        let fields = [FRESH, "ETag: \"1\"", "Surrogate-Key: t u"];
        exchange.send(ok(&fields, format!("version {nth}")));
    });
    let disk = Disk::of_mib(16);
    for (n, (query, soft)) in [
        ("prefix=http://test.example/an-object-0", false),
        ("tag=t", false),
        ("soft=1&prefix=http://test.example/an-object-2", true),
        ("soft=1&tag=u", true),
        ("soft=1&url=http://test.example/an-object-4", true),
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/an-object-{n}");
        let untouched = format!("/untouched-{n}");
        let child = Child::start(&origin, &disk.path(), 16);
        assert_eq!(child.get(&path).text(), "version 1");
        await_written(&disk.path(), path.as_bytes());
        purge(child.admin, query);
        // Stored after the purge, so not meant by it.
        child.get(&untouched);
        await_written(&disk.path(), untouched.as_bytes());
        child.kill();
        let proxy = Proxy::start(disk.under(plan_for(&origin)));
        eventually("it is found", || {
            let only = ["Cache-Control: only-if-cached"];
            proxy.ask("GET", &untouched, &only).is_hit().then_some(())
        });
        let only = ["Cache-Control: only-if-cached"];
        assert_eq!(proxy.ask("GET", &path, &only).status, 504, "{query}");
        let again = proxy.get(&path);
        assert!(!again.is_hit(), "{query}");
        let expected = if soft { "version 1" } else { "version 2" };
        assert_eq!(again.text(), expected, "{query}");
        assert!(
            proxy.get(&path).is_hit(),
            "{query}: validated, so good again"
        );
        proxy.stop();
        let proxy = Proxy::start(disk.under(plan_for(&origin)));
        assert_eq!(proxy.get(&path).text(), expected);
        proxy.stop();
    }
}

#[test]
fn what_was_fetched_before_it_is_not_found_behind_it() {
    for query in [
        "prefix=http://test.example/a",
        "tag=t",
        "soft=1&prefix=http://test.example/",
        "soft=1&tag=t",
        "soft=1&url=http://test.example/a",
    ] {
        for (before_head, on_disk) in [(true, true), (false, true), (false, false)] {
            let gate = Gate::new();
            let held = gate.clone();
            let written = Arc::new(AtomicBool::new(false));
            let is_new = Arc::clone(&written);
            let origin = Origin::start(move |exchange| {
                let body = if is_new.load(SeqCst) { "new" } else { "old" };
                let answer = ok(&[FRESH, "Cache-Tag: t"], body);
                if body == "old" && before_head {
                    held.pass();
                }
                let (first, second) = answer.split_at(answer.len() - 1);
                exchange.send(first);
                if body == "old" && !before_head {
                    held.pass();
                }
                exchange.send(second);
            });
            let disk = Disk::of_mib(16);
            let plan = with_admin(plan_for(&origin));
            let plan = if on_disk { disk.under(plan) } else { plan };
            let proxy = Proxy::start(plan.clone());
            let mut early = proxy.client();
            early.ask("GET", "/a", &[]);
            gate.arrived(1);
            written.store(true, SeqCst);
            purge(proxy.ready.admin.unwrap(), query);
            // Who comes now neither joins the old fetch nor waits for it.
            assert_eq!(proxy.get("/a").text(), "new", "{query}");
            gate.open();
            assert_eq!(early.read("GET").text(), "old", "asked before the purge");
            for _ in 0..2 {
                let answer = proxy.get("/a");
                assert_eq!((answer.text(), answer.is_hit()), ("new", true), "{query}");
            }
            proxy.stop();
            let proxy = Proxy::start(plan);
            assert_eq!(proxy.get("/a").text(), "new");
        }
    }
}

#[test]
fn a_fetch_that_ends_after_it_is_not_kept() {
    // Nobody asks between the purge and the end of the old fetch.
    for query in ["tag=t", "soft=1&tag=t", "soft=1&url=http://test.example/a"] {
        for on_disk in [true, false] {
            let gate = Gate::new();
            let held = gate.clone();
            let origin = Origin::start(move |exchange| {
                let nth = exchange.nth();
                let answer = ok(&[FRESH, "Cache-Tag: t"], format!("{nth}"));
                if nth == 1 {
                    held.pass();
                }
                exchange.send(answer);
            });
            let disk = Disk::of_mib(16);
            let plan = with_admin(plan_for(&origin));
            let plan = if on_disk { disk.under(plan) } else { plan };
            let proxy = Proxy::start(plan);
            let mut early = proxy.client();
            early.ask("GET", "/a", &[]);
            gate.arrived(1);
            purge(proxy.ready.admin.unwrap(), query);
            gate.open();
            assert_eq!(early.read("GET").text(), "1");
            assert_eq!(proxy.get("/a").text(), "2", "{query}");
            assert_eq!(proxy.get("/a").text(), "2", "{query}");
        }
    }
}

/// What a stale one may be used for: max-age is long, so that nothing but the purge makes it stale.
#[test]
fn a_soft_purge_obeys_the_rules_for_stale_responses() {
    let failing = Arc::new(AtomicBool::new(false));
    let fails = Arc::clone(&failing);
    let origin = Origin::start(move |exchange| {
        if fails.load(SeqCst) {
            return exchange.send(answer("503 Service Unavailable", &[], "down"));
        }
        let control = match exchange.path() {
            "/behind" => "max-age=600, stale-while-revalidate=500",
            "/error" => "max-age=600, stale-if-error=500",
            _ => "max-age=600, must-revalidate",
        };
        let control = format!("Cache-Control: {control}");
        let nth = exchange.nth();
        exchange.send(ok(&[&control, "Surrogate-Key: s"], format!("{nth}")));
    });
    everywhere(&origin, |name, plan| {
        failing.store(false, SeqCst);
        let proxy = Proxy::start(plan);
        let paths = ["/behind", "/error", "/must"];
        let before = paths.map(|path| proxy.get(path).text().to_owned());
        purge(proxy.ready.admin.unwrap(), "soft=1&tag=s");

        let stale = proxy.get("/behind");
        assert_eq!(
            (stale.text(), stale.is_hit()),
            (&*before[0], true),
            "{name}"
        );
        eventually("it is renewed behind", || {
            (proxy.get("/behind").text() != before[0]).then_some(())
        });

        failing.store(true, SeqCst);
        let get = |path: &str| -> Response { proxy.get(path) };
        assert_eq!(get("/error").text(), before[1], "{name}");
        assert_eq!(get("/must").status, 503, "{name}");
        failing.store(false, SeqCst);
        assert_ne!(get("/error").text(), before[1], "{name}");
        assert_ne!(get("/must").text(), before[2], "{name}");
    });
}

#[test]
fn a_large_object_goes_by_its_prefix_and_its_tag() {
    let body = super::harness::pattern(5 << 20);
    let sent = body.clone();
    // What is validated is served from the fragments that were there before the purge.
    let origin = Origin::start(move |exchange| {
        let fields = [FRESH, "ETag: \"1\"", "Cache-Tag: big"];
        match exchange.field("if-none-match") {
            Some(_) => exchange.send(answer("304 Not Modified", &fields, "")),
            None => exchange.send(ok(&fields, &sent)),
        }
    });
    let disk = Disk::of_mib(64);
    let proxy = Proxy::start(disk.under(with_admin(plan_for(&origin))));
    let admin = proxy.ready.admin.unwrap();
    for (n, query) in [
        "prefix=http://test.example/l",
        "tag=big",
        "soft=1&tag=big",
        "soft=1&prefix=http://test.example/large",
    ]
    .iter()
    .enumerate()
    {
        for _ in 0..2 {
            super::harness::assert_same(&proxy.get("/large").body, &body);
        }
        assert_eq!(origin.count("/large"), n + 1, "{query}");
        purge(admin, query);
    }
    super::harness::assert_same(&proxy.get("/large").body, &body);
    assert_eq!(origin.count("/large"), 5);
    let asked = origin.requests();
    let validated = asked.iter().filter(|r| r.field("if-none-match").is_some());
    assert_eq!(validated.count(), 2);
}

/// Readers, and a writer that purges by tag or prefix. Whoever begins to read after a purge was answered must not see what was
/// before it, wherever it is read from.
#[test]
fn nothing_older_is_read_once_it_is_answered() {
    const WRITES: u64 = 25;
    for (memory_bytes, query) in [
        (0, "tag=t"),
        (64 << 20, "soft=1&tag=t"),
        (0, "soft=1&prefix=http://test.example/"),
        (64 << 20, "prefix=http://test.example/"),
    ] {
        let version = Arc::new(AtomicU64::new(1));
        let current = Arc::clone(&version);
        let origin = Origin::start(move |exchange| {
            let version = current.load(SeqCst).to_string();
            exchange.send(ok(&[FRESH, "Surrogate-Key: s t"], version));
        });
        let disk = Disk::of_mib(16);
        let mut plan = disk.under(with_admin(plan_for(&origin)));
        plan.memory_bytes = memory_bytes;
        plan.workers = 2;
        plan.storing.cluster_deadline = Duration::from_millis(1);
        let proxy = Proxy::start(plan);
        let (floor, done) = (AtomicU64::new(1), AtomicBool::new(false));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut client = proxy.client();
                    while !done.load(SeqCst) {
                        let least = floor.load(SeqCst);
                        let read: u64 = client.get("/a").text().parse().unwrap();
                        assert!(read >= least, "{query}: {read} after {least}");
                    }
                });
            }
            let admin = proxy.ready.admin.unwrap();
            for _ in 0..WRITES {
                let new = version.fetch_add(1, SeqCst) + 1;
                purge(admin, query);
                floor.store(new, SeqCst);
            }
            done.store(true, SeqCst);
        });
    }
}
