//! Tunnels: bytes between a client and a server through the proxy, with CONNECT.
//!
//! A client draws how much each side sends and which side ends first. The server finds this by the number that the client sends first.
//! Either side may break off. Bytes that leave at one end are compared with those that entered at the other (R11).
//!
//! Not known here: HTTP, except the head of CONNECT.

use std::{io, net::SocketAddr, time::Duration};

use ::h2::{RecvStream, SendStream};
use bytes::Bytes;
use proxy::simulation::Socket;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf},
    time::{sleep, timeout},
};

use crate::{
    ask::upload_bytes,
    h2,
    http::Stream,
    life::Listener,
    world::{Shared, World},
};

/// A tunnel must have ended after this long (R7).
const ENDS_WITHIN: Duration = Duration::from_secs(300);
/// Most bytes in one direction.
const BYTES_MAX: usize = 60_000;
/// Addresses of tunnel servers: one that every listener leads to, and one inside.
pub const SERVERS: [([u8; 4], &str); 2] = [
    ([203, 0, 113, 3], "203.0.113.3"),
    ([127, 0, 0, 8], "127.0.0.8"),
];
/// The port that tunnels may lead to, and one that they may not.
const PORTS: [u16; 2] = [443, 25];

/// Whether there is a tunnel server at this address.
pub fn is_server(at: SocketAddr) -> bool {
    SERVERS
        .iter()
        .any(|server| at.ip() == std::net::IpAddr::from(server.0))
}

/// One end of a tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The end that opened the tunnel.
    Client,
    /// The end that it leads to.
    Server,
}

/// The random choices for a tunnel.
#[derive(Clone, Debug)]
pub struct Drawn {
    up: usize,
    down: usize,
    /// The side that ends its direction as soon as it has sent all; the other side waits for that end.
    first: Side,
    breaks_off: Option<Side>,
    may_be: bool,
    /// Number of ends of the proxy when the tunnel was drawn.
    ends: u64,
}

/// Draws a tunnel; returns its number and destination.
pub fn draw(world: &mut World, led: &Listener) -> (u64, String) {
    let random = &mut world.random;
    let (inside, bad_port) = (random.one_in(6), random.one_in(8));
    let drawn = Drawn {
        up: random.index(BYTES_MAX),
        down: random.index(BYTES_MAX),
        first: random.pick(&[Side::Client, Side::Server]),
        breaks_off: random.pick(&[None, None, None, Some(Side::Client), Some(Side::Server)]),
        may_be: !bad_port && (led.leads_inside || !inside),
        ends: world.ends,
    };
    world.counts.tunnels += 1;
    world.tunnels.push(drawn);
    let port = PORTS[usize::from(bad_port)];
    let number = world.tunnels.len() as u64 - 1;
    (number, format!("{}:{port}", SERVERS[usize::from(inside)].1))
}

/// The receiving direction of a tunnel.
pub enum In {
    /// A connection, with bytes that were already read from it.
    Conn(ReadHalf<Socket>, Bytes),
    /// A stream of HTTP/2.
    Stream(RecvStream),
}

/// The sending direction of a tunnel.
pub enum Out {
    /// A connection.
    Conn(WriteHalf<Socket>),
    /// A stream of HTTP/2.
    Stream(SendStream<Bytes>),
}

impl In {
    /// Some bytes; empty at the end.
    async fn more(&mut self) -> io::Result<Bytes> {
        match self {
            In::Conn(_, read) if !read.is_empty() => Ok(std::mem::take(read)),
            In::Conn(socket, _) => {
                let mut piece = vec![0; 4096];
                let n = socket.read(&mut piece).await?;
                piece.truncate(n);
                Ok(piece.into())
            }
            In::Stream(stream) => match stream.data().await {
                None => Ok(Bytes::new()),
                Some(Err(error)) => Err(io::Error::other(error)),
                Some(Ok(piece)) => {
                    let _ = stream.flow_control().release_capacity(piece.len());
                    Ok(piece)
                }
            },
        }
    }
}

impl Out {
    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Out::Conn(socket) => socket.write_all(bytes).await,
            Out::Stream(stream) => h2::send(stream, bytes, false).await,
        }
    }

    async fn end(&mut self) -> io::Result<()> {
        match self {
            Out::Conn(socket) => socket.shutdown().await,
            Out::Stream(stream) => h2::send(stream, b"", true).await,
        }
    }
}

/// The bytes that this side sends.
fn words(number: u64, drawn: &Drawn, side: Side) -> Vec<u8> {
    match side {
        Side::Client => [&number.to_le_bytes()[..], &upload_bytes(number, drawn.up)].concat(),
        Side::Server => upload_bytes(!number, drawn.down),
    }
}

/// Sends and receives at one side, after `said` and `heard` bytes, and checks what arrives (R11).
async fn talk(
    world: &Shared,
    number: u64,
    side: Side,
    (mut input, mut out): (In, Out),
    heard: usize,
    said: usize,
) {
    let drawn = world.borrow().tunnels[number as usize].clone();
    let (mine, theirs) = match side {
        Side::Client => (Side::Client, Side::Server),
        Side::Server => (Side::Server, Side::Client),
    };
    let (mine, theirs) = (words(number, &drawn, mine), words(number, &drawn, theirs));
    let breaks_at = match drawn.breaks_off == Some(side) {
        true => world.borrow_mut().random.index(mine.len().max(1)),
        false => usize::MAX,
    };
    let (other_ends, ended) = tokio::sync::oneshot::channel::<()>();
    let speaking = async {
        let mut at = said;
        while at < mine.len() {
            let (n, pause) = {
                let random = &mut world.borrow_mut().random;
                (1 + random.index(9000), random.below(30))
            };
            let to = mine.len().min(at + n);
            if at >= breaks_at {
                return Err(io::Error::from(io::ErrorKind::Interrupted));
            }
            out.send(&mine[at..to]).await?;
            at = to;
            sleep(Duration::from_millis(pause)).await;
        }
        if drawn.first != side {
            let _ = ended.await;
        }
        out.end().await
    };
    let listening = async {
        let mut at = heard;
        loop {
            let piece = match input.more().await {
                Ok(piece) if !piece.is_empty() => piece,
                ended => break (at, ended.is_ok(), true),
            };
            let to = at + piece.len();
            if theirs.get(at..to) != Some(&piece[..]) {
                break (at, false, false);
            }
            at = to;
        }
    };
    let listening = async {
        let heard = listening.await;
        drop(other_ends);
        heard
    };
    let both = async { tokio::join!(speaking, listening) };
    let talked = timeout(ENDS_WITHIN, async {
        if breaks_at == usize::MAX {
            return Some(both.await.1);
        }
        // Breaking off ends both directions.
        let _ = timeout(Duration::from_secs(2), both).await;
        None
    });
    let talked = talked.await;
    let mut world = world.borrow_mut();
    world.note(number);
    let (at, is_in_order, is_right) = match talked {
        Ok(Some(talked)) => talked,
        Ok(None) => return,
        Err(_) => return world.fail(format!("R7: tunnel {number} did not end"), None),
    };
    world.note(at as u64);
    let must_be_whole = drawn.breaks_off.is_none() && world.ends == drawn.ends && !world.is_ending;
    if !is_right {
        world.fail(
            format!("R11: byte {at} of tunnel {number} is wrong for the {side:?}"),
            None,
        );
    } else if at < theirs.len() && must_be_whole {
        let message = format!(
            "R11: of tunnel {number} the {side:?} gets {at} bytes of {}, in order: {is_in_order}, {drawn:?}",
            theirs.len()
        );
        world.fail(message, None);
    }
}

/// Opens a tunnel on a new connection, and talks through it.
pub async fn run(world: &Shared, socket: Socket, led: &Listener) {
    let (number, to, early) = {
        let mut world = world.borrow_mut();
        let (number, to) = draw(&mut world, led);
        (number, to, world.random.one_in(2))
    };
    let mut stream = Stream::new(socket);
    let mut request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n").into_bytes();
    if early {
        // Some clients do not wait for the answer.
        request.extend_from_slice(&number.to_le_bytes());
    }
    let asking = async {
        stream.socket.write_all(&request).await?;
        stream.response().await
    };
    let answer = match timeout(ENDS_WITHIN, asking).await {
        Ok(answer) => answer,
        Err(_) => {
            let message = format!("R7: nobody answers CONNECT to {to}");
            return world.borrow_mut().fail(message, None);
        }
    };
    let Ok(Some(head)) = answer else { return };
    if !is_opened(world, number, head.status(), &to) {
        return;
    }
    let (socket, read) = stream.into_parts();
    let (input, out) = tokio::io::split(socket);
    let heard = (In::Conn(input, read), Out::Conn(out));
    let said = if early { 8 } else { 0 };
    talk(world, number, Side::Client, heard, 0, said).await;
}

/// Talks through a tunnel that was opened on a stream.
pub async fn run_on_stream(world: &Shared, number: u64, input: RecvStream, out: SendStream<Bytes>) {
    talk(
        world,
        number,
        Side::Client,
        (In::Stream(input), Out::Stream(out)),
        0,
        0,
    )
    .await;
}

/// Whether the tunnel is open; fails the run if it may not be.
pub fn is_opened(world: &Shared, number: u64, status: u16, to: &str) -> bool {
    let mut world = world.borrow_mut();
    let is_opened = (200..300).contains(&status);
    world.note(u64::from(status));
    if is_opened && !world.tunnels[number as usize].may_be {
        world.fail(format!("R2: there is a tunnel to {to}"), None);
    }
    is_opened
}

/// The server's end of a tunnel.
pub async fn serve(world: &Shared, mut stream: Stream) {
    let Ok(Some(number)) = stream.number().await else {
        return;
    };
    if number as usize >= world.borrow().tunnels.len() {
        let message = format!("R11: a tunnel begins with {number}");
        return world.borrow_mut().fail(message, None);
    }
    let (socket, read) = stream.into_parts();
    let (input, out) = tokio::io::split(socket);
    talk(
        world,
        number,
        Side::Server,
        (In::Conn(input, read), Out::Conn(out)),
        8,
        0,
    )
    .await;
}
