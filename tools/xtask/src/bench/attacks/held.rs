//! What the server must hold for clients that read nothing, or little: `cargo xtask bench attacks --held`.
//!
//! Each way of not reading is tested with each protocol, with a small memory tier and a small transfer buffer. The server's resident
//! memory must stay below both and [`BESIDE_BYTES`] from the first connection on. The honest client's 99th percentile, from [`SETTLED`]
//! after the last connection was opened, must stay below twice its value without these clients.
//!
//! | | what the client does |
//! |---|---|
//! | `window0` | opens no window: only over HTTP/2, where the socket is read |
//! | `noread` | reads nothing |
//! | `slowread` | reads [`SIP_BYTES`] a second |
//!
//! The requested objects may not be stored, and are larger than the kernel's buffers for a client that does not read.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection};

use crate::failure::{During, Failure, Result};
use crate::h2_load::frame;
use crate::origin;
use crate::rivals::front::{Front, Protocol};

/// Size of the memory tier, and of the transfer buffer.
pub const SETTING_BYTES: u64 = 16 << 20;
/// Memory that the server may use in addition to its settings.
pub const BESIDE_BYTES: u64 = 64 << 20;

const SIP_BYTES: usize = 1 << 10;
const BODY_BYTES: u64 = 3_000_000;
const CONNECTIONS: usize = 1000;
const CONNECTIONS_OF_STREAMS: usize = 100;
const STREAMS: u32 = 100;
/// After this time the kernel's buffers for clients that do not read are full.
pub const SETTLED: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(10);

/// A way of not reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Window0,
    NoRead,
    SlowRead,
}

impl Way {
    pub fn name(self) -> &'static str {
        match self {
            Self::Window0 => "window0",
            Self::NoRead => "noread",
            Self::SlowRead => "slowread",
        }
    }

    /// The ways that exist over this protocol.
    pub fn of(protocol: Protocol) -> &'static [Way] {
        match protocol.has_streams() {
            true => &[Way::Window0, Way::NoRead, Way::SlowRead],
            false => &[Way::NoRead, Way::SlowRead],
        }
    }
}

/// Opens all connections, sends requests, and holds them until stopped. Returns how many the server has ended.
pub fn hold(
    way: Way,
    front: &Front,
    config: &Arc<ClientConfig>,
    (are_open, is_stopped): (&AtomicBool, &AtomicBool),
) -> Result<usize> {
    let during = || format!("holding {} by {}", front.address, way.name());
    let has_streams = front.protocol.has_streams();
    let connections = match has_streams {
        true => CONNECTIONS_OF_STREAMS,
        false => CONNECTIONS,
    };
    let mut sockets = Vec::new();
    for nth in 0..connections {
        if is_stopped.load(Ordering::Relaxed) {
            break;
        }
        let asked = match has_streams {
            true => of_streams(way, nth),
            false => of_one(front, nth),
        };
        sockets.push(open(front, config, &asked).during(during)?);
    }
    are_open.store(true, Ordering::Relaxed);
    let (mut ended, mut room) = (0, [0; 16 << 10]);
    let began = Instant::now();
    let mut sips = 0;
    while !is_stopped.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(100));
        let most = match way {
            Way::Window0 => room.len(),
            Way::NoRead => continue,
            Way::SlowRead if began.elapsed().as_secs() > sips => SIP_BYTES,
            Way::SlowRead => continue,
        };
        sips += 1;
        let before = sockets.len();
        sockets.retain_mut(|socket| match socket.read(&mut room[..most]) {
            Ok(n) => n > 0,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        });
        ended += before - sockets.len();
    }
    Ok(ended)
}

fn open(front: &Front, config: &Arc<ClientConfig>, asked: &[u8]) -> Result<TcpStream> {
    let during = || "connecting".into();
    let mut socket = TcpStream::connect(front.address).during(during)?;
    socket.set_read_timeout(Some(PATIENCE)).during(during)?;
    if front.protocol.is_encrypted() {
        let name = ServerName::IpAddress(front.address.ip().into());
        let mut session = ClientConnection::new(Arc::clone(config), name)
            .map_err(|error| Failure::new(error.to_string()))?;
        while session.is_handshaking() {
            session.complete_io(&mut socket).during(during)?;
        }
        session.writer().write_all(asked).during(during)?;
        while session.wants_write() {
            session.write_tls(&mut socket).during(during)?;
        }
    } else {
        socket.write_all(asked).during(during)?;
    }
    socket.set_nonblocking(true).during(during)?;
    Ok(socket)
}

fn of_one(front: &Front, nth: usize) -> Vec<u8> {
    let path = origin::passing_path(BODY_BYTES, &format!("held-{nth}"));
    format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", front.address).into_bytes()
}

fn of_streams(way: Way, nth: usize) -> Vec<u8> {
    let window: u32 = match way {
        Way::Window0 => 0,
        Way::NoRead | Way::SlowRead => 0x3fff_ffff,
    };
    let mut out = http2::PREFACE.to_vec();
    let setting = [&[0, 4][..], &window.to_be_bytes()].concat();
    frame(4, 0, 0, &setting, &mut out);
    frame(4, 1, 0, &[], &mut out);
    if window > 0 {
        frame(8, 0, 0, &window.to_be_bytes(), &mut out);
    }
    for stream in 0..STREAMS {
        let path = origin::passing_path(BODY_BYTES, &format!("held-{nth}-{stream}"));
        // :method GET, :scheme http, then two literals without indexing.
        let mut block = vec![0x82, 0x86];
        for (index, text) in [(1, "a.example"), (4, &path[..])] {
            block.extend_from_slice(&[index, text.len() as u8]);
            block.extend_from_slice(text.as_bytes());
        }
        frame(1, 5, 2 * stream + 1, &block, &mut out);
    }
    out
}
