//! Checks a body against the digest in its path.
//!
//! The last piece is held back until the digest is known to be right, so no reader takes a wrong body for a complete one.
//!
//! Not known here: HTTP, the handling of a wrong body.

use base::mistakes::{Mistake, makes};
use bytes::Bytes;
use ring::digest::{Context, SHA256};

/// A SHA-256.
pub type Digest = [u8; 32];

/// The digest at the end of a target: `/v2/a/blobs/sha256:0123…`, with or without a query.
pub fn digest_of(target: &str) -> Option<Digest> {
    let path = target.split('?').next()?;
    let hex = path.rsplit('/').next()?.strip_prefix("sha256:")?;
    let mut digest = [0; 32];
    if hex.len() != 2 * digest.len() || !hex.is_ascii() {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(hex.as_bytes().chunks(2)) {
        let pair = std::str::from_utf8(pair).ok()?;
        *byte = u8::from_str_radix(pair, 16)
            .ok()
            .filter(|_| !pair.starts_with('+'))?;
    }
    Some(digest)
}

/// The check of one body.
pub struct Verifying {
    expected: Digest,
    so_far: Context,
    held: Option<Bytes>,
}

/// The body does not have the digest.
#[derive(Debug, PartialEq, Eq)]
pub struct Wrong;

impl Verifying {
    /// A body that should have this digest.
    pub fn of(expected: Digest) -> Verifying {
        Verifying {
            expected,
            so_far: Context::new(&SHA256),
            held: None,
        }
    }

    /// Takes the next piece. Returns the piece before it.
    pub fn take(&mut self, piece: Bytes) -> Option<Bytes> {
        self.so_far.update(&piece);
        self.held.replace(piece)
    }

    /// Ends the body. Returns the last piece if the digest is right.
    ///
    /// # Errors
    /// The digest is wrong.
    pub fn end(self) -> Result<Option<Bytes>, Wrong> {
        let found = self.so_far.finish();
        match found.as_ref() == self.expected || makes(Mistake::SkipDigest) {
            true => Ok(self.held),
            false => Err(Wrong),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn only_a_whole_digest_at_the_end_counts() {
        assert!(digest_of(&format!("/v2/a/blobs/sha256:{ABC}")).is_some());
        assert!(digest_of(&format!("/v2/a/blobs/sha256:{ABC}?ns=x/sha256:1")).is_some());
        for no in [
            format!("/v2/a/blobs/sha256:{ABC}/x"),
            format!("/v2/a/blobs/sha256:{ABC}0"),
            format!("/v2/a/blobs/sha512:{ABC}"),
            format!("/v2/sha256:{ABC}/blobs"),
            format!("/v2/a/blobs/sha256:+{}", &ABC[1..]),
            "/v2/a/manifests/latest".to_owned(),
            String::new(),
        ] {
            assert_eq!(digest_of(&no), None, "{no}");
        }
    }

    #[test]
    fn the_end_comes_only_if_all_was_right() {
        let digest = digest_of(&format!("/sha256:{ABC}")).unwrap();
        let mut right = Verifying::of(digest);
        assert_eq!(right.take(Bytes::from_static(b"a")), None);
        assert_eq!(right.take(Bytes::from_static(b"bc")).unwrap(), "a");
        assert_eq!(right.end().unwrap().unwrap(), "bc");
        let mut wrong = Verifying::of(digest);
        wrong.take(Bytes::from_static(b"abd"));
        assert_eq!(wrong.end(), Err(Wrong));
        assert_eq!(Verifying::of(digest).end(), Err(Wrong), "an empty one");
    }
}
