//! The bytes of an object: a piece of pseudorandom noise. Object and version determine where it begins.
//!
//! Limits: the noise repeats after [`PERIOD`] bytes; two objects begin at the same place once in a million.

use std::sync::LazyLock;

/// Bytes of noise before it repeats.
pub const PERIOD: usize = 1 << 20;

/// Two periods, so that any `PERIOD` bytes from any start below `PERIOD` are one slice.
static NOISE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut period = Vec::with_capacity(PERIOD);
    while period.len() < PERIOD {
        state = mixed(state);
        period.extend_from_slice(&state.to_le_bytes());
    }
    period.extend_from_within(..);
    period
});

fn mixed(state: u64) -> u64 {
    let mut mixed = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// A body while it is sent or compared.
#[derive(Debug, Clone)]
pub struct Body {
    at: usize,
    left: u64,
}

impl Body {
    /// `bytes` bytes of this version of this object, from `first` on.
    pub fn new(object: u32, version: u32, first: u64, bytes: u64) -> Self {
        let start = mixed(u64::from(object) << 32 | u64::from(version)) % PERIOD as u64;
        Self {
            at: ((start + first) % PERIOD as u64) as usize,
            left: bytes,
        }
    }

    /// Number of bytes that remain.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The next piece, at most a period; empty at the end.
    pub fn piece(&self) -> &'static [u8] {
        let bytes = self.left.min(PERIOD as u64) as usize;
        &NOISE[self.at..self.at + bytes]
    }

    /// Moves past `bytes` bytes of the piece.
    pub fn advance(&mut self, bytes: usize) {
        self.at = (self.at + bytes) % PERIOD;
        self.left -= bytes as u64;
    }

    /// Whether these are the next bytes; if so, moves past them.
    pub fn takes(&mut self, bytes: &[u8]) -> bool {
        bytes.chunks(PERIOD).all(|bytes| {
            let same = self.piece().get(..bytes.len()) == Some(bytes);
            if same {
                self.advance(bytes.len());
            }
            same
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut body: Body) -> Vec<u8> {
        let mut bytes = Vec::new();
        while body.left() > 0 {
            let piece = body.piece();
            bytes.extend_from_slice(piece);
            body.advance(piece.len());
        }
        bytes
    }

    #[test]
    fn a_body_is_itself_and_no_other() {
        for bytes in [0, 1, 5000, 3 * PERIOD as u64 + 7] {
            let body = all(Body::new(7, 0, 0, bytes));
            assert_eq!(body.len() as u64, bytes);
            assert!(Body::new(7, 0, 0, bytes).takes(&body));
        }
        let body = all(Body::new(7, 0, 0, 5000));
        for (object, version) in [(8, 0), (7, 1)] {
            assert!(!Body::new(object, version, 0, 5000).takes(&body));
        }
        let mut wrong = body.clone();
        wrong[4999] ^= 1;
        assert!(!Body::new(7, 0, 0, 5000).takes(&wrong));
        assert!(!Body::new(7, 0, 0, 4999).takes(&body), "too long");
    }

    #[test]
    fn a_part_is_a_part_of_the_whole() {
        let whole = all(Body::new(3, 2, 0, PERIOD as u64 + 100));
        let part = all(Body::new(3, 2, PERIOD as u64 - 5, 50));
        assert_eq!(part, whole[PERIOD - 5..][..50]);
    }
}
