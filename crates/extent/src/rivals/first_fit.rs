//! Rival: first fit. The lowest piece that is long enough.
//!
//! Packs the space from below. Splinters gather there too and are looked at again each time: a call is O(n) at worst.
//! A tree with the greatest length in each node would make it O(lg n); nobody has needed it yet.
//!
//! Source: the classic; Knuth, The Art of Computer Programming, volume 1, section 2.5.

use super::tree_merge::{Choose, Pieces, Trees};
use crate::{Chunks, Extent};

/// First fit, neighbours found in a balanced tree.
pub type FirstFit = Trees<Lowest>;

/// The lowest piece that is long enough.
#[derive(Clone, Debug)]
pub struct Lowest;

impl Choose for Lowest {
    fn choose(pieces: &Pieces, len: Chunks) -> Option<Extent> {
        pieces.lowest(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::run;
    use expect_test::expect;

    #[test]
    fn the_lowest_piece_is_used() {
        // Free: 0..4, 5..15 and 16..20.
        let script = "a=take 4, b=take 1, c=take 10, d=take 1, e=take 4, free a, free c, free e";
        let check = |then: &str, expected: expect_test::Expect| {
            expected.assert_eq(&run::<FirstFit>(20, &format!("{script}, {then}")));
        };
        check(
            "x=take 3",
            expect!["b 4..5, d 15..16, x 0..3, free 3..4 5..15 16..20"],
        );
        check(
            "x=take 5",
            expect!["b 4..5, d 15..16, x 5..10, free 0..4 10..15 16..20"],
        );
    }
}
