//! A certificate that is ordered from an authority (ACME, RFC 8555).

use std::path::PathBuf;

use crate::tls::CertificateFiles;

/// The authority that issues the certificate, and the names in it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Acme {
    /// URL of the authority's directory, https; http only on this machine.
    pub directory: String,
    /// E-mail address for the authority, without `mailto:`.
    pub contact: Option<String>,
    /// Names in the certificate, lower case, without wildcards.
    pub names: Vec<String>,
    /// The folder of the account's key and of the certificate.
    pub state: PathBuf,
}

impl Acme {
    /// The most names in the certificate.
    pub const NAMES_MAX: usize = 100;

    /// The certificate with its key: one file, so that both change together.
    pub fn certificate(&self) -> CertificateFiles {
        let file = self.state.join("certificate.pem");
        CertificateFiles {
            chain: file.clone(),
            key: file,
            ocsp: None,
        }
    }
}
