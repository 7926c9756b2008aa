//! Every manager against the oracle: the same operations, the same answers, and an audit after each step.

use extent::{
    BestFit, Buddy, Chunk, Chunks, Extent, FirstFit, Fit, LinearMerge, Oracle, SpaceManager,
    TreeMerge, Unified, WordMerge,
};
use proptest::prelude::*;

/// One step. Indices are taken modulo the number of extents held, so that every sequence is valid.
#[derive(Clone, Debug)]
enum Op {
    Take(u32),
    Cut {
        at_least: u32,
        more: u32,
    },
    /// Gives back one of the extents held.
    Free(usize),
    /// Gives back a part of one of them; the rest is held on.
    FreePart(usize, u32, u32),
    /// Any numbers, sound or not.
    Reserve(u32, u32),
}

/// More than two words of the bit vector, and ends within a word.
const TOTALS: std::ops::Range<u32> = 1..300;

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => (1..20u32).prop_map(Op::Take),
        1 => (20..200u32).prop_map(Op::Take),
        2 => (1..30u32, 0..30u32).prop_map(|(at_least, more)| Op::Cut { at_least, more }),
        4 => any::<usize>().prop_map(Op::Free),
        3 => (any::<usize>(), any::<u32>(), any::<u32>()).prop_map(|(i, a, b)| Op::FreePart(i, a, b)),
        2 => (0..300u32, 0..40u32).prop_map(|(first, len)| Op::Reserve(first, len)),
        1 => (any::<u32>(), any::<u32>()).prop_map(|(first, len)| Op::Reserve(first, len)),
    ];
    prop::collection::vec(op, 1..120)
}

type Cut<M> = fn(&mut M, Chunks, Chunks) -> Option<Extent>;

/// Runs the steps on both. `cut` is what only UNIFIED can do; the others skip it.
fn agree<M: SpaceManager>(
    total: u32,
    fit: Fit,
    ops: &[Op],
    cut: Option<Cut<M>>,
) -> Result<M, TestCaseError> {
    let mut space = M::new_all_free(Chunks(total));
    let mut oracle = Oracle::new(Chunks(total), fit);
    let mut held: Vec<Extent> = Vec::new();
    for op in ops {
        match *op {
            Op::Take(len) => {
                let taken = space.allocate(Chunks(len));
                prop_assert_eq!(taken, oracle.allocate(Chunks(len)));
                held.extend(taken);
            }
            Op::Cut { at_least, more } => {
                let Some(cut) = cut else { continue };
                let (at_least, want) = (Chunks(at_least), Chunks(at_least + more));
                let taken = cut(&mut space, at_least, want);
                prop_assert_eq!(taken, oracle.cut_largest(at_least, want));
                held.extend(taken);
            }
            Op::Free(_) | Op::FreePart(..) if held.is_empty() => continue,
            Op::Free(i) => {
                let e = held.swap_remove(i % held.len());
                space.free(e);
                oracle.free(e);
            }
            Op::FreePart(i, skip, len) => {
                let e = held.swap_remove(i % held.len());
                let skip = skip % e.len.0;
                let part = Extent::new(Chunk(e.first.0 + skip), Chunks(1 + len % (e.len.0 - skip)));
                let (before, behind) = e.around(part);
                held.extend(before.into_iter().chain(behind));
                space.free(part);
                oracle.free(part);
            }
            Op::Reserve(first, len) => {
                let e = Extent {
                    first: Chunk(first),
                    len: Chunks(len),
                };
                let taken = space.reserve(e);
                prop_assert_eq!(taken, oracle.reserve(e), "reserve {}", e);
                if taken {
                    held.push(e);
                }
            }
        }
        space.audit().map_err(TestCaseError::fail)?;
        prop_assert_eq!(space.free_pieces(), oracle.free_pieces());
        prop_assert_eq!(space.free_chunks(), oracle.free_chunks());
        prop_assert_eq!(space.pieces(), oracle.pieces());
        prop_assert_eq!(space.largest(), oracle.largest());
        prop_assert_eq!(space.total(), oracle.total());
    }
    Ok(space)
}

proptest! {
    #[test]
    fn unified(total in TOTALS, ops in ops()) {
        let space = agree::<Unified>(total, Fit::Worst, &ops, Some(Unified::cut_largest))?;

        // Rebuilt from what is used, it is the same space, and goes on alike.
        let mut oracle = Oracle::new(Chunks(total), Fit::Worst);
        for piece in space.free_pieces() {
            oracle.reserve(piece);
        }
        let used = oracle.free_pieces();
        let mut again = Unified::from_used(Chunks(total), used.iter().rev().copied()).expect("no overlap");
        again.audit().map_err(TestCaseError::fail)?;
        prop_assert_eq!(again.free_pieces(), space.free_pieces());
        prop_assert_eq!(again.free_chunks(), space.free_chunks());
        let mut space = space;
        for len in 1..10 {
            prop_assert_eq!(again.allocate(Chunks(len)), space.allocate(Chunks(len)));
        }
    }

    #[test]
    fn linear_merge(total in TOTALS, ops in ops()) {
        agree::<LinearMerge>(total, Fit::Worst, &ops, None)?;
    }

    #[test]
    fn word_merge(total in TOTALS, ops in ops()) {
        agree::<WordMerge>(total, Fit::Worst, &ops, None)?;
    }

    #[test]
    fn tree_merge(total in TOTALS, ops in ops()) {
        agree::<TreeMerge>(total, Fit::Worst, &ops, None)?;
    }

    #[test]
    fn best_fit(total in TOTALS, ops in ops()) {
        agree::<BestFit>(total, Fit::Best, &ops, None)?;
    }

    #[test]
    fn first_fit(total in TOTALS, ops in ops()) {
        agree::<FirstFit>(total, Fit::First, &ops, None)?;
    }

    /// The buddy system keeps other rules; its twin is `aligned_free`, worked out anew at each step.
    #[test]
    fn buddy(total in TOTALS, ops in ops()) {
        let mut space = Buddy::new_all_free(Chunks(total));
        let mut blocks = Oracle::new(Chunks(total), Fit::First);
        let mut held: Vec<Extent> = Vec::new();
        for op in &ops {
            match *op {
                Op::Take(len) => {
                    let size = len.next_power_of_two();
                    let fitting = aligned_free(&blocks).into_iter().filter(|block| block.len.0 >= size);
                    let expected = fitting.min_by_key(|block| (block.len, block.first)).map(|block| block.first);
                    let taken = space.allocate(Chunks(len));
                    prop_assert_eq!(taken.map(|e| e.first), expected);
                    held.extend(taken);
                    if let Some(e) = taken {
                        prop_assert_eq!(e.len, Chunks(len));
                        prop_assert!(blocks.reserve(block_of(e)));
                    }
                }
                Op::Reserve(first, len) => {
                    let e = Extent { first: Chunk(first), len: Chunks(len) };
                    let sound = e.fits_in(Chunks(total));
                    let expected = sound && first.is_multiple_of(len.next_power_of_two()) && blocks.reserve(block_of(e));
                    prop_assert_eq!(space.reserve(e), expected);
                    if expected {
                        held.push(e);
                    }
                }
                Op::Free(i) | Op::FreePart(i, ..) if !held.is_empty() => {
                    let e = held.swap_remove(i % held.len());
                    space.free(e);
                    blocks.free(block_of(e));
                }
                _ => {}
            }
            space.audit().map_err(TestCaseError::fail)?;
            prop_assert_eq!(space.free_pieces(), aligned_free(&blocks));
            prop_assert_eq!(space.free_chunks(), blocks.free_chunks());
            let asked: Chunks = held.iter().map(|e| e.len).sum();
            prop_assert_eq!(space.padding(), space.total() - space.free_chunks() - asked);
        }
    }
}

/// The whole block that an extent of the buddy system stands for.
fn block_of(e: Extent) -> Extent {
    Extent {
        first: e.first,
        len: Chunks(e.len.0.next_power_of_two()),
    }
}

/// The largest aligned blocks that are free, by address: from each place the largest that starts there.
fn aligned_free(space: &Oracle) -> Vec<Extent> {
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < space.total().0 {
        let starts_here = (0..31)
            .rev()
            .map(|order| 1 << order)
            .filter(|&size| at.is_multiple_of(size));
        let mut free = starts_here
            .map(|size| Extent::new(Chunk(at), Chunks(size)))
            .filter(|&e| space.is_free(e));
        match free.next() {
            Some(block) => {
                blocks.push(block);
                at = block.end().0;
            }
            None => at += 1,
        }
    }
    blocks
}
