//! Parts that come short: origins that send less than they are asked for or break off, clients that leave.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use super::{
    harness::*,
    ranges::{F, TAG, ask_range, asked, bounds, expect_part, part, serve},
};

const MIB: usize = 1 << 20;

/// An origin that sends at most so many bytes of what is asked for, and says of how many, or not.
fn frugal(body: Vec<u8>, most: usize, says_length: bool) -> Origin {
    Origin::start(move |exchange| {
        let Some(range) = exchange.field("range").map(str::to_owned) else {
            return exchange.send(ok(&[FRESH, TAG], &body));
        };
        let (first, last) = bounds(&range, body.len());
        let last = last.min(first + most - 1);
        let total = match says_length {
            true => body.len().to_string(),
            false => "*".to_owned(),
        };
        let place = format!("Content-Range: bytes {first}-{last}/{total}");
        let fields = [FRESH, TAG, &place];
        exchange.send(answer("206 Partial Content", &fields, &body[first..=last]));
    })
}

#[test]
fn a_part_of_nobody_knows_how_much_is_sent_on() {
    let body = pattern(3 * F);
    let origin = frugal(body.clone(), usize::MAX / 2, false);
    let disk = Disk::of_mib(32);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    let mut client = proxy.client();
    let mut expected = vec!["bytes=0-65023".to_owned()];
    for (first, last) in [(10, 99), (10, 99), (F, F + 9)] {
        let range = format!("bytes={first}-{last}");
        let answer = ask_range(&mut client, "/a", &range);
        let place = format!("bytes {first}-{last}/*");
        assert_eq!(answer.field("content-range"), Some(&place[..]));
        assert_same(&answer.body, &body[first..=last]);
        expected.push(range);
    }
    // The first was one request for more than it; then the client's own went on.
    expected.remove(1);
    assert_eq!(asked(&origin), expected);
    // What counts from the end lies nowhere, so it is asked for as it is.
    let answer = ask_range(&mut client, "/b", "bytes=-10");
    assert_same(&answer.body, &body[body.len() - 10..]);
    ask_range(&mut client, "/b", "bytes=-10");
    assert_eq!(origin.count("/b"), 3);
}

#[test]
fn less_than_was_asked_for_is_sent_on_and_kept() {
    let body = pattern(6 * F);
    let origin = frugal(body.clone(), 2 * F, true);
    let disk = Disk::of_mib(32);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    let mut client = proxy.client();
    // As a player does: on from where the last answer ended.
    let mut at = 0;
    while at < body.len() {
        let answer = ask_range(&mut client, "/a", &format!("bytes={at}-"));
        expect_part(&answer, &body, (at, at + 2 * F - 1));
        at += 2 * F;
    }
    assert_eq!(origin.count("/a"), 3);
    assert!(ask_range(&mut client, "/a", "bytes=0-").is_hit());

    // Where what comes is less than a fragment.
    let origin = frugal(body.clone(), 100, true);
    let proxy = Proxy::before(&origin);
    for _ in 0..2 {
        let answer = proxy.ask("GET", "/a", &["Range: bytes=500-"]);
        expect_part(&answer, &body, (500, 599));
    }
    let disk = Disk::of_mib(32);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    let mut client = proxy.client();
    for _ in 0..3 {
        expect_part(&ask_range(&mut client, "/b", "bytes=50-"), &body, (50, 99));
        expect_part(
            &ask_range(&mut client, "/c", "bytes=500-"),
            &body,
            (500, 599),
        );
    }
    assert_eq!(origin.count("/b"), 3);
    // The first did not reach as far as what was wanted.
    assert_eq!(origin.count("/c"), 4);
}

#[test]
fn less_than_fills_a_hole_is_sent_on_and_kept() {
    let body = pattern(6 * F);
    let origin = frugal(body.clone(), 2 * F, true);
    let disk = Disk::of_mib(32);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    let mut client = proxy.client();
    expect_part(&ask_range(&mut client, "/a", "bytes=0-9"), &body, (0, 9));
    // Of what begins in a stored fragment the rest comes as far as the origin sends it.
    let answer = ask_range(&mut client, "/a", &format!("bytes=100-{}", 5 * F));
    expect_part(&answer, &body, (100, 3 * F - 1));
    assert_eq!(
        asked(&origin),
        [
            "bytes=0-65023".to_owned(),
            format!("bytes={F}-{}", 6 * F - 1)
        ]
    );
    let answer = ask_range(&mut client, "/a", &format!("bytes=100-{}", 3 * F - 1));
    expect_part(&answer, &body, (100, 3 * F - 1));
    assert!(answer.is_hit());
}

#[test]
fn a_part_that_breaks_off_is_asked_for_again_and_at_last_cut() {
    let body = pattern(3 * F);
    for breaks in [1, 2] {
        let origin = Origin::start({
            let body = body.clone();
            move |exchange| {
                if exchange.nth() > breaks {
                    return serve(exchange, &body, &[FRESH, TAG]);
                }
                let span = bounds(exchange.field("range").unwrap(), body.len());
                let whole = part(&body, span, &[FRESH, TAG]);
                exchange.send(&whole[..whole.len() / 2]);
                exchange.close();
            }
        });
        let disk = Disk::of_mib(32);
        let proxy = Proxy::start(disk.under(plan_for(&origin)));
        let mut client = proxy.client();
        client.ask("GET", "/a", &["Range: bytes=0-60000"]);
        let answer = client.read_whatever("GET");
        let is_cut = breaks == 2;
        assert_eq!(
            (answer.status, answer.cut),
            (206, is_cut.then_some(End::Closed))
        );
        assert!(body.starts_with(&answer.body));
        let asked_again = &origin.requests()[1];
        assert_eq!(asked_again.field("if-range"), Some("\"1\""));
        // Nothing of a fragment that did not come whole in one piece was stored.
        let answer = proxy.ask("GET", "/a", &["Range: bytes=0-60000"]);
        expect_part(&answer, &body, (0, 60_000));
        assert!(!answer.is_hit());
        assert_eq!(origin.last().field("range"), Some("bytes=0-65023"));
        let answer = proxy.ask("GET", "/a", &["Range: bytes=0-60000"]);
        assert!(answer.is_hit());
    }
}

#[test]
fn what_is_left_of_a_fragment_is_fetched_behind_the_clients_back() {
    let body = pattern(3 * F);
    let gate = Gate::new();
    let origin = Origin::start({
        let (body, gate) = (body.clone(), gate.clone());
        move |exchange| {
            let whole = part(&body, (0, F - 1), &[FRESH, TAG]);
            exchange.send(&whole[..F / 2]);
            gate.pass();
            exchange.send(&whole[F / 2..]);
        }
    });
    let disk = Disk::of_mib(32);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    let mut client = proxy.client();
    let answer = ask_range(&mut client, "/a", "bytes=0-9");
    expect_part(&answer, &body, (0, 9));
    gate.open();
    let answer = eventually("the fragment is stored", || {
        let only = ["Range: bytes=65000-65010", "Cache-Control: only-if-cached"];
        let answer = client.ask("GET", "/a", &only).read("GET");
        (answer.status != 504).then_some(answer)
    });
    expect_part(&answer, &body, (65_000, 65_010));
    assert_eq!(origin.count("/a"), 1);
}

#[test]
fn a_client_that_leaves_does_not_make_us_fetch_the_rest() {
    const LARGE: usize = 192 * MIB;
    let sent = Arc::new(AtomicUsize::new(0));
    let origin = Origin::start({
        let sent = Arc::clone(&sent);
        move |exchange| {
            let range = format!("Content-Range: bytes 0-{}/{LARGE}", LARGE - 1);
            let length = format!("Content-Length: {LARGE}");
            exchange.send(head("206 Partial Content", &[FRESH, TAG, &range, &length]));
            let piece = pattern(MIB);
            while sent.load(Ordering::SeqCst) < LARGE && exchange.wire.send(&piece) {
                sent.fetch_add(MIB, Ordering::SeqCst);
            }
            exchange.close();
            sent.fetch_add(LARGE, Ordering::SeqCst);
        }
    });
    // A file with holes: little of it is written.
    let disk = Disk::of_mib(512);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    let mut client = proxy.client();
    client.ask("GET", "/a", &["Range: bytes=0-"]);
    let answer = client.read_head();
    assert_eq!(answer.status, 206);
    client.bytes(3 * MIB);
    client.vanish();
    let sent = eventually("the origin is let go", || {
        let sent = sent.load(Ordering::SeqCst);
        (sent >= LARGE).then(|| sent - LARGE)
    });
    // What the sockets hold comes on top.
    assert!(sent < LARGE / 2, "{} MiB were sent", sent / MIB);
    let answer = proxy.ask("GET", "/a", &["Range: bytes=0-99"]);
    assert!(answer.is_hit());
}
