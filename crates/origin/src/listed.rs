//! Which origins' certificates are accepted.
//!
//! Two kinds: certificates signed by a trusted root, by the rules of WebPKI (`webpki`), and certificates that the operator has listed. Roots are
//! the system's, and listed certificates that call themselves authorities. Others are no roots: `webpki` uses only a root's key, so a
//! listed server certificate as a root would vouch for every name. A listed certificate
//! is compared byte by byte, and must match the name and be valid today. Its other fields do not matter: `openssl req -x509` marks a
//! server's certificate as an authority, and a certificate of X.509 version 1 has no extensions at all. WebPKI
//! refuses both; curl, nginx and HAProxy accept them.
//!
//! [`Pinned`] also requires a known key, [`Any`] accepts every certificate.
//!
//! Not known here: files, connections.

use std::{cell::RefCell, net::IpAddr, sync::Arc};

use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{self, CryptoProvider, WebPkiSupportedAlgorithms},
    pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime},
    server::ParsedCertificate,
};

use base::x509::{self, Facts};
use plan::Pin;
use webpki::{EndEntityCert, KeyUsage, VerifiedPath};

use super::tls_words::NotPinned;

/// Judges the certificate that an origin shows.
#[derive(Debug)]
pub(super) struct Verifier {
    /// `None`: there are no roots.
    by_roots: Option<Arc<WebPkiServerVerifier>>,
    listed: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    /// Accepts certificates signed by these roots, and the listed certificates themselves.
    ///
    /// # Errors
    /// There are neither roots nor certificates, or the roots cannot be used.
    pub(super) fn new(
        roots: Arc<RootCertStore>,
        listed: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Verifier, String> {
        let algorithms = provider.signature_verification_algorithms;
        let by_roots = match roots.is_empty() && !listed.is_empty() {
            true => None,
            false => {
                let builder = WebPkiServerVerifier::builder_with_provider(roots, provider);
                Some(builder.build().map_err(|error| error.to_string())?)
            }
        };
        Ok(Verifier {
            by_roots,
            listed,
            algorithms,
        })
    }

    /// Can this certificate be listed, even if it is no root?
    pub(super) fn can_list(certificate: &CertificateDer<'_>) -> bool {
        Facts::of(certificate).is_some() && x509::key(certificate).is_some()
    }

    /// Does the certificate say that it may sign others? Only then is it a root. Version 1 cannot say so.
    pub(super) fn is_authority(certificate: &CertificateDer<'_>) -> bool {
        Facts::of(certificate).is_some_and(|facts| facts.is_authority)
    }

    /// Checks a listed certificate: name, then date.
    fn judge(
        certificate: &CertificateDer<'_>,
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let facts = Facts::of(certificate).ok_or(CertificateError::BadEncoding)?;
        let is_for = match name {
            ServerName::DnsName(name) => facts.is_for_name(name.as_ref()),
            ServerName::IpAddress(ip) => facts.is_for_address(IpAddr::from(*ip)),
            _ => false,
        };
        if !is_for {
            return Err(CertificateError::NotValidForName.into());
        }
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if now < facts.from_unix_s {
            return Err(CertificateError::NotValidYet.into());
        }
        if now > facts.until_unix_s {
            return Err(CertificateError::Expired.into());
        }
        Ok(ServerCertVerified::assertion())
    }

    /// Was `signed` made by the key of a certificate that `webpki` cannot read? TLS 1.2 does not name the curve, so each algorithm of the scheme
    /// that fits the kind of key is tried.
    fn signed_by_key(
        &self,
        message: &[u8],
        key: &[u8],
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let (kind, bits) = x509::parts_of_key(key).ok_or(CertificateError::BadEncoding)?;
        let mut of_scheme = self.algorithms.mapping.iter();
        let of_scheme = of_scheme.find(|(scheme, _)| *scheme == signed.scheme);
        let algorithms = of_scheme.map_or(&[][..], |(_, algorithms)| *algorithms);
        let mut fitting = algorithms
            .iter()
            .filter(|algorithm| algorithm.public_key_alg_id().as_ref() == kind);
        match fitting.any(|it| {
            it.verify_signature(bits, message, signed.signature())
                .is_ok()
        }) {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(CertificateError::BadSignature.into()),
        }
    }

    /// The key of a certificate that `webpki` cannot read.
    fn key_of_unreadable<'a>(certificate: &'a CertificateDer<'_>) -> Option<&'a [u8]> {
        match ParsedCertificate::try_from(certificate) {
            Ok(_) => None,
            Err(_) => x509::key(certificate),
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let by_roots = self.by_roots.as_ref();
        let judged = by_roots.map(|it| it.verify_server_cert(shown, between, name, ocsp, now));
        match judged {
            Some(Ok(verified)) => Ok(verified),
            _ if self.listed.contains(shown) => Verifier::judge(shown, name, now),
            Some(Err(error)) => Err(error),
            None => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match Verifier::key_of_unreadable(shown) {
            None => crypto::verify_tls12_signature(message, shown, signed, &self.algorithms),
            Some(key) => self.signed_by_key(message, key, signed),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match Verifier::key_of_unreadable(shown) {
            None => crypto::verify_tls13_signature(message, shown, signed, &self.algorithms),
            Some(key) => crypto::verify_tls13_signature_with_raw_key(
                message,
                &SubjectPublicKeyInfoDer::from(key),
                signed,
                &self.algorithms,
            ),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Accepts any certificate. The origin must still prove that it has the key.
#[derive(Debug)]
pub(super) struct Any(WebPkiSupportedAlgorithms);

impl Any {
    pub(super) fn new(provider: &CryptoProvider) -> Any {
        Any(provider.signature_verification_algorithms)
    }

    fn signatures(&self) -> Verifier {
        Verifier {
            by_roots: None,
            listed: Vec::new(),
            algorithms: self.0,
        }
    }
}

impl ServerCertVerifier for Any {
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
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signatures()
            .verify_tls12_signature(message, shown, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signatures()
            .verify_tls13_signature(message, shown, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

/// Requires a pinned key in addition to `besides`: the key of the origin's own certificate, as with curl's `--pinnedpubkey`, or a key on a
/// verified path to a trusted root. Other certificates that an origin sends do not count, and an unverified certificate has no path.
//= rfc7469 §2.6   the certificate chain that was validated has a key that is pinned
#[derive(Debug)]
pub(super) struct Pinned {
    pins: Vec<Pin>,
    besides: Arc<dyn ServerCertVerifier>,
    /// The roots at which paths end; `None`: there are no paths.
    roots: Option<Arc<RootCertStore>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Pinned {
    /// `roots`: those by which `besides` verifies, if it does.
    pub(super) fn new(
        pins: Vec<Pin>,
        besides: Arc<dyn ServerCertVerifier>,
        roots: Option<Arc<RootCertStore>>,
        provider: &CryptoProvider,
    ) -> Pinned {
        Pinned {
            pins,
            besides,
            roots,
            algorithms: provider.signature_verification_algorithms,
        }
    }

    /// Is there a path with a pinned key? If not, returns the pins of the authorities on the paths found.
    fn looks_behind(
        &self,
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Vec<Pin>> {
        let seen = RefCell::new(Vec::new());
        let has_pin = |path: &VerifiedPath<'_>| {
            let between = path.intermediate_certificates();
            let root = x509::key_of_contents(&path.anchor().subject_public_key_info);
            let pins = between
                .map(|it| Pin::of(&it.subject_public_key_info()))
                .chain([Pin::of(&root)]);
            let mut is_pinned = false;
            for pin in pins {
                is_pinned |= self.pins.contains(&pin);
                let mut seen = seen.borrow_mut();
                if !seen.contains(&pin) {
                    seen.push(pin);
                }
            }
            match is_pinned {
                true => Ok(()),
                false => Err(webpki::Error::UnknownIssuer),
            }
        };
        let found = match (&self.roots, EndEntityCert::try_from(shown)) {
            (Some(roots), Ok(origin)) => origin
                .verify_for_usage(
                    self.algorithms.all,
                    &roots.roots,
                    between,
                    now,
                    KeyUsage::server_auth(),
                    None,
                    Some(&has_pin),
                )
                .is_ok(),
            _ => false,
        };
        match found {
            true => Ok(()),
            false => Err(seen.into_inner()),
        }
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = (self.besides).verify_server_cert(shown, between, name, ocsp, now)?;
        let key = x509::key(shown).ok_or(CertificateError::BadEncoding)?;
        let pin = Pin::of(key);
        if self.pins.contains(&pin) {
            return Ok(verified);
        }
        match self.looks_behind(shown, between, now) {
            Ok(()) => Ok(verified),
            Err(behind) => {
                let not = NotPinned { shown: pin, behind };
                Err(CertificateError::Other(OtherError(Arc::new(not))).into())
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.besides.verify_tls12_signature(message, shown, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.besides.verify_tls13_signature(message, shown, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.besides.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

    /// An authority.
    struct Signer {
        certificate: CertificateDer<'static>,
        issuer: Issuer<'static, KeyPair>,
    }

    impl Signer {
        fn params(name: &str) -> CertificateParams {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            let common = rcgen::DnType::CommonName;
            params.distinguished_name.push(common, name);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params
        }

        fn root(name: &str) -> Signer {
            let (params, key) = (Signer::params(name), KeyPair::generate().unwrap());
            let certificate = params.self_signed(&key).unwrap().der().clone();
            let issuer = Issuer::new(params, key);
            Signer {
                certificate,
                issuer,
            }
        }

        /// A subordinate authority; also the certificates of the same key signed by `by`.
        fn signs(&self, name: &str, by: &[&Signer]) -> (Signer, Vec<CertificateDer<'static>>) {
            let (params, key) = (Signer::params(name), KeyPair::generate().unwrap());
            let signed = |by: &Signer| params.signed_by(&key, &by.issuer).unwrap().der().clone();
            let (certificate, others) = (signed(self), by.iter().map(|by| signed(by)).collect());
            let issuer = Issuer::new(params, key);
            let signer = Signer {
                certificate,
                issuer,
            };
            (signer, others)
        }

        fn leaf(&self) -> CertificateDer<'static> {
            let params = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
            let key = KeyPair::generate().unwrap();
            params.signed_by(&key, &self.issuer).unwrap().der().clone()
        }
    }

    fn pin(certificate: &CertificateDer<'_>) -> Pin {
        Pin::of(x509::key(certificate).unwrap())
    }

    /// Is the chain accepted with these pins? If not, the words for the log.
    fn judged(
        pins: &[Pin],
        roots: &[&CertificateDer<'static>],
        shown: &[&CertificateDer<'static>],
    ) -> Result<(), String> {
        let provider = Arc::new(super::super::tls::provider());
        let mut store = RootCertStore::empty();
        for root in roots {
            store.add((*root).clone()).unwrap();
        }
        let roots = Arc::new(store);
        let verifier = Verifier::new(Arc::clone(&roots), Vec::new(), Arc::clone(&provider));
        let besides = Arc::new(verifier.unwrap());
        let pinned = Pinned::new(pins.to_vec(), besides, Some(roots), &provider);
        let between: Vec<_> = shown[1..].iter().map(|it| (*it).clone()).collect();
        let name = ServerName::try_from("a.test").unwrap();
        let now = UnixTime::now();
        let judged = pinned.verify_server_cert(shown[0], &between, &name, &[], now);
        judged.map(drop).map_err(|error| {
            match super::super::tls_words::fault(std::io::Error::other(error), "a.test") {
                super::super::tls_words::Failed::Tls(_, words) => words.to_string(),
                other => panic!("{other:?}"),
            }
        })
    }

    #[test]
    fn a_pin_may_be_of_any_certificate_on_the_path() {
        let root = Signer::root("root");
        let (between, _) = root.signs("between", &[]);
        let (leaf, root, between) = (between.leaf(), root.certificate, between.certificate);
        for certificate in [&leaf, &between, &root] {
            let pins = [Pin([7; 32]), pin(certificate)];
            // The origin may send the root or leave it out.
            for shown in [&[&leaf, &between][..], &[&leaf, &between, &root]] {
                assert_eq!(judged(&pins, &[&root], shown), Ok(()));
            }
        }
        let refused = judged(&[Pin([7; 32])], &[&root], &[&leaf, &between]).unwrap_err();
        for key in [&leaf, &between, &root] {
            assert!(refused.contains(&pin(key).to_string()), "{refused}");
        }
        assert!(refused.contains("none of tls.pin"), "{refused}");
    }

    #[test]
    fn what_is_sent_along_does_not_count() {
        let (root, other) = (Signer::root("root"), Signer::root("other"));
        let leaf = root.leaf();
        let (sent, trusted) = (&other.certificate, &root.certificate);
        assert!(judged(&[pin(sent)], &[trusted], &[&leaf, sent]).is_err());
        // Nor does a second trusted root, which the leaf's path does not lead to.
        assert!(judged(&[pin(sent)], &[trusted, sent], &[&leaf, sent]).is_err());
        // A pinned key alone does not make a certificate trusted.
        let strange = other.leaf();
        assert!(judged(&[pin(&strange)], &[trusted], &[&strange]).is_err());
        assert!(judged(&[pin(sent)], &[trusted], &[&strange, sent]).is_err());
    }

    #[test]
    fn of_several_paths_one_has_the_key() {
        let (one, other) = (Signer::root("one"), Signer::root("other"));
        let (between, crossed) = one.signs("between", &[&other]);
        let leaf = between.leaf();
        let roots = [&one.certificate, &other.certificate];
        for shown in [
            [&leaf, &between.certificate, &crossed[0]],
            [&leaf, &crossed[0], &between.certificate],
        ] {
            for root in roots {
                assert_eq!(judged(&[pin(root)], &roots, &shown), Ok(()));
            }
        }
    }
}
