//! UNIFIED against a slow twin: the same operations, the same answers, and an audit after each step.

mod oracle;

use extent::{Chunk, Chunks, Extent, Unified};
use oracle::Oracle;
use proptest::prelude::*;

/// One step. Indices are taken modulo whatever there is, so that every sequence makes sense.
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

/// Runs the steps on both. At the end the space is built anew from the used chunks, as after a restart: it must be the
/// same space, and go on alike.
fn agree(total: u32, ops: &[Op]) -> Result<(), TestCaseError> {
    let mut space = Unified::new_all_free(Chunks(total));
    let mut oracle = Oracle::new(Chunks(total));
    let mut held: Vec<Extent> = Vec::new();
    for op in ops {
        match *op {
            Op::Take(len) => {
                let taken = space.allocate(Chunks(len));
                prop_assert_eq!(taken, oracle.cut_largest(Chunks(len), Chunks(len)));
                held.extend(taken);
            }
            Op::Cut { at_least, more } => {
                let (at_least, want) = (Chunks(at_least), Chunks(at_least + more));
                let taken = space.cut_largest(at_least, want);
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
        let pieces = oracle.runs(false);
        prop_assert_eq!(space.pieces(), pieces.len());
        prop_assert_eq!(space.free_pieces(), pieces);
        prop_assert_eq!(space.free_chunks(), oracle.free_chunks());
        prop_assert_eq!(space.largest(), oracle.largest());
        prop_assert_eq!(space.total(), Chunks(total));
    }
    let used = oracle.runs(true);
    prop_assert!(used.iter().all(|&run| space.is_used(run)));
    let mut again =
        Unified::from_used(Chunks(total), used.iter().rev().copied()).expect("no overlap");
    again.audit().map_err(TestCaseError::fail)?;
    prop_assert_eq!(again.free_pieces(), space.free_pieces());
    prop_assert_eq!(again.free_chunks(), space.free_chunks());
    for len in 1..10 {
        prop_assert_eq!(again.allocate(Chunks(len)), space.allocate(Chunks(len)));
    }
    Ok(())
}

proptest! {
    #[test]
    fn unified(total in TOTALS, ops in ops()) {
        agree(total, &ops)?;
    }
}
