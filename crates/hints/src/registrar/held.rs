//! The marks that a node has, and those that fronts are told.
//!
//! A *mark* is a position of the filter, or a number of the directory. It is *told* while at least one name has it. While the counts are rebuilt,
//! the marks told before stay told, because incomplete counts would deny objects that the node has.
//!
//! Not known here: which fronts are told, and when.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use crate::bloom::Bits;
use crate::counting::{Counting, Width};
use crate::directory::{NumberHasher, NumberMap};
use crate::frames::{Kind, PAGE_BYTES, Page};
use crate::mistakes::{Mistake, makes};
use crate::name::Name;

type NumberSet = HashSet<u64, BuildHasherDefault<NumberHasher>>;

/// The marks; described at the head of this file.
#[derive(Debug)]
pub(super) enum Held {
    Bloom {
        counting: Counting,
        width: Width,
        /// Marks that were told before the rebuilding began.
        before: Option<Bits>,
    },
    Directory {
        counts: NumberMap<u32>,
        before: Option<NumberSet>,
    },
}

impl Held {
    pub(super) fn new(kind: Kind, width: Width) -> Held {
        match kind {
            Kind::Bloom(shape) => Held::Bloom {
                counting: Counting::new(shape, width),
                width,
                before: None,
            },
            Kind::Directory => Held::Directory {
                counts: NumberMap::default(),
                before: None,
            },
        }
    }

    /// Calls `each` with every mark of a name.
    pub(super) fn marks<N: Name>(&self, name: &N, mut each: impl FnMut(u64)) {
        match self {
            Held::Bloom { counting, .. } => {
                let positions = name.positions(counting.bits().shape());
                positions.for_each(|position| each(position.into()));
            }
            Held::Directory { .. } => each(name.number()),
        }
    }

    /// Adds a name to the mark. True: the mark begins to be told.
    pub(super) fn raise(&mut self, mark: u64) -> bool {
        match self {
            Held::Bloom {
                counting, before, ..
            } => {
                let position = mark as u32;
                counting.raise(position) && !before.as_ref().is_some_and(|bits| bits.get(position))
            }
            Held::Directory { counts, before } => {
                let count = counts.entry(mark).or_default();
                *count = count.saturating_add(1);
                *count == 1 && !before.as_ref().is_some_and(|set| set.contains(&mark))
            }
        }
    }

    /// Removes a name from the mark. True: the mark ceases to be told.
    pub(super) fn lower(&mut self, mark: u64) -> bool {
        match self {
            Held::Bloom {
                counting, before, ..
            } => {
                let position = mark as u32;
                counting.lower(position) && !before.as_ref().is_some_and(|bits| bits.get(position))
            }
            Held::Directory { counts, before } => {
                let Some(count) = counts.get_mut(&mark) else {
                    return false;
                };
                *count -= 1;
                if *count > 0 {
                    return false;
                }
                counts.remove(&mark);
                !before.as_ref().is_some_and(|set| set.contains(&mark))
            }
        }
    }

    /// Is the mark told?
    pub(super) fn is_told(&self, mark: u64) -> bool {
        match self {
            Held::Bloom {
                counting, before, ..
            } => {
                let position = mark as u32;
                counting.bits().get(position)
                    || before.as_ref().is_some_and(|bits| bits.get(position))
            }
            Held::Directory { counts, before } => {
                counts.contains_key(&mark) || before.as_ref().is_some_and(|set| set.contains(&mark))
            }
        }
    }

    /// Forgets all counts. Marks that were told stay told until [`Self::end_anew`].
    pub(super) fn begin_anew(&mut self) {
        let keeps = !makes(Mistake::AnewBare);
        match self {
            Held::Bloom {
                counting,
                width,
                before,
            } => {
                let shape = counting.bits().shape();
                let old = std::mem::replace(counting, Counting::new(shape, *width));
                // On a second beginning keep the first copy: it is the most complete that is known.
                if keeps && before.is_none() {
                    *before = Some(old.bits().clone());
                }
            }
            Held::Directory { counts, before } => {
                let old = std::mem::take(counts);
                if keeps && before.is_none() {
                    *before = Some(old.into_keys().collect());
                }
            }
        }
    }

    /// The counts are complete again.
    pub(super) fn end_anew(&mut self) {
        match self {
            Held::Bloom { before, .. } => *before = None,
            Held::Directory { before, .. } => *before = None,
        }
    }

    /// Are so many counters stuck that the counts should be rebuilt?
    pub(super) fn is_worn(&self) -> bool {
        match self {
            Held::Bloom { counting, .. } => counting.is_worn(),
            Held::Directory { .. } => false,
        }
    }

    /// Number of marks that have counts.
    pub(super) fn marks_held(&self) -> u64 {
        match self {
            Held::Bloom { counting, .. } => counting.ones(),
            Held::Directory { counts, .. } => counts.len() as u64,
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Held::Bloom {
                counting, before, ..
            } => counting.memory_bytes() + before.as_ref().map_or(0, |bits| bits.bytes().len()),
            Held::Directory { counts, before } => {
                // Number, count, and one byte of the table.
                let places = counts.capacity() * 8 / 7;
                places * 17 + before.as_ref().map_or(0, |set| set.capacity() * 8 / 7 * 9)
            }
        }
    }

    /// Number of pages of the bitmap; `None` for a directory.
    pub(super) fn bitmap_pages(&self) -> Option<u32> {
        match self {
            Held::Bloom { counting, .. } => {
                Some(counting.bits().bytes().len().div_ceil(PAGE_BYTES) as u32)
            }
            Held::Directory { .. } => None,
        }
    }

    /// A page of the bitmap as it is told now; `None` for a directory.
    pub(super) fn bitmap_page(&self, page: u32) -> Option<Page> {
        let Held::Bloom {
            counting, before, ..
        } = self
        else {
            return None;
        };
        let from = page as usize * PAGE_BYTES;
        let of = |bits: &Bits| {
            let bytes = bits.bytes();
            bytes[from..bytes.len().min(from + PAGE_BYTES)].to_vec()
        };
        let mut bytes = of(counting.bits());
        if let Some(before) = before {
            for (byte, more) in bytes.iter_mut().zip(of(before)) {
                *byte |= more;
            }
        }
        Some(Page::Bitmap(bytes))
    }

    /// All numbers that a directory tells; empty for a filter.
    pub(super) fn numbers(&self) -> Vec<u64> {
        match self {
            Held::Bloom { .. } => Vec::new(),
            Held::Directory { counts, before } => {
                let own = counts.keys().copied();
                let more = before.iter().flatten();
                own.chain(more.copied().filter(|n| !counts.contains_key(n)))
                    .collect()
            }
        }
    }
}
