//! Names and hash functions of paper 003, for the study only; never for real traffic.
//!
//! Both take an integer modulo the bits of the filter. The study ([`Studied`]) takes four bytes of a 20-byte identifier for each function. The
//! implementation ([`Implemented`]) has six functions: four of the URL, and two of the origin server's address. The last two are the same for
//! all objects of a server, so a popular server fills few bits, and the filter performs worse than its size suggests.
//!
//! The paper says "a combination of four bytes" and "permutations of its bytes" without details. Here the i-th function of the study takes the
//! i-th word of the identifier, little-endian, and after the last word rotations of the words; the implementation rotates by bytes.
//!
//! Not known here: URLs.   Source: paper 003, sections 4 (Factors) and 5.

use crate::bloom::Shape;
use crate::md5::md5;
use crate::name::Name;

/// The fixed prime of the polynomial. The paper does not say which one it uses.
const PRIME: u32 = 16_777_619;

/// The study's identifier: the MD5 of the URL and four bytes for the server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Studied([u32; 5]);

impl Studied {
    /// The identifier of a URL on the server of this number.
    pub fn new(url: &[u8], server: u32) -> Studied {
        let sum = md5(&[url]);
        let mut words = [server; 5];
        for (word, bytes) in words.iter_mut().zip(sum.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        Studied(words)
    }
}

impl Name for Studied {
    fn number(&self) -> u64 {
        u64::from(self.0[0]) << 32 | u64::from(self.0[1])
    }

    fn positions(&self, shape: Shape) -> impl Iterator<Item = u32> {
        (0..u32::from(shape.functions())).map(move |i| {
            let word = self.0[i as usize % 5].rotate_left(i / 5 * 8);
            word % shape.bits()
        })
    }
}

/// The implementation's name: the URL as a polynomial, and the server's address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Implemented {
    name: u32,
    address: u32,
}

impl Implemented {
    /// The name of a URL on the server with this IPv4 address.
    pub fn new(url: &[u8], address: u32) -> Implemented {
        let add = |sum: u32, &byte: &u8| sum.wrapping_mul(PRIME).wrapping_add(byte.into());
        Implemented {
            name: url.iter().fold(0, add),
            address,
        }
    }
}

impl Name for Implemented {
    fn number(&self) -> u64 {
        u64::from(self.name) << 32 | u64::from(self.address)
    }

    /// The first six, or fewer if the shape has fewer functions.
    fn positions(&self, shape: Shape) -> impl Iterator<Item = u32> {
        let of_name = (0..4).map(|i| self.name.rotate_left(i * 8));
        let of_address = [self.address, self.address.rotate_left(16)];
        let all = of_name.chain(of_address);
        all.take(shape.functions().into())
            .map(move |number| number % shape.bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_study_takes_words_of_the_identifier() {
        let shape = Shape::new(1 << 25, 5).unwrap();
        let name = Studied::new(b"", 77);
        let positions: Vec<u32> = name.positions(shape).collect();
        // MD5 of the empty input: d41d8cd9 8f00b204 e9800998 ecf8427e.
        assert_eq!(positions[0], 0xd98c_1dd4 % (1 << 25));
        assert_eq!(positions[4], 77);
    }

    #[test]
    fn two_of_six_functions_see_the_server_only() {
        let shape = Shape::new(1 << 25, 6).unwrap();
        let of = |url: &[u8]| {
            let name = Implemented::new(url, 0x0a00_0001);
            name.positions(shape).collect::<Vec<u32>>()
        };
        let (a, b) = (of(b"http://a/1"), of(b"http://a/2"));
        assert_eq!((a.len(), &a[4..]), (6, &b[4..]));
        assert_ne!(a[..4], b[..4]);
    }
}
