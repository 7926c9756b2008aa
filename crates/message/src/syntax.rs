//! Which bytes are legal where, and numbers as text.

/// The longest body that Content-Length may announce: sums of a few such lengths still fit a u64.
pub const BODY_BYTES_MAX: u64 = i64::MAX as u64;

/// Are the bytes a token (RFC 9110 §5.6.2)?
#[inline]
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&byte| is_token_byte(byte))
}

/// Is the byte legal in a token?
#[inline]
pub fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Splits comma-separated tokens. Quotes have no meaning here, so a stray quote cannot hide a member. Empty members
/// are kept.
pub fn split_tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&b| b == b',').map(fields::trim_blanks)
}

/// Is the target visible ASCII without `#`, and not empty?
#[inline]
pub fn is_target(target: &[u8]) -> bool {
    // Without an early exit the compiler checks many bytes at a time.
    let foul = |b: u8| !b.is_ascii_graphic() | (b == b'#');
    !target.is_empty() && !target.iter().fold(false, |found, &b| found | foul(b))
}

/// Reads a Content-Length value: 1 to 19 digits and nothing else, at most [`BODY_BYTES_MAX`].
pub fn parse_content_length(value: &[u8]) -> Option<u64> {
    // 19 digits cannot overflow a u64.
    if value.is_empty() || value.len() > 19 {
        return None;
    }
    let mut length = 0;
    for &byte in value {
        if !byte.is_ascii_digit() {
            return None;
        }
        length = length * 10 + u64::from(byte - b'0');
    }
    (length <= BODY_BYTES_MAX).then_some(length)
}

/// Appends a number in decimal, without leading zeros.
pub fn write_decimal(mut n: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        let length = |text: &str| parse_content_length(text.as_bytes());
        assert_eq!(length("0"), Some(0));
        assert_eq!(length("0042"), Some(42));
        assert_eq!(length("9223372036854775807"), Some(BODY_BYTES_MAX));
        for refused in [
            "",
            "+5",
            "-5",
            "5 ",
            "5,5",
            "5, 5",
            "0x5",
            "5.",
            "9223372036854775808",
            "00000000000000000005",
        ] {
            assert_eq!(length(refused), None, "{refused:?}");
        }
    }

    #[test]
    fn numbers() {
        for n in [0, 1, 9, 10, 99, 100, 12_345, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            write_decimal(n, &mut out);
            assert_eq!(out, n.to_string().as_bytes());
        }
    }
}
