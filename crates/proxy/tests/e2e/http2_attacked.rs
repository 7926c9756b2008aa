//! While somebody attacks, others are served as before: a small run of what `cargo xtask bench attacks` measures.
//!
//! Measured there, with a quiet machine: p99 at most twice what it is without. Here, where many tests share the machine, an answer may
//! take [`LONGEST`], which is what a worker that is held up for long exceeds.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::{
    harness::{FRESH, Origin, PATIENCE, Proxy, ok, pattern, plan_for, running::with_admin},
    http2_client::speaking,
    http2_raw::{
        CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, RST_STREAM, Raw, SETTINGS,
        WINDOW_UPDATE, block, field, frame, get, head, headers,
    },
};

const PRIORITY: u8 = 2;
const INITIAL_WINDOW_SIZE: u16 = 4;
const LONGEST: Duration = Duration::from_secs(2);
/// A machine with too much to do holds up a worker, too, but not each time.
const PLAYS: usize = 3;
/// Of the client that must not notice, beside each attack.
const REQUESTS: u32 = 100;
/// Of the attacker, at a time, and then a pause of a millisecond.
const ROUNDS: u32 = 10;

/// What is sent the n-th time; nothing: the connection is held, and another one opened.
type Round = fn(u32) -> Vec<u8>;

fn id(n: u32) -> u32 {
    2 * n + 1
}

/// What begins with `first` and goes on with `then`.
fn post_then(n: u32, then: Vec<u8>) -> Vec<u8> {
    match n {
        0 => frame(HEADERS, END_HEADERS, 1, &head("POST", "/post")),
        _ => then,
    }
}

fn bomb() -> Vec<u8> {
    let entry = [&[0x40][..], &field(b"a", &[b'x'; 4000])[1..]].concat();
    [head("GET", "/"), entry, vec![0xbe; 10_000]].concat()
}

/// Its name, the client's settings, whether the server ends its connections, and what is sent.
type Attack = (&'static str, &'static [(u16, u32)], bool, Round);

const ATTACKS: &[Attack] = &[
    ("rapid reset", &[], true, |n| {
        [
            get(id(n), "/miss"),
            frame(RST_STREAM, 0, id(n), &[0, 0, 0, 8]),
        ]
        .concat()
    }),
    ("made to reset", &[], true, |n| {
        [get(id(n), "/miss"), frame(WINDOW_UPDATE, 0, id(n), &[0; 4])].concat()
    }),
    ("CONTINUATION", &[], true, |n| match n {
        0 => frame(HEADERS, END_STREAM, 1, &head("GET", "/")),
        _ => frame(CONTINUATION, 0, 1, &block(&[("a", "b")])),
    }),
    ("HPACK bomb", &[], true, |n| {
        headers(END_STREAM, id(n), &bomb())
    }),
    ("zero window", &[(INITIAL_WINDOW_SIZE, 0)], true, |n| {
        get(id(n), "/hit")
    }),
    (
        "one-byte windows",
        &[(INITIAL_WINDOW_SIZE, 1)],
        true,
        |n| match n {
            0 => get(1, "/hit"),
            _ => frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]),
        },
    ),
    ("PING", &[], true, |_| frame(PING, 0, 0, &[0; 8])),
    ("SETTINGS", &[], true, |_| frame(SETTINGS, 0, 0, &[])),
    ("PRIORITY", &[], true, |_| {
        frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 0])
    }),
    ("WINDOW_UPDATE", &[], true, |_| {
        frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])
    }),
    ("empty DATA", &[], true, |n| {
        post_then(n, frame(DATA, 0, 1, &[]))
    }),
    ("small DATA", &[], true, |n| {
        post_then(n, frame(DATA, 0, 1, &[0]))
    }),
    ("slow heads", &[], false, |n| match n {
        0 => frame(HEADERS, END_STREAM, 1, &head("GET", "/")),
        _ => Vec::new(),
    }),
];

/// Attacks until it is stopped, and the server has ended a connection if it should; how often it did. (It shows late: what comes behind a
/// GOAWAY is read for a while.)
fn attack(
    address: SocketAddr,
    (settings, is_ended, round): (&[(u16, u32)], bool, Round),
    is_stopped: &AtomicBool,
) -> u32 {
    let (mut ended, mut held) = (0, Vec::new());
    let until = Instant::now() + PATIENCE;
    let is_over = |ended: u32| {
        let is_stopped = is_stopped.load(Ordering::Relaxed);
        is_stopped && (ended > 0 || !is_ended || Instant::now() > until)
    };
    while !is_over(ended) {
        let mut raw = Raw::connect_with(address, settings);
        for n in 0.. {
            thread::sleep(Duration::from_millis(1));
            let all = (0..ROUNDS).map(|more| round(n * ROUNDS + more));
            let all: Vec<u8> = all.flatten().collect();
            if all.is_empty() {
                held.push(raw);
                break;
            }
            if !raw.send(&all) {
                ended += 1;
                break;
            }
            if is_over(ended) {
                break;
            }
        }
    }
    ended
}

#[test]
fn others_are_served_at_once() {
    let origin = Origin::start(|exchange| match exchange.path() {
        "/miss" => exchange.send(ok(&["Cache-Control: no-store"], "late")),
        _ => exchange.send(ok(&[FRESH], pattern(10_000))),
    });
    let mut plan = speaking(with_admin(plan_for(&origin)));
    plan.workers = 1;
    let proxy = Proxy::start(plan);
    let address = proxy.address();
    for &(name, settings, is_ended, round) in ATTACKS {
        let mut played: Vec<Duration> = Vec::new();
        while played.iter().all(|&longest| longest >= LONGEST) {
            assert!(played.len() < PLAYS, "{name}: {played:?}");
            played.push(play(address, name, (settings, is_ended, round)));
        }
    }
}

/// The longest that an answer takes during an attack.
fn play(address: SocketAddr, name: &str, how: (&[(u16, u32)], bool, Round)) -> Duration {
    let is_stopped = AtomicBool::new(false);
    thread::scope(|scope| {
        let attacking = scope.spawn(|| attack(address, how, &is_stopped));
        let mut honest = Raw::connect(address);
        let mut longest = Duration::ZERO;
        for n in 0..REQUESTS {
            let asked = Instant::now();
            honest.send(&get(id(n), "/hit"));
            assert_eq!(honest.outcome(id(n)), Some(Ok(200)), "{name}");
            longest = longest.max(asked.elapsed());
            // What it has taken may be sent again.
            let word = 10_000u32.to_be_bytes();
            honest.send(&frame(WINDOW_UPDATE, 0, 0, &word));
            thread::sleep(Duration::from_millis(2));
        }
        is_stopped.store(true, Ordering::Relaxed);
        let ended = attacking.join().unwrap();
        let (_, is_ended, _) = how;
        assert_eq!(ended > 0, is_ended, "{name}: ended {ended} times");
        longest
    })
}
