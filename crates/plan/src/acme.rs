//! A certificate that is ordered from an authority (ACME, RFC 8555).

use std::path::PathBuf;

use crate::tls::CertificateFiles;

/// Whom to order the certificate from, and for which names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Acme {
    /// URL of the authority's directory, https; http only on this machine.
    pub directory: String,
    /// Where the authority may write to, without `mailto:`.
    pub contact: Option<String>,
    /// Names in the certificate, lower case, without wildcards.
    pub names: Vec<String>,
    /// The folder of the account's key and of the certificate.
    pub state: PathBuf,
}

impl Acme {
    /// The most names in the certificate.
    pub const NAMES_MAX: usize = 100;

    /// The certificate with its key: one file, so that they change together.
    pub fn certificate(&self) -> CertificateFiles {
        let file = self.state.join("certificate.pem");
        CertificateFiles {
            chain: file.clone(),
            key: file,
            ocsp: None,
        }
    }
}
