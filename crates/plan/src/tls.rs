//! TLS settings of a listener.

use std::path::PathBuf;

/// How a listener speaks TLS with its clients.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ListenerTls {
    /// Its certificates. A client whose SNI matches none of them gets the first.
    pub certificates: Vec<CertificateFiles>,
    /// A self-signed certificate is made at the start, for trying out. Only without `certificates`.
    pub is_self_signed: bool,
    /// The first certificate is the one that is ordered from an authority ([`Acme::certificate`](super::acme::Acme::certificate)).
    pub is_acme: bool,
    /// A certificate that has expired, or is not valid yet, prevents the start.
    pub is_strict: bool,
    /// TLS 1.2 is refused.
    pub only_tls13: bool,
    /// Hits are answered before the handshake is complete (0-RTT).
    pub early_data: bool,
    /// The authorities for certificates of clients; `None`: no certificate is requested.
    pub clients: Option<ClientCertificates>,
}

/// The files of one certificate.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct CertificateFiles {
    /// PEM: the certificate, followed by the intermediate ones.
    pub chain: PathBuf,
    /// PEM: the private key. It may be in the same file.
    pub key: PathBuf,
    /// DER: an OCSP response that is sent along.
    pub ocsp: Option<PathBuf>,
}

/// Certificates of clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientCertificates {
    /// PEM: certificates of the authorities that sign them.
    pub ca: PathBuf,
    /// Refuse a client without one?
    pub are_required: bool,
}

impl ListenerTls {
    /// The most certificates of one listener.
    pub const CERTIFICATES_MAX: usize = 100_000;

    /// All files that the settings name.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let certificates = self.certificates.iter();
        let of_certificates = certificates
            .flat_map(|files| [&files.chain, &files.key].into_iter().chain(&files.ocsp));
        of_certificates.chain(self.clients.iter().map(|clients| &clients.ca))
    }
}
