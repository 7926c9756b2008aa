//! Numbers, times and strings as text, without `std::fmt`: the journal thread does this for every request, so it
//! should cost little.

use std::io::Write as _;
use std::net::IpAddr;

/// Decimal, padded on the left to `width` by `pad`; longer numbers are not cut.
pub(crate) fn decimal(mut n: u64, width: usize, pad: u8, out: &mut Vec<u8>) {
    let mut digits = [pad; 20];
    let mut at = digits.len();
    // Most numbers fit in 32 bits, which a processor divides faster.
    while u32::try_from(n).is_err() {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
    }
    let mut n = n as u32;
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    at = at.min(digits.len() - width.min(digits.len()));
    out.extend_from_slice(&digits[at..]);
}

pub(crate) fn number(n: u64, out: &mut Vec<u8>) {
    decimal(n, 1, b'0', out);
}

pub(crate) fn address(ip: IpAddr, out: &mut Vec<u8>) {
    match ip.to_canonical() {
        IpAddr::V4(v4) => {
            for (i, octet) in v4.octets().into_iter().enumerate() {
                if i > 0 {
                    out.push(b'.');
                }
                number(octet.into(), out);
            }
        }
        IpAddr::V6(v6) => write!(out, "{v6}").expect("a Vec takes every write"),
    }
}

/// Appends microseconds since 1970 as `2023-11-14T22:13:20.123456Z`, RFC 3339 in UTC.
pub fn time(unix_us: u64, out: &mut Vec<u8>) {
    let seconds = unix_us / 1_000_000;
    let (year, month, day) = civil(seconds / 86_400);
    decimal(year, 4, b'0', out);
    for (separator, n) in [
        (b'-', month),
        (b'-', day),
        (b'T', seconds / 3600 % 24),
        (b':', seconds / 60 % 60),
        (b':', seconds % 60),
    ] {
        out.push(separator);
        decimal(n, 2, b'0', out);
    }
    out.push(b'.');
    decimal(unix_us % 1_000_000, 6, b'0', out);
    out.push(b'Z');
}

/// `14/Nov/2023:22:13:20 +0000`, as in the common log format.
pub(crate) fn common_time(unix_us: u64, out: &mut Vec<u8>) {
    const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let seconds = unix_us / 1_000_000;
    let (year, month, day) = civil(seconds / 86_400);
    decimal(day, 2, b'0', out);
    out.push(b'/');
    let name = (month as usize - 1) * 3;
    out.extend_from_slice(&MONTHS[name..name + 3]);
    out.push(b'/');
    decimal(year, 4, b'0', out);
    for n in [seconds / 3600 % 24, seconds / 60 % 60, seconds % 60] {
        out.push(b':');
        decimal(n, 2, b'0', out);
    }
    out.extend_from_slice(b" +0000");
}

/// Appends bytes for a place between quotes, escaped as nginx does: `\xXX` for quotes, backslashes and all but visible ASCII.
pub(crate) fn quoted(bytes: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let is_plain = |b: u8| matches!(b, b' '..=b'~') && b != b'"' && b != b'\\';
    for run in bytes.chunk_by(|&a, &b| is_plain(a) == is_plain(b)) {
        if is_plain(run[0]) {
            out.extend_from_slice(run);
        } else {
            for &byte in run {
                let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
                out.extend_from_slice(b"\\x");
                out.extend_from_slice(&digits);
            }
        }
    }
}

/// Converts days since 1970 to year, month, day. Counting the year from March puts the leap day last.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // since 1 March of the year 0
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// Appends one word: `%XX` for everything but visible ASCII, `-` for an empty text. An existing `%` stays as it is.
pub(crate) fn word(bytes: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    if bytes.is_empty() {
        out.push(b'-');
        return;
    }
    // True for nearly all words; without an early exit many bytes are checked at a time.
    if bytes
        .iter()
        .fold(true, |all, byte| all & byte.is_ascii_graphic())
    {
        out.extend_from_slice(bytes);
        return;
    }
    for run in bytes.chunk_by(|a, b| a.is_ascii_graphic() == b.is_ascii_graphic()) {
        if run[0].is_ascii_graphic() {
            out.extend_from_slice(run);
        } else {
            for &byte in run {
                out.extend_from_slice(&[
                    b'%',
                    HEX[usize::from(byte >> 4)],
                    HEX[usize::from(byte & 15)],
                ]);
            }
        }
    }
}

/// Appends a JSON string, quotes included; invalid UTF-8 becomes U+FFFD.
pub(crate) fn json_string(bytes: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for &byte in String::from_utf8_lossy(bytes).as_bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..0x20 | 0x7f => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn times_are_civil() {
        let at = |seconds: u64| text(|out| time(seconds * 1_000_000 + 42, out));
        assert_eq!(at(0), "1970-01-01T00:00:00.000042Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.000042Z");
        assert_eq!(at(1_709_251_199), "2024-02-29T23:59:59.000042Z");
        assert_eq!(at(1_700_000_000), "2023-11-14T22:13:20.000042Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00.000042Z");
        text(|out| time(u64::MAX, out)); // must not panic
    }

    #[test]
    fn words_hold_no_blanks_and_no_control_bytes() {
        assert_eq!(text(|out| word(b"/a b%20\n\xff", out)), "/a%20b%20%0A%FF");
        assert_eq!(text(|out| word(b"", out)), "-");
    }

    #[test]
    fn numbers_pad_but_are_never_cut() {
        assert_eq!(text(|out| decimal(7, 3, b' ', out)), "  7");
        assert_eq!(text(|out| decimal(12_345, 3, b' ', out)), "12345");
        assert_eq!(text(|out| number(u64::MAX, out)), u64::MAX.to_string());
        assert_eq!(text(|out| number(0, out)), "0");
    }

    proptest! {
        #[test]
        fn json_strings_are_json(s: String) {
            let written = text(|out| json_string(s.as_bytes(), out));
            prop_assert_eq!(serde_json::from_str::<String>(&written).unwrap(), s);
        }

        #[test]
        fn addresses_print_as_the_library_prints_them(ip: IpAddr) {
            prop_assert_eq!(text(|out| address(ip, out)), ip.to_canonical().to_string());
        }
    }
}
