//! Integers with a prefix (RFC 7541 §5.1).

use super::decode::BadBlock;

/// Reads an integer from the front of `rest`, whose first byte has `prefix` bits of it. Values above 2^28 are refused: nothing in
/// a block is that large, and additions to such a value could overflow.
#[inline]
pub(super) fn read(prefix: u32, rest: &mut &[u8]) -> Result<usize, BadBlock> {
    let (&first, left) = rest.split_first().ok_or(BadBlock)?;
    *rest = left;
    let max = (1usize << prefix) - 1;
    let value = usize::from(first) & max;
    if value < max {
        return Ok(value);
    }
    read_on(max, rest)
}

fn read_on(mut value: usize, rest: &mut &[u8]) -> Result<usize, BadBlock> {
    //= rfc7541 §5.1   encodings that exceed a limit in value or length MUST be treated as decoding errors
    for shift in [0, 7, 14, 21] {
        let (&byte, left) = rest.split_first().ok_or(BadBlock)?;
        *rest = left;
        value += usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(BadBlock)
}

/// Appends an integer; `first` holds the bits above the prefix.
pub(super) fn write(first: u8, prefix: u32, value: usize, out: &mut Vec<u8>) {
    let max = (1usize << prefix) - 1;
    if value < max {
        out.push(first | value as u8);
        return;
    }
    out.push(first | max as u8);
    let mut left = value - max;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_the_rfc() {
        //= rfc7541 §C.1
        for (value, prefix, bytes) in [
            (10, 5, &[0b01010][..]),
            (1337, 5, &[0b11111, 0b10011010, 0b00001010]),
            (42, 8, &[42]),
        ] {
            let mut out = Vec::new();
            write(0, prefix, value, &mut out);
            assert_eq!(out, bytes);
            let mut rest = bytes;
            assert_eq!(read(prefix, &mut rest), Ok(value));
            assert!(rest.is_empty());
        }
    }

    #[test]
    fn too_long_and_cut_off() {
        for bad in [
            &[][..],
            &[0x1f],
            &[0x1f, 0x80],
            &[0x1f, 0x80, 0x80, 0x80, 0x80],
            &[0x1f, 0x80, 0x80, 0x80, 0x80, 0x00],
            &[
                0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
            ],
        ] {
            assert_eq!(read(5, &mut { bad }), Err(BadBlock), "{bad:x?}");
        }
        for value in [0, 30, 31, 32, 158, 159, 16_384, 1 << 20] {
            let mut out = Vec::new();
            write(0x80, 5, value, &mut out);
            assert_eq!(read(5, &mut &out[..]), Ok(value));
        }
    }
}
