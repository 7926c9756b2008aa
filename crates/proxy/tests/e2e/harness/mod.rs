//! The language of these tests: a scripted origin, a strict raw client, a proxy on a thread or as a process.
//!
//! Nothing here sleeps and hopes. What must happen in order is held at a [`Gate`]; what can only be observed is asked
//! for again and again until a deadline ([`eventually`]). A wait that lasts longer than [`PATIENCE`] is a failed test.

pub mod cable;
pub mod child;
pub mod client;
pub mod cluster;
pub mod gate;
pub mod gateway;
pub mod listing;
pub mod names;
pub mod origin;
pub mod profiled;
pub mod relay;
pub mod running;
pub mod sleeve;
pub mod tls;
pub mod way;
pub mod wire;

use std::time::{Duration, Instant};

pub use ::wire::Framing;
pub use child::Child;
pub use client::Client;
pub use gate::Gate;
pub use origin::{Exchange, Origin};
pub use relay::Relay;
pub use running::{Disk, Proxy, plan_for};
pub use wire::{End, Response};

/// The longest a test waits for anything.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A lifetime that outlasts every test.
pub const FRESH: &str = "Cache-Control: max-age=600";
/// Stored, and stale on arrival.
pub const STALE: &[&str] = &["Cache-Control: max-age=60", "Age: 100"];

/// A 200 with these fields and this body, framed by its length.
pub fn ok(fields: &[&str], body: impl AsRef<[u8]>) -> Vec<u8> {
    answer("200 OK", fields, body)
}

/// A response with this status and reason, framed by its length.
pub fn answer(status: &str, fields: &[&str], body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let length = format!("Content-Length: {}", body.len());
    let mut out = head(status, &[fields, &[&length]].concat());
    out.extend_from_slice(body);
    out
}

/// A response head with just these fields.
pub fn head(status: &str, fields: &[&str]) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 {status}\r\n");
    for field in fields {
        out += field;
        out += "\r\n";
    }
    out += "\r\n";
    out.into_bytes()
}

/// One chunk of a chunked body.
pub fn chunk(data: impl AsRef<[u8]>) -> Vec<u8> {
    let data = data.as_ref();
    [format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat()
}

/// `len` bytes in which every stretch tells its place, so that a byte lost, doubled or misplaced shows.
pub fn pattern(len: usize) -> Vec<u8> {
    salted_pattern(len, 0)
}

/// The same with other bytes: no byte is that of another salt at the same place.
pub fn salted_pattern(len: usize, salt: u8) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    let salts = u64::from_ne_bytes([salt; 8]);
    for word in 0..len.div_ceil(8) as u64 {
        let noise = word.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salts;
        bytes.extend_from_slice(&noise.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Compares long bodies without printing them.
#[track_caller]
pub fn assert_same(got: &[u8], expected: &[u8]) {
    // Byte by byte only where it matters: a debug build compares slices fast and iterators slowly.
    if got != expected {
        let differs = got.iter().zip(expected).position(|(a, b)| a != b);
        panic!(
            "{} bytes of {} expected, first difference at {differs:?}",
            got.len(),
            expected.len()
        );
    }
}

/// Returns once so much time has gone by since `since`: what lasts that long must show in a record.
pub fn until_elapsed(since: Instant, span: Duration) {
    eventually("time goes by", || (since.elapsed() >= span).then_some(()));
}

/// Until what was stored is on the device and not in a buffer any more: then a hit is a read.
pub fn await_hit_by_read(proxy: &Proxy, path: &str) {
    eventually("it is read from the device", || {
        let before = proxy.counter("disk_reads");
        let hit = proxy.get(path).is_hit();
        (hit && proxy.counter("disk_reads") > before).then_some(())
    });
}

/// Asks again and again until the answer is `Some`.
#[track_caller]
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
