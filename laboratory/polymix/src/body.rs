//! The bytes of a version of an object.
//!
//! Each eight bytes are a function of a seed (object and version) and of their position. A sender can therefore start at any offset
//! without keeping what it sent, and a reader can compare a stream without keeping what it read. An HTML page begins with markup
//! that lists its images.
//!
//! Eight bytes cost one multiplication: an 11 KB reply takes a few microseconds on either side. The bytes are not cryptographic;
//! they only differ between objects, versions and positions.
//!
//! Not known here: what the proxy did with the bytes.   Limits: none of its own.   Source: issue 6; spec section 4 for the markup.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};

use crate::content::{Kind, ObjectId};
use crate::name;

const OPEN: &[u8] = b"<html><body>\n";
const TAG: &[u8] = b"<img src=\"";
const TAG_END: &[u8] = b"\">\n";
const CLOSE: &[u8] = b"</body></html>\n";
const WORD: u64 = 8;

/// The bytes of one version.
#[derive(Debug, Clone)]
pub struct Body {
    /// The markup that a page begins with.
    markup: Vec<u8>,
    seed: u64,
    len: u64,
}

/// Length of the markup of a page with this many images.
#[must_use]
pub fn markup_bytes(images: u32) -> u64 {
    if images == 0 {
        return 0;
    }
    let each = TAG.len() + name::PATH_BYTES_MAX + TAG_END.len();
    (OPEN.len() + CLOSE.len() + each * images as usize) as u64
}

impl Body {
    /// The body of a version of an object.
    #[must_use]
    pub fn new(id: ObjectId, version: u64) -> Self {
        let mut markup = Vec::new();
        if id.kind == Kind::Html {
            markup.extend_from_slice(OPEN);
            for position in 0..id.images() {
                markup.extend_from_slice(TAG);
                name::write_path(id.image(position), &mut markup);
                markup.extend_from_slice(TAG_END);
            }
            markup.extend_from_slice(CLOSE);
        }
        let len = id.size();
        assert!(
            markup.len() as u64 <= len,
            "markup {} of {len}",
            markup.len()
        );
        Self {
            markup,
            seed: id.seed(version),
            len,
        }
    }

    /// Length of the body, bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Never true.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Writes the bytes from `offset` on.
    pub fn fill(&self, offset: u64, out: &mut [u8]) {
        assert!(offset + out.len() as u64 <= self.len, "beyond the end");
        self.walk(offset, out.len(), |range, expected| {
            out[range].copy_from_slice(expected);
            true
        });
    }

    /// The checksum of the body in the form of Content-MD5 (RFC 1864). It adds no safety: every byte is compared anyway.
    #[must_use]
    pub fn content_md5(&self) -> String {
        const PIECE_BYTES: u64 = 16 * 1024;
        let mut sum = Md5::new();
        let mut piece = vec![0; usize::try_from(self.len.min(PIECE_BYTES)).expect("a piece")];
        let mut offset = 0;
        while offset < self.len {
            let take = piece
                .len()
                .min(usize::try_from(self.len - offset).unwrap_or(usize::MAX));
            self.fill(offset, &mut piece[..take]);
            sum.update(&piece[..take]);
            offset += take as u64;
        }
        STANDARD.encode(sum.finalize())
    }

    /// The offset of the first byte that differs in `found`, which begins at `offset`.
    #[must_use]
    pub fn difference(&self, offset: u64, found: &[u8]) -> Option<u64> {
        assert!(offset + found.len() as u64 <= self.len, "beyond the end");
        let mut at = None;
        self.walk(offset, found.len(), |range, expected| {
            let same = &found[range.clone()] == expected;
            if !same {
                let wrong = found[range.clone()]
                    .iter()
                    .zip(expected)
                    .position(|(a, b)| a != b);
                at = wrong.map(|n| offset + (range.start + n) as u64);
            }
            same
        });
        at
    }

    /// Visits `len` bytes from `offset` on, piece by piece, until the visitor returns false.
    fn walk(
        &self,
        offset: u64,
        len: usize,
        mut visit: impl FnMut(std::ops::Range<usize>, &[u8]) -> bool,
    ) {
        let mut done = 0;
        let markup = usize::try_from(offset)
            .ok()
            .and_then(|from| self.markup.get(from..))
            .unwrap_or_default();
        if !markup.is_empty() {
            done = markup.len().min(len);
            if !visit(0..done, &markup[..done]) {
                return;
            }
        }
        while done < len {
            let at = offset + done as u64;
            let skip = usize::try_from(at % WORD).expect("below 8");
            if skip == 0 && len - done >= 64 {
                let mut line = [0; 64];
                for (n, word) in line.chunks_exact_mut(8).enumerate() {
                    word.copy_from_slice(&self.word(at / WORD + n as u64).to_le_bytes());
                }
                if !visit(done..done + 64, &line) {
                    return;
                }
                done += 64;
            } else {
                let word = self.word(at / WORD).to_le_bytes();
                let take = (len - done).min(8 - skip);
                if !visit(done..done + take, &word[skip..skip + take]) {
                    return;
                }
                done += take;
            }
        }
    }

    fn word(&self, index: u64) -> u64 {
        let x = self.seed ^ index.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let x = (x ^ (x >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        x ^ (x >> 29)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> ObjectId {
        ObjectId {
            world: 1,
            server: 2,
            kind: Kind::Html,
            number: 3,
        }
    }

    fn whole(body: &Body) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(body.len()).unwrap()];
        body.fill(0, &mut bytes);
        bytes
    }

    #[test]
    fn the_checksum_is_that_of_all_bytes_however_many_pieces() {
        let lens: Vec<u64> = (0..200)
            .map(|number| ObjectId {
                kind: Kind::Other,
                number,
                ..page()
            })
            .map(|id| {
                let body = Body::new(id, 0);
                let sum = STANDARD.encode(Md5::digest(whole(&body)));
                assert_eq!(body.content_md5(), sum);
                body.len()
            })
            .collect();
        assert!(lens.iter().any(|&len| len > 16 * 1024), "several pieces");
        // rfc1864 §2, the example.
        assert_eq!(
            STANDARD.encode(b"Check Integrity!"),
            "Q2hlY2sgSW50ZWdyaXR5IQ=="
        );
    }

    #[test]
    fn any_piece_is_a_piece_of_the_whole() {
        let body = Body::new(page(), 5);
        let bytes = whole(&body);
        for (from, len) in [(0, 1), (3, 700), (500, 133), (700, 64), (701, 200)] {
            let mut piece = vec![0; len];
            body.fill(from as u64, &mut piece);
            assert_eq!(piece, bytes[from..from + len]);
            assert_eq!(body.difference(from as u64, &piece), None);
        }
    }

    #[test]
    fn one_wrong_byte_is_found_wherever_it_is() {
        let body = Body::new(page(), 5);
        let mut bytes = whole(&body);
        for at in [0, 20, 300, bytes.len() / 2, bytes.len() - 1] {
            bytes[at] ^= 1;
            assert_eq!(body.difference(0, &bytes), Some(at as u64));
            bytes[at] ^= 1;
        }
    }

    #[test]
    fn objects_and_versions_differ_soon() {
        let id = ObjectId {
            kind: Kind::Other,
            ..page()
        };
        let bytes = whole(&Body::new(id, 5));
        let shift = Body::new(id, 5).difference(8, &bytes[..64]);
        assert!(shift.is_some_and(|at| at < 12));
        assert!(
            Body::new(id, 6)
                .difference(0, &bytes[..64])
                .is_some_and(|at| at < 4)
        );
    }

    #[test]
    fn pages_list_their_images() {
        let text = whole(&Body::new(page(), 5));
        let text = String::from_utf8_lossy(&text);
        let mut path = Vec::new();
        name::write_path(page().image(0), &mut path);
        assert!(text.contains(std::str::from_utf8(&path).unwrap()));
        assert_eq!(text.matches("<img").count(), page().images() as usize);
    }
}
