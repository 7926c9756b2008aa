//! MD5 (RFC 1321), with which the keys of Squid's digests are made. Nothing here relies on its security.

use md5::{Digest, Md5};

/// The MD5 of the concatenated pieces.
pub(crate) fn md5(pieces: &[&[u8]]) -> [u8; 16] {
    let sum = pieces
        .iter()
        .fold(Md5::new(), |sum, piece| sum.chain_update(piece));
    sum.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> String {
        let sum = md5(&[text.as_bytes()]);
        sum.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    //= rfc1321 §A.5   the test suite
    #[test]
    fn the_suite_of_the_rfc() {
        assert_eq!(hex(""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex("a"), "0cc175b9c0f1b6a831c399e269772661");
        assert_eq!(hex("abc"), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(hex("message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
        let eighty = "1234567890".repeat(8);
        assert_eq!(hex(&eighty), "57edf4a22be3c955ac49da2e2107b67a");
    }

    #[test]
    fn the_length_has_a_block_of_its_own_where_it_must() {
        // Computed by md5sum of coreutils.
        let of = |n: usize| hex(&"x".repeat(n));
        assert_eq!(of(55), "04364420e25c512fd958a70738aa8f72");
        assert_eq!(of(56), "668a72d5ba17f08e62dabcafad6db14b");
        assert_eq!(of(64), "c1bb4f81d892b2d57947682aeb252456");
    }

    #[test]
    fn pieces_are_one_text() {
        assert_eq!(md5(&[b"ab", b"", b"c"]), md5(&[b"abc"]));
    }
}
