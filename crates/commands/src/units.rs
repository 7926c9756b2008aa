//! Sizes and times as people write them: `10GiB`, `500MB`, `30s`, `1h30m`.
//!
//! A time must have a unit (a bare `30` could mean anything); a size without a unit counts bytes. Numbers are whole. Printed values
//! read back as the same values.

use std::fmt;
use std::time::Duration;

/// Binary units, then decimal ones, each largest first, because printing takes the first that divides; bytes last.
const SIZES: &[(&str, u64)] = &[
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

/// Milliseconds; largest first.
const TIMES: &[(&str, u64)] = &[
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// The form of a size, for error messages and the reference.
pub const SIZE_FORM: &str = "a size such as \"64KiB\", \"256MiB\", \"10GiB\" or \"500MB\"";
/// The form of a time.
pub const TIME_FORM: &str = "a time such as \"500ms\", \"30s\", \"5m\", \"2h\" or \"1d\"";

/// Parses a size in bytes; `None`: not a size. A bare number counts as bytes; upper and lower case are the same.
pub fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = split(text.trim())?;
    if unit.is_empty() {
        return Some(number);
    }
    let (_, bytes) = SIZES
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    number.checked_mul(*bytes)
}

/// Parses a time; `None`: not a time. Several parts add up: `1h30m`.
pub fn parse_time(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total_ms = 0u64;
    let mut larger = u64::MAX;
    while !rest.is_empty() {
        let (number, tail) = split(rest)?;
        let unit_len = tail
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(tail.len());
        let (_, ms) = TIMES.iter().find(|(name, _)| *name == &tail[..unit_len])?;
        if *ms >= larger {
            return None; // 30s1h
        }
        larger = *ms;
        total_ms = total_ms.checked_add(number.checked_mul(*ms)?)?;
        rest = tail[unit_len..].trim_start();
    }
    (larger != u64::MAX).then(|| Duration::from_millis(total_ms))
}

/// The number at the front, and the rest.
fn split(text: &str) -> Option<(u64, &str)> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    Some((text[..digits].parse().ok()?, text[digits..].trim_start()))
}

/// Prints bytes in the largest binary unit that divides them, else in the largest decimal one.
#[derive(Clone, Copy, Debug)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(self.0, SIZES, f)
    }
}

/// Prints a time in the largest unit that divides it; parts of a millisecond are dropped.
#[derive(Clone, Copy, Debug)]
pub struct Time(pub Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX) {
            0 => f.write_str("0s"),
            ms => print(ms, TIMES, f),
        }
    }
}

fn print(n: u64, units: &[(&str, u64)], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (name, unit) = units
        .iter()
        .find(|(_, unit)| n != 0 && n.is_multiple_of(*unit))
        .unwrap_or(&units[units.len() - 1]);
    f.pad(&format!("{}{name}", n / unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("10GiB", 10 << 30),
            ("64KiB", 64 << 10),
            ("500MB", 500_000_000),
            ("1 gib", 1 << 30),
            ("512", 512),
            ("512B", 512),
            ("2kb", 2000),
        ] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in ["", "GiB", "10G", "-1MiB", "1.5GiB", "99999999TiB", "1GiB 5"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    #[test]
    fn times_are_read() {
        for (text, ms) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("1h30m", 5_400_000),
        ] {
            assert_eq!(parse_time(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for text in [
            "",
            "30",
            "s",
            "1.5s",
            "30s1h",
            "1s1s",
            "5min",
            "30 s x",
            "99999999999999999d",
        ] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }

    #[test]
    fn printing_takes_the_largest_unit_that_divides() {
        let size = |n| Size(n).to_string();
        assert_eq!(
            (size(10 << 30), size(1536), size(500_000_000), size(0)),
            ("10GiB".into(), "1536B".into(), "500MB".into(), "0B".into())
        );
        let time = |s| Time(Duration::from_secs(s)).to_string();
        assert_eq!(
            (time(65), time(600), time(86_400), time(0)),
            ("65s".into(), "10m".into(), "1d".into(), "0s".into())
        );
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(bytes: u64, ms in 0..u64::MAX / 2) {
            prop_assert_eq!(parse_size(&Size(bytes).to_string()), Some(bytes));
            let time = Duration::from_millis(ms);
            prop_assert_eq!(parse_time(&Time(time).to_string()), Some(time));
        }

        #[test]
        fn any_text_ends_in_an_answer(text: String) {
            let _ = (parse_size(&text), parse_time(&text));
        }
    }
}
