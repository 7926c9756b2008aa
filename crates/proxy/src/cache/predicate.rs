//! Purges by pattern: what the predicates in a store's invalidation log mean.
//!
//! A prefix or a tag cannot look for its objects: the index on disk knows no URLs. So it is written down as a
//! *predicate*, and every record that is older is compared with it, when it is read or in the background (`store`). What is in memory is
//! swept at once, and what is being fetched or read is compared before it is published ([`crate::state::Shared::still_valid`]).
//!
//! | kind | pattern | a record it meets |
//! |---|---|---|
//! | 1 | the beginning of a key | is dead |
//! | 2 | a tag, in small letters | is dead |
//! | 4 | the beginning of a key | is stale |
//! | 5 | a tag, in small letters | is stale |
//! | any other | of another version | is dead |
//!
//! A tag is a member of `Surrogate-Key` (blanks between them) or `Cache-Tag` (commas) in the stored response; letter case
//! makes no difference, because those who invented the fields do not agree about it.
//!
//! A stale one must be validated before it is served, or may be served where `stale-while-revalidate` and the like allow it.
//! A store that has no room for one more refuses it.
//!
//! Not known here: who purges, when it is durable.

use store::Manner;

use crate::cache::object::{self, Object};

/// The kind of predicate that names a prefix of the full key.
pub const PREFIX: u8 = 1;
/// That names a tag.
const TAG: u8 = 2;
/// That makes stale what has a prefix.
const SOFT_PREFIX: u8 = 4;
/// That makes stale what has a tag.
const SOFT_TAG: u8 = 5;

/// What a kind of predicate is called, for people and machines.
pub fn name(kind: u8) -> &'static str {
    match kind {
        PREFIX => "prefix",
        TAG => "tag",
        SOFT_PREFIX => "soft-prefix",
        SOFT_TAG => "soft-tag",
        _ => "of-another-version",
    }
}

/// The longest tag, bytes; a store takes patterns of as much.
pub const TAG_BYTES_MAX: usize = 1024;

/// How predicates of a kind meet records: what the store asks (`store::Settings::manner`).
pub fn manner(kind: u8) -> Manner {
    Manner {
        about: match kind {
            PREFIX | SOFT_PREFIX => store::About::Prefix,
            TAG | SOFT_TAG => store::About::Word,
            _ => store::About::All,
        },
        soft: matches!(kind, SOFT_PREFIX | SOFT_TAG),
    }
}

/// The tags of a record, in small letters: what the store asks (`store::Settings::words`).
pub fn words(meta: &[u8], each: &mut dyn FnMut(&[u8])) {
    let mut small = Vec::new();
    each_tag(object::head_of_meta(meta), &mut |tag| {
        small.clear();
        small.extend(tag.iter().map(u8::to_ascii_lowercase));
        each(&small);
        false
    });
}

/// What a purge is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum About {
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
            (About::Prefix(prefix), false) => (PREFIX, prefix.clone()),
            (About::Prefix(prefix), true) => (SOFT_PREFIX, prefix.clone()),
            (About::Tag(tag), false) => (TAG, tag.to_ascii_lowercase()),
            (About::Tag(tag), true) => (SOFT_TAG, tag.to_ascii_lowercase()),
        }
    }

    /// Is it about this object? The same answer as the store would give of its record.
    pub fn is_about(&self, object: &Object) -> bool {
        match &self.about {
            About::Prefix(prefix) => object.key.starts_with(prefix),
            About::Tag(tag) => has_tag(&object.head, tag),
        }
    }

    /// May it be about what a fetch for this key brings?
    pub fn may_be_about(&self, key: &[u8]) -> bool {
        match &self.about {
            About::Prefix(prefix) => key.starts_with(prefix),
            // Nobody knows its tags before it has come.
            About::Tag(_) => true,
        }
    }
}

/// Does a stored head name the tag?
fn has_tag(head: &[u8], tag: &[u8]) -> bool {
    each_tag(head, &mut |one| one.eq_ignore_ascii_case(tag))
}

/// Calls back with each tag of a stored head, until that answers yes. Did it?
fn each_tag(head: &[u8], is_it: &mut dyn FnMut(&[u8]) -> bool) -> bool {
    head.split(|&byte| byte == b'\n').skip(1).any(|line| {
        // One letter tells most lines away.
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
        let is_comma = |byte: &u8| *byte == b',';
        let mut is_it = |tag: &[u8]| is_it(tag.trim_ascii());
        match line.first() {
            Some(b's' | b'S') => named(line, b"surrogate-key:")
                .is_some_and(|tags| tags.split(is_blank).any(&mut is_it)),
            Some(b'c' | b'C') => {
                named(line, b"cache-tag:").is_some_and(|tags| tags.split(is_comma).any(&mut is_it))
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
        for kind in [SOFT_PREFIX, SOFT_TAG] {
            assert!(manner(kind).soft);
        }
        for kind in [PREFIX, TAG, 3, 200] {
            assert!(!manner(kind).soft);
        }
        assert_eq!(manner(3).about, store::About::All);
        assert_eq!(manner(200).about, store::About::All);
    }

    #[test]
    fn the_words_of_a_record_are_its_tags_in_small_letters() {
        let tag = |text: &str| Predicate {
            about: About::Tag(text.into()),
            soft: false,
        };
        assert_eq!(tag("News").encode(), (TAG, b"news".to_vec()));
        let head = b"HTTP/1.1 200 OK\r\nSurrogate-Key: A  News\r\nCache-Tag: C D\r\n";
        let mut found = Vec::new();
        each_tag(head, &mut |tag| {
            found.push(tag.to_ascii_lowercase());
            false
        });
        found.retain(|tag| !tag.is_empty());
        assert_eq!(found, [&b"a"[..], b"news", b"c d"]);
    }
}
