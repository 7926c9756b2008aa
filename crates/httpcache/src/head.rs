//! An answer to HEAD and the stored answer to GET (RFC 9111 §4.3.5).
//!
//! A 200 to HEAD has the fields that an answer to GET would have. If it describes the stored response, the stored fields are
//! updated ([`crate::freshen`]). If not, the stored response becomes stale.

use fields::Fields;

use crate::date::{Dated, date_of};
use crate::directives::delta_seconds;
use crate::validate::stored_tag;

/// Does this 200 to HEAD describe the stored response, whose body has `stored_bytes` bytes?
//= rfc9111 §4.3.5   matching values for any received validators, and for Content-Length if there
pub fn describes(head: &Fields, stored: &Fields, stored_bytes: u64) -> bool {
    let same_tag = !head.contains(b"etag")
        || stored_tag(head).is_some_and(|tag| stored_tag(stored) == Some(tag));
    let same_date = match date_of(head, b"last-modified") {
        Dated::Absent => true,
        Dated::Invalid => false,
        theirs => theirs == date_of(stored, b"last-modified"),
    };
    let same_length = head.all(b"content-length").all(|value| {
        let text = std::str::from_utf8(value).unwrap_or_default();
        // `parse` alone would accept a sign.
        delta_seconds(value).is_some() && text.parse() == Ok(stored_bytes)
    });
    same_tag && same_date && same_length
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fields;

    #[test]
    fn validators_and_length_are_compared_where_the_head_has_them() {
        let stored = fields("ETag: \"a\" & Last-Modified: @-9");
        for (head, expected) in [
            ("", true),
            ("ETag: \"a\"", true),
            ("Last-Modified: @-9", true),
            ("ETag: \"a\" & Last-Modified: @-9 & Content-Length: 5", true),
            ("ETag: \"b\"", false),
            ("ETag: W/\"a\"", false),
            ("ETag: a", false),
            ("Last-Modified: @-8", false),
            ("Last-Modified: yesterday", false),
            ("ETag: \"a\" & Last-Modified: @-8", false),
            ("ETag: \"a\" & Content-Length: 6", false),
            ("Content-Length: +5", false),
        ] {
            assert_eq!(describes(&fields(head), &stored, 5), expected, "{head}");
        }
        assert!(!describes(
            &fields("ETag: \"a\""),
            &fields("Last-Modified: @-9"),
            5
        ));
    }
}
