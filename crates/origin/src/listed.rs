//! Which origins' certificates are accepted.
//!
//! Those that a trusted root has signed, by the rules of the web (`webpki`); and those that the operator has listed themselves. A root is one
//! of the system's, or a listed one that calls itself an authority: `webpki` asks a root for nothing but its key, so a listed server's
//! certificate as a root would answer for every name. A listed one
//! is compared byte by byte, and must be for the name and hold today. What else it says does not matter: `openssl req -x509` calls a
//! server's certificate one of an authority, and a certificate of X.509 version 1 has no extensions to say anything with. The rules of the
//! web refuse both, curl, nginx and HAProxy accept them.
//!
//! [`Pinned`] asks for a key besides, [`Any`] takes whatever comes.
//!
//! Not known here: files, connections.

use std::{net::IpAddr, sync::Arc};

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

use super::tls_words::NotPinned;

/// Judges what an origin shows.
#[derive(Debug)]
pub(super) struct Verifier {
    /// `None`: there are no roots.
    by_roots: Option<Arc<WebPkiServerVerifier>>,
    listed: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    /// By these roots, and these certificates themselves.
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

    /// Is it one that can be listed, though it may be no root?
    pub(super) fn can_list(certificate: &CertificateDer<'_>) -> bool {
        Facts::of(certificate).is_some() && x509::key(certificate).is_some()
    }

    /// Does it say that it may sign others? Only then is it a root. One of version 1 can't say so.
    pub(super) fn is_authority(certificate: &CertificateDer<'_>) -> bool {
        Facts::of(certificate).is_some_and(|facts| facts.is_authority)
    }

    /// A listed one: name, then date.
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

    /// Has the key of a certificate that only can be listed signed this? TLS 1.2 does not tell the curve, so each algorithm of the scheme
    /// that is for such a key is tried.
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

    /// The key of a certificate that the rules of the web cannot read.
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

/// Any certificate is good. That the origin has its key is proved all the same.
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

/// One of these keys, besides what the other one wants.
///
/// It is the key of the origin's own certificate, as with curl's `--pinnedpubkey`. Keys of those behind it do not count: an origin may send
/// whatever it likes there, and which of them were used is not told.
#[derive(Debug)]
pub(super) struct Pinned {
    pins: Vec<Pin>,
    besides: Arc<dyn ServerCertVerifier>,
}

impl Pinned {
    pub(super) fn new(pins: Vec<Pin>, besides: Arc<dyn ServerCertVerifier>) -> Pinned {
        Pinned { pins, besides }
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
        if !self.pins.contains(&pin) {
            let shown = pin.to_string();
            let not = OtherError(Arc::new(NotPinned { shown }));
            return Err(CertificateError::Other(not).into());
        }
        Ok(verified)
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
