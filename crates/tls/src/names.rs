//! Which certificate a client is shown: one for the exact name, else one for a wildcard, else the listener's first.
//!
//! A name may have several certificates with different kinds of keys. A client is shown one that it can verify; ECDSA before RSA, which
//! costs the proxy ten times as much.
//!
//! An expired or not yet valid certificate is shown only if no other matches the name, not even by a wildcard.
//!
//! An authority that checks a certificate's order is shown the certificate of its challenge, and no other (`acme`).
//!
//! rustls' unbuffered connections do not tell the requested name, so the resolver notes it here ([`noting`]).
//!
//= rfc6125 §6.4.3   a wildcard stands for one whole label, the leftmost

use std::{cell::RefCell, collections::HashMap, sync::Arc};

use rustls::{
    SignatureAlgorithm, SignatureScheme,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

use super::acme::challenges::Challenges;

thread_local! {
    /// The name in the last request for a certificate on this thread.
    static ASKED: RefCell<Option<Box<str>>> = const { RefCell::new(None) };
}

/// Runs `step`. If `step` asks for a certificate and `is_wanted`, the requested name is returned too.
pub fn noting<T>(is_wanted: bool, step: impl FnOnce() -> T) -> (T, Option<Box<str>>) {
    if !is_wanted {
        return (step(), None);
    }
    ASKED.take();
    (step(), ASKED.take())
}

/// Certificates of one name, the best first.
type Pairs = Vec<Arc<CertifiedKey>>;

/// Certificates by name.
#[derive(Debug, Default)]
pub struct ByName {
    exact: HashMap<String, Pairs>,
    /// By the part after `*.`.
    wildcard: HashMap<String, Pairs>,
    default: Pairs,
    /// Certificates that clients refuse now.
    untimely: Option<Box<ByName>>,
    challenges: Arc<Challenges>,
}

impl ByName {
    /// An empty table with these challenges.
    pub fn with(challenges: &Arc<Challenges>) -> ByName {
        ByName {
            challenges: Arc::clone(challenges),
            ..ByName::default()
        }
    }

    /// Adds a certificate for these names, lower case.
    pub fn add(&mut self, names: &[String], pair: &Arc<CertifiedKey>) {
        for name in names {
            let pairs = match name.strip_prefix("*.") {
                Some(suffix) => self.wildcard.entry(suffix.to_owned()).or_default(),
                None => self.exact.entry(name.clone()).or_default(),
            };
            insert(pairs, pair);
        }
    }

    /// The same for a certificate that has expired or is not yet valid.
    pub fn add_untimely(&mut self, names: &[String], pair: &Arc<CertifiedKey>) {
        self.untimely.get_or_insert_default().add(names, pair);
    }

    /// Adds a certificate that is shown if no name matches.
    pub fn add_default(&mut self, pair: &Arc<CertifiedKey>) {
        insert(&mut self.default, pair);
    }

    fn pairs(&self, name: &str) -> &Pairs {
        let name = name.strip_suffix('.').unwrap_or(name);
        let lower = name.to_ascii_lowercase();
        let untimely = || self.untimely.as_ref()?.named(&lower);
        let found = self.named(&lower).or_else(untimely);
        found.unwrap_or(&self.default)
    }

    fn named(&self, lower: &str) -> Option<&Pairs> {
        let of_parent = || {
            let (_, parent) = lower.split_once('.')?;
            self.wildcard.get(parent)
        };
        self.exact.get(lower).or_else(of_parent)
    }

    /// The certificate for a client that asks for this name and can verify these schemes.
    fn choose(&self, name: Option<&str>, schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let pairs = name.map_or(&self.default, |name| self.pairs(name));
        let fits = |pair: &&Arc<CertifiedKey>| pair.key.choose_scheme(schemes).is_some();
        // If none fits, the handshake fails and says why.
        pairs.iter().find(fits).or(pairs.first()).cloned()
    }
}

/// Inserts after those of equal cost, so that the order of the configuration decides between them.
fn insert(pairs: &mut Pairs, pair: &Arc<CertifiedKey>) {
    let cost = |pair: &CertifiedKey| u8::from(pair.key.algorithm() == SignatureAlgorithm::RSA);
    let at = pairs.partition_point(|other| cost(other) <= cost(pair));
    pairs.insert(at, Arc::clone(pair));
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        ASKED.set(hello.server_name().map(Box::from));
        if Challenges::is_for(&hello) {
            return self.challenges.shown(hello.server_name());
        }
        self.choose(hello.server_name(), hello.signature_schemes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::PrivateKeyDer;

    fn pair(names: &[&str]) -> Arc<CertifiedKey> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = rustls::crypto::ring::default_provider();
        let chain = vec![made.cert.der().clone()];
        Arc::new(CertifiedKey::from_der(chain, key, &provider).unwrap())
    }

    #[test]
    fn one_whose_time_is_over_is_shown_where_no_other_has_the_name() {
        let pairs = [["a.example"], ["*.b.example"], ["x.b.example"]].map(|names| pair(&names));
        let mut by_name = ByName::default();
        by_name.add_default(&pairs[1]);
        by_name.add(&["*.b.example".to_owned()], &pairs[1]);
        by_name.add_untimely(&["a.example".to_owned()], &pairs[0]);
        by_name.add_untimely(&["x.b.example".to_owned()], &pairs[2]);
        let all = [SignatureScheme::ECDSA_NISTP256_SHA256];
        for (asked, shown) in [("a.example", 0), ("x.b.example", 1), ("other", 1)] {
            let chosen = by_name.choose(Some(asked), &all).unwrap();
            assert!(Arc::ptr_eq(&chosen, &pairs[shown]), "{asked}");
        }
    }

    #[test]
    fn exact_names_come_before_wildcards_and_these_before_the_first() {
        let names = ["a.example", "*.b.example", "x.b.example"];
        let pairs = names.map(|name| pair(&[name]));
        let mut by_name = ByName::default();
        by_name.add_default(&pairs[0]);
        for (name, pair) in names.iter().zip(&pairs) {
            by_name.add(&[(*name).to_owned()], pair);
        }
        let all = [SignatureScheme::ECDSA_NISTP256_SHA256];
        for (asked, shown) in [
            (Some("a.example"), 0),
            (Some("A.Example."), 0),
            (Some("y.b.example"), 1),
            (Some("x.b.example"), 2),
            (Some("z.x.b.example"), 0),
            (Some("b.example"), 0),
            (Some("nobody"), 0),
            (None, 0),
        ] {
            let chosen = by_name.choose(asked, &all).unwrap();
            assert!(Arc::ptr_eq(&chosen, &pairs[shown]), "{asked:?}");
        }
    }
}
