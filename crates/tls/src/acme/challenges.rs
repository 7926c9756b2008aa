//! The certificates shown to an authority that checks our control over a name (tls-alpn-01).
//!
//! A client that offers only the protocol `acme-tls/1` is the authority. It is shown the certificate of its name's challenge while
//! one is open, and nothing else is done on its connection. Other clients are never shown one.
//!
//= rfc8737 §3   the certificate has the digest of the key authorization in an extension
//!
//! Limits: one challenge for each name; only the names of one order.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::{
    crypto::ring::default_provider, pki_types::PrivateKeyDer, server::ClientHello,
    sign::CertifiedKey,
};

/// The protocol that identifies the authority.
pub const PROTOCOL: &[u8] = b"acme-tls/1";

/// Open challenges, and counts of orders. One for the process.
#[derive(Debug, Default)]
pub struct Challenges {
    open: Mutex<HashMap<String, Arc<CertifiedKey>>>,
    /// Certificates that were issued.
    pub issued: AtomicU64,
    /// Orders that have failed.
    pub failures: AtomicU64,
}

impl Challenges {
    /// Opens a challenge: a connection that asks for this name is shown this digest.
    ///
    /// # Errors
    /// No certificate can be made.
    pub fn open(&self, name: &str, digest: &[u8]) -> Result<(), String> {
        let made = certificate(name, digest).map_err(|error| error.to_string())?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.insert(name.to_owned(), Arc::new(made));
        Ok(())
    }

    /// Closes all.
    pub fn clear(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.clear();
    }

    /// Does the authority connect?
    pub fn is_for(hello: &ClientHello<'_>) -> bool {
        let Some(mut offered) = hello.alpn() else {
            return false;
        };
        offered.next() == Some(PROTOCOL) && offered.next().is_none()
    }

    /// The certificate of a name's challenge; `None`: none is open.
    pub fn shown(&self, name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(&name?.to_ascii_lowercase()).cloned()
    }

    /// The number of certificates issued, and of orders that failed.
    pub fn counted(&self) -> (u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (read(&self.issued), read(&self.failures))
    }
}

fn certificate(name: &str, digest: &[u8]) -> Result<CertifiedKey, Box<dyn std::error::Error>> {
    let mut params = CertificateParams::new(vec![name.to_owned()])?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let key = KeyPair::generate()?;
    let made = params.self_signed(&key)?;
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let key = default_provider().key_provider.load_private_key(key)?;
    // Not by `from_der`: its check that key and certificate match rejects the critical extension, which is unknown to it.
    Ok(CertifiedKey::new(vec![made.der().clone()], key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_shown_for_its_name_until_it_is_closed() {
        let challenges = Challenges::default();
        challenges.open("a.example", &[7; 32]).unwrap();
        let shown = challenges.shown(Some("A.example")).unwrap();
        assert!(shown.cert[0].windows(32).any(|it| it == [7; 32]));
        assert!(challenges.shown(Some("b.example")).is_none() && challenges.shown(None).is_none());
        challenges.clear();
        assert!(challenges.shown(Some("a.example")).is_none());
    }
}
