//! A client of HTTP/2 that writes frames by hand.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
};

use http2::{PREFACE, hpack::Decoder};

use crate::{harness::PATIENCE, http2_client::HOST};

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    let mut out = vec![len[1], len[2], len[3], kind, flags];
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

/// A field as it is, whatever it is: literal, without a table and without Huffman.
pub fn field(name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = vec![0];
    for text in [name, value] {
        match text.len() {
            len @ ..127 => out.push(len as u8),
            len => {
                //= rfc7541 §5.1   what a prefix of 7 bits does not hold follows, 7 bits a byte
                out.push(127);
                let mut rest = len - 127;
                while rest >= 128 {
                    out.push(rest as u8 | 128);
                    rest >>= 7;
                }
                out.push(rest as u8);
            }
        }
        out.extend_from_slice(text);
    }
    out
}

/// A block of any length: HEADERS with these flags, and CONTINUATION as it takes.
pub fn headers(flags: u8, stream: u32, block: &[u8]) -> Vec<u8> {
    let mut pieces = block.chunks(16 << 10);
    let count = pieces.len();
    let first = pieces.next().unwrap_or_default();
    let end = |nth: usize| if nth + 1 >= count { END_HEADERS } else { 0 };
    let mut out = frame(HEADERS, flags | end(0), stream, first);
    for (nth, piece) in pieces.enumerate() {
        out.extend(frame(CONTINUATION, end(nth + 1), stream, piece));
    }
    out
}

pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let fields = fields.iter();
    let each = fields.map(|(name, value)| field(name.as_bytes(), value.as_bytes()));
    each.collect::<Vec<_>>().concat()
}

pub fn head(method: &str, path: &str) -> Vec<u8> {
    block(&[
        (":method", method),
        (":scheme", "http"),
        (":authority", HOST),
        (":path", path),
    ])
}

pub fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(
        HEADERS,
        END_STREAM | END_HEADERS,
        stream,
        &head("GET", path),
    )
}

/// A frame that came.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    pub fn word(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }
}

pub struct Raw {
    stream: TcpStream,
    decoder: Decoder,
}

impl Raw {
    /// A connection that has sent its preface and these settings.
    pub fn connect_with(address: SocketAddr, settings: &[(u16, u32)]) -> Raw {
        Raw::on(Raw::silent(address).stream, settings)
    }

    /// The same on a connection that stands.
    pub fn on(stream: TcpStream, settings: &[(u16, u32)]) -> Raw {
        let mut raw = Raw {
            stream,
            decoder: Decoder::new(0),
        };
        let mut payload = Vec::new();
        for (id, value) in settings {
            payload.extend_from_slice(&id.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        raw.send(&[PREFACE, &frame(SETTINGS, 0, 0, &payload)].concat());
        raw.send(&frame(SETTINGS, 1, 0, &[]));
        raw
    }

    pub fn connect(address: SocketAddr) -> Raw {
        Raw::connect_with(address, &[])
    }

    /// One that has sent nothing.
    pub fn silent(address: SocketAddr) -> Raw {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Raw {
            stream,
            decoder: Decoder::new(0),
        }
    }

    /// False: the proxy has closed.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        match self.stream.write_all(bytes) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("the proxy takes nothing")
            }
            sent => sent.is_ok(),
        }
    }

    /// The next frame; `None`: the connection has ended.
    pub fn frame(&mut self) -> Option<Frame> {
        let mut header = [0; 9];
        self.fill(&mut header)?;
        let [a, b, c, kind, flags, d, e, f, g] = header;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.fill(&mut payload)?;
        Some(Frame {
            kind,
            flags,
            stream: u32::from_be_bytes([d, e, f, g]),
            payload,
        })
    }

    fn fill(&mut self, room: &mut [u8]) -> Option<()> {
        match self.stream.read_exact(room) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("the proxy says nothing")
            }
            read => read.ok(),
        }
    }

    /// The next frame that matters: no SETTINGS, WINDOW_UPDATE, PING.
    pub fn next(&mut self) -> Option<Frame> {
        loop {
            let frame = self.frame()?;
            if !matches!(frame.kind, SETTINGS | WINDOW_UPDATE | PING) {
                return Some(frame);
            }
        }
    }

    /// What became of this stream: the status of its answer, or the code of its reset. `None`: the connection ended.
    pub fn outcome(&mut self, stream: u32) -> Option<Result<u16, u32>> {
        loop {
            let frame = self.next()?;
            // Every block goes through the decoder; ours use no table, but the rule is the peer's.
            if frame.kind == HEADERS {
                let mut status = 0;
                let read = self.decoder.decode(&frame.payload, |field| {
                    if field.name == b":status" {
                        status = std::str::from_utf8(field.value).unwrap().parse().unwrap();
                    }
                });
                read.unwrap();
                if frame.stream == stream {
                    return Some(Ok(status));
                }
            } else if frame.kind == RST_STREAM && frame.stream == stream {
                return Some(Err(frame.word(0)));
            } else if frame.kind == GOAWAY && frame.word(4) != 0 {
                return None;
            }
        }
    }

    /// The code of the GOAWAY that ends the connection; `None`: it ended without.
    pub fn farewell(&mut self) -> Option<u32> {
        loop {
            let frame = self.frame()?;
            if frame.kind == GOAWAY {
                return Some(frame.word(4));
            }
        }
    }
}
