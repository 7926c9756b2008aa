//! A server for trying the crate alone with other people's clients: h2spec, h2load, curl.
//!
//! `cargo run --example serve -p http2 -- 127.0.0.1:8080`, then `curl --http2-prior-knowledge http://127.0.0.1:8080/1000`. A path that is a
//! number is answered with so many bytes; a body is sent back, with its trailers.

use std::io::{IoSlice, Result};
use std::time::Instant;

use bytes::{Buf, Bytes, BytesMut};
use http2::{Connection, Event, Limits, StreamId, Turn, write_field, write_lines, write_status};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const TURN_BYTES: usize = 256 * 1024;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let address = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:8080".into());
    let listener = TcpListener::bind(&address).await?;
    println!("http://{}", listener.local_addr()?);
    loop {
        let (socket, _) = listener.accept().await?;
        tokio::spawn(async move {
            if let Err(error) = serve(socket).await {
                eprintln!("{error}");
            }
        });
    }
}

async fn serve(mut socket: TcpStream) -> Result<()> {
    socket.set_nodelay(true)?;
    let start = Instant::now();
    let mut connection = Connection::new(Limits::default(), start.elapsed());
    let mut turn = Turn::new();
    let mut input = BytesMut::with_capacity(64 * 1024);
    let body = Bytes::from(vec![b'x'; 1 << 20]);
    loop {
        while connection.poll_output(&mut turn, TURN_BYTES, start.elapsed()) {
            write(&mut socket, &mut turn).await?;
        }
        if connection.is_over() {
            if let Some(fault) = connection.fatal() {
                eprintln!("{fault}");
            }
            socket.shutdown().await?;
            // Unread input would make a reset of the close.
            while socket.read_buf(&mut input).await? > 0 {
                input.clear();
            }
            return Ok(());
        }
        let tick = std::time::Duration::from_millis(250);
        match tokio::time::timeout(tick, socket.read_buf(&mut input)).await {
            Ok(read) => {
                if read? == 0 {
                    return Ok(());
                }
            }
            Err(_) => {
                while let Ok(Some(_)) = connection.handle_timeout(start.elapsed()) {}
                continue;
            }
        }
        let now = start.elapsed();
        while let Ok(taken) = connection.handle_input(&input, now) {
            let bytes = taken.bytes;
            let Some(event) = taken.event else {
                input.advance(bytes);
                if !connection.must_write() {
                    break;
                }
                while connection.poll_output(&mut turn, TURN_BYTES, now) {
                    write(&mut socket, &mut turn).await?;
                }
                continue;
            };
            let answer = act(event, &body);
            input.advance(bytes);
            answer.give(&mut connection, now);
        }
    }
}

/// What is to be done about an event, when nothing is borrowed from the connection any more.
enum Answer {
    None,
    Whole(StreamId, Vec<u8>, Bytes),
    Begin(StreamId, Vec<u8>),
    Echo(StreamId, Bytes, bool),
    Trailers(StreamId, Vec<u8>),
    Release(StreamId),
}

fn act(event: Event<'_>, body: &Bytes) -> Answer {
    match event {
        Event::Request { stream, head } => {
            let mut block = Vec::new();
            write_status(200, &mut block);
            write_field(b"server", b"http2-example", &mut block);
            if !head.ends {
                return Answer::Begin(stream, block);
            }
            let len = head.path[1..].parse().unwrap_or(1024).min(body.len());
            let length = len.to_string();
            write_field(b"content-length", length.as_bytes(), &mut block);
            let len = if head.method == "HEAD" { 0 } else { len };
            Answer::Whole(stream, block, body.slice(..len))
        }
        Event::Data {
            stream,
            bytes,
            ends,
        } => Answer::Echo(stream, Bytes::copy_from_slice(bytes), ends),
        Event::Trailers { stream, fields } => {
            let mut block = Vec::new();
            write_lines(fields.as_wire(), &mut block);
            Answer::Trailers(stream, block)
        }
        Event::Reset { stream, .. } => Answer::Release(stream),
        Event::Response { .. } | Event::Refused(_) | Event::GoAway(_) => Answer::None,
    }
}

impl Answer {
    fn give(self, connection: &mut Connection, now: std::time::Duration) {
        match self {
            Answer::None => {}
            Answer::Whole(stream, block, body) => {
                connection.begin(stream, [&block, b""], body.is_empty());
                if !body.is_empty() {
                    connection.piece(stream, body, now);
                    connection.end(stream);
                }
            }
            Answer::Begin(stream, block) => connection.begin(stream, [&block, b""], false),
            Answer::Echo(stream, piece, ends) => {
                connection.consumed(stream, piece.len());
                connection.piece(stream, piece, now);
                if ends {
                    connection.end(stream);
                    connection.release(stream);
                }
            }
            Answer::Trailers(stream, block) => connection.trailers(stream, block),
            Answer::Release(stream) => connection.release(stream),
        }
    }
}

async fn write(socket: &mut TcpStream, turn: &mut Turn) -> Result<()> {
    while turn.has_remaining() {
        let mut slices = [IoSlice::new(&[]); 64];
        let count = turn.chunks_vectored(&mut slices);
        let written = socket.write_vectored(&slices[..count]).await?;
        turn.advance(written);
    }
    Ok(())
}
