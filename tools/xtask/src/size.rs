//! Parses sizes and prints times.
//!
//! `10KiB`, `2GiB`, `512` and, as in the names of the bench's cases, `10k`; all in powers of 1024.

use std::fmt;
use std::str::FromStr;

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

const UNITS: [(&str, u64); 4] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
];

impl Bytes {
    /// Whole mebibytes, at least one.
    pub fn mebibytes(self) -> u64 {
        (self.0 >> 20).max(1)
    }
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let split = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        let (digits, unit) = text.split_at(split);
        let factor = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kb" | "kib" => 1 << 10,
            "m" | "mb" | "mib" => 1 << 20,
            "g" | "gb" | "gib" => 1 << 30,
            "t" | "tb" | "tib" => 1 << 40,
            other => return Err(format!("unknown unit {other:?}; use KiB, MiB, GiB or TiB")),
        };
        let number: u64 = digits
            .parse()
            .map_err(|_| format!("{text:?} is not a size such as 10KiB"))?;
        number
            .checked_mul(factor)
            .map(Bytes)
            .ok_or_else(|| format!("{text:?} is too large"))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, factor) in UNITS {
            if self.0 >= factor && self.0.is_multiple_of(factor) {
                return write!(f, "{}{unit}", self.0 / factor);
            }
        }
        write!(f, "{}", self.0)
    }
}

/// Microseconds as text, in a suitable unit.
pub fn human_us(us: f64) -> String {
    match us {
        us if us < 1_000.0 => format!("{us:.0} us"),
        us if us < 1_000_000.0 => format!("{:.2} ms", us / 1e3),
        us => format!("{:.2} s", us / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!("10k".parse(), Ok(Bytes(10_240)));
        assert_eq!("2GiB".parse(), Ok(Bytes(2 << 30)));
        assert_eq!("77".parse(), Ok(Bytes(77)));
        assert!("ten".parse::<Bytes>().is_err());
        assert!("10 parsecs".parse::<Bytes>().is_err());
        assert!("99999999999TiB".parse::<Bytes>().is_err());
    }

    #[test]
    fn and_are_shown_in_the_largest_whole_unit() {
        assert_eq!(Bytes(10_240).to_string(), "10KiB");
        assert_eq!(Bytes(10_241).to_string(), "10241");
        assert_eq!(Bytes(1 << 30).to_string(), "1GiB");
    }

    #[test]
    fn times_too() {
        assert_eq!(human_us(12.3), "12 us");
        assert_eq!(human_us(1_234.0), "1.23 ms");
        assert_eq!(human_us(2_500_000.0), "2.50 s");
    }
}
