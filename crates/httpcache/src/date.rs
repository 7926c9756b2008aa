//! Reading and writing HTTP dates.
//!
//! All three forms are accepted (RFC 9110 §5.6.7). The older two are first converted to the preferred one, so that one
//! set of rules applies to all. Letter case is ignored, as caches should, and so is a wrong weekday; a leap second is
//! accepted, as in the grammar. Everything else is invalid: another zone, a missing digit, the 30th of February. [`date_of`]
//! distinguishes absent from invalid, since the meaning differs by field: an invalid `Expires` means expired, an
//! invalid `Last-Modified` counts as absent.
//!
//! Limits: years 1970 to 9999; two-digit years from 70 on belong to the last century.

use std::time::{Duration, SystemTime};

use fields::Fields;
use httpdate::HttpDate;

/// Milliseconds since the beginning of 1970, UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct UnixMillis(pub u64);

impl UnixMillis {
    /// Whole seconds, rounded down.
    pub fn seconds(self) -> u64 {
        self.0 / 1000
    }
}

/// Length of a date as written by [`format_date`].
pub const DATE_BYTES: usize = 29;

/// The last second that the preferred form can express: end of the year 9999.
const LAST_SECOND: u64 = 253_402_300_799;

/// The longest form: `Wednesday, 06-Nov-94 08:49:37 GMT`.
const LONGEST_BYTES: usize = 33;

/// Seconds since 1970 of an HTTP date in any of its three forms; `None` if invalid.
pub fn parse_date(value: &[u8]) -> Option<u64> {
    // Fast path: nearly every date is in the preferred form, and a miss parses several.
    if let Ok(preferred) = value.try_into()
        && let Some(seconds) = parse_preferred(preferred)
    {
        return Some(seconds);
    }
    parse_any(value)
}

/// Reads exactly `Sun, 06 Nov 1994 08:49:37 GMT`; `None` for anything else, which may still be a date.
fn parse_preferred(text: &[u8; DATE_BYTES]) -> Option<u64> {
    const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    const WEEKDAYS: &[u8; 21] = b"SunMonTueWedThuFriSat";
    let digits = |at: usize| {
        let (tens, ones) = (text[at].wrapping_sub(b'0'), text[at + 1].wrapping_sub(b'0'));
        (tens < 10 && ones < 10).then(|| u64::from(tens) * 10 + u64::from(ones))
    };
    let marks = text[3..5] == *b", "
        && text[7] == b' '
        && text[11] == b' '
        && text[16] == b' '
        && text[19] == b':'
        && text[22] == b':'
        && text[25..] == *b" GMT";
    if !marks || !WEEKDAYS.chunks_exact(3).any(|name| *name == text[..3]) {
        return None;
    }
    let month = 1 + MONTHS
        .chunks_exact(3)
        .position(|name| *name == text[8..11])? as u64;
    let day = digits(5)?;
    let year = digits(12)? * 100 + digits(14)?;
    let (hour, minute, second) = (digits(17)?, digits(20)?, digits(23)?);
    let leap_year =
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days_in_month = match month {
        2 => 28 + u64::from(leap_year),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let valid = year >= 1970 && (1..=days_in_month).contains(&day);
    if !valid || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    // Count days from 1 March of the year 0, so that the leap day is the last of its year.
    let (year_from_march, month_from_march) = match month {
        1 | 2 => (year - 1, month + 9),
        _ => (year, month - 3),
    };
    let leap_days = year_from_march / 4 - year_from_march / 100 + year_from_march / 400;
    let days = 365 * year_from_march + leap_days + (153 * month_from_march + 2) / 5 + day - 1;
    const DAYS_TO_1970: u64 = 719_468;
    Some((((days - DAYS_TO_1970) * 24 + hour) * 60 + minute) * 60 + second)
}

/// Reads any of the three forms, in any letter case.
fn parse_any(value: &[u8]) -> Option<u64> {
    if value.len() > LONGEST_BYTES {
        return None;
    }
    let mut copy = [0; LONGEST_BYTES];
    let text = &mut copy[..value.len()];
    text.copy_from_slice(value);
    //= rfc9111 §4.2   a cache should match dates case-insensitively
    unify_case(text);
    let leap = lower_leap_second(text);
    let preferred = match <[u8; DATE_BYTES]>::try_from(&*text) {
        Ok(preferred) if preferred[3] == b',' => preferred,
        _ => of_rfc850(text).or_else(|| of_asctime(text))?,
    };
    Some(parse_preferred(&preferred)? + u64::from(leap))
}

/// Converts `Sunday, 06-Nov-94 08:49:37 GMT` to the preferred form.
fn of_rfc850(text: &[u8]) -> Option<[u8; DATE_BYTES]> {
    const WEEKDAYS: [&[u8]; 7] = [
        b"Sunday",
        b"Monday",
        b"Tuesday",
        b"Wednesday",
        b"Thursday",
        b"Friday",
        b"Saturday",
    ];
    let comma = text.iter().position(|&byte| byte == b',')?;
    let (weekday, rest) = text.split_at(comma);
    let rest: &[u8; 24] = rest.try_into().ok()?;
    let marks = rest[1] == b' ' && rest[4] == b'-' && rest[8] == b'-' && rest[11] == b' ';
    if !marks || !WEEKDAYS.contains(&weekday) {
        return None;
    }
    let century = if rest[9] < b'7' { b"20" } else { b"19" };
    join([
        &weekday[..3],
        b", ",
        &rest[2..4],
        b" ",
        &rest[5..8],
        b" ",
        century,
        &rest[9..],
    ])
}

/// Converts `Sun Nov  6 08:49:37 1994` to the preferred form.
fn of_asctime(text: &[u8]) -> Option<[u8; DATE_BYTES]> {
    let text: &[u8; 24] = text.try_into().ok()?;
    if text[3] != b' ' || text[7] != b' ' || text[10] != b' ' || text[19] != b' ' {
        return None;
    }
    let tens = if text[8] == b' ' { b'0' } else { text[8] };
    let (day, time) = ([tens, text[9]], &text[10..20]);
    join([
        &text[..3],
        b", ",
        &day,
        b" ",
        &text[4..7],
        b" ",
        &text[20..],
        &[time, b"GMT"].concat(),
    ])
}

fn join(parts: [&[u8]; 8]) -> Option<[u8; DATE_BYTES]> {
    parts.concat().try_into().ok()
}

/// The date in the form that senders must use: `Sun, 06 Nov 1994 08:49:37 GMT`. (RFC 9110 §5.6.7)
pub fn format_date(at: UnixMillis) -> [u8; DATE_BYTES] {
    let seconds = at.seconds().min(LAST_SECOND);
    format(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

/// The content of a field that holds one date.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dated {
    /// There is no such field.
    Absent,
    /// It is not a date, or several lines differ.
    Invalid,
    /// Seconds since 1970.
    At(u64),
}

impl Dated {
    pub(crate) fn at(self) -> Option<u64> {
        match self {
            Dated::At(seconds) => Some(seconds),
            Dated::Absent | Dated::Invalid => None,
        }
    }
}

/// The date in the field `name`. Equal lines count as one line.
pub(crate) fn date_of(fields: &Fields, name: &[u8]) -> Dated {
    match single(fields, name) {
        Single::Absent => Dated::Absent,
        Single::Conflicting => Dated::Invalid,
        Single::Value(value) => parse_date(value).map_or(Dated::Invalid, Dated::At),
    }
}

/// A field that should occur once.
pub(crate) enum Single<'a> {
    Absent,
    Value(&'a [u8]),
    Conflicting,
}

pub(crate) fn single<'a>(fields: &'a Fields, name: &'a [u8]) -> Single<'a> {
    let mut values = fields.all(name);
    match values.next() {
        None => Single::Absent,
        Some(first) if values.all(|other| other == first) => Single::Value(first),
        Some(_) => Single::Conflicting,
    }
}

fn format(time: SystemTime) -> [u8; DATE_BYTES] {
    use std::io::Write;
    let mut out = [0; DATE_BYTES];
    write!(&mut out[..], "{}", HttpDate::from(time)).expect("the preferred form has 29 bytes");
    out
}

/// `sun, 06 NOV 1994 08:49:37 gmt` -> `Sun, 06 Nov 1994 08:49:37 GMT`
fn unify_case(text: &mut [u8]) {
    for word in text.split_mut(|byte| !byte.is_ascii_alphabetic()) {
        if word.eq_ignore_ascii_case(b"GMT") {
            word.make_ascii_uppercase();
        } else if let [first, rest @ ..] = word {
            first.make_ascii_uppercase();
            rest.make_ascii_lowercase();
        }
    }
}

/// `23:59:60` -> `23:59:59`; true if it was changed.
//= rfc9110 §5.6.7   00:00:00 - 23:59:60 (leap second)
fn lower_leap_second(text: &mut [u8]) -> bool {
    let Some(at) = text.windows(8).position(|w| w == b"23:59:60") else {
        return false;
    };
    text[at + 6..at + 8].copy_from_slice(b"59");
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_way_reads_the_preferred_form_as_the_long_way_does() {
        let mut seconds = 0;
        while seconds <= LAST_SECOND {
            let text = format(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
            assert_eq!(parse_preferred(&text), Some(seconds));
            assert_eq!(parse_any(&text), Some(seconds));
            seconds += 86_399 * 977; // reaches every month and hour
        }
        for other in [
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 29 Feb 1900 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:60 GMT",
            "sun, 06 nov 1994 08:49:37 gmt",
            "Sun, 06 Nov 1994 08:49:37 UTC",
        ] {
            let text = other.as_bytes().try_into().unwrap();
            assert_eq!(parse_preferred(text), None, "{other}");
        }
    }

    const EXAMPLE: u64 = 784_111_777;

    fn check(text: &str, expected: Option<u64>) {
        assert_eq!(parse_date(text.as_bytes()), expected, "{text}");
    }

    #[test]
    fn three_forms_mean_the_same() {
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(EXAMPLE));
        check("Sunday, 06-Nov-94 08:49:37 GMT", Some(EXAMPLE));
        check("Sun Nov  6 08:49:37 1994", Some(EXAMPLE));
        check("Thu, 01 Jan 1970 00:00:00 GMT", Some(0));
        check(
            "Wednesday, 09-Nov-94 08:49:37 GMT",
            Some(EXAMPLE + 3 * 86_400),
        );
    }

    #[test]
    fn letter_case_is_forgiven() {
        check("sun, 06 NOV 1994 08:49:37 gmt", Some(EXAMPLE));
        check("SUN NOV  6 08:49:37 1994", Some(EXAMPLE));
    }

    #[test]
    fn a_wrong_weekday_is_forgiven_in_each_form() {
        check("Mon, 06 Nov 1994 08:49:37 GMT", Some(EXAMPLE));
        check("mon, 06 nov 1994 08:49:37 GMT", Some(EXAMPLE));
        check("Monday, 06-Nov-94 08:49:37 GMT", Some(EXAMPLE));
        check("Mon Nov  6 08:49:37 1994", Some(EXAMPLE));
        check("Mon Nov 06 08:49:37 1994", Some(EXAMPLE));
        // But the weekday must be a valid name.
        check("Xyz, 06 Nov 1994 08:49:37 GMT", None);
        check("Sun, 06-Nov-94 08:49:37 GMT", None);
        check("Someday, 06-Nov-94 08:49:37 GMT", None);
        check("Xyz Nov  6 08:49:37 1994", None);
    }

    #[test]
    fn leap_second() {
        check("Sat, 31 Dec 2016 23:59:60 GMT", Some(1_483_228_800));
        check("Sat, 31 Dec 2016 23:58:60 GMT", None);
    }

    #[test]
    fn nothing_else_is_forgiven() {
        for text in [
            "",
            "0",
            "-1",
            "1994-11-06T08:49:37Z",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 06 Nov 1994 08:49:37 +0000",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 8:49:37 GMT",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sunday, 31-Feb-94 08:49:37 GMT",
            "Sun Feb 31 08:49:37 1994",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
            " Sun, 06 Nov 1994 08:49:37 GMT",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn written_in_the_preferred_form() {
        assert_eq!(
            &format_date(UnixMillis(EXAMPLE * 1000 + 999)),
            b"Sun, 06 Nov 1994 08:49:37 GMT"
        );
        assert_eq!(
            &format_date(UnixMillis(u64::MAX)),
            b"Fri, 31 Dec 9999 23:59:59 GMT"
        );
    }

    #[test]
    fn repeated_lines() {
        let mut fields = Fields::new();
        assert_eq!(date_of(&fields, b"date"), Dated::Absent);
        fields.push(b"Date", b"Sun, 06 Nov 1994 08:49:37 GMT");
        fields.push(b"date", b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(date_of(&fields, b"date"), Dated::At(EXAMPLE));
        fields.push(b"date", b"Sun, 06 Nov 1994 08:49:38 GMT");
        assert_eq!(date_of(&fields, b"date"), Dated::Invalid);
    }
}
