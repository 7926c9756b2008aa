//! `cargo xtask bench handshakes`: the cost of a TLS connection, compared with the rivals.
//!
//! A client connects, makes a handshake, requests one object of 1 KiB that is in memory, sends close_notify and closes; a few clients do
//! so at a time. All servers are measured in turn, round after round, with full and resumed handshakes of TLS 1.3 and 1.2; the median
//! counts. CPU is that of all processes of the server, including the hit. An answer other than 200, or a failed resumption, is a failure.
//!
//! Limits: the clients share the cores with the server and cost as much as it does, so a rate depends on both.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned,
    SupportedProtocolVersion,
};

use super::stats::Spread;
use super::store::sheet::{Column, Figure, Sheet, Want};
use crate::failure::{During, Failure, Result, fail};
use crate::interrupt;
use crate::origin::{self, Origin};
use crate::progress::Progress;
use crate::rivals::front::{Front, KeyKind, Protocol};
use crate::rivals::{Request, Rival, Running, build_loligo, launch};

const OBJECT_BYTES: u64 = 1024;
/// Connections of a client before counting begins, so that it has a ticket.
const FIRST: u64 = 2;
const PATIENCE: Duration = Duration::from_secs(10);
/// Wanted ratio to nginx' CPU for a full handshake of TLS 1.3.
const WANTED: Want = Want::AtMost(0.75);

/// How to measure.
#[derive(Debug, Args)]
pub struct Options {
    /// Only these servers, by name
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "loligo,loligo-beside,nginx,haproxy"
    )]
    only: Vec<String>,
    /// Kinds of certificates
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "p256,rsa2048"
    )]
    keys: Vec<KeyKind>,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// Measurements of each server in each case; the median counts
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Clients at a time
    #[arg(long, default_value_t = 8)]
    clients: u32,
    /// Print figures as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy)]
struct Case {
    title: &'static str,
    version: &'static SupportedProtocolVersion,
    is_resumed: bool,
}

static CASES: [Case; 4] = [
    Case {
        title: "TLS 1.3, full",
        version: &TLS13,
        is_resumed: false,
    },
    Case {
        title: "TLS 1.3, resumed",
        version: &TLS13,
        is_resumed: true,
    },
    Case {
        title: "TLS 1.2, full",
        version: &TLS12,
        is_resumed: false,
    },
    Case {
        title: "TLS 1.2, resumed",
        version: &TLS12,
        is_resumed: true,
    },
];

/// Measures and prints.
pub fn run(options: &Options) -> Result<()> {
    build_loligo()?;
    let origin = Origin::start(0, 1)?;
    let mut rivals = Vec::new();
    for name in &options.only {
        match Rival::of_name(name) {
            Some(rival) if rival.is_installed() => rivals.push(rival),
            Some(_) => {}
            None => fail!("no server {name:?}; `cargo xtask rivals list` shows them"),
        }
    }
    let mut columns: Vec<Column> = rivals.iter().map(|it| Column::new(it.name())).collect();
    let steps = rivals.len() * options.keys.len() * CASES.len() * options.rounds as usize;
    let mut progress = Progress::new("measuring", steps as u64);
    for &key in &options.keys {
        let servers = rivals
            .iter()
            .map(|&rival| start(rival, key, &origin))
            .collect::<Result<Vec<Running>>>()?;
        for case in &CASES {
            let mut cpu_us = vec![Vec::new(); servers.len()];
            let mut rates = vec![Vec::new(); servers.len()];
            for _ in 0..options.rounds {
                for (n, server) in servers.iter().enumerate() {
                    interrupt::check()?;
                    progress.say(format!("{}, {}", server.rival.name(), case.title));
                    let (cpu, rate) = measure(server, case, options)
                        .during(|| format!("{}, {}", server.rival.name(), case.title))?;
                    cpu_us[n].push(cpu);
                    rates[n].push(rate);
                    progress.step();
                }
            }
            for (n, column) in columns.iter_mut().enumerate() {
                let median = |values: &[f64]| Spread::of(values.iter().copied()).median;
                let title = format!("{}, {}", key.name(), case.title);
                column.add(format!("{title}: CPU us"), 1, median(&cpu_us[n]));
                column.add(format!("{title}: /s"), 0, median(&rates[n]));
            }
        }
        for server in servers {
            server.stop()?;
        }
    }
    drop(progress);
    add_ratio(&mut columns);
    let mut sheet = Sheet::new("handshakes");
    columns.into_iter().for_each(|column| sheet.push(column));
    sheet.note(format!(
        "Medians of {} rounds of {} s, {} clients at a time; a connection is a handshake, a hit of 1 KiB and a goodbye.",
        options.rounds, options.seconds, options.clients
    ));
    sheet.finish(options.json)
}

/// Adds our ratio to nginx.
fn add_ratio(columns: &mut [Column]) {
    let title = format!("{}, {}: CPU us", KeyKind::P256.name(), CASES[0].title);
    let found = |columns: &[Column], name| {
        let column = columns.iter().find(|column| column.name() == name)?;
        column.figure(&title).and_then(Figure::found)
    };
    let ratio = found(columns, "loligo").zip(found(columns, "nginx"));
    let ours = columns.iter_mut().find(|column| column.name() == "loligo");
    if let (Some((ours, theirs)), Some(column)) = (ratio, ours) {
        column.target(format!("{title}, of nginx'"), 2, ours / theirs, WANTED);
    }
}

fn start(rival: Rival, key: KeyKind, origin: &Origin) -> Result<Running> {
    let label = format!("bench-handshakes-{}", rival.name());
    let running = launch(
        rival,
        &Request {
            front: Some(Protocol::Tls),
            key,
            ..Request::of(label, origin.address())
        },
    )?;
    running.await_caching(origin)?;
    Ok(running)
}

/// CPU time per connection in microseconds, and connections a second.
fn measure(server: &Running, case: &Case, options: &Options) -> Result<(f64, f64)> {
    let front = server.front.as_ref().expect("it was asked for");
    let config = config(front, case)?;
    let made = AtomicU64::new(0);
    let begun = Instant::now();
    let until = begun + Duration::from_secs(options.seconds);
    let cpu = server.cpu();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..options.clients)
            .map(|_| {
                let (config, made) = (Arc::clone(&config), &made);
                scope.spawn(move || client(front, &config, case, until, made))
            })
            .collect();
        let ends = clients.into_iter().map(|it| it.join().expect("no panic"));
        ends.collect::<Result<Vec<()>>>()
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let cpu = server.cpu().saturating_sub(cpu).as_secs_f64();
    let made = made.load(Ordering::SeqCst) as f64;
    Ok((cpu * 1e6 / made, made / seconds))
}

fn config(front: &Front, case: &Case) -> Result<Arc<ClientConfig>> {
    let chain = &front.certificate.chain;
    let pem = fs::read(chain).during(|| format!("reading {}", chain.display()))?;
    let wrong =
        |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", chain.display()));
    let certificate = CertificateDer::from_pem_slice(&pem).map_err(|error| wrong(&error))?;
    let mut roots = RootCertStore::empty();
    roots.add(certificate).map_err(|error| wrong(&error))?;
    let mut config = ClientConfig::builder_with_protocol_versions(&[case.version])
        .with_root_certificates(roots)
        .with_no_client_auth();
    if !case.is_resumed {
        config.resumption = Resumption::disabled();
    }
    Ok(Arc::new(config))
}

/// Makes one connection after the other.
fn client(
    front: &Front,
    config: &Arc<ClientConfig>,
    case: &Case,
    until: Instant,
    made: &AtomicU64,
) -> Result<()> {
    let during = || format!("connecting to {}", front.address);
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        origin::path(OBJECT_BYTES, "hot"),
        front.address
    );
    let mut answer = Vec::new();
    let mut nth = 0;
    while Instant::now() < until {
        let name = ServerName::IpAddress(front.address.ip().into());
        let session = ClientConnection::new(Arc::clone(config), name)
            .map_err(|error| Failure::new(error.to_string()))?;
        let socket = TcpStream::connect(front.address).during(during)?;
        socket.set_nodelay(true).during(during)?;
        socket.set_read_timeout(Some(PATIENCE)).during(during)?;
        let mut stream = StreamOwned::new(session, socket);
        stream.write_all(request.as_bytes()).during(during)?;
        answer.clear();
        stream.read_to_end(&mut answer).during(during)?;
        if !answer.starts_with(b"HTTP/1.1 200") || answer.len() < OBJECT_BYTES as usize {
            fail!(
                "an answer that is not the object: {}",
                String::from_utf8_lossy(&answer)
            );
        }
        let is_resumed = stream.conn.handshake_kind() == Some(HandshakeKind::Resumed);
        if nth >= FIRST && is_resumed != case.is_resumed {
            fail!("{}: resumed: {is_resumed}", case.title);
        }
        nth += 1;
        made.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
