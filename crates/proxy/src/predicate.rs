//! Purges by pattern: what the predicates in a store's invalidation log mean.
//!
//! A prefix, a tag or a soft purge cannot look for its objects: the index on disk knows no URLs. So it is written down as a
//! *predicate*, and every record that is older is compared with it when it is read (`store`). What is in memory is swept at
//! once, and what is being fetched or read is compared before it is published ([`crate::state::Shared::still_valid`]).
//!
//! | kind | pattern | a record it meets |
//! |---|---|---|
//! | 1 | the beginning of a key | is dead |
//! | 2 | a tag | is dead |
//! | 3 | the primary hash, 8 bytes | is stale |
//! | 4 | the beginning of a key | is stale |
//! | 5 | a tag | is stale |
//! | any other | of a later version | is dead |
//!
//! A tag is a member of `Surrogate-Key` (blanks between them) or `Cache-Tag` (commas) in the stored response; letter case
//! makes no difference, because those who invented the fields do not agree about it.
//!
//! A stale one must be validated before it is served, or may be served where `stale-while-revalidate` and the like allow it.
//! A store remembers 1024 patterns; one more, and of what is older than the oldest nobody can tell any more, so that it counts as
//! dead, also if that pattern was a soft one.
//!
//! Not known here: who purges, when it is durable.

use store::KeyHash;

use crate::object::{self, Object};

/// The kind of predicate that names a prefix of the full key.
pub const PREFIX: u8 = 1;
/// That names a tag.
const TAG: u8 = 2;
/// That makes all of one primary key stale.
const SOFT_PRIMARY: u8 = 3;
/// That makes stale what has a prefix.
const SOFT_PREFIX: u8 = 4;
/// That makes stale what has a tag.
const SOFT_TAG: u8 = 5;

/// What a kind of predicate is called, for people and machines.
pub fn name(kind: u8) -> &'static str {
    match kind {
        PREFIX => "prefix",
        TAG => "tag",
        SOFT_PRIMARY => "soft-url",
        SOFT_PREFIX => "soft-prefix",
        SOFT_TAG => "soft-tag",
        _ => "of-another-version",
    }
}

/// The longest tag, bytes; a store takes patterns of as much.
pub const TAG_BYTES_MAX: usize = 1024;

/// Is a record dead by this predicate? What the store asks (`store::Settings::matches`).
pub fn matches(kind: u8, pattern: &[u8], key: &[u8], meta: &[u8]) -> bool {
    match kind {
        PREFIX => key.starts_with(pattern),
        TAG => has_tag(object::head_of_meta(meta), pattern),
        SOFT_PRIMARY | SOFT_PREFIX | SOFT_TAG => false,
        _ => true,
    }
}

/// Is a record stale by this predicate? What the store asks (`store::Settings::doubts`).
pub fn doubts(kind: u8, pattern: &[u8], key: &[u8], meta: &[u8]) -> bool {
    match kind {
        SOFT_PRIMARY => {
            object::primary_of_meta(meta).is_some_and(|primary| primary.0.to_le_bytes() == *pattern)
        }
        SOFT_PREFIX => key.starts_with(pattern),
        SOFT_TAG => has_tag(object::head_of_meta(meta), pattern),
        _ => false,
    }
}

/// What a purge is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum About {
    /// One resource with all its variants. (Soft only: a hard purge names it in the log, `Shared::invalidate`.)
    Primary(KeyHash),
    /// All whose key begins so.
    Prefix(Vec<u8>),
    /// All that carry the tag.
    Tag(Vec<u8>),
}

/// A purge by pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Predicate {
    /// Of what.
    pub about: About,
    /// Stale instead of gone?
    pub soft: bool,
}

impl Predicate {
    /// As the log has it.
    pub fn encode(&self) -> (u8, Vec<u8>) {
        match (&self.about, self.soft) {
            (About::Primary(primary), _) => (SOFT_PRIMARY, primary.0.to_le_bytes().to_vec()),
            (About::Prefix(prefix), false) => (PREFIX, prefix.clone()),
            (About::Prefix(prefix), true) => (SOFT_PREFIX, prefix.clone()),
            (About::Tag(tag), false) => (TAG, tag.clone()),
            (About::Tag(tag), true) => (SOFT_TAG, tag.clone()),
        }
    }

    /// Is it about this object? The same answer as [`matches()`] or [`doubts`] would give of its record.
    pub fn is_about(&self, object: &Object) -> bool {
        match &self.about {
            About::Primary(primary) => object.primary == *primary,
            About::Prefix(prefix) => object.key.starts_with(prefix),
            About::Tag(tag) => has_tag(&object.head, tag),
        }
    }

    /// May it be about what a fetch for this key brings?
    pub fn may_be_about(&self, primary: KeyHash, key: &[u8]) -> bool {
        match &self.about {
            About::Primary(other) => primary == *other,
            About::Prefix(prefix) => key.starts_with(prefix),
            // Nobody knows its tags before it has come.
            About::Tag(_) => true,
        }
    }
}

/// Does a stored head name the tag?
fn has_tag(head: &[u8], tag: &[u8]) -> bool {
    head.split(|&byte| byte == b'\n').skip(1).any(|line| {
        // Two letters tell most lines away.
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
        let is_comma = |byte: &u8| *byte == b',';
        match line.first() {
            Some(b's' | b'S') => {
                named(line, b"surrogate-key:").is_some_and(|tags| names(tags.split(is_blank), tag))
            }
            Some(b'c' | b'C') => {
                named(line, b"cache-tag:").is_some_and(|tags| names(tags.split(is_comma), tag))
            }
            _ => false,
        }
    })
}

/// What is behind the name and its colon.
fn named<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (front, rest) = line.split_at_checked(name.len())?;
    front.eq_ignore_ascii_case(name).then_some(rest)
}

fn names<'a>(mut tags: impl Iterator<Item = &'a [u8]>, tag: &[u8]) -> bool {
    tags.any(|one| one.trim_ascii().eq_ignore_ascii_case(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_members_of_two_fields() {
        let head = b"HTTP/1.1 200 OK\r\nContent-Type: x\r\nSurrogate-Key: a  News b\r\nCACHE-TAG: c d,e\r\n\
            X-Surrogate-Key: f\r\nCache-Tag:g\r\n";
        for tag in ["a", "b", "news", "NEWS", "c d", "e", "g"] {
            assert!(has_tag(head, tag.as_bytes()), "{tag}");
        }
        for tag in ["c", "d", "f", "new", "newsb", "x", "200", "a b"] {
            assert!(!has_tag(head, tag.as_bytes()), "{tag}");
        }
        assert!(!has_tag(b"", b"a"));
    }

    #[test]
    fn what_is_soft_kills_nothing_and_what_is_unknown_everything() {
        for kind in [SOFT_PRIMARY, SOFT_PREFIX, SOFT_TAG] {
            assert!(!matches(kind, b"", b"GET http://h/a", b""));
        }
        assert!(matches(PREFIX, b"GET http://h/", b"GET http://h/a", b""));
        assert!(!doubts(PREFIX, b"GET http://h/", b"GET http://h/a", b""));
        assert!(doubts(
            SOFT_PREFIX,
            b"GET http://h/",
            b"GET http://h/a",
            b""
        ));
        assert!(!doubts(
            SOFT_PREFIX,
            b"GET http://g/",
            b"GET http://h/a",
            b""
        ));
        assert!(!doubts(SOFT_PRIMARY, b"", b"GET http://h/a", b""));
        assert!(matches(200, b"", b"GET http://h/a", b""));
        assert!(!doubts(200, b"", b"GET http://h/a", b""));
    }
}
