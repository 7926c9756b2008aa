//! `cargo xtask idle-client`: many keep-alive connections that do nothing.
//!
//! A process of its own, because client and server together would exceed one process's descriptor limit. Each connection
//! asks for one object, so that the server has seen a complete exchange, and then stays silent. The client prints
//! `open <n>`, waits for its stdin to close, looks which connections the server has kept, prints `alive <n>` and ends.
//!
//! A source address serves [`CONNECTIONS_PER_SOURCE`] connections, well below the number of ephemeral ports.

use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use clap::Args;
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::failure::{During, Failure, Result, fail};

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
    /// What each connection asks for once
    #[arg(long, default_value = "/size/1024/hot")]
    path: String,
}

/// Opens, waits, looks.
pub fn run(options: &Options) -> Result<()> {
    if !options.target.ip().is_loopback() {
        fail!("{} is not on this machine", options.target);
    }
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // With the limit it had, fewer connections may be possible; opening them says so.
    let _ = setrlimit(Resource::Nofile, limit);
    let mut streams = Vec::new();
    for n in 0..options.connections {
        let stream = open(options, n).during(|| format!("connection {n} to {}", options.target))?;
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

fn open(options: &Options, n: u32) -> Result<TcpStream> {
    let socket = socket2::Socket::new(
        socket2::Domain::IPV4,
        socket2::Type::STREAM,
        Some(socket2::Protocol::TCP),
    )
    .during(|| "making a socket".into())?;
    let group = n / CONNECTIONS_PER_SOURCE;
    let source = Ipv4Addr::new(127, 0, 1, 1 + (group % 250) as u8);
    socket
        .bind(&SocketAddr::from((source, 0)).into())
        .during(|| format!("binding to {source}"))?;
    socket
        .connect_timeout(&options.target.into(), WAIT_MAX)
        .during(|| "connecting".into())?;
    let stream: TcpStream = socket.into();
    stream
        .set_read_timeout(Some(WAIT_MAX))
        .during(|| "setting a time-out".into())?;
    let mut connection = wire::Connection::new(&stream);
    ask(&mut connection, options).map_err(|cut| Failure::new(cut.to_string()))?;
    Ok(stream)
}

/// One exchange that is complete and good.
fn ask(connection: &mut wire::Connection<&TcpStream>, options: &Options) -> Result<(), wire::Cut> {
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\n\r\n",
        options.path, options.target
    );
    connection.send(request.as_bytes())?;
    let head: wire::Response = connection.head()?;
    if head.status != 200 {
        return Err(wire::Malformed(format!("status {}", head.status)).into());
    }
    connection.body(head.framing("GET")?, &mut |_| true)?;
    Ok(())
}

/// Nothing to read and not closed.
fn is_open(stream: &TcpStream) -> bool {
    let looked = stream
        .set_nonblocking(true)
        .and_then(|()| stream.peek(&mut [0]));
    matches!(looked, Err(e) if e.kind() == ErrorKind::WouldBlock)
}
