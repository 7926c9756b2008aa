//! The cost of each known attack until it ends: frames, CPU and memory.
//!
//! An attack sends its frames again and again, with a caller that answers nothing (the worst case), until the connection ends. Bounds are
//! far above the measured costs, so that they hold in a debug build on a busy machine; they are there to catch quadratic costs.
//! `cargo test -p http2 --release --test all suite -- --nocapture` prints the figures.

use http2::{Fault, Limits};
use rustix::time::{ClockId, clock_gettime};

use crate::raw::*;

/// Frames that are sent the n-th time.
type Frames = fn(u32) -> Vec<u8>;

struct Attack {
    name: &'static str,
    /// The fault that ends the connection.
    by: Fault,
    /// The most rounds until it ends.
    rounds_max: u32,
    frames: Frames,
}

const fn row(name: &'static str, by: Fault, rounds_max: u32, frames: Frames) -> Attack {
    Attack {
        name,
        by,
        rounds_max,
        frames,
    }
}

/// A stream whose number was not used before.
const fn id(round: u32) -> u32 {
    2 * round + 1
}

fn open(round: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, id(round), &head("POST", "/"))
}

/// An entry of 4,000 bytes, made the first time, and named so often.
fn bomb(round: u32, times: usize) -> Vec<u8> {
    let mut bomb = head("GET", "/");
    if round == 0 {
        bomb.extend_from_slice(&[0x40, 1, b'a', 0x7f, 0xa1, 0x1e]);
        bomb.extend_from_slice(&[b'x'; 4000]);
    }
    bomb.extend(vec![0xbe; times]);
    bomb
}

const ATTACKS: &[Attack] = &[
    row("rapid reset, CVE-2023-44487", Fault::ResetFlood, 510, |n| {
        [get(id(n), "/"), frame(RST_STREAM, 0, id(n), &[0, 0, 0, 8])].concat()
    }),
    row(
        "made to reset, CVE-2025-8671",
        Fault::UselessFrames,
        510,
        |n| [get(id(n), "/"), window(id(n), 0)].concat(),
    ),
    row("malformed heads", Fault::ResetFlood, 510, |n| {
        get(id(n), "no slash")
    }),
    row("heads above the limit", Fault::ResetFlood, 610, |n| {
        let block = [head("GET", "/"), block(&[("a", "b")]).repeat(2000)].concat();
        frame(HEADERS, WHOLE, id(n), &block)
    }),
    row(
        "CONTINUATION flood, CVE-2024-27316",
        Fault::ContinuationFlood,
        10,
        |n| match n {
            0 => frame(HEADERS, END_STREAM, 1, &head("GET", "/")),
            _ => frame(CONTINUATION, 0, 1, &block(&[("a", "b")])),
        },
    ),
    row("long block", Fault::BlockTooLarge, 10, |n| match n {
        0 => frame(HEADERS, END_STREAM, 1, &[0; 16_000]),
        _ => frame(CONTINUATION, 0, 1, &[0; 16_000]),
    }),
    row("HPACK bomb, CVE-2016-6581", Fault::BlockTooLarge, 1, |n| {
        frame(HEADERS, WHOLE, id(n), &bomb(n, 12_000))
    }),
    row("HPACK bombs below the bound", Fault::ResetFlood, 510, |n| {
        frame(HEADERS, WHOLE, id(n), &bomb(n, 250))
    }),
    row("HPACK table churn", Fault::ResetFlood, 510, |n| {
        // Each entry pushes another one out of the table.
        let fields = [0x40, 1, b'a', 1, b'b'].repeat(3000);
        frame(HEADERS, WHOLE, id(n), &[head("GET", "/"), fields].concat())
    }),
    row("cookie crumbs", Fault::ResetFlood, 610, |n| {
        let block = [head("GET", "/"), [0x0f, 17, 0].repeat(5000)].concat();
        frame(HEADERS, WHOLE, id(n), &block)
    }),
    row("PING, CVE-2019-9512", Fault::UselessFrames, 110, |_| {
        frame(PING, 0, 0, &[0; 8])
    }),
    row("SETTINGS, CVE-2019-9515", Fault::UselessFrames, 110, |_| {
        // As many settings as a frame holds.
        frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 1].repeat(2730))
    }),
    row(
        "windows up and down",
        Fault::UselessFrames,
        510,
        |n| match n {
            0..100 => get(id(n), "/"),
            _ => {
                let size = [0, 0, 255, 255][n as usize % 4];
                frame(SETTINGS, 0, 0, &[0, 4, 0, 0, size, size])
            }
        },
    ),
    row("PRIORITY, CVE-2019-9513", Fault::UselessFrames, 110, |n| {
        frame(PRIORITY, 0, id(n), &[0; 5])
    }),
    row("PRIORITY_UPDATE", Fault::UselessFrames, 470, |n| match n {
        0..90 => get(id(n), "/"),
        _ => {
            let payload = [&id(n % 90).to_be_bytes()[..], b"u=1, i"].concat();
            frame(PRIORITY_UPDATE, 0, 0, &payload)
        }
    }),
    row("WINDOW_UPDATE by one", Fault::UselessFrames, 110, |_| {
        window(0, 1)
    }),
    row("unknown frames", Fault::UselessFrames, 110, |_| {
        frame(0x77, 0, 0, &[0; 16_384])
    }),
    row(
        "empty DATA, CVE-2019-9518",
        Fault::UselessFrames,
        110,
        |n| match n {
            0 => open(0),
            _ => frame(DATA, 0, 1, &[]),
        },
    ),
    row("padding alone", Fault::UselessFrames, 110, |n| match n {
        0 => open(0),
        _ => frame(DATA, 8, 1, &[&[255][..], &[0; 255]].concat()),
    }),
    row(
        "DATA behind a reset",
        Fault::DataBehindReset,
        6,
        |n| match n {
            0 => [open(0), window(1, 0)].concat(),
            _ => frame(DATA, 0, 1, &[0; 16_384]),
        },
    ),
    row("heads on refused streams", Fault::ResetFlood, 610, |n| {
        get(id(n), "/")
    }),
    row(
        "stream used again",
        Fault::HeadersOnClosed,
        5,
        |n| match n {
            0 => get(1, "/"),
            1 => frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]),
            _ => get(1, "/"),
        },
    ),
    row("GOAWAY", Fault::UselessFrames, 110, |_| {
        frame(GOAWAY, 0, 0, &[0; 16_384])
    }),
];

fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[test]
fn each_attack_ends_and_costs_little_until_then() {
    println!("attack | rounds | bytes sent | ns a round | ns a byte | memory");
    for attack in ATTACKS {
        // What the client sends is made before the clock runs.
        let frames: Vec<Vec<u8>> = (0..attack.rounds_max).map(attack.frames).collect();
        let (mut rounds, mut sent, mut ns, mut memory) = (0u32, 0, u64::MAX, 0);
        for _ in 0..3 {
            let mut pair = Pair::new(Limits::default());
            pair.holds = true;
            (rounds, sent) = (0, 0);
            let began = cpu_ns();
            for frame in &frames {
                pair.send(frame);
                (rounds, sent) = (rounds + 1, sent + frame.len());
                memory = memory.max(pair.connection.memory_bytes());
                if pair.fatal.is_some() {
                    break;
                }
            }
            ns = ns.min(cpu_ns() - began);
            assert_eq!(pair.fatal, Some(attack.by), "{}", attack.name);
            assert!(pair.connection.open_streams() <= 100);
        }
        let (a_round, a_byte) = (ns / u64::from(rounds), ns as f64 / sent as f64);
        let name = attack.name;
        println!("{name} | {rounds} | {sent} | {a_round} | {a_byte:.1} | {memory}");
        // A round and a byte, each at most; a debug build takes twenty times what a release build does.
        let most = 100_000 * u64::from(rounds) + 1000 * sent as u64;
        assert!(ns < most, "{name}: {ns} ns of {most}");
        assert!(memory < 256 << 10, "{name}: {memory} bytes");
    }
}
