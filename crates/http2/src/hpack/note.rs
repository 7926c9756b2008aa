//! The meaning of a field, found once and kept with its entry in the tables.
//!
//! A browser's request is nearly all indices into the tables. Names are therefore looked up and checked for upper case, and values
//! checked for control characters, when an entry is made, not when it is used.

use message::{Seen, is_token_byte};

use super::constant::STATIC;

/// The meaning of a field, or its fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `:method`
    Method,
    /// `:scheme`
    Scheme,
    /// `:authority`
    Authority,
    /// `:path`
    Path,
    /// `:protocol` (RFC 8441)
    Protocol,
    /// `:status`
    Status,
    /// A pseudo-field that no message has.
    OtherPseudo,
    /// Host
    Host,
    /// Content-Length
    ContentLength,
    /// Cookie, perhaps one crumb of several
    Cookie,
    /// TE
    Te,
    /// Expect
    Expect,
    /// Priority (RFC 9218)
    Priority,
    /// A connection-specific field, which HTTP/2 does not have (RFC 9113 §8.2.2).
    OfConnection,
    /// Every other field.
    Regular,
    /// The name is not a lower-case token.
    BadName,
    /// The value has an illegal byte, or white space at either end.
    BadValue,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Note {
    kind: Kind,
    seen: Seen,
    /// The value is illegal. This is apart from `kind`, so that a name used again with another value need not be checked again.
    is_bad_value: bool,
}

/// A field as the decoder gives it.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// The name as received.
    pub name: &'a [u8],
    /// The value as received.
    pub value: &'a [u8],
    /// The meaning of the field, or its fault.
    pub kind: Kind,
    /// The bit of the name, if a proxy knows it.
    pub seen: Seen,
}

impl Note {
    /// The note of a name, before its value is checked.
    pub(super) fn of_name(name: &[u8]) -> Note {
        let seen = Seen::of(name);
        let kind = match name {
            b":method" => Kind::Method,
            b":scheme" => Kind::Scheme,
            b":authority" => Kind::Authority,
            b":path" => Kind::Path,
            b":protocol" => Kind::Protocol,
            b":status" => Kind::Status,
            [b':', ..] => Kind::OtherPseudo,
            _ if !is_lower_token(name) => Kind::BadName,
            b"priority" => Kind::Priority,
            // As in `http1`: other parsers may read these names as Content-Length and Transfer-Encoding.
            b"content_length" | b"transfer_encoding" => Kind::BadName,
            _ => match seen {
                Seen::HOST => Kind::Host,
                Seen::CONTENT_LENGTH => Kind::ContentLength,
                Seen::COOKIE => Kind::Cookie,
                Seen::TE => Kind::Te,
                Seen::EXPECT => Kind::Expect,
                //= rfc9113 §8.2.2   these make a message malformed
                Seen::CONNECTION
                | Seen::PROXY_CONNECTION
                | Seen::KEEP_ALIVE
                | Seen::TRANSFER_ENCODING
                | Seen::UPGRADE => Kind::OfConnection,
                _ => Kind::Regular,
            },
        };
        Note {
            kind,
            seen,
            is_bad_value: false,
        }
    }

    /// The note of the same name with this value.
    pub(super) fn with_value(self, value: &[u8]) -> Note {
        Note {
            is_bad_value: !is_legal_value(value),
            ..self
        }
    }

    pub(super) fn kind(self) -> Kind {
        match self.kind {
            Kind::BadName => Kind::BadName,
            _ if self.is_bad_value => Kind::BadValue,
            kind => kind,
        }
    }

    pub(super) fn field<'a>(self, name: &'a [u8], value: &'a [u8]) -> Field<'a> {
        Field {
            name,
            value,
            kind: self.kind(),
            seen: self.seen,
        }
    }
}

/// The note of an entry of the static table, without its value.
pub(super) fn of_static(index: usize) -> Note {
    static NOTES: std::sync::LazyLock<[Note; STATIC.len()]> =
        std::sync::LazyLock::new(|| STATIC.map(|(name, _)| Note::of_name(name.as_bytes())));
    NOTES[index - 1]
}

//= rfc9113 §8.2   field names MUST be in lower case
fn is_lower_token(name: &[u8]) -> bool {
    let is_fit = |byte: &u8| is_token_byte(*byte) && !byte.is_ascii_uppercase();
    !name.is_empty() && name.iter().all(is_fit)
}

//= rfc9113 §8.2.1   no NUL, CR, LF; no white space at either end. As in `http1`, no other control character but HTAB
fn is_legal_value(value: &[u8]) -> bool {
    // Without an early exit the compiler checks many bytes at a time.
    let foul = |b: u8| (b < 0x20) & (b != b'\t') | (b == 0x7f);
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    !value.iter().fold(false, |found, &b| found | foul(b))
        && !is_blank(value.first())
        && !is_blank(value.last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values() {
        let kind = |name: &str, value: &str| {
            Note::of_name(name.as_bytes())
                .with_value(value.as_bytes())
                .kind()
        };
        assert_eq!(kind("x", ""), Kind::Regular);
        assert_eq!(kind("accept", "a\tb \u{e4}"), Kind::Regular);
        assert_eq!(kind("connection", "x"), Kind::OfConnection);
        assert_eq!(kind(":status", "200"), Kind::Status);
        assert_eq!(kind(":other", "200"), Kind::OtherPseudo);
        for name in [
            "",
            "X",
            "a b",
            "a:",
            "ä",
            "a\0",
            "Content-Length",
            "content_length",
        ] {
            assert_eq!(kind(name, "1"), Kind::BadName, "{name}");
        }
        for value in [" a", "a ", "\t", "a\0", "a\r", "a\nb", "\x7f", "\x1b"] {
            assert_eq!(kind("x", value), Kind::BadValue, "{value:?}");
            assert_eq!(kind(":path", value), Kind::BadValue, "{value:?}");
        }
    }
}
