//! Many requests, one fetch; and purges racing fetches and reads.
//!
//! A waiter is known to have joined once it has received the first half of a body whose second half the origin still
//! holds. Waiters for a head cannot be seen from outside; they are let in by sending other requests through the same
//! worker behind them ([`fence`]).

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use crate::harness::{running::with_admin, *};

const HALF: usize = 50_000;

/// An origin that sends two halves: the first before the gate, the second behind it.
fn halves(fields: &'static [&'static str], gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::start(move |exchange| {
        let length = format!("Content-Length: {}", 2 * HALF);
        let body = pattern(2 * HALF);
        exchange.send(head("200 OK", &[fields, &[&length]].concat()));
        exchange.send(&body[..HALF]);
        gate.pass();
        exchange.send(&body[HALF..]);
    })
}

/// Asks and reads the first half.
fn first_half(proxy: &Proxy) -> (Client, Response) {
    let mut client = proxy.client();
    client.ask("GET", "/a", &[]);
    let mut response = client.read_head();
    response.body = client.bytes(HALF);
    (client, response)
}

/// Reads the rest.
fn second_half((mut client, response): (Client, Response)) -> Vec<u8> {
    [response.body, client.bytes(HALF)].concat()
}

/// When this returns, what was sent before it to the only worker has been seen there.
fn fence(proxy: &Proxy) {
    for n in 0..3 {
        let path = format!("/fence{n}");
        assert_eq!(
            proxy.ask("OPTIONS", &path, &["Max-Forwards: 0"]).status,
            200
        );
    }
}

#[test]
fn twenty_misses_are_one_fetch_streamed_while_it_arrives() {
    for workers in [1, 2] {
        let gate = Gate::new();
        let origin = halves(&[FRESH], &gate);
        let disk = Disk::of_mib(16);
        let mut plan = disk.under(plan_for(&origin));
        plan.workers = workers;
        let proxy = Proxy::start(plan);

        let waiting: Vec<_> = (0..20).map(|_| first_half(&proxy)).collect();
        let cache = |n: usize| waiting[n].1.cache().to_owned();
        assert_eq!(cache(0), "loligo; fwd=uri-miss; stored");
        assert!((1..20).all(|n| cache(n) == "loligo; fwd=uri-miss; stored; collapsed"));
        gate.open();
        for one in waiting {
            assert_same(&second_half(one), &pattern(2 * HALF));
        }
        assert_eq!(origin.count("/a"), 1);
        assert!(proxy.get("/a").is_hit());
    }
}

#[test]
fn the_first_may_leave_and_the_others_are_served() {
    let gate = Gate::new();
    let origin = halves(&[FRESH], &gate);
    let proxy = Proxy::before(&origin);
    let (first, _) = first_half(&proxy);
    let second = first_half(&proxy);
    let (third, _) = first_half(&proxy);
    first.vanish();
    drop(third);
    fence(&proxy);
    gate.open();
    assert_same(&second_half(second), &pattern(2 * HALF));
    assert!(proxy.get("/a").is_hit());
    assert_eq!(origin.count("/a"), 1);
}

#[test]
fn all_may_leave_and_it_is_stored_all_the_same() {
    let gate = Gate::new();
    let origin = halves(&[FRESH], &gate);
    let proxy = Proxy::before(&origin);
    first_half(&proxy).0.vanish();
    fence(&proxy);
    gate.open();
    eventually("the object is stored", || {
        let answer = proxy.get("/a");
        assert_same(&answer.body, &pattern(2 * HALF));
        answer.is_hit().then_some(())
    });
    assert_eq!(origin.count("/a"), 1);
}

/// Sends the request for `/a` with each of these fields, at the same time, and gives the answers.
fn together(proxy: &Proxy, gate: &Gate, asked: &[&str]) -> Vec<Response> {
    let mut clients: Vec<_> = asked.iter().map(|_| proxy.client()).collect();
    for (client, field) in clients.iter_mut().zip(asked) {
        client.ask("GET", "/a", &[field]);
    }
    gate.arrived(1);
    fence(proxy);
    gate.open();
    clients
        .iter_mut()
        .map(|client| client.read("GET"))
        .collect()
}

/// An origin that waits at the gate, then answers with who asked and for the how manieth time.
fn held(gate: &Gate, fields: &'static [&'static str]) -> Origin {
    let gate = gate.clone();
    Origin::start(move |exchange| {
        gate.pass();
        let who = exchange.field("x-user").unwrap_or("nobody");
        let body = format!("{who} {}", exchange.nth());
        exchange.send(ok(fields, body));
    })
}

const USERS: &[&str] = &["X-User: a", "X-User: b", "X-User: c", "X-User: d"];

#[test]
fn an_answer_for_one_is_not_given_to_the_others() {
    for fields in [
        &["Cache-Control: private, max-age=600"][..],
        &["Cache-Control: no-store"],
        &[FRESH, "Set-Cookie: a=b"],
        &[FRESH, "Vary: *"],
        &["Cache-Control: no-cache", "ETag: \"1\""],
    ] {
        let gate = Gate::new();
        let origin = held(&gate, fields);
        let proxy = Proxy::before(&origin);
        let answers = together(&proxy, &gate, USERS);
        for (answer, field) in answers.iter().zip(USERS) {
            let who = &field["X-User: ".len()..];
            assert!(
                answer.text().starts_with(who),
                "{who} got {}",
                answer.text()
            );
            let collapsed = answer.cache().replace("collapsed=?0", "");
            assert!(!collapsed.contains("collapsed"), "{}", answer.cache());
        }
        assert_eq!(origin.count("/a"), USERS.len(), "{fields:?}");
    }
}

#[test]
fn a_waiter_with_other_selecting_fields_asks_for_itself() {
    let gate = Gate::new();
    let origin = held(&gate, &[FRESH, "Vary: X-User"]);
    let proxy = Proxy::before(&origin);
    let asked = ["X-User: a", "X-User: b", "X-User: a"];
    let answers = together(&proxy, &gate, &asked);
    for (answer, field) in answers.iter().zip(asked) {
        assert!(answer.text().starts_with(&field["X-User: ".len()..]));
    }
    assert_eq!(
        answers[0].text(),
        answers[2].text(),
        "the same variant is shared"
    );
    assert_eq!(origin.count("/a"), 2);
    for field in asked {
        assert!(proxy.ask("GET", "/a", &[field]).is_hit());
    }
}

#[test]
fn an_authorised_waiter_asks_for_itself() {
    let gate = Gate::new();
    let origin = held(&gate, &[FRESH]);
    let proxy = Proxy::before(&origin);
    let asked = [
        "X-User: a",
        "Authorization: Basic YTpi",
        "Cache-Control: no-cache",
    ];
    let answers = together(&proxy, &gate, &asked);
    assert!(answers[1].text().starts_with("nobody"));
    assert!(answers[2].text().starts_with("nobody"));
    // Two, if the one that insists on a new answer asks first: that answer is good for the authorised one, too.
    assert!(matches!(origin.count("/a"), 2 | 3));
}

#[test]
fn one_failure_is_enough_for_all_who_wait() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        held.pass();
        exchange.close();
    });
    let proxy = Proxy::before(&origin);
    for answer in together(&proxy, &gate, USERS) {
        assert_eq!(answer.status, 502);
    }
    assert_eq!(origin.count("/a"), 1);
}

#[test]
fn one_validation_is_enough_for_all_who_wait() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| match exchange.field("if-none-match") {
        None => exchange.send(ok(&[STALE, &["ETag: \"1\""]].concat(), "hello")),
        Some(_) => {
            held.pass();
            exchange.send(head("304 Not Modified", &[FRESH, "ETag: \"1\""]));
        }
    });
    let proxy = Proxy::before(&origin);
    proxy.get("/a");
    for answer in together(&proxy, &gate, USERS) {
        assert_eq!((answer.status, answer.text()), (200, "hello"));
    }
    assert_eq!(origin.count("/a"), 2);
}

#[test]
fn what_was_fetched_before_a_purge_is_not_found_behind_it() {
    // Held before the head, and in mid-body; purged by what follows an unsafe method, or by the administrator.
    for (before_head, vary, method) in [
        (true, "", "POST"),
        (false, "", "PURGE"),
        (true, "A", "PURGE"),
        (false, "A", "POST"),
    ] {
        let gate = Gate::new();
        let held = gate.clone();
        let written = Arc::new(AtomicBool::new(false));
        let is_new = Arc::clone(&written);
        let origin = Origin::start(move |exchange| {
            if exchange.request.method == "POST" {
                is_new.store(true, SeqCst);
                return exchange.send(ok(&[], "done"));
            }
            let body = if is_new.load(SeqCst) { "new" } else { "old" };
            let answer = ok(&[FRESH, &format!("Vary: {vary}")], body);
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
        let proxy = Proxy::start(with_admin(disk.under(plan_for(&origin))));
        let mut early = proxy.client();
        early.ask("GET", "/a", &[]);
        gate.arrived(1);
        if method == "POST" {
            assert_eq!(proxy.ask("POST", "/a", &[]).text(), "done");
        } else {
            written.store(true, SeqCst);
            let purged = proxy.admin("PURGE", "/http://test.example/a");
            assert_eq!(purged.status, 200);
        }

        // Who comes now neither joins the old fetch nor waits for it.
        assert_eq!(proxy.get("/a").text(), "new");
        gate.open();
        assert_eq!(early.read("GET").text(), "old", "asked before the purge");
        for _ in 0..2 {
            let answer = proxy.get("/a");
            assert_eq!((answer.text(), answer.is_hit()), ("new", true));
        }
        proxy.stop();
        let proxy = Proxy::start(disk.under(plan_for(&origin)));
        assert_eq!(proxy.get("/a").text(), "new");
    }
}

#[test]
fn a_validation_that_a_purge_overtook_freshens_nothing() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        match (
            exchange.request.method.as_str(),
            exchange.field("if-none-match"),
        ) {
            ("POST", _) => exchange.send(ok(&[], "done")),
            (_, None) if exchange.nth() == 1 => {
                exchange.send(ok(&[STALE, &["ETag: \"1\""]].concat(), "old"));
            }
            (_, None) => exchange.send(ok(&[FRESH, "ETag: \"2\""], "new")),
            (_, Some(_)) => {
                held.pass();
                exchange.send(head("304 Not Modified", &[FRESH, "ETag: \"1\""]));
            }
        }
    });
    let disk = Disk::of_mib(16);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    proxy.get("/a");
    let mut early = proxy.client();
    early.ask("GET", "/a", &[]);
    gate.arrived(1);
    proxy.ask("POST", "/a", &[]);
    gate.open();
    assert_eq!(early.read("GET").text(), "old");
    assert_eq!(proxy.get("/a").text(), "new");
}

/// Readers and a writer on one resource. Whoever begins to read after a write was acknowledged must not see what was
/// before it, wherever it is read from. Returns how many reads were hits.
fn race(memory_bytes: u64, body_words: usize) -> u64 {
    const WRITES: u64 = 150;
    const READERS: usize = 3;
    let version = AtomicU64::new(1);
    let origin = Origin::start(move |exchange| match exchange.request.method.as_str() {
        "POST" => {
            let new = version.fetch_add(1, SeqCst) + 1;
            exchange.send(ok(&[], new.to_string()));
        }
        _ => {
            let body = version.load(SeqCst).to_le_bytes().repeat(body_words);
            exchange.send(ok(&[FRESH], body));
        }
    });
    let disk = Disk::of_mib(16);
    let mut plan = disk.under(plan_for(&origin));
    plan.memory_bytes = memory_bytes;
    plan.workers = 2;
    // Records go out to the device soon, so that most hits are reads from it.
    plan.storing.cluster_bytes = 64 << 10;
    plan.storing.cluster_deadline = Duration::from_millis(10);
    let proxy = Proxy::start(plan);

    let acknowledged = AtomicU64::new(1);
    let done = AtomicBool::new(false);
    let hits = AtomicU64::new(0);
    let read = || {
        let floor = acknowledged.load(SeqCst);
        // A connection of its own: after a body that was cut it is closed.
        let answer = proxy.client().ask("GET", "/a", &[]).read_whatever("GET");
        let body = &answer.body[..answer.body.len() / 8 * 8];
        if answer.cut.is_none() {
            // Else a fragment was purged or evicted before its turn came.
            assert_eq!(body.len(), body_words * 8);
        }
        let Some(first) = body.first_chunk() else {
            return;
        };
        // Every word is the one before it.
        assert!(body[8..] == body[..body.len() - 8], "versions mixed");
        let first = u64::from_le_bytes(*first);
        assert!(first >= floor, "{first} read after {floor} was written");
        hits.fetch_add(u64::from(answer.is_hit()), SeqCst);
    };
    thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                while !done.load(SeqCst) {
                    read();
                }
            });
        }
        let finally = Finally(&done);
        let mut client = proxy.client();
        for n in 0..WRITES {
            let new = client.ask("POST", "/a", &[]).read("POST");
            acknowledged.store(new.text().parse().unwrap(), SeqCst);
            // Sometimes the next write comes while what follows this one is still being fetched.
            for _ in 0..[0, 20, 0, 1, 2][n as usize % 5] {
                read();
            }
        }
        drop(finally);
    });
    hits.into_inner()
}

/// Ends the readers also when the writer fails.
struct Finally<'a>(&'a AtomicBool);

impl Drop for Finally<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn a_purge_wins_over_reads_from_disk() {
    assert!(race(0, 5000) > 100);
}

#[test]
fn a_purge_wins_over_promotion_to_memory() {
    assert!(race(64 << 20, 500) > 100);
}

#[test]
fn a_purge_wins_over_reads_of_fragments() {
    // Two fragments and a bit: whole versions only, or a cut connection, never a mixture.
    assert!(race(64 << 20, 300_000) > 10);
}

/// A client that has read the head and no more.
fn dawdler(address: SocketAddr, target: &str) -> (Client, Response) {
    let mut client = Client::connect(address);
    client.ask("GET", target, &[]);
    let head = client.read_head();
    (client, head)
}

#[test]
fn a_slow_client_of_a_stored_object_holds_up_nobody_and_gets_it_all() {
    let body = pattern(24 << 20);
    let origin = Origin::sending(ok(&[FRESH], &body));
    let disk = Disk::of_mib(64);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    let (mut slow, mut head) = dawdler(proxy.address(), "/a");
    for _ in 0..2 {
        assert_same(&proxy.get("/a").body, &body);
    }
    slow.wire.response_body("GET", &mut head);
    assert_eq!(head.cut, None);
    assert_same(&head.body, &body);
    assert_eq!(origin.count("/a"), 1);
}

#[test]
fn a_slow_client_of_what_is_not_stored_holds_up_nobody() {
    let gate = Gate::new();
    let held = gate.clone();
    let body = pattern(24 << 20);
    let sent = body.clone();
    let origin = Origin::start(move |exchange| {
        held.pass();
        exchange.send(ok(&[FRESH], &sent));
    });
    // Without a disk it is too large to be stored, but may be shared while it arrives.
    let mut plan = plan_for(&origin);
    plan.limits.transfer_bytes_max = 1 << 20;
    let proxy = Proxy::start(plan);
    let (mut slow, mut fast) = (proxy.client(), proxy.client());
    slow.ask("GET", "/a", &[]);
    fast.ask("GET", "/a", &[]);
    fence(&proxy);
    gate.open();
    let mut head = slow.read_head();
    assert_same(&fast.read("GET").body, &body);
    assert_eq!(origin.count("/a"), 1, "both read from one fetch");

    slow.wire.response_body("GET", &mut head);
    assert!(
        head.cut.is_some(),
        "who is a window behind is cut, not lied to"
    );
    assert_same(&head.body, &body[..head.body.len()]);
}

#[test]
fn a_slow_client_of_a_private_answer_holds_back_its_origin_only() {
    let body = pattern(24 << 20);
    let origin = Origin::start(move |exchange| {
        exchange.send(ok(&["Cache-Control: no-store"], &body));
    });
    let proxy = Proxy::before(&origin);
    let expected = pattern(24 << 20);
    let (mut slow, mut head) = dawdler(proxy.address(), "/a");
    assert_same(&proxy.get("/a").body, &expected);
    slow.wire.response_body("GET", &mut head);
    assert_eq!(head.cut, None);
    assert_same(&head.body, &expected);
}

/// What was on its way when the first variant came to be known may not be found by everybody.
#[test]
fn a_response_without_vary_does_not_hide_the_variants_that_came_while_it_was_fetched() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| match exchange.nth() {
        1 => {
            exchange.send(head("200 OK", &[FRESH, "Content-Length: 5"]));
            exchange.send("fi");
            held.pass();
            exchange.send("rst");
        }
        _ => {
            let text = format!("for {}", exchange.field("x").unwrap_or("nobody"));
            exchange.send(ok(&[FRESH, "Vary: X"], text));
        }
    });
    let disk = Disk::of_mib(32);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    let mut early = proxy.client();
    early.ask("GET", "/a", &["X: 1"]);
    gate.arrived(1);
    let one = proxy.ask("GET", "/a", &["X: 1", "Cache-Control: no-cache"]);
    assert_eq!(one.text(), "for 1");
    gate.open();
    assert_eq!(early.read("GET").text(), "first");
    for _ in 0..2 {
        for x in ["1", "2"] {
            let answer = proxy.ask("GET", "/a", &[&format!("X: {x}")]);
            assert_eq!(answer.text(), format!("for {x}"));
        }
    }
    assert_eq!(origin.requests().len(), 3);
}
