//! Replaces one text by another in a body that arrives in pieces.
//!
//! The end of a piece is held back if it may be the beginning of the text: fewer bytes than the text has. Matches are found from the left
//! and do not overlap, so the result does not depend on how the body is cut.
//!
//! Not known here: HTTP. Memory: one piece, at its length after all replacements.

use bytes::{Bytes, BytesMut};
use memchr::memmem::Finder;

use plan::Replace;

/// The text to find, and its replacement.
#[derive(Debug)]
pub struct Needle {
    finder: Finder<'static>,
    to: Bytes,
}

impl Needle {
    /// The texts of a plan.
    pub fn new(replace: &Replace) -> Needle {
        Needle {
            finder: Finder::new(replace.from.as_bytes()).into_owned(),
            to: Bytes::copy_from_slice(replace.to.as_bytes()),
        }
    }

    /// Replaces all matches in a complete text.
    pub fn replaced(&self, text: &[u8]) -> Bytes {
        let mut replacing = Replacing::default();
        let mut out = BytesMut::from(&replacing.take(self, Bytes::copy_from_slice(text))[..]);
        out.extend_from_slice(&replacing.rest());
        out.freeze()
    }
}

/// The state of one body.
#[derive(Default, Debug)]
pub struct Replacing {
    /// The end of the received bytes, if it may be the beginning of the text.
    kept: BytesMut,
}

impl Replacing {
    /// Takes the next piece. Returns the bytes that are certain, possibly none.
    pub fn take(&mut self, needle: &Needle, piece: Bytes) -> Bytes {
        let finder = &needle.finder;
        let from = finder.needle();
        let whole = match self.kept.is_empty() {
            true => piece,
            false => {
                let mut joined = std::mem::take(&mut self.kept);
                joined.extend_from_slice(&piece);
                joined.freeze()
            }
        };
        let mut places = finder.find_iter(&whole).peekable();
        if places.peek().is_none() {
            let certain = whole.len() - beginning_at_end(&whole, from);
            self.kept.extend_from_slice(&whole[certain..]);
            return whole.slice(..certain);
        }
        let mut out = BytesMut::with_capacity(whole.len());
        let mut done = 0;
        for place in places {
            out.extend_from_slice(&whole[done..place]);
            out.extend_from_slice(&needle.to);
            done = place + from.len();
        }
        let certain = whole.len() - beginning_at_end(&whole[done..], from);
        out.extend_from_slice(&whole[done..certain]);
        self.kept.extend_from_slice(&whole[certain..]);
        out.freeze()
    }

    /// Ends the body. Returns the bytes held back.
    pub fn rest(&mut self) -> Bytes {
        std::mem::take(&mut self.kept).freeze()
    }
}

/// How many bytes at the end are a beginning of `from`, but not all of it.
fn beginning_at_end(text: &[u8], from: &[u8]) -> usize {
    let most = text.len().min(from.len().saturating_sub(1));
    let is_beginning = |len: &usize| text.ends_with(&from[..*len]);
    (1..=most).rev().find(is_beginning).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn needle(from: &str, to: &str) -> Needle {
        Needle::new(&Replace {
            from: from.to_owned(),
            to: to.to_owned(),
            types: Vec::new(),
        })
    }

    /// The body in these pieces after replacement.
    fn through(needle: &Needle, pieces: &[&[u8]]) -> Vec<u8> {
        let mut replacing = Replacing::default();
        let mut out = Vec::new();
        for piece in pieces {
            out.extend_from_slice(&replacing.take(needle, Bytes::copy_from_slice(piece)));
            assert!(
                replacing.kept.len() < needle.finder.needle().len(),
                "bounded"
            );
        }
        out.extend_from_slice(&replacing.rest());
        out
    }

    #[test]
    fn a_place_across_pieces_is_found() {
        let needle = needle("http://a", "/x");
        assert_eq!(
            through(&needle, &[b"<ht", b"tp:", b"//", b"a/f> http", b"://b"]),
            b"</x/f> http://b"
        );
    }

    #[test]
    fn a_text_longer_than_the_body_changes_nothing() {
        let needle = needle("http://a.very.long.name", "");
        assert_eq!(through(&needle, &[b"http", b"://a"]), b"http://a");
        assert_eq!(through(&needle, &[]), b"");
    }

    #[test]
    fn a_beginning_within_a_beginning() {
        let needle = needle("aab", "-");
        assert_eq!(through(&needle, &[b"aa", b"a", b"b", b"a"]), b"a-a");
        // From the left, and not overlapping.
        let pair = self::needle("aa", "b");
        assert_eq!(through(&pair, &[b"a", b"aa"]), b"ba");
    }

    #[test]
    fn the_new_text_is_not_looked_through() {
        let needle = needle("ab", "aab");
        assert_eq!(through(&needle, &[b"ab", b"b"]), b"aabb");
    }

    #[test]
    fn a_piece_without_a_place_is_passed_as_it_is() {
        let needle = needle("needle", "x");
        let piece = Bytes::from_static(b"nothing to see");
        let out = Replacing::default().take(&needle, piece.clone());
        assert_eq!(out.as_ptr(), piece.as_ptr(), "not copied");
    }

    proptest! {
        #[test]
        fn however_it_is_cut(text in "[ab]{0,40}", from in "[ab]{1,6}", cuts in prop::collection::vec(0usize..40, 0..8)) {
            let needle = needle(&from, "<>");
            let expected = text.replace(&from, "<>");
            let mut cuts: Vec<_> = cuts.into_iter().map(|at| at.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &text.as_bytes()[cut[0]..cut[1]]).collect();
            let got = through(&needle, &pieces);
            prop_assert_eq!(String::from_utf8(got).unwrap(), expected);
        }
    }
}
