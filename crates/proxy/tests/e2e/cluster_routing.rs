//! A front of a cluster: requests go to the member that has what they ask for, and no failure of a member is a client's.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use device::{Device, FaultPlan, Operation};

use ::proxy::plan::{ClusterMiss, ClusterRoute, FalseHit, Plan};

use crate::{
    harness::{
        cable::Cable,
        cluster::{addresses, await_hint, await_route, cluster, front, member, route},
        running::forward_plan,
        *,
    },
    hierarchy::{entries, logging, peers_of},
};

/// The Host of the harness's requests.
const SITE: &str = "http://test.example";

/// Stored, and not served without a word from the origin.
const ALWAYS_VALIDATED: &[&str] = &["Cache-Control: no-cache", "ETag: \"1\""];

/// An origin whose bodies tell their path; `/NUMBER` has so many bytes. It answers one range, from somewhere to somewhere.
fn origin() -> Origin {
    Origin::start(|exchange| {
        let body = body_of(exchange.path());
        let range = exchange.field("range").and_then(|range| {
            let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
            Some((first.parse::<usize>().ok()?, last.parse::<usize>().ok()?))
        });
        let answer = match range {
            Some((first, last)) if last < body.len() => {
                let place = format!("Content-Range: bytes {first}-{last}/{}", body.len());
                let fields = [FRESH, "ETag: \"1\"", &place];
                answer("206 Partial Content", &fields, &body[first..=last])
            }
            _ => ok(&[FRESH, "ETag: \"1\""], body),
        };
        exchange.send(answer);
    })
}

fn body_of(path: &str) -> Vec<u8> {
    let digits = path.trim_start_matches('/').split('?').next().unwrap();
    match digits.parse() {
        Ok(bytes) => pattern(bytes),
        Err(_) => path.as_bytes().to_vec(),
    }
}

/// A node with a store and a front without one, and what the front's routing is set to.
struct Pair {
    origin: Origin,
    node: Proxy,
    front: Proxy,
    _disk: Disk,
}

fn pair_of(origin: Origin, plan: Plan, set: impl FnOnce(&mut Plan)) -> Pair {
    let all = addresses(2);
    let disk = Disk::of_mib(64);
    let node = Proxy::start(disk.under(member(plan.clone(), 0, &all)));
    let mut plan = front(plan, 1, &all);
    set(&mut plan);
    let front = Proxy::start(plan);
    Pair {
        origin,
        node,
        front,
        _disk: disk,
    }
}

fn pair() -> Pair {
    let origin = origin();
    let plan = plan_for(&origin);
    pair_of(origin, plan, |_| {})
}

impl Pair {
    /// The node has it, and the front knows.
    fn placed(&self, path: &str) {
        assert_eq!(self.node.get(path).status, 200);
        await_hint(&self.front, &format!("{SITE}{path}"), "n1");
    }
}

/// What all caches on the way have said, the member's word first.
fn said(answer: &Response) -> String {
    answer.fields.all("cache-status").join(", ")
}

/// An answer that came from a member's cache by a front.
#[track_caller]
fn assert_forwarded(answer: &Response) {
    let status = said(answer);
    let is_so = status.starts_with("loligo; hit") && status.contains("detail=hint");
    assert!(is_so, "{} {status}", answer.status);
}

#[test]
fn hits_go_to_the_member_that_has_it_and_misses_to_no_member() {
    let pair = pair();
    for path in ["/0", "/10", "/70000", "/3000000"] {
        pair.placed(path);
        for _ in 0..2 {
            let answer = pair.front.get(path);
            assert_forwarded(&answer);
            assert_same(&answer.body, &body_of(path));
            assert!(answer.age().is_some());
        }
        assert_eq!(pair.origin.count(path), 1, "{path}");
    }
    let before = pair.node.counter("client_connections");
    for n in 0..20 {
        let path = format!("/nowhere/{n}");
        let answer = pair.front.get(&path);
        assert_eq!(answer.text(), path);
        assert!(
            said(&answer).starts_with("loligo; fwd=uri-miss"),
            "{}",
            said(&answer)
        );
        assert!(!said(&answer).contains("detail=hint"));
        let asked_by = pair.origin.last();
        let via = asked_by.field("via").unwrap();
        assert!(!via.contains(','), "the front has asked: {via}");
    }
    assert_eq!(pair.node.counter("client_connections"), before);
}

#[test]
fn parts_conditions_and_heads_are_answered_by_the_member() {
    let pair = pair();
    let path = "/200000";
    pair.placed(path);
    let whole = body_of(path);
    let part = pair.front.ask("GET", path, &["Range: bytes=100-70099"]);
    assert_eq!(part.status, 206);
    assert_forwarded(&part);
    assert_same(&part.body, &whole[100..70100]);
    let last = pair.front.ask("GET", path, &["Range: bytes=-5"]);
    assert_same(&last.body, &whole[whole.len() - 5..]);
    let unsatisfied = pair.front.ask("GET", path, &["Range: bytes=300000-"]);
    assert_eq!(unsatisfied.status, 416);
    let same = pair.front.ask("GET", path, &["If-None-Match: \"1\""]);
    assert_eq!((same.status, same.body.len()), (304, 0));
    let other = pair.front.ask("GET", path, &["If-None-Match: \"2\""]);
    assert_eq!(other.status, 200);
    assert_same(&other.body, &whole);
    let head = pair.front.ask("HEAD", path, &[]);
    assert_eq!(head.field("content-length"), Some("200000"));
    assert_forwarded(&head);
    // One after the other on a connection of one client.
    let mut client = pair.front.client();
    for fields in [
        &["Range: bytes=0-9"][..],
        &[],
        &["If-None-Match: \"1\""],
        &[],
    ] {
        let answer = client.ask("GET", path, fields).read("GET");
        assert!(matches!(answer.status, 200 | 206 | 304));
    }
    assert_eq!(pair.origin.count(path), 1);
}

#[test]
fn only_what_a_cache_may_answer_is_forwarded() {
    let pair = pair();
    pair.placed("/a");
    for (method, field) in [
        ("GET", "Authorization: Basic YTpi"),
        ("GET", "Cache-Control: no-store"),
        ("POST", "X: y"),
    ] {
        let before = pair.origin.count("/a");
        let answer = pair.front.ask(method, "/a", &[field, "Content-Length: 0"]);
        assert_eq!(answer.status, 200);
        assert!(!said(&answer).contains("detail=hint"), "{method} {field}");
        assert_eq!(pair.origin.count("/a"), before + 1, "{method} {field}");
    }
}

#[test]
fn the_member_chooses_among_variants_and_fetches_the_one_it_lacks() {
    let origin = Origin::start(|exchange| {
        let language = exchange.field("accept-language").unwrap_or("-").to_owned();
        exchange.send(ok(&[FRESH, "Vary: Accept-Language"], language));
    });
    let plan = plan_for(&origin);
    let pair = pair_of(origin, plan, |_| {});
    let ask = |proxy: &Proxy, language: &str| {
        proxy.ask("GET", "/v", &[&format!("Accept-Language: {language}")])
    };
    ask(&pair.node, "de");
    ask(&pair.node, "fr");
    await_hint(&pair.front, &format!("{SITE}/v"), "n1");
    for language in ["de", "fr"] {
        let answer = ask(&pair.front, language);
        assert_eq!(answer.text(), language);
        assert_forwarded(&answer);
    }
    let answer = ask(&pair.front, "it");
    assert_eq!(answer.text(), "it");
    assert!(
        said(&answer).starts_with("loligo; fwd=vary-miss"),
        "{}",
        said(&answer)
    );
    assert_eq!(pair.origin.count("/v"), 3);
    assert_forwarded(&ask(&pair.front, "it"));
}

#[test]
fn what_a_member_lacks_is_returned_where_the_front_wants_to_fetch() {
    let origin = Origin::start(|exchange| {
        let language = exchange.field("accept-language").unwrap_or("-").to_owned();
        exchange.send(ok(&[FRESH, "Vary: Accept-Language"], language));
    });
    let plan = plan_for(&origin);
    let pair = pair_of(origin, plan, |plan| {
        cluster(plan).false_hit = FalseHit::Return
    });
    pair.node.ask("GET", "/v", &["Accept-Language: de"]);
    await_hint(&pair.front, &format!("{SITE}/v"), "n1");
    for (language, via) in [("de", 2), ("it", 1), ("it", 1)] {
        let field = format!("Accept-Language: {language}");
        let answer = pair.front.ask("GET", "/v", &[&field]);
        assert_eq!((answer.status, answer.text()), (200, language));
        let hops = answer.fields.all("via").len();
        assert_eq!(hops, via, "{language}: {}", said(&answer));
    }
    assert_eq!(pair.origin.count("/v"), 3, "the member fetches nothing");
}

#[test]
fn a_forwarded_request_is_the_clients_and_not_the_fronts() {
    let origin = origin();
    let plan = plan_for(&origin);
    let pair = pair_of(origin, plan, |_| {});
    pair.placed("/stale");
    let reload = [
        "Cache-Control: no-cache",
        "X-Forwarded-For: 6.6.6.6",
        "Loligo-From: 6.6.6.6",
    ];
    let answer = pair.front.ask("GET", "/stale", &reload);
    assert_eq!(answer.status, 200);
    assert!(
        said(&answer).starts_with("loligo; fwd=request"),
        "{}",
        said(&answer)
    );
    // The member has asked, for the client, and says nothing of the way between us.
    let asked = pair.origin.last();
    assert_eq!(asked.fields.all("via").len(), 2);
    assert_eq!(asked.field("x-forwarded-for"), Some("127.0.0.1"));
    assert!(
        !asked
            .fields
            .0
            .iter()
            .any(|(name, _)| name.to_ascii_lowercase().starts_with("loligo-"))
    );
}

#[test]
fn a_record_tells_which_member_has_answered() {
    let origin = origin();
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let pair = pair_of(origin, forward_plan(&[]), |plan| {
        *plan = logging(plan.clone(), &log);
    });
    let url = |path: &str| format!("http://{}{path}", pair.origin.address);
    pair.node.get(&url("/500"));
    await_hint(&pair.front, &url("/500"), "n1");
    for path in ["/500", "/elsewhere"] {
        assert_eq!(pair.front.get(&url(path)).status, 200);
    }
    let (direct, front) = (
        format!("HIER_DIRECT/{}", pair.origin.address.ip()),
        pair.front,
    );
    let entries = entries(front, &log);
    assert_eq!(peers_of(&entries), ["FIRSTUP_PARENT/n1", &direct]);
    let flags = |at: usize| entries[at]["flags"].to_string();
    assert!(flags(0).contains("peer_hit") && !flags(1).contains("peer_hit"));
    for stage in ["proxy-connect", "server-reply", "proxy-reply"] {
        assert!(
            entries[0].to_string().contains(stage),
            "{stage}: {}",
            entries[0]
        );
    }
}

#[test]
fn a_member_that_is_gone_costs_no_client_anything() {
    let pair = pair();
    let paths: Vec<String> = (0..30).map(|n| format!("/{}", 10 + n * 3000)).collect();
    for path in &paths {
        pair.placed(path);
    }
    let Pair {
        origin,
        node,
        front,
        ..
    } = pair;
    drop(node);
    for path in &paths {
        let answer = front.get(path);
        assert_eq!(answer.status, 200);
        assert_same(&answer.body, &body_of(path));
    }
    assert!(paths.iter().all(|path| origin.count(path) >= 1));
}

#[test]
fn a_member_whose_disk_hangs_is_not_asked_for_what_it_holds() {
    let origin = origin();
    let all = addresses(2);
    let faults = FaultPlan::new();
    let mut plan = member(plan_for(&origin), 0, &all);
    plan.memory_bytes = 0;
    plan.storing.read_wait = Duration::from_millis(100);
    let node = Proxy::start_on(plan, Device::faulty(64 << 20, faults.clone()));
    let front = Proxy::start(front(plan_for(&origin), 1, &all));
    let url = format!("{SITE}/10");
    node.get("/10");
    await_hit_by_read(&node, "/10");
    await_hint(&front, &url, "n1");
    faults.hold(Operation::Read);
    faults.hold(Operation::Write);
    // It notices by a read that nobody answers.
    assert_same(&node.get("/10").body, &body_of("/10"));
    await_route(&front, &url, "member n1: avoided");
    let asked = node.counter("client_connections");
    for _ in 0..3 {
        let answer = front.get("/10");
        assert_same(&answer.body, &body_of("/10"));
        assert!(!said(&answer).contains("detail=hint"), "{}", said(&answer));
    }
    assert_eq!(node.counter("client_connections"), asked);
    faults.release(Operation::Read);
    faults.release(Operation::Write);
    await_hint(&front, &url, "n1");
    eventually("it is asked again", || {
        said(&front.get("/10"))
            .contains("detail=hint")
            .then_some(())
    });
}

/// A front whose way to a node can be cut.
fn pair_by_cable() -> (Pair, Cable) {
    let origin = origin();
    let plan = plan_for(&origin);
    let all = addresses(3);
    let disk = Disk::of_mib(64);
    let node = Proxy::start(disk.under(member(plan.clone(), 0, &all[..2])));
    let cable = Cable::lay(all[2], all[0]);
    let by_cable = [all[2], all[1]];
    let front = Proxy::start(front(plan, 1, &by_cable));
    let pair = Pair {
        origin,
        node,
        front,
        _disk: disk,
    };
    (pair, cable)
}

#[test]
fn a_member_that_hangs_is_passed_over_and_found_again() {
    let (pair, cable) = pair_by_cable();
    pair.placed("/100");
    cable.stop();
    for _ in 0..4 {
        let answer = pair.front.get("/100");
        assert_eq!(answer.status, 200);
        assert_same(&answer.body, &body_of("/100"));
        assert!(!said(&answer).contains("detail=hint"), "{}", said(&answer));
    }
    cable.mend();
    await_hint(&pair.front, &format!("{SITE}/100"), "n1");
    eventually("hits go there again", || {
        let answer = pair.front.get("/100");
        assert_eq!(answer.status, 200);
        said(&answer).contains("detail=hint").then_some(())
    });
}

#[test]
fn a_body_that_a_member_breaks_off_is_completed() {
    for (bytes, cut_after) in [(50_000, 20_000), (900_000, 300_000), (4_000_000, 1_500_000)] {
        let (pair, cable) = pair_by_cable();
        let path = format!("/{bytes}");
        pair.placed(&path);
        cable.cut_after(cut_after);
        let answer = pair.front.client().ask("GET", &path, &[]).read("GET");
        assert_eq!(answer.status, 200);
        assert_same(&answer.body, &body_of(&path));
    }
}

#[test]
fn a_slow_origin_is_not_taken_for_a_member_that_hangs() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        if exchange.nth() > 1 {
            held.pass();
        }
        exchange.send(ok(ALWAYS_VALIDATED, "slow"));
    });
    let plan = plan_for(&origin);
    let pair = pair_of(origin, plan, |_| {});
    pair.placed("/slow");
    let began = std::time::Instant::now();
    let mut client = pair.front.client();
    client.ask("GET", "/slow", &[]);
    eventually("the member asks", || {
        (pair.origin.count("/slow") == 2).then_some(())
    });
    until_elapsed(began, std::time::Duration::from_millis(1500));
    gate.open();
    let answer = client.read("GET");
    assert_eq!((answer.status, answer.text()), (200, "slow"));
    assert_eq!(pair.origin.count("/slow"), 2, "nobody else has asked");
    assert!(said(&answer).contains("detail=hint"), "{}", said(&answer));
}

#[test]
fn an_origin_that_is_late_for_a_member_is_not_asked_once_more() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        if exchange.nth() > 1 {
            held.pass();
        }
        exchange.send(ok(ALWAYS_VALIDATED, "slow"));
    });
    let plan = plan_for(&origin);
    let pair = pair_of(origin, plan, |front| {
        front.timeouts.origin_first_byte = std::time::Duration::from_secs(1);
    });
    pair.placed("/slow");
    let answer = pair.front.get("/slow");
    let status = said(&answer);
    assert_eq!(answer.status, 504, "{status}");
    assert!(status.contains("connection_read_timeout"), "{status}");
    assert_eq!(pair.origin.count("/slow"), 2, "only the member has asked");
    gate.open();
    // The member has not failed.
    let answer = pair.front.get("/slow");
    let status = said(&answer);
    assert_eq!(answer.status, 200, "{status}");
    assert!(status.contains("detail=hint"), "{status}");
}

#[test]
fn what_a_member_refuses_is_fetched_by_the_front() {
    let origin = origin();
    let all = addresses(2);
    let disk = Disk::of_mib(64);
    let mut plan = member(plan_for(&origin), 0, &all);
    plan.limits.head_bytes_max = 4096;
    let node = Proxy::start(disk.under(plan));
    let front = Proxy::start(front(plan_for(&origin), 1, &all));
    node.get("/10");
    await_hint(&front, &format!("{SITE}/10"), "n1");
    let long = format!("X-Long: {}", "y".repeat(5000));
    assert_eq!(node.ask("GET", "/10", &[&long]).status, 431);
    let answer = front.ask("GET", "/10", &[&long]);
    let status = said(&answer);
    assert_eq!(answer.status, 200, "{status}");
    assert!(!status.contains("detail=hint"), "{status}");
    assert_same(&answer.body, &body_of("/10"));
    assert_forwarded(&front.get("/10"));
}

#[test]
fn between_members_every_request_has_a_host() {
    let pair = pair();
    pair.placed("/10");
    let ask = |target: &str| {
        let request = format!("GET {target} HTTP/1.0\r\n\r\n");
        pair.front.client().send(request).read("GET")
    };
    assert_forwarded(&ask(&format!("{SITE}/10")));
    let answer = ask("/10");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_same(&answer.body, &body_of("/10"));
}

#[test]
fn an_origin_that_a_member_cannot_reach_is_asked_by_the_front() {
    // The node's origin is gone; the front's route leads to another one. Only so can they differ.
    let gone = origin();
    let all = addresses(2);
    let disk = Disk::of_mib(64);
    let away = Origin::start(|exchange| exchange.send(ok(ALWAYS_VALIDATED, "away")));
    let node = Proxy::start(disk.under(member(plan_for(&away), 0, &all)));
    let front = Proxy::start(front(plan_for(&gone), 1, &all));
    assert_eq!(node.get("/x").text(), "away");
    await_hint(&front, &format!("{SITE}/x"), "n1");
    drop(away);
    let answer = front.get("/x");
    // What is stale may be served on an error; if not, the front has asked.
    assert_eq!(answer.status, 200);
    assert!(matches!(answer.text(), "/x" | "away"));
}

#[test]
fn many_who_ask_for_a_long_answer_at_once_share_one_transfer() {
    let (pair, cable) = pair_by_cable();
    let path = "/8000000";
    pair.placed(path);
    let before = pair.front.counter("flights_joined");
    cable.stop_after(100_000);
    let mut first = pair.front.client();
    first.ask("GET", path, &[]);
    assert_eq!(first.read_head().status, 200);
    let mut others: Vec<Client> = (0..5).map(|_| pair.front.client()).collect();
    for other in &mut others {
        other.ask("GET", path, &[]);
    }
    eventually("they have joined", || {
        (pair.front.counter("flights_joined") >= before + 5).then_some(())
    });
    cable.mend();
    let expected = body_of(path);
    let readers = others.into_iter().map(|mut other| {
        let expected = expected.clone();
        thread::spawn(move || {
            let answer = other.read("GET");
            assert_eq!(answer.status, 200);
            assert_same(&answer.body, &expected);
        })
    });
    let readers: Vec<_> = readers.collect();
    assert_same(&first.bytes(expected.len()), &expected);
    readers
        .into_iter()
        .for_each(|reader| reader.join().unwrap());
    assert_eq!(pair.origin.count(path), 1);
}

#[test]
fn equals_find_what_any_of_them_has() {
    let origin = origin();
    let all = addresses(3);
    let disks: Vec<Disk> = (0..3).map(|_| Disk::of_mib(64)).collect();
    let start = |number: usize| {
        let plan = front(plan_for(&origin), number, &all);
        Proxy::start(disks[number].under(plan))
    };
    let equals: Vec<Proxy> = (0..3).map(start).collect();
    for (number, owner) in equals.iter().enumerate() {
        let path = format!("/{}", 1000 + number);
        assert_eq!(owner.get(&path).status, 200);
        for other in (0..3).filter(|other| *other != number) {
            await_hint(
                &equals[other],
                &format!("{SITE}{path}"),
                &format!("n{}", number + 1),
            );
            let answer = equals[other].get(&path);
            assert_same(&answer.body, &body_of(&path));
            assert_forwarded(&answer);
        }
        assert_eq!(origin.count(&path), 1);
    }
}

#[test]
fn what_nobody_has_is_fetched_once_by_its_home() {
    let asked = Arc::new(AtomicUsize::new(0));
    let gate = Gate::new();
    let (counted, held) = (Arc::clone(&asked), gate.clone());
    let origin = Origin::start(move |exchange| {
        counted.fetch_add(1, Ordering::SeqCst);
        held.pass();
        let answer = ok(&[FRESH], exchange.path());
        exchange.send(answer);
    });
    let all = addresses(3);
    let disks: Vec<Disk> = (0..3).map(|_| Disk::of_mib(64)).collect();
    let start = |number: usize| {
        let mut plan = front(plan_for(&origin), number, &all);
        cluster(&mut plan).miss = ClusterMiss::Home;
        Proxy::start(disks[number].under(plan))
    };
    let equals: Vec<Proxy> = (0..3).map(start).collect();
    let path = "/home";
    for equal in &equals {
        eventually("all know each other", || {
            let said = route(equal, &format!("{SITE}{path}"));
            (said.matches("does not seem to have it").count() == 2).then_some(())
        });
    }
    let mut clients: Vec<Client> = equals.iter().map(Proxy::client).collect();
    for client in &mut clients {
        client.ask("GET", path, &[]);
    }
    eventually("it is asked for", || {
        (asked.load(Ordering::SeqCst) > 0).then_some(())
    });
    gate.open();
    for client in &mut clients {
        assert_eq!(client.read("GET").text(), path);
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[test]
fn by_hash_each_url_has_one_place() {
    let origin = origin();
    let all = addresses(3);
    let disks: Vec<Disk> = (0..2).map(|_| Disk::of_mib(64)).collect();
    let node =
        |number: usize| Proxy::start(disks[number].under(member(plan_for(&origin), number, &all)));
    let nodes = [node(0), node(1)];
    let mut plan = front(plan_for(&origin), 2, &all);
    cluster(&mut plan).route = ClusterRoute::Hash;
    let front = Proxy::start(plan);
    eventually("both can be asked", || {
        let said = route(&front, &format!("{SITE}/x"));
        (said.contains("n1")
            && said.contains(", then n")
            && said.matches("does not seem").count() == 2)
            .then_some(())
    });
    let paths: Vec<String> = (0..24).map(|n| format!("/{}", 100 + n)).collect();
    for round in 0..2 {
        for path in &paths {
            let answer = front.get(path);
            assert_same(&answer.body, &body_of(path));
            let is_hit = said(&answer).starts_with("loligo; hit");
            assert_eq!(is_hit, round == 1, "{path}: {}", said(&answer));
            assert!(said(&answer).contains("detail=order"));
        }
    }
    assert!(paths.iter().all(|path| origin.count(path) == 1));
    let each = nodes.map(|node| node.counter("stored_objects"));
    assert!(each.iter().all(|&stored| stored > 3), "{each:?}");
}

#[test]
fn a_forward_proxy_forwards_by_the_whole_url() {
    let origin = origin();
    let pair = pair_of(origin, forward_plan(&[]), |_| {});
    let url = format!("http://{}/77?q=1", pair.origin.address);
    pair.node.get(&url);
    await_hint(
        &pair.front,
        &url.replace('?', "%3F").replace('=', "%3D"),
        "n1",
    );
    let answer = pair.front.get(&url);
    assert_forwarded(&answer);
    assert_same(&answer.body, &body_of("/77"));
    assert_eq!(pair.origin.count("/77?q=1"), 1);
}

#[test]
fn what_is_said_of_a_route_is_what_happens() {
    let pair = pair();
    let url = format!("{SITE}/why");
    await_route(&pair.front, &url, "member n1: up; does not seem to have it");
    assert!(route(&pair.front, &url).contains("so this proxy fetches it itself"));
    pair.placed("/why");
    let said = route(&pair.front, &url);
    assert!(
        said.contains("so n1 is asked (by hints), then this proxy fetches it itself"),
        "{said}"
    );
    let stored = format!("is stored as {}://test.example/why", way::scheme());
    assert!(said.contains(&stored), "{said}");
    assert!(route(&pair.node, &url).contains("this proxy is no front"));
    assert!(route(&pair.front, "ftp://a/").contains("no listener takes this URL"));
}
