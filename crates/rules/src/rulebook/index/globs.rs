//! Patterns of many rules, matched at once. In a pattern `*` stands for any number of any bytes.
//!
//! Of each pattern one piece without `*` is chosen, the one that the fewest other patterns have. One search, linear in the text, finds all
//! these pieces, and only patterns whose piece occurs are compared. A few patterns are compared one by one.
//!
//! Not known here: rules.

use std::collections::HashMap;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use memchr::memmem::Finder;

use super::numbers::{Found, Next};
use crate::table::{Table, hash_of};

/// Patterns, each with its number.
#[derive(Debug, Default)]
pub struct Globs {
    /// Patterns without `*`.
    whole: Table,
    /// Patterns of `*` alone, which match every text.
    every: Option<u32>,
    globs: Vec<(Glob, u32)>,
    /// The numbers of `globs`, only needed while patterns are added.
    known: Table,
    search: Option<Search>,
}

/// A pattern with `*`.
#[derive(Debug)]
struct Glob {
    front: Box<[u8]>,
    middle: Box<[Finder<'static>]>,
    back: Box<[u8]>,
}

/// A search for a piece of each pattern.
#[derive(Debug)]
struct Search {
    pieces: AhoCorasick,
    /// For each piece: the patterns that have it, by their index.
    globs: Vec<Vec<u32>>,
}

impl Globs {
    /// Up to this many are compared one by one.
    const FEW: usize = 8;

    /// The number of a pattern.
    pub fn number(&mut self, pattern: &str, next: Next<'_>) -> u32 {
        let bytes = pattern.as_bytes();
        if !pattern.contains('*') {
            return self.whole.number(hash_of(bytes), bytes, next);
        }
        if bytes.iter().all(|&byte| byte == b'*') {
            return *self.every.get_or_insert_with(next);
        }
        let globs = &mut self.globs;
        self.known.number(hash_of(bytes), bytes, || {
            let number = next();
            globs.push((Glob::new(pattern), number));
            number
        })
    }

    /// Must be called once all patterns are added.
    pub fn finish(&mut self) {
        self.known = Table::default();
        self.globs.shrink_to_fit();
        if self.globs.len() > Self::FEW {
            // If there can be no search, they are compared one by one.
            self.search = Search::new(&self.globs);
        }
    }

    /// Adds the numbers of the patterns that match the text.
    pub fn look(&self, text: &[u8], found: &mut Found) {
        if text.len() <= self.whole.bytes_max() && !self.whole.is_empty() {
            found.extend(self.whole.get(hash_of(text), text));
        }
        found.extend(self.every);
        match &self.search {
            None => {
                let fitting = self.globs.iter().filter(|(glob, _)| glob.fits(text));
                found.extend(fitting.map(|(_, number)| *number));
            }
            Some(search) => search.in_text(text, |at| {
                let (glob, number) = &self.globs[at as usize];
                if glob.fits(text) {
                    found.push(*number);
                }
            }),
        }
    }
}

impl Glob {
    fn new(pattern: &str) -> Glob {
        let mut parts: Vec<&[u8]> = pattern.split('*').map(str::as_bytes).collect();
        let back = parts.pop().unwrap_or_default().into();
        let mut parts = parts.into_iter();
        Glob {
            front: parts.next().unwrap_or_default().into(),
            middle: parts
                .filter(|part| !part.is_empty())
                .map(|part| Finder::new(part).into_owned())
                .collect(),
            back,
        }
    }

    fn fits(&self, text: &[u8]) -> bool {
        let Some(mut text) = text.strip_prefix(&*self.front) else {
            return false;
        };
        for part in &self.middle {
            match part.find(text) {
                Some(at) => text = &text[at + part.needle().len()..],
                None => return false,
            }
        }
        text.ends_with(&self.back)
    }

    /// Its pieces without `*`; there is at least one, and none is empty.
    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let middle = self.middle.iter().map(Finder::needle);
        let all = [&*self.front, &*self.back].into_iter().chain(middle);
        all.filter(|piece| !piece.is_empty())
    }
}

impl Search {
    /// Up to this many bytes of pieces use the fastest search, which takes some 10 MB of memory at most.
    const FAST_BYTES_MAX: usize = 32 << 10;
    /// Duplicates are removed when this many finds are kept.
    const FINDS_MAX: usize = 256;

    /// `None`: the pieces exceed the limits of the search.
    fn new(globs: &[(Glob, u32)]) -> Option<Search> {
        let mut counts: HashMap<&[u8], u32> = HashMap::new();
        let pieces = globs.iter().flat_map(|(glob, _)| glob.pieces());
        pieces.for_each(|piece| *counts.entry(piece).or_default() += 1);
        let mut numbers: HashMap<&[u8], usize> = HashMap::new();
        let mut pieces: Vec<&[u8]> = Vec::new();
        let mut waiting: Vec<Vec<u32>> = Vec::new();
        for (at, (glob, _)) in (0..).zip(globs) {
            // The rarest piece, and of these the longest.
            let cost = |piece: &&[u8]| (counts[piece], std::cmp::Reverse(piece.len()));
            let piece = glob.pieces().min_by_key(cost)?;
            let number = *numbers.entry(piece).or_insert_with(|| {
                pieces.push(piece);
                waiting.push(Vec::new());
                pieces.len() - 1
            });
            waiting[number].push(at);
        }
        let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
        let kind = (bytes <= Self::FAST_BYTES_MAX).then_some(AhoCorasickKind::DFA);
        let built = AhoCorasick::builder().kind(kind).build(&pieces);
        Some(Search {
            pieces: built.ok()?,
            globs: waiting,
        })
    }

    /// Calls `show` once for each pattern whose piece occurs in the text.
    fn in_text(&self, text: &[u8], mut show: impl FnMut(u32)) {
        let mut pieces: Vec<usize> = Vec::new();
        let mut room = Self::FINDS_MAX;
        for found in self.pieces.find_overlapping_iter(text) {
            // A long text may contain one piece a thousand times.
            if pieces.len() == room {
                pieces.sort_unstable();
                pieces.dedup();
                room = Self::FINDS_MAX.max(2 * pieces.len());
            }
            pieces.push(found.pattern().as_usize());
        }
        pieces.sort_unstable();
        pieces.dedup();
        let globs = pieces.iter().flat_map(|&piece| &self.globs[piece]);
        globs.for_each(|&at| show(at));
    }
}
