//! The `h2` crate as server of our client, in memory: it sees the requests we sent, and we receive the answers it sent.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::{HeaderMap, Response};
use http2::{Asked, Connection, Event, Limits, StreamId, Turn};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::link::Chance;
use crate::raw::{block, request_block};

/// Answers each request with its method, path and body, and trailers if it had some.
async fn echo(link: DuplexStream, mut chance: Chance) {
    let mut builder = h2::server::Builder::new();
    builder
        .initial_window_size([1000, 65_535, 1 << 20][chance.below(3)])
        .max_concurrent_streams(1 + chance.below(20) as u32)
        .max_frame_size([16_384, 100_000][chance.below(2)]);
    let mut connection = builder.handshake::<_, Bytes>(link).await.unwrap();
    while let Some(asked) = connection.accept().await {
        let Ok((request, mut respond)) = asked else {
            return;
        };
        tokio::task::spawn_local(async move {
            let line = format!("{} {}", request.method(), request.uri());
            let mut body = request.into_body();
            let answer = Response::builder().status(207).header("asked", line);
            let mut sender = respond
                .send_response(answer.body(()).unwrap(), false)
                .unwrap();
            while let Some(piece) = body.data().await {
                let Ok(mut piece) = piece else {
                    return;
                };
                while !piece.is_empty() {
                    sender.reserve_capacity(piece.len());
                    let room = std::future::poll_fn(|cx| sender.poll_capacity(cx)).await;
                    let Some(Ok(room)) = room else {
                        return;
                    };
                    let part = piece.split_to(room.min(piece.len()));
                    let _ = body.flow_control().release_capacity(part.len());
                    if sender.send_data(part, false).is_err() {
                        return;
                    }
                }
            }
            let trailers = body.trailers().await.ok().flatten();
            let _ = match trailers {
                Some(trailers) => sender.send_trailers(trailers),
                None => sender.send_trailers(HeaderMap::new()),
            };
        });
    }
}

struct Call {
    line: String,
    body: Vec<u8>,
    sent: usize,
    got: Vec<u8>,
    has_trailers: bool,
    had_trailers: bool,
}

/// Asks so many times.
async fn ask_all(link: DuplexStream, mut chance: Chance, count: usize) {
    let mut connection = Connection::client(Limits::default(), Duration::ZERO);
    let now = Duration::ZERO;
    let (mut reader, mut writer) = tokio::io::split(link);
    let (mut input, mut turn) = (Vec::new(), Turn::new());
    let mut calls: BTreeMap<StreamId, Call> = BTreeMap::new();
    let (mut asked, mut done) = (0, 0);
    while done < count {
        while asked < count && connection.may_ask() {
            let method = ["GET", "POST", "PUT"][chance.below(3)];
            let path = format!("/{}", chance.next());
            let len = [0, 1, 1000, 100_000, 300_000][chance.below(5)];
            let body: Vec<u8> = (0..len).map(|at| (at * 7 + at / 253) as u8).collect();
            let fields = block(&[("x-long", &"v".repeat(chance.below(30_000)))]);
            let head = [request_block(method, &path), fields].concat();
            let of = Asked {
                is_head: false,
                ends: len == 0,
            };
            let stream = connection.request([&head, b""], of, now).unwrap();
            let call = Call {
                line: format!("{method} http://a.example{path}"),
                has_trailers: len > 0 && chance.one_in(2),
                body,
                sent: 0,
                got: Vec::new(),
                had_trailers: false,
            };
            calls.insert(stream, call);
            asked += 1;
        }
        for (&stream, call) in &mut calls {
            if call.sent < call.body.len() && connection.queued(stream) < 50_000 {
                let end = call.body.len().min(call.sent + 1 + chance.below(40_000));
                let piece = Bytes::copy_from_slice(&call.body[call.sent..end]);
                connection.piece(stream, piece, now);
                call.sent = end;
                match call.has_trailers {
                    _ if end < call.body.len() => {}
                    true => connection.trailers(stream, block(&[("checked", "yes")])),
                    false => connection.end(stream),
                }
            }
        }
        if turn.is_empty() {
            connection.poll_output(&mut turn, 1 + chance.below(100_000), now);
        }
        let most = turn.chunk().len().min(1 + chance.below(9000));
        let mut room = vec![0; 1 + chance.below(20_000)];
        let read = tokio::select! {
            written = writer.write(&turn.chunk()[..most]), if most > 0 => {
                turn.advance(written.unwrap());
                continue;
            }
            read = reader.read(&mut room) => read.unwrap(),
        };
        assert!(read > 0, "the server has gone");
        input.extend_from_slice(&room[..read]);
        loop {
            let taken = connection.handle_input(&input, now).unwrap();
            let bytes = taken.bytes;
            let ended;
            let mut took = None;
            match taken.event {
                None => {
                    input.drain(..bytes);
                    break;
                }
                Some(Event::Response { stream, head }) => {
                    let line = head.fields.first(b"asked").unwrap().to_vec();
                    assert_eq!(
                        (head.status, &line[..]),
                        (207, calls[&stream].line.as_bytes())
                    );
                    ended = head.ends.then_some(stream);
                }
                Some(Event::Data {
                    stream,
                    bytes,
                    ends,
                }) => {
                    calls.get_mut(&stream).unwrap().got.extend_from_slice(bytes);
                    took = Some((stream, bytes.len()));
                    ended = ends.then_some(stream);
                }
                Some(Event::Trailers { stream, fields }) => {
                    let is_so = fields.first(b"checked") == Some(b"yes");
                    calls.get_mut(&stream).unwrap().had_trailers = is_so;
                    ended = Some(stream);
                }
                Some(event) => panic!("{event:?}"),
            }
            if let Some((stream, len)) = took {
                connection.consumed(stream, len);
            }
            if let Some(stream) = ended {
                let call = calls.remove(&stream).unwrap();
                assert_eq!(
                    (call.got.len(), call.sent),
                    (call.body.len(), call.body.len())
                );
                assert!(call.got == call.body && call.had_trailers == call.has_trailers);
                connection.release(stream);
                done += 1;
            }
            input.drain(..bytes);
        }
    }
    assert_eq!(connection.fatal(), None);
}

#[test]
fn the_h2_crate_as_server() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    for seed in 0..6 {
        let mut chance = Chance::of_seed(seed);
        let (near, far) = tokio::io::duplex(1 + chance.below(70_000));
        let local = tokio::task::LocalSet::new();
        runtime.block_on(local.run_until(async {
            tokio::task::spawn_local(echo(far, Chance::of_seed(seed + 1000)));
            ask_all(near, chance, 100).await;
        }));
    }
}
