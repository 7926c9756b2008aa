//! Formats for people: sizes, times, foreign text made harmless, progress.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use httpcache::UnixMillis;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// `13.2 KiB`: three digits are enough to compare; `--json` has them all.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut scaled = bytes as f64;
    let mut unit = 0;
    // 1023.96 would print as 1024.0.
    while scaled >= 1023.95 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{scaled:.1} {}", UNITS[unit]),
    }
}

/// `5m`, `3h`, `12d`: in the largest unit that gives at least 1.
pub fn span(seconds: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    let (unit, name) = UNITS
        .into_iter()
        .find(|(unit, _)| seconds >= *unit)
        .unwrap_or((1, "s"));
    format!("{}{name}", seconds / unit)
}

/// An instant, as HTTP writes it.
pub fn date(unix_ms: u64) -> String {
    let text = httpcache::format_date(UnixMillis(unix_ms));
    String::from_utf8_lossy(&text).into_owned()
}

/// Wall time, milliseconds since 1970.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or(Duration::ZERO).as_millis() as u64
}

/// Text from an origin or from the disk, with control characters for a terminal shown as `\x1b`.
pub fn harmless(text: &[u8]) -> String {
    let text: Cow<'_, str> = String::from_utf8_lossy(text);
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            let _ = write!(out, "\\x{:02x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// `1 object`, `2 objects`, `2 prefixes`.
pub fn count(n: u64, noun: &str) -> String {
    let end = match n {
        1 => "",
        _ if noun.ends_with(['s', 'x']) => "es",
        _ => "s",
    };
    format!("{n} {noun}{end}")
}

/// Hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// A bar of bytes on standard error; nothing unless that is a terminal.
pub struct Bar(ProgressBar);

impl Bar {
    /// Begins a task of so many bytes.
    pub fn new(title: &'static str, bytes: u64) -> Self {
        let shown = std::io::stderr().is_terminal();
        let target = if shown {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(bytes), target);
        let style = ProgressStyle::with_template(
            "{prefix} {wide_bar} {binary_bytes}/{binary_total_bytes}  {binary_bytes_per_sec}, {eta} left",
        );
        if let Ok(style) = style {
            bar.set_style(style);
        }
        bar.set_prefix(title);
        Self(bar)
    }

    /// Shows that so many bytes are done.
    pub fn at(&self, bytes: u64) {
        self.0.set_position(bytes);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_short() {
        let sizes = [0, 1023, 1024, 13_517, 1_048_575, 10 << 30, 3 << 40].map(size);
        let expected = [
            "0 B", "1023 B", "1.0 KiB", "13.2 KiB", "1.0 MiB", "10.0 GiB", "3.0 TiB",
        ];
        assert_eq!(sizes, expected);
        assert_eq!(
            [0, 59, 60, 7200, 90_000].map(span),
            ["0s", "59s", "1m", "2h", "1d"]
        );
    }

    #[test]
    fn a_terminal_is_not_steered() {
        assert_eq!(harmless(b"a\x1b[31m\nb\xff"), "a\\x1b[31m\\x0ab\u{fffd}");
    }
}
