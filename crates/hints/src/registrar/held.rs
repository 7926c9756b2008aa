//! What a node has, and what the fronts are to believe of it, mark by mark.
//!
//! A *mark* is a position of the filter, or a number of the directory. It is *told* while at least one name with it is there. While the
//! counts are made anew, what was told before stays told until they are whole, because half of them would deny what the node has.
//!
//! Not known here: who is told, and when.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use crate::bloom::Bits;
use crate::counting::{Counting, Width};
use crate::directory::{NumberHasher, NumberMap};
use crate::frames::{Kind, PAGE_BYTES, Page};
use crate::mistakes::{Mistake, makes};
use crate::name::Name;

type NumberSet = HashSet<u64, BuildHasherDefault<NumberHasher>>;

/// See the head of the file.
#[derive(Debug)]
pub(super) enum Held {
    Bloom {
        counting: Counting,
        width: Width,
        /// What was told before the counts were begun anew.
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

    /// One name more has the mark. True: it is told from now on.
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

    /// One name less has the mark. True: it is not told any more.
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

    /// Forgets all counts; what was told stays told until [`Self::end_anew`].
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
                // A second beginning: what was told first is still the most that is known.
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

    /// The counts are whole.
    pub(super) fn end_anew(&mut self) {
        match self {
            Held::Bloom { before, .. } => *before = None,
            Held::Directory { before, .. } => *before = None,
        }
    }

    /// Are so many counters stuck that the counts are to be made anew?
    pub(super) fn is_worn(&self) -> bool {
        match self {
            Held::Bloom { counting, .. } => counting.is_worn(),
            Held::Directory { .. } => false,
        }
    }

    /// Marks that the counts have.
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
                // Number, count and a byte of the table's own.
                let places = counts.capacity() * 8 / 7;
                places * 17 + before.as_ref().map_or(0, |set| set.capacity() * 8 / 7 * 9)
            }
        }
    }

    /// Pages of a bitmap, or none for a directory.
    pub(super) fn bitmap_pages(&self) -> Option<u32> {
        match self {
            Held::Bloom { counting, .. } => {
                Some(counting.bits().bytes().len().div_ceil(PAGE_BYTES) as u32)
            }
            Held::Directory { .. } => None,
        }
    }

    /// A page of the bitmap as it is told now. Nothing for a directory.
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

    /// All numbers that a directory tells.
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
