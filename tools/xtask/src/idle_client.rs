//! `cargo xtask idle-client`: many idle connections.
//!
//! A process of its own, because client and server together would exceed one process's descriptor limit. Each connection
//! requests one object, so that the server has seen a complete exchange, and then stays idle. The client prints
//! `open <n>`, waits for its stdin to close, checks which connections the server has kept, prints `alive <n>` and ends.
//!
//! A source address serves [`CONNECTIONS_PER_SOURCE`] connections, well below the number of ephemeral ports.

use std::io::{self, ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::failure::{During, Result, fail};
use crate::h2_load;
use crate::origin;
use crate::rivals::front::Protocol;

const CONNECTIONS_PER_SOURCE: u32 = 5_000;
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Whom to keep connections to.
#[derive(Debug, Args)]
pub struct Options {
    /// The server
    #[arg(long)]
    target: SocketAddr,
    #[arg(long, default_value_t = 10_000)]
    connections: u32,
    /// What they speak
    #[arg(long, value_enum, default_value = "h1")]
    protocol: Protocol,
    /// The certificate that the server has, PEM
    #[arg(long)]
    certificate: Option<PathBuf>,
    /// The length of the object that each connection asks for once
    #[arg(long, default_value_t = 1024)]
    bytes: u64,
}

/// Opens the connections, waits, and checks them.
pub fn run(options: &Options) -> Result<()> {
    if !options.target.ip().is_loopback() {
        fail!("{} is not on this machine", options.target);
    }
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If the limit cannot be raised, opening too many connections fails and reports it.
    let _ = setrlimit(Resource::Nofile, limit);
    let alpn: &[u8] = match options.protocol.has_streams() {
        true => b"h2",
        false => b"http/1.1",
    };
    let connector = match (options.protocol.is_encrypted(), &options.certificate) {
        (true, Some(chain)) => Some(h2_load::connector(chain, alpn)?),
        (true, None) => fail!("--certificate is missing"),
        (false, _) => None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .during(|| "making a runtime".into())?;
    let mut streams = Vec::new();
    for n in 0..options.connections {
        let opened = async {
            let open = open(options, connector.as_ref(), n);
            let opened = tokio::time::timeout(WAIT_MAX, open).await;
            opened.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
        };
        let stream = runtime
            .block_on(opened)
            .during(|| format!("connection {n} to {}", options.target))?;
        streams.push(stream);
    }
    println!("open {}", streams.len());
    let mut nothing = Vec::new();
    std::io::stdin()
        .read_to_end(&mut nothing)
        .during(|| "waiting for stdin".into())?;
    let alive = streams.iter().filter(|s| is_open(s)).count();
    println!("alive {alive}");
    Ok(())
}

/// Opens a connection and reads one object on it.
async fn open(
    options: &Options,
    connector: Option<&TlsConnector>,
    n: u32,
) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    let group = n / CONNECTIONS_PER_SOURCE;
    let source = Ipv4Addr::new(127, 0, 1, 1 + (group % 250) as u8);
    socket.bind(SocketAddr::from((source, 0)))?;
    let socket = socket.connect(options.target).await?;
    let stream = match connector {
        None => ask(socket, options).await?,
        Some(connector) => {
            let name = ServerName::IpAddress(options.target.ip().into());
            let stream = connector.connect(name, socket).await?;
            ask(stream, options).await?.into_inner().0
        }
    };
    stream.into_std()
}

/// Makes one exchange; an error unless it is complete and correct.
async fn ask<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, options: &Options) -> io::Result<S> {
    let authority = options.target.to_string();
    if options.protocol.has_streams() {
        return h2_load::ask_once(stream, authority, options.bytes, WAIT_MAX).await;
    }
    let path = origin::path(options.bytes, "hot");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut answer = Vec::new();
    loop {
        if stream.read_buf(&mut answer).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if !b"HTTP/1.1 200".iter().zip(&answer).all(|(a, b)| a == b) {
            return Err(io::Error::other("an answer that is not 200"));
        }
        let head = answer.windows(4).position(|four| four == b"\r\n\r\n");
        if head.is_some_and(|head| (answer.len() - head - 4) as u64 >= options.bytes) {
            return Ok(stream);
        }
    }
}

/// Whether the server has kept the connection. Reads and drops bytes received meanwhile, such as tickets and pings.
fn is_open(mut stream: &TcpStream) -> bool {
    loop {
        match stream.read(&mut [0; 4096]) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}
