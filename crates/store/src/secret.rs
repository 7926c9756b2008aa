//! The secret of a store: what makes its records its own.

use std::fmt;
use std::hash::Hasher;

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
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
