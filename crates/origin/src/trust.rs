//! The trusted certificates: the system's roots, and those that the operator has listed.
//!
//! The system's roots are read once, at the first handshake that needs them, on a thread that may block. Settings that trust the
//! same certificates share one [`Trust`].
//!
//! Not known here: how an origin's certificate is judged by them (`listed`).

use std::sync::{Arc, OnceLock};

use rustls::{RootCertStore, pki_types::CertificateDer};

use super::listed::Verifier;

/// A clone shares the certificates that were read.
#[derive(Clone)]
pub(super) struct Trust(Arc<Inner>);

struct Inner {
    system: bool,
    own: Vec<CertificateDer<'static>>,
    /// Made at the first handshake. A failure lasts until the configuration is reloaded.
    made: OnceLock<Result<Made, Arc<str>>>,
}

/// The certificates by which others are judged.
#[derive(Clone)]
pub(super) struct Made {
    /// Authorities: certificates that may sign others.
    pub(super) roots: Arc<RootCertStore>,
    /// Certificates that are accepted themselves, without an authority.
    pub(super) listed: Vec<CertificateDer<'static>>,
}

const NO_ROOTS: &str =
    "no trusted root certificates (install ca-certificates, or set SSL_CERT_FILE)";

impl Trust {
    /// Trusts the system's roots if `system`, and the certificates in `own`.
    pub(super) fn new(system: bool, own: Vec<CertificateDer<'static>>) -> Self {
        Self(Arc::new(Inner {
            system,
            own,
            made: OnceLock::new(),
        }))
    }

    /// Are both the same instance, rather than equal ones?
    pub(super) fn is(&self, other: &Trust) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns `before` if it trusts the same certificates as `self`, with the system's roots as they are now; else `self`.
    pub(super) async fn or(self, before: &Trust) -> Trust {
        if self.0.system != before.0.system || self.0.own != before.0.own {
            return self;
        }
        let made = match before.0.made.get() {
            None => return before.clone(),
            // The system's roots could not be read then; they may be readable now.
            Some(Err(_)) => return self,
            Some(Ok(made)) => made,
        };
        let next = self.clone();
        let read = tokio::task::spawn_blocking(move || next.made()).await;
        match read {
            Ok(Ok(read)) if read.roots.roots == made.roots.roots => before.clone(),
            _ => self,
        }
    }

    /// Have the certificates been read?
    pub(super) fn is_made(&self) -> bool {
        self.0.made.get().is_some()
    }

    /// Reads files at the first call, so do not call this on a worker's thread.
    pub(super) fn made(&self) -> Result<Made, Arc<str>> {
        self.0.made.get_or_init(|| self.0.make()).clone()
    }
}

impl Inner {
    fn make(&self) -> Result<Made, Arc<str>> {
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
        Ok(Made {
            roots: Arc::new(roots),
            listed,
        })
    }
}
