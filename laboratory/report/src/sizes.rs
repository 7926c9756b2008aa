//! Distributions of sizes, and times by size: of the whole source, not slot by slot.
//!
//! Size classes are powers of two from 64 B to 64 MB, with one class below and one above. A class is drawn at its geometric middle.
//!
//! Not known here: slots.   Limits: [`DAY_VALUES_MAX`] values of a class are exact.

use profile::{Record, StageName};

use crate::cells::{DAY_VALUES_MAX, is_aborted};
use crate::kinds::{Group, HITS, MISSES};
use crate::uniques::CURVES;
use crate::values::{Union, Values};

/// Distributions of sizes, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Size {
    /// Bytes sent for hits, each access.
    Hit,
    /// Bytes sent for misses.
    Miss,
    /// Bytes sent for hits at peers.
    Peer,
    /// Bytes sent for other requests.
    Rest,
    /// Stored sizes of objects read from the disk, each time.
    SwapIn,
    /// Stored sizes of objects given to the disk.
    SwapOut,
    /// Sizes of documents at the first hit.
    HitFile,
    /// Sizes of documents at the first miss.
    MissFile,
    /// Sizes of documents at the first swap-in.
    SwapInFile,
    /// Sizes of documents at the first swap-out.
    SwapOutFile,
}

/// Sizes of first accesses, in the order of the bits of [`crate::uniques::Access::curves`].
pub(crate) const FILES: [Size; CURVES] = [
    Size::HitFile,
    Size::MissFile,
    Size::SwapInFile,
    Size::SwapOutFile,
];
const SIZES: usize = 10;

impl Size {
    /// Whether this is one of [`FILES`].
    pub(crate) fn is_of_first_accesses(self) -> bool {
        FILES.contains(&self)
    }
}

/// Times by size, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Over {
    /// Response time of hits over bytes sent.
    Hit,
    /// Response time of misses over bytes sent.
    Miss,
    /// Server reply of hits over the object's size.
    ReplyHit,
    /// Server reply of misses over the object's size.
    ReplyMiss,
    /// Proxy reply of 200 hits over bytes sent.
    SentHit,
    /// Proxy reply of misses over bytes sent.
    SentMiss,
    /// Swap-in over the object's size.
    In,
    /// Swap-in to its first page, over the object's size.
    InFirst,
    /// Swap-out over the object's size.
    Out,
    /// Swap-out to its first page, over the object's size.
    OutFirst,
}

const OVERS: usize = 10;
/// 64 B.
const SMALLEST_LOG2: u32 = 6;
/// 64 MB.
const LARGEST_LOG2: u32 = 26;
/// Number of classes, with one below and one above.
pub(crate) const CLASSES: usize = (LARGEST_LOG2 - SMALLEST_LOG2) as usize + 2;

/// The index of a size's class.
pub(crate) fn class_of(bytes: u64) -> usize {
    let log2 = bytes.max(1).ilog2().min(LARGEST_LOG2);
    (log2 + 1).saturating_sub(SMALLEST_LOG2) as usize
}

/// The geometric middle of a class, bytes.
pub(crate) fn middle(class: usize) -> f64 {
    (class as f64 + f64::from(SMALLEST_LOG2) - 0.5).exp2()
}

/// Sizes at which a cumulative curve has a point: four for each power of two.
pub(crate) fn cumulative_sizes() -> impl Iterator<Item = f64> {
    let (first, last) = (SMALLEST_LOG2 * 4, LARGEST_LOG2 * 4);
    (first..=last).map(|fourths| (f64::from(fourths) / 4.0).exp2())
}

/// All distributions of a source.
pub(crate) struct Sizes {
    sizes: Vec<Values>,
    over: Vec<Values>,
    with_aborted: bool,
}

impl Sizes {
    /// Empty distributions.
    pub(crate) fn new(with_aborted: bool) -> Self {
        Sizes {
            sizes: vec![Values::new(DAY_VALUES_MAX); SIZES],
            over: vec![Values::new(DAY_VALUES_MAX); OVERS * CLASSES],
            with_aborted,
        }
    }

    /// Adds a value to a distribution.
    pub(crate) fn push(&mut self, size: Size, bytes: u64) {
        self.sizes[size as usize].push(bytes);
    }

    /// Sorts the values; needed before percentiles are read.
    pub(crate) fn sort(&mut self) {
        self.sizes
            .iter_mut()
            .chain(&mut self.over)
            .for_each(Values::sort);
    }

    /// Several distributions as one.
    pub(crate) fn union(&self, sizes: &[Size]) -> Union<'_> {
        Union::new(sizes.iter().map(|&size| &self.sizes[size as usize]))
    }

    /// The times in one size class.
    pub(crate) fn over(&self, over: Over, class: usize) -> Union<'_> {
        Union::new([&self.over[over as usize * CLASSES + class]])
    }

    /// The times in all size classes.
    pub(crate) fn over_all(&self, over: Over) -> Union<'_> {
        Union::new(&self.over[over as usize * CLASSES..][..CLASSES])
    }

    /// Adds a request of this group.
    pub(crate) fn request(&mut self, record: &Record, group: Group) {
        let (sent, stored) = (record.bytes_out, record.object_bytes);
        let stage = |name| record.stage(name);
        let (reads, writes) = (stage(StageName::SwapIn), stage(StageName::SwapOut));
        let is_miss = MISSES.contains(&group);
        let is_hit = HITS.contains(&group);
        self.push(
            match group {
                Group::Miss | Group::Collapsed => Size::Miss,
                Group::PeerHit => Size::Peer,
                Group::Rest => Size::Rest,
                _ => Size::Hit,
            },
            sent,
        );
        // 0 means unknown.
        if stored > 0 {
            reads.inspect(|_| self.push(Size::SwapIn, stored));
            writes.inspect(|_| self.push(Size::SwapOut, stored));
        }
        if is_aborted(record) && !self.with_aborted {
            return;
        }
        let replied = stage(StageName::ProxyReply).map(|stage| stage.total_us);
        let server = stage(StageName::ServerReply).map(|stage| stage.total_us);
        let total = Some(record.total_us);
        let is_ok = matches!(group, Group::OkAlone | Group::OkAsked);
        let mut add = |over: Over, us: Option<u32>, bytes: u64| {
            if let Some(us) = us {
                self.over[over as usize * CLASSES + class_of(bytes)].push(us.into());
            }
        };
        if is_hit {
            add(Over::Hit, total, sent);
        } else if is_miss {
            add(Over::Miss, total, sent);
            add(Over::SentMiss, replied, sent);
        }
        if is_ok {
            add(Over::SentHit, replied, sent);
        }
        if stored == 0 {
            return;
        }
        if is_hit {
            add(Over::ReplyHit, server, stored);
        } else if is_miss {
            add(Over::ReplyMiss, server, stored);
        }
        add(Over::In, reads.map(|stage| stage.total_us), stored);
        add(Over::InFirst, reads.map(|stage| stage.first_us), stored);
        add(Over::Out, writes.map(|stage| stage.total_us), stored);
        add(Over::OutFirst, writes.map(|stage| stage.first_us), stored);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_powers_of_two() {
        let classes = [
            0,
            63,
            64,
            127,
            128,
            1 << 25,
            (1 << 26) - 1,
            1 << 26,
            u64::MAX,
        ]
        .map(class_of);
        assert_eq!(classes, [0, 0, 1, 1, 2, 20, 20, 21, 21]);
        assert_eq!(CLASSES, 22);
        assert_eq!(middle(1).round(), 91.0);
        assert_eq!(class_of(middle(5) as u64), 5);
        assert_eq!(cumulative_sizes().count(), 81);
    }
}
