//! Whether bytes of an answer belong to the stored representation.
//!
//! Parts may be combined only if they certainly belong to the same representation, byte for byte. Only a strong
//! validator shows that: an entity tag that is not weak or, if there is no tag at all, a Last-Modified well before
//! Date. The cache asks with If-Range, so that a correct origin does not send parts of another version. The answer must
//! repeat the validator and the length, and contain exactly the requested bytes.
//!
//! A part is stored as an incomplete 200 (RFC 9111 §3.3), with the fields of [`as_if_whole`].
//!
//! Not known here: where parts are stored, which ones are missing.
//! Source: RFC 9110 §8.8.2.2, §13.1.5, §14.4, §15.3.7.3; RFC 9111 §3.3, §3.4.

use fields::Fields;

use crate::date::{Dated, Single, date_of, single};
use crate::range::{RangeSpec, Span, number, write_content_range};
use crate::validate::{EntityTag, stored_tag};

/// Last-Modified is a strong validator if Date is at least this much later, in seconds.
//= rfc9110 §8.8.2.2   enough difference to make clock synchronization issues unlikely
const STRONG_AFTER_S: u64 = 60;

#[derive(PartialEq, Eq)]
enum Strong<'a> {
    Tag(EntityTag<'a>),
    /// Seconds since 1970.
    Modified(u64),
}

fn strong_validator(fields: &Fields) -> Option<Strong<'_>> {
    if fields.contains(b"etag") {
        //= rfc9110 §13.1.5   no date in If-Range where there is an entity tag
        return stored_tag(fields).filter(|tag| !tag.weak).map(Strong::Tag);
    }
    match (date_of(fields, b"last-modified"), date_of(fields, b"date")) {
        (Dated::At(modified), Dated::At(date)) if date >= modified + STRONG_AFTER_S => {
            Some(Strong::Modified(modified))
        }
        _ => None,
    }
}

/// Has the response a strong validator, which distinguishes its parts from those of another representation?
pub fn has_strong_validator(fields: &Fields) -> bool {
    strong_validator(fields).is_some()
}

/// Are both responses of the same representation, byte for byte?
//= rfc9111 §3.4   if they all share the same strong validator
pub fn is_of_same(stored: &Fields, answer: &Fields) -> bool {
    // A 206 to If-Range may omit fields that the client has already, so an absent coding counts as equal.
    let coding = answer.first(b"content-encoding");
    let same_coding = coding.is_none() || coding == stored.first(b"content-encoding");
    match (strong_validator(stored), strong_validator(answer)) {
        (Some(ours), Some(theirs)) => ours == theirs && same_coding,
        _ => false,
    }
}

/// Adds the fields that ask an origin for the bytes from `first` to `last` of exactly the stored representation, in
/// place of any other range. Returns false and changes nothing if it has no strong validator. (RFC 9110 §13.1.5)
pub fn ask_for_part(stored: &Fields, first: u64, last: u64, request: &mut Fields) -> bool {
    let condition = match strong_validator(stored) {
        Some(Strong::Tag(_)) => stored.first(b"etag"),
        Some(Strong::Modified(_)) => stored.first(b"last-modified"),
        None => None,
    };
    let Some(condition) = condition else {
        return false;
    };
    let mut range = Vec::new();
    RangeSpec::FromTo { first, last }.write(&mut range);
    request.set(b"Range", &range);
    request.set(b"If-Range", condition);
    true
}

/// Does a 206 with these fields contain exactly the bytes from `first` to `last` of the stored representation of this
/// length? (RFC 9110 §15.3.7.3)
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
    same_range && is_of_same(stored, answer)
}

/// The value of Content-Range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContentRange {
    /// The bytes.
    pub span: Span,
    /// The complete length, if given.
    pub complete_length: Option<u64>,
}

/// The Content-Range of a 206; `None` if it is absent, cannot be read, or contradicts itself. (RFC 9110 §14.4)
pub fn content_range(answer: &Fields) -> Option<ContentRange> {
    let Single::Value(value) = single(answer, b"content-range") else {
        return None;
    };
    let (unit, rest) = value.split_at_checked(b"bytes ".len())?;
    if !unit.eq_ignore_ascii_case(b"bytes ") {
        return None;
    }
    let dash = rest.iter().position(|&byte| byte == b'-')?;
    let slash = rest.iter().position(|&byte| byte == b'/')?;
    let first = number(&rest[..dash])?;
    let last = number(rest.get(dash + 1..slash)?)?;
    let complete_length = match &rest[slash + 1..] {
        b"*" => None,
        digits => Some(number(digits)?),
    };
    //= rfc9110 §14.4   invalid if last is less than first, or the length not greater than last
    let is_within = complete_length.is_none_or(|bytes| last < bytes);
    (first <= last && last < u64::MAX && is_within).then_some(ContentRange {
        span: Span { first, last },
        complete_length,
    })
}

/// Turns the fields of a 206 into those of the 200 that it is part of.
//= rfc9111 §3.3   a 206 may be stored as if it were an incomplete 200
//= rfc9530 §2   Content-Digest is of the part, and so is Content-MD5
pub fn as_if_whole(partial: &Fields) -> Fields {
    let mut whole = partial.clone();
    whole.remove(b"content-range");
    whole.remove(b"content-length");
    whole.remove(b"content-digest");
    whole.remove(b"content-md5");
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fields;

    #[test]
    fn a_part_is_asked_for_and_recognised_by_a_strong_tag_only() {
        let mut request = fields("Range: bytes=0- & If-Range: \"x\"");
        for weak in [
            "",
            "ETag: W/\"1\"",
            "ETag: \"1\" & ETag: \"2\"",
            "Last-Modified: @-59 & Date: @0",
            "Last-Modified: @-600",
            "ETag: W/\"1\" & Last-Modified: @-600 & Date: @0",
        ] {
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
    fn an_old_date_will_do_where_there_is_no_tag() {
        let stored = fields("Last-Modified: @-600 & Date: @0");
        let mut request = Fields::new();
        assert!(ask_for_part(&stored, 5, 9, &mut request));
        assert_eq!(request.first(b"if-range"), stored.first(b"last-modified"));
        let is = |answer: &str| is_part(&stored, &fields(answer), 5, 9, 20);
        assert!(is(
            "Last-Modified: @-600 & Date: @9 & Content-Range: bytes 5-9/20"
        ));
        for other in [
            "Last-Modified: @-599 & Date: @9 & Content-Range: bytes 5-9/20",
            "Date: @9 & Content-Range: bytes 5-9/20",
            "ETag: \"1\" & Last-Modified: @-600 & Date: @9 & Content-Range: bytes 5-9/20",
        ] {
            assert!(!is(other), "{other}");
        }
    }

    #[test]
    fn places_of_parts() {
        let place = |value: &str| {
            content_range(&fields(&format!("Content-Range: {value}")))
                .map(|r| (r.span.first, r.span.last, r.complete_length))
        };
        assert_eq!(place("bytes 0-499/1234"), Some((0, 499, Some(1234))));
        assert_eq!(
            place("Bytes 1233-1233/1234"),
            Some((1233, 1233, Some(1234)))
        );
        assert_eq!(place("bytes 0-499/*"), Some((0, 499, None)));
        for wrong in [
            "bytes */1234",
            "bytes 5-4/10",
            "bytes 0-10/10",
            "bytes=0-9/10",
            "bytes 0/10-9",
            "bytes -9/10",
            "bytes 0-9/",
            "bytes 0-9",
            "lines 0-9/10",
            "0-9/10",
            "bytes 0-9/10, bytes 0-9/10",
            "bytes 0-9/10 & Content-Range: bytes 1-9/10",
            "bytes 99999999999999999999-99999999999999999999/99999999999999999999",
            "byt\u{e9}s",
        ] {
            assert_eq!(place(wrong), None, "{wrong}");
        }
        assert_eq!(content_range(&Fields::new()), None);
    }
}
