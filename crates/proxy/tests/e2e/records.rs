//! The record of a request: its stages, its flags, whose it is. Each stage counts what the request itself waited for.

use std::{
    thread,
    time::{Duration, Instant},
};

use ::proxy::plan::Plan;
use profile::{Class, Flags, Hierarchy, Method, Protocol, Record, StageName};

use crate::harness::{
    names::NameServer,
    profiled::{Profile, stage, stages},
    running::{forward_plan, own_host_plan, with_admin},
    *,
};

/// What must show in a record; far longer than anything takes that is not held.
const HELD: Duration = Duration::from_millis(60);
const HELD_US: u32 = HELD.as_micros() as u32;
const HALF: usize = 30_000;

/// An origin that sends a head and half a body, and the rest behind the gate; a path that ends in `cut` has no rest.
fn halves(fields: &'static [&'static str], gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::start(move |exchange| {
        let length = format!("Content-Length: {}", 2 * HALF);
        exchange.send(head("200 OK", &[fields, &[&length]].concat()));
        exchange.send(pattern(HALF));
        gate.pass();
        if exchange.path().ends_with("cut") {
            return exchange.reset();
        }
        exchange.send(pattern(HALF));
    })
}

/// Asks and reads the first half.
fn first_half(proxy: &Proxy, path: &str, fields: &[&str]) -> Client {
    let mut client = proxy.client();
    client.ask("GET", path, fields);
    assert_eq!(client.read_head().status, 200);
    client.bytes(HALF);
    client
}

fn hold(gate: &Gate) {
    until_elapsed(Instant::now(), HELD);
    gate.open();
}

/// The first connection was accepted so long ago.
fn held_back(proxy: &Proxy) {
    eventually("it is accepted", || {
        (proxy.counter("client_connections") > 0).then_some(())
    });
    until_elapsed(Instant::now(), HELD);
}

/// A port where nobody listens, and which is given to nobody who asks for any.
const CLOSED: u16 = 1025;

fn of_class(records: &[Record], class: Class) -> Vec<Record> {
    let of_class = records.iter().filter(|record| record.class == class);
    of_class.copied().collect()
}

#[test]
fn the_servers_reply_lasts_until_its_last_byte() {
    // By way of a shared fetch, of one that is not stored, and passed on.
    for (fields, asked, class) in [
        (&[FRESH][..], &[][..], Class::Miss),
        (&["Cache-Control: no-store"], &[], Class::Uncachable),
        (&[FRESH], &["Cache-Control: no-store"], Class::Uncachable),
    ] {
        let (profile, gate) = (Profile::new(), Gate::new());
        let origin = halves(fields, &gate);
        let proxy = Proxy::start(profile.under(plan_for(&origin)));
        let mut client = first_half(&proxy, "/a", asked);
        hold(&gate);
        client.bytes(HALF);
        let record = profile.only(proxy);
        assert_eq!(record.class, class);
        let reply = stage(&record, StageName::ServerReply);
        assert!(reply.total_us >= HELD_US, "{record:#?}");
        assert!(reply.total_us - reply.first_us >= HELD_US, "{record:#?}");
        let connect = stage(&record, StageName::ProxyConnect);
        assert_eq!(connect.start_us + connect.total_us, reply.start_us);
        assert_eq!(record.http_server, Protocol::Http11);
        assert!(record.bytes_in > 2 * HALF as u64, "heads included");
        assert!(record.bytes_in < 2 * HALF as u64 + 500, "{record:#?}");
        assert_eq!(record.flags, Flags::default());
    }
}

#[test]
fn an_answer_that_is_over_before_the_servers_ends_the_stage_there() {
    let (profile, gate) = (Profile::new(), Gate::new());
    let origin = halves(&[FRESH, "ETag: \"a\""], &gate);
    let proxy = Proxy::start(profile.under(plan_for(&origin)));
    let started = Instant::now();
    let answer = proxy.ask("GET", "/a", &["If-None-Match: \"a\""]);
    assert_eq!(answer.status, 304);
    // The rest is held back until the record is complete.
    profile.await_request();
    let most = started.elapsed();
    gate.open();
    let record = profile.only(proxy);
    assert_eq!((record.status, record.class), (304, Class::Miss));
    let reply = stage(&record, StageName::ServerReply);
    let most_us = most.as_micros();
    assert!(u128::from(reply.total_us) <= most_us, "{record:#?}");
    assert!(!record.flags.contains(Flags::CLIENT_ABORTED));
}

#[test]
fn a_request_begins_when_its_connection_is_accepted() {
    let profile = Profile::new();
    let origin = Origin::sending(ok(&[FRESH], "x"));
    let proxy = Proxy::start(with_admin(profile.under(plan_for(&origin))));
    let mut client = proxy.client();
    held_back(&proxy);
    client.get("/a");
    until_elapsed(Instant::now(), 10 * HELD);
    let asked = Instant::now();
    client.get("/a");
    let [first, second] = profile.records(proxy)[..] else {
        panic!()
    };
    let most_us = asked.elapsed().as_micros();
    let connect = stage(&first, StageName::ClientConnect);
    assert_eq!(connect.start_us, 0);
    assert!(connect.first_us >= HELD_US, "{first:#?}");
    let server = stage(&first, StageName::ProxyConnect);
    assert!(server.start_us >= connect.total_us, "{first:#?}");
    assert_eq!(first.flags, Flags::default());
    // Waiting for the next request is nobody's time.
    assert_eq!(stages(&second), ["proxy-reply"]);
    assert!(u128::from(second.total_us) <= most_us, "{second:#?}");
    assert_eq!(second.flags, Flags::REUSED_CLIENT);
    assert!(second.began_unix_us - first.began_unix_us >= 11 * u64::from(HELD_US));
}

#[test]
fn who_shares_a_fetch_waits_and_claims_nothing_of_the_server() {
    const SHARING: usize = 6;
    for workers in [1, 2] {
        let (profile, gate) = (Profile::new(), Gate::new());
        let origin = halves(&[FRESH], &gate);
        let mut plan = profile.under(plan_for(&origin));
        plan.workers = workers;
        let proxy = Proxy::start(plan);
        let clients: Vec<_> = (0..SHARING)
            .map(|_| first_half(&proxy, "/a", &[]))
            .collect();
        hold(&gate);
        for mut client in clients {
            client.bytes(HALF);
        }
        let records = profile.records(proxy);
        let (missed, shared) = (
            of_class(&records, Class::Miss),
            of_class(&records, Class::Collapsed),
        );
        assert_eq!((missed.len(), shared.len()), (1, SHARING - 1));
        assert_eq!(origin.requests().len(), 1);
        let object_bytes = missed[0].object_bytes;
        assert!(object_bytes > 2 * HALF as u64);
        for record in shared {
            assert_eq!(stages(&record), ["client-connect", "proxy-reply", "wait"]);
            assert!(stage(&record, StageName::Wait).total_us >= HELD_US);
            assert_eq!((record.bytes_in, record.server()), (0, 0));
            assert_eq!(record.object_bytes, object_bytes);
            assert_eq!(record.key(), missed[0].key());
        }
        assert_ne!(missed[0].server(), 0);
    }
}

#[test]
fn a_failure_stands_in_the_stage_where_it_happened() {
    let (profile, gate) = (Profile::new(), Gate::new());
    let names = NameServer::start(&gate);
    let origin = Origin::sending(ok(&[FRESH], "x"));
    let mut plan = profile.under(forward_plan(&[]));
    plan.dns.servers = vec![names.address];
    plan.cache.unreachable_ttl = Duration::from_secs(60);
    let proxy = Proxy::start(plan);
    let port = origin.address.port();
    let mut client = proxy.client();
    client.get(&format!("http://found.example:{port}/"));
    for host in ["missing.example", "found.example", "127.0.0.1"] {
        for _ in 0..2 {
            let url = format!("http://{host}:{CLOSED}/");
            assert!(client.get(&url).status >= 500, "{url}");
        }
    }
    client.ask("GET", &format!("http://held.example:{port}/"), &[]);
    gate.arrived(1);
    hold(&gate);
    assert_eq!(client.read("GET").status, 200);

    let all = profile.records(proxy);
    let of_server = |record: &Record| {
        let mut there = stages(record);
        // Whether it is stored is another test's.
        there.retain(|name| !["client-connect", "proxy-reply", "swap-out"].contains(name));
        there.join(" ")
    };
    let seen: Vec<_> = all.iter().map(of_server).collect();
    let complete = "dns proxy-connect server-reply";
    let refused = "dns proxy-connect";
    let expected = [
        complete,
        "dns",
        "dns",
        refused,
        "proxy-connect",
        "proxy-connect",
        "proxy-connect",
        complete,
    ];
    assert_eq!(seen, expected);
    let total = |nth: usize, name| stage(&all[nth], name).total_us;
    assert_eq!(total(2, StageName::Dns), 0, "remembered");
    assert_eq!(total(4, StageName::ProxyConnect), 0, "remembered");
    assert_eq!(total(6, StageName::ProxyConnect), 0, "remembered");
    assert!(total(7, StageName::Dns) >= HELD_US);
    for record in &all[1..7] {
        assert_eq!(
            (record.class, record.hierarchy),
            (Class::Error, Hierarchy::Direct)
        );
        assert_ne!(record.server(), 0);
        assert!(
            !record.flags.contains(Flags::ORIGIN_ABORTED),
            "no reply was begun"
        );
    }
}

#[test]
fn a_tunnel_that_cannot_be_made_says_where_it_failed() {
    let (profile, gate) = (Profile::new(), Gate::new());
    let names = NameServer::start(&gate);
    let mut plan = profile.under(forward_plan(&[CLOSED]));
    plan.dns.servers = vec![names.address];
    let proxy = Proxy::start(plan);
    let host = format!("Host: found.example:{CLOSED}");
    let answer = proxy.ask("CONNECT", &format!("found.example:{CLOSED}"), &[&host]);
    assert_eq!(answer.status, 502);
    let record = profile.only(proxy);
    assert_eq!(record.method, Method::Connect);
    let expected = ["client-connect", "dns", "proxy-connect", "proxy-reply"];
    assert_eq!(stages(&record), expected);
}

#[test]
fn who_broke_an_answer_off_is_told() {
    let (profile, gate) = (Profile::new(), Gate::new());
    let origin = halves(&[FRESH], &gate);
    let proxy = Proxy::start(profile.under(with_small_window(plan_for(&origin))));
    let mut whole = first_half(&proxy, "/whole", &[]);
    let mut cut = first_half(&proxy, "/cut", &[]);
    let mut passed = first_half(&proxy, "/passed-cut", &["Cache-Control: no-store"]);
    first_half(&proxy, "/left", &[]).vanish();
    gate.open();
    whole.bytes(HALF);
    cut.expect_cut();
    passed.expect_cut();
    let seen: Vec<_> = profile.records(proxy).iter().map(aborts).collect();
    let expected = [
        (Class::Miss, 200, Flags::default()),
        (Class::Miss, 200, Flags::ORIGIN_ABORTED),
        (Class::Uncachable, 200, Flags::ORIGIN_ABORTED),
        (Class::Miss, 200, Flags::CLIENT_ABORTED),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_stale_answer_that_is_whole_was_not_broken_off() {
    let profile = Profile::new();
    let stale = ["Cache-Control: max-age=60, stale-if-error=1000", "Age: 100"];
    let origin = Origin::start(move |exchange| match exchange.nth() {
        1 => exchange.send(ok(&stale, "hello")),
        _ => exchange.close(),
    });
    let proxy = Proxy::start(profile.under(plan_for(&origin)));
    proxy.get("/a");
    assert_eq!(proxy.get("/a").text(), "hello");
    let record = profile.records(proxy)[1];
    assert_eq!((record.class, record.status), (Class::Stale, 200));
    assert_eq!(record.hierarchy, Hierarchy::Direct);
    assert!(record.flags.contains(Flags::VALIDATED));
    assert!(!record.flags.contains(Flags::ORIGIN_ABORTED));
}

fn aborts(record: &Record) -> (Class, u16, Flags) {
    (record.class, record.status, record.flags)
}

fn with_small_window(mut plan: Plan) -> Plan {
    plan.limits.transfer_bytes_max = 64 << 10;
    plan
}

#[test]
fn an_origin_that_says_nothing_has_broken_off() {
    let profile = Profile::new();
    let origin = Origin::start(|exchange| match exchange.path() {
        "/silent" => exchange.close(),
        _ => exchange.send("HTTP/1.1 garbage\r\n\r\n"),
    });
    let proxy = Proxy::start(profile.under(plan_for(&origin)));
    let mut client = proxy.client();
    for (path, fields) in [
        ("/silent", &[][..]),
        ("/garbage", &[]),
        ("/silent", &["Cache-Control: no-store"]),
    ] {
        assert_eq!(client.ask("GET", path, fields).read("GET").status, 502);
    }
    for record in profile.records(proxy) {
        assert_eq!(record.class, Class::Error);
        assert!(record.flags.contains(Flags::ORIGIN_ABORTED), "{record:#?}");
        stage(&record, StageName::ProxyConnect);
        stage(&record, StageName::ServerReply);
    }
}

#[test]
fn a_refused_first_request_has_a_client_connect() {
    let profile = Profile::new();
    let origin = Origin::sending(ok(&[FRESH], "x"));
    let proxy = Proxy::start(with_admin(profile.under(plan_for(&origin))));
    let mut client = proxy.client();
    held_back(&proxy);
    client.send("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
    assert_eq!(client.read("GET").status, 400);
    let mut client = proxy.client();
    client.get("/a");
    client.send("nonsense\r\n\r\n");
    assert_eq!(client.read("GET").status, 400);
    let [first, _, second] = profile.records(proxy)[..] else {
        panic!()
    };
    assert!(stage(&first, StageName::ClientConnect).first_us >= HELD_US);
    assert_eq!(first.flags, Flags::default());
    assert_eq!(stages(&second), ["proxy-reply"]);
    assert_eq!(second.flags, Flags::REUSED_CLIENT);
}

#[test]
fn a_connection_taken_from_the_pool_has_a_short_connect() {
    let profile = Profile::new();
    let origin = Origin::sending(ok(&["Cache-Control: no-store"], "x"));
    let proxy = Proxy::start(profile.under(plan_for(&origin)));
    let mut client = proxy.client();
    client.get("/a");
    client.get("/a");
    client
        .ask("POST", "/a", &["Content-Length: 1"])
        .send("b")
        .read("POST");
    let records = profile.records(proxy);
    let reused = records
        .iter()
        .map(|record| record.flags.contains(Flags::REUSED_SERVER));
    assert_eq!(reused.collect::<Vec<_>>(), [false, true, false]);
    for record in &records {
        stage(record, StageName::ProxyConnect);
        stage(record, StageName::ServerReply);
    }
    assert_eq!(stage(&records[1], StageName::ProxyConnect).first_us, 0);
}

#[test]
fn an_objects_size_and_key_are_the_same_however_it_was_asked_for() {
    let profile = Profile::new();
    let origin = Origin::start(|exchange| {
        let fields = ["Cache-Control: max-age=60", "ETag: \"a\""];
        match exchange.field("if-none-match") {
            Some(_) => exchange.send(head("304 Not Modified", &fields)),
            None => exchange.send(ok(&fields, pattern(5000))),
        }
    });
    let proxy = Proxy::start(profile.under(own_host_plan(&origin)));
    let mut client = proxy.client();
    let asked: [(&[&str], Class, u16, Flags); 5] = [
        (&[], Class::Miss, 200, Flags::default()),
        (&[], Class::MemoryHit, 200, Flags::default()),
        (
            &["If-None-Match: \"a\""],
            Class::ImsHit,
            304,
            Flags::default(),
        ),
        (&["Range: bytes=0-9"], Class::MemoryHit, 206, Flags::RANGE),
        (
            &["Cache-Control: no-cache"],
            Class::Revalidated,
            200,
            Flags::VALIDATED.with(Flags::REUSED_SERVER, true),
        ),
    ];
    for (fields, ..) in asked {
        client.ask("GET", "/a", fields).read("GET");
    }
    client.get("/b");
    let records = profile.records(proxy);
    let (same, other) = records.split_at(asked.len());
    let seen: Vec<_> = same.iter().map(aborts).collect();
    let nth_on_connection = |nth: usize| Flags::default().with(Flags::REUSED_CLIENT, nth > 0);
    let expected: Vec<_> = (asked.iter().enumerate())
        .map(|(nth, (_, class, status, flags))| (*class, *status, *flags | nth_on_connection(nth)))
        .collect();
    assert_eq!(seen, expected);
    for record in same {
        assert_eq!(record.object_bytes, same[0].object_bytes, "{record:#?}");
        assert_eq!(record.key(), same[0].key());
        assert_eq!(record.client(), same[0].client());
    }
    assert!(same[0].object_bytes > 5000);
    assert_ne!(other[0].key(), same[0].key());
    assert_ne!(same[0].client(), 0);
    let servers: Vec<_> = records.iter().map(Record::server).collect();
    assert!(
        servers[0] != 0 && servers[4] == servers[0] && servers[1] == 0,
        "{servers:?}"
    );
}

#[test]
fn names_are_left_out_as_the_operator_says() {
    for (keys, clients) in [(true, false), (false, true)] {
        let profile = Profile::new();
        let origin = Origin::sending(ok(&[FRESH], "x"));
        let mut plan = profile.under(plan_for(&origin));
        (plan.logs.profile_keys, plan.logs.profile_clients) = (keys, clients);
        let proxy = Proxy::start(plan);
        proxy.get("/a");
        let record = profile.only(proxy);
        match record.names {
            Some(names) => assert!(keys && names.key != 0 && names.client == 0),
            None => assert!(!keys),
        }
    }
}

#[test]
fn a_memory_hit_takes_less_than_64_bytes() {
    let profile = Profile::new();
    let origin = Origin::sending(ok(&[FRESH], pattern(100_000)));
    let proxy = Proxy::start(profile.under(plan_for(&origin)));
    proxy.get("/a");
    proxy.get("/a");
    let records = profile.records(proxy);
    assert_eq!(records[1].class, Class::MemoryHit);
    assert!(records[1].names.is_some() && records[1].object_bytes > 100_000);
    let mut bytes = Vec::new();
    records[1].encode(&mut bytes);
    assert!(bytes.len() < 64, "{}", bytes.len());
}

#[test]
fn every_one_of_some_hundred_mixed_requests_has_a_sound_record() {
    const CLIENTS: usize = 8;
    const ROUNDS: usize = 10;
    let profile = Profile::new();
    let origin = Origin::start(|exchange| {
        if exchange.request.method == "POST" {
            exchange.body();
        }
        let path = exchange.path().to_owned();
        match path.as_bytes()[1] {
            b's' => exchange.send(ok(STALE, pattern(3000))),
            b'n' => exchange.send(ok(&["Cache-Control: no-store"], pattern(3000))),
            b'l' => exchange.send(ok(&[FRESH], pattern(300_000))),
            b'c' => {
                exchange.send(head("200 OK", &["Content-Length: 9000", FRESH]));
                exchange.send(pattern(8000));
                exchange.reset();
            }
            b'u' => {
                exchange.send(head("200 OK", &["Transfer-Encoding: chunked", FRESH]));
                exchange.send(chunk(pattern(4000)));
                exchange.send(chunk(""));
            }
            _ => exchange.send(ok(&[FRESH, "ETag: \"a\""], pattern(3000))),
        }
    });
    let disk = Disk::of_mib(16);
    let mut plan = disk.under(profile.under(plan_for(&origin)));
    plan.workers = 2;
    let proxy = Proxy::start(plan);
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let proxy = &proxy;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    mixed(proxy, number, round);
                }
            });
        }
    });
    let asked = CLIENTS * ROUNDS * MIXED;
    let records = profile.records(proxy);
    assert_eq!(records.len(), asked);
    let sum: usize = (Class::ALL.into_iter())
        .map(|class| of_class(&records, class).len())
        .sum();
    assert_eq!(sum, asked);
    let broken = |record: &&Record| record.flags.contains(Flags::ORIGIN_ABORTED);
    assert_eq!(records.iter().filter(broken).count(), CLIENTS * ROUNDS);
    assert!(!of_class(&records, Class::MemoryHit).is_empty());
}

/// Requests that [`mixed`] makes.
const MIXED: usize = 11;

/// One of each: plain ones that others share or find, parts, conditions, errors, bodies.
fn mixed(proxy: &Proxy, client: usize, round: usize) {
    let mut own = proxy.client();
    own.get(&format!("/a{round}"));
    own.get(&format!("/l{}", round / 4));
    own.get("/s");
    own.get("/n");
    own.get(&format!("/u{round}"));
    own.ask("GET", "/a0", &["Range: bytes=5-99"]).read("GET");
    own.ask("GET", "/a0", &["If-None-Match: \"a\""]).read("GET");
    own.ask("GET", "/a0", &["Cache-Control: no-cache"])
        .read("GET");
    own.ask("HEAD", "/a0", &[]).read("HEAD");
    own.ask("POST", "/p", &["Content-Length: 3"])
        .send("abc")
        .read("POST");
    let mut cut = proxy.client();
    let path = format!("/c{client}-{round}");
    cut.ask("GET", &path, &[]).read_whatever("GET");
}
