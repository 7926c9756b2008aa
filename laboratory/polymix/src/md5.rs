//! MD5, for Content-MD5 (RFC 1864): a few objects in a thousand carry the sum of their bytes.
//!
//! It is no security here: every byte is compared anyway. What is seen is whether a proxy passes the field on.
//!
//! Not known here: HTTP.   Limits: 2^61 bytes.   Source: RFC 1321.

/// Bytes of a block.
const BLOCK: usize = 64;
/// Shifts of the four rounds. rfc1321 §3.4
const SHIFTS: [[u32; 4]; 4] = [
    [7, 12, 17, 22],
    [5, 9, 14, 20],
    [4, 11, 16, 23],
    [6, 10, 15, 21],
];

/// A sum in the making.
#[derive(Debug, Clone)]
pub struct Md5 {
    state: [u32; 4],
    /// Bytes of the last block, which is not full.
    rest: Vec<u8>,
    bytes: u64,
}

impl Default for Md5 {
    fn default() -> Self {
        Self {
            state: [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476],
            rest: Vec::with_capacity(BLOCK),
            bytes: 0,
        }
    }
}

impl Md5 {
    /// Adds bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if !self.rest.is_empty() {
            let take = bytes.len().min(BLOCK - self.rest.len());
            self.rest.extend_from_slice(&bytes[..take]);
            bytes = &bytes[take..];
            if self.rest.len() < BLOCK {
                return;
            }
            let block = std::mem::take(&mut self.rest);
            self.block(&block);
        }
        let mut blocks = bytes.chunks_exact(BLOCK);
        for block in &mut blocks {
            self.block(block);
        }
        self.rest.extend_from_slice(blocks.remainder());
    }

    /// The sum.
    #[must_use]
    pub fn finish(mut self) -> [u8; 16] {
        let bits = self.bytes.wrapping_mul(8);
        self.update(&[0x80]);
        while self.rest.len() != BLOCK - 8 {
            self.update(&[0]);
        }
        self.update(&bits.to_le_bytes());
        let mut sum = [0; 16];
        for (out, word) in sum.chunks_exact_mut(4).zip(self.state) {
            out.copy_from_slice(&word.to_le_bytes());
        }
        sum
    }

    fn block(&mut self, block: &[u8]) {
        let mut words = [0_u32; 16];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        let [mut a, mut b, mut c, mut d] = self.state;
        for step in 0..64 {
            let (mixed, word) = match step / 16 {
                0 => (b & c | !b & d, step),
                1 => (d & b | !d & c, (5 * step + 1) % 16),
                2 => (b ^ c ^ d, (3 * step + 5) % 16),
                _ => (c ^ (b | !d), 7 * step % 16),
            };
            let sum = a
                .wrapping_add(mixed)
                .wrapping_add(sine(step))
                .wrapping_add(words[word]);
            let turned = sum.rotate_left(SHIFTS[step / 16][step % 4]);
            (a, d, c, b) = (d, c, b, b.wrapping_add(turned));
        }
        for (state, value) in self.state.iter_mut().zip([a, b, c, d]) {
            *state = state.wrapping_add(value);
        }
    }
}

/// Entry `step` of the table. rfc1321 §3.4
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)] // below 2^32
fn sine(step: usize) -> u32 {
    (((step + 1) as f64).sin().abs() * 4_294_967_296.0) as u32
}

/// The sum as the field has it. rfc1864 §2
#[must_use]
pub fn base64(sum: [u8; 16]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(24);
    for group in sum.chunks(3) {
        let at = |n: usize| u32::from(group.get(n).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let value = bits >> (18 - 6 * digit) & 63;
            let shown = digit <= group.len();
            out.push(if shown {
                char::from(DIGITS[value as usize])
            } else {
                '='
            });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str, pieces: usize) -> String {
        let mut sum = Md5::default();
        for piece in text.as_bytes().chunks(pieces) {
            sum.update(piece);
        }
        sum.finish().iter().map(|b| format!("{b:02x}")).collect()
    }

    #[test]
    fn sums_are_those_of_the_rfc() {
        // rfc1321 §A.5
        for (text, sum) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                "57edf4a22be3c955ac49da2e2107b67a",
            ),
        ] {
            for pieces in [1, 7, 64, 100] {
                assert_eq!(hex(text, pieces), sum);
            }
        }
    }

    #[test]
    fn the_field_is_base64() {
        // rfc1864 §2, the example.
        let bytes = b"Q2hlY2sgSW50ZWdyaXR5IQ==";
        let sum = *b"Check Integrity!";
        assert_eq!(base64(sum).as_bytes(), bytes);
    }
}
