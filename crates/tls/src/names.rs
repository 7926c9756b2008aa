//! Which certificate a client is shown: that of the exact name, then that of a wildcard, then the first.
//!
//! A name may have several certificates with keys of different kinds. A client is shown one that it can verify; ECDSA before RSA, which
//! costs the proxy ten times as much.
//!
//! A certificate whose time is over is shown where no other has the name, not even by a wildcard.
//!
//! The authority of a certificate that is being ordered is shown that of its challenge, and nothing else (`acme`).
//!
//! rustls' unbuffered connections do not tell the name that was asked for. It is noted here, where they ask for the certificate ([`noting`]).
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
    /// The name of the last certificate that was asked for on this thread.
    static ASKED: RefCell<Option<Box<str>>> = const { RefCell::new(None) };
}

/// Does `step`, which may ask for a certificate, and tells for which name it did. The name is told where `is_wanted`.
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
    /// By what follows the `*.`.
    wildcard: HashMap<String, Pairs>,
    default: Pairs,
    /// Those that clients refuse, now.
    untimely: Option<Box<ByName>>,
    challenges: Arc<Challenges>,
}

impl ByName {
    /// With these challenges.
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

    /// The same for one whose time is over or has not begun.
    pub fn add_untimely(&mut self, names: &[String], pair: &Arc<CertifiedKey>) {
        self.untimely.get_or_insert_default().add(names, pair);
    }

    /// Adds one that is shown where no name fits.
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

    /// The one for a client that asks for this name and can verify these.
    fn choose(&self, name: Option<&str>, schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let pairs = name.map_or(&self.default, |name| self.pairs(name));
        let fits = |pair: &&Arc<CertifiedKey>| pair.key.choose_scheme(schemes).is_some();
        // Without one that fits the handshake fails, and says why.
        pairs.iter().find(fits).or(pairs.first()).cloned()
    }
}

/// Behind those that are as cheap; the first written counts where two are alike.
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
