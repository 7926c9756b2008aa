//! One entry of the log: what happened, and its sequence.
//!
//! A tag, the sequence, then the fields of the kind; see `docs/format.md`. Foreign bytes are answered with `None`, never with a
//! panic.
//! Limits: patterns of [`TEXT_BYTES_MAX`].
//! Not known here: pages, the effect of entries on the index.

use crate::index::key::KeyHash;
use crate::layout::{log_key, log_matching};
use crate::sequence::Sequence;

/// The longest pattern of an entry; a longer one is refused.
pub(crate) const TEXT_BYTES_MAX: usize = 1024;

/// The longest entry there is.
pub(crate) const ENTRY_BYTES_MAX: usize = log_matching::BYTES + TEXT_BYTES_MAX;

const _: () = assert!(log_key::BYTES <= 24);
const _: () = assert!(TEXT_BYTES_MAX <= u16::MAX as usize);

const KEY: u8 = 1;
const MATCHING: u8 = 2;
const REPLACED: u8 = 4;
const DOUBT: u8 = 5;

/// An event that must not be forgotten.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// Everything under a primary key was invalidated, indexed or not.
    Key { primary: KeyHash },
    /// Everything under a primary key was put in doubt, indexed or not: it is stale from now on.
    Doubt { primary: KeyHash },
    /// Everything that matches was invalidated. The caller defines the kinds.
    Matching { kind: u8, pattern: Box<[u8]> },
    /// The records stored under this full key before are dead: a newer one took their place.
    Replaced { hash: KeyHash },
}

impl Entry {
    fn text(&self) -> &[u8] {
        match self {
            Self::Key { .. } | Self::Doubt { .. } | Self::Replaced { .. } => &[],
            Self::Matching { pattern, .. } => pattern,
        }
    }

    /// Is its pattern within [`TEXT_BYTES_MAX`]?
    pub(crate) fn fits(&self) -> bool {
        self.text().len() <= TEXT_BYTES_MAX
    }

    /// Its width on the disk.
    pub(crate) fn width(&self) -> usize {
        let fixed = match self {
            Self::Key { .. } | Self::Doubt { .. } | Self::Replaced { .. } => log_key::BYTES,
            Self::Matching { .. } => log_matching::BYTES,
        };
        fixed + self.text().len()
    }

    /// Appends the entry to `out`.
    pub(crate) fn put(&self, sequence: Sequence, out: &mut Vec<u8>) {
        let text = self.text();
        assert!(text.len() <= TEXT_BYTES_MAX, "{} bytes", text.len());
        let start = out.len();
        out.resize(start + self.width() - text.len(), 0);
        let b = &mut out[start..];
        match self {
            Self::Key { primary: hash }
            | Self::Doubt { primary: hash }
            | Self::Replaced { hash } => {
                let tag = match self {
                    Self::Replaced { .. } => REPLACED,
                    Self::Doubt { .. } => DOUBT,
                    _ => KEY,
                };
                log_key::TAG.put(b, &[tag]);
                log_key::SEQUENCE.put_u64(b, sequence);
                log_key::HASH.put_u64(b, hash.0);
            }
            Self::Matching { kind, .. } => {
                log_matching::TAG.put(b, &[MATCHING]);
                log_matching::SEQUENCE.put_u64(b, sequence);
                log_matching::KIND.put(b, &[*kind]);
                log_matching::PATTERN_LEN.put_u16(b, text.len() as u16);
            }
        }
        out.extend_from_slice(text);
    }

    /// Reads the first entry of `bytes`; also returns what follows it.
    pub(crate) fn take(bytes: &[u8]) -> Option<(Sequence, Self, &[u8])> {
        match *bytes.first()? {
            tag @ (KEY | REPLACED | DOUBT) => {
                let (fixed, rest) = bytes.split_at_checked(log_key::BYTES)?;
                let hash = KeyHash(log_key::HASH.u64(fixed));
                let entry = match tag {
                    KEY => Self::Key { primary: hash },
                    DOUBT => Self::Doubt { primary: hash },
                    _ => Self::Replaced { hash },
                };
                Some((log_key::SEQUENCE.u64(fixed), entry, rest))
            }
            MATCHING => {
                let (fixed, rest) = bytes.split_at_checked(log_matching::BYTES)?;
                let (pattern, rest) = text(rest, log_matching::PATTERN_LEN.u16(fixed))?;
                let [kind] = log_matching::KIND.array(fixed);
                let pattern = Box::from(pattern);
                let entry = Self::Matching { kind, pattern };
                Some((log_matching::SEQUENCE.u64(fixed), entry, rest))
            }
            _ => None,
        }
    }
}

/// Splits `bytes` behind the pattern at their start.
fn text(bytes: &[u8], len: u16) -> Option<(&[u8], &[u8])> {
    let len = usize::from(len);
    if len > TEXT_BYTES_MAX {
        return None;
    }
    bytes.split_at_checked(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn examples() -> [Entry; 6] {
        [
            Entry::Key {
                primary: KeyHash(7),
            },
            Entry::Matching {
                kind: 2,
                pattern: Box::from(&b"news"[..]),
            },
            Entry::Matching {
                kind: 3,
                pattern: Box::from(vec![9; TEXT_BYTES_MAX]),
            },
            Entry::Replaced { hash: KeyHash(1) },
            Entry::Doubt {
                primary: KeyHash(2),
            },
            Entry::Matching {
                kind: 1,
                pattern: Box::from(&b""[..]),
            },
        ]
    }

    #[test]
    fn what_was_put_is_taken() {
        let mut bytes = Vec::new();
        for (n, entry) in examples().iter().enumerate() {
            let before = bytes.len();
            entry.put(n as u64 + 40, &mut bytes);
            assert_eq!(bytes.len() - before, entry.width());
        }
        let mut rest = &bytes[..];
        for (n, expected) in examples().into_iter().enumerate() {
            let (sequence, entry, more) = Entry::take(rest).unwrap();
            assert_eq!((sequence, entry), (n as u64 + 40, expected));
            rest = more;
        }
        assert!(rest.is_empty());
        assert!(Entry::take(rest).is_none());
    }

    #[test]
    fn what_is_cut_or_of_an_unknown_tag_is_no_entry() {
        for entry in examples() {
            let mut bytes = Vec::new();
            entry.put(1, &mut bytes);
            for len in 0..bytes.len() {
                assert!(Entry::take(&bytes[..len]).is_none());
            }
            for tag in [0, 3, 6, 255] {
                bytes[0] = tag;
                assert!(Entry::take(&bytes).is_none());
            }
        }
        let mut long = vec![0; 5000];
        log_matching::TAG.put(&mut long, &[MATCHING]);
        log_matching::PATTERN_LEN.put_u16(&mut long, TEXT_BYTES_MAX as u16 + 1);
        assert!(Entry::take(&long).is_none());
    }

    #[test]
    fn a_key_takes_little() {
        let primary = KeyHash(u64::MAX);
        assert_eq!(Entry::Key { primary }.width(), 17);
    }
}
