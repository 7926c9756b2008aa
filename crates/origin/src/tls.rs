//! TLS towards origins: verified, named, HTTP/1.1.
//!
//! The system's trusted roots are read once, at the first https origin, on a thread that may block. Without roots
//! every https origin fails with a message that says so. Verification (`listed`) cannot be switched off.
//!
//! Source: RFC 9110 §4.3.4 (the certificate must match the origin's host), RFC 7301 (ALPN).
//! Not known here: the handshake's time-out (`connect`).

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use base::socket::Socket;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::listed::Verifier;
use crate::connection::{ConnectError, TlsFault};

/// The verifier of origins. A clone shares roots and resumable sessions: make one for the process.
#[derive(Clone)]
pub struct Tls(Arc<Inner>);

/// What a handshake needs, and by whose signatures it judges.
#[derive(Clone)]
struct Made {
    client: Arc<ClientConfig>,
    roots: Arc<RootCertStore>,
}

struct Inner {
    system: bool,
    own: Vec<CertificateDer<'static>>,
    /// Made at the first handshake. A failure lasts until the configuration is reloaded.
    config: OnceLock<Result<Made, Arc<str>>>,
}

impl Tls {
    /// Trusts the system's roots and these certificates.
    pub fn system(and: Vec<CertificateDer<'static>>) -> Self {
        Self::new(true, and)
    }

    /// Trusts these certificates only.
    pub fn only(own: Vec<CertificateDer<'static>>) -> Self {
        Self::new(false, own)
    }

    /// The certificates of a PEM file.
    ///
    /// # Errors
    /// If it can't be read, is no PEM, or holds no certificate.
    pub fn read_pem(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
        let foreign = |error| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("not a PEM file: {error}"),
            )
        };
        let text = std::fs::read(path)?;
        let certificates = CertificateDer::pem_slice_iter(&text)
            .collect::<Result<Vec<_>, _>>()
            .map_err(foreign)?;
        if certificates.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "no certificate in this file",
            ));
        }
        Ok(certificates)
    }

    fn new(system: bool, own: Vec<CertificateDer<'static>>) -> Self {
        Self(Arc::new(Inner {
            system,
            own,
            config: OnceLock::new(),
        }))
    }

    /// Is it the same one, and not merely one that trusts the same?
    pub fn is(&self, other: &Tls) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// One that trusts these certificates beside the system's as they are now: itself, if nothing has changed.
    pub async fn renewed(&self, own: Vec<CertificateDer<'static>>) -> Tls {
        let next = Tls::new(self.0.system, own.clone());
        let Some(Ok(made)) = self.0.config.get() else {
            // The system's were not read yet, or not with success.
            let is_untouched = self.0.config.get().is_none() && self.0.own == next.0.own;
            return if is_untouched { self.clone() } else { next };
        };
        let inner = Arc::clone(&next.0);
        let read = tokio::task::spawn_blocking(move || {
            inner.config.get_or_init(|| inner.configure()).clone()
        });
        match read.await {
            Ok(Ok(read))
                if read.roots.roots == made.roots.roots && self.0.own == own.as_slice() =>
            {
                self.clone()
            }
            _ => next,
        }
    }

    /// Makes the handshake over an open connection; `host` as in `Destination`.
    pub(super) async fn handshake(
        &self,
        host: &str,
        tcp: Socket,
    ) -> Result<Box<TlsStream<Socket>>, ConnectError> {
        // A name's final dot is no part of the name on the certificate (RFC 6066 §3).
        let name = host.strip_suffix('.').unwrap_or(host);
        let name = ServerName::try_from(name.to_owned()).map_err(|_| {
            ConnectError::Tls(
                TlsFault::Certificate,
                "no certificate can carry this name".into(),
            )
        })?;
        let connector = TlsConnector::from(self.config().await?);
        connector
            .connect(name, tcp)
            .await
            .map(Box::new)
            .map_err(fault)
    }

    async fn config(&self) -> Result<Arc<ClientConfig>, ConnectError> {
        let config = match self.0.config.get() {
            Some(config) => config.clone(),
            None => {
                let inner = self.0.clone();
                tokio::task::spawn_blocking(move || {
                    inner.config.get_or_init(|| inner.configure()).clone()
                })
                .await
                .unwrap_or_else(|_| Err("reading the trusted roots failed".into()))
            }
        };
        config
            .map(|made| made.client)
            .map_err(|why| ConnectError::Tls(TlsFault::NoRoots, why))
    }
}

impl Inner {
    /// Reads files, so not on a worker's thread.
    fn configure(&self) -> Result<Made, Arc<str>> {
        let mut roots = RootCertStore::empty();
        let authorities = self.own.iter().filter(|it| Verifier::is_authority(it));
        roots.add_parsable_certificates(authorities.cloned());
        let listed: Vec<_> = (self.own.iter().filter(|it| Verifier::can_list(it)))
            .cloned()
            .collect();
        let unusable = self.own.len() - listed.len();
        if unusable > 0 {
            tracing::warn!(
                unusable,
                "certificates of the configured file can not be used"
            );
        }
        if self.system {
            let found = rustls_native_certs::load_native_certs();
            for error in &found.errors {
                tracing::warn!(%error, "a trusted root could not be read");
            }
            let (used, unusable) = roots.add_parsable_certificates(found.certs);
            tracing::debug!(used, unusable, "trusted roots of the system");
        }
        if roots.is_empty() && listed.is_empty() {
            return Err(NO_ROOTS.into());
        }
        let roots = Arc::new(roots);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = Verifier::new(Arc::clone(&roots), listed, Arc::clone(&provider))?;
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Arc::from(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Made {
            client: Arc::new(config),
            roots,
        })
    }
}

const NO_ROOTS: &str =
    "no trusted root certificates (install ca-certificates, or set SSL_CERT_FILE)";

/// rustls wraps its errors in `io::Error`; all others come from the network.
fn fault(error: io::Error) -> ConnectError {
    let Some(inner) = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>())
    else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof => ConnectError::Tls(
                TlsFault::Protocol,
                "the origin closed the connection in the handshake".into(),
            ),
            _ => error.into(),
        };
    };
    let kind = match inner {
        rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => {
            TlsFault::Certificate
        }
        rustls::Error::AlertReceived(_) => TlsFault::Alert,
        _ => TlsFault::Protocol,
    };
    ConnectError::Tls(kind, inner.to_string().into())
}

/// Can a start use the certificates of this PEM file?
///
/// # Errors
/// As a start would have them.
pub fn check_certificates(path: &Path) -> io::Result<()> {
    Tls::read_pem(path).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConnectTimes, Connector, Destination, Lease, Settings};
    use base::access::Destinations;
    use rustls::ServerConfig;
    use rustls::pki_types::PrivateKeyDer;
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

        /// One whose certificate has what its author wants.
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
            // Not checked against its key: the library reads no certificate of version 1.
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
            }
        }

        async fn accept(&self) -> io::Result<tokio_rustls::server::TlsStream<TcpStream>> {
            let (tcp, _) = self.listener.accept().await.unwrap();
            self.acceptor.accept(tcp).await
        }
    }

    #[tokio::test]
    async fn it_is_another_one_only_if_it_trusts_others() {
        let certificate = |name: &str| {
            let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
            made.cert.der().clone()
        };
        let (first, second) = (certificate("first.example"), certificate("second.example"));
        let tls = Tls::only(vec![first.clone()]);
        assert!(
            tls.renewed(vec![first.clone()]).await.is(&tls),
            "not used yet"
        );
        tls.config().await.unwrap();
        assert!(tls.renewed(vec![first.clone()]).await.is(&tls));
        let both = tls.renewed(vec![first.clone(), second]).await;
        assert!(!both.is(&tls));
        assert!(
            !both.renewed(vec![first]).await.is(&both),
            "one is not trusted any more"
        );
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
        let other = origin.tls.renewed(Vec::new()).await;
        connector.follow(Settings::default(), other);
        assert_eq!(connector.pool().idle(), 0);
        let (refused, _) = tokio::join!(lease(&connector, &to), origin.accept());
        assert!(refused.is_err());
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

    /// What `openssl req -x509` makes.
    #[tokio::test]
    async fn a_listed_certificate_may_call_itself_an_authority() {
        let unconstrained = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let is_ca = |params: &mut rcgen::CertificateParams| params.is_ca = unconstrained;
        let origin = Origin::made("127.0.0.1", is_ca).await;
        assert_eq!(accepts(&origin, &connector(&origin.tls)).await, Ok(()));
        // Another one is listed, and this one is for another name.
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

    /// A listed certificate's key has signed another name's certificate.
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

    /// Version 1, the name is the common one: `openssl x509 -req -signkey`.
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
            // Whoever has the certificate and not its key.
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
    async fn without_roots_nothing_can_be_verified() {
        let origin = Origin::named("127.0.0.1").await;
        let connector = Connector::new(Settings::default(), Tls::only(Vec::new()));
        let answer = lease(&connector, &origin.destination()).await;
        assert_eq!(answer.as_ref().err().map(ConnectError::status), Some(502));
        assert_eq!(fault_of(answer), TlsFault::NoRoots);
    }
}
