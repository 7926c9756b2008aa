//! Purges by pattern: the meaning of the predicates in a store's invalidation log.
//!
//! The index has no URLs, so it cannot find the objects of a prefix or tag. A purge is therefore stored as a
//! *predicate*, and every older record is compared with it when it is read, or in the background (`store`). Objects in
//! memory are compared when they are asked for (`purged`), and objects under way before they are published
//! ([`super::Cache::still_valid`]).
//!
//! | kind | pattern | a record that matches |
//! |---|---|---|
//! | 1 | the beginning of a key | is dead |
//! | 2 | a tag, in small letters | is dead |
//! | 4 | the beginning of a key | is stale |
//! | 5 | a tag, in small letters | is stale |
//! | any other | of another version | is dead |
//!
//! A tag is a member of `Surrogate-Key` (separated by blanks) or `Cache-Tag` (by commas) in the stored response.
//! Letter case makes no difference, because the inventors of the fields do not agree about it.
//!
//! A stale record is validated before it is served, unless `stale-while-revalidate` or `stale-if-error` allow
//! otherwise. A store without room for another predicate refuses it.
//!
//! Not known here: the purging client, durability.

use store::Manner;

use crate::object;

/// The kind of predicate that names a prefix of the full key.
pub const PREFIX: u8 = 1;
/// The kind that names a tag.
const TAG: u8 = 2;
/// The kind that makes records with a key prefix stale.
const SOFT_PREFIX: u8 = 4;
/// The kind that makes records with a tag stale.
const SOFT_TAG: u8 = 5;

/// The name of a kind of predicate.
pub fn name(kind: u8) -> &'static str {
    match kind {
        PREFIX => "prefix",
        TAG => "tag",
        SOFT_PREFIX => "soft-prefix",
        SOFT_TAG => "soft-tag",
        _ => "of-another-version",
    }
}

/// The longest tag in bytes; a store takes patterns of up to this length.
pub const TAG_BYTES_MAX: usize = 1024;

/// How predicates of a kind match records, for the store (`store::Settings::manner`).
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

/// The tags of a record in small letters, for the store (`store::Settings::words`).
pub fn words(meta: &[u8], each: &mut dyn FnMut(&[u8])) {
    words_of_head(object::head_of_meta(meta), each);
}

/// The tags of a stored head in small letters.
pub(super) fn words_of_head(head: &[u8], each: &mut dyn FnMut(&[u8])) {
    let mut small = Vec::new();
    each_tag(head, &mut |tag| {
        small.clear();
        small.extend(tag.iter().map(u8::to_ascii_lowercase));
        each(&small);
        false
    });
}

/// The pattern of a purge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum About {
    /// Everything with this key prefix.
    Prefix(Vec<u8>),
    /// Everything with this tag.
    Tag(Vec<u8>),
}

/// A purge by pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Predicate {
    /// The objects it is about.
    pub about: About,
    /// Make it stale instead of removing it?
    pub soft: bool,
}

impl Predicate {
    /// As stored in the log.
    pub fn encode(&self) -> (u8, Vec<u8>) {
        match (&self.about, self.soft) {
            (About::Prefix(prefix), false) => (PREFIX, prefix.clone()),
            (About::Prefix(prefix), true) => (SOFT_PREFIX, prefix.clone()),
            (About::Tag(tag), false) => (TAG, tag.to_ascii_lowercase()),
            (About::Tag(tag), true) => (SOFT_TAG, tag.to_ascii_lowercase()),
        }
    }

    /// Undoes [`Self::encode`]. `None`: a kind of another version.
    pub fn decode(kind: u8, pattern: &[u8]) -> Option<Predicate> {
        let pattern = pattern.to_vec();
        let (about, soft) = match kind {
            PREFIX => (About::Prefix(pattern), false),
            SOFT_PREFIX => (About::Prefix(pattern), true),
            TAG => (About::Tag(pattern), false),
            SOFT_TAG => (About::Tag(pattern), true),
            _ => return None,
        };
        Some(Predicate { about, soft })
    }

    /// May it match the response of a fetch for this key?
    pub fn may_be_about(&self, key: &[u8]) -> bool {
        match &self.about {
            About::Prefix(prefix) => key.starts_with(prefix),
            // The tags are unknown before the response has come.
            About::Tag(_) => true,
        }
    }
}

/// Calls `is_it` with each tag of a stored head until it returns true; returns whether it did.
fn each_tag(head: &[u8], is_it: &mut dyn FnMut(&[u8]) -> bool) -> bool {
    head.split(|&byte| byte == b'\n').skip(1).any(|line| {
        // The first letter excludes most lines.
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

/// The value after the name and its colon.
fn named<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (front, rest) = line.split_at_checked(name.len())?;
    front.eq_ignore_ascii_case(name).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does a stored head name the tag?
    fn has_tag(head: &[u8], tag: &[u8]) -> bool {
        each_tag(head, &mut |one| one.eq_ignore_ascii_case(tag))
    }

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
