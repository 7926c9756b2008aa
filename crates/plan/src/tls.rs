//! TLS of a listener.

use std::path::PathBuf;

/// How a listener speaks TLS to its clients.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ListenerTls {
    /// Its certificates. The first is shown to a client that names none of theirs.
    pub certificates: Vec<CertificateFiles>,
    /// A certificate that is made at the start, signed by itself, for trying out. Only without files.
    pub is_self_signed: bool,
    /// The first of them is the one that is ordered from an authority ([`Acme::certificate`](super::acme::Acme::certificate)).
    pub is_acme: bool,
    /// A certificate whose time is over, or has not begun, refuses the start.
    pub is_strict: bool,
    /// TLS 1.2 is refused.
    pub only_tls13: bool,
    /// Hits are answered before the handshake is complete (0-RTT).
    pub early_data: bool,
    /// Who must have signed the certificates of clients; `None`: none is asked for.
    pub clients: Option<ClientCertificates>,
}

/// The files of one certificate.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct CertificateFiles {
    /// PEM: the certificate, and behind it those that lead to a root.
    pub chain: PathBuf,
    /// PEM: its private key. It may be the same file.
    pub key: PathBuf,
    /// DER: an OCSP response that is sent along.
    pub ocsp: Option<PathBuf>,
}

/// Certificates of clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientCertificates {
    /// PEM: certificates of those who sign them.
    pub ca: PathBuf,
    /// Refuse a client without one?
    pub are_required: bool,
}

impl ListenerTls {
    /// The most certificates of one listener.
    pub const CERTIFICATES_MAX: usize = 100_000;

    /// All files that it is read from.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let certificates = self.certificates.iter();
        let of_certificates = certificates
            .flat_map(|files| [&files.chain, &files.key].into_iter().chain(&files.ocsp));
        of_certificates.chain(self.clients.iter().map(|clients| &clients.ca))
    }
}
