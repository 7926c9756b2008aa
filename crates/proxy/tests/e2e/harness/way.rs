//! On which way the tests' clients reach the proxy: as they are written, over TLS, or over HTTP/2.
//!
//! `LOLIGO_E2E_WAY=tls` makes every listener that a test gets from the harness speak TLS, and every [`Client`](super::Client) that connects
//! to such a listener too. `LOLIGO_E2E_WAY=h2` makes them speak HTTP/2 over TLS: a [`gateway`] translates what the test writes and reads.
//! Nothing else of a test changes, so what it says of caching, fields, limits and bodies must hold on each way.
//! A test that is about bytes of a TCP connection, or has listeners of its own, stays plain: [`PLAIN`] names it, with its reason.
//!
//! The certificate is one that the proxy makes, and the client takes any.

use std::{
    collections::HashMap,
    env,
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
};

use ::proxy::plan::{Listener, ListenerTls, Plan};
use rustls::{ClientConfig, ClientConnection, StreamOwned, crypto::ring, pki_types::ServerName};

use super::{gateway, sleeve, tls::Whoever};

pub const VARIABLE: &str = "LOLIGO_E2E_WAY";

/// Tests that stay plain on every way, by the beginning of their names, and why.
const PLAIN: &[(&str, &str)] = &[
    ("tls::", "it is about TLS already"),
    ("origin_tls::", "it is about TLS already"),
    ("origin_http2", "it is about HTTP/2 already"),
    ("acme::", "it is about TLS already"),
    ("http2", "it is about HTTP/2 already"),
    ("real_clients", "it is about TLS and HTTP/2 already"),
    ("downgraded::", "it is about HTTP/2 already"),
    ("harness::child::", "another process serves"),
    ("cluster_purge::", "other processes serve"),
    ("upgrade::", "other processes serve"),
    (
        "disk::what_was_written_before",
        "finds what another process stored",
    ),
    ("purge::it_holds_after", "finds what another process stored"),
    ("cluster_push::", "members speak plain to each other"),
    ("hierarchy", "proxies speak plain to each other"),
    ("hints_of_siblings::", "proxies speak plain to each other"),
    (
        "keys::an_unsafe_method_takes",
        "an http URL at two listeners",
    ),
    ("purge_port::a_permit", "an http URL at two listeners"),
    ("hot::pages_go", "TLS sends no pages"),
    (
        "proxy_protocol::the_client_that_a_header",
        "a header of PROXY in pieces",
    ),
    ("proxy_protocol::a_named_client", "closed before TLS"),
    ("proxy_protocol::what_is_no_header", "closed before TLS"),
    ("proxy_protocol::a_header_that", "closed before TLS"),
    ("proxy_protocol::only_listed", "closed before TLS"),
];

/// Tests in which two threads share the socket of a client, and why: over TLS their bytes are carried by a third ([`sleeve`]).
const SHARED: &[(&str, &str)] = &[
    ("bodies::an_echo", "reads while another thread writes"),
    (
        "bodies::an_early_answer_ends",
        "reads while another thread writes",
    ),
    ("bodies::what_is_left", "reads while another thread writes"),
    (
        "budgets::a_head_that_dribbles",
        "reads while another thread writes",
    ),
];

/// Tests that are about HTTP/1 and stay plain on the way `h2`, and why.
const HTTP1: &[(&str, &str)] = &[
    ("framing::", "it is about the framing of HTTP/1"),
    (
        "smuggling::",
        "requests that two readers of HTTP/1 could read differently",
    ),
    ("bodies::a_malformed_chunk", "chunks"),
    ("access::a_request_without_a_host", "HTTP/1.0"),
    ("bodies::an_interim_response", "HTTP/1.0"),
    ("cluster_routing::between_members_every", "HTTP/1.0"),
    ("head::via_tells", "HTTP/1.0"),
    ("hostile::a_client_of_http_1_0", "HTTP/1.0"),
    ("interim::http_1_0", "HTTP/1.0"),
    ("keys::a_made_up_host", "HTTP/1.0"),
    ("access_log::combined_lines", "HTTP/1.0, nonsense"),
    (
        "access_log::a_reverse_listener",
        "the bytes of a head of HTTP/1",
    ),
    (
        "access_log::no_password",
        "a password in a URL; HTTP/2 refuses it",
    ),
    ("records::a_refused_first", "nonsense"),
    ("records::who_broke", "a reset that is seen at once"),
    ("access_rules::pipelined", "pipelining"),
    (
        "budgets::a_head_that_dribbles",
        "buffers of heads of HTTP/1",
    ),
    (
        "budgets::how_long_a_head",
        "a head that the client itself refuses to send",
    ),
    (
        "budgets::heads_without_an_end",
        "buffers of heads of HTTP/1",
    ),
    ("budgets::what_comes_behind", "buffers of heads of HTTP/1"),
    (
        "budgets::who_takes_nothing",
        "a stream ends instead of the connection",
    ),
    ("details::only_if_cached", "a body that ends the connection"),
    (
        "limits::a_body_of_a_refused",
        "a body that ends the connection",
    ),
    (
        "forward::a_tunnel_to_another",
        "targets that only HTTP/1 has",
    ),
    ("forward::other_targets", "targets that only HTTP/1 has"),
    ("hints::a_digest", "targets that only HTTP/1 has"),
    (
        "purge_port::a_forward_listener",
        "targets that only HTTP/1 has",
    ),
    ("forward::an_upgrade", "Upgrade"),
    ("herds::", "the order in which connections are read"),
    ("sharing::", "the order in which connections are read"),
];

/// How clients reach a listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    Plain,
    Tls,
    H2,
}

/// The way of this run, for the test that runs on this thread: the test runner names threads after tests.
pub fn way() -> Way {
    static WAY: OnceLock<Way> = OnceLock::new();
    let asked = *WAY.get_or_init(|| match env::var(VARIABLE).as_deref() {
        Ok("tls") => Way::Tls,
        Ok("h2") => Way::H2,
        Ok("plain") | Err(_) => Way::Plain,
        Ok(way) => panic!("{VARIABLE}={way}: no such way; tls, h2, or plain"),
    });
    match asked {
        _ if is_in(PLAIN) => Way::Plain,
        Way::H2 if is_in(HTTP1) => Way::Plain,
        asked => asked,
    }
}

/// Is the test that runs on this thread one of these?
fn is_in(list: &[(&str, &str)]) -> bool {
    let current = thread::current();
    let name = current.name().unwrap_or("");
    list.iter().any(|(begin, _)| name.starts_with(begin))
}

/// The scheme that clients of a listener of this run use.
pub fn scheme() -> &'static str {
    match way() {
        Way::Plain => "http",
        Way::Tls | Way::H2 => "https",
    }
}

/// The port that is left out of their URLs.
pub fn port() -> u16 {
    match way() {
        Way::Plain => 80,
        Way::Tls | Way::H2 => 443,
    }
}

/// The listener as it is on the way of this run.
pub fn dress(mut listener: Listener) -> Listener {
    let way = way();
    if way != Way::Plain {
        listener.tls = Some(made());
        listener.http2 = way == Way::H2;
    }
    listener
}

/// Its listeners are plain on every way: other proxies are its clients.
pub fn undress(mut plan: Plan) -> Plan {
    for listener in &mut plan.listeners {
        (listener.tls, listener.http2) = (None, false);
    }
    plan
}

fn made() -> ListenerTls {
    ListenerTls {
        is_self_signed: true,
        ..ListenerTls::default()
    }
}

/// How clients of the harness reach each listener of a plan.
pub fn dressed(plan: &Plan) -> Vec<Way> {
    let (way, made) = (way(), Some(made()));
    let of = |listener: &Listener| match listener.tls == made {
        true => way,
        false => Way::Plain,
    };
    plan.listeners.iter().map(of).collect()
}

/// How listeners are reached. Who noted it takes it away again, but not what another noted since: ports are used again.
#[derive(Default)]
struct Known {
    ways: HashMap<SocketAddr, (Noted, Way)>,
    next: u64,
}

/// One who noted something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Noted(u64);

fn known() -> MutexGuard<'static, Known> {
    static KNOWN: OnceLock<Mutex<Known>> = OnceLock::new();
    let known = KNOWN.get_or_init(Mutex::default);
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes how these addresses are reached from now on.
pub fn note(addresses: &[SocketAddr], ways: &[Way]) -> Noted {
    let mut known = known();
    known.next += 1;
    let noted = Noted(known.next);
    for (address, way) in addresses.iter().zip(ways) {
        known.ways.insert(*address, (noted, *way));
    }
    noted
}

/// As it was noted, also for all addresses of the machine.
fn way_to(address: SocketAddr) -> Way {
    let any = SocketAddr::from(([0; 4], address.port()));
    let known = known();
    let noted = known.ways.get(&address).or_else(|| known.ways.get(&any));
    noted.map_or(Way::Plain, |(_, way)| *way)
}

/// The length of the balancer's header (PROXY, version 1 or 2) that bytes begin with; it stands before TLS.
pub fn balancers_header(bytes: &[u8]) -> usize {
    const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
    let end = bytes.windows(2).position(|it| it == b"\r\n");
    match end {
        Some(end) if bytes.starts_with(b"PROXY ") => end + 2,
        _ => match bytes.strip_prefix(SIGNATURE) {
            Some([_, _, high, low, rest @ ..]) => {
                let len = usize::from(u16::from_be_bytes([*high, *low]));
                bytes.len() - rest.len() + len.min(rest.len())
            }
            _ => 0,
        },
    }
}

/// Whoever gets these ports next may be plain.
pub fn forget(noted: &[Noted]) {
    known().ways.retain(|_, (by, _)| !noted.contains(by));
}

/// A connection, plain or encrypted.
pub enum Duct {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Duct {
    /// To an address, as it wants it. The handshake comes with the first bytes.
    pub fn connect(address: SocketAddr) -> io::Result<Duct> {
        let tcp = match way_to(address) {
            Way::Plain => return Ok(Duct::Plain(TcpStream::connect(address)?)),
            Way::H2 => return Ok(Duct::Plain(gateway::open(address, config(&[b"h2"]))?)),
            Way::Tls if is_in(SHARED) => {
                return Ok(Duct::Plain(sleeve::open(address, config(&[]))?));
            }
            Way::Tls => TcpStream::connect(address)?,
        };
        let name = ServerName::try_from("localhost").expect("it is a name");
        let session = ClientConnection::new(config(&[]), name).map_err(io::Error::other)?;
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
                let header = balancers_header(bytes);
                if header > 0 {
                    tls.sock.write_all(&bytes[..header])?;
                    return Ok(header);
                }
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

fn config(protocols: &[&[u8]]) -> Arc<ClientConfig> {
    static CONFIG: OnceLock<ClientConfig> = OnceLock::new();
    let config = CONFIG.get_or_init(|| {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("ring has them")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Whoever::of(provider)));
        builder.with_no_client_auth()
    });
    // A copy shares the sessions that can be resumed.
    let mut config = config.clone();
    config.alpn_protocols = protocols.iter().map(|it| it.to_vec()).collect();
    Arc::new(config)
}
