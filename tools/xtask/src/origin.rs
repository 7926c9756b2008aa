//! A small, fast origin server for benches and tests.
//!
//! `/size/<bytes>/<id>` answers that many bytes, the same ones for the same size and id, fresh for a day; `/passing/<bytes>/<id>` the
//! same, not to be stored. `/count` answers the number of these requests, by which a bench verifies that its hits were hits.
//! Everything else is 404.
//!
//! Each thread has its own listening socket (SO_REUSEPORT) and its own current-thread runtime. Of a request only the
//! request line and the empty line after its head are looked at. A body is a slice of one block of noise,
//! so an answer is one vectored write.
//!
//! A chunked request body is read to its end and dropped; it must fit where a head does.
//!
//! Not known here: other request bodies, ranges, conditions (an If-Modified-Since is answered 200).
//! Limits: a head of [`HEAD_BYTES_MAX`]; bodies of [`BODY_BYTES_MAX`].

use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::failure::{During, Result};
use crate::serving::Serving;

/// The longest request head; a longer one closes the connection.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// The largest body; a larger one is 404.
const BODY_BYTES_MAX: u64 = 16 << 30;
/// Bodies repeat after this many bytes.
const PERIOD: usize = 1 << 20;
/// Connections waiting to be accepted.
const BACKLOG: i32 = 4096;

/// Two periods of noise, so that any `PERIOD` bytes from any start below `PERIOD` are one slice.
static NOISE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut period = Vec::with_capacity(PERIOD);
    while period.len() < PERIOD {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        period.extend_from_slice(&state.to_le_bytes());
    }
    period.extend_from_within(..);
    period
});

/// The offset in the noise at which the body of this id begins (FNV-1a).
fn start_of(id: &[u8]) -> usize {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in id {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    (hash % PERIOD as u64) as usize
}

/// The path of an object.
pub fn path(bytes: u64, id: &str) -> String {
    format!("/size/{bytes}/{id}")
}

/// The path of an object whose answer may not be stored.
pub fn passing_path(bytes: u64, id: &str) -> String {
    format!("/passing/{bytes}/{id}")
}

/// Whether this is the body of `/size/<its length>/<id>`.
pub fn is_body_of(body: &[u8], id: &str) -> bool {
    Checking::of(id).takes(body)
}

/// Compares a body as it arrives.
pub struct Checking {
    at: usize,
}

impl Checking {
    /// The body of this id, from its beginning.
    pub fn of(id: &str) -> Self {
        Self {
            at: start_of(id.as_bytes()),
        }
    }

    /// Whether these are the next bytes of the body.
    pub fn takes(&mut self, piece: &[u8]) -> bool {
        piece.chunks(PERIOD).all(|piece| {
            let same = piece == &NOISE[self.at..self.at + piece.len()];
            self.at = (self.at + piece.len()) % PERIOD;
            same
        })
    }
}

/// A running origin; dropping it stops it.
pub struct Origin {
    serving: Serving,
    served: Arc<AtomicU64>,
}

impl Origin {
    /// Starts on 127.0.0.1; port 0 takes a free one.
    pub fn start(port: u16, threads: usize) -> Result<Self> {
        Self::start_at(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), threads)
    }

    /// Starts on an address of this machine; port 0 takes a free one.
    pub fn start_at(address: SocketAddr, threads: usize) -> Result<Self> {
        LazyLock::force(&NOISE);
        let first = listen(address).during(|| format!("the origin on {address}"))?;
        let address = first
            .local_addr()
            .during(|| "the origin's address".into())?;
        let mut listeners = vec![first];
        for _ in 1..threads.max(1) {
            listeners.push(listen(address).during(|| "one more listener".into())?);
        }
        let served = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&served);
        let serving = Serving::start(listeners, move |stream| serve(stream, Arc::clone(&counter)))?;
        Ok(Self { serving, served })
    }

    /// The listening address.
    pub fn address(&self) -> SocketAddr {
        self.serving.address()
    }

    /// `/size` requests so far.
    pub fn served(&self) -> u64 {
        self.served.load(Ordering::SeqCst)
    }

    /// The counter of `/size` requests, for callers that read it often.
    pub fn counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.served)
    }
}

fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = socket2::Socket::new(
        socket2::Domain::IPV4,
        socket2::Type::STREAM,
        Some(socket2::Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

async fn serve(mut stream: TcpStream, served: Arc<AtomicU64>) -> io::Result<()> {
    let mut buffer = vec![0_u8; HEAD_BYTES_MAX];
    let mut filled = 0;
    let mut clock = Clock::new();
    let mut head = Vec::with_capacity(256);
    loop {
        while let Some(end) = memchr::memmem::find(&buffer[..filled], b"\r\n\r\n") {
            let Some(body) = chunked_body_bytes(&buffer[..filled], end) else {
                break;
            };
            answer(&buffer[..end], &mut stream, &served, &mut clock, &mut head).await?;
            buffer.copy_within(end + 4 + body..filled, 0);
            filled -= end + 4 + body;
        }
        if filled == buffer.len() {
            return Ok(());
        }
        match stream.read(&mut buffer[filled..]).await? {
            0 => return Ok(()),
            n => filled += n,
        }
    }
}

/// The length of a small chunked body behind a head that ends at `head_end`; `None` if the body is incomplete and no answer is due.
fn chunked_body_bytes(bytes: &[u8], head_end: usize) -> Option<usize> {
    // The end of the last chunk, or of its trailers; the data of benches never contains it.
    const END: &[u8] = b"\r\n\r\n";
    let (head, body) = (&bytes[..head_end], &bytes[head_end + 4..]);
    match memchr::memmem::find(head, b": chunked") {
        Some(_) => Some(memchr::memmem::find(body, END)? + END.len()),
        None => Some(0),
    }
}

async fn answer(
    request: &[u8],
    stream: &mut TcpStream,
    served: &AtomicU64,
    clock: &mut Clock,
    head: &mut Vec<u8>,
) -> io::Result<()> {
    let line = request.split(|b| *b == b'\r').next().unwrap_or_default();
    let mut words = line.split(|b| *b == b' ');
    let (method, path) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    head.clear();
    if let Some((bytes, id, control)) = object(path) {
        served.fetch_add(1, Ordering::Relaxed);
        head.extend_from_slice(b"HTTP/1.1 200 OK\r\nServer: bench\r\nDate: ");
        head.extend_from_slice(clock.date());
        head.extend_from_slice(b"\r\nContent-Type: application/octet-stream\r\nContent-Length: ");
        head.extend_from_slice(bytes.to_string().as_bytes());
        head.extend_from_slice(b"\r\nCache-Control: ");
        head.extend_from_slice(control);
        head.extend_from_slice(b"\r\nLast-Modified: Sat, 01 Jan 2022 00:00:00 GMT\r\n\r\n");
        let bytes = if method == b"HEAD" { 0 } else { bytes };
        return write_body(stream, head, start_of(id), bytes).await;
    }
    let (status, body) = if path == b"/count" {
        ("200 OK", format!("{}\n", served.load(Ordering::SeqCst)))
    } else {
        ("404 Not Found", "unknown path\n".to_owned())
    };
    let length = body.len();
    head.extend_from_slice(
        format!("HTTP/1.1 {status}\r\nCache-Control: no-store\r\nContent-Length: {length}\r\n\r\n")
            .as_bytes(),
    );
    head.extend_from_slice(body.as_bytes());
    stream.write_all(head).await
}

/// Parses `/size/<bytes>/<id>`, with anything after the id; also returns the field about storing.
fn object(path: &[u8]) -> Option<(u64, &[u8], &'static [u8])> {
    let (rest, control): (_, &[u8]) = match path.strip_prefix(b"/size/") {
        Some(rest) => (rest, b"max-age=86400"),
        None => (path.strip_prefix(b"/passing/")?, b"no-store"),
    };
    let slash = memchr::memchr(b'/', rest)?;
    let bytes: u64 = std::str::from_utf8(&rest[..slash]).ok()?.parse().ok()?;
    (bytes <= BODY_BYTES_MAX).then_some((bytes, &rest[slash + 1..], control))
}

async fn write_body(
    stream: &mut TcpStream,
    head: &[u8],
    start: usize,
    bytes: u64,
) -> io::Result<()> {
    let mut at = start;
    let mut left = bytes;
    let mut head_sent = 0;
    while head_sent < head.len() || left > 0 {
        let piece = left.min(PERIOD as u64) as usize;
        let slices = [
            IoSlice::new(&head[head_sent..]),
            IoSlice::new(&NOISE[at..at + piece]),
        ];
        let n = stream.write_vectored(&slices).await?;
        if n == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let of_head = n.min(head.len() - head_sent);
        head_sent += of_head;
        let of_body = n - of_head;
        left -= of_body as u64;
        at = (at + of_body) % PERIOD;
    }
    Ok(())
}

/// The Date field, renewed once a second.
struct Clock {
    until: Instant,
    text: String,
}

impl Clock {
    fn new() -> Self {
        Self {
            until: Instant::now(),
            text: String::new(),
        }
    }

    fn date(&mut self) -> &[u8] {
        let now = Instant::now();
        if now >= self.until {
            self.until = now + Duration::from_secs(1);
            self.text = httpdate::fmt_http_date(SystemTime::now());
        }
        self.text.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Client;

    #[test]
    fn objects_have_the_size_and_bytes_of_their_name() {
        let origin = Origin::start(0, 2).unwrap();
        let mut client = Client::new(origin.address());
        for bytes in [0, 1, 10_240, 3 * PERIOD as u64 + 7] {
            let answer = client.get(&path(bytes, "x")).unwrap();
            assert_eq!((answer.status, answer.body.len() as u64), (200, bytes));
            assert!(is_body_of(&answer.body, "x"));
        }
        assert_eq!(origin.served(), 4);
        let counted = client.get("/count").unwrap();
        assert_eq!(counted.body, b"4\n");
    }

    #[test]
    fn different_ids_have_different_bytes() {
        let origin = Origin::start(0, 1).unwrap();
        let answer = Client::new(origin.address()).get(&path(100, "a")).unwrap();
        assert!(!is_body_of(&answer.body, "b"));
    }

    #[test]
    fn what_is_not_an_object_is_404() {
        let origin = Origin::start(0, 1).unwrap();
        let mut client = Client::new(origin.address());
        for path in ["/", "/size/many/x", "/size/5", "/size/99999999999999/x"] {
            assert_eq!(client.get(path).unwrap().status, 404, "{path}");
        }
        assert_eq!(origin.served(), 0);
    }
}
