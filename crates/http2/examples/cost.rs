//! What a hit costs in this crate and in the `h2` crate, as servers, in memory: `cargo run --release --example cost -p http2`.
//!
//! Both serve the same client, which is a script: its frames are made beforehand, it reads no answers and only counts their bytes, and it
//! opens the connection's window as they come. So what is measured is the server, by the CPU time of its only thread. A hit looks up
//! nothing: it takes a stored head of ten fields, adds Age and Cache-Status, and sends a body that lies in memory.
//!
//! `cost ours 1000 32 100000` plays 100,000 exchanges of 1,000 bytes, 32 at a time, once; two numbers of exchanges under `valgrind
//! --tool=callgrind` give the instructions of one.

use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use http2::{Connection, Event, Limits, PREFACE, Turn, write_field, write_status};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const TURN_BYTES: usize = 256 * 1024;

/// Of a stored object: what an origin sent.
const HEAD: [(&str, &str); 10] = [
    ("date", "Mon, 23 Nov 2026 02:25:00 GMT"),
    ("server", "nginx/1.26.2"),
    ("content-type", "text/html; charset=utf-8"),
    ("cache-control", "public, max-age=86400"),
    ("last-modified", "Sun, 22 Nov 2026 10:00:00 GMT"),
    ("etag", "\"65f1c2a0-3e8\""),
    ("vary", "accept-encoding"),
    ("x-content-type-options", "nosniff"),
    ("via", "1.1 cache"),
    ("strict-transport-security", "max-age=31536000"),
];

/// Age and Cache-Status, as they are made for each answer.
fn of_now(age: u32) -> ([u8; 10], usize, String) {
    let mut digits = [0u8; 10];
    let (mut at, mut left) = (10, age);
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    (digits, at, format!("cache; hit; ttl={}", 86_400 - age))
}

/// The client: `exchanges` requests, `streams` of them at a time.
struct Script {
    opening: Vec<u8>,
    streams: u32,
    left: u32,
    next_id: u32,
    /// Bytes of a body.
    bytes: usize,
    /// Bytes of bodies that the server owes.
    owed: usize,
    /// Bytes that the server wrote since the last read.
    got: usize,
    total: usize,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    let len = (payload.len() as u32).to_be_bytes();
    out.extend_from_slice(&[len[1], len[2], len[3], kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

impl Script {
    fn new(bytes: usize, streams: u32, exchanges: u32) -> Script {
        let mut opening = PREFACE.to_vec();
        // Streams of any size, and a connection of nearly any.
        frame(4, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff], &mut opening);
        frame(4, 1, 0, &[], &mut opening);
        frame(8, 0, 0, &0x7000_0000u32.to_be_bytes(), &mut opening);
        // A first request puts its fields into the table.
        let mut block = Vec::new();
        for (name, value) in [
            (":authority", "www.example.com"),
            (":path", "/some/page/of/this/site.html"),
            (
                "user-agent",
                "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
            ),
            (
                "accept",
                "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            ),
            ("accept-language", "en-US,en;q=0.5"),
            ("accept-encoding", "gzip, deflate, br, zstd"),
        ] {
            block.extend_from_slice(&[0x40, name.len() as u8]);
            block.extend_from_slice(name.as_bytes());
            block.push(value.len() as u8);
            block.extend_from_slice(value.as_bytes());
        }
        block.extend_from_slice(&[0x82, 0x86]);
        // Pseudo-fields stand first.
        block.rotate_right(2);
        frame(1, 5, 1, &block, &mut opening);
        Script {
            opening,
            streams,
            left: exchanges,
            next_id: 3,
            bytes,
            owed: 0,
            got: 0,
            total: 0,
        }
    }

    /// What the client sends next; nothing: it is done.
    fn send(&mut self, out: &mut Vec<u8>) {
        if !self.opening.is_empty() {
            out.append(&mut self.opening);
            self.owed = self.bytes;
            return;
        }
        let got = std::mem::take(&mut self.got);
        self.total += got;
        if got > 0 {
            frame(8, 0, 0, &(got as u32).to_be_bytes(), out);
        }
        let count = self.streams.min(self.left);
        for _ in 0..count {
            // All in the tables: GET, http, and the six of the first request.
            frame(
                1,
                5,
                self.next_id,
                &[0x82, 0x86, 0xc3, 0xc2, 0xc1, 0xc0, 0xbf, 0xbe],
                out,
            );
            self.next_id += 2;
        }
        self.left -= count;
        self.owed = count as usize * self.bytes;
        if count == 0 {
            out.clear();
        }
    }
}

fn ours(script: &mut Script, body: &Bytes) -> u32 {
    let mut stored = Vec::new();
    write_status(200, &mut stored);
    for (name, value) in HEAD {
        write_field(name.as_bytes(), value.as_bytes(), &mut stored);
    }
    write_field(
        b"content-length",
        body.len().to_string().as_bytes(),
        &mut stored,
    );
    let start = Instant::now();
    let mut connection = Connection::new(Limits::default(), Duration::ZERO);
    let (mut turn, mut input, mut more) = (Turn::new(), Vec::new(), Vec::new());
    let mut served = 0;
    loop {
        input.clear();
        script.send(&mut input);
        if input.is_empty() {
            return served;
        }
        let now = start.elapsed();
        let mut at = 0;
        loop {
            let taken = connection
                .handle_input(&input[at..], now)
                .expect("the client keeps the rules");
            at += taken.bytes;
            match taken.event {
                Some(Event::Request { stream, .. }) => {
                    served += 1;
                    let (digits, from, status) = of_now(served % 1000);
                    more.clear();
                    write_field(b"age", &digits[from..], &mut more);
                    write_field(b"cache-status", status.as_bytes(), &mut more);
                    connection.begin(stream, [&stored, &more], false);
                    connection.piece(stream, body.clone(), now);
                    connection.end(stream);
                }
                Some(other) => panic!("{other:?}"),
                None if at == input.len() => break,
                None => {}
            }
            if connection.must_write() {
                write(&mut connection, &mut turn, script, now);
            }
        }
        write(&mut connection, &mut turn, script, now);
    }
}

fn write(connection: &mut Connection, turn: &mut Turn, script: &mut Script, now: Duration) {
    while connection.poll_output(turn, TURN_BYTES, now) {
        while turn.has_remaining() {
            // As for a vectored write.
            let mut slices = [IoSlice::new(&[]); 64];
            let count = turn.chunks_vectored(&mut slices);
            let len = slices[..count].iter().map(|slice| slice.len()).sum();
            script.got += len;
            turn.advance(len);
        }
    }
}

/// The script as a socket.
struct Socket<'a> {
    script: &'a mut Script,
    ready: Vec<u8>,
    at: usize,
}

impl AsyncRead for Socket<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.at == self.ready.len() {
            if self.script.got < self.script.owed {
                // The client waits for its answers.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.at = 0;
            let mut ready = std::mem::take(&mut self.ready);
            ready.clear();
            self.script.send(&mut ready);
            self.ready = ready;
        }
        let len = buffer.remaining().min(self.ready.len() - self.at);
        buffer.put_slice(&self.ready[self.at..self.at + len]);
        self.at += len;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket<'_> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.script.got += bytes.len();
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let len = slices.iter().map(|slice| slice.len()).sum();
        self.script.got += len;
        Poll::Ready(Ok(len))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn theirs(script: &mut Script, body: &Bytes) -> u32 {
    let mut stored = http::HeaderMap::new();
    for (name, value) in HEAD {
        stored.insert(name, http::HeaderValue::from_static(value));
    }
    stored.insert("content-length", body.len().into());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let socket = Socket {
            script,
            ready: Vec::new(),
            at: 0,
        };
        let mut connection = h2::server::Builder::new()
            .max_concurrent_streams(100)
            .handshake::<_, Bytes>(socket)
            .await
            .expect("a handshake");
        let mut served = 0;
        while let Some(asked) = connection.accept().await {
            let (_, mut respond) = asked.expect("the client keeps the rules");
            served += 1;
            let (digits, from, status) = of_now(served % 1000);
            let mut response = http::Response::new(());
            *response.headers_mut() = stored.clone();
            let age = http::HeaderValue::from_bytes(&digits[from..]);
            response
                .headers_mut()
                .insert(http::header::AGE, age.expect("digits"));
            let status = http::HeaderValue::from_maybe_shared(Bytes::from(status));
            response
                .headers_mut()
                .insert("cache-status", status.expect("text"));
            let mut sender = respond.send_response(response, false).expect("it is open");
            sender.send_data(body.clone(), true).expect("it is open");
        }
        served
    })
}

/// CPU time of this thread so far.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split(' ').next().unwrap_or_default();
    first.parse().unwrap_or_default()
}

fn play(who: &str, bytes: usize, streams: u32, exchanges: u32) -> f64 {
    let body = Bytes::from(vec![b'x'; bytes]);
    let mut script = Script::new(bytes, streams, exchanges);
    let before = cpu_ns();
    let served = match who {
        "ours" => ours(&mut script, &body),
        _ => theirs(&mut script, &body),
    };
    let took = cpu_ns() - before;
    assert_eq!(served, exchanges + 1, "every request is answered");
    assert!(
        script.total + script.got >= served as usize * bytes,
        "every body is sent"
    );
    took as f64 / 1000.0 / f64::from(served)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [who, bytes, streams, exchanges] = &arguments[..] {
        let number = |text: &String| text.parse().expect("a number");
        let us = play(
            who,
            number(bytes) as usize,
            number(streams),
            number(exchanges),
        );
        println!("{who}: {us:.3} us an exchange");
        return;
    }
    println!("CPU us an exchange, the median of 9 rounds in turn (least to most)");
    for bytes in [1_000, 10_000, 100_000] {
        for streams in [1, 32] {
            let mut rounds = [Vec::new(), Vec::new()];
            let exchanges = 50_000_000 / (bytes as u32 + 500);
            for _ in 0..9 {
                for (who, took) in ["ours", "theirs"].iter().zip(&mut rounds) {
                    took.push(play(who, bytes, streams, exchanges));
                }
            }
            let [ours, theirs] = rounds.map(|mut took| {
                took.sort_by(f64::total_cmp);
                (took[took.len() / 2], took[0], took[took.len() - 1])
            });
            println!(
                "{bytes:>7} bytes, {streams:>2} at a time: ours {:.2} ({:.2}-{:.2}), h2 crate {:.2} ({:.2}-{:.2}), ratio {:.2}",
                ours.0,
                ours.1,
                ours.2,
                theirs.0,
                theirs.1,
                theirs.2,
                ours.0 / theirs.0
            );
        }
    }
}
