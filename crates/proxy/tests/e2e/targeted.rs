//! Targeted fields (RFC 9213) end to end.

use ::proxy::plan::{Admin, Heeds, Listener, Plan};

use crate::harness::*;

#[test]
fn a_targeted_field_decides_and_is_passed_on() {
    let cases: [(&[&str], bool); 6] = [
        (
            &["Cache-Control: no-store", "CDN-Cache-Control: max-age=60"],
            true,
        ),
        (
            &["Cache-Control: max-age=60", "CDN-Cache-Control: no-store"],
            false,
        ),
        (
            &[
                "CDN-Cache-Control: no-store",
                "Loligo-Cache-Control: max-age=60",
            ],
            true,
        ),
        (
            &[
                "CDN-Cache-Control: max-age=60",
                "Loligo-Cache-Control: private",
            ],
            false,
        ),
        (
            &[
                "Cache-Control: no-store",
                "CDN-Cache-Control: max-age=60, &",
            ],
            false,
        ),
        (&["Cache-Control: max-age=60", "CDN-Cache-Control:"], true),
    ];
    for (fields, stored) in cases {
        let origin = Origin::start(move |exchange| exchange.send(ok(fields, "hello")));
        let disk = Disk::of_mib(4);
        let proxy = Proxy::start(disk.under(plan_for(&origin)));
        for hit in [false, stored] {
            let answer = proxy.get("/a");
            assert_eq!(answer.is_hit(), hit, "{fields:?}: {}", answer.cache());
            for field in fields {
                let (name, value) = field.split_once(':').unwrap();
                assert_eq!(answer.field(name), Some(value.trim()), "{fields:?}");
            }
        }
        proxy.stop();
        let proxy = Proxy::start(disk.under(plan_for(&origin)));
        assert_eq!(proxy.get("/a").is_hit(), stored, "{fields:?}");
    }
}

#[test]
fn it_still_decides_after_a_304() {
    let origin = Origin::start(|exchange| match exchange.field("if-none-match") {
        Some(_) => exchange.send(head("304 Not Modified", &["ETag: \"1\""])),
        None => exchange.send(ok(
            &[
                "ETag: \"1\"",
                "Cache-Control: no-store",
                "Loligo-Cache-Control: max-age=60",
                "Age: 100",
            ],
            "hello",
        )),
    });
    let proxy = Proxy::before(&origin);
    proxy.get("/a");
    assert!(proxy.get("/a").cache().contains("fwd-status=304"));
    assert!(proxy.get("/a").is_hit());
}

/// Two reverse listeners in front of one origin: the first obeys targeted fields, the second does not. Their keys are the same.
fn of_two_minds(origin: &Origin) -> Plan {
    let mut plan = plan_for(origin);
    let heeds = Heeds {
        targeted: false,
        ..plan.listeners[0].heeds
    };
    plan.listeners.push(Listener {
        heeds,
        ..plan.listeners[0].clone()
    });
    plan
}

#[test]
fn what_one_listener_stored_by_other_fields_is_not_there_for_another() {
    let private: &[&str] = &["Cache-Control: private", "CDN-Cache-Control: max-age=60"];
    let public: &[&str] = &["Cache-Control: max-age=60", "CDN-Cache-Control: no-store"];
    for memory_bytes in [64 << 20, 0] {
        let origin = Origin::start(move |exchange| {
            let fields = if exchange.request.target == "/private" {
                private
            } else {
                public
            };
            exchange.send(ok(fields, "hello"));
        });
        let disk = Disk::of_mib(4);
        let plan = Plan {
            memory_bytes,
            ..disk.under(of_two_minds(&origin))
        };
        let mut proxy = Proxy::start(plan.clone());
        let hit = |proxy: &Proxy, listener: usize, target: &str| {
            let mut client = Client::connect(proxy.ready.listeners[listener]);
            client.get(target).is_hit()
        };
        for (own, other, target) in [(0, 1, "/private"), (1, 0, "/public")] {
            assert!(!hit(&proxy, own, target));
            // The fast way first, then what is found there has not changed.
            assert!(hit(&proxy, own, target), "{target}");
            assert!(!hit(&proxy, other, target), "{target}");
            assert!(!hit(&proxy, other, target), "{target}");
            assert!(hit(&proxy, own, target), "{target}");
        }
        proxy.stop();
        // The listeners change places.
        let mut changed = plan.clone();
        changed.listeners.swap(0, 1);
        proxy = Proxy::start(changed);
        assert!(!hit(&proxy, 0, "/private") && hit(&proxy, 1, "/private"));
        assert!(!hit(&proxy, 1, "/public") && hit(&proxy, 0, "/public"));
    }
}

#[test]
fn nobody_shares_what_is_stored_by_other_fields() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        held.pass();
        exchange.send(ok(
            &["Cache-Control: private", "CDN-Cache-Control: max-age=60"],
            "hello",
        ));
    });
    let mut plan = of_two_minds(&origin);
    plan.admin = Some(Admin {
        address: running::local(),
        allow: Vec::new(),
    });
    let proxy = Proxy::start(plan);
    let mut first = Client::connect(proxy.ready.listeners[0]);
    let mut second = Client::connect(proxy.ready.listeners[1]);
    first.ask("GET", "/a", &[]);
    gate.arrived(1);
    second.ask("GET", "/a", &[]);
    eventually("it has joined", || {
        (proxy.counter("flights_joined") == 1).then_some(())
    });
    gate.open();
    assert_eq!(first.read("GET").text(), "hello");
    let answer = second.read("GET");
    assert!(
        answer.cache().contains("collapsed=?0"),
        "{}",
        answer.cache()
    );
    assert_eq!(origin.requests().len(), 2);
}
