//! Rival: best fit. The shortest piece that is long enough, of equal ones the lowest.
//!
//! Keeps long pieces long, and leaves splinters too short for anything; each object goes where its size fits, so
//! neighbouring writes do not happen by themselves. O(lg n) throughout, over the trees of `tree_merge`.
//!
//! Source: the classic; Knuth, The Art of Computer Programming, volume 1, section 2.5.

use super::tree_merge::{Choose, Pieces, Trees};
use crate::{Chunks, Extent};

/// Best fit, neighbours found in a balanced tree.
pub type BestFit = Trees<Tightest>;

/// The shortest piece that is long enough, of equal ones the lowest.
#[derive(Clone, Debug)]
pub struct Tightest;

impl Choose for Tightest {
    fn choose(pieces: &Pieces, len: Chunks) -> Option<Extent> {
        pieces.tightest(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::run;
    use expect_test::expect;

    #[test]
    fn the_tightest_piece_is_used() {
        // Free: 0..10, 11..15 and 16..20.
        let script = "a=take 10, b=take 1, c=take 4, d=take 1, e=take 4, free a, free c, free e";
        let check = |then: &str, expected: expect_test::Expect| {
            expected.assert_eq(&run::<BestFit>(20, &format!("{script}, {then}")));
        };
        check(
            "x=take 4",
            expect!["b 10..11, d 15..16, x 11..15, free 0..10 16..20"],
        );
        check(
            "x=take 5",
            expect!["b 10..11, d 15..16, x 0..5, free 5..10 11..15 16..20"],
        );
        check(
            "x=take 11",
            expect!["b 10..11, d 15..16, x none, free 0..10 11..15 16..20"],
        );
    }
}
