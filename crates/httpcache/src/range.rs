//! Which bytes of a complete representation are wanted.
//!
//! A single byte range is served from the store; everything else is answered as if Range were not there, which is always
//! allowed (RFC 9110 §14.2): several ranges, other units, what cannot be read, and an empty representation.
//!
//! Not known here: methods (Range means something with GET only), statuses (only a 200 is cut), partial content.

use fields::Fields;

use crate::cache_status::write_decimal;
use crate::date::{Single, date_of, single};
use crate::validate::{EntityTag, stored_tag};

/// What a Range field asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByteRange {
    /// All of it: 200.
    Whole,
    /// The bytes from `first` to `last`, both included: 206. `first <= last < complete_length`
    One {
        /// Position of the first byte.
        first: u64,
        /// Position of the last byte.
        last: u64,
    },
    /// Bytes beyond the end: 416.
    Unsatisfiable,
}

/// The byte range that a GET request asks of a stored, complete representation of so many bytes. Honours If-Range.
/// (RFC 9110 §14.1.2, §13.1.5)
pub fn byte_range(request: &Fields, stored: &Fields, complete_length: u64) -> ByteRange {
    let Single::Value(range) = single(request, b"range") else {
        return ByteRange::Whole;
    };
    if !if_range_holds(request, stored) {
        return ByteRange::Whole;
    }
    match parse_single(range) {
        Some(spec) => spec.within(complete_length),
        None => ByteRange::Whole,
    }
}

/// Appends the value of Content-Range for a 206: `bytes 0-499/1234`. (RFC 9110 §14.4)
pub fn write_content_range(first: u64, last: u64, complete_length: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"bytes ");
    write_decimal(first, out);
    out.push(b'-');
    write_decimal(last, out);
    out.push(b'/');
    write_decimal(complete_length, out);
}

/// Adds the fields that ask an origin for the bytes from `first` to `last` of exactly the stored representation, in place of
/// any other range. False, and nothing changed: it has no strong entity tag, so no answer could be told from
/// another representation's. (RFC 9110 §13.1.5)
pub fn ask_for_part(stored: &Fields, first: u64, last: u64, request: &mut Fields) -> bool {
    if !stored_tag(stored).is_some_and(|ours| ours.strongly_equals(&ours)) {
        return false;
    }
    let mut range = b"bytes=".to_vec();
    write_decimal(first, &mut range);
    range.push(b'-');
    write_decimal(last, &mut range);
    request.set(b"Range", &range);
    request.set(b"If-Range", stored.first(b"etag").unwrap_or_default());
    true
}

/// Does a 206 with these fields hold exactly the bytes from `first` to `last` of the stored representation, which is so
/// long? (RFC 9110 §15.3.7.3)
pub fn is_part(
    stored: &Fields,
    answer: &Fields,
    first: u64,
    last: u64,
    complete_length: u64,
) -> bool {
    let mut range = Vec::new();
    write_content_range(first, last, complete_length, &mut range);
    let same_range = match single(answer, b"content-range") {
        Single::Value(value) => value.eq_ignore_ascii_case(&range),
        Single::Absent | Single::Conflicting => false,
    };
    let same_tag = match (stored_tag(stored), stored_tag(answer)) {
        (Some(ours), Some(theirs)) => ours.strongly_equals(&theirs),
        _ => false,
    };
    // A 206 to If-Range may leave fields out that the client has already, so an absent coding is the same.
    let coding = answer.first(b"content-encoding");
    let same_coding = coding.is_none() || coding == stored.first(b"content-encoding");
    same_range && same_tag && same_coding
}

/// Appends the value of Content-Range for a 416: `bytes */1234`. (RFC 9110 §14.4)
pub fn write_unsatisfied_range(complete_length: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"bytes */");
    write_decimal(complete_length, out);
}

#[derive(Clone, Copy)]
enum Spec {
    FromTo { first: u64, last: u64 },
    Suffix { len: u64 },
}

impl Spec {
    fn within(self, complete_length: u64) -> ByteRange {
        //= rfc9110 §14.2   may ignore Range when the selected representation has no content
        if complete_length == 0 {
            return ByteRange::Whole;
        }
        let end = complete_length - 1;
        match self {
            Spec::FromTo { first, .. } if first > end => ByteRange::Unsatisfiable,
            Spec::FromTo { first, last } => ByteRange::One {
                first,
                last: last.min(end),
            },
            Spec::Suffix { len: 0 } => ByteRange::Unsatisfiable,
            Spec::Suffix { len } => ByteRange::One {
                first: complete_length.saturating_sub(len),
                last: end,
            },
        }
    }
}

/// `bytes=0-499`, `bytes=500-`, `bytes=-500`; `None` for several ranges and for what is none.
fn parse_single(range: &[u8]) -> Option<Spec> {
    let equals = range.iter().position(|&byte| byte == b'=')?;
    if !range[..equals].eq_ignore_ascii_case(b"bytes") {
        return None;
    }
    let spec = range[equals + 1..].trim_ascii();
    let dash = spec.iter().position(|&byte| byte == b'-')?;
    let (first, last) = (&spec[..dash], &spec[dash + 1..]);
    if first.is_empty() {
        return Some(Spec::Suffix { len: number(last)? });
    }
    let first = number(first)?;
    let last = if last.is_empty() {
        u64::MAX
    } else {
        number(last)?
    };
    //= rfc9110 §14.1.1   invalid if last-pos is less than first-pos
    (first <= last).then_some(Spec::FromTo { first, last })
}

/// Digits only, saturating.
//= rfc9110 §14.1.2   anticipate large numerals and prevent overflow
fn number(digits: &[u8]) -> Option<u64> {
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
            ByteRange::Unsatisfiable => "unsatisfiable".into(),
        }
    }

    #[test]
    fn a_part_is_asked_for_and_recognised_by_a_strong_tag_only() {
        let mut request = fields("Range: bytes=0- & If-Range: \"x\"");
        for weak in ["", "ETag: W/\"1\"", "ETag: \"1\" & ETag: \"2\""] {
            assert!(!ask_for_part(&fields(weak), 5, 9, &mut request), "{weak}");
        }
        let stored = fields("ETag: \"1\"");
        assert!(ask_for_part(&stored, 5, 9, &mut request));
        assert_eq!(request.first(b"range"), Some(&b"bytes=5-9"[..]));
        assert_eq!(request.first(b"if-range"), Some(&b"\"1\""[..]));
        let is = |answer: &str| is_part(&stored, &fields(answer), 5, 9, 20);
        assert!(is("ETag: \"1\" & Content-Range: bytes 5-9/20"));
        for other in [
            "ETag: \"2\" & Content-Range: bytes 5-9/20",
            "ETag: W/\"1\" & Content-Range: bytes 5-9/20",
            "ETag: \"1\" & Content-Range: bytes 5-9/21",
            "ETag: \"1\" & Content-Range: bytes 5-9/*",
            "ETag: \"1\" & Content-Range: bytes 4-9/20",
            "ETag: \"1\"",
            "Content-Range: bytes 5-9/20",
            "ETag: \"1\" & Content-Range: bytes 5-9/20 & Content-Encoding: gzip",
        ] {
            assert!(!is(other), "{other}");
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
            "bytes=0-1,3-4",
            "bytes=0-1, ",
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
        assert_eq!(out, b"bytes 0-499/1234 bytes */1234");
    }
}
