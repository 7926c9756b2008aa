//! Any frames, in any pieces, at any time, with a caller that answers, resets and lets go as it likes: no panic, memory within what the limits
//! say, whole frames out, and every stream ends.
//!
//! The input is a list of steps, each a byte and what it takes.
#![no_main]

use std::time::Duration;

use bytes::{Buf, Bytes};
use http2::{
    Connection, ErrorCode, Event, Limits, PREFACE, StreamId, Turn, write_field, write_status,
};
use libfuzzer_sys::fuzz_target;

const STREAMS_MAX: u32 = 8;
const KINDS: [u8; 16] = [0, 0, 0, 1, 1, 1, 1, 2, 3, 4, 6, 7, 8, 9, 16, 5];

struct Bytewise<'a>(&'a [u8]);

impl<'a> Bytewise<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn some(&mut self, len: usize) -> &'a [u8] {
        let (some, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        some
    }
}

struct World {
    connection: Connection,
    now: Duration,
    input: Vec<u8>,
    /// Requests whose answer has not ended; what was given of their bodies and not taken; whether the answer has begun.
    ours: Vec<(StreamId, usize, bool)>,
    turn: Turn,
    output: Vec<u8>,
    is_fatal: bool,
}

impl World {
    fn feed(&mut self) {
        loop {
            let taken = match self.connection.handle_input(&self.input, self.now) {
                Ok(taken) => taken,
                Err(fault) => {
                    assert!(fault.ends_connection());
                    assert_eq!(self.connection.fatal(), Some(fault));
                    self.is_fatal = true;
                    return;
                }
            };
            assert!(taken.bytes <= self.input.len());
            let bytes = taken.bytes;
            let mut reset = None;
            let is_last = taken.event.is_none();
            match taken.event {
                Some(Event::Request { stream, head }) => {
                    assert!(head.method.bytes().all(|b| b.is_ascii_graphic()));
                    assert!(head.path.is_empty() || head.path.starts_with(['/', '*']));
                    assert!(head.path.bytes().all(|b| b.is_ascii_graphic()));
                    assert!(!head.authority.is_empty());
                    let host = head.fields.first(b"host").expect("Host is there");
                    assert!(host.eq_ignore_ascii_case(head.authority.as_bytes()));
                    // As HTTP/1.1 it means the same: a line is a line.
                    for line in head.fields.as_wire().split(|&b| b == b'\n') {
                        let line = line.strip_suffix(b"\r").unwrap_or(line);
                        assert!(!line.contains(&b'\r') && !line.contains(&0));
                        let name = line.split(|&b| b == b':').next().unwrap_or_default();
                        assert!(!name.eq_ignore_ascii_case(b"transfer-encoding"));
                        assert!(!name.eq_ignore_ascii_case(b"connection"));
                    }
                    self.ours.push((stream, 0, false));
                }
                Some(Event::Data { stream, bytes, .. }) => {
                    let ours = self.ours.iter_mut().find(|ours| ours.0 == stream);
                    if let Some(ours) = ours {
                        ours.1 += bytes.len();
                        assert!(ours.1 <= 65_535);
                    }
                }
                Some(Event::Response { .. }) => unreachable!("a server is not answered"),
                Some(Event::Reset { stream, .. }) => reset = Some(stream),
                Some(Event::Trailers { .. } | Event::Refused(_) | Event::GoAway(_)) | None => {}
            }
            self.input.drain(..bytes);
            if let Some(stream) = reset {
                // Half of them are let go at once, the others when the caller gets to it.
                if stream.number() & 2 == 0 {
                    self.connection.release(stream);
                    self.ours.retain(|ours| ours.0 != stream);
                }
            }
            if is_last {
                return;
            }
        }
    }

    fn write(&mut self, most: usize) {
        if self.connection.poll_output(&mut self.turn, most, self.now) {
            let bytes = self.turn.copy_to_bytes(self.turn.remaining());
            self.output.extend_from_slice(&bytes);
        }
        // Whole frames, none above what the peer must take.
        while let [a, b, c, ..] = self.output[..] {
            let len = u32::from_be_bytes([0, a, b, c]) as usize;
            assert!(len <= 16_384);
            assert!(self.output.len() >= 9 + len, "a turn ends with a frame");
            self.output.drain(..9 + len);
        }
        assert!(self.output.is_empty());
    }

    fn check(&self) {
        assert!(self.connection.open_streams() <= STREAMS_MAX as usize);
    }
}

fuzz_target!(|input: &[u8]| {
    let mut script = Bytewise(input);
    let limits = Limits {
        streams_max: STREAMS_MAX,
        head_bytes_max: 2048,
        fields_max: 16,
        table_bytes_max: [4096, 0, 64, 8192][usize::from(script.byte().unwrap_or(0) & 3)],
        stream_window: 1000,
        ..Limits::default()
    };
    let mut world = World {
        connection: Connection::new(limits, Duration::ZERO),
        now: Duration::ZERO,
        input: Vec::new(),
        ours: Vec::new(),
        turn: Turn::new(),
        output: Vec::new(),
        is_fatal: false,
    };
    if script.byte().unwrap_or(0) & 7 != 0 {
        world.input.extend_from_slice(PREFACE);
        world.input.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
        world.input.extend_from_slice(&[0, 0, 0, 4, 1, 0, 0, 0, 0]);
    }
    let mut next_id = 1u32;
    while let Some(step) = script.byte() {
        let more = script.byte().unwrap_or(0);
        match step & 15 {
            // A frame.
            0..=5 => {
                let kind = KINDS[usize::from(more & 15)];
                let flags = script.byte().unwrap_or(0);
                let id = match (more >> 4 & 3, kind) {
                    (_, 4 | 6 | 7 | 16) => u32::from(more >> 6 == 3),
                    (0, _) => next_id,
                    (1, _) => next_id.saturating_sub(2),
                    (2, _) => u32::from(script.byte().unwrap_or(0)),
                    _ => 0,
                };
                if kind == 1 && id == next_id {
                    next_id += 2;
                }
                let len =
                    usize::from(script.byte().unwrap_or(0)) * [1, 1, 1, 64][usize::from(step >> 6)];
                let payload = script.some(len);
                let len = (payload.len() as u32).to_be_bytes();
                world
                    .input
                    .extend_from_slice(&[len[1], len[2], len[3], kind, flags]);
                world.input.extend_from_slice(&id.to_be_bytes());
                world.input.extend_from_slice(payload);
            }
            // A sound request, with or without a body.
            6 | 7 => {
                let ends = more & 1;
                let mut block = vec![0x82 + (more >> 1 & 1), 0x86, 0x84, 0x41, 1, b'a'];
                block.extend_from_slice(script.some(usize::from(more >> 3)));
                world
                    .input
                    .extend_from_slice(&[0, 0, block.len() as u8, 1, 4 | ends]);
                world.input.extend_from_slice(&next_id.to_be_bytes());
                world.input.extend_from_slice(&block);
                next_id += 2;
            }
            8 => world
                .input
                .extend_from_slice(script.some(usize::from(more))),
            9 => world.write(usize::from(more) * 64 + 1),
            10 => {
                world.now += Duration::from_millis(
                    u64::from(more) * [1, 10, 100, 1000][usize::from(step >> 6)],
                )
            }
            11 => world.connection.drain(world.now),
            // The caller does something about one of its streams.
            _ if world.ours.is_empty() => {}
            _ => {
                let at = usize::from(more) % world.ours.len();
                let (stream, held, has_begun) = &mut world.ours[at];
                let stream = *stream;
                match (step >> 4, world.connection.is_writable(stream)) {
                    (0..=2, _) => {
                        let taken = *held / 2 + 1;
                        *held -= taken.min(*held);
                        world.connection.consumed(stream, taken);
                    }
                    (3..=6, true) if !*has_begun => {
                        *has_begun = true;
                        let mut block = Vec::new();
                        write_status(200, &mut block);
                        write_field(b"a", b"b", &mut block);
                        world.connection.begin(stream, [&block, b""], false);
                    }
                    (7..=9, true) if *has_begun => {
                        let piece = Bytes::from(vec![b'x'; usize::from(more) * 40]);
                        world.connection.piece(stream, piece, world.now);
                    }
                    (10 | 11, true) if *has_begun => {
                        world.connection.end(stream);
                        world.connection.release(stream);
                        world.ours.swap_remove(at);
                    }
                    (12, true) if *has_begun => {
                        world.connection.trailers(stream, vec![0, 1, b'a', 1, b'b']);
                        world.connection.release(stream);
                        world.ours.swap_remove(at);
                    }
                    (13, _) => {
                        world.connection.reset(stream, ErrorCode::CANCEL);
                        world.ours.swap_remove(at);
                    }
                    (14, _) => {
                        world.connection.release(stream);
                        world.ours.swap_remove(at);
                    }
                    _ => {}
                }
            }
        }
        world.feed();
        world.check();
        if world.is_fatal {
            break;
        }
    }
    // Nothing more comes: the caller lets go of what it has, and time does the rest.
    for (stream, _, _) in std::mem::take(&mut world.ours) {
        world.connection.release(stream);
    }
    for _ in 0..400 {
        world.now += Duration::from_secs(10);
        world.write(1 << 20);
        match world.connection.handle_timeout(world.now) {
            Ok(Some(Event::Reset { stream, .. })) => world.connection.release(stream),
            Ok(_) => {}
            Err(_) => return,
        }
    }
    if !world.is_fatal {
        assert_eq!(world.connection.open_streams(), 0, "every stream ends");
    }
});
