//! Which bytes of a complete representation a Range field requests.
//!
//! One range gives one part. Several ranges give several parts in the order requested; ranges that overlap or
//! nearly touch are merged (RFC 9110 §15.3.7.2). The parts together are therefore never longer than the whole. Range
//! is ignored, which is always allowed (RFC 9110 §14.2), if there are too many ranges, if the answer would be longer
//! than the whole, if the unit is unknown, if a range cannot be read, or if the representation is empty.
//!
//! Limits: [`SPECS_MAX`] ranges are read; [`PARTS_MAX`] parts are made.
//! Not known here: methods (Range applies to GET only), statuses (only a 200 is cut), partial content (`part`).

use fields::Fields;

use crate::date::{Single, date_of, single};
use crate::validate::{EntityTag, stored_tag};
use message::write_decimal;

/// The most ranges in one field; a field with more is ignored. (RFC 9110 §14.2, §17.15)
pub const SPECS_MAX: usize = 64;
/// The most parts in one answer; a request that needs more gets the whole.
pub const PARTS_MAX: usize = 16;
/// Ranges with a smaller gap than this are merged, since another part would cost more bytes.
//= rfc9110 §15.3.7.2   a gap that is smaller than the overhead of sending multiple parts, around 80 bytes
const GAP_BYTES: u64 = 80;

/// A range of bytes, not empty: `first <= last`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Position of the first byte.
    pub first: u64,
    /// Position of the last byte.
    pub last: u64,
}

impl Span {
    /// The number of bytes, at least one; saturating.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }

    /// Does the span contain all of `other`?
    pub fn contains(&self, other: Span) -> bool {
        self.first <= other.first && other.last <= self.last
    }
}

/// The bytes that a Range field requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ByteRange {
    /// The whole representation: 200.
    Whole,
    /// The bytes from `first` to `last`, both included: 206. `first <= last < complete_length`
    One {
        /// Position of the first byte.
        first: u64,
        /// Position of the last byte.
        last: u64,
    },
    /// Two parts or more, disjoint, and including their part heads not longer than the whole: 206, multipart/byteranges.
    Several(Vec<Span>),
    /// Bytes beyond the end: 416.
    Unsatisfiable,
}

/// The bytes that a Range field requests, if the length of the representation is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RangeAsked {
    /// Ignore the field: it is absent, cannot be read, or requests too much.
    Nothing,
    /// One range of bytes.
    One(RangeSpec),
    /// Several ranges, disjoint and in ascending order.
    Several,
    /// Another unit, which only the origin may understand.
    Other,
}

/// The range that a request asks for, regardless of If-Range.
pub fn range_asked(request: &Fields) -> RangeAsked {
    let range = match single(request, b"range") {
        Single::Value(range) => range,
        Single::Absent | Single::Conflicting => return RangeAsked::Nothing,
    };
    if !range.contains(&b'=') || is_in_bytes(range) {
        return match parse(range).as_deref() {
            None | Some([]) => RangeAsked::Nothing,
            Some(&[one]) => RangeAsked::One(one),
            //= rfc9110 §14.2   may ignore many ranges, overlapping ones and those not in ascending order
            Some(several) if several.len() <= PARTS_MAX && is_ascending(several) => {
                RangeAsked::Several
            }
            Some(_) => RangeAsked::Nothing,
        };
    }
    //= rfc9110 §14.2   a proxy may pass on a range unit it does not understand
    RangeAsked::Other
}

fn is_ascending(specs: &[RangeSpec]) -> bool {
    specs.windows(2).all(|pair| match (pair[0], pair[1]) {
        (RangeSpec::FromTo { last, .. }, RangeSpec::FromTo { first, .. }) => last < first,
        (RangeSpec::FromTo { last, .. }, RangeSpec::Suffix { .. }) => last != u64::MAX,
        (RangeSpec::Suffix { .. }, _) => false,
    })
}

/// The bytes that a GET request asks for in a stored, complete representation of `complete_length` bytes. Honours
/// If-Range. (RFC 9110 §14.1.2, §13.1.5)
pub fn byte_range(request: &Fields, stored: &Fields, complete_length: u64) -> ByteRange {
    let Single::Value(range) = single(request, b"range") else {
        return ByteRange::Whole;
    };
    if !if_range_holds(request, stored) {
        return ByteRange::Whole;
    }
    match parse(range).as_deref() {
        //= rfc9110 §14.2   may ignore Range when the selected representation has no content
        None | Some([]) => ByteRange::Whole,
        Some(_) if complete_length == 0 => ByteRange::Whole,
        Some(&[one]) => one
            .within(complete_length)
            .map_or(ByteRange::Unsatisfiable, |Span { first, last }| {
                ByteRange::One { first, last }
            }),
        Some(several) => parts(several, complete_length),
    }
}

/// Merges several ranges into parts.
fn parts(specs: &[RangeSpec], complete_length: u64) -> ByteRange {
    let within = |spec: &RangeSpec| spec.within(complete_length);
    let mut spans: Vec<(usize, Span)> = specs.iter().filter_map(within).enumerate().collect();
    spans.sort_by_key(|(_, span)| span.first);
    let mut merged: Vec<(usize, Span)> = Vec::new();
    for (place, span) in spans {
        match merged.last_mut() {
            //= rfc9110 §15.3.7.2   may coalesce ranges that overlap or nearly touch, whatever their order
            Some((before, last)) if span.first <= last.last.saturating_add(GAP_BYTES) => {
                last.last = last.last.max(span.last);
                *before = place.min(*before);
            }
            _ => merged.push((place, span)),
        }
    }
    //= rfc9110 §15.3.7.2   in the order in which they were asked for
    merged.sort_by_key(|(place, _)| *place);
    let bytes = merged.iter().fold(0u64, |sum, (_, span)| {
        sum.saturating_add(span.len()).saturating_add(GAP_BYTES)
    });
    match &merged[..] {
        //= rfc9110 §15.5.17   416 if none of the ranges overlaps the representation
        [] => ByteRange::Unsatisfiable,
        [(_, Span { first, last })] => ByteRange::One {
            first: *first,
            last: *last,
        },
        many if many.len() > PARTS_MAX || bytes > complete_length => ByteRange::Whole,
        many => ByteRange::Several(many.iter().map(|(_, span)| *span).collect()),
    }
}

/// Appends the value of Content-Range for a 206: `bytes 0-499/1234`. (RFC 9110 §14.4)
pub fn write_content_range(
    first: u64,
    last: u64,
    complete_length: impl Into<Option<u64>>,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"bytes ");
    write_decimal(first, out);
    out.push(b'-');
    write_decimal(last, out);
    out.push(b'/');
    match complete_length.into() {
        Some(bytes) => write_decimal(bytes, out),
        //= rfc9110 §14.4   an asterisk: the complete length is unknown
        None => out.push(b'*'),
    }
}

/// Appends the value of Content-Range for a 416: `bytes */1234`. (RFC 9110 §14.4)
pub fn write_unsatisfied_range(complete_length: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"bytes */");
    write_decimal(complete_length, out);
}

/// One range of a Range field. (RFC 9110 §14.1.2)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RangeSpec {
    /// `bytes=500-999`, `bytes=500-`. `first <= last`
    FromTo {
        /// Position of the first byte.
        first: u64,
        /// Position of the last byte; `u64::MAX`: to the end.
        last: u64,
    },
    /// `bytes=-500`
    Suffix {
        /// The number of bytes at the end.
        len: u64,
    },
}

impl RangeSpec {
    /// The range in a representation of this length; `None` if it contains none of its bytes.
    pub fn within(self, complete_length: u64) -> Option<Span> {
        let end = complete_length.checked_sub(1)?;
        match self {
            RangeSpec::FromTo { first, .. } if first > end => None,
            RangeSpec::FromTo { first, last } => Some(Span {
                first,
                last: last.min(end),
            }),
            RangeSpec::Suffix { len: 0 } => None,
            RangeSpec::Suffix { len } => Some(Span {
                first: complete_length.saturating_sub(len),
                last: end,
            }),
        }
    }

    /// Widens the range to whole fragments of this many bytes, whatever the length of the representation.
    pub fn aligned(self, fragment_bytes: u64) -> RangeSpec {
        match self {
            RangeSpec::FromTo { first, last } => RangeSpec::FromTo {
                first: first - first % fragment_bytes,
                last: match last.checked_add(fragment_bytes - last % fragment_bytes) {
                    Some(behind) => behind - 1,
                    None => u64::MAX,
                },
            },
            RangeSpec::Suffix { len } => RangeSpec::Suffix {
                len: len.saturating_add(fragment_bytes),
            },
        }
    }

    /// Appends the range as the value of a Range field.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"bytes=");
        match self {
            RangeSpec::FromTo { first, last } => {
                write_decimal(first, out);
                out.push(b'-');
                if last != u64::MAX {
                    write_decimal(last, out);
                }
            }
            RangeSpec::Suffix { len } => {
                out.push(b'-');
                write_decimal(len, out);
            }
        }
    }
}

fn is_in_bytes(range: &[u8]) -> bool {
    let unit = range.split(|&byte| byte == b'=').next().unwrap_or_default();
    unit.eq_ignore_ascii_case(b"bytes")
}

/// The ranges of a field; `None` if one of them cannot be read, or there are too many.
fn parse(range: &[u8]) -> Option<Vec<RangeSpec>> {
    let equals = range.iter().position(|&byte| byte == b'=')?;
    if !is_in_bytes(range) {
        return None;
    }
    let mut specs = Vec::new();
    let members = range[equals + 1..].split(|&byte| byte == b',');
    //= rfc9110 §5.6.1.2   must parse and ignore a reasonable number of empty list elements
    for (count, member) in members.enumerate() {
        if count == SPECS_MAX {
            return None;
        }
        let member = member.trim_ascii();
        if !member.is_empty() {
            specs.push(parse_one(member)?);
        }
    }
    Some(specs)
}

/// Reads `0-499`, `500-` or `-500`.
fn parse_one(spec: &[u8]) -> Option<RangeSpec> {
    let dash = spec.iter().position(|&byte| byte == b'-')?;
    let (first, last) = (&spec[..dash], &spec[dash + 1..]);
    if first.is_empty() {
        return Some(RangeSpec::Suffix { len: number(last)? });
    }
    let first = number(first)?;
    let last = if last.is_empty() {
        u64::MAX
    } else {
        number(last)?
    };
    //= rfc9110 §14.1.1   invalid if last-pos is less than first-pos
    (first <= last).then_some(RangeSpec::FromTo { first, last })
}

/// Reads digits, saturating; `None` for anything else.
//= rfc9110 §14.1.2   anticipate large numerals and prevent overflow
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let saturate = |sum: u64, digit: &u8| {
        sum.saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    };
    Some(digits.iter().fold(0, saturate))
}

/// (RFC 9110 §13.1.5)
fn if_range_holds(request: &Fields, stored: &Fields) -> bool {
    let value = match single(request, b"if-range") {
        Single::Absent => return true,
        Single::Conflicting => return false,
        Single::Value(value) => value,
    };
    if let Some(theirs) = EntityTag::parse(value) {
        return stored_tag(stored).is_some_and(|ours| ours.strongly_equals(&theirs));
    }
    let theirs = date_of(request, b"if-range").at();
    let (modified, date) = (
        date_of(stored, b"last-modified").at(),
        date_of(stored, b"date").at(),
    );
    //= rfc9110 §8.8.2.2   strong only if Date is at least one second after Last-Modified
    match (theirs, modified, date) {
        (Some(theirs), Some(modified), Some(date)) => theirs == modified && date > modified,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fields;

    fn ask(request: &str, stored: &str, complete_length: u64) -> String {
        match byte_range(&fields(request), &fields(stored), complete_length) {
            ByteRange::Whole => "whole".into(),
            ByteRange::One { first, last } => format!("{first}..={last}"),
            ByteRange::Several(parts) => {
                let part = |span: &Span| format!("{}..={}", span.first, span.last);
                parts.iter().map(part).collect::<Vec<_>>().join(" ")
            }
            ByteRange::Unsatisfiable => "unsatisfiable".into(),
        }
    }

    #[test]
    fn single_ranges() {
        for (range, expected) in [
            ("bytes=0-499", "0..=499"),
            ("bytes=0-0", "0..=0"),
            ("Bytes=500-999", "500..=999"),
            ("bytes= 500-999", "500..=999"),
            ("bytes=9500-", "9500..=9999"),
            ("bytes=-500", "9500..=9999"),
            ("bytes=-20000", "0..=9999"),
            ("bytes=0-99999999999999999999999999", "0..=9999"),
            ("bytes=9999-", "9999..=9999"),
            ("bytes=10000-", "unsatisfiable"),
            ("bytes=99999999999999999999999999-", "unsatisfiable"),
            ("bytes=-0", "unsatisfiable"),
            ("bytes=0-1, ", "0..=1"),
            ("bytes=,,0-1", "0..=1"),
        ] {
            assert_eq!(
                ask(&format!("Range: {range}"), "", 10_000),
                expected,
                "{range}"
            );
        }
    }

    #[test]
    fn all_else_is_ignored() {
        for range in [
            "bytes=0-1,4-3",
            "bytes=0-1,x",
            "bytes=,",
            "bytes=5-4",
            "bytes=-",
            "bytes=",
            "bytes",
            "bytes=a-b",
            "bytes=0x1-2",
            "bytes=+1-2",
            "bytes=1--2",
            "bytes=1-2-3",
            "bytes =0-1",
            "lines=0-1",
            "bytes:0-1",
            "bytes=0 -1",
            "bytes=0-1 & Range: bytes=3-4",
        ] {
            assert_eq!(
                ask(&format!("Range: {range}"), "", 10_000),
                "whole",
                "{range}"
            );
        }
        assert_eq!(ask("Host: a", "", 10_000), "whole");
    }

    #[test]
    fn several_ranges() {
        for (range, expected) in [
            ("bytes=0-99,500-599", "0..=99 500..=599"),
            ("bytes=500-599 , 0-99", "500..=599 0..=99"),
            ("bytes=0-0,-1", "0..=0 9999..=9999"),
            ("bytes=0-99,5000-,-100", "0..=99 5000..=9999"),
            // Overlapping, touching, and with a gap smaller than a part's head.
            ("bytes=0-99,50-149", "0..=149"),
            ("bytes=100-199,0-99", "0..=199"),
            ("bytes=0-99,179-199", "0..=199"),
            ("bytes=0-99,180-199", "0..=99 180..=199"),
            ("bytes=300-399,0-99,350-499,90-100", "300..=499 0..=100"),
            // Ranges beyond the end are ignored.
            ("bytes=0-99,10000-", "0..=99"),
            ("bytes=10000-,-0", "unsatisfiable"),
            // Parts that would be longer than the whole.
            ("bytes=0-4960,5060-9999", "whole"),
            ("bytes=0-,0-,0-,0-", "0..=9999"),
        ] {
            let asked = ask(&format!("Range: {range}"), "", 10_000);
            assert_eq!(asked, expected, "{range}");
        }
        let many = |count: usize, step: usize| {
            let specs = (0..count).map(|n| format!("{}-{}", n * step, n * step));
            format!("Range: bytes={}", specs.collect::<Vec<_>>().join(","))
        };
        assert_eq!(ask(&many(16, 100), "", 10_000).split(' ').count(), 16);
        assert_eq!(ask(&many(17, 100), "", 10_000), "whole");
        assert_eq!(ask(&many(64, 1), "", 10_000), "0..=63");
        assert_eq!(ask(&many(65, 1), "", 10_000), "whole");
    }

    #[test]
    fn what_is_asked_for_of_what_is_not_known() {
        let asked = |range: &str| match range_asked(&fields(&format!("Range: {range}"))) {
            RangeAsked::Nothing => "nothing".to_owned(),
            RangeAsked::Several => "several".to_owned(),
            RangeAsked::Other => "other".to_owned(),
            RangeAsked::One(spec) => {
                let mut out = Vec::new();
                spec.aligned(100).write(&mut out);
                String::from_utf8(out).unwrap()
            }
        };
        for (range, expected) in [
            ("bytes=0-0", "bytes=0-99"),
            ("bytes=0-99", "bytes=0-99"),
            ("bytes=99-100", "bytes=0-199"),
            ("bytes=250-", "bytes=200-"),
            ("bytes=-1", "bytes=-101"),
            ("bytes=5-18446744073709551615", "bytes=0-"),
            ("bytes=5-18446744073709551614", "bytes=0-"),
            ("bytes=1-2,4-5", "several"),
            ("bytes=1-2,-1", "several"),
            ("bytes=4-5,1-2", "nothing"),
            ("bytes=1-4,4-5", "nothing"),
            ("bytes=0-,0-", "nothing"),
            ("bytes=2-1", "nothing"),
            ("nonsense", "nothing"),
            ("lines=1-2", "other"),
        ] {
            assert_eq!(asked(range), expected, "{range}");
        }
    }

    #[test]
    fn nothing_is_cut_from_nothing() {
        assert_eq!(ask("Range: bytes=0-", "", 0), "whole");
        assert_eq!(ask("Range: bytes=-1", "", 0), "whole");
    }

    #[test]
    fn if_range() {
        let cut = |if_range: &str, stored: &str| {
            ask(
                &format!("Range: bytes=1-2 & If-Range: {if_range}"),
                stored,
                100,
            ) == "1..=2"
        };
        assert!(cut("\"a\"", "ETag: \"a\""));
        assert!(!cut("\"b\"", "ETag: \"a\""));
        assert!(!cut("W/\"a\"", "ETag: W/\"a\""));
        assert!(!cut("W/\"a\"", "ETag: \"a\""));
        assert!(!cut("\"a\"", "ETag: W/\"a\""));
        assert!(!cut("\"a\"", "Date: @0"));
        assert!(!cut("a", "ETag: a"));
        assert!(!cut("\"a\", \"b\"", "ETag: \"a\""));
        assert!(!cut("\"a\" & If-Range: \"b\"", "ETag: \"a\""));
        assert!(cut("@-10", "Last-Modified: @-10 & Date: @0"));
        assert!(!cut("@-9", "Last-Modified: @-10 & Date: @0"));
        assert!(!cut("@-10", "Last-Modified: @-10 & Date: @-10"));
        assert!(!cut("@-10", "Last-Modified: @-10"));
    }

    #[test]
    fn content_range() {
        let mut out = Vec::new();
        write_content_range(0, 499, 1234, &mut out);
        out.push(b' ');
        write_unsatisfied_range(1234, &mut out);
        out.push(b' ');
        write_content_range(0, 499, None, &mut out);
        assert_eq!(out, b"bytes 0-499/1234 bytes */1234 bytes 0-499/*");
    }
}
