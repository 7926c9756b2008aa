//! First accesses to documents, and numbers of distinct documents, clients and servers.
//!
//! *Documents*: Figure 2 counts each document once for each curve, at its first access, and Table 3 counts documents. A day may have
//! forty million keys, more than fit in memory. So accesses are written, by key, into [`PARTS`] parts of a temporary file, and at the
//! end each part is sorted by key and time. Because of a table of recent keys, most later accesses to popular documents are not written.
//!
//! *Clients and servers* are sets of 32-bit hashes. From [`EXACT_MAX`] on a set keeps half of its hashes, then a quarter, and so on.
//!
//! Limits: a part with more than [`SORTED_MAX`] accesses is read several times, each time for some of its keys.

use std::collections::HashSet;
use std::path::Path;

use crate::spill::{Piece, Scratch, SpillError};

const PARTS: usize = 256;
/// Buffer of a part.
const BUFFER_BYTES: usize = 32 << 10;
/// Bytes of an access: key, time, size with curves.
const ACCESS_BYTES: usize = 24;
/// Most accesses that are sorted at a time: 24 MiB.
const SORTED_MAX: u64 = 1 << 20;
/// Number of recent keys: 16 MiB.
const RECENT: usize = if cfg!(test) { 64 } else { 1 << 20 };

/// Number of curves of Figure 2, each a bit.
pub(crate) const CURVES: usize = 4;
const CURVE_BITS: u64 = (1 << CURVES) - 1;

/// An access to a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// Key of the document.
    pub(crate) key: u64,
    /// Time of the access, microseconds since 1970.
    pub(crate) at_unix_us: u64,
    /// Size of the document, bytes; 0 if not known.
    pub(crate) bytes: u64,
    /// The curves for which the access counts, a bit each; may be none.
    pub(crate) curves: u8,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    key: u64,
    /// The first accesses for all of `curves` are not later than this.
    until_unix_us: u64,
    curves: u8,
    is_used: bool,
}

struct Part {
    written: Vec<Piece>,
    buffer: Vec<u8>,
    accesses: u64,
}

/// All accesses to documents.
pub(crate) struct Documents {
    scratch: Scratch,
    parts: Vec<Part>,
    recent: Vec<Seen>,
}

impl Documents {
    /// No accesses; the file will be in that directory.
    pub(crate) fn new(directory: &Path) -> Self {
        let part = || Part {
            written: Vec::new(),
            buffer: Vec::new(),
            accesses: 0,
        };
        Documents {
            scratch: Scratch::new(directory),
            parts: std::iter::repeat_with(part).take(PARTS).collect(),
            recent: Vec::new(),
        }
    }

    /// Adds an access.
    pub(crate) fn put(&mut self, access: Access) -> Result<(), SpillError> {
        if self.recent.is_empty() {
            self.recent = vec![Seen::default(); RECENT];
        }
        let spread = access.key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let seen = &mut self.recent[(spread >> 20) as usize % RECENT];
        if seen.is_used && seen.key == access.key {
            let is_later = access.at_unix_us > seen.until_unix_us;
            if is_later && seen.curves & access.curves == access.curves {
                return Ok(());
            }
            seen.curves |= access.curves;
            seen.until_unix_us = seen.until_unix_us.max(access.at_unix_us);
        } else {
            *seen = Seen {
                key: access.key,
                until_unix_us: access.at_unix_us,
                curves: access.curves,
                is_used: true,
            };
        }
        let part = &mut self.parts[(spread >> 56) as usize % PARTS];
        part.accesses += 1;
        let size = access.bytes.min(u64::MAX >> CURVES) << CURVES | u64::from(access.curves);
        for number in [access.key, access.at_unix_us, size] {
            part.buffer.extend_from_slice(&number.to_le_bytes());
        }
        if part.buffer.len() + ACCESS_BYTES > BUFFER_BYTES {
            part.written.push(self.scratch.append(&part.buffer)?);
            part.buffer.clear();
        }
        Ok(())
    }

    /// Frees the table of recent keys.
    pub(crate) fn forget_recent(&mut self) {
        self.recent = Vec::new();
    }

    /// Calls `first` with the curve and the size of each document's first access for that curve; unknown sizes are left out.
    /// Returns the number of documents.
    pub(crate) fn finish(mut self, mut first: impl FnMut(usize, u64)) -> Result<u64, SpillError> {
        self.recent = Vec::new();
        let mut documents = 0;
        let mut sorted: Vec<[u64; 3]> = Vec::new();
        for part in &self.parts {
            let turns = part.accesses.div_ceil(SORTED_MAX).max(1);
            for turn in 0..turns {
                sorted.clear();
                self.collect(part, |access| access[0] % turns == turn, &mut sorted)?;
                sorted.sort_unstable();
                for one in sorted.chunk_by(|a, b| a[0] == b[0]) {
                    documents += 1;
                    let mut counted = 0;
                    for access in one {
                        let (size, new) = (access[2] >> CURVES, access[2] & CURVE_BITS & !counted);
                        counted |= new;
                        for curve in (0..CURVES).filter(|curve| new & 1 << curve != 0 && size > 0) {
                            first(curve, size);
                        }
                    }
                }
            }
        }
        Ok(documents)
    }

    fn collect(
        &self,
        part: &Part,
        is_wanted: impl Fn(&[u64; 3]) -> bool,
        into: &mut Vec<[u64; 3]>,
    ) -> Result<(), SpillError> {
        let mut read = Vec::new();
        let mut take = |bytes: &[u8]| {
            for access in bytes.chunks_exact(ACCESS_BYTES) {
                let number = |i: usize| {
                    u64::from_le_bytes(access[i * 8..i * 8 + 8].try_into().expect("8 bytes"))
                };
                let access = [number(0), number(1), number(2)];
                if is_wanted(&access) {
                    into.push(access);
                }
            }
        };
        for piece in &part.written {
            self.scratch.read(*piece, &mut read)?;
            take(&read);
        }
        take(&part.buffer);
        Ok(())
    }
}

/// A set with more hashes than this keeps only a share of them.
const EXACT_MAX: usize = 1 << 20;

/// Counts distinct hashes.
#[derive(Default)]
pub(crate) struct Distinct {
    kept: HashSet<u32>,
    /// A hash is kept if this many of its lowest bits, once mixed, are 0.
    bits: u32,
}

impl Distinct {
    /// Counts a hash, if it is new.
    pub(crate) fn see(&mut self, hash: u32) {
        if self.is_kept(hash) && self.kept.insert(hash) && self.kept.len() > EXACT_MAX {
            self.bits += 1;
            let mut kept = std::mem::take(&mut self.kept);
            kept.retain(|&hash| self.is_kept(hash));
            self.kept = kept;
        }
    }

    fn is_kept(&self, hash: u32) -> bool {
        let mixed = (hash ^ hash >> 16).wrapping_mul(0x45d9_f3b3);
        (mixed ^ mixed >> 15).trailing_zeros() >= self.bits
    }

    /// The number of distinct hashes, and whether it is an estimate.
    pub(crate) fn count(&self) -> (u64, bool) {
        ((self.kept.len() as u64) << self.bits, self.bits > 0)
    }
}

/// Numbers of distinct things, each with whether it is an estimate; `None` if not known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Uniques {
    pub(crate) documents: Option<(u64, bool)>,
    pub(crate) clients: Option<(u64, bool)>,
    pub(crate) servers: Option<(u64, bool)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn first_accesses_are_the_earliest(
            accesses in proptest::collection::vec((0..6u64, 0..1000u64, 0..9u64, 0..16u8), 0..200),
        ) {
            let mut documents = Documents::new(&std::env::temp_dir());
            let mut firsts: BTreeMap<(u64, usize), (u64, u64)> = BTreeMap::new();
            let mut keys = HashSet::new();
            for &(key, at_unix_us, bytes, curves) in &accesses {
                documents.put(Access { key, at_unix_us, bytes, curves }).unwrap();
                keys.insert(key);
                for curve in (0..CURVES).filter(|curve| curves & 1 << curve != 0) {
                    firsts.entry((key, curve)).or_insert((u64::MAX, 0));
                }
            }
            // Of several accesses at the same time the smallest number counts as first; the number includes the curves.
            for (&(key, curve), first) in &mut firsts {
                let mine = accesses.iter().filter(|a| a.0 == key && a.3 & 1 << curve != 0);
                *first = mine.map(|a| (a.1, a.2 << CURVES | u64::from(a.3))).min().unwrap();
            }
            let mut want: Vec<_> = (firsts.iter())
                .map(|(&(_, curve), &(_, size))| (curve, size >> CURVES))
                .filter(|&(_, size)| size > 0)
                .collect();
            let mut found = Vec::new();
            let all = documents.finish(|curve, size| found.push((curve, size))).unwrap();
            want.sort();
            found.sort();
            prop_assert_eq!(found, want);
            prop_assert_eq!(all, keys.len() as u64);
        }
    }

    #[test]
    fn parts_that_are_too_long_are_read_in_turns() {
        let mut documents = Documents::new(&std::env::temp_dir());
        documents.parts[0].accesses = SORTED_MAX * 3;
        for key in 0..20_000u64 {
            for at_unix_us in [5, 3] {
                let curves = 1;
                documents
                    .put(Access {
                        key,
                        at_unix_us,
                        bytes: at_unix_us,
                        curves,
                    })
                    .unwrap();
            }
        }
        let mut sum = 0;
        let all = documents.finish(|_, size| sum += size).unwrap();
        assert_eq!((all, sum), (20_000, 60_000));
    }

    #[test]
    fn many_hashes_are_estimated() {
        let mut some = Distinct::default();
        (0..1000).for_each(|i| some.see(i % 500));
        assert_eq!(some.count(), (500, false));
        let mut many = Distinct::default();
        (0..3 * EXACT_MAX as u32).for_each(|i| many.see(i.wrapping_mul(2_654_435_761)));
        let (count, is_estimate) = many.count();
        let error = count as f64 / (3 * EXACT_MAX) as f64 - 1.0;
        assert!(is_estimate && error.abs() < 0.01, "{error}");
    }
}
