//! TLS to origins: verification, server names, and ALPN with HTTP/1.1 and, where configured, HTTP/2.
//!
//! A [`Tls`] has the settings of one origin, or those for all origins without settings of their own (`origins_tls`). Verification (`listed`)
//! is off only if the operator says so.
//!
//! Source: RFC 9110 §4.3.4 (the certificate must match the origin's host), RFC 7301 (ALPN).
//! Not known here: the handshake's time-out (`connect`).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use base::socket::Socket;
use base::x509::Facts;
use plan::OriginTls;
use rustls::ClientConfig;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::listed::{Any, Pinned, Verifier};
use super::pem::{self, Unusable};
use super::tls_words::{self, Failed, TlsFault};
use super::trust::Trust;

/// TLS to origins. Clones share roots, resumable sessions and pooled connections; two [`Tls`] that are not clones share none.
#[derive(Clone)]
pub struct Tls(Arc<Inner>, Option<Arc<str>>);

struct Inner {
    settings: Arc<OriginTls>,
    trust: Trust,
    certificate: Option<Certificate>,
    /// Made at the first handshake. A failure lasts until the configuration is reloaded.
    config: OnceLock<Result<Arc<ClientConfig>, Arc<str>>>,
}

//= rfc7301 §6   the names of protocols
const HTTP1: &[u8] = b"http/1.1";
const H2: &[u8] = b"h2";

/// The certificate that is shown to origins that ask for one.
#[derive(Clone)]
struct Certificate {
    pair: Arc<CertifiedKey>,
    facts: Facts,
}

/// The cryptography for TLS to origins.
pub(super) fn provider() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

impl Tls {
    /// Trusts the system's roots and these certificates.
    pub fn system(and: Vec<CertificateDer<'static>>) -> Self {
        Self::made(Arc::default(), Trust::new(true, and), None)
    }

    /// Trusts these certificates only.
    pub fn only(own: Vec<CertificateDer<'static>>) -> Self {
        Self::made(Arc::default(), Trust::new(false, own), None)
    }

    /// TLS by these settings. Reads their files, except those that `trust` stands for.
    ///
    /// # Errors
    /// The certificate cannot be shown.
    pub(super) fn by(settings: &Arc<OriginTls>, trust: Trust) -> Result<Self, Unusable> {
        let certificate = match &settings.certificate {
            None => None,
            Some(files) => {
                let (pair, facts) = pem::pair(files, &provider())?;
                let pair = Arc::new(pair);
                Some(Certificate { pair, facts })
            }
        };
        Ok(Self::made(Arc::clone(settings), trust, certificate))
    }

    fn made(settings: Arc<OriginTls>, trust: Trust, certificate: Option<Certificate>) -> Self {
        let inner = Inner {
            settings,
            trust,
            certificate,
            config: OnceLock::new(),
        };
        Self(Arc::new(inner), None)
    }

    /// The same TLS for a server that was found through this name: SNI and the check of the certificate use the name instead of the host.
    pub fn for_name(&self, name: &Arc<str>) -> Tls {
        Tls(Arc::clone(&self.0), Some(Arc::clone(name)))
    }

    /// Are both clones of one instance, rather than equal ones?
    pub fn is(&self, other: &Tls) -> bool {
        Arc::ptr_eq(&self.0, &other.0) && self.1 == other.1
    }

    /// Do both have the same settings?
    pub(super) fn is_by(&self, other: &Tls) -> bool {
        self.0.settings == other.0.settings
    }

    /// The certificates that are trusted.
    pub(super) fn trust(&self) -> &Trust {
        &self.0.trust
    }

    /// Facts about the certificate that is shown, if there is one.
    pub(super) fn shown(&self) -> Option<&Facts> {
        Some(&self.0.certificate.as_ref()?.facts)
    }

    /// Returns `before` if nothing has changed since. `trust`: the certificates to trust from now on.
    pub(super) fn or(self, before: Option<&Tls>, trust: Trust) -> Tls {
        let shown = |tls: &Tls| tls.0.certificate.as_ref().map(|it| it.pair.cert.clone());
        match before {
            Some(before)
                if before.0.settings == self.0.settings
                    && before.0.trust.is(&trust)
                    && shown(before) == shown(&self) =>
            {
                before.clone()
            }
            _ => Self::made(
                Arc::clone(&self.0.settings),
                trust,
                self.0.certificate.clone(),
            ),
        }
    }

    /// Makes the handshake over an open connection; `host` as in `Destination`. `offers_h2`: ALPN offers HTTP/2 too.
    pub(super) async fn handshake(
        &self,
        host: &str,
        tcp: Socket,
        offers_h2: bool,
    ) -> Result<Box<TlsStream<Socket>>, Failed> {
        let host = self.1.as_deref().unwrap_or(host);
        // A name's final dot is no part of the name on the certificate (RFC 6066 §3).
        let host = host.strip_suffix('.').unwrap_or(host);
        let text = self.0.settings.name.as_deref().unwrap_or(host);
        let name = ServerName::try_from(text.to_owned()).map_err(|_| {
            Failed::Tls(
                TlsFault::Certificate,
                "no certificate can carry this name; set tls.name".into(),
            )
        })?;
        let connector = TlsConnector::from(self.config().await?);
        let mut alpn = vec![HTTP1.to_vec()];
        if offers_h2 {
            alpn.insert(0, H2.to_vec());
        }
        connector
            .with_alpn(alpn)
            .connect(name, tcp)
            .await
            .map(Box::new)
            .map_err(|error| tls_words::fault(error, text))
    }

    async fn config(&self) -> Result<Arc<ClientConfig>, Failed> {
        let config = match self.0.config.get() {
            Some(config) => config.clone(),
            None => {
                let inner = Arc::clone(&self.0);
                let make = move || inner.config.get_or_init(|| inner.configure()).clone();
                match self.0.settings.is_unverified || self.0.trust.is_made() {
                    true => make(),
                    false => tokio::task::spawn_blocking(make)
                        .await
                        .unwrap_or_else(|_| Err("reading the trusted roots failed".into())),
                }
            }
        };
        config.map_err(|why| Failed::Tls(TlsFault::NoRoots, why))
    }
}

impl Inner {
    /// May read the system's roots, so do not call this on a worker's thread.
    fn configure(&self) -> Result<Arc<ClientConfig>, Arc<str>> {
        let provider = Arc::new(provider());
        let mut roots = None;
        let mut verifier: Arc<dyn ServerCertVerifier> = match self.settings.is_unverified {
            true => Arc::new(Any::new(&provider)),
            false => {
                let made = self.trust.made()?;
                roots = Some(Arc::clone(&made.roots));
                let verifier = Verifier::new(made.roots, made.listed, Arc::clone(&provider));
                Arc::new(verifier?)
            }
        };
        if !self.settings.pins.is_empty() {
            let pins = self.settings.pins.clone();
            verifier = Arc::new(Pinned::new(pins, verifier, roots, &provider));
        }
        let versions: &[_] = match self.settings.only_tls13 {
            true => &[&TLS13],
            false => &[&TLS13, &TLS12],
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .map_err(|error| Arc::from(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match &self.certificate {
            None => builder.with_no_client_auth(),
            Some(shown) => {
                let shown = SingleCertAndKey::from(Arc::clone(&shown.pair));
                builder.with_client_cert_resolver(Arc::new(shown))
            }
        };
        config.alpn_protocols = vec![HTTP1.to_vec()];
        Ok(Arc::new(config))
    }
}

/// Equal only to its clones, so that destinations with different TLS do not share connections.
impl PartialEq for Tls {
    fn eq(&self, other: &Tls) -> bool {
        self.is(other)
    }
}

impl Eq for Tls {}

impl Hash for Tls {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(Arc::as_ptr(&self.0).addr());
        self.1.hash(state);
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.settings.fmt(f)
    }
}

/// Could a start use the certificates of this PEM file?
///
/// # Errors
/// The error that a start would fail with.
pub fn check_certificates(path: &Path) -> Result<(), String> {
    pem::chain(path).map(drop).map_err(|it| it.why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConnectError, ConnectTimes, Connector, Destination, Lease, Settings};
    use base::access::Destinations;
    use rustls::ServerConfig;
    use rustls::pki_types::{PrivateKeyDer, pem::PemObject};
    use std::io;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio_rustls::TlsAcceptor;

    /// An https origin on loopback with a certificate for `name`, and the roots that trust it.
    struct Origin {
        listener: TcpListener,
        acceptor: TlsAcceptor,
        tls: Tls,
    }

    impl Origin {
        async fn named(name: &str) -> Self {
            let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
            let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
            Origin::with(made.cert.der().clone(), key, rustls::DEFAULT_VERSIONS).await
        }

        /// An origin with a self-signed certificate that `change` has modified.
        async fn made(name: &str, change: impl FnOnce(&mut rcgen::CertificateParams)) -> Self {
            let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
            change(&mut params);
            let pair = rcgen::KeyPair::generate().unwrap();
            let certificate = params.self_signed(&pair).unwrap().der().clone();
            let key = PrivateKeyDer::try_from(pair.serialize_der()).unwrap();
            Origin::with(certificate, key, rustls::DEFAULT_VERSIONS).await
        }

        async fn with(
            certificate: CertificateDer<'static>,
            key: PrivateKeyDer<'static>,
            versions: &[&'static rustls::SupportedProtocolVersion],
        ) -> Self {
            let provider = rustls::crypto::ring::default_provider();
            let key = provider.key_provider.load_private_key(key).unwrap();
            // The key is not checked against the certificate: the library cannot read certificates of version 1.
            let shown = rustls::sign::CertifiedKey::new(vec![certificate.clone()], key);
            let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
                .with_protocol_versions(versions)
                .unwrap()
                .with_no_client_auth()
                .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(shown)));
            config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            Self {
                listener: TcpListener::bind("127.0.0.1:0").await.unwrap(),
                acceptor: TlsAcceptor::from(Arc::new(config)),
                tls: Tls::only(vec![certificate]),
            }
        }

        fn destination(&self) -> Destination {
            let port = self.listener.local_addr().unwrap().port();
            Destination {
                tls: true,
                host: "127.0.0.1".into(),
                port,
                member: None,
                terms: None,
                http2: None,
            }
        }

        async fn accept(&self) -> io::Result<tokio_rustls::server::TlsStream<TcpStream>> {
            let (tcp, _) = self.listener.accept().await.unwrap();
            self.acceptor.accept(tcp).await
        }
    }

    #[tokio::test]
    async fn a_pooled_connection_is_not_used_under_other_roots() {
        let origin = Origin::named("127.0.0.1").await;
        let connector = Connector::new(Settings::default(), origin.tls.clone());
        let to = origin.destination();
        let (first, accepted) = tokio::join!(lease(&connector, &to), origin.accept());
        let _accepted = accepted.unwrap();
        first.unwrap().reuse();
        connector.follow(Settings::default(), origin.tls.clone());
        assert_eq!(connector.pool().idle(), 1, "the same roots");
        let in_use = lease(&connector, &to).await.unwrap();
        let (second, accepted) = tokio::join!(lease(&connector, &to), origin.accept());
        let _second_accepted = accepted.unwrap();
        second.unwrap().reuse();
        let other = Tls::only(Vec::new());
        connector.follow(Settings::default(), other);
        assert_eq!(connector.pool().idle(), 0);
        in_use.reuse();
        assert_eq!(connector.pool().idle(), 0, "one that was in use");
        let (refused, _) = tokio::join!(lease(&connector, &to), origin.accept());
        assert!(refused.is_err());
    }

    #[tokio::test]
    async fn settings_that_differ_share_no_connection() {
        let origin = Origin::named("127.0.0.1").await;
        let connector = Connector::new(Settings::default(), origin.tls.clone());
        let by = |only_tls13: bool| {
            let settings = OriginTls {
                only_tls13,
                ..OriginTls::default()
            };
            let tls = Tls::by(&Arc::new(settings), origin.tls.trust().clone());
            Destination {
                terms: Some(tls.unwrap()),
                ..origin.destination()
            }
        };
        let (one, other, none) = (by(true), by(false), origin.destination());
        let mut accepted = Vec::new();
        for to in [&one, &other, &none] {
            let (leased, stream) = tokio::join!(lease(&connector, to), origin.accept());
            let leased = leased.unwrap();
            assert!(!leased.is_reused());
            leased.reuse();
            accepted.push(stream.unwrap());
        }
        assert_eq!(connector.pool().idle(), 3);
        for to in [&one, &other, &none] {
            assert!(lease(&connector, to).await.unwrap().is_reused());
        }
    }

    async fn lease(connector: &Connector, to: &Destination) -> Result<Lease, ConnectError> {
        let mut times = ConnectTimes::default();
        connector
            .lease(to, &Destinations::default(), &mut times)
            .await
    }

    fn fault_of(answer: Result<Lease, ConnectError>) -> TlsFault {
        match answer.err() {
            Some(ConnectError::Tls(fault, _)) => fault,
            other => panic!("a TLS fault was due, not {other:?}"),
        }
    }

    #[tokio::test]
    async fn a_verified_connection_speaks_http_1_1_and_is_pooled() {
        let origin = Origin::named("127.0.0.1").await;
        let connector = Connector::new(Settings::default(), origin.tls.clone());
        let to = origin.destination();
        let (ours, theirs) = tokio::join!(lease(&connector, &to), origin.accept());
        let (mut ours, mut theirs) = (ours.unwrap(), theirs.unwrap());
        assert_eq!(theirs.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));

        let mut byte = [0; 1];
        theirs.write_all(b"!").await.unwrap();
        ours.stream().read_exact(&mut byte).await.unwrap();
        ours.reuse();
        assert_eq!(
            connector.pool().idle(),
            1,
            "the session tickets before the ! were no unasked bytes"
        );

        let mut again = lease(&connector, &to).await.unwrap();
        assert!(again.is_reused());
        theirs.shutdown().await.unwrap();
        assert_eq!(again.stream().read(&mut byte).await.unwrap(), 0);
        again.reuse();
        assert_eq!(connector.pool().idle(), 0, "the origin has said goodbye");
    }

    #[tokio::test]
    async fn another_name_or_an_unknown_issuer_is_refused() {
        let origin = Origin::named("other.example").await;
        let connector = Connector::new(Settings::default(), origin.tls.clone());
        let to = origin.destination();
        let (ours, _theirs) = tokio::join!(lease(&connector, &to), origin.accept());
        assert_eq!(fault_of(ours), TlsFault::Certificate);

        let (one, stranger) = (
            Origin::named("127.0.0.1").await,
            Origin::named("127.0.0.1").await,
        );
        let connector = Connector::new(Settings::default(), stranger.tls);
        let to = one.destination();
        let (ours, _theirs) = tokio::join!(lease(&connector, &to), one.accept());
        assert_eq!(fault_of(ours), TlsFault::Certificate);
        assert_eq!(connector.pool().in_use(), 0);
    }

    async fn accepts(origin: &Origin, connector: &Connector) -> Result<(), TlsFault> {
        let to = origin.destination();
        let (ours, _theirs) = tokio::join!(lease(connector, &to), origin.accept());
        match ours {
            Ok(_) => Ok(()),
            refused => Err(fault_of(refused)),
        }
    }

    fn connector(tls: &Tls) -> Connector {
        Connector::new(Settings::default(), tls.clone())
    }

    /// As `openssl req -x509` makes its certificates.
    #[tokio::test]
    async fn a_listed_certificate_may_call_itself_an_authority() {
        let unconstrained = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let is_ca = |params: &mut rcgen::CertificateParams| params.is_ca = unconstrained;
        let origin = Origin::made("127.0.0.1", is_ca).await;
        assert_eq!(accepts(&origin, &connector(&origin.tls)).await, Ok(()));
        // Another certificate is listed; then, the listed certificate is for another name.
        let other = Origin::made("127.0.0.1", is_ca).await;
        let refused = accepts(&other, &connector(&origin.tls)).await;
        assert_eq!(refused, Err(TlsFault::Certificate));
        let elsewhere = Origin::made("127.0.0.2", is_ca).await;
        let refused = accepts(&elsewhere, &connector(&elsewhere.tls)).await;
        assert_eq!(refused, Err(TlsFault::Certificate));
    }

    #[tokio::test]
    async fn a_listed_certificate_holds_in_its_time_only() {
        for (from, until) in [(2000, 2001), (2090, 2091)] {
            let origin = Origin::made("127.0.0.1", |params| {
                params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
                params.not_before = rcgen::date_time_ymd(from, 1, 1);
                params.not_after = rcgen::date_time_ymd(until, 1, 1);
            });
            let origin = origin.await;
            let refused = accepts(&origin, &connector(&origin.tls)).await;
            assert_eq!(refused, Err(TlsFault::Certificate), "{from}");
        }
    }

    /// The key of a listed certificate has signed a certificate for another name.
    #[tokio::test]
    async fn only_a_listed_authority_answers_for_others() {
        use rcgen::{BasicConstraints::Unconstrained, IsCa};
        for (is_ca, accepted) in [
            (IsCa::Ca(Unconstrained), Ok(())),
            (IsCa::ExplicitNoCa, Err(TlsFault::Certificate)),
            (IsCa::NoCa, Err(TlsFault::Certificate)),
        ] {
            let mut params = rcgen::CertificateParams::new(vec!["internal.test".into()]).unwrap();
            params.is_ca = is_ca;
            let signer = rcgen::KeyPair::generate().unwrap();
            let listed = params.self_signed(&signer).unwrap().der().clone();
            let signer = rcgen::Issuer::new(params, signer);
            let leaf = rcgen::CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
            let pair = rcgen::KeyPair::generate().unwrap();
            let shown = leaf.signed_by(&pair, &signer).unwrap().der().clone();
            let key = PrivateKeyDer::try_from(pair.serialize_der()).unwrap();
            let origin = Origin::with(shown, key, rustls::DEFAULT_VERSIONS).await;
            let tls = Tls::only(vec![listed]);
            assert_eq!(accepts(&origin, &connector(&tls)).await, accepted);
        }
    }

    /// A certificate of version 1 with the name as its common name: `openssl x509 -req -signkey`.
    const OLD: &str = "-----BEGIN CERTIFICATE-----\n\
MIIBJTCBywIULunetM8rCKogU6SzQpPSZ/Ogtq8wCgYIKoZIzj0EAwIwFDESMBAG\n\
A1UEAwwJMTI3LjAuMC4xMCAXDTI2MTEyNzIwMDU0M1oYDzIxMjYxMTAzMjAwNTQz\n\
WjAUMRIwEAYDVQQDDAkxMjcuMC4wLjEwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC\n\
AAS7nx8R8eriAioV59/x1RcEYgv1RPmgIoXmdtToQzmD5wwnts3y/ADq0EDgprEF\n\
XQW8ZG1BMpTSA4oKbuIyHI2pMAoGCCqGSM49BAMCA0kAMEYCIQDkzrcQm6SzPoNN\n\
lgqGfj17Mtb0CF8xc84BygRuYB97tgIhANuPg25R+9lDjVn8Sfz+iOuDQ0d+8lVR\n\
Pyyh5BB6NQLB\n\
-----END CERTIFICATE-----";
    const OLD_KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg5iELGrriJAtOIc9V\n\
0CCf5qpPoNM6zAhdEtoRV7BpCIehRANCAAS7nx8R8eriAioV59/x1RcEYgv1RPmg\n\
IoXmdtToQzmD5wwnts3y/ADq0EDgprEFXQW8ZG1BMpTSA4oKbuIyHI2p\n\
-----END PRIVATE KEY-----";

    #[tokio::test]
    async fn a_listed_certificate_may_be_of_version_1() {
        let certificate = CertificateDer::from_pem_slice(OLD.as_bytes()).unwrap();
        for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
            let key = PrivateKeyDer::from_pem_slice(OLD_KEY.as_bytes()).unwrap();
            let origin = Origin::with(certificate.clone(), key, &[version]).await;
            assert_eq!(accepts(&origin, &connector(&origin.tls)).await, Ok(()));
            // A server that has the certificate but not its key.
            let pair = rcgen::KeyPair::generate().unwrap();
            let key = PrivateKeyDer::try_from(pair.serialize_der()).unwrap();
            let thief = Origin::with(certificate.clone(), key, &[version]).await;
            assert!(accepts(&thief, &connector(&thief.tls)).await.is_err());
            let unlisted = Origin::named("127.0.0.1").await.tls;
            let refused = accepts(&origin, &connector(&unlisted)).await;
            assert_eq!(refused, Err(TlsFault::Certificate));
        }
    }

    #[tokio::test]
    async fn an_origin_without_tls_is_a_protocol_error_a_silent_one_a_time_out() {
        let origin = Origin::named("127.0.0.1").await;
        let settings = Settings {
            connect_timeout: Duration::from_millis(20),
            ..Settings::default()
        };
        let to = origin.destination();

        let connector = Connector::new(Settings::default(), origin.tls.clone());
        let plain = async {
            let (mut tcp, _) = origin.listener.accept().await.unwrap();
            tcp.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                .await
                .unwrap();
            tcp
        };
        let (ours, _tcp) = tokio::join!(lease(&connector, &to), plain);
        assert_eq!(fault_of(ours), TlsFault::Protocol);

        let impatient = Connector::new(settings, origin.tls.clone());
        assert_eq!(
            lease(&impatient, &to).await.err(),
            Some(ConnectError::Timeout)
        );
    }

    #[tokio::test]
    async fn an_older_version_is_refused_if_the_operator_says_so() {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let origin = Origin::with(made.cert.der().clone(), key, &[&TLS12]).await;
        for (only_tls13, expected) in [(false, Ok(())), (true, Err(TlsFault::Alert))] {
            let settings = OriginTls {
                only_tls13,
                ..OriginTls::default()
            };
            let tls = Tls::by(&Arc::new(settings), origin.tls.trust().clone()).unwrap();
            assert_eq!(accepts(&origin, &connector(&tls)).await, expected);
        }
    }

    #[tokio::test]
    async fn a_key_that_is_not_pinned_is_refused_whoever_has_signed_it() {
        let origin = Origin::named("127.0.0.1").await;
        let stranger = Origin::named("127.0.0.1").await;
        let pin_of = |origin: &Origin| {
            let listed = origin.tls.trust().made().unwrap().listed;
            plan::Pin::of(base::x509::key(&listed[0]).unwrap())
        };
        let (own, other) = (pin_of(&origin), pin_of(&stranger));
        let refused = Err(TlsFault::Certificate);
        for (pins, is_unverified, expected) in [
            (vec![own], false, Ok(())),
            (vec![other, own], false, Ok(())),
            (vec![other], false, refused),
            (vec![other], true, refused),
            (vec![own], true, Ok(())),
            (vec![], true, Ok(())),
        ] {
            let settings = OriginTls {
                pins: pins.clone(),
                is_unverified,
                ..OriginTls::default()
            };
            let trust = match is_unverified {
                true => Trust::new(false, Vec::new()),
                false => origin.tls.trust().clone(),
            };
            let tls = Tls::by(&Arc::new(settings), trust).unwrap();
            let accepted = accepts(&origin, &connector(&tls)).await;
            assert_eq!(accepted, expected, "{pins:?} {is_unverified}");
        }
    }

    #[tokio::test]
    async fn without_roots_nothing_can_be_verified() {
        let origin = Origin::named("127.0.0.1").await;
        let connector = Connector::new(Settings::default(), Tls::only(Vec::new()));
        let answer = lease(&connector, &origin.destination()).await;
        assert_eq!(answer.as_ref().err().map(ConnectError::status), Some(502));
        assert_eq!(fault_of(answer), TlsFault::NoRoots);
    }
}
