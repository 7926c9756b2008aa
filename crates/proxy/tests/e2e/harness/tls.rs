//! TLS as the tests speak it: certificates of their own, a client on rustls, byte for byte.

use std::{
    fs,
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use proxy::plan::{CertificateFiles, ListenerTls};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256,
    PublicKeyData, SignatureAlgorithm,
};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, HandshakeKind, RootCertStore,
    SignatureScheme, StreamOwned,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};
use tempfile::TempDir;

use super::PATIENCE;

/// An authority, and the folder in which what it signs lies.
pub struct Authority {
    dir: TempDir,
    issuer: Issuer<'static, KeyPair>,
    pub certificate: CertificateDer<'static>,
}

/// A certificate as text and files.
pub struct Signed {
    pub files: CertificateFiles,
    pub certificate: CertificateDer<'static>,
}

impl Authority {
    pub fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        (params.distinguished_name).push(DnType::CommonName, "the tests");
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority {
            dir,
            issuer: Issuer::new(params, key),
            certificate,
        };
        let text = pem("CERTIFICATE", &authority.certificate);
        fs::write(authority.path("ca.pem"), text).unwrap();
        authority
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Signs for these names; the files are `STEM.pem` and `STEM.key`.
    pub fn sign(&self, stem: &str, names: &[&str]) -> Signed {
        self.sign_with(stem, names, |_| {})
    }

    pub fn sign_with(
        &self,
        stem: &str,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Signed {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        (params.distinguished_name).push(DnType::CommonName, stem);
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        let files = CertificateFiles {
            chain: self.path(&format!("{stem}.pem")),
            key: self.path(&format!("{stem}.key")),
            ocsp: None,
        };
        replace(&files.key, &pem("PRIVATE KEY", &key.serialize_der()));
        replace(&files.chain, &pem("CERTIFICATE", signed.der()));
        Signed {
            files,
            certificate: signed.der().clone(),
        }
    }

    /// Signs somebody else's key, which they have sent as a request: the certificate in PEM.
    pub fn sign_request(
        &self,
        request: &[u8],
        names: &[String],
        change: impl FnOnce(&mut CertificateParams),
    ) -> String {
        // The one bit string of a request that is a point of P-256, uncompressed.
        let point = request.windows(4).position(|it| it == [3, 0x42, 0, 4]);
        let at = point.expect("a key of P-256") + 3;
        let key = Point(request[at..at + 65].to_vec());
        let mut params = CertificateParams::new(names.to_vec()).unwrap();
        change(&mut params);
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        pem("CERTIFICATE", signed.der())
    }

    /// A client that trusts it.
    pub fn client(&self) -> TlsClient {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        TlsClient {
            roots: Arc::new(roots),
            versions: vec![&rustls::version::TLS13, &rustls::version::TLS12],
            identity: None,
            made: None,
            protocols: Vec::new(),
        }
    }
}

/// Takes the place of a file at once, as those who renew certificates do.
pub fn replace(path: &Path, text: &str) {
    let next = path.with_extension("next");
    fs::write(&next, text).unwrap();
    fs::rename(next, path).unwrap();
}

fn pem(label: &str, der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in der.chunks(48) {
        for three in line.chunks(3) {
            let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            for at in 0..4 {
                let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize] as char;
                text.push(if at <= three.len() { digit } else { '=' });
            }
        }
        text.push('\n');
    }
    text + "-----END " + label + "-----\n"
}

/// TLS with these certificates.
pub fn listener_tls(signed: &[&Signed]) -> ListenerTls {
    ListenerTls {
        certificates: signed.iter().map(|one| one.files.clone()).collect(),
        ..ListenerTls::default()
    }
}

/// How a client connects.
#[derive(Clone)]
pub struct TlsClient {
    roots: Arc<RootCertStore>,
    versions: Vec<&'static rustls::SupportedProtocolVersion>,
    identity: Option<CertificateFiles>,
    made: Option<Arc<ClientConfig>>,
    protocols: Vec<Vec<u8>>,
}

impl TlsClient {
    /// It offers these (ALPN).
    pub fn offering(mut self, protocols: &[&str]) -> TlsClient {
        let protocols = protocols.iter().map(|it| it.as_bytes().to_vec());
        self.protocols = protocols.collect();
        self
    }

    pub fn only_tls12(mut self) -> TlsClient {
        self.versions = vec![&rustls::version::TLS12];
        self
    }

    /// It shows this certificate when it is asked.
    pub fn showing(mut self, signed: &Signed) -> TlsClient {
        self.identity = Some(signed.files.clone());
        self
    }

    /// Sessions are resumed, and what the client says first is said before the handshake is complete.
    pub fn early(&self) -> TlsClient {
        let mut config = Arc::unwrap_or_clone(self.config());
        config.enable_early_data = true;
        TlsClient {
            made: Some(Arc::new(config)),
            ..self.clone()
        }
    }

    /// From now on sessions are resumed.
    pub fn remembering(mut self) -> TlsClient {
        self.made = Some(self.config());
        self
    }

    fn config(&self) -> Arc<ClientConfig> {
        if let Some(made) = &self.made {
            return Arc::clone(made);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&self.versions)
            .unwrap()
            .with_root_certificates(Arc::clone(&self.roots));
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(files) => {
                let chain = CertificateDer::from_pem_file(&files.chain).unwrap();
                let key = PrivateKeyDer::from_pem_file(&files.key).unwrap();
                builder.with_client_auth_cert(vec![chain], key).unwrap()
            }
        };
        config.alpn_protocols.clone_from(&self.protocols);
        Arc::new(config)
    }

    /// A connection that asks for this name, before its handshake.
    pub fn connect(&self, address: SocketAddr, name: &str) -> Encrypted {
        self.connect_over(TcpStream::connect(address).unwrap(), name)
    }

    pub fn connect_over(&self, tcp: TcpStream, name: &str) -> Encrypted {
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        tcp.set_write_timeout(Some(PATIENCE)).unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let session = ClientConnection::new(self.config(), name).unwrap();
        Encrypted(StreamOwned::new(session, tcp))
    }
}

/// A connection to the proxy.
pub struct Encrypted(pub StreamOwned<ClientConnection, TcpStream>);

/// What came of a request.
#[derive(Debug)]
pub struct Answer {
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn status(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or("")
    }
}

impl Encrypted {
    pub fn shake(&mut self) -> io::Result<()> {
        let StreamOwned { conn, sock } = &mut self.0;
        while conn.is_handshaking() {
            conn.complete_io(sock)?;
        }
        Ok(())
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Encrypted {
        self.0.write_all(bytes.as_ref()).unwrap();
        self.0.flush().unwrap();
        self
    }

    pub fn get(&mut self, target: &str, host: &str) -> Answer {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
            .answer()
    }

    /// An answer that is framed by its length.
    pub fn answer(&mut self) -> Answer {
        self.try_answer().unwrap()
    }

    pub fn try_answer(&mut self) -> io::Result<Answer> {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            self.0.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let lower = head.to_ascii_lowercase();
        let length = lower.split("content-length: ").nth(1);
        let length = length.and_then(|rest| rest.split("\r\n").next());
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        self.0.read_exact(&mut body)?;
        Ok(Answer { head, body })
    }

    /// Everything until the proxy says that this is the end; a connection that just ends is an error.
    pub fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).map(|_| rest)
    }

    /// The certificate that was shown.
    pub fn shown(&self) -> CertificateDer<'static> {
        self.0.conn.peer_certificates().unwrap()[0].clone()
    }

    pub fn is_resumed(&self) -> bool {
        self.0.conn.handshake_kind() == Some(HandshakeKind::Resumed)
    }
}

/// A key of P-256.
struct Point(Vec<u8>);

impl PublicKeyData for Point {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

/// A connection to whoever answers, for this name; it offers only these protocols. Its certificate, and the OCSP response with it.
pub fn look_at(
    address: SocketAddr,
    name: &str,
    protocols: &[&[u8]],
) -> io::Result<(CertificateDer<'static>, Option<Vec<u8>>, Vec<u8>)> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Arc::new(Whoever::of(Arc::clone(&provider)));
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(&verifier) as _)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|it| it.to_vec()).collect();
    let mut tcp = TcpStream::connect(address)?;
    tcp.set_read_timeout(Some(PATIENCE))?;
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut session = ClientConnection::new(Arc::new(config), name).unwrap();
    while session.is_handshaking() {
        session.complete_io(&mut tcp)?;
    }
    let shown = session.peer_certificates().unwrap()[0].clone();
    let protocol = session.alpn_protocol().map(<[u8]>::to_vec);
    let stapled = verifier.stapled.lock().unwrap().clone();
    Ok((shown.into_owned(), protocol, stapled))
}

/// Takes any certificate, also one with extensions that are foreign to the library.
#[derive(Debug)]
pub struct Whoever {
    provider: Arc<CryptoProvider>,
    /// The OCSP response that came with it.
    pub stapled: Mutex<Vec<u8>>,
}

impl Whoever {
    pub fn of(provider: Arc<CryptoProvider>) -> Whoever {
        Whoever {
            provider,
            stapled: Mutex::default(),
        }
    }
}

impl ServerCertVerifier for Whoever {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        stapled: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        *self.stapled.lock().unwrap() = stapled.to_vec();
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
