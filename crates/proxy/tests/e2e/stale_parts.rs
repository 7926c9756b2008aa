//! Objects with holes that are stale: many clients, one validation.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use super::{
    harness::{
        cluster::{addresses, member},
        running::with_admin,
        *,
    },
    ranges::{F, TAG, ask_range, expect_part, serve},
};

const CLIENTS: usize = 20;
const STALE: &str = "Cache-Control: max-age=60";
const STALE_ALLOWED: &str = "Cache-Control: max-age=60, stale-while-revalidate=600";
const OLD: &str = "Age: 100";

fn body() -> Vec<u8> {
    pattern(5 * F + 1000)
}

fn newer() -> Vec<u8> {
    salted_pattern(5 * F + 1000, 3)
}

/// The first request gets a part that is stale at once; all others wait at the gate and get what `answer` sends.
fn origin(
    gate: &Gate,
    cache_control: &'static str,
    answer: impl Fn(&mut Exchange) + Send + Sync + 'static,
) -> Origin {
    let held = gate.clone();
    Origin::start(move |exchange| match exchange.nth() {
        1 => serve(exchange, &body(), &[cache_control, OLD, TAG]),
        _ => {
            held.pass();
            answer(exchange);
        }
    })
}

/// Many ask for a range of which the first fragment is stored, stale. `expected`: of which body the part is.
fn ask_many(gate: &Gate, origin: &Origin, range: &str, expected: &[u8]) {
    let disk = Disk::of_mib(64);
    let proxy = Proxy::start(with_admin(disk.under(plan_for(origin))));
    let mut client = proxy.client();
    expect_part(
        &ask_range(&mut client, "/a", "bytes=0-99"),
        &body(),
        (0, 99),
    );
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| proxy.client()).collect();
    let range = format!("Range: {range}");
    for client in &mut clients {
        client.ask("GET", "/a", &[&range]);
    }
    eventually("all are there", || {
        let validating = origin.count("/a") as u64 - 1;
        (proxy.counter("flights_joined") + validating >= CLIENTS as u64).then_some(())
    });
    gate.open();
    let (first, last) = super::ranges::bounds(&range["Range: ".len()..], expected.len());
    for client in &mut clients {
        expect_part(&client.read("GET"), expected, (first, last));
    }
}

#[test]
fn one_validation_answers_all_who_want_what_is_there() {
    let gate = Gate::new();
    let origin = origin(&gate, STALE, |it| serve(it, &body(), &[STALE, TAG]));
    ask_many(&gate, &origin, "bytes=10-90", &body());
    assert_eq!(origin.count("/a"), 2);
    assert!(origin.last().field("if-none-match").is_some());
}

#[test]
fn one_validation_and_one_part_answer_all_who_want_what_is_lacking() {
    let gate = Gate::new();
    let origin = origin(&gate, STALE, |it| serve(it, &body(), &[STALE, TAG]));
    ask_many(&gate, &origin, "bytes=65100-65200", &body());
    assert_eq!(origin.count("/a"), 3);
}

#[test]
fn a_new_representation_is_fetched_once() {
    // In parts, and whole.
    for knows_ranges in [true, false] {
        let gate = Gate::new();
        let fields = &[STALE, "ETag: \"2\""];
        let origin = origin(&gate, STALE, move |it| match knows_ranges {
            true => serve(it, &newer(), fields),
            false => it.send(ok(fields, newer())),
        });
        ask_many(&gate, &origin, "bytes=10-90", &newer());
        assert_eq!(origin.count("/a"), 2, "knows ranges: {knows_ranges}");
    }
}

/// An answer that is of no use: the request goes the way of all stale objects, with the others.
#[test]
fn an_origin_in_trouble_is_asked_as_for_any_other_object() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| match exchange.nth() {
        1 => serve(exchange, &body(), &[STALE, OLD, "ETag: \"1\""]),
        2 => {
            held.pass();
            exchange.send(answer("500 Internal Server Error", &[], "no"));
        }
        _ => serve(exchange, &body(), &[STALE, TAG]),
    });
    ask_many(&gate, &origin, "bytes=10-90", &body());
    assert_eq!(origin.count("/a"), 3);
}

#[test]
fn who_may_have_it_stale_does_not_wait_for_the_validation() {
    // Still the same, then changed.
    for changes in [false, true] {
        let gate = Gate::new();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let origin = origin(&gate, STALE_ALLOWED, move |exchange| {
            match changes {
                false => serve(exchange, &body(), &[STALE_ALLOWED, TAG]),
                true => serve(exchange, &newer(), &[STALE_ALLOWED, "ETag: \"2\""]),
            }
            over.store(true, Ordering::SeqCst);
        });
        let disk = Disk::of_mib(64);
        let proxy = Proxy::start(with_admin(disk.under(plan_for(&origin))));
        let mut client = proxy.client();
        expect_part(
            &ask_range(&mut client, "/a", "bytes=0-99"),
            &body(),
            (0, 99),
        );
        for _ in 0..CLIENTS {
            let answer = ask_range(&mut client, "/a", "bytes=10-90");
            expect_part(&answer, &body(), (10, 90));
            assert!(answer.is_hit(), "{}", answer.cache());
        }
        gate.arrived(1);
        assert_eq!(origin.count("/a"), 2);
        gate.open();
        let expected = if changes { newer() } else { body() };
        eventually("it is fresh, or what is there now", || {
            let answer = ask_range(&mut client, "/a", "bytes=10-90");
            let is_fresh = !answer.cache().contains("ttl=-");
            is_fresh.then(|| expect_part(&answer, &expected, (10, 90)))
        });
        assert!(is_over.load(Ordering::SeqCst));
        assert_eq!(origin.count("/a"), if changes { 3 } else { 2 });
    }
}

/// Another request brings the very part, from before it was stale: the one that validates for all does not wait for it.
#[test]
fn a_validation_that_others_wait_for_waits_for_no_part() {
    let gate = Gate::new();
    let held = gate.clone();
    let whole = Arc::new(AtomicBool::new(false));
    let saw_whole = Arc::clone(&whole);
    let origin = Origin::start(move |exchange| {
        if exchange.field("range").is_none() {
            saw_whole.store(true, Ordering::SeqCst);
        }
        if exchange.nth() > 1 {
            held.pass();
        }
        serve(exchange, &body(), &[STALE, TAG]);
    });
    let disk = Disk::of_mib(64);
    let proxy = Proxy::start(with_admin(disk.under(plan_for(&origin))));
    let first = ask_range(&mut proxy.client(), "/a", "bytes=0-99");
    expect_part(&first, &body(), (0, 99));
    let (from, to) = (2 * F, 2 * F + 99);
    let range = format!("Range: bytes={from}-{to}");
    let mut clients: Vec<Client> = (0..3).map(|_| proxy.client()).collect();
    clients[0].ask("GET", "/a", &[&range]);
    gate.arrived(1);
    let purge = "/cache?soft=1&prefix=http://test.example/a";
    assert_eq!(proxy.admin("DELETE", purge).status, 200);
    let joined = proxy.counter("flights_joined");
    clients[1].ask("GET", "/a", &[&range]);
    clients[2].ask("GET", "/a", &[&range]);
    eventually("one validates, one waits for it", || {
        (proxy.counter("flights_joined") > joined && origin.count("/a") >= 3).then_some(())
    });
    gate.open();
    for client in &mut clients {
        expect_part(&client.read("GET"), &body(), (from, to));
    }
    assert!(!whole.load(Ordering::SeqCst), "all of it was fetched");
}

/// A copy that is still fresh elsewhere is out of date, too.
#[test]
fn what_ends_at_one_member_of_a_cluster_ends_at_all() {
    let origin = Origin::start(|exchange: &mut Exchange| match exchange.nth() {
        1 => serve(exchange, &body(), &[STALE_ALLOWED, OLD, TAG]),
        2 => serve(exchange, &body(), &[STALE_ALLOWED, TAG]),
        _ => exchange.send(answer("404 Not Found", &["Cache-Control: no-store"], "")),
    });
    let all = addresses(2);
    let disks = [Disk::of_mib(32), Disk::of_mib(32)];
    let start = |number: usize| {
        let plan = member(plan_for(&origin), number, &all);
        Proxy::start(disks[number].under(plan))
    };
    let members = [start(0), start(1)];
    for proxy in &members {
        eventually("it is linked", || {
            let told = proxy.admin("DELETE", "/cache?url=http://nobody.example/");
            (told.status == 200 && !told.text().contains("away")).then_some(())
        });
    }
    let ask = |proxy: &Proxy, field| proxy.ask("GET", "/a", &["Range: bytes=0-99", field]);
    let cached = "Cache-Control: only-if-cached";
    expect_part(&ask(&members[0], "X: y"), &body(), (0, 99));
    expect_part(&ask(&members[1], "X: y"), &body(), (0, 99));
    eventually("it is found", || {
        ask(&members[1], cached).is_hit().then_some(())
    });
    assert_eq!(origin.count("/a"), 2);
    expect_part(&ask(&members[0], "X: y"), &body(), (0, 99));
    for proxy in &members {
        eventually("it has ended", || {
            (ask(proxy, cached).status == 504).then_some(())
        });
    }
    assert_eq!(origin.count("/a"), 3);
}
