//! On which way the tests' clients reach the proxy: as they are written, or over TLS.
//!
//! `LOLIGO_E2E_WAY=tls` makes every listener that a test gets from the harness speak TLS, and every [`Client`](super::Client) that connects
//! to such a listener too. Nothing else of a test changes, so what it says of caching, fields, limits and bodies must hold over TLS as well.
//! A test that is about bytes of a TCP connection, or about the scheme, stays plain: [`PLAIN`] names it, with its reason.
//!
//! The certificate is one that the proxy makes, and the client takes any.

use std::{
    collections::HashSet,
    env,
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    thread,
};

use ::proxy::plan::{Listener, ListenerTls, Plan};
use rustls::{ClientConfig, ClientConnection, StreamOwned, crypto::ring, pki_types::ServerName};

use super::tls::Whoever;

pub const VARIABLE: &str = "LOLIGO_E2E_WAY";

/// Tests that stay plain, by the beginning of their names, and why.
const PLAIN: &[(&str, &str)] = &[
    ("tls::", "it is about TLS already"),
    ("acme::", "it is about TLS already"),
    ("harness::child::", "another process serves"),
    ("cluster_purge::", "other processes serve"),
    ("disk::what_an_unsafe_method_made", "another process serves"),
    ("disk::what_was_written_before", "another process serves"),
    ("purge::it_holds_after", "another process serves"),
    (
        "keys::a_purge_outlives",
        "listeners of other schemes, other processes",
    ),
    (
        "keys::an_unsafe_method_takes",
        "the scheme is part of the key",
    ),
    ("framing::each_route_has", "the scheme's port"),
    ("cluster_routing::what_is_said", "the scheme"),
    ("purge_port::a_permit", "the scheme"),
    ("access::an_origin_behind", "the scheme"),
    ("access_log::a_reverse_listener", "the scheme"),
    ("records::", "records tell TLS apart"),
    ("access_rules::a_denied", "sockets of its own"),
    ("field_rules::no_client", "sockets of its own"),
    ("limits::each_of_sixty_four", "sockets of its own"),
    ("rules_parts::a", "sockets of its own"),
    ("proxy_protocol::", "what stands before TLS"),
    ("limits::so_many_connections", "how TCP ends"),
    ("bodies::an_echo", "two threads on one socket"),
    ("bodies::an_early_answer_ends", "two threads on one socket"),
    ("bodies::what_is_left", "two threads on one socket"),
    ("budgets::a_head_that_dribbles", "two threads on one socket"),
    ("cluster_push::", "members speak plain to each other"),
    ("forward::two_proxies", "proxies speak plain to each other"),
    ("hierarchy", "proxies speak plain to each other"),
    ("hints_of_siblings::", "proxies speak plain to each other"),
    (
        "reload::listeners_come",
        "listeners that were written by hand",
    ),
    ("reload::who_is_not", "listeners that were written by hand"),
    ("upgrade::", "other processes serve"),
];

/// Does the test that runs on this thread want it plain? The test runner names threads after tests.
fn is_plain() -> bool {
    let current = thread::current();
    let name = current.name().unwrap_or("");
    PLAIN.iter().any(|(begin, _)| name.starts_with(begin))
}

fn is_tls() -> bool {
    static WAY: OnceLock<bool> = OnceLock::new();
    let is_asked = *WAY.get_or_init(|| match env::var(VARIABLE) {
        Ok(way) if way == "tls" => true,
        Ok(way) if way != "plain" => panic!("{VARIABLE}={way}: no such way; tls, or plain"),
        _ => false,
    });
    is_asked && !is_plain()
}

/// The listener as it is on the way of this run.
pub fn dress(mut listener: Listener) -> Listener {
    if is_tls() {
        listener.tls = Some(made());
    }
    listener
}

fn made() -> ListenerTls {
    ListenerTls {
        is_self_signed: true,
        ..ListenerTls::default()
    }
}

/// The listeners of a plan whose clients of the harness speak TLS.
pub fn dressed(plan: &Plan) -> Vec<bool> {
    let made = Some(made());
    let listeners = plan.listeners.iter();
    match is_tls() {
        true => listeners.map(|listener| listener.tls == made).collect(),
        false => Vec::new(),
    }
}

/// The addresses at which clients speak TLS.
fn encrypted() -> &'static Mutex<HashSet<SocketAddr>> {
    static ENCRYPTED: OnceLock<Mutex<HashSet<SocketAddr>>> = OnceLock::new();
    ENCRYPTED.get_or_init(Mutex::default)
}

/// Notes how these addresses are spoken to from now on.
pub fn note(addresses: &[SocketAddr], dressed: &[bool]) {
    let mut known = encrypted().lock().unwrap_or_else(PoisonError::into_inner);
    for (n, address) in addresses.iter().enumerate() {
        match dressed.get(n) {
            Some(true) => known.insert(*address),
            _ => known.remove(address),
        };
    }
}

/// A connection, plain or encrypted.
pub enum Duct {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Duct {
    /// To an address, as it wants it. The handshake comes with the first bytes.
    pub fn connect(address: SocketAddr) -> io::Result<Duct> {
        let tcp = TcpStream::connect(address)?;
        let known = encrypted().lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains(&address) {
            return Ok(Duct::Plain(tcp));
        }
        let name = ServerName::try_from("localhost").expect("it is a name");
        let session = ClientConnection::new(config(), name).map_err(io::Error::other)?;
        Ok(Duct::Tls(Box::new(StreamOwned::new(session, tcp))))
    }

    /// The socket below.
    pub fn tcp(&self) -> &TcpStream {
        match self {
            Duct::Plain(tcp) => tcp,
            Duct::Tls(tls) => &tls.sock,
        }
    }

    /// Says that nothing more will be sent.
    pub fn finish_sending(&mut self) -> io::Result<()> {
        if let Duct::Tls(tls) = self {
            tls.conn.send_close_notify();
            tls.flush()?;
        }
        self.tcp().shutdown(Shutdown::Write)
    }
}

impl Read for Duct {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Duct::Plain(tcp) => tcp.read(into),
            Duct::Tls(tls) => tls.read(into),
        }
    }
}

impl Write for Duct {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Duct::Plain(tcp) => tcp.write(bytes),
            Duct::Tls(tls) => {
                let n = tls.write(bytes)?;
                tls.flush()?;
                Ok(n)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Duct::Plain(tcp) => tcp.flush(),
            Duct::Tls(tls) => tls.flush(),
        }
    }
}

fn config() -> Arc<ClientConfig> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    let config = CONFIG.get_or_init(|| {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("ring has them")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Whoever::of(provider)));
        Arc::new(builder.with_no_client_auth())
    });
    Arc::clone(config)
}
