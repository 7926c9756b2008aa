//! The contents of a purge as members send it to each other: all names and patterns, resolved by the member that received the purge.
//!
//! Names are those under which objects are stored (`request::target`), so the members of a cluster need the same listeners and rules. Hashes
//! cannot be sent instead, because each store may have its own seed.
//!
//! ```text
//! flags u8 (1: soft, 2: of an unsafe method) | names u16 | each: length u32, bytes | patterns u16 | each: kind u8 (0 prefix, 1 tag), length u32, bytes
//! ```
//!
//! Not known here: where a purge came from, what is stored.   Limits: [`CHANGE_BYTES_MAX`].

/// The longest encoded change, bytes. A longer one cannot be told to other members.
pub const CHANGE_BYTES_MAX: usize = 512 << 10;

const SOFT: u8 = 1;
const OF_UNSAFE_METHOD: u8 = 2;

/// The longest pattern, bytes; the same as of the cache's predicates.
pub const PATTERN_BYTES_MAX: usize = 1024;

/// A property that many objects share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// The beginning of a key.
    Prefix(Vec<u8>),
    /// A tag of the stored response.
    Tag(Vec<u8>),
}

/// The objects to purge.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Change {
    /// Names of objects, with all their variants.
    pub names: Vec<Vec<u8>>,
    /// Beginnings of keys, and tags.
    pub patterns: Vec<Pattern>,
    /// Make them stale instead of removing them?
    pub soft: bool,
    /// Made by an unsafe method? Then a name that was never stored need not be remembered.
    pub is_of_unsafe_method: bool,
}

impl Change {
    /// A purge of everything stored before now.
    pub fn everything() -> Change {
        Change {
            patterns: vec![Pattern::Prefix(Vec::new())],
            ..Change::default()
        }
    }

    /// A purge of these names by an unsafe method.
    pub fn of_unsafe_method(names: Vec<Vec<u8>>) -> Change {
        Change {
            names,
            is_of_unsafe_method: true,
            ..Change::default()
        }
    }

    /// May applying it look at many objects in memory?
    pub fn takes_long(&self) -> bool {
        !self.patterns.is_empty() || self.soft
    }

    /// The encoded change; `None` if it is longer than [`CHANGE_BYTES_MAX`].
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let flag = |is_so: bool, flag: u8| if is_so { flag } else { 0 };
        out.push(flag(self.soft, SOFT) | flag(self.is_of_unsafe_method, OF_UNSAFE_METHOD));
        out.extend(u16::try_from(self.names.len()).ok()?.to_le_bytes());
        for name in &self.names {
            put(&mut out, name);
        }
        out.extend(u16::try_from(self.patterns.len()).ok()?.to_le_bytes());
        for pattern in &self.patterns {
            let (kind, text) = match pattern {
                Pattern::Prefix(prefix) => (0, prefix),
                Pattern::Tag(tag) => (1, tag),
            };
            out.push(kind);
            put(&mut out, text);
        }
        (out.len() <= CHANGE_BYTES_MAX).then_some(out)
    }

    /// Decodes a change; `None` if the bytes are not exactly one change.
    pub fn decode(bytes: &[u8]) -> Option<Change> {
        if bytes.len() > CHANGE_BYTES_MAX {
            return None;
        }
        let mut rest = bytes;
        let flags = take(&mut rest, 1)?[0];
        if flags > SOFT | OF_UNSAFE_METHOD {
            return None;
        }
        let mut change = Change {
            soft: flags & SOFT != 0,
            is_of_unsafe_method: flags & OF_UNSAFE_METHOD != 0,
            ..Change::default()
        };
        for _ in 0..take_count(&mut rest)? {
            change.names.push(take_text(&mut rest)?.to_vec());
        }
        for _ in 0..take_count(&mut rest)? {
            let kind = take(&mut rest, 1)?[0];
            let text = take_text(&mut rest)?.to_vec();
            change.patterns.push(match kind {
                _ if text.len() > PATTERN_BYTES_MAX => return None,
                0 => Pattern::Prefix(text),
                1 => Pattern::Tag(text),
                _ => return None,
            });
        }
        rest.is_empty().then_some(change)
    }
}

fn put(out: &mut Vec<u8>, text: &[u8]) {
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(text);
}

fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (taken, behind) = rest.split_at_checked(bytes)?;
    *rest = behind;
    Some(taken)
}

fn take_count(rest: &mut &[u8]) -> Option<u16> {
    Some(u16::from_le_bytes(take(rest, 2)?.try_into().ok()?))
}

fn take_text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let bytes = u32::from_le_bytes(take(rest, 4)?.try_into().ok()?);
    take(rest, bytes as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn changes() -> impl Strategy<Value = Change> {
        let text = || proptest::collection::vec(any::<u8>(), 0..20);
        let pattern = (any::<bool>(), text()).prop_map(|(is_tag, text)| match is_tag {
            true => Pattern::Tag(text),
            false => Pattern::Prefix(text),
        });
        let many = proptest::collection::vec(text(), 0..4);
        (many, proptest::collection::vec(pattern, 0..4), 0..4_u8).prop_map(
            |(names, patterns, flags)| Change {
                names,
                patterns,
                soft: flags & 1 != 0,
                is_of_unsafe_method: flags & 2 != 0,
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_told_is_understood_and_nothing_shorter_or_longer(change in changes()) {
            let mut bytes = change.encode().unwrap();
            prop_assert_eq!(Change::decode(&bytes), Some(change));
            for cut in 0..bytes.len() {
                prop_assert_eq!(Change::decode(&bytes[..cut]), None);
            }
            bytes.push(0);
            prop_assert_eq!(Change::decode(&bytes), None);
        }

        #[test]
        fn any_bytes_are_a_change_that_is_told_so_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Some(change) = Change::decode(&bytes) {
                prop_assert_eq!(change.encode(), Some(bytes));
            }
        }
    }

    #[test]
    fn what_is_too_long_is_not_told() {
        let change = Change::of_unsafe_method(vec![vec![b'a'; CHANGE_BYTES_MAX]]);
        assert_eq!(change.encode(), None);
    }
}
