//! A client that writes frames by hand, and a server that answers each request with its path.

use std::time::Duration;

use bytes::{Buf, Bytes};
use http2::hpack::Decoder;
use http2::{
    Connection, Event, Fault, Limits, PREFACE, RequestLine, ResetBy, StreamId, Turn, write_field,
    write_request, write_status,
};

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
pub const PRIORITY_UPDATE: u8 = 16;

pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;
pub const WHOLE: u8 = END_STREAM | END_HEADERS;

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    let mut out = vec![len[1], len[2], len[3], kind, flags];
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

/// A block of these fields, without a table.
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        write_field(name.as_bytes(), value.as_bytes(), &mut out);
    }
    out
}

pub fn head(method: &str, path: &str) -> Vec<u8> {
    block(&[
        (":method", method),
        (":scheme", "http"),
        (":authority", "a.example"),
        (":path", path),
    ])
}

/// The block of a request, as our client begins one.
pub fn request_block(method: &str, path: &str) -> Vec<u8> {
    let line = RequestLine {
        method: method.as_bytes(),
        scheme: b"http",
        authority: b"a.example",
        path: path.as_bytes(),
    };
    let mut block = Vec::new();
    write_request(&line, &mut block);
    block
}

/// A block of any length, in frames.
pub fn headers(stream: u32, block: &[u8]) -> Vec<u8> {
    let count = block.len().div_ceil(16_384);
    let pieces = block.chunks(16_384).enumerate().map(|(nth, piece)| {
        let end = if nth + 1 == count { END_HEADERS } else { 0 };
        match nth {
            0 => frame(HEADERS, END_STREAM | end, stream, piece),
            _ => frame(CONTINUATION, end, stream, piece),
        }
    });
    pieces.collect::<Vec<_>>().concat()
}

pub fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, WHOLE, stream, &head("GET", path))
}

pub fn window(stream: u32, more: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &more.to_be_bytes())
}

/// A server, and the client's view of what it writes.
pub struct Pair {
    pub connection: Connection,
    pub now: Duration,
    input: Vec<u8>,
    output: Vec<u8>,
    decoder: Decoder,
    /// The server's events, in words.
    pub events: Vec<String>,
    /// Requests are kept open, instead of answered.
    pub holds: bool,
    /// Bodies are taken as they come.
    pub takes: bool,
    pub held: Vec<StreamId>,
    pub fatal: Option<Fault>,
}

impl Pair {
    pub fn new(limits: Limits) -> Pair {
        let mut pair = Pair {
            connection: Connection::new(limits, Duration::ZERO),
            now: Duration::ZERO,
            input: Vec::new(),
            output: Vec::new(),
            decoder: Decoder::new(0),
            events: Vec::new(),
            holds: false,
            takes: true,
            held: Vec::new(),
            fatal: None,
        };
        pair.send(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat());
        pair.send(&frame(SETTINGS, ACK, 0, &[]));
        pair.frames();
        pair
    }

    /// The client sends; the server does what it can.
    pub fn send(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        loop {
            self.write();
            match self.connection.handle_input(&self.input, self.now) {
                Ok(taken) => {
                    let bytes = taken.bytes;
                    let reply = taken.event.map(|event| reply(event, &mut self.events));
                    self.input.drain(..bytes);
                    let Some(reply) = reply else {
                        if self.connection.must_write() {
                            continue;
                        }
                        break;
                    };
                    self.act(reply);
                }
                Err(fault) => {
                    self.fatal = Some(fault);
                    break;
                }
            }
        }
        self.write();
    }

    fn act(&mut self, reply: Reply) {
        match reply {
            Reply::None => {}
            Reply::Request(stream, _) if self.holds => self.held.push(stream),
            Reply::Request(stream, path) => self.answer(stream, path.into()),
            Reply::Data(..) if !self.takes => {}
            Reply::Data(stream, bytes) => self.connection.consumed(stream, bytes),
            Reply::Reset(stream) if self.holds => self.held.push(stream),
            Reply::Reset(stream) => self.connection.release(stream),
        }
    }

    pub fn answer(&mut self, stream: StreamId, body: Bytes) {
        let mut block = Vec::new();
        write_status(200, &mut block);
        self.connection.begin(stream, [&block, b""], false);
        self.connection.piece(stream, body, self.now);
        self.connection.end(stream);
    }

    fn write(&mut self) {
        let mut turn = Turn::new();
        while self.connection.poll_output(&mut turn, 100_000, self.now) {
            self.output
                .extend_from_slice(&turn.copy_to_bytes(turn.remaining()));
        }
    }

    /// What the server wrote since the last call, a frame a line; SETTINGS and WINDOW_UPDATE of the start are among them.
    pub fn frames(&mut self) -> Vec<String> {
        self.write();
        let output = std::mem::take(&mut self.output);
        let mut rest = &output[..];
        let mut lines = Vec::new();
        while let [a, b, c, kind, flags, d, e, f, g, left @ ..] = rest {
            let len = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            let stream = u32::from_be_bytes([*d, *e, *f, *g]);
            let (payload, left) = left.split_at(len);
            rest = left;
            lines.push(self.line(*kind, *flags, stream, payload));
        }
        assert!(rest.is_empty(), "the server writes whole frames");
        lines
    }

    fn line(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> String {
        let word = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
        let end = if flags & END_STREAM != 0 { " end" } else { "" };
        match kind {
            DATA if payload.len() > 40 => format!("data {stream} {}{end}", payload.len()),
            DATA => format!("data {stream} {:?}{end}", String::from_utf8_lossy(payload)),
            HEADERS => {
                let mut fields = Vec::new();
                let read = self.decoder.decode(payload, |field| {
                    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                    fields.push(format!("{}={}", text(field.name), text(field.value)));
                });
                read.expect("the server's blocks are sound");
                format!("head {stream} {}{end}", fields.join(","))
            }
            RST_STREAM => format!("reset {stream} {}", word(0)),
            SETTINGS => format!("settings {flags}"),
            PING => format!("ping {flags}"),
            GOAWAY => format!("goaway {} {}", word(0), word(4)),
            WINDOW_UPDATE => format!("window {stream} {}", word(0)),
            _ => format!("frame {kind} {stream}"),
        }
    }
}

enum Reply {
    None,
    Request(StreamId, String),
    Data(StreamId, usize),
    Reset(StreamId),
}

fn reply(event: Event<'_>, events: &mut Vec<String>) -> Reply {
    let (said, reply) = match event {
        Event::Request { stream, head } => (
            format!("{} {}", head.method, head.path),
            Reply::Request(stream, head.path.to_owned()),
        ),
        Event::Data {
            stream,
            bytes,
            ends,
        } => (
            format!("data {}{}", bytes.len(), if ends { " end" } else { "" }),
            Reply::Data(stream, bytes.len()),
        ),
        Event::Trailers { fields, .. } => (format!("trailers {fields:?}"), Reply::None),
        Event::Reset {
            stream,
            by: ResetBy::Us(fault),
        } => (format!("{fault:?}"), Reply::Reset(stream)),
        Event::Reset {
            stream,
            by: ResetBy::Peer(code),
        } => (format!("reset {}", code.0), Reply::Reset(stream)),
        Event::Refused(fault) => (format!("refused {fault:?}"), Reply::None),
        Event::Response { head, .. } => (format!("answer {}", head.status), Reply::None),
        Event::GoAway(code) => (format!("goaway {}", code.0), Reply::None),
    };
    events.push(said);
    reply
}
