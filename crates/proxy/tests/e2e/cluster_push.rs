//! What a front fetches goes to a member that keeps it: as the member would have stored it, unless it was purged meanwhile, and
//! whatever becomes of the member.

use std::{net::SocketAddr, time::Duration};

use ::proxy::{Clock, plan::Plan};

use crate::harness::{
    cable::Cable,
    cluster::{self, addresses, await_hint, await_quiet, cluster, member},
    *,
};

/// The Host of the harness's requests.
const SITE: &str = "http://test.example";

/// An origin whose bodies tell their path; `/NUMBER` has so many bytes; with `?chunked` the head tells no length.
fn origin() -> Origin {
    Origin::start(|exchange| {
        let body = body_of(exchange.path());
        exchange.send(match exchange.path().ends_with("?chunked") {
            true => {
                let head = head("200 OK", &[FRESH, "Transfer-Encoding: chunked"]);
                [head, chunk(&body), b"0\r\n\r\n".to_vec()].concat()
            }
            false => ok(&[FRESH, "ETag: \"1\""], body),
        });
    })
}

fn body_of(path: &str) -> Vec<u8> {
    let digits = path.trim_start_matches('/').split('?').next().unwrap();
    match digits.parse() {
        Ok(bytes) => pattern(bytes),
        Err(_) => path.as_bytes().to_vec(),
    }
}

/// The plan as that of a front that pushes.
fn front(plan: Plan, number: usize, all: &[SocketAddr]) -> Plan {
    let mut plan = cluster::front(plan, number, all);
    cluster(&mut plan).push_max_bytes = 1 << 20;
    plan
}

/// A member with a store, and a front without one.
struct Pair {
    origin: Origin,
    node: Proxy,
    front: Proxy,
    /// Pushes stored before the test began.
    stored_before: u64,
    _disk: Disk,
}

fn pair_at(origin: Origin, clock: Clock, set: impl FnOnce(&mut Plan)) -> Pair {
    let all = addresses(2);
    let disk = Disk::of_mib(64);
    let plan = disk.under(member(plan_for(&origin), 0, &all));
    let node = Proxy::start_at(plan, clock.clone());
    let mut plan = front(plan_for(&origin), 1, &all);
    set(&mut plan);
    let front = Proxy::start_at(plan, clock);
    let stored_before = await_pushing(&front, &[&node]);
    Pair {
        origin,
        node,
        front,
        stored_before,
        _disk: disk,
    }
}

impl Pair {
    /// Until so many pushes have been stored since the test began, no more and no less.
    #[track_caller]
    fn await_stored(&self, count: u64) {
        await_stored(&self.front, self.stored_before + count);
        assert_eq!(self.stored_by_node(), count, "{}", pushes(&self.node));
    }

    /// Pushes that the member has stored since the test began.
    fn stored_by_node(&self) -> u64 {
        self.node.counter("cluster_pushed_stored") - self.stored_before
    }
}

fn pair_of(origin: Origin) -> Pair {
    pair_at(origin, Clock::default(), |_| {})
}

/// What members and the front have said of the answer.
fn said(answer: &Response) -> String {
    answer.fields.all("cache-status").join(", ")
}

/// Until each of these members has stored a push of this front, and no more are on their way: before that, purges may be missing in
/// what is fetched, and it is not taken. How many have been stored.
fn await_pushing(front: &Proxy, nodes: &[&Proxy]) -> u64 {
    let stored = |node: &&Proxy| node.counter("cluster_pushed_stored");
    let before: Vec<_> = nodes.iter().map(stored).collect();
    let mut fetched = 0;
    eventually("each member stores what this front pushes", || {
        fetched += 1;
        front.get(&format!("/before-the-test/{fetched}"));
        let mut each = nodes.iter().zip(&before);
        each.all(|(node, before)| stored(node) > *before)
            .then_some(())
    });
    await_quiet(front);
    front.counter("cluster_pushes_stored")
}

/// What a proxy has counted of pushes.
fn pushes(proxy: &Proxy) -> String {
    let metrics = proxy.admin("GET", "/metrics");
    let lines = metrics.text().lines();
    let lines: Vec<_> = lines
        .filter(|line| line.starts_with("loligo_cluster_push") && !line.ends_with(" 0"))
        .collect();
    lines.join("\n")
}

/// Until all pushes have ended, and so many were stored since the start.
#[track_caller]
fn await_stored(front: &Proxy, count: u64) {
    eventually("a push has been stored", || {
        (front.counter("cluster_pushes_stored") >= count).then_some(())
    });
    await_quiet(front);
    let is = front.counter("cluster_pushes_stored");
    assert_eq!(is, count, "{}", pushes(front));
}

#[test]
fn what_a_front_fetched_is_a_hit_at_the_member() {
    let pair = pair_of(origin());
    let paths = ["/0", "/10", "/70000", "/1000000", "/words"];
    for (path, n) in paths.into_iter().zip(1..) {
        let answer = pair.front.get(path);
        assert_same(&answer.body, &body_of(path));
        pair.await_stored(n);
        let hit = pair.node.get(path);
        assert!(hit.is_hit(), "{path}: {}", hit.cache());
        assert_same(&hit.body, &body_of(path));
        let by_front = pair.front.get(path);
        assert!(
            said(&by_front).starts_with("loligo; hit"),
            "{}",
            said(&by_front)
        );
        assert_same(&by_front.body, &body_of(path));
        assert_eq!(pair.origin.count(path), 1, "{path}");
    }
}

#[test]
fn a_hint_is_there_as_soon_as_the_push_begins() {
    let pair = pair_at(origin(), Clock::default(), |plan| {
        cluster(plan).update_period = Duration::from_secs(3600);
    });
    pair.front.get("/eager");
    await_hint(&pair.front, &format!("{SITE}/eager"), "n1");
}

#[test]
fn pushes_share_a_connection() {
    let pair = pair_of(origin());
    let before = pair.node.counter("client_connections");
    for n in 1..=10 {
        pair.front.get(&format!("/one-after-another/{n}"));
        pair.await_stored(n);
    }
    assert_eq!(pair.node.counter("client_connections"), before);
}

/// All fields but the one that names the proxy.
fn but_via(response: &Response) -> Vec<&(String, String)> {
    let fields = response.fields.0.iter();
    fields.filter(|(name, _)| name != "Via").collect()
}

#[test]
fn a_member_stores_what_it_would_have_stored_of_the_same_fetch() {
    let script = |exchange: &mut Exchange| {
        let fields: &[&str] = match exchange.path() {
            "/aged" => &[
                "Cache-Control: max-age=600, stale-while-revalidate=7",
                "Age: 55",
            ],
            "/dated" => &[
                "Date: Tue, 14 Nov 2023 22:13:00 GMT",
                "Expires: Tue, 14 Nov 2023 22:33:20 GMT",
                "X: 1",
            ],
            "/guessed" => &[
                "Last-Modified: Tue, 07 Nov 2023 22:13:00 GMT",
                "Content-Type: text/css",
            ],
            "/cookie" => &[
                "Cache-Control: public, max-age=60",
                "Set-Cookie: a=b",
                "X: 1",
            ],
            "/hop" => &[FRESH, "Connection: Y", "Y: 1", "X: 2", "ETag: \"e\""],
            _ => &["Cache-Control: s-maxage=30"],
        };
        let body = exchange.path().to_owned();
        exchange.send(match exchange.path() {
            "/missing" => answer("404 Not Found", fields, body),
            "/moved" => answer("301 Moved Permanently", fields, body),
            "/chunked" => [
                head(
                    "200 OK",
                    &[fields, &["Transfer-Encoding: chunked"]].concat(),
                ),
                chunk(&body),
                chunk("more"),
                b"0\r\n\r\n".to_vec(),
            ]
            .concat(),
            _ => ok(fields, body),
        });
    };
    let start = || Clock::held_at(1_700_000_000_000);
    let clock = start();
    let pair = pair_at(Origin::start(script), clock.clone(), |_| {});
    let alone_clock = start();
    let disk = Disk::of_mib(64);
    let alone = Proxy::start_at(disk.under(plan_for(&pair.origin)), alone_clock.clone());
    let paths = [
        "/aged", "/dated", "/guessed", "/cookie", "/hop", "/missing", "/moved", "/chunked",
        "/plain",
    ];
    for (path, n) in paths.into_iter().zip(1..) {
        pair.front.get(path);
        pair.await_stored(n);
        alone.get(path);
    }
    clock.advance(Duration::from_secs(17));
    alone_clock.advance(Duration::from_secs(17));
    for path in paths {
        let (pushed, fetched) = (pair.node.get(path), alone.get(path));
        assert!(pushed.is_hit() && fetched.is_hit(), "{path}");
        assert_eq!(pushed.status, fetched.status, "{path}");
        assert_eq!(but_via(&pushed), but_via(&fetched), "{path}");
        assert_eq!(pushed.field("set-cookie"), None);
        assert_eq!(pushed.body, fetched.body, "{path}");
    }
}

#[test]
fn variants_are_pushed_and_found_by_the_fields_that_select_them() {
    let gate = Gate::new();
    let passed = gate.clone();
    let pair = pair_of(Origin::start(move |exchange| {
        let language = exchange
            .field("accept-language")
            .unwrap_or("none")
            .to_owned();
        let fields = [FRESH, "Vary: Accept-Language", "Content-Length: 2"];
        exchange.send(head("200 OK", &fields));
        if language == "en" {
            passed.pass();
        }
        exchange.send(&language[..2]);
    }));
    // Both at once: once one is known, the member is asked for the other, and fetches it itself.
    let mut english = pair.front.client();
    english.ask("GET", "/v", &["Accept-Language: en"]);
    gate.arrived(1);
    pair.front.ask("GET", "/v", &["Accept-Language: fr"]);
    gate.open();
    assert_eq!(english.read("GET").text(), "en");
    pair.await_stored(2);
    for language in ["en", "fr"] {
        let hit = pair
            .node
            .ask("GET", "/v", &[&format!("Accept-Language: {language}")]);
        assert!(hit.is_hit(), "{}", hit.cache());
        assert_eq!(hit.text(), language);
    }
}

#[test]
fn what_is_for_one_client_or_for_nobody_is_never_pushed() {
    let pair = pair_of(Origin::start(|exchange| {
        let fields: &[&str] = match exchange.path() {
            "/private" => &["Cache-Control: private, max-age=60"],
            "/no-store" => &["Cache-Control: no-store"],
            "/cookie" => &[FRESH, "Set-Cookie: a=b"],
            "/authorized" => &["Cache-Control: public, max-age=60"],
            _ => &[FRESH],
        };
        exchange.send(ok(fields, exchange.path()));
    }));
    let pushed_before = pushes(&pair.node);
    pair.front.get("/private");
    pair.front.get("/no-store");
    pair.front.get("/cookie");
    pair.front
        .ask("GET", "/authorized", &["Authorization: Basic YTpi"]);
    pair.front
        .ask("GET", "/asked-not-to", &["Cache-Control: no-store"]);
    pair.front.ask("POST", "/posted", &["Content-Length: 0"]);
    await_quiet(&pair.front);
    assert_eq!(pushes(&pair.node), pushed_before, "not even sent");
    pair.front.get("/public");
    pair.await_stored(1);
    let never = [
        "/private",
        "/no-store",
        "/cookie",
        "/authorized",
        "/asked-not-to",
    ];
    for path in never {
        assert!(!pair.node.get(path).is_hit(), "{path}");
    }
}

#[test]
fn nobody_but_a_member_can_push() {
    let pair = pair_of(origin());
    let pushed = format!(
        "GET {SITE}/forged HTTP/1.1\r\nHost: test.example\r\n\r\nHTTP/1.1 200 OK\r\n{FRESH}\r\n\r\nforged"
    );
    let terms = "Loligo-Push: asked=1;received=1;sent=1;column=0;incarnation=1;began=0;known=0.0";
    let length = format!("Content-Length: {}", pushed.len());
    let before = pushes(&pair.node);
    let mut client = pair.node.client();
    client.ask("POST", "/.loligo/push", &[terms, &length]);
    client.send(&pushed);
    client.read("POST");
    assert_eq!(pushes(&pair.node), before);
    let asked = pair.node.get("/forged");
    assert_eq!((asked.is_hit(), asked.text()), (false, "/forged"));
}

#[test]
fn a_purge_between_fetch_and_push_wins() {
    let gate = Gate::new();
    let passed = gate.clone();
    let pair = pair_of(Origin::start(move |exchange| {
        let is_first = exchange.path() == "/page" && exchange.nth() == 1;
        exchange.send(head("200 OK", &[FRESH, "Content-Length: 4"]));
        exchange.send("ol");
        if is_first {
            passed.pass();
        }
        exchange.send(if is_first { "d." } else { "d!" });
    }));
    let not_stored = || {
        let refused = pair.front.counter("cluster_pushes_refused_invalidated");
        refused + pair.front.counter("cluster_pushes_purged")
    };
    let before = not_stored();
    let mut client = pair.front.client();
    client.ask("GET", "/page", &[]);
    gate.arrived(1);
    let purged = pair
        .node
        .admin("DELETE", &format!("/cache?url={SITE}/page"));
    assert_eq!(purged.status, 200, "{}", purged.text());
    gate.open();
    assert_eq!(client.read("GET").text(), "old.");
    eventually("it is refused, or not even sent", || {
        (not_stored() > before).then_some(())
    });
    pair.await_stored(0);
    let again = pair.node.get("/page");
    assert_eq!((again.is_hit(), again.text()), (false, "old!"));
    // A fetch that begins now is pushed.
    pair.front.get("/other");
    pair.await_stored(1);
}

#[test]
fn what_is_too_long_is_left_to_a_member_the_next_time() {
    let pair = pair_at(origin(), Clock::default(), |plan| {
        cluster(plan).push_max_bytes = 100_000;
    });
    let path = "/300000";
    assert_same(&pair.front.get(path).body, &body_of(path));
    pair.await_stored(0);
    pair.front.await_count("cluster_pushes_too_long", 1);
    for _ in 0..2 {
        assert_same(&pair.front.get(path).body, &body_of(path));
    }
    assert_eq!(pair.origin.count(path), 2);
    assert!(pair.node.get(path).is_hit());
    pair.front.await_count("cluster_pushes_too_long", 1);
}

#[test]
fn what_every_member_finds_too_long_is_not_pushed() {
    let origin = origin();
    let all = addresses(2);
    let disk = Disk::of_mib(64);
    let mut plan = disk.under(member(plan_for(&origin), 0, &all));
    cluster(&mut plan).push_max_bytes = 100_000;
    let node = Proxy::start(plan);
    let front = Proxy::start(front(plan_for(&origin), 1, &all));
    let before = await_pushing(&front, &[&node]);
    // As long as may be, then one byte longer, with and without a length.
    for (path, stored) in [("/100000", 1), ("/100001", 1), ("/100001?chunked", 1)] {
        assert_same(&front.get(path).body, &body_of(path));
        await_stored(&front, before + stored);
    }
    front.await_count("cluster_pushes_too_long", 2);
    assert_eq!(node.counter("cluster_pushed_refused_size"), 0);
    // The next fetch is left to the member.
    front.get("/100001");
    assert!(node.get("/100001").is_hit());
}

#[test]
fn what_one_member_finds_too_long_goes_to_another() {
    let origin = origin();
    let all = addresses(3);
    let disks = [Disk::of_mib(64), Disk::of_mib(64)];
    let node = |number: usize, push_max_bytes: u64| {
        let mut plan = disks[number].under(member(plan_for(&origin), number, &all));
        cluster(&mut plan).push_max_bytes = push_max_bytes;
        Proxy::start(plan)
    };
    let (small, large) = (node(0, 10_000), node(1, 1 << 20));
    let front = Proxy::start(front(plan_for(&origin), 2, &all));
    let before = await_pushing(&front, &[&small, &large]);
    let paths: Vec<_> = (0..10).map(|n| format!("/20000?{n}")).collect();
    for path in &paths {
        front.get(path);
    }
    await_stored(&front, before + 10);
    assert!(paths.iter().all(|path| large.get(path).is_hit()));
    assert_eq!(small.counter("cluster_pushed_refused_size"), 0);
    assert_eq!(front.counter("cluster_pushes_too_long"), 0);
}

#[test]
fn clients_never_wait_for_pushes_and_a_full_queue_drops_the_oldest() {
    let origin = origin();
    let all = addresses(3);
    let disk = Disk::of_mib(64);
    let plan = disk.under(member(plan_for(&origin), 0, &[all[0], all[1]]));
    let node = Proxy::start(plan);
    let cable = Cable::lay(all[2], all[0]);
    let front = Proxy::start(front(plan_for(&origin), 1, &[all[2], all[1]]));
    await_pushing(&front, &[&node]);
    cable.stop();
    // More than the eight megabytes of a small front's queue, faster than a silent member is found out.
    for n in 0..12 {
        let path = format!("/1000000?{n}");
        assert_same(&front.get(&path).body, &body_of(&path));
    }
    eventually("it is counted", || {
        (front.counter("cluster_pushes_dropped_full") >= 3).then_some(())
    });
    cable.mend();
    await_quiet(&front);
    await_pushing(&front, &[&node]);
}

#[test]
fn what_one_member_does_not_take_another_gets() {
    let origin = origin();
    let all = addresses(4);
    let disks = [Disk::of_mib(64), Disk::of_mib(64)];
    // The first is reached by a cable that will carry nothing.
    let of_nodes = [all[0], all[1], all[2]];
    let first = Proxy::start(disks[0].under(member(plan_for(&origin), 0, &of_nodes)));
    let second = Proxy::start(disks[1].under(member(plan_for(&origin), 1, &of_nodes)));
    let cable = Cable::lay(all[3], all[0]);
    let front = Proxy::start(front(plan_for(&origin), 2, &[all[3], all[1], all[2]]));
    let before = await_pushing(&front, &[&first, &second]);
    cable.stop();
    for n in 0..20 {
        let path = format!("/{n}");
        assert_same(&front.get(&path).body, &body_of(&path));
        await_stored(&front, before + n + 1);
    }
    for n in 0..20 {
        assert!(second.get(&format!("/{n}")).is_hit(), "{n}");
    }
}

#[test]
fn two_fronts_and_two_members_are_one_cache() {
    let origin = origin();
    let all = addresses(4);
    let disks = [Disk::of_mib(64), Disk::of_mib(64)];
    let nodes = [0, 1].map(|n| Proxy::start(disks[n].under(member(plan_for(&origin), n, &all))));
    let stored = || {
        let stored = |node: &Proxy| node.counter("cluster_pushed_stored");
        nodes.each_ref().map(stored)
    };
    let fronts = [2, 3].map(|n| Proxy::start(front(plan_for(&origin), n, &all)));
    let before = fronts
        .each_ref()
        .map(|front| await_pushing(front, &[&nodes[0], &nodes[1]]));
    let shares_before = stored();
    let path = |n: usize| format!("/{}", 100 * n);
    for n in 0..30 {
        let path = path(n);
        assert_same(&fronts[n % 2].get(&path).body, &body_of(&path));
    }
    for (front, before) in fronts.iter().zip(before) {
        await_stored(front, before + 15);
    }
    let shares = [0, 1].map(|n| stored()[n] - shares_before[n]);
    assert_eq!(shares.iter().sum::<u64>(), 30);
    assert!(shares.iter().all(|share| *share > 0), "{shares:?}");
    for n in 0..30 {
        let path = path(n);
        for front in &fronts {
            eventually("each front knows", || {
                let route = cluster::route(front, &format!("{SITE}{path}"));
                route.contains("seems to have it").then_some(())
            });
            let answer = front.get(&path);
            assert!(
                said(&answer).starts_with("loligo; hit"),
                "{}",
                said(&answer)
            );
            assert_same(&answer.body, &body_of(&path));
        }
        assert_eq!(origin.count(&path), 1, "{path}");
    }
}

#[test]
fn what_is_hot_is_kept_by_the_front_until_it_is_purged() {
    let origin = origin();
    let all = addresses(3);
    let disks = [Disk::of_mib(64), Disk::of_mib(64)];
    let nodes = [0, 1].map(|n| Proxy::start(disks[n].under(member(plan_for(&origin), n, &all))));
    let mut plan = front(plan_for(&origin), 2, &all);
    plan.memory_bytes = 64 << 20;
    cluster(&mut plan).hot_rate = 10;
    let front = Proxy::start(plan);
    nodes[0].get("/1000");
    await_hint(&front, &format!("{SITE}/1000"), "n1");
    eventually("the front keeps a copy", || {
        let answer = front.get("/1000");
        assert_same(&answer.body, &body_of("/1000"));
        (!said(&answer).contains("detail=hint")).then_some(())
    });
    assert_eq!(origin.count("/1000"), 1);
    let purged = front.admin("DELETE", &format!("/cache?url={SITE}/1000"));
    assert_eq!(purged.status, 200, "{}", purged.text());
    let answer = front.get("/1000");
    assert!(
        !said(&answer).starts_with("loligo; hit; ttl") || said(&answer).contains("detail"),
        "{}",
        said(&answer)
    );
    assert_same(&answer.body, &body_of("/1000"));
}
