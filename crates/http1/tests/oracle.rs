//! Two readers, one stream: what we let through, hyper frames the same way or refuses.
//!
//! Both get the same bytes of pipelined requests, good and bad. Where both report an n-th request, method,
//! target and body must agree: a difference would be a way to smuggle. hyper accepts more than we do (equal
//! Content-Length lines, bare LF), and refuses some targets that we pass on, so their number may differ.
//!
//! Well-formed streams must be read by both to the end.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use http1::{Chunk, ChunkedDecoder, Framing, Limits, Scratch, parse_request};
use hyper::body::{Body, Incoming};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::service::service_fn;
use hyper::{Request, Response};
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug)]
struct Message {
    method: String,
    target: String,
    body: Vec<u8>,
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
            target: view.target.to_owned(),
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
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let len = buf.remaining().min(self.input.len() - self.at);
        buf.put_slice(&self.input[self.at..self.at + len]);
        self.at += len;
        Poll::Ready(Ok(()))
    }
}

impl Write for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
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
            if let Some(body) = read_body(request.into_body()).await {
                messages.borrow_mut().push(Message {
                    method,
                    target,
                    body,
                });
            }
            Ok::<_, Infallible>(Response::new(String::new()))
        }
    });
    let wire = Wire {
        input: stream.to_vec(),
        at: 0,
    };
    let mut connection = pin!(
        hyper::server::conn::http1::Builder::new()
            .half_close(true)
            .serve_connection(wire, service)
    );
    // The wire is always ready, so a few polls bring it to its end; there is nothing to wait for.
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

proptest! {
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
                http1::write_decimal(body.len() as u64, &mut stream);
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
