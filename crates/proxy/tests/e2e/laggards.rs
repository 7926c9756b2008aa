//! Two clients that share a fetch whose body is not stored, and one of them is slow: each gets all of one representation.

use std::{net::Shutdown, thread};

use super::{
    harness::{running::with_admin, *},
    ranges::{TAG, serve},
};

/// What a transfer may hold: more than sockets take, so the one that stands still is never far ahead of the one that reads.
const WINDOW: u64 = 20 << 20;
/// Much more than both.
const LEN: usize = 64 << 20;

/// Nothing so long is kept in memory, and there is no disk.
fn plan_without_room(origin: &Origin) -> ::proxy::plan::Plan {
    let mut plan = with_admin(plan_for(origin));
    plan.limits.transfer_bytes_max = WINDOW;
    // The slow one stands still until the test reads on.
    plan.timeouts.client_write = std::time::Duration::from_secs(600);
    plan
}

/// Two clients share what the origin sends once the gate is open.
fn two(proxy: &Proxy, gate: &Gate) -> [Client; 2] {
    let mut quick = proxy.client();
    quick.ask("GET", "/a", &[]);
    gate.arrived(1);
    let mut slow = proxy.client();
    slow.ask("GET", "/a", &[]);
    eventually("they share it", || {
        (proxy.counter("flights_joined") == 1).then_some(())
    });
    gate.open();
    for client in [&mut quick, &mut slow] {
        assert_eq!(client.read_head().status, 200);
    }
    [quick, slow]
}

#[track_caller]
fn assert_whole((got, end): (Vec<u8>, Option<End>), body: &[u8], who: &str) {
    assert_eq!(got.len(), body.len(), "{who}: cut, {end:?}");
    assert_same(&got, body);
}

/// An origin that waits at the gate for the first request; `answer` is given the number of the request.
fn gated(gate: &Gate, answer: impl Fn(&mut Exchange, usize) + Send + Sync + 'static) -> Origin {
    let held = gate.clone();
    Origin::start(move |exchange| {
        let nth = exchange.nth();
        if nth == 1 {
            held.pass();
        }
        answer(exchange, nth);
    })
}

/// With a strong validator the slow one holds nobody up: it gets the rest by a request of its own, whether the origin knows ranges or not.
#[test]
fn one_that_stands_still_gets_the_rest_by_itself() {
    for knows_ranges in [true, false] {
        let gate = Gate::new();
        let body = pattern(LEN);
        let sent = body.clone();
        let origin = gated(&gate, move |exchange, _| match knows_ranges {
            true => serve(exchange, &sent, &[FRESH, TAG]),
            false => exchange.send(ok(&[FRESH, TAG], &sent)),
        });
        let proxy = Proxy::start(plan_without_room(&origin));
        let [mut quick, mut slow] = two(&proxy, &gate);
        assert_whole(quick.wire.exactly(LEN), &body, "quick");
        assert_whole(slow.wire.exactly(LEN), &body, "slow");
        assert_eq!(origin.count("/a"), 2);
        // The answer ended as it should.
        slow.ask("GET", "/b", &[]);
        assert_eq!(slow.read_head().status, 200);
        assert_eq!(proxy.counter("body_laggards_cut"), 0);
    }
}

/// Without one, the quick one waits for the slow one.
#[test]
fn one_that_reads_slowly_holds_the_fetch_back() {
    let gate = Gate::new();
    let body = pattern(LEN);
    let sent = body.clone();
    let origin = gated(&gate, move |exchange, _| exchange.send(ok(&[FRESH], &sent)));
    let proxy = Proxy::start(plan_without_room(&origin));
    let [mut quick, mut slow] = two(&proxy, &gate);
    let reading = thread::spawn(move || quick.wire.exactly(LEN));
    let mut got = Vec::with_capacity(LEN);
    while got.len() < LEN {
        let (step, end) = slow.wire.exactly((LEN - got.len()).min(256 << 10));
        got.extend(step);
        assert_eq!(end, None, "cut after {}", got.len());
        // A client that takes a hundred megabytes a second.
        thread::sleep(std::time::Duration::from_millis(2));
    }
    assert_same(&got, &body);
    assert_whole(reading.join().unwrap(), &body, "quick");
    assert_eq!(origin.count("/a"), 1);
}

/// What the origin has now is another representation: it is not put behind the beginning of the one before.
#[test]
fn the_rest_is_of_the_same_representation_or_there_is_none() {
    for knows_ranges in [true, false] {
        let gate = Gate::new();
        let body = pattern(LEN);
        let (sent, newer) = (body.clone(), salted_pattern(LEN, 9));
        let origin = gated(&gate, move |exchange, nth| match (nth, knows_ranges) {
            (1, _) => exchange.send(ok(&[FRESH, TAG], &sent)),
            (_, true) => serve(exchange, &newer, &[FRESH, "ETag: \"2\""]),
            (_, false) => exchange.send(ok(&[FRESH, "ETag: \"2\""], &newer)),
        });
        let proxy = Proxy::start(plan_without_room(&origin));
        let [mut quick, mut slow] = two(&proxy, &gate);
        assert_whole(quick.wire.exactly(LEN), &body, "quick");
        let (got, end) = slow.wire.exactly(LEN);
        assert!(end.is_some(), "it cannot be whole");
        assert_same(&got, &body[..got.len()]);
    }
}

/// It has the same tag and the same length, but it says another coding by saying none.
#[test]
fn a_whole_answer_without_a_coding_is_not_the_rest_of_one_with_it() {
    let gate = Gate::new();
    let body = pattern(LEN);
    let (sent, plain) = (body.clone(), salted_pattern(LEN, 9));
    let origin = gated(&gate, move |exchange, nth| match nth {
        1 => exchange.send(ok(&[FRESH, TAG, "Content-Encoding: br"], &sent)),
        _ => exchange.send(ok(&[FRESH, TAG], &plain)),
    });
    let proxy = Proxy::start(plan_without_room(&origin));
    let [mut quick, mut slow] = two(&proxy, &gate);
    assert_whole(quick.wire.exactly(LEN), &body, "quick");
    let (got, end) = slow.wire.exactly(LEN);
    assert!(end.is_some(), "it cannot be whole");
    assert_same(&got, &body[..got.len()]);
}

/// When the origin breaks off, those that share its answer do not all ask it at once for the rest.
#[test]
fn an_origin_that_breaks_off_is_not_asked_by_all() {
    let gate = Gate::new();
    let body = pattern(1 << 20);
    let sent = body.clone();
    let origin = gated(&gate, move |exchange, nth| match nth {
        1 => {
            let mut answer = ok(&[FRESH, TAG], &sent);
            answer.truncate(answer.len() / 2);
            exchange.send(answer);
            exchange.close();
        }
        _ => serve(exchange, &sent, &[FRESH, TAG]),
    });
    let proxy = Proxy::start(plan_without_room(&origin));
    for client in &mut two(&proxy, &gate) {
        let (got, end) = client.wire.exactly(body.len());
        assert!(end.is_some(), "it is not whole: {}", got.len());
    }
    assert_eq!(origin.count("/a"), 1);
}

/// What it has is passed over, which may take long: a client that goes meanwhile is noticed.
#[test]
fn one_that_leaves_while_what_it_has_is_passed_over_is_not_read_for() {
    let (gate, second) = (Gate::new(), Gate::new());
    let (body, held) = (pattern(LEN), second.clone());
    let origin = gated(&gate, move |exchange, nth| {
        let answer = ok(&[FRESH, TAG], &body);
        match nth {
            1 => exchange.send(answer),
            _ => {
                exchange.send(&answer[..64 << 10]);
                held.pass();
            }
        }
    });
    let proxy = Proxy::start(plan_without_room(&origin));
    let [mut quick, mut slow] = two(&proxy, &gate);
    assert_eq!(quick.bytes(LEN).len(), LEN);
    let stream = slow.wire.stream().try_clone().unwrap();
    let reading = thread::spawn(move || slow.wire.exactly(LEN));
    second.arrived(1);
    stream.shutdown(Shutdown::Both).unwrap();
    eventually("it is noticed", || {
        (proxy.counter("client_aborts") == 1).then_some(())
    });
    second.open();
    assert!(reading.join().unwrap().1.is_some());
}
