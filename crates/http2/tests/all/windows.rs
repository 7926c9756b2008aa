//! Windows of uploads: how they grow when the round trip is long, and how many bytes are held at most if clients fill them.

use std::collections::VecDeque;
use std::time::Duration;

use http2::{Asked, Connection, Event, Fault, Limits, PREFACE, ResetBy, StreamId, Turn};

use crate::raw::{
    ACK, DATA, END_HEADERS, END_STREAM, HEADERS, SETTINGS, block, frame, head, request_block,
};

const MIB: u64 = 1 << 20;

/// A client that sends as much as windows allow, on several streams in turn, and a server whose caller consumes all bytes, or those up
/// to a limit. Bytes that either side writes arrive a round later.
struct Line {
    server: Connection,
    /// Bytes that the client may send on the connection; those of a stream are in `Upload`.
    window: i64,
    streams: Vec<Upload>,
    /// The most bytes that the caller lends at a time.
    pool: u32,
    is_crowded: bool,
    /// Bytes received and not consumed.
    held: u64,
    held_max: u64,
}

struct Upload {
    id: u32,
    stream: Option<StreamId>,
    left: u64,
    window: i64,
    /// Bytes received and not consumed.
    held: u64,
    /// Bytes consumed by the caller, at most `taken_max`.
    taken: u64,
    taken_max: u64,
}

impl Line {
    fn new(pool: u32) -> Line {
        let server = Connection::new(Limits::default(), Duration::ZERO);
        let hello = [
            PREFACE,
            &frame(SETTINGS, 0, 0, &[]),
            &frame(SETTINGS, ACK, 0, &[]),
        ]
        .concat();
        let mut line = Line {
            server,
            window: 65_535,
            streams: Vec::new(),
            pool,
            is_crowded: false,
            held: 0,
            held_max: 0,
        };
        line.arrive(&hello);
        line.hear();
        line
    }

    /// Sends a request with a body of `bytes`, of which the caller consumes at most `taken_max`.
    fn upload(&mut self, bytes: u64, is_announced: bool, taken_max: u64) {
        let id = self.streams.last().map_or(1, |last| last.id + 2);
        let mut fields = head("POST", "/");
        if is_announced {
            fields.extend(block(&[("content-length", &bytes.to_string())]));
        }
        self.streams.push(Upload {
            id,
            stream: None,
            left: bytes,
            window: 65_536,
            held: 0,
            taken: 0,
            taken_max,
        });
        self.arrive(&frame(HEADERS, END_HEADERS, id, &fields));
    }

    /// Both sides send once. Returns the bytes that the client sent.
    fn round(&mut self) -> u64 {
        let mut frames = VecDeque::new();
        let mut sent = 0;
        loop {
            let before = sent;
            for upload in &mut self.streams {
                let room = self.window.min(upload.window).max(0) as u64;
                let len = room.min(upload.left).min(16_384);
                if len == 0 {
                    continue;
                }
                (self.window, upload.window) =
                    (self.window - len as i64, upload.window - len as i64);
                upload.left -= len;
                let end = if upload.left == 0 { END_STREAM } else { 0 };
                frames.push_back(frame(DATA, end, upload.id, &vec![0; len as usize]));
                sent += len;
            }
            if sent == before {
                break;
            }
        }
        for frame in frames {
            self.arrive(&frame);
        }
        self.take();
        self.hear();
        sent
    }

    fn arrive(&mut self, mut input: &[u8]) {
        loop {
            let taken = self.server.handle_input(input, Duration::ZERO).unwrap();
            match taken.event {
                Some(Event::Request { stream, .. }) => {
                    self.streams.last_mut().unwrap().stream = Some(stream);
                }
                Some(Event::Data { stream, bytes, .. }) => {
                    let is_it = |upload: &&mut Upload| upload.stream == Some(stream);
                    self.streams.iter_mut().find(is_it).unwrap().held += bytes.len() as u64;
                    self.held += bytes.len() as u64;
                }
                None if taken.bytes == 0 => break,
                _ => {}
            }
            input = &input[taken.bytes..];
        }
        assert!(input.is_empty());
        self.held_max = self.held_max.max(self.held);
    }

    /// Consumes bytes and lends windows like a caller whose loans are bounded.
    fn take(&mut self) {
        loop {
            let mut took = 0;
            for upload in &mut self.streams {
                let stream = upload.stream.unwrap();
                let bytes = upload.held.min(65_536).min(upload.taken_max - upload.taken);
                if bytes == 0 {
                    continue;
                }
                self.server.consumed(stream, bytes as usize);
                (upload.held, upload.taken) = (upload.held - bytes, upload.taken + bytes);
                took += bytes;
                if self.is_crowded {
                    self.server.shrink(stream);
                    continue;
                }
                let wanted = self.server.wants_lent(stream);
                let lent = wanted.min(self.pool.saturating_sub(self.server.lent()));
                if lent > 0 {
                    self.server.lend(stream, lent);
                }
            }
            self.held -= took;
            if took == 0 {
                break;
            }
        }
    }

    /// The client reads the frames that the server has written.
    fn hear(&mut self) {
        let (mut turn, mut output) = (Turn::new(), Vec::new());
        while self.server.poll_output(&mut turn, 100_000, Duration::ZERO) {
            use bytes::Buf;
            output.extend_from_slice(&turn.copy_to_bytes(turn.remaining()));
        }
        let mut rest = &output[..];
        while let [a, b, c, kind, _, d, e, f, g, left @ ..] = rest {
            let len = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            let id = u32::from_be_bytes([*d, *e, *f, *g]);
            let (payload, left) = left.split_at(len);
            rest = left;
            if *kind != 8 {
                continue;
            }
            let more = i64::from(u32::from_be_bytes(payload.try_into().unwrap()));
            match self.streams.iter_mut().find(|upload| upload.id == id) {
                Some(upload) => upload.window += more,
                None => self.window += more,
            }
        }
        let most = MIB + u64::from(self.server.lent());
        assert!(
            self.window.max(0) as u64 + self.held <= most,
            "more than is lent"
        );
    }

    fn rounds(&mut self) -> usize {
        let mut rounds = 0;
        while self.round() > 0 {
            rounds += 1;
        }
        rounds
    }
}

#[test]
fn a_long_upload_takes_few_round_trips() {
    for is_announced in [true, false] {
        let mut line = Line::new(4 * MIB as u32);
        line.upload(8 * MIB, is_announced, u64::MAX);
        assert_eq!(line.rounds(), 3, "64 KiB, 4 MiB, and the rest");
        assert_eq!(line.held, 0);
        // With nothing to lend, its window does not grow.
        let mut line = Line::new(0);
        line.upload(8 * MIB, is_announced, u64::MAX);
        assert!(line.rounds() > 120);
        assert_eq!(line.server.lent(), 0);
    }
}

#[test]
fn what_is_lent_returns() {
    // If the length of the body is known, all lent bytes have returned when it ends.
    let mut line = Line::new(4 * MIB as u32);
    line.upload(20 * MIB, true, u64::MAX);
    line.rounds();
    assert_eq!(line.server.lent(), 0);
    assert!(
        (MIB / 2..=MIB).contains(&(line.window as u64)),
        "{}",
        line.window
    );
    // Otherwise only some have returned; the next bodies pay back the rest.
    let mut line = Line::new(4 * MIB as u32);
    line.upload(18 * MIB, false, u64::MAX);
    line.rounds();
    let owed = line.server.lent();
    assert!(owed > 0);
    line.pool = 0;
    for _ in 0..8 {
        line.upload(MIB, true, u64::MAX);
        line.rounds();
    }
    assert_eq!(line.server.lent(), 0);
    assert!(
        (MIB / 2..=MIB).contains(&(line.window as u64)),
        "{}",
        line.window
    );
}

#[test]
fn in_need_windows_shrink_by_not_being_opened() {
    let mut line = Line::new(4 * MIB as u32);
    line.upload(100 * MIB, true, u64::MAX);
    for _ in 0..10 {
        line.round();
    }
    assert!(u64::from(line.server.lent()) > 3 * MIB);
    line.is_crowded = true;
    for _ in 0..4 {
        line.round();
    }
    assert_eq!(line.server.lent(), 0);
    assert!(line.round() <= 64 << 10);
}

/// A hundred streams of a client get large windows, then nothing more of them is consumed.
#[test]
fn many_streams_that_fill_their_windows_hold_no_more_than_was_lent() {
    let pool = 8 * MIB as u32;
    let mut line = Line::new(pool);
    for _ in 0..100 {
        line.upload(100 * MIB, true, 2 * MIB);
    }
    while line.round() > 0 {}
    assert!(line.held_max <= MIB + u64::from(pool), "{}", line.held_max);
    assert!(line.held > MIB, "something was lent");
    // A stream of which nothing is consumed is lent nothing.
    let mut line = Line::new(pool);
    for _ in 0..100 {
        line.upload(100 * MIB, true, 0);
    }
    while line.round() > 0 {}
    assert!(line.held_max <= MIB && line.server.lent() == 0);
}

/// What a server sends that nobody takes. Returns the streams that are reset for it.
fn resets(client: &mut Connection, frames: &[Vec<u8>]) -> Vec<(u32, ResetBy)> {
    let (input, mut resets) = (frames.concat(), Vec::new());
    let mut rest = &input[..];
    while let Ok(taken) = client.handle_input(rest, Duration::ZERO) {
        let bytes = taken.bytes;
        match taken.event {
            None => break,
            Some(Event::Reset { stream, by }) => resets.push((stream.number(), by)),
            Some(_) => {}
        }
        rest = &rest[bytes..];
    }
    resets
}

#[test]
fn a_window_is_widened_for_one_stream_alone() {
    let limits = Limits {
        stream_window: 20_000,
        stream_window_max: 70_000,
        ..Limits::default()
    };
    let mut client = Connection::client(limits, Duration::ZERO);
    let hello = [frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, ACK, 0, &[])];
    assert!(resets(&mut client, &hello).is_empty());
    let asked = Asked {
        is_head: false,
        ends: true,
    };
    let mut ask = || client.request([&request_block("GET", "/"), b""], asked, Duration::ZERO);
    let [wide, _] = [ask().unwrap(), ask().unwrap()];
    client.widen(wide, 50_000);
    let ok = |id| frame(HEADERS, END_HEADERS, id, &block(&[(":status", "200")]));
    let data = |id| frame(DATA, 0, id, &[0; 10_000]);
    let wide_frames = [vec![ok(1)], vec![data(1); 6]].concat();
    assert!(resets(&mut client, &wide_frames).is_empty());
    assert!(client.is_short(wide), "most of it is used up");
    assert!(resets(&mut client, &[data(1)]).is_empty());
    let exceeded = ResetBy::Us(Fault::WindowExceeded);
    assert_eq!(resets(&mut client, &[data(1)]), [(1, exceeded)]);
    let other = [ok(3), data(3), data(3), data(3)];
    assert_eq!(resets(&mut client, &other), [(3, exceeded)]);
    assert_eq!(client.fatal(), None);
}
