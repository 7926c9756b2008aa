//! The Huffman code of strings (RFC 7541 §5.2).
//!
//! Decoding looks up the next twelve bits in a table, whose row gives the one or two symbols they begin with and the length of
//! their codes. Codes of more than twelve bits belong to bytes that are rare in fields. They are found by length, because the
//! code is canonical: codes of one length are consecutive, in the order of their symbols.
//!
//! The tables are computed from `codes` when the crate is compiled.

mod codes;

use codes::CODES;

/// Bits that one look-up covers.
const LOOK_BITS: u32 = 12;
const CODE_BITS_MAX: u32 = 30;
const EOS: usize = 256;

/// A row of the table: up to two symbols, their number (0: the code is longer than a row), and the bits of their codes.
#[derive(Clone, Copy)]
struct Row {
    symbols: [u8; 2],
    count: u8,
    bits: u8,
}

static LOOK: [Row; 1 << LOOK_BITS] = look_table();

/// Codes of one length: the first of them at the high end of 32 bits, and where their symbols begin in `LONG_SYMBOLS`.
#[derive(Clone, Copy)]
struct Length {
    first: u32,
    count: u32,
    symbols_at: usize,
}

static LONG: ([Length; CODE_BITS_MAX as usize + 1], [u16; 257]) = long_tables();

const fn look_table() -> [Row; 1 << LOOK_BITS] {
    // First one symbol a row, then a second one where it fits.
    let mut single = [(0u8, 0u8); 1 << LOOK_BITS];
    let mut symbol = 0;
    while symbol < 256 {
        let (code, bits) = CODES[symbol];
        if bits as u32 <= LOOK_BITS {
            let free = LOOK_BITS - bits as u32;
            let mut row = code << free;
            while row < (code + 1) << free {
                single[row as usize] = (symbol as u8, bits);
                row += 1;
            }
        }
        symbol += 1;
    }
    let mut table = [Row {
        symbols: [0, 0],
        count: 0,
        bits: 0,
    }; 1 << LOOK_BITS];
    let mut row = 0;
    while row < 1 << LOOK_BITS {
        let (first, bits) = single[row];
        if bits > 0 {
            table[row] = Row {
                symbols: [first, 0],
                count: 1,
                bits,
            };
            let (second, more) = single[(row << bits) & ((1 << LOOK_BITS) - 1)];
            if more > 0 && (bits + more) as u32 <= LOOK_BITS {
                table[row] = Row {
                    symbols: [first, second],
                    count: 2,
                    bits: bits + more,
                };
            }
        }
        row += 1;
    }
    table
}

const fn long_tables() -> ([Length; CODE_BITS_MAX as usize + 1], [u16; 257]) {
    let none = Length {
        first: 0,
        count: 0,
        symbols_at: 0,
    };
    let mut lengths = [none; CODE_BITS_MAX as usize + 1];
    let mut symbols = [0u16; 257];
    let mut filled = 0;
    let mut bits = 1;
    while bits <= CODE_BITS_MAX {
        let mut length = Length {
            first: 0,
            count: 0,
            symbols_at: filled,
        };
        let mut symbol = 0;
        while symbol < 257 {
            let (code, its_bits) = CODES[symbol];
            if its_bits as u32 == bits {
                if length.count == 0 {
                    length.first = code << (32 - bits);
                }
                assert!(code << (32 - bits) == length.first + (length.count << (32 - bits)));
                symbols[filled] = symbol as u16;
                filled += 1;
                length.count += 1;
            }
            symbol += 1;
        }
        lengths[bits as usize] = length;
        bits += 1;
    }
    assert!(filled == 257);
    (lengths, symbols)
}

/// A malformed Huffman string: it contains EOS, or its padding is not the first bits of EOS (RFC 7541 §5.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BadString;

/// Appends the decoded string, which is at most 8/5 as long as `coded`.
pub(crate) fn decode(coded: &[u8], out: &mut Vec<u8>) -> Result<(), BadString> {
    out.reserve(coded.len() * 8 / 5 + 1);
    // The next bits are at the high end of `bits`; `held` of them are from the string, zeros follow.
    let mut bits: u64 = 0;
    let mut held: u32 = 0;
    let mut rest = coded;
    loop {
        if let Some((word, _)) = rest.split_first_chunk::<8>() {
            // Take as many whole bytes of the word as there is room for.
            bits |= u64::from_be_bytes(*word) >> held;
            let bytes = (63 - held) / 8;
            rest = &rest[bytes as usize..];
            held += bytes * 8;
            // Clear the bits beyond `held`: their bytes are read again.
            bits &= !(u64::MAX.checked_shr(held).unwrap_or(0));
        } else {
            while held <= 56
                && let Some((&byte, left)) = rest.split_first()
            {
                bits |= u64::from(byte) << (56 - held);
                held += 8;
                rest = left;
            }
        }
        // While this many bits are held, no code is cut off, though more bytes are to come.
        while held >= CODE_BITS_MAX + LOOK_BITS {
            step(&mut bits, &mut held, out)?;
        }
        if rest.is_empty() {
            break;
        }
    }
    while held > 0 {
        // The rest may be padding: fewer than eight ones.
        //= rfc7541 §5.2   padding of more than seven bits, or not of the first bits of EOS, is a decoding error
        if held < 8 && bits == !(u64::MAX >> held) {
            return Ok(());
        }
        step(&mut bits, &mut held, out)?;
    }
    Ok(())
}

#[inline]
fn step(bits: &mut u64, held: &mut u32, out: &mut Vec<u8>) -> Result<(), BadString> {
    let row = LOOK[(*bits >> (64 - LOOK_BITS)) as usize];
    let mut taken = u32::from(row.bits);
    if row.count == 2 && taken <= *held {
        out.extend_from_slice(&row.symbols);
    } else if row.count > 0 {
        // At the end, the second symbol may lie in the zeros behind the string.
        taken = u32::from(CODES[usize::from(row.symbols[0])].1);
        out.push(row.symbols[0]);
    } else {
        let (symbol, its_bits) = long_code((*bits >> 32) as u32).ok_or(BadString)?;
        //= rfc7541 §5.2   a string that contains EOS is a decoding error
        out.push(u8::try_from(symbol).map_err(|_| BadString)?);
        taken = its_bits;
    }
    if taken > *held {
        return Err(BadString);
    }
    *bits <<= taken;
    *held -= taken;
    Ok(())
}

#[cold]
fn long_code(bits: u32) -> Option<(u16, u32)> {
    let (lengths, symbols) = &LONG;
    (LOOK_BITS + 1..=CODE_BITS_MAX).find_map(|len| {
        let Length {
            first,
            count,
            symbols_at,
        } = lengths[len as usize];
        let index = bits.checked_sub(first)? >> (32 - len);
        (index < count).then(|| (symbols[symbols_at + index as usize], len))
    })
}

/// The length of `text` in the code, in bytes, padding included.
pub(crate) fn coded_len(text: &[u8]) -> usize {
    let bits: usize = text
        .iter()
        .map(|&byte| usize::from(CODES[usize::from(byte)].1))
        .sum();
    bits.div_ceil(8)
}

/// Appends `text` in the code, padded with the first bits of EOS.
pub(crate) fn encode(text: &[u8], out: &mut Vec<u8>) {
    let mut bits: u64 = 0;
    let mut held: u32 = 0;
    for &byte in text {
        let (code, len) = CODES[usize::from(byte)];
        bits = bits << len | u64::from(code);
        held += u32::from(len);
        while held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    if held > 0 {
        let eos = CODES[EOS].0 as u64;
        let padded = bits << (8 - held) | eos >> (30 - (8 - held));
        out.push(padded as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coded(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(text, &mut out);
        assert_eq!(out.len(), coded_len(text));
        out
    }

    fn decoded(coded: &[u8]) -> Result<Vec<u8>, BadString> {
        let mut out = Vec::new();
        decode(coded, &mut out).map(|()| out)
    }

    /// Decodes bit by bit, with the table of the RFC.
    fn slowly(coded: &[u8]) -> Result<Vec<u8>, BadString> {
        let mut out = Vec::new();
        let (mut code, mut len) = (0u32, 0u8);
        for bit in coded
            .iter()
            .flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1))
        {
            (code, len) = (code << 1 | u32::from(bit), len + 1);
            if let Some(symbol) = CODES.iter().position(|&row| row == (code, len)) {
                out.push(u8::try_from(symbol).map_err(|_| BadString)?);
                (code, len) = (0, 0);
            }
        }
        if len < 8 && code == (1 << len) - 1 {
            Ok(out)
        } else {
            Err(BadString)
        }
    }

    #[test]
    fn examples_of_the_rfc() {
        //= rfc7541 §C.4.1   www.example.com
        assert_eq!(
            coded(b"www.example.com"),
            [
                0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff
            ]
        );
        assert_eq!(decoded(&coded(b"no-cache")).unwrap(), b"no-cache");
        assert_eq!(decoded(&[]).unwrap(), b"");
    }

    #[test]
    fn every_byte_alone_and_between_others() {
        for byte in 0..=255u8 {
            for text in [
                vec![byte],
                vec![byte; 9],
                vec![b'a', byte, b'0'],
                vec![byte, byte, b'~'],
            ] {
                assert_eq!(decoded(&coded(&text)).unwrap(), text);
            }
        }
    }

    #[test]
    fn bad_ends() {
        for bad in [
            &[0xff][..],               // eight bits of padding
            &[0x1f, 0xff],             // 'a', then eleven bits of padding
            &[0x18],                   // 'a', then zeros
            &[0xff, 0xff, 0xff, 0xff], // EOS
            &[0xff, 0xff, 0xff, 0xfc], // EOS and two bits
            &[0x1f, 0xff, 0xff, 0xff, 0xff],
        ] {
            assert_eq!(decoded(bad), Err(BadString), "{bad:x?}");
            assert_eq!(slowly(bad), Err(BadString), "{bad:x?}");
        }
    }

    #[test]
    fn any_bytes_read_as_the_slow_twin_reads_them() {
        let mut state = 1u64;
        let mut next = || {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) as u8
        };
        for len in (0..24).cycle().take(20_000) {
            // Many ones, so that long codes and paddings are met.
            let bytes: Vec<u8> = (0..len).map(|_| next() | next() & next()).collect();
            assert_eq!(decoded(&bytes), slowly(&bytes), "{bytes:x?}");
            let text: Vec<u8> = (0..len).map(|_| next()).collect();
            assert_eq!(decoded(&coded(&text)).unwrap(), text);
        }
    }
}
