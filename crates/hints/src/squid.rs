//! Squid's Cache Digest, as Squid 2.0 to 6 send and read it.
//!
//! ```text
//! header, 128 bytes, big-endian
//!    0  u16  version, 5          4  u32  capacity, in objects    16  u32  bytes of the bit array
//!    2  u16  version wanted, 3   8  u32  objects                 20  u8   bits for an object    21  u8  functions, 4
//!                               12  u32  objects deleted         22  106 bytes of 0
//! bit array                     position p is bit p % 8 (of value 1 << p % 8) of byte p / 8
//! ```
//!
//! The bit array has `(capacity * bits for an object + 7) / 8` bytes; Squid refuses a digest with another length. The key of an object is the
//! MD5 of one byte for the method (GET is 1) and the URL. Its four 32-bit words, big-endian, each modulo the number of bits, are the
//! positions.
//!
//! A Squid that corrupts the digests it receives (bug 5510) asks us for objects that we do not have. The format cannot reveal that.
//!
//! Not known here: how a URL is brought into normal form; which siblings ask.   Limits: [`BYTES_MAX`].
//! Source: Squid 5.7, `src/CacheDigest.cc`, `src/peer_digest.cc`, `src/StoreDigestCBlock.h`, `src/store_key_md5.cc`; tested against it.

use std::fmt;

use crate::bloom::ones;
use crate::digest::BITS_MAX;
use crate::md5::md5;

/// The path under which Squid serves its digest and requests those of others.
pub const PATH: &str = "/squid-internal-periodic/store_digest";
/// The media type.
pub const MEDIA_TYPE: &str = "application/cache-digest";
/// Bytes of the header.
pub const HEADER_BYTES: usize = 128;
/// Bytes of a digest at most, header included.
pub const BYTES_MAX: usize = HEADER_BYTES + (BITS_MAX / 8) as usize;
/// Functions: the words of an MD5.
pub const FUNCTIONS: u8 = 4;

const VERSION: u16 = 5;
const VERSION_WANTED: u16 = 3;
/// Squid's number of the method GET; digests contain only responses to GET.
const GET: u8 = 1;

/// Why bytes are not a usable Squid digest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unusable {
    /// Shorter than the header.
    NoHeader,
    /// A version that requires more than version 5, or offers less than version 3.
    Version(u16),
    /// An impossible header: nothing in it, or inconsistent lengths.
    Header,
    /// Another number of functions than 4.
    Functions(u8),
    /// The bit array has another length than the header says.
    Length {
        /// The length in the header, bytes.
        expected: usize,
        /// The length found, bytes.
        found: usize,
    },
    /// More than [`BYTES_MAX`].
    TooLong,
    /// All bits are set, or almost all, so it says yes to everything.
    Full,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::NoHeader => write!(f, "it has no whole header"),
            Unusable::Version(version) => write!(f, "its version is {version}, not {VERSION}"),
            Unusable::Header => write!(f, "its header contradicts itself"),
            Unusable::Functions(n) => write!(f, "it has {n} functions, not {FUNCTIONS}"),
            Unusable::Length { expected, found } => {
                write!(
                    f,
                    "its bits take {found} bytes where {expected} are announced"
                )
            }
            Unusable::TooLong => write!(f, "it is longer than {BYTES_MAX} bytes"),
            Unusable::Full => write!(f, "almost all of its bits are set"),
        }
    }
}

impl std::error::Error for Unusable {}

/// Percent of set bits at which a digest is useless: with four functions, nine in ten false hits are left at 97.
pub const FULL_PERCENT: u64 = 97;

/// A decoded digest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SquidDigest {
    /// Objects in it, as it says itself.
    pub objects: u32,
    bits: Box<[u8]>,
}

impl SquidDigest {
    /// Decodes a digest.
    ///
    /// # Errors
    /// The reason why it cannot be used. Never panics, whatever the bytes are.
    pub fn decode(bytes: &[u8]) -> Result<SquidDigest, Unusable> {
        if bytes.len() > BYTES_MAX {
            return Err(Unusable::TooLong);
        }
        let (header, bits) = bytes
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or(Unusable::NoHeader)?;
        let u16_at = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let u32_at = |at: usize| {
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let (version, wanted) = (u16_at(0), u16_at(2));
        if wanted > VERSION || version < VERSION_WANTED || wanted > version {
            return Err(Unusable::Version(version));
        }
        let (capacity, objects, expected) = (u32_at(4), u32_at(8), u32_at(16));
        let (bits_per_object, functions) = (header[20], header[21]);
        let bits_wanted = u64::from(capacity) * u64::from(bits_per_object);
        if bits_wanted == 0 || bits_wanted.div_ceil(8) != u64::from(expected) {
            return Err(Unusable::Header);
        }
        if functions != FUNCTIONS {
            return Err(Unusable::Functions(functions));
        }
        let (expected, found) = (expected as usize, bits.len());
        if expected != found {
            return Err(Unusable::Length { expected, found });
        }
        if ones(bits) * 100 >= found as u64 * 8 * FULL_PERCENT {
            return Err(Unusable::Full);
        }
        Ok(SquidDigest {
            objects,
            bits: bits.into(),
        })
    }

    /// May the digest have the response to GET for this URL?
    pub fn may_have(&self, url: &[u8]) -> bool {
        let mut positions = positions(url, self.bits.len() as u64 * 8).into_iter();
        positions.all(|at| self.bits[at as usize / 8] >> (at % 8) & 1 == 1)
    }

    /// Percent of its bits that are set.
    pub fn percent_set(&self) -> u64 {
        ones(&self.bits) * 100 / (self.bits.len() as u64 * 8)
    }

    /// Bytes of its bits.
    pub fn bytes(&self) -> usize {
        self.bits.len()
    }
}

/// The positions of the response to GET for this URL, in an array of so many bits (1 to 2^32).
pub fn positions(url: &[u8], bits: u64) -> [u32; 4] {
    let key = md5(&[&[GET], url]);
    let mut positions = [0; 4];
    for (position, word) in positions.iter_mut().zip(key.as_chunks::<4>().0) {
        *position = (u64::from(u32::from_be_bytes(*word)) % bits) as u32;
    }
    positions
}

/// The size of a digest: for so many objects, with so many bits for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    capacity: u32,
    bits_per_object: u8,
}

impl Size {
    /// The size for so many objects. `None` if it is zero, or longer than [`BYTES_MAX`].
    pub fn new(objects: u64, bits_per_object: u8) -> Option<Size> {
        let bits = objects.checked_mul(u64::from(bits_per_object))?;
        (bits > 0 && bits <= BITS_MAX).then_some(Size {
            capacity: u32::try_from(objects).ok()?,
            bits_per_object,
        })
    }

    /// Bytes of the bit array.
    pub fn array_bytes(self) -> usize {
        (u64::from(self.capacity) * u64::from(self.bits_per_object)).div_ceil(8) as usize
    }

    /// The header of a digest of this size that contains so many objects.
    pub fn header(self, objects: u64) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[0..2].copy_from_slice(&VERSION.to_be_bytes());
        header[2..4].copy_from_slice(&VERSION_WANTED.to_be_bytes());
        header[4..8].copy_from_slice(&self.capacity.to_be_bytes());
        let objects = objects.min(u64::from(self.capacity)) as u32;
        header[8..12].copy_from_slice(&objects.to_be_bytes());
        header[16..20].copy_from_slice(&(self.array_bytes() as u32).to_be_bytes());
        header[20] = self.bits_per_object;
        header[21] = FUNCTIONS;
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ages::Ages;

    fn digest(urls: &[&str]) -> Vec<u8> {
        let size = Size::new(1000, 5).unwrap();
        let ages = Ages::new(size.array_bytes(), 1 << 20).unwrap();
        for url in urls {
            ages.enter(positions(url.as_bytes(), u64::from(ages.bits())));
        }
        [&size.header(urls.len() as u64)[..], &ages.to_bytes()].concat()
    }

    #[test]
    fn what_is_in_a_digest_is_found_in_it() {
        let digest = SquidDigest::decode(&digest(&["http://a/", "http://b/x?y"])).unwrap();
        assert_eq!((digest.objects, digest.bytes()), (2, 625));
        assert!(digest.may_have(b"http://a/"));
        assert!(digest.may_have(b"http://b/x?y"));
        assert!(!digest.may_have(b"http://c/"));
    }

    #[test]
    fn positions_are_the_big_endian_words_of_the_key() {
        // printf '\1http://a/' | md5sum
        let words = positions(b"http://a/", 1 << 32);
        assert_eq!(words, [0xe96a_5ca4, 0x4e67_8f24, 0xc0ea_fbf0, 0x1ade_37de]);
        assert_eq!(positions(b"http://a/", 5000), words.map(|word| word % 5000));
    }

    #[test]
    fn a_header_that_is_wrong_is_refused() {
        let good = digest(&["http://a/"]);
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            SquidDigest::decode(&bytes)
        };
        assert!(SquidDigest::decode(&good).is_ok());
        assert_eq!(with(3, 6), Err(Unusable::Version(5)));
        assert_eq!(with(1, 2), Err(Unusable::Version(2)));
        assert_eq!(with(7, 0), Err(Unusable::Header));
        assert_eq!(with(20, 0), Err(Unusable::Header));
        assert_eq!(with(21, 3), Err(Unusable::Functions(3)));
        assert_eq!(SquidDigest::decode(&good[..127]), Err(Unusable::NoHeader));
        let length = |expected, found| Err(Unusable::Length { expected, found });
        assert_eq!(SquidDigest::decode(&good[..752]), length(625, 624));
        let full = [&good[..HEADER_BYTES], &[255; 625]].concat();
        assert_eq!(SquidDigest::decode(&full), Err(Unusable::Full));
        assert_eq!(
            SquidDigest::decode(&vec![0; BYTES_MAX + 1]),
            Err(Unusable::TooLong)
        );
    }

    #[test]
    fn sizes_are_bounded() {
        assert_eq!(Size::new(0, 5), None);
        assert_eq!(Size::new(1, 0), None);
        assert_eq!(Size::new(BITS_MAX, 2), None);
        assert_eq!(Size::new(u64::MAX, 255), None);
    }
}
