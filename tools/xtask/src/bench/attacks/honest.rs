//! The honest client, whose answers must not be delayed: one connection, one request at a time, with pauses.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::failure::{During, Failure, Result};
use crate::h2_load::frame;
use crate::origin;
use crate::rivals::front::Front;

/// Longest time of an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause between an answer and the next request: at most a thousand requests a second, so that this client is not the load.
const PAUSE: Duration = Duration::from_millis(1);
const WINDOW: u32 = 0x3fff_ffff;
/// A connection is replaced after this many answers, long before a window or a limit ends it.
const ANSWERS_MAX: u32 = 20_000;

pub const OBJECT_BYTES: u64 = 10_000;

trait Duplex: Read + Write {}
impl<S: Read + Write> Duplex for S {}

struct Client {
    stream: Box<dyn Duplex>,
    next_id: u32,
    room: Vec<u8>,
}

/// Makes requests until stopped; returns the time of each answer in microseconds.
pub fn ask(
    front: &Front,
    config: Option<Arc<ClientConfig>>,
    is_stopped: &AtomicBool,
) -> Result<Vec<u32>> {
    let during = || format!("asking {}", front.address);
    let mut latencies = Vec::new();
    let mut client = Client::connect(front, config.clone()).during(during)?;
    while !is_stopped.load(Ordering::Relaxed) {
        if client.next_id > 2 * ANSWERS_MAX {
            client = Client::connect(front, config.clone()).during(during)?;
        }
        let asked = Instant::now();
        client.get(&front.address.to_string()).during(during)?;
        let took = asked.elapsed().as_micros();
        latencies.push(u32::try_from(took).unwrap_or(u32::MAX));
        std::thread::sleep(PAUSE);
    }
    if latencies.is_empty() {
        return Err(Failure::new("the honest client had no time"));
    }
    latencies.sort_unstable();
    Ok(latencies)
}

/// Requests a hit by plain HTTP/1, on a listener without an attack, until stopped; returns the time of each answer in microseconds.
pub fn hits(address: SocketAddr, is_stopped: &AtomicBool) -> Result<Vec<u32>> {
    let mut client = crate::http::Client::new(address);
    let mut latencies = Vec::new();
    while !is_stopped.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let answer = client.get(&origin::path(OBJECT_BYTES, "hot"))?;
        if answer.status != 200 {
            return Err(Failure::new(format!("a hit is answered {}", answer.status)));
        }
        latencies.push(u32::try_from(asked.elapsed().as_micros()).unwrap_or(u32::MAX));
        std::thread::sleep(PAUSE);
    }
    latencies.sort_unstable();
    match latencies.is_empty() {
        true => Err(Failure::new("the honest client had no time")),
        false => Ok(latencies),
    }
}

impl Client {
    fn connect(front: &Front, config: Option<Arc<ClientConfig>>) -> io::Result<Self> {
        let socket = TcpStream::connect(front.address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut stream: Box<dyn Duplex> = match config {
            None => Box::new(socket),
            Some(config) => {
                let name = ServerName::IpAddress(front.address.ip().into());
                let session = ClientConnection::new(config, name).map_err(io::Error::other)?;
                Box::new(StreamOwned::new(session, socket))
            }
        };
        let mut hello = http2::PREFACE.to_vec();
        let window = [&[0, 4][..], &WINDOW.to_be_bytes()].concat();
        frame(4, 0, 0, &window, &mut hello);
        frame(8, 0, 0, &WINDOW.to_be_bytes(), &mut hello);
        stream.write_all(&hello)?;
        stream.flush()?;
        let mut client = Self {
            stream,
            next_id: 1,
            room: vec![0; 16_384],
        };
        // The first request is a miss, or waits for the handshake.
        client.get(&front.address.to_string())?;
        Ok(client)
    }

    /// Makes one request, and reads its answer to the end.
    fn get(&mut self, authority: &str) -> io::Result<()> {
        // :method GET, :scheme http, then two literals without indexing.
        let mut block = vec![0x82, 0x86];
        for (index, text) in [(1, authority), (4, &origin::path(OBJECT_BYTES, "hot")[..])] {
            block.extend_from_slice(&[index, text.len() as u8]);
            block.extend_from_slice(text.as_bytes());
        }
        let mut out = Vec::with_capacity(128);
        frame(1, 5, self.next_id, &block, &mut out);
        self.stream.write_all(&out)?;
        self.stream.flush()?;
        let mut body_bytes = 0;
        loop {
            let mut header = [0; 9];
            self.stream.read_exact(&mut header)?;
            let [a, b, c, kind, flags, rest @ ..] = header;
            let len = u32::from_be_bytes([0, a, b, c]) as usize;
            let payload = &mut self.room[..len];
            self.stream.read_exact(payload)?;
            let is_own = u32::from_be_bytes(rest) == self.next_id;
            match kind {
                4 if flags & 1 == 0 => {
                    let mut ack = Vec::new();
                    frame(4, 1, 0, &[], &mut ack);
                    self.stream.write_all(&ack)?;
                }
                // Status 200 is one byte in HPACK.
                1 if !is_own || payload.first() != Some(&0x88) => {
                    return Err(io::Error::other("an answer that is not 200"));
                }
                0 => body_bytes += len as u64,
                3 | 7 => return Err(io::Error::other("the connection or the stream was ended")),
                _ => {}
            }
            if matches!(kind, 0 | 1) && flags & 1 != 0 {
                break;
            }
        }
        if body_bytes != OBJECT_BYTES {
            return Err(io::Error::other(format!("a body of {body_bytes} bytes")));
        }
        self.next_id += 2;
        Ok(())
    }
}
