//! Numbers in as few bytes as possible: LEB128, seven bits a byte, lowest first.
//!
//! Only the shortest form is accepted, so that equal records have equal bytes.

/// The most bytes one number takes.
pub(crate) const BYTES_MAX: usize = 10;

/// Writes a number to a buffer that must be large enough; returns the number of bytes.
pub(crate) fn put(mut n: u64, out: &mut [u8]) -> usize {
    let mut i = 0;
    while n >= 0x80 {
        out[i] = n as u8 | 0x80;
        n >>= 7;
        i += 1;
    }
    out[i] = n as u8;
    i + 1
}

/// Appends a number.
pub(crate) fn push(n: u64, out: &mut Vec<u8>) {
    if n < 0x80 {
        out.push(n as u8);
        return;
    }
    let mut bytes = [0; BYTES_MAX];
    let len = put(n, &mut bytes);
    out.extend_from_slice(&bytes[..len]);
}

/// Takes one number off the front; `None` if it is cut off, too large or not in its shortest form.
#[inline]
pub(crate) fn take(buf: &mut &[u8]) -> Option<u64> {
    // Most numbers take one byte.
    if let [byte @ ..0x80, rest @ ..] = *buf {
        let n = u64::from(*byte);
        *buf = rest;
        return Some(n);
    }
    take_long(buf)
}

fn take_long(buf: &mut &[u8]) -> Option<u64> {
    let mut n = 0u64;
    for (i, &byte) in buf.iter().take(BYTES_MAX).enumerate() {
        let bits = u64::from(byte & 0x7f);
        if i == BYTES_MAX - 1 && bits > 1 {
            return None;
        }
        n |= bits << (7 * i);
        if byte < 0x80 {
            if byte == 0 && i > 0 {
                return None;
            }
            *buf = &buf[i + 1..];
            return Some(n);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(mut bytes: &[u8]) -> Option<(u64, usize)> {
        let whole = bytes.len();
        take(&mut bytes).map(|n| (n, whole - bytes.len()))
    }

    #[test]
    fn lengths_are_as_promised() {
        for (n, len) in [
            (0, 1),
            (127, 1),
            (128, 2),
            (16_383, 2),
            (16_384, 3),
            (u64::MAX, BYTES_MAX),
        ] {
            let mut out = Vec::new();
            push(n, &mut out);
            assert_eq!(out.len(), len, "{n}");
            assert_eq!(read(&out), Some((n, len)));
        }
    }

    #[test]
    fn long_forms_overflow_and_cut_off_numbers_are_refused() {
        assert_eq!(read(&[0x80, 0x00]), None);
        assert_eq!(read(&[0xff; 10]), None);
        assert_eq!(
            read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]),
            None
        );
        assert_eq!(read(&[0x80]), None);
        assert_eq!(read(&[]), None);
    }

    proptest! {
        #[test]
        fn what_is_put_is_taken(n: u64, tail: [u8; 3]) {
            let mut out = Vec::new();
            push(n, &mut out);
            let len = out.len();
            out.extend_from_slice(&tail);
            prop_assert_eq!(read(&out), Some((n, len)));
        }
    }
}
