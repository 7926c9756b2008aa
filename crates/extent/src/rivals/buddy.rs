//! Rival: the binary buddy system.
//!
//! Blocks are powers of two at multiples of their own size. A request gets the smallest block that holds it; a
//! larger one is halved until it fits. A freed block joins its *buddy*, the block at the address that differs in one
//! bit, if that is free, and so on upwards: merging needs no search at all. The price is inside the blocks: a request
//! of 5 chunks costs 8. [`Buddy::padding`] counts those.
//!
//! A space that is no power of two begins as the few aligned blocks that tile it.
//!
//! Differs from the other managers: an extent is freed as it was allocated, whole, since the block around it is known
//! by it alone; free blocks may touch; `free_chunks` leaves out the padding; `reserve` takes only what a buddy system
//! could have handed out.
//!
//! Invariants, checked by `audit`: free and held blocks tile the space; no two free blocks are buddies.
//! Source: Knowlton 1965; paper 000, section 4.6 compares with it.

use crate::{Chunk, Chunks, Extent, SpaceManager};
use std::collections::{BTreeSet, HashMap};

/// Sizes 2^0 to 2^31.
const ORDERS: usize = 32;

/// The buddy system.
#[derive(Clone)]
pub struct Buddy {
    /// Free blocks by order, by address.
    free: [BTreeSet<u32>; ORDERS],
    /// Lengths asked for, by address: what `free` must be given.
    held: HashMap<u32, u32>,
    total: Chunks,
    free_chunks: Chunks,
    padding: Chunks,
}

impl Buddy {
    /// Chunks lost to rounding up, at this moment: internal fragmentation.
    pub fn padding(&self) -> Chunks {
        self.padding
    }

    fn hold(&mut self, e: Extent, order: usize) {
        self.held.insert(e.first.0, e.len.0);
        self.free_chunks -= size(order);
        self.padding += size(order) - e.len;
    }

    /// Halves a free block until a block of `order` at `first` stands alone, and takes that out.
    fn split(&mut self, mut block: (usize, u32), order: usize, first: u32) {
        self.free[block.0].remove(&block.1);
        while block.0 > order {
            let half = block.0 - 1;
            let upper = block.1 + size(half).0;
            let (kept, given) = if first < upper {
                (block.1, upper)
            } else {
                (upper, block.1)
            };
            self.free[half].insert(given);
            block = (half, kept);
        }
    }

    /// The free blocks, by order, then address.
    fn blocks(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        self.free
            .iter()
            .enumerate()
            .flat_map(|(order, firsts)| firsts.iter().map(move |&first| (order, first)))
    }
}

/// The order of the smallest block that holds `len` chunks; `None` if that would be 2^32.
fn order_of(len: Chunks) -> Option<usize> {
    Some(len.0.checked_next_power_of_two()?.trailing_zeros() as usize)
}

fn size(order: usize) -> Chunks {
    Chunks(1 << order)
}

fn buddy_of(order: usize, first: u32) -> u32 {
    first ^ size(order).0
}

impl SpaceManager for Buddy {
    fn new_all_free(total: Chunks) -> Self {
        let mut free = [const { BTreeSet::new() }; ORDERS];
        let mut first = 0;
        // From the largest bit down, so that each block lies at a multiple of its size.
        for order in (0..ORDERS)
            .rev()
            .filter(|&order| total.0 & size(order).0 != 0)
        {
            free[order].insert(first);
            first += size(order).0;
        }
        Buddy {
            free,
            held: HashMap::new(),
            total,
            free_chunks: total,
            padding: Chunks::ZERO,
        }
    }

    /// The lowest block of the smallest order that will do.
    fn allocate(&mut self, len: Chunks) -> Option<Extent> {
        assert!(len > Chunks::ZERO, "a cut of no chunks");
        let order = order_of(len)?;
        let found = (order..ORDERS).find_map(|o| self.free[o].first().map(|&first| (o, first)))?;
        self.split(found, order, found.1);
        let e = Extent::new(Chunk(found.1), len);
        self.hold(e, order);
        Some(e)
    }

    /// `e` must be exactly an extent that was allocated or reserved (asserted).
    fn free(&mut self, e: Extent) {
        let asked = self.held.remove(&e.first.0);
        assert!(
            asked == Some(e.len.0),
            "{e} was not allocated as such, or is freed twice"
        );
        let mut order = order_of(e.len).expect("it was allocated, so it has an order");
        self.free_chunks += size(order);
        self.padding -= size(order) - e.len;
        let mut first = e.first.0;
        // The highest order has no buddy within 2^32 chunks that could be free.
        while order + 1 < ORDERS && self.free[order].remove(&buddy_of(order, first)) {
            first &= !size(order).0;
            order += 1;
        }
        self.free[order].insert(first);
    }

    /// Also `false` if `e` does not begin at a multiple of its block's size, or its padding is not free.
    fn reserve(&mut self, e: Extent) -> bool {
        let Some(order) = order_of(e.len).filter(|_| e.fits_in(self.total)) else {
            return false;
        };
        let first = e.first.0;
        if !first.is_multiple_of(size(order).0) {
            return false;
        }
        // The free block around it, if any, is at `first` rounded down to that block's size.
        let around = (order..ORDERS).map(|o| (o, first & !(size(o).0 - 1)));
        let Some(found) = { around }.find(|(o, block)| self.free[*o].contains(block)) else {
            return false;
        };
        self.split(found, order, first);
        self.hold(e, order);
        true
    }

    fn free_chunks(&self) -> Chunks {
        self.free_chunks
    }

    fn pieces(&self) -> usize {
        self.free.iter().map(BTreeSet::len).sum()
    }

    fn largest(&self) -> Option<Extent> {
        let order = (0..ORDERS)
            .rev()
            .find(|&order| !self.free[order].is_empty())?;
        self.free[order]
            .first()
            .map(|&first| Extent::new(Chunk(first), size(order)))
    }

    fn total(&self) -> Chunks {
        self.total
    }

    fn free_pieces(&self) -> Vec<Extent> {
        let blocks = self
            .blocks()
            .map(|(order, first)| Extent::new(Chunk(first), size(order)));
        let mut pieces: Vec<Extent> = blocks.collect();
        pieces.sort_unstable();
        pieces
    }

    fn audit(&self) -> Result<(), String> {
        let held = self
            .held
            .iter()
            .map(|(&first, &len)| (order_of(Chunks(len)), first));
        let mut all: Vec<(u32, u32)> = Vec::new();
        for (order, first) in held.chain(self.blocks().map(|(order, first)| (Some(order), first))) {
            let order =
                order.ok_or_else(|| format!("the block at {first} is held but has no order"))?;
            if !first.is_multiple_of(size(order).0) {
                return Err(format!(
                    "the block of order {order} at {first} is not aligned"
                ));
            }
            all.push((first, size(order).0));
        }
        all.sort_unstable();
        let mut end = 0;
        for (first, len) in all {
            if first != end {
                return Err(format!("between {end} and {first} blocks overlap or miss"));
            }
            end += len;
        }
        if end != self.total.0 {
            return Err(format!("the blocks end at {end}, not {}", self.total.0));
        }
        let mut blocks = self.blocks();
        if let Some((order, first)) =
            blocks.find(|&(o, first)| self.free[o].contains(&buddy_of(o, first)))
        {
            return Err(format!(
                "the block of order {order} at {first} has not joined its buddy"
            ));
        }
        let free: Chunks = self.blocks().map(|(order, _)| size(order)).sum();
        let asked: Chunks = self.held.values().map(|&len| Chunks(len)).sum();
        if free != self.free_chunks || free + asked + self.padding != self.total {
            return Err(format!(
                "{} free, {} held and {} padding do not add up",
                free.0, asked.0, self.padding.0
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::run;
    use expect_test::{Expect, expect};

    fn check(total: u32, script: &str, expected: Expect) {
        expected.assert_eq(&run::<Buddy>(total, script));
    }

    #[test]
    fn a_block_is_halved_until_it_fits() {
        check(32, "a=take 3", expect!["a 0..3, free 4..8 8..16 16..32"]);
        check(
            32,
            "a=take 3, b=take 5, c=take 4",
            expect!["a 0..3, b 8..13, c 4..8, free 16..32"],
        );
    }

    #[test]
    fn freed_buddies_join_again() {
        check(
            32,
            "a=take 3, b=take 5, free a, free b",
            expect!["free 0..32"],
        );
        check(
            32,
            "a=take 4, b=take 4, c=take 4, free b, free a",
            expect!["c 8..12, free 0..8 12..16 16..32"],
        );
    }

    #[test]
    fn any_total_is_tiled() {
        check(
            22,
            "a=take 16, b=take 3, free a",
            expect!["b 16..19, free 0..16 20..22"],
        );
    }

    #[test]
    fn only_aligned_extents_can_be_reserved() {
        check(
            32,
            "a=reserve 8..13, b=reserve 14..15, c=reserve 17..19, d=reserve 18..20",
            expect!["a 8..13, b none, c none, d 18..20, free 0..8 16..18 20..24 24..32"],
        );
    }

    #[test]
    fn padding_is_counted() {
        let mut space = Buddy::new_all_free(Chunks(64));
        let five = space.allocate(Chunks(5)).unwrap();
        space.allocate(Chunks(16)).unwrap();
        assert_eq!(
            (space.padding(), space.free_chunks()),
            (Chunks(3), Chunks(40))
        );
        space.free(five);
        assert_eq!(
            (space.padding(), space.free_chunks()),
            (Chunks(0), Chunks(48))
        );
    }

    #[test]
    #[should_panic(expected = "not allocated as such")]
    fn a_part_cannot_be_freed() {
        run::<Buddy>(32, "a=take 8, free 0..4");
    }

    #[test]
    fn the_largest_space_is_tiled_too() {
        let mut space = Buddy::new_all_free(Chunks(u32::MAX));
        assert_eq!(space.pieces(), 32);
        let half = space.allocate(Chunks(1 << 31)).unwrap();
        assert_eq!(space.allocate(Chunks((1 << 31) + 1)), None);
        space.free(half);
        space.audit().unwrap();
    }
}
