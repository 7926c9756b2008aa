//! The `h2` crate as client of our server, in memory: our side sees the requests it sent, and it receives the answers we sent.

use std::time::Duration;

use bytes::{Buf, Bytes};
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use http2::{Connection, Event, Limits, StreamId, Turn, write_field, write_lines, write_status};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::link::Chance;

/// Answers each request with its own fields under names with the prefix `x-`, its body, and trailers if it had some.
async fn echo(link: DuplexStream, seed: u64) {
    let mut chance = Chance::of_seed(seed);
    let mut connection = Connection::new(Limits::default(), Duration::ZERO);
    let (mut input, mut turn) = (Vec::new(), Turn::new());
    let now = Duration::ZERO;
    let (mut reader, mut writer) = tokio::io::split(link);
    loop {
        if turn.is_empty() {
            connection.poll_output(&mut turn, 1 + chance.below(100_000), now);
        }
        assert_eq!(connection.fatal(), None);
        // Read while a write waits, because a link that is full both ways would deadlock.
        let mut room = vec![0; 1 + chance.below(20_000)];
        let most = turn.chunk().len().min(1 + chance.below(9000));
        let read = tokio::select! {
            written = writer.write(&turn.chunk()[..most]), if most > 0 => match written {
                Ok(written) => {
                    turn.advance(written);
                    continue;
                }
                Err(_) => return,
            },
            read = reader.read(&mut room) => read,
        };
        match read {
            Ok(0) | Err(_) => return,
            Ok(len) => input.extend_from_slice(&room[..len]),
        }
        loop {
            let taken = connection.handle_input(&input, now).unwrap();
            let bytes = taken.bytes;
            let Some(event) = taken.event else {
                input.drain(..bytes);
                break;
            };
            let step = step(event);
            input.drain(..bytes);
            match step {
                Step::Begin(stream, block, ends) => connection.begin(stream, [&block, b""], ends),
                Step::Piece(stream, piece, ends) => {
                    connection.consumed(stream, piece.len());
                    connection.piece(stream, piece, now);
                    if ends {
                        connection.end(stream);
                    }
                }
                Step::Trailers(stream, block) => connection.trailers(stream, block),
                Step::Release(stream) => connection.release(stream),
                Step::None => {}
            }
        }
    }
}

enum Step {
    None,
    Begin(StreamId, Vec<u8>, bool),
    Piece(StreamId, Bytes, bool),
    Trailers(StreamId, Vec<u8>),
    Release(StreamId),
}

fn step(event: Event<'_>) -> Step {
    match event {
        Event::Request { stream, head } => {
            let mut block = Vec::new();
            write_status(207, &mut block);
            let line = format!("{} {} {}", head.method, head.authority, head.path);
            write_field(b"asked", line.as_bytes(), &mut block);
            for (name, value) in head.fields.iter() {
                write_field(&[b"x-", name].concat(), value, &mut block);
            }
            Step::Begin(stream, block, head.ends)
        }
        Event::Data {
            stream,
            bytes,
            ends,
        } => Step::Piece(stream, Bytes::copy_from_slice(bytes), ends),
        Event::Trailers { stream, fields } => {
            let mut block = Vec::new();
            write_lines(fields.as_wire(), &mut block);
            Step::Trailers(stream, block)
        }
        Event::Reset { stream, .. } => Step::Release(stream),
        Event::Refused(fault) => panic!("{fault}"),
        Event::Response { .. } | Event::GoAway(_) => Step::None,
    }
}

fn random_headers(chance: &mut Chance) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for _ in 0..chance.below(15) {
        // Few names and values, so that the dynamic table is used; some of them long, so that entries leave it.
        let name = [
            "accept",
            "user-agent",
            "a",
            "x-long-name-of-a-field",
            "authorization",
            "referer",
        ][chance.below(6)];
        let value: Vec<u8> = match chance.below(4) {
            0 => b"same".to_vec(),
            1 => vec![b'a' + chance.below(3) as u8; 1 + chance.below(900)],
            2 => (0..chance.below(30))
                .map(|_| 0x80 | chance.next() as u8)
                .collect(),
            _ => chance.next().to_string().into_bytes(),
        };
        headers.append(
            HeaderName::from_static(name),
            HeaderValue::from_bytes(&value).unwrap(),
        );
    }
    headers
}

async fn one(mut client: h2::client::SendRequest<Bytes>, mut chance: Chance) {
    let headers = random_headers(&mut chance);
    let path = format!("/{}", chance.next());
    let mut request = Request::post(format!("http://a.example{path}"))
        .body(())
        .unwrap();
    *request.headers_mut() = headers.clone();
    let len = [0, 1, 1000, 100_000, 300_000][chance.below(5)];
    let body: Bytes = (0..len).map(|at| (at * 7 + at / 253) as u8).collect();
    let has_trailers = len > 0 && chance.one_in(2);
    let is_cancelled = chance.one_in(8);
    client = client.ready().await.unwrap();
    let (answer, mut sender) = client.send_request(request, len == 0).unwrap();
    let upload = body.clone();
    let sending = async move {
        if len == 0 {
            return;
        }
        let mut left = upload;
        while !left.is_empty() {
            sender.reserve_capacity(left.len());
            let Some(Ok(room)) = std::future::poll_fn(|cx| sender.poll_capacity(cx)).await else {
                return;
            };
            let piece = left.split_to(room.min(left.len()));
            if is_cancelled && left.len() < 50_000 {
                sender.send_reset(h2::Reason::CANCEL);
                return;
            }
            let ends = left.is_empty() && !has_trailers;
            if sender.send_data(piece, ends).is_err() {
                return;
            }
        }
        if has_trailers {
            let mut trailers = HeaderMap::new();
            trailers.insert("checked", HeaderValue::from_static("yes"));
            sender.send_trailers(trailers).unwrap();
        }
    };
    let reading = async move {
        let answer = match answer.await {
            Ok(answer) => answer,
            Err(_) if is_cancelled && len > 0 => return,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(answer.status(), 207);
        assert_eq!(answer.headers()["asked"], format!("POST a.example {path}"));
        for name in headers.keys() {
            let got: Vec<_> = answer
                .headers()
                .get_all(format!("x-{name}"))
                .iter()
                .collect();
            let sent: Vec<_> = headers.get_all(name).iter().collect();
            assert_eq!(got, sent, "{name}");
        }
        let mut stream = answer.into_body();
        let mut got = Vec::new();
        while let Some(piece) = stream.data().await {
            let Ok(piece) = piece else {
                assert!(is_cancelled);
                return;
            };
            stream.flow_control().release_capacity(piece.len()).unwrap();
            got.extend_from_slice(&piece);
        }
        if is_cancelled && len > 0 {
            return;
        }
        assert_eq!(got, body);
        let trailers = stream.trailers().await.unwrap();
        assert_eq!(
            trailers.is_some_and(|trailers| trailers["checked"] == "yes"),
            has_trailers
        );
    };
    tokio::join!(sending, reading);
}

#[test]
fn the_h2_crate_as_client() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    for seed in 0..6 {
        let mut chance = Chance::of_seed(seed);
        let (near, far) = tokio::io::duplex(1 + chance.below(70_000));
        runtime.block_on(async {
            let local = tokio::task::LocalSet::new();
            local
                .run_until(async {
                    tokio::task::spawn_local(echo(far, seed));
                    let mut builder = h2::client::Builder::new();
                    builder.initial_window_size([1000, 65_535, 1 << 20][chance.below(3)]);
                    builder.header_table_size([0, 100, 4096, 1 << 16][chance.below(4)]);
                    let (client, connection) = builder.handshake::<_, Bytes>(near).await.unwrap();
                    tokio::task::spawn_local(connection);
                    let tasks: Vec<_> = (0..30)
                        .map(|at| {
                            tokio::task::spawn_local(one(
                                client.clone(),
                                Chance::of_seed(seed * 1000 + at),
                            ))
                        })
                        .collect();
                    for task in tasks {
                        task.await
                            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                    }
                })
                .await;
        });
    }
}
