//! On which way the tests' clients reach the proxy: as they are written, or over TLS.
//!
//! `LOLIGO_E2E_WAY=tls` makes every listener that a test gets from the harness speak TLS, and every [`Client`](super::Client) that connects
//! to such a listener too. Nothing else of a test changes, so what it says of caching, fields, limits and bodies must hold over TLS as well.
//! A test that is about bytes of a TCP connection, or about the scheme, stays plain: [`PLAIN`] names it, with its reason.
//!
//! The certificate is one that the proxy makes; the client looks at its signature and not at who has signed.

use std::{
    collections::HashSet,
    env,
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    process::Command,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    thread,
};

use ::proxy::plan::{Listener, ListenerTls, Plan};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

const VARIABLE: &str = "LOLIGO_E2E_WAY";

/// Tests that stay plain, by the beginning of their names, and why.
const PLAIN: &[(&str, &str)] = &[
    ("tls::", "it is about TLS already"),
    ("harness::child::", "another process serves"),
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
            .with_custom_certificate_verifier(Arc::new(Whoever(provider)));
        Arc::new(builder.with_no_client_auth())
    });
    Arc::clone(config)
}

/// Takes the certificate of whoever has its key.
#[derive(Debug)]
struct Whoever(Arc<CryptoProvider>);

impl ServerCertVerifier for Whoever {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Runs the tests of these names once more, in a process of its own, over TLS.
fn run_over_tls(names: &[&str]) {
    let ran = Command::new(env::current_exe().unwrap())
        .args(names)
        .env(VARIABLE, "tls")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "over TLS:\n{said}");
    assert!(!said.contains("running 0 tests"), "nothing was run");
}

/// What a cache is about, also for clients of TLS.
#[test]
fn a_part_of_the_tests_runs_over_tls() {
    if env::var_os(VARIABLE).is_none() {
        run_over_tls(&["cache::", "ranges::", "head::", "interim::", "bodies::"]);
    }
}

/// All of them: minutes, so by hand, with `--ignored`.
#[test]
#[ignore = "as long as all other tests together: by hand"]
fn all_tests_run_over_tls() {
    run_over_tls(&[]);
}
