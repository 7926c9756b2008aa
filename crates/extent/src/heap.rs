//! The free pieces, longest first: a binary max-heap in which every piece can be found again.
//!
//! A piece that merges with a freed neighbour is seldom the longest, so the heap must remove or change *any* of its members in O(lg n). Inserting a
//! piece returns a [`Handle`], a number that stays the same while the piece moves in the heap; `positions` gives the present place of a handle.
//! Handles of removed pieces are chained through `positions` and reused.
//!
//! ```text
//! entries    [ len first handle | len first handle | ... ]   heap order
//! positions  [ place of piece 0 | place of piece 1 | ... ]   or, if vacant, the next vacant handle
//! ```
//!
//! Keys are stored in the heap itself, so the two children to compare are neighbours in memory. (The paper links nodes by pointers.) 16 bytes a
//! piece.
//!
//! Invariants, checked by `audit`: no entry is before its parent; `positions` and `entries` point at each other; every unused handle is in the chain
//! of vacant ones exactly once.
//!
//! Limits: 2^31 pieces, which is as many as 2^32 - 1 chunks can be broken into.
//! Source: paper 000, section 4.3. We differ: ties go to the lowest address, so that runs repeat exactly.

use crate::types::{Chunk, Chunks, Extent};

/// Identifies a piece while it is in the heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Handle(pub(crate) u32);

/// The end of the chain of vacant handles.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Entry {
    len: u32,
    first: u32,
    handle: u32,
}

impl Entry {
    /// Orders entries: larger is nearer to the root. Longer pieces are larger, and lower ones among equals.
    #[inline]
    fn rank(self) -> u64 {
        u64::from(self.len) << 32 | u64::from(!self.first)
    }

    #[inline]
    fn extent(self) -> Extent {
        Extent {
            first: Chunk(self.first),
            len: Chunks(self.len),
        }
    }
}

/// All free pieces, the longest on top.
#[derive(Clone)]
pub(crate) struct Heap {
    entries: Vec<Entry>,
    positions: Vec<u32>,
    vacant: u32,
}

impl Heap {
    pub(crate) fn new() -> Self {
        Heap {
            entries: Vec::new(),
            positions: Vec::new(),
            vacant: NONE,
        }
    }

    /// A heap of many pieces at once, in O(n). Handles are given from 0 in the order of `pieces`.
    pub(crate) fn from_pieces(pieces: impl Iterator<Item = Extent>) -> Self {
        let entries: Vec<Entry> = pieces
            .zip(0..NONE)
            .map(|(piece, handle)| Entry {
                len: piece.len.0,
                first: piece.first.0,
                handle,
            })
            .collect();
        let positions = (0..entries.len() as u32).collect();
        let mut heap = Heap {
            entries,
            positions,
            vacant: NONE,
        };
        for place in (0..heap.entries.len() / 2).rev() {
            heap.sift_down(place, heap.entries[place]);
        }
        heap
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The longest piece, or the lowest of equal ones.
    #[inline]
    pub(crate) fn peek(&self) -> Option<(Handle, Extent)> {
        self.entries.first().map(|e| (Handle(e.handle), e.extent()))
    }

    /// The piece of a handle that is in use.
    #[inline]
    pub(crate) fn get(&self, handle: Handle) -> Extent {
        self.entries[self.place(handle)].extent()
    }

    pub(crate) fn insert(&mut self, piece: Extent) -> Handle {
        let place = self.entries.len();
        let handle = if self.vacant == NONE {
            let handle =
                u32::try_from(self.positions.len()).expect("more than 2^31 pieces break F1");
            self.positions.push(NONE);
            handle
        } else {
            let handle = self.vacant;
            self.vacant = self.positions[handle as usize];
            handle
        };
        let entry = Entry {
            len: piece.len.0,
            first: piece.first.0,
            handle,
        };
        self.entries.push(entry);
        self.sift_up(place, entry);
        Handle(handle)
    }

    /// Removes the piece; its handle is void from now on.
    pub(crate) fn remove(&mut self, handle: Handle) -> Extent {
        let place = self.place(handle);
        let gone = self.entries[place];
        let moved = self.entries.pop().expect("a handle in use has an entry");
        if place < self.entries.len() {
            self.settle(place, moved);
        }
        self.positions[handle.0 as usize] = self.vacant;
        self.vacant = handle.0;
        gone.extent()
    }

    /// Replaces a piece by a longer or shorter one with the same handle.
    #[inline]
    pub(crate) fn replace(&mut self, handle: Handle, piece: Extent) {
        let place = self.place(handle);
        self.settle(
            place,
            Entry {
                len: piece.len.0,
                first: piece.first.0,
                handle: handle.0,
            },
        );
    }

    /// All pieces with their handles, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Handle, Extent)> + '_ {
        self.entries.iter().map(|e| (Handle(e.handle), e.extent()))
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.positions.capacity() * size_of::<u32>()
    }

    pub(crate) fn audit(&self) -> Result<(), String> {
        for (place, entry) in self.entries.iter().enumerate() {
            if place > 0 && self.entries[parent(place)].rank() <= entry.rank() {
                return Err(format!(
                    "heap: {} at {place} is before its parent",
                    entry.extent()
                ));
            }
            if self.positions.get(entry.handle as usize) != Some(&(place as u32)) {
                return Err(format!(
                    "heap: {} at {place} is not where its handle leads",
                    entry.extent()
                ));
            }
        }
        let (mut vacant, mut count) = (self.vacant, self.entries.len());
        while vacant != NONE {
            count += 1;
            if count > self.positions.len() {
                return Err(
                    "heap: the chain of vacant handles meets itself or a handle in use".into(),
                );
            }
            vacant = self.positions[vacant as usize];
        }
        if count != self.positions.len() {
            return Err(format!(
                "heap: {} handles are lost",
                self.positions.len() - count
            ));
        }
        Ok(())
    }

    #[inline]
    fn place(&self, handle: Handle) -> usize {
        let place = self.positions[handle.0 as usize] as usize;
        let in_use = self
            .entries
            .get(place)
            .is_some_and(|entry| entry.handle == handle.0);
        assert!(in_use, "handle {} is void", handle.0);
        place
    }

    #[inline]
    fn put(&mut self, place: usize, entry: Entry) {
        self.entries[place] = entry;
        self.positions[entry.handle as usize] = place as u32;
    }

    /// Puts `entry` in its right place, starting from the vacant `place`. The rest must be in heap order.
    #[inline]
    fn settle(&mut self, place: usize, entry: Entry) {
        if place > 0 && self.entries[parent(place)].rank() < entry.rank() {
            self.sift_up(place, entry);
        } else {
            self.sift_down(place, entry);
        }
    }

    fn sift_up(&mut self, mut place: usize, entry: Entry) {
        while place > 0 {
            let above = self.entries[parent(place)];
            if above.rank() >= entry.rank() {
                break;
            }
            self.put(place, above);
            place = parent(place);
        }
        self.put(place, entry);
    }

    fn sift_down(&mut self, mut place: usize, entry: Entry) {
        loop {
            let mut child = 2 * place + 1;
            if child >= self.entries.len() {
                break;
            }
            if child + 1 < self.entries.len()
                && self.entries[child + 1].rank() > self.entries[child].rank()
            {
                child += 1;
            }
            let below = self.entries[child];
            if below.rank() <= entry.rank() {
                break;
            }
            self.put(place, below);
            place = child;
        }
        self.put(place, entry);
    }
}

#[inline]
fn parent(place: usize) -> usize {
    (place - 1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(first: u32, len: u32) -> Extent {
        Extent::new(Chunk(first), Chunks(len))
    }

    fn drain(mut heap: Heap) -> Vec<(u32, u32)> {
        let mut out = Vec::new();
        while let Some((handle, top)) = heap.peek() {
            assert_eq!(heap.remove(handle), top);
            heap.audit().unwrap();
            out.push((top.first.0, top.len.0));
        }
        out
    }

    #[test]
    fn the_longest_comes_first_and_of_equals_the_lowest() {
        let mut heap = Heap::new();
        for (first, len) in [(50, 3), (0, 3), (20, 7), (90, 1), (30, 3)] {
            heap.insert(piece(first, len));
        }
        assert_eq!(drain(heap), [(20, 7), (0, 3), (30, 3), (50, 3), (90, 1)]);
    }

    #[test]
    fn a_handle_survives_all_moves() {
        let mut heap = Heap::new();
        let handles: Vec<_> = (0..50)
            .map(|i| heap.insert(piece(i * 10, 1 + i % 7)))
            .collect();
        for (i, &handle) in handles.iter().enumerate() {
            assert_eq!(heap.get(handle).first, Chunk(i as u32 * 10));
        }
        heap.replace(handles[20], piece(200, 9));
        assert_eq!(heap.peek(), Some((handles[20], piece(200, 9))));
        heap.replace(handles[20], piece(209, 1));
        assert_eq!(heap.get(handles[20]), piece(209, 1));
        heap.audit().unwrap();
    }

    #[test]
    fn any_member_can_be_removed_and_its_handle_is_used_again() {
        let mut heap = Heap::new();
        let handles: Vec<_> = (0..40)
            .map(|i| heap.insert(piece(i * 10, 1 + (i * 13) % 9)))
            .collect();
        for &handle in handles.iter().step_by(3) {
            heap.remove(handle);
            heap.audit().unwrap();
        }
        let again = heap.insert(piece(5, 2));
        assert_eq!(again, handles[39]);
        assert_eq!(heap.get(again), piece(5, 2));
        heap.audit().unwrap();
    }

    #[test]
    fn many_at_once_are_the_same_heap() {
        let pieces = || (0..100).map(|i| piece(i * 10, 1 + (i * 37) % 9));
        let mut one_by_one = Heap::new();
        pieces().for_each(|p| {
            one_by_one.insert(p);
        });
        let at_once = Heap::from_pieces(pieces());
        at_once.audit().unwrap();
        assert_eq!(drain(at_once), drain(one_by_one));
    }

    #[test]
    #[should_panic(expected = "void")]
    fn a_void_handle_is_noticed() {
        let mut heap = Heap::new();
        let gone = heap.insert(piece(0, 1));
        heap.insert(piece(5, 1));
        heap.remove(gone);
        heap.get(gone);
    }
}
