//! Our client against our server, over a link that splits: the numbers come from a seed, or from a fuzzer (`tools/fuzz`, `http2_both`).
//!
//! The client sends requests with bodies and gives up some; the server echoes the bodies. Demanded: no fault on either side, each answer is
//! byte for byte the body that was sent, and no stream or output is left at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Buf, Bytes};
use http2::{Asked, Connection, Event, Limits, StreamId, Turn, write_status};

use crate::link::Chance;

/// A request as the client sees it.
#[derive(Default)]
struct Call {
    sent: Vec<u8>,
    got: Vec<u8>,
    left: usize,
    has_head: bool,
    has_ended: bool,
    wants_trailers: bool,
    had_trailers: bool,
}

struct End {
    http: Connection,
    /// Bytes received and not yet taken.
    input: Vec<u8>,
}

impl End {
    fn of(http: Connection) -> End {
        let input = Vec::new();
        End { http, input }
    }

    /// Writes to the other end.
    fn write(&mut self, to: &mut End, bytes_max: usize, now: Duration) -> bool {
        let mut turn = Turn::new();
        let wrote = self.http.poll_output(&mut turn, bytes_max, now);
        to.input
            .extend_from_slice(&turn.copy_to_bytes(turn.remaining()));
        wrote
    }

    /// Takes so many of the bytes received.
    fn take(&mut self, most: usize, now: Duration, mut each: impl FnMut(Event<'_>) -> Vec<Do>) {
        let most = most.min(self.input.len());
        let mut at = 0;
        loop {
            let taken = self.http.handle_input(&self.input[at..most], now);
            let taken = taken.expect("both are honest");
            let is_all = taken.event.is_none();
            let bytes = taken.bytes;
            let todo = taken.event.map(&mut each).unwrap_or_default();
            at += bytes;
            for what in todo {
                self.carry_out(what, now);
            }
            if is_all {
                break;
            }
        }
        self.input.drain(..at);
    }

    fn carry_out(&mut self, what: Do, now: Duration) {
        match what {
            Do::Begin(stream, ends) => {
                let mut block = Vec::new();
                write_status(200, &mut block);
                self.http.begin(stream, [&block, b""], ends);
            }
            Do::Piece(stream, piece, ends) => {
                self.http.consumed(stream, piece.len());
                self.http.piece(stream, piece, now);
                if ends {
                    self.http.end(stream);
                }
            }
            Do::Trailers(stream, block) => self.http.trailers(stream, block),
            Do::Consumed(stream, bytes) => self.http.consumed(stream, bytes),
            Do::Release(stream) => self.http.release(stream),
        }
    }
}

enum Do {
    Begin(StreamId, bool),
    Piece(StreamId, Bytes, bool),
    Trailers(StreamId, Vec<u8>),
    Consumed(StreamId, usize),
    Release(StreamId),
}

fn served(event: Event<'_>) -> Vec<Do> {
    match event {
        Event::Request { stream, head } => vec![Do::Begin(stream, head.ends)],
        Event::Data {
            stream,
            bytes,
            ends,
        } => vec![Do::Piece(stream, Bytes::copy_from_slice(bytes), ends)],
        Event::Trailers { stream, fields } => {
            let mut block = Vec::new();
            http2::write_lines(fields.as_wire(), &mut block);
            vec![Do::Trailers(stream, block)]
        }
        Event::Reset { stream, .. } => vec![Do::Release(stream)],
        event => panic!("a server hears {event:?}"),
    }
}

/// Plays so many steps, then lets all streams end.
pub fn play(mut chance: Chance, steps: usize) {
    let mut limits = || Limits {
        stream_window: 1000 + chance.below(100_000) as u32,
        stream_window_max: 1000 + chance.below(200_000) as u32,
        connection_window: 65_535 + chance.below(200_000) as u32,
        streams_max: 1 + chance.below(20) as u32,
        // However slowly this goes.
        stall_time: Duration::from_secs(1_000_000),
        rate_min: 0,
        ..Limits::default()
    };
    let (of_client, of_server) = (limits(), limits());
    let mut now = Duration::ZERO;
    let mut client = End::of(Connection::client(of_client, now));
    let mut server = End::of(Connection::new(of_server, now));
    let mut calls: BTreeMap<StreamId, Call> = BTreeMap::new();
    let mut given_up = 0;
    let mut step = 0;
    let mut idle = 0;
    loop {
        step += 1;
        now += Duration::from_millis(10);
        let is_ending = step > steps;
        if !is_ending && chance.one_in(3) && client.http.may_ask() {
            let ends = chance.one_in(3);
            let block = crate::raw::request_block("POST", "/");
            let asked = Asked {
                is_head: false,
                ends,
            };
            let stream = client.http.request([&block, b""], asked, now).unwrap();
            let left = [0, 1, 500, 70_000][chance.below(4)] * usize::from(!ends);
            let call = Call {
                left,
                wants_trailers: !ends && chance.one_in(2),
                ..Call::default()
            };
            if !ends && left == 0 {
                client.http.end(stream);
            }
            calls.insert(stream, call);
        }
        for (&stream, call) in &mut calls {
            if call.left > 0 && (is_ending || chance.one_in(2)) {
                let len = call.left.min(1 + chance.below(20_000));
                let piece: Vec<u8> = (0..len)
                    .map(|at| (call.sent.len() + at) as u8 ^ stream.number() as u8)
                    .collect();
                call.sent.extend_from_slice(&piece);
                call.left -= len;
                client.http.piece(stream, piece.into(), now);
                if call.left == 0 {
                    match call.wants_trailers {
                        true => {
                            let block = crate::raw::block(&[("checked", "yes")]);
                            client.http.trailers(stream, block);
                        }
                        false => client.http.end(stream),
                    }
                }
            }
        }
        if !is_ending
            && chance.one_in(10)
            && let Some(&stream) = calls.keys().nth(chance.below(calls.len().max(1)))
            && given_up < 100
        {
            given_up += 1;
            calls.remove(&stream);
            client.http.release(stream);
        }
        let most = 1 + chance.below(30_000);
        let mut moved = client.write(&mut server, most, now);
        let most = if is_ending {
            usize::MAX
        } else {
            chance.below(30_000)
        };
        server.take(most, now, served);
        moved |= server.write(&mut client, 1 + chance.below(30_000), now);
        let most = if is_ending {
            usize::MAX
        } else {
            chance.below(30_000)
        };
        let mut over = Vec::new();
        client.take(most, now, |event| match event {
            Event::Response { stream, head } => {
                assert_eq!(head.status, 200);
                let call = calls
                    .get_mut(&stream)
                    .expect("whoever gave up hears nothing");
                assert!(!std::mem::replace(&mut call.has_head, true));
                call.has_ended = head.ends;
                over.extend(head.ends.then_some(stream));
                Vec::new()
            }
            Event::Data {
                stream,
                bytes,
                ends,
            } => {
                let call = calls
                    .get_mut(&stream)
                    .expect("whoever gave up hears nothing");
                call.got.extend_from_slice(bytes);
                call.has_ended = ends;
                over.extend(ends.then_some(stream));
                vec![Do::Consumed(stream, bytes.len())]
            }
            Event::Trailers { stream, .. } => {
                let call = calls
                    .get_mut(&stream)
                    .expect("whoever gave up hears nothing");
                (call.has_ended, call.had_trailers) = (true, true);
                over.push(stream);
                Vec::new()
            }
            event => panic!("a client hears {event:?}"),
        });
        for stream in over {
            let call = calls.remove(&stream).unwrap();
            assert!(call.has_head && call.got == call.sent && call.left == 0);
            let has_body = !call.sent.is_empty();
            assert_eq!(call.had_trailers, call.wants_trailers && has_body);
            client.http.release(stream);
        }
        assert_eq!((client.http.fatal(), server.http.fatal()), (None, None));
        idle = if moved { 0 } else { idle + 1 };
        if is_ending && calls.is_empty() && idle > 3 {
            break;
        }
        assert!(
            step < steps + 100_000,
            "it does not end: {} calls",
            calls.len()
        );
    }
    assert_eq!(client.http.open_streams(), 0);
    assert_eq!(server.http.open_streams(), 0);
}

#[test]
fn our_client_and_our_server() {
    for seed in 0..100 {
        play(Chance::of_seed(seed), 300);
    }
}
