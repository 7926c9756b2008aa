//! Load over HTTP/2, as [`crate::wrk`] makes it over HTTP/1.1: keep-alive connections with several requests in flight on each.
//!
//! The client writes frames by hand and reads them with the decoder of crate `http2`. It runs on a thread of this process. Its own cost
//! does not matter, since CPU is read from the server's processes. All servers get the same requests: a first one that puts its
//! fields into the server's table, then indices. Every answer must have status 200 and a body of the right length.

use std::cell::Cell;
use std::fs;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http2::hpack::Decoder;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::failure::{During, Failure, Result};
use crate::origin;
use crate::rivals::front::Front;
use crate::wrk::{Figures, Load, Objects};

/// Flow-control window of a connection and of a stream: so large that it does not limit.
const WINDOW: u32 = 0x3fff_ffff;
/// After this many bytes the connection's window is replenished.
const CREDIT_BYTES: u32 = 1 << 24;
/// Size of a read. With a smaller one, answers that arrive together are read one by one, and each sends its next request alone.
const READ_BYTES: usize = 128 << 10;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

/// Runs the load to its end. An error, or an answer of wrong length, is a failure.
pub fn run(front: &Front, load: &Load, streams: u32) -> Result<Figures> {
    let connector = match front.protocol.is_encrypted() {
        true => Some(connector(&front.certificate.chain, b"h2")?),
        false => None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .during(|| "making a runtime".into())?;
    let begun = Instant::now();
    let shared = Rc::new(Shared {
        load: load.clone(),
        authority: front.address.to_string(),
        until: begun + load.time,
        next: Cell::new(match load.objects {
            Objects::Random { seed, .. } | Objects::Mixed { seed, .. } => seed,
            _ => 0,
        }),
    });
    let all = tokio::task::LocalSet::new();
    let latencies = all.block_on(&runtime, async {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..load.connections {
            let (shared, connector, address) = (shared.clone(), connector.clone(), front.address);
            tasks.spawn_local(async move {
                let socket = TcpStream::connect(address).await?;
                socket.set_nodelay(true)?;
                match connector {
                    None => latencies(Link::new(socket, shared, streams)).await,
                    Some(connector) => {
                        let name = ServerName::IpAddress(address.ip().into());
                        let stream = connector.connect(name, socket).await?;
                        latencies(Link::new(stream, shared, streams)).await
                    }
                }
            });
        }
        let mut latencies = Vec::new();
        while let Some(ended) = tasks.join_next().await {
            let ended = ended.map_err(io::Error::other).and_then(|ended| ended);
            latencies.extend(ended.during(|| format!("asking {} by HTTP/2", front.address))?);
        }
        Ok::<Vec<u32>, Failure>(latencies)
    });
    let mut latencies = latencies?;
    let seconds = begun.elapsed().as_secs_f64();
    if latencies.is_empty() {
        return Err(Failure::new(format!("{} answered nothing", front.address)));
    }
    latencies.sort_unstable();
    let at = |share: usize| f64::from(latencies[(latencies.len() - 1) * share / 100]);
    let requests = latencies.len() as u64;
    Ok(Figures {
        requests,
        received_bytes: requests * load.bytes,
        seconds,
        errors: 0,
        p50_us: at(50),
        p90_us: at(90),
        p98_us: at(98),
        p99_us: at(99),
    })
}

/// Requests one object of this size on a new connection; returns the connection once the whole answer was read.
///
/// # Errors
/// As of [`run`].
pub async fn ask_once<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    authority: String,
    bytes: u64,
    patience: Duration,
) -> io::Result<S> {
    let shared = Shared {
        load: Load {
            address: ([127, 0, 0, 1], 0).into(),
            is_encrypted: false,
            connections: 1,
            time: patience,
            bytes,
            objects: Objects::One { id: "hot".into() },
        },
        authority,
        until: Instant::now() + patience,
        next: Cell::new(0),
    };
    let mut link = Link::new(stream, Rc::new(shared), 1);
    link.answers_max = 1;
    link.play().await?;
    match link.latencies.is_empty() {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => Ok(link.stream),
    }
}

/// A TLS connector that trusts this certificate and offers this protocol.
pub fn connector(chain: &Path, alpn: &[u8]) -> Result<TlsConnector> {
    let pem = fs::read(chain).during(|| format!("reading {}", chain.display()))?;
    let certificate = CertificateDer::from_pem_slice(&pem)
        .map_err(|error| Failure::new(format!("{}: {error}", chain.display())))?;
    let mut roots = RootCertStore::empty();
    roots
        .add(certificate)
        .map_err(|error| Failure::new(format!("{}: {error}", chain.display())))?;
    let mut config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

struct Shared {
    load: Load,
    authority: String,
    until: Instant,
    /// State of the random numbers for ids.
    next: Cell<u64>,
}

impl Shared {
    fn path(&self) -> String {
        let id = match &self.load.objects {
            Objects::One { id } => id.clone(),
            Objects::Random { prefix, count, .. } | Objects::Mixed { prefix, count, .. } => {
                // splitmix64
                let mut z = self.next.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
                self.next.set(z);
                z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                format!("{prefix}{}", (z ^ (z >> 31)) % (*count).max(1))
            }
            Objects::Unique { prefix } => {
                let n = self.next.get();
                self.next.set(n + 1);
                format!("{prefix}{n}")
            }
        };
        origin::path(self.load.bytes, &id)
    }
}

/// A request in flight.
struct Asked {
    id: u32,
    at: Instant,
    body_bytes: u64,
    is_good: bool,
}

struct Link<S> {
    stream: S,
    shared: Rc<Shared>,
    streams: u32,
    decoder: Decoder,
    input: Vec<u8>,
    out: Vec<u8>,
    asked: Vec<Asked>,
    next_id: u32,
    credit: u32,
    latencies: Vec<u32>,
    /// The connection ends after this many answers.
    answers_max: usize,
}

/// Plays to the end; returns the time of each answer in microseconds.
async fn latencies<S: AsyncRead + AsyncWrite + Unpin>(mut link: Link<S>) -> io::Result<Vec<u32>> {
    link.play().await?;
    Ok(link.latencies)
}

/// Appends a frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    let len = (payload.len() as u32).to_be_bytes();
    out.extend_from_slice(&[len[1], len[2], len[3], kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

impl<S: AsyncRead + AsyncWrite + Unpin> Link<S> {
    fn new(stream: S, shared: Rc<Shared>, streams: u32) -> Self {
        Self {
            stream,
            shared,
            streams,
            decoder: Decoder::new(4096),
            input: Vec::new(),
            out: Vec::new(),
            asked: Vec::new(),
            next_id: 1,
            credit: 0,
            latencies: Vec::new(),
            answers_max: usize::MAX,
        }
    }

    /// Sends requests until the time is over, or there are enough answers.
    async fn play(&mut self) -> io::Result<()> {
        self.out.extend_from_slice(http2::PREFACE);
        let settings = [&[0, 2, 0, 0, 0, 0, 0, 4][..], &WINDOW.to_be_bytes()].concat();
        frame(SETTINGS, 0, 0, &settings, &mut self.out);
        frame(WINDOW_UPDATE, 0, 0, &WINDOW.to_be_bytes(), &mut self.out);
        loop {
            let is_enough = self.latencies.len() >= self.answers_max;
            if is_enough || Instant::now() >= self.shared.until {
                return Ok(());
            }
            while self.asked.len() < self.streams as usize {
                self.ask();
            }
            self.stream.write_all(&self.out).await?;
            self.stream.flush().await?;
            self.out.clear();
            self.input.reserve(READ_BYTES);
            let read = self.stream.read_buf(&mut self.input);
            let left = self.shared.until + Duration::from_millis(1);
            match tokio::time::timeout_at(left.into(), read).await {
                Err(_) => return Ok(()),
                Ok(read) => {
                    if read? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
            }
            let mut input = std::mem::take(&mut self.input);
            let taken = self.take(&input)?;
            input.drain(..taken);
            self.input = input;
        }
    }

    fn ask(&mut self) {
        // :method GET and :scheme https; https also on plain connections.
        let mut block = vec![0x82, 0x87];
        let is_one = matches!(self.shared.load.objects, Objects::One { .. });
        let literal = |first: u8, text: &str, block: &mut Vec<u8>| {
            block.extend_from_slice(&[first, text.len() as u8]);
            block.extend_from_slice(text.as_bytes());
        };
        match (self.next_id, is_one) {
            (1, _) => {
                literal(0x41, &self.shared.authority, &mut block);
                let path = self.shared.path();
                literal(if is_one { 0x44 } else { 0x04 }, &path, &mut block);
            }
            (_, true) => block.extend_from_slice(&[0xbf, 0xbe]),
            (_, false) => {
                block.push(0xbe);
                literal(0x04, &self.shared.path(), &mut block);
            }
        }
        frame(HEADERS, 5, self.next_id, &block, &mut self.out);
        self.asked.push(Asked {
            id: self.next_id,
            at: Instant::now(),
            body_bytes: 0,
            is_good: false,
        });
        self.next_id += 2;
    }

    /// Handles whole frames; returns how many bytes they had.
    fn take(&mut self, input: &[u8]) -> io::Result<usize> {
        let mut rest = input;
        while let [a, b, c, kind, flags, d, e, f, g, behind @ ..] = rest {
            let len = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            let Some((payload, behind)) = behind.split_at_checked(len) else {
                break;
            };
            let id = u32::from_be_bytes([*d, *e, *f, *g]);
            self.one(*kind, *flags, id, payload)?;
            rest = behind;
        }
        Ok(input.len() - rest.len())
    }

    fn one(&mut self, kind: u8, flags: u8, id: u32, payload: &[u8]) -> io::Result<()> {
        let wrong = |what: &str| Err(io::Error::other(format!("{what} on stream {id}")));
        match kind {
            DATA => {
                self.credit += payload.len() as u32;
                if self.credit >= CREDIT_BYTES {
                    let credit = std::mem::take(&mut self.credit).to_be_bytes();
                    frame(WINDOW_UPDATE, 0, 0, &credit, &mut self.out);
                }
                let padding = match payload.first() {
                    Some(padding) if flags & 8 != 0 => usize::from(*padding) + 1,
                    _ => 0,
                };
                let Some(asked) = self.asked.iter_mut().find(|asked| asked.id == id) else {
                    return wrong("DATA");
                };
                asked.body_bytes += (payload.len() - padding) as u64;
            }
            HEADERS => {
                if flags & 0x2c != 4 {
                    return wrong("a head in parts, padded or with a priority");
                }
                let mut is_good = false;
                let read = self.decoder.decode(payload, |field| {
                    is_good |= field.name == b":status" && field.value == b"200";
                });
                let asked = self.asked.iter_mut().find(|asked| asked.id == id);
                let (Ok(()), Some(asked), true) = (read, asked, is_good) else {
                    return wrong("an answer that is not 200");
                };
                asked.is_good = true;
            }
            SETTINGS if flags & 1 == 0 => frame(SETTINGS, 1, 0, &[], &mut self.out),
            PING if flags & 1 == 0 => frame(PING, 1, 0, payload, &mut self.out),
            RST_STREAM => return wrong("RST_STREAM"),
            GOAWAY => return wrong("GOAWAY"),
            _ => {}
        }
        if matches!(kind, DATA | HEADERS) && flags & 1 != 0 {
            let at = self.asked.iter().position(|asked| asked.id == id);
            let asked = self.asked.swap_remove(at.expect("it was found"));
            if !asked.is_good || asked.body_bytes != self.shared.load.bytes {
                return wrong(&format!("{} bytes", asked.body_bytes));
            }
            let took = asked.at.elapsed().as_micros();
            self.latencies.push(u32::try_from(took).unwrap_or(u32::MAX));
        }
        Ok(())
    }
}
