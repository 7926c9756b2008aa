//! The secret of a store, by which it knows its own records.

use std::fmt;
use std::hash::Hasher;

use siphasher::sip::SipHasher13;
use siphasher::sip128::{Hasher128, SipHasher24};

/// The 16 bytes only this store knows; they key the header MACs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub(crate) [u8; 16]);

impl Secret {
    /// SipHash-2-4-128 of the bytes.
    pub(crate) fn mac(&self, bytes: &[u8]) -> [u8; 16] {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(bytes);
        let hash = hasher.finish128();
        let mut mac = [0; 16];
        mac[..8].copy_from_slice(&hash.h1.to_le_bytes());
        mac[8..].copy_from_slice(&hash.h2.to_le_bytes());
        mac
    }

    /// Makes pseudonyms that last as long as the content of the store.
    pub(crate) fn pseudonyms(&self) -> Pseudonyms {
        // No record and no page is as short as this text, so the result is no MAC of either.
        Pseudonyms(SipHasher13::new_with_key(&self.mac(b"loligo: pseudonyms")))
    }
}

/// Makes names that tell nothing to their recipients: SipHash-1-3 under a key made of the store's secret. A sibling that is told
/// the seed of the [`crate::KeyHash`]es learns nothing about these.
#[derive(Clone, Copy)]
pub struct Pseudonyms(SipHasher13);

impl Pseudonyms {
    /// The pseudonym of these bytes.
    #[inline]
    pub fn of(&self, bytes: &[u8]) -> u64 {
        self.0.hash(bytes)
    }
}

impl fmt::Debug for Pseudonyms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pseudonyms(..)")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pseudonyms_depend_on_the_secret_and_on_what_is_named() {
        let of = |secret, name: &[u8]| Secret([secret; 16]).pseudonyms().of(name);
        assert_eq!(of(1, b"a"), of(1, b"a"));
        assert_ne!(of(1, b"a"), of(2, b"a"));
        assert_ne!(of(1, b"a"), of(1, b"b"));
        let shown = format!("{:?}", Secret([1; 16]).pseudonyms());
        assert_eq!(shown, "Pseudonyms(..)");
    }
}
