//! The fields in a head that matter to a proxy, as bits.
//!
//! The parser fills the set, so a cache hit needs no second scan: one `intersects` tells whether any field is
//! present that rules out the short way.
//!
//! A look-up selects by length and first letter, which nearly always leaves one name to compare.

use std::fmt;
use std::ops::BitOr;

/// A set of known field names.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Seen(u64);

impl Seen {
    /// No field.
    pub const NONE: Self = Self(0);

    /// The union of both sets.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Is any of `other` in the set?
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Is all of `other` in the set?
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Is the set empty?
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl BitOr for Seen {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.union(other)
    }
}

/// Defines the bits, the names, and the look-up by (length, first letter in lower case). Names with the same length
/// and first letter share a row and are compared one after the other.
macro_rules! known {
    ($(($len:literal, $first:literal) $($bit:ident $name:literal),+;)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[repr(u8)]
        enum Index { $($($bit,)+)* Count }
        const _: () = assert!(Index::Count as u8 <= 64);
        $($(const _: () = assert!($name.len() == $len && $name.as_bytes()[0] == $first);)+)*

        impl Seen {
            $($(#[doc = concat!("`", $name, "`")]
            pub const $bit: Self = Self(1 << Index::$bit as u8);)+)*

            /// Every name in the table, in lower case, with its bit.
            pub const ALL: [(&'static str, Self); Index::Count as usize] =
                [$($(($name, Self::$bit),)+)*];

            /// The bit of a name; [`Seen::NONE`] for names outside the table.
            #[inline]
            pub fn of(name: &[u8]) -> Self {
                let Some(first) = name.first() else { return Self::NONE };
                match (name.len(), first | 0x20) {
                    $(($len, $first) => {
                        $(if name.eq_ignore_ascii_case($name.as_bytes()) { return Self::$bit; })+
                        Self::NONE
                    })*
                    _ => Self::NONE,
                }
            }
        }
    };
}

known! {
    (2, b't') TE "te";
    (3, b'a') AGE "age";
    (3, b'v') VIA "via";
    (4, b'h') HOST "host";
    (4, b'd') DATE "date";
    (4, b'e') ETAG "etag";
    (4, b'v') VARY "vary";
    (5, b'r') RANGE "range";
    (6, b'c') COOKIE "cookie";
    (6, b'e') EXPECT "expect";
    (6, b'o') ORIGIN "origin";
    (6, b'p') PRAGMA "pragma";
    (7, b't') TRAILER "trailer";
    (7, b'u') UPGRADE "upgrade";
    (7, b'e') EXPIRES "expires";
    (8, b'c') CDN_LOOP "cdn-loop";
    (8, b'i') IF_MATCH "if-match", IF_RANGE "if-range";
    (9, b'f') FORWARDED "forwarded";
    (10, b'c') CONNECTION "connection";
    (10, b'k') KEEP_ALIVE "keep-alive";
    (10, b's') SET_COOKIE "set-cookie";
    (12, b'm') MAX_FORWARDS "max-forwards";
    (13, b'a') AUTHORIZATION "authorization";
    (13, b'c') CACHE_CONTROL "cache-control";
    (13, b'i') IF_NONE_MATCH "if-none-match";
    (13, b'l') LAST_MODIFIED "last-modified";
    (14, b'c') CONTENT_LENGTH "content-length";
    (15, b'a') ACCEPT_ENCODING "accept-encoding", ACCEPT_LANGUAGE "accept-language";
    (15, b'x') X_FORWARDED_FOR "x-forwarded-for";
    (16, b'p') PROXY_CONNECTION "proxy-connection";
    (17, b'i') IF_MODIFIED_SINCE "if-modified-since";
    (17, b't') TRANSFER_ENCODING "transfer-encoding";
    (19, b'i') IF_UNMODIFIED_SINCE "if-unmodified-since";
    (19, b'p') PROXY_AUTHORIZATION "proxy-authorization";
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Self::ALL.iter().filter(|(_, bit)| self.contains(*bit));
        f.debug_set().entries(names.map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_in_any_case() {
        let mut all = Seen::NONE;
        for (name, bit) in Seen::ALL {
            assert_eq!(Seen::of(name.as_bytes()), bit);
            assert_eq!(Seen::of(name.to_ascii_uppercase().as_bytes()), bit);
            assert!(!all.intersects(bit), "{name}");
            all = all | bit;
        }
        assert!(all.contains(Seen::HOST.union(Seen::PROXY_AUTHORIZATION)));
    }

    #[test]
    fn other_names_are_not() {
        for name in [
            "",
            "x",
            "hos",
            "hostt",
            "hosu",
            "if-natch",
            "content_length",
            "content-lengti",
        ] {
            assert!(Seen::of(name.as_bytes()).is_empty(), "{name}");
        }
    }

    #[test]
    fn an_underscore_is_not_a_dash() {
        // 0x20 is the case bit of letters only. Other bytes that differ in this bit must stay different.
        assert!(Seen::of(b"if\rmatch").is_empty());
        assert!(Seen::of(b"\x08ost").is_empty());
    }
}
