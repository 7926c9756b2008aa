//! Uses of the cluster's key: proofs that a side has it, and masks for seeds in transit.
//!
//! A proof is an HMAC-SHA256 over all bytes that both sides have sent so far, and the role of the prover. Both sides have
//! contributed a nonce of 32 bytes, so neither a proof nor the sent bytes can be replayed.
//!
//! Not known here: the contents of the messages.

use ::hints::handshake::PROOF_BYTES;
use ring::hmac;

use crate::cluster::ClusterKey;

/// The side that proves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prover {
    /// The side that has accepted the connection.
    Acceptor,
    /// The side that has opened it.
    Opener,
}

impl Prover {
    fn label(self) -> &'static [u8] {
        match self {
            Prover::Acceptor => b"loligo cluster 1 acceptor",
            Prover::Opener => b"loligo cluster 1 opener",
        }
    }
}

/// The signed bytes. Each part has its length in front, so that no two different messages give the same bytes.
fn message(label: &[u8], said: [&[u8]; 2]) -> Vec<u8> {
    let mut message = label.to_vec();
    for part in said {
        message.extend_from_slice(&(part.len() as u64).to_le_bytes());
        message.extend_from_slice(part);
    }
    message
}

fn secret(key: &ClusterKey) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, key.bytes())
}

fn sign(key: &ClusterKey, label: &[u8], said: [&[u8]; 2]) -> [u8; PROOF_BYTES] {
    bytes_of(&hmac::sign(&secret(key), &message(label, said)))
}

fn bytes_of(tag: &hmac::Tag) -> [u8; PROOF_BYTES] {
    tag.as_ref().try_into().expect("HMAC-SHA256 has 32 bytes")
}

/// The proof of one side, over the bytes that the opener and the acceptor have sent.
pub fn prove(key: &ClusterKey, prover: Prover, said: [&[u8]; 2]) -> [u8; PROOF_BYTES] {
    sign(key, prover.label(), said)
}

/// Is `proof` the expected one? Compares in constant time.
pub fn is_proof(key: &ClusterKey, prover: Prover, said: [&[u8]; 2], proof: &[u8]) -> bool {
    hmac::verify(&secret(key), &message(prover.label(), said), proof).is_ok()
}

/// Masks numbers that only the other side of this connection may read.
#[derive(Clone)]
pub struct Cover(hmac::Key);

impl Cover {
    /// The mask of a connection on which these bytes were sent.
    pub fn new(key: &ClusterKey, said: [&[u8]; 2]) -> Cover {
        let secret = sign(key, b"loligo cluster 1 cover", said);
        Cover(hmac::Key::new(hmac::HMAC_SHA256, &secret))
    }

    /// Masks the number in this place, or unmasks it. No place may be used for two numbers.
    pub fn apply(&self, place: u64, number: u64) -> u64 {
        let tag = hmac::sign(&self.0, &place.to_le_bytes());
        let bytes = bytes_of(&tag);
        let mask = [0, 1, 2, 3, 4, 5, 6, 7].map(|at: usize| bytes[at]);
        number ^ u64::from_le_bytes(mask)
    }
}

/// A number for this purpose that all members of the cluster compute alike.
pub fn common_number(key: &ClusterKey, purpose: &str) -> u64 {
    let bytes = sign(key, b"loligo cluster 1 number", [purpose.as_bytes(), b""]);
    u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|at: usize| bytes[at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> ClusterKey {
        ClusterKey::new([byte; ClusterKey::BYTES])
    }

    #[test]
    fn a_proof_is_of_one_key_one_role_and_what_was_said() {
        let said: [&[u8]; 2] = [b"ab", b"c"];
        let proof = prove(&key(1), Prover::Opener, said);
        assert!(is_proof(&key(1), Prover::Opener, said, &proof));
        assert!(!is_proof(&key(2), Prover::Opener, said, &proof));
        assert!(!is_proof(&key(1), Prover::Acceptor, said, &proof));
        assert!(!is_proof(&key(1), Prover::Opener, [b"a", b"bc"], &proof));
        assert!(!is_proof(&key(1), Prover::Opener, said, &proof[..31]));
    }

    #[test]
    fn a_cover_is_taken_off_by_the_same_cover_alone() {
        let cover = |key, said: [&[u8]; 2]| Cover::new(&key, said);
        let covered = cover(key(1), [b"a", b"b"]).apply(3, 7);
        assert_ne!(covered, 7);
        assert_eq!(cover(key(1), [b"a", b"b"]).apply(3, covered), 7);
        assert_ne!(cover(key(1), [b"a", b"b"]).apply(4, covered), 7);
        assert_ne!(cover(key(1), [b"a", b"c"]).apply(3, covered), 7);
        assert_ne!(cover(key(2), [b"a", b"b"]).apply(3, covered), 7);
    }
}
