//! Summaries: the names purged in a stretch of the journal, each once, in order.
//!
//! A summary does not say when, in which order or by which member its names were purged. A member that lacks any part of it is therefore told
//! all of it, which purges a few objects too many, and has heard nothing of it before its end.
//!
//! Most purges repeat earlier names, and the journal needs room for each name only once. Where that does not help because all names differ, a
//! summary is made *coarse*: a directory replaces the many names in it.
//!
//! A name is marked as soft, or as by an unsafe method, only if all its purges were.
//!
//! Not known here: files, segments.
//! Limits: one record of each source is in memory, but all items from [`collect`]; [`PREFIXES_MAX`] directories for each level of names.

use std::{
    collections::{BTreeMap, VecDeque, btree_map},
    io,
};

use super::{
    super::change::{Change, PATTERN_BYTES_MAX, Pattern},
    segment::Bodies,
};

/// A record of a summary ends at this length, bytes.
const RECORD_BYTES: usize = 16 << 10;
/// Directories that replace names, at most, for each level of names.
const PREFIXES_MAX: u64 = 64;
/// Names that a directory must have at least to replace them.
const CROWD_MIN: u64 = 16;
/// Levels of names that are considered.
const LEVELS_MAX: usize = 16;

/// An item to purge: its kind, then its text. Items are sorted by this.
type Key = Vec<u8>;

const NAME: u8 = b'n';
const PREFIX: u8 = b'p';
const TAG: u8 = b't';

/// How an item is purged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Manner {
    soft: bool,
    is_of_unsafe_method: bool,
}

impl Manner {
    fn and(self, other: Manner) -> Manner {
        Manner {
            soft: self.soft && other.soft,
            is_of_unsafe_method: self.is_of_unsafe_method && other.is_of_unsafe_method,
        }
    }
}

/// Names and patterns, each once, with the manner of their purge.
pub type Items = BTreeMap<Key, Manner>;

/// Adds the items of a change. A change that cannot be decoded counts as everything.
pub fn collect(change: &[u8], items: &mut Items) {
    for (key, manner) in items_of(change) {
        let known = items.entry(key).or_insert(manner);
        *known = known.and(manner);
    }
}

fn items_of(change: &[u8]) -> impl Iterator<Item = (Key, Manner)> {
    let change = Change::decode(change).unwrap_or_else(Change::everything);
    let manner = Manner {
        soft: change.soft,
        is_of_unsafe_method: change.is_of_unsafe_method,
    };
    let names = change.names.into_iter().map(|name| (NAME, name));
    let patterns = change.patterns.into_iter().map(|pattern| match pattern {
        Pattern::Prefix(prefix) => (PREFIX, prefix),
        Pattern::Tag(tag) => (TAG, tag.to_ascii_lowercase()),
    });
    let key = |(kind, text): (u8, Vec<u8>)| [&[kind][..], &text].concat();
    (names.chain(patterns)).map(move |item| (key(item), manner))
}

/// A sorted source of items.
pub enum Source<'a> {
    /// Collected items.
    Items(std::iter::Peekable<btree_map::IntoIter<Key, Manner>>),
    /// The changes of a summary.
    Changes(Bodies<'a>, VecDeque<(Key, Manner)>),
}

impl<'a> Source<'a> {
    /// A source of collected items.
    pub fn of_items(items: Items) -> Source<'a> {
        Source::Items(items.into_iter().peekable())
    }

    /// A source of a summary's changes.
    pub fn of_changes(changes: Bodies<'a>) -> Source<'a> {
        Source::Changes(changes, VecDeque::new())
    }

    fn peek(&mut self) -> io::Result<Option<&Key>> {
        match self {
            Source::Items(items) => Ok(items.peek().map(|(key, _)| key)),
            Source::Changes(changes, ahead) => {
                while ahead.is_empty() {
                    match changes()? {
                        Some(change) => ahead.extend(items_of(&change)),
                        None => return Ok(None),
                    }
                }
                Ok(ahead.front().map(|(key, _)| key))
            }
        }
    }

    fn next(&mut self) -> Option<(Key, Manner)> {
        match self {
            Source::Items(items) => items.next(),
            Source::Changes(_, ahead) => ahead.pop_front(),
        }
    }
}

/// Calls `each` once for each item, in order, if each source is in order; otherwise for some more than once. Returns the number of items read.
///
/// # Errors
/// Those of the sources and of `each`.
pub fn merge(
    mut sources: Vec<Source<'_>>,
    each: &mut dyn FnMut(&Key, Manner) -> io::Result<()>,
) -> io::Result<u64> {
    let mut before = 0;
    loop {
        let mut least: Option<Key> = None;
        for source in &mut sources {
            if let Some(key) = source.peek()?
                && least.as_ref().is_none_or(|least| key < least)
            {
                least = Some(key.clone());
            }
        }
        let Some(key) = least else {
            return Ok(before);
        };
        let mut manner: Option<Manner> = None;
        for source in &mut sources {
            while source.peek()? == Some(&key)
                && let Some((_, one)) = source.next()
            {
                before += 1;
                manner = Some(manner.map_or(one, |known| known.and(one)));
            }
        }
        if let Some(manner) = manner {
            each(&key, manner)?;
        }
    }
}

/// Packs items into changes.
#[derive(Default)]
pub struct Packing {
    change: Change,
    bytes: usize,
}

impl Packing {
    /// Adds an item. Returns the change before it when that is full or of another manner.
    pub fn push(&mut self, key: &Key, manner: Manner) -> Option<Vec<u8>> {
        let (&kind, text) = key.split_first()?;
        let change = &self.change;
        let is_other = (change.soft, change.is_of_unsafe_method)
            != (manner.soft, manner.is_of_unsafe_method)
            || (kind == NAME && !change.patterns.is_empty());
        let is_full = self.bytes + text.len() > RECORD_BYTES;
        let full = (is_other || is_full).then(|| self.take()).flatten();
        (self.change.soft, self.change.is_of_unsafe_method) =
            (manner.soft, manner.is_of_unsafe_method);
        self.bytes += 4 + key.len();
        match kind {
            NAME => self.change.names.push(text.to_vec()),
            PREFIX => self.change.patterns.push(Pattern::Prefix(text.to_vec())),
            _ => self.change.patterns.push(Pattern::Tag(text.to_vec())),
        }
        full
    }

    /// Takes the last change.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        let Packing { change, bytes } = std::mem::take(self);
        // Not longer than a record, or than the change that its only item came from.
        (bytes != 0).then(|| change.encode().expect("it was told before"))
    }
}

/// Finds directories with so many names that they can replace them, while names go by in order.
#[derive(Default)]
pub struct Crowds {
    last: Key,
    /// The directories of the last name: their lengths, and the names in each that no chosen directory replaces.
    open: Vec<(usize, u64)>,
    /// Names that make a directory worth choosing.
    crowd: u64,
    chosen: Items,
}

impl Crowds {
    /// For a summary of so many items.
    pub fn among(items: u64) -> Crowds {
        Crowds {
            crowd: (items / PREFIXES_MAX).max(CROWD_MIN),
            ..Crowds::default()
        }
    }

    /// Takes the next item.
    pub fn push(&mut self, key: &Key) {
        if key.first() != Some(&NAME) {
            return;
        }
        let is_alike = |(a, b): &(&u8, &u8)| a == b;
        let alike = (self.last.iter().zip(key)).take_while(is_alike).count();
        while self.open.last().is_some_and(|(length, _)| *length > alike) {
            self.close();
        }
        let known = self.open.last().map_or(0, |(length, _)| *length);
        let more = directories(key).filter(|length| *length > known);
        self.open.extend(more.map(|length| (length, 0)));
        if let Some((_, count)) = self.open.last_mut() {
            *count += 1;
        }
        self.last.clone_from(key);
    }

    fn close(&mut self) {
        let Some((length, count)) = self.open.pop() else {
            return;
        };
        if count >= self.crowd {
            let prefix = [&[PREFIX], &self.last[1..length]].concat();
            let manner = Manner {
                soft: false,
                is_of_unsafe_method: false,
            };
            self.chosen.insert(prefix, manner);
        } else if let Some((_, parent)) = self.open.last_mut() {
            *parent += count;
        }
    }

    /// To be called after the last item: the directories that were found.
    pub fn found(mut self) -> Coarse {
        while !self.open.is_empty() {
            self.close();
        }
        Coarse(self.chosen)
    }
}

/// Directories that replace names.
pub struct Coarse(Items);

impl Coarse {
    /// Does a directory replace this item?
    pub fn has(&self, key: &Key) -> bool {
        key.first() == Some(&NAME)
            && directories(key).any(|length| {
                let prefix = [&[PREFIX], &key[1..length]].concat();
                self.0.contains_key(&prefix)
            })
    }

    /// Was no directory found?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of directories.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The directories as items.
    pub fn items(&self) -> Items {
        self.0.clone()
    }
}

/// The lengths of the directories of a name, its server first. The part before the query counts as a directory too.
fn directories(key: &Key) -> impl Iterator<Item = usize> {
    let server = memchr::memmem::find(key, b"://").map(|at| at + 3);
    let path = server.and_then(|at| Some(at + memchr::memchr(b'/', &key[at..])?));
    let rest = path.map_or(&[][..], |at| &key[at..]);
    let ends = memchr::memchr2_iter(b'/', b'?', rest);
    ends.map(move |at| path.unwrap_or(0) + at + 1)
        .take_while(|length| *length <= PATTERN_BYTES_MAX)
        .take(LEVELS_MAX)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn change(names: &[&str], soft: bool) -> Vec<u8> {
        let names = names.iter().map(|name| name.as_bytes().to_vec()).collect();
        let change = Change {
            names,
            soft,
            ..Change::default()
        };
        change.encode().unwrap()
    }

    fn items(changes: &[Vec<u8>]) -> Items {
        let mut items = Items::new();
        changes
            .iter()
            .for_each(|change| collect(change, &mut items));
        items
    }

    /// All items from these sources, as text; a soft one has a `~`.
    fn merged(sources: Vec<Source<'_>>) -> (u64, String) {
        let mut out = String::new();
        let each = &mut |key: &Key, manner: Manner| {
            let mark = if manner.soft { "~" } else { "" };
            out += &format!("{} {mark}", String::from_utf8_lossy(key));
            Ok(())
        };
        let before = merge(sources, each).unwrap();
        (before, out)
    }

    fn packed(items: &Items) -> Vec<Vec<u8>> {
        let mut packing = Packing::default();
        let full = |(key, manner): (&Key, &Manner)| packing.push(key, *manner);
        let mut all: Vec<_> = items.iter().filter_map(full).collect();
        all.extend(packing.take());
        all
    }

    #[test]
    fn a_name_is_there_once_and_hard_if_it_ever_was() {
        let one = items(&[change(&["b", "a"], true), change(&["c"], true)]);
        let other = items(&[change(&["b", "d"], false), b"of another version".to_vec()]);
        let mut changes = packed(&other).into_iter();
        let stream = Source::of_changes(Box::new(move || Ok(changes.next().map(Bytes::from))));
        let (before, out) = merged(vec![Source::of_items(one), stream]);
        assert_eq!((before, out.as_str()), (6, "na ~nb nc ~nd p "));
    }

    #[test]
    fn what_is_packed_says_the_same() {
        let mut all = Items::new();
        for n in 0..5000 {
            let name = format!("http://a.example/{n}");
            collect(&change(&[&name], n % 700 == 0), &mut all);
        }
        let pattern = Change {
            patterns: vec![Pattern::Tag(b"T".to_vec()), Pattern::Prefix(b"x".to_vec())],
            is_of_unsafe_method: true,
            ..Change::default()
        };
        collect(&pattern.encode().unwrap(), &mut all);
        let changes = packed(&all);
        assert!(changes.len() > 5 && changes.iter().all(|c| c.len() < RECORD_BYTES + 100));
        assert_eq!(items(&changes), all);
    }

    #[test]
    fn directories_stand_for_their_crowds_and_no_others() {
        let mut names: Vec<String> = (0..900)
            .map(|n| format!("GET http://a/orders/{n}/pay"))
            .collect();
        names.extend((0..300).map(|n| format!("GET http://b/find?q={n}")));
        names.extend((0..7).map(|n| format!("GET http://b/{n}")));
        names.push("GET http://a/about".into());
        names.push("no name".into());
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let all = items(&[change(&names, false)]);
        let mut crowds = Crowds::among(all.len() as u64);
        all.keys().for_each(|key| crowds.push(key));
        let coarse = crowds.found();
        let found: Vec<_> = coarse
            .0
            .keys()
            .map(|key| String::from_utf8_lossy(key))
            .collect();
        assert_eq!(found, ["pGET http://a/orders/", "pGET http://b/find?"]);
        let left: Vec<&Key> = all.keys().filter(|key| !coarse.has(key)).collect();
        assert_eq!(left.len(), 9);
    }
}
