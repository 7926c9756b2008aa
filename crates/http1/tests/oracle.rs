//! Two readers of one stream: hyper frames every message that we accept in the same way, or refuses it.
//!
//! Both get the same bytes of pipelined requests, good and bad. Where both report an n-th request, method, target,
//! fields and body must agree; a difference could be used to smuggle requests. hyper accepts more than we do (equal
//! Content-Length lines, bare LF) and refuses some targets that we pass on, so the number of requests may differ.
//!
//! Well-formed streams must be read by both to the end. Likewise for responses: where both read one, it is the same
//! one.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use http1::{Chunk, ChunkedDecoder, Limits, Scratch, parse_request, parse_response};
use hyper::body::{Body, Incoming};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::service::service_fn;
use hyper::{Request, Response};
use message::Framing;
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug)]
struct Message {
    method: String,
    target: String,
    /// In lower case and in the order of their names; several of one name in the order in which they came.
    fields: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

fn sorted<'a>(lines: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Vec<(String, Vec<u8>)> {
    let name = |name: &[u8]| String::from_utf8_lossy(name).to_ascii_lowercase();
    let mut fields: Vec<_> = lines.map(|(n, value)| (name(n), value.to_vec())).collect();
    fields.sort_by(|a, b| a.0.cmp(&b.0));
    fields
}

/// `http://a` comes out of hyper as `http://a/`.
fn as_hyper_prints_it(target: &str) -> String {
    let parsed = target.parse::<hyper::Uri>();
    parsed.map_or_else(|_| target.to_owned(), |uri| uri.to_string())
}

/// The requests with complete bodies that we read from `stream`.
fn read_by_us(mut stream: &[u8]) -> Vec<Message> {
    let limits = Limits::default();
    let mut messages = Vec::new();
    loop {
        let mut scratch = Scratch::new();
        let Ok(Some(view)) = parse_request(stream, &limits, &mut scratch) else {
            return messages;
        };
        let rest = &stream[view.head_bytes..];
        let body = match view.framing {
            Framing::None => Some((Vec::new(), rest)),
            Framing::Length(len) => rest
                .split_at_checked(len as usize)
                .map(|(body, rest)| (body.to_vec(), rest)),
            Framing::Chunked => read_chunks(rest),
            Framing::UntilClose => unreachable!("a request never is"),
        };
        let Some((body, rest)) = body else {
            return messages;
        };
        messages.push(Message {
            method: view.method.to_owned(),
            target: as_hyper_prints_it(view.target),
            fields: sorted(view.fields()),
            body,
        });
        if !view.keep_alive {
            return messages;
        }
        stream = rest;
    }
}

fn read_chunks(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut decoder = ChunkedDecoder::new(&Limits::default());
    let mut body = Vec::new();
    loop {
        match decoder.next(rest).ok()? {
            Chunk::Data { start, end } => {
                body.extend_from_slice(&rest[start..end]);
                rest = &rest[end..];
            }
            Chunk::More { .. } => return None,
            Chunk::End { consumed, .. } => return Some((body, &rest[consumed..])),
        }
    }
}

/// A connection whose client has sent everything and closed its side.
struct Wire {
    input: Vec<u8>,
    at: usize,
    /// Reads wait until something was written.
    mute: bool,
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.mute {
            return Poll::Pending;
        }
        let len = buf.remaining().min(self.input.len() - self.at);
        buf.put_slice(&self.input[self.at..self.at + len]);
        self.at += len;
        Poll::Ready(Ok(()))
    }
}

impl Write for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.mute = false;
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

async fn read_body(body: Incoming) -> Option<Vec<u8>> {
    let mut body = pin!(body);
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        if let Ok(data) = frame.ok()?.into_data() {
            bytes.extend_from_slice(&data);
        }
    }
    Some(bytes)
}

/// The requests with complete bodies that hyper reads from `stream`.
fn read_by_hyper(stream: &[u8]) -> Vec<Message> {
    let messages = Rc::new(RefCell::new(Vec::new()));
    let service = service_fn(|request: Request<Incoming>| {
        let messages = messages.clone();
        async move {
            let (method, target) = (request.method().to_string(), request.uri().to_string());
            let lines = request.headers().iter();
            let fields = sorted(lines.map(|(name, value)| (name.as_ref(), value.as_bytes())));
            if let Some(body) = read_body(request.into_body()).await {
                messages.borrow_mut().push(Message {
                    method,
                    target,
                    fields,
                    body,
                });
            }
            Ok::<_, Infallible>(Response::new(String::new()))
        }
    });
    let wire = Wire {
        input: stream.to_vec(),
        at: 0,
        mute: false,
    };
    let mut connection = pin!(
        hyper::server::conn::http1::Builder::new()
            .half_close(true)
            .serve_connection(wire, service)
    );
    // The connection is always ready, so a few polls finish it.
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..100 {
        if connection.as_mut().poll(&mut cx).is_ready() {
            break;
        }
    }
    messages.take()
}

/// Whole requests, some of them wrong in ways that readers are known to differ about.
fn requests() -> impl Strategy<Value = Vec<u8>> {
    let start = prop::sample::select(vec![
        "GET /a",
        "POST /b?c",
        "PUT http://a/d",
        "DELETE /e",
        "HEAD /",
    ]);
    let line = prop::sample::select(vec![
        "Content-Length: 5",
        "Content-Length: 0",
        "Content-Length: 5, 5",
        "Content-Length: +5",
        "Content-Length: 05",
        "Content-Length : 5",
        "Transfer-Encoding: chunked",
        "Transfer-Encoding: Chunked ",
        "Transfer-Encoding:\tchunked",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked, x",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding:\r\n chunked",
        "Connection: close",
        "Connection: keep-alive",
        "X: y\nContent-Length: 3",
        "X: y",
        "X:",
        "Expect: 100-continue",
        "Accept: */*",
        "X: y\rContent-Length: 3",
        "X: \u{e4}",
    ]);
    let body = prop::sample::select(vec![
        "",
        "",
        "hello",
        "5\r\nhello\r\n0\r\n\r\n",
        "0\r\n\r\n",
        "5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n",
        "5\nhello\n0\n\n",
        "5 \r\nhello\r\n0\r\n\r\n",
        "05\r\nhello\r\n00\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "5;\n\r\nhello\r\n0\r\n\r\n",
        "2\r\nhello\r\n0\r\n\r\n",
        "0\r\nContent-Length: 5\r\n\r\n",
        "\r\n",
    ]);
    let version = prop::sample::select(vec!["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0"]);
    (start, version, vec(line, 0..3), body).prop_map(|(start, version, lines, body)| {
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        format!("{start} {version}\r\nHost: a\r\n{lines}\r\n{body}").into_bytes()
    })
}

/// One byte more, less, or another one: mostly of those that readers differ about.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        6 => prop::sample::select(b"\r\n\t :;,\"\0\x0b\x0c\x7f\x80\xff05aF-+#/".to_vec()),
        1 => any::<u8>(),
    ];
    let change = (any::<prop::sample::Index>(), byte, 0..3);
    (vec(requests(), 1..4), vec(change, 0..3)).prop_map(|(stream, changes)| {
        let mut stream = stream.concat();
        for (at, byte, how) in changes {
            let at = at.index(stream.len());
            match how {
                0 => stream[at] = byte,
                1 => stream.insert(at, byte),
                _ => drop(stream.remove(at)),
            }
        }
        stream
    })
}

/// Status, fields and body of a final response.
type Final = (u16, Vec<(String, Vec<u8>)>, Vec<u8>);

/// The final response to GET that we read from `stream`. None if refused or cut.
fn response_read_by_us(stream: &[u8]) -> Option<Final> {
    let mut rest = stream;
    loop {
        let (head, head_bytes) = parse_response(rest, &Limits::default(), "GET").ok()??;
        rest = &rest[head_bytes..];
        if head.status < 200 {
            continue;
        }
        let body = match head.framing {
            Framing::None => Vec::new(),
            Framing::Length(len) => rest.get(..len as usize)?.to_vec(),
            Framing::Chunked => read_chunks(rest)?.0,
            Framing::UntilClose => rest.to_vec(),
        };
        return Some((head.status, sorted(head.fields.iter()), body));
    }
}

/// The same by hyper.
fn response_read_by_hyper(stream: &[u8]) -> Option<Final> {
    let wire = Wire {
        input: stream.to_vec(),
        at: 0,
        mute: true,
    };
    let mut cx = Context::from_waker(Waker::noop());
    let mut handshake = pin!(hyper::client::conn::http1::handshake(wire));
    let Poll::Ready(Ok((mut sender, connection))) = handshake.as_mut().poll(&mut cx) else {
        return None;
    };
    let request = Request::get("/").header("host", "a").body(String::new());
    let answered = sender.send_request(request.ok()?);
    let mut reading = pin!(async {
        let response = answered.await.ok()?;
        let lines = response.headers().iter();
        let fields = sorted(lines.map(|(name, value)| (name.as_ref(), value.as_bytes())));
        let status = response.status().as_u16();
        // Equal lengths are one length with us (RFC 9110 §8.6).
        let mut fields = fields;
        fields.dedup_by(|a, b| a == b && a.0 == "content-length");
        Some((status, fields, read_body(response.into_body()).await?))
    });
    let mut connection = pin!(connection);
    let mut ended = false;
    for _ in 0..100 {
        ended = ended || connection.as_mut().poll(&mut cx).is_ready();
        if let Poll::Ready(response) = reading.as_mut().poll(&mut cx) {
            return response;
        }
    }
    None
}

/// Responses, some of them wrong in ways that readers are known to differ about.
fn responses() -> impl Strategy<Value = Vec<u8>> {
    let start = prop::sample::select(vec![
        "HTTP/1.1 200 OK",
        "HTTP/1.1 404 Not Found",
        "HTTP/1.1 204 No Content",
        "HTTP/1.1 304 Not Modified",
        "HTTP/1.0 200 OK",
        "HTTP/1.1 200",
        "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK",
    ]);
    let line = prop::sample::select(vec![
        "Content-Length: 5",
        "Content-Length: 5",
        "Content-Length: 0",
        "Content-Length: 5, 5",
        "Content-Length: +5",
        "Transfer-Encoding: chunked",
        "Transfer-Encoding: chunked",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: xchunked",
        "Connection: close",
        "X: y\nContent-Length: 3",
        "X: \u{e4}",
    ]);
    let body = prop::sample::select(vec![
        "",
        "hello",
        "5\r\nhello\r\n0\r\n\r\n",
        "5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "5 \r\nhello\r\n0\r\n\r\n",
    ]);
    (start, vec(line, 0..3), body).prop_map(|(start, lines, body)| {
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        format!("{start}\r\n{lines}\r\n{body}").into_bytes()
    })
}

#[test]
fn the_oracle_speaks_of_responses() {
    let stream = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    let read = response_read_by_hyper(stream).expect("hyper reads it");
    assert_eq!((read.0, &read.2[..]), (200, &b"hello"[..]));
    assert_eq!(Some(read), response_read_by_us(stream));
}

proptest! {
    #[test]
    fn nobody_is_smuggled_by_a_mutation(stream in mutated()) {
        let (ours, hypers) = (read_by_us(&stream), read_by_hyper(&stream));
        for (ours, hypers) in ours.iter().zip(&hypers) {
            prop_assert_eq!(ours, hypers);
        }
    }

    #[test]
    fn no_response_is_split(stream in responses()) {
        if let (Some(ours), Some(hypers)) = (response_read_by_us(&stream), response_read_by_hyper(&stream)) {
            prop_assert_eq!(ours, hypers);
        }
    }

    #[test]
    fn nobody_is_smuggled(stream in vec(requests(), 1..4)) {
        let stream = stream.concat();
        let (ours, hypers) = (read_by_us(&stream), read_by_hyper(&stream));
        for (ours, hypers) in ours.iter().zip(&hypers) {
            prop_assert_eq!(ours, hypers);
        }
    }

    #[test]
    fn well_formed_streams_are_read_to_the_end(
        bodies in vec((any::<bool>(), vec(any::<u8>(), 0..50)), 1..5),
    ) {
        let mut stream = Vec::new();
        for (is_chunked, body) in &bodies {
            stream.extend_from_slice(b"POST /a HTTP/1.1\r\nHost: a\r\n");
            if *is_chunked {
                stream.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
                for piece in body.chunks(7) {
                    http1::write_chunk_header(piece.len(), &mut stream);
                    stream.extend_from_slice(piece);
                    stream.extend_from_slice(b"\r\n");
                }
                stream.extend_from_slice(http1::LAST_CHUNK);
            } else {
                stream.extend_from_slice(b"Content-Length: ");
                message::write_decimal(body.len() as u64, &mut stream);
                stream.extend_from_slice(b"\r\n\r\n");
                stream.extend_from_slice(body);
            }
        }
        let sent: Vec<&[u8]> = bodies.iter().map(|(_, body)| body.as_slice()).collect();
        let ours = read_by_us(&stream);
        prop_assert_eq!(ours.iter().map(|message| message.body.as_slice()).collect::<Vec<_>>(), sent);
        prop_assert_eq!(ours, read_by_hyper(&stream));
    }
}
