//! Numbers as people read them, and names that are safe on a terminal.

/// Shown for an unknown value.
pub const NONE: &str = "-";

/// Makes -0 to 0: no figure here is negative, but empty sums are -0 (IEEE 754), which would be written with its sign.
fn positive(n: f64) -> f64 {
    n.max(0.0) + 0.0
}

/// A rate or a number: with one decimal below a hundred, else with none.
pub fn rate(n: f64) -> String {
    match positive(n) {
        n if n >= 99.95 => count(n.round() as u64),
        n => format!("{n:.1}"),
    }
}

/// A number with commas between thousands.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A fraction of 1, in percent.
pub fn percent(part: Option<f64>) -> String {
    let percent = |part: f64| format!("{:.1} %", positive(part) * 100.0);
    part.map_or_else(|| NONE.to_owned(), percent)
}

/// Three digits and a unit.
fn scaled(n: f64, base: f64, units: &[&str]) -> String {
    let (mut n, mut unit) = (positive(n), 0);
    while n >= base - 0.5 && unit + 1 < units.len() {
        n /= base;
        unit += 1;
    }
    let digits = match n {
        _ if unit == 0 => 0,
        n if n < 9.995 => 2,
        n if n < 99.95 => 1,
        _ => 0,
    };
    format!("{n:.digits$} {}", units[unit])
}

/// Bytes.
pub fn bytes(n: f64) -> String {
    scaled(n, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB"])
}

/// A time in microseconds.
pub fn time(us: Option<f64>) -> String {
    match us {
        None => NONE.to_owned(),
        Some(us) if us < 9.95 => format!("{:.1} us", positive(us)),
        Some(us) => scaled(us, 1000.0, &["us", "ms", "s"]),
    }
}

/// A long time in seconds.
pub fn span(s: f64) -> String {
    let s = s.max(0.0) as u64;
    let (days, hours, minutes) = (s / 86_400, s / 3600 % 24, s / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{s} s"),
        (0, 0, _) => format!("{minutes} min"),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// A number in five characters.
pub fn short(n: u64) -> String {
    match n {
        0..10_000 => count(n),
        10_000..10_000_000 => format!("{}k", n / 1000),
        10_000_000..10_000_000_000 => format!("{}M", n / 1_000_000),
        _ => format!("{}G", n / 1_000_000_000),
    }
}

/// A long time in seconds, in its largest unit.
pub fn about(s: u64) -> String {
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min", s / 60),
        3600..86_400 => format!("{} h", s / 3600),
        _ => format!("{} d", s / 86_400),
    }
}

/// A name without characters that could move the cursor, hide a part of it or reverse it: clients choose hosts and URLs.
pub fn harmless(name: &str) -> String {
    let is_harmful = |c: char| {
        c.is_control()
            || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    name.chars()
        .map(|c| if is_harmful(c) { '\u{fffd}' } else { c })
        .collect()
}

/// A name in so many characters, the end left out and marked.
pub fn shortened(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    let kept: String = name.chars().take(most.saturating_sub(2)).collect();
    kept + ".."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        for (n, text) in [
            (0.0, "0.0"),
            (99.94, "99.9"),
            (99.96, "100"),
            (12_345.6, "12,346"),
        ] {
            assert_eq!(rate(n), text);
        }
        for (n, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(count(n), text);
        }
        for (n, text) in [
            (0.0, "0 B"),
            (1023.0, "1023 B"),
            (1024.0, "1.00 KiB"),
            (1023.8 * 1024.0, "1.00 MiB"),
            (50.5 * 1024.0 * 1024.0, "50.5 MiB"),
            (2e18, "1776 PiB"),
        ] {
            assert_eq!(bytes(n), text);
        }
        for (us, text) in [
            (Some(1.25), "1.2 us"),
            (Some(84.0), "84 us"),
            (Some(999.7), "1.00 ms"),
            (Some(12_345.0), "12.3 ms"),
            (Some(90e6), "90.0 s"),
            (None, "-"),
        ] {
            assert_eq!(time(us), text);
        }
        for (n, text) in [
            (0, "0"),
            (9999, "9,999"),
            (10_000, "10k"),
            (9_999_999, "9999k"),
            (10_000_000, "10M"),
            (u64::MAX, "18446744073G"),
        ] {
            assert_eq!(short(n), text);
        }
        for (s, text) in [
            (59, "59 s"),
            (119, "1 min"),
            (7200, "2 h"),
            (200_000, "2 d"),
        ] {
            assert_eq!(about(s), text);
        }
        assert_eq!(percent(Some(0.6321)), "63.2 %");
        assert_eq!(percent(Some(-0.0)), "0.0 %");
        assert_eq!(percent(Some(-1e-9)), "0.0 %");
        assert_eq!((rate(-0.0), rate(-1e-9)), ("0.0".into(), "0.0".into()));
        assert_eq!(
            (bytes(-0.0), time(Some(-0.0))),
            ("0 B".into(), "0.0 us".into())
        );
        assert_eq!(
            (span(59.9), span(7260.0)),
            ("59 s".into(), "2 h 1 min".into())
        );
    }

    #[test]
    fn a_name_cannot_write_elsewhere_on_the_screen() {
        assert_eq!(
            harmless("a\x1b[2Jb\u{202e}c\r\n"),
            "a\u{fffd}[2Jb\u{fffd}c\u{fffd}\u{fffd}"
        );
        assert_eq!(harmless("http://ä.example/ж"), "http://ä.example/ж");
        assert_eq!(shortened("abcdefgh", 5), "abc..");
        assert_eq!(shortened("abcde", 5), "abcde");
    }
}
