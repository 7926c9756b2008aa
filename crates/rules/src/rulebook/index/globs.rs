//! Texts in which `*` is any number of any bytes, of many rules at once.
//!
//! Of each pattern one piece without `*` is chosen, that which the fewest others have. One search finds all these pieces in a text, in time
//! of the text, and only patterns whose piece is there are compared. A few patterns are compared one by one.
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
    /// Without `*`: the whole text.
    whole: Table,
    /// Those of `*` alone: every text.
    every: Option<u32>,
    globs: Vec<(Glob, u32)>,
    /// While patterns are added.
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
    /// By piece: the patterns that wait for it, by their place.
    globs: Vec<Vec<u32>>,
}

impl Globs {
    /// So many are compared one by one.
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

    /// When all are known.
    pub fn finish(&mut self) {
        self.known = Table::default();
        self.globs.shrink_to_fit();
        if self.globs.len() > Self::FEW {
            // Without it they are compared one by one.
            self.search = Search::new(&self.globs);
        }
    }

    /// Adds the numbers of the patterns that the text fits.
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

    /// Its pieces; at least one is not empty.
    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let middle = self.middle.iter().map(Finder::needle);
        let all = [&*self.front, &*self.back].into_iter().chain(middle);
        all.filter(|piece| !piece.is_empty())
    }
}

impl Search {
    /// So many bytes of pieces get the fastest search: some 10 MB of memory at most.
    const FAST_BYTES_MAX: usize = 32 << 10;
    /// So many finds are kept with duplicates among them.
    const FINDS_MAX: usize = 256;

    /// `None`: more than the search can have.
    fn new(globs: &[(Glob, u32)]) -> Option<Search> {
        let mut counts: HashMap<&[u8], u32> = HashMap::new();
        let pieces = globs.iter().flat_map(|(glob, _)| glob.pieces());
        pieces.for_each(|piece| *counts.entry(piece).or_default() += 1);
        let mut numbers: HashMap<&[u8], usize> = HashMap::new();
        let mut pieces: Vec<&[u8]> = Vec::new();
        let mut waiting: Vec<Vec<u32>> = Vec::new();
        for (at, (glob, _)) in (0..).zip(globs) {
            // The rarest, and the longest of these.
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

    /// Shows each pattern whose piece is in the text, once.
    fn in_text(&self, text: &[u8], mut show: impl FnMut(u32)) {
        let mut pieces: Vec<usize> = Vec::new();
        let mut room = Self::FINDS_MAX;
        for found in self.pieces.find_overlapping_iter(text) {
            // A long text may have one piece a thousand times.
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
