//! Very many purges, and unsafe requests to what was never stored: what they may cost, and what they must leave.

use std::net::SocketAddr;

use crate::harness::{Client, Disk, FRESH, Origin, Proxy, ok, plan_for, running::with_admin};

const OBJECTS: usize = 12;

/// Objects on disk only. Their tags are `kept` and, of the first, `named`.
fn origin() -> Origin {
    Origin::start(|exchange| {
        let nth = exchange.nth();
        let tag = match exchange.path() {
            "/0" => "Cache-Tag: kept,named",
            _ => "Cache-Tag: kept",
        };
        exchange.send(ok(&[FRESH, tag], format!("{nth}")));
    })
}

fn start(origin: &Origin, disk: &Disk) -> Proxy {
    let mut plan = disk.under(plan_for(origin));
    plan.memory_bytes = 0;
    Proxy::start(with_admin(plan))
}

/// A connection to the admin interface.
struct House(Client, SocketAddr);

impl House {
    fn of(proxy: &Proxy) -> House {
        let admin = proxy.ready.admin.unwrap();
        House(Client::connect(admin), admin)
    }

    /// The status; 503 says why.
    fn purge(&mut self, query: &str) -> u16 {
        let host = format!("Host: {}", self.1);
        let target = format!("/cache?{query}");
        let answer = self.0.ask("DELETE", &target, &[&host]).read("DELETE");
        let text = answer.text();
        match answer.status {
            200 => assert!(text.contains("\"durable\": true"), "{text}"),
            503 => assert!(
                text.contains("\"durable\": false") && text.contains("reason"),
                "{text}"
            ),
            status => panic!("{status}: {text}"),
        }
        answer.status
    }

    /// A figure of the store.
    fn figure(&mut self, name: &str) -> u64 {
        let host = format!("Host: {}", self.1);
        let answer = self.0.ask("GET", "/metrics", &[&host]).read("GET");
        let name = format!("loligo_store_{name}{{");
        let line = answer.text().lines().find(|line| line.starts_with(&name));
        let line = line.unwrap_or_else(|| panic!("no line begins with {name}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }
}

#[track_caller]
fn all_hits(proxy: &Proxy, but: &[usize]) {
    let mut client = proxy.client();
    for n in (0..OBJECTS).filter(|n| !but.contains(n)) {
        assert!(client.get(&format!("/{n}")).is_hit(), "/{n}");
    }
}

#[test]
fn soft_purges_of_many_urls_leave_all_others() {
    let (origin, disk) = (origin(), Disk::of_mib(16));
    let proxy = start(&origin, &disk);
    (0..OBJECTS).for_each(|n| drop(proxy.get(&format!("/{n}"))));
    let mut house = House::of(&proxy);
    for n in 0..1100 {
        let url = format!("soft=1&url=http://test.example/never/{n}");
        assert_eq!(house.purge(&url), 200);
    }
    assert_eq!(house.purge("soft=1&url=http://test.example/0"), 200);
    assert_eq!(house.figure("predicates"), 0);
    all_hits(&proxy, &[0]);
    proxy.stop();
    let proxy = start(&origin, &disk);
    all_hits(&proxy, &[0]);
    assert!(!proxy.get("/0").is_hit(), "it is stale");
    assert!(proxy.get("/0").is_hit(), "and now new");
}

#[test]
fn many_tags_leave_what_has_none_of_them() {
    let (origin, disk) = (origin(), Disk::of_mib(16));
    let proxy = start(&origin, &disk);
    (0..OBJECTS).for_each(|n| drop(proxy.get(&format!("/{n}"))));
    let mut house = House::of(&proxy);
    assert_eq!(house.purge("tag=Named"), 200);
    let mut refused = 0;
    for n in 0..3000 {
        // Refused while there is no room; nothing is forgotten for it.
        while house.purge(&format!("tag=purge-{n}")) == 503 {
            refused += 1;
            assert!(refused < 1000, "no room is made");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
    assert!(house.figure("weedings_total") > 0);
    all_hits(&proxy, &[0]);
    proxy.stop();
    let proxy = start(&origin, &disk);
    all_hits(&proxy, &[0]);
    assert!(!proxy.get("/0").is_hit(), "it has a tag that was purged");
}

#[test]
fn unsafe_requests_to_what_was_never_stored_cost_no_commit() {
    let (origin, disk) = (origin(), Disk::of_mib(16));
    for _ in 0..2 {
        let proxy = start(&origin, &disk);
        (0..OBJECTS).for_each(|n| drop(proxy.get(&format!("/{n}"))));
        let mut house = House::of(&proxy);
        let before = house.figure("log_commits_total");
        let mut client = proxy.client();
        for n in 0..100 {
            let method = ["POST", "PUT", "DELETE", "PATCH"][n % 4];
            let target = format!("/api/{n}");
            let answer = client
                .ask(method, &target, &["Content-Length: 0"])
                .read(method);
            assert_eq!(answer.status, 200);
        }
        assert_eq!(house.figure("log_commits_total"), before);
        // What is stored is made untrue, durably.
        let answer = client
            .ask("POST", "/1", &["Content-Length: 0"])
            .read("POST");
        assert_eq!(answer.status, 200);
        assert!(house.figure("log_commits_total") > before);
        assert!(!client.get("/1").is_hit());
        proxy.stop();
    }
}

/// RFC 9110 section 9.2.2: what is idempotent can be sent again. (What else goes out on which connection: `origins`.)
#[test]
fn idempotent_requests_without_a_body_share_connections() {
    let (origin, disk) = (origin(), Disk::of_mib(16));
    let proxy = start(&origin, &disk);
    let mut client = proxy.client();
    drop(client.get("/0"));
    let before = proxy.counter("origin_connections");
    for n in 0..20 {
        let method = ["PUT", "DELETE"][n % 2];
        let target = format!("/api/{n}");
        let answer = client
            .ask(method, &target, &["Content-Length: 0"])
            .read(method);
        assert_eq!(answer.status, 200);
    }
    assert_eq!(proxy.counter("origin_connections"), before);
}
